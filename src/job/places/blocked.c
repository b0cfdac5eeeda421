/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/blocked.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "job/places/where.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/text.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/mpi/waiting.h"
#include "shm/waits.h"

enum { THREADS_MOST = 65536, POLLED_LOOKED = 6 };

static const char waits_for_another[] = "waits for a semaphore", waits_for_shared[] = "waits for a lock or a semaphore";

/* ---- small files ---- */

static ssize_t read_file(const char *path, char *room, size_t size)
{
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, room, size - 1);
    if (got < 0) {
        room[0] = 0;
        return -errno;
    }
    room[got] = 0;
    return got;
}

static void put_process(struct buf *out, pid_t pid)
{
    char name[64];
    proc_comm(pid, 0, name, sizeof name);
    buf_printf(out, "process %d", pid);
    if (name[0]) {
        buf_puts(out, " (");
        text_show(out, name);
        buf_putc(out, ')');
    }
}

static void add_waited(struct blocked *thread, pid_t pid)
{
    for (size_t i = 0; i < thread->waits_count; i++)
        if (thread->waits_for[i] == pid)
            return;
    if (thread->waits_count < BLOCKED_WAITED)
        thread->waits_for[thread->waits_count++] = pid;
}

/* ---- locks of files ---- */

/* "7: FLOCK  ADVISORY  WRITE 3517 fd:00:2531452 0 EOF": who holds it; "7: -> FLOCK  ADVISORY ...": who waits for that. */
size_t file_locks_parse(char *text, struct file_lock **ret_locks)
{
    struct file_lock *locks = NULL;
    size_t count = 0, room = 0;
    long long held_id = -1;
    int holds = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        long long id;
        int at = 0, pid;
        struct file_lock lock = {0};
        char kind[16];
        if (sscanf(line, "%lld: %n", &id, &at) != 1 || !at)
            continue;
        bool waits = strncmp(line + at, "->", 2) == 0;
        if (sscanf(line + at + (waits ? 2 : 0), "%15s %*s %*s %d %47s", kind, &pid, lock.file) != 3)
            continue;
        if (!waits) {
            held_id = id;
            holds = pid;
        } else if (id == held_id && holds > 0 && pid > 0 && GROW(locks, count, room)) {
            lock.waits = pid;
            lock.holds = holds;
            lock.flock = strcmp(kind, "FLOCK") == 0;
            locks[count++] = lock;
        }
    }
    *ret_locks = locks;
    return count;
}

size_t file_locks_read(struct file_lock **ret_locks)
{
    _cleanup_(freep) char *text = NULL;
    size_t len;
    *ret_locks = NULL;
    return file_read("/proc/locks", &text, &len) == 0 ? file_locks_parse(text, ret_locks) : 0;
}

size_t database_locks_parse(char *text, struct file_lock **ret_locks)
{
    enum { PENDING = 0x40000000, SHARED_LAST = PENDING + 511, LOG_FIRST = 120, LOG_LAST = 122 };
    struct file_lock *locks = NULL;
    size_t count = 0, room = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct file_lock lock = {0};
        unsigned long long from, to;
        if (sscanf(line, "%*d: POSIX %*s WRITE %d %47s %llu %llu", &lock.holds, lock.file, &from, &to) != 4 ||
            lock.holds <= 0) /* to the end of the file goes none of them */
            continue;
        lock.log = from >= LOG_FIRST && to <= LOG_LAST;
        if ((lock.log || (from >= PENDING && to <= SHARED_LAST)) && GROW(locks, count, room))
            locks[count++] = lock;
    }
    *ret_locks = locks;
    return count;
}

/* "lock:\t1: FLOCK  ADVISORY  WRITE 3517 fd:00:2531452 0 EOF": as in /proc/locks. */
bool file_lock_is_in(const struct file_lock *lock, const char *fdinfo)
{
    static const char before[] = "lock:";
    for (const char *at = fdinfo; (at = strstr(at, before)) != NULL; at += sizeof before - 1) {
        char kind[16], file[sizeof lock->file];
        int pid;
        if (sscanf(at + sizeof before - 1, " %*d: %15s %*s %*s %d %47s", kind, &pid, file) == 3 && pid == lock->holds &&
            (strcmp(kind, "FLOCK") == 0) == lock->flock && strcmp(file, lock->file) == 0)
            return true;
    }
    return false;
}

/* ---- descriptors ---- */

static bool fd_target(pid_t pid, const char *fd, char target[PATH_MAX])
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, fd);
    ssize_t len = readlink(path, target, PATH_MAX - 1);
    target[len < 0 ? 0 : len] = 0;
    return len >= 0;
}

static bool fd_info(pid_t pid, const char *fd, unsigned *ret_flags, uint64_t *ret_offset)
{
    char path[320], text[1024];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", pid, fd);
    unsigned long long offset = 0;
    if (read_file(path, text, sizeof text) < 0 || sscanf(text, "pos: %llu flags: %o", &offset, ret_flags) != 2)
        return false;
    *ret_offset = offset;
    return true;
}

/* What all processes have open, by their names: it costs most of a look, so it is gone through once for what is asked soon after. */
struct descriptors {
    struct descriptor {
        uint64_t name; /* its sum */
        pid_t pid;
        int fd;
    } * list;
    size_t count, room;
    uint64_t read_ns; /* when; 0: never */
    bool failed;      /* out of memory: some are missing */
};

static void descriptors_of(struct descriptors *all, pid_t pid)
{
    char target[PATH_MAX], path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *fds = opendir(path);
    for (struct dirent *fd; fds && !all->failed && (fd = readdir(fds));) {
        if (fd->d_name[0] == '.' || !fd_target(pid, fd->d_name, target))
            continue;
        if (GROW(all->list, all->count, all->room))
            all->list[all->count++] = (struct descriptor){sum_add(0, target, strlen(target)), pid, atoi(fd->d_name)};
        else
            all->failed = true;
    }
    if (fds)
        closedir(fds);
}

static void descriptors_read(struct descriptors *all)
{
    DIR *processes = opendir("/proc");
    all->count = 0;
    for (struct dirent *entry; processes && (entry = readdir(processes));)
        if (atoi(entry->d_name) > 0)
            descriptors_of(all, (pid_t)atoi(entry->d_name));
    if (processes)
        closedir(processes);
    all->read_ns = clock_now_ns();
}

