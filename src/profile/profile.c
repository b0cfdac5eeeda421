/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/mpi/waiting.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/index/names.h"

/* Limits of memory: so many nodes are a few MB. Where there are more, the deeper ones count for their callers. */
enum {
    NODES_MOST = 1 << 18,
    WAITING_MOST = 1 << 14,
    PROCESSES_MOST = 1 << 12,
    LINES_MOST = 1 << 17,
    CODES_MOST = 1 << 16
};
/* Of threads: that are known, with their shares of nodes, and that are written. */
enum { THREADS_MOST = 1 << 13, SHARES_MOST = 1 << 16, THREADS_PUT = 200, SHARES_PUT = 1 << 13 };

struct profile_code {
    char *key, *function, *file; /* the last two NULL: no memory */
    const char *language;
    const struct image_file *module;
    uint32_t line;
    UT_hash_handle hh;
};

struct profile_stack { /* that waits */
    struct profile_stack *next;
    uint32_t process, thread; /* thread: NO_THREAD: not known */
    bool whole, in_kernel;
    enum waiting_for what;       /* WAITING_NOT: a sample of processor time */
    uint64_t time_ns, waited_ns; /* when it was taken; until then it had waited so long */
    unsigned weight;
    size_t count, python_count;
    struct profile_python *python; /* behind the frames */
    struct profile_frame frames[];
};

/* What can be a function: one of its members says. */
struct function_key {
    struct image_file *file;
    uint64_t start; /* UINT64_MAX: which function of the file is not known */
    const struct profile_code *code;
    bool kernel;
};

struct function {
    struct function_key key;
    uint32_t number;
    bool interprets; /* Python */
    bool starts;     /* the program, or a thread: nobody wants to see it */
    UT_hash_handle hh;
};

struct node {
    struct node_key {
        int64_t parent;
        uint32_t function;
    } key;
    uint32_t number;
    uint64_t samples;
    UT_hash_handle hh;
};

struct line { /* of a function */
    struct line_key {
        uint32_t function, line;
    } key;
    uint64_t samples, all;
    uint64_t stack; /* that was counted last: one that has it twice counts once */
    UT_hash_handle hh;
};

struct wait { /* of threads in a node */
    struct wait_key {
        uint32_t node;
        enum waiting_for what;
    } key;
    uint64_t ns;
    UT_hash_handle hh;
};

struct sampled { /* a process of which there is a sample */
    uint32_t number, at;
    pid_t pid;
    char name[16];
    uint64_t samples;
    UT_hash_handle hh;
};

struct thread { /* of a process of which there is a sample */
    uint32_t number, at, process;
    pid_t tid;
    char name[16];
    uint64_t samples, waited_ns;
    uint32_t shares;
    bool first; /* of its process */
    bool cut;   /* it has shares that are not kept */
    UT_hash_handle hh;
};
enum { NO_THREAD = UINT32_MAX };

struct share { /* of a node that a thread has */
    struct share_key {
        uint32_t thread, node;
    } key;
    uint64_t samples, ns;
    UT_hash_handle hh;
};

struct profile {
    struct profile_stack *first, **last; /* new ones */
    struct profile_stack *unknown;       /* of whose frames something is not known yet */
    size_t waiting;
    struct function *functions;
    struct node *nodes;
    struct line *lines;
    struct wait *waits;
    struct sampled *processes;
    struct thread *threads;
    struct share *shares;
    struct profile_code *codes;
    uint64_t samples, left_out, folded;
    struct spans spans;
};

struct profile *profile_new(void)
{
    struct profile *profile = calloc(1, sizeof *profile);
    if (profile) {
        profile->last = &profile->first;
        spans_init(&profile->spans);
    }
    return profile;
}

