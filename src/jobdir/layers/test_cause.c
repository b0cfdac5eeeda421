/* SPDX-License-Identifier: Apache-2.0 */
/* The reason why a job failed, a test a rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/last.h"
#include "jobdir/layers/test_job.h"

struct told {
    enum note_kind kind;
    bool sure;
    char text[300], evidence[100];
};

static const struct job_rank *first_rank; /* of the next question */
static const struct job_lost *lost_node;
static const char *stuck, *late, *waited;
static double left_at;
static bool for_people; /* it asks as reports do */

static struct told ask_end(const char *chain_text, int exit_code, int signal, const char *reason)
{
    json_t *chain = chain_of(chain_text);
    const struct job_end end = {.model = &model,
                                .warnings = model.warnings.records,
                                .crashes = model.crashes,
                                .dir = "jobs/ID",
                                .rank = first_rank,
                                .lost = lost_node,
                                .stuck = stuck,
                                .late = late,
                                .waited = waited,
                                .late_ranks = waited ? 1 : 0,
                                .left = left_at,
                                .chain = chain,
                                .exit_code = exit_code,
                                .signal = signal,
                                .reason = reason,
                                .seconds = 100};
    struct cause cause;
    struct told told = {0};
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    (for_people ? cause_tell : cause_find)(&end, &cause);
    note_text(&text, &cause.note);
    told.kind = cause.note.kind;
    told.sure = cause.sure;
    snprintf(told.text, sizeof told.text, "%s", text.data ? text.data : "");
    char *evidence = json_dumps(cause.evidence, JSON_COMPACT);
    snprintf(told.evidence, sizeof told.evidence, "%s", evidence);
    free(evidence);
    cause_done(&cause);
    json_decref(chain);
    return told;
}

static struct told ask(const char *chain)
{
    return ask_end(chain, strcmp(chain, KILLED) == 0 ? 137 : 1, 0, NULL);
}

static void expect(struct told told, enum note_kind kind, bool sure, const char *text)
{
    assert_string_equal(note_name(told.kind), note_name(kind));
    assert_int_equal(told.sure, sure);
    assert_string_equal(told.text, text);
}

static void test_nothing(void **state)
{
    expect(ask(ONE), NOTE_NONE, false, "");
    expect(ask("[]"), NOTE_NONE, false, "");
    put_log(10, "error", "long ago");
    put_log(100, "info", "no error");
    expect(ask(ONE), NOTE_NONE, false, "");
}

static void test_memory(void **state)
{
    put_log(99.9, "error", "Killed");
    put_warning(100, NOTE(out_of_memory, .processes = 1, .own_group = 0));
    expect(ask(KILLED), NOTE_cause_memory, false, "probably out of memory: the kernel killed 1 process");
    put_warning(100, NOTE(out_of_memory, .processes = 2, .own_group = 1));
    struct told told = ask(KILLED);
    expect(told, NOTE_cause_memory, true, "out of memory: the kernel killed 2 processes");
    assert_string_equal(told.evidence, "[2]");
    expect(ask(TWO), NOTE_cause_memory, false, "probably out of memory: the kernel killed 2 processes");
}

/* Of one that was killed: which it was, how large, and what it may have had. */
static void test_memory_of_one(void **state)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 99.9, "pid", 20, "ppid",
        10, "name", "worker", "start", 1.0, "end", 99.9, "cpu_ns", 1, "threads", 1, "peak_rss", 100 << 20, "status", 9);
    put_warning(100, NOTE(out_of_memory, .processes = 1, .own_group = 1));
    expect(ask(KILLED), NOTE_cause_memory, true, "out of memory: the kernel killed worker (pid 20), which had 100 MB");
    PUT("{s:s, s:f, s:{s:i}}", "type", "health", "t", 100.0, "cgroup", "memory_limit_bytes", 128 << 20);
    expect(
        ask(KILLED), NOTE_cause_memory, true,
        "out of memory: the kernel killed worker (pid 20), which had 100 MB: the job's control group may have 128 MB");
}

/* Of several: of which program they were, if it is one. */
static void test_memory_of_several(void **state)
{
    for (int i = 0; i < 2; i++)
        PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 99.9 - i, "pid",
            20 - i, "ppid", 10, "name", "worker", "start", 1.0, "end", 99.9 - i, "cpu_ns", 1, "threads", 1, "peak_rss",
            100 << 20, "status", 9);
    put_warning(100, NOTE(out_of_memory, .processes = 2, .own_group = 1));
    PUT("{s:s, s:f, s:{s:i}}", "type", "health", "t", 100.0, "cgroup", "memory_limit_bytes", 128 << 20);
    expect(ask(KILLED), NOTE_cause_memory, true,
           "out of memory: the kernel killed 2 processes, of worker: the job's control group may have 128 MB");
}

/* One that was full from the start says nothing, unless a program complains. */
static void test_disk(void **state)
{
    put_disk(10, 100000, 0);
    put_disk(60, 100000, 5000);
    put_disk(99, 100000, 0);
    expect(ask(TWO), NOTE_cause_process, false, "probably worker (pid 20), which ended with exit status 1");
    put_log(99.5, "error", "dd: No space left on device");
    expect(ask(TWO), NOTE_cause_disk_full, true, "the disk of /work was full");
}

/* It becomes full; what a program says of it makes it sure. */
static void test_disk_full(void **state)
{
    put_disk(60, 100000, 5000);
    put_disk(99, 100000, 3);
    expect(ask(TWO), NOTE_cause_disk_full, false, "probably the disk of /work was full");
    put_log(99.5, "error", "dd: error writing 'x': No space left on device");
    struct told told = ask(TWO);
    expect(told, NOTE_cause_disk_full, true, "the disk of /work was full");
    assert_string_equal(told.evidence, "[2,1]");
}

/* A job that is too short for a record before its end: it says what was free when the job began. */
static void test_disk_full_soon(void **state)
{
    for (int first = 0; first <= 90000; first += 90000) {
        PUT("{s:s, s:f, s:f, s:[{s:s, s:i, s:i, s:i, s:i, s:i}]}", "type", "health", "t", 99.9, "seconds", 1.0,
            "filesystems", "path", first ? "/work" : "/before", "total_bytes", 100000, "free_bytes", 3, "inodes", 100,
            "free_inodes", 50, "first_free_bytes", first);
        expect(ask(TWO), first ? NOTE_cause_disk_full : NOTE_cause_process, false,
               first ? "probably the disk of /work was full"
                     : "probably worker (pid 20), which ended with exit status 1");
    }
}

/* The job need not write where scry records. */
static void test_disk_of_scry(void **state)
{
    put_disk_of(60, "/jobs/ID", 100000, 5000);
    put_disk_of(99, "/jobs/ID", 100000, 3);
    put_log(99.5, "error", "dd: No space left on device");
    expect(ask(TWO), NOTE_cause_said, false, "probably a disk was full: dd: No space left on device");
}

/* An error of the system that is an exception has its place, too. */
static void test_place_of_system_error(void **state)
{
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:s, s:i}", "type", "log", "t", 99.9, "file", "stderr", "pattern", "exception",
        "level", "error", "text", "OSError: [Errno 28] No space left on device", "place", "/w/run.py:2", "folded", 0);
    expect(ask(TWO), NOTE_cause_said, false,
           "probably a disk was full: OSError: [Errno 28] No space left on device, at run.py:2");
}

/* A script went on without a program that was not found, or on a disk with too little space, and failed later. */
static void test_survived(void **state)
{
    put_matched(97, "command_not_found", "error", "bash: line 1: tool: command not found");
    expect(ask(TWO), NOTE_cause_said, false, "probably a program was not found: bash: line 1: tool: command not found");
    put_matched(99.9, "traceback", "error", "Traceback (most recent call last):");
    put_matched(99.9, "exception", "error", "ValueError: 99");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: ValueError: 99");
    put_matched(90, "no_space", "error", "cp: No space left on device");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: ValueError: 99");
}

/* An exception makes mpi4py abort; where nothing else is said, this is. */
static void test_consequence(void **state)
{
    put_matched(85, "mpi_abort", "error", "MPI_ABORT was invoked on rank 0");
    expect(ask(TWO), NOTE_cause_said, false,
           "probably an MPI program gave up: MPI_ABORT was invoked on rank 0, 15 s before it failed");
    put_matched(99.5, "exception", "error", "ValueError: 99");
    put_matched(99.9, "mpi_abort", "error", "MPI_ABORT was invoked on rank 1");
    put_matched(99.95, "killed", "error", "worker: Killed");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: ValueError: 99");
}

static void test_said(void **state)
{
    put_log(99.5, "error", "tee: out: No space left on device\n");
    expect(ask(TWO), NOTE_cause_said, false, "probably a disk was full: tee: out: No space left on device");
    put_exception(99.6, 20, "OSError", "[Errno 24] Too many open files: 'x'");
    expect(ask(TWO), NOTE_cause_said, true,
           "a process had too many open files (ulimit -n): [Errno 24] Too many open files: 'x'");
}

static void put_named(double seconds, const char *name, const char *text)
{
    PUT("{s:s, s:f, s:s, s:s, s:{s:s, s:s}, s:s}", "type", "warning", "t", seconds, "kind", "some", "note", name,
        "fields", "credential", "proxy", "path", "/tmp/x509up_u1", "text", text);
}

/* A program that says so makes it sure. */
static void test_credential(void **state)
{
    put_failure(50, 10, 3, 1);
    put_named(20, "credential_expired", "the proxy /tmp/x509up_u1 has expired: renew it");
    expect(ask(TWO), NOTE_cause_credential, false, "probably the proxy /tmp/x509up_u1 had expired");
    put_log(99.8, "warning", "copy: SSL Certificate problem");
    struct told told = ask(TWO);
    expect(told, NOTE_cause_credential, true, "the proxy /tmp/x509up_u1 had expired");
    assert_string_equal(told.evidence, "[1,2]");
}

static void test_memory_short(void **state)
{
    put_named(10, "memory_low", "long ago");
    expect(ask(TWO), NOTE_cause_process, false, "probably worker (pid 20), which ended with exit status 1");
    put_named(99, "group_memory_low", "the job needs 99 MB of 100 MB");
    expect(ask(KILLED), NOTE_cause_memory_short, false,
           "probably killed for lack of memory: the job needs 99 MB of 100 MB");
}

static void test_standstill(void **state)
{
    put_named(40, "stands_still", "idle for 30 s: no process of the job computed, read or wrote");
    expect(ask(ONE), NOTE_NONE, false, "");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_standstill, false,
           "probably it stood still until it was ended: idle for 30 s: no process of the job computed, read or wrote");
}

/* Why it did nothing, as was seen while it did. */
static void test_stuck(void **state)
{
    put_warning(12, NOTE(stuck, .deadlock = true,
                         .text = "2 threads of lock (pid 20) wait for each other, at mover (lock.c:5)"));
    expect(ask(ONE), NOTE_NONE, false, "");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_stuck, false,
           "probably a deadlock, until it was ended by SIGTERM: 2 threads of lock (pid 20) wait for each other, at "
           "mover (lock.c:5)");
    assert_int_equal(ask_end("[{\"pid\": 10, \"name\": \"timeout\", \"start_seconds\": 10, \"end_seconds\": 99, "
                             "\"exit_code\": 124, \"argv\": [\"timeout\", \"2\", \"./solver\"]}]",
                             124, 0, NULL)
                         .kind,
                     NOTE_cause_stuck);
    put_warning(99.9, NOTE(signal_came, .signal = "SIGTERM", .sender = "bash (pid 7)"));
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_stuck, false,
           "probably a deadlock, until it was ended by SIGTERM from bash (pid 7): 2 threads of lock (pid 20) wait for "
           "each other, at mover (lock.c:5)");
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:[s, s, s]}", "type", "process_end", "t", 99.4, "pid", 30, "ppid",
        10, "name", "pkill", "start", 99.3, "end", 99.4, "status", 0, "argv", "pkill", "-P", "20"); /* it was ended */
    assert_int_equal(ask_end("[]", 143, 15, NULL).kind, NOTE_cause_stuck);
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", 99.5, "pid", 20, "ppid", 10, "name",
        "solver", "start", 50.0, "end", 99.5, "status", 15); /* it went on */
    assert_int_not_equal(ask_end("[]", 143, 15, NULL).kind, NOTE_cause_stuck);
}

static void put_ended_worker(int pid, int parent, const char *name, double start, double end, int status)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", end, "pid", pid, "ppid", parent, "name",
        name, "start", start, "end", end, "status", status);
}

/* It waited for what its workers owed it: those that failed, while it lived on. */
static void test_lost_workers(void **state)
{
    put_warning(12, NOTE(stuck, .deadlock = true, .text = "python3 (pid 20) waits for itself"));
    put_ended_worker(21, 20, "python3", 1, 2, 1 << 8);
    put_ended_worker(22, 20, "python3", 1, 2.25, 9);
    put_ended_worker(23, 20, "python3", 1, 2.5, 15); /* its parent has ended it */
    put_ended_worker(24, 20, "grep", 1, 2.75, 1 << 8);
    put_ended_worker(20, 10, "python3", 1, 99.5, 15);
    expect(
        ask_end("[]", 143, 15, NULL), NOTE_cause_stuck, false,
        "probably a deadlock, until it was ended by SIGTERM: python3 (pid 20) waits for itself; before, python3 (pid "
        "20) had lost 2 workers: pid 21, exit status 1 at 2.0 s, and pid 22, SIGKILL at 2.2 s");
}

/* Until timeout(1) ended it, which is what came of that; but not if it computed, or that was no worker of it, or at the end. */
static void test_lost_before_timeout(void **state)
{
    static const char timed[] = "[{\"pid\": 20, \"name\": \"timeout\", \"start_seconds\": 0, \"end_seconds\": 60, "
                                "\"exit_code\": 124, \"argv\": [\"timeout\", \"60\", \"python3\", \"pool.py\"]}]";
    put_ended_worker(30, 21, "python3", 1, 2, 9);
    put_ended_worker(32, 21, "sort", 1, 2.5, 9);
    put_ended_worker(31, 21, "python3", 1, 59.5, 9);
    put_ended_worker(21, 20, "python3", 0, 60, 15);
    expect(ask_end(timed, 124, 0, NULL), NOTE_cause_stuck, false,
           "probably stuck, until it was ended by timeout(1) after 60 s: python3 (pid 21) had lost a worker: pid 30, "
           "SIGKILL at 2.0 s");
    model.alive_share = 1;
    expect(ask_end(timed, 124, 0, NULL), NOTE_cause_limit, true,
           "python3 was killed by SIGTERM, because of a limit: the 60 s that timeout(1) gave it");
}

/* Or for a thread that an exception has ended. */
static void test_exception_before(void **state)
{
    static const char said[] =
        "probably a deadlock, until it was ended by SIGTERM: a thread of python3 (pid 20) waits; it had said: "
        "ValueError: bad item";
    struct note note = NOTE(stuck, .deadlock = true, .text = "a thread of python3 (pid 20) waits");
    put_matched(2, "exception", "error", "ValueError: bad item");
    put_warning(12, note);
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_stuck, false, said);
    put_log(90, "info", "going on"); /* it was not the last */
    put_warning(95, note);
    assert_null(strstr(ask_end("[]", 143, 15, NULL).text, "ValueError"));
    put_matched(20, "exception", "error", "ValueError: bad item"); /* long before */
    assert_null(strstr(ask_end("[]", 143, 15, NULL).text, "ValueError"));
}

/* Without that it was seen to stand still: if it was idle when the signal came. */
static void test_lost_before_signal(void **state)
{
    put_ended_worker(22, 20, "python3", 1, 2.5, 9);
    put_warning(99.5, NOTE(signal_came, .signal = "SIGTERM", .sender = "bash (pid 7)"));
    put_ended_worker(20, 10, "python3", 1, 100, 15);
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from bash (pid 7) 0.5 s before the end; before, python3 (pid 20) had lost a "
           "worker: pid 22, SIGKILL at 2.5 s");
    put_ended_worker(31, 30, "bash", 1, 3, 9); /* a subshell */
    put_ended_worker(30, 10, "bash", 1, 100, 15);
    struct told told = ask_end("[]", 143, 15, NULL);
    assert_null(strstr(told.text, "bash (pid 30)"));
}

static void put_crash(double seconds, int pid)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b, s:s, s:[]}", "type", "crash", "t", seconds, "pid", pid, "name", "crashy",
        "signal", 11, "core_dumped", 0, "reason", "a NULL pointer", "frames");
}

static void put_abort(double seconds)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b}", "type", "crash", "t", seconds, "pid", 20, "name", "grid", "signal", 6,
        "core_dumped", 0);
}

#define ABORTED \
    "[{\"pid\": 20, \"name\": \"grid\", \"end_seconds\": 99.9, \"exit_code\": null, \"signal\": 6}," \
    " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 134, \"signal\": null}]"

/* A program aborts because of what it could not have; also where its script says which command that was. */
static void test_abort(void **state)
{
    put_abort(99.9);
    put_matched(99.8, "cxx_exception", "error", "terminate called after throwing an instance of 'std::bad_alloc'");
    expect(ask(ABORTED), NOTE_cause_gave_up, true,
           "grid gave up: terminate called after throwing an instance of 'std::bad_alloc'");
    put_matched(99.8, "out_of_memory", "error", "  what():  std::bad_alloc");
    put_matched(99.95, "abort", "error", "job.sh: line 3: 20 Aborted");
    put_failure(99.95, 10, 3, 134);
    expect(ask(ABORTED), NOTE_cause_said, false, "probably there was not enough memory: what():  std::bad_alloc");
}

/* It was dealt with: what was said after it is why. What stderr says of another signal need not be why. */
static void test_abort_later(void **state)
{
    put_abort(99.9);
    put_matched(90, "out_of_memory", "error", "grid: Cannot allocate memory");
    expect(ask(ABORTED), NOTE_cause_crash, true, "grid crashed by SIGABRT");
    put_matched(97, "out_of_memory", "error", "grid: Cannot allocate memory");
    expect(ask(ABORTED), NOTE_cause_said, false, "probably there was not enough memory: grid: Cannot allocate memory");
    put_matched(99.9, "assertion", "error", "grid: grid.c:7: main: Assertion `cells' failed.");
    expect(ask(ABORTED), NOTE_cause_gave_up, true, "grid gave up: grid: grid.c:7: main: Assertion `cells' failed.");
}

/* The script went on: what made it fail comes first. */
static void test_crash_survived(void **state)
{
    static const char later[] =
        "[{\"pid\": 20, \"name\": \"sort\", \"start_seconds\": 99.4, \"end_seconds\": 99.9, \"exit_code\": 2},"
        " {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 2}]";
    put_crash(99.3, 15);
    expect(ask(later), NOTE_cause_crash, false,
           "probably crashy crashed by SIGSEGV, a NULL pointer; sort (pid 20) then ended with exit status 2");
    put_log(99.8, "warning", "sort: cannot read: missing: No such file or directory");
    expect(ask(later), NOTE_cause_log, false,
           "probably what stderr says: sort: cannot read: missing: No such file or directory");
}

/* Of Python without a stack: where it was seen last; that is no place of the crash. */
static void test_crash_seen(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"crashy\", \"end_seconds\": 99.8, \"exit_code\": null, "
                                "\"signal\": 11}]";
    put_crash(99.8, 20);
    for (int python = 0; python < 2; python++) {
        PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s}", "type", "script_line", "t", 99.4, "pid", 20, "language",
            python ? "python" : "bash", "file", "/home/u/cty.py", "line", 14, "function", "main");
        expect(ask_end(chain, 0, 11, NULL), NOTE_cause_crash, true,
               python ? "crashy crashed by SIGSEGV, a NULL pointer; 0.4 s before it was seen at cty.py:14 in main"
                      : "crashy crashed by SIGSEGV, a NULL pointer");
    }
}

