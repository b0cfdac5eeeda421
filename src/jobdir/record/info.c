/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/info.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "base/system/proc_file.h"
#include "jobdir/record/model.h"
#include "jobdir/record/mirror.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

static struct job_io read_io(const json_t *json)
{
    return (struct job_io){.known = json_is_object(json),
                           .read_bytes = member_count(json, "read_bytes"),
                           .written_bytes = member_count(json, "written_bytes"),
                           .disk_read_bytes = member_count(json, "disk_read_bytes"),
                           .disk_written_bytes = member_count(json, "disk_written_bytes")};
}

static void read_result(const json_t *json, struct job_result *result)
{
    const json_t *started = json_object_get(json, "started");
    *result = (struct job_result){
        .started = !started || json_is_true(started),
        .exit_code = (int)json_integer_value(json_object_get(json, "exit_code")),
        .signal = (int)member_count(json, "signal"),
        .reason = member_text(json, "reason"),
        .core_dumped = json_is_true(json_object_get(json, "core_dumped")),
        .wall_seconds = member_number(json, "wall_seconds"),
        .cpu_seconds = member_number(json, "cpu_seconds"),
        .peak_rss_bytes = member_count(json, "peak_rss_bytes"),
        .peak_tree_rss_bytes = member_count(json, "peak_tree_rss_bytes"),
        .peak_tree_pss_bytes = member_count(json, "peak_tree_pss_bytes"),
        .io = read_io(json_object_get(json, "io")),
        .processes = member_count(json, "processes"),
        .processes_at_once = member_count(json, "processes_at_once"),
        .threads_at_once = member_count(json, "threads_at_once"),
        .left_running = member_count(json, "left_running"),
        .lost_records = member_count(json, "lost_records"),
    };
}

/* Older versions wrote all of them. */
static void limit_warnings(json_t *json)
{
    const json_t *all = json_object_get(json, "warnings");
    struct kept kept;
    size_t index;
    json_t *warning;
    if (json_array_size(all) <= KEPT_EACH || json_object_get(json, "warnings_omitted") || kept_init(&kept) < 0)
        return;
    json_array_foreach(all, index, warning) kept_add(&kept, warning);
    json_object_set_new(json, "warnings_omitted", kept_omitted(&kept));
    json_object_set(json, "warnings", kept.records);
    kept_done(&kept);
}

static void take_fields(json_t *json, struct job_info *info)
{
    info->json = json;
    info->id = member_text(json, "id");
    info->name = member_text(json, "name");
    info->host = member_text(json, "host");
    info->user = member_text(json, "user");
    info->cwd = member_text(json, "cwd");
    info->boot_id = member_text(json, "boot_id");
    info->task = member_text(json, "task");
    json_t *argv = json_object_get(json, "argv");
    info->argv = json_is_array(argv) ? argv : NULL;
    json_t *batch = json_object_get(json, "batch");
    info->batch = json_is_object(batch) ? batch : NULL;
    info->started_ns = member_count(json, "started_ns");
    info->began_ns = member_count(json, "began_monotonic_ns");
    info->sample_seconds = member_number(json, "sample_seconds");
    info->profile_hz = member_count(json, "profile_hz");
    info->supervisor = (pid_t)member_count(json_object_get(json, "supervisor"), "pid");
    info->supervisor_ticks = member_count(json_object_get(json, "supervisor"), "start_ticks");
    info->root = (pid_t)member_count(json_object_get(json, "command"), "pid");
    info->root_ticks = member_count(json_object_get(json, "command"), "start_ticks");
    json_t *outputs = json_object_get(json, "outputs");
    info->outputs = json_is_array(outputs) ? outputs : NULL;
    json_t *result = json_object_get(json, "result");
    info->ended = json_is_object(result);
    if (info->ended) {
        read_result(result, &info->result);
        limit_warnings(json);
        info->warnings = json_object_get(json, "warnings");
        info->warnings_omitted = json_object_get(json, "warnings_omitted");
        info->crashes = json_object_get(json, "crashes");
        json_t *cause = json_object_get(json, "cause"), *progress = json_object_get(json, "progress");
        info->cause = json_is_object(cause) ? cause : NULL;
        info->progress = json_is_object(progress) ? progress : NULL;
    }
}

