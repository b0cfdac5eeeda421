/* SPDX-License-Identifier: Apache-2.0 */
/* The tracing of compiled functions as scry run asks the monitor for it: requests made, answers read. */
#ifndef SCRY_JOB_TRACING_H
#define SCRY_JOB_TRACING_H

#include <omis.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/notes.h"
#include "job/options.h"
#include "job/recorder.h"
#include "job/rules.h"

enum { TRACING_RULE_RECORDS = 1000 }; /* of one rule; then they are only counted */
enum { TRACING_NOTES = 16 };

/* Of the service job_trace_info. */
struct trace_info {
    bool known;              /* it was answered */
    uint64_t live, draining; /* traced processes that run; that ended, and whose records are not yet on disk */
    uint64_t events, discarded;
    struct note notes[TRACING_NOTES];    /* what no trace tells */
    struct note problems[TRACING_NOTES]; /* why nothing came although it was asked for */
    size_t note_count, problem_count;
    uint64_t choosing;              /* processes whose symbols are still read for the selection in force */
    char unmatched[512];            /* that it means no function of any process that lives; "" */
    char texts[TRACING_NOTES][512]; /* of the notes, which point there: not to be copied */
    size_t text_count;
};

/* Appends the request that sets everything; nothing where there is nothing to set. */
void tracing_request(struct buf *out, const struct run_options *options, const char *dir);
/* Looks at its answer: err says what was refused (-ENOSYS: the monitor cannot trace at all). */
void tracing_check(Omis_reply reply, const struct run_options *options, struct err *err);

void tracing_answer(Omis_reply reply, struct trace_info *ret_info);
const struct note *tracing_note(const struct trace_info *info, enum note_kind kind); /* NULL: there is none */

/* Hands on what a changed setting is told with. */
void tracing_changed(Omis_reply reply, void (*changed)(void *ctx, const char *key, const char *value), void *ctx);

/* What the rule for stalls reports: a record with who waits for whom, and a warning. */
void tracing_stalled(struct recorder *recorder, Omis_reply reply);
/* A program of the job did not get its setuid, setgid or capabilities, since it is traced: a warning, of the
 * first only. */
void tracing_denied(struct recorder *recorder, const struct rule *rule, Omis_reply reply);
/* A rule fired: a record. */
void tracing_record_rule(struct recorder *recorder, struct rule *rule, Omis_reply reply);
/* At the end: how often each did. */
void tracing_record_rules(struct recorder *recorder, const struct rules *rules);

#endif
