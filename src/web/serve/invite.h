/* SPDX-License-Identifier: Apache-2.0 */
/* scry serve --link, --bearer: asks the server of this user, by its unix socket, for another way in, and prints it. */
#ifndef SCRY_WEB_SERVE_INVITE_H
#define SCRY_WEB_SERVE_INVITE_H

#include "options/options.h"

int invite(const struct options *options); /* the exit status */

#endif
