/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of the library: the right moment, environment, what each process says of itself, is there anything to trace,
 * connect; and what a program says itself.
 */
#include "agent/hooks/agent.h"
#include "agent/hooks/connect.h"
#include "agent/hooks/mpi.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"
#include "agent/system/large.h"
#include "agent/system/proc_text.h"
#include "agent/system/sys.h"
#include "shm/area.h"
#include "shm/metrics.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern char **__environ; /* which no program defines itself */

/* Looked for at once: each process of a job comes here, and nearly all of them have nothing to trace. */
struct environment {
    const char *off, *asan, *socket, *job, *wanted, *mpi, *mpi_dir, *metrics;
    char *preload;
};

static const char *after(const char *text, const char *prefix)
{
    while (*prefix)
        if (*text++ != *prefix++)
            return NULL;
    return text;
}

static void environment_scan(char **entries, struct environment *ret_found)
{
    static const char preload[] = "LD_PRELOAD=", ours[] = "SCRY";
    *ret_found = (struct environment){0};
    for (char **entry = entries; entry && *entry; entry++) {
        const char *value = after(*entry, ours), *found;
        if (!value) {
            value = after(*entry, preload);
            if (value && !ret_found->preload)
                ret_found->preload = *entry + (value - *entry);
        } else if ((found = after(value, "=")) && !ret_found->off) {
            ret_found->off = found;
        } else if ((found = after(value, "_ASAN_PRELOAD=")) && !ret_found->asan) {
            ret_found->asan = found;
        } else if ((found = after(value, "_AGENT_SOCKET=")) && !ret_found->socket) {
            ret_found->socket = found;
        } else if ((found = after(value, "_JOB=")) && !ret_found->job) {
            ret_found->job = found;
        } else if ((found = after(value, "_TRACE_WANTED=")) && !ret_found->wanted) {
            ret_found->wanted = found;
        } else if ((found = after(value, "_MPI=")) && !ret_found->mpi) {
            ret_found->mpi = found;
        } else if ((found = after(value, "_MPI_DIR=")) && !ret_found->mpi_dir) {
            ret_found->mpi_dir = found;
        } else if ((found = after(value, "_METRICS=")) && !ret_found->metrics) {
            ret_found->metrics = found;
        }
    }
}

static bool is(const char *value, const char *text)
{
    const char *rest = value ? after(value, text) : NULL;
    return rest && !*rest;
}

static bool copy_setting(char *to, size_t size, const char *value)
{
    size_t length = value ? raw_length(value, size) : 0;
    if (!length || length >= size)
        return false;
    raw_copy(to, value, length + 1);
    return true;
}

/* libasan comes first in LD_PRELOAD where the program itself needs it. What it starts need not, so there it does not
 * stand any more: taken out in place, since no setenv can be called here. */
static void drop_asan(const struct environment *environment)
{
    const char *asan = environment->asan;
    char *preload = environment->preload;
    if (!asan || !*asan || !preload)
        return;
    const char *rest = after(preload, asan);
    if (!rest || (*rest && *rest != ':' && *rest != ' '))
        return;
    if (*rest)
        rest++;
    raw_copy(preload, rest, raw_length(rest, SIZE_MAX) + 1);
}

/* ---- its command (shm/area.h) ---- */

/*
 * Every process of a job comes here. So this is a handful of plain system calls, and touches no new page: the code lies
 * beside that of the start, and arguments are written from where they are. The fifo is opened for reading, too: so
 * nobody waits for a reader, and a reader that goes away at that moment causes no SIGPIPE.
 */
enum { FIFO_PATH = 128, DIRECTORY_SIZE = 1024, ARGS_MOST = 1 << 20 };

static inline bool fifo_beside(const char *socket, char path[FIFO_PATH])
{
    size_t length = raw_length(socket, FIFO_PATH);
    while (length && socket[length - 1] != '/')
        length--;
    if (!length || length + sizeof COMMAND_FIFO > FIFO_PATH)
        return false;
    raw_copy(path, socket, length);
    raw_copy(path + length, COMMAND_FIFO, sizeof COMMAND_FIFO);
    return true;
}

