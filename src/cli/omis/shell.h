/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of `scry omis`: line editing with history and completion (libedit). Replies of conditional requests appear
 * above the prompt when they come. */
#ifndef SCRY_CLI_OMIS_SHELL_H
#define SCRY_CLI_OMIS_SHELL_H

#include "cli/omis/session.h"

/* Runs until `quit`, end of file, or loss of the connection. */
void omis_shell_run(struct omis_session *session);

#endif