/* The next from *at on that still has the name; processes stand one behind the other. NULL: no more. */
static const struct descriptor *descriptors_next(struct descriptors *all, size_t *at, const char *name, char number[16])
{
    const uint64_t sum = sum_add(0, name, strlen(name));
    char target[PATH_MAX];
    if (*at == 0 && (!all->read_ns || clock_now_ns() - all->read_ns > BLOCKED_OPEN_MS * WAITS_NS_PER_MS))
        descriptors_read(all);
    while (*at < all->count) {
        const struct descriptor *each = &all->list[(*at)++];
        snprintf(number, 16, "%d", each->fd);
        if (each->name == sum && fd_target(each->pid, number, target) && strcmp(target, name) == 0)
            return each;
    }
    return NULL;
}

/* Whether a process has an open file of that name that holds the lock. */
static bool has_lock(pid_t pid, const struct file_lock *lock, const char *name)
{
    char path[320], target[PATH_MAX], text[1024];
    bool has = false;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *fds = opendir(path);
    for (struct dirent *fd; fds && !has && (fd = readdir(fds));) {
        snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", pid, fd->d_name);
        has = fd->d_name[0] != '.' && fd_target(pid, fd->d_name, target) && strcmp(target, name) == 0 &&
              read_file(path, text, sizeof text) > 0 && file_lock_is_in(lock, text);
    }
    if (fds)
        closedir(fds);
    return has;
}

/* Those that have the open file of a lock by flock: each may give it up. Returns how many, at most BLOCKED_WAITED: those first that
 * were not started by another one of them, which is who the lock is for. */
static size_t find_holders(const struct file_lock *lock, const char *name, pid_t ret_holders[BLOCKED_WAITED],
                           size_t *ret_first)
{
    pid_t all[BLOCKED_WAITED];
    size_t count = 0, found = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && count < BLOCKED_WAITED && (entry = readdir(processes));) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 0 && has_lock(pid, lock, name))
            all[count++] = pid;
    }
    if (processes)
        closedir(processes);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < count; i++) {
            struct proc_stat stat;
            bool inherited = false;
            for (size_t k = 0; k < count && proc_stat_of(all[i], 0, &stat) == 0; k++)
                inherited |= all[k] == stat.ppid;
            if (inherited == (pass == 1))
                ret_holders[found++] = all[i];
        }
        *ret_first = pass ? *ret_first : found;
    }
    return found;
}

static void put_holder(struct buf *out, struct blocked *thread, pid_t pid, bool flock)
{
    _cleanup_(freep) struct file_lock *locks = NULL;
    char number[16], name[PATH_MAX];
    size_t count = file_locks_read(&locks), shown = 0;
    snprintf(number, sizeof number, "%d", thread->fd);
    for (size_t i = 0; i < count; i++) {
        pid_t holders[BLOCKED_WAITED] = {locks[i].holds};
        size_t first = 1, found = 1;
        if (locks[i].waits != pid || locks[i].flock != flock)
            continue;
        if (flock && fd_target(pid, number, name))
            found = find_holders(&locks[i], name, holders, &first);
        thread->only_these = found > 0 && found < BLOCKED_WAITED;
        thread->own_lock = flock && found == 1 && holders[0] == pid;
        if (thread->own_lock)
            buf_puts(out, ", which it holds itself, by another descriptor");
        if (!found)
            buf_puts(out, ", which a process holds that is not to be seen");
        for (size_t k = 0; k < found && !thread->own_lock; k++) {
            if (k < first) {
                buf_puts(out, shown++ ? " and " : ", which is held by ");
                put_process(out, holders[k]);
            }
            if (holders[k] != pid)
                add_waited(thread, holders[k]);
        }
    }
}

/* The name of the database that a process has open and another one has locked. false: it has none. */
static bool find_database(pid_t pid, const struct file_lock *lock, char name[PATH_MAX])
{
    static const char index[] = "-shm";
    const char *number = strrchr(lock->file, ':');
    const uint64_t inode = number ? strtoull(number + 1, NULL, 10) : 0;
    char path[320];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *fds = lock->holds != pid ? opendir(path) : NULL;
    for (struct dirent *fd; fds && !found && (fd = readdir(fds));) {
        struct statx status;
        snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, fd->d_name);
        found = fd->d_name[0] != '.' &&
                statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO | STATX_TYPE, &status) == 0 &&
                S_ISREG(status.stx_mode) && status.stx_ino == inode && fd_target(pid, fd->d_name, name) &&
                has_lock(lock->holds, lock, name);
        size_t len = found ? strlen(name) : 0, behind = sizeof index - 1;
        if (found && lock->log && (found = len > behind && strcmp(name + len - behind, index) == 0))
            name[len - behind] = 0;
    }
    if (fds)
        closedir(fds);
    return found;
}

/* A file system of another node that does not answer is not asked. */
static bool is_fifo(pid_t pid, const char *fd)
{
    char path[320];
    struct statx status;
    snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, fd);
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 && S_ISFIFO(status.stx_mode);
}

/* Puts the processes that have the other end of a pipe, as far as we may see them. */
static void put_other_end(struct buf *out, struct blocked *thread, pid_t own, const char *pipe, bool writers)
{
    const struct descriptor *each;
    char number[16];
    size_t found = 0, start = out->len;
    bool own_end = false;
    pid_t last = 0;
    for (size_t at = 0; found < BLOCKED_WAITED && (each = descriptors_next(thread->all, &at, pipe, number));) {
        unsigned flags = 0;
        uint64_t offset;
        if (each->pid == last || !fd_info(each->pid, number, &flags, &offset) ||
            ((flags & O_ACCMODE) != O_RDWR && ((flags & O_ACCMODE) == O_WRONLY) != writers))
            continue;
        last = each->pid;
        own_end |= last == own && (flags & O_ACCMODE) != O_RDWR;
        buf_puts(out, found++ ? ", " : writers ? " that can be written by " : " that can be read by ");
        put_process(out, last);
        if (last != own)
            add_waited(thread, last);
    }
    if (thread->all->failed)
        return;
    thread->only_these = found < BLOCKED_WAITED;
    thread->own_pipe = own_end && found == 1;
    if (thread->own_pipe && !out->failed) {
        out->len = start;
        buf_puts(out, writers ? " that nobody but itself can write" : " that nobody but itself can read");
    }
    if (!found)
        buf_puts(out, writers ? " that no visible process writes" : " that no visible process reads");
}

