/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the monitor and taking over the area; see "the handshake" in shm/area.h. Whatever goes wrong, nothing is done
 * at all, and nothing is reported. Only system calls: the child of a fork comes here, too.
 */
#include "agent/hooks/connect.h"

#include "agent/safety/act.h"
#include "agent/hooks/agent.h"
#include "agent/safety/crash.h"
#include "agent/safety/moves.h"
#include "agent/system/imports.h"
#include "agent/system/large.h"
#include "agent/hooks/mpi_host.h"
#include "agent/hooks/mpi.h"
#include "agent/hooks/patched.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"
#include "agent/safety/timeout.h"
#include "agent/safety/values.h"
#include "agent/system/world.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

_Static_assert(sizeof agent_hot == AREA_PAGE && sizeof agent_filter == 65536, "as in hooks_x86_64.S");
bool agent_was_connected;

enum {
    FDS = 3,
    FD_AREA = 0,
    FD_BELL,
    FD_CELLS,
};

struct connect_settings connect_settings;

/* What the child of a fork may still know, for agent_hot is empty then. */
static struct area_forks *forks; /* NULL: no area was had, here or in a process that this one comes from */
static bool sealed;              /* agent_seal(), in one of these */
static int32_t known_incarnation;
static _Atomic int32_t connecting; /* tid */
static uint64_t known_serial;
static uint32_t connected_user;
static bool forks_thin;     /* in a child of fork that has no area, or had none yet: as its parent's said */
static bool filter_is_open; /* it is what filter_open_make() has made */

/* ---- what hello says ---- */

uint64_t agent_address_room(void)
{
    struct {
        uint64_t now, most;
    } limit = {UINT64_MAX, UINT64_MAX};
    char text[64];
    uint64_t pages = 0;
    if (sys_call4(SYS_prlimit64, 0, 9 /* RLIMIT_AS */, 0, (long)&limit) < 0 || limit.now == UINT64_MAX)
        return UINT64_MAX;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);
    long got = fd < 0 ? 0 : sys_call4(SYS_read, fd, (long)text, sizeof text, 0);
    if (fd >= 0)
        sys_call2(SYS_close, fd, 0);
    for (long i = 0; i < got && text[i] >= '0' && text[i] <= '9'; i++)
        pages = pages * 10 + (uint64_t)(text[i] - '0');
    return limit.now > pages * AREA_PAGE ? limit.now - pages * AREA_PAGE : 0;
}

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static void hello_fill(struct agent_hello *hello, int how, uint32_t flags)
{
    hello->magic = AREA_MAGIC;
    hello->version = AREA_VERSION;
    hello->pid = (int32_t)sys_call0(SYS_getpid);
    hello->ppid = (int32_t)sys_call0(SYS_getppid);
    hello->flags = flags;
    hello->incarnation = how == CONNECT_FORK ? known_incarnation : 0;
    hello->fork_of = how == CONNECT_FORK ? known_serial : 0;
    hello->load_address = (uint64_t)__ehdr_start;
    hello->room = agent_address_room();
    hello->image = connect_settings.image;
    size_t at = raw_length(connect_settings.job, AREA_PATH - 1);
    raw_copy(hello->texts, connect_settings.job, at);
    hello->texts[at++] = '\0';
    long length = sys_call4(SYS_readlink, (long)"/proc/self/exe", (long)(hello->texts + at), AREA_PATH - 1, 0);
    at += length > 0 ? (size_t)length : 0;
    hello->texts[at++] = '\0';
    hello->size = (uint32_t)(AGENT_HELLO_HEAD + at);
}

/* ---- the mappings ---- */

/* NULL: it is none of the monitor's files; or, and then that is in *trouble, it finds no room. */
static void *map_shared(int fd, uint64_t least, uint64_t *ret_size, uint32_t *trouble)
{
    struct stat info;
    if (sys_call2(SYS_fstat, fd, (long)&info) < 0 || (uint64_t)info.st_size < least || !S_ISREG(info.st_mode))
        return NULL;
    *ret_size = (uint64_t)info.st_size;
    long at = sys_call6(SYS_mmap, 0, (long)*ret_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at < 0 && at > -4096) {
        *trouble |= at == -ENOMEM ? AGENT_NO_ROOM : 0;
        return NULL;
    }
    sys_call4(SYS_madvise, at, (long)*ret_size, MADV_DONTFORK, 0);
    return (void *)at;
}

