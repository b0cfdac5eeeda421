/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of records. What is known of a job is one stream of records in order of time (jobdir/record/spool.h), each
 * a JSON object with "job", "node", "stream", "type", "seq", "t" (seconds since the start of the job), and the fields
 * of its type. A type is a row of the table here: its stream, its struct, the fields of that. A writer fills in the
 * struct, and a reader gets it back. The schema and the page of the reference come from the same rows. Times are
 * seconds since the start of the job, sizes bytes.
 *
 * A field never changes its meaning: what means something else has another name. New fields and new types come without
 * notice, and readers skip what they do not know.
 */
#ifndef SCRY_JOBDIR_RECORD_KINDS_H
#define SCRY_JOBDIR_RECORD_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/text/fields.h"

/* In the order of layers, from the node up. */
enum record_stream {
    STREAM_JOB,      /* how it began and ended, and what could not be seen of it */
    STREAM_NODE,     /* the node, and figures of it and of the processes at intervals */
    STREAM_PROCESS,  /* processes that begin, end and crash */
    STREAM_SCRIPT,   /* where shell scripts are, and which of their commands failed */
    STREAM_PYTHON,   /* calls, exceptions and stacks of Python */
    STREAM_FUNCTION, /* calls of traced functions, summed up */
    STREAM_LOG,      /* lines of logs that matched, and what became of the files */
    STREAM_WARNING,  /* what a person should know */
    STREAM_MPI,      /* ranks that stand still */
    STREAM_RULE,     /* rules that fired */
    STREAM_SETTING,  /* what was set, and changed while it ran */
    STREAM_COUNT
};
/* "job", "node", ...; NULL for other numbers. */
const char *record_stream_name(enum record_stream stream);

/* What is borrowed by these structs lives as long as the caller's texts, or the JSON that was read. */
struct spool_record {
    const char *format, *job, *node;
    uint64_t version;
};

struct node_record {
    const char *host, *os, *release, *arch;
    int64_t cpus, memory_bytes; /* -1: unknown */
};

struct method_record {
    bool singly;
    const char *reason;
};

struct tracing_record {
    json_t *settings; /* by their keys */
};

struct script_record {
    const char *path;
};

struct untraced_record {
    const char *text;
};

/* Of a tool: it changed something of the job; or was refused, as one that speaks with it through a broker. Or so many
 * that are not recorded, and nothing else. */
struct request_record {
    const char *who, *serial; /* of the key; of a tool on the node its program, and "" */
    int64_t pid, uid;         /* of that; pid 0: it is elsewhere */
    const char *request;      /* its text, cut */
    const char *status;       /* "OMIS_OK", ... */
    const char *why;          /* it was refused; "" */
    uint64_t left_out;
};

struct setting_record {
    const char *key, *value;
    bool taken;
};

/* The command of a process, where it is known. */
struct command_fields {
    json_t *argv; /* of texts; NULL: unknown */
    bool argv_cut;
    const char *cwd; /* NULL: unknown */
};

struct process_record {
    int32_t pid, ppid;
    double start;
    const char *name;
    struct command_fields command;
};

/* What it read and wrote itself, at least: by calls, of files, pipes and sockets; and from and to disks. -1: not known. */
struct process_bytes {
    int64_t read, written, disk_read, disk_written;
};

struct process_end_record {
    struct process_record process;
    double end;
    uint64_t cpu_ns, threads, peak_rss;
    int32_t status;           /* as of wait(2); -1: unknown */
    const char *source, *why; /* of the status; why it is unknown. NULL: nothing is said */
    struct process_bytes bytes;
};

struct withdrawn_record {
    int32_t pid;
    uint64_t peak_processes, peak_threads;
};

struct sample_record {
    struct tree_fields {
        uint64_t processes, threads, rss, cpu_ns, started, ended, peak_processes, peak_threads;
    } tree;
    const struct system_fields {
        double load;
        int64_t run_queue, disk_wait, memory_free_bytes, memory_available_bytes, swap_free_bytes, pages_in, pages_out,
            disk_reads, disk_writes, packets; /* -1: unknown */
    } * system;                               /* the node; NULL: unknown */
    json_t *alive;                            /* [[pid, state, rss, peak_rss, cpu_ns, threads], ...] */
};

struct gap_record {
    double from, to;
    const char *reason;
};

struct warning_record { /* a note (jobdir/text/fields.h) */
    const char *kind, *note, *text;
    json_t *fields;
};

struct crash_record {
    int32_t pid, signal;
    const char *name;
    bool core_dumped;
};

struct stall_record {
    double seconds;
    uint64_t ranks;
    const char *why;
    uint64_t late; /* the process of a rank that computes while others wait for it; 0: there is none */
};

/* Whether the job does nothing, asked of its processes when that was so for some seconds (job/health/judge.h); only if there is
 * something to say of what it waits for. */
struct standing_record {
    bool still;       /* false: it goes on */
    double seconds;   /* for which it had stood still then */
    bool deadlock;    /* it never can go on */
    const char *text; /* what it waits for; NULL: it goes on */
};