static inline uint32_t put_directory(char *to)
{
    long length = sys_call2(SYS_getcwd, (long)to, DIRECTORY_SIZE);
    if (length > 1 && to[0] == '/')
        return (uint32_t)length;
    to[0] = '\0'; /* too long, removed, or out of reach */
    return 1;
}

/* How many bytes from argv[0] on are arguments, their ends included, at most `room`: the kernel puts them one behind
 * the other. Where they are not, or do not fit, some are missing; the last has no end then. */
static inline uint32_t args_length(char **argv, int argc, uint32_t room, uint16_t *flags)
{
    uint32_t used = 0;
    for (int i = 0; i < argc; i++) {
        uint32_t length = argv[i] == argv[0] + used ? (uint32_t)raw_length(argv[i], room - used) : 0;
        if (argv[i] != argv[0] + used || length == room - used) {
            *flags = COMMAND_CUT;
            return used + length;
        }
        used += length + 1;
    }
    return used;
}

/* The arguments are those of a constructor in glibc; other C libraries pass nothing, which is noticed. `socket`: of the
 * monitor; the fifo is beside it. Takes some microseconds. */
__attribute__((section(".text.startup"), noinline)) static void command_say(const char *socket, int argc, char **argv,
                                                                            char **envp)
{
    struct command_note note = {.magic = COMMAND_MAGIC};
    char path[FIFO_PATH], directory[DIRECTORY_SIZE];
    int64_t now[2] = {0, 0};
    if (argc < 1 || argc > ARGS_MOST || argv + argc + 1 != envp || !fifo_beside(socket, path))
        return;
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0);
    if (fd < 0)
        return;
    sys_call2(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)now);
    note.pid = (int32_t)sys_call0(SYS_getpid);
    note.time_ns = (uint64_t)now[0] * 1000000000 + (uint64_t)now[1];
    note.directory = put_directory(directory);
    uint32_t args = args_length(argv, argc, COMMAND_TEXTS - note.directory, &note.flags);
    note.size = (uint16_t)(sizeof note + note.directory + args);
    const struct iovec parts[] = {{&note, sizeof note}, {directory, note.directory}, {argv[0], args}};
    sys_call4(SYS_writev, fd, (long)parts, 3, 0);
    sys_call2(SYS_close, fd, 0);
}

/* ---- start ---- */

/* Copied, for the program may write over its environment. Mostly it takes no page more than there is anyway. */
static char short_job[512];
static char long_job[AREA_PATH] AGENT_LARGE;
static char metrics_path[METRICS_ENV_SIZE];

static void start(int argc, char **argv, char **envp)
{
    struct environment environment;
    agent_next_find();
    environment_scan(__environ ? __environ : envp, &environment);
    drop_asan(&environment);
    if (is(environment.off, "off"))
        return;
    copy_setting(metrics_path, sizeof metrics_path, environment.metrics);
    if (!copy_setting(connect_settings.socket, sizeof connect_settings.socket, environment.socket))
        return;
    if (copy_setting(short_job, sizeof short_job, environment.job))
        connect_settings.job = short_job;
    else
        connect_settings.job = copy_setting(long_job, sizeof long_job, environment.job) ? long_job : "";
    connect_settings.image = agent_ticks();
    connect_settings.patches = is(environment.wanted, "patches");
    connect_settings.wanted = connect_settings.patches || is(environment.wanted, "1");
    if (valgrind_running())
        agent_hot.valgrind = true;
    command_say(connect_settings.socket, argc, argv, envp);
    agent_connect(CONNECT_START);
    agent_mpi_start(environment.mpi, environment.mpi_dir, __environ != NULL);
}

/* ---- when it starts ---- */

/*
 * The right moment to start: after the C library's own initialiser (before it there is no environment, and dlopen would
 * prevent it for good), and before the constructors of all other libraries, whose calls are to be recorded. The agent
 * is linked with -z initfirst: its constructor runs before the C library's initialiser. The last entry of the C
 * library's DT_INIT_ARRAY is replaced by ours, which puts it back and calls it. The dynamic linker reads each entry
 * when it comes to it, and there is one thread.
 */
