/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/safety/read.h"

#include <asm/unistd.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/safety/signals.h"
#include "agent/system/large.h"
#include "agent/system/sys.h"
#include "shm/waits.h"

enum {
    LOWEST = 4096,
    PAGE = 4096,
    PAGE_SHIFT = 12,
    MAIN_STACK_MOST = 120 << 20, /* the kernel leaves at least 128 MB for it */
    STACK_SEARCH = 1 << 20,      /* how far up a thread's stack is followed to its end */
    STACK_AHEAD = 64 << 10,      /* how much of it is looked at below what is needed */
    HANDLER_ROOM = 4096,         /* what the handler needs beside the kernel's frame */
    FRAME_ROOM = 4096,           /* the kernel's frame, where it does not say */
    LOOK_AGAIN = 1024,           /* events after which our handlers and the mask are looked at */
    SYSFS = 0x62656572,          /* SYSFS_MAGIC */
    TRACED_AGAIN = 16384,        /* events after which a debugger is perhaps gone */
    PAGES = 65536,               /* places for those that were read: 256 MB of the program's memory */
};
#define LOOK_TICKS (UINT64_C(1) << 31) /* about a second */
#define USER_TOP UINT64_C(0x7ffffffff000)

/* A page that fork wipes, whichever way it was made: a child has no area until it got its own. */
struct read_process {
    int32_t pid;
    _Atomic int32_t signals; /* agent_read_wiped */
    _Atomic uint32_t *way;   /* area.reader */
};

struct device_table {
    _Atomic uint32_t count; /* beyond DEVICES_MAX: too many, all may be one */
    _Atomic uint64_t low;   /* below it there is none: most often there is but one, above the stack */
    uint64_t ranges[DEVICES_MAX][2];
};

static struct {
    struct read_process *process; /* NULL: not connected */
    uint64_t main_high, main_size, room;
    _Atomic uint32_t refused; /* process_vm_readv is not possible here */
    _Atomic uint32_t traced;  /* by a debugger: no faults on purpose */
    _Atomic uint64_t looked;  /* ticks, after a fault */
    struct device_table tables[2];
    _Atomic(struct device_table *) devices;
    _Atomic uint32_t devices_lock;
    /* _Atomic uint32_t[PAGES]: in the place of a page's lower bits the rest of it, and 1: it has been read */
    void *_Atomic pages;
} reader AGENT_LARGE;

enum altstack { ALTSTACK_UNKNOWN, ALTSTACK_FITS /* or none */, ALTSTACK_SMALL };
/* Of an event: nothing is known yet; pages known; all pages, for the mask was looked at; none. */
enum look { LOOK_EACH, LOOK_EVENT, LOOK_DIRECT, LOOK_OPEN, LOOK_SYSCALL };

static _Thread_local struct {
    uint64_t stack_low, stack_high; /* its own stack, as far as it was looked at */
    uint64_t near_low, near_size;   /* of it, what has room for a fault when sp is there */
    uint64_t foreign;               /* stack pointer >> 16, plus 1, that is on no stack of its own */
    uint64_t faults;
    uint32_t look;     /* enum look */
    uint32_t left;     /* reads until it is looked at anew */
    uint32_t events;   /* that wanted to read directly */
    uint32_t altstack; /* enum altstack */
} self __attribute__((tls_model("initial-exec")));

int32_t agent_read_process(void)
{
    return reader.process ? reader.process->pid : 0;
}

_Atomic int32_t *agent_read_wiped(void)
{
    return reader.process ? &reader.process->signals : NULL;
}

/* ---- the thread's own stack ---- */

/* The kernel reads the mask before it refuses `how`. */
bool agent_read_there(uint64_t address)
{
    return sys_call4(__NR_rt_sigprocmask, -1, (long)(address & ~UINT64_C(7)), 0, 8) == -EINVAL;
}

/* The main thread's stack grows by itself down to its limit. A thread's lies below its control block, a guard page
 * below it: memory that is there from the stack pointer up to the control block without a gap is one stack. */
static bool stack_find(uint64_t sp)
{
    uint64_t block = (uint64_t)(uintptr_t)__builtin_thread_pointer(), end = block;
    if (sp < reader.main_high && sp > reader.main_high - reader.main_size) {
        self.stack_low = reader.main_high - reader.main_size;
        self.stack_high = reader.main_high;
        return true;
    }
    if (self.foreign == (sp >> 16) + 1)
        return false;
    uint64_t low = sp & -(uint64_t)PAGE, at = low;
    if (self.stack_high == block && sp < self.stack_low)
        end = self.stack_low; /* deeper than before */
    if (sp < end && end - sp <= STACK_SEARCH)
        while (at < end && agent_read_there(at))
            at += PAGE;
    if (at < end || sp >= end) {
        self.foreign = (sp >> 16) + 1;
        return false;
    }
    self.stack_low = low;
    self.stack_high = block;
    return true;
}

