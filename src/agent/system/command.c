/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every process of a job comes here. So this is a handful of plain system calls, and touches no new page: the code lies
 * beside that of the start, and arguments are written from where they are. The fifo is opened for reading, too: so
 * nobody waits for a reader, and a reader that goes away at that moment causes no SIGPIPE.
 */
#include "agent/system/command.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "agent/system/raw.h"
#include "agent/system/sys.h"
#include "shm/command.h"

enum { PATH_SIZE = 128, DIRECTORY_SIZE = 1024, ARGS_MOST = 1 << 20 };

static inline bool path_beside(const char *socket, char path[PATH_SIZE])
{
    size_t length = raw_length(socket, PATH_SIZE);
    while (length && socket[length - 1] != '/')
        length--;
    if (!length || length + sizeof COMMAND_FIFO > PATH_SIZE)
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

__attribute__((section(".text.startup"))) void command_say(const char *socket, int argc, char **argv, char **envp)
{
    struct command_note note = {.magic = COMMAND_MAGIC};
    char path[PATH_SIZE], directory[DIRECTORY_SIZE];
    int64_t now[2] = {0, 0};
    if (argc < 1 || argc > ARGS_MOST || argv + argc + 1 != envp || !path_beside(socket, path))
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
