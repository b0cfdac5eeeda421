/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_DAEMON_MAIN_H
#define SCRY_DAEMON_MAIN_H

#include "base/data/err.h"

#include <stddef.h>

/* Loads scry_ext_PREFIX.so files from the extension path (specification 6.2). */

struct monitor;

#endif
