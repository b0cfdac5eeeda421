/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded into the processes of a job with --files, before libc: counts what calls have read and written, by files. A call
 * goes on to the next definition as it came, and what it returned is counted after it: an fstat and some additions. Nothing
 * here allocates, locks or fails; errno stays as the call left it. All but the start and the end is async-signal-safe.
 *
 * libc's own streams (FILE) read and write inside libc, where nothing is seen: for each one that was opened here, its place
 * in the file tells it, when it is closed, sought in, or at the end. Calls that go on it by its descriptor, as those of
 * libstdc++ do, are counted as calls. Of standard streams the place may have been moved by others: no more is counted than
 * the kernel says that this process did beside the calls seen here. Not seen are mapped files, programs without libc, and
 * streams of what was killed.
 */
#undef _FILE_OFFSET_BITS /* read and its like under both of their names */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shm/files.h"

#define EXPORTED __attribute__((visibility("default")))

enum { STREAMS = 1024, LINK_SIZE = 1024 };

static struct files *memory; /* NULL: nothing is counted */
static _Atomic bool off;     /* nothing any more: it gives up rights, and may forbid itself our calls */
static char program[FILES_PROGRAM];
static uint64_t program_hash;
static pid_t started;            /* this process; a child of it that executes nothing is another one */
static _Atomic uint64_t seen[2]; /* bytes that were counted: read, and written */
static const char *const io_paths[] = {"/proc/self/io", "/proc/thread-self/io"};
static uint64_t before[2][2]; /* what the kernel had counted there when we came: before an exec; or, */
static pid_t io_owner;        /* of this process, later */
static struct {
    _Atomic(FILE *) file;  /* NULL: none; the standard ones until the end */
    _Atomic int64_t place; /* until which it is counted */
    pid_t owner;
    bool writes, appends;
} streams[STREAMS];

static const char *const kinds[] = {
    [FILES_PIPES] = "pipes", [FILES_SOCKETS] = "sockets", [FILES_OTHERS] = "terminals and devices"};

/* ---- counting ---- */

static void name_file(struct files_slot *slot, int fd)
{
    static const char folder[] = "/proc/self/fd/";
    char link[32], target[LINK_SIZE];
    if (!slot->device) {
        memcpy(slot->path, kinds[slot->inode], strlen(kinds[slot->inode]));
        return;
    }
    char *digit = link + sizeof link - 1;
    for (*digit = 0; fd || !*digit; fd /= 10)
        *--digit = (char)('0' + fd % 10);
    char *start = digit - strlen(folder);
    memcpy(start, folder, strlen(folder));
    ssize_t len = readlink(start, target, sizeof target);
    size_t from = len >= FILES_PATH ? (size_t)len - (FILES_PATH - 1) : 0;
    if (len > 0)
        memcpy(slot->path, target + from, (size_t)len - from);
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static struct files_slot *find_slot(const struct statx *info, int fd)
{
    bool regular = S_ISREG(info->stx_mode) || S_ISBLK(info->stx_mode);
    uint64_t device = regular ? (uint64_t)info->stx_dev_major << 32 | (info->stx_dev_minor + 1) : 0;
    uint64_t inode = regular                    ? info->stx_ino
                     : S_ISFIFO(info->stx_mode) ? FILES_PIPES
                     : S_ISSOCK(info->stx_mode) ? FILES_SOCKETS
                                                : FILES_OTHERS;
    uint64_t born = regular && info->stx_mask & STATX_BTIME
                        ? (uint64_t)info->stx_btime.tv_sec * 1000000000 + info->stx_btime.tv_nsec
                        : 0;
    uint64_t hash = mixed(mixed(mixed(program_hash, device), inode), born);
    for (size_t i = 0; i < FILES_PROBES; i++) {
        struct files_slot *slot = &memory->slots[(hash + i) % FILES_SLOTS];
        uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (state == FILES_FREE && atomic_compare_exchange_strong(&slot->state, &state, FILES_TAKEN)) {
            slot->device = device;
            slot->inode = inode;
            slot->born = born;
            slot->pid = getpid();
            memcpy(slot->program, program, sizeof program);
            name_file(slot, fd);
            atomic_store_explicit(&slot->state, FILES_READY, memory_order_release);
            return slot;
        }
        if (state == FILES_READY && slot->device == device && slot->inode == inode && slot->born == born &&
            memcmp(slot->program, program, sizeof program) == 0)
            return slot;
    }
    return &memory->rest;
}

static void count_bytes(int fd, int64_t bytes, bool written)
{
    struct statx info;
    if (!memory || bytes <= 0 || atomic_load_explicit(&off, memory_order_relaxed))
        return;
    int error = errno;
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_BTIME, &info) ==
        0) {
        struct files_slot *slot = find_slot(&info, fd);
        atomic_fetch_add_explicit(written ? &slot->written_bytes : &slot->read_bytes, (uint64_t)bytes,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(written ? &slot->writes : &slot->reads, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&seen[written], (uint64_t)bytes, memory_order_relaxed);
    }
    errno = error;
}