/* ---- sockets ---- */

/* One end of a connection, as /proc/PID/net/tcp and tcp6 have it. */
struct endpoint {
    char address[33];
    unsigned port;
};

/* An IPv4 address is the same in both tables. */
static bool is_same_endpoint(const struct endpoint *one, const struct endpoint *other)
{
    static const char mapped[] = "0000000000000000FFFF0000";
    const size_t skip = sizeof mapped - 1;
    const char *a = one->address + (strncmp(one->address, mapped, skip) == 0 ? skip : 0);
    const char *b = other->address + (strncmp(other->address, mapped, skip) == 0 ? skip : 0);
    return one->port == other->port && strcmp(a, b) == 0;
}

struct connection {
    struct endpoint local, remote;
    unsigned state;
    unsigned long inode;
};

static bool connection_parse(const char *line, struct connection *ret_connection)
{
    struct connection *it = ret_connection;
    return sscanf(line, " %*d: %32[0-9A-F]:%x %32[0-9A-F]:%x %x %*s %*s %*s %*u %*u %lu", it->local.address,
                  &it->local.port, it->remote.address, &it->remote.port, &it->state, &it->inode) == 6;
}

/* The one with that number, or with inode 0 the other end of that connection. */
static bool connection_find(pid_t pid, const char *table, unsigned long inode, const struct connection *other,
                            struct connection *ret_connection)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/net/%s", pid, table);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = connection_parse(line, ret_connection) &&
                (other ? is_same_endpoint(&other->local, &ret_connection->remote) &&
                             is_same_endpoint(&other->remote, &ret_connection->local)
                       : ret_connection->inode == inode);
    if (file)
        fclose(file);
    return found;
}

/* Whether both ends are of one address, or of the loopback's. */
static bool is_within_node(const struct connection *connection)
{
    static const char loopback[] = "7F";
    struct endpoint remote = connection->remote;
    size_t len = strlen(remote.address);
    remote.port = connection->local.port;
    return is_same_endpoint(&connection->local, &remote) ||
           (len >= 2 && strcmp(remote.address + len - 2, loopback) == 0);
}

/* Puts the processes that have the other end of a connection, as far as we may see them. What wakes an event loop is a socket whose other
 * end its own process has. */
static void put_peer(struct buf *out, struct blocked *thread, pid_t own, unsigned long inode)
{
    const struct descriptor *each;
    char name[64], number[16];
    size_t holders = 0, start = out->len;
    bool own_end = false;
    pid_t last = 0;
    snprintf(name, sizeof name, "socket:[%lu]", inode);
    for (size_t at = 0; holders < BLOCKED_WAITED && (each = descriptors_next(thread->all, &at, name, number));) {
        if (each->pid == last)
            continue;
        last = each->pid;
        buf_puts(out, holders++ ? ", " : ", whose other end ");
        put_process(out, last);
        own_end |= last == own;
        if (last != own)
            add_waited(thread, last);
    }
    buf_puts(out, !holders ? "" : holders == 1 ? " has" : " have");
    thread->only_these = holders && holders < BLOCKED_WAITED && !thread->all->failed;
    bool several = strstr(thread->syscall, "poll") || strstr(thread->syscall, "select");
    if (own_end && several && !out->failed)
        out->data[out->len = start] = '\0';
}

static void put_internet_peer(struct buf *out, struct blocked *thread, pid_t own, const struct connection *connection)
{
    static const char *const tables[] = {"tcp", "tcp6"};
    struct connection peer;
    bool found = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found && is_within_node(connection); i++)
        found = connection_find(own, tables[i], 0, connection, &peer);
    if (found && peer.inode)
        put_peer(out, thread, own, peer.inode);
}

