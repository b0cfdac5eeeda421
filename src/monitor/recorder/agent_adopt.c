/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a monitor before this one has left: the areas of processes that live, or have ended meanwhile; whose they are, in
 * a sidecar beside each; and the trace that it wrote of them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "jobdir/trace/trace.h"
#include "monitor/recorder/agent.h"
#include "monitor/recorder/collect.h"
#include "probe/proc.h"
#include "shm/record.h"

/* ---- sidecars ---- */

enum { SIDECAR_LIMIT = 4 * 4096 };

/* Lines: the job's directory, the program, numbers, the trace, a trace that was begun in its place. */
struct sidecar {
    char text[SIDECAR_LIMIT];
    char *job, *exe, *trace, *begun;
    uint64_t image;
    struct agent_rank rank;
};

static bool sidecar_read(const char *area_path, struct sidecar *ret_sidecar)
{
    char path[PATH_MAX + 8], *numbers, *at = ret_sidecar->text;
    struct agent_rank *rank = &ret_sidecar->rank;
    snprintf(path, sizeof path, "%s.job", area_path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t len = fd >= 0 ? read(fd, at, SIDECAR_LIMIT - 1) : -1;
    if (fd >= 0)
        close(fd);
    at[len > 0 ? len : 0] = 0;
    char **lines[] = {&ret_sidecar->job, &ret_sidecar->exe, &numbers, &ret_sidecar->trace, &ret_sidecar->begun};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *end = strchr(at, '\n');
        if (!end)
            return false;
        *end = 0;
        *lines[i] = at;
        at = end + 1;
    }
    return sscanf(numbers, "%" SCNu64 " %" SCNu32 " %" SCNd32 " %" SCNd32 " %" SCNd32, &ret_sidecar->image,
                  &rank->library, &rank->incarnation, &rank->hint, &rank->hint_size) == 5;
}

static void sidecar_write(const char *area_path, const struct buf *text)
{
    char path[PATH_MAX + 8], fresh[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s.job", area_path);
    snprintf(fresh, sizeof fresh, "%s.job.new", area_path);
    int fd = file_open_own(AT_FDCWD, fresh, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0)
        return;
    pause_at("sidecar.before-write");
    /* a monitor that is killed here leaves the old one whole: without any, the next can do nothing with the area. Where
     * there is no room for a new one, the old one, which names another trace, is worse than none. */
    if (text->failed || write(fd, text->data, text->len) != (ssize_t)text->len || rename(fresh, path) < 0) {
        unlink(path);
        unlink(fresh);
    }
    close(fd);
}

/* begun: "", or a trace that takes the place of the other one as soon as all is in it. */
static void sidecars_write(const struct agent *agent, const char *trace, const char *begun)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const struct agent_rank *rank = &agent->rank;
    const struct trace_job *job = agent->job && !agent->job->replaced ? agent->job : NULL;
    buf_printf(&text, "%s\n%s\n%" PRIu64 " %" PRIu32 " %" PRId32 " %" PRId32 " %" PRId32 "\n%s\n%s\n",
               job ? job->dir : "", agent->exe, agent->image, rank->library, rank->incarnation, rank->hint,
               rank->hint_size, job ? trace : "", job ? begun : "");
    for (size_t i = 0; i < AREA_KINDS; i++)
        if (agent->files[i].path && file_is_at(agent->files[i].path, agent->files[i].fd)) /* else nobody finds it */
            sidecar_write(agent->files[i].path, &text);
}

void agent_note(const struct agent *agent)
{
    sidecars_write(agent, agent_trace_path(agent), "");
}

/* ---- the trace ---- */

/*
 * The trace that another monitor wrote of an area which is adopted now. It was killed, perhaps in the middle of a
 * packet: what of one is not there as a whole is cut off, for it is still in the area, and comes into the next trace.
 * Records of a thread are in the order of time, so the last time on disk says which ones are not to be written again.
 */

struct trace_sums {
    uint64_t bytes, discarded;
};

/* Hops from packet to packet. */
static void read_stream(struct agent *agent, int fd, struct trace_sums *sums)
{
    struct stat st;
    struct packet_head head;
    uint64_t at = 0, told = 0, number = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    uint64_t size = (uint64_t)st.st_size;
    while (size - at >= sizeof head && pread(fd, &head, sizeof head, (off_t)at) == (ssize_t)sizeof head) {
        uint64_t bytes = head.packet_size / 8;
        if (head.magic != PACKET_MAGIC || bytes < sizeof head || bytes > size - at)
            break;
        struct collect_thread *thread = collect_written(agent, head.thread_serial, head.tid, head.time_end);
        uint64_t more = head.events_discarded > told ? head.events_discarded - told : 0;
        told += more;
        if (head.packet_seq > number) /* where packets are missing it says how much was in those: overwritten */
            more = 0;
        number = head.packet_seq + 1;
        if (thread)
            thread->discarded += more;
        sums->discarded += more;
        at += bytes;
    }
    if (at < size && ftruncate(fd, (off_t)at) < 0)
        agent_set_problem(agent, NOTE(trace_uncut, .pid = (uint64_t)agent->pid, .reason = strerror(errno)));
    sums->bytes += at;
}

