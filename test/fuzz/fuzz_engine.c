/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine, driven as the daemon drives it: several sessions that come and go, their requests, events from a fake
 * tracer, ends of processes. One line of the input is one step:
 *
 *     0 : print([1])      a request of session 0 (to 3); instead of the space a letter for flags: k DONT_RETURN_OK,
 *                         e DONT_RETURN_EN_DIS, b both, d DEBUG. @0 to @3 stand for the pids of four idle children
 *     +0                  session 0 ends if it is there, and is opened anew as a tool of its own
 *     +01                 the same, as a further session of session 1's tool
 *     -0                  session 0 ends
 *     !KPTxD              event of kind K (0 ...) in child P, thread T, held unless x is 'n', with a number D
 *     *0                  child 0 is killed
 *     ?M                  the tracer works (0) or fails in one of several ways
 *
 * Every request must be answered at once, every reply must decode, nothing may follow a request's last reply; when all
 * sessions are gone, nothing may be left: no traced process, no breakpoint, no object but those of the system.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "fake_tracer.h"
#include "fuzz.h"
#include "lang/reply.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/mpi.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "probe/node.h"
#include "probe/proc.h"
#include "service/job/follow.h"
#include "service/omis/service.h"

enum { SESSIONS = 4, REQUESTS = 128, INPUT_LIMIT = 4096, STEPS = 128, STACK = 16384 };

/* ---- the children ---- */

static char stacks[FAKE_CHILDREN][FAKE_THREADS][STACK] __attribute__((aligned(16)));

__attribute__((no_sanitize("address", "undefined"))) static int idle_thread(void *ctx)
{
    (void)ctx;
    for (;;)
        syscall(SYS_pause);
    return 0;
}

/* Raw threads: the child of a program under a sanitizer should not call much. */
static pid_t start_child(size_t index)
{
    int ready[2];
    char byte;
    fuzz_expect(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int signo = 1; signo < NSIG; signo++) /* thread_send_signal may send any; libFuzzer catches some */
            signal(signo, SIG_DFL);
        for (size_t i = 1; i <= index % FAKE_THREADS; i++)
            clone(idle_thread, stacks[index][i] + STACK - 64,
                  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, NULL);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        close(ready[0]);
        close(ready[1]);
        idle_thread(NULL);
    }
    ssize_t got;
    while ((got = read(ready[0], &byte, 1)) < 0 && errno == EINTR)
        ;
    fuzz_expect(pid > 0 && got == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void ensure_child(size_t index)
{
    struct fake_child *child = &fake_children[index];
    int status;
    if (child->pid && waitpid(child->pid, &status, WNOHANG) == 0)
        return;
    *child = (struct fake_child){.pid = start_child(index)};
    pid_t *tids;
    size_t count;
    fuzz_expect(proc_threads(child->pid, &tids, &count) == 0);
    fuzz_expect(count <= FAKE_THREADS);
    memcpy(child->tids, tids, count * sizeof *tids);
    child->thread_count = count;
    free(tids);
}

/* They stay zombies until the next input. */
static void kill_child(size_t index)
{
    siginfo_t info;
    kill(fake_children[index].pid, SIGKILL);
    while (waitid(P_PID, (id_t)fake_children[index].pid, &info, WEXITED | WNOWAIT) < 0)
        fuzz_expect(errno == EINTR);
}

/* A tracer would know: of those killed above and by thread_send_signal. */
static void notice_ended(void)
{
    for (size_t i = 0; i < FAKE_CHILDREN; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)fake_children[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            fake_tracer_child_ended(&fake_children[i]);
    }
}

/* ---- what must not touch anything else (the linker's --wrap) ---- */

int __real_proc_pidfd(pid_t pid);
int __wrap_proc_pidfd(pid_t pid);
int __wrap_proc_signal(int pidfd, int signo);
int __wrap_proc_set_nice(pid_t pid, pid_t tid, int nice);
int __wrap_proc_memory_write(pid_t pid, uint64_t addr, const void *bytes, size_t len, size_t *ret_done);
int __wrap_dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err);
int __wrap_node_probe_print(struct node_probe *probe, uint64_t flags, struct buf *out, struct err *err);
int __wrap_job_follow_new(struct job_follow **ret_follow, pid_t root, struct err *err);
int __wrap_mpi_find_ranks(struct mpi_found **ret_found, size_t *ret_count, char *note, size_t note_size);
void __wrap_log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Nothing but our children can be attached. */
int __wrap_proc_pidfd(pid_t pid)
{
    struct fake_child *child = fake_child_of(pid);
    return child && child->pid == pid ? __real_proc_pidfd(pid) : -EPERM;
}