/* A script that ends with a status of its own may have other reasons. */
static void test_crash_in_background(void **state)
{
    put_crash(99.8, 20);
    expect(ask("[{\"pid\": 20, \"name\": \"crashy\", \"end_seconds\": 99.8, \"exit_code\": null, \"signal\": 11},"
               " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 5, \"signal\": null}]"),
           NOTE_cause_crash, false, "probably crashy crashed by SIGSEGV, a NULL pointer");
    expect(ask("[{\"pid\": 20, \"name\": \"crashy\", \"end_seconds\": 99.8, \"exit_code\": null, \"signal\": 11},"
               " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 139, \"signal\": null}]"),
           NOTE_cause_crash, true, "crashy crashed by SIGSEGV, a NULL pointer");
    expect(ask("[{\"pid\": 20, \"name\": \"crashy\", \"end_seconds\": 99.8, \"exit_code\": null, \"signal\": 11},"
               " {\"pid\": 10, \"name\": \"make\", \"end_seconds\": 100, \"exit_code\": 2, \"signal\": null}]"),
           NOTE_cause_crash, true, "crashy crashed by SIGSEGV, a NULL pointer");
}

/* Any program can say that; and what it ended with is known. */
static void test_disk_of_exception(void **state)
{
    put_exception(99.6, 20, "OSError", "[Errno 28] No space left on device");
    expect(ask(TWO), NOTE_cause_exception, true,
           "an exception of Python that nothing caught, at steer.py:12: OSError: [Errno 28] No space left on device");
    put_disk(60, 100000, 5000);
    put_disk(99, 100000, 3);
    expect(ask(TWO), NOTE_cause_disk_full, true, "the disk of /work was full");
}

/* Its process has the interpreter's name. */
static void test_log_of_script(void **state)
{
    put_log(99.9, "warning", "steer.py: no grid");
    expect(ask("[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99.9, \"exit_code\": 1,"
               " \"argv\": [\"python3\", \"-u\", \"/home/u/steer.py\", \"x\"]},"
               " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 1}]"),
           NOTE_cause_log, false, "probably what stderr says: steer.py: no grid");
}

static void test_crash(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b, s:s, s:[{s:i, s:s, s:s}, {s:i, s:s, s:s, s:i}]}", "type", "crash", "t", 99.8,
        "pid", 20, "name", "python3", "signal", 11, "core_dumped", 0, "reason", "a NULL pointer", "frames", "pc", 1,
        "function", "memcpy", "module", "libc.so.6", "pc", 2, "function", "step", "file", "/src/physics.c", "line", 20);
    expect(ask("[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99.9, \"exit_code\": null, \"signal\": 11},"
               " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 139, \"signal\": null}]"),
           NOTE_cause_crash, true, "python3 crashed by SIGSEGV, a NULL pointer, in step at physics.c:20");
    expect(ask(ONE), NOTE_cause_crash, false,
           "probably python3 crashed by SIGSEGV, a NULL pointer, in step at physics.c:20");
}

/* Below the library of mathematics, too, which may have lines. */
static void test_crash_below_libm(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b, s:[{s:i, s:s, s:s, s:s, s:i}, {s:i, s:s, s:s, s:i}]}", "type", "crash", "t",
        99.8, "pid", 20, "name", "prog", "signal", 8, "core_dumped", 0, "frames", "pc", 1, "function",
        "__math_divzerof", "module", "/lib/x86_64-linux-gnu/libm.so.6", "file", "./math/math_errf.c", "line", 68, "pc",
        2, "function", "solve", "file", "/src/prog.f90", "line", 10);
    expect(ask(ONE), NOTE_cause_crash, false, "probably prog crashed by SIGFPE, in solve at prog.f90:10");
}

/* Of the kernel's log, which has no callers: of a library its name, and no line that is not the user's; where Python was, beside it. */
static void test_crash_by_log(void **state)
{
    static const struct {
        const char *frame, *text;
    } rows[] = {
        {"\"function\": \"strlen\", \"module\": \"/lib/libc.so.6\", \"file\": \"./string/strlen.S\", \"line\": 79",
         ", in strlen of libc.so.6"},
        {"\"module\": \"libwork.so.2\"", ", in libwork.so.2"},
        {"\"module\": \"/w/solver\"", ""},
        {"\"function\": \"walk\", \"module\": \"/w/libwork.so\"", ", in walk"},
        {"\"function\": \"walk\", \"module\": \"/w/solver\", \"file\": \"/w/list.c\", \"line\": 14",
         ", in walk at list.c:14"},
    };
    char text[1000];
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        const size_t row = i / 2;
        const bool python = i % 2;
        json_array_clear(model.crashes);
        snprintf(text, sizeof text,
                 "{\"type\": \"crash\", \"t\": 99.8, \"pid\": %d, \"name\": \"prog\", \"signal\": 11, \"core_dumped\": "
                 "false, "
                 "\"frames\": [{\"pc\": 1, %s}]}",
                 python ? 20 : 10, rows[row].frame);
        PUT("o", json_loads(text, 0, NULL));
        if (python)
            PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s}", "type", "script_line", "t", 99.4, "pid", 20, "language",
                "python", "file", "/home/u/cty.py", "line", 14, "function", "main");
        snprintf(text, sizeof text, "%sprog crashed by SIGSEGV%s%s", python ? "probably " : "", rows[row].text,
                 python ? "; 0.4 s before it was seen at cty.py:14 in main" : "");
        expect(ask(ONE), NOTE_cause_crash, !python, text);
    }
}

/* Without frames, where faulthandler of Python says that it was. */
static void test_crash_with_faulthandler(void **state)
{
    put_matched(99.8, "fault_place", "info",
                "Current thread 0x00007fcd17db59c0 (most recent call first): File \"/w/main.py\", line 3 in inner");
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b}", "type", "crash", "t", 99.9, "pid", 10, "name", "python3", "signal", 11,
        "core_dumped", 0);
    expect(ask(ONE), NOTE_cause_crash, true, "python3 crashed by SIGSEGV, at main.py:3");
}

/* A crash in a package of Python, or one below ctypes, has the user's own line; one in a library of the user's has that. */
static void test_crash_below_python(void **state)
{
    static const char format[] =
        "{\"type\": \"crash\", \"t\": 99.8, \"pid\": 20, \"name\": \"python3\", \"signal\": 11, \"core_dumped\": "
        "false, \"frames\": [{\"pc\": 1, \"function\": \"string_at\", \"module\": \"%s\", \"file\": "
        "\"/build/work.c\", \"line\": 5564}, {\"pc\": 2, \"function\": \"ffi_call\", \"module\": "
        "\"/usr/lib/libffi.so.8\"}, {\"pc\": 3, \"language\": \"python\", \"function\": \"string_at\", \"file\": "
        "\"/usr/lib/python3.11/ctypes/__init__.py\", \"line\": 519}, {\"pc\": 3, \"language\": \"python\", "
        "\"function\": \"peek\", \"file\": \"%s\", \"line\": 2}]}";
    static const struct {
        const char *module, *file, *text;
    } rows[] = {
        {"/usr/lib/python3.11/lib-dynload/_ctypes.so", "/w/seg.py", "in peek at seg.py:2"},
        {"/venv/lib/python3.11/site-packages/numpy/core.so", "/w/seg.py", "in peek at seg.py:2"},
        {"/usr/lib/python3.11/lib-dynload/_ctypes.so", "<string>", "in peek at <string>:2"},
        {"/w/libwork.so", "/w/seg.py", "in string_at at work.c:5564"},
    };
    char text[1000], expected[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_array_clear(model.crashes);
        snprintf(text, sizeof text, format, rows[i].module, rows[i].file);
        PUT("o", json_loads(text, 0, NULL));
        snprintf(expected, sizeof expected, "python3 crashed by SIGSEGV, %s", rows[i].text);
        expect(ask_end("[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99.9, \"signal\": 11}]", 0, 11, NULL),
               NOTE_cause_crash, true, expected);
    }
}

/* Where a program aborted is not in the library that does it. */
static void test_crash_in_library(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b, s:[{s:i, s:s, s:s, s:s, s:i}, {s:i, s:s, s:s}, {s:i, s:s, s:s}]}", "type",
        "crash", "t", 99.9, "pid", 20, "name", "grid", "signal", 6, "core_dumped", 0, "frames", "pc", 1, "function",
        "raise", "module", "/lib/x86_64-linux-gnu/libc.so.6", "file", "raise.c", "line", 51, "pc", 2, "function",
        "std::terminate()", "module", "/lib/x86_64-linux-gnu/libstdc++.so.6", "pc", 3, "function", "solve", "module",
        "/home/u/grid");
    put_matched(99.8, "cxx_exception", "error",
                "terminate called after throwing an instance of 'std::runtime_error' what(): no mesh");
    expect(
        ask(ABORTED), NOTE_cause_gave_up, true,
        "grid gave up, in solve: terminate called after throwing an instance of 'std::runtime_error' what(): no mesh");
}

/* If all of them are: it is named, not its line. */
static void test_crash_in_libraries(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b, s:[{s:i, s:s, s:s, s:s, s:i}, {s:i, s:s}, {s:i, s:s}]}", "type", "crash", "t",
        99.9, "pid", 20, "name", "grid", "signal", 6, "core_dumped", 0, "frames", "pc", 1, "function", "__strlen_evex",
        "module", "/lib/x86_64-linux-gnu/libc.so.6", "file", "strlen-evex.S", "line", 79, "pc", 2, "module",
        "/usr/lib/python3.11/lib-dynload/_ctypes.so", "pc", 3, "module", "/usr/bin/python3.11");
    expect(ask(ABORTED), NOTE_cause_crash, true, "grid crashed by SIGABRT, in __strlen_evex of libc.so.6");
}

/* Nor in a header of the compiler, of which a template is compiled into the program. */
static void test_crash_in_template(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b, s:[{s:i, s:s, s:s, s:s, s:i}, {s:i, s:s, s:s, s:s, s:i}]}", "type", "crash",
        "t", 99.9, "pid", 20, "name", "grid", "signal", 6, "core_dumped", 0, "frames", "pc", 1, "function",
        "std::vector<int>::at(unsigned long)", "module", "/home/u/grid", "file",
        "/usr/include/c++/12/bits/stl_vector.h", "line", 1175, "pc", 2, "function", "main", "module", "/home/u/grid",
        "file", "/home/u/grid.cc", "line", 3);
    expect(ask(ABORTED), NOTE_cause_crash, true, "grid crashed by SIGABRT, in main at grid.cc:3");
}

static void test_limit(void **state)
{
    expect(ask_end(ONE, 152, 24, "its limit of processor time (ulimit -t 5)"), NOTE_cause_limit, true,
           "the command was killed by SIGXCPU, because of a limit: its limit of processor time (ulimit -t 5)");
    expect(ask_end("[{\"pid\": 20, \"name\": \"dd\", \"end_seconds\": 99.9, \"signal\": 25}]", 153, 0, NULL),
           NOTE_cause_limit, false,
           "dd was killed by SIGXFSZ, probably because of a limit: a file grew beyond its limit (ulimit -f)");
    put_warning(90, NOTE(cpu_limit, .pid = 77, .program = "worker", .limit_seconds = 60, .left_seconds = 6));
    assert_int_equal(ask(KILLED).kind, NOTE_cause_killed);
    put_warning(90, NOTE(cpu_limit, .pid = 20, .program = "worker", .limit_seconds = 60, .left_seconds = 6));
    expect(ask(KILLED), NOTE_cause_limit, false,
           "worker was killed by SIGKILL, probably because of a limit: its limit of processor time (ulimit -t)");
}

static void put_address_limit(void)
{
    PUT("{s:s, s:f, s:b, s:i, s:i, s:i}", "type", "end", "t", 100.0, "started", 1, "exit_code", 1, "signal", 0,
        "address_limit_bytes", 200 << 20);
}

/* Of memory that was refused, the limit that did; a pointer that is NULL for lack of memory looks as any other one. */
static void test_address_limit(void **state)
{
    put_matched(99.9, "out_of_memory", "error", "a.out: malloc: Cannot allocate memory");
    put_address_limit();
    expect(ask(ONE), NOTE_cause_said, false,
           "probably there was not enough memory (its address space may have 200 MB: ulimit -v): a.out: malloc: Cannot "
           "allocate memory");
}

static void test_own_heap(void **state)
{
    static const char text[] = "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory";
    put_matched(99.9, "out_of_memory", "error", text);
    put_address_limit();
    expect(ask(ONE), NOTE_cause_said, false,
           "probably there was not enough memory: FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap "
           "out of memory");
}

/* The smaller limit is what refused it: a task has one of data. */
static void test_data_limit(void **state)
{
    put_matched(99.9, "out_of_memory", "error", "a.out: malloc: Cannot allocate memory");
    PUT("{s:s, s:f, s:b, s:i, s:i, s:i, s:i}", "type", "end", "t", 100.0, "started", 1, "exit_code", 1, "signal", 0,
        "address_limit_bytes", 200 << 20, "data_limit_bytes", 100 << 20);
    expect(ask(ONE), NOTE_cause_said, false,
           "probably there was not enough memory (its data may have 100 MB: ulimit -d): a.out: malloc: Cannot allocate "
           "memory");
}

/* Whatever words a program has for it. */
static void test_address_limit_of_words(void **state)
{
    put_log(99.9, "error", "leak: step 776: cannot allocate work array");
    put_address_limit();
    expect(ask(ONE), NOTE_cause_log, false,
           "probably what stderr says: leak: step 776: cannot allocate work array (its address space may have 200 MB: "
           "ulimit -v)");
    put_log(99.95, "error", "a.out: no cells");
    expect(ask(ONE), NOTE_cause_log, false, "probably what stderr says: a.out: no cells");
}

static void test_address_limit_of_crash(void **state)
{
    static const int peaks[] = {100, 190};
    static const char *const texts[] = {"", ", with 190 MB of the 200 MB that its address space may have (ulimit -v)"};
    char text[200];
    put_address_limit();
    PUT("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "crash", "t", 99.9, "pid", 10, "name", "a.out", "signal", 11,
        "reason", "a NULL pointer");
    for (int i = 0; i < 2; i++) {
        PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 99.9, "pid", 10,
            "ppid", 1, "name", "a.out", "start", 1.0, "end", 99.9, "cpu_ns", 1, "threads", 1, "peak_rss",
            peaks[i] << 20, "status", 11);
        snprintf(text, sizeof text, "a.out crashed by SIGSEGV, a NULL pointer%s", texts[i]);
        expect(ask_end("[{\"pid\": 10, \"name\": \"a.out\", \"end_seconds\": 100, \"signal\": 11}]", 139, 11, NULL),
               NOTE_cause_crash, true, text);
    }
}

/* Near to address 0 it may also have been refused much at once; elsewhere that says nothing. */
static void test_address_limit_of_null(void **state)
{
    static const int addresses[] = {0x320, 0x400320};
    static const char *const texts[] = {
        "; perhaps it had asked for more memory than the 200 MB that its address space may have (ulimit -v)", ""};
    char text[200];
    put_address_limit();
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 99.9, "pid", 10, "ppid",
        1, "name", "a.out", "start", 1.0, "end", 99.9, "cpu_ns", 1, "threads", 1, "peak_rss", 1 << 20, "status", 11);
    for (int i = 0; i < 2; i++) {
        PUT("{s:s, s:f, s:i, s:s, s:i, s:i}", "type", "crash", "t", 99.9, "pid", 10, "name", "a.out", "signal", 11,
            "address", addresses[i]);
        snprintf(text, sizeof text, "a.out crashed by SIGSEGV%s", texts[i]);
        expect(ask_end("[{\"pid\": 10, \"name\": \"a.out\", \"end_seconds\": 100, \"signal\": 11}]", 139, 11, NULL),
               NOTE_cause_crash, true, text);
    }
}

static void test_exception(void **state)
{
    put_failure(99.95, 10, 4, 1);
    put_exception(99.5, 20, "ValueError", "no such grid\nmore");
    struct told told = ask(TWO);
    expect(told, NOTE_cause_exception, true,
           "an exception of Python that nothing caught, at steer.py:12: ValueError: no such grid");
    assert_string_equal(told.evidence, "[1]");
}

/* Where it was raised, by the traceback above it. */
static void test_exception_said(void **state)
{
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:i, s:i, s:s}", "type", "log", "t", 99.9, "file", "stderr", "pattern",
        "exception", "level", "error", "text", "KeyError: 'gamma'", "line", 7, "folded", 0, "place",
        "/home/u/key.py:3");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: KeyError: 'gamma', at key.py:3");
}

/* subprocess.run(check=True) tells the status of what it ran; that has said why. */
static void test_exception_of_child(void **state)
{
    static const char chain[] = "[{\"pid\": 21, \"name\": \"grep\", \"end_seconds\": 99.8, \"exit_code\": 2},"
                                " {\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 1}]";
    put_log(99.8, "warning", "grep: missing.csv: No such file or directory");
    put_exception(99.9, 10, "CalledProcessError", "Command 'grep' returned non-zero exit status 2.");
    expect(ask(chain), NOTE_cause_exception, true,
           "an exception of Python that nothing caught, at steer.py:12: CalledProcessError: Command 'grep' returned "
           "non-zero exit status 2, which said: grep: missing.csv: No such file or directory");
    expect(ask(ONE), NOTE_cause_exception, true,
           "an exception of Python that nothing caught, at steer.py:12: CalledProcessError: Command 'grep' returned "
           "non-zero exit status 2.");
}

/* What a library has raised is where the user's own code called it. */
static void test_exception_in_library(void **state)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:s, s:s, s:s, s:i, s:b, s:[{s:s, s:s, s:i}, {s:s, s:s, s:i}, {s:s, s:s, s:i}]}",
        "type", "python_exception", "t", 99.5, "pid", 20, "tid", 20, "name", "CalledProcessError", "message", "",
        "file", "/usr/lib/python3.11/subprocess.py", "function", "run", "line", 571, "caught", 0, "traceback",
        "function", "run", "file", "/usr/lib/python3.11/subprocess.py", "line", 571, "function", "build", "file",
        "/home/u/steer.py", "line", 3, "function", "<module>", "file", "/home/u/steer.py", "line", 4);
    expect(ask(TWO), NOTE_cause_exception, true,
           "an exception of Python that nothing caught, at steer.py:3: CalledProcessError");
}

/* Of another process than those that made the command fail; a way to exit is no error. */
static void test_exception_elsewhere(void **state)
{
    put_exception(99.6, 20, "SystemExit", "1");
    put_exception(99.5, 33, "ValueError", "");
    expect(ask(TWO), NOTE_cause_exception, false,
           "probably an exception of Python that nothing caught, at steer.py:12: ValueError");
}

/* It ends the thread, and the program goes on; what ends a program gives it the status 1. */
static void test_exception_of_thread(void **state)
{
    put_exception_of(99.5, 20, 21, "ValueError", "");
    expect(ask(TWO), NOTE_cause_exception, false,
           "probably an exception of Python that nothing caught, at steer.py:12: ValueError");
    put_exception(99.6, 10, "KeyError", "");
    expect(ask("[{\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 4, \"signal\": null}]"),
           NOTE_cause_exception, false,
           "probably an exception of Python that nothing caught, at steer.py:12: KeyError");
}

/* It was ended before its standstill was recorded. */
static void test_mpi_stuck(void **state)
{
    stuck = "deadlock: ranks 0 and 1 wait for each other";
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by SIGTERM: deadlock: ranks 0 and 1 wait for each other");
    expect(ask(ONE), NOTE_NONE, false, "");
    stuck = NULL;
}

