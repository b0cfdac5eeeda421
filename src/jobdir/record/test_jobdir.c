/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/system/dirs.h"
#include "jobdir/record/spool.h"
#include "jobdir/record/test_jobdir.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"

/* ---- text ---- */

static void check_show(const char *text, const char *expected)
{
    struct buf out = BUF_INIT;
    text_show(&out, text);
    assert_string_equal(out.data ? out.data : "", expected);
    buf_done(&out);
}

static void test_note(void **state)
{
    struct note note = NOTE(refused, .processes = 2, .at_least = true, .reason = "a\xff");
    json_t *json = note_json(&note);
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text,
                        "{\"fields\":{\"at_least\":true,\"processes\":2,\"reason\":\"a\\\\xff\"},\"kind\":\"trace\","
                        "\"note\":\"refused\",\"text\":\"at least 2 processes were not traced: a\\\\xff\"}");
    free(text);
    json_decref(json);
}

static void test_text(void **state)
{
    check_show("plain", "plain");
    check_show("Gr\xc3\xb6\xc3\x9f"
               "e",
               "Gr\xc3\xb6\xc3\x9f"
               "e");
    check_show("\033[2Jx\n", "\\x1b[2Jx\\x0a");
    check_show("\xff\xc3", "\\xff\\xc3");
    check_show("\xc2\x9b"
               "31m",
               "\\xc2\\x9b"
               "31m");                             /* CSI as one C1 character */
    check_show("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* a surrogate */
    check_show("\xc0\xaf", "\\xc0\\xaf");          /* overlong */
    json_t *json = text_json("a\xff"
                             "b\n");
    assert_string_equal(json_string_value(json), "a\\xff"
                                                 "b\n");
    json_decref(json);
    json = text_json(NULL);
    assert_true(json_is_null(json));
    char *huge = malloc(TEXT_LIMIT * 2 + 1);
    memset(huge, 'x', TEXT_LIMIT * 2);
    huge[TEXT_LIMIT * 2] = 0;
    json = text_json(huge);
    assert_int_equal(json_string_length(json), TEXT_LIMIT + 3);
    json_decref(json);
    free(huge);
}

static void check_function(const char *name, const char *file, const char *expected)
{
    struct buf out = BUF_INIT;
    text_function(&out, name, file);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void test_functions(void **state)
{
    check_function("main", "/x/main.c", "main");
    check_function("n::a\n", "", "n::a\\x0a");
    check_function("_GLOBAL__sub_I__ZN1n1eE", "/x/own.cc", "initialisers of own.cc");
    check_function("_GLOBAL__sub_D_a", "own.cc", "finalisers of own.cc");
    check_function("_GLOBAL__sub_I_own.cc", "", "initialisers of own.cc");
}

static void check_size(uint64_t bytes, const char *expected)
{
    struct buf out = BUF_INIT;
    text_size(&out, bytes);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void check_seconds(double seconds, const char *expected)
{
    struct buf out = BUF_INIT;
    text_seconds(&out, seconds);
    assert_string_equal(out.data, expected);
    buf_done(&out);
}

static void test_units(void **state)
{
    char name[32];
    check_size(0, "0 B");
    check_size(999, "999 B");
    check_size(1024, "1.0 KB");
    check_size(1023 * 1024, "1.0 MB");
    check_size(UINT64_C(5) << 30, "5.0 GB");
    check_size(UINT64_C(300) << 20, "300 MB");
    check_seconds(0, "0.00 s");
    check_seconds(0.0123, "12.3 ms");
    check_seconds(1.234, "1.23 s");
    check_seconds(12.34, "12.3 s");
    check_seconds(125, "2 min 05 s");
    check_seconds(7320, "2 h 02 min");
    check_seconds(-1, "0.00 s");
    assert_string_equal(text_signal(SIGSEGV, name, sizeof name), "SIGSEGV");
    assert_string_equal(text_signal(200, name, sizeof name), "signal 200");
}

/* ---- series ---- */

static void apply_sample_of(struct job_model *model, double seconds, double cpu_seconds, int threads)
{
    json_t *record =
        json_pack("{s:s, s:f, s:{s:i, s:i, s:I, s:I}}", "type", "sample", "t", seconds, "tree", "processes", 1,
                  "threads", threads, "rss", (json_int_t)1000, "cpu_ns", (json_int_t)(cpu_seconds * 1e9));
    job_model_apply(model, record);
    json_decref(record);
}

/* What is drawn one below the other is of the same time, and nothing used more processors than it had threads, or than
 * there are, whenever a sample was recorded. */
static void test_course(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 10), 0);
    json_t *node = json_pack("{s:s, s:f, s:i}", "type", "node", "t", 0.0, "cpus", 2);
    job_model_apply(&model, node);
    json_decref(node);
    apply_sample_of(&model, 1, 1, 1);
    apply_sample_of(&model, 1.8, 2, 1); /* this one came too early, or the one before too late */
    assert_true(series_max(&model.cpu_series) == 1);
    apply_sample_of(&model, 3, 3.2, 4);
    apply_sample_of(&model, 4, 6, 4);
    assert_true(series_max(&model.cpu_series) == 2);
    apply_sample_of(&model, 5, 6, 4);
    apply_sample_of(&model, 119.9, 6, 4);
    apply_sample_of(&model, 120.01, 6, 4); /* too soon for a new rate */
    assert_true(model.cpu_series.width_seconds == model.rss_series.width_seconds);
    assert_int_equal(model.cpu_series.used, model.rss_series.used);
    struct buf line = BUF_INIT;
    series_sparkline(&model.cpu_series, &line, 24, 0, 1);
    assert_string_equal(line.data, "@.......................");
    buf_done(&line);
    job_model_done(&model);
}

static void test_series(void **state)
{
    struct series series = {0};
    struct buf line = BUF_INIT;
    assert_true(series_max(&series) == 0);
    series_sparkline(&series, &line, 10, 0, 1);
    assert_int_equal(line.len, 0);
    /* a week of samples with one spike */
    for (int second = 0; second < 7 * 86400; second += 10)
        series_add(&series, second, second == 400000 ? 1000 : 1);
    assert_true(series_max(&series) == 1000);
    assert_true(series.used <= SERIES_WINDOWS);
    assert_true(series.width_seconds * SERIES_WINDOWS >= 7 * 86400 - 10);
    size_t spike = (size_t)(400000 / series.width_seconds);
    assert_true(series.max[spike] == 1000);
    series_sparkline(&series, &line, 10, 0, 1);
    assert_string_equal(line.data, "......@...");
    buf_done(&line);
    series_add(&series, 1.0 / 0.0, 1);
    series_add(&series, -5, 1);
    series_add(&series, 5, 0.0 / 0.0);
    assert_true(series_max(&series) == 1000);
    series_done(&series);
}

/* ---- job.json ---- */

static void test_info(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct job_info info;
    assert_int_equal(job_info_read(place->root, &info, &err), -ENOENT);
    assert_non_null(strstr(err.text, "job.json"));
    json_t *argv = json_pack("[s, s]", "make", "-j2");
    struct job_info written = example_info(argv);
    assert_int_equal(write_info(place->root, &written), 0);
    assert_int_equal(job_info_read(place->root, &info, &err), 0);
    assert_string_equal(info.name, written.name);
    assert_string_equal(info.id, written.id);
    assert_true(info.started_ns == written.started_ns);
    assert_int_equal(info.supervisor, 10);
    assert_int_equal(info.root_ticks, 13);
    assert_int_equal(json_array_size(info.argv), 2);
    assert_false(info.ended);
    assert_string_equal(job_output_read(&info, STDOUT_FILENO).kind, "");
    job_info_done(&info);
    written.ended = true;
    written.result = (struct job_result){.started = true,
                                         .exit_code = 139,
                                         .signal = SIGSEGV,
                                         .core_dumped = true,
                                         .wall_seconds = 1.5,
                                         .cpu_seconds = 2.25,
                                         .peak_rss_bytes = 123456789,
                                         .processes = 7,
                                         .lost_records = 3};
    assert_int_equal(write_info(place->root, &written), 0);
    assert_int_equal(job_info_read(place->root, &info, &err), 0);
    assert_true(info.ended);
    const struct job_result *read = &info.result;
    assert_true(read->started && read->core_dumped);
    assert_int_equal(read->exit_code, 139);
    assert_int_equal(read->signal, SIGSEGV);
    assert_true(read->wall_seconds == 1.5 && read->cpu_seconds == 2.25);
    assert_int_equal(read->peak_rss_bytes, 123456789);
    assert_int_equal(read->processes, 7);
    assert_int_equal(read->lost_records, 3);
    assert_int_equal(job_state(place->root, &info), JOB_ENDED);
    job_info_done(&info);
    json_decref(argv);
}

static void test_info_versions(void **state)
{
    struct place *place = *state;
    struct err err = {0};
    struct job_info info;
    static const char newer[] = "{\"format\": \"scry-job\", \"version\": 2, \"scry\": \"9.9\"}";
    write_file(place->root, "job.json", newer, sizeof newer - 1);
    assert_int_equal(job_info_read(place->root, &info, &err), -EPROTO);
    assert_non_null(strstr(err.text, "format 2"));
    assert_non_null(strstr(err.text, "9.9"));
    static const char other[] = "{\"format\": \"something\"}";
    write_file(place->root, "job.json", other, sizeof other - 1);
    assert_int_equal(job_info_read(place->root, &info, &err), -EBADMSG);
}

/* Which part of a file is the job's: by the offset that it shares, or by the end where it appends. */
static void test_outputs(void **state)
{
    struct place *place = *state;
    struct job_info info, written = example_info(json_pack("[s]", "make"));
    struct err err = {0};
    int old = dup(STDOUT_FILENO);
    static const int appends[] = {0, O_APPEND};
    for (size_t i = 0; i < 2; i++) {
        char path[128];
        struct stat st;
        snprintf(path, sizeof path, "%s/out", place->root);
        write_file(place->root, "out", "what was there before", 21);
        int fd = open(path, O_WRONLY | appends[i]);
        dup2(fd, STDOUT_FILENO);
        close(fd);
        assert_int_equal(write(STDOUT_FILENO, "scry", 4), 4);
        json_t *output = job_output_json(STDOUT_FILENO);
        assert_int_equal(write(STDOUT_FILENO, "job", 3), 3);
        written.outputs = json_pack("[O]", output);
        assert_int_equal(write_info(place->root, &written), 0);
        assert_int_equal(job_info_read(place->root, &info, &err), 0);
        assert_true(job_output_read(&info, STDOUT_FILENO).until == UINT64_MAX);
        job_info_done(&info);
        job_output_end(output, STDOUT_FILENO);
        assert_int_equal(stat(path, &st), 0);
        dup2(old, STDOUT_FILENO);
        assert_int_equal(write_info(place->root, &written), 0);
        assert_int_equal(job_info_read(place->root, &info, &err), 0);
        struct job_output read = job_output_read(&info, STDOUT_FILENO);
        assert_string_equal(read.kind, "file");
        assert_string_equal(read.path, path);
        assert_int_equal(read.inode, st.st_ino);
        assert_int_equal(read.from, appends[i] ? 25 : 4);
        assert_int_equal(read.until, read.from + 3);
        assert_string_equal(job_output_read(&info, STDERR_FILENO).kind, "");
        job_info_done(&info);
        json_decref(output);
        json_decref(written.outputs);
    }
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDOUT_FILENO);
    json_t *output = job_output_json(STDOUT_FILENO);
    job_output_end(output, STDOUT_FILENO);
    dup2(old, STDOUT_FILENO);
    assert_string_equal(json_string_value(json_object_get(output, "kind")), "pipe");
    assert_null(json_object_get(output, "until"));
    json_decref(output);
    json_decref(written.argv);
    close(pipes[0]);
    close(pipes[1]);
    close(old);
}

