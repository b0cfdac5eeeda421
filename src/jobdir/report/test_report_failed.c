/* SPDX-License-Identifier: Apache-2.0 */
/* What failed first, and what made its parents fail, from records. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "jobdir/report/failed.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"

enum {
    SUPERVISOR = 1,
    EXIT_1 = 1 << 8,
    EXIT_2 = 2 << 8,
    EXIT_127 = 127 << 8,
    KILLED = 9,
    CRASHED = 11,
    EXIT_137 = 137 << 8
};

/* Of an ended process; status -1: not known. */
static void add(struct job_model *model, int pid, int ppid, const char *name, double start, double end, int status)
{
    json_t *record =
        json_pack("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:[s, s], s:s}", "type", "process_end", "t", end, "pid", pid,
                  "ppid", ppid, "name", name, "start", start, "end", end, "argv", name, "an argument", "cwd", "/where");
    if (status >= 0)
        json_object_set_new(record, "status", json_integer(status));
    else
        json_object_set_new(record, "why", json_string("nobody told"));
    json_object_set_new(record, "source", status >= 0 ? json_string("event") : json_null());
    job_model_apply(model, record);
    json_decref(record);
}

/* The pids of the chain as text. */
static const char *chain(const json_t *failed)
{
    static char text[128];
    size_t index, len = 0;
    const json_t *process;
    text[0] = 0;
    json_array_foreach(json_object_get(failed, "chain"), index, process) len += (size_t)snprintf(
        text + len, sizeof text - len, index ? " %d" : "%d", (int)json_integer_value(json_object_get(process, "pid")));
    return text;
}

static json_t *failed_of(struct job_model *model)
{
    json_t *failed = report_failed_json(model, SUPERVISOR);
    job_model_done(model);
    assert_non_null(failed);
    return failed;
}

/* make -j: the compiler that failed first, although another failed while make waited for it. */
static void test_make(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 12, 10, "sh", 0.1, 0.2, 0);
    add(&model, 15, 14, "cc1", 0.2, 0.5, EXIT_1);
    add(&model, 14, 10, "gcc", 0.2, 0.6, EXIT_1);
    add(&model, 16, 10, "gcc", 0.3, 0.9, EXIT_1);
    add(&model, 10, SUPERVISOR, "make", 0, 1, EXIT_2);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "15 14 10");
    assert_int_equal(json_integer_value(json_object_get(failed, "count")), 4);
    struct buf text = BUF_INIT;
    report_failed_text(&text, failed, 0, false);
    buf_putc(&text, 0);
    assert_string_equal(text.data, "  failed     cc1 (pid 15) exit 1 at 0.50 s\n"
                                   "             cc1 an argument\n"
                                   "             in /where\n"
                                   "             then gcc (pid 14) exit 1, make (pid 10) exit 2\n");
    buf_done(&text);
    json_decref(failed);
}

/* Of a pipeline the one that failed by itself, though another was ended before it; of what timeout ends, none. */
static void test_effects(void **state)
{
    enum { EXIT_124 = 124 << 8, PIPE_GONE = 13, ENDED = 15 };
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 11, 10, "sort", 0.1, 0.4, PIPE_GONE);
    add(&model, 12, 10, "cat", 0.1, 0.5, ENDED);
    add(&model, 13, 10, "python3", 0.1, 0.6, EXIT_1);
    add(&model, 10, SUPERVISOR, "bash", 0, 1, EXIT_1);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "13 10");
    json_decref(failed);

    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 13, 12, "cat", 0.1, 1, ENDED);
    add(&model, 14, 12, "python3", 0.1, 1.1, EXIT_1);
    add(&model, 12, 11, "sh", 0.1, 1.1, ENDED);
    add(&model, 11, 10, "timeout", 0.1, 1.1, EXIT_124);
    add(&model, 10, SUPERVISOR, "bash", 0, 1.2, EXIT_124);
    failed = failed_of(&model);
    assert_string_equal(chain(failed), "11 10");
    json_decref(failed);

    enum { EXIT_4 = 4 << 8, EXIT_5 = 5 << 8 }; /* the second of three, for want of which the last one fails */
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 12, 10, "stage2", 0.1, 0.4, EXIT_4);
    add(&model, 11, 10, "stage1", 0.1, 0.5, PIPE_GONE);
    add(&model, 13, 10, "stage3", 0.1, 0.6, EXIT_5);
    add(&model, 10, SUPERVISOR, "bash", 0, 1, EXIT_5);
    failed = failed_of(&model);
    assert_string_equal(chain(failed), "12 10");
    json_decref(failed);
}

/* xargs goes on after one has failed. */
static void test_xargs(void **state)
{
    enum { EXIT_123 = 123 << 8, EXIT_125 = 125 << 8 };
    for (int killed = 0; killed < 2; killed++) {
        struct job_model model;
        assert_int_equal(job_model_init(&model, 100), 0);
        add(&model, 12, 11, "conv", 0.1, 0.2, 0);
        add(&model, 13, 11, "conv", 0.3, 0.4, killed ? KILLED : EXIT_1);
        add(&model, 14, 11, "conv", 0.5, 0.6, 0);
        add(&model, 11, 10, "xargs", 0, 0.7, killed ? EXIT_125 : EXIT_123);
        add(&model, 10, SUPERVISOR, "bash", 0, 1, killed ? EXIT_125 : EXIT_123);
        json_t *failed = failed_of(&model);
        assert_string_equal(chain(failed), "13 11 10");
        json_decref(failed);
    }
}

static void put_error(struct job_model *model, double seconds, const char *text)
{
    json_t *record = json_pack("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", seconds, "file", "stderr",
                               "pattern", "exception", "level", "error", "text", text);
    job_model_apply(model, record);
    json_decref(record);
}