/* What a call returned that moved the place in the file. */
static ssize_t counted(int fd, ssize_t bytes, bool written)
{
    if (bytes > 0 && fd >= 0 && fd < STREAMS)
        atomic_fetch_add_explicit(&streams[fd].place, bytes, memory_order_relaxed);
    count_bytes(fd, bytes, written);
    return bytes;
}

/* Of a call that says the place itself. */
static ssize_t counted_at(int fd, ssize_t bytes, bool written)
{
    count_bytes(fd, bytes, written);
    return bytes;
}

/* ---- streams ---- */

static int64_t place_of(int fd)
{
    int error = errno;
    int64_t place = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    errno = error;
    return place;
}

static bool has_stream(int fd)
{
    return memory && !atomic_load_explicit(&off, memory_order_relaxed) && fd >= 0 && fd < STREAMS &&
           atomic_load(&streams[fd].file) && streams[fd].owner == getpid();
}

/* -1: it has none, as streams in memory, which is no error of the call. */
static int stream_fd(FILE *file)
{
    int error = errno, fd = memory && file ? fileno(file) : -1;
    errno = error;
    return fd;
}

/* What the kernel has counted of this process, or thread. */
static void read_io(const char *path, uint64_t ret_bytes[2])
{
    char text[512];
    int error = errno;
    ret_bytes[0] = ret_bytes[1] = 0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t len = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    text[len > 0 ? len : 0] = 0;
    const char *at = text; /* rchar and wchar come first */
    for (int way = 0; way < 2 && (at = strchr(at, ':')); way++)
        ret_bytes[way] = strtoull(++at, NULL, 10);
    errno = error;
}

/* In a child of fork it begins anew. */
static void begin_io(pid_t owner)
{
    io_owner = owner;
    atomic_store(&seen[0], 0);
    atomic_store(&seen[1], 0);
    for (int own = 0; own < 2; own++)
        read_io(io_paths[own], before[own]);
}

/* What it has counted beside the calls seen here. A process has what its children did, too, once it has waited for one: then it is
 * what this thread did. */
static int64_t read_unseen(bool written)
{
    struct rusage children;
    uint64_t now[2], calls = atomic_load(&seen[written]);
    int own = getrusage(RUSAGE_CHILDREN, &children) < 0 || children.ru_minflt > 0;
    read_io(io_paths[own], now);
    uint64_t from = before[own][written];
    return now[written] > from && now[written] - from > calls ? (int64_t)(now[written] - from - calls) : 0;
}

static void stream_opened(FILE *file, const char *mode)
{
    int fd = stream_fd(file);
    int64_t place = !off && fd >= 0 && fd < STREAMS && !(mode[0] == 'a' && strchr(mode, '+')) ? place_of(fd) : -1;
    if (place < 0)
        return;
    streams[fd].owner = getpid();
    streams[fd].writes = mode[0] != 'r';
    streams[fd].appends = mode[0] == 'a';
    if (streams[fd].appends && streams[fd].owner != io_owner)
        begin_io(streams[fd].owner);
    atomic_store(&streams[fd].place, place);
    atomic_store(&streams[fd].file, file);
}

/* Counts what it did since the last time; what waits in its buffer is written soon. One that appends goes past what others have
 * appended. */
