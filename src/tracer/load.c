/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/proc_file.h"
#include "tracer/tracee.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Where a thread is, by its backtrace: whether it may be made to call dlopen there, or holds up who does (load.c says
 * why). It goes by the names of files and of the C library's functions.
 */

static bool load_starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* Names without folders. */
static bool load_is_linker(const char *file)
{
    return load_starts(file, "ld-linux") || load_starts(file, "ld-2.") || load_starts(file, "ld.so");
}

static bool load_is_libc(const char *file)
{
    return load_starts(file, "libc.so.") || load_starts(file, "libc-2.") || load_starts(file, "libpthread.so") ||
           load_starts(file, "libpthread-2.") || load_starts(file, "libdl.so") || load_starts(file, "libdl-2.");
}

/* Libraries that may hold locks of what they put between the program and mmap or munmap, which dlopen calls; and that
 * of exceptions, which holds some while it looks for tables. */
static bool is_delicate(const char *file)
{
    static const char *const names[] = {"libmpi", "libmpich",  "libopen-", "libompi",  "mca_",     "libuc",
                                        "libpmi", "libfabric", "libpsm",   "libgcc_s", "libunwind"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (load_starts(file, names[i]))
            return true;
    return false;
}

/* What a program may be in, called by its own code: functions that wait in the kernel, and hold nothing. */
static const char *const waiting[] = {"accept",
                                      "accept4",
                                      "clock_gettime",
                                      "clock_nanosleep",
                                      "connect",
                                      "epoll_pwait",
                                      "epoll_pwait2",
                                      "epoll_wait",
                                      "flock",
                                      "fsync",
                                      "gettimeofday",
                                      "getrandom",
                                      "msgrcv",
                                      "msgsnd",
                                      "nanosleep",
                                      "open",
                                      "open64",
                                      "openat",
                                      "openat64",
                                      "pause",
                                      "poll",
                                      "ppoll",
                                      "pread",
                                      "pread64",
                                      "pselect",
                                      "pthread_barrier_wait",
                                      "pthread_clockjoin_np",
                                      "pthread_cond_clockwait",
                                      "pthread_cond_timedwait",
                                      "pthread_cond_wait",
                                      "pthread_join",
                                      "pthread_mutex_lock",
                                      "pthread_rwlock_rdlock",
                                      "pthread_rwlock_wrlock",
                                      "pthread_timedjoin_np",
                                      "pwrite",
                                      "pwrite64",
                                      "read",
                                      "readv",
                                      "recv",
                                      "recvfrom",
                                      "recvmsg",
                                      "sched_yield",
                                      "select",
                                      "sem_clockwait",
                                      "sem_timedwait",
                                      "sem_wait",
                                      "semop",
                                      "semtimedop",
                                      "send",
                                      "sendmsg",
                                      "sendto",
                                      "sigsuspend",
                                      "sigtimedwait",
                                      "sigwait",
                                      "sigwaitinfo",
                                      "sleep",
                                      "syscall",
                                      "usleep",
                                      "wait",
                                      "wait3",
                                      "wait4",
                                      "waitid",
                                      "waitpid",
                                      "write",
                                      "writev",
                                      "__nanosleep",
                                      "__poll",
                                      "__read",
                                      "__select",
                                      "__wait",
                                      "__waitpid",
                                      "__write",
                                      "__sched_yield",
                                      "__accept",
                                      "__recv",
                                      "__send",
                                      "__connect",
                                      "__open",
                                      "__open64",
                                      "__pread64",
                                      "__pwrite64",
                                      "__sigsuspend",
                                      NULL};
/* What holds the lock of a stream at most, while it waits in one of the above. */
static const char *const streams[] = {"__getdelim",     "__uflow", "__underflow", "__overflow", "__isoc99_fscanf",
                                      "__isoc99_scanf", "fflush",  "fgetc",       "fgets",      "fprintf",
                                      "fputc",          "fputs",   "fread",       "fscanf",     "fwrite",
                                      "getc",           "getchar", "getdelim",    "getline",    "printf",
                                      "putc",           "putchar", "puts",        "scanf",      "vfprintf",
                                      "vprintf",        NULL};
/* Below the program's own functions. */
static const char *const beginnings[] = {
    "__libc_start_main", "__libc_start_call_main", "start_thread", "clone", "__clone", "clone3", "__clone3", NULL};
/* That another thread must not be in. */
static const char *const opening[] = {
    "dlopen",      "dlmopen",         "dlclose", "dlsym",      "dlvsym", "dladdr",          "dladdr1",
    "dlinfo",      "dl_iterate_phdr", "fork",    "__fork",     "_Fork",  "vfork",           "__vfork",
    "posix_spawn", "posix_spawnp",    "exit",    "quick_exit", "execve", "_dl_find_object", NULL};

/* The code to which a signal's handler returns: mov $15, %rax; syscall. */
static bool returns_from_handler(struct process *process, uint64_t pc)
{
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    uint8_t bytes[sizeof code];
    return space_read(process, pc, bytes, sizeof bytes) == 0 && memcmp(bytes, code, sizeof code) == 0;
}

/* What kind of thing a frame of the C library is, by its name. */
enum frame { FRAME_UNNAMED, FRAME_WAITING, FRAME_STREAM, FRAME_BEGINNING, FRAME_OTHER };

static enum frame kind_of(const struct unwind_place *place)
{
    return !place->function                                                              ? FRAME_UNNAMED
           : is_one_of(place->function, waiting)                                         ? FRAME_WAITING
           : is_one_of(place->function, beginnings)                                      ? FRAME_BEGINNING
           : is_one_of(place->function, streams) || load_starts(place->function, "_IO_") ? FRAME_STREAM
                                                                                         : FRAME_OTHER;
}

/* Of the thread that is to call: from the innermost frame outward it is at most in one of the functions that wait, and
 * their unnamed parts, called by the program; further out, the C library has only begun it. 0 or -EAGAIN. */
static int check_calling(struct thread *thread, const struct unwind_place *places, size_t count, struct err *err)
{
    for (size_t i = count; i-- > 0;) { /* the outermost is what the program called */
        const char *name = places[i].function;
        if (is_delicate(places[i].file))
            return err_set(err, -EAGAIN, "thread %d is inside %s%s%s%s", thread->tid, name ? name : "",
                           name ? " (" : "", places[i].file, name ? ")" : "");
    }
    size_t at = 0;
    enum frame most = count && kind_of(&places[0]) == FRAME_WAITING ? FRAME_STREAM : FRAME_WAITING;
    while (at < count && load_is_libc(places[at].file) && kind_of(&places[at]) <= most)
        at++;
    if (at == count || (at > 0 && (load_is_libc(places[at].file) || kind_of(&places[at - 1]) == FRAME_UNNAMED))) {
        const char *name = places[at < count ? at : count - 1].function;
        return err_set(err, -EAGAIN, "thread %d is inside the C library%s%s%s", thread->tid, name ? " (" : "",
                       name ? name : "", name ? ")" : "");
    }
    for (bool begun = false; at < count; at++) {
        bool libc = load_is_libc(places[at].file), last = at + 1 == count;
        enum frame kind = libc ? kind_of(&places[at]) : FRAME_OTHER;
        begun = libc && (begun || kind == FRAME_BEGINNING);
        bool leaves = libc && !last && !load_is_libc(places[at + 1].file); /* to the program: it was a call of it */
        if (libc && (kind == FRAME_WAITING || kind == FRAME_STREAM || kind == FRAME_OTHER || (leaves && !begun)))
            return err_set(err, -EAGAIN, "thread %d was called by %s of the C library", thread->tid,
                           places[at].function ? places[at].function : "a function");
    }
    return 0;
}

/* Of any thread: it holds up nobody in the dynamic linker. */
static int check_places(struct thread *thread, const struct tracer_frame *frames, const struct unwind_place *places,
                        size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!places[i].file[0])
            return err_set(err, -EAGAIN, "thread %d executes code that belongs to no file", thread->tid);
        if (load_is_linker(places[i].file))
            return err_set(err, -EAGAIN, "thread %d is inside the dynamic linker", thread->tid);
        if (returns_from_handler(thread->process, frames[i].pc))
            return err_set(err, -EAGAIN, "thread %d is in a signal's handler", thread->tid);
        if (load_is_libc(places[i].file) && places[i].function && is_one_of(places[i].function, opening))
            return err_set(err, -EAGAIN, "thread %d is inside %s", thread->tid, places[i].function);
    }
    return 0;
}

