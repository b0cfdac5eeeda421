/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What readers ask for again: records from one number to another, and all files. Anybody who may write below the job's
 * topics can ask, so all of it has a limit: questions that wait, bytes for one answer, bytes a second. An answer says
 * how far it went, and a reader that wants more asks again.
 */
#ifndef SCRY_PUBLISH_ASKS_H
#define SCRY_PUBLISH_ASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "publish/files.h"
#include "publish/follow.h"

enum {
    ASK_READER_SIZE = 65,
    ASKS_MOST = 64,                /* that wait; more are dropped */
    ASK_BYTES = 16 << 20,          /* of records in one answer */
    ASK_MESSAGE_BYTES = 128 << 10, /* of records in one message, or one record */
    ASK_BYTES_A_SECOND = 8 << 20,  /* for all; as much can be saved up */
};

struct ask {
    char reader[ASK_READER_SIZE];
    uint64_t from, to; /* records; to, without it, UINT64_MAX: all there are */
    bool files;
};

struct asks {
    const char *dir; /* borrowed */
    struct ask list[ASKS_MOST];
    size_t count;
    uint64_t dropped; /* questions, for the log */
    /* of the first: */
    bool begun;
    struct spool_reader reader;
    uint64_t next; /* the number behind the last record that was answered */
    uint64_t last; /* of the last record in `message` */
    size_t bytes, file;
    struct file_load load;
    struct buf message;
    const char *name; /* of the message: "records", "file", "end"; NULL: there is none */
    uint64_t last_ns;
    double credit; /* bytes */
};

/* false: it is no question. */
bool ask_parse(struct span payload, struct ask *ret_ask);

void asks_init(struct asks *asks, const char *dir);
/* Forgets all questions; also frees. */
void asks_clear(struct asks *asks);
void asks_add(struct asks *asks, const struct ask *ask);
/* The next message in `message`, `name`, for list[0].reader. The same until asks_sent. false: none now; *ret_due_ns:
 * try again then, 0: there are no questions. */
bool asks_next(struct asks *asks, const struct follow *follow, const struct files *files, uint64_t now_ns,
               uint64_t *ret_due_ns);
void asks_sent(struct asks *asks);

#endif
