/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two streams of bytes, one in each direction, over messages that may be lost, come twice, late, or in another order: the
 * frames of a tool and a monitor between which there is a broker. Each end numbers the messages that it has to send, and
 * repeats what the other one has not acknowledged. The other one hands out what it got in order, once. Who the other end
 * is, and that nobody has changed anything, is up to those who seal the messages (keys/sealed.h): this has no secrets.
 *
 *     u8 1 (version) | u8 what | u16 0 | 16 bytes session | u32 number | u32 acknowledged | bytes       (little-endian)
 *
 * Numbers count from 1 in each direction. Number 0: nothing but the acknowledgement, which is how a session begins, and how
 * an end asks whether the other one lives. Its bytes are not for the stream: the end that answers puts its clock there
 * (channel_put_clock), so that the other one can say until when a message is valid. At most CHANNEL_WINDOW messages are
 * under way, so neither end has to keep more than these, in whatever order they come.
 *
 * Over a connection that loses nothing as long as it lives (`stream`: src/link), no message is repeated by a timer, and
 * acknowledgements wait for something that they can travel with. When another connection takes its place, both ends
 * send again what was not acknowledged (channel_resume).
 */
#ifndef SCRY_WIRE_CHANNEL_H
#define SCRY_WIRE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"

enum {
    CHANNEL_SESSION = 16,
    CHANNEL_HEADER = 28,
    CHANNEL_PART = 96 << 10, /* bytes of the stream in one message */
    CHANNEL_WINDOW = 16,     /* messages */
    CHANNEL_HELD = 1 << 20,
    CHANNEL_REASON = 200, /* bytes of the text of CHANNEL_END */
};

enum channel_what {
    CHANNEL_DATA = 1,
    CHANNEL_END = 2, /* the session is over; the bytes say why, for people. Needs no acknowledgement */
};

struct channel_header {
    enum channel_what what;
    uint8_t session[CHANNEL_SESSION];
    uint32_t number, acknowledged;
    struct span bytes; /* in the message */
};

/* 0 or -EBADMSG: it is no message of this version, or longer than one may be. */
int channel_parse(struct span message, struct channel_header *ret_header);
/* Appends the time to a message that only acknowledges (seconds since 1970); and reads it: 0, there is none. */
void channel_put_clock(struct buf *message, int64_t seconds);
int64_t channel_clock(const struct channel_header *header);
/* Appends an END for a session that one does not have. */
void channel_put_end(struct buf *out, const uint8_t session[CHANNEL_SESSION], const char *why);

struct channel_part {
    struct buf bytes;
    uint64_t sent_ns; /* 0: not yet */
    unsigned tries;
    bool there;
};

struct channel {
    uint8_t session[CHANNEL_SESSION];
    struct channel_part sent[CHANNEL_WINDOW];  /* by number % CHANNEL_WINDOW; from acknowledged + 1 to last */
    struct channel_part early[CHANNEL_WINDOW]; /* received before those that precede them */
    uint32_t last, acknowledged;               /* of ours */
    uint32_t received;                         /* of theirs: all up to here */
    struct buf out, in;                        /* not in a message yet; handed out, and not dropped */
    bool owes;                                 /* an acknowledgement */
    bool answers;     /* when the other end says nothing new, it is told that we live: of one end only */
    bool stream;      /* messages arrive as they were sent, until channel_resume */
    uint32_t told;    /* of theirs: what was acknowledged last */
    uint64_t owed_ns; /* when `owes` began */
    uint64_t spoke_ns, heard_ns;
    uint64_t repeated; /* messages that were received once more, or sent once more */
};

/* Its times are those that the caller gives: a clock that never goes back, in ns. */
void channel_init(struct channel *channel, const uint8_t session[CHANNEL_SESSION], bool answers, uint64_t now_ns);
void channel_done(struct channel *channel);

/* Another connection: what was not acknowledged is due once more, and an acknowledgement. */
void channel_resume(struct channel *channel, uint64_t now_ns);

/* Adds to the stream that is sent. `out.failed` is set without memory. */
void channel_put(struct channel *channel, struct span bytes);
/* How much was put and is not acknowledged: whoever puts more waits until it is less. */
size_t channel_waiting(const struct channel *channel);

/* The next message that is due now, in *out, which is cleared. `quiet_ns`: if nothing was sent for so long, an
 * acknowledgement is, so that the other end knows that we live; 0: never. false: none; *ret_when_ns is the time at which
 * there may be one (UINT64_MAX: when something is put or received). */
bool channel_next(struct channel *channel, uint64_t now_ns, uint64_t quiet_ns, struct buf *out, uint64_t *ret_when_ns);

/* Takes a message of this session. 0: look at `in`. -EBADMSG: nobody who keeps to this sends such a number. -ENOMEM. */
int channel_take(struct channel *channel, const struct channel_header *header, uint64_t now_ns);
/* So much of `in` was used. What came is acknowledged only as long as `in` has less than CHANNEL_HELD bytes. */
int channel_drop(struct channel *channel, size_t bytes);
/* Whether all that was put has arrived. */
bool channel_settled(const struct channel *channel);

#endif
