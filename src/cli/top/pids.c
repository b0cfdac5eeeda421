/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that scry did not start, for scry top: what /proc says of them, as records of a job that has no directory. */
#include "cli/top/top.h"

#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"
#include "cli/common/pids.h"
#include "jobdir/record/kinds.h"

static void apply(struct job_model *model, double seconds, enum record_type type, const void *row)
{
    json_t *record = record_json(type, row);
    json_object_set_new(record, "t", json_real(seconds));
    job_model_apply(model, record);
    json_decref(record);
}

static bool is_listed(const struct proc_stat *stats, size_t count, const struct job_process *process)
{
    size_t i = 0;
    while (i < count && (stats[i].pid != process->pid || (double)stats[i].start_ticks != process->start))
        i++;
    return i < count;
}

static void apply_ends(struct top_pids *pids, struct job_model *model, const struct proc_stat *stats, size_t count,
                       double seconds)
{
    struct job_process *process, *next;
    HASH_ITER(hh, model->alive, process, next)
    if (!is_listed(stats, count, process)) {
        pids->ended++;
        pids->ended_cpu_ns += process->cpu_ns;
        apply(model, seconds,
              RECORD(process_end, .end = seconds, .cpu_ns = process->cpu_ns, .status = JOB_STATUS_UNKNOWN,
                     .process = {process->pid, process->ppid, process->start, process->name}));
    }
}

static void apply_begins(struct top_pids *pids, struct job_model *model, const struct proc_stat *stats, size_t count,
                         double seconds)
{
    for (size_t i = 0; i < count; i++) {
        struct job_process *known;
        HASH_FIND_INT(model->alive, &stats[i].pid, known);
        if (known)
            continue;
        pids->started++;
        apply(model, seconds,
              RECORD(process, .pid = stats[i].pid, .ppid = stats[i].ppid, .start = (double)stats[i].start_ticks,
                     .name = stats[i].comm));
    }
}

/* The processor time before the first look is in the processes' rows, and not in that of all: it says how much they use now. */
static void apply_sample(struct top_pids *pids, struct job_model *model, const struct proc_stat *stats, size_t count,
                         double seconds)
{
    struct sample_record sample = {.tree = {.processes = count, .started = pids->started, .ended = pids->ended},
                                   .alive = json_array()};
    uint64_t cpu_ns = pids->ended_cpu_ns;
    for (size_t i = 0; i < count; i++) {
        uint64_t own_ns = stats[i].user_ns + stats[i].system_ns;
        char state[] = {stats[i].state, 0};
        json_array_append_new(sample.alive,
                              json_pack("[i,s,I,I,I,I]", (int)stats[i].pid, state, (json_int_t)stats[i].resident_bytes,
                                        (json_int_t)0, (json_int_t)own_ns, (json_int_t)stats[i].threads));
        sample.tree.threads += (uint64_t)stats[i].threads;
        sample.tree.rss += stats[i].resident_bytes;
        cpu_ns += own_ns;
    }
    if (!pids->looked)
        pids->before_ns = cpu_ns;
    pids->looked = true;
    sample.tree.cpu_ns = cpu_ns > pids->before_ns ? cpu_ns - pids->before_ns : 0;
    apply(model, seconds, RECORD_sample, &sample);
    json_decref(sample.alive);
}

bool top_pids_look(struct top_pids *pids, struct job_model *model, double seconds)
{
    _cleanup_(freep) pid_t *list = NULL;
    size_t count, there = 0;
    pids_living(pids->options, &list, &count);
    _cleanup_(freep) struct proc_stat *stats = calloc(count + 1, sizeof *stats);
    for (size_t i = 0; stats && i < count; i++)
        there += proc_stat_of(list[i], 0, &stats[there]) == 0;
    if (!stats || !there)
        return false;
    apply_ends(pids, model, stats, there, seconds);
    apply_begins(pids, model, stats, there, seconds);
    apply_sample(pids, model, stats, there, seconds);
    return true;
}