/* The number of the other end of a local connection, by sock_diag(7); 0: it has none, or that is not known. */
static unsigned find_local_peer(unsigned inode)
{
    const struct {
        struct nlmsghdr head;
        struct unix_diag_req ask;
    } request = {{.nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
                 {.sdiag_family = AF_UNIX,
                  .udiag_states = UINT32_MAX,
                  .udiag_ino = inode,
                  .udiag_show = UDIAG_SHOW_PEER,
                  .udiag_cookie = {UINT32_MAX, UINT32_MAX}}};
    union {
        struct nlmsghdr head;
        char room[1024];
    } reply;
    unsigned peer = 0;
    _cleanup_(closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0 || send(fd, &request, sizeof request, 0) < 0)
        return 0;
    ssize_t len = recv(fd, &reply, sizeof reply, MSG_DONTWAIT); /* the kernel has answered while we sent */
    const struct unix_diag_msg *socket = NLMSG_DATA(&reply.head);
    if (len < 0 || !NLMSG_OK(&reply.head, (size_t)len) || reply.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        (socket->udiag_type != SOCK_STREAM && socket->udiag_type != SOCK_SEQPACKET)) /* others may send datagrams */
        return 0;
    int rest = (int)reply.head.nlmsg_len - (int)NLMSG_LENGTH(sizeof *socket);
    for (const struct rtattr *at = (const void *)(socket + 1); RTA_OK(at, rest); at = RTA_NEXT(at, rest))
        if (at->rta_type == UNIX_DIAG_PEER)
            memcpy(&peer, RTA_DATA(at), sizeof peer);
    return peer;
}

/* Finds a socket in /proc/PID/net/tcp, tcp6, udp and udp6. */
static bool put_internet(struct buf *out, struct blocked *thread, pid_t pid, const char *table, unsigned long inode)
{
    static const char *const states[] = {"?",        "established", "connecting", "SYN received",    "FIN sent",
                                         "FIN sent", "closing",     "closed",     "peer has closed", "last ACK",
                                         "listening"};
    enum { ESTABLISHED = 1 };
    struct connection connection;
    if (!connection_find(pid, table, inode, NULL, &connection))
        return false;
    unsigned a = 0, state = connection.state, port = connection.remote.port;
    if (state < sizeof states / sizeof *states && strcmp(states[state], "listening") == 0) {
        buf_printf(out, "TCP port %u", connection.local.port);
        return true;
    }
    thread->connection = true;
    buf_printf(out, "a %.3s connection", table);
    if (strlen(connection.remote.address) == 8 && sscanf(connection.remote.address, "%x", &a) == 1 && port)
        buf_printf(out, " with %u.%u.%u.%u port %u", a & 255, a >> 8 & 255, a >> 16 & 255, a >> 24, port);
    else
        buf_printf(out, ", port %u", port ? port : connection.local.port);
    if (state < sizeof states / sizeof *states)
        buf_printf(out, " (%s)", states[state]);
    if (state == ESTABLISHED && strncmp(table, "tcp", 3) == 0)
        put_internet_peer(out, thread, pid, &connection);
    return true;
}

/* Only the table of its protocol is read: for each the kernel goes through all that this node may have of connections. */
static void put_socket(struct buf *out, struct blocked *thread, pid_t pid, int fd, const char *target)
{
    static const char *const tables[][2] = {{"tcp", "TCP"}, {"tcp6", "TCPv6"}, {"udp", "UDP"}, {"udp6", "UDPv6"}};
    char path[64], protocol[64] = "";
    unsigned long inode = strtoul(target + strlen("socket:["), NULL, 10);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    bool known = getxattr(path, "system.sockprotoname", protocol, sizeof protocol - 1) > 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if ((!known || strcmp(protocol, tables[i][1]) == 0) && put_internet(out, thread, pid, tables[i][0], inode))
            return;
    buf_puts(out, "a local socket");
    unsigned peer = !known || strncmp(protocol, "UNIX", strlen("UNIX")) == 0 ? find_local_peer((unsigned)inode) : 0;
    thread->connection = peer;
    if (peer)
        put_peer(out, thread, pid, peer);
}

/* at_offset: whether that means something in this call. */
static void put_fd(struct buf *out, struct blocked *thread, pid_t pid, int fd, bool reads, bool at_offset)
{
    static const char *const names[] = {"standard input", "standard output", "standard error"};
    char number[16], target[PATH_MAX];
    unsigned flags = 0;
    uint64_t offset = 0;
    snprintf(number, sizeof number, "%d", fd);
    if (fd >= 0 && fd <= 2)
        buf_printf(out, "%s, ", names[fd]);
    if (!fd_target(pid, number, target)) {
        buf_printf(out, "descriptor %d", fd);
        return;
    }
    bool known = fd_info(pid, number, &flags, &offset);
    thread->terminal = strncmp(target, "/dev/tty", 8) == 0 || strncmp(target, "/dev/pts/", 9) == 0;
    if (strncmp(target, "pipe:", 5) == 0) {
        buf_puts(out, "a pipe");
        put_other_end(out, thread, pid, target, reads);
    } else if (strncmp(target, "socket:", 7) == 0) {
        put_socket(out, thread, pid, fd, target);
    } else if (is_fifo(pid, number)) {
        buf_puts(out, "the FIFO ");
        text_show(out, target);
        put_other_end(out, thread, pid, target, reads);
        free(thread->fifo);
        thread->fifo = strdup(target);
        thread->fifo_writes = reads;
        thread->fifo_open = true;
        thread->only_these = thread->own_pipe = false; /* others may open it yet */
    } else {
        text_show(out, target);
        if (known && at_offset && target[0] == '/' && strncmp(target, "/dev/", 5) != 0)
            buf_printf(out, " at offset %llu", (unsigned long long)offset);
    }
}

/* ---- what the arguments point to ---- */

static bool read_memory(pid_t pid, uint64_t address, void *room, size_t size)
{
    struct iovec here = {room, size}, there = {(void *)(uintptr_t)address, size}; /* NOLINT: an address over there */
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* Reads up to the end of the page first: the next page may be unreadable. */
static bool read_path(pid_t pid, uint64_t address, char path[PATH_MAX])
{
    struct iovec here = {path, PATH_MAX};
    uint64_t to_page = 4096 - address % 4096;
    struct iovec there[] = {{(void *)(uintptr_t)address, to_page}, /* NOLINT: an address over there */
                            {(void *)(uintptr_t)(address + to_page), PATH_MAX - to_page}}; /* NOLINT */
    ssize_t size = process_vm_readv(pid, &here, 1, there, to_page < PATH_MAX ? 2 : 1, 0);
    return size > 0 && memchr(path, 0, (size_t)size);
}

/* The kernel's function in which it waits; "": not known. */
static void read_wchan(const struct blocked *thread, pid_t pid, char *ret_name, size_t size)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task/%d/wchan", pid, thread->tid);
    if (read_file(path, ret_name, size) <= 0 || strcmp(ret_name, "0") == 0)
        *ret_name = '\0';
}

/* By the kernel's function: to look at the file may wait, too, where its file system does not answer. */
static bool waits_for_partner(const struct blocked *thread, pid_t pid)
{
    char name[128];
    read_wchan(thread, pid, name, sizeof name);
    return strcmp(name, "wait_for_partner") == 0 || strcmp(name, "fifo_open") == 0;
}

/* Of openat(2). A FIFO is open when both of its ends are. */
static void put_open(struct blocked *thread, pid_t pid, const uint64_t *args)
{
    char path[PATH_MAX];
    bool known = read_path(pid, args[1], path);
    if (waits_for_partner(thread, pid))
        thread->fifo = strdup(known ? path : "");
    thread->fifo_writes = (args[2] & O_ACCMODE) == O_RDONLY;
    buf_puts(&thread->text, thread->fifo ? "waits until somebody opens " : "opens ");
    if (known)
        text_show(&thread->text, path);
    else
        buf_puts(&thread->text, "a file");
    if (thread->fifo)
        buf_puts(&thread->text, thread->fifo_writes ? " for writing" : " for reading");
}

static void put_thread(struct buf *out, struct blocked *thread, pid_t pid, pid_t tid)
{
    char name[64];
    proc_comm(pid, tid, name, sizeof name);
    buf_printf(out, "thread %d", tid);
    if (name[0]) {
        buf_puts(out, " (");
        text_show(out, name);
        buf_putc(out, ')');
    }
    add_waited(thread, tid);
}

/* Whether the only thread of a process waits there. */
static bool waits_at(pid_t pid, uint64_t address)
{
    char path[64], text[256];
    unsigned long long at;
    long number;
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    return proc_status_number(pid, 0, "Threads") == 1 && read_file(path, text, sizeof text) > 0 &&
           sscanf(text, "%ld %llx", &number, &at) == 2 && number == SYS_futex && at == address;
}

/* Where a process has the same byte of a file or of shared memory; 0: it has not. *ret_seen: it could be looked at. */
static uint64_t shares_at(pid_t pid, const struct proc_map *map, uint64_t offset, bool *ret_seen)
{
    struct proc_maps maps;
    uint64_t at = 0;
    int code = proc_maps_read(pid, &maps);
    *ret_seen = code >= 0 || code == -ESRCH;
    if (code < 0)
        return 0;
    for (size_t i = 0; i < maps.count && !at; i++) {
        const struct proc_map *there = &maps.maps[i];
        if (!there->private && there->inode == map->inode && there->device_major == map->device_major &&
            there->device_minor == map->device_minor && offset >= there->offset &&
            offset - there->offset < there->end - there->start)
            at = there->start + (offset - there->offset);
    }
    proc_maps_done(&maps);
    return at;
}

/* A semaphore (sem_open) whose name is gone, as Python's are: who has not got it yet does not get it. */
static bool is_unnamed_semaphore(const struct proc_map *map)
{
    static const char begin[] = "/dev/shm/sem.", end[] = " (deleted)";
    size_t len = strlen(map->path);
    return len > strlen(begin) + strlen(end) && strncmp(map->path, begin, strlen(begin)) == 0 &&
           strcmp(map->path + len - strlen(end), end) == 0;
}

/* Whether it may have opened one by its name, before that was gone: those of other users may not, and the first process inherits none. */
static bool may_have_opened(pid_t pid, pid_t own)
{
    char path[PROC_PATH_SIZE];
    struct stat its, owner;
    proc_path(path, pid, 0, "");
    if (pid == 1 || stat(path, &its) < 0)
        return false;
    proc_path(path, own, 0, "");
    return stat(path, &owner) < 0 || its.st_uid == owner.st_uid;
}

struct sharers {
    size_t found, waiting; /* those that could give it, and those that wait for it, too */
    bool all;              /* nobody is left that was not looked at */
};

/* Of its session, or of all others of its user. Those that could give it are appended. */
static void find_sharers(struct buf *out, struct blocked *thread, pid_t own, const struct proc_map *map,
                         uint64_t offset, bool session, struct sharers *sharers)
{
    enum { LOOKS = 64, LOOKS_ELSEWHERE = 1000 };
    const size_t most = session ? LOOKS : LOOKS_ELSEWHERE;
    size_t looks = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        bool seen = true;
        if (pid <= 0 || pid == own || (getsid(pid) == getsid(own)) != session)
            continue;
        if (!session && !may_have_opened(pid, own))
            continue;
        uint64_t there = looks++ < most ? shares_at(pid, map, offset, &seen) : 0;
        sharers->all = sharers->all && seen && looks <= most;
        if (!there)
            continue;
        if (waits_at(pid, there)) {
            sharers->waiting++;
        } else if (sharers->found < BLOCKED_WAITED) {
            buf_puts(out, sharers->found++ ? ", " : "");
            put_process(out, pid);
            add_waited(thread, pid);
        }
    }
    sharers->all &= processes != NULL;
    if (processes)
        closedir(processes);
}

