/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.json: the user, the command, host and time, and how it ended. Rewritten atomically: readers see the old or the
 * new one. What the file says and what is true may differ when its writer was killed; job_state() compares both.
 */
#ifndef SCRY_JOBDIR_RECORD_INFO_H
#define SCRY_JOBDIR_RECORD_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/data/err.h"

enum { JOB_VERSION = 1 };

/* How the job ended. Sizes in bytes, times in seconds. */
/* What the command and all that was waited for have read and written, to the last byte: also what lived for a moment. Not what goes on
 * after the command, or nobody has waited for. */
struct job_io {
    bool known;
    uint64_t read_bytes, written_bytes; /* by calls of read, write and their like, of files, pipes and sockets */
    uint64_t disk_read_bytes, disk_written_bytes; /* of these and of mappings, what came from disks, or goes to them */
};

struct job_result {
    bool started;       /* the command was executed; otherwise exit_code is 126 or 127 */
    int exit_code;      /* what scry run exited with: the command's own, or 128 + signal */
    int signal;         /* that killed the command; 0: none */
    const char *reason; /* why it got that, or was not started: "out of memory"; "" or NULL: not known */
    bool core_dumped;
    double wall_seconds, cpu_seconds;
    uint64_t peak_rss_bytes;      /* of the largest process */
    uint64_t peak_tree_rss_bytes; /* of all processes together; pages shared between them count for each */
    uint64_t peak_tree_pss_bytes; /* the same with those counted once; 0: not known, for little could be shared */
    struct job_io io;
    uint64_t processes, processes_at_once, threads_at_once;
    uint64_t left_running; /* processes that outlived the command */
    uint64_t lost_records;
};

/* Of all processes together, with shared pages counted once where that is known. */
static inline uint64_t job_result_memory(const struct job_result *result)
{
    return result->peak_tree_pss_bytes ? result->peak_tree_pss_bytes : result->peak_tree_rss_bytes;
}

struct job_info {
    json_t *json; /* owns what the strings below point to, after job_info_read */
    const char *id, *name, *host, *user, *cwd, *boot_id;
    const char *task; /* the id of the task that it is a run of (task/store.h), "" if it is of none */
    json_t *argv;     /* array of strings; a borrowed reference */
    json_t *batch;    /* object: what the batch system says of its job; a borrowed reference, or NULL: there is none */
    json_t *warnings; /* array of {kind, text}; a borrowed reference, or NULL */
    json_t *warnings_omitted; /* how many are not among these (record/model.h); borrowed, or NULL */
    json_t *crashes;          /* array, as in the records; a borrowed reference, or NULL */
    json_t *progress;         /* how far it was: source, done, total; borrowed, or NULL: it never said */
    json_t *outputs;          /* where its output goes, as job_output_read has it; borrowed, or NULL: not known */
    json_t *cause;            /* why it failed: a note (jobdir/layers/cause.h); borrowed, or NULL: not known */
    uint64_t started_ns;      /* wall clock */
    uint64_t began_ns;        /* the same by the monotonic clock of its node; 0: not known */
    double sample_seconds;
    uint64_t profile_hz;                   /* of its profile; 0: none was asked for */
    pid_t supervisor, root;                /* 0: not yet */
    uint64_t supervisor_ticks, root_ticks; /* start times since boot: with the pid, a process for ever */
    bool ended;
    struct job_result result; /* when ended */
};

/* Reads path/job.json. 0, -ENOENT, -EBADMSG (unreadable, err says where), -EPROTO (a newer version: err names it).
 * *ret_info is to be passed to job_info_done in any case. */
int job_info_read(const char *path, struct job_info *ret_info, struct err *err);
/* What job.json is to say, malloc'ed; NULL: out of memory. */
char *job_info_text(const struct job_info *info);
void job_info_done(struct job_info *info);

/* Where standard output, or standard error, of the command went. */
struct job_output {
    const char *kind; /* "file", "terminal", "pipe", "null" or "other"; "": not known */
    const char *path; /* of a file, without links */
    uint64_t inode;
    uint64_t born_ns;     /* when the file was made, wall clock; 0: not known */
    uint64_t from, until; /* what of the file is the job's; until UINT64_MAX: it has not ended, or nobody saw it */
};
/* Of the open file `fd` of this process, which the command has, too. A new reference; NULL: out of memory. */
json_t *job_output_json(int fd);
/* The job has ended: nothing that is written from now on is the command's. */
void job_output_end(json_t *output, int fd);
/* Of one of the two; the strings are those of info. */
struct job_output job_output_read(const struct job_info *info, int fd);

/* What is so now, as far as it can be seen from here. */
enum job_state {
    JOB_RUNNING,     /* watched by its scry run */
    JOB_ENDED,       /* and the result is known */
    JOB_UNWATCHED,   /* scry run died, the command goes on: not recorded any more */
    JOB_LOST,        /* scry run and the command are gone (killed, or the node restarted): no result */
    JOB_UNREACHABLE, /* on another host, and nothing was heard for a while: running or dead, unknown */
};
/* Of a mirror (jobdir/record/mirror.h): as it was heard, within its lease. A job that was not heard is unreachable. */
enum job_state job_state(const char *path, const struct job_info *info);
/* Whether the command of one that runs on this host is stopped, as by ^Z. */
bool job_is_stopped(const char *path, const struct job_info *info);

/* Both at once. A job that ends between the two readings has ended, and is not lost. As job_info_read; *ret_state is
 * JOB_LOST where that fails. */
int job_info_read_state(const char *path, struct job_info *ret_info, enum job_state *ret_state, struct err *err);
const char *job_state_name(enum job_state state); /* "running", "ended", "unwatched", "lost", "unreachable" */

/* How a job that ended did so: "finished" (exit status 0), "failed" (another one), "crashed" (a signal of its own
 * fault), "killed" (another signal). */
const char *job_end_name(const struct job_result *result);
/* The signals of faults: nobody uses them to end a process in an orderly way. */
bool job_signal_is_fault(int signo);

/* Of this machine since its start (/proc/sys/kernel/random/boot_id); "" when unknown. */
void job_boot_id(char *ret_id, size_t size);

/* The wall clock of the job's node, nanoseconds: for a mirror it may be hours off this one's. path may be NULL. */
uint64_t job_now_ns(const char *path);
/* For how long a job that runs does so, in seconds, by clocks that nobody sets: the monotonic one of its node, and for a
 * mirror what the job said of itself. `least`: of its last record. path may be NULL. */
double job_age_seconds(const char *path, const struct job_info *info, double least);

/* When a living process started, in ticks since boot; 0: there is none. */
uint64_t job_process_ticks(pid_t pid);
/* To this very process, not to a later one with its number. 0 or -errno. */
int job_process_signal(pid_t pid, uint64_t ticks, int signo);
/* Whether the process says itself that it belongs to the job whose directory this is: by its SCRY_JOB. */
bool job_has_process(const char *path, pid_t pid);

#endif