static void read_streams(struct agent *agent, const char *trace, struct trace_sums *sums)
{
    DIR *dir = opendir(trace);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "stream-", strlen("stream-")) != 0)
            continue;
        int fd = file_open_own(dirfd(dir), entry->d_name, O_RDWR);
        if (fd < 0)
            continue;
        read_stream(agent, fd, sums);
        close(fd);
    }
    closedir(dir);
}

/* Its .process: what is known now. Counts that the area goes on with are told in the next trace, for the whole. */
static void line_put(struct buf *out, const struct agent *agent, const char *line, const struct trace_sums *sums)
{
    static const char *const goes_on[] = {
        "overwritten",   "flight_overwritten", "functions_omitted", "threads_omitted", "waits_ran_out",
        "waits_dropped", "too_deep",           "counted",           "thinned",         "tallied"};
    const struct area *area = agent->view.area;
    size_t key = strcspn(line, "\t");
    if (strcmp(line, "state\trunning") == 0) {
        buf_puts(out, "state\tcontinued\n");
        trace_put_problem(out, &NOTE(trace_continued));
        return;
    }
    if (strncmp(line, "events\t", 7) == 0) {
        /* the packet that was being written is there, or it is not */
        bool last = area->writing_bytes > area->written_bytes && sums->bytes >= area->writing_bytes;
        buf_printf(out, "events\t%" PRIu64 "\n", last ? area->writing_events : area->written_events);
        return;
    }
    if (strncmp(line, "discarded\t", 10) == 0) {
        buf_printf(out, "discarded\t%" PRIu64 "\n", sums->discarded);
        return;
    }
    if (strncmp(line, "bytes\t", 6) == 0) {
        buf_printf(out, "bytes\t%" PRIu64 "\n", sums->bytes);
        return;
    }
    for (size_t i = 0; i < sizeof goes_on / sizeof *goes_on; i++)
        if (strlen(goes_on[i]) == key && strncmp(line, goes_on[i], key) == 0) {
            buf_printf(out, "%s\t0\n", goes_on[i]);
            return;
        }
    buf_printf(out, "%s\n", line);
}

static void adopt_layouts(struct agent *agent, const char *path)
{
    struct err err = {0};
    struct trace *trace = NULL;
    if (*path && trace_open(&trace, path, NULL, NULL, &err) < 0)
        log_warning("the trace of pid %d before this: %s", agent->pid, err.text);
    agent_layouts_adopt(agent, trace);
    trace_close(trace);
}

static void trace_adopt(struct agent *agent, const char *trace)
{
    char path[PATH_MAX], *text;
    size_t len;
    struct trace_sums sums = {0};
    agent->recording->skipped = agent->view.area->skipped_events;
    agent->recording->overwritten_seen = atomic_load(&agent->view.area->flight_overwritten);
    agent->recording->overwritten_events_seen = atomic_load(&agent->view.area->flight_overwritten_records);
    adopt_layouts(agent, trace);
    if (!*trace || snprintf(path, sizeof path, "%s/.process", trace) >= (int)sizeof path ||
        file_read(path, &text, &len) < 0)
        return;
    read_streams(agent, trace, &sums);
    if (strstr(text, "\nstate\tcontinued\n")) { /* told already, by a monitor that was killed before it went on */
        free(text);
        return;
    }
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        line_put(&out, agent, line, &sums);
    }
    bool counted = strncmp(text, "events\t", 7) == 0 || (out.data && strstr(out.data, "\nevents\t"));
    if (!counted) { /* killed before it came to that */
        line_put(&out, agent, "events\t", &sums);
        line_put(&out, agent, "discarded\t", &sums);
        line_put(&out, agent, "bytes\t", &sums);
        buf_puts(&out, "overwritten\t0\nwaits_ran_out\t0\nwaits_dropped\t0\n");
    }
    free(text);
    if (!out.failed && out.data)
        file_replace(path, out.data, out.len, 0600);
}

static void trace_begun_remove(const char *trace)
{
    DIR *dir = opendir(trace);
    bool used = false;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        used |= strncmp(entry->d_name, "stream-", strlen("stream-")) == 0;
    if (dir && !used) {
        rewinddir(dir);
        for (struct dirent *entry; (entry = readdir(dir));)
            unlinkat(dirfd(dir), entry->d_name, 0);
        rmdir(trace);
    }
    if (dir)
        closedir(dir);
}

/* ---- areas ---- */

static int file_open_adopted(struct agents *agents, struct area_file *file, const char *path, uint64_t *ret_size)
{
    struct stat st;
    file->path = strdup(path);
    file->fd = file_open_own(AT_FDCWD, path, O_RDWR);
    if (!file->path || file->fd < 0)
        return file->fd < 0 ? file->fd : -ENOMEM;
    if (fstat(file->fd, &st) < 0 || st.st_uid != geteuid())
        return -EBADMSG;
    file->memory_taken = (uint64_t)st.st_blocks * 512;
    agents->memory_taken += file->memory_taken;
    *ret_size = (uint64_t)st.st_size;
    return 0;
}

