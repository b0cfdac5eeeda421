/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/helper/stack_values.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/grow.h"
#include "symbols/client/helper.h"
#include "symbols/helper/variable_internal.h"

enum { RSP = 7, SHOWN_BYTES = 1024, SHOWN_ARRAY = 8, SHOWN_STRING = 80 };

/* On no page of any process, and as a number wrong: nothing may come of it. */
#define NO_REGISTER UINT64_C(0xaaaaaaaaaaaaaaaa)

struct stack_values {
    struct variable_module *files; /* of all processes, each opened once */
    size_t file_count, file_room;
    unsigned depth;
    struct variable_job job; /* of this process: its modules as far as they are needed */
    struct lines *lines;
    struct variable_frame frame; /* of this place */
    struct variable_found at;
    Dwarf_Die scopes[VARIABLE_SCOPES];
    size_t scope_count;
    const char *problem; /* why it has none; NULL: there is no debug information */
};

struct stack_values *stack_values_new(unsigned depth)
{
    struct stack_values *values = calloc(1, sizeof *values);
    if (!values)
        return NULL;
    values->depth = depth;
    values->job.options =
        (struct capture_options){.depth = depth, .bytes = SHOWN_BYTES, .array = SHOWN_ARRAY, .string = SHOWN_STRING};
    return values;
}

void stack_values_free(struct stack_values *values)
{
    for (size_t i = 0; values && i < values->file_count; i++) {
        free(values->files[i].path);
        capture_compiler_free(values->files[i].compiler);
    }
    free(values ? values->files : NULL);
    free(values);
}

void stack_values_process(struct stack_values *values, pid_t pid, struct lines *lines)
{
    values->job.pid = pid;
    values->job.module_count = 0; /* they are borrowed from files */
    values->lines = lines;
}

/* What people did not write: its values are many, and say little. */
static bool is_system(const char *path)
{
    return strncmp(path, "/lib", 4) == 0 || strncmp(path, "/usr/lib", 8) == 0;
}

/* In a container another program may lie at that path: its variables would be elsewhere. */
static bool is_seen_alike(pid_t pid, const char *path)
{
    char there[PATH_MAX + 32];
    struct stat here, inside;
    snprintf(there, sizeof there, "/proc/%d/root%s", (int)pid, path);
    return stat(path, &here) == 0 && stat(there, &inside) == 0 && here.st_dev == inside.st_dev &&
           here.st_ino == inside.st_ino;
}

static struct variable_module *open_file(struct stack_values *values, const char *path, uint64_t bias)
{
    for (size_t i = 0; i < values->file_count; i++)
        if (strcmp(values->files[i].path, path) == 0)
            return &values->files[i];
    if (!GROW(values->files, values->file_count, values->file_room))
        return NULL;
    struct variable_module *file = &values->files[values->file_count];
    *file = (struct variable_module){.path = strdup(path), .tried = true};
    if (!file->path)
        return NULL;
    values->file_count++;
    capture_compiler_open(&file->compiler, path, bias, &values->job.options, NULL);
    return file;
}

/* Makes the module of an address one of the process's. false: nothing is known of it. */
static bool need_module(struct stack_values *values, uint64_t addr)
{
    uint64_t start, bias;
    struct variable_job *job = &values->job;
    const char *path = lines_module(values->lines, addr, &start);
    if (!path || is_system(path) || !lines_bias(values->lines, addr, &bias))
        return false;
    for (size_t i = 0; i < job->module_count; i++)
        if (job->modules[i].bias == bias && strcmp(job->modules[i].path, path) == 0)
            return job->modules[i].compiler != NULL;
    struct variable_module *file = job->module_count < VARIABLE_MODULES ? open_file(values, path, bias) : NULL;
    if (!file || !is_seen_alike(job->pid, path))
        return false;
    if (file->compiler)
        file->compiler->bias = bias; /* it may lie elsewhere in each process */
    job->modules[job->module_count] = *file;
    job->modules[job->module_count++].bias = bias;
    return file->compiler && file->compiler->dwarf;
}

void stack_values_frame(struct stack_values *values, const struct lines_thread *thread,
                        const struct lines_registers *registers, bool innermost)
{
    struct variable_frame *frame = &values->frame;
    const uint64_t pc = registers->values[LINES_REGISTERS - 1], sp = registers->values[RSP];
    values->scope_count = 0;
    values->problem = NULL;
    if (!need_module(values, pc - !innermost))
        return;
    if (!(registers->known >> RSP & 1))
        values->problem = "not known: where its frame is";
    else if (thread->registers && sp - thread->sp >= thread->stack_size)
        values->problem = "not read: the thread runs, and this is further out than what was copied of its stack";
    if (values->problem)
        return;
    *frame = (struct variable_frame){.pc = pc, .known = true, .innermost = innermost, .unknown = ~registers->known};
    for (unsigned i = 0; i < LINES_REGISTERS; i++)
        frame->registers.gpr[i] = registers->known >> i & 1 ? registers->values[i] : NO_REGISTER;
    variable_read_process(values->job.pid);
    values->job.options.depth = values->depth;
    if (thread->registers) { /* what pointers lead to may be something else by now */
        values->job.options.depth = 0;
        variable_read_copy(thread->sp, thread->stack ? thread->stack : "", thread->stack_size);
    }
    values->scope_count = variable_scopes(&values->job, frame, &values->at, values->scopes);
}

void stack_values_put(struct stack_values *values, size_t level, size_t levels, struct buf *out)
{
    if (values->scope_count && values->scope_count != levels)
        values->problem = "not known: of which of the inlined functions they are";
    if (values->problem && level == 0)
        helper_line(out, "value", "0", "", "", values->problem, NULL);
    else if (!values->problem && level < values->scope_count)
        variable_list(&values->job, &values->at, &values->scopes[level], 0, out);
}