/* A worker that was killed, and whose parent says so; but not what the parent has ended itself. */
static void test_worker(void **state)
{
    static const struct {
        const char *text, *chain;
    } rows[] = {{"BrokenProcessPool: A process in the process pool was terminated abruptly", "12 10"},
                {"RuntimeError: worker failed with -9", "12 10"},
                {"CalledProcessError: Command 'a' died with <Signals.SIGKILL: 9>.", "12 10"},
                {"TimeoutExpired: Command 'a' timed out after 9 seconds", "10"},
                {"ValueError: row 3-9 has no weight", "10"},
                {"ValueError: -9.5 is too small", "10"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        assert_int_equal(job_model_init(&model, 100), 0);
        add(&model, 12, 10, "python3", 0.1, 2, KILLED);
        add(&model, 13, 10, "python3", 0.1, 2.1, 15);
        put_error(&model, 2.2, rows[i].text);
        add(&model, 10, SUPERVISOR, "python3", 0, 2.15, EXIT_1);
        json_t *failed = failed_of(&model);
        assert_string_equal(chain(failed), rows[i].chain);
        json_decref(failed);
    }
}

/* What nobody read is no failure: of a command that was killed, or of a shell with another status. */
static void test_unread(void **state)
{
    enum { PIPE_GONE = 13, EXIT_141 = 141 << 8 };
    static const struct {
        const char *parent;
        int status;
        const char *chain;
    } rows[] = {
        {"pipes", KILLED, "10"}, {"bash", EXIT_1, "10"}, {"bash", EXIT_141, "11 10"}, {"python3", EXIT_1, "11 10"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        assert_int_equal(job_model_init(&model, 100), 0);
        add(&model, 11, 10, "yes", 0.1, 0.51, PIPE_GONE);
        add(&model, 10, SUPERVISOR, rows[i].parent, 0, 0.5, rows[i].status);
        json_t *failed = failed_of(&model);
        assert_string_equal(chain(failed), rows[i].chain);
        json_decref(failed);
    }
}

static void put_now(struct job_model *model, json_t *record)
{
    assert_non_null(record);
    job_model_apply(model, record);
    json_decref(record);
}

/* What a script asks, and then ends by itself: it has another status, is known to have left with exit, or has said something since. Of
 * set -e nothing is known but the status. */
static void test_answer(void **state)
{
    static const struct {
        const char *program;
        int status, parent;
        bool followed, failed;
        double said; /* on standard error; 0: nothing */
        const char *chain;
    } rows[] = {
        {"grep", EXIT_1, EXIT_1, false, false, 0, "11 10"},    {"grep", EXIT_1, EXIT_2, false, false, 0, "10"},
        {"grep", EXIT_2, EXIT_1, false, false, 0, "11 10"},    {"grep", EXIT_1, EXIT_1, true, false, 0, "10"},
        {"grep", EXIT_1, EXIT_1, true, true, 0, "11 10"},      {"diff", EXIT_1, EXIT_1, false, false, 0.9, "10"},
        {"diff", EXIT_1, EXIT_1, false, false, 0.45, "11 10"}, {"diff", EXIT_1, EXIT_1, false, false, 1.5, "11 10"},
        {"model", EXIT_1, EXIT_1, true, false, 0.9, "11 10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        assert_int_equal(job_model_init(&model, 100), 0);
        if (rows[i].followed)
            put_now(&model, json_pack("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "script_line", "t", 0.1, "pid", 10,
                                      "file", "/job.sh", "line", 2, "how", "inside"));
        if (rows[i].failed)
            put_now(&model, json_pack("{s:s, s:f, s:i, s:s, s:i, s:s, s:i}", "type", "command_failed", "t", 0.95, "pid",
                                      10, "file", "/job.sh", "line", 4, "command", "grep x y", "status", 1));
        add(&model, 11, 10, rows[i].program, 0.1, 0.5, rows[i].status);
        add(&model, 10, SUPERVISOR, "bash", 0, 1, rows[i].parent);
        if (rows[i].said > 0)
            put_now(&model, json_pack("{s:s, s:f, s:s, s:f, s:[s]}", "type", "log_last", "t", 2.0, "file", "stderr",
                                      "quiet_seconds", 2 - rows[i].said, "lines", "no such thing"));
        json_t *failed = failed_of(&model);
        if (strcmp(chain(failed), rows[i].chain) != 0)
            fail_msg("%zu: %s", i, chain(failed));
        json_decref(failed);
    }
}

/* A shell that cleans up at its exit keeps its status: that is of what failed before. An answer of grep is none, a crash and a program
 * are more than a status that many things have, and what make ends with says nothing. */
static void test_cleanup(void **state)
{
    enum { EXIT_6 = 6 << 8 };
    static const struct {
        const char *shell, *program, *last;
        double before; /* that began */
        int failed, cleanup, status;
        const char *chain;
    } rows[] = {
        {"bash", "python3", "rm", 0.1, EXIT_6, EXIT_1, EXIT_6, "11 10"},
        {"bash", "python3", "rm", 40, EXIT_6, EXIT_1, EXIT_6, "11 10"},
        {"bash", "python3", "plot", 0.1, EXIT_6, EXIT_1, EXIT_6, "11 10"},
        {"bash", "cp", "rm", 0.1, EXIT_1, EXIT_2, EXIT_1, "11 10"},
        {"bash", "cp", "rm", 40, EXIT_1, EXIT_2, EXIT_1, "12 10"},
        {"bash", "cp", "solver", 0.1, EXIT_1, EXIT_2, EXIT_1, "12 10"}, /* cp missing; solver || exit 1 */
        {"bash", "ls", "solver", 0.1, EXIT_2, EXIT_1, EXIT_2, "12 10"},
        {"bash", "grep", "rm", 0.1, EXIT_1, EXIT_2, EXIT_1, "12 10"},
        {"bash", "cp", "rm", 0.1, EXIT_1, CRASHED, EXIT_1, "12 10"},
        {"bash", "cp", "rm", 0.1, EXIT_2, EXIT_1, EXIT_1, "12 10"},
        {"make", "cp", "rm", 0.1, EXIT_2, EXIT_1, EXIT_2, "12 10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        assert_int_equal(job_model_init(&model, 100), 0);
        add(&model, 11, 10, rows[i].program, 0.1, 50 - rows[i].before, rows[i].failed);
        add(&model, 12, 10, rows[i].last, 50, 50.1, rows[i].cleanup);
        add(&model, 10, SUPERVISOR, rows[i].shell, 0, 50.2, rows[i].status);
        json_t *failed = failed_of(&model);
        assert_string_equal(chain(failed), rows[i].chain);
        json_decref(failed);
    }
}

/* What a shell starts in a trap of its exit is none of what failed before, whatever both ended with; but where nothing did, and the
 * shell has its status, the trap is the reason: of a program that stands only there that is known where the shell has told of all commands
 * that failed. A command that is not found has no name but the shell's. */
static void test_trap(void **state)
{
    enum { EXIT_5 = 5 << 8 };
    static const struct {
        const char *commands; /* of the trap; NULL: not known */
        struct {
            const char *name;
            int status;
        } children[3]; /* one after the other: 11, 12, 13 */
        int status;
        const char *chain;
        bool only, inside;
    } rows[] = {
        {"[\"rm\"]", {{"cp", EXIT_1}, {"rm", EXIT_1}}, EXIT_1, "11 10"},
        {"[\"rm\"]", {{"cp", EXIT_1}, {"rm", EXIT_1}}, EXIT_5, "11 10"}, /* cp || exit 5 */
        {"[\"mv\", \"rm\"]", {{"model", EXIT_2}, {"mv", EXIT_1}, {"rm", EXIT_1}}, EXIT_1, "11 10"},
        {"[\"rm\"]", {{"mkdir", EXIT_1}, {"cp", EXIT_1}, {"rm", 0}}, EXIT_1, "12 10"},
        {"[\"umount_it\"]", {{"model", EXIT_1}, {"bash", EXIT_127}}, EXIT_127, "11 10"},
        {"[\"umount_it\", \"rmdir\"]", {{"model", EXIT_1}, {"bash", EXIT_127}, {"rmdir", EXIT_1}}, EXIT_1, "11 10"},
        {"[\"rm\"]", {{"cp", EXIT_1}, {"bash", EXIT_127}, {"rm", 0}}, EXIT_127, "12 10"}, /* cp; nosuch */
        {"[\"rm\"]", {{"rm", EXIT_1}}, EXIT_1, "11 10"},
        {"[\"rm\"]", {{"rm", EXIT_1}}, EXIT_5, "10"},
        {"[\"rm\"]", {{"cp", EXIT_1}, {"rm", EXIT_1}, {"tar", EXIT_1}}, EXIT_1, "13 10"},
        {NULL, {{"cp", EXIT_1}, {"rm", EXIT_1}}, EXIT_1, "12 10"},
        {"[\"rm\"]", {{"cp", EXIT_1}, {"rm", EXIT_1}}, EXIT_1, "11 10", .only = true},
        {"[\"rm\"]", {{"cp", 0}, {"rm", EXIT_1}}, EXIT_1, "10", .only = true},
        {"[\"rm\"]", {{"cp", 0}, {"rm", EXIT_1}}, EXIT_1, "12 10", .only = true, .inside = true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        assert_int_equal(job_model_init(&model, 100), 0);
        for (int k = 0; k < 3 && rows[i].children[k].name; k++)
            add(&model, 11 + k, 10, rows[i].children[k].name, 0.1 * (k + 1), 0.1 * (k + 1) + 0.05,
                rows[i].children[k].status);
        add(&model, 10, SUPERVISOR, "bash", 0, 0.5, rows[i].status);
        if (rows[i].commands)
            put_now(&model, json_pack("{s:s, s:f, s:i, s:o, s:o*}", "type", "script_trap", "t", 0.5, "pid", 10,
                                      "commands", json_loads(rows[i].commands, 0, NULL), "only",
                                      rows[i].only ? json_loads(rows[i].commands, 0, NULL) : NULL));
        if (rows[i].inside)
            put_now(&model, json_pack("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "script_line", "t", 0.5, "pid", 10,
                                      "file", "job.sh", "line", 3, "how", "inside"));
        json_t *failed = failed_of(&model);
        if (strcmp(chain(failed), rows[i].chain) != 0)
            fail_msg("%zu: %s", i, chain(failed));
        json_decref(failed);
    }
}

/* A script's process has the name of the script; its command line begins with the shell. */
static void test_script_is_shell(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 11, 10, "worker", 0.1, 0.6, KILLED);
    json_t *record = json_pack("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:[s, s], s:i, s:s}", "type", "process_end", "t",
                               0.7, "pid", 10, "ppid", SUPERVISOR, "name", "run.sh", "start", 0.0, "end", 0.7, "argv",
                               "/bin/bash", "./run.sh", "status", EXIT_1, "source", "event");
    job_model_apply(&model, record);
    json_decref(record);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "11 10");
    json_decref(failed);
}

/* timeout(1) with SIGKILL is killed with its child. */
static void test_timeout_killed(void **state)
{
    struct job_model model;
    json_t *record =
        json_pack("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:[s, s, s, s, s], s:i, s:s}", "type", "process_end", "t", 2.0,
                  "pid", 11, "ppid", 10, "name", "timeout", "start", 0.0, "end", 2.0, "argv", "timeout", "-s", "KILL",
                  "2", "solver", "status", KILLED, "source", "event");
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 12, 11, "solver", 0.01, 1.99, KILLED);
    job_model_apply(&model, record);
    json_decref(record);
    add(&model, 10, SUPERVISOR, "bash", 0, 2.1, EXIT_137);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "11 10");
    json_decref(failed);
}

/* MPICH: its daemon on the node ends with 0 though a rank failed, before the others were killed. */
static void test_hydra(void **state)
{
    enum { EXIT_3 = 3 << 8, EXIT_9 = 9 << 8 };
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 21, 20, "ocean", 0.1, 0.6, EXIT_3);
    add(&model, 22, 20, "ocean", 0.1, 0.7, KILLED);
    add(&model, 20, 10, "hydra_pmi_proxy", 0.1, 0.8, 0);
    add(&model, 10, SUPERVISOR, "mpirun.mpich", 0, 0.9, EXIT_9);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "21 20 10");
    json_decref(failed);

    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 21, 20, "ocean", 0.1, 0.6, EXIT_3);
    add(&model, 20, 10, "wrapper", 0.1, 0.8, 0);
    add(&model, 10, SUPERVISOR, "mpirun.mpich", 0, 0.9, EXIT_9);
    failed = failed_of(&model);
    assert_string_equal(chain(failed), "10");
    json_decref(failed);
}