static inline bool stack_own(uint64_t sp)
{
    return (sp >= self.stack_low && sp < self.stack_high) || stack_find(sp);
}

/* Room for a signal's frame and our handler below sp. */
static bool stack_room(uint64_t sp)
{
    if (self.stack_high != reader.main_high && sp - reader.room < self.stack_low) {
        uint64_t low = (sp - reader.room - STACK_AHEAD) & -(uint64_t)PAGE;
        while (self.stack_low > low && agent_read_there(self.stack_low - PAGE))
            self.stack_low -= PAGE;
    }
    return sp - reader.room >= self.stack_low;
}

/* ---- devices ---- */

static bool device_at(uint64_t address, size_t size)
{
    struct device_table *table = atomic_load_explicit(&reader.devices, memory_order_acquire);
    uint32_t count = table ? atomic_load_explicit(&table->count, memory_order_acquire) : DEVICES_MAX + 1;
    if (__builtin_expect(count == 0, 1))
        return false;
    if (count > DEVICES_MAX)
        return true;
    for (uint32_t i = 0; i < count; i++)
        if (address < table->ranges[i][1] && address + size > table->ranges[i][0])
            return true;
    return false;
}

/* Whether there is none at this page, or above it. */
static inline bool device_none(uint64_t address)
{
    const struct device_table *table = atomic_load_explicit(&reader.devices, memory_order_acquire);
    return table && (address | (PAGE - 1)) < atomic_load_explicit(&table->low, memory_order_relaxed);
}

static bool devices_lock(void)
{
    for (int i = 0; i < 1000; i++) {
        uint32_t free = 0;
        if (atomic_compare_exchange_strong(&reader.devices_lock, &free, 1))
            return true;
        __builtin_ia32_pause();
    }
    return false;
}

static bool device_file(int fd)
{
    struct stat st;
    struct statfs fs;
    if (sys_call2(__NR_fstat, fd, (long)&st) != 0)
        return true;
    if (S_ISCHR(st.st_mode))
        return st.st_rdev != makedev(1, 5); /* zero */
    return !S_ISREG(st.st_mode) || (sys_call2(__NR_fstatfs, fd, (long)&fs) == 0 && fs.f_type == SYSFS);
}

void agent_read_mapped(uint64_t address, size_t size, int fd)
{
    if (!reader.process || !device_file(fd))
        return;
    struct device_table *table = atomic_load(&reader.devices);
    if (!devices_lock()) {
        atomic_store(&table->low, 0);
        atomic_store(&table->count, DEVICES_MAX + 1);
        return;
    }
    table = atomic_load(&reader.devices);
    uint32_t count = atomic_load(&table->count);
    uint64_t end = address + ((size + PAGE - 1) & -(size_t)PAGE);
    bool full = count >= DEVICES_MAX;
    for (uint32_t i = 0; i < count && count <= DEVICES_MAX; i++)
        if (table->ranges[i][0] == address && table->ranges[i][1] == end)
            count = DEVICES_MAX + 2; /* known */
    if (count < DEVICES_MAX) {
        table->ranges[count][0] = address;
        table->ranges[count][1] = end;
        if (address < atomic_load(&table->low))
            atomic_store(&table->low, address);
        atomic_store_explicit(&table->count, count + 1, memory_order_release);
    } else if (full && count == DEVICES_MAX) {
        atomic_store(&table->low, 0);
        atomic_store(&table->count, DEVICES_MAX + 1);
    }
    atomic_store(&reader.devices_lock, 0);
    if (full)
        agent_read_rescan(); /* some are gone, perhaps */
}

static void devices_store(const struct outside *outside)
{
    if (!devices_lock())
        return;
    struct device_table *old = atomic_load(&reader.devices);
    struct device_table *table = old == &reader.tables[0] ? &reader.tables[1] : &reader.tables[0];
    uint64_t low = outside->device_count > DEVICES_MAX ? 0 : UINT64_MAX;
    for (unsigned i = 0; i < outside->device_count && i < DEVICES_MAX; i++) {
        table->ranges[i][0] = outside->devices[i][0];
        table->ranges[i][1] = outside->devices[i][1];
        low = low < outside->devices[i][0] ? low : outside->devices[i][0];
    }
    atomic_store(&table->low, low);
    atomic_store(&table->count, outside->device_count);
    atomic_store_explicit(&reader.devices, table, memory_order_release);
    atomic_store(&reader.devices_lock, 0);
}