int __wrap_proc_signal(int pidfd, int signo)
{
    fuzz_expect(pidfd >= 0);
    return signo == SIGSTOP ? -EPERM : 0;
}

int __wrap_proc_set_nice(pid_t pid, pid_t tid, int nice)
{
    fuzz_expect(fake_child_of(tid ? tid : pid) != NULL);
    return nice < 0 ? -EACCES : 0;
}

int __wrap_proc_memory_write(pid_t pid, uint64_t addr, const void *bytes, size_t len, size_t *ret_done)
{
    (void)ret_done;
    fuzz_expect(fake_child_of(pid) && bytes && len);
    return addr & 1 ? -EIO : 0;
}

int __wrap_dirs_libexec(const char *name, char *ret_path, size_t size, struct err *err)
{
    (void)err;
    snprintf(ret_path, size, "/%s", name);
    return 0;
}

int __wrap_node_probe_print(struct node_probe *probe, uint64_t flags, struct buf *out, struct err *err)
{
    (void)err;
    fuzz_expect(probe != NULL);
    buf_printf(out, "%llu", (unsigned long long)flags);
    return 0;
}

int __wrap_job_follow_new(struct job_follow **ret_follow, pid_t root, struct err *err)
{
    (void)ret_follow;
    return err_set(err, -ESRCH, "there is no process %d", root);
}

int __wrap_mpi_find_ranks(struct mpi_found **ret_found, size_t *ret_count, char *note, size_t note_size)
{
    *ret_found = NULL;
    *ret_count = 0;
    *note = 0;
    return 0;
}

void __wrap_log_write(enum log_level level, const char *format, ...)
{
    (void)level;
    (void)format;
}

/* ---- sessions ---- */

struct fake_request {
    unsigned replies;
    bool conditional, ended;
};

struct fake_session {
    struct session session;
    bool open;
    uint32_t count;
    struct fake_request requests[REQUESTS];
};

static struct monitor *monitor;
static struct loop *loop;
static struct fake_session sessions[SESSIONS];

static void check_reply(struct fake_session *session, struct fake_request *request, bool last, Omis_reply reply)
{
    fuzz_expect(reply[0] && reply[0][0].obj_list && !reply[0][1].obj_list);
    Omis_status status = reply[0][0].status;
    bool first = request->replies++ == 0;
    fuzz_expect(session->open && !request->ended);
    request->ended = last;
    if (!first) {
        fuzz_expect(request->conditional);
        fuzz_expect(status == OMIS_CSR_ENABLED || status == OMIS_CSR_DISABLED || status == OMIS_CSR_DELETED ||
                    status == OMIS_CSR_TRIGGERED);
        fuzz_expect(status != OMIS_CSR_DEFINED);
        return;
    }
    request->conditional = status == OMIS_CSR_DEFINED;
    if (request->conditional) {
        fuzz_expect(reply[1] && reply[1][0].obj_list && !reply[1][1].obj_list && !reply[2]);
        fuzz_expect(last == (reply[1][0].status >= OMIS_FIRST_ERROR));
    } else {
        fuzz_expect(last && (status == OMIS_OK || status >= OMIS_FIRST_ERROR));
    }
}

static void take_reply(struct session *session, uint32_t id, bool last, bool droppable, struct span encoded)
{
    struct fake_session *fake = (struct fake_session *)session;
    Omis_reply reply;
    fuzz_expect(id > 0 && id <= fake->count && !(last && droppable));
    fuzz_expect(reply_decode(encoded, &reply) == 0);
    check_reply(fake, &fake->requests[id - 1], last, reply);
    free(reply);
}

static void take_error(struct session *session, struct span encoded)
{
    Omis_reply reply;
    fuzz_expect(((struct fake_session *)session)->open);
    fuzz_expect(reply_decode(encoded, &reply) == 0);
    free(reply);
}

static void close_session(struct fake_session *session)
{
    if (!session->open)
        return;
    tool_leave(&session->session);
    fuzz_expect(!session->session.tool);
    session->open = false;
}

static void open_session(struct fake_session *session, const struct fake_session *other)
{
    close_session(session);
    memset(session, 0, sizeof *session);
    session->session = (struct session){.peer_pid = getpid(), .reply = take_reply, .error = take_error};
    session->session.tool = tool_join(monitor, other && other->open ? other->session.tool->id : 0);
    fuzz_expect(session->session.tool != NULL);
    session->open = true;
}

/* ---- steps ---- */

