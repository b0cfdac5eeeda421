/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/part.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum {
    READ_BYTES = 64 << 20, /* of all spools: nobody waits for more */
    NODES_MOST = 4096,     /* of a range in a list of Slurm's */
    NAME_SIZE = 256,
};

/* Whether this directory is of the job; of this node's own part of it, if `host` is not NULL. */
static bool is_of_job(const char *dir, const char *id, const char *host)
{
    struct job_info info;
    bool is =
        job_info_read(dir, &info, NULL) == 0 && strcmp(info.id, id) == 0 && (!host || strcmp(info.host, host) == 0);
    job_info_done(&info);
    return is;
}

/* The job's own directory, not that of a part at the same path. */
static bool is_seen_here(const struct job *job)
{
    const char *part = getenv("SCRY_PART"); /* begins with the job's host */
    _cleanup_(freep) char *host = part ? strndup(part, strcspn(part, "\t")) : NULL;
    return is_of_job(job->options->home, job->id, host);
}

/* Another part of the job has this directory, or is about to describe it. */
static bool is_of_part(const char *dir, const struct job *job)
{
    char file[PATH_MAX + 16];
    uint64_t start = wait_now_ns();
    snprintf(file, sizeof file, "%s/job.json", dir);
    while (access(file, F_OK) < 0)
        if (!wait_slice(WAIT_STEP, start, NULL))
            return false;
    return is_of_job(dir, job->id, job->host);
}

static int make_part_in(struct job *job, const char *dir, struct err *err)
{
    char path[PATH_MAX];
    int code = job_part_make(dir, job->host, path, sizeof path, err);
    return code < 0 ? code : jobdir_make(job->id, path, job->dir, sizeof job->dir, err);
}

int part_directory(struct job *job, struct err *err)
{
    const char *home = job->options->home;
    char own[PATH_MAX];
    struct err ignored = {0};
    if (!job->options->part_of) {
        jobdir_new_id(job->id, job->host);
        return jobdir_make(job->id, job->options->dir, job->dir, sizeof job->dir, err);
    }
    snprintf(job->id, sizeof job->id, "%s", job->options->part_of);
    if (is_seen_here(job))
        return make_part_in(job, home, err);
    bool free = access(home, F_OK) < 0 && errno == ENOENT && strcmp(text_base(home), job->id) == 0;
    if (free && jobdir_make(job->id, home, job->dir, sizeof job->dir, &ignored) == 0)
        return 0;
    int code = dirs_jobs(own, sizeof own, err);
    if (code == 0)
        code = jobdir_make(job->id, NULL, job->dir, sizeof job->dir, err);
    size_t len = strlen(own);
    if (code != -EEXIST || (size_t)snprintf(own + len, sizeof own - len, "/%s", job->id) >= sizeof own - len ||
        !is_of_part(own, job))
        return code;
    *err = (struct err){0};
    return make_part_in(job, own, err); /* beside that of another launcher */
}

/* Has the monitor of this node go to the job's. */
static void join_home(struct job *job)
{
    static char name[] = "scry-link", join[] = "join", *const argv[] = {name, join, NULL};
    char path[PATH_MAX];
    struct err err = {0};
    struct spawn spawn = {.path = path,
                          .argv = argv,
                          .in = SPAWN_NULL,
                          .out = SPAWN_NULL,
                          .error = SPAWN_NULL,
                          .group = SPAWN_OWN_SESSION};
    pid_t pid;
    int status = -1;
    const char *part = getenv("SCRY_PART");
    size_t len = part ? strcspn(part, "\t") : 0;
    if (len == strlen(job->host) && strncmp(part, job->host, len) == 0)
        return; /* it is on the same node */
    if (!getenv("SCRY_JOIN") || dirs_libexec(name, path, sizeof path, &err) < 0 || spawn_program(&spawn, &pid) < 0)
        return;
    status = child_reap(pid);
    /* what lies in the job's own directory is waited for by nobody */
    job->joined = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !is_seen_here(job);
}

