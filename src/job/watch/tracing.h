/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing of compiled functions, between scry run and the monitor: makes requests, reads answers. */
#ifndef SCRY_JOB_WATCH_TRACING_H
#define SCRY_JOB_WATCH_TRACING_H

#include <omis.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/notes.h"
#include "job/watch/options.h"
#include "job/record/writer.h"
#include "job/watch/raise.h"

enum { TRACING_RULE_RECORDS = 1000 }; /* recorded for a rule; more are only counted */
enum { TRACING_NOTES = 16 };

/* The answer of the service job_trace_info. */
struct trace_info {
    bool known;              /* there was an answer */
    uint64_t live, draining; /* traced processes that run; ended ones with records not yet on disk */
    uint64_t events, discarded;
    struct note notes[TRACING_NOTES];    /* facts that are in no trace */
    struct note problems[TRACING_NOTES]; /* why nothing was recorded though it was requested */
    size_t note_count, problem_count;
    uint64_t choosing;              /* processes whose symbols are still being read for the selection */
    char unmatched[512];            /* the selection matches no function of a living process; "" */
    char texts[TRACING_NOTES][512]; /* of the notes, which point here: do not copy this struct */
    size_t text_count;
};

/* Appends the request that sets everything; nothing if there is nothing to set. */
void tracing_request(struct buf *out, const struct run_options *options, const char *dir);
/* Checks its answer: err says what was refused (-ENOSYS: the monitor cannot trace). */
void tracing_check(Omis_reply reply, const struct run_options *options, struct err *err);

void tracing_answer(Omis_reply reply, struct trace_info *ret_info);
const struct note *tracing_note(const struct trace_info *info, enum note_kind kind); /* NULL: there is none */

/* A rule that prints these fields of an event of the job in `dir`; more: what follows that among its parameters. Cut to its room. */
struct decode_field;
void tracing_rule(char *ret_rule, size_t size, const char *event, const char *dir, const char *more,
                  const struct decode_field *fields);
/* The rules whose replies the functions below take. */
void tracing_rule_changed(char *ret_rule, size_t size, const char *dir);
void tracing_rule_requested(char *ret_rule, size_t size, const char *dir);
void tracing_rule_stalled(char *ret_rule, size_t size, const char *dir, double seconds);

/* Calls `changed` for a reported change of a setting. */
void tracing_changed(Omis_reply reply, void (*changed)(void *ctx, const char *key, const char *value), void *ctx);

/* Records what somebody did who speaks with the job through a broker. */
void tracing_requested(struct recorder *recorder, Omis_reply reply);
/* Records what the rule for stalls reports, who waits for whom, and warns. */
void tracing_stalled(struct recorder *recorder, Omis_reply reply);
/* Warns, for the first program only, that it did not get its privileges (setuid, setgid or capabilities) because it is
 * under ptrace. */
void tracing_denied(struct recorder *recorder, const struct rule *rule, Omis_reply reply);
/* Records that a rule fired. */
void tracing_record_rule(struct recorder *recorder, struct rule *rule, Omis_reply reply);
/* At the end: records how often each rule fired. */
void tracing_record_rules(struct recorder *recorder, const struct rules *rules);

#endif