void agent_read_rescan(void)
{
    if (agent_read_process() == 0)
        return;
    const struct outside *outside = outside_read(agent_read_process(), OUTSIDE_TRACER | OUTSIDE_DEVICES);
    if (!outside)
        return;
    if (outside->tracer >= 0)
        atomic_store(&reader.traced, outside->tracer != 0);
    devices_store(outside);
    outside_release();
}

/* ---- the ways ---- */

/* The kernel does it: bad addresses and device mappings are refused by it. */
static int read_syscall(void *dst, uint64_t address, size_t size)
{
    struct iovec local = {dst, size}, remote = {(void *)(uintptr_t)address, size};
    int32_t pid = agent_read_process();
    if (pid == 0)
        pid = (int32_t)sys_call0(__NR_getpid);
    if (atomic_load_explicit(&reader.refused, memory_order_relaxed))
        return -1;
    long got = sys_call6(__NR_process_vm_readv, pid, (long)&local, 1, (long)&remote, 1, 0);
    if (got == -EPERM || got == -ENOSYS)
        atomic_store(&reader.refused, 1);
    return got == (long)size ? 0 : -1;
}

extern char __libc_single_threaded __attribute__((weak)); /* of glibc 2.32 and later */

/* A thread that waits for any child (waitpid with __WALL) gets a victim, too: where there may be one, only if nothing
 * else is left. */
static bool victim_is_last(void)
{
    return !(&__libc_single_threaded && __libc_single_threaded);
}

/* After a repaired fault: perhaps a debugger came, whose user is stopped by each. */
static void look_for_debugger(void)
{
    uint64_t now = __builtin_ia32_rdtsc(), looked = atomic_load_explicit(&reader.looked, memory_order_relaxed);
    if (now - looked > LOOK_TICKS && atomic_compare_exchange_strong(&reader.looked, &looked, now))
        agent_read_rescan();
}

/* The program's alternate stack, if it has one, is where the kernel puts the frame. */
static bool altstack_fits(void)
{
    stack_t stack;
    if (self.altstack == ALTSTACK_UNKNOWN) {
        bool small = sys_call2(__NR_sigaltstack, 0, (long)&stack) != 0 ||
                     (!(stack.ss_flags & SS_DISABLE) && stack.ss_size < reader.room);
        self.altstack = small ? ALTSTACK_SMALL : ALTSTACK_FITS;
    }
    return self.altstack == ALTSTACK_FITS;
}

void agent_read_altstack(void)
{
    self.altstack = ALTSTACK_UNKNOWN;
    self.near_size = 0;
}

/* Whether a fault would reach our handler, as the kernel says. */
static enum look look_at_mask(void)
{
    uint64_t mask = UINT64_MAX;
    sigset_mask(SIG_BLOCK, NULL, &mask);
    agent_signals_doubt(mask);
    return mask & SIGNALS_READING ? LOOK_SYSCALL : LOOK_OPEN;
}

static enum look look_at_thread(uint64_t sp)
{
    bool again = self.left == 0; /* at its first event, too */
    self.left = (again ? LOOK_AGAIN : self.left) - 1;
    if (again)
        agent_signals_check();
    if (++self.events % TRACED_AGAIN == 0 && atomic_load_explicit(&reader.traced, memory_order_relaxed))
        agent_read_rescan();
    if (!agent_signals_repair() || atomic_load_explicit(&reader.traced, memory_order_relaxed) || !stack_own(sp) ||
        !stack_room(sp) || !altstack_fits())
        return LOOK_SYSCALL;
    self.near_low = self.stack_low + reader.room;
    self.near_size = self.stack_high - self.near_low;
    return again || !agent_signals_known() ? look_at_mask() : LOOK_DIRECT;
}

/* ---- pages that have been read ---- */

/* Of a page that was noted; NULL: none was yet. */
static inline _Atomic uint32_t *page_place(uint64_t page)
{
    _Atomic uint32_t *pages = atomic_load_explicit(&reader.pages, memory_order_acquire);
    return pages ? &pages[page % PAGES] : NULL;
}