/* scry-parts, which awaits monitors and says on *ret_out how they come, if that is not NULL. */
static bool start_parts(struct job *job, int *ret_out)
{
    static char name[] = "scry-parts", await[] = "await";
    char path[PATH_MAX], text[PATH_MAX + JOB_ID_SIZE + 8], *argv[] = {name, ret_out ? await : NULL, NULL};
    int ends[3];
    struct err err = {0};
    job->parts_failed = true;
    struct spawn spawn = {.path = path,
                          .argv = argv,
                          .in = SPAWN_PIPE,
                          .out = ret_out ? SPAWN_PIPE : SPAWN_NULL,
                          .error = SPAWN_NULL,
                          .group = SPAWN_OWN_SESSION};
    int len = snprintf(text, sizeof text, "%s\n%s\n", job->dir, job->id);
    if (dirs_libexec(name, path, sizeof path, &err) < 0 || spawn_piped(&spawn, &job->parts_pid, ends) < 0)
        return false;
    if (write(ends[STDIN_FILENO], text, (size_t)len) != len) {
        close(ends[STDIN_FILENO]);
        closep(&ends[STDOUT_FILENO]);
        return false;
    }
    job->parts_fd = ends[STDIN_FILENO];
    job->parts_failed = false;
    if (ret_out)
        *ret_out = ends[STDOUT_FILENO];
    return true;
}

/* The value of SCRY_JOIN; NULL: nobody awaits monitors. */
static char *await_parts(struct job *job)
{
    char line[512] = "";
    size_t len = 0;
    _cleanup_(closep) int fd = -1;
    uint64_t start = wait_now_ns();
    if (!start_parts(job, &fd))
        return NULL;
    while (fd >= 0 && len + 1 < sizeof line && !strchr(line, '\n')) {
        struct pollfd input = {.fd = fd, .events = POLLIN};
        if (!wait_slice(WAIT_PARTS, start, &input))
            return NULL;
        ssize_t got = input.revents ? read(fd, line + len, sizeof line - 1 - len) : -1;
        if (got == 0)
            return NULL;
        len += got > 0 ? (size_t)got : 0;
        line[len] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    return strdup(line);
}

void part_prepare(struct job *job)
{
    const struct run_options *options = job->options;
    const char *part = getenv("SCRY_PART");
    if (!job->dir[0])
        return;
    if (options->part_of && part) { /* as it was handed to this part */
        job->preload.propagation = (struct propagation){.part = strdup(part), .is_part = true};
        join_home(job);
    } else if (!options->part_of) {
        propagation_find(&job->preload.propagation, job->id, job->dir, job->host, options->for_parts);
        if (job->preload.propagation.part && propagation_is_by_batch(options->command))
            job->preload.propagation.join = await_parts(job);
    }
}

void part_changed(const struct job *job, const char *key, const char *value)
{
    char path[PATH_MAX + 32];
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    if (!job->dir[0] || job->options->part_of || !run_option_is_for_parts(key) || strpbrk(value, "\t\n"))
        return;
    snprintf(path, sizeof path, "%s/parts", job->dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return;
    snprintf(path, sizeof path, "%s/parts/" PARTS_OPTIONS, job->dir);
    buf_printf(&line, "--%s=%s\n", key, value);
    _cleanup_(closep) int fd = line.failed ? -1 : file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND);
    if (fd >= 0)
        (void)!write(fd, line.data, line.len); /* without it such a part has the options of the start */
}

static int look_for_running(void *ctx, const char *dir)
{
    struct job *job = ctx;
    struct job_info info;
    enum job_state state = JOB_LOST;
    char path[PATH_MAX];
    if (dir == job->dir)
        return 0;
    job->has_parts = true;
    /* scry-parts was waited for already */
    if ((size_t)snprintf(path, sizeof path, "%s/remote.json", dir) < sizeof path && access(path, F_OK) == 0)
        return 0;
    job_info_read_state(dir, &info, &state, NULL);
    job_info_done(&info);
    return state == JOB_RUNNING;
}

void part_tick(struct job *job)
{
    char path[PATH_MAX + 32];
    if (job->parts_fd >= 0 || job->parts_failed || !job->dir[0] || job->options->part_of)
        return;
    snprintf(path, sizeof path, "%s/parts/" PARTS_HOSTS, job->dir);
    if (access(path, F_OK) == 0)
        start_parts(job, NULL);
}

/* Adds what changes when something of a part has come, or its node has answered. */
static int add_brought(void *ctx, const char *dir)
{
    static const char *const names[] = {"job.json", "remote.json", "profile.json", "spool/records.jsonl"};
    char path[PATH_MAX];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, names[i]) < sizeof path && stat(path, &st) == 0)
            *(uint64_t *)ctx += (uint64_t)st.st_size + (uint64_t)st.st_mtim.tv_sec + (uint64_t)st.st_mtim.tv_nsec;
    return 0;
}

