/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside jobdir/layers/cause*.c: the rules, and what they share. A rule returns whether it holds, and then has filled in
 * the cause; `sure`: whether it is certain, else whether it is probable.
 */
#ifndef SCRY_JOBDIR_LAYERS_CAUSE_INTERNAL_H
#define SCRY_JOBDIR_LAYERS_CAUSE_INTERNAL_H

#include "jobdir/layers/cause.h"
#include "jobdir/layers/starter.h"
#include "jobdir/record/layers.h"
#include "jobdir/text/fields.h"

/* What belongs together happens within that. */
#define CAUSE_AT_ONCE_SECONDS 1

typedef bool cause_rule(const struct job_end *end, struct cause *cause, bool sure);
cause_rule cause_find_unexecuted, cause_find_memory, cause_find_error, cause_find_credential, cause_find_crash,
    cause_find_limit, cause_find_exception, cause_find_full_disk, cause_find_mpi_stall, cause_find_memory_short,
    cause_find_standstill, cause_find_asked, cause_find_signal, cause_find_killed, cause_find_command, cause_find_log,
    cause_find_process, cause_find_survived_crash, cause_find_task, cause_find_rank, cause_find_lost, cause_find_silent,
    cause_find_lost_before, cause_find_timeout;

/* ---- what lines mean by their words (cause_lines.c); a text may not be NULL unless that is said ---- */

/* An error that has a cause outside the program. */
struct line_error {
    int error; /* errno; 0: of a pattern of logs only */
    const char *pattern, *what;
    bool once; /* it comes again only where the same is tried again */
};
/* Of a line, or of an exception. *ret_text: what it says. NULL: none. */
const struct line_error *line_error_of(const json_t *record, const char **ret_text);
/* Such an error, that this only warns of it; or it has the label of a warning. */
bool line_is_warning(const json_t *record);
/* "WARNING: ...", "[warn] ...", whatever stands behind it; not "3 warnings", nor "error: ... (warning: ...)". The text may be NULL. */
bool line_is_labelled_warning(const char *text);
/* "WARNING cache: ...", "12:01:02 [WARNING] ..."; the text may be NULL. */
bool line_is_warned_of(const char *text);
bool line_has_pattern(const json_t *record, const char *pattern);
/* What Python says of an exception. */
bool line_is_exception(const json_t *record);
/* The same, with the line of the user's code that raised it. */
bool line_is_traceback(const json_t *record);
/* What is printed when a program has ended already, or gives up, whatever the reason is. */
bool line_is_consequence(const struct job_end *end, const json_t *record);
/* "FATAL: ..." or "... CRITICAL ...", and not that it gives up because of another; the text may be NULL. */
bool line_is_graver(const char *text);
/* "solver: no convergence after 500 iterations", with whatever name a program has for itself: what it could not do, or what it lacks. */
bool line_tells_of_failure(const char *text);
/* That it ends, or what stands above, is no reason by itself. */
bool line_tells_of_giving_up(const char *text);
/* "cannot allocate work array", "can't start new thread": what a limit of the address space refuses. */
bool line_tells_of_memory(const char *text);
/* Node and Java end by limits of their own. */
bool line_is_of_own_heap(const char *text);
/* "job.sh: line 2:  1983 Segmentation fault      ./solver": how something ended that the shell had started; it may be NULL. */
bool line_is_notice(const char *text);
/* What stands behind "job.sh: line 4: " of bash, or "job.sh: 4: " of others; the text itself: nothing such. */
const char *line_behind_script(const char *text);
/* "sort: ..." or "make[1]: ...", as programs begin what they say of errors; both may be NULL. */
bool line_begins_with(const char *text, const char *name);
/* But for their numbers, of which they have some; both may be NULL. */
bool lines_are_alike(const char *one, const char *other);
bool lines_are_of_one_file(const json_t *one, const json_t *other);
/* The last of an array of texts but `back`; NULL: there is none. */
const char *lines_last(const json_t *lines, size_t back);
/* When a line was written, at the latest. */
double line_written_seconds(const json_t *record);

/* ---- who says them (cause_speakers.c) ---- */

/* How much a line has to do with the failure. */
enum said { SAID_NOTHING, SAID_CONSEQUENCE, SAID_HINT, SAID_OF_ANOTHER, SAID_ERROR, SAID_BY_ITSELF };