/* Open MPI's mpirun that is asked to end, and cannot end its ranks in time, ends with 1. */
static void test_launcher_was_asked(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"mpirun\", \"end_seconds\": 100, \"exit_code\": 1, "
                                "\"signal\": null}]";
    stuck = "deadlock: ranks 0 and 1 wait for each other";
    assert_int_not_equal(ask_end(chain, 1, 0, NULL).kind, NOTE_cause_mpi_stall);
    put_warning(99.7, NOTE(signal_came, .signal = "SIGTERM", .sender = "timeout (pid 7)"));
    expect(ask_end(chain, 1, 0, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by SIGTERM from timeout (pid 7): deadlock: ranks 0 and 1 wait "
           "for each other");
    stuck = NULL;
}

/* A launcher that crashes when it is to end its ranks hides nothing. */
static void test_launcher_fell(void **state)
{
    static const char fell[] = "[{\"pid\": 20, \"name\": \"mpirun\", \"end_seconds\": 100, \"exit_code\": null, "
                               "\"signal\": 11}]";
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b}", "type", "crash", "t", 99.95, "pid", 20, "name", "mpirun", "signal", 11,
        "core_dumped", 0);
    assert_int_equal(ask_end(fell, 139, 11, NULL).kind, NOTE_cause_crash);
    put_warning(99.5, NOTE(signal_came, .signal = "SIGTERM", .sender = "bash (pid 7)"));
    expect(ask_end(fell, 139, 11, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from bash (pid 7) 0.5 s before the end");
    stuck = "deadlock: ranks 0 and 1 wait for each other";
    expect(ask_end(fell, 139, 11, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by SIGTERM from bash (pid 7): deadlock: ranks 0 and 1 wait for "
           "each other");
    stuck = NULL;
}

#define TIMED_OUT \
    "[{\"pid\": 20, \"name\": \"timeout\", \"start_seconds\": 25, \"end_seconds\": 99.9, \"exit_code\": 124, " \
    "\"argv\": " \
    "[\"timeout\", \"74\", \"mpirun\"]}," \
    " {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 1}]"

/* timeout(1) has ended it: what its launcher says then, or does, is no reason, nor is the status of the script. */
static void test_timeout_of_launcher(void **state)
{
    put_matched(99.9, "mpi_abort", "error", "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES");
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b}", "type", "crash", "t", 99.85, "pid", 21, "name", "mpirun", "signal", 11,
        "core_dumped", 0);
    expect(ask(TIMED_OUT), NOTE_cause_limit, true,
           "mpirun was killed by SIGTERM, because of a limit: the 74 s that timeout(1) gave it");
    stuck = "deadlock: ranks 0 and 1 wait for each other";
    expect(ask(TIMED_OUT), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by timeout(1) after 74 s: deadlock: ranks 0 and 1 wait for each "
           "other");
    expect(
        ask("[{\"pid\": 20, \"name\": \"timeout\", \"start_seconds\": 10, \"end_seconds\": 99.9, \"exit_code\": 124, "
            "\"argv\": [\"timeout\", \"-s\", \"INT\", \"74\", \"mpirun\"]}]"),
        NOTE_cause_mpi_stall, false,
        "probably stuck in MPI, until it was ended: deadlock: ranks 0 and 1 wait for each other");
    stuck = NULL;
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b}", "type", "crash", "t", 90.0, "pid", 22, "name", "mpirun", "signal", 11,
        "core_dumped", 0); /* of another one, before */
    assert_int_not_equal(ask(TIMED_OUT).kind, NOTE_cause_mpi_stall);
}

/* An error ended one rank, which then waited in MPI_Finalize for the others, and they for it. */
static void test_stuck_after_error(void **state)
{
    stuck = "deadlock: ranks 0 and 1 wait for each other";
    left_at = 20;
    put_log(5, "error", "long before");
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:i, s:i, s:s}", "type", "log", "t", 20.2, "file", "stderr", "pattern",
        "exception", "level", "error", "text", "KeyError: 'columns'", "line", 7, "folded", 0, "place", "/u/main.py:7");
    put_log(60, "error", "long after");
    for (int i = 0; i < 2; i++) {
        expect(
            i ? ask_end("[]", 143, 15, NULL) : ask(TIMED_OUT), NOTE_cause_log, false,
            i ? "probably what stderr says: KeyError: 'columns', at main.py:7; then stuck in MPI, until it was ended "
                "by SIGTERM: deadlock: ranks 0 and 1 wait for each other"
              : "probably what stderr says: KeyError: 'columns', at main.py:7; then stuck in MPI, until it was ended "
                "by timeout(1) after 74 s: deadlock: ranks 0 and 1 wait for each other");
    }
    left_at = 40; /* it had nothing to do with that */
    assert_int_equal(ask(TIMED_OUT).kind, NOTE_cause_mpi_stall);
    left_at = 0;
    stuck = NULL;
}

/* They waited for one that was late: that is no standstill, but what the end came in. */
static void test_mpi_late(void **state)
{
    late = "rank 1 computed for 67.0 s while 1 rank waited for it, in MPI_Barrier at main (a.c:4)";
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_mpi_late, false,
           "probably a late rank, until it was ended by SIGTERM: rank 1 computed for 67.0 s while 1 rank waited for "
           "it, in "
           "MPI_Barrier at main (a.c:4)");
    expect(ask(ONE), NOTE_NONE, false, "");
    late = NULL;
}

/* Not for so long that it is the reason by itself: then what ended the job is told with it. */
static void test_mpi_waited(void **state)
{
#define WAITED "rank 1 computed for 18.0 s while 1 rank waited for it, in MPI_Barrier at main (a.c:4)"
    waited = WAITED;
    expect(ask(TIMED_OUT), NOTE_cause_limit, true,
           "mpirun was killed by SIGTERM, because of a limit: the 74 s that timeout(1) gave it; before: " WAITED);
    expect(ask_end("[{\"pid\": 20, \"name\": \"mpirun\", \"end_seconds\": 99, \"signal\": 15}]", 143, 0, NULL),
           NOTE_cause_killed, false,
           "mpirun was killed by SIGTERM, probably by its own job, or from outside: by a batch system's limit, or by "
           "somebody; before: " WAITED);
    put_warning(99, NOTE(signal_came, .signal = "SIGTERM", .sender = "bash (pid 7)"));
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from bash (pid 7) 1.0 s before the end; before: " WAITED);
    /* but for as long as --mpi-stall says; what it was in then is known better at the end */
    PUT("{s:s, s:f, s:f, s:i, s:s}", "type", "stall", "t", 90.0, "seconds", 2.0, "ranks", 2, "why",
        "1 rank waits for rank 1, which computes");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_mpi_late, false,
           "probably a late rank, until it was ended by SIGTERM from bash (pid 7): " WAITED);
    waited = NULL;
}

static void test_mpi_stall(void **state)
{
    PUT("{s:s, s:f, s:f, s:i, s:s}", "type", "stall", "t", 50.0, "seconds", 2.0, "ranks", 2, "why",
        "ranks 0 and 1 wait for each other");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by SIGTERM: ranks 0 and 1 wait for each other");
    expect(ask_end("[]", 124, 0, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended: ranks 0 and 1 wait for each other");
    expect(ask(ONE), NOTE_NONE, false, "");
    put_warning(52, NOTE(mpi_stalled, .seconds = 3, .finding = "deadlock: rank 0"));
    struct told told = ask_end("[]", 143, 15, NULL);
    expect(told, NOTE_cause_mpi_stall, false, "probably stuck in MPI, until it was ended by SIGTERM: deadlock: rank 0");
    assert_string_equal(told.evidence, "[0,1]");
    stuck = "deadlock: ranks 0 and 1 wait for each other, in MPI_Recv at exchange (recv.c:2)";
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by SIGTERM: deadlock: ranks 0 and 1 wait for each other, in "
           "MPI_Recv at "
           "exchange (recv.c:2)");
    stuck = NULL;
}

/* What MPICH's launcher says of ranks that were ended by SIGTERM, as it was itself, is no reason: what they were ended for is. */
static void test_ended_ranks(void **state)
{
    static const char chain[] =
        "[{\"pid\": 21, \"name\": \"a.out\", \"end_seconds\": 99.8, \"signal\": 15}, {\"pid\": 20, "
        "\"name\": \"hydra_pmi_proxy\", \"end_seconds\": 99.9, \"exit_code\": 0}, {\"pid\": 10, "
        "\"name\": \"mpiexec\", \"end_seconds\": 100, \"exit_code\": 15}]";
    put_matched(99.9, "mpi_abort", "error", "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES");
    assert_int_equal(ask_end(chain, 15, 0, NULL).kind, NOTE_cause_said); /* nothing else is known */
    put_warning(99.7, NOTE(signal_came, .signal = "SIGTERM", .sender = "bash (pid 7)"));
    expect(ask_end(chain, 15, 0, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from bash (pid 7) 0.3 s before the end");
    PUT("{s:s, s:f, s:f, s:i, s:s}", "type", "stall", "t", 50.0, "seconds", 2.0, "ranks", 2, "why",
        "ranks 0 and 1 wait for each other");
    expect(ask_end(chain, 15, 0, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by SIGTERM from bash (pid 7): ranks 0 and 1 wait for each other");
}

/* What a pipeline writes that its last command does not read fails only with pipefail, which says nothing itself. */
static void test_pipefail(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"yes\", \"start_seconds\": 99, \"end_seconds\": 99.5, "
                                "\"signal\": 13}, {\"pid\": 10, "
                                "\"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 141}]";
    expect(ask_end(chain, 141, 0, NULL), NOTE_cause_process, false, "probably yes (pid 20), which ended by SIGPIPE");
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", 99.5, "pid", 21, "ppid", 10, "name",
        "head", "start", 99.01, "end", 99.5, "status", 0);
    expect(ask_end(chain, 141, 0, NULL), NOTE_cause_process, false,
           "probably yes (pid 20), which ended by SIGPIPE, as head (pid 21) read no more: a failure only because of "
           "pipefail");
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", 99.51, "pid", 22, "ppid", 10, "name",
        "sort", "start", 99.01, "end", 99.51, "status", 0); /* behind that */
    expect(ask_end(chain, 141, 0, NULL), NOTE_cause_process, false,
           "probably yes (pid 20), which ended by SIGPIPE, as head (pid 21) read no more: a failure only because of "
           "pipefail");
    PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s, s:i}", "type", "command_failed", "t", 99.95, "pid", 10, "language", "bash",
        "file", "/home/u/job.sh", "line", 4, "command", "yes | head -n 1", "status", 141);
    expect(
        ask_end(chain, 141, 0, NULL), NOTE_cause_command, true,
        "the command at job.sh:4, which failed with 141: yes | head -n 1, where yes had nobody to read on (SIGPIPE): a "
        "failure only because of pipefail");
}

/* A launcher ends what it has started where a program is not found on another node. */
static void test_not_found_elsewhere(void **state)
{
    put_matched(97, "command_not_found", "error", "mpirun was unable to launch the specified application");
    expect(ask_end("[{\"pid\": 20, \"name\": \"tool\", \"end_seconds\": 97.5, \"exit_code\": null, \"signal\": 15}]",
                   132, 0, NULL),
           NOTE_cause_said, false,
           "probably a program was not found: mpirun was unable to launch the specified application");
}

/* By somebody who may, from elsewhere; what was refused, and what was long ago, killed nobody. */
static void test_asked(void **state)
{
    PUT("{s:s, s:f, s:s, s:s, s:s}", "type", "request", "t", 99.8, "who", "eve", "status", "OMIS_NO_PERMISSION",
        "request", ": proc_send_signal");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_killed, false,
           "the command was killed by SIGTERM, probably by its own job, or from outside: by a batch system's limit, or "
           "by somebody");
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.9, "who", "laptop", "serial", "01ab", "status",
        "OMIS_OK", "request", ": proc_send_signal([p_1_1], 15)");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_asked, false,
           "the command was killed by SIGTERM, probably by laptop, who sent it through a broker");
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.9, "who", "scry", "serial", "", "status",
        "OMIS_OK", "request", ": proc_send_signal([p_1_1], 15)");
    PUT("{s:s, s:f, s:s, s:s, s:s, s:i}", "type", "request", "t", 99.9, "who", "", "status", "", "request", "",
        "left_out", 3);
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_asked, false,
           "the command was killed by SIGTERM, probably by scry, a tool on its node");
}

/* Not mpirun, which only passes it on; not what the job goes on after, nor a signal that did not kill it. */
static void test_asked_of_mpirun(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"ocean\", \"end_seconds\": 99.9, \"exit_code\": null, "
                                "\"signal\": 15}, {\"pid\": 10, \"name\": \"mpirun\", \"end_seconds\": 100, "
                                "\"exit_code\": 1, \"signal\": null}]";
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.0, "who", "laptop", "serial", "01ab", "status",
        "OMIS_OK", "request", ": proc_send_signal([p_1_1, p_1_2], 10)");
    assert_int_equal(ask_end(chain, 1, 0, NULL).kind, NOTE_cause_launcher);
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.1, "who", "laptop", "serial", "01ab", "status",
        "OMIS_OK", "request", ": proc_attach3([], 10, \"\") proc_send_signal([], 15)");
    expect(ask_end(chain, 1, 0, NULL), NOTE_cause_asked, false,
           "ocean was killed by SIGTERM, probably by laptop, who sent it through a broker");
    assert_int_equal(ask_end("[]", 137, 9, NULL).kind, NOTE_cause_killed);
    static const char other[] = "[{\"pid\": 20, \"name\": \"ocean\", \"end_seconds\": 99.9, \"exit_code\": null, "
                                "\"signal\": 9}, {\"pid\": 10, \"name\": \"mpirun\", \"end_seconds\": 100, "
                                "\"exit_code\": 1, \"signal\": null}]"; /* it ends its ranks as it likes */
    expect(ask_end(other, 1, 0, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from laptop 0.9 s before the end: it was sent through a broker");
    expect(ask_end("[]", 9, 0, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from laptop 0.9 s before the end: it was sent through a broker");
}

static void test_killed_by_launcher(void **state)
{
    static const char *const chain = "[{\"pid\": 20, \"name\": \"tool\", \"end_seconds\": 97.5, \"exit_code\": null, "
                                     "\"signal\": 15}, {\"pid\": 10, \"name\": \"mpirun.openmpi\", \"end_seconds\": "
                                     "100, \"exit_code\": %d, \"signal\": null}]";
    char text[512];
    snprintf(text, sizeof text, chain, 132);
    expect(ask_end(text, 132, 0, NULL), NOTE_cause_launcher, false,
           "tool was killed by SIGTERM, probably by mpirun.openmpi, which ended with exit status 132 and has said why");
    struct told told = ask_end("[{\"pid\": 20, \"name\": \"tool\", \"end_seconds\": 97.5, \"signal\": 15}, "
                               "{\"pid\": 15, \"name\": \"orted\", \"end_seconds\": 99, \"exit_code\": 1}, "
                               "{\"pid\": 0, \"name\": \"srun\", \"end_seconds\": 100, \"exit_code\": 132}]",
                               132, 0, NULL); /* not its daemon there */
    expect(told, NOTE_cause_launcher, false,
           "tool was killed by SIGTERM, probably by srun, which ended with exit status 132 and has said why");
    snprintf(text, sizeof text, chain, 143);
    expect(ask_end(text, 143, 0, NULL), NOTE_cause_killed, false,
           "tool was killed by SIGTERM, probably by its own job, or from outside: by a batch system's limit, or by "
           "somebody");
}

/* An exception of a pool only says that its worker is gone. */
static void test_killed_worker(void **state)
{
    put_log(100, "error", "RuntimeError: worker failed with -9");
    expect(ask_end("[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99.5, \"exit_code\": null, \"signal\": 9},"
                   " {\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 1, \"signal\": null}]",
                   1, 0, NULL),
           NOTE_cause_killed, false,
           "python3 (pid 20), a child of python3 (pid 10), was killed by SIGKILL, probably by its own job, or from "
           "outside: by a batch "
           "system's limit, or by somebody");
}

/* Of a process that mpiexec or its daemon has started. */
static void put_end(int pid, int ppid, const char *name, double end, int status)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 100.0, "pid", pid,
        "ppid", ppid, "name", name, "start", 1.0, "end", end, "cpu_ns", 1, "threads", 1, "peak_rss", 1 << 20, "status",
        status);
}

/* Who writes into a pipeline fails because who reads has failed. */
static void test_writer(void **state)
{
    static const char chain[] =
        "[{\"pid\": 21, \"name\": \"filter\", \"end_seconds\": 99.5, \"exit_code\": 5, \"signal\": null},"
        " {\"pid\": 10, \"name\": \"sh\", \"end_seconds\": 100, \"exit_code\": 2, \"signal\": null}]";
    static const char *const said[] = {"BrokenPipeError: [Errno 32] Broken pipe", "gen: write failed: Broken pipe"};
    for (size_t i = 0; i < 2; i++) {
        put_log(99.6, "error", said[i]);
        struct told alone = ask_end(chain, 2, 0, NULL); /* nobody else failed: it may be a connection */
        assert_int_equal(alone.kind, NOTE_cause_log);
        put_end(22, 10, "gen", 99.55, 1 << 8);
        assert_int_not_equal(ask_end(chain, 2, 0, NULL).kind, NOTE_cause_log);
        tear_down(state); /* the next one begins anew */
        set_up(state);
    }
}

/* Of two programs of Python that ran one after the other it is what the later one said, however close they were. */
static void test_one_after_the_other(void **state)
{
    static const char chain[] =
        "[{\"pid\": 21, \"name\": \"python3\", \"start_seconds\": 99.9, \"end_seconds\": 99.95, \"exit_code\": 1, "
        "\"signal\": null},"
        " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 1, \"signal\": null}]";
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 99.9, "pid", 20, "ppid",
        10, "name", "python3", "start", 99.8, "end", 99.88, "cpu_ns", 1, "threads", 1, "peak_rss", 1 << 20, "status",
        1 << 8);
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", 99.95, "pid", 21, "ppid",
        10, "name", "python3", "start", 99.9, "end", 99.95, "cpu_ns", 1, "threads", 1, "peak_rss", 1 << 20, "status",
        1 << 8);
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:s, s:i}", "type", "log", "t", 99.96, "file", "stderr", "pattern", "exception",
        "level", "error", "text", "FileNotFoundError: optional cache", "place", "/w/run.py:2", "folded", 0);
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:s, s:i}", "type", "log", "t", 99.96, "file", "stderr", "pattern", "exception",
        "level", "error", "text", "KeyError: 'gamma'", "place", "/w/run.py:2", "folded", 0);
    assert_non_null(strstr(ask_end(chain, 1, 0, NULL).text, "KeyError: 'gamma'"));
}

/* Nor is it what the worker said before it aborted. */
static void test_aborted_worker(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:i}", "type", "crash", "t", 99.5, "pid", 20, "name", "python3", "signal", 6);
    put_log(100, "error", "concurrent.futures.process.BrokenProcessPool: A process was terminated abruptly");
    expect(ask_end("[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99.5, \"exit_code\": null, \"signal\": 6},"
                   " {\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 1, \"signal\": null}]",
                   1, 0, NULL),
           NOTE_cause_crash, true, "python3 crashed by SIGABRT");
}

