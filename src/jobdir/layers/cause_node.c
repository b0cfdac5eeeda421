/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons of the node: memory, limits, disks. */
#include "jobdir/layers/cause_internal.h"

#include <signal.h>
#include <string.h>

#include "jobdir/text/text.h"

static const double FULL_SHARE = 0.001; /* of a disk, that is left */

/* What it had, as far as is known: the kernel knows the peak of the largest process, which samples may have missed. */
static uint64_t peak_of(const struct job_model *model, const struct job_process *process, uint64_t largest_rss)
{
    for (size_t i = 0; i < model->ended_count; i++)
        if (model->ended[i].peak_rss > process->peak_rss)
            return process->peak_rss;
    return largest_rss > process->peak_rss ? largest_rss : process->peak_rss;
}

static void put_group_limit(struct buf *out, const struct job_model *model)
{
    int64_t limit =
        json_integer_value(json_object_get(json_object_get(model->layers.health, "cgroup"), "memory_limit_bytes"));
    if (limit <= 0)
        return;
    buf_puts(out, ": the job's control group may have ");
    text_size(out, (uint64_t)limit);
}

/* "3 processes, of leak", if as many of the job were killed, and had one name. */
static void put_killed_number(struct buf *out, const struct job_model *model, uint64_t processes, bool own)
{
    const char *name = NULL;
    uint64_t count = 0;
    bool same = true;
    buf_printf(out, "%llu process%s", (unsigned long long)processes, processes == 1 ? "" : "es");
    for (size_t i = 0; own && i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (job_status_signal(process->status) != SIGKILL)
            continue;
        same &= !name || strcmp(name, process->name) == 0;
        name = process->name;
        count++;
    }
    if (name && same && count == processes) {
        buf_puts(out, ", of ");
        cause_cut(out, name);
    }
    if (own)
        put_group_limit(out, model);
}

/* A pointer is NULL where nobody looks whether there was memory: so near to its limit that may be why. What it asked for last may have been
 * more than all before. */
void cause_put_address_limit(struct buf *out, const struct job_model *model, pid_t pid, bool null, uint64_t largest_rss)
{
    enum { NEARLY_PERCENT = 85 };
    bool data;
    uint64_t limit = cause_memory_limit(model, &data), peak = 0;
    for (size_t i = 0; i < model->ended_count; i++)
        if (model->ended[i].pid == pid)
            peak = peak_of(model, &model->ended[i], largest_rss);
    bool nearly = peak >= limit / 100 * NEARLY_PERCENT;
    if (!limit || !(nearly || null))
        return;
    buf_puts(out, nearly ? ", with " : "; perhaps it had asked for more memory than the ");
    if (nearly) {
        text_size(out, peak < limit ? peak : limit);
        buf_puts(out, " of the ");
    }
    text_size(out, limit);
    buf_puts(out, data ? " that its data may have (ulimit -d)" : " that its address space may have (ulimit -v)");
}

void cause_put_killed(struct buf *out, const struct job_model *model, const struct job_process *killed,
                      uint64_t largest_rss, uint64_t processes, bool own)
{
    int64_t limit =
        json_integer_value(json_object_get(json_object_get(model->layers.health, "cgroup"), "memory_limit_bytes"));
    if (processes != 1 || !killed) {
        put_killed_number(out, model, processes, own);
        return;
    }
    cause_cut(out, killed->name);
    buf_printf(out, " (pid %d)", (int)killed->pid);
    uint64_t peak = peak_of(model, killed, largest_rss);
    if (peak && (limit <= 0 || peak > (uint64_t)limit / 2)) { /* it may have grown after the last sample */
        buf_puts(out, ", which had ");
        text_size(out, peak);
    }
    put_group_limit(out, model);
}

/* The process that failed first, if it was killed. */
static const struct job_process *killed_first(const struct job_end *end)
{
    return cause_signal(end) == SIGKILL ? job_model_ended(end->model, cause_chain_pid(end, 0)) : NULL;
}

/* Whether a process of the job died by SIGKILL, or one that is not known, and it did not go on after that. */
static bool has_lost_one(const struct job_end *end)
{
    const struct job_rank *rank = end->rank;
    bool known = false;
    if (cause_signal(end) == SIGKILL || (rank && job_status_signal(rank->status) == SIGKILL))
        return true;
    for (size_t i = 0; i < end->model->ended_count; i++) {
        const struct job_process *process = &end->model->ended[i];
        if (job_status_signal(process->status) != SIGKILL)
            continue;
        if (!cause_was_tolerated(end, process->end))
            return true;
        known = true;
    }
    return !known;
}

/* Whether the node was short of memory, or one process of the job alone had much of it, or nothing is known of it. */
static bool was_node_short(const struct job_end *end)
{
    static const double LITTLE = 0.1, MUCH = 0.25; /* of all */
    const json_t *memory = json_object_get(end->model->layers.health, "memory");
    const json_t *least = json_object_get(memory, "available_least_bytes");
    double total = (double)json_integer_value(json_object_get(memory, "total_bytes"));
    double left = (double)json_integer_value(least ? least : json_object_get(memory, "available_bytes"));
    const json_t *low = cause_named(end, "memory_low"), *filling = cause_named(end, "memory_filling");
    return total <= 0 || left < LITTLE * total || (double)end->largest_rss > MUCH * total ||
           (low && cause_is_near(end, record_seconds(low))) || (filling && cause_is_near(end, record_seconds(filling)));
}

