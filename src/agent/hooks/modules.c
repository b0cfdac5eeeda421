/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that come and go while the program runs, and other programs that take its place.
 *
 * dlopen looks at who called it, so nothing can be done after it. It leaves a mark, and the program's next step, which
 * nearly always is dlsym, dlopen or dlclose, has the monitor look at what is there now before it goes on.
 */

#include "agent/safety/act.h"
#include "agent/hooks/agent.h"
#include "agent/system/imports.h"
#include "agent/hooks/mpi.h"
#include "agent/hooks/connect.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"
#include "agent/system/world.h"
#include "shm/waits.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
    TIMEOUTS_MOST = 3
}; /* waits in vain, then there are no more; a monitor that is stopped counts for all of them */

static _Atomic bool opened; /* dlopen was called since we looked */
static _Thread_local bool opened_here __attribute__((tls_model("initial-exec"))); /* by this thread */
static _Thread_local bool unseen_here __attribute__((tls_model("initial-exec"))); /* and no function of it was called */
static _Atomic uint32_t timeouts;

/* The C library's own dlsym, which ours cannot be used to find. */
static void *(*real_dlsym(void))(void *, const char *)
{
    static _Atomic(void *) known;
    void *found = atomic_load_explicit(&known, memory_order_relaxed);
    if (!found) {
        found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!found)
            found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        atomic_store(&known, found);
    }
    return (void *(*)(void *, const char *))found;
}

void *(*agent_dlsym(void))(void *, const char *)
{
    return real_dlsym();
}

void *agent_next(const char *name)
{
    return real_dlsym()(RTLD_NEXT, name);
}

static _Thread_local uint64_t answer __attribute__((tls_model("initial-exec")));

static uint64_t answer_give(void)
{
    return answer;
}

void *modules_answer(uint64_t value)
{
    answer = value;
    return (void *)answer_give;
}

/* ---- looking again ---- */

static int count_changes(struct dl_phdr_info *object, size_t size, void *ctx)
{
    *(uint64_t *)ctx = object->dlpi_adds + object->dlpi_subs;
    return 1;
}

static _Atomic uint64_t seen_changes;

static bool changed(void)
{
    uint64_t now = 0;
    dl_iterate_phdr(count_changes, &now);
    return atomic_exchange(&seen_changes, now) != now;
}

static void wait_seen(struct area *area, uint32_t number)
{
    const struct wait_policy *policy = &wait_policies[WAIT_SEEN];
    uint64_t since_ns = agent_now_ns();
    struct wait_seen seen = {.state = 0};
    while (atomic_load(&timeouts) < TIMEOUTS_MOST && !waits_is_dead(seen.state = agent_monitor_state())) {
        uint32_t done = atomic_load(&area->modules_seen);
        if ((int32_t)(done - number) >= 0)
            return;
        seen.passed_ns = agent_now_ns() - since_ns;
        enum wait_verdict verdict = waits_judge(policy, &seen);
        if (verdict != WAIT_ON) {
            atomic_fetch_add(&timeouts, verdict == WAIT_LATE ? 1 : TIMEOUTS_MOST);
            return;
        }
        agent_sleep_on(&area->modules_seen, done, waits_slice_ns(policy, &seen));
    }
}

void modules_announce(struct area *area)
{
    uint32_t number = atomic_fetch_add(&area->modules, 1) + 1;
    agent_ring();
    wait_seen(area, number);
}

/* The objects with hooks for which was waited last, and how many had been closed: only when there are others is waited
 * again. A program may open dozens of libraries that have none. */
static _Atomic uint64_t waited_for;

/* ---- libraries that are closed ---- */

/*
 * Another one may be mapped at the same address, and must not inherit what is known by address: so the slots of a
 * library's functions are closed with it (AREA_CLOSED), before that can happen.
 */
enum { SPARE = 16 };

struct closing_object {
    uint64_t name, start, end;
    bool gone, replaced;
};

struct closing {                    /* of one call of dlclose */
    struct closing_object *objects; /* with hooks, that were there before; NULL: nobody is to hear of it */
    uint32_t count, cap;
};