#define FREE_ALL(type, list) \
    do { \
        struct type *entry, *entry_next; \
        HASH_ITER(hh, list, entry, entry_next) \
        { \
            HASH_DEL(list, entry); \
            free(entry); \
        } \
    } while (0)

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    *profile->last = profile->unknown;
    for (struct profile_stack *stack = profile->first, *next; stack; stack = next) {
        next = stack->next;
        free(stack);
    }
    spans_done(&profile->spans);
    FREE_ALL(function, profile->functions);
    FREE_ALL(node, profile->nodes);
    FREE_ALL(line, profile->lines);
    FREE_ALL(wait, profile->waits);
    FREE_ALL(sampled, profile->processes);
    FREE_ALL(thread, profile->threads);
    FREE_ALL(share, profile->shares);
    for (struct profile_code *code = profile->codes; code; code = code->hh.next) {
        free(code->key);
        free(code->function);
        free(code->file);
    }
    FREE_ALL(profile_code, profile->codes);
    free(profile);
}

/* After PROCESSES_MOST, those of one name are one. */
static struct sampled *sampled_of(struct profile *profile, const struct image_process *process)
{
    struct sampled *sampled;
    HASH_FIND(hh, profile->processes, &process->number, sizeof process->number, sampled);
    if (sampled)
        return sampled;
    bool many = HASH_COUNT(profile->processes) >= PROCESSES_MOST;
    for (sampled = many ? profile->processes : NULL; sampled; sampled = sampled->hh.next)
        if (strcmp(sampled->name, process->name) == 0)
            return sampled;
    sampled = calloc(1, sizeof *sampled);
    if (!sampled)
        return NULL;
    sampled->number = process->number;
    sampled->at = HASH_COUNT(profile->processes);
    sampled->pid = many ? 0 : process->pid;
    memcpy(sampled->name, process->name, sizeof sampled->name);
    HASH_ADD(hh, profile->processes, number, sizeof sampled->number, sampled);
    return sampled;
}

/* Threads beyond the limit count for their processes only, as those of processes that count for others. Its name is the last one that
 * it had. */
static uint32_t thread_of(struct profile *profile, const struct sampled *sampled, const struct image_process *process,
                          const struct image_thread *from)
{
    struct thread *thread = NULL;
    if (!from || sampled->number != process->number)
        return NO_THREAD;
    HASH_FIND(hh, profile->threads, &from->number, sizeof from->number, thread);
    if (!thread) {
        thread = HASH_COUNT(profile->threads) < THREADS_MOST ? calloc(1, sizeof *thread) : NULL;
        if (!thread)
            return NO_THREAD;
        thread->number = from->number;
        thread->at = HASH_COUNT(profile->threads);
        thread->process = sampled->at;
        thread->tid = from->tid;
        thread->first = from->tid == from->pid;
        HASH_ADD(hh, profile->threads, number, sizeof thread->number, thread);
    }
    memcpy(thread->name, from->name, sizeof thread->name);
    return thread->number;
}

/* Takes the key. The one that has it already, or a new one. */
static struct profile_code *code_of(struct profile *profile, char *key, const struct profile_function *from)
{
    struct profile_code *code = NULL;
    HASH_FIND_STR(profile->codes, key, code);
    if (code || HASH_COUNT(profile->codes) >= CODES_MOST || !(code = calloc(1, sizeof *code))) {
        free(key);
        return code;
    }
    code->key = key;
    profile_code_name(code, from);
    HASH_ADD_KEYPTR(hh, profile->codes, code->key, strlen(code->key), code);
    return code;
}

const struct profile_code *profile_code(struct profile *profile, const struct profile_function *from)
{
    char *key;
    return asprintf(&key, "%s\n%s\n%u\n%s\n%p", from->function, from->file, (unsigned)from->line, from->language,
                    (const void *)from->module) < 0
               ? NULL
               : code_of(profile, key, from);
}

struct profile_code *profile_code_apart(struct profile *profile, const struct profile_function *from)
{
    char *key;
    return asprintf(&key, "%u", HASH_COUNT(profile->codes)) < 0 ? NULL : code_of(profile, key, from);
}

void profile_code_name(struct profile_code *code, const struct profile_function *from)
{
    free(code->function);
    free(code->file);
    code->function = strdup(from->function);
    code->file = strdup(from->file);
    code->language = from->language;
    code->module = from->module;
    code->line = from->line;
}

bool profile_is_scrys(const struct profile_frame *frame)
{
    static const char own[] = "libscry-";
    return frame->file && strncmp(text_base(frame->file->path), own, sizeof own - 1) == 0;
}

