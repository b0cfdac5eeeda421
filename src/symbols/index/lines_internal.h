/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: what lines.c and core.c share of elfutils' libdwfl. */
#ifndef SCRY_SYMBOLS_INDEX_LINES_INTERNAL_H
#define SCRY_SYMBOLS_INDEX_LINES_INTERNAL_H

#include <elfutils/libdwfl.h>
#include <stdint.h>

#include "symbols/index/lines.h"

struct lines {
    Dwfl *dwfl;
    pid_t pid;             /* of lines_open_process */
    bool attached;         /* to its state; what follows is of the thread that is inspected */
    Dwarf_Word sp, pc, bp; /* bp 0: not known */
    const struct lines_thread *thread;
    bool sampled; /* all its registers are known, as thread->registers has them */
};

int location_find(Dwfl *dwfl, uint64_t addr, struct line_location *ret_location);

/* Debug information is looked for beside the file and under /usr/lib/debug only. */
void symbols_stay_local(void);

#endif