static _Atomic int32_t closer; /* the thread whose dlclose is under way; one of several */
static _Atomic uint32_t marking;

static void object_fill(const struct dl_phdr_info *info, struct closing_object *ret_object)
{
    *ret_object = (struct closing_object){.name = agent_object_name(info), .start = UINT64_MAX, .gone = true};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD)
            continue;
        ret_object->start = start < ret_object->start ? start : ret_object->start;
        ret_object->end = start + part->p_memsz > ret_object->end ? start + part->p_memsz : ret_object->end;
    }
}

static int closing_count(struct dl_phdr_info *info, size_t size, void *ctx)
{
    ++*(uint32_t *)ctx;
    return 0;
}

static int closing_note(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct closing *closing = ctx;
    if (closing->count < closing->cap && agent_object_imports_hooks(info))
        object_fill(info, &closing->objects[closing->count++]);
    return 0;
}

static int closing_compare(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct closing *closing = ctx;
    struct closing_object now;
    object_fill(info, &now);
    for (uint32_t i = 0; i < closing->count; i++) {
        struct closing_object *object = &closing->objects[i];
        if (object->start == now.start && object->name == now.name)
            object->gone = false;
        else if (object->start < now.end && now.start < object->end)
            object->replaced = true;
    }
    return 0;
}

static void closing_begin(struct closing *ret_closing)
{
    struct area *area = agent_hot.area;
    uint32_t count = 0;
    *ret_closing = (struct closing){0};
    if (!area)
        return;
    dl_iterate_phdr(closing_count, &count);
    count += SPARE;
    long at = sys_call6(SYS_mmap, 0, (long)(count * sizeof *ret_closing->objects), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at > -4096)
        return;
    *ret_closing = (struct closing){.objects = (struct closing_object *)at, .cap = count};
    dl_iterate_phdr(closing_note, ret_closing);
    atomic_fetch_add(&area->closing, 1);
    atomic_store(&closer, (int32_t)sys_call0(SYS_gettid));
}

static bool object_has(const struct closing_object *object, uint64_t address)
{
    return address >= object->start && address < object->end;
}

/* First its number: a slot that is made from here on is not taken for one of the library's. */
static void close_slots(struct area *area, const struct closing_object *object)
{
    uint32_t number = atomic_load(&area->closes) + 1;
    _Atomic uint64_t *range = area->closings[number % AREA_CLOSINGS];
    atomic_store(&range[0], object->start);
    atomic_store(&range[1], object->end);
    atomic_store(&area->closes, number);
    for (uint32_t i = 0; i < agent_hot.view.place_end; i++) {
        struct area_place *place = &agent_hot.view.places[i];
        uint64_t callsite = atomic_load_explicit(&place->callsite, memory_order_relaxed);
        if (!object_has(object, callsite) &&
            !object_has(object, atomic_load_explicit(&place->hook, memory_order_relaxed)))
            continue;
        atomic_store(&place->closed, object->replaced ? AREA_CLOSED_UNSURE : number);
        atomic_compare_exchange_strong(&place->callsite, &callsite, callsite | AREA_CLOSED);
    }
    for (uint32_t i = 0; i <= agent_hot.slot_mask; i++) {
        struct area_slot *slot = &agent_hot.slots[i];
        uint64_t function = atomic_load_explicit(&slot->function, memory_order_relaxed);
        if (!object_has(object, function))
            continue;
        atomic_store(&slot->closed, object->replaced ? AREA_CLOSED_UNSURE : number);
        atomic_compare_exchange_strong(&slot->function, &function, function | AREA_CLOSED);
    }
    for (uint32_t i = 0; i < AGENT_QUIET; i++)
        if (object_has(object, atomic_load_explicit(&agent_hot.quiet[i].function, memory_order_relaxed)))
            atomic_store(&agent_hot.quiet[i].function, 0);
}

