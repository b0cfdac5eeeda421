/* SPDX-License-Identifier: Apache-2.0 */
#include "job/record/writer.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "job/launch/launch.h"
#include "jobdir/record/info.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

double recorder_seconds(const struct recorder *recorder, uint64_t monotonic_ns)
{
    return monotonic_ns > recorder->start_ns ? (double)(monotonic_ns - recorder->start_ns) / NS_PER_SECOND : 0;
}

/* Returns its time. */
static double recorder_apply(struct recorder *recorder, const char *type, json_t *record)
{
    double seconds = recorder->started ? recorder_seconds(recorder, clock_now_ns()) : 0;
    log_debug("record type=%s", type);
    json_object_set_new(record, "t", json_real(seconds));
    job_model_apply(&recorder->model, record);
    if (recorder->recorded)
        recorder->recorded(recorder->ctx, record_type(record), record);
    return seconds;
}

/* Adopts the record (NULL: out of memory, counted as lost), and adds "type" and "t" (now). */
static void recorder_put_take(struct recorder *recorder, const char *type, json_t *record)
{
    if (record) {
        json_object_set_new(record, "type", json_string(type));
        recorder_apply(recorder, type, record);
    }
    writer_put_take(&recorder->writer, record);
}

void recorder_put_line(struct recorder *recorder, const char *type, json_t *record, struct span line)
{
    double seconds = recorder_apply(recorder, type, record);
    writer_put_line(&recorder->writer, line, seconds);
}

void recorder_put(struct recorder *recorder, enum record_type type, const void *row)
{
    recorder_put_take(recorder, record_kinds[type].type, record_json(type, row));
}

void recorder_note(struct recorder *recorder, struct note note)
{
    recorder_put_take(recorder, "warning", note_json(&note));
}