/* Without the frames of scry's libraries: the program is what is asked for, and has called them without knowing. But where there is
 * nothing else, as when a patched function returns, whose caller only its trampoline knows, that is said. */
static struct profile_stack *stack_new(struct profile *profile, uint32_t process, uint32_t thread,
                                       const struct profile_sample *sample)
{
    static const struct profile_function own = {.function = "[scry]", .file = "", .language = "jit"};
    size_t frames = sample->count * sizeof *sample->frames, python = sample->python_count * sizeof *sample->python;
    struct profile_stack *stack = malloc(sizeof *stack + frames + python);
    if (!stack)
        return NULL;
    *stack = (struct profile_stack){.process = process,
                                    .thread = thread,
                                    .time_ns = sample->time_ns,
                                    .whole = sample->whole,
                                    .in_kernel = sample->in_kernel,
                                    .weight = sample->weight ? sample->weight : 1,
                                    .python_count = sample->python_count,
                                    .python = (struct profile_python *)(void *)((char *)stack->frames + frames)};
    for (size_t i = 0; i < sample->count; i++)
        if (!profile_is_scrys(&sample->frames[i]))
            stack->frames[stack->count++] = sample->frames[i];
    if (!stack->count && sample->count)
        stack->frames[stack->count++] = (struct profile_frame){.code = profile_code(profile, &own)};
    if (python)
        memcpy(stack->python, sample->python, python);
    return stack;
}

/* NULL: there was no memory for it. */
static void stack_add(struct profile *profile, struct profile_stack *stack)
{
    if (!stack) {
        profile->left_out++;
        return;
    }
    *profile->last = stack;
    profile->last = &stack->next;
    profile->waiting++;
    if (profile->waiting > WAITING_MOST)
        profile_fold(profile, FOLD_ALL);
}

void profile_add(struct profile *profile, const struct image_process *process, const struct profile_sample *sample)
{
    struct sampled *sampled = sampled_of(profile, process);
    struct profile_stack *stack =
        sampled ? stack_new(profile, sampled->at, thread_of(profile, sampled, process, sample->thread), sample) : NULL;
    if (stack) {
        sampled->samples += stack->weight;
        profile->samples += stack->weight;
    }
    stack_add(profile, stack);
}

struct profile_stack *profile_keep(struct profile *profile, const struct image_process *process,
                                   const struct profile_sample *sample)
{
    struct sampled *sampled = sampled_of(profile, process);
    return sampled ? stack_new(profile, sampled->at, thread_of(profile, sampled, process, sample->thread), sample)
                   : NULL;
}

void profile_add_waiting(struct profile *profile, const struct profile_stack *stack, enum waiting_for what,
                         uint64_t waited_ns)
{
    const struct profile_sample sample = {.time_ns = clock_now_ns(),
                                          .frames = stack->frames,
                                          .count = stack->count,
                                          .whole = stack->whole,
                                          .python = stack->python,
                                          .python_count = stack->python_count};
    struct profile_stack *copy = stack_new(profile, stack->process, stack->thread, &sample);
    if (copy) {
        copy->what = what;
        copy->waited_ns = waited_ns;
    }
    stack_add(profile, copy);
}

/* NULL: no memory. */
static const struct function *function_of(struct profile *profile, const struct function_key *key)
{
    static const char *const interpreters[] = {"_PyEval_EvalFrameDefault", NULL};
    struct function *function;
    struct index_function found;
    HASH_FIND(hh, profile->functions, key, sizeof *key, function);
    if (function || !(function = calloc(1, sizeof *function)))
        return function;
    memcpy(&function->key, key, sizeof *key);
    function->number = HASH_COUNT(profile->functions);
    if (key->file && key->start != UINT64_MAX && index_find(key->file->index, key->start, &found)) {
        function->interprets = text_begins_with_one(found.name, interpreters);
        function->starts = function_is_start(found.name);
    }
    HASH_ADD(hh, profile->functions, key, sizeof function->key, function);
    return function;
}

