/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share. */
#ifndef SCRY_STORE_INTERNAL_H
#define SCRY_STORE_INTERNAL_H

#include "store/store.h"

enum op_kind { OP_RECORD, OP_STATE, OP_BEAT, OP_FILE, OP_LOST, OP_REFUSED, OP_COMPLETE, OP_SIGNED };

/* What was put in and is not in the database yet. */
struct op {
    enum op_kind kind;
    struct stored_job *job;
    bool done; /* it is in the database, or given up */
    json_t *json;
    char *text, *path; /* owned */
    const char *stream;
    enum record_type type;
    int64_t seq, behind; /* of OP_FILE: the version; of OP_SIGNED: by whom; of OP_STATE: whether it was */
    double t;            /* of a record; else our wall clock */
    size_t len, bytes;
};

struct store {
    struct db *db;
    struct stored_job *jobs; /* hash by name */
    struct op *ops;
    size_t count, room, pending_bytes;
    struct db_record *rows; /* of this flush */
    size_t row_count, row_room;
    char day[DB_DAY_SIZE];
    int64_t writes; /* the writers' number after our last flush */
    uint64_t written, repeated, flushed_repeated;
};

void op_done(struct op *op);

/* The constant of this name; "job" for others. */
const char *stream_of(const char *name);
bool state_known(const char *state);

#endif