int job_info_read(const char *path, struct job_info *ret_info, struct err *err)
{
    *ret_info = (struct job_info){.id = "", .name = "", .host = "", .user = "", .cwd = "", .boot_id = ""};
    char file[PATH_MAX];
    if ((size_t)snprintf(file, sizeof file, "%s/job.json", path) >= sizeof file)
        return err_set(err, -ENAMETOOLONG, "%s: too long", path);
    _cleanup_(freep) char *bytes = NULL;
    size_t len;
    int code = file_read_plain(file, &bytes, &len);
    if (code < 0)
        return err_errno(err, code, "cannot read %s", file);
    json_error_t where;
    json_t *json = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, &where);
    if (!json_is_object(json) || strcmp(member_text(json, "format"), "scry-job") != 0) {
        if (json)
            err_set(err, -EBADMSG, "%s is not the description of a job", file);
        else
            err_set(err, -EBADMSG, "%s cannot be read: line %d: %s", file, where.line, where.text);
        json_decref(json);
        return -EBADMSG;
    }
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    if (version != JOB_VERSION) {
        err_set(err, -EPROTO, "%s was written in format %lld by scry %s; this scry %s reads format %d: use that one",
                file, (long long)version, member_text(json, "scry"), SCRY_VERSION, JOB_VERSION);
        json_decref(json);
        return -EPROTO;
    }
    take_fields(json, ret_info);
    return 0;
}

void job_info_done(struct job_info *info)
{
    json_decref(info->json);
    info->json = NULL;
}

static json_t *io_json(const struct job_io *io)
{
    return io->known ? json_pack("{s:I, s:I, s:I, s:I}", "read_bytes", (json_int_t)io->read_bytes, "written_bytes",
                                 (json_int_t)io->written_bytes, "disk_read_bytes", (json_int_t)io->disk_read_bytes,
                                 "disk_written_bytes", (json_int_t)io->disk_written_bytes)
                     : NULL;
}

static json_t *result_json(const struct job_result *result)
{
    return json_pack(
        "{s:b, s:i, s:o, s:o, s:b, s:f, s:f, s:I, s:I, s:o*, s:o*, s:I, s:I, s:I, s:I, s:I}", "started",
        result->started, "exit_code", result->exit_code, "signal",
        result->signal ? json_integer(result->signal) : json_null(), "reason",
        text_json(result->reason ? result->reason : ""), "core_dumped", result->core_dumped, "wall_seconds",
        result->wall_seconds, "cpu_seconds", result->cpu_seconds, "peak_rss_bytes", (json_int_t)result->peak_rss_bytes,
        "peak_tree_rss_bytes", (json_int_t)result->peak_tree_rss_bytes, "peak_tree_pss_bytes",
        result->peak_tree_pss_bytes ? json_integer((json_int_t)result->peak_tree_pss_bytes) : NULL, "io",
        io_json(&result->io), "processes", (json_int_t)result->processes, "processes_at_once",
        (json_int_t)result->processes_at_once, "threads_at_once", (json_int_t)result->threads_at_once, "left_running",
        (json_int_t)result->left_running, "lost_records", (json_int_t)result->lost_records);
}

static json_t *process_json(pid_t pid, uint64_t ticks)
{
    return pid ? json_pack("{s:i, s:I}", "pid", pid, "start_ticks", (json_int_t)ticks) : json_null();
}