static void stream_settle(int fd)
{
    if (!has_stream(fd))
        return;
    int64_t place = place_of(fd), pending = 0;
    if (place < 0)
        return;
    if (streams[fd].writes)
        pending = (int64_t)__fpending(atomic_load(&streams[fd].file));
    int64_t moved = place + pending - atomic_exchange(&streams[fd].place, place + pending);
    if (streams[fd].appends && moved > pending) {
        int64_t own = read_unseen(true) + pending;
        moved = moved < own ? moved : own;
    }
    count_bytes(fd, moved, streams[fd].writes);
}

static void stream_moved(int fd)
{
    if (has_stream(fd))
        atomic_store(&streams[fd].place, place_of(fd));
}

static void stream_closed(int fd)
{
    stream_settle(fd);
    if (has_stream(fd))
        atomic_store(&streams[fd].file, NULL);
}

/* A standard stream, once: what the calls here have not seen. */
static void count_standard(int fd, FILE *file)
{
    bool written = fd != STDIN_FILENO;
    int64_t place = place_of(fd), from = atomic_exchange(&streams[fd].place, -1);
    size_t pending = written ? __fpending(file) : 0;
    if (from < 0 || place < 0 || off || has_stream(fd) || getpid() != started || (place <= from && !pending))
        return;
    int64_t unseen = read_unseen(written), moved = place > from ? place - from : 0;
    count_bytes(fd, (moved < unseen ? moved : unseen) + (int64_t)pending, written);
}

/* ---- the calls ---- */

/* They are found at the start, for dlsym is no call for a signal handler; those of libraries that start earlier when they come. */
#define NEXT(type, name) static type(*next_##name)
#define FIND(name) \
    do \
        if (!next_##name) \
            next_##name = (__typeof__(next_##name))dlsym(RTLD_NEXT, #name); \
    while (0)
#define CALL(name, ...) \
    ({ \
        FIND(name); \
        next_##name(__VA_ARGS__); \
    })

#define COUNTED(result, name, args, given, how) \
    NEXT(result, name) args; \
    EXPORTED result name args; \
    EXPORTED result name args \
    { \
        return how(fd, CALL(name, given), WRITES); \
    }
#define GIVEN(...) __VA_ARGS__

#define WRITES false
COUNTED(ssize_t, read, (int fd, void *to, size_t size), GIVEN(fd, to, size), counted)
COUNTED(ssize_t, __read, (int fd, void *to, size_t size), GIVEN(fd, to, size), counted)
COUNTED(ssize_t, __read_chk, (int fd, void *to, size_t size, size_t room), GIVEN(fd, to, size, room), counted)
COUNTED(ssize_t, readv, (int fd, const struct iovec *parts, int count), GIVEN(fd, parts, count), counted)
COUNTED(ssize_t, pread, (int fd, void *to, size_t size, off_t at), GIVEN(fd, to, size, at), counted_at)
COUNTED(ssize_t, pread64, (int fd, void *to, size_t size, off64_t at), GIVEN(fd, to, size, at), counted_at)
COUNTED(ssize_t, __pread64, (int fd, void *to, size_t size, off64_t at), GIVEN(fd, to, size, at), counted_at)
COUNTED(ssize_t, __pread_chk, (int fd, void *to, size_t size, off_t at, size_t room), GIVEN(fd, to, size, at, room),
        counted_at)
COUNTED(ssize_t, __pread64_chk, (int fd, void *to, size_t size, off64_t at, size_t room), GIVEN(fd, to, size, at, room),
        counted_at)
COUNTED(ssize_t, preadv, (int fd, const struct iovec *parts, int count, off_t at), GIVEN(fd, parts, count, at),
        counted_at)
COUNTED(ssize_t, preadv64, (int fd, const struct iovec *parts, int count, off64_t at), GIVEN(fd, parts, count, at),
        counted_at)
#undef WRITES
#define WRITES true
COUNTED(ssize_t, write, (int fd, const void *from, size_t size), GIVEN(fd, from, size), counted)
COUNTED(ssize_t, __write, (int fd, const void *from, size_t size), GIVEN(fd, from, size), counted)
COUNTED(ssize_t, writev, (int fd, const struct iovec *parts, int count), GIVEN(fd, parts, count), counted)
COUNTED(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), GIVEN(fd, from, size, at), counted_at)
COUNTED(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), GIVEN(fd, from, size, at), counted_at)
COUNTED(ssize_t, __pwrite64, (int fd, const void *from, size_t size, off64_t at), GIVEN(fd, from, size, at), counted_at)
COUNTED(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), GIVEN(fd, parts, count, at),
        counted_at)