/* MPI was not counted: of the ranks only the processes are known. */
static void test_left(void **state)
{
    static const char mpich[] =
        "[{\"pid\": 21, \"name\": \"solver\", \"end_seconds\": 99.5, \"signal\": 9}, "
        "{\"pid\": 15, \"name\": \"hydra_pmi_proxy\", \"end_seconds\": 99.8, \"exit_code\": 0}, "
        "{\"pid\": 10, \"name\": \"mpiexec.hydra\", \"end_seconds\": 100, \"exit_code\": 9}]";
    static const char openmpi[] = "[{\"pid\": 31, \"name\": \"solver\", \"end_seconds\": 99.5, \"signal\": 15}, "
                                  "{\"pid\": 30, \"name\": \"mpirun\", \"end_seconds\": 100, \"exit_code\": 1}]";
    put_end(21, 15, "solver", 99.5, 9);
    put_end(15, 10, "hydra_pmi_proxy", 99.8, 0);
    put_end(10, 1, "mpiexec.hydra", 100, 9 << 8);
    put_end(31, 30, "solver", 99.5, 15);
    put_end(30, 1, "mpirun", 100, 1 << 8);
    put_end(22, 15, "helper", 99.4, 0);
    put_end(23, 15, "solver", 90, 0); /* it was long over */
    put_end(24, 15, "solver", 99.6, 0);
    assert_int_equal(ask_end(mpich, 9, 0, NULL).kind, NOTE_cause_killed);
    put_end(25, 15, "solver", 99.45, 0);
    put_end(26, 15, "solver", 99.4, 0);
    expect(
        ask_end(mpich, 9, 0, NULL), NOTE_cause_left, false,
        "solver (pid 26) ended first, with exit status 0, probably without MPI_Finalize; mpiexec.hydra then killed the "
        "others by SIGKILL");
    assert_int_equal(ask_end(openmpi, 1, 0, NULL).kind, NOTE_cause_launcher);
    put_end(32, 30, "solver", 98.4, 0);
    expect(ask_end(openmpi, 1, 0, NULL), NOTE_cause_left, false,
           "solver (pid 32) ended first, with exit status 0, probably without MPI_Finalize; mpirun then killed the "
           "others by "
           "SIGTERM");
    put_log(98.4, "error", "ERROR: the mesh is empty");
    expect(ask_end(openmpi, 1, 0, NULL), NOTE_cause_left, false,
           "solver (pid 32) ended first, with exit status 0, probably without MPI_Finalize; mpirun then killed the "
           "others by "
           "SIGTERM: ERROR: the mesh is empty");
    /* a shell does not do that */
    put_end(41, 40, "solver", 99.5, 9);
    put_end(42, 40, "solver", 99.4, 0);
    put_end(40, 1, "sh", 100, 137 << 8);
    assert_int_equal(ask_end("[{\"pid\": 41, \"name\": \"solver\", \"end_seconds\": 99.5, \"signal\": 9}, "
                             "{\"pid\": 40, \"name\": \"sh\", \"end_seconds\": 100, \"exit_code\": 137}]",
                             137, 0, NULL)
                         .kind,
                     NOTE_cause_killed);
    /* somebody asked for it */
    put_warning(99, NOTE(signal_came, .signal = "SIGTERM", .sender = "slurmstepd (pid 7)"));
    assert_int_equal(ask_end(openmpi, 1, 0, NULL).kind, NOTE_cause_signal);
}

/* Where Python stood for long while it did nothing is told of what ended it; of shells, where the last one was. */
static void test_was_at(void **state)
{
#define LIMIT "mpirun was killed by SIGTERM, because of a limit: the 74 s that timeout(1) gave it"
    PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s, s:s}", "type", "script_line", "t", 30.0, "pid", 30, "language", "bash",
        "file", "/home/u/job.sh", "line", 3, "command", "wait $!", "how", "outside");
    put_end(30, 20, "bash", 99.9, 15);
    expect(ask(TIMED_OUT), NOTE_cause_limit, true, LIMIT "; for 70 s before, its script was at job.sh:3: wait $!");
    for (int pid = 31; pid <= 32; pid++) {
        PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s, s:s}", "type", "script_line", "t", 38.0, "pid", pid, "language",
            "python", "file", "/home/u/fit.py", "line", 5, "function", "work", "how", "outside");
        PUT("{s:s, s:f, s:i, s:[{s:i, s:[{s:s, s:s, s:i}]}]}", "type", "python_stack", "t", 39.0, "pid", pid, "threads",
            "tid", pid, "frames", "function", "SemLock.__enter__", "file", "/usr/lib/python3.11/synchronize.py", "line",
            95);
        put_end(pid, 30, "python3", pid == 31 ? 99.9 : 50, 15); /* the second one was over long before */
    }
    expect(ask(TIMED_OUT), NOTE_cause_limit, true,
           LIMIT "; for 62 s before, its program was at fit.py:5 in work (SemLock.__enter__)");
    put_end(32, 30, "python3", 99.9, 15);
    expect(ask(TIMED_OUT), NOTE_cause_limit, true,
           LIMIT "; for 62 s before, 2 processes were at fit.py:5 in work (SemLock.__enter__)");
    model.alive_share = 1;
    expect(ask(TIMED_OUT), NOTE_cause_limit, true, LIMIT);
    model.alive_share = 0;
}

static void test_killed(void **state)
{
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_killed, false,
           "the command was killed by SIGTERM, probably by its own job, or from outside: by a batch system's limit, or "
           "by somebody");
    expect(ask(KILLED), NOTE_cause_killed, false,
           "worker was killed by SIGKILL, probably by its own job, or from outside: by a batch system's limit, or by "
           "somebody");
    expect(ask_end("[{\"pid\": 20, \"name\": \"sleep\", \"end_seconds\": 99.9, \"exit_code\": null, \"signal\": 15},"
                   " {\"pid\": 10, \"name\": \"timeout\", \"end_seconds\": 100, \"exit_code\": 124, \"signal\": null}]",
                   124, 0, NULL),
           NOTE_cause_limit, false,
           "sleep was killed by SIGTERM, probably because of a limit: the time that timeout(1) was given");
    expect(ask_end("[{\"pid\": 20, \"name\": \"timeout\", \"end_seconds\": 99.9, \"exit_code\": 124, \"signal\": null,"
                   " \"argv\": [\"timeout\", \"-k\", \"5\", \"--foreground\", \"60\", \"/usr/bin/solver\", \"x\"]},"
                   " {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 124, \"signal\": null}]",
                   124, 0, NULL),
           NOTE_cause_limit, true,
           "solver was killed by SIGTERM, because of a limit: the 60 s that timeout(1) gave it");
}

static void put_kills(int pid, const char *file, int signo, bool self)
{
    PUT("{s:s, s:f, s:i, s:s*, s:[{s:i, s:i, s:b}]}", "type", "script_kills", "t", 100.0, "pid", pid, "file", file,
        "kills", "line", 5, "signal", signo, "self", self);
}

/* By a kill in the text of a script that lived on, or killed itself; by a program that does so. */
static void test_killed_by_itself(void **state)
{
    static const char unknown[] = "worker was killed by SIGKILL, probably by its own job, or from outside: by a batch "
                                  "system's limit, or by somebody";
    static const char both[] =
        "[{\"pid\": 20, \"name\": \"worker\", \"end_seconds\": 99.9, \"signal\": 9}, {\"pid\": 10, \"name\": \"bash\", "
        "\"end_seconds\": 100, \"signal\": 9}]";
    static const char alone[] = "[{\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"signal\": 9}]";
    put_kills(10, "/home/u/kill9.sh", 15, false);
    assert_string_equal(ask(KILLED).text, unknown);
    put_kills(10, "/home/u/kill9.sh", 9, false);
    struct told told = ask(KILLED);
    expect(told, NOTE_cause_killed, false, "worker was killed by SIGKILL, probably by its own script (kill9.sh:5)");
    assert_string_equal(told.evidence, "[1]");
    put_failure(99.95, 10, 4, 137); /* which command of the script that was says less */
    expect(ask(KILLED), NOTE_cause_killed, false,
           "worker was killed by SIGKILL, probably by its own script (kill9.sh:5)");
    assert_string_equal(ask_end(both, 0, 9, NULL).text, unknown);
    assert_null(strstr(ask_end(alone, 0, 9, NULL).text, "script"));
    put_kills(10, NULL, 9, true);
    assert_string_equal(ask_end(alone, 0, 9, NULL).text, "bash was killed by SIGKILL, probably by its own script");
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:[s, s, s]}", "type", "process_end", "t", 99.9, "pid", 30, "ppid",
        10, "name", "kill", "start", 99.89, "end", 99.9, "status", 0, "argv", "/bin/kill", "-9", "20");
    expect(ask(KILLED), NOTE_cause_killed, false,
           "worker was killed by SIGKILL, probably by kill (pid 30) of its own job");
}

/* A script that handles it ends with what it likes. */
static void test_signal(void **state)
{
    put_warning(90, NOTE(signal_came, .signal = "SIGUSR1", .sender = "x (pid 1)"));
    assert_int_equal(ask(KILLED).kind, NOTE_cause_killed);
    put_warning(98, NOTE(signal_came, .signal = "SIGTERM", .sender = "slurmstepd (pid 7)"));
    put_failure(99.9, 10, 3, 143);
    struct told told =
        ask_end("[{\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 143}]", 143, 0, NULL);
    expect(told, NOTE_cause_signal, false,
           "probably SIGTERM, which came from slurmstepd (pid 7) 2.0 s before the end: a batch system's limit, or "
           "somebody");
    assert_string_equal(told.evidence, "[1]");
    put_warning(99, NOTE(signal_came, .signal = "SIGTERM", .sender = "scry-serve (pid 8)")); /* a name proves nothing */
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from scry-serve (pid 8) 1.0 s before the end");
}

static void test_terminal(void **state)
{
    put_warning(97, NOTE(signal_came, .signal = "SIGHUP", .sender = "the terminal or the kernel"));
    expect(ask_end("[]", 129, 1, NULL), NOTE_cause_signal, false,
           "probably SIGHUP, which came from the terminal or the kernel 3.0 s before the end: its terminal was closed");
    put_warning(97, NOTE(signal_came, .signal = "SIGHUP", .sender = "the kernel"));
    expect(
        ask_end("[]", 129, 1, NULL), NOTE_cause_signal, false,
        "probably SIGHUP, which came from the kernel 3.0 s before the end: the shell that had started it ended while "
        "a process of it was stopped");
    put_warning(98, NOTE(signal_came, .signal = "SIGQUIT", .sender = "the terminal"));
    expect(ask_end("[]", 131, 3, NULL), NOTE_cause_signal, false,
           "probably SIGQUIT, which came from the terminal 2.0 s before the end: somebody pressed Ctrl-\\");
    put_warning(99, NOTE(signal_came, .signal = "SIGINT", .sender = "the terminal"));
    expect(ask_end("[]", 130, 2, NULL), NOTE_cause_signal, false,
           "probably SIGINT, which came from the terminal 1.0 s before the end: somebody pressed Ctrl-C");
    put_warning(99, NOTE(signal_came, .signal = "SIGINT", .sender = "the terminal (pid 7)"));
    expect(ask_end("[]", 130, 2, NULL), NOTE_cause_signal, false,
           "probably SIGINT, which came from the terminal (pid 7) 1.0 s before the end");
}

/* By the request that a page made, not by its program's name; a directory may have any. */
static void test_page(void **state)
{
    static const char *const texts[] = {": job_send_signal(\"/a,9)/\\\"b\", \"page\", 9)",
                                        ":job_send_signal(\"\",\"page\",9)"};
    for (size_t i = 0; i < 2; i++) {
        PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.5, "who", "scry", "serial", "", "status",
            "OMIS_OK", "request", texts[i]);
        expect(ask_end("[]", 137, 9, NULL), NOTE_cause_asked, true,
               "the command was killed by SIGKILL, because somebody asked for it on a page of scry");
    }
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.5, "who", "scry", "serial", "", "status",
        "OMIS_OK", "request", ":job_send_signal(\"\",\"stop\",15)");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_asked, true,
           "the command was killed by SIGTERM, because somebody asked for it by scry stop");
    stuck = "deadlock: ranks 0 and 1 wait for each other";
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_mpi_stall, false,
           "probably stuck in MPI, until it was ended by scry stop: deadlock: ranks 0 and 1 wait for each other");
    stuck = NULL;
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.5, "who", "laptop", "serial", "01", "status",
        "OMIS_OK", "request", ":job_send_signal(\"\",\"page\",15)");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_asked, true,
           "the command was killed by SIGTERM, because somebody asked for it on a page of scry, with the key "
           "laptop");
    expect(ask_end("[]", 3, 0, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from laptop 0.5 s before the end: somebody asked for it on a page of scry");
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 96.5, "who", "scry", "serial", "", "status",
        "OMIS_OK", "request", ":job_send_signal(\"\",\"signal\",10)");
    expect(ask_end("[]", 138, 10, NULL), NOTE_cause_asked, true,
           "the command was killed by SIGUSR1, because somebody asked for it by scry signal");
    expect(ask_end("[]", 3, 0, NULL), NOTE_NONE, false, ""); /* it went on after that */
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "request", "t", 99.5, "who", "tool", "serial", "", "status",
        "OMIS_OK", "request", ": job_send_signal(\"page\", \"no page\", 15)");
    expect(ask_end("[]", 143, 15, NULL), NOTE_cause_asked, false,
           "the command was killed by SIGTERM, probably by tool, a tool on its node");
}

/* Its mpirun is asked, and kills the ranks; a program that handles the signal has a status of its own. */
static void test_task(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"ocean\", \"end_seconds\": 99.9, \"exit_code\": null, "
                                "\"signal\": 9}, {\"pid\": 10, \"name\": \"mpirun\", \"end_seconds\": 100, "
                                "\"exit_code\": 1, \"signal\": null}]";
    put_warning(100, NOTE(task_stopped, .why = "its task came to its limit of time"));
    expect(ask_end("[]", 137, 9, NULL), NOTE_cause_asked, false,
           "the command was killed by SIGKILL, probably because its task came to its limit of time");
    expect(ask_end(chain, 1, 0, NULL), NOTE_cause_asked, false,
           "ocean was killed by SIGKILL, probably because its task came to its limit of time");
    put_warning(99, NOTE(signal_came, .signal = "SIGTERM", .sender = "scry-tasks (pid 8)"));
    expect(ask_end("[]", 3, 0, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from scry-tasks (pid 8) 1.0 s before the end: its task came to its limit of "
           "time");
    expect(ask_end("[]", 139, 11, NULL), NOTE_cause_signal, false,
           "probably SIGTERM, which came from scry-tasks (pid 8) 1.0 s before the end: its task came to its limit of "
           "time");
}

/* Of scripts in scripts the innermost; a failure after which the script went on is only probable. */
static void test_command(void **state)
{
    put_failure(50, 10, 3, 1);
    put_failure(99, 77, 3, 1);
    expect(ask(TWO), NOTE_cause_command, false, "probably the command at job.sh:3, which failed with 1: make all");
    put_failure(99.9, 20, 8, 1);
    put_failure(99.95, 10, 4, 1);
    struct told told = ask(TWO);
    expect(told, NOTE_cause_command, true, "the command at job.sh:8, which failed with 1: make all");
    assert_string_equal(told.evidence, "[2]");
    put_log(99.9, "error", "tee: out: No space left on device");
    assert_int_equal(ask(TWO).kind, NOTE_cause_command);
    put_log(99.9, "error", "worker: out: No space left on device"); /* it says why it failed */
    expect(ask(TWO), NOTE_cause_said, false, "probably a disk was full: worker: out: No space left on device");
}

/* What its command said of a failure below it is less than what was said of that; what killed it, more than which it was. */
static void test_command_below(void **state)
{
    put_log(99.8, "error", "solver.c:5:37: error: 'tolerance' undeclared");
    put_log(99.9, "error", "make: *** [Makefile:8: solver.o] Error 1");
    put_failure(99.95, 10, 4, 1);
    expect(ask(TWO), NOTE_cause_command, true,
           "the command at job.sh:4, which failed with 1: make all, which said: solver.c:5:37: error: 'tolerance' "
           "undeclared");
}

/* Any command of a pipeline may be it. */
static void test_pipeline(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s, s:i}", "type", "command_failed", "t", 99.95, "pid", 10, "language", "bash",
        "file", "/home/u/job.sh", "line", 4, "command", "worker x | sort | wc -l", "status", 1);
    expect(ask(TWO), NOTE_cause_command, true,
           "the command at job.sh:4, which failed with 1: worker x | sort | wc -l, where worker failed");
}

static void test_log(void **state)
{
    put_log(90, "error", "earlier");
    put_log(99.8, "error", "cannot open input.dat");
    put_log(99.9, "warning", "so what");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: cannot open input.dat");
    put_log(99.9, "warning", "worker: cannot read x: No such file or directory");
    expect(ask(TWO), NOTE_cause_log, false,
           "probably what stderr says: worker: cannot read x: No such file or directory");
}

#define MPIRUN "[{\"pid\": 10, \"name\": \"mpirun\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 9}]"

static struct job_rank rank_that_left(void)
{
    return (struct job_rank){.rank = 1,
                             .ranks = 3,
                             .pid = 21,
                             .how = "exited with status 3 without MPI_Finalize",
                             .status = 3 << 8,
                             .seconds = 99,
                             .model = &model};
}

/* What was said last stands behind a reason that has no words; but of a rank that crashed MPI's handler of signals has said that. */
static void test_said_last(void **state)
{
    struct job_rank rank = rank_that_left();
    PUT("{s:s, s:f, s:s, s:f, s:[s, s]}", "type", "log_last", "t", 100.0, "file", "stderr", "quiet_seconds", 0.9,
        "lines", "reading", "bye");
    for_people = true;
    expect(ask(ONE), NOTE_cause_unknown, false, "a.out (pid 10) ended with exit status 1; it said last: reading / bye");
    expect(ask(TWO), NOTE_cause_process, false,
           "probably worker (pid 20), which ended with exit status 1; the job said last: reading / bye");
    expect(ask_end("[]", 1, 0, NULL), NOTE_NONE, false, "");
    expect(ask_end(ONE, 0, 0, NULL), NOTE_NONE, false, "");
    first_rank = &rank;
    expect(ask(MPIRUN), NOTE_cause_rank, true,
           "rank 1 of 3 exited with status 3 without MPI_Finalize; the job said last: reading / bye");
    rank.status = 11;
    rank.how = "was killed by SIGSEGV";
    expect(ask(MPIRUN), NOTE_cause_rank, true, "rank 1 of 3 was killed by SIGSEGV");
    first_rank = NULL;
    for_people = false;
}