static void unmap(void *at, uint64_t size)
{
    if (at)
        sys_call2(SYS_munmap, (long)at, (long)size);
}

/* Its descendants by fork keep it. */
static bool forks_take(int fd, const struct area_view *view)
{
    if (forks)
        return true;
    long at = sys_call6(SYS_mmap, 0, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                        (long)((uint8_t *)view->forks - view->base));
    if (at > 0 || at <= -4096)
        forks = (struct area_forks *)at;
    return forks != NULL;
}

static void agent_filter_clear(void);

static bool take_over(const int fds[FDS], uint32_t *trouble, struct mpi_shared *unused)
{
    (void)unused;
    uint64_t area_size = 0, bell_size = 0, cells_size = 0;
    struct area_view view;
    uint8_t *area = map_shared(fds[FD_AREA], AREA_PAGE, &area_size, trouble);
    struct doorbell *bell = map_shared(fds[FD_BELL], sizeof *bell, &bell_size, trouble);
    code_cell *cells = map_shared(fds[FD_CELLS], CODE_CELLS * sizeof(code_cell), &cells_size, trouble);
    bool has_memory = agent_programs_forget();
    *trouble |= has_memory ? 0 : AGENT_NO_DATA;
    if (has_memory && area && bell && cells && area_take(&view, area, area_size) && bell->magic == DOORBELL_MAGIC &&
        bell->version == AREA_VERSION &&
        sys_call4(SYS_madvise, (long)&agent_hot, sizeof agent_hot, MADV_WIPEONFORK, 0) == 0) {
        /* what the monitor alone writes cannot be changed by the program any more */
        sys_call4(SYS_mprotect, (long)view.sites, (long)(view.threads - (uint8_t *)view.sites) & -AREA_PAGE, PROT_READ,
                  0);
        long filter = sys_call6(SYS_mmap, (long)agent_filter, AREA_FILTER, PROT_READ, MAP_SHARED | MAP_FIXED,
                                fds[FD_AREA], (long)(view.filter - view.base));
        if (filter == (long)agent_filter && forks_take(fds[FD_AREA], &view)) {
            filter_is_open = forks_thin = false;
            agent_hot.view = view;
            agent_hot.bell = bell;
            agent_hot.cells = cells;
            agent_hot.slots = view.slots;
            agent_hot.slot_mask = view.slot_mask;
            agent_hot.places = view.places;
            agent_hot.place_mask = view.place_mask;
            agent_hot.pid = (int32_t)sys_call0(SYS_getpid);
            atomic_store(&agent_hot.noticed, FORK_NOTICED);
            mpi_short_forget();
            atomic_thread_fence(memory_order_seq_cst);
            agent_hot.area = view.area;
            return true;
        }
        *trouble |= AGENT_NO_ROOM;
        agent_filter_clear();
    }
    unmap(area, area_size);
    unmap(bell, bell_size);
    unmap(cells, cells_size);
    return false;
}

/* Nothing is to be traced here: as if there had been no area. */
static void give_back(void)
{
    struct area_view view = agent_hot.view;
    struct doorbell *bell = agent_hot.bell;
    code_cell *cells = agent_hot.cells;
    agent_filter_clear();
    raw_zero(&agent_hot, sizeof agent_hot);
    unmap(forks, AREA_PAGE);
    forks = NULL;
    known_serial = 0;
    unmap(view.base, view.size);
    unmap(bell, sizeof *bell);
    unmap(cells, CODE_CELLS * sizeof(code_cell));
}

static bool take_mpi(const int fds[FDS], uint32_t *trouble, struct mpi_shared *ret_shared)
{
    uint64_t bell_size = 0;
    void *area = map_shared(fds[FD_AREA], AREA_PAGE, &ret_shared->size, trouble);
    struct doorbell *bell = map_shared(fds[FD_BELL], sizeof *bell, &bell_size, trouble);
    if (area && bell && bell->magic == DOORBELL_MAGIC && bell->version == AREA_VERSION) {
        ret_shared->area = area;
        ret_shared->bell = bell;
        return true;
    }
    unmap(area, ret_shared->size);
    unmap(bell, bell_size);
    return false;
}

