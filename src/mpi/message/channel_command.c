/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the monitor wants done with messages, at the next call of a thread that calls MPI anyway, before that call:
 * messages are taken out of the queue as MPI_Mprobe and MPI_Mrecv do, and are counted as received; one is sent as
 * MPI_Isend does, and is counted as sent. All of it with PMPI_ functions and handles that are known to be valid. What
 * does not complete at once is looked at again at each call that follows.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <time.h>

#include "agent/system/sys.h"
#include "mpi/message/channel.h"
#include "mpi/count/comm.h"
#include "shm/area.h"
#include "shm/waits.h"

enum { PENDING = 64 };

/* Under way: a message that is being received or sent, and its memory. */
static struct pending {
    bool used;
    MPI_Request request;
    void *memory;
    uint64_t size;
} pending[PENDING];

/* ---- memory and files ---- */

static void *memory_take(uint64_t size)
{
    void *memory = (void *)sys_call6(SYS_mmap, 0, (long)MPIA_ALIGN(size + 1, 4096), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return (uint64_t)memory > UINT64_MAX - 4096 ? NULL : memory;
}

static void memory_give(void *memory, uint64_t size)
{
    sys_call2(SYS_munmap, (long)memory, (long)MPIA_ALIGN(size + 1, 4096));
}

/* All of a file, either way. 0 or -errno. */
static int file_move(const char *path, void *memory, uint64_t size, bool out)
{
    uint64_t moved = 0;
    long fd =
        sys_call4(SYS_openat, AT_FDCWD, (long)path, (out ? O_WRONLY | O_TRUNC : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0);
    long got = fd < 0 ? fd : 1;
    while (got > 0 && moved < size) {
        got = sys_call4(out ? SYS_write : SYS_read, fd, (long)memory + (long)moved, (long)(size - moved), 0);
        moved += got > 0 ? (uint64_t)got : 0;
        if (got == -EINTR)
            got = 1;
    }
    if (fd >= 0)
        sys_call2(SYS_close, fd, 0);
    return got < 0 ? (int)got : moved < size ? -EIO : 0;
}

/* ---- answers ---- */

static void say(struct mpim_command *command, int result, const char *text)
{
    uint32_t i = 0;
    for (; i < sizeof command->text - 1 && text[i]; i++)
        command->text[i] = text[i];
    command->text[i] = '\0';
    command->result = result;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- what is under way ---- */

static bool pending_done(struct pending *entry)
{
    MPI_Status status;
    int flag = 0;
    return mpi_library.Test(&entry->request, &flag, &status) != MPI_SUCCESS || flag;
}

static void pending_look(void)
{
    for (uint32_t i = 0; i < PENDING && self_pending; i++)
        if (pending[i].used && pending_done(&pending[i])) {
            memory_give(pending[i].memory, pending[i].size);
            pending[i].used = false;
            self_pending--;
        }
}

static struct pending *pending_take(uint64_t size)
{
    struct pending *entry = NULL;
    for (uint32_t i = 0; i < PENDING && !entry; i++)
        if (!pending[i].used)
            entry = &pending[i];
    void *memory = entry ? memory_take(size) : NULL;
    if (!memory)
        return NULL;
    *entry = (struct pending){.used = true, .memory = memory, .size = size};
    self_pending++;
    return entry;
}

static void pending_drop(struct pending *entry)
{
    memory_give(entry->memory, entry->size);
    entry->used = false;
    self_pending--;
}

/* ---- communicators ---- */

static MPI_Comm comm_handle(const struct comm_info *info)
{
    uint64_t handle = atomic_load(&info->handle);
#ifdef OPEN_MPI
    return (MPI_Comm)(uintptr_t)handle;
#else
    return (MPI_Comm)handle;
#endif
}

/* What a world rank is there; -1: not in it. */
static int rank_in(const struct comm_info *info, int32_t world)
{
    for (uint32_t i = 0; i < info->targets; i++)
        if (comm_world_rank(info, (int)i) == world)
            return (int)i;
    return -1;
}

static struct comm_info *comm_of_command(struct mpim_command *command, int *ret_rank)
{
    struct comm_info *info = comm_of_number(command->comm);
    if (!info || info->kind != MPIA_COMM_INTRA) {
        say(command, -ESRCH, "the communicator was freed");
        return NULL;
    }
    *ret_rank = rank_in(info, command->peer);
    if (*ret_rank >= 0)
        return info;
    say(command, -ESRCH, "the process is not in that communicator");
    return NULL;
}

/* ---- taking messages out ---- */

/* The message that was matched is received by us. */
static void take_out(struct mpi_self *self, struct comm_info *info, MPI_Message *message, const MPI_Status *status,
                     struct mpim_command *command)
{
    uint64_t bytes = status_bytes(status), k = 0;
    struct match_key key;
    if (channel_key(info->number, comm_world_rank(info, status->MPI_SOURCE), status->MPI_TAG, &key) && channel_lock()) {
        uint64_t post = match_posted(channels.match, &key, &k);
        k = match_done(channels.match, post, key.peer, key.tag, bytes, self->tid);
        struct mpim_channel *channel = match_channel(channels.match, MPIM_GOT, &key);
        if (channel)
            channel->removed++;
        channel_unlock();
    }
    struct pending *entry = pending_take(bytes);
    if (!entry ||
        mpi_library.Imrecv(entry->memory, (int)bytes, mpi_library.packed, message, &entry->request) != MPI_SUCCESS) {
        say(command, -ENOMEM, "it was matched, but there is no memory to receive it");
        return;
    }
    command->done++;
    command->k = k;
    command->bytes = bytes;
    uint64_t until = now_ms() + wait_policies[WAIT_MESSAGE].limit_ms;
    bool done = pending_done(entry);
    while (!done && *command->path && now_ms() < until)
        done = pending_done(entry);
    if (!done) {
        if (*command->path)
            say(command, -ETIME, "it was taken out of the queue, but its sender has not yet handed over the content");
        return;
    }
    int code = *command->path ? file_move(command->path, entry->memory, bytes, true) : 0;
    if (code < 0)
        say(command, code, "it was taken out of the queue, but its content could not be written");
    pending_drop(entry);
}

/* A message that is there, too large for us, stays. */
static bool probe(struct comm_info *info, int rank, int tag, MPI_Message *ret_message, MPI_Status *ret_status)
{
    int flag = 0;
    MPI_Comm comm = comm_handle(info);
    if (mpi_library.Iprobe(rank, tag, comm, &flag, ret_status) != MPI_SUCCESS || !flag ||
        status_bytes(ret_status) > INT_MAX)
        return false;
    flag = 0;
    return mpi_library.Improbe(rank, tag, comm, &flag, ret_message, ret_status) == MPI_SUCCESS && flag;
}

static void remove_one(struct mpi_self *self, struct mpim_command *command)
{
    int rank;
    MPI_Message message;
    MPI_Status status;
    struct comm_info *info = comm_of_command(command, &rank);
    struct match_key key;
    if (!info || !channel_key(info->number, command->peer, command->tag, &key))
        return;
    const struct mpim_channel *channel = mpim_channel_find(channels.shared, MPIM_GOT, key.identity, key.peer, key.tag);
    uint64_t matched = channel ? atomic_load(&channel->count) + atomic_load(&channel->waiting) : 0;
    if (matched >= command->k) {
        say(command, -ESRCH, "it was received meanwhile");
        return;
    }
    if (matched + 1 != command->k) {
        say(command, -EOPNOTSUPP,
            "another message of its sender with the same tag is before it, and MPI hands them out in "
            "their order");
        return;
    }
    uint64_t until = now_ms() + wait_policies[WAIT_MESSAGE].limit_ms;
    bool there = probe(info, rank, command->tag, &message, &status);
    while (!there && now_ms() < until)
        there = probe(info, rank, command->tag, &message, &status);
    if (there)
        take_out(self, info, &message, &status, command);
    else
        say(command, -EAGAIN, "it has not arrived yet");
}

static void clear(struct mpi_self *self, struct mpim_command *command)
{
    uint64_t until = now_ms() + wait_policies[WAIT_MESSAGE].limit_ms, wanted = command->count;
    uint32_t comms = atomic_load(&mpi_hot.area->comm_count);
    MPI_Message message;
    MPI_Status status;
    do
        for (uint32_t i = 0; i < comms && i < MPIA_COMMS - 1; i++) {
            struct comm_info *info = comm_of_number(i);
            while (info && info->kind == MPIA_COMM_INTRA && self_pending < PENDING && command->result == 0 &&
                   probe(info, MPI_ANY_SOURCE, MPI_ANY_TAG, &message, &status))
                take_out(self, info, &message, &status, command);
        }
    while (command->done < wanted && command->result == 0 && now_ms() < until);
    if (command->done < wanted && command->result == 0)
        say(command, -EAGAIN, "not all of them have arrived yet: ask again");
}

/* ---- putting one in ---- */

/* A tag that MPI does not take would end the program, whose error handler it is. */
static bool is_tag(int32_t tag)
{
    int *most = NULL, found = 0;
    return tag >= 0 &&
           mpi_library.Comm_get_attr(mpi_library.comm_world, MPI_TAG_UB, (void *)&most, &found) == MPI_SUCCESS &&
           found && most && tag <= *most;
}

static void insert(struct mpi_self *self, struct mpim_command *command)
{
    int rank;
    struct match_key key;
    struct comm_info *info = comm_of_command(command, &rank);
    if (!info || !channel_key(info->number, command->peer, command->tag, &key))
        return;
    if (!is_tag(command->tag)) {
        say(command, -EINVAL, "its tag is larger than MPI_TAG_UB");
        return;
    }
    bool self_sent = command->peer == mpi_hot.area->rank;
    if (command->bytes > (uint64_t)(self_sent ? MPIM_INSERT_SELF_MOST : MPIM_INSERT_MOST)) {
        say(command, -EMSGSIZE, "it is too large to be sent without waiting for a receive");
        return;
    }
    struct pending *entry = pending_take(command->bytes);
    if (!entry) {
        say(command, -ENOMEM, "there is no memory for it");
        return;
    }
    int code = file_move(command->path, entry->memory, command->bytes, false);
    if (code < 0) {
        say(command, code, "its content could not be read");
        pending_drop(entry);
        return;
    }
    if (mpi_library.Isend(entry->memory, (int)command->bytes, mpi_library.packed, rank, command->tag, comm_handle(info),
                          &entry->request) != MPI_SUCCESS) {
        say(command, -EIO, "MPI did not send it");
        pending_drop(entry);
        return;
    }
    command->done = 1;
    if (channel_lock()) {
        command->k = match_sent(channels.match, &key, command->bytes, self->tid, ticks_now());
        struct mpim_channel *channel = match_channel(channels.match, MPIM_SENT, &key);
        if (channel)
            channel->removed++;
        channel_unlock();
    }
    channel_tell_sent(self, &key, command->k, command->bytes);
}

/* ---- all of it ---- */

static void execute(struct mpi_self *self, struct mpim_command *command)
{
    command->done = 0;
    command->result = 0;
    command->text[0] = '\0';
    command->path[sizeof command->path - 1] = '\0';
    switch (command->kind) {
    case MPIM_REMOVE:
        remove_one(self, command);
        break;
    case MPIM_CLEAR:
        clear(self, command);
        break;
    case MPIM_INSERT:
        insert(self, command);
        break;
    default:
        say(command, -EINVAL, "there is no such command");
    }
}

static _Atomic uint32_t at_it;

void COLD channel_commands(struct mpi_self *self)
{
    struct mpim_command *command = &channels.shared->command;
    uint32_t put = MPIM_COMMAND_PUT, none = 0;
    if ((!self_pending && atomic_load(&command->state) != MPIM_COMMAND_PUT) ||
        !atomic_compare_exchange_strong(&at_it, &none, 1))
        return;
    int error = errno;
    pending_look();
    if (atomic_compare_exchange_strong(&command->state, &put, MPIM_COMMAND_TAKEN)) {
        execute(self, command);
        atomic_store(&command->state, MPIM_COMMAND_DONE);
        if (mpi_hot.bell)
            area_ring(mpi_hot.bell);
    }
    errno = error;
    atomic_store(&at_it, 0);
}

void channel_end(void)
{
    pending_look();
    for (uint32_t i = 0; i < PENDING; i++)
        if (pending[i].used)
            mpi_library.Request_free(&pending[i].request);
}