/* Whatever its launcher's status is, and whoever it has killed then. What the rank said stands behind it. */
static void test_rank(void **state)
{
    struct job_rank rank = rank_that_left();
    first_rank = &rank;
    put_matched(99.2, "mpi_abort", "error", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES");
    expect(ask(MPIRUN), NOTE_cause_rank, true, "rank 1 of 3 exited with status 3 without MPI_Finalize");
    put_matched(98.9, "failure", "warning", "rank 1: cannot read restart.nc");
    expect(ask(MPIRUN), NOTE_cause_rank, true,
           "rank 1 of 3 exited with status 3 without MPI_Finalize: rank 1: cannot read restart.nc");
    put_matched(98.9, "error", "error", "ERROR: the mesh is empty");
    rank.node = "n2";
    expect(ask(MPIRUN), NOTE_cause_rank, true,
           "rank 1 of 3 on node n2 exited with status 3 without MPI_Finalize: ERROR: the mesh is empty");
    put_exception_of(98.9, 21, 21, "ValueError", "no mesh");
    expect(ask(MPIRUN), NOTE_cause_rank, true,
           "rank 1 of 3 on node n2 exited with status 3 without MPI_Finalize: ValueError: no mesh");
    expect(ask("[{\"pid\": 20, \"name\": \"plot\", \"start_seconds\": 99.5, \"end_seconds\": 99.9, \"exit_code\": 1},"
               " {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 1}]"),
           NOTE_cause_exception, false,
           "probably an exception of Python that nothing caught, at steer.py:12: ValueError: no mesh"); /* it went on */
    first_rank = NULL;
}

/* The launcher ends because of it; or much later something else fails, which does not make it the reason. */
static void put_came(double seconds)
{
    put_warning(seconds, NOTE(signal_came, .signal = "SIGTERM", .sender = "slurmstepd (pid 7)"));
}

/* No ssh led there. What the launcher says, and the signal that a batch system then sends, follow from it. */
static void test_silent(void **state)
{
    static const char text[] = "probably node n3 was lost at 90.0 s: nothing was heard from it any more";
    struct job_lost lost = {.node = "n3", .ranks = "", .seconds = 90, .broke = 90, .silent = 4};
    lost_node = &lost;
    put_log(99.8, "error", "srun: error: Node failure on n3");
    expect(ask(MPIRUN), NOTE_cause_node_lost, false, text);
    lost.seconds = lost.broke = 98; /* its monitor was ended with the others */
    assert_int_equal(ask(MPIRUN).kind, NOTE_cause_log);
    lost.seconds = lost.broke = 90;
    put_came(99);
    expect(ask(MPIRUN), NOTE_cause_node_lost, false, text);
    put_came(93);
    assert_int_equal(ask(MPIRUN).kind, NOTE_cause_signal);
    job_model_done(&model);
    assert_int_equal(job_model_init(&model, 100), 0);
    struct job_rank rank = {.rank = 1,
                            .ranks = 3,
                            .pid = 31,
                            .how = "exited with status 3",
                            .status = 3 << 8,
                            .seconds = 92,
                            .model = &model};
    first_rank = &rank;
    assert_int_equal(ask(MPIRUN).kind, NOTE_cause_rank);
    rank.status = 15; /* somebody ended it */
    rank.seconds = 99;
    expect(ask(MPIRUN), NOTE_cause_node_lost, false, text);
    first_rank = NULL;
    put_warning(99, NOTE(task_stopped, .why = "its task was cancelled"));
    assert_int_equal(ask(KILLED).kind, NOTE_cause_asked);
    lost_node = NULL;
}

static void test_lost(void **state)
{
    static const char later[] =
        "[{\"pid\": 20, \"name\": \"plot\", \"start_seconds\": 99.5, \"end_seconds\": 99.9, \"exit_code\": 1},"
        " {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 1}]";
    struct job_lost lost = {.node = "n3", .ranks = ", with rank 2", .seconds = 20, .broke = 98};
    lost_node = &lost;
    put_log(99.8, "error", "ERROR: the mesh is empty");
    expect(ask(MPIRUN), NOTE_cause_node_lost, true,
           "node n3 was lost at 20.0 s: nothing was heard from it any more, with rank 2");
    expect(ask(later), NOTE_cause_log, false, "probably what stderr says: ERROR: the mesh is empty");
    lost.broke = 60; /* mpirun went on with what it had */
    expect(ask(MPIRUN), NOTE_cause_log, false, "probably what stderr says: ERROR: the mesh is empty");
    job_model_done(&model);
    assert_int_equal(job_model_init(&model, 100), 0);
    expect(ask(later), NOTE_cause_node_lost, false,
           "probably node n3 was lost at 20.0 s: nothing was heard from it any more, with rank 2");
    lost_node = NULL;
}

/* Its launcher has passed a signal on, and it ends in its own way. */
static void test_rank_asked(void **state)
{
    struct job_rank rank = rank_that_left();
    first_rank = &rank;
    put_warning(98, NOTE(signal_came, .signal = "SIGTERM", .sender = "slurmstepd (pid 7)"));
    assert_int_equal(ask(MPIRUN).kind, NOTE_cause_signal);
    first_rank = NULL;
}

/* By somebody, or for lack of memory: not by its launcher, which has killed the others. */
static void test_rank_killed(void **state)
{
    struct job_rank rank = {
        .rank = 1, .ranks = 3, .pid = 21, .how = "was killed by SIGKILL", .status = 9, .seconds = 99, .model = &model};
    first_rank = &rank;
    put_matched(99.2, "mpi_abort", "error", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES");
    expect(ask(MPIRUN), NOTE_cause_killed, false,
           "rank 1 of 3 was killed by SIGKILL, probably by its own job, or from outside: by a batch system's limit, or "
           "by somebody");
    put_warning(100, NOTE(out_of_memory, .processes = 1, .own_group = 0));
    assert_int_equal(ask(MPIRUN).kind, NOTE_cause_memory);
    first_rank = NULL;
}

/* MPICH's launcher kills all ranks when one of them has aborted, also that one; what was killed from outside it passes on. */
static void test_rank_killed_by_launcher(void **state)
{
#define HYDRA(proxy, status) \
    "[{\"pid\": 21, \"name\": \"ocean\", \"end_seconds\": 99, \"signal\": 9}, {\"pid\": 20, \"name\": " \
    "\"hydra_pmi_proxy\"," \
    " \"end_seconds\": 99.5, \"exit_code\": " proxy \
    "}, {\"pid\": 10, \"name\": \"mpiexec.mpich\", \"end_seconds\": 100, \"exit_code\": " status "}]"
    struct job_rank rank = {
        .rank = 1, .ranks = 2, .pid = 21, .how = "was killed by SIGKILL", .status = 9, .seconds = 99, .model = &model};
    first_rank = &rank;
    expect(ask_end(HYDRA("7", "6"), 6, 0, NULL), NOTE_cause_launcher, false,
           "rank 1 of 2 was killed by SIGKILL, probably by mpiexec.mpich, which ended with exit status 6 and has said "
           "why");
    expect(ask_end("[{\"pid\": 10, \"name\": \"mpiexec.mpich\", \"end_seconds\": 100, \"exit_code\": 6}]", 6, 0, NULL),
           NOTE_cause_launcher, false, /* the end of its daemon there was not seen any more */
           "rank 1 of 2 was killed by SIGKILL, probably by mpiexec.mpich, which ended with exit status 6 and has said "
           "why");
    expect(ask_end(HYDRA("0", "9"), 9, 0, NULL), NOTE_cause_killed, false,
           "rank 1 of 2 was killed by SIGKILL, probably by its own job, or from outside: by a batch system's limit, or "
           "by somebody");
    rank.call = "MPI_Send at main (a.c:3)";
    expect(ask_end(HYDRA("7", "6"), 6, 0, NULL), NOTE_cause_launcher, false,
           "rank 1 of 2, in MPI_Send at main (a.c:3) while others waited for it, was killed by SIGKILL, probably by "
           "mpiexec.mpich, which ended with exit status 6 and has said why");
    rank.named = true;
    expect(
        ask_end(HYDRA("7", "6"), 6, 0, NULL), NOTE_cause_launcher, false,
        "rank 1 of 2, in MPI_Send at main (a.c:3), was killed by SIGKILL, probably by mpiexec.mpich, which ended with "
        "exit status 6 and has said why");
    put_matched(98.9, "mpi_error", "error",
                "Abort(6) on node 1 (rank 1 in comm 0): Fatal error in internal_Send: Invalid rank");
    expect(
        ask_end(HYDRA("7", "6"), 6, 0, NULL), NOTE_cause_log, false,
        "probably what stderr says: Abort(6) on node 1 (rank 1 in comm 0): Fatal error in internal_Send: Invalid rank; "
        "rank 1 was in MPI_Send at main (a.c:3)");
    first_rank = NULL;
}

/* Under MPICH, of the job's own node and of another one: what the rank did and said, not what its launcher does and says. */
static void test_rank_of_mpich(void **state)
{
    static const char error[] =
        "Abort(6) on node 1 (rank 1 in comm 0): Fatal error in internal_Send: Invalid rank, error stack:";
    static const struct {
        const char *how, *pattern, *said;
        int status, launcher, proxy;
        bool aborted;
        enum note_kind kind;
        const char *more; /* behind how */
    } rows[] = {
        {"exited with status 3 without MPI_Finalize", "error", "ERROR: no mesh", 3 << 8, 3, 0, false, NOTE_cause_rank,
         ": ERROR: no mesh"},
        {"exited with status 5 after MPI_Finalize", NULL, NULL, 5 << 8, 5, 0, false, NOTE_cause_rank, ""},
        {"called MPI_Abort with 3", "mpi_abort", "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort",
         3 << 8, 3, 0, true, NOTE_cause_rank, ""},
        {"exited with status 6 without MPI_Finalize", "mpi_error", error, 6 << 8, 6, 0, false, NOTE_cause_rank,
         ": Abort(6) on node 1 (rank 1 in comm 0): Fatal error in internal_Send: Invalid rank, error stack:"},
        {"was killed by SIGKILL", "mpi_error", error, 9, 6, 6, false, NOTE_cause_launcher,
         ", probably by mpiexec.mpich, which ended with exit status 6: Abort(6) on node 1 (rank 1 in comm 0): Fatal "
         "error in internal_Send: Invalid rank, error stack:"},
        {"was killed by SIGKILL", NULL, NULL, 9, 9, 0, false, NOTE_cause_killed,
         ", probably by its own job, or from outside: by a batch system's limit, or by somebody"},
    };
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        char chain[512], text[300];
        const bool elsewhere = i % 2;
        const struct job_rank rank = {.rank = 1,
                                      .ranks = 2,
                                      .pid = 21,
                                      .node = elsewhere ? "n2" : NULL,
                                      .how = rows[i / 2].how,
                                      .status = rows[i / 2].status,
                                      .aborted = rows[i / 2].aborted,
                                      .seconds = 99,
                                      .model = &model};
        first_rank = &rank;
        if (rows[i / 2].said)
            put_matched(98.9, rows[i / 2].pattern, "error", rows[i / 2].said);
        put_matched(99.2, "mpi_abort", "error", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES");
        snprintf(chain, sizeof chain,
                 "[{\"pid\": 15, \"name\": \"hydra_pmi_proxy\", \"end_seconds\": 99.5, \"exit_code\": %d}, "
                 "{\"pid\": 10, \"name\": \"mpiexec.mpich\", \"end_seconds\": 100, \"exit_code\": %d}]",
                 rows[i / 2].proxy, rows[i / 2].launcher);
        snprintf(text, sizeof text, "rank 1 of 2%s %s%s", elsewhere ? " on node n2" : "", rows[i / 2].how,
                 rows[i / 2].more);
        expect(ask_end(chain, rows[i / 2].launcher, 0, NULL), rows[i / 2].kind, rows[i / 2].kind == NOTE_cause_rank,
               text);
        first_rank = NULL;
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, 100), 0);
    }
}

/* What timeout(1) has ended: when, by its command line, and how long it had. */
static void test_timeout(void **state)
{
    static const struct {
        const char *argv, *end; /* of timeout */
        bool sure;
        const char *text;
    } rows[] = {
        {"\"2\", \"./solver\"", "\"exit_code\": 124", true,
         "SIGTERM, because of a limit: the 2 s that timeout(1) gave it"},
        {"\"-s\", \"KILL\", \"1m\", \"./solver\"", "\"signal\": 9", true,
         "SIGKILL, because of a limit: the 60 s that timeout(1) gave it"},
        {"\"-sKILL\", \"2\", \"./solver\"", "\"exit_code\": 137", true,
         "SIGKILL, because of a limit: the 2 s that timeout(1) gave it"},
        {"\"-k\", \"1\", \"2\", \"./solver\"", "\"exit_code\": 137", true,
         "SIGKILL, because of a limit: the 2 s that timeout(1) gave it, and 1 s more after the first signal"},
        {"\"--signal=SIGINT\", \"--preserve-status\", \"2\", \"./solver\"", "\"exit_code\": 7", true,
         "SIGINT, because of a limit: the 2 s that timeout(1) gave it"},
        {"", "\"exit_code\": 124", false, "SIGTERM, probably because of a limit: the time that timeout(1) was given"},
        {"\"2h\", \"./solver\"", "\"exit_code\": 124", false, NULL}, /* it ended so itself, before that */
        {"\"2\", \"./solver\"", "\"exit_code\": 3", false, NULL},
        {"\"2\", \"./solver\"", "\"signal\": 9", false, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char chain[512], text[300];
        snprintf(chain, sizeof chain,
                 "[{\"pid\": 10, \"name\": \"timeout\", \"start_seconds\": 10, \"end_seconds\": 99, %s, \"argv\": "
                 "[\"timeout\"%s%s]}]",
                 rows[i].end, *rows[i].argv ? ", " : "", rows[i].argv);
        struct told told = ask_end(chain, 124, 0, NULL);
        snprintf(text, sizeof text, "%s was killed by %s", *rows[i].argv ? "solver" : "its program",
                 rows[i].text ? rows[i].text : "");
        if (rows[i].text)
            expect(told, NOTE_cause_limit, rows[i].sure, text);
        else
            assert_int_not_equal(told.kind, NOTE_cause_limit);
    }
    put_warning(52, NOTE(stands_still, .seconds = 10, .pid = 20, .program = "solver", .last = "slept"));
    assert_int_equal(ask_end("[{\"pid\": 10, \"name\": \"timeout\", \"start_seconds\": 10, \"end_seconds\": 99, "
                             "\"exit_code\": 124, \"argv\": [\"timeout\", \"2\", \"./solver\"]}]",
                             124, 0, NULL)
                         .kind,
                     NOTE_cause_standstill);
}

/* A program that goes on when its child was ended has done that, or could not do without it. */
static void test_ended_child(void **state)
{
    static const char chain[] = "[{\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 1}]";
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", 99.5, "pid", 20, "ppid", 10, "name",
        "solver", "start", 1.0, "end", 99.5, "status", 9);
    expect(
        ask(chain), NOTE_cause_process, false,
        "probably python3 (pid 10), which ended with exit status 1, after solver (pid 20), which it had started, was "
        "ended by SIGKILL");
    put_matched(99.9, "exception", "error", "subprocess.TimeoutExpired: Command 'solver' timed out after 2 seconds");
    assert_int_equal(ask(chain).kind, NOTE_cause_log);
}

/* Without its statistics, too, the rank is the reason, not its launcher, nor what that says. */
static void test_launched(void **state)
{
    static const char proxy[] =
        "{\"pid\": 15, \"name\": \"hydra_pmi_proxy\", \"end_seconds\": 100, \"exit_code\": %d}, "
        "{\"pid\": 10, \"name\": \"mpirun.mpich\", \"end_seconds\": 100, \"exit_code\": 3}]";
    char rank[512], only[512], parents[400];
    snprintf(parents, sizeof parents, proxy, 0);
    snprintf(rank, sizeof rank, "[{\"pid\": 20, \"name\": \"ocean\", \"end_seconds\": 99.9, \"exit_code\": 3}, %s",
             parents);
    put_matched(99.95, "mpi_abort", "error", "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES");
    expect(ask(rank), NOTE_cause_process, false, "probably ocean (pid 20), which ended with exit status 3");
    snprintf(parents, sizeof parents, proxy, 7);
    snprintf(only, sizeof only, "[%s", parents);
    assert_int_equal(ask(only).kind, NOTE_cause_said);
    job_model_done(&model);
    assert_int_equal(job_model_init(&model, 100), 0);
    assert_int_equal(ask(only).kind, NOTE_NONE);
}

/* A program has ended what it had started, lived on, and then said why. */
static void test_outlived(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"solver\", \"end_seconds\": 99, \"exit_code\": null, "
                                "\"signal\": 9}, {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, "
                                "\"exit_code\": 1, \"signal\": null}]";
    expect(ask_end(chain, 1, 0, NULL), NOTE_cause_killed, false,
           "solver was killed by SIGKILL, probably by its own job, or from outside: by a batch system's limit, or by "
           "somebody");
    put_matched(99.9, "exception", "error", "subprocess.TimeoutExpired: Command 'solver' timed out after 2 seconds");
    expect(ask_end(chain, 1, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: subprocess.TimeoutExpired: Command 'solver' timed out after 2 seconds");
}

/* An error of a process after which the job went on is none of the one that failed later; nor is one from before that began. */
static void put_failed(double seconds, int pid, const char *name)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:s, s:s}", "type", "process_end", "t", seconds, "pid", pid, "ppid",
        10, "name", name, "start", seconds - 0.1, "end", seconds, "status", 1 << 8, "source", "event", "why", "");
}

static void test_of_another(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"model\", \"start_seconds\": 99.5, \"end_seconds\": 99.9, "
                                "\"exit_code\": 1}, {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, "
                                "\"end_seconds\": 100, \"exit_code\": 1}]";
    put_failed(99.4, 15, "cp");
    put_matched(99.6, "no_space", "error", "cp: error writing 'x': No space left on device");
    assert_int_equal(ask(chain).kind, NOTE_cause_said);
    put_matched(99.8, "error", "error", "ERROR: the mesh is empty");
    expect(ask(chain), NOTE_cause_log, false, "probably what stderr says: ERROR: the mesh is empty");
}

/* What a script's cleanup says is none of what made it fail. */
static void test_of_cleanup(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"cp\", \"start_seconds\": 99, \"end_seconds\": 99.5, "
                                "\"exit_code\": 1}, {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, "
                                "\"end_seconds\": 100, \"exit_code\": 1}]";
    put_log(99.95, "error", "rm: cannot remove 'work.tmp': No such file or directory");
    put_failure(99.5, 10, 4, 1);
    put_failed(99.9, 21, "rm");
    expect(ask(chain), NOTE_cause_command, true, "the command at job.sh:4, which failed with 1: make all");
    put_log(99.94, "warning", "cp: cannot stat 'input.dat': No such file or directory");
    expect(
        ask(chain), NOTE_cause_command, true,
        "the command at job.sh:4, which failed with 1: make all, which said: cp: cannot stat 'input.dat': No such file "
        "or directory");
}

/* Nor is what a program says that only its traps start, or do not find: the command that failed may have said nothing. */
static void test_of_trap(void **state)
{
    static const char chain[] = "[{\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, "
                                "\"exit_code\": 1}]";
    static const struct {
        double seconds;
        const char *text;
        bool is_reason, is_said; /* by itself; with the command that failed */
    } rows[] = {
        {99.95, "du: cannot access '/no/scratch': No such file or directory", false},
        {99.95, "job.sh: line 3: du: command not found", false},
        {99.95, "job.sh: 3: du: not found", false},
        {99.95, "job.sh: line 3: mesh: command not found", true, true},
        {99.95, "rm: cannot remove 'x': No such file or directory", true,
         true}, /* the rest of the script has it, too */
        {99.7, "du: cannot access '/no/scratch': No such file or directory", true},
        {99.95, "duplicate: no such mesh", true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, 100), 0);
        put_failed(99.9, 21, "du");
        PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:s}", "type", "process_end", "t", 100.0, "pid", 10, "ppid", 1,
            "name", "bash", "start", 0.0, "end", 100.0, "status", 1 << 8, "source", "event");
        PUT("{s:s, s:f, s:i, s:[s, s], s:[s]}", "type", "script_trap", "t", 100.0, "pid", 10, "commands", "du", "rm",
            "only", "du");
        put_log(rows[i].seconds, "error", rows[i].text);
        if ((ask(chain).kind == NOTE_cause_log) != rows[i].is_reason)
            fail_msg("%s", rows[i].text);
        put_failure(99.75, 10, 4, 1);
        struct told told = ask(chain);
        if ((strstr(told.text, rows[i].text) != NULL) != rows[i].is_said)
            fail_msg("%s", told.text);
    }
}

static void put_traceback(double seconds, const char *text, const char *place)
{
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:s?, s:i}", "type", "log", "t", seconds, "file", "stderr", "pattern",
        "exception", "level", "error", "text", text, "place", place, "folded", 0);
}

/* The last one of a program, where that raised it first; of several programs the first, of which the others follow. */
static void test_tracebacks(void **state)
{
    put_traceback(99.5, "KeyError: 'size'", "/w/run.py:3");
    put_traceback(99.6, "ConfigError: no size", "/w/run.py:4");
    put_traceback(99.7, "ConfigError: no size", "/w/run.py:9");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: ConfigError: no size, at run.py:4");
    put_failed(99.7, 31, "python3");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: ConfigError: no size, at run.py:4");
    put_failed(99.8, 32, "python3");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: KeyError: 'size', at run.py:3");
}

/* logging.exception: what it says, and what was raised, below it. What another program said is not of it. */
static void test_logged_exception(void **state)
{
    static const char chain[] = "[{\"pid\": 10, \"name\": \"main.py\", \"argv\": [\"/usr/bin/python3\", \"main.py\"], "
                                "\"end_seconds\": 100, \"exit_code\": 1}]";
    put_matched(99.5, "error", "error", "2026-01-01 10:00:00 ERROR pipeline: step failed");
    put_traceback(99.5, "ZeroDivisionError: division by zero", "/w/main.py:6");
    expect(ask(chain), NOTE_cause_log, false,
           "probably what stderr says: ZeroDivisionError: division by zero, at main.py:6");
    expect(ask(TWO), NOTE_cause_log, false,
           "probably what stderr says: 2026-01-01 10:00:00 ERROR pipeline: step failed");
    job_model_done(&model);
    assert_int_equal(job_model_init(&model, 100), 0);
    put_matched(99.5, "error", "error", "ERROR: the mesh is empty");
    put_matched(99.5, "error", "error", "ERROR: another");
    put_traceback(99.6, "RuntimeError: no result", "/w/main.py:6");
    expect(ask(chain), NOTE_cause_log, false, "probably what stderr says: ERROR: the mesh is empty");
}