/* What processes share, as those of a Python pool do: it can be given by those that have it and do not wait for it themselves. Of
 * the same session, which is quick to find, and of so many that to read their maps costs nobody much; where it has no name any more
 * and nobody of those has it, of all. false: it is not shared, may be given by another thread of its own, or nothing is known of who
 * could. */
static bool put_shared(struct buf *out, struct blocked *thread, pid_t own, uint64_t address)
{
    struct proc_maps maps;
    struct sharers sharers = {.all = true};
    size_t start = out->len;
    if (proc_status_number(own, 0, "Threads") != 1 || proc_maps_read(own, &maps) < 0)
        return false;
    const struct proc_map *in = proc_maps_find(&maps, address);
    const struct proc_map map = in ? *in : (struct proc_map){.private = true};
    bool unnamed = in && is_unnamed_semaphore(in);
    proc_maps_done(&maps); /* its path is gone */
    if (map.private || !map.inode)
        return false;
    buf_printf(out, "%s in memory that it shares with ", waits_for_shared);
    find_sharers(out, thread, own, &map, address - map.start + map.offset, true, &sharers);
    if (!sharers.found && !sharers.all) {
        out->len = start;
        return false;
    }
    bool alone = unnamed && !sharers.found && !sharers.waiting;
    if (alone)
        find_sharers(out, thread, own, &map, address - map.start + map.offset, false, &sharers);
    thread->own_shared = alone && !sharers.found && !sharers.waiting && sharers.all;
    if (!sharers.found)
        buf_puts(out, thread->own_shared ? "no other process, so that nobody can give it"
                                         : "no process of its session that could give it");
    thread->shared = true;
    thread->only_these = sharers.found && sharers.all && sharers.found < BLOCKED_WAITED;
    if (sharers.waiting)
        buf_printf(out, "; %zu more process%s for it, too", sharers.waiting,
                   sharers.waiting == 1 ? " waits" : "es wait");
    return true;
}

/* Their numbers mean nothing in another one. */
static bool is_in_namespace(pid_t pid)
{
    char link[PROC_PATH_SIZE], its[64], own[64];
    proc_path(link, pid, 0, "ns/ipc");
    ssize_t len = readlink(link, its, sizeof its);
    return len > 0 && readlink("/proc/self/ns/ipc", own, sizeof own) == len && memcmp(its, own, (size_t)len) == 0;
}