/* Where the thread comes back from all that it must not be in; 0: not known. */
static uint64_t way_out(struct thread *thread, const struct tracer_frame *frames, const struct unwind_place *places,
                        size_t count)
{
    struct err ignored;
    for (size_t i = 1; i < count; i++)
        if (!load_is_libc(places[i].file) && check_calling(thread, places + i, count - i, &ignored) == 0)
            return frames[i].pc;
    return 0;
}

/* ret_way_out NULL: it is not to call anything. */
static int check_frames(struct thread *thread, const struct tracer_frame *frames, size_t count, uint64_t *ret_way_out,
                        struct err *err)
{
    _cleanup_(freep) struct unwind_place *places = calloc(count + 1, sizeof *places);
    if (!places)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) /* a return address may already be that of the next function */
        places[i] = unwind_place(thread->process, frames[i].pc - (i > 0));
    int code = check_places(thread, frames, places, count, err);
    if (code < 0 || !ret_way_out)
        return code;
    code = check_calling(thread, places, count, err);
    *ret_way_out = code == -EAGAIN ? way_out(thread, frames, places, count) : 0;
    return code;
}

/* A stopped thread holds up nobody in the dynamic linker; with ret_way_out it could also be made to call it, and if
 * not, that tells where it comes back from what it must not be in (0: not known). 0, or -EAGAIN: err says where it is.
 */
