/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a job as a whole: the retained messages `state` and `beat`. */
#ifndef SCRY_PUBLISH_ABOUT_H
#define SCRY_PUBLISH_ABOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "jobdir/record/info.h"

struct about {
    const char *dir, *owner; /* borrowed */
    struct job_info info;
    enum job_state state;
    bool known; /* job.json was read */
};

/* Looks again. true: it says something else than before. */
bool about_look(struct about *about);
void about_done(struct about *about);
/* Nothing more will be written: the command has ended, and whoever watched it. */
bool about_is_over(const struct about *about);

/* last_seq -1: there are no records. address: for sealed requests; NULL: it takes none. */
void about_put_state(const struct about *about, int64_t last_seq, const char *address, bool complete, struct buf *out);
/* beat 0: the last will. */
void about_put_beat(const struct about *about, uint64_t beat, bool connected, int64_t last_seq, struct buf *out);

#endif
