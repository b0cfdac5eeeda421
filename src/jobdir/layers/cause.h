/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most probable reason why a job failed, from its records. Rules look for it in order of strength: first for what
 * the records show, then for what they make probable. What is not sure is said to be probable.
 */
#ifndef SCRY_JOBDIR_LAYERS_CAUSE_H
#define SCRY_JOBDIR_LAYERS_CAUSE_H

#include <stdbool.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "base/data/notes.h"
#include "jobdir/record/model.h"

/* The sender of a signal that no process sent, in the note signal_came: what only the kernel sends for a terminal, and others. */
#define SENDER_TERMINAL "the terminal"
#define SENDER_KERNEL "the terminal or the kernel"
#define SENDER_KERNEL_ALONE "the kernel" /* there was no terminal */

#define CAUSE_FAILURE_SECONDS 5 /* a line that is written so shortly before a failure may say why */

/* Of an MPI program, the first rank that failed. */
struct job_rank {
    int rank, ranks; /* its number; how many there are */
    pid_t pid;
    const char *node; /* NULL: the job's own, or that need not be said */
    const char *how;  /* "exited with status 3 without MPI_Finalize" */
    int status;       /* as from wait(2); JOB_STATUS_UNKNOWN */
    bool aborted;     /* it called MPI_Abort */
    const char
        *call;  /* "MPI_Send at main (a.c:3)", in which it probably failed before all were killed; NULL: not known */
    bool named; /* MPICH said that it was this one */
    double seconds;                /* when it ended */
    const struct job_model *model; /* of its node; */
    const json_t *crashes;         /* there. NULL: none, or not known */
};

/* Another node of which nothing came any more: all that ran there is gone, or cannot be reached. */
struct job_lost {
    const char *node, *ranks; /* ", with rank 2", or "" */
    double seconds;           /* when something was heard last */
    double broke;             /* when the ssh that led there ended, or the last of them; `silent`: as seconds */
    double silent; /* 0: its ssh broke; else only nothing came any more, and after so long that is no chance */
};

/* What is known of the end. The arrays may be NULL. */
struct job_end {
    const struct job_model *model;
    const json_t *warnings, *crashes;
    const char *dir;             /* the job directory; NULL: not known */
    const struct job_rank *rank; /* NULL: none is known */
    const struct job_lost *lost; /* NULL: none was */
    const char *stuck;           /* what its ranks waited for in vain when they were ended; NULL: they did not */
    uint64_t stuck_ranks;
    const char
        *late; /* what some ranks did while others waited for them, for as long as counts as a stall; NULL: none */
    uint64_t late_ranks;
    const char *waited; /* the same for some seconds only; NULL: none, or `late` says it */
    double left; /* when the first of them began to wait in MPI_Finalize, where others did not come; 0: none did */
    const json_t *chain; /* .failed.chain: the process that failed first, then its parents up to the command */
    int exit_code, signal;
    bool not_started;              /* the command could not be executed */
    const char *reason;            /* of the signal, or why it was not started; "" or NULL: not known */
    double seconds;                /* when it ended, or until when it was watched */
    uint64_t peak_rss;             /* of a job of one process, in bytes, which samples may have missed; 0: not known */
    uint64_t largest_rss;          /* of the largest process of the job; 0: not known */
    const struct cause_said *said; /* cause_find sets it for its rules; */
    double tolerated;              /* and that: what failed before then the job went on after; */
    pid_t outlived;                /* and that process, whose parent went on after it had crashed; 0: none */
};

struct cause {
    struct note note; /* NOTE_NONE: nothing that was recorded says why */
    bool sure;
    json_t *evidence;             /* records by their seq, where they have one */
    struct buf where, what, said; /* of the note */
    char signal[32], when[32];
};

/* A pure function of `end`. Pass *ret_cause to cause_done. */
void cause_find(const struct job_end *end, struct cause *ret_cause);
/* The same for people: where nothing says why, how the command ended (cause_unknown); and where nobody is known to have said it, what was
 * said last, which need not be why. */
void cause_tell(const struct job_end *end, struct cause *ret_cause);
void cause_done(struct cause *cause);

/* What a launcher of MPI, or its daemon on this node, had started, and killed soon after one of it had ended with status 0: so do
 * launchers if that was without MPI_Finalize. */
struct cause_left {
    const struct job_process *left, *killed; /* the first of each */
    const char *launcher;
};
/* starter: the pid of the launcher or the daemon. false: it has not. */
bool cause_find_left(const struct job_model *model, pid_t starter, struct cause_left *ret_left);

/* "grid (pid 20), which had 98 MB: the job's control group may have 100 MB", of a process that the kernel has killed for lack of memory;
 * of several, or with killed NULL, their number; own: of the job's control group. largest_rss: as in struct job_end. */
void cause_put_killed(struct buf *out, const struct job_model *model, const struct job_process *killed,
                      uint64_t largest_rss, uint64_t processes, bool own);

/* ", with 97 MB of the 100 MB that its address space may have (ulimit -v)", of a process that had so nearly what it may have; `null`: it
 * crashed at an address near 0, and then that may be for lack of memory; largest_rss: as in struct job_end. */
void cause_put_address_limit(struct buf *out, const struct job_model *model, pid_t pid, bool null,
                             uint64_t largest_rss);

/* ", a NULL pointer, in walk at list.c:14", of a crash as records and job.json have it: what was wrong, the frame in which it crashed, or
 * which called a library that did; as far as it is known. */
void cause_put_crash_place(struct buf *out, const json_t *crash);

/* What stands at the end of a file that it had for itself, or its pipeline wrote. The record; NULL: it had none. */
const json_t *cause_put_words_of(struct buf *out, const struct job_model *model, pid_t pid);

/* The moment, but not after the process ended: records may be written a little later than what they tell of. */
double cause_before_end(const struct job_end *end, pid_t pid, double seconds);
/* Of the C library, those of C++ and of the compiler, or of Python: where programs end, but not why. */
bool cause_is_library(const json_t *frame);
/* A disk that was full near the end; NULL: none was seen. */
const struct layer_filesystem *cause_full_disk(const struct job_end *end);
/* Whether a text has words of failure. */
bool cause_is_complaint(const char *text);
/* 0 for the process that failed first, 1 for its parent...; -1: it is none of the chain. */
int cause_chain_at(const struct job_end *end, pid_t pid);

#endif
