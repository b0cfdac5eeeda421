/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that come by themselves, to the `scry-link await` of this program. */
#ifndef SCRY_JOB_PARTS_AWAIT_H
#define SCRY_JOB_PARTS_AWAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct awaited {
    FILE *said; /* who comes; NULL: nobody is awaited */
    int in;     /* scry-link await ends after this */
    pid_t pid;
};

/* Starts it, and waits until it says where to come; NULL, or what SCRY_JOIN is to be, with a newline, in `line`. What could not
 * be started leaves nothing behind; else awaited_end ends it. */
const char *awaited_begin(struct awaited *awaited, char *line, size_t size);
/* The token of another node that has come; false: there is none now. */
bool awaited_next(struct awaited *awaited, char *ret_token, size_t size);
void awaited_end(struct awaited *awaited);

#endif
