/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that processes share with us, whatever is in them: the area of functions (agent_area.c) and the area of MPI
 * (monitor/mpi/mpi.c). Each is a file [mpi-]PID-STARTTICKS-SERIAL of the folder of areas (agent_rings.c). A sidecar
 * beside each says whose it is, for the next monitor.
 *
 * What a program may touch has memory before: writing to a mapped page for which a full tmpfs has none left is SIGBUS,
 * and that must never meet a program. Where a control group that the monitor is in, too, limits memory, areas count as
 * the job's. A job that stays below its limit alone must do so while it is traced: all areas together get a small part
 * of the limit, and they grow only while much of it is unused.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "monitor/recorder/agents_internal.h"
#include "probe/memory_room.h"
#include "probe/proc.h"
#include "shm/waits.h"

enum {
    BUFFERS_PART = 16,
    UNUSED_PART = 8,
    PROMISES_PART = 64, /* all that programs may have by themselves */
    PROMISED_PART = 8,  /* one of them, of what is left of that */
    SIDECAR_LIMIT = 4 * 4096,
};

static const char *const prefixes[] = {[AREA_FUNCTIONS] = "", [AREA_MPI] = AREA_MPI_PREFIX};

/* ---- memory ---- */

static void memory_look(struct agents *agents)
{
    uint64_t now = clock_now_ns();
    if (now - agents->memory_ns > (uint64_t)AGENT_FILES_LOOK_MS * 1000000 || !agents->memory_ns) {
        struct memory_room room;
        size_t len;
        memory_room_read(&room);
        free(agents->groups);
        agents->groups = NULL;
        file_read("/proc/self/cgroup", &agents->groups, &len);
        agents->memory_ns = now;
        agents->memory_limit = room.limit;
        agents->memory_left = room.left;
    }
}

static bool memory_take(struct agents *agents, uint64_t bytes)
{
    memory_look(agents);
    if (agents->memory_left != UINT64_MAX) {
        uint64_t limit = agents->memory_limit, kept = limit / UNUSED_PART;
        if (agents->memory_taken + bytes > limit / BUFFERS_PART || bytes > agents->memory_left ||
            agents->memory_left - bytes < kept)
            return false;
        agents->memory_left -= bytes;
    }
    agents->memory_taken += bytes;
    return true;
}

/* A page belongs to the control group of who first touches it. In ours, that is looked at (memory_look); in another one, all
 * processes together might get beyond its limit, if it has any. */
static bool may_touch_first(const struct agents *agents, pid_t pid)
{
    char path[40];
    _cleanup_(freep) char *groups = NULL;
    size_t len;
    struct memory_room room;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    if (!agents->groups || file_read(path, &groups, &len) < 0)
        return false;
    return strcmp(groups, agents->groups) == 0 ||
           (memory_room_of(groups, MEMORY_ROOM_ROOT, &room) && room.left == UINT64_MAX);
}

/* A small part of what is left: else a few processes would have all of it, and use little. */
static uint64_t promise_most(const struct agents *agents)
{
    uint64_t limit = agents->memory_limit, promised = agents->memory_promised;
    uint64_t all = limit / PROMISES_PART, kept = limit / UNUSED_PART + promised;
    if (agents->memory_left == UINT64_MAX)
        return UINT64_MAX;
    if (promised >= all || kept >= agents->memory_left)
        return 0;
    uint64_t part = (all - promised) / PROMISED_PART, left = agents->memory_left - kept;
    return part < left ? part : left;
}

uint64_t area_file_promise(const struct agent *agent, struct area_file *file, uint64_t bytes)
{
    struct agents *agents = agent->agents;
    memory_look(agents);
    uint64_t most = promise_most(agents);
    bytes = bytes < most ? bytes : most;
    bool there = file->in_memory ? memory_dir_has_room(&agents->memory, bytes)
                                 : !agents->spill && memory_dir_is_memory(agents->rings);
    if (!bytes || !there || !may_touch_first(agents, agent->pid))
        return 0;
    area_file_promised(agents, file, bytes);
    return bytes;
}

void area_file_promised(struct agents *agents, struct area_file *file, uint64_t bytes)
{
    file->memory_promised += bytes;
    agents->memory_promised += bytes;
}

void area_file_kept(struct agents *agents, struct area_file *file, uint64_t bytes)
{
    bytes = bytes < file->memory_promised ? bytes : file->memory_promised;
    file->memory_promised -= bytes;
    agents->memory_promised -= bytes;
}

