/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was given to the connection and is not known to be at the broker. QoS 1 is acknowledged. Of QoS 0 nobody says
 * so, but what was sent after it on the same connection tells: if that is there, the figures before it are, too.
 */
#ifndef SCRY_PUBLISH_SENT_H
#define SCRY_PUBLISH_SENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SENT_MOST = 256,     /* entries that are not confirmed */
    SENT_UNDER_WAY = 48, /* of them neither acknowledged nor, of QoS 0, handed to the system */
};

enum sent_kind { SENT_RECORDS, SENT_FILE, SENT_BEAT, SENT_OTHER };

struct sent_one {
    int id;          /* link_publish's */
    bool qos0, over; /* acknowledged; of QoS 0: handed to the system */
    enum sent_kind kind;
    unsigned at;     /* the stream, or the file's place */
    uint64_t first;  /* of records: the number of the first */
    uint64_t end;    /* of records: the number behind the last; of files: the version */
    uint64_t offset; /* of records: where the first is in the spool */
};

/* Zero-initialised is ready. */
struct sent {
    struct sent_one list[SENT_MOST];  /* in the order of time */
    size_t count, under_way, figures; /* figures: QoS 0 behind the last of QoS 1 */
};

bool sent_has_room(const struct sent *sent);
/* Enough QoS 0 was sent for something of QoS 1 to tell whether it has arrived. */
bool sent_wants_sign(const struct sent *sent);
void sent_add(struct sent *sent, struct sent_one one);
/* The connection says that this is over. */
void sent_over(struct sent *sent, int id);
/* Takes out the first, if the broker has it. */
bool sent_take(struct sent *sent, struct sent_one *ret_one);
/* The connection is lost: takes out figures of which nobody knows whether they arrived. false: no more. */
bool sent_take_figures(struct sent *sent, struct sent_one *ret_one);

#endif