char *job_info_text(const struct job_info *info)
{
    char started[64];
    time_t seconds = (time_t)(info->started_ns / NS_PER_SECOND);
    struct tm tm;
    localtime_r(&seconds, &tm);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%S%z", &tm);
    json_t *json = json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:O?, s:s, s:I, s:s, s:f, s:o, s:o, s:O?}",
                             "format", "scry-job", "version", JOB_VERSION, "scry", SCRY_VERSION, "id", info->id, "name",
                             text_json(info->name), "host", text_json(info->host), "user", text_json(info->user), "cwd",
                             text_json(info->cwd), "argv", info->argv, "started", started, "started_ns",
                             (json_int_t)info->started_ns, "boot_id", info->boot_id, "sample_seconds",
                             info->sample_seconds, "supervisor", process_json(info->supervisor, info->supervisor_ticks),
                             "command", process_json(info->root, info->root_ticks), "batch", info->batch);
    if (json && info->began_ns)
        json_object_set_new(json, "began_monotonic_ns", json_integer((json_int_t)info->began_ns));
    if (json && info->profile_hz)
        json_object_set_new(json, "profile_hz", json_integer((json_int_t)info->profile_hz));
    if (json && info->task && *info->task)
        json_object_set_new(json, "task", text_json(info->task));
    if (json && info->outputs)
        json_object_set(json, "outputs", info->outputs);
    if (json && info->ended) {
        json_object_set_new(json, "result", result_json(&info->result));
        if (info->warnings)
            json_object_set(json, "warnings", info->warnings);
        if (json_array_size(info->warnings_omitted))
            json_object_set(json, "warnings_omitted", info->warnings_omitted);
        if (info->crashes)
            json_object_set(json, "crashes", info->crashes);
        if (info->cause)
            json_object_set(json, "cause", info->cause);
        if (info->progress)
            json_object_set(json, "progress", info->progress);
    }
    char *text = json ? json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(json);
    return text;
}

/* ---- where its output goes ---- */

static const char *output_kind(int fd, mode_t mode, dev_t device)
{
    static const unsigned null_major = 1, null_minor = 3; /* Documentation/admin-guide/devices.txt of Linux */
    if (S_ISREG(mode))
        return "file";
    if (S_ISCHR(mode) && major(device) == null_major && minor(device) == null_minor)
        return "null";
    return isatty(fd) ? "terminal" : S_ISFIFO(mode) || S_ISSOCK(mode) ? "pipe" : "other";
}

/* Where the next byte goes: the command shares the offset. */
static off_t output_place(int fd, off_t size)
{
    int flags = fcntl(fd, F_GETFL);
    off_t at = flags & O_APPEND ? size : lseek(fd, 0, SEEK_CUR);
    return at < 0 ? size : at;
}

json_t *job_output_json(int fd)
{
    char link[32], path[PATH_MAX];
    struct stat st;
    struct statx more;
    json_t *output = json_pack("{s:s}", "stream", fd == STDOUT_FILENO ? "stdout" : "stderr");
    if (fstat(fd, &st) < 0)
        return output;
    json_object_set_new(output, "kind", json_string(output_kind(fd, st.st_mode, st.st_rdev)));
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = S_ISREG(st.st_mode) ? readlink(link, path, sizeof path - 1) : -1;
    if (len <= 0)
        return output;
    path[len] = 0;
    json_object_set_new(output, "path", text_json(path));
    json_object_set_new(output, "inode", json_integer((json_int_t)st.st_ino));
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &more) == 0 && more.stx_mask & STATX_BTIME)
        json_object_set_new(
            output, "born_ns",
            json_integer((json_int_t)more.stx_btime.tv_sec * NS_PER_SECOND + (json_int_t)more.stx_btime.tv_nsec));
    json_object_set_new(output, "from", json_integer((json_int_t)output_place(fd, st.st_size)));
    return output;
}

void job_output_end(json_t *output, int fd)
{
    struct stat st;
    if (json_object_get(output, "from") && fstat(fd, &st) == 0)
        json_object_set_new(output, "until", json_integer((json_int_t)output_place(fd, st.st_size)));
}

struct job_output job_output_read(const struct job_info *info, int fd)
{
    size_t index;
    const json_t *each, *found = NULL;
    json_array_foreach(info->outputs, index, each)
    {
        const char *stream = member_text(each, "stream");
        found = strcmp(stream, fd == STDOUT_FILENO ? "stdout" : "stderr") == 0 ? each : found;
    }
    return (struct job_output){.kind = member_text(found, "kind"),
                               .path = member_text(found, "path"),
                               .inode = member_count(found, "inode"),
                               .born_ns = member_count(found, "born_ns"),
                               .from = member_count(found, "from"),
                               .until = json_object_get(found, "until") ? member_count(found, "until") : UINT64_MAX};
}

