/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PUBLISH_PUBLISHER_H
#define SCRY_PUBLISH_PUBLISHER_H

#include "base/data/buf.h"
#include "base/system/loop.h"
#include "broker/link.h"
#include "broker/topics.h"
#include "broker/url.h"
#include "jobdir/record/info.h"
#include "publish/feed.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The program scry-publisher: sends a job directory to a broker (doc/reference/broker.md), from which mirrors make it again.
 *
 * It follows the spool on the disk, as any reader does. So the job never waits for it, an outage costs only time, and what it sends
 * is what the disk has. Records go in batches, figures with QoS 0 and all else with QoS 1. A retained `state` says what the job is;
 * a `beat` with a lease, replaced by the last will when the connection is lost, tells running from unreachable: a job without
 * network is never called dead. MQTT keeps only the last message of a topic, so readers ask for the numbers that they lack
 * (feed.h). At the end it waits for readers and recorders, not long; if scry run is killed it says so and stays until the
 * command has ended. It has a session of its own, and ignores the signals that batch systems send to all.
 *
 * The files: feed.h reads what is sent, this knows what has arrived, control.c has sealed requests.
 */

/* What is said of a job as a whole: the retained messages `state` and `beat`. */

struct about {
    const char *dir, *owner; /* borrowed */
    struct job_info info;
    enum job_state state;
    bool known; /* job.json was read */
};

/*
 * What was given to the connection and is not known to be at the broker. QoS 1 is acknowledged. Of QoS 0 nobody says
 * so, but what was sent after it on the same connection tells: if that is there, the figures before it are, too.
 */

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

/*
 * One thread, one loop. It may wait for the network and the disk as long as they take: nobody waits for it but `scry run`, for a
 * moment, at the end.
 *
 * Phases: it follows until the job is over and nobody writes its directory any more; sends the rest; says `complete`;
 * waits for recorders that have begun to store the job; leaves.
 */
enum {
    PUBLISHER_RECORDERS = 64,
};

enum publisher_phase { PUBLISHER_FOLLOWS, PUBLISHER_ENDS, PUBLISHER_SAYS, PUBLISHER_COMPLETE, PUBLISHER_LEAVES };

struct control;
struct publisher;

struct publisher_recorder {
    char name[TOPIC_LEVEL_SIZE];
    int64_t last_seq;
    bool complete;
};

struct publisher {
    /* settings */
    struct broker_url url;
    char dir[PATH_MAX], owner[256], job[256];
    bool alone;      /* started by a person (scry publish), not by scry run */
    bool output;     /* what the job prints is published, too, */
    char *hide_args; /* but for this (hide_text); NULL: the usual secrets */
    int channel;     /* to scry run; -1: none, or it is gone */
    uint64_t from;   /* records before this number were published by the one before */

    struct loop *loop;
    struct link *link;
    struct about about;
    struct follow follow;
    struct files files;
    struct file_load load; /* the file that is being sent to all */
    struct sent sent;
    struct asks asks;
    enum publisher_phase phase;
    struct control *control;   /* NULL: the job takes no requests */
    char key_option[16 << 10]; /* as of --key; "": none was given */
    struct key *key;           /* of the job: what is sent is signed with it; NULL: it has none */
    const char *address;       /* for sealed requests; NULL: none */
    bool state_wanted, beat_wanted, over_told, was_up;
    struct buf state_sent; /* the last one */
    bool overwritten;      /* the broker has another state of the job */
    bool heard;            /* its own beat came back from the broker */
    size_t subscribed;     /* topics, on this connection */
    uint64_t echo_ns;      /* since when the broker has a beat that it should have sent back; 0: not yet */
    uint64_t beat, over_ns, complete_ns, asked_ns, progress_ns, lost_ns;
    uint64_t published; /* behind the last record that the broker has, of all streams */
    char why[256];      /* why there is no connection */
    struct publisher_recorder recorders[PUBLISHER_RECORDERS];
    size_t recorder_count;
    struct buf in;  /* of the channel */
    char told[512]; /* what scry run was told last */
    struct loop_source *pump, *due, *echo, *tick, *beats, *channel_source;
    struct throttle *watch;
    int watch_fd;
    size_t file_count; /* when it has ended */
    int status;        /* of the program */
};

/* Publishes until there is nothing left to do. The program's exit status. */
int publisher_run(struct publisher *publisher);

/* For handlers. To .../NAME[/REST] of the job, QoS 1. 0; -EAGAIN, -ENOTCONN: later; -EMSGSIZE. */
int publisher_send(struct publisher *publisher, const char *name, const char *rest, struct span payload);
/* Whether publisher_send would take something. */
bool publisher_has_room(const struct publisher *publisher);

/*
 * The control channel at the job's end: opens the sealed requests that come through the broker, and gives them to the
 * node's monitor, on a connection for each session that is confined to the job and to the rights of the sender's key
 * (monitor/engine/tool.h). So whatever the other end says, the monitor decides, by the same rules for all.
 *
 * A session is a channel (wire/channel.h) with the frames of a tool and a monitor in it. It belongs to the key that
 * began it, and to that end's address. It begins with a message that asks for nothing; so one that somebody kept
 * back, and lets through when its sender is long gone, does nothing. It is over when either end says so, when nothing
 * came for a while, or when the key has expired or was revoked.
 */

/* Sets the publisher's address. Without a key of the job, and where no address can be made, which is in the log, the job
 * takes no requests: *ret_control is NULL. */
void control_start(struct publisher *publisher, struct control **ret_control);
/* Ends all sessions, and says so to the other ends as far as there is room. NULL is fine. */
void control_stop(struct control *control, const char *why);
/* Sends what is due, as far as there is room. */
void control_pump(struct control *control);
/* What was refused since the start, "3 expired, 1 forged"; "": nothing. What is only of another hour is in the log. */
void control_refusals(const struct control *control, char *ret_text, size_t size);
/* What comes below the job's topic `request`, and the list of keys that were revoked. NULL: nothing is done. */
void control_message(struct control *control, struct span payload);
void control_revoked(struct control *control, struct span payload);

/* ---- scry run at the other end ---- */

/* Reads the first line, with the settings. 0 or -errno with err. */
int channel_begin(struct publisher *publisher, struct err *err);
void channel_tell(struct publisher *publisher);
/* Reads what there is. false: scry run is gone. */
bool channel_read(struct publisher *publisher);

#endif