/* Also where the first ones were raised in a library, which called no line of the user's. */
static void test_tracebacks_of_libraries(void **state)
{
    put_traceback(99.5, "KeyError: 'rate'", NULL);
    put_traceback(99.6, "configparser.NoOptionError: No option 'rate'", "/w/during.py:4");
    expect(ask(TWO), NOTE_cause_log, false,
           "probably what stderr says: configparser.NoOptionError: No option 'rate', at during.py:4");
    put_traceback(99.7, "KeyError: 'temperature'", NULL);
    put_traceback(99.8, "KeyError: 'temperature'", "/w/analyse.py:6");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: KeyError: 'temperature', at analyse.py:6");
}

static void put_told(double seconds, const char *text, const char *above)
{
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:s, s:s?, s:i}", "type", "log", "t", seconds, "file", "stderr", "pattern",
        "exception", "level", "error", "text", text, "place", "/w/run.py:2", "above", above, "folded", 0);
}

/* That a command failed, and what it said: what is a reason by itself, and what only stands above. */
static void test_command_of_python(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"stage.sh\", \"start_seconds\": 99, \"end_seconds\": 99.9, "
                                "\"exit_code\": 3}, {\"pid\": 10, \"name\": \"python3\", \"start_seconds\": 0, "
                                "\"end_seconds\": 100, \"exit_code\": 1}]";
    static const char told[] = "subprocess.CalledProcessError: Command 'stage.sh' returned non-zero exit status 3.";
    static const char text[] = "probably what stderr says: %s; then subprocess.CalledProcessError: Command 'stage.sh' "
                               "returned non-zero exit status 3, at run.py:2";
    static const struct {
        const char *level, *said, *above, *text;
    } rows[] = {
        {NULL, NULL, "stage.sh: station ZRH", "stage.sh: station ZRH"},
        {NULL, NULL, "There is no such station.", "There is no such station"},
        {"error", "ERROR: the mesh is empty", "ERROR: the mesh is empty", "ERROR: the mesh is empty"},
        {"warning", "stage.sh: cannot open a.nc", "stage.sh: cannot open a.nc", "stage.sh: cannot open a.nc"},
    };
    char expected[300];
    put_told(99.95, told, "step 7 of 9");
    expect(ask_end(chain, 1, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: subprocess.CalledProcessError: Command 'stage.sh' returned non-zero exit status "
           "3, at run.py:2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, 100), 0);
        if (rows[i].said)
            put_log(99.9, rows[i].level, rows[i].said);
        put_told(99.95, told, rows[i].above);
        snprintf(expected, sizeof expected, text, rows[i].text);
        expect(ask_end(chain, 1, 0, NULL), NOTE_cause_log, false, expected);
        put_traceback(99.96, "RuntimeError: no input", "/w/run.py:9");
        assert_null(strstr(ask_end(chain, 1, 0, NULL).text, "; then ")); /* what ended it is another one */
    }
}

/* The script ends as the last command of its trap does; its words are those of the command that failed before. */
static void test_failed_cleanup(void **state)
{
    static const char chain[] = "[{\"pid\": 21, \"name\": \"tar\", \"start_seconds\": 99.6, \"end_seconds\": 99.9, "
                                "\"exit_code\": 2}, {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, "
                                "\"end_seconds\": 100, \"exit_code\": 2}]";
    PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s, s:i, s:f}", "type", "command_failed", "t", 99.95, "pid", 10, "language",
        "bash", "file", "/home/u/job.sh", "line", 4, "command", "/bin/cp input.dat run/", "status", 1, "time", 99.5);
    put_log(99.95, "error", "tar: none: Cannot stat: No such file or directory");
    expect(ask_end(chain, 2, 0, NULL), NOTE_cause_command, false,
           "probably the command at job.sh:4, which failed with 1: /bin/cp input.dat run/");
    put_log(99.95, "warning", "cp: cannot stat 'input.dat': No such file or directory");
    expect(ask_end(chain, 2, 0, NULL), NOTE_cause_command, false,
           "probably the command at job.sh:4, which failed with 1: /bin/cp input.dat run/, which said: cp: cannot stat "
           "'input.dat': No such file or directory");
}

/* Some have a ':' in their name; of the chain's names, and of what failed only later, is what the command failed of. With so many
 * processes and lines, a look at each of those for each of these would take minutes. */
static void test_many_others(void **state)
{
    enum { FAILED = 100000, LINES = 150 };
    static const struct {
        const char *line, *text;
    } rows[] = {{"late: the mesh is empty", "probably what stderr says: late: the mesh is empty"},
                {"bash: no mesh", "probably what stderr says: bash: no mesh"}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, FAILED + 10), 0);
        put_failed(90, 30, "cp");
        put_failed(90, 31, "kworker:x");
        for (int i = 0; i < FAILED; i++)
            put_failed(90, 1000 + i, "bash");
        put_failed(99.95, 32, "late");
        for (int i = 0; i < LINES; i++)
            put_log(99.85, "error", i % 2 ? "cp: no such file: x" : "kworker:x: nothing");
        put_log(99.8, "error", rows[row].line);
        expect(ask(TWO), NOTE_cause_log, false, rows[row].text);
    }
}

/* It says how old it is; of those that come together the first one counts. */
static void test_age(void **state)
{
    put_matched(30, "error", "error", "ERROR: long ago");
    assert_int_equal(ask(TWO).kind, NOTE_cause_process);
    put_matched(93.9, "error", "error", "ERROR: the mesh is empty");
    put_matched(93.9, "error", "error", "ERROR: the grid has no cells");
    put_matched(99.9, "gave_up", "error", "Execution halted");
    expect(ask(TWO), NOTE_cause_log, false,
           "probably what stderr says: ERROR: the mesh is empty, 6 s before it failed");
}

static void test_process(void **state)
{
    PUT("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "script_line", "t", 40.0, "pid", 10, "file", "/home/u/job.sh", "line",
        12, "how", "outside");
    struct told told = ask(TWO);
    expect(told, NOTE_cause_process, false,
           "probably worker (pid 20), which ended with exit status 1, when its script was at job.sh:12");
    assert_string_equal(told.evidence, "[0]");
    told = ask("[{\"pid\": 20, \"name\": \"worker\", \"start_seconds\": 41, \"end_seconds\": 99.9, \"exit_code\": 1},"
               " {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 1}]");
    expect(told, NOTE_cause_process, false, "probably worker (pid 20), which ended with exit status 1");
    told =
        ask("[{\"pid\": 20, \"name\": \"worker\", \"start_seconds\": 39.995, \"end_seconds\": 99.9, \"exit_code\": 1},"
            " {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 1}]");
    expect(told, NOTE_cause_process, false, "probably worker (pid 20), which ended with exit status 1");
}

/* A shell's fork that executed nothing has no name of its own. */
static void test_not_executed(void **state)
{
    static const char *const rows[][2] = {
        {"127", "probably a command of job.sh (pid 20), which ended with exit status 127: its program was not found"},
        {"126",
         "probably a command of job.sh (pid 20), which ended with exit status 126: its program may not be executed"},
        {"3", "probably job.sh (pid 20), which ended with exit status 3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char chain[500];
        snprintf(chain, sizeof chain,
                 "[{\"pid\": 20, \"name\": \"job.sh\", \"argv\": [\"/bin/bash\", \"./job.sh\"], \"end_seconds\": 99.9, "
                 "\"exit_code\": %s}, {\"pid\": 10, \"name\": \"job.sh\", \"argv\": [\"/bin/bash\", \"./job.sh\"], "
                 "\"end_seconds\": 100, \"exit_code\": %s}]",
                 rows[i][0], rows[i][0]);
        expect(ask(chain), NOTE_cause_process, false, rows[i][1]);
    }
}

static void put_last(double quiet_seconds, const char *line)
{
    PUT("{s:s, s:f, s:s, s:f, s:[s, s]}", "type", "log_last", "t", 100.0, "file", "stderr", "quiet_seconds",
        quiet_seconds, "lines", "step 7", line);
}

/* sys.exit("text") of Python, and die of Perl: no word of it says that it is an error. */
static void test_last_words(void **state)
{
#define OF_BASH ", {\"pid\": 10, \"name\": \"bash\", \"end_seconds\": 100, \"exit_code\": 1, \"signal\": null}]"
    static const char alone[] = "[{\"pid\": 10, \"name\": \"steer\", \"argv\": [\"/usr/bin/python3\", \"./steer\"], "
                                "\"end_seconds\": 99.9, \"exit_code\": 1, \"signal\": null}]";
    static const char perl[] = "[{\"pid\": 20, \"name\": \"perl\", \"end_seconds\": 99.9, \"exit_code\": 2}" OF_BASH;
    static const char python[] =
        "[{\"pid\": 20, \"name\": \"python3.11\", \"end_seconds\": 99.9, \"exit_code\": 1}" OF_BASH;
    static const char other_status[] =
        "[{\"pid\": 20, \"name\": \"python3.11\", \"end_seconds\": 99.9, \"exit_code\": 3}" OF_BASH;
    put_last(0.15, "the mesh has no cells");
    struct told told = ask(python);
    expect(told, NOTE_cause_process, false,
           "probably python3.11 (pid 20), which ended with exit status 1; it said: the mesh has no cells");
    assert_string_equal(told.evidence, "[0]");
    expect(ask(alone), NOTE_cause_process, true,
           "steer (pid 10) ended with exit status 1; it said: the mesh has no cells");
    expect(ask(perl), NOTE_cause_process, false,
           "probably perl (pid 20), which ended with exit status 2; it said: the mesh has no cells");
    expect(ask(other_status), NOTE_cause_process, false,
           "probably python3.11 (pid 20), which ended with exit status 3; it said: the mesh has no cells");
    expect(ask(ONE), NOTE_NONE, false, ""); /* a program in C may end so after any line */
    expect(ask(TWO), NOTE_cause_process, false, "probably worker (pid 20), which ended with exit status 1");
    static const char shell[] = "[{\"pid\": 10, \"name\": \"job.sh\", \"argv\": [\"/bin/bash\", \"./job.sh\"], "
                                "\"end_seconds\": 99.9, \"exit_code\": 1, \"signal\": null}]";
    static const char own[] = "[{\"pid\": 21, \"name\": \"solver\", \"end_seconds\": 98, \"exit_code\": 3}" OF_BASH;
    expect(ask(shell), NOTE_cause_process, true,
           "job.sh (pid 10) ended with exit status 1; it said: the mesh has no cells");
    put_last(0.15, "solver: no convergence after 500 iterations"); /* by a name of its own */
    expect(ask(ONE), NOTE_cause_process, true,
           "a.out (pid 10) ended with exit status 1; it said: solver: no convergence after 500 iterations");
    put_last(0.15, "STOP 1");
    expect(ask(ONE), NOTE_cause_process, true, "a.out (pid 10) ended with exit status 1; it said: STOP 1");
    put_last(0.15, "cache: 3 found, 0 not found");
    expect(ask(ONE), NOTE_NONE, false, "");
    put_last(0.15, "step 8");
    expect(ask(shell), NOTE_NONE, false, "");
    expect(ask(own), NOTE_cause_process, false, "probably solver (pid 21), which ended with exit status 3");
    PUT("{s:s, s:f, s:s, s:f, s:[s], s:i}", "type", "log_last", "t", 100.0, "file", "run.log", "quiet_seconds", 2.0,
        "lines", "residual 1e9", "pid", 21); /* it had that file for itself */
    expect(ask(own), NOTE_cause_process, false,
           "probably solver (pid 21), which ended with exit status 3; it said: residual 1e9");
    PUT("{s:s, s:f, s:s, s:f, s:[s, s, s], s:i}", "type", "log_last", "t", 100.0, "file", "run.log", "quiet_seconds",
        2.0, "lines", " *****", " energy is not conserved", " *****", "pid", 21); /* in a frame */
    expect(ask(own), NOTE_cause_process, false,
           "probably solver (pid 21), which ended with exit status 3; it said: energy is not conserved");
    put_last(0.15, "the mesh has no cells");
    put_failure(99.95, 10, 4, 1);
    told = ask(python);
    expect(told, NOTE_cause_command, true,
           "the command at job.sh:4, which failed with 1: make all, which said: the mesh has no cells");
    assert_string_equal(told.evidence, "[8,7]");
}

/* What it said of memory goes with the limit that it has. */
static void test_last_words_of_memory(void **state)
{
    PUT("{s:s, s:f, s:i, s:i}", "type", "end", "t", 100.0, "exit_code", 1, "address_limit_bytes", 400 << 20);
    PUT("{s:s, s:f, s:s, s:f, s:[s]}", "type", "log_last", "t", 100.0, "file", "stderr", "quiet_seconds", 0.15, "lines",
        "add_cell: malloc of 1032 bytes failed");
    static const char leak[] = "[{\"pid\": 20, \"name\": \"leak\", \"end_seconds\": 99.9, \"exit_code\": 1}" OF_BASH;
    expect(
        ask(leak), NOTE_cause_process, false,
        "probably leak (pid 20), which ended with exit status 1; it said: add_cell: malloc of 1032 bytes failed (its "
        "address space may have 400 MB: ulimit -v)");
}

/* The last one of a pipeline fails because one before it has. */
static void test_said_in_pipeline(void **state)
{
    static const char chain[] = "[{\"pid\": 22, \"name\": \"awk\", \"end_seconds\": 99.9, \"exit_code\": 4}" OF_BASH;
    static const struct {
        int pid, status;
        const char *name;
        double start, end;
    } stages[] = {{21, 2 << 8, "grep", 99, 99.1}, {22, 4 << 8, "awk", 99.01, 99.9}};
    for (int i = 0; i < 2; i++)
        PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i}", "type", "process_end", "t", stages[i].end, "pid",
            stages[i].pid, "ppid", 10, "name", stages[i].name, "start", stages[i].start, "end", stages[i].end, "cpu_ns",
            1, "threads", 1, "peak_rss", 1, "status", stages[i].status);
    put_last(0.9, "grep: Unmatched [");
    expect(ask(chain), NOTE_cause_process, false,
           "probably awk (pid 22), which ended with exit status 4; just before, grep (pid 21) failed with 2: grep: "
           "Unmatched [");
    put_last(0.9, "sort: step 7");
    expect(ask(chain), NOTE_cause_process, false, "probably awk (pid 22), which ended with exit status 4");
}

/* A shell without pipefail that looks at the result, and ends by itself. */
static void test_said_by_stage(void **state)
{
    static const char chain[] = "[{\"pid\": 10, \"name\": \"job.sh\", \"argv\": [\"/bin/sh\", \"./job.sh\"], "
                                "\"end_seconds\": 100, \"exit_code\": 4, \"signal\": null}]";
    static const struct {
        int pid, ppid, status;
        const char *name;
        double start, end;
    } stages[] = {{21, 10, 0, "cat", 99, 99.1},
                  {22, 10, 1 << 8, "gzip", 99.01, 99.2},
                  {23, 10, 0, "tar", 99.02, 99.21},
                  {24, 10, 1 << 8, "rm", 99.3, 99.4},
                  {10, 1, 4 << 8, "job.sh", 0, 100}};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i, s:i, s:i, s:[s]}", "type", "process_end", "t", stages[i].end,
            "pid", stages[i].pid, "ppid", stages[i].ppid, "name", stages[i].name, "start", stages[i].start, "end",
            stages[i].end, "cpu_ns", 1, "threads", 1, "peak_rss", 1, "status", stages[i].status, "argv",
            stages[i].name);
    PUT("{s:s, s:f, s:s, s:f, s:[s, s]}", "type", "log_last", "t", 100.0, "file", "stderr", "quiet_seconds", 0.1,
        "lines", "gzip: stdin: unexpected end of file", "only 3 of 20 files were unpacked");
    expect(ask(chain), NOTE_cause_process, false,
           "probably job.sh (pid 10), which ended with exit status 4; just before, gzip (pid 22) failed with 1: gzip: "
           "stdin: unexpected end of file");
    put_last(0.1, "rm: x: busy"); /* it only cleans up */
    expect(ask(chain), NOTE_NONE, false, "");
    PUT("{s:s, s:f, s:i, s:[s]}", "type", "script_tested", "t", 100.0, "pid", 10, "commands", "gzip");
    put_last(0.1, "gzip: stdin: unexpected end of file");
    expect(ask(chain), NOTE_NONE, false, "");
}

/* Shells and Python say that a script is not there if its interpreter is not. */
static void test_unexecuted(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"sh\", \"end_seconds\": 99.9, \"exit_code\": 127}" OF_BASH;
    static const char why[] = "./run.py: its interpreter /opt/python is not there";
    PUT("{s:s, s:f, s:i, s:s}", "type", "end", "t", 100.0, "exit_code", 1, "unexecuted", why);
    put_matched(80, "command_not_found", "error", "job.sh: 2: ./plot.py: not found");
    assert_int_equal(ask(chain).kind, NOTE_cause_said);
    put_matched(99.9, "command_not_found", "error", "job.sh: 3: ./run.py: not found");
    struct told told = ask(chain);
    expect(told, NOTE_cause_start, true, why);
    assert_string_equal(told.evidence, "[2,0]");
    put_exception(99.9, 20, "FileNotFoundError", "[Errno 2] No such file or directory: './run.py'");
    expect(ask(chain), NOTE_cause_start, true, why);
}

/* A command of the script that failed at `seconds`, or ended well. */
static void put_command(int pid, const char *name, double start, double seconds, int status)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", seconds, "pid", pid, "ppid", 10, "name",
        name, "start", start, "end", seconds, "status", status);
}

/* A program of any language ends so after its only line on standard error; a shell may have told of a step. */
static void test_only_line(void **state)
{
#define ONLY_LINE "{s:s, s:f, s:s, s:f, s:[s]}", "type", "log_last", "t", 100.0, "file"
    static const char shell[] = "[{\"pid\": 10, \"name\": \"job.sh\", \"argv\": [\"/bin/bash\", \"./job.sh\"], "
                                "\"end_seconds\": 100, \"exit_code\": 1, \"signal\": null}]";
    static const char later[] =
        "[{\"pid\": 20, \"name\": \"worker\", \"start_seconds\": 99.95, \"end_seconds\": 99.97, "
        "\"exit_code\": 3}" OF_BASH;
    PUT(ONLY_LINE, "stderr", "quiet_seconds", 0.15, "lines", "*** stop: negative volume in element 12");
    struct told told = ask(ONE);
    expect(told, NOTE_cause_process, true,
           "a.out (pid 10) ended with exit status 1; it said: *** stop: negative volume in element 12");
    assert_string_equal(told.evidence, "[0]");
    expect(ask(TWO), NOTE_cause_process, false,
           "probably worker (pid 20), which ended with exit status 1; it said: *** stop: negative volume in element "
           "12");
    expect(ask(shell), NOTE_NONE, false, "");
    expect(ask(later), NOTE_cause_process, false, "probably worker (pid 20), which ended with exit status 3");
    PUT(ONLY_LINE, "stdout", "quiet_seconds", 0.15, "lines", "done");
    expect(ask(ONE), NOTE_NONE, false, "");
    put_command(30, "solver", 1, 2, 0);
    PUT(ONLY_LINE, "stderr", "quiet_seconds", 0.15, "lines", "solver: 3 steps");
    expect(ask(ONE), NOTE_NONE, false, "");
}

#define LATER \
    "[{\"pid\": 20, \"name\": \"solver\", \"start_seconds\": 99, \"end_seconds\": 99.9, \"exit_code\": 5}," \
    " {\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 5}]"

