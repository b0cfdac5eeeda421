/* SPDX-License-Identifier: Apache-2.0 */
/* The programs of a job: which there are, and whether they have what tracing needs. */
#include "cli/doctor/job_look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"

enum {
    PROGRAMS = 64, /* looked at */
    COPIES = 1000, /* processes whose parents are searched for */
};

/* Nothing can be loaded into it. What defines hooks in a static program is the C library. */
static bool is_closed(const struct seen_program *seen)
{
    return seen->program.obstacle;
}

static bool is_hooked(const struct seen_program *seen)
{
    return !is_closed(seen) && seen->symbols.hooks && !seen->symbols.own_hooks;
}

/* Looks at the program as it is now; it may have been compiled again. NULL: it is none, or one too many. */
static struct seen_program *see_program(struct job_look *look, const char *command, const char *cwd)
{
    char path[PATH_MAX];
    struct program program;
    bool relative = command && *command != '/' && strchr(command, '/');
    if (!command || !*command ||
        snprintf(path, sizeof path, "%s%s%s", relative && cwd ? cwd : "", relative && cwd ? "/" : "", command) >=
            (int)sizeof path)
        return NULL;
    program_look(&program, path);
    if (!program.is_elf)
        return NULL;
    for (size_t i = 0; i < look->program_count; i++)
        if (strcmp(look->programs[i].program.path, program.path) == 0)
            return &look->programs[i];
    if (look->program_count == PROGRAMS)
        return NULL;
    struct seen_program *seen = &look->programs[look->program_count++];
    seen->program = program;
    program_symbols(&seen->symbols, program.path);
    look->hooked += is_hooked(seen);
    return seen;
}

/* Whether its parent runs the same: it is a copy, which has a trace only if it calls something. After many searches,
 * which take their time in a job of many processes, whether it is one stays open. */
static bool may_be_copy(struct job_look *look, const struct job_process *process)
{
    const struct job_model *model = &look->report.model;
    const struct job_process *parent;
    if (look->copies++ >= COPIES)
        return true;
    HASH_FIND(hh, model->alive, &process->ppid, sizeof process->ppid, parent);
    for (size_t i = 0; !parent && i < model->ended_count; i++)
        if (model->ended[i].pid == process->ppid)
            parent = &model->ended[i];
    return parent && json_equal(parent->argv, process->argv);
}

static void see_process(struct job_look *look, const struct job_process *process)
{
    struct seen_program *seen =
        see_program(look, json_string_value(json_array_get(process->argv, 0)), json_string_value(process->cwd));
    bool traced = job_functions_traced(job_look_functions(look), look->report.info.host, process->pid);
    look->unknown += !process->argv;
    look->traced += traced;
    if (!seen || !is_hooked(seen))
        return;
    if (!traced && may_be_copy(look, process))
        return;
    seen->processes++;
    seen->untraced += !traced;
}

int job_programs_see(struct job_look *look)
{
    const struct job_model *model = &look->report.model;
    size_t index;
    json_t *word;
    look->programs = calloc(PROGRAMS, sizeof *look->programs);
    if (!look->programs)
        return -ENOMEM;
    json_array_foreach(look->report.info.argv, index, word) /* mpirun -n 4 ./solver, env -i ./solver */
        if (index == 0 || strchr(json_string_value(word) ? json_string_value(word) : "", '/'))
            see_program(look, json_string_value(word), look->report.info.cwd);
    for (const struct job_process *process = model->alive; process; process = process->hh.next)
        see_process(look, process);
    for (size_t i = 0; i < model->ended_count; i++)
        see_process(look, &model->ended[i]);
    return 0;
}

/* Puts the names of the first few programs for which `is` holds. Returns how many there are. */
static size_t put_programs(const struct job_look *look, bool (*is)(const struct seen_program *seen), char *ret_names,
                           size_t size)
{
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    size_t count = 0;
    for (size_t i = 0; i < look->program_count; i++)
        if (is(&look->programs[i]) && count++ < JOB_LOOK_SHOWN)
            buf_printf(&names, "%s%s", names.len ? ", " : "", text_base(look->programs[i].program.path));
    if (count > JOB_LOOK_SHOWN)
        buf_puts(&names, ", ...");
    job_look_shown(names.data ? names.data : "", ret_names, size);
    return count;
}

static bool is_bare(const struct seen_program *seen)
{
    return !is_closed(seen) && !seen->symbols.hooks && !seen->symbols.own_hooks;
}

static bool has_own_hooks(const struct seen_program *seen)
{
    return !is_closed(seen) && seen->symbols.own_hooks;
}

static bool is_nameless(const struct seen_program *seen)
{
    return is_hooked(seen) && !seen->symbols.debug;
}

void job_programs_check_hooks(struct job_look *look)
{
    struct finding finding = {0};
    char names[300];
    if (put_programs(look, has_own_hooks, names, sizeof names)) {
        finding_set(&finding, FINDING_FAIL, "these programs have hooks of their own, which get their calls: %s", names);
        finding_remedy(&finding, "remove __cyg_profile_func_enter from them");
        doctor_say(look->out, "hooks", &finding);
    }
    finding = (struct finding){0};
    size_t closed = put_programs(look, is_closed, names, sizeof names);
    if (closed) {
        finding_set(&finding, FINDING_WARN, "nothing can be loaded into %s", names);
        for (size_t i = 0; i < look->program_count && !*finding.remedy; i++)
            if (is_closed(&look->programs[i]))
                finding_remedy(&finding, "%s", look->programs[i].program.remedy);
        doctor_say(look->out, "hooks", &finding);
    }
    finding = (struct finding){0};
    if (put_programs(look, is_hooked, names, sizeof names)) {
        finding_set(&finding, FINDING_OK, "in %s", names);
    } else if (job_look_functions(look)->processes > look->ranks) { /* in a library, or the program has changed */
        finding_set(&finding, FINDING_OK, "functions were traced, by hooks in a library or a program that has changed");
    } else if (put_programs(look, is_bare, names, sizeof names)) {
        finding_set(&finding, FINDING_WARN, "none in %s", names);
        finding_remedy(&finding, "compile what you want to trace with -g -finstrument-functions");
    } else if (look->program_count) {
        return; /* said above */
    } else {
        finding_set(&finding, FINDING_WARN, "no program of the job can be read any more");
    }
    doctor_say(look->out, "hooks", &finding);
}

void job_programs_check_symbols(struct job_look *look)
{
    struct finding finding = {0};
    char names[300];
    if (put_programs(look, is_nameless, names, sizeof names)) {
        finding_set(&finding, FINDING_WARN, "no debug information, so no values, files and lines: %s", names);
        finding_remedy(&finding, "compile with -g, and do not strip");
    } else {
        finding_set(&finding, FINDING_OK, "%s", look->hooked ? "debug information is there" : "none are needed");
    }
    doctor_say(look->out, "symbols", &finding);
}
