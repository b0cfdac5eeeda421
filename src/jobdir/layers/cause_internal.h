/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside jobdir/layers/cause*.c: the rules, and what they share. A rule returns whether it holds, and then has filled in
 * the cause; `sure`: whether it is certain, else whether it is probable.
 */
#ifndef SCRY_JOBDIR_LAYERS_CAUSE_INTERNAL_H
#define SCRY_JOBDIR_LAYERS_CAUSE_INTERNAL_H

#include "jobdir/layers/cause.h"
#include "jobdir/record/layers.h"

/* What belongs together happens within that. */
#define CAUSE_AT_ONCE_SECONDS 1
enum { CAUSE_SHELL_SIGNAL = 128 }; /* and the signal's number: the status that a shell gives to it */

typedef bool cause_rule(const struct job_end *end, struct cause *cause, bool sure);
cause_rule cause_find_unexecuted, cause_find_memory, cause_find_error, cause_find_credential, cause_find_crash,
    cause_find_limit, cause_find_exception, cause_find_full_disk, cause_find_mpi_stall, cause_find_memory_short,
    cause_find_standstill, cause_find_asked, cause_find_signal, cause_find_killed, cause_find_command, cause_find_log,
    cause_find_process, cause_find_survived_crash, cause_find_task, cause_find_rank, cause_find_lost, cause_find_silent,
    cause_find_lost_before, cause_find_timeout;

/* How much a line has to do with the failure. */
enum said { SAID_NOTHING, SAID_CONSEQUENCE, SAID_HINT, SAID_OF_ANOTHER, SAID_ERROR, SAID_BY_ITSELF };

/* The line that says most of it: many rules ask for it, and it takes a look at all lines and all processes that failed. */
struct cause_said {
    const json_t *record; /* NULL: none does */
    enum said said;
    const json_t *told; /* Python ended, then or later, as a command failed that it had started; NULL: it did not */
};
void cause_look_at_said(const struct job_end *end, struct cause_said *ret_said);

/* When a line was written, at the latest. */
double cause_written_seconds(const json_t *record);
/* Whether the process that failed first said itself why: with an error of the system, as of a full disk. */
bool cause_says_why(const struct job_end *end);
/* Whether an error of the system was said just before a program aborted then, as programs do that cannot go on. */
bool cause_explains_abort(const struct job_end *end, double seconds);
/* Whether the process that failed first was killed, and its parent went on to an error of its own. */
bool cause_outlived(const struct job_end *end);
/* Whether a signal ended the process that failed first, and its parent, which says so, went on to an error of its own. */
bool cause_was_told(const struct job_end *end);
/* "after solver (pid 20), which it had started, was ended by SIGKILL", of what a process of the job went on after; nothing if that is not known. */
void cause_put_outlived(struct buf *out, const struct job_process *child);
/* Whether something is known to have failed that a launcher of MPI had started, or to have ended that from outside: the launcher
 * then says so in words of its own. */
bool cause_launched_ended(const struct job_end *end);
/* What a program said that ended then, if it is so much; nothing if it said nothing. */
void cause_put_said(struct buf *out, const struct job_end *end, enum said least, double seconds);
/* The same of what began with the name of a program. */
void cause_put_said_by(struct buf *out, const struct job_end *end, const char *name, double seconds);
/* What the at-th of the chain said last on standard error, by its name there, or as it may have given up with that. The record; NULL: none. */
const json_t *cause_put_last_words(struct buf *out, const struct job_end *end, int at);

/* "run.log says: step 500 residual NaN", of a number that is none, at the end of what was written when something ended then. The record;
 * NULL: there is none. */
const json_t *cause_put_number(struct buf *out, const struct job_end *end, double seconds);
/* What was written last when something ended then, but for what was said of ends, if it is a complaint, or `any` and on standard error. The
 * record; NULL: nothing. */
const json_t *cause_put_complaint(struct buf *out, const struct job_end *end, double seconds, bool any);

/* What said an error when something went wrong then, an exception rather than others; NULL: nothing did. A new reference. */
json_t *cause_error_of(const struct job_end *end, double seconds);
/* That it is what this line says; then: what came of it, or "". */
void cause_say_log(const struct job_end *end, struct cause *cause, const json_t *record, const char *then);

/* Where gfortran's run-time library says that a program ended then; false: it says nothing. */
bool cause_put_backtrace(struct buf *out, const struct job_end *end, double seconds);

/* Of a process of the chain, as wait(2) has it. */
int cause_chain_status(const json_t *process);
/* Whether timeout(1) has ended what it had started. */
bool cause_timed_out(const struct job_end *end);
/* Whether it is known to have stood still: mostly what ended something then did so because of that. */
bool cause_stood_still(const struct job_end *end);
/* The last signal from outside that came before the end; NULL: none, or long before. */
const json_t *cause_signal_came(const struct job_end *end);
/* Whether a launcher, or its daemon, crashed when it had been asked to end, at that time at most: that is not what it was ended for. */
bool cause_fell_when_asked(const struct job_end *end, const char *name, int signo, double seconds);
/* Whether the job has ended the process that failed first itself, as far as is known: by timeout(1), by kill(1), or by a kill of a script. */
bool cause_ended_by_job(const struct job_end *end);
/* A tool, or a page, has asked for a signal. */
bool cause_was_requested(const struct job_end *end);
/* Somebody or something asked the job to end: what the ranks do then is no failure of theirs. */
bool cause_was_asked(const struct job_end *end);

/* Of the command, the smaller of ulimit -v and -d; 0: none, or not known. *ret_data: it is -d. */
uint64_t cause_memory_limit(const struct job_model *model, bool *ret_data);
/* " (its address space may have 200 MB: ulimit -v)", if there is one; it is evidence. */
void cause_put_memory_limit(struct buf *out, const struct job_end *end, struct cause *cause);
/* "cannot allocate work array", "can't start new thread": what a limit of the address space refuses. */
bool cause_tells_of_memory(const char *text);
void cause_add(struct cause *cause, const json_t *record); /* as evidence; NULL is fine */
/* The first line of a text, which may be NULL, cut to what a line has room for. */
void cause_cut(struct buf *out, const char *text);
/* Takes the full stop or the comma off, so that it may go on. */
void cause_end_sentence(struct buf *out);
const char *cause_text(const struct buf *buf);
bool cause_is_near(const struct job_end *end, double seconds); /* to the end of the job */
/* When the at-th of the chain ended. */
double cause_chain_end(const struct job_end *end, int at);
/* Whether what failed then did not end the job: its script went on, other commands of it succeeded, and one that began later ended with
 * the status of the job. */
bool cause_was_tolerated(const struct job_end *end, double seconds);
/* Whether it happened while the process ran that failed first, and not long before that failed: else the job has gone on. */
bool cause_is_of_end(const struct job_end *end, double seconds);
/* The signal that killed the process that failed first, or the command; 0: none. */
int cause_signal(const struct job_end *end);
/* The last record but `back`; NULL: there is none. */
json_t *cause_last(const struct layer_list *list, size_t back);
/* The last warning of this kind, and the same of a note that this version may not have yet; NULL: there is none. */
const json_t *cause_warning(const struct job_end *end, enum note_kind kind);
const json_t *cause_named(const struct job_end *end, const char *name);
const json_t *cause_warning_field(const json_t *warning, const char *name);
/* Did the process end because of this exception? */
bool cause_ended_its_process(const struct job_end *end, const json_t *exception);
void cause_say_full(struct cause *cause, const struct job_end *end, const struct layer_filesystem *system, bool sure);

#endif
