/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program scry-publisher: sends what is in a job directory to a broker, while the job runs or afterwards
 * (doc/reference/broker.md). One thread, one loop. It may wait for the network and the disk as long as they take: nobody
 * waits for it but `scry run`, for a moment, at the end.
 *
 * Phases: it follows until the job is over and nobody writes its directory any more; sends the rest; says `complete`;
 * waits for recorders that have begun to store the job; leaves.
 */
#ifndef SCRY_PUBLISH_PUBLISHER_H
#define SCRY_PUBLISH_PUBLISHER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/data/span.h"
#include "base/system/loop.h"
#include "base/system/seldom.h"
#include "broker/link.h"
#include "broker/topics.h"
#include "broker/url.h"
#include "publish/about.h"
#include "publish/asks.h"
#include "publish/files.h"
#include "publish/follow.h"
#include "publish/sent.h"

enum {
    PUBLISHER_RECORDERS = 64,
};

enum publisher_phase { PUBLISHER_FOLLOWS, PUBLISHER_ENDS, PUBLISHER_SAYS, PUBLISHER_COMPLETE, PUBLISHER_LEAVES };

struct control;
struct publisher;

/* What comes from the broker: a row of publisher_handlers for each kind of topic. It is subscribed to with QoS 1. */
struct topic_handler {
    enum topic_kind kind;
    const char *name, *rest; /* as topic_put takes them */
    void (*message)(struct publisher *publisher, const struct topic *topic, struct span payload);
};
extern const struct topic_handler publisher_handlers[];
extern const size_t publisher_handler_count;

struct publisher_recorder {
    char name[TOPIC_LEVEL_SIZE];
    int64_t last_seq;
    bool complete;
};

struct publisher {
    /* settings */
    struct broker_url url;
    char dir[PATH_MAX], owner[256], job[256];
    bool alone;    /* started by a person (scry publish), not by scry run */
    int channel;   /* to scry run; -1: none, or it is gone */
    uint64_t from; /* records before this number were published by the one before */

    struct loop *loop;
    struct link *link;
    struct about about;
    struct follow follow;
    struct files files;
    struct file_load load; /* the file that is being sent to all */
    struct sent sent;
    struct asks asks;
    enum publisher_phase phase;
    struct control *control;   /* publish/control.h; NULL: the job takes no requests */
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
    struct seldom *watch;
    int watch_fd;
    size_t file_count; /* when it has ended */
    int status;        /* of the program */
};

/* Publishes until there is nothing left to do. The program's exit status. */
int publisher_run(struct publisher *publisher);

/* For handlers. To .../NAME[/REST] of the job, QoS 1. 0; -EAGAIN, -ENOTCONN: later; -EMSGSIZE. */
int publisher_send(struct publisher *publisher, const char *name, const char *rest, struct span payload);

/* The broker acknowledges what it is sent, and gives nothing of it back: MQTT 3.1.1 has no other way to refuse it. */
bool publisher_is_dropped(const struct publisher *publisher);
/* Whether publisher_send would take something. */
bool publisher_has_room(const struct publisher *publisher);

/* ---- publish/channel.c: scry run at the other end ---- */

/* Reads the first line, with the settings. 0 or -errno with err. */
int channel_begin(struct publisher *publisher, struct err *err);
void channel_tell(struct publisher *publisher);
/* Reads what there is. false: scry run is gone. */
bool channel_read(struct publisher *publisher);

#endif