static void test_stopped(void **state)
{
    struct place *place = *state;
    char host[256] = "", boot_id[64];
    gethostname(host, sizeof host - 1);
    job_boot_id(boot_id, sizeof boot_id);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    struct job_info info = example_info(NULL);
    info.host = host;
    info.boot_id = boot_id;
    info.began_ns = 1;
    info.root = child;
    info.root_ticks = job_process_ticks(child);
    assert_false(job_is_stopped(place->root, &info));
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    assert_true(job_is_stopped(place->root, &info));
    info.root_ticks++;
    assert_false(job_is_stopped(place->root, &info));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    json_decref(info.argv);
}

/* What is true although job.json says nothing of an end. */
static void test_state(void **state)
{
    struct place *place = *state;
    char host[256] = "", boot_id[64];
    gethostname(host, sizeof host - 1);
    job_boot_id(boot_id, sizeof boot_id);
    struct job_info info = example_info(NULL);
    info.host = host;
    info.boot_id = boot_id;
    info.supervisor = getpid();
    info.supervisor_ticks = job_process_ticks(getpid());
    info.root = getppid();
    info.root_ticks = job_process_ticks(getppid());
    assert_int_equal(job_state(place->root, &info), JOB_RUNNING);
    info.supervisor_ticks++; /* the pid is another's now */
    assert_int_equal(job_state(place->root, &info), JOB_UNWATCHED);
    info.root_ticks++;
    assert_int_equal(job_state(place->root, &info), JOB_LOST);
    struct job_info read;
    enum job_state told;
    assert_int_equal(write_info(place->root, &info), 0);
    assert_int_equal(job_info_read_state(place->root, &read, &told, NULL), 0);
    assert_int_equal(told, JOB_LOST);
    job_info_done(&read);
    info.ended = true; /* the last that its scry run did */
    assert_int_equal(write_info(place->root, &info), 0);
    assert_int_equal(job_info_read_state(place->root, &read, &told, NULL), 0);
    assert_int_equal(told, JOB_ENDED);
    assert_true(read.ended);
    job_info_done(&read);
    info.ended = false;
    info.boot_id = "another start of the machine";
    info.supervisor_ticks--;
    assert_int_equal(job_state(place->root, &info), JOB_LOST);
    info.host = "elsewhere";
    assert_int_equal(job_state(place->root, &info), JOB_UNREACHABLE);
    char spool[128];
    snprintf(spool, sizeof spool, "%s/spool", place->root);
    assert_int_equal(mkdir(spool, 0700), 0);
    write_file(place->root, "spool/records.jsonl", "", 0);
    assert_int_equal(job_state(place->root, &info), JOB_RUNNING); /* written to just now */
}