static const struct function *frame_function(struct profile *profile, const struct profile_frame *frame)
{
    struct index_function found;
    struct function_key key;
    memset(&key, 0, sizeof key); /* with its padding: it is hashed */
    key.file = frame->code ? NULL : frame->file;
    key.code = frame->code;
    key.start = UINT64_MAX;
    if (!frame->code && frame->file && frame->file->index && index_find(frame->file->index, frame->address, &found))
        key.start = found.address;
    return function_of(profile, &key);
}

/* ---- the tree ---- */

struct branch { /* where a stack is put into it, from outside */
    struct profile *profile;
    struct node *node; /* NULL: none yet */
    int64_t parent;
    bool full, counts; /* counts: it is of processor time */
};

static void branch_grow(struct branch *branch, const struct function *function)
{
    struct profile *profile = branch->profile;
    struct node *node;
    struct node_key key;
    if (branch->full || !function) {
        branch->full = true;
        return;
    }
    memset(&key, 0, sizeof key);
    key.parent = branch->parent;
    key.function = function->number;
    HASH_FIND(hh, profile->nodes, &key, sizeof key, node);
    if (!node && HASH_COUNT(profile->nodes) < NODES_MOST && (node = calloc(1, sizeof *node))) {
        memcpy(&node->key, &key, sizeof key);
        node->number = HASH_COUNT(profile->nodes);
        HASH_ADD(hh, profile->nodes, key, sizeof node->key, node);
    }
    branch->full = !node;
    branch->node = node ? node : branch->node;
    branch->parent = node ? node->number : branch->parent;
}

/* A sample was in that line of the branch's last function. */
static void branch_line(struct branch *branch, uint32_t number, bool innermost)
{
    struct profile *profile = branch->profile;
    struct line *line;
    struct line_key key;
    if (!number || branch->full || !branch->counts)
        return;
    memset(&key, 0, sizeof key);
    key.function = branch->node->key.function;
    key.line = number;
    HASH_FIND(hh, profile->lines, &key, sizeof key, line);
    if (!line && HASH_COUNT(profile->lines) < LINES_MOST && (line = calloc(1, sizeof *line))) {
        memcpy(&line->key, &key, sizeof key);
        HASH_ADD(hh, profile->lines, key, sizeof line->key, line);
    }
    if (!line)
        return;
    line->samples += innermost;
    line->all += line->stack != profile->folded;
    line->stack = profile->folded;
}

/* The function with the code of a frame, and those inlined there. */
static void grow_native(struct branch *branch, const struct profile_frame *frame, const struct function *function,
                        bool innermost)
{
    const struct place *place = NULL;
    struct function_key key;
    branch_grow(branch, function);
    if (!frame->file || !frame->file->places ||
        places_find(frame->file->places, frame->address, &place) != PLACES_KNOWN)
        return;
    memset(&key, 0, sizeof key);
    key.start = UINT64_MAX;
    for (uint32_t i = place->count; i-- > 0;) {
        branch_line(branch, place->calls[i].line, false);
        key.code = place->calls[i].code;
        if (key.code)
            branch_grow(branch, function_of(branch->profile, &key));
    }
    branch_line(branch, place->line, innermost);
}

/* The functions of one call of the interpreter, from *at inwards. */
static void grow_python(struct branch *branch, const struct profile_stack *stack, size_t *at)
{
    struct function_key key;
    memset(&key, 0, sizeof key);
    key.start = UINT64_MAX;
    for (bool first = true; *at && (first || !stack->python[*at - 1].entry); first = false) {
        key.code = stack->python[--*at].code;
        branch_grow(branch, function_of(branch->profile, &key));
    }
}

/* How many calls of the interpreter there are: as Python says, and as the native frames do. */
static size_t count_entries(const struct profile_stack *stack)
{
    size_t count = 0;
    for (size_t i = 0; i < stack->python_count; i++)
        count += stack->python[i].entry || i + 1 == stack->python_count;
    return count;
}

static size_t count_interpreters(struct profile *profile, const struct profile_stack *stack, size_t *ret_outermost)
{
    size_t count = 0;
    for (size_t i = 0; i < stack->count; i++) {
        const struct function *function = frame_function(profile, &stack->frames[i]);
        if (!function || !function->interprets)
            continue;
        *ret_outermost = i;
        count++;
    }
    return count;
}