struct rule_record {
    const char *rule;
    uint64_t fired;
    json_t *results; /* [{action, service, objects, status, error, result}, ...] */
};

struct rules_record {
    json_t *list; /* [{rule, fired, failed}, ...] */
};

/* ---- the node's health (job/health) ---- */

struct health_record {
    /* Shares are of the time since the record before: 0 to 1, of all processors together. -1: unknown, also below. */
    double seconds; /* since then */
    struct load_fields {
        double cpu, cpu_peak, iowait, steal, load; /* cpu_peak: of the busiest part of that time that was looked at */
    } load;
    struct pressure_fields { /* share of time in which some, or all, tasks waited (PSI) */
        double cpu, memory, memory_full, io, io_full;
    } pressure;
    struct memory_fields {
        int64_t total_bytes, available_bytes, available_least_bytes, swap_total_bytes, swap_free_bytes;
    } memory;
    struct traffic_fields { /* a second */
        double disk_read_bytes, disk_written_bytes, received_bytes, sent_bytes, network_errors;
    } traffic;
    json_t *filesystems; /* [{path, uses, total_bytes, free_bytes, inodes, free_inodes, first_free_bytes}, ...] */
    json_t *cgroup;      /* {version, path, memory_bytes, memory_peak_bytes, memory_limit_bytes, ...}; NULL: none */
    json_t *processes;   /* [[pid, read_bytes, written_bytes, open_files, open_files_limit], ...]; NULL: none */
};

/* The job's memory, as far as its processes may share some. */
struct memory_record {
    uint64_t rss, pss;          /* bytes: sums of all; pss has rss of those that could not be read */
    uint64_t processes, unread; /* how many these were */
};

/* ---- logs (job/logs) ---- */

struct log_record {
    const char *file;    /* as named, "stdout" or "stderr" */
    const char *pattern; /* its name, or the expression */
    const char *level;   /* "error", "warning", "info", "debug" */
    const char *text;    /* the line, without its end */
    bool text_cut;
    int64_t line;    /* in the file, from 1; -1: unknown */
    uint64_t folded; /* so many lines that matched the same are not listed since the last one */
    json_t *fields;  /* named groups; NULL: none */
    const char *
        place; /* of an exception of Python: "FILE:LINE" of the innermost line of the user's own code; NULL: not known */
    const char *above; /* of one that tells that a command failed: the line above its traceback; NULL: none */
    double written;    /* in seconds since the start of the job: not after that, and read then or later; 0: not known */
};

struct log_folded_record { /* at the end, and when a rest is left */
    const char *file, *pattern, *level;
    uint64_t lines;
};

struct log_file_record {
    const char *file, *state; /* see the table */
    const char *reason;       /* NULL: nothing is said */
    int64_t bytes;            /* that were passed over; -1: none */
    json_t *expressions;      /* NULL: none */
};

struct log_last_record { /* of what the job wrote, when it ended */
    const char *file;
    double quiet_seconds; /* since it was written last; -1: unknown */
    json_t *lines;
    int64_t pid;    /* of the process that failed, and had this file for itself; -1: it is of the job */
    int64_t line;   /* the number of the last one in the file; 0: not known */
    bool shared;    /* of a process: what had started it has the file open, too */
    json_t *output; /* of the job's standard error: what its standard output ended with then, or later; NULL: nothing */
};

struct progress_record {
    const char *source; /* the log, or the script */
    double done, total;
    double left_seconds; /* -1: unknown */
};

/* ---- files (job/run/files.c) ---- */

struct file_row {
    const char *path, *program;
    int32_t pid;
    uint64_t read_bytes, written_bytes, reads, writes;
};
extern const struct field record_file_fields[];

struct files_record {
    json_t *files;   /* of file_row; those with most bytes come first */
    uint64_t others; /* that are not listed, and their bytes */
    uint64_t other_read_bytes, other_written_bytes;
};

/* ---- system calls (job/run/syscalls.c) ---- */

struct syscall_count_row {
    const char *call;
    int32_t pid;
    uint64_t count, ns;
};
extern const struct field record_syscall_fields[], record_syscall_process_fields[];

struct syscalls_record {
    json_t *calls, *processes; /* of syscall_count_row, those that took longest first: of all, and by process */
};

struct metric_record {
    const char *source, *name;
    double value, least, most; /* the last one, and of all since the record before */
    uint64_t values, undefined;
};

/* ---- shell scripts (job/scripts) ---- */

struct line_fields {
    int32_t pid;
    const char *language; /* "bash", "sh", "python" */
    const char *file;
    int64_t line;                   /* -1: unknown */
    const char *function, *command; /* NULL: unknown; the command is not expanded */
};

struct script_line_record { /* where it is now: when that changed, and as often as it is looked at or reported */
    struct line_fields at;
    int64_t last_line; /* what is executed stands between at.line and this one; -1, 0: in at.line */
    const char *how;   /* "outside", "trap", "builtin", "inside" */
    double time;       /* seconds since the start of the job; -1: as t */
};