/* Of an address that a program can have, it fits. */
static uint64_t page_mark(uint64_t page)
{
    return page / PAGES << 1 | 1;
}

static inline bool page_known(uint64_t page)
{
    const _Atomic uint32_t *place = page_place(page);
    return place && atomic_load_explicit(place, memory_order_relaxed) == page_mark(page);
}

static bool pages_known(uint64_t address, size_t size)
{
    uint64_t page = address >> PAGE_SHIFT, last = (address + size - 1) >> PAGE_SHIFT;
    while (page <= last && page_known(page))
        page++;
    return page > last;
}

static void pages_note(uint64_t address, size_t size, bool there)
{
    uint64_t page = address >> PAGE_SHIFT, last = (address + size - 1) >> PAGE_SHIFT;
    last = last - page < PAGES ? last : page + PAGES - 1;
    if (!large_get(&reader.pages, PAGES * sizeof(uint32_t), LARGE_PART))
        return;
    for (; page <= last; page++)
        atomic_store_explicit(page_place(page), there ? (uint32_t)page_mark(page) : 0, memory_order_relaxed);
}

static int read_direct(void *dst, uint64_t address, size_t size, enum look look)
{
    int result = agent_copy(dst, address, size);
    if (result != 0)
        look_for_debugger();
    if (result != 0 || look == LOOK_OPEN)
        pages_note(address, size, result == 0);
    return result;
}

static enum victim_outcome victim_read(pid_t own_pid, void *dst, uint64_t address, size_t size);

static int read_doubtful(void *dst, uint64_t address, size_t size, uint64_t sp)
{
    int32_t pid = agent_read_process();
    uint32_t way = pid ? atomic_load_explicit(reader.process->way, memory_order_relaxed) : AREA_READ_SYSCALL;
    if (device_at(address, size))
        way = AREA_READ_SYSCALL;
    if (way == AREA_READ_DIRECT) {
        enum look look = self.look <= LOOK_EVENT ? look_at_thread(sp) : (enum look)self.look;
        if (look == LOOK_DIRECT && !pages_known(address, size))
            look = look_at_mask();
        if (self.look != LOOK_EACH)
            self.look = look;
        if (look != LOOK_SYSCALL)
            return read_direct(dst, address, size, look);
    } else if (way == AREA_READ_VICTIM) {
        if (victim_is_last()) {
            int result = read_syscall(dst, address, size);
            if (!atomic_load_explicit(&reader.refused, memory_order_relaxed))
                return result;
        }
        enum victim_outcome outcome = victim_read(pid, dst, address, size);
        if (outcome != VICTIM_NOT_POSSIBLE)
            return outcome == VICTIM_READ ? 0 : -1;
    }
    return read_syscall(dst, address, size);
}

int agent_read(void *dst, uint64_t address, size_t size)
{
    uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    if (size == 0)
        return 0;
    if (address >= LOWEST && size <= USER_TOP && address <= USER_TOP - size) {
        if (address >= sp && stack_own(sp) && address < self.stack_high && size <= self.stack_high - address)
            return agent_copy(dst, address, size);
        if (read_doubtful(dst, address, size, sp) == 0)
            return 0;
    }
    self.faults++;
    if (agent_read_failed)
        agent_read_failed(self.faults);
    return -1;
}

int agent_read_again(void *dst, uint64_t address, size_t size)
{
    uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0), page = address >> PAGE_SHIFT;
    if (sp - self.near_low < self.near_size && self.left && !agent_signals_waiting &&
        !atomic_load_explicit(&agent_signals_careful, memory_order_relaxed) &&
        !atomic_load_explicit(&reader.traced, memory_order_relaxed) && (address + size - 1) >> PAGE_SHIFT == page &&
        page_known(page) && device_none(address)) {
        self.left--;
        if (agent_copy(dst, address, size) == 0)
            return 0;
    }
    unsigned before = agent_read_begin(); /* what another event knew, that was left, is not for this one */
    int result = agent_read(dst, address, size);
    agent_read_end(before);
    return result;
}

unsigned agent_read_begin(void)
{
    unsigned before = self.look;
    self.look = LOOK_EVENT;
    return before;
}

void agent_read_end(unsigned before)
{
    self.look = before;
}

uint64_t agent_read_faults(void)
{
    return self.faults;
}

uint64_t agent_read_fixup(uint64_t pc)
{
    uint64_t start = (uintptr_t)agent_copy, end = (uintptr_t)agent_copy_end;
    return pc >= start && pc < end ? (uintptr_t)agent_copy_fixup : 0;
}