/* Both were not read at the same moment. What lies outside moves least, so calls of the interpreter are counted from there;
 * where the native frames end before the outermost, from inside. */
static void grow_both(struct branch *branch, const struct profile_stack *stack, size_t from)
{
    size_t outermost = stack->count, at = stack->python_count, entries = count_entries(stack);
    size_t interpreters = count_interpreters(branch->profile, stack, &outermost);
    const struct image_file *python = outermost < stack->count ? stack->frames[outermost].file : NULL;
    bool embedded = false;
    for (size_t i = stack->count; i-- > outermost + 1;) { /* it is a part of another program */
        const struct function *function = frame_function(branch->profile, &stack->frames[i]);
        embedded |= stack->whole && function && stack->frames[i].file != python && !function->starts;
    }
    for (size_t i = interpreters; !stack->whole && i < entries; i++)
        grow_python(branch, stack, &at);
    for (size_t i = stack->count; i-- > from;) {
        const struct function *function = frame_function(branch->profile, &stack->frames[i]);
        if (function && function->interprets)
            grow_python(branch, stack, &at);
        else if (stack->frames[i].file != python && (i < outermost || embedded))
            grow_native(branch, &stack->frames[i], function, i == 0 && !stack->in_kernel);
    }
}

/* What a thread waits in are libraries; who has called them is of interest. *inout_what: MPI is known by its functions. Returns
 * the innermost frame of those that count. */
static size_t waiting_from(struct profile *profile, const struct profile_stack *stack, enum waiting_for *inout_what)
{
    static const char *const mpi[] = {"MPI_", "PMPI_", "mpi_", "pmpi_", NULL};
    struct index_function found;
    size_t from = 0;
    for (size_t i = 0; i < stack->count; i++) {
        const struct profile_frame *frame = &stack->frames[i];
        if (frame->file && frame->file->index && index_find(frame->file->index, frame->address, &found) &&
            text_begins_with_one(found.name, mpi)) {
            *inout_what = WAITING_MPI;
            from = i + 1;
        }
    }
    while (
        from < stack->count && stack->frames[from].file &&
        (module_is_on_the_way(stack->frames[from].file->path) || thread_file_is_of_mpi(stack->frames[from].file->path)))
        from++;
    return from < stack->count || stack->python_count ? from : 0;
}

static void node_wait(struct profile *profile, const struct node *node, enum waiting_for what, uint64_t ns)
{
    struct wait *wait;
    struct wait_key key;
    memset(&key, 0, sizeof key);
    key.node = node->number;
    key.what = what;
    HASH_FIND(hh, profile->waits, &key, sizeof key, wait);
    if (!wait && (wait = calloc(1, sizeof *wait))) {
        memcpy(&wait->key, &key, sizeof key);
        HASH_ADD(hh, profile->waits, key, sizeof wait->key, wait);
    }
    if (wait)
        wait->ns += ns;
}

/* A thread has come to more of a node. */
static void thread_share(struct profile *profile, uint32_t number, uint32_t node, uint64_t samples, uint64_t ns)
{
    struct thread *thread;
    struct share *share;
    HASH_FIND(hh, profile->threads, &number, sizeof number, thread);
    if (!thread)
        return;
    const struct share_key key = {thread->at, node};
    thread->samples += samples;
    thread->waited_ns += ns;
    HASH_FIND(hh, profile->shares, &key, sizeof key, share);
    if (!share && HASH_COUNT(profile->shares) < SHARES_MOST && (share = calloc(1, sizeof *share))) {
        share->key = key;
        thread->shares++;
        HASH_ADD(hh, profile->shares, key, sizeof share->key, share);
    }
    if (!share) {
        thread->cut = true;
        return;
    }
    share->samples += samples;
    share->ns += ns;
}