/* ---- model ---- */

static void apply(struct job_model *model, const char *text)
{
    json_error_t where;
    json_t *record = json_loads(text, 0, &where);
    assert_non_null(record);
    job_model_apply(model, record);
    json_decref(record);
}

/* What ends uses some of a processor for that: what it did before is in the sample before. */
static void test_share_at_end(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 2), 0);
    for (int i = 1; i <= 3; i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "{\"type\":\"sample\",\"t\":%d,\"tree\":{\"processes\":%d,\"threads\":1,\"rss\":3000,\"cpu_ns\":%d,"
                 "\"started\":1,\"ended\":0},\"alive\":[]}",
                 i, i < 3, i < 3 ? 100000 : 500000000);
        apply(&model, text);
    }
    assert_true(model.cpu_share > 0.3 && model.alive_share < 0.01);
    job_model_done(&model);
}

static void test_model(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 2), 0);
    apply(&model, "{\"type\":\"process\",\"t\":0,\"pid\":10,\"ppid\":1,\"start\":0,\"name\":\"sh\"}");
    apply(&model, "{\"type\":\"process\",\"t\":0,\"pid\":11,\"ppid\":10,\"start\":0.1,\"name\":\"sh\"}");
    apply(&model,
          "{\"type\":\"sample\",\"t\":1,\"tree\":{\"processes\":2,\"threads\":5,\"rss\":3000,\"cpu_ns\":500000000,"
          "\"started\":2,\"ended\":0},\"alive\":[[10,\"S\",1000,1000,0,1],[11,\"R\",2000,2500,500000000,4]]}");
    assert_int_equal(HASH_COUNT(model.alive), 2);
    assert_int_equal(model.peak_rss, 2500);
    assert_int_equal(model.peak_threads, 5);
    assert_true(model.cpu_share > 0.49 && model.cpu_share < 0.51 && model.alive_share == model.cpu_share);
    /* a new name, then the end of the one and a new process with its pid */
    apply(&model, "{\"type\":\"process\",\"t\":1,\"pid\":11,\"ppid\":10,\"start\":0.1,\"name\":\"cc\"}");
    apply(&model, "{\"type\":\"process\",\"t\":2,\"pid\":11,\"ppid\":10,\"start\":1.9,\"name\":\"ld\"}");
    assert_int_equal(model.ended_count, 1);
    assert_string_equal(model.ended[0].name, "cc");
    assert_int_equal(model.ended[0].status, JOB_STATUS_UNKNOWN);
    /* short ones come with everything at once */
    apply(&model, "{\"type\":\"process_end\",\"t\":2,\"pid\":12,\"ppid\":10,\"start\":1,\"name\":\"true\",\"end\":1.1,"
                  "\"cpu_ns\":1000,\"status\":0,\"threads\":1,\"peak_rss\":0}");
    apply(&model, "{\"type\":\"process_end\",\"t\":2,\"pid\":13,\"ppid\":10,\"start\":1,\"name\":\"true\",\"end\":1.1,"
                  "\"cpu_ns\":500,\"status\":null,\"threads\":1,\"peak_rss\":0}");
    assert_int_equal(model.ended_count, 2);
    assert_int_equal(model.ended_omitted, 1);
    struct job_command *command;
    HASH_FIND_STR(model.commands, "true", command);
    assert_int_equal(command->count, 2);
    assert_int_equal(command->cpu_ns, 1500);
    assert_int_equal(HASH_COUNT(model.alive), 2);
    /* it was none of the job's: as if it had never been there */
    uint64_t started = model.started_total;
    apply(&model, "{\"type\":\"process\",\"t\":2,\"pid\":14,\"ppid\":10,\"start\":2,\"name\":\"own\"}");
    apply(&model,
          "{\"type\":\"sample\",\"t\":2,\"tree\":{\"processes\":3,\"threads\":6,\"started\":3,\"peak_processes\":3,"
          "\"peak_threads\":6},\"alive\":[]}");
    assert_int_equal(model.peak_processes, 3);
    apply(&model, "{\"type\":\"withdrawn\",\"t\":3,\"pid\":14,\"peak_processes\":2,\"peak_threads\":5}");
    apply(&model, "{\"type\":\"withdrawn\",\"t\":3,\"pid\":77,\"peak_processes\":1,\"peak_threads\":1}");
    assert_int_equal(HASH_COUNT(model.alive), 2);
    assert_int_equal(model.started_total, started);
    assert_int_equal(model.peak_processes, 2);
    assert_int_equal(model.peak_threads, 5);
    /* nonsense changes nothing and harms nobody */
    apply(&model, "{\"type\":\"sample\",\"t\":3,\"tree\":7,\"alive\":[1,[],[10],[\"x\",{}]]}");
    apply(&model, "{\"type\":\"process_end\",\"t\":-3}");
    apply(&model, "{\"type\":\"unheard of\",\"t\":3}");
    apply(&model, "{\"t\":3}");
    job_model_done(&model);
}