COUNTED(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), GIVEN(fd, parts, count, at),
        counted_at)
#undef WRITES

NEXT(ssize_t, sendfile)(int, int, off_t *, size_t);
NEXT(ssize_t, sendfile64)(int, int, off64_t *, size_t);
NEXT(ssize_t, copy_file_range)(int, off64_t *, int, off64_t *, size_t, unsigned);

EXPORTED ssize_t sendfile(int, int, off_t *, size_t);
EXPORTED ssize_t sendfile64(int, int, off64_t *, size_t);

EXPORTED ssize_t sendfile(int to, int from, off_t *at, size_t size)
{
    return counted_at(to, counted_at(from, CALL(sendfile, to, from, at, size), false), true);
}

EXPORTED ssize_t sendfile64(int to, int from, off64_t *at, size_t size)
{
    return counted_at(to, counted_at(from, CALL(sendfile64, to, from, at, size), false), true);
}

EXPORTED ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags)
{
    return counted_at(to, counted_at(from, CALL(copy_file_range, from, from_at, to, to_at, size, flags), false), true);
}

NEXT(int, close)(int);
NEXT(int, dup2)(int, int);
NEXT(int, dup3)(int, int, int);
NEXT(FILE *, freopen)(const char *, const char *, FILE *);
NEXT(FILE *, freopen64)(const char *, const char *, FILE *);
NEXT(int, fclose)(FILE *);
NEXT(FILE *, fopen)(const char *, const char *);
NEXT(FILE *, fopen64)(const char *, const char *);
NEXT(FILE *, fdopen)(int, const char *);
NEXT(off_t, lseek)(int, off_t, int);
NEXT(off64_t, lseek64)(int, off64_t, int);
NEXT(int, fseek)(FILE *, long, int);
NEXT(int, fseeko)(FILE *, off_t, int);
NEXT(int, fseeko64)(FILE *, off64_t, int);
NEXT(int, fsetpos)(FILE *, const fpos_t *);
NEXT(int, fsetpos64)(FILE *, const fpos64_t *);
NEXT(void, rewind)(FILE *);
NEXT(int, prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);

/* With a filter of its own for system calls (seccomp(2)) a process might be killed for ours. Who may not change its rights
 * any more says so before. */
EXPORTED int prctl(int option, ...)
{
    va_list list;
    va_start(list, option);
    unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long), c = va_arg(list, unsigned long),
                  d = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
        atomic_store(&off, true);
    return CALL(prctl, option, a, b, c, d);
}

EXPORTED int close(int fd)
{
    stream_closed(fd);
    return CALL(close, fd);
}

/* What stood there is closed by it. */
EXPORTED int dup2(int fd, int to)
{
    if (fd != to)
        stream_closed(to);
    return CALL(dup2, fd, to);
}

EXPORTED int dup3(int fd, int to, int flags)
{
    if (fd != to)
        stream_closed(to);
    return CALL(dup3, fd, to, flags);
}

#define REOPENED(name) \
    EXPORTED FILE *name(const char *path, const char *mode, FILE *file) \
    { \
        stream_closed(stream_fd(file)); \
        file = CALL(name, path, mode, file); \
        stream_opened(file, mode); \
        return file; \
    }
REOPENED(freopen)
REOPENED(freopen64)

EXPORTED int fclose(FILE *file)
{
    int fd = stream_fd(file);
    if ((file == stdin || file == stdout || file == stderr) && fd >= 0 && fd <= STDERR_FILENO)
        count_standard(fd, file);
    stream_closed(fd);
    return CALL(fclose, file);
}

#define OPENED(name) \
    EXPORTED FILE *name(const char *path, const char *mode) \
    { \
        FILE *file = CALL(name, path, mode); \
        stream_opened(file, mode); \
        return file; \
    }
OPENED(fopen)
OPENED(fopen64)

EXPORTED FILE *fdopen(int fd, const char *mode)
{
    FILE *file = CALL(fdopen, fd, mode);
    stream_opened(file, mode);
    return file;
}

#define SOUGHT(result, name, args, fd, ...) \
    EXPORTED result name args \
    { \
        int its = (fd); \
        stream_settle(its); \
        result value = CALL(name, __VA_ARGS__); \
        stream_moved(its); \
        return value; \
    }