static int load_check(struct thread *thread, uint64_t *ret_way_out, struct err *err)
{
    struct buf frames = BUF_INIT;
    bool whole = false;
    int code = unwind_thread(thread, 0, &frames, &whole, err);
    if (code == 0 && !whole)
        code = err_set(err, -EAGAIN, "the stack of thread %d cannot be followed to its end", thread->tid);
    if (code == 0)
        code = check_frames(thread, (const struct tracer_frame *)frames.data, frames.len / sizeof(struct tracer_frame),
                            ret_way_out, err);
    buf_done(&frames);
    return code == -EIO || code == -ETIME ? -EAGAIN : code;
}

/*
 * Bringing a library into a process that runs (tracer_load). What makes a thread the wrong one to call dlopen is a lock
 * that it holds itself, the allocator's above all, or one that another holds for ever, the dynamic linker's. Both are
 * seen in backtraces: all threads are stopped for the moment, and wherever one is where it could hold such a lock, or
 * where that is not known, nothing is done, and it is tried again another time.
 *
 * A thread that is hardly ever elsewhere is met where it comes back from there to the program: by a breakpoint at the
 * return address, where the same is checked again.
 *
 * The calls are made in one stop each, one after the other, and the thread is not in the program's code in between.
 * Should this program go away meanwhile, the function that is being called returns to rt_sigreturn (call_x86_64.c), and
 * the thread goes on with all registers and its signal mask; only errno may have changed.
 */

enum { STACK_ROOM = 128 << 10, RTLD_NOW_LOCAL = 2, MESSAGE_SIZE = 512, THREADS_MOST = 1024 };

enum function { ERRNO_LOCATION, DLOPEN, DLERROR, DLSYM, CALLED /* found by dlsym */, FUNCTIONS };
static const char *const function_names[CALLED] = {"__errno_location", "dlopen", "dlerror", "dlsym"};

struct load {
    pid_t tid;             /* 0: over, or not begun */
    uint64_t place;        /* of a breakpoint: where a thread leaves what it must not be in; 0: none */
    uint64_t arrived;      /* the hold of a thread that has come there; 0 */
    enum function running; /* what the thread is in */
    uint64_t functions[FUNCTIONS];
    uint64_t errno_at, sigmask;
    int32_t errno_value;
    struct tracer_load wanted;
    int code; /* of its result */
    int64_t result;
    struct err err;
};

/* ---- who may call ---- */

/* Room for functions of the C library, on the stack that the thread was given: its thread descriptor lies in the same
 * mapping. The first one's grows. */
static bool has_room(struct thread *thread)
{
    struct proc_maps maps;
    uint64_t sp = thread->regs.rsp;
    bool room = false;
    if (proc_maps_read(thread->tid, &maps) < 0)
        return false;
    const struct proc_map *map = proc_maps_find(&maps, sp);
    if (map && strcmp(map->path, "[stack]") == 0) /* 8 MB are usual, 1 is always there */
        room = sp - map->start >= STACK_ROOM || map->end - sp < (UINT64_C(1) << 20);
    else if (map)
        room = sp - map->start >= STACK_ROOM && thread->regs.fs_base >= sp && thread->regs.fs_base < map->end;
    proc_maps_done(&maps);
    return room;
}

/* By an event; not by its coming to the place where it is waited for. */
static bool is_held(const struct thread *thread)
{
    return thread->hold && thread->hold != thread->process->load->arrived;
}