/* Processes without number use one entry. */
static void test_model_commands(void **state)
{
    struct job_model model;
    assert_int_equal(job_model_init(&model, 0), 0);
    for (int i = 0; i < JOB_COMMANDS + 50; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"type\":\"process_end\",\"t\":1,\"pid\":%d,\"ppid\":1,\"start\":0,\"name\":\"n%d\",\"end\":1,"
                 "\"cpu_ns\":1,\"status\":0,\"threads\":1,\"peak_rss\":0}",
                 100 + i, i);
        apply(&model, text);
    }
    struct job_command *others;
    HASH_FIND_STR(model.commands, "(others)", others);
    assert_non_null(others);
    assert_int_equal(others->count, 50);
    job_model_done(&model);
}

/* ---- reports ---- */

/* A job directory cut off anywhere gives a report or an error, never nonsense. */
static void check_report_has(const char *path, const char *part)
{
    struct job_report report;
    struct err err = {0};
    struct buf out = BUF_INIT;
    assert_int_equal(job_report_load(&report, path, &err), 0);
    job_report_text(&out, &report, (struct report_style){0});
    assert_non_null(strstr(out.data, part));
    buf_done(&out);
    job_report_done(&report);
}

static void open_spool(struct spool *spool, const char *path, uint64_t max_bytes)
{
    struct buf first = BUF_INIT;
    spool_first(&first, "id");
    spool_open(spool, path, &first, max_bytes);
    buf_done(&first);
}