/* For scry-parts, while it brings something; the rest it brings alone. */
static void wait_for_rest(struct job *job)
{
    enum { TIMES_MOST = 10 };
    const uint64_t begun = wait_now_ns(), most_ns = TIMES_MOST * wait_policies[WAIT_PARTS].limit_ms * WAITS_NS_PER_MS;
    uint64_t start = begun, before = 0;
    part_tick(job);
    if (job->parts_fd < 0)
        return;
    close(job->parts_fd);
    job->parts_fd = -1;
    job->parts_failed = true; /* not again */
    while (waitpid(job->parts_pid, NULL, WNOHANG) == 0) {
        uint64_t brought = 0;
        job_dirs_each(job->dir, add_brought, &brought);
        if (brought != before && wait_now_ns() - begun < most_ns)
            start = wait_now_ns();
        before = brought;
        if (!wait_slice(WAIT_PARTS, start, NULL))
            return;
    }
}

void part_wait(struct job *job)
{
    wait_for_rest(job);
    uint64_t start = wait_now_ns();
    while (*job->dir && job_dirs_each(job->dir, look_for_running, job) > 0 && wait_slice(WAIT_PARTS, start, NULL))
        ;
}

void part_wait_brought(struct job *job)
{
    uint64_t start = wait_now_ns();
    char path[PATH_MAX + sizeof PART_BROUGHT + 1];
    snprintf(path, sizeof path, "%s/" PART_BROUGHT, job->dir);
    while (job->joined && access(path, F_OK) < 0 && wait_slice(WAIT_PARTS, start, NULL))
        ;
}

/* ---- nodes of the job that nothing comes from, as launchers name them ---- */

/* In an allocation that the job has asked for itself, Open MPI does not use what it was told to use in place of ssh. Which
 * nodes these are stands only in the environment of its srun. */
void part_look_at(struct job *job, const json_t *process)
{
    static const char *const names[] = {"SLURM_JOB_NODELIST=", "SLURM_NODELIST="};
    const json_t *argv = json_object_get(process, "argv"), *argument;
    const char *name = json_string_value(json_object_get(process, "name"));
    char path[64];
    bool daemons = false;
    size_t index, size;
    _cleanup_(freep) char *environment = NULL;
    if (!name || strcmp(name, "srun") != 0 || job->by_srun)
        return;
    json_array_foreach(argv, index, argument)
    {
        const char *word = json_string_value(argument);
        daemons |= word && strcmp(text_base(word), "orted") == 0;
    }
    snprintf(path, sizeof path, "/proc/%d/environ", (int)json_integer_value(json_object_get(process, "pid")));
    if (!daemons || file_read(path, &environment, &size) < 0)
        return;
    for (const char *at = environment; at < environment + size && !job->by_srun; at += strlen(at) + 1)
        for (size_t i = 0; i < sizeof names / sizeof *names && !job->by_srun; i++)
            if (strncmp(at, names[i], strlen(names[i])) == 0)
                job->by_srun = strdup(at + strlen(names[i]));
}

static void note_unwatched_node(struct job *job, const char *node)
{
    if (*node && strcmp(node, job->host) != 0 && !job_has_part_of(job->dir, node))
        recorder_note(&job->recorder, NOTE(node_unwatched, .node = node,
                                           .reason = "Open MPI has started its daemon there by srun: mpirun scry exec "
                                                     "PROGRAM makes a part of the job"));
}

