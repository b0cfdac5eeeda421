/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm: sbatch(1) and srun(1), "OUTPUT ENVIRONMENT VARIABLES". PBS: qsub(1B) of OpenPBS, and of TORQUE where it has more.
 * Grid Engine: qsub(1), "ENVIRONMENTAL VARIABLES". LSF: "Environment variables set for job execution". HTCondor: the users'
 * manual, "Services for Running Jobs", and its appendix of job attributes.
 */
#include "job/record/batch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/text/text.h"

enum { VALUE_SIZE = 256 };
static const uint64_t MEGA = UINT64_C(1) << 20;

/* Names of variables, NULL: the system does not say. Of two, the first that is there holds. */
struct batch_system {
    const char *name;
    const char *marker;          /* is there in no other system's jobs */
    const char *id, *part;       /* the job's number; `part`: behind a dot, of a cluster of jobs */
    const char *array, *task[2]; /* of an array of jobs */
    const char *step, *job_name, *partition, *nodes;
    const char *cpus[2];                    /* of this node */
    const char *memory[2], *memory_per_cpu; /* MB, of this node */
    const char *limit[2], *start, *finish;  /* seconds that it may run; or seconds since 1970 */
};

/* SCRY_BATCH_MEMORY: of the plugin, which can ask Slurm (batch/handed.h). */
static const struct batch_system systems[] = {
    {.name = "slurm",
     .marker = "SLURM_JOB_ID",
     .id = "SLURM_JOB_ID",
     .array = "SLURM_ARRAY_JOB_ID",
     .task = {"SLURM_ARRAY_TASK_ID"},
     .step = "SLURM_STEP_ID",
     .job_name = "SLURM_JOB_NAME",
     .partition = "SLURM_JOB_PARTITION",
     .nodes = "SLURM_JOB_NUM_NODES",
     .cpus = {"SLURM_CPUS_ON_NODE"},
     .memory = {"SCRY_BATCH_MEMORY", "SLURM_MEM_PER_NODE"},
     .memory_per_cpu = "SLURM_MEM_PER_CPU",
     .start = "SLURM_JOB_START_TIME",
     .finish = "SLURM_JOB_END_TIME"},
    {.name = "htcondor",
     .marker = "_CONDOR_JOB_AD",
     .id = "ClusterId",
     .part = "ProcId",
     .job_name = "JobBatchName",
     .cpus = {"CpusProvisioned", "RequestCpus"},
     .memory = {"RequestMemory"},
     .limit = {"AllowedExecuteDuration", "AllowedJobDuration"}},
    {.name = "pbs",
     .marker = "PBS_JOBID",
     .id = "PBS_JOBID",
     .task = {"PBS_ARRAY_INDEX", "PBS_ARRAYID"},
     .job_name = "PBS_JOBNAME",
     .partition = "PBS_QUEUE",
     .nodes = "PBS_NUM_NODES",
     .cpus = {"NCPUS", "PBS_NUM_PPN"},
     .limit = {"PBS_WALLTIME"}},
    {.name = "lsf",
     .marker = "LSB_JOBID",
     .id = "LSB_JOBID",
     .task = {"LSB_JOBINDEX"},
     .job_name = "LSB_JOBNAME",
     .partition = "LSB_QUEUE"},
    {.name = "sge",
     .marker = "SGE_TASK_ID",
     .id = "JOB_ID",
     .task = {"SGE_TASK_ID"},
     .job_name = "JOB_NAME",
     .partition = "QUEUE",
     .nodes = "NHOSTS"},
};

bool batch_ad_value(const char *ad, const char *name, char *ret_value, size_t size)
{
    size_t name_len = strlen(name);
    for (const char *line = ad; *line; line += *line == '\n') {
        size_t len = strcspn(line, "\n");
        const char *value = line + name_len, *end = line + len;
        bool found = len > name_len && strncasecmp(line, name, name_len) == 0;
        line = end;
        if (!found)
            continue;
        value += strspn(value, " \t");
        if (*value++ != '=')
            continue;
        value += strspn(value, " \t");
        while (end > value && strchr(" \t\r", end[-1]))
            end--;
        if (end - value >= 2 && *value == '"' && end[-1] == '"') {
            value++;
            end--;
        }
        if (end <= value || (size_t)(end - value) >= size)
            return false;
        memcpy(ret_value, value, (size_t)(end - value));
        ret_value[end - value] = '\0';
        return true;
    }
    return false;
}

/* Where the variables of a system are. */
struct source {
    batch_get *get;
    void *ctx;
    const char *ad; /* NULL: it is none with a file */
};

/* false also of values that say that there is none. */
static bool value_of(const struct source *source, const char *name, char ret_value[VALUE_SIZE])
{
    if (!name)
        return false;
    if (source->ad)
        return batch_ad_value(source->ad, name, ret_value, VALUE_SIZE);
    const char *value = source->get(source->ctx, name);
    int len = value && *value && strcmp(value, "undefined") != 0 ? snprintf(ret_value, VALUE_SIZE, "%s", value) : -1;
    return len > 0 && len < VALUE_SIZE;
}