/* Of semop(2) and semtimedop(2): the first operation that cannot be done now. */
static void put_semaphore(struct buf *out, struct blocked *thread, pid_t pid, const uint64_t *args, bool limited)
{
    enum { OPERATIONS = 16 };
    struct sembuf list[OPERATIONS];
    int set = (int)args[0];
    size_t count = args[2] < OPERATIONS ? (size_t)args[2] : OPERATIONS;
    if (!is_in_namespace(pid) || !read_memory(pid, args[1], list, count * sizeof *list))
        return;
    for (size_t i = 0; i < count; i++) {
        int number = list[i].sem_num, value = semctl(set, number, GETVAL), last = semctl(set, number, GETPID);
        if (value < 0 || (list[i].sem_op ? value + list[i].sem_op >= 0 : !value))
            continue;
        buf_printf(out, " (number %d of set %d)", number, set);
        if (last > 0) {
            buf_puts(out, ", which was last used by ");
            put_process(out, last);
        }
        thread->semaphore = list[i].sem_op < 0 && !value && last > 0 && last != pid && !limited;
        if (thread->semaphore)
            add_waited(thread, last);
        return;
    }
}

static void put_futex(struct buf *out, struct blocked *thread, pid_t pid, uint64_t address, const char *syscall)
{
    struct thread_wait wait = thread_wait_of(pid, syscall);
    thread->inside = wait.kind != THREAD_MAY_ACT && !wait.limited;
    if (wait.kind == THREAD_WAITS_OWNER && wait.tid == thread->tid) {
        buf_puts(out, wait.limited ? "waits for a mutex that it holds itself"
                                   : "waits for a mutex that it holds itself: it will wait for ever");
    } else if (wait.kind == THREAD_WAITS_OWNER || wait.kind == THREAD_WAITS_END) {
        buf_puts(out, wait.kind == THREAD_WAITS_END ? "waits for the end of " : "waits for a mutex that is held by ");
        put_thread(out, thread, pid, wait.tid);
    } else if (put_shared(out, thread, pid, address)) {
        thread->only_these = thread->only_these && !wait.limited;
        thread->own_shared = thread->own_shared && !wait.limited;
    } else if (!wait.other && proc_status_number(pid, 0, "Threads") == 1) {
        buf_printf(out, "%s, a condition or a lock, and its process has no other thread", waits_for_another);
    } else {
        thread_wait_put_others(out, &wait);
    }
}

/* SQLite does not wait for a lock, but tries to get it again and again, and sleeps for at most 100 ms between (1 s where it has no usleep). */
static void put_sleep(struct buf *out, struct blocked *thread, pid_t pid, uint64_t address, bool absolute)
{
    enum { MS = 1000000 };
    struct timespec time;
    char name[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    _cleanup_(freep) struct file_lock *locks = NULL;
    size_t len, count = 0;
    bool brief = !absolute && read_memory(pid, address, &time, sizeof time) &&
                 (time.tv_sec == 0 || (time.tv_sec == 1 && time.tv_nsec == 0));
    if (brief && file_read("/proc/locks", &text, &len) == 0)
        count = database_locks_parse(text, &locks);
    for (size_t i = 0; i < count; i++) {
        if (!find_database(pid, &locks[i], name))
            continue;
        buf_puts(out, "probably waits for the lock of the SQLite database ");
        text_show(out, name);
        buf_printf(out, " (it tries again every %lld ms), which is held by ",
                   (long long)time.tv_sec * 1000 + time.tv_nsec / MS);
        put_process(out, locks[i].holds);
        add_waited(thread, locks[i].holds);
        return;
    }
    buf_puts(out, "sleeps");
}

/* Of several descriptors the first stands for all: what each is makes a sentence that nobody reads. */
static size_t shown_of(uint64_t count)
{
    return count > 2 ? 1 : (size_t)count;
}

/* Cuts the text after those that are shown: who has the others is known. */
static void put_more(struct buf *out, size_t end, uint64_t more)
{
    if (!more || out->failed)
        return;
    out->len = end;
    buf_printf(out, " and %llu more", (unsigned long long)more);
}

static void put_poll(struct buf *out, struct blocked *thread, pid_t pid, const uint64_t *args)
{
    struct pollfd list[POLLED_LOOKED];
    size_t count = args[1] < POLLED_LOOKED ? (size_t)args[1] : POLLED_LOOKED;
    if (args[1] == 0) {
        buf_puts(out, "sleeps (poll of nothing)");
        return;
    }
    buf_puts(out, "waits until there is something at ");
    if (!read_memory(pid, args[0], list, count * sizeof *list)) {
        buf_printf(out, "one of %llu descriptors", (unsigned long long)args[1]);
        return;
    }
    size_t shown = shown_of(args[1]), end = 0;
    for (size_t i = 0; i < count; i++) {
        buf_puts(out, i ? "; " : "");
        put_fd(out, thread, pid, list[i].fd, list[i].events & (POLLIN | POLLPRI), true);
        end = i < shown ? out->len : end;
    }
    put_more(out, end, args[1] - shown);
}

/* Of select(2) and pselect(2), as poll(2) would have it. */
static void put_select(struct buf *out, struct blocked *thread, pid_t pid, const uint64_t *args)
{
    fd_set reads, writes;
    size_t len = ((args[0] < FD_SETSIZE ? args[0] : FD_SETSIZE) + 7) / 8, all = 0, end = 0;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    if ((args[1] && !read_memory(pid, args[1], &reads, len)) || (args[2] && !read_memory(pid, args[2], &writes, len))) {
        buf_puts(out, "waits in select");
        return;
    }
    for (int fd = 0; fd < (int)len * 8; fd++)
        all += FD_ISSET(fd, &reads) || FD_ISSET(fd, &writes);
    buf_puts(out, all ? "waits until there is something at " : "sleeps (select of nothing)");
    for (int fd = 0, shown = 0; fd < (int)len * 8 && shown < POLLED_LOOKED; fd++) {
        if (!FD_ISSET(fd, &reads) && !FD_ISSET(fd, &writes))
            continue;
        buf_puts(out, shown ? "; " : "");
        put_fd(out, thread, pid, fd, FD_ISSET(fd, &reads), true);
        end = shown++ < (int)shown_of(all) ? out->len : end;
    }
    if (all)
        put_more(out, end, all - shown_of(all));
}

static void put_epoll(struct buf *out, struct blocked *thread, pid_t pid, const uint64_t *args)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", pid, (int)args[0]);
    size_t all = 0, at_fd = 0, end = 0;
    read_file(path, text, sizeof text);
    for (const char *at = text; (at = strstr(at, "tfd:")); at += 4)
        all++;
    buf_puts(out, all ? "waits for events at " : "waits for events at no descriptor");
    for (const char *at = text; (at = strstr(at, "tfd:")) && at_fd < POLLED_LOOKED; at += 4) {
        buf_puts(out, at_fd ? "; " : "");
        put_fd(out, thread, pid, atoi(at + 4), true, true);
        end = at_fd++ < shown_of(all) ? out->len : end;
    }
    if (all)
        put_more(out, end, all - shown_of(all));
}