struct command_failed_record {
    struct line_fields at;
    int32_t status; /* as $? */
    double seconds; /* that the command took; -1: unknown */
    json_t *stack;  /* [{function, file, line}, ...], the innermost first; NULL: unknown */
    json_t *stages; /* of a pipeline, the statuses of its commands; NULL: it is none, or they are not known */
    double time;
};

struct script_end_record {
    int32_t pid;
    const char *file;
    int32_t status; /* -1: unknown */
    double seconds;
    const char *how; /* as of script_line */
    json_t *lines;   /* [{file, line, command, count, failed, seconds}, ...], of most time first; NULL: not counted */
};

struct script_trap_record {
    int32_t pid;
    json_t *commands; /* names */
    json_t *only;     /* those that stand nowhere else in the script; NULL: none */
};

struct script_tested_record {
    int32_t pid;
    json_t *commands;   /* the words with which they begin */
    json_t *conditions; /* those of them that are nowhere only before ||; NULL: not known */
    json_t *piped;      /* the same of those in pipelines; NULL: not known */
    json_t *prints;     /* how what it prints itself begins; NULL: not known */
};

struct script_kills_record {
    int32_t pid;
    const char *file; /* NULL: its command line has the commands */
    json_t *kills;    /* [{line, signal, self}, ...] */
};

/* ---- Python (job/python) ---- */

struct python_stack_record { /* of all threads, taken from outside */
    int32_t pid;
    const char *version;
    json_t
        *threads; /* [{tid, name, frames: [{function, file, line}, ...], moved, cut}, ...], the innermost frame first */
    bool cut;
};

struct python_exception_record {
    int32_t pid, tid;
    const char *name, *message, *file, *function;
    int64_t line;
    bool caught, message_cut;
    json_t *traceback; /* [{function, file, line}, ...], where it was raised first */
    double time;
};

struct python_calls_record { /* of a window, and at the end */
    int32_t pid;
    bool whole; /* since the process began */
    uint64_t calls;
    json_t *functions; /* [{function, file, line, calls, total_ns, self_ns}, ...] of most self time first */
};

/* ---- functions ---- */

struct functions_record { /* of all processes since the record before */
    double seconds;
    uint64_t calls;
    json_t *list; /* [{name, calls, self_ns}, ...], of most self time first */
};

struct end_record {
    bool started, core_dumped;
    int32_t exit_code, signal; /* -1, 0: none */
    const char *reason;
    const char *unexecuted;                        /* NULL: nothing is known of such */
    int64_t address_limit_bytes, data_limit_bytes; /* 0: none, or not known */
    double wall_seconds, cpu_seconds;
};

/* clang-format off */
#define RECORD_KINDS(KIND) \
    KIND(spool) KIND(node) KIND(method) KIND(tracing) KIND(script) KIND(untraced) KIND(setting) KIND(request) KIND(process) \
    KIND(process_end) KIND(withdrawn) KIND(sample) KIND(health) KIND(memory) KIND(gap) KIND(warning) KIND(crash) \
    KIND(script_line) KIND(command_failed) KIND(script_end) KIND(script_trap) KIND(script_tested) KIND(script_kills) KIND(python_stack) \
    KIND(python_exception) KIND(python_calls) KIND(functions) KIND(log) KIND(log_folded) KIND(log_file) KIND(log_last) KIND(progress) KIND(metric) KIND(files) KIND(syscalls) KIND(stall) KIND(standing) \
    KIND(rule) KIND(rules) KIND(end)
/* clang-format on */

enum record_type {
#define RECORD_TYPE(name) RECORD_##name,
    RECORD_KINDS(RECORD_TYPE)
#undef RECORD_TYPE
        RECORD_TYPES
};

struct record_kind {
    const char *type;
    enum record_stream stream;
    const struct field *fields;
    const char *about;
    const char *text; /* for people: a line, as fields_say has it */
};
extern const struct record_kind record_kinds[RECORD_TYPES];

/* The type of a record; RECORD_TYPES: unknown here, written by a later version. */
enum record_type record_type(const json_t *record);

/* A record of this type without seq and t, from the struct of that. A new reference, or NULL when out of memory. */
json_t *record_json(enum record_type type, const void *row);
/* RECORD(gap, .from = 1) is the type and the row, as arguments of such a function. */
#define RECORD(name, ...) \
    RECORD_##name, &(const struct name##_record) \
    { \
        __VA_ARGS__ \
    }

/* The other way: *ret_row is a struct of its type, all of it 0 where the record has nothing, -1 where that is unknown.
 * What it points to is the record's. */
void record_read(const json_t *record, enum record_type type, void *ret_row);

/* What it says, for people: a line without its end, as the bytes are: whoever shows it escapes it. Of unknown types the
 * members one after the other. */
void record_text(struct buf *out, const json_t *record);

extern const struct field record_head_fields[]; /* that all have */
/* The schema of a record of any type, for doc/reference. A new reference, or NULL when out of memory. */
json_t *record_schema(void);

#endif