static void stack_fold(struct profile *profile, const struct profile_stack *stack)
{
    enum waiting_for what = stack->what;
    size_t from = what ? waiting_from(profile, stack, &what) : 0;
    struct branch branch = {.profile = profile, .parent = -1 - (int64_t)stack->process, .counts = !what};
    struct function_key key;
    memset(&key, 0, sizeof key);
    key.start = UINT64_MAX;
    profile->folded++;
    if (stack->python_count)
        grow_both(&branch, stack, from);
    for (size_t i = stack->python_count ? 0 : stack->count; i-- > from;)
        grow_native(&branch, &stack->frames[i], frame_function(profile, &stack->frames[i]),
                    i == 0 && !stack->in_kernel);
    if (!branch.node && !stack->in_kernel)
        branch_grow(&branch, function_of(profile, &key));
    key.kernel = true;
    if (stack->in_kernel)
        branch_grow(&branch, function_of(profile, &key));
    if (branch.node && what) {
        node_wait(profile, branch.node, what, stack->waited_ns);
        spans_wait(&profile->spans, stack->time_ns, stack->waited_ns, branch.node->number);
        thread_share(profile, stack->thread, branch.node->number, 0, stack->waited_ns);
    } else if (branch.node) {
        branch.node->samples += stack->weight;
        spans_add(&profile->spans, stack->time_ns, branch.node->number, stack->weight);
        thread_share(profile, stack->thread, branch.node->number, stack->weight, 0);
    } else {
        profile->left_out++;
    }
}

/* Looks at all frames: what is not known of them is asked for. */
static bool is_known(const struct profile_stack *stack)
{
    bool known = true;
    for (size_t i = 0; i < stack->count; i++) {
        const struct image_file *file = stack->frames[i].file;
        const struct place *place;
        if (file && file->state != FILE_DONE)
            known = false;
        else if (file && file->places)
            known &= places_find(file->places, stack->frames[i].address, &place) != PLACES_WANTED;
    }
    return known;
}

static void fold_list(struct profile *profile, struct profile_stack *list, bool all)
{
    for (struct profile_stack *stack = list, *next; stack; stack = next) {
        next = stack->next;
        if (!all && !is_known(stack)) {
            stack->next = profile->unknown;
            profile->unknown = stack;
            continue;
        }
        stack_fold(profile, stack);
        profile->waiting--;
        free(stack);
    }
}

void profile_fold(struct profile *profile, enum profile_fold which)
{
    struct profile_stack *first = profile->first, *unknown = profile->unknown;
    profile->first = NULL;
    profile->last = &profile->first;
    if (which != FOLD_NEW)
        profile->unknown = NULL;
    if (which != FOLD_NEW)
        fold_list(profile, unknown, which == FOLD_ALL);
    fold_list(profile, first, which == FOLD_ALL);
}

static json_t *function_json(const struct function *function)
{
    const struct function_key *key = &function->key;
    struct index_function found;
    if (key->kernel)
        return json_pack("[s, s, s, i, s]", "kernel", "", "", 0, "kernel");
    if (key->code)
        return json_pack("[o, o, o, I, s]", text_json(key->code->function ? key->code->function : ""),
                         text_json(key->code->module ? key->code->module->path : ""),
                         text_json(key->code->file ? key->code->file : ""), (json_int_t)key->code->line,
                         key->code->language);
    if (!key->file)
        return json_pack("[n, s, s, i]", "", "", 0);
    if (key->start == UINT64_MAX || !index_find(key->file->index, key->start, &found))
        return json_pack("[n, o, s, i]", text_json(key->file->path), "", 0);
    struct span name = name_without_clone(span_str(found.name)); /* what the compiler made of it is it */
    _cleanup_(freep) char *own = strndup(name.ptr, name.len);
    return json_pack("[o, o, o, i]", text_json(own ? own : found.name), text_json(key->file->path),
                     text_json(found.file), (int)found.line);
}

/* ---- threads ---- */

static int by_time(const void *a, const void *b)
{
    const struct thread *left = *(const struct thread *const *)a, *right = *(const struct thread *const *)b;
    if (left->samples != right->samples)
        return left->samples > right->samples ? -1 : 1;
    if (left->waited_ns != right->waited_ns)
        return left->waited_ns > right->waited_ns ? -1 : 1;
    return left->at < right->at ? -1 : left->at > right->at;
}