/* A thread that is stopped and could be made to call, as it is. */
static int check_caller(struct thread *thread, uint64_t *ret_way_out, struct err *err)
{
    *ret_way_out = 0;
    if (!thread->in_stop || thread->exited || thread->leaving)
        return err_set(err, -EAGAIN, "thread %d is inside the kernel", thread->tid);
    if (thread->stop == STOP_GROUP)
        return err_set(err, -EAGAIN, "process %d is stopped", thread->process->pid);
    if (thread->stop == STOP_EVENT || thread->stop == STOP_EXIT || thread->signal || thread->new_child ||
        thread->break_done || thread->trap_due)
        return err_set(err, -EAGAIN, "thread %d is at an event", thread->tid);
    if (thread->stopped || is_held(thread))
        return err_set(err, -EAGAIN, "thread %d is stopped", thread->tid);
    if (thread->calls || thread->step)
        return err_set(err, -EAGAIN, "thread %d is being stepped, or made to call something", thread->tid);
    if (thread_load_regs(thread) < 0 || !has_room(thread))
        return err_set(err, -EAGAIN, "the stack of thread %d has no room, or is not its own", thread->tid);
    return load_check(thread, ret_way_out, err);
}

/* ---- what is called ---- */

struct objects {
    struct load *load;
    bool linker, known;
    struct err *err;
    int code;
};

