/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is loaded into each process of a job with --script calls or lines (job/launch/preload.h). In all that
 * are no bash it does nothing. In these it leads the calls of one function to follow.c, before main. Scripts see nothing
 * of it: no trap, no option, no variable is another one.
 */
#include <stdlib.h>
#include <string.h>

#include "bash/follow.h"
#include "bash/shell.h"
#include "bash/tally.h"

static char directory[SCRIPT_PATH];

__attribute__((constructor)) static void begin(void)
{
    const char *level = getenv("SCRY_SCRIPT"), *off = getenv("SCRY"), *to = getenv(SCRIPT_RING_DIR), *why;
    if (!to || !level || strlen(to) >= sizeof directory || (off && strcmp(off, "off") == 0) || !shell_find(&why))
        return;
    memcpy(directory, to, strlen(to) + 1);
    if (!why) {
        follow_start(directory, strcmp(level, "lines") == 0);
        why = patch_function((void *)shell.execute, shell.execute_size, (void *)follow_command,
                             (void **)&follow_original);
    }
    if (why && tally_open(directory))
        tally_refuse(why);
}