/* Those that ran or waited, of processes in which others than the first did: busiest first. */
static struct thread **threads_chosen(const struct profile *profile, size_t *ret_count)
{
    struct thread **list = calloc(HASH_COUNT(profile->threads) + 1, sizeof *list);
    _cleanup_(freep) uint32_t *own = calloc(HASH_COUNT(profile->processes) + 1, sizeof *own);
    size_t count = 0;
    for (struct thread *thread = profile->threads; list && own && thread; thread = thread->hh.next)
        own[thread->process] += thread->samples || thread->waited_ns ? (thread->first ? 1 : 2) : 0;
    for (struct thread *thread = profile->threads; list && own && thread; thread = thread->hh.next)
        if ((thread->samples || thread->waited_ns) && own[thread->process] > 1)
            list[count++] = thread;
    if (count)
        qsort(list, count, sizeof *list, by_time);
    *ret_count = count < THREADS_PUT ? count : THREADS_PUT;
    return list;
}

static json_t *threads_json(const struct profile *profile)
{
    size_t count, put = 0;
    _cleanup_(freep) struct thread **list = threads_chosen(profile, &count);
    _cleanup_(freep) json_t **cells = calloc(HASH_COUNT(profile->threads) + 1, sizeof *cells); /* borrowed */
    json_t *threads = json_array();
    for (size_t i = 0; list && cells && i < count; i++) {
        const struct thread *thread = list[i];
        bool whole = !thread->cut && put + thread->shares <= SHARES_PUT;
        json_t *own = whole ? json_array() : json_null();
        put += whole ? thread->shares : 0;
        if (whole)
            cells[thread->at] = own;
        json_array_append_new(threads, json_pack("[I, i, o, I, f, o]", (json_int_t)thread->process, (int)thread->tid,
                                                 text_json(thread->name), (json_int_t)thread->samples,
                                                 (double)thread->waited_ns / NS_PER_SECOND, own));
    }
    for (const struct share *share = put ? profile->shares : NULL; share; share = share->hh.next) {
        json_t *own = cells[share->key.thread];
        if (!own)
            continue;
        json_array_append_new(own, json_integer(share->key.node));
        json_array_append_new(own, json_integer((json_int_t)share->samples));
        json_array_append_new(own, json_integer((json_int_t)(share->ns / WAITS_NS_PER_MS)));
    }
    return threads;
}

void profile_put(struct profile *profile, json_t *object)
{
    json_t *functions = json_array(), *processes = json_array(), *nodes = json_array(), *lines = json_array(),
           *waits = json_array();
    for (const struct function *function = profile->functions; function; function = function->hh.next)
        json_array_append_new(functions, function_json(function));
    for (const struct sampled *process = profile->processes; process; process = process->hh.next)
        json_array_append_new(processes, json_pack("[i, o, I]", (int)process->pid, text_json(process->name),
                                                   (json_int_t)process->samples));
    for (const struct node *node = profile->nodes; node; node = node->hh.next)
        json_array_append_new(nodes, json_pack("[I, i, I]", (json_int_t)node->key.parent, (int)node->key.function,
                                               (json_int_t)node->samples));
    for (const struct line *line = profile->lines; line; line = line->hh.next)
        json_array_append_new(lines,
                              json_pack("[I, I, I, I]", (json_int_t)line->key.function, (json_int_t)line->key.line,
                                        (json_int_t)line->samples, (json_int_t)line->all));
    for (const struct wait *wait = profile->waits; wait; wait = wait->hh.next)
        json_array_append_new(waits, json_pack("[i, s, f]", (int)wait->key.node, waiting_word(wait->key.what),
                                               (double)wait->ns / NS_PER_SECOND));
    json_object_set_new(object, "samples", json_integer((json_int_t)profile->samples));
    if (profile->left_out)
        json_object_set_new(object, "left_out", json_integer((json_int_t)profile->left_out));
    json_object_set_new(object, "functions", functions);
    json_object_set_new(object, "processes", processes);
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "lines", lines);
    json_object_set_new(object, "waits", waits);
    json_object_set_new(object, "spans", spans_json(&profile->spans));
    json_object_set_new(object, "threads", threads_json(profile));
}