static bool look_at(void *ctx, const char *file, const struct unwind_object *object)
{
    static const char *const taken[] = {"malloc", "free", "mmap", "dlopen", "pthread_mutex_lock", "__tls_get_addr"};
    static const char *const checked[] = {"libasan", "libtsan", "libmsan", "libhwasan", "vgpreload"};
    struct objects *objects = ctx;
    objects->linker |= load_is_linker(file);
    for (size_t i = 0; i < sizeof checked / sizeof *checked; i++)
        if (load_starts(file, checked[i])) {
            objects->code = err_set(objects->err, -EOPNOTSUPP, "%s is in the process", file);
            return false;
        }
    if (load_is_linker(file) || load_starts(file, "[vdso") || load_starts(file, "libscry-agent"))
        return true; /* ours asks the next one for all that it stands in front of, and holds nothing */
    if (load_is_libc(file)) {
        for (unsigned i = 0; i < CALLED; i++)
            if (!objects->load->functions[i])
                objects->load->functions[i] = unwind_defined(object, function_names[i]);
        return true;
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (unwind_defined(object, taken[i])) {
            objects->code =
                err_set(objects->err, -EOPNOTSUPP,
                        "%s has a function %s of its own, so it is not known which locks are held", file, taken[i]);
            return false;
        }
    return true;
}

static int find_functions(struct process *process, struct load *load, struct err *err)
{
    struct objects objects = {.load = load, .err = err};
    unwind_objects(process, look_at, &objects);
    if (objects.code < 0)
        return objects.code;
    if (!objects.linker)
        return err_set(
            err, -EOPNOTSUPP,
            "process %d has no dynamic linker of the GNU C library: it is linked statically, or with another "
            "C library",
            process->pid);
    for (unsigned i = 0; i < CALLED; i++)
        if (!load->functions[i])
            return err_set(err, -EOPNOTSUPP, "process %d has no function %s: its C library is too old, or another one",
                           process->pid, function_names[i]);
    return 0;
}

/* ---- one call after the other ---- */

static int call_next(struct thread *thread, enum function function, const struct call_wanted *as)
{
    struct load *load = thread->process->load;
    struct call_wanted wanted = *as;
    struct tracer_call_place place;
    wanted.addr = load->functions[function];
    wanted.sigmask = &load->sigmask;
    int code = call_start(thread, &wanted, &place, &load->err);
    if (code == 0) {
        load->running = function;
        thread->calls->loads = true;
    }
    return code;
}

static void load_end(struct load *load, pid_t pid)
{
    struct tracer_event event = {.kind = TRACER_LOADED, .pid = pid, .tid = load->tid, .result = load->code};
    load->tid = 0;
    event_send(&event);
}

/* The thread stands where it stood before. */
static void load_finish(struct thread *thread, int code)
{
    struct load *load = thread->process->load;
    load->code = code;
    if (load->errno_at)
        space_write(thread->process, load->errno_at, &load->errno_value, sizeof load->errno_value);
    regs_set_sigmask(thread, load->sigmask);
    load_end(load, thread->process->pid);
}

static int call_text(struct thread *thread, enum function function, const char *text, unsigned number, uint64_t other)
{
    struct call_wanted wanted = {
        .with_args = true, .args = {other, other}, .data = text, .data_size = strlen(text) + 1, .data_arg = number};
    return call_next(thread, function, &wanted);
}

static int after_errno(struct thread *thread, struct load *load, uint64_t result)
{
    if (space_read(thread->process, result, &load->errno_value, sizeof load->errno_value) < 0)
        return err_set(&load->err, -EIO, "errno of thread %d cannot be read", thread->tid);
    load->errno_at = result;
    return call_text(thread, DLOPEN, load->wanted.path, 0, RTLD_NOW_LOCAL);
}

static int linker_error(struct thread *thread, struct load *load, uint64_t result)
{
    char text[MESSAGE_SIZE] = "";
    size_t done = 0;
    if (result)
        space_read_some(thread->process, result, text, sizeof text - 1, &done);
    text[done] = '\0';
    return err_set(&load->err, -ELIBACC, "the dynamic linker of process %d: %s", thread->process->pid,
                   text[0] ? text : "it cannot be loaded");
}

void load_returned(struct thread *thread, uint64_t result)
{
    struct load *load = thread->process->load;
    const struct call_wanted nothing = {.addr = 0};
    const struct call_wanted data = {.data = load->wanted.data, .data_size = load->wanted.data_size};
    int code = 0;
    switch (load->running) {
    case ERRNO_LOCATION:
        code = after_errno(thread, load, result);
        break;
    case DLOPEN:
        code = result ? call_text(thread, DLSYM, load->wanted.symbol, 1, result) : call_next(thread, DLERROR, &nothing);
        break;
    case DLSYM:
        load->functions[CALLED] = result;
        code = result ? call_next(thread, CALLED, &data) : call_next(thread, DLERROR, &nothing);
        break;
    case DLERROR:
        code = linker_error(thread, load, result);
        break;
    default:
        load->result = (int64_t)result;
        load_finish(thread, 0);
        return;
    }
    if (code < 0)
        load_finish(thread, code);
}

void load_dropped(struct process *process)
{
    struct load *load = process->load;
    if (!load || !load->tid)
        return;
    load->code = err_set(&load->err, -ESRCH, "thread %d ended, or was left alone, before it was done", load->tid);
    load_end(load, process->pid);
}

/* ---- how it begins ---- */

static char *load_copy(const void *bytes, size_t size)
{
    char *to = malloc(size ? size : 1);
    if (to && size)
        memcpy(to, bytes, size);
    return to;
}

void load_free(struct load *load)
{
    if (!load)
        return;
    free((char *)load->wanted.path);
    free((char *)load->wanted.symbol);
    free((char *)load->wanted.data);
    free(load);
}

static struct load *load_new(const struct tracer_load *wanted)
{
    struct load *load = calloc(1, sizeof *load);
    if (!load)
        return NULL;
    load->wanted = (struct tracer_load){.path = load_copy(wanted->path, strlen(wanted->path) + 1),
                                        .symbol = load_copy(wanted->symbol, strlen(wanted->symbol) + 1),
                                        .data = load_copy(wanted->data, wanted->data_size),
                                        .data_size = wanted->data_size,
                                        .tells = wanted->tells};
    if (!load->wanted.path || !load->wanted.symbol || !load->wanted.data) {
        load_free(load);
        return NULL;
    }
    return load;
}

static int load_begin(struct thread *thread, struct err *err)
{
    struct load *load = thread->process->load;
    const struct call_wanted nothing = {.addr = 0};
    /* the signals that an instruction raises are never blocked: the kernel would take the handler away */
    const uint64_t faults = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1) | UINT64_C(1) << (SIGILL - 1) |
                            UINT64_C(1) << (SIGFPE - 1) | UINT64_C(1) << (SIGTRAP - 1);
    if (regs_get_sigmask(thread, &load->sigmask) < 0)
        return err_set(err, -EAGAIN, "thread %d ended", thread->tid);
    if (load->sigmask & faults)
        return err_set(err, -EAGAIN, "thread %d blocks the signals of its own faults", thread->tid);
    int code = call_next(thread, ERRNO_LOCATION, &nothing);
    if (code < 0)
        return err_set(err, code, "%s", load->err.text);
    regs_set_sigmask(thread, ~faults);
    load->tid = thread->tid;
    hold_release(load->arrived);
    return 0;
}