/* What a program ended that then failed itself is none of its reasons; what the kernel ended, or what a shell ends with, may be. */
static void test_ended_by_parent(void **state)
{
    enum { ENDED = 15 };
    static const struct {
        const char *parent;
        int signo, status, memory;
        const char *chain;
    } rows[] = {
        {"python3", KILLED, EXIT_1, 0, "10"},     {"python3", ENDED, EXIT_1, 0, "10"},
        {"python3", KILLED, EXIT_1, 1, "11 10"},  {"python3", KILLED, EXIT_137, 0, "11 10"},
        {"python3", CRASHED, EXIT_1, 0, "11 10"}, {"bash", KILLED, EXIT_1, 0, "11 10"},
        {"mpirun", ENDED, EXIT_1, 0, "11 10"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_model model;
        assert_int_equal(job_model_init(&model, 100), 0);
        add(&model, 11, 10, "worker", 0.1, 0.6, rows[i].signo);
        add(&model, 10, SUPERVISOR, rows[i].parent, 0, 0.7, rows[i].status);
        model.layers.oom_kills = (uint64_t)rows[i].memory;
        json_t *failed = failed_of(&model);
        assert_string_equal(chain(failed), rows[i].chain);
        json_decref(failed);
    }
}

/* What a launcher's daemon leaves behind on a node: it ends well, and one of its ranks did not. */
static void test_with_status(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 21, 20, "grep", 0.1, 0.2, EXIT_2);
    add(&model, 22, 20, "solver", 0.3, 0.8, EXIT_2);
    add(&model, 20, 11, "sh", 0.1, 0.9, EXIT_2);
    add(&model, 23, 11, "other", 0.1, 1, KILLED);
    add(&model, 11, 10, "orted", 0, 1.1, 0);
    add(&model, 10, SUPERVISOR, "sh", 0, 1.2, 0);
    json_t *with = json_pack("{s:o}", "chain", report_failed_with_json(&model, 2));
    assert_string_equal(chain(with), "22 20");
    json_decref(with);
    with = json_pack("{s:o}", "chain", report_failed_with_json(&model, 137));
    assert_string_equal(chain(with), "23");
    json_decref(with);
    assert_null(report_failed_with_json(&model, 1));
    add(&model, 24, 11, "solver", 0.1, 1, CRASHED);
    with = json_pack("{s:o}", "chain", report_failed_with_json(&model, 1));
    assert_string_equal(chain(with), "24");
    json_decref(with);
    json_decref(failed_of(&model));
}

/* A script that goes on after failures: those are not why it failed, unless it ends with the same status. */
static void test_script(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 11, 10, "grep", 0.1, 0.2, EXIT_1);
    add(&model, 12, 10, "worker", 0.3, 0.4, KILLED);
    add(&model, 13, 10, "rm", 0.5, 0.6, 0);
    add(&model, 10, SUPERVISOR, "sh", 0, 1, EXIT_137);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "12 10");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(failed, "first"), "pid")), 11);
    const json_t *worker = json_array_get(json_object_get(failed, "chain"), 0);
    assert_true(json_is_null(json_object_get(worker, "exit_code")));
    assert_int_equal(json_integer_value(json_object_get(worker, "signal")), 9);
    json_decref(failed);

    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 11, 10, "grep", 0.1, 0.2, EXIT_1);
    add(&model, 13, 10, "rm", 0.5, 0.6, 0);
    add(&model, 10, SUPERVISOR, "sh", 0, 1, EXIT_2);
    failed = failed_of(&model);
    assert_string_equal(chain(failed), "10");
    struct buf text = BUF_INIT;
    report_failed_text(&text, failed, 0, false);
    assert_int_equal(text.len, 0); /* the head of the report says it */
    report_failed_text(&text, failed, 0, true);
    buf_putc(&text, 0);
    assert_non_null(strstr(text.data, "failed     grep (pid 11) exit 1 at 0.20 s\n"));
    assert_non_null(strstr(text.data, "2 processes failed in all (--json"));
    buf_clear(&text);
    report_failed_text(&text, failed, 3, true); /* on other nodes */
    assert_non_null(strstr(text.data, "5 processes failed in all, 3 of them on other nodes (--json"));
    buf_done(&text);
    json_decref(failed);
}

/* A job that went well; what is unknown is said, with the reason. */
static void test_unknown(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 11, 10, "a", 0.1, 0.2, -1);
    add(&model, 12, 10, "b", 0.1, 0.2, -1);
    add(&model, 13, 10, "test", 0.1, 0.3, EXIT_127);
    add(&model, 10, SUPERVISOR, "sh", 0, 1, 0);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "");
    assert_int_equal(json_integer_value(json_object_get(failed, "unknown")), 2);
    struct buf text = BUF_INIT;
    report_failed_text(&text, failed, 0, false);
    assert_int_equal(text.len, 0);
    report_failed_text(&text, failed, 0, true);
    buf_putc(&text, 0);
    assert_non_null(strstr(text.data, "unknown    how 2 processes ended\n             2: nobody told\n"));
    buf_done(&text);
    json_decref(failed);
}

/* A number that is given again is another process; parents are told by their times. */
static void test_number_again(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 20, 11, "of the former", 0.1, 0.2, EXIT_1);
    add(&model, 11, 10, "former", 0, 0.3, 0);
    add(&model, 11, 10, "latter", 0.8, 0.9, EXIT_1);
    add(&model, 10, SUPERVISOR, "sh", 0, 1, EXIT_1);
    json_t *failed = failed_of(&model);
    assert_string_equal(chain(failed), "11 10");
    json_decref(failed);
}

static void test_command(void **state)
{
    static const struct {
        const char *argv;
        size_t most;
        const char *text;
    } rows[] = {{"[\"a\", \"b c\", \"\"]", 80, "a b c ''"},
                {"[\"12345\", \"67890\"]", 11, "12345 67890"},
                {"[\"12345\", \"67890\"]", 10, "1234...890"},
                {"[\"cc1\", \"-quiet\", \"-o\", \"/tmp/a.s\", \"util.c\"]", 20, "cc1 -quie...s util.c"},
                {"[\"\\u001b[1m\"]", 80, "\\x1b[1m"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf text = BUF_INIT;
        json_t *argv = json_loads(rows[i].argv, 0, NULL);
        assert_true(report_command(&text, argv, false, rows[i].most));
        buf_putc(&text, 0);
        assert_string_equal(text.data, rows[i].text);
        buf_done(&text);
        json_decref(argv);
    }
    struct buf text = BUF_INIT;
    assert_false(report_command(&text, NULL, false, 80));
    buf_done(&text);
}

/* What a shim looks up is nothing that failed; in a job that did, it is not what failed first. */
static void test_lookups(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 100), 0);
    for (int i = 0; i < 3; i++)
        add(&model, 11 + i, 10, "readlink", 0.1, 0.2 + i, EXIT_1);
    add(&model, 10, SUPERVISOR, "python3", 0, 5, 0);
    json_t *failed = failed_of(&model);
    struct buf text = BUF_INIT;
    report_failed_text(&text, failed, 0, true);
    assert_int_equal(text.len, 0);
    json_decref(failed);
    assert_int_equal(job_model_init(&model, 100), 0);
    add(&model, 11, 10, "readlink", 0.1, 0.2, EXIT_1);
    add(&model, 12, 10, "make", 0.3, 0.4, EXIT_2);
    add(&model, 10, SUPERVISOR, "sh", 0, 1, 0);
    failed = failed_of(&model);
    report_failed_text(&text, failed, 0, true);
    buf_putc(&text, 0);
    assert_non_null(strstr(text.data, "failed     make (pid 12) exit 2 at 0.40 s\n"));
    buf_done(&text);
    json_decref(failed);
}

