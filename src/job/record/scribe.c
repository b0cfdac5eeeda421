/* SPDX-License-Identifier: Apache-2.0 */
#include "job/record/scribe.h"

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

enum { RECORDER_CRASHES = 20 };

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
    scribe_put_take(&recorder->scribe, record);
}

void recorder_put_line(struct recorder *recorder, const char *type, json_t *record, struct span line)
{
    double seconds = recorder_apply(recorder, type, record);
    scribe_put_line(&recorder->scribe, line, seconds);
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

void recorder_ended(struct recorder *recorder, pid_t pid, const char *name, int status)
{
    if (status == JOB_STATUS_UNKNOWN || !WIFSIGNALED(status) || !job_signal_is_fault(WTERMSIG(status)))
        return;
    if (json_array_size(recorder->model.crashes) >= RECORDER_CRASHES) {
        recorder->crashes_omitted++;
        return;
    }
    recorder_put(recorder, RECORD(crash, .pid = pid, .name = name, .signal = WTERMSIG(status),
                                  .core_dumped = WCOREDUMP(status) != 0));
}

enum { OUT_MOST = 32 << 20, BATCH_MOST = 128 << 10 };

enum message_kind {
    MESSAGE_RECORDS, /* number of records, lines */
    MESSAGE_LIMIT,   /* number of bytes */
    MESSAGE_CLOSE,   /* the spool */
    MESSAGE_FILE,    /* whether it is to be on disk at once; name with its NUL, content */
    MESSAGE_ASK,     /* the answer is a struct scribe_told */
};

struct message {
    uint64_t number;
    uint32_t kind; /* enum message_kind */
    uint32_t len;  /* of what follows */
};

/* ---- in the process ---- */

struct writer {
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

static int replace(struct writer *writer, const char *payload, size_t len, bool now)
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
    writer->sync_ns = clock_now_ns() + SCRIBE_SYNC_NS;
    return code;
}

/* Waits for a message. A job that has lasted for a second is still known after the machine has stopped; shorter ones do not
 * wait for the disk. */
static void wait_and_sync(struct writer *writer)
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

static void answer(const struct writer *writer)
{
    const struct spool *spool = &writer->spool;
    struct scribe_told told = {
        .lost = spool->lost, .size_bytes = spool->size_bytes, .replaced = writer->replaced, .stopped = spool->stopped};
    memcpy(told.reason, spool->reason, sizeof told.reason);
    ssize_t sent = send(writer->fd, &told, sizeof told, MSG_NOSIGNAL);
    (void)sent; /* scry run may be gone: what it has sent is written anyway */
}

static bool writer_handle(struct writer *writer, const struct message *message, const char *payload)
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
    const char *dir, *id;
    uint64_t max_bytes;
};

static void writer_serve(void *ctx, int fd)
{
    const struct wanted *wanted = ctx;
    struct writer writer = {.fd = fd, .dir = wanted->dir};
    struct message message;
    spool_open(&writer.spool, wanted->dir, wanted->id, wanted->max_bytes);
    for (;;) {
        wait_and_sync(&writer);
        if (!read_all(fd, &message, sizeof message))
            break;
        _cleanup_(freep) char *payload = malloc((size_t)message.len + 1);
        if (!payload || !read_all(fd, payload, message.len))
            break;
        payload[message.len] = 0;
        pause_at("scribe.before-write");
        if (!writer_handle(&writer, &message, payload))
            break;
        int more = 0;
        if (ioctl(fd, FIONREAD, &more) < 0 || more == 0)
            spool_flush(&writer.spool);
    }
    spool_close(&writer.spool);
}

/* ---- in scry run ---- */

int scribe_start(struct scribe *scribe, const char *dir, const char *id, uint64_t max_bytes)
{
    struct wanted wanted = {dir, id, max_bytes};
    *scribe = (struct scribe){.fd = -1, .next_seq = SPOOL_FIRST_SEQ};
    return worker_start(SCRIBE_PROCESS_NAME, SOCK_STREAM, writer_serve, &wanted, &scribe->pid, &scribe->fd);
}

static void drop(struct scribe *scribe)
{
    if (scribe->fd >= 0)
        close(scribe->fd);
    scribe->fd = -1;
    scribe->batch = 0;
    buf_done(&scribe->out);
}

static void scribe_send(struct scribe *scribe, struct message message, const char *name, const char *bytes, size_t len)
{
    size_t name_len = name ? strlen(name) + 1 : 0;
    scribe->settled = false;
    message.len = (uint32_t)(name_len + len);
    scribe->batch = 0;
    if (scribe->fd < 0)
        return;
    buf_append(&scribe->out, &message, sizeof message);
    buf_append(&scribe->out, name, name_len);
    buf_append(&scribe->out, bytes, len);
    if (scribe->out.failed)
        drop(scribe);
}

static bool has_room(struct scribe *scribe)
{
    if (scribe->fd >= 0 && scribe->out.len <= OUT_MOST)
        return true;
    scribe->lost++;
    return false;
}