static uint32_t flags_of(char letter)
{
    switch (letter) {
    case 'k':
        return OMIS_DONT_RETURN_OK;
    case 'e':
        return OMIS_DONT_RETURN_EN_DIS;
    case 'b':
        return OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS;
    case 'd':
        return OMIS_DEBUG;
    default:
        return 0;
    }
}

static void request(struct fake_session *session, uint32_t flags, const char *text, size_t len)
{
    if (!session->open || session->count == REQUESTS)
        return;
    struct buf line = BUF_INIT;
    for (size_t i = 0; i < len; i++)
        if (text[i] == '@' && i + 1 < len && text[i + 1] >= '0' && text[i + 1] < '0' + FAKE_CHILDREN)
            buf_printf(&line, "%d", fake_children[text[++i] - '0'].pid);
        else
            buf_putc(&line, text[i]);
    uint32_t id = ++session->count;
    execute_request(&session->session, id, flags, span_of(line.data ? line.data : "", line.len));
    fuzz_expect(session->requests[id - 1].replies > 0);
    buf_done(&line);
}

static size_t digit(const char *line, size_t len, size_t at)
{
    return len > at && line[at] >= '0' && line[at] <= '9' ? (size_t)(line[at] - '0') : 0;
}

static void happens(const char *line, size_t len)
{
    unsigned detail = 0;
    for (size_t i = 5; i < len && i < 10; i++)
        detail = detail * 10 + (unsigned)digit(line, len, i);
    bool held = len < 5 || line[4] != 'n';
    fake_tracer_happens((enum tracer_event_kind)(digit(line, len, 1) % (TRACER_GONE + 1)), digit(line, len, 2),
                        digit(line, len, 3), detail, held);
}

static void step(const char *line, size_t len)
{
    size_t number = digit(line, len, 1) % SESSIONS;
    if (!len)
        return;
    switch (line[0]) {
    case '0':
    case '1':
    case '2':
    case '3':
        if (len > 2)
            request(&sessions[line[0] - '0'], flags_of(line[1]), line + 2, len - 2);
        break;
    case '+':
        open_session(&sessions[number], len > 2 ? &sessions[digit(line, len, 2) % SESSIONS] : NULL);
        break;
    case '-':
        close_session(&sessions[number]);
        break;
    case '!':
        happens(line, len);
        break;
    case '*':
        kill_child(number);
        break;
    case '?':
        fake_tracer_mode((enum fake_mode)(digit(line, len, 1) % FAKE_MODES));
        break;
    default:
        break;
    }
    notice_ended();
    fuzz_expect(loop_step(loop, 0) == 0);
    fuzz_expect(monitor->busy == 0 && monitor->executing == 0 && !monitor->running && !monitor->raised_first &&
                !monitor->graveyard && !monitor->unsettled);
}

/* When nobody is there any more. */
static void check_empty(void)
{
    fuzz_expect(!monitor->tools && fake_tracer_is_clean());
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        fuzz_expect(!object->owner && (object_is(object, "n") || object_is(object, "p") || object_is(object, "t")));
    for (struct process *process = monitor->processes; process; process = process->hh.next) {
        fuzz_expect(!process->attachments && process->pidfd < 0 && !process->exit_source && !process->trace.holds);
        for (struct thread *thread = process->threads; thread; thread = thread->hh.next)
            fuzz_expect(!thread->claims && !thread->stopped);
    }
    for (struct service *service = monitor->registry->services; service; service = service->hh.next)
        fuzz_expect(!service->enabled && !service->last_enabled);
}

int pa_register(void);
int null_register(void);

static void load_extension(const char *prefix, int (*start)(void))
{
    struct err err;
    snprintf(monitor->registry->registering, sizeof monitor->registry->registering, "%s", prefix);
    fuzz_expect(start() == 0 && registry_add_extension(monitor->registry, prefix, &err) == 0);
    monitor->registry->registering[0] = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err;
    if (size > INPUT_LIMIT)
        return -1;
    for (size_t i = 0; i < FAKE_CHILDREN; i++)
        ensure_child(i);
    fake_tracer_reset();
    for (size_t i = 0; i < FAKE_CHILDREN; i++)
        kill(fake_children[i].pid, SIGCONT);
    fuzz_expect(loop_new(&loop) == 0 && monitor_new(&monitor, loop, service_register_all, &err) == 0);
    load_extension("pa", pa_register);
    load_extension("null", null_register);
    open_session(&sessions[0], NULL);
    const char *at = (const char *)data, *end = at + size;
    for (int i = 0; at < end && i < STEPS; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        step(at, len);
        at += len + 1;
    }
    for (size_t i = 0; i < SESSIONS; i++)
        close_session(&sessions[i]);
    check_empty();
    monitor_free(monitor);
    loop_free(loop);
    return 0;
}