void job_boot_id(char *ret_id, size_t size)
{
    _cleanup_(freep) char *text = NULL;
    *ret_id = 0;
    if (file_read("/proc/sys/kernel/random/boot_id", &text, NULL) == 0) {
        text[strcspn(text, "\n")] = 0;
        snprintf(ret_id, size, "%s", text);
    }
}

uint64_t job_process_ticks(pid_t pid)
{
    struct proc_stat stat;
    if (pid <= 0 || proc_stat_of(pid, 0, &stat) < 0 || stat.state == 'Z' || stat.state == 'X')
        return 0; /* of these two, only the parent has not looked yet */
    return stat.start_ticks;
}

int job_process_signal(pid_t pid, uint64_t ticks, int signo)
{
    _cleanup_(closep) int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0 || !ticks || job_process_ticks(pid) != ticks)
        return -ESRCH;
    return syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0 ? 0 : -errno;
}

bool job_has_process(const char *path, pid_t pid)
{
    static const char variable[] = "SCRY_JOB=";
    char name[PROC_PATH_SIZE];
    _cleanup_(freep) char *environment = NULL;
    size_t size = 0;
    struct stat its, named;
    proc_path(name, pid, 0, "environ");
    if (pid <= 0 || stat(path, &named) < 0 || file_read(name, &environment, &size) < 0)
        return false;
    for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
        if (strncmp(at, variable, sizeof variable - 1) == 0)
            return stat(at + sizeof variable - 1, &its) == 0 && its.st_dev == named.st_dev &&
                   its.st_ino == named.st_ino;
    return false;
}

static bool is_alive(pid_t pid, uint64_t ticks)
{
    return pid > 0 && ticks && job_process_ticks(pid) == ticks;
}

/* Seconds since the spool was last written, by this host's clock. */
static double spool_age(const char *path)
{
    char file[PATH_MAX];
    struct stat st;
    if ((size_t)snprintf(file, sizeof file, "%s/spool/records.jsonl", path) >= sizeof file || stat(file, &st) < 0)
        return 1e9;
    return difftime(time(NULL), st.st_mtime);
}

/* What was heard of a job elsewhere. Nothing that is not heard makes it dead: only what it, or its node, said. */
static enum job_state remote_state(const json_t *remote)
{
    const char *state = member_text(remote, "state");
    double heard = member_number(remote, "heard");
    double lease = member_number(remote, "lease_seconds");
    double now = (double)clock_wall_ns() / NS_PER_SECOND;
    if (strcmp(state, "lost") == 0)
        return JOB_LOST;
    if (!json_is_true(json_object_get(remote, "connected")) || heard + lease + HEARD_SLACK_SECONDS < now)
        return JOB_UNREACHABLE;
    return json_is_false(json_object_get(remote, "watched")) ? JOB_UNWATCHED : JOB_RUNNING;
}

uint64_t job_now_ns(const char *path)
{
    uint64_t now_ns = clock_wall_ns();
    json_t *remote = path ? mirror_read_remote(path) : NULL;
    double ahead = member_number(remote, "clock") * NS_PER_SECOND;
    json_decref(remote);
    if (ahead < 0)
        return -ahead < (double)now_ns ? now_ns - (uint64_t)-ahead : now_ns;
    return ahead < (double)(INT64_MAX - (int64_t)now_ns) ? now_ns + (uint64_t)ahead : now_ns;
}

/* By this machine, since its last start. */
static bool began_here(const struct job_info *info)
{
    char host[256] = "", boot_id[64];
    gethostname(host, sizeof host - 1);
    job_boot_id(boot_id, sizeof boot_id);
    return info->began_ns && strcmp(host, info->host) == 0 && *boot_id && strcmp(boot_id, info->boot_id) == 0;
}