static void closing_end(struct closing *closing)
{
    struct area *area = agent_hot.area;
    if (!closing->objects)
        return;
    if (area) {
        dl_iterate_phdr(closing_compare, closing);
        while (atomic_exchange(&marking, 1))
            sys_call0(SYS_sched_yield);
        for (uint32_t i = 0; i < closing->count; i++)
            if (closing->objects[i].gone)
                close_slots(area, &closing->objects[i]);
        atomic_store(&marking, 0);
        /* of the area of a parent that was forked meanwhile, nothing is known here */
        uint32_t under_way = atomic_load(&area->closing);
        while (under_way && !atomic_compare_exchange_weak(&area->closing, &under_way, under_way - 1))
            continue;
    }
    atomic_store(&closer, 0);
    sys_call2(SYS_munmap, (long)closing->objects, (long)(closing->cap * sizeof *closing->objects));
}

/* Lets another thread's dlclose finish first, as the C library does, but not for long. */
static void closing_wait(void)
{
    int32_t who = atomic_load(&closer);
    if (!who || who == (int32_t)sys_call0(SYS_gettid))
        return;
    for (uint64_t end = agent_now_ms() + AGENT_CLOSING_MS; atomic_load(&closer) == who && agent_now_ms() < end;)
        sys_call0(SYS_sched_yield);
}

/* ---- constructors that nobody could choose in time ---- */

static bool has_chosen(const struct dl_phdr_info *object)
{
    for (uint32_t i = 0; i <= agent_hot.slot_mask; i++) {
        const struct area_slot *slot = &agent_hot.slots[i];
        uint64_t function = area_slot_live(slot);
        if (function && atomic_load_explicit(&slot->mode, memory_order_relaxed) && agent_object_has(object, function))
            return true;
    }
    return false;
}

/* As modules_announce. Functions that are chosen by name get their slots then: what constructors called before, with no
 * slot of theirs there, nobody has seen. */
static void look_at_opened(struct area *area)
{
    static const char text[] = "calls may be missing: the constructors of a library that it opened ran before "
                               "functions of it could be chosen";
    bool by_name = !atomic_load_explicit(&area->unknown_mode, memory_order_relaxed) && !area->fault[0];
    unsigned before = by_name ? agent_constructed(has_chosen) : 0;
    modules_announce(area);
    if (by_name && !area->fault[0] && agent_constructed(has_chosen) > before)
        raw_copy(area->fault, text, sizeof text);
}

static void look_again(bool wait)
{
    struct area *area = agent_hot.area;
    /* before anything is announced: what another thread opens from here on is not waited for */
    uint64_t hooked = wait && area ? agent_importers() ^ (uint64_t)atomic_load(&area->closes) << 32 : 0;
    bool anew = changed(), waits = wait && area && hooked != atomic_load(&waited_for);
    if (anew) {
        agent_mpi_detect();
        if (fork_waits()) { /* nobody needs to know until it calls something; then this is looked at anew */
            unseen_here = true;
            atomic_store(&seen_changes, UINT64_MAX);
            return;
        }
        if (!area) {
            agent_connect(CONNECT_DLOPEN);
            return;
        }
        agent_read_rescan();
        agent_signals_check();
    }
    if (!area || !(anew || waits))
        return;
    if (waits) {
        look_at_opened(area);
        atomic_store(&waited_for, hooked);
    } else {
        atomic_fetch_add(&area->modules, 1);
        agent_ring();
    }
}

/* Only the monitor is asked, and no lock of the dynamic linker's taken: this may be a signal's handler, too. */
bool modules_came(struct area *area)
{
    if (!unseen_here)
        return false;
    unseen_here = false;
    modules_announce(area);
    return true;
}

static void catch_up(void)
{
    bool here = opened_here;
    opened_here = unseen_here = false;
    if ((atomic_load_explicit(&opened, memory_order_relaxed) && atomic_exchange(&opened, false)) || here)
        look_again(true);
}

static void will_open(void)
{
    catch_up();
    closing_wait();
    opened_here = unseen_here = true;
    atomic_store(&opened, true);
    agent_mpi_opens();
}

NEXT_LATE(dlopen);
void *modules_dlopen(void)
{
    int kept = errno;
    will_open();
    errno = kept;
    return (void *)NEXT(dlopen);
}

NEXT_LATE(dlmopen);
void *modules_dlmopen(void)
{
    int kept = errno;
    will_open();
    errno = kept;
    return (void *)NEXT(dlmopen);
}