/* Many records in a message cost the process less. */
static void put_record(struct scribe *scribe, const char *line, size_t len)
{
    struct message message = {.kind = MESSAGE_RECORDS};
    scribe->settled = false;
    size_t at = scribe->batch ? scribe->batch - 1 : scribe->out.len;
    if (scribe->batch)
        memcpy(&message, scribe->out.data + at, sizeof message);
    if (!scribe->batch || message.len + len > BATCH_MOST) {
        at = scribe->out.len;
        scribe_send(scribe, (struct message){.kind = MESSAGE_RECORDS, .number = 1}, NULL, line, len);
    } else {
        buf_append(&scribe->out, line, len);
        if (scribe->out.failed) {
            drop(scribe);
            return;
        }
        message.len += (uint32_t)len;
        message.number++;
        memcpy(scribe->out.data + at, &message, sizeof message);
    }
    scribe->batch = scribe->fd >= 0 ? at + 1 : 0;
}

/* Adopts the line. */
static void put_line_take(struct scribe *scribe, struct buf *line, bool whole)
{
    if (whole && !line->failed) {
        scribe->next_seq++;
        put_record(scribe, line->data, line->len);
    } else {
        scribe->lost++;
    }
    buf_done(line);
}

void scribe_put_take(struct scribe *scribe, json_t *record)
{
    struct buf line = BUF_INIT;
    if (has_room(scribe))
        put_line_take(scribe, &line, spool_line_take(record, scribe->next_seq, &line));
    else
        json_decref(record);
}

void scribe_put_line(struct scribe *scribe, struct span text, double seconds)
{
    struct buf line = BUF_INIT;
    if (has_room(scribe))
        put_line_take(scribe, &line, spool_line_of(text, scribe->next_seq, seconds, &line));
}

void scribe_push(struct scribe *scribe)
{
    size_t done = 0;
    while (scribe->fd >= 0 && done < scribe->out.len) {
        ssize_t sent = send(scribe->fd, scribe->out.data + done, scribe->out.len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            drop(scribe); /* it was killed */
            return;
        }
        if (sent <= 0)
            break;
        done += (size_t)sent;
    }
    if (!done)
        return;
    buf_drop(&scribe->out, done);
    scribe->batch = scribe->batch > done ? scribe->batch - done : 0;
}

void scribe_limit(struct scribe *scribe, uint64_t max_bytes)
{
    scribe_send(scribe, (struct message){.kind = MESSAGE_LIMIT, .number = max_bytes}, NULL, NULL, 0);
}

void scribe_close_spool(struct scribe *scribe)
{
    scribe_send(scribe, (struct message){.kind = MESSAGE_CLOSE}, NULL, NULL, 0);
}

void scribe_replace(struct scribe *scribe, const char *name, const char *bytes, size_t len, bool now)
{
    scribe_send(scribe, (struct message){.kind = MESSAGE_FILE, .number = now}, name, bytes, len);
}

bool scribe_wait(struct scribe *scribe)
{
    const struct wait_policy *policy = &wait_policies[WAIT_WRITTEN];
    uint64_t start = wait_now_ns();
    if (scribe->late)
        return false;
    scribe_send(scribe, (struct message){.kind = MESSAGE_ASK}, NULL, NULL, 0);
    if (scribe->pid > 0)
        kill(scribe->pid, SIGCONT); /* the group may have been stopped, and only scry run continued */
    for (;;) {
        scribe_push(scribe);
        if (scribe->fd < 0)
            return false;
        struct wait_seen seen = {.passed_ns = wait_now_ns() - start};
        struct pollfd both = {.fd = scribe->fd, .events = scribe->out.len ? POLLIN | POLLOUT : POLLIN};
        wait_poll(&both, 1, (int)(waits_slice_ns(policy, &seen) / WAITS_NS_PER_MS) + 1);
        if (both.revents & (POLLIN | POLLHUP)) {
            if (recv(scribe->fd, &scribe->told, sizeof scribe->told, MSG_DONTWAIT) == sizeof scribe->told) {
                scribe->settled = true;
                return true;
            }
            drop(scribe);
            return false;
        }
        seen.passed_ns = wait_now_ns() - start;
        seen.state = wait_look(scribe->pid).state;
        if (waits_judge(policy, &seen) != WAIT_ON) {
            scribe->late = true;
            return false;
        }
    }
}

uint64_t scribe_lost(const struct scribe *scribe)
{
    return scribe->lost + scribe->told.lost;
}

/* Sends the rest when scry run has gone, however long it takes. */
static void leave_rest(struct scribe *scribe)
{
    if (fork() != 0)
        return;
    int fd = worker_become(SCRIBE_PROCESS_NAME, scribe->fd);
    for (size_t done = 0; done < scribe->out.len;) {
        ssize_t sent = send(fd, scribe->out.data + done, scribe->out.len - done, MSG_NOSIGNAL);
        if (sent <= 0 && errno != EINTR)
            break;
        done += sent > 0 ? (size_t)sent : 0;
    }
    _exit(0);
}

void scribe_end(struct scribe *scribe)
{
    bool left = scribe->fd >= 0 && !scribe->settled && !scribe_wait(scribe);
    if (left && scribe->fd >= 0 && scribe->out.len)
        leave_rest(scribe);
    drop(scribe);
    if (left)
        scribe->pid = 0;
}

void scribe_reap(struct scribe *scribe)
{
    if (scribe->pid > 0)
        kill(scribe->pid, SIGCONT); /* somebody may have stopped it since its last answer */
    if (scribe->pid > 0)
        child_reap(scribe->pid);
    scribe->pid = 0;
}