/* A script goes on after an error, other commands of it succeed: the one with whose status it ended is the reason. */
static void test_tolerated(void **state)
{
    static const char later[] = "probably solver (pid 20), which ended with exit status 5";
    static const struct {
        const char *pattern, *text;
    } rows[] = {
        {"error", "ERROR: could not open display, plots are off"},
        {"no_space", "head: error writing 'standard output': No space left on device"},
        {"command_not_found", "job.sh: line 3: plot: command not found"},
        {"exception", "ModuleNotFoundError: No module named 'plot'"},
        {"mpi_abort", "mpirun noticed that process rank 1 exited on signal 11"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put_matched(97, rows[i].pattern, "error", rows[i].text);
        assert_int_not_equal(ask_end(LATER, 5, 0, NULL).kind, NOTE_cause_process); /* that may be why */
        put_command(30, "plot", 96, 97, 256);
        put_command(31, "sleep", 97.01, 98, 0);
        put_command(20, "solver", 99, 99.9, 5 << 8);
        expect(ask_end(LATER, 5, 0, NULL), NOTE_cause_process, false, later);
        assert_int_not_equal(ask_end(LATER, 3, 0, NULL).kind, NOTE_cause_process); /* a status of its own */
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, 100), 0);
    }
    put_matched(97, "error", "error", "ERROR: no mesh");
    put_command(30, "sim", 96, 97, 256);
    put_command(31, "tee", 96.01, 97.01, 0); /* beside it */
    put_command(20, "solver", 99, 99.9, 5 << 8);
    expect(ask_end(LATER, 5, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: ERROR: no mesh; then solver (pid 20) ended with exit status 5");
}

/* The same of what crashed, or was killed for lack of memory, and of a rank. */
static void test_tolerated_end(void **state)
{
    static const char later[] = "probably solver (pid 20), which ended with exit status 5";
    struct job_rank rank = {
        .rank = 1, .ranks = 2, .pid = 21, .how = "was killed by SIGSEGV", .status = 11, .seconds = 97, .model = &model};
    put_crash(97, 15);
    put_command(15, "crashy", 96, 97, 11);
    put_command(31, "sleep", 97.01, 98, 0);
    put_command(20, "solver", 99, 99.9, 5 << 8);
    expect(ask_end(LATER, 5, 0, NULL), NOTE_cause_process, false, later);
    first_rank = &rank;
    expect(ask_end(LATER, 5, 0, NULL), NOTE_cause_process, false, later);
    rank.status = 9;
    expect(ask_end(LATER, 5, 0, NULL), NOTE_cause_process, false, later);
    rank.seconds = 99.5; /* of another node: while the last one ran */
    rank.status = 15;
    expect(ask_end(LATER, 5, 0, NULL), NOTE_cause_killed, false,
           "rank 1 of 2 was killed by SIGTERM, probably by its own job, or from outside: by a batch system's limit, or "
           "by somebody");
    first_rank = NULL;
    put_command(16, "grid", 96, 97, 9);
    put_warning(97.1, NOTE(out_of_memory, .processes = 1, .own_group = 1));
    expect(ask_end(LATER, 5, 0, NULL), NOTE_cause_process, false, later);
}

/* What the kernel killed on the node was none of the job, which had memory enough. */
static void test_memory_of_others(void **state)
{
    put_warning(100, NOTE(out_of_memory, .processes = 3, .own_group = 0));
    expect(ask(TWO), NOTE_cause_memory, false, "probably out of memory: the kernel killed 3 processes");
    PUT("{s:s, s:f, s:{s:i, s:i}}", "type", "health", "t", 99.0, "memory", "total_bytes", 1000000, "available_bytes",
        900000);
    expect(ask(KILLED), NOTE_cause_killed, false,
           "worker was killed by SIGKILL, probably by its own job, or from outside: by a batch system's limit, or by "
           "somebody");
    PUT("{s:s, s:f, s:{s:i, s:i, s:i}}", "type", "health", "t", 99.5, "memory", "total_bytes", 1000000,
        "available_bytes", 900000, "available_least_bytes", 20000);
    expect(ask(KILLED), NOTE_cause_memory, false, "probably out of memory: the kernel killed 3 processes");
}

/* An error that was said, and then a command that cleans up or takes the results away, and finds nothing. */
static void test_error_before_cleanup(void **state)
{
#define CLEANUP(name) \
    "[{\"pid\": 21, \"name\": \"" name "\", \"start_seconds\": 99.6, \"end_seconds\": 99.9, \"exit_code\": 1}, " \
    "{\"pid\": 10, \"name\": \"bash\", \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 1}]"
    put_command(23, "mktemp", 99.25, 99.26, 0);
    put_command(22, "sleep", 99.4, 99.55, 0); /* the script goes on, but with nothing that matters */
    put_command(21, "rm", 99.6, 99.9, 1 << 8);
    put_log(99.3, "error", "ERROR: CG diverged after 500 iterations");
    put_matched(99.9, "failure", "warning", "rm: cannot remove 'out.nc': No such file or directory");
    expect(ask(CLEANUP("rm")), NOTE_cause_log, false,
           "probably what stderr says: ERROR: CG diverged after 500 iterations");
    put_matched(99.9, "failure", "warning", "cp: cannot create regular file '/data/out.nc': Permission denied");
    expect(ask(CLEANUP("cp")), NOTE_cause_log, false,
           "probably what stderr says: cp: cannot create regular file '/data/out.nc': Permission denied");
}

/* The same of a program that was not made. */
static void test_error_before_missing(void **state)
{
    static const char chain[] =
        "[{\"pid\": 21, \"name\": \"job.sh\", \"start_seconds\": 99.6, \"end_seconds\": 99.9, "
        "\"exit_code\": 127}, {\"pid\": 10, \"name\": \"job.sh\", \"argv\": [\"/bin/bash\", \"./job.sh\"], "
        "\"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 127}]";
    static const char missing[] = "probably what stderr says: job.sh: line 3: ./model: No such file or directory";
    put_log(99.3, "error", "Error: Symbol 'rho' has no IMPLICIT type");
    put_matched(99.9, "shell_error", "error", "job.sh: line 3: ./model: No such file or directory");
    expect(ask_end(chain, 127, 0, NULL), NOTE_cause_log, false, missing); /* nothing has failed before */
    put_command(20, "gfortran", 99, 99.4, 1 << 8);
    expect(ask_end(chain, 127, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: Error: Symbol 'rho' has no IMPLICIT type");
}

/* A script has ended what it had started, by timeout(1) or by kill, and went on: what it said when it gave up is why. */
static void test_went_on(void **state)
{
#define RUN \
    ", {\"pid\": 10, \"name\": \"run\", \"argv\": [\"/bin/bash\", \"./run\"], \"end_seconds\": 99.9, \"exit_code\": " \
    "9}]"
    static const char timed[] = "[{\"pid\": 20, \"name\": \"timeout\", \"argv\": [\"timeout\", \"3\", \"./probe\"], "
                                "\"start_seconds\": 95, \"end_seconds\": 98, \"exit_code\": 124}" RUN;
    static const char killed[] = "[{\"pid\": 21, \"name\": \"sleep\", \"end_seconds\": 98, \"signal\": 15}" RUN;
    static const char limit[] = "probe was killed by SIGTERM, because of a limit: the 3 s that timeout(1) gave it";
    static const char foreign[] = "sleep was killed by SIGTERM, probably by its own job, or from outside: by a batch "
                                  "system's limit, or by somebody";
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:[s, s, s]}", "type", "process_end", "t", 98.0, "pid", 20, "ppid",
        10, "name", "timeout", "start", 95.0, "end", 98.0, "status", 124 << 8, "argv", "timeout", "3", "./probe");
    put_command(21, "sleep", 95, 98, 15);
    put_last(0.15, "step 7");
    expect(ask_end(timed, 9, 0, NULL), NOTE_cause_limit, true, limit);
    put_last(0.15, "giving up: probe is not done");
    expect(ask_end(timed, 9, 0, NULL), NOTE_cause_limit, true, limit);
    put_last(0.15, "mass not conserved");
    expect(ask_end(timed, 9, 0, NULL), NOTE_cause_process, false,
           "probably run (pid 10), which ended with exit status 9, after timeout(1) had ended probe, which took longer "
           "than 3 s; it said: mass not conserved");
    expect(ask_end(killed, 9, 0, NULL), NOTE_cause_killed, false, foreign); /* perhaps of what the script says */
    PUT("{s:s, s:f, s:i, s:s, s:s, s:[{s:i, s:i}]}", "type", "script_kills", "t", 1.0, "pid", 10, "language", "bash",
        "file", "/home/u/run", "kills", "line", 2, "signal", 15);
    expect(
        ask_end(killed, 9, 0, NULL), NOTE_cause_process, false,
        "probably run (pid 10), which ended with exit status 9, after sleep (pid 21), which it had started, was ended "
        "by SIGTERM; it said: mass not conserved");
    stuck = "deadlock: ranks 0 and 1 wait for each other";
    assert_int_equal(ask_end(timed, 3, 0, NULL).kind, NOTE_cause_mpi_stall); /* that is why it was ended */
    stuck = NULL;
    put_log(99.8, "error", "ERROR: mass is lost");
    expect(ask_end(timed, 9, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: ERROR: mass is lost; it had gone on after timeout(1) had ended probe, which "
           "took longer than 3 s");
}

/* A program of Python goes on after what it had started has crashed, and ends with other words. */
static void test_outlived_crash(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"crashy\", \"end_seconds\": 99.5, \"signal\": 11},"
                                " {\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 1}]";
    put_crash(99.5, 20);
    put_command(20, "crashy", 99, 99.5, 11);
    put_last(0.05, "crashy did not run");
    expect(ask(chain), NOTE_cause_crash, true, "crashy crashed by SIGSEGV, a NULL pointer");
    put_last(0.05, "table.csv has no column rho");
    expect(
        ask(chain), NOTE_cause_process, false,
        "probably python3 (pid 10), which ended with exit status 1, after crashy (pid 20), which it had started, was "
        "ended by SIGSEGV; it said: table.csv has no column rho");
}

/* The last command of a shell that failed has the status with which it ended. */
static void test_builtins(void **state)
{
    static const char chain[] = "[{\"pid\": 10, \"name\": \"bash\", \"argv\": [\"bash\", \"job.sh\"], "
                                "\"end_seconds\": 100, \"exit_code\": 1}]";
    put_log(99.9, "warning", "job.sh: line 3: cd: run1: No such file or directory");
    put_log(99.9, "warning", "job.sh: line 5: cd: run2: No such file or directory");
    expect(ask(chain), NOTE_cause_log, false,
           "probably what stderr says: job.sh: line 5: cd: run2: No such file or directory");
}

/* gfortran says where below what it says. */
static void test_fortran(void **state)
{
    put_matched(99.8, "fortran_error", "error", "ERROR STOP grid too coarse");
    put_matched(99.8, "fortran_backtrace", "error", "Error termination. Backtrace: at /home/u/grid.f90:6");
    expect(ask(ONE), NOTE_cause_log, false, "probably what stderr says: ERROR STOP grid too coarse, at grid.f90:6");
    put_matched(99.9, "out_of_memory", "error", "Could not print backtrace: mmap: Cannot allocate memory");
    expect(ask(ONE), NOTE_cause_log, false, "probably what stderr says: ERROR STOP grid too coarse, at grid.f90:6");
    put_abort(99.9);
    expect(ask(ABORTED), NOTE_cause_gave_up, true, "grid gave up, at grid.f90:6: ERROR STOP grid too coarse");
}

/* Python that ends otherwise than by an exception has caught those that it tells of. */
static void test_caught(void **state)
{
    static const char exited[] = "[{\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"exit_code\": 4}]";
    static const char aborted[] = "[{\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 100, \"signal\": 6}]";
    PUT("{s:s, s:f, s:i, s:s, s:i, s:b}", "type", "crash", "t", 99.9, "pid", 10, "name", "python3", "signal", 6,
        "core_dumped", 0);
    put_matched(99.5, "error", "error", "ERROR no cache, reading the raw data");
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:s, s:i, s:i}", "type", "log", "t", 99.5, "file", "stderr", "pattern",
        "exception", "level", "error", "text", "OSError: cache.bin", "place", "/home/u/steer.py:4", "line", 8, "folded",
        0);
    expect(ask_end(aborted, 0, 6, NULL), NOTE_cause_crash, true, "python3 crashed by SIGABRT");
    json_array_clear(model.crashes);
    put_last(0.05, "3 of 24 hours have no observations: stop");
    expect(ask_end(exited, 4, 0, NULL), NOTE_cause_process, true,
           "python3 (pid 10) ended with exit status 4; it said: 3 of 24 hours have no observations: stop");
    put_last(0.05, "OSError: cache.bin"); /* as a hook of its own may end */
    assert_int_equal(ask_end(exited, 4, 0, NULL).kind, NOTE_cause_log);
}

/* make tells that something failed, with a number of its depth; what failed has said why, with its name. A shell of a rule is no more than
 * what make says. */
static void test_make(void **state)
{
    static const char chain[] = "[{\"pid\": 30, \"name\": \"test_sum\", \"end_seconds\": 99.8, \"exit_code\": 3}, "
                                "{\"pid\": 20, \"name\": \"make\", "
                                "\"end_seconds\": 99.9, \"exit_code\": 2}, {\"pid\": 10, \"name\": \"make\", "
                                "\"end_seconds\": 100, \"exit_code\": "
                                "2}]";
    static const char shell[] =
        "[{\"pid\": 20, \"name\": \"sh\", \"end_seconds\": 99.8, \"exit_code\": 3}, {\"pid\": 10, "
        "\"name\": \"make\", \"end_seconds\": 100, \"exit_code\": 2}]";
    put_matched(99.95, "gave_up", "error", "make[1]: *** [Makefile:2: check] Error 3");
    expect(ask_end(chain, 2, 0, NULL), NOTE_cause_process, false,
           "probably test_sum (pid 30), which ended with exit status 3");
    PUT("{s:s, s:f, s:s, s:f, s:[s, s, s]}", "type", "log_last", "t", 100.0, "file", "stderr", "quiet_seconds", 0.1,
        "lines", "test_sum: sum(2, 2) is 0, expected 4", "make[1]: *** [Makefile:2: check] Error 3",
        "make: *** [all] Error 2");
    struct told told = ask_end(chain, 2, 0, NULL);
    expect(told, NOTE_cause_process, false,
           "probably test_sum (pid 30), which ended with exit status 3; it said: test_sum: sum(2, 2) is 0, expected 4");
    assert_string_equal(told.evidence, "[1]");
    expect(ask_end(shell, 2, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: make[1]: *** [Makefile:2: check] Error 3");
    static const char script[] =
        "[{\"pid\": 20, \"name\": \"process.sh\", \"argv\": [\"/bin/sh\", \"./process.sh\", \"b\"], "
        "\"end_seconds\": 99.8, \"exit_code\": 65}, {\"pid\": 10, \"name\": \"make\", "
        "\"end_seconds\": 100, \"exit_code\": 2}]";
    PUT("{s:s, s:f, s:s, s:f, s:[s, s]}", "type", "log_last", "t", 100.0, "file", "stderr", "quiet_seconds", 0.1,
        "lines", "process.sh: sample b: quality too low", "make: *** [Makefile:3: out/b] Error 65");
    expect(ask_end(script, 2, 0, NULL), NOTE_cause_process, false,
           "probably process.sh (pid 20), which ended with exit status 65; it said: process.sh: sample b: quality too "
           "low");
}

/* What a program only warns of, it goes on after; alone it may be why. */
static void test_warned(void **state)
{
    put_matched(99.3, "no_space", "error", "WARNING cache: [Errno 28] No space left on device: caching disabled");
    expect(ask(TWO), NOTE_cause_said, false,
           "probably a disk was full: WARNING cache: [Errno 28] No space left on device: caching disabled");
    put_matched(99.8, "exception", "error", "TypeError: object of type 'int' has no len()");
    expect(ask(TWO), NOTE_cause_log, false, "probably what stderr says: TypeError: object of type 'int' has no len()");
}

/* Many programs go on with NaN; but where nothing else is known that is worth to be named. */
static void test_number(void **state)
{
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:i, s:i}", "type", "log", "t", 99.0, "file", "run.log", "pattern", "nan",
        "level", "warning", "text", "step 500 residual NaN", "line", 3, "folded", 0);
    struct told told = ask(TWO);
    expect(told, NOTE_cause_process, false,
           "probably worker (pid 20), which ended with exit status 1; run.log says: step 500 residual NaN");
    assert_string_equal(told.evidence, "[0]");
    expect(ask(ONE), NOTE_cause_process, false,
           "probably a.out (pid 10), which ended with exit status 1; run.log says: step 500 residual NaN");
    put_last(0.15, "solver: no convergence after 500 iterations");
    expect(ask(ONE), NOTE_cause_process, true,
           "a.out (pid 10) ended with exit status 1; it said: solver: no convergence after 500 iterations");
    put_last(0.15, "step 8");
    put_matched(99.8, "nan", "warning", "NaN values replaced: 0"); /* of standard error, which went on */
    expect(ask(ONE), NOTE_NONE, false, "");
}

/* A rank said why it gave up, in words of its own; a launcher told of it below. */
static void test_said_before_launcher(void **state)
{
    struct job_rank rank = rank_that_left();
    first_rank = &rank;
    put_last(-1, "grid 17 x 17");
    expect(ask(MPIRUN), NOTE_cause_rank, true, "rank 1 of 3 exited with status 3 without MPI_Finalize");
    put_last(-1, "  **** nx = 17 must be divisible by 2");
    expect(ask(MPIRUN), NOTE_cause_rank, true,
           "rank 1 of 3 exited with status 3 without MPI_Finalize: **** nx = 17 must be divisible by 2");
    rank.aborted = true;
    rank.how = "called MPI_Abort with 3";
    put_last(-1, "grid 17 x 17 for 2 ranks");
    expect(ask(MPIRUN), NOTE_cause_rank, true, "rank 1 of 3 called MPI_Abort with 3: grid 17 x 17 for 2 ranks");
    put_last(20, "nx must be even");
    expect(ask(MPIRUN), NOTE_cause_rank, true, "rank 1 of 3 called MPI_Abort with 3"); /* long ago */
    first_rank = NULL;
    put_matched(99.9, "gave_up", "error", "srun: error: node7: task 3: Exited with exit code 2");
    put_last(-1, "3: step 12 done");
    expect(ask(ONE), NOTE_cause_log, false,
           "probably what stderr says: srun: error: node7: task 3: Exited with exit code 2");
    put_last(-1, "3: kappa = -1 is not allowed");
    struct told told = ask(ONE);
    expect(told, NOTE_cause_log, false,
           "probably what stderr says: 3: kappa = -1 is not allowed; then srun: error: node7: task 3: Exited with exit "
           "code 2");
    assert_string_equal(told.evidence, "[6,4]");
    put_matched(99.9, "mpi_abort", "error", "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD");
    assert_int_equal(ask(ONE).kind, NOTE_cause_log);
}

/* Of long before, of the shell that started it, of a warning whose second line it is, and of who knows when. */
static void test_labelled_warning(void **state)
{
    put_matched(98.9, "failure", "warning", "lib: WARNING: fast copies are not available: Permission denied");
    expect(ask(ONE), NOTE_NONE, false, ""); /* whatever it says, it only warns */
    put_matched(98.9, "failure", "warning", "lib: fast copies are not available: Permission denied");
    expect(ask(ONE), NOTE_cause_log, false,
           "probably what stderr says: lib: fast copies are not available: Permission denied");
}