void *modules_dlsym(void *handle, const char *name)
{
    int kept = errno;
    void *to = (void *)real_dlsym();
    catch_up();
    /* who asks for the next one stands between, and gets what it would without us */
    if (handle != RTLD_NEXT && agent_mpi_asks(name)) {
        void *found = real_dlsym()(handle, name), *other = found ? agent_mpi_symbol(name, found) : NULL;
        if (other != found)
            to = modules_answer((uint64_t)other);
    }
    errno = kept;
    return to;
}

NEXT_LATE(dlclose);
EXPORTED int dlclose(void *handle)
{
    int before = errno;
    struct closing closing;
    closing_begin(&closing);
    errno = before;
    int result = NEXT(dlclose)(handle), kept = errno;
    closing_end(&closing);
    look_again(false);
    errno = kept;
    return result;
}

void modules_init(uint64_t changes)
{
    atomic_store(&seen_changes, changes);
}

/* ---- stacks ---- */

NEXT_LATE(makecontext);
void *modules_makecontext(const ucontext_t *context)
{
    if (context)
        agent_signals_doubt(context->uc_sigmask.__val[0]);
    if (agent_was_connected && agent_hot.area && context)
        stack_context((uint64_t)context->uc_stack.ss_sp, context->uc_stack.ss_size);
    return (void *)NEXT(makecontext);
}

/* ---- exec ---- */

static bool is_own_process(void)
{
    return agent_hot.area && agent_hot.pid == (int32_t)sys_call0(SYS_getpid);
}

/* What has to be as it would be without us, before the program is replaced; and if that failed, again as it was. In a
 * child of vfork, which shares our memory, only the signal mask is its own. */
static unsigned exec_begin(void)
{
    unsigned before = agent_signals_exec();
    if (is_own_process()) {
        agent_read_done();
        atomic_store(&agent_hot.area->left, agent_ticks());
    }
    return before;
}

static int exec_failed(unsigned before)
{
    int kept = errno;
    if (is_own_process())
        atomic_store(&agent_hot.area->left, 0);
    agent_signals_exec_failed(before);
    errno = kept;
    return -1;
}

#define EXEC(name, parameters, arguments) \
    NEXT_EARLY(name); \
    EXPORTED int name parameters \
    { \
        if (!agent_was_connected) \
            return NEXT(name) arguments; \
        unsigned before = exec_begin(); \
        NEXT(name) arguments; \
        return exec_failed(before); \
    }

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
EXEC(execveat, (int fd, const char *path, char *const argv[], char *const envp[], int flags),
     (fd, path, argv, envp, flags))

/* The arguments as an array on the stack: a child of vfork must not allocate. */
#define COLLECT(count, first, list) \
    size_t count = 1; \
    va_list list; \
    va_start(list, first); \
    while (va_arg(list, const char *)) \
        count++; \
    va_end(list); \
    char *argv[count + 1]; \
    va_start(list, first); \
    argv[0] = (char *)(uintptr_t)first; \
    for (size_t i = 1; i <= count; i++) \
        argv[i] = va_arg(list, char *);

EXPORTED int execl(const char *path, const char *arg, ...)
{
    COLLECT(count, arg, list)
    va_end(list);
    return execv(path, argv);
}

EXPORTED int execlp(const char *file, const char *arg, ...)
{
    COLLECT(count, arg, list)
    va_end(list);
    return execvp(file, argv);
}

EXPORTED int execle(const char *path, const char *arg, ...)
{
    COLLECT(count, arg, list)
    char *const *envp = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, envp);
}

/* The child has the caller's mask. */
#define SPAWN(name) \
    NEXT_EARLY(name); \
    EXPORTED int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, \
                      const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) \
    { \
        if (!agent_was_connected) \
            return NEXT(name)(pid, path, actions, attributes, argv, envp); \
        unsigned before = agent_signals_exec(); \
        int result = NEXT(name)(pid, path, actions, attributes, argv, envp), kept = errno; \
        agent_signals_exec_failed(before); \
        errno = kept; \
        return result; \
    }

SPAWN(posix_spawn)
SPAWN(posix_spawnp)