static void say_as(struct job_model *model, double seconds, const char *file, const char *pattern, const char *text)
{
    json_t *record = json_pack("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", seconds, "file", file, "pattern",
                               pattern, "level", "error", "text", text);
    assert_non_null(record);
    job_model_apply(model, record);
    json_decref(record);
}

static void say(struct job_model *model, double seconds, const char *file, const char *text)
{
    say_as(model, seconds, file, "error", text);
}

/* What the exit status 0 hides of this job. */
static void expect_hidden(const struct job_report *report, const char *what)
{
    json_t *hidden = job_report_hidden(report);
    const char *text = json_string_value(json_object_get(json_object_get(hidden, "fields"), "what"));
    assert_string_equal(text ? text : "", what);
    json_decref(hidden);
}

/* Standard output may be data, unless --log names it. The job went on for long after the first try. */
static void test_hidden(void **state)
{
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    say(&report.model, 60, "stderr", "error: first try failed");
    say(&report.model, 99, "stdout", "ERROR: of a log that is shown");
    add(&report.model, 11, 10, "gzip", 0.1, 0.4, EXIT_1);
    say(&report.model, 99, "stdout", "gzip: of a log that is shown");
    expect_hidden(&report, "");
    json_t *named = json_pack("{s:s, s:f, s:s, s:s, s:[s]}", "type", "log_file", "t", 1.0, "file", "stdout", "state",
                              "watched", "expressions", "ERROR");
    job_model_apply(&report.model, named);
    json_decref(named);
    expect_hidden(&report, "gzip (pid 11) failed with 1: gzip: of a log that is shown");
    job_model_done(&report.model);
    assert_int_equal(job_model_init(&report.model, 100), 0);
    say(&report.model, 80, "stderr", "ERROR: the mesh is empty");
    say(&report.model, 90, "stderr", "srun: error: Unable to create step for job 12: Requested nodes are busy");
    say(&report.model, 99, "stdout", "ERROR: of a log that is shown");
    expect_hidden(&report, "an error was said: ERROR: the mesh is empty");
    job_model_done(&report.model);
}

static void put_disk(struct job_model *model, double seconds, const char *uses, int free, int first)
{
    json_t *record = json_pack("{s:s, s:f, s:[{s:s, s:s, s:i, s:i, s:i, s:i, s:i}]}", "type", "health", "t", seconds,
                               "filesystems", "path", "/work", "uses", uses, "total_bytes", 1000000, "free_bytes", free,
                               "inodes", 100, "free_inodes", 50, "first_free_bytes", first);
    job_model_apply(model, record);
    json_decref(record);
}

/* What a disk did not take is missing, however long ago that was, and wherever it was said. A program that shows text shows that of others,
 * too. Where nothing was said, what is known is that the disk became full. */
