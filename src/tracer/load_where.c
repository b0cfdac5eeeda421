/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread is, by its backtrace: whether it may be made to call dlopen there, or holds up who does (load.c says
 * why). It goes by the names of files and of the C library's functions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "tracer/tracee.h"

bool load_starts(const char *text, const char *start)
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

bool load_is_linker(const char *file)
{
    return load_starts(file, "ld-linux") || load_starts(file, "ld-2.") || load_starts(file, "ld.so");
}

bool load_is_libc(const char *file)
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

int load_check(struct thread *thread, uint64_t *ret_way_out, struct err *err)
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