void agent_read_init(const struct area_view *view)
{
    struct rlimit limit = {MAIN_STACK_MOST, 0};
    bool forked = reader.process != NULL; /* then what the parent knew of mappings and debuggers holds here, too */
    if (!forked) {
        if (!atomic_load(&reader.devices))
            atomic_store(&reader.devices, &reader.tables[0]);
        void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED || madvise(page, PAGE, MADV_WIPEONFORK) != 0)
            return;
        reader.process = page;
        /* the path of the program lies at the very top of the stack */
        reader.main_high = (getauxval(AT_EXECFN) + PAGE) & -(uint64_t)PAGE;
        uint64_t frame = getauxval(AT_MINSIGSTKSZ);
        reader.room = (frame > FRAME_ROOM ? frame : FRAME_ROOM) + HANDLER_ROOM;
    }
    if (reader.process->pid == 0) { /* first, or in a child: whoever held these is not here */
        atomic_store(&reader.devices_lock, 0);
        outside_release();
    }
    reader.process->way = &view->area->reader;
    reader.process->pid = (int32_t)sys_call0(__NR_getpid);
    sys_call4(__NR_prlimit64, 0, RLIMIT_STACK, 0, (long)&limit);
    reader.main_size = limit.rlim_cur < MAIN_STACK_MOST ? limit.rlim_cur : MAIN_STACK_MOST;
    if (!forked) {
        atomic_store(&reader.looked, __builtin_ia32_rdtsc());
        agent_read_rescan();
    }
}

static void victim_end(pid_t own_pid);

void agent_read_done(void)
{
    if (agent_read_process())
        victim_end(agent_read_process());
}

/*
 * The victim: a process in the program's memory, separate in everything that a fault touches. It copies what is
 * requested and dies if the address is bad. (Kolbe, "C-Tracer": the way that needs neither the program's signal
 * handling nor process_vm_readv.)
 *
 * Each read has its own, which is gone when the read is done. A lasting one would be a child of the program, and
 * waitpid(-1, ..., __WALL) would wait for it, or find it dead. (An orphan would be no child, but a stranger to whoever
 * gets the job's orphans, perhaps the program itself.) Another thread that waits at that moment would get it: so
 * programs with threads have victims only if process_vm_readv is refused (read.c). The victim dies of a handler of its
 * own that exits, not of the signal: a core dump of one process used to end all that share its memory.
 *
 * One request at a time. A thread that finds it busy, and does not get it soon, reads another way.
 */

enum {
    STACK_SIZE = 16384,
    PIECE = 4096,        /* copied at a time */
    ANSWER_SLICES = 100, /* an answer that does not come in so many: never again */
    LOCK_SLICES = 3,
    LOCK_FAILURES = 100,
    TAKING = -1,
};

static struct {
    _Atomic int32_t owner;   /* process whose it is: not a forked child's */
    _Atomic uint32_t lock;   /* tid of the thread that has the request; a futex */
    _Atomic uint32_t victim; /* process id; cleared by the kernel when it dies; a futex */
    _Atomic uint32_t answered;
    _Atomic uint32_t given_up;
    _Atomic uint32_t lock_failures;
    uint64_t address;
    size_t size;
    uint8_t piece[PIECE]; /* not the requester's buffer: a late victim must not write there */
    uint8_t stack[STACK_SIZE] __attribute__((aligned(64)));
} shared AGENT_LARGE;

static long futex_wait(_Atomic uint32_t *word, uint32_t value, unsigned ms)
{
    struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
    return sys_call4(__NR_futex, (long)word, FUTEX_WAIT, value, (long)&limit);
}

/* ---- in the victim ---- */

static void die(int signal)
{
    sys_call2(__NR_exit_group, 1, 0);
}