static void test_hidden_full(void **state)
{
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
    static const char words[] = "could not write: [Errno 28] No space left on device";
    static const char said[] = "an error was said: could not write: [Errno 28] No space left on device";
    assert_int_equal(job_model_init(&report.model, 100), 0);
    add(&report.model, 11, 10, "sim", 0.1, 99, 0);
    say_as(&report.model, 20, "stdout", "no_space", words);
    expect_hidden(&report, said);
    add(&report.model, 12, 10, "grep", 19, 20, 0);
    expect_hidden(&report, "");
    say_as(&report.model, 30, "stderr", "no_space", words);
    expect_hidden(&report, said);
    job_model_done(&report.model);
    static const struct {
        const char *uses;
        int free, first;
        bool trouble;
    } rows[] = {{"work, home", 0, 5000, true},
                {"work", 0, 0, false}, /* it was full before */
                {"work", 50000, 60000, false},
                {"home", 0, 5000, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(job_model_init(&report.model, 100), 0);
        put_disk(&report.model, 99, rows[i].uses, rows[i].free, rows[i].first);
        expect_hidden(&report,
                      rows[i].trouble ? "the disk of /work became full: what was written there may not be whole" : "");
        job_model_done(&report.model);
    }
}

/* What a script or make has handled is no trouble: tried again, or ignored. Nor is what is said of an attempt. That a script went on is
 * not enough. */
static void test_hidden_handled(void **state)
{
    struct process {
        const char *name;
        double start, end;
        int status;
    };
    static const struct {
        const char *parent, *text;
        struct process children[3]; /* 11, 12, 13 */
        const char *what;
        bool inside;
        const char *tested; /* by the script's text */
        bool condition;     /* not by || */
        const char *trap;   /* a program in its traps */
    } rows[] = {
        {"bash", "cat: ready: No such file", {{"cat", 1, 2, EXIT_1}, {"cat", 2, 9, 0}}, ""},
        {"bash",
         "cat: ready: No such file",
         {{"cat", 8, 9, EXIT_1}},
         "cat (pid 11) failed with 1: cat: ready: No such file"},
        {"bash", "cat: ready: No such file", {{"cat", 8, 9, EXIT_1}}, "", .inside = true},
        {"bash", "cat: ready: No such file", {{"cat", 8, 9, EXIT_1}}, "", .tested = "cat"},
        {"bash", "ERROR: not ready", {{"cat", 8, 9, EXIT_1}}, "", .tested = "cat"},
        {"bash",
         "ERROR: not ready",
         {{"cat", 8, 9, EXIT_1}, {"sim", 8, 10, 0}},
         "an error was said: ERROR: not ready",
         .tested = "cat"},
        {"bash",
         "cat: ready: No such file",
         {{"cat", 8, 9, EXIT_1}},
         "cat (pid 11) failed with 1: cat: ready: No such file",
         .tested = "cat steady"},
        {"bash",
         "sim: no mesh",
         {{"sim", 1, 2, EXIT_1}, {"plot", 2, 9, 0}},
         "sim (pid 11) failed with 1: sim: no mesh"},
        {"bash", "sim: no mesh", {{"sim", 1, 8, EXIT_1}, {"sim", 8, 9, 0}}, ""},
        {"bash",
         "bash: line 1: sim: not there",
         {{"bash", 1, 2, EXIT_127}, {"rm", 2, 9, 0}},
         "bash (pid 11) failed with 127: bash: line 1: sim: not there"},
        {"bash",
         "gzip: x: no such file",
         {{"gzip", 8, 8.5, EXIT_1}, {"sort", 8, 9, 0}},
         "gzip (pid 11) failed with 1: gzip: x: no such file"},
        {"bash",
         "gzip: x: no such file",
         {{"gzip", 8, 8.01, EXIT_1}, {"sort", 8.0102, 9, 0}},
         "gzip (pid 11) failed with 1: gzip: x: no such file"},
        {"bash",
         "gzip: x: no such file",
         {{"gzip", 8, 8.01, EXIT_1}, {"sort", 8.012, 9, 0}, {"wc", 8.013, 9.1, 0}},
         "gzip (pid 11) failed with 1: gzip: x: no such file"},
        {"bash",
         "grep: no mesh",
         {{"seq", 8, 8.01, 0}, {"grep", 8.001, 8.02, EXIT_2}, {"wc", 8.002, 8.03, 0}},
         "grep (pid 12) failed with 2: grep: no mesh"},
        /* head wanted no more */
        {"bash", "BrokenPipeError: [Errno 32] Broken pipe", {{"python3", 8, 8.2, EXIT_1}, {"head", 8.001, 8.1, 0}}, ""},
        {"bash",
         "sort: write failed: 'standard output': Broken pipe",
         {{"sort", 8, 8.2, EXIT_2}, {"head", 8.001, 8.1, 0}},
         ""},
        {"bash",
         "BrokenPipeError: [Errno 32] Broken pipe",
         {{"python3", 8, 8.2, EXIT_1}, {"plot", 8.001, 8.1, EXIT_1}},
         "an error was said: BrokenPipeError: [Errno 32] Broken pipe"},
        {"bash",
         "BrokenPipeError: [Errno 32] Broken pipe",
         {{"python3", 8, 8.2, EXIT_1}},
         "an error was said: BrokenPipeError: [Errno 32] Broken pipe"},
        {"bash",
         "ValueError: no cells",
         {{"python3", 8, 8.2, EXIT_1}, {"head", 8.001, 8.1, 0}},
         "an error was said: ValueError: no cells"},
        {"bash", "cat: ready: No such file", {{"cat", 8, 9, EXIT_1}}, "", .tested = "cat an argument"},
        {"bash",
         "cat: ready: No such file",
         {{"cat", 8, 9, EXIT_1}},
         "cat (pid 11) failed with 1: cat: ready: No such file",
         .tested = "cat an argument more"},
        {"bash", "rm: cannot remove 'x'", {{"sim", 1, 8, 0}, {"rm", 8, 9, EXIT_1}}, "", .trap = "rm"},
        {"bash",
         "rm: cannot remove 'x'",
         {{"rm", 1, 8, EXIT_1}, {"sim", 8, 9, 0}},
         "rm (pid 11) failed with 1: rm: cannot remove 'x'",
         .trap = "rm"},
        {"bash", "a crash", {{"sim", 8, 9, CRASHED}}, "sim (pid 11) crashed by SIGSEGV"},
        {"bash", "a crash", {{"sim", 8, 9, CRASHED}}, "sim (pid 11) crashed by SIGSEGV", .tested = "sim"},
        {"bash", "a crash", {{"sim", 8, 9, CRASHED}}, "", .tested = "sim", .condition = true},
        {"bash",
         "a limit",
         {{"head", 8, 9, SIGXFSZ}},
         "head (pid 11) was killed by SIGXFSZ, because of a limit (ulimit -f)"},
        {"bash",
         "a limit",
         {{"sim", 8, 9, SIGXCPU}},
         "sim (pid 11) was killed by SIGXCPU, because of a limit (ulimit -t)"},
        {"bash", "a limit", {{"head", 8, 9, SIGXFSZ}}, "", .tested = "head", .condition = true},
        {"bash", "/usr/bin/ld: cannot find -lx", {{"ld", 8, 9, EXIT_1}, {"sim", 8, 10, 0}}, "", .tested = "ld"},
        {"make", "rm: cannot remove 'x'", {{"rm", 8, 9, EXIT_1}}, ""},
        {"python3",
         "cat: ready: No such file",
         {{"cat", 8, 9, EXIT_1}},
         "cat (pid 11) failed with 1: cat: ready: No such file"},
        {"bash", "ERROR: connection refused (attempt 2)", {{"sleep", 8, 9, 0}}, ""},
        {"bash", "ERROR: connection refused", {{"sleep", 8, 9, 0}}, "an error was said: ERROR: connection refused"},
        {"bash",
         "grep: x: No such file",
         {{"grep", 1, 8, EXIT_2}, {"grep", 8, 9, EXIT_1}},
         "grep (pid 11) failed with 2: grep: x: No such file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        const struct process *first = rows[i].children;
        say(&report.model, first->end, "stderr", rows[i].text);
        for (int k = 0; k < 3 && first[k].name; k++)
            add(&report.model, 11 + k, 10, first[k].name, first[k].start, first[k].end, first[k].status);
        add(&report.model, 10, SUPERVISOR, rows[i].parent, 0, 10, 0);
        if (rows[i].inside)
            put_now(&report.model, json_pack("{s:s, s:f, s:i, s:s, s:i, s:s}", "type", "script_line", "t", 5.0, "pid",
                                             10, "file", "job.sh", "line", 3, "how", "inside"));
        if (rows[i].tested)
            put_now(&report.model,
                    json_pack("{s:s, s:f, s:i, s:[s], s:[s*]}", "type", "script_tested", "t", 10.0, "pid", 10,
                              "commands", rows[i].tested, "conditions", rows[i].condition ? rows[i].tested : NULL));
        if (rows[i].trap)
            put_now(&report.model, json_pack("{s:s, s:f, s:i, s:[s]}", "type", "script_trap", "t", 10.0, "pid", 10,
                                             "commands", rows[i].trap));
        expect_hidden(&report, rows[i].what);
        job_model_done(&report.model);
    }
}

/* What failed after it may have failed because of it; a crash is told before that. */
static void test_hidden_first(void **state)
{
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    say(&report.model, 9, "stderr", "cp: cannot stat 'day1.grib'");
    say(&report.model, 9, "stderr", "tar: raw-*.grib: Cannot stat");
    add(&report.model, 11, 10, "cp", 1, 2, EXIT_1);
    add(&report.model, 13, 10, "tar", 5, 6, EXIT_1);
    expect_hidden(&report, "cp (pid 11) failed with 1: cp: cannot stat 'day1.grib'; then tar (pid 13) failed");
    add(&report.model, 12, 10, "cp", 7, 8, EXIT_1);
    expect_hidden(&report,
                  "cp (pid 11) failed with 1: cp: cannot stat 'day1.grib'; 2 more failed, the last cp (pid 12)");
    add(&report.model, 14, 10, "plot", 8, 9, CRASHED);
    expect_hidden(&report, "plot (pid 14) crashed by SIGSEGV; 3 more failed");
    job_model_done(&report.model);
}

/* A script that kills what it has started itself, by its text. */
static void test_hidden_kill(void **state)
{
    static const char said[] = "job.sh: line 1: 11 Killed ( sleep 60 > pipe )";
    static const char trouble[] = "an error was said: job.sh: line 1: 11 Killed ( sleep 60 > pipe )";
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    say_as(&report.model, 9, "stderr", "killed", said);
    add(&report.model, 11, 10, "sleep", 1, 8.9, SIGKILL);
    add(&report.model, 10, SUPERVISOR, "bash", 0, 10, 0);
    expect_hidden(&report, trouble);
    for (int signo = SIGTERM; signo; signo = signo == SIGTERM ? SIGKILL : 0) {
        put_now(&report.model, json_pack("{s:s, s:f, s:i, s:[{s:i, s:i, s:b}]}", "type", "script_kills", "t", 10.0,
                                         "pid", 10, "kills", "line", 1, "signal", signo, "self", 0));
        expect_hidden(&report, signo == SIGKILL ? "" : trouble);
    }
    add(&report.model, 13, 12, "sim", 1, 8.9, SIGKILL); /* it may be of that */
    expect_hidden(&report, trouble);
    job_model_done(&report.model);
}

/* A pointer is NULL where nobody looks whether there was memory. */
static void test_hidden_limit(void **state)
{
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    put_now(&report.model,
            json_pack("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:i, s:i}", "type", "process_end", "t", 9.0, "pid", 11,
                      "ppid", 10, "name", "sim", "start", 1.0, "end", 9.0, "peak_rss", 97 << 20, "status", CRASHED));
    add(&report.model, 10, SUPERVISOR, "bash", 0, 10, 0);
    put_now(&report.model, json_pack("{s:s, s:f, s:i, s:i}", "type", "end", "t", 10.0, "exit_code", 0,
                                     "address_limit_bytes", 100 << 20));
    expect_hidden(&report, "sim (pid 11) crashed by SIGSEGV, with 97 MB of the 100 MB that its address space may have "
                           "(ulimit -v)");
    job_model_done(&report.model);
}

/* What a program had started that failed, which was handled, is none that may have said it. */
static void test_hidden_below(void **state)
{
    for (int handled = 0; handled < 2; handled++) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        say(&report.model, 4.1, "stderr", "ERROR: nothing to link");
        add(&report.model, 12, 11, "cc1", 1, 2, 0);
        add(&report.model, 13, 11, "collect2", 2, 3.9, EXIT_1);
        add(&report.model, 11, 10, "gcc", 1, 4, EXIT_1);
        add(&report.model, 10, SUPERVISOR, "bash", 0, 10, 0);
        if (handled)
            put_now(&report.model, json_pack("{s:s, s:f, s:i, s:[s]}", "type", "script_tested", "t", 10.0, "pid", 10,
                                             "commands", "gcc"));
        expect_hidden(&report, handled ? "" : "an error was said: ERROR: nothing to link");
        job_model_done(&report.model);
    }
}

/* What Python says of an exception is of the processes that ended by it. */
static void test_hidden_exception(void **state)
{
    for (int status = EXIT_1; status >= 0; status -= EXIT_1) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        put_now(&report.model, json_pack("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", 3.1, "file", "stderr",
                                         "pattern", "exception", "level", "error", "text", "OSError: server is busy"));
        add(&report.model, 11, 10, "python3", 1, 3, status);
        add(&report.model, 12, 10, "python3", 4, 9, 0);
        add(&report.model, 10, SUPERVISOR, "bash", 0, 10, 0);
        expect_hidden(&report, status ? "" : "an error was said: OSError: server is busy");
        job_model_done(&report.model);
    }
}

