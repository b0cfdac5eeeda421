/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted and written of the shell's commands, in a ring that the shell and its subshells share. All of it is
 * async-signal-safe, and allocates nothing.
 */
#ifndef SCRY_BASH_TALLY_H
#define SCRY_BASH_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "bash/shell.h"
#include "shm/script_ring.h"

enum { TALLY_TEXT = 256 };

struct tally_place {
    struct script_sum *sum; /* NULL: no room */
    uint64_t key;
    uint32_t file, function; /* offsets in texts; 0: none */
    int32_t line;
};

/* false: nothing is written, for good. */
bool tally_open(const char *directory);
/* This bash is not followed. After tally_open. */
void tally_refuse(const char *why);
/* The sum of a line. Names are as bash has them; `text` is the command. false: no file. */
bool tally_place(const char *file, const char *function, int32_t line, const char *text, uint32_t size,
                 struct tally_place *ret_place);
/* The script begins there. */
void tally_started(const struct tally_place *place);
/* The shell is there now; `put`: as a record, too, unless there were many lately. */
void tally_now(const struct tally_place *place, const char *text, uint32_t size, uint64_t now_ns, bool put);
void tally_ended(const struct tally_place *place, bool count, uint64_t ns);
/* It failed: of each line only the first times come as records. stages: the statuses of a pipeline's commands, with spaces; NULL. */
void tally_failed(const struct tally_place *place, const char *text, uint32_t size, int status, const char *stages,
                  uint64_t ns);

#endif
