/* SPDX-License-Identifier: Apache-2.0 */
#include <asm/unistd.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "agent/system/large.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"

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

void agent_read_done(void)
{
    if (agent_read_process())
        victim_end(agent_read_process());
}