/* Tests that pass log errors that they look for. */
static void test_hidden_tests(void **state)
{
    static const struct {
        const char *file, *summary, *what;
        double seconds;
        int status;
    } rows[] = {
        {"stderr", "Ran 2 tests in 0.001s OK", "", 3.1, 0},
        {"stderr", "Ran 2 tests in 0.001s OK (skipped=1)", "", 3.1, 0},
        {"stderr", "Ran 2 tests in 0.001s FAILED (errors=1)", "an error was said: ERROR:root:no mesh", 3.1, 0},
        {"stderr", "Ran 2 tests in 0.001s OK", "an error was said: ERROR:root:no mesh", 2.9, 0},
        {"other.txt", "Ran 2 tests in 0.001s OK", "an error was said: ERROR:root:no mesh", 3.1, 0},
        {"stderr", "Ran 2 tests in 0.001s OK", "an error was said: ERROR:root:no mesh", 3.1, EXIT_1},
        {"stderr", "Ran 2 tests in 0.001s OK", "an error was said: ERROR:root:no mesh", 8.9, 0}, /* of other tests */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        say(&report.model, 3, "stderr", "ERROR:root:no mesh");
        put_now(&report.model, json_pack("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", rows[i].seconds, "file",
                                         rows[i].file, "pattern", "tests", "level", "info", "text", rows[i].summary));
        add(&report.model, 11, 10, "python3", 1, 3.1, rows[i].status);
        add(&report.model, 12, 10, "plot", 8, 9, 0);
        add(&report.model, 10, SUPERVISOR, "bash", 0, 10, 0);
        expect_hidden(&report, rows[i].what);
        job_model_done(&report.model);
    }
}