typedef void init_function(int argc, char **argv, char **envp);

static init_function **init_place, *init_original;
static uint64_t relro_low, relro_high; /* pages that the dynamic linker has made read-only; 0: not those of the place */

static bool is_libc(const char *path)
{
    static const char name[] = "/libc.so.6";
    size_t length = raw_length(path, SIZE_MAX), size = sizeof name - 1;
    for (size_t i = 0; length >= size && i < size; i++)
        if (path[length - size + i] != name[i])
            return false;
    return length >= size;
}

/* Finds the last entry, and whether it can be written. */
static bool init_find(const struct link_map *libc)
{
    uint64_t at = 0, size = 0;
    for (const Elf64_Dyn *dynamic = libc->l_ld; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_INIT_ARRAY)
            at = libc->l_addr + dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_INIT_ARRAYSZ)
            size = dynamic->d_un.d_val;
    }
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)libc->l_addr;
    if (!at || size < sizeof *init_place || size % sizeof *init_place || !head || head->e_ident[0] != ELFMAG0 ||
        head->e_ident[1] != ELFMAG1 || head->e_phentsize != sizeof(Elf64_Phdr))
        return false;
    init_place = (init_function **)(at + size - sizeof *init_place);
    const Elf64_Phdr *part = (const Elf64_Phdr *)(libc->l_addr + head->e_phoff);
    for (unsigned i = 0; i < head->e_phnum; i++) {
        uint64_t low = (libc->l_addr + part[i].p_vaddr) & -AREA_PAGE;
        uint64_t high = (libc->l_addr + part[i].p_vaddr + part[i].p_memsz) & -AREA_PAGE;
        if (part[i].p_type != PT_GNU_RELRO || (uint64_t)init_place < low || (uint64_t)init_place >= high)
            continue;
        relro_low = (uint64_t)init_place & -AREA_PAGE;
        relro_high = relro_low + AREA_PAGE;
    }
    return true;
}

static long relro_protect(int protection)
{
    long size = (long)(relro_high - relro_low);
    return size ? sys_call4(SYS_mprotect, (long)relro_low, size, protection, 0) : 0;
}

static void init_replaced(int argc, char **argv, char **envp)
{
    *(init_function *volatile *)init_place = init_original;
    relro_protect(PROT_READ);
    init_original(argc, argv, envp);
    start(argc, argv, envp);
}

/* False, and nothing is changed: the C library's initialiser has run already, or cannot be waited for. */
static bool start_after_libc(void)
{
    if (__environ || init_original)
        return false;
    connect_settings.first = true;
    const struct link_map *map = _r_debug.r_map;
    while (map && !is_libc(map->l_name))
        map = map->l_next;
    if (!map || !init_find(map))
        return false;
    if (relro_protect(PROT_READ | PROT_WRITE) < 0)
        return false;
    init_original = *init_place;
    *(init_function *volatile *)init_place = init_replaced;
    return true;
}

__attribute__((constructor(101))) static void agent_start(int argc, char **argv, char **envp)
{
    if (!start_after_libc())
        start(argc, argv, envp);
}

/* ---- late, and the end ---- */

/* Brought into a running program, whose environment says nothing: called by the monitor, by way of one of the program's
 * threads. Neither functions nor signals are looked at then, only MPI. */
__attribute__((visibility("default"))) long scry_agent_late(const struct late_start *start);
long scry_agent_late(const struct late_start *start)
{
    bool other = connect_settings.socket[0] && !connect_settings.late;
    if (start->magic != LATE_MAGIC || start->version != LATE_VERSION || other || valgrind_running() ||
        !copy_setting(connect_settings.socket, sizeof connect_settings.socket, start->socket))
        return LATE_OTHER;
    connect_settings.job = "";
    connect_settings.late = true;
    if (!connect_settings.image)
        connect_settings.image = agent_ticks();
    return agent_mpi_late(start->mpi_dir);
}

