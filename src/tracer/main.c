/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "shm/waits.h"
#include "tracer/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * How long a thread that an event holds waits for the monitor: like agent/safety/timeout.h, by the same row of
 * shm/waits.h. While the monitor is stopped nobody is held. When it runs again, it gets the number of released threads,
 * and of events that it missed.
 */

static struct {
    uint64_t looked_ns, idle_ns; /* when; since when it has been stopped, or cannot be seen */
    bool over;                   /* it was waited for in vain, and has not run since */
    uint64_t let_go, unreported;
} known;

static void statuses_look(void)
{
    uint64_t now_ns = clock_now_ns();
    if (known.looked_ns && now_ns - known.looked_ns < TIMEOUT_LOOK_NS)
        return;
    known.looked_ns = now_ns;
    char state = wait_look(monitor_pid).state;
    if (state && !waits_is_stopped(state))
        known.idle_ns = 0;
    else if (!known.idle_ns)
        known.idle_ns = now_ns;
    const struct wait_seen seen = {
        .passed_ns = known.idle_ns ? now_ns - known.idle_ns : 0, .state = state, .in_vain = known.over};
    known.over = waits_judge(&wait_policies[WAIT_HELD], &seen) != WAIT_ON;
}

bool timeout_over(void)
{
    if (known.over)
        statuses_look();
    return known.over;
}

/* The monitor does not get an event. */
static void timeout_unreported(void)
{
    known.unreported++;
}

static struct thread *held_thread(void)
{
    struct thread *thread = all_threads;
    while (thread && !thread->hold)
        thread = thread->hh.next;
    return thread;
}

/* Lets go who need not wait any longer; false: no need to look again. */
static bool timeout_tick(void)
{
    struct thread *thread = held_thread();
    if (!thread && !known.over && !known.let_go && !known.unreported) {
        known.looked_ns = known.idle_ns = 0;
        return false;
    }
    statuses_look();
    for (; known.over && thread; thread = held_thread()) {
        known.let_go++;
        hold_release(thread->hold);
    }
    if (!known.over && (known.let_go || known.unreported)) {
        struct tracer_event event = {.kind = TRACER_LET_GO, .args = {known.let_go, known.unreported}, .arg_count = 2};
        known.let_go = known.unreported = 0;
        event_send(&event);
    }
    return true;
}

/*
 * scry-tracer: owns every ptrace attachment and every int3 of one monitor. Started by tracer_start (client.c) with its
 * socket as descriptor 3 and the memory of the cells as descriptor 4. When the socket closes it repairs and releases
 * everything and exits.
 */

enum { TID_BITS = 23, READ_SIZE = 65536 };
/* Shorter than the client's timeout, so that its answer says what happened. */
#define PUMP_NS (TRACER_TIMEOUT_NS - TRACER_TIMEOUT_NS / 4)

code_cell *cells;
pid_t monitor_pid;
bool monitor_gone;
char **original_environment;

static volatile int woken; /* by SIGIO: the socket; by SIGALRM: time to look again */
static volatile sig_atomic_t ticked;
static struct buf in, out;
static bool ticks_wanted, pumping;
static bool waited_for; /* threads are held, or nobody told of them yet; or it was so when it was looked last */

/* ---- signals ---- */

static void on_signal(int signo, siginfo_t *info, void *context)
{
    (void)info;
    if (signo == SIGALRM)
        ticked = 1;
    woken = 1;
    wait_abort(context);
}

static void set_tick(void)
{
    suseconds_t us = ticks_wanted || pumping ? TRACER_TICK_US : waited_for ? (suseconds_t)(TIMEOUT_LOOK_NS / 1000) : 0;
    struct itimerval timer = {.it_value = {.tv_usec = us}, .it_interval = {.tv_usec = us}};
    setitimer(ITIMER_REAL, &timer, NULL);
}

void tick_request(void)
{
    if (ticks_wanted)
        return;
    ticks_wanted = true;
    set_tick();
}

void look_request(void)
{
    if (waited_for)
        return;
    waited_for = true;
    set_tick();
}

static void on_tick(void)
{
    bool waited_before = waited_for, wanted_before = ticks_wanted;
    ticked = 0;
    bool unknown = stop_adopt_unknowns(time_hasten(TRACER_UNKNOWN_NS));
    waited_for = waited_for && (timeout_tick() || unknown);
    ticks_wanted = false;
    struct process *process, *next;
    if (wanted_before)
        HASH_ITER(hh, all_processes, process, next)
        {
            if (process->space->in_place)
                breakpoint_in_place_try(process->space);
        }
    if (ticks_wanted != wanted_before || waited_for != waited_before)
        set_tick();
}

/* ---- the socket ---- */