/* ---- a thread that is waited for ---- */

static void wait_at(struct process *process, uint64_t place)
{
    uint8_t original;
    struct err ignored;
    if (place && breakpoint_set(process, place, BREAKPOINT_LOAD, NULL, &original, &ignored) == 0)
        process->load->place = place;
}

static void wait_no_more(struct process *process)
{
    struct load *load = process->load;
    if (load && load->place)
        breakpoint_clear(process, load->place, BREAKPOINT_LOAD);
    if (load)
        load->place = 0;
}

void load_arrived(struct thread *thread)
{
    struct process *process = thread->process;
    struct tracer_event event = {.kind = TRACER_LOADABLE};
    if (!process->load || !process->load->place)
        return;
    const struct breakpoint *breakpoint = breakpoint_find(process->space, process->load->place);
    wait_no_more(process);
    thread->break_done = breakpoint && breakpoint->inserted;
    event_hold(thread, &event);
    process->load->arrived = thread->hold;
}

/* ---- the request ---- */

/* All of the process is stopped. */
static int thread_choose(struct process *process, struct err *err)
{
    unsigned count = 0;
    uint64_t place = 0, way_out;
    for (struct thread *thread = process->threads; thread; thread = thread->next) {
        if (++count > THREADS_MOST)
            return err_set(err, -EOPNOTSUPP, "process %d has more than %d threads", process->pid, THREADS_MOST);
        if (thread->exited)
            continue;
        if (!thread->in_stop || thread->stopped || is_held(thread) || thread->stop == STOP_EVENT)
            return err_set(err, -EAGAIN, "thread %d is %s", thread->tid,
                           thread->in_stop ? "stopped" : "inside the kernel");
        int code = load_check(thread, NULL, err);
        if (code < 0)
            return code;
    }
    int result = err_set(err, -ESRCH, "process %d has no thread", process->pid);
    for (struct thread *thread = process->threads; thread; thread = thread->next) {
        struct err why = {0};
        int code = thread->exited ? -ESRCH : check_caller(thread, &way_out, &why);
        if (code == 0)
            code = load_begin(thread, &why);
        if (code == 0)
            return 0;
        if (code == -EAGAIN && !place)
            place = way_out;
        if (result == -ESRCH && code != -ESRCH) /* the first thread's reason says most to a person */
            result = err_set(err, code, "%s", why.text);
    }
    if (result == -EAGAIN && process->load->wanted.tells)
        wait_at(process, place);
    return result;
}

int load_start(struct process *process, const struct tracer_load *wanted, struct err *err)
{
    if (process->load && process->load->tid)
        return err_set(err, -EBUSY, "a library is being loaded into process %d", process->pid);
    if (wanted->data_size > TRACER_LOAD_DATA || strlen(wanted->path) > TRACER_LOAD_DATA)
        return -E2BIG;
    int code = attach_settle(process, err);
    /* what is known of its files is looked up before it has to stand still */
    struct thread *first = process->threads;
    while (first && first->exited)
        first = first->next;
    struct buf frames = BUF_INIT;
    if (code == 0)
        code = first ? unwind_thread(first, 0, &frames, NULL, err) : -ESRCH;
    buf_done(&frames);
    if (code < 0)
        return code;
    struct load *load = load_new(wanted);
    if (!load)
        return -ENOMEM;
    load->arrived = process->load ? process->load->arrived : 0;
    wait_no_more(process);
    load_free(process->load);
    process->load = load;
    code = find_functions(process, process->load, err);
    if (code < 0)
        return code;
    code = process_halt(process);
    if (code < 0)
        return code == -ETIME ? err_set(err, -EAGAIN, "process %d cannot be stopped", process->pid) : code;
    if (attach_seize_new(process) > 0)
        code = err_set(err, -EAGAIN, "process %d is creating threads", process->pid);
    else
        code = thread_choose(process, err);
    process_unpause(process);
    return code;
}

int load_result(const struct process *process, int64_t *ret_result, struct err *err)
{
    const struct load *load = process->load;
    if (!load)
        return err_set(err, -ESRCH, "nothing is loaded into process %d", process->pid);
    if (load->tid)
        return err_set(err, -EINPROGRESS, "thread %d is loading it", load->tid);
    *ret_result = load->result;
    return load->code < 0 ? err_set(err, load->code, "%s", load->err.text) : 0;
}