/* The file may have been replaced meanwhile. */
static bool program_runs(const struct agent *agent)
{
    static const char deleted[] = " (deleted)";
    char exe[PATH_MAX];
    size_t len = strlen(agent->exe);
    if (proc_exe(agent->pid, exe, sizeof exe) < 0)
        return true;
    return strncmp(exe, agent->exe, len) == 0 && (!exe[len] || strcmp(exe + len, deleted) == 0);
}

static bool has_ended(const struct agent *agent)
{
    struct proc_stat now;
    return agent->pid <= 0 || proc_stat_read(agent->pid, 0, &now) < 0 || now.start_ticks != agent->start_ticks ||
           now.state == 'Z';
}

static struct agent *find_adopted(struct agents *agents, pid_t pid, uint64_t ticks, uint64_t image)
{
    struct agent *agent = agents->list;
    while (agent && (agent->pid != pid || agent->start_ticks != ticks || agent->image != image))
        agent = agent->next;
    return agent;
}

static struct agent *new_adopted(struct agents *agents, pid_t pid, uint64_t ticks, const struct sidecar *sidecar)
{
    struct err err;
    struct agent *agent = agent_new(agents, pid, sidecar->job, sidecar->exe, &err);
    if (!agent)
        return NULL;
    agent->start_ticks = ticks;
    agent->image = sidecar->image;
    agent->rank = sidecar->rank;
    return agent;
}

/* The trace before is still the one to go on from; a new one, should we be killed over it, is none. */
static void adopt_functions(struct agent *agent, const struct sidecar *sidecar)
{
    struct err err = {0};
    if (*sidecar->begun)
        trace_begun_remove(sidecar->begun);
    trace_adopt(agent, sidecar->trace);
    if (agent->job && collect_open(agent, &err) < 0)
        agent_set_problem(agent, NOTE(nothing_recorded, .reason = err.text));
    if (agent->writer)
        sidecars_write(agent, sidecar->trace, trace_writer_path(agent->writer));
    if (agent->view.area->bell != agent->agents->bell->id)
        agent_set_problem(agent,
                          NOTE(requests_not_run, .pid = (uint64_t)agent->pid, .directory = agent->agents->runtime));
    pause_at("adopt.begun");
    agent_layouts_write(agent);
    if (agent->writer)
        trace_writer_sync(agent->writer, true); /* before the other one is forgotten */
    pause_at("adopt.written");
    agent_note(agent);
}

struct adoption {
    struct agents *agents;
    enum area_kind kind;
};

static void area_adopt(void *ctx, const char *folder, const char *name)
{
    struct adoption *adoption = ctx;
    struct agents *agents = adoption->agents;
    const char *numbers = area_numbers(name);
    bool mpi = numbers != name;
    char path[PATH_MAX];
    static struct sidecar sidecar; /* of this one thread */
    int pid, end = 0, code = -EBADMSG;
    uint64_t ticks, serial, size = 0;
    if (mpi != (adoption->kind == AREA_MPI) ||
        sscanf(numbers, "%d-%" SCNu64 "-%" SCNu64 "%n", &pid, &ticks, &serial, &end) != 3 || numbers[end])
        return;
    if (serial > agents->last_serial)
        agents->last_serial = serial;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    bool whole = sidecar_read(path, &sidecar);
    struct agent *agent = whole && mpi ? find_adopted(agents, pid, ticks, sidecar.image) : NULL;
    if (whole && !agent)
        agent = new_adopted(agents, pid, ticks, &sidecar);
    struct area_file *file = agent ? &agent->files[adoption->kind] : NULL;
    if (file && file->fd < 0) {
        file->serial = serial;
        file->in_memory = agent_rings_in_memory(agents, folder);
        code = file_open_adopted(agents, file, path, &size);
        if (code == 0)
            code = mpi ? agents->mpi->adopt(agent, size) : agent_area_adopt(agent, size);
        if (code < 0)
            area_file_leave(agents, file);
    }
    if (code < 0) {
        log_warning("the area %s of a former monitor cannot be read: removed", path);
        area_file_remove(path);
        if (agent && !agent->announced)
            agent_free(agent);
        return;
    }
    if (!agent->announced)
        agent->gone = agent->ended = has_ended(agent) || (mpi && !program_runs(agent));
    if (!mpi)
        adopt_functions(agent, &sidecar);
    if (!agent->announced)
        agent_enter(agent);
    if (mpi)
        agents->mpi->came(agent);
    else
        agent_came(agent, NULL);
}

void agents_adopt_all(struct agents *agents)
{
    /* functions first: of a program that executed another one, MPI may be there of the former alone */
    for (enum area_kind kind = 0; kind < AREA_KINDS; kind++)
        agent_rings_each(agents, area_adopt, &(struct adoption){agents, kind});
}