/* Replaces the filter by private zeros: no hook gets further. */
static void agent_filter_clear(void)
{
    filter_is_open = false;
    sys_call6(SYS_mmap, (long)agent_filter, AREA_FILTER, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

/* What a child of fork has in place of the filter: each call comes through. Made once, in the parent, since to fill it takes a
 * child as long as all the rest. NULL: not yet, or there was no memory. */
static uint8_t *_Atomic filter_open;

static uint8_t *filter_open_make(long at, int flags)
{
    at = sys_call6(SYS_mmap, at, AREA_FILTER, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);
    if (at < 0 && at > -4096)
        return NULL;
    for (uint64_t i = 0; i < AREA_FILTER / sizeof(uint64_t); i++)
        ((volatile uint64_t *)at)[i] = UINT64_C(0x0101010101010101) * (AREA_ENTER | AREA_EXIT);
    return (uint8_t *)at;
}

static void filter_open_here(void)
{
    filter_is_open = filter_open_make((long)agent_filter, MAP_FIXED) != NULL;
    if (!filter_is_open)
        agent_filter_clear(); /* what was there may be gone */
}

/* ---- switching off ---- */

void agent_ring(void)
{
    struct doorbell *bell = agent_hot.bell;
    if (!bell)
        return;
    atomic_fetch_add_explicit(&bell->rung, 1, memory_order_release);
    if (atomic_load_explicit(&bell->sleeping, memory_order_seq_cst))
        sys_call4(SYS_futex, (long)&bell->rung, FUTEX_WAKE, 1, 0);
}

void agent_fault(const char *text)
{
    struct area *area = agent_hot.area;
    if (!area)
        return;
    agent_filter_clear();
    raw_copy(area->fault, text, raw_length(text, sizeof area->fault - 1));
    atomic_store(&area->agent_state, AREA_OFF);
    agent_ring();
    /* hooks that are under way find nothing to do; the mappings stay, for they may still be in use */
    agent_hot.area = NULL;
}

void agent_seal(const char *text)
{
    agent_mpi_seal(text);
    if (!agent_hot.area) /* a child that has not been traced yet: each call would go on coming through */
        agent_filter_clear();
    agent_fault(text);
    if (!sealed && fork_waits() && !filter_is_open) /* its first call is to be counted, then without a system call */
        filter_open_here();
    connect_settings.socket[0] = '\0'; /* no other connection, */
    sealed = true;                     /* nor in children */
}

static struct area_thread *crash_thread(void)
{
    return agent_hot.area ? agent_self.block : NULL;
}

/* A fault in a hook of ours: it is left as if it had returned, and there are no more. In its first part, up to `call`
 * in .Lslow of hooks_x86_64.S, the stack pointer is the hook's and callee-saved registers are its caller's; later they are in the
 * frame that was saved there. Without an area, a handler has forked in the middle of the hook, and this is the child: what the hook
 * knew is not there, and the next one finds that out. */
static bool hook_fault(ucontext_t *context, int32_t signal, uint64_t address)
{
    greg_t *gregs = context->uc_mcontext.gregs;
    const struct capture_frame *saved = agent_self.registers;
    uint64_t pc = (uint64_t)gregs[REG_RIP];
    if (stack_is_left((uint64_t)gregs[REG_RSP]))
        return false; /* this handler's own frame lies where that of the interrupted one was */
    if (patched_fault(gregs)) {
        agent_self.registers = NULL;
    } else if ((pc >= (uint64_t)agent_hooks_begin && pc < (uint64_t)agent_hooks_end) ||
               (pc >= (uint64_t)agent_moves_begin && pc < (uint64_t)agent_moves_end)) {
        gregs[REG_RIP] = *(const greg_t *)gregs[REG_RSP];
        gregs[REG_RSP] += (greg_t)sizeof(greg_t);
    } else if (saved && saved->patched) { /* the function, or its caller, goes on with all that was in registers */
        static const uint8_t order[16] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                          REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        uint64_t sp;
        for (unsigned i = 0; i < sizeof order; i++)
            gregs[order[i]] = (greg_t)saved->gpr[i];
        gregs[REG_RIP] = (greg_t)patched_resume(saved, &sp);
        gregs[REG_RSP] = (greg_t)sp;
    } else if (saved) {
        gregs[REG_RAX] = 0;
        gregs[REG_RBX] = (greg_t)saved->gpr[3];
        gregs[REG_RBP] = (greg_t)saved->gpr[6];
        gregs[REG_RSP] = (greg_t)saved->gpr[7];
        gregs[REG_R12] = (greg_t)saved->gpr[12];
        gregs[REG_R13] = (greg_t)saved->gpr[13];
        gregs[REG_R14] = (greg_t)saved->gpr[14];
        gregs[REG_R15] = (greg_t)saved->gpr[15];
        gregs[REG_RIP] = (greg_t)saved->gpr[16];
    } else {
        return false;
    }
    agent_self.registers = NULL;
    agent_fault("a hook of the agent met a bad address");
    return true;
}

static void crash_record(int32_t signal, int32_t code, uint64_t address, uint64_t pc)
{
    struct agent_thread *self = &agent_self;
    if (!agent_hot.area || !self->block)
        return;
    struct {
        int32_t signal, code;
        uint64_t address, pc;
    } record = {signal, code, address, pc};
    bool inside = atomic_load(&self->block->pending) != 0;
    enum guard guard = GUARD_OUTER;
    if (inside) { /* it goes on nowhere: its level lies above all others */
        if (self->levels < AGENT_LEVELS)
            guard = level_begin(self, 0);
        else
            return;
        if (guard == GUARD_STUCK)
            return;
    } else {
        self->writer = (uint64_t)__builtin_frame_address(0);
        atomic_store(&self->block->pending, 1);
    }
    record_put(self, guard, RECORD_SIGNAL, 0, &record, sizeof record, NULL, 0);
    if (!inside)
        record_retire(self);
    thread_unguard(self, guard);
    agent_ring();
}

/* ---- all of it ---- */

/* most_ms: what the monitor says. */
static void hold(int how, uint64_t most_ms)
{
    const struct wait_policy *policy = &wait_policies[how == CONNECT_FORK     ? WAIT_MAIN_FORK
                                                      : how == CONNECT_DLOPEN ? WAIT_MAIN_DLOPEN
                                                                              : WAIT_MAIN];
    struct area *area = agent_hot.area;
    uint64_t since_ns = agent_now_ns();
    struct wait_seen seen = {.state = 0};
    if (how == CONNECT_START || how == CONNECT_MPI || most_ms < policy->limit_ms)
        seen.limit_ns = most_ms * WAITS_NS_PER_MS;
    if (atomic_load(&area->go))
        return;
    atomic_store(&area->holding, 1);
    agent_ring();
    while (!atomic_load(&area->go) && most_ms) {
        agent_sleep_on(&area->go, 0, waits_slice_ns(policy, &seen));
        seen.passed_ns = agent_now_ns() - since_ns;
        seen.state = doorbell_monitor_state(agent_hot.bell);
        if (waits_is_dead(seen.state) || waits_judge(policy, &seen) != WAIT_ON)
            break;
    }
    atomic_store(&area->holding, 0);
}

static void parts_start(int how)
{
    static const struct agent_crash_ops crash_ops = {
        .thread = crash_thread, .record = crash_record, .fault = hook_fault, .where = patched_where};
    agent_read_init(&agent_hot.view);
    agent_crash_init(&agent_hot.view, agent_hot.bell, &crash_ops);
    agent_act_init(&agent_hot.view, agent_hot.bell, agent_hot.cells);
    if (connect_settings.late) /* handlers that sigaction does not hide: no reads that may fault */
        return;
    if (how == CONNECT_FORK)
        agent_signals_forked();
    else
        agent_signals_start();
}

extern char __libc_single_threaded __attribute__((weak)); /* of glibc 2.32 and later */

/* A monitor that takes connections but does not answer was waited for, once; a program may open dozens of libraries. */
static _Atomic bool unanswered;

typedef bool take_function(const int fds[FDS], uint32_t *trouble, struct mpi_shared *ret_shared);

/* Asks for what `take` then maps. *ret_heard: the monitor knows that there is such a process. */
static bool converse(struct agent_hello *hello, enum wait_kind wait, take_function *take, struct mpi_shared *ret_shared,
                     uint64_t *ret_hold_ms, bool *ret_heard)
{
    struct agent_welcome welcome = {.status = -1};
    int fds[FDS] = {-1, -1, -1};
    struct agent_question question = {.socket = connect_settings.socket,
                                      .hello = hello,
                                      .hello_size = hello->size,
                                      .welcome = &welcome,
                                      .welcome_size = sizeof welcome,
                                      .fds = fds,
                                      .fd_count = FDS,
                                      .ret_said = ret_heard,
                                      .wait = wait};
    *ret_heard = false;
    int code = agent_ask(&question);
    /* unless it closed the connection unread, or took it for a stranger's */
    *ret_heard &= code == -ETIMEDOUT || code == -EMFILE || (code == 0 && welcome.status != -EPROTO);
    if (code == -ETIMEDOUT)
        atomic_store(&unanswered, true);
    bool welcomed = welcome.magic == AREA_MAGIC && welcome.version == AREA_VERSION && welcome.status == 0;
    uint32_t trouble = welcomed && code == -EMFILE ? AGENT_NO_FILES : 0;
    bool done = welcomed && code == 0 && fds[FDS - 1] >= 0 && take(fds, &trouble, ret_shared);
    for (unsigned i = 0; i < FDS; i++)
        if (fds[i] >= 0)
            sys_call2(SYS_close, fds[i], 0);
    if (trouble) { /* so that somebody hears why nothing is traced */
        hello->flags |= trouble;
        question.welcome_size = question.fd_count = 0;
        agent_ask(&question);
    }
    *ret_hold_ms = welcome.hold_ms;
    return done;
}

/* 8 KB: too much for the stack of a signal handler, which a child of a raw clone may be in; one thread at a time */
static struct agent_hello hello_own AGENT_LARGE;

bool agent_connect_mpi(const struct hello_mpi *mpi, struct mpi_shared *ret_shared)
{
    static struct agent_hello hello AGENT_LARGE; /* the interposer is loaded once */
    uint64_t hold_ms;
    bool heard;
    hello.mpi = *mpi;
    hello_fill(&hello, CONNECT_START, AGENT_COUNTS_MPI);
    return converse(&hello, WAIT_HELLO, take_mpi, ret_shared, &hold_ms, &heard);
}

/* What crtbeginS.o, which we are linked without, has: pthread_atfork says with it whose the function is. */
extern const char __dso_handle;
const char __dso_handle __attribute__((visibility("hidden")));

/* To trace a child costs several times what fork does. Where nobody asked for all, of those that a program and its descendants fork
 * FORKS_AT_ONCE are traced however fast they come, and then one in FORK_REFILL_MS. This is decided, and the others are counted, at
 * the first traced call: those that execute something else take nothing away. Not by the time stamp counter, which the program may
 * have forbidden. */
enum { FORKS_AT_ONCE = 64 };

static bool fork_is_left_alone(void)
{
    const uint64_t most = FORKS_AT_ONCE * FORK_REFILL_MS;
    uint64_t now = agent_now_ms(), before = atomic_load(&forks->paid_ms), paid;
    do {
        paid = before + most < now ? now - most : before;
        if (paid + FORK_REFILL_MS > now)
            return true;
    } while (!atomic_compare_exchange_weak(&forks->paid_ms, &before, paid + FORK_REFILL_MS));
    return false;
}

/* In the page, or where nobody reads that any more by a hello. */
static void left_alone_count(void)
{
    uint32_t count = atomic_load(&forks->left_alone);
    while (!(count & AREA_FORKS_CLOSED))
        if (atomic_compare_exchange_weak(&forks->left_alone, &count, count + 1))
            return;
    agent_say(CONNECT_FORK, AGENT_HAS_HOOKS | AGENT_LEFT_ALONE);
}

static void fork_comes(void)
{
    static const char text[] = "it gave up its user's rights, so the processes that it starts are not traced";
    struct area *area = agent_hot.area;
    if (!forks || sealed) /* sealed: no system call any more */
        return;
    if (area) /* kept, for the agent may be off when it forks the next one */
        forks_thin = atomic_load_explicit(&area->forks_thin, memory_order_relaxed);
    agent_self.child_thin = forks_thin;
    if (!area)
        return;
    atomic_store_explicit(&area->forked, 1, memory_order_relaxed);
    /* A program that is not its user's any more: to the monitor, which is, no child gets. */
    if (!area->fault[0] && (uint32_t)sys_call0(SYS_geteuid) != connected_user)
        raw_copy(area->fault, text, sizeof text);
    if (atomic_load(&filter_open))
        return;
    uint8_t *made = filter_open_make(0, 0), *none = NULL;
    if (made && !atomic_compare_exchange_strong(&filter_open, &none, made)) /* another thread forks, too */
        sys_call2(SYS_munmap, (long)made, AREA_FILTER);
}

static void fork_happened(void);

/* What a process needs that is traced, and no other. */
static void prepare(void)
{
    if (agent_was_connected)
        return;
    agent_was_connected = true;
    threads_init();
    pthread_atfork(fork_comes, NULL, fork_happened);
}

static _Atomic int32_t busy; /* pid: a child of fork does not wait for its parent's threads */

/* Two threads may come to it at once. */
static bool busy_take(int32_t pid)
{
    int32_t was = atomic_load(&busy);
    return was != pid && atomic_compare_exchange_strong(&busy, &was, pid);
}

/* What needs no answer. */
static void say(int how, uint32_t flags)
{
    struct agent_question question = {.socket = connect_settings.socket,
                                      .hello = &hello_own,
                                      .wait = how == CONNECT_FORK ? WAIT_HELLO_FORK : WAIT_HELLO,
                                      .alone = &__libc_single_threaded && __libc_single_threaded};
    hello_fill(&hello_own, how, flags);
    question.hello_size = hello_own.size;
    agent_ask(&question);
}

void agent_say(int how, uint32_t flags)
{
    if (connect_settings.socket[0] && busy_take((int32_t)sys_call0(SYS_getpid))) {
        say(how, flags);
        atomic_store(&busy, 0);
    }
}

static bool ask(int how, uint32_t flags, uint64_t *ret_hold_ms, bool *ret_heard)
{
    hello_fill(&hello_own, how, flags);
    return converse(&hello_own, how == CONNECT_FORK ? WAIT_HELLO_FORK : WAIT_HELLO, take_over, NULL, ret_hold_ms,
                    ret_heard);
}

bool agent_connect(int how)
{
    if (!connect_settings.socket[0] || atomic_load(&agent_hot.noticed) == FORK_LEFT_ALONE)
        return true;
    uint64_t changes = 0;
    bool patches = connect_settings.patches && how == CONNECT_START;
    bool has_hooks = how == CONNECT_FORK || agent_imports_hooks(&changes);
    uint32_t flags =
        (has_hooks ? AGENT_HAS_HOOKS : 0u) | (patches ? AGENT_PATCHES : 0u) | (how == CONNECT_MPI ? AGENT_HAS_MPI : 0u);
    if (how == CONNECT_START)
        modules_init(changes);
    if ((!flags && !(connect_settings.wanted && how == CONNECT_START)) || agent_hot.area)
        return true;
    if ((how == CONNECT_DLOPEN || how == CONNECT_MPI) && atomic_load(&unanswered))
        return true;
    if (!busy_take((int32_t)sys_call0(SYS_getpid)))
        return true;
    bool bare = patches && !has_hooks; /* whether anything is to be patched is not known yet */
    if (flags && !bare)
        prepare();
    uint64_t hold_ms = 0;
    bool heard = true;
    static bool by_mpi; /* a child of fork does not look: the linker's lock may be another thread's */
    if (flags && how != CONNECT_FORK)
        by_mpi = agent_mpi_found();
    bool behind = how == CONNECT_DLOPEN || (how == CONNECT_START && !connect_settings.first);
    unsigned constructed = flags && behind ? agent_constructed(NULL) : 0;
    if (constructed)
        flags |= AGENT_CONSTRUCTED | (constructed < UINT16_MAX ? constructed : UINT16_MAX) << AGENT_CONSTRUCTED_SHIFT;
    if (!flags) {
        say(how, 0);
    } else if (ask(how, flags | (by_mpi ? AGENT_BY_MPI : 0u), &hold_ms, &heard)) {
        known_serial = agent_hot.area->serial;
        connected_user = (uint32_t)sys_call0(SYS_geteuid);
        if (!bare)
            parts_start(how);
        atomic_store(&agent_hot.area->agent_state, AREA_RUNNING);
        hold(how, hold_ms);
        if (bare && !atomic_load(&agent_hot.area->patches)) {
            give_back();
        } else if (patches) {
            if (bare) {
                prepare();
                parts_start(how);
            }
            patched_apply(&agent_hot.view);
        }
    }
    atomic_store(&busy, 0);
    return heard;
}

/* ---- fork ---- */

/* Of the areas only struct area_forks is inherited (else MADV_DONTFORK). The child connects, or is left alone, when it first calls
 * a traced function: many call none and execute something else. Which functions are traced may change until then, so each call comes
 * through. */
static void fork_happened(void)
{
    if (!forks || sealed)
        return;             /* sealed: no system call any more */
    atomic_store(&busy, 0); /* whatever the parent's other threads were at; numbers may be the same */
    atomic_store(&connecting, 0);
    agent_signals_forked(); /* in each: a child of vfork, that one may make, is not to be taken for it */
    if (agent_hot.area)
        return;
    forks_thin = agent_self.child_thin;
    thread_forget(&agent_self);
    const uint8_t *open = atomic_exchange(&filter_open, NULL);
    bool moved = open && sys_call6(SYS_mremap, (long)open, AREA_FILTER, AREA_FILTER, MREMAP_MAYMOVE | MREMAP_FIXED,
                                   (long)agent_filter, 0) == (long)agent_filter;
    if (moved)
        filter_is_open = true;
    else
        filter_open_here();
}

bool fork_waits(void)
{
    return forks && !agent_hot.area && atomic_load(&agent_hot.noticed) == FORK_NEW;
}

/* Another thread of the child is at it: calls made meanwhile are not to be lost. */
static void wait_for_other(void)
{
    int32_t tid = (int32_t)sys_call0(SYS_gettid), other = atomic_load(&connecting);
    uint64_t deadline = agent_now_ms() + AGENT_OTHER_MS;
    while (other && other != tid && agent_now_ms() < deadline) {
        sys_call4(SYS_poll, 0, 0, 1, 0);
        other = atomic_load(&connecting);
    }
}

/* The first traced call of a child that may make no system call any more. */
static void sealed_noticed(void)
{
    for (uint64_t i = 0; filter_is_open && i < AREA_FILTER / sizeof(uint64_t); i++)
        ((volatile uint64_t *)(void *)agent_filter)[i] = 0;
    atomic_fetch_add(&forks->unreached, 1);
}

void fork_noticed(void)
{
    if (agent_hot.area || !forks)
        return;
    const _Atomic int32_t *whose = sealed ? NULL : agent_read_wiped();
    int32_t owner = whose ? atomic_load(whose) : 0;
    if (owner && owner != (int32_t)sys_call0(SYS_getpid)) /* a child of vfork, in the memory of one not connected yet */
        return;
    uint32_t new = FORK_NEW; /* not known by its number: in a namespace a child may have its parent's */
    bool first = atomic_compare_exchange_strong(&agent_hot.noticed, &new, FORK_NOTICED);
    if (sealed && first)
        sealed_noticed();
    else if (!first && !sealed)
        wait_for_other();
    if (sealed || !first)
        return;
    atomic_store(&connecting, (int32_t)sys_call0(SYS_gettid));
    known_incarnation++;
    agent_filter_clear();
    thread_forget(&agent_self);
    bool there = agent_read_there((uint64_t)forks); /* its file may have been cut */
    bool other_user = (uint32_t)sys_call0(SYS_geteuid) != connected_user;
    if (forks_thin && there && !other_user && fork_is_left_alone()) {
        atomic_store(&agent_hot.noticed, FORK_LEFT_ALONE);
        left_alone_count();
    } else if (!agent_connect(CONNECT_FORK) && there) {
        atomic_fetch_add(&forks->unreached, 1);
    }
    atomic_store(&connecting, 0);
}