SOUGHT(off_t, lseek, (int fd, off_t at, int from), fd, fd, at, from)
SOUGHT(off64_t, lseek64, (int fd, off64_t at, int from), fd, fd, at, from)
SOUGHT(int, fseek, (FILE * file, long at, int from), stream_fd(file), file, at, from)
SOUGHT(int, fseeko, (FILE * file, off_t at, int from), stream_fd(file), file, at, from)
SOUGHT(int, fseeko64, (FILE * file, off64_t at, int from), stream_fd(file), file, at, from)
SOUGHT(int, fsetpos, (FILE * file, const fpos_t *at), stream_fd(file), file, at)
SOUGHT(int, fsetpos64, (FILE * file, const fpos64_t *at), stream_fd(file), file, at)

EXPORTED void rewind(FILE *file)
{
    int fd = stream_fd(file);
    stream_settle(fd);
    CALL(rewind, file);
    stream_moved(fd);
}

#define ALL(each) \
    each(read) each(__read) each(__read_chk) each(readv) each(pread) each(pread64) each(__pread64) each(__pread_chk) \
        each(__pread64_chk) each(preadv) each(preadv64) each(write) each(__write) each(writev) each(pwrite) \
            each(pwrite64) each(__pwrite64) each(pwritev) each(pwritev64) each(sendfile) each(sendfile64) \
                each(copy_file_range) each(close) each(dup2) each(dup3) each(freopen) each(freopen64) each(fclose) \
                    each(fopen) each(fopen64) each(fdopen) each(lseek) each(lseek64) each(fseek) each(fseeko) \
                        each(fseeko64) each(fsetpos) each(fsetpos64) each(rewind) each(prctl)

static void find_all(void)
{
#define FOUND(name) FIND(name);
    ALL(FOUND)
#undef FOUND
}

/* ---- the start, and the end ---- */

static struct files *map_memory(const char *path)
{
    struct stat info;
    static const char expected[] = "/memfd:" FILES_NAME;
    char target[sizeof expected - 1];
    if (readlink(path, target, sizeof target) != sizeof target || memcmp(target, expected, sizeof target) != 0)
        return NULL; /* its number is another's by now */
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    struct files *files = MAP_FAILED;
    if (seals > 0 && seals & F_SEAL_SHRINK && fstat(fd, &info) == 0 && info.st_size == sizeof *files)
        files = mmap(NULL, sizeof *files, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        syscall(SYS_close, fd);
    if (files != MAP_FAILED && files->magic == FILES_MAGIC && files->version == FILES_VERSION)
        return files;
    if (files != MAP_FAILED)
        munmap(files, sizeof *files);
    return NULL;
}

/* Under more filters for system calls than scry run is: from what executed this program. Ours may be forbidden. */
static bool is_restricted(const struct files *files)
{
    static const char name[] = "\nSeccomp_filters:";
    char text[8192];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
    ssize_t len = fd < 0 ? -1 : syscall(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    text[len > 0 ? len : 0] = 0;
    const char *at = strstr(text, name);
    return !at || strtoll(at + strlen(name), NULL, 10) != files->filters;
}

__attribute__((constructor)) static void files_start(void)
{
    const char *path = getenv(FILES_ENV);
    int error = errno;
    find_all();
    bool filtered = path && next_prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
    struct files *files = path && strncmp(path, "/proc/", 6) == 0 ? map_memory(path) : NULL;
    if (files && !(filtered && is_restricted(files))) {
        next_prctl(PR_GET_NAME, (unsigned long)program, 0, 0, 0);
        for (size_t i = 0; i < FILES_PROGRAM; i++)
            program_hash = mixed(program_hash, (unsigned char)program[i]);
        started = getpid();
        begin_io(started);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            atomic_store(&streams[fd].place, place_of(fd));
        memory = files;
    }
    errno = error;
}

__attribute__((destructor)) static void files_end(void)
{
    if (!memory || off || getpid() != started)
        return;
    FILE *const files[] = {stdin, stdout, stderr};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        count_standard(fd, files[fd]); /* before others, which are seen then */
    for (int fd = 0; fd < STREAMS; fd++)
        stream_settle(fd);
}