/* What was so some time ago; that is told by a clock that may have been set meanwhile, so it is not believed to be more than
 * after what the job would be called unreachable. */
static double seconds_since(double then, double most)
{
    double passed = (double)clock_wall_ns() / NS_PER_SECOND - then;
    return passed < 0 ? 0 : passed > most ? most : passed;
}

double job_age_seconds(const char *path, const struct job_info *info, double least)
{
    json_t *remote = path ? mirror_read_remote(path) : NULL;
    const json_t *said = json_object_get(remote, "age"), *at = json_object_get(remote, "age_heard");
    double lease = member_number(remote, "lease_seconds"), seconds = least;
    if (json_is_number(said) && json_is_number(at))
        seconds = json_number_value(said) + seconds_since(json_number_value(at), lease + HEARD_SLACK_SECONDS);
    else if (!remote && began_here(info))
        seconds = ((double)clock_now_ns() - (double)info->began_ns) / NS_PER_SECOND;
    else if (info->started_ns) /* an older scry, or another host: it is all that there is */
        seconds = ((double)job_now_ns(path) - (double)info->started_ns) / NS_PER_SECOND;
    json_decref(remote);
    return seconds > least ? seconds : least;
}

enum job_state job_state(const char *path, const struct job_info *info)
{
    if (info->ended)
        return JOB_ENDED;
    json_t *remote = mirror_read_remote(path);
    if (remote) {
        enum job_state state = remote_state(remote);
        json_decref(remote);
        return state;
    }
    char host[256] = "", boot_id[64];
    gethostname(host, sizeof host - 1);
    job_boot_id(boot_id, sizeof boot_id);
    if (strcmp(host, info->host) != 0) {
        double lease = 5 * info->sample_seconds > SPOOL_LEASE_SECONDS ? 5 * info->sample_seconds : SPOOL_LEASE_SECONDS;
        return spool_age(path) <= lease ? JOB_RUNNING : JOB_UNREACHABLE;
    }
    if (strcmp(boot_id, info->boot_id) != 0)
        return JOB_LOST;
    if (is_alive(info->supervisor, info->supervisor_ticks))
        return JOB_RUNNING;
    return is_alive(info->root, info->root_ticks) ? JOB_UNWATCHED : JOB_LOST;
}

bool job_is_stopped(const char *path, const struct job_info *info)
{
    json_t *remote = mirror_read_remote(path);
    bool here = !remote && !info->ended && began_here(info) && is_alive(info->root, info->root_ticks);
    json_decref(remote);
    return here && proc_letter(info->root, 0) == 'T';
}

int job_info_read_state(const char *path, struct job_info *ret_info, enum job_state *ret_state, struct err *err)
{
    *ret_state = JOB_LOST;
    int code = job_info_read(path, ret_info, err);
    if (code < 0)
        return code;
    pause_at("info.between-looks");
    *ret_state = job_state(path, ret_info);
    if (*ret_state == JOB_RUNNING || *ret_state == JOB_ENDED)
        return 0;
    /* scry run is gone: what it wrote last is there now */
    struct job_info now;
    if (job_info_read(path, &now, NULL) < 0 || !now.ended) {
        job_info_done(&now);
        return 0;
    }
    job_info_done(ret_info);
    *ret_info = now;
    *ret_state = JOB_ENDED;
    return 0;
}

bool job_signal_is_fault(int signo)
{
    return signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGFPE || signo == SIGABRT ||
           signo == SIGSYS || signo == SIGTRAP;
}

const char *job_end_name(const struct job_result *result)
{
    if (result->signal)
        return job_signal_is_fault(result->signal) ? "crashed" : "killed";
    return result->exit_code ? "failed" : "finished";
}

const char *job_state_name(enum job_state state)
{
    switch (state) {
    case JOB_RUNNING:
        return "running";
    case JOB_ENDED:
        return "ended";
    case JOB_UNWATCHED:
        return "unwatched";
    case JOB_LOST:
        return "lost";
    case JOB_UNREACHABLE:
        return "unreachable";
    }
    return "lost";
}