bool cause_find_memory(const struct job_end *end, struct cause *cause, bool sure)
{
    const json_t *warning = cause_warning(end, NOTE_out_of_memory);
    uint64_t kills = end->model->layers.oom_kills;
    bool own = kills || json_is_true(cause_warning_field(warning, "own_group"));
    if ((!warning && !kills) || (sure && (!own || cause_signal(end) != SIGKILL)) || !has_lost_one(end) ||
        (!own && !was_node_short(end)))
        return false;
    json_int_t counted = json_integer_value(cause_warning_field(warning, "processes"));
    cause_add(cause, warning ? warning : end->model->layers.health);
    uint64_t processes = warning && counted > 0 ? (uint64_t)counted : kills ? kills : 1;
    cause_put_killed(&cause->what, end->model, own ? killed_first(end) : NULL, end->largest_rss, processes, own);
    cause->note = NOTE(cause_memory, .processes = processes, .what = cause_text(&cause->what), .sure = sure);
    return true;
}

/* Killed, when memory was short. */
bool cause_find_memory_short(const struct job_end *end, struct cause *cause, bool sure)
{
    static const char *const names[] = {"group_memory_low", "group_memory_filling", "memory_low", "memory_filling",
                                        "memory_pressure"};
    const json_t *found = NULL;
    if (sure || cause_signal(end) != SIGKILL)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
        found = cause_named(end, names[i]);
        if (found && !cause_is_near(end, record_seconds(found)))
            found = NULL;
    }
    if (!found)
        return false;
    cause_cut(&cause->what, member_string(found, "text"));
    cause_add(cause, found);
    cause->note = NOTE(cause_memory_short, .text = cause_text(&cause->what));
    return true;
}

/* A limit that is hard and soft at once kills without SIGXCPU before: was the process warned of it? */
static const json_t *used_up_its_time(const struct job_end *end)
{
    const json_t *warning = cause_named(end, "cpu_limit");
    const json_t *pid = json_object_get(json_array_get(end->chain, 0), "pid");
    bool own = warning && json_integer_value(cause_warning_field(warning, "pid")) == json_integer_value(pid);
    return own && cause_signal(end) == SIGKILL ? warning : NULL;
}

/* What is known of the command; of a process that it started, what such a signal is for. */
bool cause_find_limit(const struct job_end *end, struct cause *cause, bool sure)
{
    int signo = cause_signal(end);
    const char *name = cause_chain_name(end, 0);
    bool known = end->signal && end->reason && *end->reason && !json_array_size(end->crashes);
    const json_t *warned = sure ? NULL : used_up_its_time(end);
    if (sure ? !known : signo != SIGXFSZ && signo != SIGXCPU && !warned)
        return false;
    cause_cut(&cause->where, sure || !name ? "the command" : name);
    cause_cut(&cause->what, sure               ? end->reason
                            : signo == SIGXFSZ ? "a file grew beyond its limit (ulimit -f)"
                                               : "its limit of processor time (ulimit -t)");
    cause_add(cause, warned ? warned : end->model->end);
    cause->note = NOTE(cause_limit, .program = cause_text(&cause->where),
                       .signal = text_signal(sure ? end->signal : signo, cause->signal, sizeof cause->signal),
                       .reason = cause_text(&cause->what), .sure = sure);
    return true;
}

static bool is_little(int64_t bytes, const struct layer_filesystem *system)
{
    return system->total_bytes > 0 && bytes >= 0 && (double)bytes <= FULL_SHARE * (double)system->total_bytes;
}

/* At the end, or shortly before. */
static bool is_full(const struct job_end *end, const struct layer_filesystem *system)
{
    return is_little(system->free_bytes, system) ||
           (is_little(system->least_free_bytes, system) && cause_is_near(end, system->least_at));
}

static bool has_no_inodes(const struct layer_filesystem *system)
{
    return system->inodes > 0 && system->free_inodes == 0;
}

/* Nothing that the job is known to use is there. */
static bool is_job_directory(const struct job_end *end, const struct layer_filesystem *system)
{
    const char *id = end->dir ? text_base(end->dir) : "";
    return *id && strcmp(id, text_base(system->path)) == 0;
}

/* A disk that was full near the end, by what was measured; one that became so rather than one that was it before. */
const struct layer_filesystem *cause_full_disk(const struct job_end *end)
{
    const struct layer_filesystem *found = NULL;
    for (const struct layer_filesystem *system = end->model->layers.filesystems; system; system = system->hh.next)
        if (!is_job_directory(end, system) && (is_full(end, system) || has_no_inodes(system)) &&
            (!found || found->was_full))
            found = system;
    return found;
}

void cause_say_full(struct cause *cause, const struct job_end *end, const struct layer_filesystem *system, bool sure)
{
    buf_puts(&cause->where, system->path);
    cause->note =
        NOTE(cause_disk_full, .path = cause_text(&cause->where), .inodes = !is_full(end, system), .sure = sure);
}

bool cause_find_full_disk(const struct job_end *end, struct cause *cause, bool sure)
{
    const struct layer_filesystem *system = cause_full_disk(end);
    if (sure || !system || system->was_full)
        return false;
    cause_add(cause, end->model->layers.health);
    cause_say_full(cause, end, system, false);
    return true;
}