static bool number_of(const struct source *source, const char *name, uint64_t *ret_number)
{
    char value[VALUE_SIZE], *end;
    if (!value_of(source, name, value) || value[0] < '0' || value[0] > '9')
        return false;
    errno = 0;
    uint64_t number = strtoull(value, &end, 10);
    if (errno || *end)
        return false;
    *ret_number = number;
    return true;
}

static bool number_of_two(const struct source *source, const char *const names[2], uint64_t *ret_number)
{
    return number_of(source, names[0], ret_number) || number_of(source, names[1], ret_number);
}

static json_t *text_of(const struct source *source, const char *name)
{
    char value[VALUE_SIZE];
    return value_of(source, name, value) ? text_json(value) : json_null();
}

static json_t *number_json(bool known, uint64_t number, uint64_t unit)
{
    return known && number <= INT64_MAX / unit ? json_integer((json_int_t)number * (json_int_t)unit) : json_null();
}

static json_t *id_json(const struct batch_system *system, const struct source *source)
{
    char id[VALUE_SIZE], part[VALUE_SIZE], whole[2 * VALUE_SIZE];
    if (!value_of(source, system->id, id))
        return json_null();
    bool parted = value_of(source, system->part, part);
    snprintf(whole, sizeof whole, "%s%s%s", id, parted ? "." : "", parted ? part : "");
    return text_json(whole);
}

/* 12_3: the third of the array 12. LSF's index of a job that is in no array is 0. */
static json_t *array_json(const struct batch_system *system, const struct source *source)
{
    char array[VALUE_SIZE], task[VALUE_SIZE], whole[2 * VALUE_SIZE];
    bool found = value_of(source, system->task[0], task) || value_of(source, system->task[1], task);
    if (!found || (!system->array && strcmp(task, "0") == 0 && strcmp(system->name, "lsf") == 0))
        return json_null();
    if (!value_of(source, system->array ? system->array : system->id, array))
        return json_null();
    array[strcspn(array, "[.")] = '\0'; /* PBS: 12[3].server */
    snprintf(whole, sizeof whole, "%s_%s", array, task);
    return text_json(whole);
}

/* LSF: "node1 4 node2 4", of which node1 is here. Grid Engine: the slots of all nodes, so only of one node is it known. */
static bool cpus_of(const struct batch_system *system, const struct source *source, uint64_t *nodes, bool *nodes_known,
                    uint64_t *ret_cpus)
{
    char value[VALUE_SIZE], *rest;
    if (strcmp(system->name, "lsf") == 0 && value_of(source, "LSB_MCPU_HOSTS", value)) {
        size_t words = 0;
        for (char *word = strtok_r(value, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            if (words++ == 1)
                *ret_cpus = strtoull(word, NULL, 10);
        *nodes = words / 2;
        *nodes_known = words >= 2 && words % 2 == 0;
        return *nodes_known && *ret_cpus > 0;
    }
    if (strcmp(system->name, "sge") == 0)
        return *nodes_known && *nodes == 1 && number_of(source, "NSLOTS", ret_cpus);
    return number_of_two(source, system->cpus, ret_cpus);
}

static json_t *system_json(const struct batch_system *system, const struct source *source)
{
    uint64_t nodes = 0, cpus = 0, memory = 0, limit = 0, start, finish;
    bool nodes_known = number_of(source, system->nodes, &nodes);
    bool cpus_known = cpus_of(system, source, &nodes, &nodes_known, &cpus);
    bool memory_known = number_of_two(source, system->memory, &memory);
    if (!memory_known && cpus_known && number_of(source, system->memory_per_cpu, &memory)) {
        memory_known = !__builtin_mul_overflow(memory, cpus, &memory);
    }
    bool limit_known = number_of_two(source, system->limit, &limit);
    if (!limit_known && number_of(source, system->start, &start) && number_of(source, system->finish, &finish) &&
        finish > start) {
        limit = finish - start;
        limit_known = true;
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "system", system->name, "id",
                     id_json(system, source), "array", array_json(system, source), "step",
                     text_of(source, system->step), "partition", text_of(source, system->partition), "nodes",
                     number_json(nodes_known, nodes, 1), "cpus", number_json(cpus_known, cpus, 1), "memory_bytes",
                     number_json(memory_known && memory, memory, MEGA), "time_limit_seconds",
                     number_json(limit_known && limit, limit, 1));
}

json_t *batch_json(batch_get *get, void *ctx, char *ret_name, size_t size)
{
    ret_name[0] = '\0';
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        const struct batch_system *system = &systems[i];
        _cleanup_(freep) char *ad = NULL;
        struct source source = {.get = get, .ctx = ctx};
        const char *marker = get(ctx, system->marker);
        if (!marker || !*marker)
            continue;
        if (strcmp(system->name, "htcondor") == 0) {
            if (file_read(marker, &ad, NULL) < 0)
                continue; /* of an outer job, perhaps, whose folder is gone */
            source.ad = ad;
        }
        char name[VALUE_SIZE];
        if (value_of(&source, system->job_name, name))
            snprintf(ret_name, size, "%s", name);
        return system_json(system, &source);
    }
    return NULL;
}

static const char *get_environment(void *ctx, const char *name)
{
    return getenv(name);
}

json_t *batch_read(char *ret_name, size_t size)
{
    return batch_json(get_environment, NULL, ret_name, size);
}