static int have(struct area_file *file, uint64_t from, uint64_t size)
{
    int code = fallocate(file->fd, 0, (off_t)from, (off_t)size) < 0 ? -errno : 0;
    return code == -EOPNOTSUPP ? 0 : code; /* such a file system has no holes to fall into */
}

int area_file_reserve(struct agents *agents, struct area_file *file, uint64_t from, uint64_t size)
{
    uint64_t start = from & ~(uint64_t)(AREA_PAGE - 1);
    uint64_t bytes = from + size - start;
    if (!memory_take(agents, bytes))
        return -ENOMEM;
    bool room = !file->in_memory || memory_dir_has_room(&agents->memory, bytes);
    int code = room ? have(file, start, bytes) : -ENOSPC;
    if (code == 0)
        file->memory_taken += bytes;
    else
        agents->memory_taken -= bytes;
    return code;
}

void area_file_give_back(struct agents *agents, struct area_file *file)
{
    agents->memory_taken -= file->memory_taken;
    file->memory_taken = 0;
    area_file_kept(agents, file, UINT64_MAX);
}

/* ---- files ---- */

static int make_in(struct agent *agent, struct area_file *file, bool on_disk, area_fill_fn *fill, void *ctx)
{
    struct agents *agents = agent->agents;
    char name[80];
    snprintf(name, sizeof name, "%s%d-%" PRIu64 "-%" PRIu64, prefixes[file - agent->files], agent->pid,
             agent->start_ticks, file->serial);
    file->fd = agent_rings_make(agents, on_disk, name, &file->path);
    file->in_memory = agents->spill && !on_disk;
    return file->fd < 0 ? file->fd : fill(agent, ctx);
}

int area_file_make(struct agent *agent, enum area_kind kind, area_fill_fn *fill, void *ctx)
{
    struct agents *agents = agent->agents;
    struct area_file *file = &agent->files[kind];
    file->serial = ++agents->last_serial;
    int code = make_in(agent, file, false, fill, ctx);
    if (code < 0)
        area_file_end(agents, file);
    if (code == 0 || code == -ENOMEM || !agents->spill)
        return code;
    code = make_in(agent, file, true, fill, ctx);
    if (code < 0)
        area_file_end(agents, file);
    return code;
}

static int area_file_open(struct agents *agents, struct area_file *file, const char *path, uint64_t *ret_size)
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

static void remove_at(const char *path)
{
    static const char *const ends[] = {"", ".job", ".job.new"};
    char file[PATH_MAX + 16];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(file, sizeof file, "%s%s", path, ends[i]);
        unlink(file);
    }
}

void area_file_end(struct agents *agents, struct area_file *file)
{
    if (file->path && file_is_at(file->path, file->fd))
        remove_at(file->path);
    area_file_leave(agents, file);
}

void area_file_leave(struct agents *agents, struct area_file *file)
{
    area_file_give_back(agents, file);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    file->path = NULL;
    file->fd = -1;
}

/* ---- sidecars ---- */

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
static void note(const struct agent *agent, const char *trace, const char *begun)
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
    note(agent, agent_trace_path(agent), "");
}

/* ---- those of a monitor before this one ---- */

/* The file may have been replaced meanwhile. */
static bool runs(const struct agent *agent)
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
        collect_adopted_begun(sidecar->begun);
    collect_adopted(agent, sidecar->trace);
    if (agent->job && collect_open(agent, &err) < 0)
        agent_set_problem(agent, NOTE(nothing_recorded, .reason = err.text));
    if (agent->writer)
        note(agent, sidecar->trace, trace_writer_path(agent->writer));
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

static void adopt(void *ctx, const char *folder, const char *name)
{
    struct adoption *adoption = ctx;
    struct agents *agents = adoption->agents;
    bool mpi = strncmp(name, AREA_MPI_PREFIX, strlen(AREA_MPI_PREFIX)) == 0;
    const char *numbers = mpi ? name + strlen(AREA_MPI_PREFIX) : name;
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
        code = area_file_open(agents, file, path, &size);
        if (code == 0)
            code = mpi ? agents->mpi->adopt(agent, size) : agent_area_adopt(agent, size);
        if (code < 0)
            area_file_leave(agents, file);
    }
    if (code < 0) {
        log_warning("the area %s of a former monitor cannot be read: removed", path);
        remove_at(path);
        if (agent && !agent->announced)
            agent_free(agent);
        return;
    }
    if (!agent->announced)
        agent->gone = agent->ended = has_ended(agent) || (mpi && !runs(agent));
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
        agent_rings_each(agents, adopt, &(struct adoption){agents, kind});
}