/* Processes that failed, and are none of those that made the command fail: there may be thousands. */
struct speakers {
    struct speaker_names {
        const char **list; /* sorted */
        size_t count;
    } before, after; /* the job has survived those; begun when it had failed: a script that cleans up */
    struct speaker_trap {
        const json_t *names; /* of programs that a script starts in its traps only, */
        double start;        /* and when the first of them may have begun */
    } * traps;
    size_t trap_count;
};
/* Pass them to speakers_done. */
void speakers_find(const struct job_end *end, struct speakers *ret_speakers);
void speakers_done(struct speakers *speakers);
enum said speakers_weigh(const struct job_end *end, const struct speakers *speakers, const json_t *record);

/* Whether it begins with the name of the at-th of the chain, or of the script that this executes; the text may be NULL. */
bool speaker_is(const struct job_end *end, size_t at, const char *text);
/* Whether a script above the at-th of the chain prints such a line by itself; the text may be NULL. */
bool speaker_is_above(const struct job_end *end, size_t at, const char *text);
/* The same of one script; both may be NULL. */
bool speaker_place_prints(const struct layer_place *place, const char *text);
/* Of a builtin of the shell that failed first, by itself, as "job.sh: line 5: cd: run2: No such file or directory": with the status of
 * the last one it ended, the others it has gone on after. */
bool speaker_is_builtin(const struct job_end *end, const json_t *record);
/* A program of that name is one of a language: "python", "python3.11"; name and argv may be NULL. */
bool speaker_runs(const char *language, const char *name, const json_t *argv);

/* ---- what they have said (cause_said.c, cause_last_words.c, cause_log.c) ---- */

/* The line that says most of it: many rules ask for it, and it takes a look at all lines and all processes that failed. */
struct cause_said {
    const json_t *record; /* NULL: none does */
    enum said said;
    const json_t *told; /* Python ended, then or later, as a command failed that it had started; NULL: it did not */
};
void cause_look_at_said(const struct job_end *end, struct cause_said *ret_said);

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
/* What stands at the end of a file that the at-th of the chain had for itself. The record; NULL: it had none. */
const json_t *cause_put_own_words(struct buf *out, const struct job_end *end, int at);
/* What the at-th of the chain said last on standard error, by its name there, or as it may have given up with that. The record; NULL: none. */
const json_t *cause_put_last_words(struct buf *out, const struct job_end *end, int at);

/* The last lines of standard error, or else output, as many as a line has room for: "cannot read cell 7 / bye"; not those that are as the
 * one below but for numbers. The record; NULL: nothing was said. */
const json_t *cause_put_said_last(struct buf *out, const struct job_end *end);

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

/* ---- the end, and the processes that failed ---- */

/* Of the at-th of the chain; NULL, 0: not known, or there is none, as for -1. */
static inline const char *cause_chain_name(const struct job_end *end, size_t at)
{
    return member_string(json_array_get(end->chain, at), "name");
}
static inline pid_t cause_chain_pid(const struct job_end *end, size_t at)
{
    return (pid_t)json_integer_value(json_object_get(json_array_get(end->chain, at), "pid"));
}
static inline const struct layer_place *cause_chain_place(const struct job_end *end, size_t at)
{
    return layers_place(&end->model->layers, cause_chain_pid(end, at));
}
static inline double cause_chain_start(const struct job_end *end, size_t at)
{
    return member_number(json_array_get(end->chain, at), "start_seconds");
}
/* Whether that was before the at-th of the chain began, as far as is known. */
bool cause_is_before(const struct job_end *end, size_t at, double seconds);
/* Of a process of the chain. */
static inline bool cause_is_shell(const json_t *process)
{
    return starter_is_shell(member_string(process, "name"), json_object_get(process, "argv"));
}
/* Whether a process of the chain ended otherwise than by that signal, which had ended what it had started. */
bool cause_lived_on(const json_t *process, int signo);
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
void cause_add(struct cause *cause, const json_t *record); /* as evidence; NULL is fine */
/* The first line of a text, which may be NULL, cut to what a line has room for. */
void cause_cut(struct buf *out, const char *text);
/* "run.py:5"; file NULL: not known, line -1: likewise. */
void cause_put_place(struct buf *out, const char *file, int64_t line);
/* Takes the full stop or the comma off, so that it may go on. */
void cause_end_sentence(struct buf *out);
const char *cause_text(const struct buf *buf);
bool cause_is_near(const struct job_end *end, double seconds); /* to the end of the job */
/* When something failed, or just before. */
bool cause_is_just_before(double failed, double seconds);
/* Of the command, as a shell has it. */
int cause_end_status(const struct job_end *end);
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