static int victim_main(void *parent)
{
    sys_call2(__NR_prctl, PR_SET_NAME, (long)"scry-agent"); /* so that it is not taken for one of the job's */
    sys_call2(__NR_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (sys_call0(__NR_getppid) != (pid_t)(intptr_t)parent)
        return 1;
    struct kernel_action action = {
        .handler = (uintptr_t)die, .flags = SIGSET_RESTORER, .restorer = (uintptr_t)sigset_restorer};
    uint64_t open = SIGSET_BIT(SIGSEGV) | SIGSET_BIT(SIGBUS);
    sigset_action(SIGSEGV, &action, NULL);
    sigset_action(SIGBUS, &action, NULL);
    sigset_mask(SIG_UNBLOCK, &open, NULL);
    agent_copy(shared.piece, shared.address, shared.size);
    atomic_store(&shared.answered, 1);
    return 0;
}

/* ---- in the program ---- */

/* read_x86_64.S. There is no exit signal, and thread-local storage is the creator's: fn must not use it. `tid` (with
 * CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID in flags) is set to its id, and to 0 when it dies. */
long victim_clone(unsigned long flags, void *stack_high, void *tid, int (*fn)(void *arg), void *arg);

static bool lock(uint32_t tid)
{
    for (int slice = 0; slice < LOCK_SLICES; slice++) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_strong(&shared.lock, &holder, tid)) {
            atomic_store(&shared.lock_failures, 0);
            return true;
        }
        futex_wait(&shared.lock, holder, AGENT_SLICE_MS);
    }
    if (atomic_fetch_add(&shared.lock_failures, 1) > LOCK_FAILURES)
        atomic_store(&shared.given_up, 1);
    return false;
}

static void unlock(void)
{
    atomic_store(&shared.lock, 0);
    sys_call4(__NR_futex, (long)&shared.lock, FUTEX_WAKE, 1, 0);
}

static void reap(long victim)
{
    while (sys_call4(__NR_wait4, victim, 0, __WALL, 0) == -EINTR)
        ;
}

static enum victim_outcome victim_ask(pid_t own_pid, uint64_t address, size_t size)
{
    shared.address = address;
    shared.size = size;
    atomic_store(&shared.answered, 0);
    /* it shares what a copy would cost time for, and touches none of it */
    long victim =
        victim_clone(CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_UNTRACED | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                     shared.stack + STACK_SIZE, (void *)&shared.victim, victim_main, (void *)(intptr_t)own_pid);
    if (victim < 0)
        return VICTIM_NOT_POSSIBLE;
    for (int slice = 0; slice < ANSWER_SLICES; slice++) {
        uint32_t lives = atomic_load(&shared.victim);
        if (lives == 0) {
            reap(victim);
            return atomic_load(&shared.answered) ? VICTIM_READ : VICTIM_FAULT;
        }
        while (futex_wait(&shared.victim, lives, AGENT_SLICE_MS) == -EINTR)
            ;
    }
    /* it hangs where not even SIGKILL reaches it at once: it is not waited for */
    atomic_store(&shared.given_up, 1);
    sys_call2(__NR_kill, victim, SIGKILL);
    return VICTIM_NOT_POSSIBLE;
}

/* A child after fork has a copy of all this, but its parent's victim is not its own. */
static bool victim_own(pid_t own_pid)
{
    int32_t owner = atomic_load(&shared.owner);
    if (owner == own_pid)
        return true;
    if (owner == TAKING || !atomic_compare_exchange_strong(&shared.owner, &owner, TAKING))
        return false;
    atomic_store(&shared.lock, 0);
    atomic_store(&shared.victim, 0);
    atomic_store(&shared.given_up, 0);
    atomic_store(&shared.owner, own_pid);
    return true;
}

static enum victim_outcome victim_read(pid_t own_pid, void *dst, uint64_t address, size_t size)
{
    if (!victim_own(own_pid) || atomic_load(&shared.given_up))
        return VICTIM_NOT_POSSIBLE;
    /* no handler of the program comes in between, which might see the victim or never return */
    uint64_t all = UINT64_MAX, before = 0;
    enum victim_outcome outcome = VICTIM_NOT_POSSIBLE;
    sigset_mask(SIG_SETMASK, &all, &before);
    if (lock((uint32_t)sys_call0(__NR_gettid))) {
        outcome = VICTIM_READ;
        for (size_t done = 0; done < size && outcome == VICTIM_READ; done += PIECE) {
            size_t piece = size - done < PIECE ? size - done : PIECE;
            outcome = victim_ask(own_pid, address + done, piece);
            if (outcome == VICTIM_READ)
                agent_copy((uint8_t *)dst + done, (uintptr_t)shared.piece, piece);
        }
        unlock();
    }
    sigset_mask(SIG_SETMASK, &before, NULL);
    return outcome;
}

static void victim_end(pid_t own_pid)
{
    uint32_t victim = atomic_load(&shared.victim);
    if (atomic_load(&shared.owner) != own_pid || victim == 0)
        return;
    sys_call2(__NR_kill, victim, SIGKILL);
    if (!atomic_load(&shared.given_up))
        reap(victim);
}