static void put_children(struct buf *out, struct blocked *thread, pid_t pid, int64_t wanted)
{
    char path[96], text[4096];
    unsigned shown = 0;
    if (wanted > 0) {
        put_process(out, (pid_t)wanted);
        add_waited(thread, (pid_t)wanted);
        thread->only_these = true;
        return;
    }
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    read_file(path, text, sizeof text);
    for (char *at = text, *end; shown < BLOCKED_WAITED; at = end, shown++) {
        long child = strtol(at, &end, 10);
        if (end == at)
            break;
        buf_puts(out, shown ? ", " : "");
        put_process(out, (pid_t)child);
        add_waited(thread, (pid_t)child);
    }
    thread->only_these = shown < BLOCKED_WAITED;
    if (!shown)
        buf_puts(out, "a child");
}

/* ---- a thread ---- */

/* A shell, or timeout(1). */
static bool waits_for_children(pid_t pid)
{
    char link[PROC_PATH_SIZE], program[PATH_MAX];
    proc_path(link, pid, 0, "exe");
    ssize_t len = readlink(link, program, sizeof program - 1);
    program[len < 0 ? 0 : len] = 0;
    return starter_of(text_base(program)) == STARTER_SHELL || strcmp(text_base(program), "timeout") == 0;
}

/* It waits for more than the other end of a pipe. */
static void forget_others(struct blocked *thread)
{
    thread->only_these = thread->own_pipe = thread->fifo_open = false;
    free(thread->fifo);
    thread->fifo = NULL;
}

static void put_call(struct blocked *thread, pid_t pid, const struct blocking_call *call, const uint64_t *args,
                     const char *syscall)
{
    struct buf *out = &thread->text;
    bool reads = call->number == SYS_read || call->number == SYS_readv || call->number == SYS_recvfrom ||
                 call->number == SYS_recvmsg || call->number == SYS_pread64 || call->number == SYS_preadv;
    switch (call->about) {
    case ABOUT_FD:
    case ABOUT_LOCK:
        thread->fd = (int)args[0];
        buf_printf(out, "%s ", call->text);
        put_fd(out, thread, pid, thread->fd, reads,
               call->number != SYS_flock && call->about != ABOUT_LOCK && strncmp(call->name, "mq_", 3) != 0);
        if (call->number == SYS_flock || call->about == ABOUT_LOCK)
            put_holder(out, thread, pid, call->number == SYS_flock);
        break;
    case ABOUT_PATH:
        put_open(thread, pid, args);
        break;
    case ABOUT_FUTEX:
        put_futex(out, thread, pid, args[0], syscall);
        break;
    case ABOUT_POLL:
        put_poll(out, thread, pid, args);
        forget_others(thread); /* one of several, or a time */
        break;
    case ABOUT_SELECT:
        put_select(out, thread, pid, args);
        forget_others(thread);
        break;
    case ABOUT_SEMAPHORE:
        buf_puts(out, call->text);
        put_semaphore(out, thread, pid, args, call->number == SYS_semtimedop && args[3]);
        break;
    case ABOUT_EPOLL:
        thread->fd = (int)args[0];
        put_epoll(out, thread, pid, args);
        thread->limited = (int32_t)args[3] >= 0;
        forget_others(thread);
        break;
    case ABOUT_CHILD:
        buf_printf(out, "%s ", call->text);
        put_children(out, thread, pid, (int32_t)args[0]);
        break;
    case ABOUT_CHILD2:
        buf_printf(out, "%s ", call->text);
        put_children(out, thread, pid, args[0] == 1 ? (int32_t)args[1] : -1);
        break;
    case ABOUT_SIGNAL:
        buf_puts(out, waits_for_children(pid) ? "waits for the end of " : call->text);
        if (waits_for_children(pid))
            put_children(out, thread, pid, -1);
        break;
    case ABOUT_SLEEP:
        put_sleep(out, thread, pid, args[call->number == SYS_nanosleep ? 0 : 2],
                  call->number != SYS_nanosleep && args[1] & TIMER_ABSTIME);
        break;
    case ABOUT_NOTHING:
        buf_puts(out, call->text);
        break;
    }
}

static void put_wchan(struct blocked *thread, pid_t pid)
{
    char text[128];
    read_wchan(thread, pid, text, sizeof text);
    if (*text) {
        buf_puts(&thread->text, " (in the kernel's ");
        text_show(&thread->text, text);
        buf_putc(&thread->text, ')');
    }
}

static void put_blocked(struct blocked *thread, pid_t pid)
{
    char path[96], text[256];
    long number = -1;
    unsigned long long args[6] = {0};
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, thread->tid);
    ssize_t got = read_file(path, text, sizeof text);
    int count = sscanf(text, "%ld %llx %llx %llx %llx %llx %llx", &number, &args[0], &args[1], &args[2], &args[3],
                       &args[4], &args[5]);
    const struct blocking_call *call = count == 7 ? blocking_call_of(number) : NULL;
    if (call) {
        uint64_t values[6];
        for (size_t i = 0; i < 6; i++)
            values[i] = args[i];
        snprintf(thread->syscall, sizeof thread->syscall, "%s", call->name);
        put_call(thread, pid, call, values, text);
    } else if (strncmp(text, "running", 7) == 0) {
        buf_puts(&thread->text, "runs on a processor");
    } else if (count == 7) {
        buf_printf(&thread->text, "waits in system call %ld", number);
    } else {
        buf_puts(&thread->text,
                 got == -EACCES || got == -EPERM ? "waits (this system does not show in what)" : "waits");
    }
    if (!call || thread->state == 'D')
        put_wchan(thread, pid);
}