static void flush_out(void)
{
    while (out.len) {
        ssize_t put = send(WIRE_SOCKET_FD, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return; /* SIGIO comes when there is room */
        if (put <= 0) {
            monitor_gone = true;
            buf_clear(&out);
            return;
        }
        buf_drop(&out, (size_t)put);
    }
}

static void send_message(const struct wire_message *message, const void *bytes, size_t len)
{
    if (monitor_gone)
        return;
    buf_append(&out, message, sizeof *message);
    buf_append(&out, bytes, len);
    if (out.failed) /* the monitor would wait for what is lost */
        monitor_gone = true;
    flush_out();
}

void reply_send(const struct wire_message *request, int code, uint64_t a, const void *bytes, size_t len)
{
    struct wire_message message = {
        .size = (uint32_t)(sizeof message + len), .kind = WIRE_REPLY, .serial = request->serial, .code = code, .a = a};
    send_message(&message, bytes, len);
}

void event_send(struct tracer_event *event)
{
    event->time_ns = clock_now_ns();
    struct wire_message message = {.size = sizeof message + sizeof *event, .kind = WIRE_EVENT};
    send_message(&message, event, sizeof *event);
}

/* There may be any number of these, and nothing follows from one that is not known. */
static bool is_hit(enum tracer_event_kind kind)
{
    return kind == TRACER_BREAK || kind == TRACER_STEP || kind == TRACER_SYSCALL_ENTER || kind == TRACER_SYSCALL_EXIT ||
           kind == TRACER_SIGNAL;
}

void event_hold(struct thread *thread, struct tracer_event *event)
{
    static uint64_t serial;
    if (monitor_gone)
        return;
    event->pid = thread->process->pid;
    event->tid = thread->tid;
    if (timeout_over()) {
        if (is_hit(event->kind))
            timeout_unreported();
        else
            event_send(event);
        return;
    }
    look_request();
    event->hold = thread->hold = ++serial << TID_BITS | (uint64_t)thread->tid;
    thread_park(thread); /* before anybody knows that it waits */
    event_send(event);
}

static void release_thread(struct thread *thread)
{
    thread->hold = 0;
    if (!thread->process->wanted && thread->tid == thread->process->pid)
        attach_try_leave(thread->process);
    else
        thread_update(thread);
}

void hold_release(uint64_t hold)
{
    if (!hold)
        return;
    struct thread *thread = thread_find((pid_t)(hold & ((1 << TID_BITS) - 1)));
    if (thread && thread->hold == hold) {
        struct thread *child = thread->held_child ? thread_find(thread->held_child) : NULL;
        thread->held_child = 0;
        if (child && child->hold == hold)
            release_thread(child);
        release_thread(thread);
        return;
    }
    /* the thread is gone; its child may still wait */
    struct thread *next;
    HASH_ITER(hh, all_threads, thread, next)
    {
        if (thread->hold == hold)
            release_thread(thread);
    }
}

static void read_socket(void)
{
    while (!monitor_gone) {
        char *to = buf_reserve(&in, READ_SIZE);
        ssize_t got = to ? recv(WIRE_SOCKET_FD, to, READ_SIZE, MSG_DONTWAIT) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0)
            monitor_gone = true;
        else
            in.len += (size_t)got;
        /* on to EAGAIN: the end of the stream may have come with the same signal as these bytes */
    }
}

static void handle_requests(void)
{
    struct wire_message message;
    while (!monitor_gone && in.len >= sizeof message) {
        memcpy(&message, in.data, sizeof message);
        if (message.size < sizeof message || message.size > WIRE_SIZE_LIMIT || message.kind == WIRE_BYE) {
            monitor_gone = true;
            return;
        }
        if (in.len < message.size)
            return;
        request_handle(&message, in.data + sizeof message, message.size - sizeof message);
        graveyard_clear();
        buf_drop(&in, message.size);
    }
}

/* ---- waiting ---- */

void pump_ready(void)
{
    int status;
    pid_t tid;
    while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0)
        stop_handle(tid, status);
}

int pump_until(pump_fn *done, void *ctx)
{
    uint64_t deadline = 0;
    int code = 0;
    for (;;) {
        pump_ready();
        if (done(ctx))
            break;
        uint64_t now = clock_now_ns();
        if (!deadline) {
            deadline = now + PUMP_NS;
            pumping = true;
            set_tick(); /* what done looks at can change without a status */
        } else if (now > deadline) {
            code = -ETIME;
            break;
        }
        int status;
        if (ticked)
            on_tick();
        woken = ticked;
        pid_t tid = wait_unless(&woken, &status);
        if (tid > 0)
            stop_handle(tid, status);
        else if (tid < 0)
            usleep(TRACER_TICK_US); /* no tracee is left: done cannot wait for one long */
    }
    if (deadline) {
        pumping = false;
        set_tick();
    }
    woken = 1; /* the socket may have been what woke us */
    return code;
}