/* The record of a process's end may be missing, as when the disk was full: then it was not left running. */
static void test_report_unseen_end(void **state)
{
    char path[256];
    struct spool spool;
    json_t *argv = json_pack("[s]", "true");
    struct job_info info = example_info(argv);
    make_job(*state, path, sizeof path);
    open_spool(&spool, path, 1 << 20);
    for (int pid = 11; pid <= 12; pid++)
        spool_put_take(&spool, json_pack("{s:s, s:f, s:i, s:i, s:f, s:s}", "type", "process", "t", 0.1, "pid", pid,
                                         "ppid", 10, "start", 0.0, "name", "sleep"));
    spool_close(&spool);
    static const char *const words[] = {"ended", "unknown", "left running"};
    info.ended = true;
    for (uint64_t left = 0; left <= 2; left++) {
        info.result = (struct job_result){.started = true, .processes = 2, .left_running = left};
        assert_int_equal(write_info(path, &info), 0);
        char line[64];
        snprintf(line, sizeof line, "    1  %s\n", words[left]);
        check_report_has(path, line);
    }
    json_decref(argv);
}

static void test_report_cut(void **state)
{
    char path[256];
    struct err err = {0};
    struct job_report report;
    struct spool spool;
    json_t *argv = json_pack("[s]", "true");
    struct job_info info = example_info(argv);
    make_job(*state, path, sizeof path);
    info.ended = true;
    info.result = (struct job_result){.started = true, .exit_code = 3, .wall_seconds = 2, .processes = 1};
    assert_int_equal(write_info(path, &info), 0);
    open_spool(&spool, path, 1 << 20);
    spool_put_take(&spool, json_pack("{s:s, s:f, s:i, s:i, s:b}", "type", "end", "t", 2.0, "exit_code", 3, "signal", 0,
                                     "started", 1));
    spool_close(&spool);
    size_t len;
    char *text = read_name(path, "job.json", &len);
    for (size_t cut = 0; cut <= len; cut++) {
        write_file(path, "job.json", text, cut);
        assert_int_equal(job_report_load(&report, path, &err), 0);
        assert_int_equal(job_report_result(&report).exit_code, 3);
        assert_string_equal(job_report_status(&report), "exited");
        assert_int_equal(json_array_size(report.problems), cut < len);
        struct buf out = BUF_INIT;
        job_report_text(&out, &report, (struct report_style){0});
        assert_non_null(strstr(out.data, "exit status 3"));
        buf_done(&out);
        json_t *json = job_report_json(&report);
        assert_int_equal(json_integer_value(json_object_get(json, "exit_code")), 3);
        json_decref(json);
        job_report_done(&report);
    }
    free(text);
    json_decref(argv);
    char file[300];
    snprintf(file, sizeof file, "%s/spool/records.jsonl", path);
    unlink(file);
    snprintf(file, sizeof file, "%s/job.json", path);
    unlink(file);
    assert_int_equal(job_report_load(&report, path, &err), -ENOENT);
    job_report_done(&report);
}

