/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The publisher as scry run sees it (--broker): a process, scry-publisher, that reads the job directory and sends what is
 * in it to a broker. It is told what to publish, and at the end that everything is written; it tells how far it is. If
 * it is killed, another one goes on. No function here blocks but publish_finish.
 */
#ifndef SCRY_JOB_RUN_PUBLISH_H
#define SCRY_JOB_RUN_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "broker/url.h"
#include "job/record/writer.h"

enum {
    PUBLISH_STARTS = 3,
};

struct publish_link {
    int fd; /* -1: no process */
    pid_t pid;
    struct buf in;
    unsigned starts;
    struct recorder *recorder;
    const struct broker_url *url; /* NULL: nothing is published */
    const char *dir, *job, *key;  /* key: of the job, a file or its text; NULL: none was given */
    bool output;                  /* also what the job prints, */
    const char *hide_args;        /* but for secrets (--hide-args) */
    char owner[256], shown[1024]; /* shown: where the job is seen, for people */
    /* as it has told: */
    bool connected, complete, was_connected, warned;
    bool in_summary;    /* the warning is early enough for the job's summary */
    bool dropped;       /* it is connected, and the broker drops what it sends */
    uint64_t published; /* behind the last record that the broker has */
    uint64_t lost_ns;   /* since when there is no connection */
    char why[256];      /* "": not known */
    char refused[256];  /* requests, "3 expired, 1 forged"; "": none */
    char noted[256];    /* what of that is recorded */
    uint64_t noted_ns;
};

/* With fd -1, and recorder, url, dir and job set. user: whose job it is, if the URL does not say. */
void publish_start(struct publish_link *link, const char *user);
/* Call it when `fd` is readable, and now and then. */
void publish_handle(struct publish_link *link);
/* The job is about to be summed up: warns if it is not published. */
void publish_warn(struct publish_link *link);
/* Everything is written: waits a moment, and appends what is not published, for people. The process goes on. */
void publish_finish(struct publish_link *link, struct buf *text);
/* Any link, also twice. The process is left alone. */
void publish_end(struct publish_link *link);

#endif
