/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where all threads of processes are, native functions and Python's together. The helper's job `stacks`; on standard
 * input, one a line (fields separated by tabs, escaped):
 *
 *     process PID       several
 *     depth N           frames of a stack at most, the innermost (1 .. 256)
 *     values N          arguments and locals of native frames, with N levels of pointers; not of the system's libraries
 *     seconds N         what is not read by then is answered with a problem
 *     end
 *
 * answers, for each process in the order of the request:
 *
 *     process PID NAME PROBLEM
 *                       NAME of its program; PROBLEM for people, "" if there is none
 *     stack THREADS RUNNING FIRST NAME
 *                       threads of that name that are in the same frames, which follow; how many of them run; 1 if the
 *                       process's first thread is one of them
 *     frame LANGUAGE FUNCTION FILE LINE MODULE
 *                       innermost first. native, python, or note: FUNCTION says why nothing is known of frames there
 *     value 0 NAME TYPE TEXT
 *                       of the frame before it, with `values`. NAME "": TEXT says why nothing is known of them
 *
 * and `done`; or `failed REASON`. Nothing is stopped: a thread that waits is unwound from its stack pointer
 * (lines_callers), a thread that runs is sampled (symbols/index/lines.h), and Python's frames are read from memory (python.h).
 * Answers have neither addresses nor numbers of threads: processes that do the same say the same, and are sent once.
 */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "symbols/helper/jobs.h"

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "symbols/client/helper.h"
#include "symbols/index/lines.h"
#include "symbols/python/python.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct stack_name {
    const char *function, *file, *module; /* "": not known */
    unsigned line;                        /* 0: not known */
    const struct stack_name *outer;       /* the function whose code this inlined one is a part of; NULL: none */
};

struct stack_names {
    struct arena arena;
    struct stack_name_entry *entries;
};

struct stack_values;

/* Names of code addresses of many processes: each place of a module is looked for once, whatever the address at which
 * a process has loaded that. */

struct stack_name_entry {
    const char *key; /* the distance from the module's start, and its file */
    const struct stack_name *name;
    UT_hash_handle hh;
};

static const char *names_keep(struct stack_names *names, const char *text)
{
    const char *copy = text ? arena_dup(&names->arena, text, strlen(text)) : NULL;
    return copy ? copy : "";
}

static const struct stack_name *names_look_up(struct stack_names *names, struct lines *lines, uint64_t addr)
{
    struct line_location where;
    const struct stack_name *outer = NULL;
    if (lines_find(lines, addr, &where) < 0 || !where.module)
        return NULL;
    const char *module = names_keep(names, where.module);
    for (size_t i = where.count; i-- > 0;) {
        struct stack_name *name = arena_alloc(&names->arena, sizeof *name);
        if (!name)
            break;
        *name = (struct stack_name){.function = names_keep(names, where.frames[i].function),
                                    .file = names_keep(names, where.frames[i].file),
                                    .module = module,
                                    .line = where.frames[i].file ? where.frames[i].line : 0,
                                    .outer = outer};
        outer = name;
    }
    line_location_done(&where);
    return outer;
}