static void test_no_last_words(void **state)
{
    static const char python[] = "[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99, \"exit_code\": 1}" OF_BASH;
    static const char none[] = "probably python3 (pid 20), which ended with exit status 1";
    put_last(7, "step 8");
    expect(ask(python), NOTE_cause_process, false, none);
    put_last(0.5, "the job failed");
    expect(ask(python), NOTE_cause_process, false, none);
    put_last(1.1, "  warnings.warn(text)");
    expect(ask(python), NOTE_cause_process, false, none);
    put_last(-1, "no mesh");
    expect(ask(python), NOTE_cause_process, false, none);
    PUT("{s:s, s:f, s:s, s:[s]}", "type", "log_last", "t", 100.0, "file", "stderr", "lines",
        "no mesh"); /* an older version */
    expect(ask(python), NOTE_cause_process, false, none);
    PUT("{s:s, s:f, s:s, s:f, s:[s]}", "type", "log_last", "t", 100.0, "file", "stdout", "quiet_seconds", 1.1, "lines",
        "no mesh");
    expect(ask(python), NOTE_cause_process, false, none);
}

/* ---- who wrote a line, and when ---- */

#define QUIET \
    "[{\"pid\": 20, \"name\": \"quiet\", \"argv\": [\"/usr/bin/perl\", \"./quiet\"], \"start_seconds\": 99.5, " \
    "\"end_seconds\": 99.9, \"exit_code\": 3}," \
    " {\"pid\": 10, \"name\": \"job.sh\", \"argv\": [\"/bin/bash\", \"./job.sh\"], \"start_seconds\": 0," \
    " \"end_seconds\": 100, \"exit_code\": 3}]"

static void put_written(double written, double read, const char *text)
{
    PUT("{s:s, s:f, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", read, "written", written, "file", "stderr",
        "pattern", "error", "level", "error", "text", text);
}

static void put_last_line(double written, int line, const char *before, const char *text)
{
    PUT("{s:s, s:f, s:s, s:f, s:[s, s], s:i}", "type", "log_last", "t", 100.0, "file", "stderr", "quiet_seconds",
        100 - written, "lines", before, text, "line", line);
}

/* What a script said before it started what failed is not that program's, however late it is read. */
static void test_said_by_script(void **state)
{
    put_failure(99.9, 10, 3, 4);
    put_written(99.4, 99.8, "error: foo");
    struct told told = ask_end(QUIET, 3, 0, NULL);
    assert_int_equal(told.kind, NOTE_cause_command);
    assert_null(strstr(told.text, "which said"));
    put_written(99.7, 99.8, "error: the mesh is empty");
    assert_non_null(strstr(ask_end(QUIET, 3, 0, NULL).text, "which said: error: the mesh is empty"));
}

/* Just before it there is only the script's text to tell them apart. */
static void test_printed_by_script(void **state)
{
    put_last_line(99.51, 0, "start", "foo is missing");
    struct told told = ask_end(QUIET, 3, 0, NULL);
    assert_int_equal(told.kind, NOTE_cause_process);
    assert_non_null(strstr(told.text, "; it said: foo is missing"));
    PUT("{s:s, s:f, s:i, s:[], s:[s]}", "type", "script_tested", "t", 100.0, "pid", 10, "commands", "prints", "foo is");
    told = ask_end(QUIET, 3, 0, NULL);
    assert_int_equal(told.kind, NOTE_cause_process);
    assert_null(strstr(told.text, "it said"));
    PUT("{s:s, s:f, s:i, s:[], s:[s]}", "type", "script_tested", "t", 100.0, "pid", 10, "commands", "prints", "error:");
    put_written(99.51, 99.8, "error: foo");
    expect(ask_end(QUIET, 3, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: error: foo; then quiet (pid 20) ended with exit status 3");
}

/* The end of the file in which the process 20 had its output; shared: the 10 has it, too. */
static void put_shared(double written, bool shared, const char *before, const char *line)
{
    PUT("{s:s, s:f, s:s, s:f, s:[s, s, s], s:i, s:b}", "type", "log_last", "t", 100.0, "file", "run.log",
        "quiet_seconds", 100 - written, "lines", "fit: 12 points", before, line, "pid", 20, "shared", shared);
    PUT("{s:s, s:f, s:s, s:f, s:[s, s, s]}", "type", "log_last", "t", 100.0, "file", "run.log", "quiet_seconds",
        100 - written, "lines", "fit: 12 points", before, line);
}

/* What its script has said when it was over are no words of a program; nor is it known whose they are if the script has the file, too. */
static void test_words_shared(void **state)
{
    static const char chain[] =
        "[{\"pid\": 20, \"name\": \"python3\", \"start_seconds\": 90, \"end_seconds\": 99.5, \"exit_code\": 3}" OF_BASH;
    static const char text[] = "the fit is rejected", by_name[] = "python3: no such cell";
    static const struct {
        double written;
        bool shared;
        const char *prints, *before_it, *before, *line, *said;
    } rows[] = {
        {99.5, true, NULL, NULL, text, "all is over", NULL},    /* a script may say it by a variable */
        {99.3, true, NULL, NULL, "step 1 is done", text, text}, /* while it lived, and its shell waited */
        {89.0, true, NULL, NULL, "step 1 is done", "begun", NULL},
        {99.5, true, NULL, NULL, by_name, "all is over", by_name},
        {99.5, true, "=== job ends", NULL, text, "=== job ends with 3", text},
        {99.5, true, "=== job ends", NULL, "step 1 is done", text, text}, /* the script says nothing else */
        {99.5, true, "", NULL, "step 1 is done", text, NULL},
        {99.5, true, "=== job ends", "prepare", text, "=== job ends with 3", NULL}, /* that may have said it */
        {99.5, true, "=== job ends", "mkdir", text, "=== job ends with 3", text},
        {99.5, false, "=== job ends", "prepare", text, "=== job ends with 3", text}, /* appended to what was its own */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, 100), 0);
        put_command(20, "python3", 90, 99.5, 3 << 8);
        if (rows[i].before_it)
            put_command(19, rows[i].before_it, 80, 85, 0);
        if (rows[i].prints)
            PUT("{s:s, s:f, s:i, s:[], s:[s]}", "type", "script_tested", "t", 100.0, "pid", 10, "commands", "prints",
                rows[i].prints);
        put_shared(rows[i].written, rows[i].shared, rows[i].before, rows[i].line);
        struct told told = ask(chain);
        const char *said = strstr(told.text, "; it said: ");
        assert_int_equal(told.kind, NOTE_cause_process);
        if (rows[i].said)
            assert_string_equal(said ? said + strlen("; it said: ") : told.text, rows[i].said);
        else
            assert_null(said);
    }
}

/* Lines and what a script prints may be no texts. */
static void test_words_damaged(void **state)
{
    static const char chain[] =
        "[{\"pid\": 20, \"name\": \"python3\", \"start_seconds\": 90, \"end_seconds\": 99.5, \"exit_code\": 3}" OF_BASH;
    put_command(20, "python3", 90, 99.5, 3 << 8);
    PUT("{s:s, s:f, s:i, s:[], s:[i]}", "type", "script_tested", "t", 100.0, "pid", 10, "commands", "prints", 1);
    PUT("{s:s, s:f, s:s, s:f, s:[i, s], s:i, s:b}", "type", "log_last", "t", 100.0, "file", "run.log", "quiet_seconds",
        0.5, "lines", 1, " the fit is rejected", "pid", 20, "shared", 1);
    assert_int_equal(ask(chain).kind, NOTE_cause_process);
}

/* Harmless words on standard error do not hide what standard output ended with. */
static void test_words_on_both(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99.9, \"exit_code\": 1}]";
    static const char below[] =
        "[{\"pid\": 20, \"name\": \"python3\", \"end_seconds\": 99.9, \"exit_code\": 1}" OF_BASH;
    static const char both[] = "; it said: connected / the grid has 64 levels";
    static const struct {
        const char *error, *before, *output, *chain, *prints, *said;
    } rows[] = {
        {"connected", "step 3", "the grid has 64 levels", chain, NULL, both},
        {"connected", "the grid has 64 levels", "the grid has 64 levels", chain, NULL, both},
        {"connected", "step 3", "step 4", chain, NULL, "; it said: connected"},
        {"connected", "x", "12.5 3", chain, NULL, "; it said: connected"},
        {"connected", "x", "WARNING: old option used", chain, NULL, "; it said: connected"},
        {"there is no mesh", "step 3", "the grid has 64 levels", chain, NULL, "; it said: there is no mesh"},
        {"connected", "step 3", "the grid has 64 levels", below, "job: ", both},
        {"connected", "step 3", "the grid has 64 levels", below, "the grid", "; it said: connected"},
        {"connected", "step 3", "the grid has 64 levels", below, "", NULL}, /* a variable of the script */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, 100), 0);
        put_command(20, "python3", 90, 99.9, 1 << 8);
        if (rows[i].prints)
            PUT("{s:s, s:f, s:i, s:[], s:[s]}", "type", "script_tested", "t", 100.0, "pid", 10, "commands", "prints",
                rows[i].prints);
        PUT("{s:s, s:f, s:s, s:f, s:[s, s], s:[s, s]}", "type", "log_last", "t", 100.0, "file", "stderr",
            "quiet_seconds", 0.15, "lines", "begun", rows[i].error, "output", rows[i].before, rows[i].output);
        struct told told = ask(rows[i].chain);
        const char *said = strstr(told.text, "; it said: ");
        assert_int_equal(told.kind, NOTE_cause_process);
        if (rows[i].said)
            assert_string_equal(said ? said : told.text, rows[i].said);
        else
            assert_null(said);
    }
}

static void test_words_below_make(void **state)
{
    static const char chain[] = "[{\"pid\": 20, \"name\": \"t_mean\", \"end_seconds\": 99.9, \"exit_code\": 1},"
                                " {\"pid\": 10, \"name\": \"make\", \"end_seconds\": 100, \"exit_code\": 2}]";
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", 99.0, "pid", 20, "ppid", 10, "name",
        "t_mean", "start", 99.0, "end", 99.9, "status", 1 << 8);
    PUT("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i}", "type", "process_end", "t", 99.0, "pid", 10, "ppid", 1, "name",
        "make", "start", 0.0, "end", 100.0, "status", 2 << 8);
    put_shared(99.95, true, "check 2: expected 0.3", "make: Leaving directory '/home/u/c'");
    expect(ask(chain), NOTE_cause_process, false,
           "probably t_mean (pid 20), which ended with exit status 1; it said: check 2: expected 0.3");
}

#define STEPS "[{\"pid\": 10, \"name\": \"python3\", \"end_seconds\": 99.9, \"exit_code\": 1, \"signal\": null}]"

static void put_numbered(double seconds, const char *pattern, const char *level, int line, const char *text)
{
    PUT("{s:s, s:f, s:s, s:s, s:s, s:i, s:s}", "type", "log", "t", seconds, "file", "stderr", "pattern", pattern,
        "level", level, "line", line, "text", text);
}

/* An error that was got over: its program says so, or goes on for long, to other final words; but a step is none. */
static void test_got_over(void **state)
{
    static const struct {
        int line;
        const char *before, *last;
        bool over;
    } rows[] = {{40, "step 39 ok", "no more cells", true},
                {4, "step 39 ok", "no more cells", false},
                {40, "step 39 ok", "step 40 ok", false},
                {40, "step 39 ok", "exiting with status 1", false},
                {40, "step 39 ok", "WARNING: 3 cells left", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        job_model_done(&model);
        assert_int_equal(job_model_init(&model, 100), 0);
        put_numbered(95, "error", "error", 2, "ERROR: connection lost");
        put_last_line(99.8, rows[i].line, rows[i].before, rows[i].last);
        assert_int_equal(ask(STEPS).kind, rows[i].over ? NOTE_cause_process : NOTE_cause_log);
    }
    put_numbered(96, "recovered", "info", 3, "reconnected to db1");
    assert_int_equal(ask(STEPS).kind, NOTE_NONE);
    put_numbered(97, "error", "error", 9, "ERROR: the mesh is empty");
    expect(ask(STEPS), NOTE_cause_log, false, "probably what stderr says: ERROR: the mesh is empty");
}

/* Of a pipeline what comes later is said because of what failed first. */
static void test_later_stage(void **state)
{
    put_ended_worker(21, 10, "python3", 99.5, 99.95, 1 << 8);
    put_written(99.92, 99.95, "error: bad checksum");
    expect(ask_end(QUIET, 3, 0, NULL), NOTE_cause_log, false, "probably what stderr says: error: bad checksum");
    PUT("{s:s, s:f, s:f, s:s, s:s, s:s, s:s, s:s}", "type", "log", "t", 99.96, "written", 99.93, "file", "stderr",
        "pattern", "exception", "level", "error", "place", "a.py:3", "text", "ValueError: no data");
    expect(ask_end(QUIET, 3, 0, NULL), NOTE_cause_log, false, "probably what stderr says: error: bad checksum");
}

/* Of a program that ran several times, the line of the last run, and not what it said alike before; of one that aborts, what it complained of. */
static void test_said_alike(void **state)
{
    put_ended_worker(11, 10, "quiet", 98, 98.2, 2 << 8);
    put_written(99.6, 99.8, "quiet: error: no cells in case 1");
    put_written(99.6, 99.8, "quiet: error: no cells in case 3");
    expect(ask_end(QUIET, 3, 0, NULL), NOTE_cause_log, false,
           "probably what stderr says: quiet: error: no cells in case 3");
    job_model_done(&model);
    assert_int_equal(job_model_init(&model, 100), 0);
    put_abort(99.9);
    put_last_line(99.9, 0, "step 2", "bad state 4 in cell 7");
    expect(ask_end(ABORTED, 134, 0, NULL), NOTE_cause_gave_up, true, "grid gave up: bad state 4 in cell 7");
    put_last_line(99.95, 0, "bad state 4 in cell 7", "job.sh: line 2:  20 Aborted        ./grid");
    expect(ask_end(ABORTED, 134, 0, NULL), NOTE_cause_gave_up, true, "grid gave up: bad state 4 in cell 7");
}

/* What stands above a line of make. */
static void test_said_above_make(void **state)
{
    static const char job[] = "[{\"pid\": 20, \"name\": \"python3\", \"start_seconds\": 90, \"end_seconds\": 99.8,"
                              " \"exit_code\": 1}, {\"pid\": 10, \"name\": \"make\", \"start_seconds\": 0,"
                              " \"end_seconds\": 100, \"exit_code\": 2}]";
    put_last_line(99.9, 0, "gen.py: no template for tile 4", "make: *** [Makefile:3: x] Error 1");
    assert_non_null(strstr(ask_end(job, 2, 0, NULL).text, "; it said: gen.py: no template for tile 4"));
    put_last_line(99.9, 0, "gcc -c a.c", "make: *** [Makefile:3: x] Error 1");
    assert_null(strstr(ask_end(job, 2, 0, NULL).text, "it said"));
}

/* A script that a program crashed in went on to an end of its own: how that was told is not its last word. */
static void test_crash_left_behind(void **state)
{
    static const char job[] = "[{\"pid\": 10, \"name\": \"job.sh\", \"argv\": [\"/bin/bash\", \"./job.sh\"],"
                              " \"start_seconds\": 0, \"end_seconds\": 100, \"exit_code\": 1}]";
    put_crash(99, 20);
    put_last_line(99.1, 0, "start", "./job.sh: line 2:  20 Segmentation fault      ./crashy");
    assert_int_equal(ask(job).kind, NOTE_cause_crash);
    put_last_line(99.95, 0, "./job.sh: line 2:  20 Segmentation fault      ./crashy", "the config is missing");
    struct told told = ask(job);
    assert_int_equal(told.kind, NOTE_cause_process);
    assert_non_null(strstr(told.text, "it said: the config is missing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(test_last_words),
        ROW(test_last_words_of_memory),
        ROW(test_said_by_stage),
        ROW(test_only_line),
        ROW(test_said_in_pipeline),
        ROW(test_unexecuted),
        ROW(test_no_last_words),
        ROW(test_words_shared),
        ROW(test_words_damaged),
        ROW(test_words_on_both),
        ROW(test_words_below_make),
        ROW(test_labelled_warning),
        ROW(test_number),
        ROW(test_warned),
        ROW(test_said_before_launcher),
        ROW(test_tolerated),
        ROW(test_tolerated_end),
        ROW(test_memory_of_others),
        ROW(test_outlived_crash),
        ROW(test_went_on),
        ROW(test_caught),
        ROW(test_fortran),
        ROW(test_builtins),
        ROW(test_make),
        ROW(test_nothing),
        ROW(test_killed_worker),
        ROW(test_killed_by_itself),
        ROW(test_aborted_worker),
        ROW(test_memory),
        ROW(test_memory_of_one),
        ROW(test_disk),
        ROW(test_disk_full),
        ROW(test_disk_full_soon),
        ROW(test_said),
        ROW(test_credential),
        ROW(test_memory_short),
        ROW(test_standstill),
        ROW(test_stuck),
        ROW(test_lost_workers),
        ROW(test_lost_before_timeout),
        ROW(test_said_last),
        ROW(test_crash_seen),
        ROW(test_exception_before),
        ROW(test_lost_before_signal),
        ROW(test_crash),
        ROW(test_crash_in_library),
        ROW(test_crash_in_libraries),
        ROW(test_crash_below_libm),
        ROW(test_crash_by_log),
        ROW(test_crash_with_faulthandler),
        ROW(test_crash_below_python),
        ROW(test_crash_in_template),
        ROW(test_limit),
        ROW(test_address_limit),
        ROW(test_own_heap),
        ROW(test_data_limit),
        ROW(test_address_limit_of_words),
        ROW(test_address_limit_of_crash),
        ROW(test_address_limit_of_null),
        ROW(test_memory_of_several),
        ROW(test_exception),
        ROW(test_exception_said),
        ROW(test_exception_of_child),
        ROW(test_exception_in_library),
        ROW(test_exception_elsewhere),
        ROW(test_exception_of_thread),
        ROW(test_mpi_stuck),
        ROW(test_timeout_of_launcher),
        ROW(test_stuck_after_error),
        ROW(test_mpi_late),
        ROW(test_mpi_waited),
        ROW(test_launcher_fell),
        ROW(test_launcher_was_asked),
        ROW(test_mpi_stall),
        ROW(test_ended_ranks),
        ROW(test_asked),
        ROW(test_asked_of_mpirun),
        ROW(test_not_found_elsewhere),
        ROW(test_killed_by_launcher),
        ROW(test_left),
        ROW(test_was_at),
        ROW(test_killed),
        ROW(test_command),
        ROW(test_signal),
        ROW(test_terminal),
        ROW(test_page),
        ROW(test_task),
        ROW(test_log),
        ROW(test_command_below),
        ROW(test_pipeline),
        ROW(test_writer),
        ROW(test_one_after_the_other),
        ROW(test_pipefail),
        ROW(test_process),
        ROW(test_not_executed),
        ROW(test_disk_of_scry),
        ROW(test_place_of_system_error),
        ROW(test_survived),
        ROW(test_consequence),
        ROW(test_crash_survived),
        ROW(test_crash_in_background),
        ROW(test_abort),
        ROW(test_abort_later),
        ROW(test_disk_of_exception),
        ROW(test_log_of_script),
        ROW(test_rank),
        ROW(test_rank_of_mpich),
        ROW(test_lost),
        ROW(test_silent),
        ROW(test_rank_asked),
        ROW(test_rank_killed),
        ROW(test_rank_killed_by_launcher),
        ROW(test_outlived),
        ROW(test_timeout),
        ROW(test_ended_child),
        ROW(test_launched),
        ROW(test_of_another),
        ROW(test_of_cleanup),
        ROW(test_of_trap),
        ROW(test_tracebacks),
        ROW(test_logged_exception),
        ROW(test_tracebacks_of_libraries),
        ROW(test_command_of_python),
        ROW(test_failed_cleanup),
        ROW(test_error_before_cleanup),
        ROW(test_error_before_missing),
        ROW(test_many_others),
        ROW(test_age),
        ROW(test_said_by_script),
        ROW(test_printed_by_script),
        ROW(test_got_over),
        ROW(test_later_stage),
        ROW(test_crash_left_behind),
        ROW(test_said_above_make),
        ROW(test_said_alike),
    };
    return cmocka_run_group_tests_name("layers cause", tests, NULL, NULL);
}