static void put_tracer(struct blocked *thread, pid_t pid)
{
    int64_t tracer = proc_status_number(pid, thread->tid, "TracerPid");
    buf_puts(&thread->text, "is held by ");
    if (tracer > 0) {
        put_process(&thread->text, (pid_t)tracer);
        buf_puts(&thread->text, ", ");
    }
    buf_puts(&thread->text, "a debugger or tracer");
}

static int blocked_look(struct blocked *thread, pid_t pid)
{
    struct proc_stat stat;
    int code = proc_stat_of(pid, thread->tid, &stat);
    if (code < 0)
        return code == -EACCES ? -EACCES : -ESRCH;
    snprintf(thread->name, sizeof thread->name, "%.*s", (int)sizeof thread->name - 1, stat.comm);
    thread->state = stat.state;
    switch (thread->state) {
    case 'R':
        buf_puts(&thread->text, "runs on a processor");
        break;
    case 'Z':
        buf_puts(&thread->text, "has ended, and its parent has not waited for it");
        break;
    case 'T':
        buf_puts(&thread->text, "was stopped by a signal");
        break;
    case 't':
        put_tracer(thread, pid);
        break;
    default:
        put_blocked(thread, pid);
        break;
    }
    return 0;
}

static int by_tid(const void *a, const void *b)
{
    const struct blocked *left = a, *right = b;
    return left->tid < right->tid ? -1 : left->tid > right->tid;
}

/* One that waits for nothing but a time, or its own threads and signals, has only a local socket of its own to wait at, which may stand behind what else it
 * waits for. */
static void put_event_loop(struct blocked *thread)
{
    static const char at[] = "waits for events at ", own[] = "a local socket", between[] = "; ", more[] = " and ";
    const size_t own_len = strlen(own), between_len = strlen(between);
    const char *rest = thread->text.data ? thread->text.data : "";
    if (strncmp(rest, at, strlen(at)) != 0)
        return;
    rest += strlen(at);
    size_t len = strlen(rest);
    bool first = strncmp(rest, own, own_len) == 0;
    rest += first ? own_len : 0;
    len -= first ? own_len : 0;
    if (!first && len > own_len + between_len && strcmp(rest + len - own_len, own) == 0)
        len -= own_len + between_len;
    struct buf text = BUF_INIT;
    buf_puts(&text, "waits in asyncio's event loop: no task can go on");
    buf_puts(&text, len ? " until there is something at " : thread->limited ? " before some time has passed" : "");
    thread->own_loop = !len && !thread->limited;
    bool others = first && strncmp(rest, more, strlen(more)) == 0;
    size_t skip = others ? strlen(more) : strspn(rest, between);
    buf_puts(&text, others ? "one of " : "");
    buf_append(&text, rest + skip, len - skip);
    buf_puts(&text, others ? " descriptors" : "");
    buf_puts(&text, len && thread->limited ? ", or some time has passed" : "");
    buf_done(&thread->text);
    thread->text = text;
}

/* What it waits for in the words of its program; what that is to the kernel stands behind it, where that says more. */
static void put_python_wait(struct blocked *thread, const char *what)
{
    const char *rest = thread->text.data ? thread->text.data : "";
    struct buf text = BUF_INIT;
    buf_printf(&text, "waits for %s", what);
    if (strncmp(rest, waits_for_shared, strlen(waits_for_shared)) == 0)
        buf_printf(&text, ",%s", rest + strlen(waits_for_shared));
    else if (*rest && strncmp(rest, waits_for_another, strlen(waits_for_another)) != 0)
        buf_printf(&text, " (%s)", rest);
    buf_done(&thread->text);
    thread->text = text;
}

static void look_at_python(struct blocked *threads, size_t count, pid_t pid)
{
    struct python_places places;
    python_places_read(&places, pid);
    for (size_t i = 0; i < count; i++) {
        bool loop = false;
        const struct python_frame *frame = python_places_find(&places, threads[i].tid, &loop);
        if (!frame)
            continue;
        if (loop && strncmp(threads[i].syscall, "epoll", strlen("epoll")) == 0)
            put_event_loop(&threads[i]);
        const char *what = threads[i].syscall[0] ? python_places_waits(&places, threads[i].tid) : NULL;
        if (what)
            put_python_wait(&threads[i], what);
        threads[i].python_function = strdup(frame->function);
        threads[i].python_file = strdup(frame->file);
        threads[i].python_line = frame->line;
        buf_puts(&threads[i].text, ", at ");
        python_place_put(&threads[i].text, frame);
    }
    python_places_done(&places);
}

int blocked_read(pid_t pid, struct blocked **ret_threads, size_t *ret_count, struct err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    struct blocked *threads = NULL;
    size_t count = 0, room = 0;
    struct descriptors all = {0};
    int code = dir ? 0 : errno == EACCES ? -EACCES : -ESRCH;
    for (struct dirent *entry; code == 0 && count < THREADS_MOST && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        if (!GROW(threads, count, room)) {
            code = -ENOMEM;
            break;
        }
        threads[count] = (struct blocked){.tid = (pid_t)atoi(entry->d_name), .fd = -1, .python_line = -1, .all = &all};
        bool seen = blocked_look(&threads[count], pid) == 0;
        threads[count].all = NULL;
        if (seen)
            count++;
        else
            buf_done(&threads[count].text);
    }
    free(all.list);
    if (dir)
        closedir(dir);
    if (code == 0 && count == 0)
        code = -ESRCH;
    if (code < 0) {
        blocked_free(threads, count);
        return err_errno(err, code, "process %d", pid);
    }
    qsort(threads, count, sizeof *threads, by_tid);
    look_at_python(threads, count, pid);
    *ret_threads = threads;
    *ret_count = count;
    return 0;
}

void blocked_free(struct blocked *threads, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_done(&threads[i].text);
        free(threads[i].fifo);
        free(threads[i].python_function);
        free(threads[i].python_file);
    }
    free(threads);
}

bool blocked_put(struct buf *out, pid_t pid, pid_t tid)
{
    struct blocked *threads;
    size_t count;
    bool found = false;
    if (blocked_read(pid, &threads, &count, NULL) < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (threads[i].tid == tid && threads[i].syscall[0]) {
            buf_puts(out, threads[i].text.data ? threads[i].text.data : "?");
            found = true;
        }
    blocked_free(threads, count);
    return found;
}