/* ---- job directories are found by id, name and path, and listed ---- */

static void make_named(const char *id, uint64_t started_ns, const char *name)
{
    char path[256];
    struct err err = {0};
    struct job_info info = example_info(NULL);
    assert_int_equal(jobdir_make(id, NULL, path, sizeof path, &err), 0);
    info.id = id;
    info.started_ns = started_ns;
    info.name = name;
    assert_int_equal(write_info(path, &info), 0);
}

static void make_described(const char *id, uint64_t started_ns)
{
    make_named(id, started_ns, example_info(NULL).name);
}

static void test_find(void **state)
{
    struct place *place = *state;
    char path[256], again[256];
    struct err err = {0};
    assert_int_equal(jobdir_find("@last", path, sizeof path, &err), -ENOENT);
    make_described("20260101T000000-h-1-aaaaaa", 5);
    make_described("20260102T000000-h-1-aaaaaa", 9); /* the same second: the one that started last */
    make_described("20260102T000000-h-2-bbbbbb", 8);
    assert_int_equal(jobdir_make("20260104T000000-h-1-dddddd", NULL, path, sizeof path, &err), 0); /* it is starting */
    assert_int_equal(jobdir_find("@last", path, sizeof path, &err), 0);
    assert_non_null(strstr(path, "20260102T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find("20260101", path, sizeof path, &err), 0);
    assert_non_null(strstr(path, "20260101T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find("20260102", path, sizeof path, &err), -ENOTUNIQ);
    assert_non_null(strstr(err.text, "2 jobs"));
    assert_int_equal(jobdir_find("2027", path, sizeof path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no job '2027' here"));
    assert_int_equal(jobdir_find("", path, sizeof path, &err), -ENOENT);
    assert_int_equal(jobdir_find(place->root, path, sizeof path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "job.json"));
    /* one made elsewhere is found by its id, too */
    char elsewhere[128];
    snprintf(elsewhere, sizeof elsewhere, "%s/else/where", place->root);
    assert_int_equal(jobdir_make("20260103T000000-h-1-cccccc", elsewhere, path, sizeof path, &err), 0);
    struct job_info info = example_info(NULL);
    info.id = "20260103T000000-h-1-cccccc";
    assert_int_equal(write_info(path, &info), 0);
    assert_int_equal(jobdir_find("20260103", again, sizeof again, &err), 0);
    assert_int_equal(jobdir_find(elsewhere, again, sizeof again, &err), 0);
    assert_int_equal(jobdir_make("x", elsewhere, path, sizeof path, &err), -EEXIST);
    remove_tree(elsewhere);
    char **paths;
    size_t count;
    assert_int_equal(jobdir_list(&paths, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_non_null(strstr(paths[0], "20260101T000000-h-1-aaaaaa"));
    assert_non_null(strstr(paths[1], "20260102T000000-h-2-bbbbbb")); /* of a second: by their start */
    assert_non_null(strstr(paths[2], "20260102T000000-h-1-aaaaaa"));
    jobdir_list_free(paths, count);
    char id[JOB_ID_SIZE], other[JOB_ID_SIZE];
    jobdir_new_id(id, NULL);
    jobdir_new_id(other, NULL);
    assert_string_not_equal(id, other);
    assert_null(strpbrk(id, "./ "));
}

static void test_find_named(void **state)
{
    char path[256];
    struct err err = {0};
    make_named("20260101T000000-h-1-aaaaaa", 5, "solver");
    make_named("20260102T000000-h-1-aaaaaa", 6, "solver");
    make_named("20260103T000000-h-1-aaaaaa", 7, "2026010");
    assert_int_equal(jobdir_find("solver", path, sizeof path, &err), 0); /* the newest */
    assert_non_null(strstr(path, "20260102T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find("solve", path, sizeof path, &err), -ENOENT); /* a name is given whole */
    assert_int_equal(jobdir_find("2026010", path, sizeof path, &err), 0);     /* before the beginning of an id */
    assert_non_null(strstr(path, "20260103T000000-h-1-aaaaaa"));
    assert_int_equal(jobdir_find_only("2026010", path, sizeof path, &err), 0);
    assert_int_equal(jobdir_find_only("20260102", path, sizeof path, &err), 0);
    assert_int_equal(jobdir_find_only("solver", path, sizeof path, &err), -ENOTUNIQ);
    assert_non_null(strstr(err.text, "2 jobs have the name 'solver', for instance 20260101T000000-h-1-aaaaaa and "
                                     "20260102T000000-h-1-aaaaaa: give an id"));
}

/* Job directories may be put there under any name, also a job twice. What scry removes by itself is not among them. */
static void test_dropped(void **state)
{
    struct place *place = *state;
    char path[256], id[JOB_ID_SIZE];
    struct err err = {0};
    struct job_info info = example_info(NULL);
    static const char *const names[] = {"monday", "-tuesday", "not_a_job", ".hidden"};
    info.started_ns = 5;
    make_described("20260101T000000-h-1-aaaaaa", 5);
    make_described("20260103T000000-h-1-cccccc", 7);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", place->jobs, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
        info.id = i ? "20260101T000000-h-1-aaaaaa" : "20260102T000000-h-1-bbbbbb";
        if (i != 2)
            assert_int_equal(write_info(path, &info), 0);
    }
    static const char *const listed[] = {"monday", "-tuesday", "20260101T000000-h-1-aaaaaa",
                                         "20260103T000000-h-1-cccccc"};
    char **paths;
    size_t count;
    assert_int_equal(jobdir_list(&paths, &count, &err), 0);
    assert_int_equal(count, 4);
    assert_string_equal(strrchr(paths[0], '/') + 1, listed[1]);
    assert_string_equal(strrchr(paths[1], '/') + 1, listed[2]);
    assert_string_equal(strrchr(paths[2], '/') + 1, listed[0]);
    assert_string_equal(strrchr(paths[3], '/') + 1, listed[3]);
    jobdir_id(paths[2], id);
    assert_string_equal(id, "20260102T000000-h-1-bbbbbb");
    jobdir_list_free(paths, count);
    assert_int_equal(jobdir_list_own(&paths, &count, &err), 0);
    assert_int_equal(count, 2);
    jobdir_list_free(paths, count);
    assert_int_equal(jobdir_find_only("20260102T000000-h-1-bbbbbb", path, sizeof path, &err), 0);
    assert_non_null(strstr(path, "/monday"));
    assert_int_equal(jobdir_find_only("20260101T000000-h-1-aaaaaa", path, sizeof path, &err), 0);
    assert_null(strstr(path, "tuesday"));
    assert_int_equal(jobdir_find("monday", path, sizeof path, &err), 0);
}

/* A directory that was used again (scry run -o) is one job, the last one. */
static void test_used_again(void **state)
{
    struct place *place = *state;
    char elsewhere[128], path[256];
    struct err err = {0};
    struct job_info info = example_info(NULL);
    snprintf(elsewhere, sizeof elsewhere, "%s/else/where", place->root);
    make_described("20260102T000000-h-1-bbbbbb", 6);
    static const char *const ids[] = {"20260101T000000-h-1-aaaaaa", "20260103T000000-h-1-cccccc"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(jobdir_make(ids[i], elsewhere, path, sizeof path, &err), 0);
        info.id = ids[i];
        assert_int_equal(write_info(path, &info), 0);
        if (i == 0)
            remove_tree(elsewhere);
    }
    char **paths;
    size_t count;
    assert_int_equal(jobdir_list(&paths, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_non_null(strstr(paths[0], "20260102T000000-h-1-bbbbbb"));
    assert_non_null(strstr(paths[1], "20260103T000000-h-1-cccccc"));
    jobdir_list_free(paths, count);
    assert_int_equal(jobdir_find("20260101", path, sizeof path, &err), -ENOENT);
}

static void apply_memory(struct job_model *model, double t, int64_t tree_rss, int64_t rss, int64_t pss)
{
    json_t *sample = json_pack("{s:f, s:s, s:{s:i, s:I}, s:[]}", "t", t, "type", "sample", "tree", "processes", 7,
                               "rss", (json_int_t)tree_rss, "alive");
    job_model_apply(model, sample);
    json_decref(sample);
    if (!rss)
        return;
    json_t *memory = json_pack("{s:f, s:s, s:I, s:I, s:i, s:i}", "t", t, "type", "memory", "rss_bytes", (json_int_t)rss,
                               "pss_bytes", (json_int_t)pss, "processes", 7, "unread", 0);
    job_model_apply(model, memory);
    json_decref(memory);
}

/* Shared pages count once; what grew since they were counted may be nobody else's. */
static void test_memory(void **state)
{
    struct job_model model;
    (void)state;
    assert_int_equal(job_model_init(&model, 10), 0);
    apply_memory(&model, 1, 2000, 0, 0);
    assert_int_equal(job_model_memory(&model), 2000);
    assert_int_equal(job_model_peak_memory(&model, 900), 0);
    apply_memory(&model, 2, 2100, 2100, 320);
    assert_int_equal(job_model_memory(&model), 320);
    assert_int_equal(job_model_peak_memory(&model, 300), 320);
    assert_int_equal(job_model_peak_memory(&model, 330), 330);
    apply_memory(&model, 3, 1050, 0, 0);
    assert_int_equal(job_model_memory(&model), 160);
    apply_memory(&model, 4, 4100, 0, 0);
    assert_int_equal(job_model_peak_memory(&model, 300), 2320);
    apply_memory(&model, 5, 4100, 4100, 700);
    assert_int_equal(job_model_peak_memory(&model, 300), 700);
    job_model_done(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_note),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_course),
        cmocka_unit_test(test_series),
        IN_PLACE(test_info),
        IN_PLACE(test_info_versions),
        IN_PLACE(test_outputs),
        IN_PLACE(test_stopped),
        IN_PLACE(test_state),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_share_at_end),
        cmocka_unit_test(test_model_commands),
        IN_PLACE(test_report_unseen_end),
        IN_PLACE(test_report_cut),
        IN_PLACE(test_find),
        IN_PLACE(test_find_named),
        IN_PLACE(test_dropped),
        IN_PLACE(test_used_again),
    };
    return cmocka_run_group_tests_name("jobdir", tests, NULL, NULL);
}