/* A stage of a pipeline that failed, of whose words nothing is known: not what grep says no with, nor what nobody read. */
static void test_hidden_stage(void **state)
{
    static const struct {
        const char *stderr_is, *name;
        double end;
        const char *what, *reader;
        const char *piped; /* by the script's text; NULL: not known */
        const char *words; /* that its pipeline wrote to a file */
    } rows[] = {
        {"unwatched", "gzip", 0.4, "gzip (pid 11) failed with 1 in a pipeline"},
        {"unwatched", "grep", 0.4, ""},
        {"unwatched", "gzip", 0.6, ""},  /* the reader had ended */
        {"unwatched", "gzip", 0.05, ""}, /* one after the other */
        {"watched", "gzip", 0.4, ""},
        {"watched", "gzip", 0.4, "gzip (pid 11) failed with 1 in a pipeline",
         .reader = "tee"}, /* what it said, perhaps, too */
        {"watched", "solve", 0.4, "solve (pid 11) failed with 1 in a pipeline: mesh is empty", .reader = "tee",
         .words = "mesh is empty"},
        {"unwatched", "gzip", 0.4, "", .piped = "sort"}, /* two that follow each other at once */
        {"unwatched", "gzip", 0.4, "gzip (pid 11) failed with 1 in a pipeline", .piped = "gzip"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        put_now(&report.model, json_pack("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stderr",
                                         "state", rows[i].stderr_is));
        add(&report.model, 11, 10, rows[i].name, rows[i].end < 0.1 ? 0 : 0.1, rows[i].end, EXIT_1);
        add(&report.model, 12, 10, rows[i].reader ? rows[i].reader : "sort", 0.11, 0.5, 0);
        add(&report.model, 10, SUPERVISOR, "bash", 0, 1, 0);
        if (rows[i].piped)
            put_now(&report.model, json_pack("{s:s, s:f, s:i, s:[], s:[s]}", "type", "script_tested", "t", 1.0, "pid",
                                             10, "commands", "piped", rows[i].piped));
        if (rows[i].words)
            put_now(&report.model, json_pack("{s:s, s:f, s:s, s:i, s:[s]}", "type", "log_last", "t", 1.0, "file",
                                             "run.log", "pid", 11, "lines", rows[i].words));
        expect_hidden(&report, rows[i].what);
        job_model_done(&report.model);
    }
}

/* Of a group of commands in a pipeline the text of the script has no words: what failed in it has. */
static void test_hidden_group(void **state)
{
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    put_now(&report.model,
            json_pack("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stderr", "state", "unwatched"));
    add(&report.model, 13, 11, "gzip", 0.15, 0.3, EXIT_1);
    add(&report.model, 11, 10, "bash", 0.1, 0.4, EXIT_1);
    add(&report.model, 12, 10, "sort", 0.11, 0.5, 0);
    add(&report.model, 10, SUPERVISOR, "bash", 0, 1, 0);
    put_now(&report.model, json_pack("{s:s, s:f, s:i, s:[], s:[s]}", "type", "script_tested", "t", 1.0, "pid", 10,
                                     "commands", "piped", "zcat"));
    expect_hidden(&report, "gzip (pid 13) failed with 1 in a pipeline");
    job_model_done(&report.model);
}

/* What tests let crash that then passed is none, and no other crash is. */
static void test_hidden_crash_of_tests(void **state)
{
    static const struct {
        const char *said, *what;
    } rows[] = {{"Ran 2 tests in 0.100s OK", ""},
                {"== 3 passed in 0.12s ==", ""},
                {"Ran 2 tests in 0.100s FAILED (failures=1)", "victim (pid 11) crashed by SIGSEGV"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        add(&report.model, 11, 10, "victim", 0.1, 0.4, CRASHED);
        add(&report.model, 10, SUPERVISOR, "python3", 0, 1, 0);
        put_now(&report.model, json_pack("{s:s, s:f, s:s, s:s, s:s, s:s}", "type", "log", "t", 1.0, "file", "stderr",
                                         "pattern", "tests", "level", "info", "text", rows[i].said));
        expect_hidden(&report, rows[i].what);
        job_model_done(&report.model);
    }
}

/* git that found no repository in a pipeline: who goes on needs none. Of other things that it does, it is told. */
static void test_hidden_version(void **state)
{
    enum { EXIT_128 = 128 << 8 };
    static const char *const asked[] = {"describe", "clone"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        put_now(&report.model,
                json_pack("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stderr", "state", "watched"));
        put_now(&report.model,
                json_pack("{s:s, s:f, s:i, s:i, s:s, s:f, s:f, s:[s, s, s, s], s:s, s:i, s:s}", "type", "process_end",
                          "t", 0.4, "pid", 11, "ppid", 10, "name", "git", "start", 0.1, "end", 0.4, "argv", "git", "-C",
                          "/", asked[i], "cwd", "/", "status", (int)EXIT_128, "source", "event"));
        add(&report.model, 12, 10, "head", 0.11, 0.5, 0);
        add(&report.model, 10, SUPERVISOR, "bash", 0, 1, 0);
        expect_hidden(&report, i ? "git (pid 11) failed with 128 in a pipeline" : "");
        job_model_done(&report.model);
    }
}

/* The last line of standard error, which was written at `seconds`. */
static void say_last(struct job_model *model, double seconds, const char *text)
{
    put_now(model, json_pack("{s:s, s:f, s:s, s:f, s:[s, s]}", "type", "log_last", "t", 10.0, "file", "stderr",
                             "quiet_seconds", 10 - seconds, "lines", "step 1", text));
}

/* What said something without its name when it was alone; a stage of a pipeline need not be. */
static void test_hidden_words(void **state)
{
    enum { EXIT_4 = 4 << 8, EXIT_143 = 143 << 8 };
    struct process {
        const char *name;
        double start, end;
        int status;
    };
    static const struct {
        struct process children[3]; /* 11, 12, 13 */
        double seconds;
        const char *text, *what, *piped, *tested;
    } rows[] = {
        {{{"perr", 1, 2, EXIT_4}, {"ls", 2.001, 3, 0}},
         1.995,
         "mesh.dat: no file",
         "perr (pid 11) failed with 4: mesh.dat: no file"},
        {{{"perr", 1, 2, EXIT_4}, {"ls", 2.001, 3, 0}}, 2.5, "no step 2", ""},
        {{{"perr", 1, 2, EXIT_4}, {"ls", 2.001, 3, 0}}, 0.9, "no step 2", ""},
        {{{"perr", 1, 2, EXIT_4}, {"ls", 2.001, 3, 0}}, 1.995, "ls: no step 2", ""},
        {{{"perr", 1, 2, EXIT_4}, {"sim", 0.5, 3, 0}}, 1.5, "no step 2", ""},
        {{{"perr", 1, 2, EXIT_4}, {"bash", 0.5, 3, 0}}, 1.5, "no step 2", "perr (pid 11) failed with 4: no step 2"},
        {{{"perr", 1, 2, EXIT_4}}, 1.5, "starting step 2", ""},
        {{{"server", 1, 2, EXIT_143}}, 1.5, "no more clients", ""},
        {{{"perr", 1, 2, EXIT_4}}, 1.5, "no server (attempt 2)", ""},
        {{{"grep", 1, 2, EXIT_1}}, 1.5, "no step 2", ""},
        {{{"perr", 1, 2, EXIT_4}}, 1.5, "no step 2", "", .tested = "perr"},
        {{{"bash", 1, 2, EXIT_4}}, 1.5, "no step 2", ""},
        {{{"cat", 1, 2, 0}, {"stage", 1.01, 2, EXIT_4}, {"sort", 1.02, 2.1, 0}},
         1.99,
         "bad station",
         "stage (pid 12) failed with 4 in a pipeline: bad station"},
        {{{"cat", 1, 2, 0}, {"stage", 1.01, 2, EXIT_4}, {"sort", 1.02, 2.1, 0}},
         3,
         "no step 2",
         "stage (pid 12) failed with 4 in a pipeline"},
        {{{"cat", 1, 2, 0}, {"stage", 1.01, 2, EXIT_1}, {"sort", 1.02, 2.1, 0}}, 3, "no step 2", ""},
        {{{"cat", 1, 2, 0}, {"stage", 1.01, 2, EXIT_4}, {"sort", 1.02, 2.1, 0}},
         1.99,
         "bad station",
         "",
         .piped = "cat"},
        {{{"cat", 1, 2, 0}, {"python3", 1.01, 2, EXIT_4}, {"sort", 1.02, 2.1, 0}},
         3,
         "an argument: bad scale",
         "python3 (pid 12) failed with 4: an argument: bad scale"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 10}}};
        assert_int_equal(job_model_init(&report.model, 100), 0);
        const struct process *first = rows[i].children;
        put_now(&report.model,
                json_pack("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.0, "file", "stderr", "state", "watched"));
        for (int k = 0; k < 3 && first[k].name; k++)
            add(&report.model, 11 + k, 10, first[k].name, first[k].start, first[k].end, first[k].status);
        add(&report.model, 10, SUPERVISOR, "bash", 0, 10, 0);
        say_last(&report.model, rows[i].seconds, rows[i].text);
        if (rows[i].piped)
            put_now(&report.model, json_pack("{s:s, s:f, s:i, s:[], s:[s]}", "type", "script_tested", "t", 10.0, "pid",
                                             10, "commands", "piped", rows[i].piped));
        if (rows[i].tested)
            put_now(&report.model, json_pack("{s:s, s:f, s:i, s:[s]}", "type", "script_tested", "t", 10.0, "pid", 10,
                                             "commands", rows[i].tested));
        expect_hidden(&report, rows[i].what);
        job_model_done(&report.model);
    }
}

static void sample_kills(struct job_model *model, double seconds, int kills)
{
    json_t *record = json_pack("{s:s, s:f, s:{s:i}}", "type", "health", "t", seconds, "cgroup", "oom_kills", kills);
    job_model_apply(model, record);
    json_decref(record);
}

static void note(struct job_model *model, struct note note)
{
    json_t *record = note_json(&note);
    json_object_set_new(record, "type", json_string("warning"));
    json_object_set_new(record, "t", json_real(100));
    job_model_apply(model, record);
    json_decref(record);
}

/* A child that the kernel has killed for lack of memory, of its own control group; what it killed of others is not the job's. */
static void test_hidden_memory(void **state)
{
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    add(&report.model, 11, 10, "worker", 0.1, 99, KILLED);
    sample_kills(&report.model, 1, 7);
    sample_kills(&report.model, 50, 7);
    note(&report.model, NOTE(out_of_memory, .processes = 4, .own_group = false));
    note(&report.model, NOTE(node_out_of_memory, .processes = 4));
    expect_hidden(&report, "");
    sample_kills(&report.model, 90, 8);
    expect_hidden(&report, "for lack of memory the kernel killed worker (pid 11)");
    report.info.result.peak_rss_bytes = 98 << 20;
    expect_hidden(&report, "for lack of memory the kernel killed worker (pid 11), which had 98 MB");
    note(&report.model, NOTE(out_of_memory, .processes = 3, .own_group = true)); /* two of them after the last sample */
    expect_hidden(&report, "for lack of memory the kernel killed 3 processes");
    report.info.result.exit_code = 1; /* hides nothing */
    expect_hidden(&report, "");
    job_model_done(&report.model);
}

/* MPICH may end with 0 when a rank has left without MPI_Finalize, and MPI was not counted. */
static void test_hidden_leaving(void **state)
{
    struct job_report report = {.info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    add(&report.model, 21, 20, "a.out", 0.1, 50.1, KILLED);
    add(&report.model, 23, 20, "a.out", 0.1, 50.2, KILLED);
    add(&report.model, 20, 10, "hydra_pmi_proxy", 0.1, 50.3, 0);
    add(&report.model, 31, 30, "sleep", 0.1, 50.1, KILLED);
    add(&report.model, 32, 30, "sleep", 0.1, 50, 0);
    add(&report.model, 30, 10, "bash", 0.1, 51, 0);
    add(&report.model, 10, SUPERVISOR, "mpiexec", 0, 100, 0);
    expect_hidden(&report, "");
    add(&report.model, 22, 20, "a.out", 0.1, 50, 0);
    expect_hidden(&report,
                  "a.out (pid 22) ended first, with exit status 0, probably without MPI_Finalize; mpiexec then killed "
                  "the others by SIGKILL");
    job_model_done(&report.model);
}

static struct mpi_stats rank_of_two(int rank, int status)
{
    return (struct mpi_stats){.name = "n/1-0",
                              .node = "n",
                              .exe = "a.out",
                              .namespace = "w",
                              .library = "mpich",
                              .pid = 21 + rank,
                              .rank = rank,
                              .world_size = 2,
                              .state = MPIA_RUNNING,
                              .end = {.known = true, .status = status, .seconds = 99.8}};
}

/* So may its ranks, ended from outside, by SIGTERM: as they were stuck, or for whatever else it was sent. */
static void test_hidden_ranks(void **state)
{
    struct mpi_stats ranks[2];
    struct mpi_report mpi = {.set = {.ranks = ranks, .count = 2}};
    struct job_report report = {.mpi = &mpi, .info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
    for (int i = 0; i < 2; i++)
        ranks[i] = rank_of_two(i, 15);
    ranks[1].end.first = true;
    assert_int_equal(job_model_init(&report.model, 100), 0);
    expect_hidden(&report, ""); /* its script may have wanted that */
    note(&report.model, NOTE(signal_came, .signal = "SIGTERM", .sender = "bash (pid 7)"));
    expect_hidden(&report, "2 ranks were killed: probably SIGTERM, which came from bash (pid 7)");
    json_t *stall = json_pack("{s:s, s:f, s:f, s:i, s:s}", "type", "stall", "t", 50.0, "seconds", 2.0, "ranks", 2,
                              "why", "ranks 0 and 1 wait for each other");
    job_model_apply(&report.model, stall);
    json_decref(stall);
    expect_hidden(&report, "2 ranks were killed: probably stuck in MPI, until it was ended by SIGTERM from bash (pid "
                           "7): ranks 0 and 1 wait "
                           "for each other");
    job_model_done(&report.model);
}

/* Launchers may end with 0 when a rank has aborted with 0. */
static void test_hidden_abort(void **state)
{
    struct mpi_stats ranks[2];
    struct mpi_report mpi = {.set = {.ranks = ranks, .count = 2}};
    struct job_report report = {.mpi = &mpi, .info = {.ended = true, .result = {.started = true, .wall_seconds = 100}}};
    for (int i = 0; i < 2; i++)
        ranks[i] = rank_of_two(i, i ? 0 : KILLED);
    ranks[1].aborted = true;
    assert_int_equal(job_model_init(&report.model, 100), 0);
    expect_hidden(&report, "rank 1 of 2 called MPI_Abort with 0");
    job_model_done(&report.model);
}

/* Ranks that outlived the job do not change why it was ended. */
static void test_outlived(void **state)
{
    static const char why[] = "deadlock: ranks 0 and 1 wait for each other";
    struct job_report report = {
        .info = {.ended = true, .result = {.started = true, .exit_code = 143, .wall_seconds = 100}}};
    const struct note seen = NOTE(cause_mpi_stall, .ranks = 2, .by = "", .why = why);
    assert_int_equal(job_model_init(&report.model, 100), 0);
    note(&report.model, NOTE(signal_came, .signal = "SIGTERM", .sender = "bash (pid 7)"));
    json_t *record =
        json_pack("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.1, "file", "stderr", "state", "watched");
    job_model_apply(&report.model, record);
    json_decref(record);
    report.info.cause = note_json(&seen);
    json_t *last = job_report_last(&report), *said = json_object_get(last, "reason");
    assert_string_equal(json_string_value(json_object_get(said, "note")), "cause_mpi_stall");
    assert_non_null(strstr(json_string_value(json_object_get(said, "text")), why));
    json_decref(last);
    json_decref(report.info.cause);
    report.info.cause = NULL;
    last = job_report_last(&report);
    const char *text = json_string_value(json_object_get(json_object_get(last, "reason"), "text"));
    for (int more = 0; more < 2; more++) { /* what stands behind the same reason, or another one */
        struct mpi_report none = {0};
        report.mpi = &none;
        report.info.cause = json_pack("{s:s, s:o}", "note", "cause_signal", "text",
                                      json_sprintf("%s%s", more ? text : "of old: ", "; before: rank 1 computed"));
        json_t *again = job_report_last(&report);
        const char *now = json_string_value(json_object_get(json_object_get(again, "reason"), "text"));
        assert_int_equal(strstr(now, "; before: rank 1 computed") != NULL, more);
        report.mpi = NULL;
        json_decref(again);
        json_decref(report.info.cause);
    }
    json_decref(last);
    job_model_done(&report.model);
}

static void expect_not_started(int exit_code, const char *reason, const char *expected)
{
    struct job_report report = {
        .info = {.ended = true, .result = {.exit_code = exit_code, .reason = reason, .wall_seconds = 0.01}}};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    json_t *last = job_report_last(&report), *said = json_object_get(last, "reason");
    assert_string_equal(json_string_value(json_object_get(said, "note")), "cause_start");
    assert_string_equal(json_string_value(json_object_get(said, "text")), expected);
    assert_true(json_is_true(json_object_get(said, "sure")));
    assert_true(json_is_null(json_object_get(last, "unknown")));
    json_decref(last);
    job_model_done(&report.model);
}

/* Of a command that could not be executed the reason is known, though no layer has recorded anything. */
static void test_not_started(void **state)
{
    expect_not_started(127, "a.sh: there is no such command", "a.sh: there is no such command");
    expect_not_started(127, "", "the command was not found"); /* of older versions */
    expect_not_started(126, NULL, "the command may not be executed");
}

/* Nobody knows how a lost job ended: it is not asked for what would have shown why it failed. */
static void test_lost(void **state)
{
    struct job_report report = {.state = JOB_LOST};
    assert_int_equal(job_model_init(&report.model, 100), 0);
    json_t *record =
        json_pack("{s:s, s:f, s:s, s:s}", "type", "log_file", "t", 0.1, "file", "stderr", "state", "unwatched");
    job_model_apply(&report.model, record);
    json_decref(record);
    json_t *last = job_report_last(&report);
    assert_true(json_is_null(json_object_get(last, "reason")));
    assert_true(json_is_null(json_object_get(last, "unknown")));
    json_decref(last);
    assert_null(job_report_stall(&report));
    put_now(&report.model,
            json_pack("{s:s, s:f, s:s, s:s, s:s}", "type", "warning", "t", 7.0, "kind", "stalled", "note", "stuck",
                      "text", "deadlock: a and b wait for each other's locks of files"));
    put_now(&report.model,
            json_pack("{s:s, s:f, s:b, s:f, s:b, s:s}", "type", "standing", "t", 7.0, "still", true, "seconds", 5.0,
                      "deadlock", true, "text", "a and b wait for each other's locks of files"));
    struct buf outcome = BUF_INIT;
    assert_false(job_report_put_standing(&outcome, &report));
    report.state = JOB_RUNNING;
    assert_true(job_report_put_standing(&outcome, &report));
    assert_string_equal(outcome.data, "deadlock for 5.00 s: a and b wait for each other's locks of files");
    put_now(&report.model, json_pack("{s:s, s:f, s:b, s:f, s:b}", "type", "standing", "t", 8.0, "still", false,
                                     "seconds", 0.0, "deadlock", false));
    assert_false(job_report_put_standing(&outcome, &report));
    buf_clear(&outcome);
    for (int second = 0; second < 30; second++)
        put_now(&report.model, json_pack("{s:s, s:f, s:{s:I}}", "type", "sample", "t", 10.0 + second, "tree", "rss",
                                         (json_int_t)(second + 1) << 20));
    put_now(&report.model, json_pack("{s:s, s:f, s:{s:f}, s:{s:I}}", "type", "health", "t", 40.0, "memory",
                                     "available_bytes", 1e9, "cgroup", "memory_limit_bytes", (json_int_t)210 << 20));
    assert_true(job_report_put_growth(&outcome, &report));
    assert_string_equal(outcome.data,
                        "grows 1.0 MB/s since 29.0 s; at this rate the limit of its control group in 3 min 00 s");
    report.state = JOB_LOST;
    buf_clear(&outcome);
    job_report_outcome(&outcome, &report);
    assert_string_equal(outcome.data,
                        "was lost: " JOB_LOST_TEXT "; before: deadlock: a and b wait for each other's locks of files");
    buf_done(&outcome);
    report.info = (struct job_info){.ended = true, .result = {.started = true, .exit_code = 1}};
    last = job_report_last(&report);
    assert_true(json_is_string(json_object_get(last, "unknown")));
    json_decref(last);
    job_model_done(&report.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make),
        cmocka_unit_test(test_xargs),
        cmocka_unit_test(test_worker),
        cmocka_unit_test(test_effects),
        cmocka_unit_test(test_with_status),
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_number_again),
        cmocka_unit_test(test_command),
        cmocka_unit_test(test_hidden),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_hidden_full),
        cmocka_unit_test(test_hidden_memory),
        cmocka_unit_test(test_hidden_leaving),
        cmocka_unit_test(test_hydra),
        cmocka_unit_test(test_ended_by_parent),
        cmocka_unit_test(test_timeout_killed),
        cmocka_unit_test(test_cleanup),
        cmocka_unit_test(test_hidden_group),
        cmocka_unit_test(test_hidden_crash_of_tests),
        cmocka_unit_test(test_script_is_shell),
        cmocka_unit_test(test_hidden_ranks),
        cmocka_unit_test(test_hidden_abort),
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_outlived),
        cmocka_unit_test(test_not_started),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_trap),
        cmocka_unit_test(test_hidden_stage),
        cmocka_unit_test(test_hidden_version),
        cmocka_unit_test(test_hidden_words),
        cmocka_unit_test(test_hidden_handled),
        cmocka_unit_test(test_hidden_below),
        cmocka_unit_test(test_hidden_kill),
        cmocka_unit_test(test_hidden_first),
        cmocka_unit_test(test_hidden_limit),
        cmocka_unit_test(test_hidden_exception),
        cmocka_unit_test(test_hidden_tests),
    };
    return cmocka_run_group_tests_name("report failed", tests, NULL, NULL);
}