/* "2-4" or "07", between these. */
static void note_unwatched_range(struct job *job, const char *prefix, int prefix_len, const char *range,
                                 const char *suffix, int suffix_len)
{
    char node[NAME_SIZE], *end;
    int width = (int)strspn(range, "0123456789");
    unsigned long from = strtoul(range, &end, 10), to = *end == '-' ? strtoul(end + 1, NULL, 10) : from;
    for (unsigned long i = from; i <= to && i - from < NODES_MOST; i++)
        if ((size_t)snprintf(node, sizeof node, "%.*s%0*lu%.*s", prefix_len, prefix, width, i, suffix_len, suffix) <
            sizeof node)
            note_unwatched_node(job, node);
}

/* Slurm's lists: "n[2-4,07],login". */
static void note_unwatched_list(struct job *job, const char *list)
{
    while (*list) {
        int prefix_len = (int)strcspn(list, ",[");
        const char *open = list + prefix_len, *close = *open == '[' ? strchr(open, ']') : NULL;
        const char *suffix = close ? close + 1 : open;
        int suffix_len = (int)strcspn(suffix, ",");
        char node[NAME_SIZE];
        for (const char *range = open; close && range < close; range = strpbrk(range + 1, ",]"))
            note_unwatched_range(job, list, prefix_len, range + 1, suffix, suffix_len);
        if (!close && (size_t)snprintf(node, sizeof node, "%.*s", prefix_len, list) < sizeof node)
            note_unwatched_node(job, node);
        list = suffix + suffix_len;
        list += *list == ',';
    }
}

void part_note_unwatched(struct job *job)
{
    if (job->by_srun)
        note_unwatched_list(job, job->by_srun);
    free(job->by_srun);
    job->by_srun = NULL;
    char path[PATH_MAX + 32];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof path, "%s/parts/" PARTS_UNWATCHED, job->dir);
    if (!job->dir[0] || job->options->part_of || file_read(path, &text, NULL) < 0)
        return;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *why = strchr(line, '\t');
        if (!why)
            continue;
        *why++ = '\0';
        recorder_note(&job->recorder, NOTE(node_unwatched, .node = line, .reason = why));
    }
}

static int count_brought(void *ctx, const char *dir)
{
    json_t *remote = mirror_read_remote(dir);
    *(uint64_t *)ctx += remote != NULL;
    json_decref(remote);
    return 0;
}

void part_note_logs(struct job *job)
{
    const struct run_options *options = job->options;
    const char *log = NULL;
    uint64_t nodes = 0;
    for (size_t i = 0; i < options->log_count && !log; i++)
        log = strncmp(options->logs[i], "stdout", 6) == 0 || strncmp(options->logs[i], "stderr", 6) == 0
                  ? NULL
                  : options->logs[i];
    if (!log || !job->dir[0] || options->part_of || job_dirs_each(job->dir, count_brought, &nodes) < 0 || !nodes)
        return;
    char file[256];
    snprintf(file, sizeof file, "%.*s", (int)strcspn(log, "="), log);
    recorder_note(&job->recorder, NOTE(log_elsewhere, .nodes = nodes, .log = file));
}

/* ---- the summary ---- */

static int add_size(void *ctx, const char *dir)
{
    char path[PATH_MAX];
    struct stat st;
    if ((size_t)snprintf(path, sizeof path, "%s/spool/records.jsonl", dir) < sizeof path && stat(path, &st) == 0)
        *(uint64_t *)ctx += (uint64_t)st.st_size;
    return 0;
}

void part_load(struct job_report *report)
{
    uint64_t bytes = 0;
    job_dirs_each(report->path, add_size, &bytes);
    if (bytes <= READ_BYTES)
        job_report_load_parts(report);
}

void part_put_who(struct buf *out, const struct job *job)
{
    buf_puts(out, "scry: ");
    if (!job->options->part_of)
        return;
    text_show(out, job->host);
    buf_puts(out, ": ");
}