static void wait_for_monitor(void)
{
    wait_fd(WIRE_SOCKET_FD, (short)(POLLIN | (out.len ? POLLOUT : 0)), -1);
    woken = 1;
}

/*
 * While hits come one after the other, looking for the next one for a moment is three times faster than sleeping until
 * the kernel wakes this process up on another processor (measured: 12 us a hit against 40). Where others want this
 * processor, which shows in how long sched_yield takes, it would be the contrary.
 */
static pid_t next_status(int *ret_status)
{
    static uint64_t last_ns, contended_ns;
    static bool hot;
    pid_t tid = 0;
    uint64_t begun = hot ? clock_now_ns() : 0, now = begun;
    while (hot && !woken && (tid = waitpid(-1, ret_status, __WALL | WNOHANG)) == 0) {
        uint64_t before = now;
        sched_yield();
        now = clock_now_ns();
        if (now - before > TRACER_YIELD_NS && (tid = waitpid(-1, ret_status, __WALL | WNOHANG)) == 0) {
            contended_ns = now + TRACER_CONTENDED_NS;
            break;
        }
        if (tid != 0 || now - begun > TRACER_SPIN_NS)
            break;
    }
    if (tid == 0)
        tid = wait_unless(&woken, ret_status);
    if (tid > 0) {
        now = clock_now_ns();
        hot = now - last_ns < TRACER_HOT_NS && now > contended_ns;
        last_ns = now;
    }
    return tid;
}

static void tracer_run(void)
{
    woken = 1;
    while (!monitor_gone) {
        if (woken) {
            woken = 0;
            if (ticked)
                on_tick();
            flush_out();
            read_socket();
            handle_requests();
            continue; /* there may be no monitor any more */
        }
        int status;
        pid_t tid = next_status(&status);
        if (tid > 0) {
            stop_handle(tid, status);
            graveyard_clear();
        } else if (tid < 0) {
            wait_for_monitor();
        }
    }
}

/* ---- start ---- */

static void keep_environment(char **environment)
{
    size_t count = 0;
    while (environment[count])
        count++;
    original_environment = calloc(count + 1, sizeof *original_environment);
    for (size_t i = 0; original_environment && i < count; i++)
        original_environment[i] = strdup(environment[i]);
}

static void catch_signals(void)
{
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigfillset(&act.sa_mask);
    sigaction(SIGIO, &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    /* statuses are waited for; a signal for each stop would only cost time */
    struct sigaction child = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP};
    sigaction(SIGCHLD, &child, NULL);
    /* the end of a terminal or a batch system's warning must not leave int3 bytes behind: the monitor's end tells us */
    static const int not_ours[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGTSTP,
                                   SIGTTIN, SIGTTOU, SIGPIPE, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
        signal(not_ours[i], SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool map_cells(void)
{
    struct stat stat;
    size_t size = CODE_CELLS * sizeof *cells;
    if (fstat(WIRE_CELLS_FD, &stat) < 0)
        return true; /* none given */
    if (!S_ISREG(stat.st_mode) || (size_t)stat.st_size < size)
        return false;
    void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, WIRE_CELLS_FD, 0);
    if (mapped == MAP_FAILED)
        return false;
    cells = mapped;
    return true;
}

int main(void)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(WIRE_SOCKET_FD, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
        fprintf(stderr, "scry-tracer: it is started by the monitor, not by hand\n");
        return 2;
    }
    monitor_pid = peer.pid;
    prctl(PR_SET_NAME, TRACER_PROCESS_NAME);
    setsid();
    keep_environment(environ);
    unsetenv("DEBUGINFOD_URLS");
    catch_signals();
    if (!map_cells()) {
        fprintf(stderr, "scry-tracer: the memory of the cells is not usable\n");
        return 2;
    }
    close_range(WIRE_CELLS_FD, ~0U, 0);
    fcntl(WIRE_SOCKET_FD, F_SETFD, FD_CLOEXEC);
    struct f_owner_ex owner = {F_OWNER_TID, gettid()};
    if (fcntl(WIRE_SOCKET_FD, F_SETOWN_EX, &owner) < 0 ||
        fcntl(WIRE_SOCKET_FD, F_SETFL, fcntl(WIRE_SOCKET_FD, F_GETFL) | O_ASYNC | O_NONBLOCK) < 0) {
        perror("scry-tracer: socket");
        return 1;
    }
    pause_at("tracer.before-guard");
    guard_start();
    struct wire_message hello = {.size = sizeof hello, .kind = WIRE_HELLO, .a = WIRE_VERSION};
    send_message(&hello, NULL, 0);
    tracer_run();
    monitor_gone = true;
    attach_release_all();
    /* A SIGCONT takes back a SIGSTOP that is on its way: LeakSanitizer, which stops its process at the end, waited for
     * ever, and the process for it, busily. */
    prctl(PR_SET_PDEATHSIG, 0);
    return 0;
}