int recorder_status(const struct recorder *recorder, pid_t pid)
{
    siginfo_t gone = {.si_pid = 0};
    if (recorder->command == pid)
        return recorder->command_status;
    if (pid <= 0 || waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT) < 0)
        return JOB_STATUS_UNKNOWN; /* no child of ours */
    if (!gone.si_pid) {            /* the kernel tells of an end before it can be waited for */
        _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        wait_fd(pidfd, POLLIN, EXITING_MS);
        waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT);
    }
    if (gone.si_pid != pid)
        return JOB_STATUS_UNKNOWN;
    return gone.si_code == CLD_EXITED ? W_EXITCODE(gone.si_status, 0)
                                      : gone.si_status | (gone.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

void recorder_ended(struct recorder *recorder, const struct process_end_record *ended, const char *program,
                    const char *cwd)
{
    int status = ended->status;
    if (status == JOB_STATUS_UNKNOWN || !WIFSIGNALED(status) || !job_signal_is_fault(WTERMSIG(status)))
        return;
    size_t count = json_array_size(recorder->model.crashes);
    if (count >= RECORDER_CRASHES) {
        recorder->crashes_omitted++;
        return;
    }
    char path[PATH_MAX];
    int len = -1;
    if (program && *program == '/')
        len = snprintf(path, sizeof path, "%s", program);
    else if (program && cwd && strchr(program, '/'))
        len = snprintf(path, sizeof path, "%s/%s", cwd, program);
    recorder->crashes[count] =
        (struct recorder_crash){.program = len > 0 && (size_t)len < sizeof path ? strdup(path) : NULL,
                                .argv = json_incref(ended->process.command.argv),
                                .cwd = cwd ? strdup(cwd) : NULL,
                                .start = ended->process.start,
                                .end = ended->end};
    recorder_put(recorder, RECORD(crash, .pid = ended->process.pid, .name = ended->process.name,
                                  .signal = WTERMSIG(status), .core_dumped = WCOREDUMP(status) != 0));
}

void recorder_crashes_done(struct recorder *recorder)
{
    for (size_t i = 0; i < RECORDER_CRASHES; i++) {
        free(recorder->crashes[i].program);
        free(recorder->crashes[i].cwd);
        json_decref(recorder->crashes[i].argv);
    }
}

enum { OUT_MOST = 32 << 20, BATCH_MOST = 128 << 10 };

enum message_kind {
    MESSAGE_RECORDS, /* number of records, lines */
    MESSAGE_LIMIT,   /* number of bytes */
    MESSAGE_CLOSE,   /* the spool */
    MESSAGE_FILE,    /* whether it is to be on disk at once; name with its NUL, content */
    MESSAGE_ASK,     /* the answer is a struct writer_told */
};

struct message {
    uint64_t number;
    uint32_t kind; /* enum message_kind */
    uint32_t len;  /* of what follows */
};

/* ---- in the process ---- */

struct writer_process {
    int fd;
    const char *dir;
    struct spool spool;
    int replaced;
    char unsynced[PATH_MAX]; /* a file that may not be on disk yet; "": none */
    uint64_t sync_ns;        /* when it is to be */
};

static bool read_all(int fd, void *into, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t got = read(fd, (char *)into + done, len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static int replace(struct writer_process *writer, const char *payload, size_t len, bool now)
{
    char path[PATH_MAX];
    size_t name_len = strnlen(payload, len) + 1;
    if (name_len > len || snprintf(path, sizeof path, "%s/%s", writer->dir, payload) >= (int)sizeof path)
        return -ENAMETOOLONG;
    writer->unsynced[0] = 0;
    if (now)
        return file_replace(path, payload + name_len, len - name_len, 0600);
    int code = file_replace_soon(path, payload + name_len, len - name_len, 0600);
    if (code == 0)
        memcpy(writer->unsynced, path, sizeof path);
    writer->sync_ns = clock_now_ns() + WRITER_SYNC_NS;
    return code;
}

/* Waits for a message. A job that has lasted for a second is still known after the machine has stopped; shorter ones do not
 * wait for the disk. */
static void wait_and_sync(struct writer_process *writer)
{
    while (writer->unsynced[0]) {
        if (clock_now_ns() < writer->sync_ns) {
            if (wait_fd_until(writer->fd, POLLIN, writer->sync_ns))
                return;
            continue;
        }
        _cleanup_(closep) int fd = file_open_own(AT_FDCWD, writer->unsynced, O_RDONLY);
        writer->unsynced[0] = 0;
        if (fd >= 0)
            fsync(fd); /* a disk that fails says so to the records, and to the file's last version */
    }
}

static void answer(const struct writer_process *writer)
{
    const struct spool *spool = &writer->spool;
    struct writer_told told = {
        .lost = spool->lost, .size_bytes = spool->size_bytes, .replaced = writer->replaced, .stopped = spool->stopped};
    memcpy(told.reason, spool->reason, sizeof told.reason);
    ssize_t sent = send(writer->fd, &told, sizeof told, MSG_NOSIGNAL);
    (void)sent; /* scry run may be gone: what it has sent is written anyway */
}

static bool writer_handle(struct writer_process *writer, const struct message *message, const char *payload)
{
    switch ((enum message_kind)message->kind) {
    case MESSAGE_RECORDS:
        spool_put_lines(&writer->spool, payload, message->len, message->number);
        return true;
    case MESSAGE_LIMIT:
        writer->spool.max_bytes = message->number;
        return true;
    case MESSAGE_CLOSE:
        spool_close(&writer->spool);
        return true;
    case MESSAGE_FILE:
        writer->replaced = replace(writer, payload, message->len, message->number);
        return true;
    case MESSAGE_ASK:
        spool_flush(&writer->spool);
        answer(writer);
        return true;
    }
    return false;
}

struct wanted { /* of a writer */
    const char *dir;
    struct buf first; /* line of the spool: the process has no use for JSON, and would pay for the library */
    uint64_t max_bytes;
};

static void writer_serve(void *ctx, int fd)
{
    const struct wanted *wanted = ctx;
    struct writer_process writer = {.fd = fd, .dir = wanted->dir};
    struct message message;
    spool_open(&writer.spool, wanted->dir, &wanted->first, wanted->max_bytes);
    for (;;) {
        wait_and_sync(&writer);
        if (!read_all(fd, &message, sizeof message))
            break;
        _cleanup_(freep) char *payload = malloc((size_t)message.len + 1);
        if (!payload || !read_all(fd, payload, message.len))
            break;
        payload[message.len] = 0;
        pause_at("writer.before-write");
        if (!writer_handle(&writer, &message, payload))
            break;
        int more = 0;
        if (ioctl(fd, FIONREAD, &more) < 0 || more == 0)
            spool_flush(&writer.spool);
    }
    spool_close(&writer.spool);
}

/* ---- in scry run ---- */

int writer_start(struct writer *writer, const char *dir, const char *id, uint64_t max_bytes)
{
    struct wanted wanted = {.dir = dir, .first = BUF_INIT, .max_bytes = max_bytes};
    *writer = (struct writer){.fd = -1, .next_seq = SPOOL_FIRST_SEQ};
    spool_first(&wanted.first, id);
    int code = worker_start(WRITER_PROCESS_NAME, SOCK_STREAM, writer_serve, &wanted, &writer->pid, &writer->fd);
    buf_done(&wanted.first);
    return code;
}

static void drop(struct writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
    writer->batch = 0;
    buf_done(&writer->out);
}

static void writer_send(struct writer *writer, struct message message, const char *name, const char *bytes, size_t len)
{
    size_t name_len = name ? strlen(name) + 1 : 0;
    writer->settled = false;
    message.len = (uint32_t)(name_len + len);
    writer->batch = 0;
    if (writer->fd < 0)
        return;
    buf_append(&writer->out, &message, sizeof message);
    buf_append(&writer->out, name, name_len);
    buf_append(&writer->out, bytes, len);
    if (writer->out.failed)
        drop(writer);
}

static bool has_room(struct writer *writer)
{
    if (writer->fd >= 0 && writer->out.len <= OUT_MOST)
        return true;
    writer->lost++;
    return false;
}

/* Many records in a message cost the process less. */
static void put_record(struct writer *writer, const char *line, size_t len)
{
    struct message message = {.kind = MESSAGE_RECORDS};
    writer->settled = false;
    size_t at = writer->batch ? writer->batch - 1 : writer->out.len;
    if (writer->batch)
        memcpy(&message, writer->out.data + at, sizeof message);
    if (!writer->batch || message.len + len > BATCH_MOST) {
        at = writer->out.len;
        writer_send(writer, (struct message){.kind = MESSAGE_RECORDS, .number = 1}, NULL, line, len);
    } else {
        buf_append(&writer->out, line, len);
        if (writer->out.failed) {
            drop(writer);
            return;
        }
        message.len += (uint32_t)len;
        message.number++;
        memcpy(writer->out.data + at, &message, sizeof message);
    }
    writer->batch = writer->fd >= 0 ? at + 1 : 0;
}

/* Adopts the line. */
static void put_line_take(struct writer *writer, struct buf *line, bool whole)
{
    if (whole && !line->failed) {
        writer->next_seq++;
        put_record(writer, line->data, line->len);
    } else {
        writer->lost++;
    }
    buf_done(line);
}

void writer_put_take(struct writer *writer, json_t *record)
{
    struct buf line = BUF_INIT;
    if (has_room(writer))
        put_line_take(writer, &line, spool_line_take(record, writer->next_seq, &line));
    else
        json_decref(record);
}

void writer_put_line(struct writer *writer, struct span text, double seconds)
{
    struct buf line = BUF_INIT;
    if (has_room(writer))
        put_line_take(writer, &line, spool_line_of(text, writer->next_seq, seconds, &line));
}

void writer_push(struct writer *writer)
{
    size_t done = 0;
    while (writer->fd >= 0 && done < writer->out.len) {
        ssize_t sent = send(writer->fd, writer->out.data + done, writer->out.len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            drop(writer); /* it was killed */
            return;
        }
        if (sent <= 0)
            break;
        done += (size_t)sent;
    }
    if (!done)
        return;
    buf_drop(&writer->out, done);
    writer->batch = writer->batch > done ? writer->batch - done : 0;
}

void writer_limit(struct writer *writer, uint64_t max_bytes)
{
    writer_send(writer, (struct message){.kind = MESSAGE_LIMIT, .number = max_bytes}, NULL, NULL, 0);
}

void writer_close_spool(struct writer *writer)
{
    writer_send(writer, (struct message){.kind = MESSAGE_CLOSE}, NULL, NULL, 0);
}

void writer_replace(struct writer *writer, const char *name, const char *bytes, size_t len, bool now)
{
    writer_send(writer, (struct message){.kind = MESSAGE_FILE, .number = now}, name, bytes, len);
}

bool writer_wait(struct writer *writer)
{
    const struct wait_policy *policy = &wait_policies[WAIT_WRITTEN];
    uint64_t start = wait_now_ns();
    if (writer->late)
        return false;
    writer_send(writer, (struct message){.kind = MESSAGE_ASK}, NULL, NULL, 0);
    if (writer->pid > 0)
        kill(writer->pid, SIGCONT); /* the group may have been stopped, and only scry run continued */
    for (;;) {
        writer_push(writer);
        if (writer->fd < 0)
            return false;
        struct wait_seen seen = {.passed_ns = wait_now_ns() - start};
        struct pollfd both = {.fd = writer->fd, .events = writer->out.len ? POLLIN | POLLOUT : POLLIN};
        wait_poll(&both, 1, (int)(waits_slice_ns(policy, &seen) / WAITS_NS_PER_MS) + 1);
        if (both.revents & (POLLIN | POLLHUP)) {
            if (recv(writer->fd, &writer->told, sizeof writer->told, MSG_DONTWAIT) == sizeof writer->told) {
                writer->settled = true;
                return true;
            }
            drop(writer);
            return false;
        }
        seen.passed_ns = wait_now_ns() - start;
        seen.state = wait_look(writer->pid).state;
        if (waits_judge(policy, &seen) != WAIT_ON) {
            writer->late = true;
            return false;
        }
    }
}

uint64_t writer_lost(const struct writer *writer)
{
    return writer->lost + writer->told.lost;
}

/* Sends the rest when scry run has gone, however long it takes. */
static void leave_rest(struct writer *writer)
{
    if (fork() != 0)
        return;
    int fd = worker_become(WRITER_PROCESS_NAME, writer->fd);
    for (size_t done = 0; done < writer->out.len;) {
        ssize_t sent = send(fd, writer->out.data + done, writer->out.len - done, MSG_NOSIGNAL);
        if (sent <= 0 && errno != EINTR)
            break;
        done += sent > 0 ? (size_t)sent : 0;
    }
    _exit(0);
}

void writer_end(struct writer *writer)
{
    bool left = writer->fd >= 0 && !writer->settled && !writer_wait(writer);
    if (left && writer->fd >= 0 && writer->out.len)
        leave_rest(writer);
    drop(writer);
    if (left)
        writer->pid = 0;
}

void writer_reap(struct writer *writer)
{
    if (writer->pid > 0)
        kill(writer->pid, SIGCONT); /* somebody may have stopped it since its last answer */
    if (writer->pid > 0)
        child_reap(writer->pid);
    writer->pid = 0;
}