__attribute__((destructor(101))) static void agent_end(void)
{
    if (!agent_was_connected)
        return;
    struct area *area = agent_hot.area;
    if (!area)
        return;
    struct agent_thread *self = &agent_self;
    if (self->block && !atomic_load(&self->block->pending)) {
        enum guard guard = thread_guard(self, (uint64_t)__builtin_frame_address(0));
        record_retire(self);
        thread_unguard(self, guard);
    }
    agent_read_done();
    atomic_store(&area->left, agent_ticks());
    atomic_store(&area->agent_state, AREA_EXITED);
    agent_ring();
}

/* ---- what a program says itself (scry/agent.h) ---- */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void scry_mark_text(const char *text);
EXPORTED void scry_thread_off(void);
EXPORTED void scry_thread_on(void);
EXPORTED void scry_metric_bits(const char *name, uint64_t bits);

enum { MARK_SIZE = 1024 };

/* A thread that says something before its first traced call is attached by it. */
EXPORTED void scry_mark_text(const char *text)
{
    struct agent_thread *self = &agent_self;
    fork_noticed();
    struct area *area = agent_hot.area;
    if (!area || !text || !atomic_load_explicit(&area->on, memory_order_relaxed) || self->off ||
        (!self->block && !thread_attach(self)))
        return;
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    enum guard guard = thread_guard(self, sp);
    uint16_t size = (uint16_t)raw_length(text, MARK_SIZE);
    if (guard == GUARD_STUCK)
        return;
    if (guard > GUARD_OUTER || sp - self->stack_low < self->size || stack_switch(self, guard, sp, true)) {
        if (guard == GUARD_OUTER && self->waiting)
            hooks_flush_waiting(self, guard);
        record_put(self, guard, RECORD_MARK, 0, &size, sizeof size, text, size);
    }
    thread_unguard(self, guard);
}

/* In this thread; each off needs its on. */
EXPORTED void scry_thread_off(void)
{
    struct agent_thread *self = &agent_self;
    self->off++;
    self->stack_size = 0;
}

EXPORTED void scry_thread_on(void)
{
    struct agent_thread *self = &agent_self;
    if (self->off && --self->off == 0)
        self->stack_size = self->levels ? 0 : self->size;
}

/* ---- numbers (shm/metrics.h) ---- */

static _Atomic(struct metrics *) metrics_memory;
static _Atomic bool metrics_none;

/* What another program has under that name is not even opened; what is one cannot become smaller. */
static bool metrics_is_there(const char *path)
{
    static const char expected[] = "/memfd:" METRICS_NAME;
    char target[sizeof expected - 1];
    return *path && sys_call4(SYS_readlinkat, AT_FDCWD, (long)path, (long)target, sizeof target) == sizeof target &&
           after(target, expected);
}

/* What the process had in its environment when it was executed. false: nothing, or too long. */
static bool metrics_of_environment(pid_t pid, char ret_path[METRICS_ENV_SIZE])
{
    static const char name[] = METRICS_ENV "=";
    enum { NAME = sizeof name - 1, OTHER };
    char path[PROC_TEXT_PATH], bytes[256];
    size_t matched = 0, len = 0;
    proc_text_path(path, pid, "environ");
    long got, fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    bool found = false;
    while (fd >= 0 && !found && (got = sys_call4(SYS_read, fd, (long)bytes, sizeof bytes, 0)) > 0)
        for (long i = 0; i < got && !found; i++) {
            if (matched == NAME && len < METRICS_ENV_SIZE)
                ret_path[len++] = bytes[i];
            found = matched == NAME && !bytes[i];
            if (matched != NAME)
                matched = !bytes[i] ? 0 : matched < NAME && bytes[i] == name[matched] ? matched + 1 : OTHER;
        }
    if (fd >= 0)
        sys_call2(SYS_close, fd, 0);
    return found && !ret_path[len - 1];
}

/* Launchers that give the environment of the first node to all ranks (MPICH) are themselves started by the scry run of each: what
 * that has told them is in theirs. */
