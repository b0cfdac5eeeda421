/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the helper scry-symbols (symbols/client/helper.h). */
#ifndef SCRY_SYMBOLS_CLIENT_HELPER_PROCESS_H
#define SCRY_SYMBOLS_CLIENT_HELPER_PROCESS_H

#include <sys/types.h>

#include "base/err.h"

struct helper_process {
    pid_t pid;         /* a child of this process, which waits for it */
    int input, output; /* our ends of its standard input and output, non-blocking */
};

/* The child gets the two pipes and nothing else of ours; what this process blocks and ignores is its own. argv[0] is
 * for its name only. 0; -ENOENT: it is not installed; -errno. */
int helper_process_start(struct helper_process *ret_process, char *const argv[], struct err *err);

#endif
