/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jumps for functions that were compiled without hooks, and that the settings name: scry-symbols makes them
 * (symbols/client/helper.h, `patches`), module by module, and here they are laid where the agent finds them (struct area_patches).
 * It puts them in place as main is let go. What is named later is patched no more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "monitor/engine/monitor.h"
#include "monitor/recorder/agent.h"
#include "symbols/client/helper.h"

/* Stubs of a function take some 50 bytes, at most this. */
enum { STUB_BYTES = 128, STUBS_PAGE = 4096 };

struct wanted { /* a function, in the file */
    uint64_t address, size;
    size_t module; /* of agent_mapped */
};

struct agent_patching {
    struct agent *agent;
    struct helper_job *job;
    struct wanted *wanted;
    size_t count, room, taken; /* taken: those before it are done, or the job's */
    bool over;                 /* main was let go, or there is nothing more to come */
    /* of the module that the job is at */
    uint64_t stubs, size;
    struct buf items, code;
    size_t first;     /* of wanted */
    struct buf jumps; /* uint64_t: where they are */
    /* what could not be */
    size_t failed;
    uint64_t failed_at;
    char reason[96];
    bool told;
};

/* ---- which ---- */

static bool starts_with_one(const char *text, const char *const *starts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* Where a jump or another return address than the true one would change what the program does: those that come back twice, or on
 * another stack; that look at who called them, and for whom they look. */
static bool is_untouchable(const char *name)
{
    static const char *const names[] = {"_init",
                                        "_fini",
                                        "_start",
                                        "frame_dummy",
                                        "register_tm_clones",
                                        "deregister_tm_clones",
                                        "__do_global_dtors_aux",
                                        "_dl_relocate_static_pie",
                                        "__libc_start_main",
                                        "setjmp",
                                        "_setjmp",
                                        "__setjmp",
                                        "__sigsetjmp",
                                        "sigsetjmp",
                                        "longjmp",
                                        "_longjmp",
                                        "siglongjmp",
                                        "__longjmp",
                                        "____longjmp_chk",
                                        "__longjmp_chk",
                                        "vfork",
                                        "__vfork",
                                        "__libc_vfork",
                                        "getcontext",
                                        "__getcontext",
                                        "setcontext",
                                        "__setcontext",
                                        "swapcontext",
                                        "__swapcontext",
                                        "__start_context",
                                        "clone",
                                        "__clone",
                                        "clone3",
                                        "__clone3",
                                        "__restore_rt",
                                        "dlopen",
                                        "dlmopen",
                                        "dlsym",
                                        "dlvsym",
                                        "___dlopen",
                                        "___dlmopen",
                                        "___dlsym",
                                        "___dlvsym",
                                        "dl_iterate_phdr",
                                        "mcount",
                                        "_mcount",
                                        "__mcount_internal",
                                        "__fentry__",
                                        "__cyg_profile_func_enter",
                                        "__cyg_profile_func_exit",
                                        "__tls_get_addr"};
    static const char *const within[] = {"__tsan",      "__asan",   "__lsan",       "__ubsan", "__msan",
                                         "__sanitizer", "__hwasan", "interceptor_", ".cold"};
    static const char *const starts[] = {
        "uw_",           "execute_cfa_program", "execute_stack_op", "__frame_state_for", "init_dwarf_reg_size",
        "__morestack",   "__generic_morestack", "__splitstack_",    "_Unwind_",          "_dl_",
        "jump_fcontext", "make_fcontext",       "ontop_fcontext"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    if (starts_with_one(name, starts, sizeof starts / sizeof *starts))
        return true;
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (strstr(name, within[i]))
            return true;
    return false;
}

bool agent_module_patched(const struct agent *agent, size_t module)
{
    static const char *const others[] = {"ld-linux", "ld-2.",       "ld-musl",  "linux-vdso", "[vdso]",
                                         "libscry-", "scry-",       "libasan",  "libtsan",    "liblsan",
                                         "libubsan", "libclang_rt", "vgpreload"};
    const struct module *its = &agent->mapped->modules[module];
    const struct index *index = agent->mapped->indexes[module] ? agent->mapped->indexes[module]->index : NULL;
    return agent->patching && *its->path && index && index_count(index) && !agent_module_hooked(agent, module) &&
           !starts_with_one(its->name, others, sizeof others / sizeof *others) && strcmp(its->name, "scry") != 0;
}

/* Nobody means the C library's functions by a wildcard, nor those of a shell or a launcher. */
bool agent_module_is_system(const struct module *module)
{
    static const char *const folders[] = {"/lib/",     "/lib64/",    "/usr/lib/", "/usr/lib64/",  "/bin/",
                                          "/usr/bin/", "/usr/sbin/", "/sbin/",    "/usr/libexec/"};
    return starts_with_one(module->path, folders, sizeof folders / sizeof *folders);
}

static int compare_wanted(const void *left, const void *right)
{
    const struct wanted *a = left, *b = right;
    return a->module != b->module     ? a->module < b->module ? -1 : 1
           : a->address != b->address ? a->address < b->address ? -1 : 1
                                      : 0;
}

bool agent_patch_can(const struct index_function *function)
{
    return function->size && !is_untouchable(function->linkage) && !is_untouchable(function->name);
}

bool agent_patch_want(struct agent *agent, size_t module, const struct index_function *function)
{
    struct agent_patching *patching = agent->patching;
    if (patching->over)
        return true;
    if (!GROW(patching->wanted, patching->count, patching->room))
        return false;
    patching->wanted[patching->count++] = (struct wanted){function->address, function->size, module};
    return true;
}

/* ---- one module after the other ---- */

/* Room within 2 GiB of the module, where nothing is mapped, and nothing grows to: 1 GiB below it, for libraries and the agent's memory
 * are mapped from above downwards; or, where a program lies too low for that, as far above, behind its heap. 0: none. */
static uint64_t stubs_find(pid_t pid, const struct module *module, uint64_t size)
{
    const uint64_t lowest = 1 << 20, apart = 1 << 30, reach = UINT64_C(2000) << 20;
    struct proc_maps maps;
    uint64_t found = 0;
    if (proc_maps_read(pid, &maps) < 0)
        return 0;
    for (size_t i = maps.count; i-- > 0 && !found;) {
        uint64_t low = i ? maps.maps[i - 1].end : lowest, high = maps.maps[i].start;
        if (high <= module->start && high > apart + size && high - apart - size >= low)
            found = (high - apart - size) & -(uint64_t)STUBS_PAGE;
    }
    for (size_t i = 0; i + 1 < maps.count && !found; i++) {
        uint64_t low = maps.maps[i].end + apart, high = maps.maps[i + 1].start;
        if (low > module->end && low + size < high)
            found = low;
    }
    proc_maps_done(&maps);
    uint64_t furthest = found < module->start ? module->end - found : found + size - module->start;
    return found && furthest <= reach ? found : 0;
}

static void failed(struct agent_patching *patching, uint64_t address, const char *reason, size_t count)
{
    patching->failed += count;
    if (patching->failed == count && count) {
        const struct wanted *first = &patching->wanted[patching->taken ? patching->taken - 1 : 0];
        patching->failed_at = address + patching->agent->mapped->modules[first->module].bias;
        snprintf(patching->reason, sizeof patching->reason, "%s", reason);
    }
}

static void item_add(struct agent_patching *patching, const struct helper_answer *answer)
{
    struct area_patch item = {.at = answer->size};
    uint64_t offset = answer->stub - patching->stubs, stub = answer->code_size - 2 * AREA_JUMP;
    if (answer->code_size < 2 * AREA_JUMP || offset > patching->size || stub > patching->size - offset ||
        offset < patching->code.len)
        return;
    static const char zeros[64];
    while (patching->code.len < offset && !patching->code.failed) {
        size_t gap = offset - patching->code.len;
        buf_append(&patching->code, zeros, gap < sizeof zeros ? gap : sizeof zeros);
    }
    memcpy(item.before, answer->code, AREA_JUMP);
    memcpy(item.after, (const char *)answer->code + AREA_JUMP, AREA_JUMP);
    buf_append(&patching->code, (const char *)answer->code + 2 * AREA_JUMP, stub);
    buf_append(&patching->items, &item, sizeof item);
    buf_append(&patching->jumps, &item.at, sizeof item.at);
}

static void module_finish(struct agent_patching *patching)
{
    struct agent *agent = patching->agent;
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    struct area_patches head = {.next = atomic_load(&agent->view.area->patches),
                                .stubs = patching->stubs,
                                .stubs_size = (uint32_t)((patching->code.len + STUBS_PAGE - 1) & -(uint64_t)STUBS_PAGE),
                                .code_size = (uint32_t)patching->code.len,
                                .count = (uint32_t)(patching->items.len / sizeof(struct area_patch))};
    buf_append(&all, &head, sizeof head);
    buf_append(&all, patching->items.data, patching->items.len);
    buf_append(&all, patching->code.data, patching->code.len);
    all.failed |= patching->items.failed || patching->code.failed;
    uint32_t at = head.count && !all.failed ? agent_program_put(agent, all.data, all.len) : 0;
    if (at)
        atomic_store(&agent->view.area->patches, at);
    if (at && agent->job)
        agent->job->hooked = true;
    else if (head.count)
        failed(patching, patching->wanted[patching->first].address, "there is no room for so many", head.count);
    buf_done(&patching->items);
    buf_done(&patching->code);
}

static void next_module(struct agent_patching *patching);

static void patches_answer(void *ctx, const struct helper_answer *answer)
{
    struct agent_patching *patching = ctx;
    struct agent *agent = patching->agent;
    if (!answer) {
        patching->job = NULL;
        if (agent->ended)
            return;
        module_finish(patching);
        next_module(patching);
        if (!patching->job)
            agent_settle(agent);
    } else if (answer->kind == HELPER_PATCH) {
        item_add(patching, answer);
    } else if (answer->kind == HELPER_UNPATCHED) {
        failed(patching, answer->address, answer->text, 1);
    } else if (answer->kind == HELPER_FAILED) {
        failed(patching, patching->wanted[patching->first].address, answer->text, patching->taken - patching->first);
    }
}

static void put_function(struct buf *out, const struct wanted *wanted)
{
    buf_printf(out, "function\t0x%llx\t%llu\n", (unsigned long long)wanted->address, (unsigned long long)wanted->size);
}

static void next_module(struct agent_patching *patching)
{
    struct agent *agent = patching->agent;
    while (patching->taken < patching->count && !patching->job) {
        size_t first = patching->first = patching->taken, module = patching->wanted[first].module;
        struct buf request = BUF_INIT;
        char bias[24], stubs[24], size[24];
        while (patching->taken < patching->count && patching->wanted[patching->taken].module == module)
            patching->taken++;
        if (module >= agent->mapped->count)
            break;
        const struct module *its = &agent->mapped->modules[module];
        patching->size = ((patching->taken - first + 1) * STUB_BYTES + STUBS_PAGE - 1) & -(uint64_t)STUBS_PAGE;
        patching->stubs = stubs_find(agent->pid, its, patching->size);
        snprintf(bias, sizeof bias, "0x%llx", (unsigned long long)its->bias);
        snprintf(stubs, sizeof stubs, "0x%llx", (unsigned long long)patching->stubs);
        snprintf(size, sizeof size, "%llu", (unsigned long long)patching->size);
        helper_line(&request, "file", its->path, NULL);
        helper_line(&request, "place", bias, stubs, size, NULL);
        for (size_t i = first; i < patching->taken; i++)
            if (i == first || patching->wanted[i].address != patching->wanted[i - 1].address)
                put_function(&request, &patching->wanted[i]);
        helper_line(&request, "end", NULL);
        if (patching->stubs)
            patching->job =
                helper_start_at_once(agent->agents, "patches", &request, HELPER_TIME_NS, patches_answer, patching);
        else
            failed(patching, patching->wanted[first].address, "there is no room near it", patching->taken - first);
        buf_done(&request);
    }
}

void agent_patch(struct agent *agent)
{
    struct agent_patching *patching = agent->patching;
    if (!patching || patching->over || patching->job)
        return;
    patching->over = true; /* all that is wanted at the start was said at once */
    qsort(patching->wanted, patching->count, sizeof *patching->wanted, compare_wanted);
    next_module(patching);
}

/* ---- its life ---- */

bool agent_patching_new(struct agent *agent, const struct agent *parent)
{
    const struct agent_patching *its = parent ? parent->patching : NULL;
    agent->patching = calloc(1, sizeof *agent->patching);
    if (!agent->patching)
        return false;
    *agent->patching = (struct agent_patching){.agent = agent, .over = its != NULL};
    if (its)
        buf_append(&agent->patching->jumps, its->jumps.data, its->jumps.len);
    return true;
}

bool agents_in_jump(struct monitor *monitor, pid_t pid, uint64_t address)
{
    const struct agent *agent = monitor->agents ? agents_find(monitor->agents, pid) : NULL;
    const struct buf *jumps = agent && agent->patching ? &agent->patching->jumps : NULL;
    for (size_t i = 0; jumps && i < jumps->len / sizeof(uint64_t); i++) {
        uint64_t at;
        memcpy(&at, jumps->data + i * sizeof at, sizeof at);
        if (address > at && address < at + AREA_JUMP)
            return true;
    }
    return false;
}

bool agent_patches(const struct agent *agent)
{
    return agent->patching && agent->patching->job;
}

void agent_patching_free(struct agent *agent)
{
    struct agent_patching *patching = agent->patching;
    if (!patching)
        return;
    helper_cancel(patching->job);
    buf_done(&patching->items);
    buf_done(&patching->code);
    buf_done(&patching->jumps);
    free(patching->wanted);
    free(patching);
    agent->patching = NULL;
}

/* Said once, when it is known. */
void agent_patching_tell(struct agent *agent)
{
    static const char *const reasons[] = {
        [AREA_PATCH_REFUSED] = "the kernel does not let the program's code be changed",
        [AREA_PATCH_NO_ROOM] = "there is no memory near its code",
        [AREA_PATCH_THREADS] = "the program had threads before main",
        [AREA_PATCH_DEBUGGER] = "a debugger had started it",
        [AREA_PATCH_SHADOW] = "the processor guards its return addresses (shadow stack)",
    };
    struct agent_patching *patching = agent->patching;
    uint32_t how = atomic_load(&agent->view.area->patching);
    uint64_t unseen = atomic_load(&agent->view.area->exits_unseen);
    if (!patching || !agent->writer)
        return;
    if (unseen && agent->ended)
        trace_writer_problem(agent->writer, &NOTE(exits_unseen, .calls = unseen));
    bool laid = atomic_load(&agent->view.area->patches); /* else the agent has nothing to say */
    if (patching->told || patching->job || (laid && how == AREA_PATCHED_NOT))
        return;
    patching->told = true;
    if (how < sizeof reasons / sizeof *reasons && reasons[how]) {
        trace_writer_problem(agent->writer, &NOTE(patching_failed, .program = agent->exe, .reason = reasons[how]));
    } else if (patching->failed) {
        struct buf name = BUF_INIT;
        if (!agent_name_address(agent, patching->failed_at, &name))
            buf_printf(&name, "0x%llx", (unsigned long long)patching->failed_at);
        trace_writer_problem(agent->writer,
                             &NOTE(functions_unpatched, .count = patching->failed, .all = patching->count,
                                   .function = name.data ? name.data : "", .reason = patching->reason));
        buf_done(&name);
    }
}