static bool metrics_find_above(char ret_path[METRICS_ENV_SIZE])
{
    enum { ABOVE_MOST = 8 };
    char line[128];
    pid_t pid = 0;
    for (int i = 0; i < ABOVE_MOST; i++) {
        proc_text_read(pid, "stat", line, sizeof line);
        const char *at = proc_text_stat(line, 4);
        pid = (pid_t)proc_text_number(&at, 10);
        if (pid <= 1)
            return false;
        if (metrics_of_environment(pid, ret_path) && metrics_is_there(ret_path))
            return true;
    }
    return false;
}

static struct metrics *metrics_map(void)
{
    enum { GET_SEALS = 1034, SEAL_SHRINK = 2 }; /* F_GET_SEALS, F_SEAL_SHRINK of <fcntl.h> with _GNU_SOURCE */
    char above[METRICS_ENV_SIZE];
    const char *path = metrics_path;
    long fd, seals, memory = -1;
    if (!metrics_is_there(path))
        path = *metrics_path && metrics_find_above(above) ? above : NULL;
    if (!path || (fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)) < 0)
        return NULL;
    seals = sys_call4(SYS_fcntl, fd, GET_SEALS, 0, 0);
    if (seals > 0 && seals & SEAL_SHRINK && sys_call4(SYS_lseek, fd, 0, SEEK_END, 0) == sizeof(struct metrics))
        memory = sys_call6(SYS_mmap, 0, sizeof(struct metrics), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sys_call2(SYS_close, fd, 0);
    struct metrics *metrics = (struct metrics *)memory; /* NOLINT(performance-no-int-to-ptr) */
    if (memory < 0 && memory > -4096)
        return NULL;
    if (metrics->magic == METRICS_MAGIC && metrics->version == METRICS_VERSION)
        return metrics;
    sys_call2(SYS_munmap, memory, sizeof(struct metrics));
    return NULL;
}

/* Two threads, or a signal handler, may both map it: one of them is taken. */
static struct metrics *metrics_open(void)
{
    struct metrics *mapped = metrics_map(), *other = NULL;
    if (!mapped) {
        atomic_store(&metrics_none, true);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&metrics_memory, &other, mapped))
        return mapped;
    sys_call2(SYS_munmap, (long)mapped, sizeof *mapped);
    return other;
}

/* A thread is known by where its own variables are. */
EXPORTED void scry_metric_bits(const char *name, uint64_t bits)
{
    struct metrics *metrics = atomic_load_explicit(&metrics_memory, memory_order_acquire);
    if (!name || atomic_load_explicit(&metrics_none, memory_order_relaxed))
        return;
    if (!metrics)
        metrics = metrics_open();
    if (metrics)
        metrics_say(metrics, name, bits, (uint64_t)(uintptr_t)__builtin_thread_pointer());
}

/*
 * Programs that restrict their own system calls. The agent's are not among those that they allow, and one that is not
 * may kill them (see seccomp(2); strict mode even takes the time stamp counter away). So before the restriction comes,
 * the agent is switched off, in this process and in those that it will fork.
 */

enum { SET_MODE_STRICT, SET_MODE_FILTER }; /* <linux/seccomp.h> */

static const char sealed[] = "the program restricted its system calls (seccomp)";

NEXT_EARLY(prctl);
EXPORTED int prctl(int option, ...)
{
    va_list rest;
    va_start(rest, option);
    unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long);
    unsigned long c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
    va_end(rest);
    if (option == PR_SET_SECCOMP)
        agent_seal(sealed);
    return NEXT(prctl)(option, a, b, c, d);
}

/* libseccomp has no other way to the system call than this one. */
NEXT_EARLY(syscall);
void *modules_syscall(long number, long first, long second)
{
    if (number == SYS_seccomp && (first == SET_MODE_STRICT || first == SET_MODE_FILTER))
        agent_seal(sealed);
    if (number != SYS_sigaltstack)
        return (void *)NEXT(syscall);
    long result = NEXT(syscall)(number, first, second);
    int kept = errno;
    agent_altstack_look();
    errno = kept;
    return modules_answer((uint64_t)result);
}