/* The innermost function at an address. NULL: it is in no module, or out of memory. */
static const struct stack_name *stack_name_of(struct stack_names *names, struct lines *lines, uint64_t addr)
{
    uint64_t start;
    struct stack_name_entry *entry = NULL;
    const char *file = lines_module(lines, addr, &start);
    const char *key = file ? arena_printf(&names->arena, "%" PRIx64 " %s", addr - start, file) : NULL;
    if (!key)
        return NULL;
    HASH_FIND_STR(names->entries, key, entry);
    if (entry)
        return entry->name;
    entry = arena_zalloc(&names->arena, 1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->key = key;
    entry->name = names_look_up(names, lines, addr);
    HASH_ADD_KEYPTR(hh, names->entries, entry->key, strlen(entry->key), entry);
    return entry->name;
}

static void stack_names_done(struct stack_names *names)
{
    HASH_CLEAR(hh, names->entries);
    arena_done(&names->arena);
}

/*
 * Arguments and locals of the frames of threads that nobody stops, for the job `stacks`. A variable whose place follows
 * from registers that are not known is not available: never another value. Of a thread that was sampled, only what lies
 * in the copy of its stack is read, for it has gone on.
 */

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

/* depth: levels of pointers that are followed. NULL: out of memory. */
static struct stack_values *stack_values_new(unsigned depth)
{
    struct stack_values *values = calloc(1, sizeof *values);
    if (!values)
        return NULL;
    values->depth = depth;
    values->job.options =
        (struct capture_options){.depth = depth, .bytes = SHOWN_BYTES, .array = SHOWN_ARRAY, .string = SHOWN_STRING};
    return values;
}

static void stack_values_free(struct stack_values *values)
{
    for (size_t i = 0; values && i < values->file_count; i++) {
        free(values->files[i].path);
        capture_compiler_free(values->files[i].compiler);
    }
    free(values ? values->files : NULL);
    free(values);
}

/* The process whose threads come now. `lines` is borrowed until the next one. */
static void stack_values_process(struct stack_values *values, pid_t pid, struct lines *lines)
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

/* A frame of a thread; stack_values_put is of it from now on. */
static void stack_values_frame(struct stack_values *values, const struct lines_thread *thread,
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

/* Appends lines `value 0 NAME TYPE TEXT` of the level-th of `levels` functions of that frame, from the innermost on; or
 * one without a name: why nothing is known of its values. */
static void stack_values_put(struct stack_values *values, size_t level, size_t levels, struct buf *out)
{
    if (values->scope_count && values->scope_count != levels)
        values->problem = "not known: of which of the inlined functions they are";
    if (values->problem && level == 0)
        helper_line(out, "value", "0", "", "", values->problem, NULL);
    else if (!values->problem && level < values->scope_count)
        variable_list(&values->job, &values->at, &values->scopes[level], 0, out);
}

enum {
    STACKS_DEPTH = 256,
    STACKS_THREADS = 4096, /* of a process */
    STACKS_PROCESSES = 65536,
    STACKS_TRIES = 3, /* to read a thread while it does not move */
    NAME_SIZE = 64,
};

struct group { /* threads that do the same */
    const char *text, *name;
    size_t threads, running;
    bool first;
    UT_hash_handle hh;
};

struct work {
    FILE *out;
    pid_t *pids;
    size_t count, room;
    size_t depth;
    uint64_t until_ns;
    struct stack_names names;
    struct stack_values *values; /* NULL: not asked for */
    /* of one process */
    pid_t pid;
    struct lines *lines;
    bool is_python;
    bool ran_on;       /* so that its values are of no one moment */
    struct buf frames; /* of the thread that is read, as text */
    struct python_program program;
    struct python_stacks python;
    struct arena arena;
    struct group *groups;
    const char *problem;
    bool failed;
};

/* ---- frames ---- */

static void put_frame(struct buf *out, const char *language, const char *function, const char *file, unsigned line,
                      const char *module)
{
    char number[16];
    snprintf(number, sizeof number, "%u", line);
    helper_line(out, "frame", language, function, file, number, module, NULL);
}

static void put_note(struct buf *out, const char *text)
{
    put_frame(out, "note", text, "", 0, "");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* scry's own part of a call is no part of the program. */
static bool is_ours(const char *module)
{
    return strncmp(base_name(module), "libscry-", 8) == 0;
}

static bool is_interpreter(const struct stack_name *name)
{
    static const char eval[] = "_PyEval_EvalFrameDefault";
    return strncmp(name->function, eval, sizeof eval - 1) == 0;
}

/* A native frame and, in place of the function that interprets Python, the functions of Python. */
struct stack {
    const struct stack_name *names[STACKS_DEPTH]; /* innermost first; NULL: in no module */
    uint64_t addrs[STACKS_DEPTH];
    struct lines_registers registers[STACKS_DEPTH];
    size_t ends[STACKS_DEPTH]; /* of the text of each in work->frames */
    size_t count;
    bool whole, cut;
    const char *note;                   /* why there are none */
    const struct python_thread *python; /* NULL: it is not in Python */
};

static const struct python_thread *python_of(const struct work *work, pid_t tid)
{
    for (size_t i = 0; i < work->python.count; i++)
        if (work->python.threads[i].tid == tid)
            return &work->python.threads[i];
    return NULL;
}

/* How many calls of the interpreter a stack has: as Python says, and as the native frames do. */
static size_t count_entries(const struct python_thread *python)
{
    size_t count = 0;
    for (size_t i = 0; python && i < python->count; i++)
        count += python->frames[i].entry || i + 1 == python->count;
    return count;
}

static size_t count_interpreters(const struct stack *stack)
{
    size_t count = 0;
    for (size_t i = 0; i < stack->count; i++)
        count += stack->names[i] && is_interpreter(stack->names[i]);
    return count;
}

/* The functions of one call of the interpreter, from *at on. */
static void put_python(struct buf *out, const struct python_thread *python, size_t *at, bool all)
{
    bool more = *at < python->count;
    while (more) {
        const struct python_frame *frame = &python->frames[(*at)++];
        put_frame(out, "python", frame->function, frame->file, frame->line > 0 ? (unsigned)frame->line : 0, "");
        more = *at < python->count && (all || !frame->entry);
    }
}

/* A frame is in several functions where these are inlined. */
static void put_native(struct work *work, const struct stack *stack, size_t at, const struct lines_thread *thread)
{
    size_t levels = 0, level = 0;
    if (!stack->names[at] || is_ours(stack->names[at]->module) || is_interpreter(stack->names[at]))
        return;
    for (const struct stack_name *name = stack->names[at]; name; name = name->outer)
        levels++;
    if (work->values && !work->ran_on)
        stack_values_frame(work->values, thread, &stack->registers[at], at == 0);
    for (const struct stack_name *name = stack->names[at]; name; name = name->outer, level++) {
        put_frame(&work->frames, "native", name->function, name->file, name->line, name->module);
        if (work->values && !work->ran_on)
            stack_values_put(work->values, level, levels, &work->frames);
        else if (work->values && *name->file)
            helper_line(&work->frames, "value", "0", "", "", "not read: the thread ran on", NULL);
    }
}

/*
 * Both were not read at the same moment. What lies outside moves least, so calls of the interpreter are counted from
 * there: if the native frames show more of them, the innermost have no functions yet; if Python shows more, its
 * innermost ones stand before the native frames. Where the native frames end before the outermost, as in a library without
 * tables for unwinding, they are counted from inside: what Python called further out stands behind all of them.
 */
static void put_stack(const struct work *work, struct buf *out, const struct stack *stack)
{
    size_t at = 0, entries = count_entries(stack->python), interpreters = count_interpreters(stack);
    bool from_inside = !stack->whole && interpreters;
    for (; !from_inside && entries > interpreters && interpreters; entries--)
        put_python(out, stack->python, &at, false);
    for (size_t i = 0; i < stack->count; i++) {
        const struct stack_name *name = stack->names[i];
        if (name && is_interpreter(name)) {
            if ((interpreters-- <= entries || from_inside) && stack->python)
                put_python(out, stack->python, &at, interpreters == 0 && !from_inside);
        } else if (name) {
            size_t from = i ? stack->ends[i - 1] : 0;
            buf_append(out, work->frames.data + from, stack->ends[i] - from);
        } else {
            put_note(out, "code in no file");
        }
    }
    bool more = stack->python && at < stack->python->count;
    if (stack->note)
        put_note(out, stack->note);
    else if (!stack->whole && (from_inside || !more))
        put_note(out, stack->cut ? "callers are left out" : "callers are not known");
    if (more)
        put_python(out, stack->python, &at, true); /* also where the interpreter has no names */
}

/* ---- threads ---- */

static void thread_unwind(struct work *work, struct stack *stack, const struct lines_thread *thread)
{
    stack->count = lines_unwind(work->lines, thread, stack->addrs, work->values ? stack->registers : NULL, work->depth,
                                &stack->whole);
    stack->cut = stack->count == work->depth;
    for (size_t i = 0; i < stack->count; i++) /* a call may be the last instruction of its line */
        stack->names[i] = stack_name_of(&work->names, work->lines, stack->addrs[i] - (i > 0));
    buf_clear(&work->frames);
    for (size_t i = 0; i < stack->count; i++) {
        put_native(work, stack, i, thread);
        stack->ends[i] = work->frames.len;
    }
    work->failed |= work->frames.failed;
}

static void add_thread(struct work *work, pid_t tid, const struct stack *stack, bool runs)
{
    struct buf text = BUF_INIT, key = BUF_INIT;
    char name[NAME_SIZE];
    struct group *group = NULL;
    proc_comm(work->pid, tid, name, sizeof name);
    put_stack(work, &text, stack);
    helper_line(&key, name, NULL);
    buf_append(&key, text.data ? text.data : "", text.len);
    if (!key.failed && key.data)
        HASH_FIND(hh, work->groups, key.data, key.len, group);
    if (!group && key.data && !key.failed && (group = arena_zalloc(&work->arena, 1, sizeof *group))) {
        const char *kept = arena_dup(&work->arena, key.data, key.len);
        group->name = arena_dup(&work->arena, name, strlen(name));
        group->text = arena_dup(&work->arena, text.data ? text.data : "", text.len);
        if (kept && group->name && group->text)
            HASH_ADD_KEYPTR(hh, work->groups, kept, key.len, group);
        else
            group = NULL;
    }
    work->failed |= !group || text.failed || key.failed;
    if (group) {
        group->threads++;
        group->running += runs;
        group->first |= tid == work->pid;
    }
    buf_done(&text);
    buf_done(&key);
}

enum seen { SEEN_WAITS, SEEN_RUNS, SEEN_GONE, SEEN_REFUSED };

/* What the kernel says of a thread (proc(5), syscall): where it waits, or that it runs. */
static enum seen look_at(pid_t pid, pid_t tid, char text[256], struct lines_thread *ret_thread)
{
    unsigned long long sp = 0, pc = 0;
    size_t len;
    int code = proc_file_read(pid, tid, "syscall", text, 256, &len);
    if (code < 0)
        return code == -ESRCH ? SEEN_GONE : SEEN_REFUSED;
    if (strncmp(text, "running", 7) == 0)
        return SEEN_RUNS;
    if (sscanf(text, "-1 0x%llx 0x%llx", &sp, &pc) != 2 &&
        sscanf(text, "%*s 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%llx 0x%llx", &sp, &pc) != 2)
        return SEEN_GONE;
    *ret_thread = (struct lines_thread){.sp = sp, .pc = pc};
    return pc ? SEEN_WAITS : SEEN_GONE;
}

/* A thread that waits, if it still waited there afterwards. Its values are also of one moment only if it has not run in
 * between; where it does so again and again, the last try is without them. */
static enum seen read_waiting(struct work *work, pid_t tid)
{
    char before[256], after[256];
    struct lines_thread thread, again;
    enum seen seen = SEEN_RUNS;
    int64_t runs;
    for (int i = 0; i < STACKS_TRIES; i++) {
        struct stack stack = {.python = python_of(work, tid)};
        runs = work->values ? proc_status_number(work->pid, tid, "voluntary_ctxt_switches") : 0;
        seen = look_at(work->pid, tid, before, &thread);
        if (seen == SEEN_REFUSED) {
            stack.note = "not read: not permitted";
            add_thread(work, tid, &stack, false);
            return seen;
        }
        if (seen != SEEN_WAITS)
            return seen;
        work->ran_on = work->values && (runs < 0 || i + 1 == STACKS_TRIES);
        thread_unwind(work, &stack, &thread);
        if (look_at(work->pid, tid, after, &again) == SEEN_WAITS && strcmp(before, after) == 0 &&
            (!work->values || work->ran_on || runs == proc_status_number(work->pid, tid, "voluntary_ctxt_switches"))) {
            add_thread(work, tid, &stack, false);
            return seen;
        }
    }
    return SEEN_RUNS;
}

static void read_running(struct work *work, const pid_t *tids, size_t count)
{
    _cleanup_(freep) struct sample *samples = calloc(SAMPLE_BATCH, sizeof *samples);
    work->failed |= !samples;
    for (size_t from = 0; samples && from < count; from += SAMPLE_BATCH) {
        size_t batch = count - from < SAMPLE_BATCH ? count - from : SAMPLE_BATCH;
        for (size_t i = 0; i < batch; i++)
            samples[i].tid = tids[from + i];
        samples_take(samples, batch);
        for (size_t i = 0; i < batch; i++) {
            const struct sample *sample = &samples[i];
            struct stack stack = {.python = python_of(work, sample->tid)};
            if (sample->code == -ESRCH)
                continue;
            if (sample->code == -EAGAIN && read_waiting(work, sample->tid) != SEEN_RUNS)
                continue; /* it waits meanwhile, or has ended */
            const struct lines_thread thread = {.sp = sample->registers[7],
                                                .pc = sample->registers[16],
                                                .registers = sample->registers,
                                                .stack = sample->stack_size ? sample->stack : NULL,
                                                .stack_size = sample->stack_size};
            work->ran_on = false;
            if (sample->code == 0)
                thread_unwind(work, &stack, &thread);
            else
                stack.note = sample->code == -EAGAIN
                                 ? "not read: it runs, but had no processor, or is in the kernel"
                                 : "not read: it runs, and may not be sampled (scry doctor says why)";
            add_thread(work, sample->tid, &stack, true);
        }
    }
}

/* ---- processes ---- */

static size_t list_threads(pid_t pid, pid_t **ret_tids)
{
    char path[PROC_PATH_SIZE];
    size_t count = 0, room = 0;
    *ret_tids = NULL;
    proc_path(path, pid, 0, "task");
    DIR *dir = opendir(path);
    if (!dir)
        return 0;
    for (struct dirent *entry; count < STACKS_THREADS && (entry = readdir(dir));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && GROW(*ret_tids, count, room))
            (*ret_tids)[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    closedir(dir);
    return count;
}

static void read_threads(struct work *work)
{
    _cleanup_(freep) pid_t *tids = NULL;
    size_t count = list_threads(work->pid, &tids), running = 0;
    for (size_t i = 0; i < count && clock_now_ns() < work->until_ns; i++)
        if (read_waiting(work, tids[i]) == SEEN_RUNS)
            tids[running++] = tids[i];
    read_running(work, tids, running);
    if (!count)
        work->problem = "it has ended";
    else if (clock_now_ns() >= work->until_ns)
        work->problem = "there was no time to read all its threads";
    else if (count == STACKS_THREADS)
        work->problem = "it has more than 4096 threads, of which these are some";
}

/* The first thread's before the others, and these in an order that is the same in each process. */
static int by_place(const struct group *a, const struct group *b)
{
    if (a->first != b->first)
        return a->first ? -1 : 1;
    int names = strcmp(a->name, b->name);
    return names ? names : strcmp(a->text, b->text);
}

static void answer_process(struct work *work)
{
    struct buf out = BUF_INIT;
    char name[NAME_SIZE], number[4][24];
    snprintf(number[0], sizeof number[0], "%d", work->pid);
    proc_comm(work->pid, 0, name, sizeof name);
    helper_line(&out, "process", number[0], name, work->problem ? work->problem : "", NULL);
    HASH_SORT(work->groups, by_place);
    for (const struct group *group = work->groups; group; group = group->hh.next) {
        snprintf(number[1], sizeof number[1], "%zu", group->threads);
        snprintf(number[2], sizeof number[2], "%zu", group->running);
        snprintf(number[3], sizeof number[3], "%d", group->first);
        helper_line(&out, "stack", number[1], number[2], number[3], group->name, NULL);
        buf_puts(&out, group->text);
    }
    work->failed |= out.failed;
    if (!out.failed)
        fwrite(out.data, 1, out.len, work->out);
    fflush(work->out);
    buf_done(&out);
}

static void read_process(struct work *work, pid_t pid)
{
    struct err err = {0};
    const struct python_memory memory = python_memory_of(&pid);
    work->pid = pid;
    work->problem = NULL;
    work->python = (struct python_stacks){0};
    if (clock_now_ns() >= work->until_ns) {
        work->problem = "there was no time to read it";
    } else if (lines_open_process(&work->lines, pid, &err) < 0) {
        work->problem = err.text;
    } else {
        if (work->values)
            stack_values_process(work->values, pid, work->lines);
        if (python_find(&work->program, pid) == 0)
            python_read(&work->python, &work->program, &memory, 0, PYTHON_FRAMES);
        read_threads(work);
        python_stacks_done(&work->python);
        lines_close(work->lines);
    }
    answer_process(work);
    HASH_CLEAR(hh, work->groups);
    arena_reset(&work->arena);
}

/* ---- the request ---- */

static int take_line(struct work *work, char *line, bool *ret_end, struct err *err)
{
    char *fields[HELPER_FIELDS];
    uint64_t number = 0;
    int count = helper_split(line, fields);
    *ret_end = count == 1 && strcmp(fields[0], "end") == 0;
    if (*ret_end)
        return 0;
    if (count == 2 && strcmp(fields[0], "process") == 0 && helper_number(fields[1], 1, INT32_MAX, &number) &&
        work->count < STACKS_PROCESSES) {
        if (!GROW(work->pids, work->count, work->room))
            return err_set(err, -ENOMEM, "out of memory");
        work->pids[work->count++] = (pid_t)number;
    } else if (count == 2 && strcmp(fields[0], "depth") == 0 && helper_number(fields[1], 1, STACKS_DEPTH, &number)) {
        work->depth = number;
    } else if (count == 2 && strcmp(fields[0], "values") == 0 &&
               helper_number(fields[1], 0, HELPER_DEPTH_MAX, &number)) {
        stack_values_free(work->values);
        work->values = stack_values_new((unsigned)number);
        if (!work->values)
            return err_set(err, -ENOMEM, "out of memory");
    } else if (count == 2 && strcmp(fields[0], "seconds") == 0 && helper_number(fields[1], 1, 3600, &number)) {
        work->until_ns = clock_now_ns() + number * NS_PER_SECOND;
    } else {
        return err_set(err, -EINVAL, "the request is not understood at '%s'", count > 0 ? fields[0] : line);
    }
    return 0;
}

static int read_request(struct work *work, FILE *in, struct err *err)
{
    _cleanup_(freep) char *line = NULL;
    size_t room = 0;
    ssize_t len;
    bool end = false;
    while (!end && (len = getline(&line, &room, in)) > 0) {
        if (line[len - 1] != '\n' || memchr(line, 0, (size_t)len))
            return err_set(err, -EINVAL, "a line of the request is cut off, or not text");
        line[len - 1] = 0;
        int code = take_line(work, line, &end, err);
        if (code < 0)
            return code;
    }
    return end ? 0 : err_set(err, -EINVAL, "the request does not end with the line 'end'");
}

int stacks_main(FILE *in, FILE *out)
{
    struct work work = {.out = out, .depth = STACKS_DEPTH, .until_ns = UINT64_MAX};
    struct err err = {0};
    struct buf end = BUF_INIT;
    int code = read_request(&work, in, &err);
    for (size_t i = 0; code == 0 && !work.failed && i < work.count; i++)
        read_process(&work, work.pids[i]);
    if (code == 0 && work.failed)
        code = err_set(&err, -ENOMEM, "out of memory");
    if (code < 0)
        helper_line(&end, "failed", err.text, NULL);
    else
        helper_line(&end, "done", NULL);
    fwrite(end.data, 1, end.len, out);
    fflush(out);
    buf_done(&end);
    stack_names_done(&work.names);
    stack_values_free(work.values);
    buf_done(&work.frames);
    arena_done(&work.arena);
    free(work.pids);
    return code;
}
