/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/test/test_monitor.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int memory(const char *name, size_t size, void **ret_at)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    *ret_at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(*ret_at != MAP_FAILED);
    return fd;
}

void mini_init(struct mini *mini)
{
    *mini = (struct mini){.unknown_mode = AREA_RECORD, .version = AREA_VERSION};
    strcpy(mini->directory, "/tmp/scry-agent-XXXXXX");
    assert_non_null(mkdtemp(mini->directory));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/agent.sock", mini->directory);
    mini->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(mini->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(mini->listener, 100), 0);
    void *at;
    mini->bell_fd = memory("bell", AREA_PAGE, &at);
    mini->bell = at;
    mini->bell->magic = DOORBELL_MAGIC;
    mini->bell->version = AREA_VERSION;
    mini->bell->monitor_pid = getpid();
    mini->cells_fd = memory("cells", CODE_CELLS * sizeof(code_cell), &at);
    munmap(at, CODE_CELLS * sizeof(code_cell));
}

void mini_done(struct mini *mini)
{
    char path[128];
    snprintf(path, sizeof path, "%s/agent.sock", mini->directory);
    unlink(path);
    rmdir(mini->directory);
    close(mini->listener);
    close(mini->bell_fd);
    close(mini->cells_fd);
    munmap(mini->bell, AREA_PAGE);
    for (unsigned i = 0; i < mini->count; i++) {
        for (size_t k = 0; k < mini->areas[i].count; k++)
            free(mini->areas[i].packets[k].bytes);
        free(mini->areas[i].packets);
        munmap(mini->areas[i].view.base, mini->areas[i].view.size);
    }
    for (size_t i = 0; i < mini->symbol_count; i++)
        free(mini->symbols[i].name);
    free(mini->symbols);
    free(mini->output);
}

/* ---- the handshake ---- */

static int area_make(struct mini *mini, struct mini_area *area)
{
    struct area header;
    uint64_t size = area_plan(&header, mini->buffer_bytes ? mini->buffer_bytes : 4 << 20,
                              mini->slots ? mini->slots : 4096, mini->threads ? mini->threads : 64);
    void *at;
    int fd = memory("area", size, &at);
    header.serial = mini->count + 1;
    header.pid = area->hello.pid;
    header.on = 1;
    header.unknown_mode = mini->unknown_mode;
    header.policy = mini->policy;
    header.wait_us = mini->wait_us;
    header.max_depth = mini->max_depth;
    header.rate = mini->rate;
    header.min_ticks = mini->min_ticks;
    header.ticks_per_second = 2000000000;
    header.go = 1;
    memcpy(at, &header, sizeof header);
    assert_true(area_take(&area->view, at, size));
    if (!mini->no_filter)
        memset(area->view.filter, AREA_ENTER | AREA_EXIT, AREA_FILTER);
    return fd;
}

static void answer(struct mini *mini, int fd, int area_fd)
{
    struct agent_welcome welcome = {
        .magic = AREA_MAGIC, .version = mini->version, .status = mini->refuse ? -EACCES : 0, .hold_ms = 5000};
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int) * 3)];
    } control = {0};
    struct iovec part = {&welcome, sizeof welcome};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (!mini->refuse) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int) * 3);
        const int fds[3] = {area_fd, mini->bell_fd, mini->cells_fd};
        memcpy(CMSG_DATA(&control.header), fds, sizeof fds);
    }
    /* the child of a fork may have gone away */
    sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void greet(struct mini *mini)
{
    int fd = accept4(mini->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    struct mini_area area = {0};
    ssize_t got = recv(fd, &area.hello, sizeof area.hello, 0);
    if (got == 0) {
        close(fd);
        return;
    }
    const char *exe = NULL;
    assert_int_equal(area.hello.magic, AREA_MAGIC);
    assert_int_equal(area.hello.version, AREA_VERSION);
    assert_true(area.hello.image);
    assert_true(agent_hello_whole(&area.hello, (size_t)got, &exe));
    assert_true(exe && *exe == '/');
    mini->hellos++;
    if (area.hello.flags & AGENT_HAS_HOOKS) {
        assert_true(mini->count < MINI_AREAS);
        int area_fd = area_make(mini, &area);
        mini->areas[mini->count] = area;
        if (mini->prepare)
            mini->prepare(mini, &mini->areas[mini->count]);
        answer(mini, fd, area_fd);
        close(area_fd);
        if (mini->refuse || mini->version != AREA_VERSION)
            munmap(area.view.base, area.view.size);
        else
            mini->count++;
    }
    close(fd);
}

/* ---- collecting ---- */

static void packet_keep(struct mini_area *area, uint32_t index, uint64_t order, uint64_t size)
{
    assert_true(size >= sizeof(struct packet_head) && size <= area->view.packet_size);
    area->packets = realloc(area->packets, (area->count + 1) * sizeof *area->packets);
    struct mini_packet *packet = &area->packets[area->count++];
    *packet = (struct mini_packet){.order = order, .bytes = malloc(size), .size = size};
    memcpy(packet->bytes, area->view.base + area->view.packets_at + (uint64_t)index * area->view.packet_size, size);
}

static void collect(struct mini_area *area)
{
    const struct area_view *view = &area->view;
    bool freed = false;
    /* states of threads before packets: what an ended thread handed in is found below */
    uint8_t *ended = calloc(view->thread_count, 1);
    for (uint32_t i = 0; i < view->thread_count; i++)
        ended[i] = atomic_load(&area_thread_at(view, i)->state) == AREA_THREAD_ENDED;
    for (uint32_t i = 0; i < view->packet_count; i++) {
        uint64_t state = atomic_load(&view->states[i]);
        if ((state & 0xff) != AREA_PACKET_FULL ||
            !atomic_compare_exchange_strong(&view->states[i], &state, AREA_PACKET_READ))
            continue;
        struct packet_head *head = (void *)(view->base + view->packets_at + (uint64_t)i * view->packet_size);
        packet_keep(area, i, state >> 8, head->content_size / 8);
        head->content_size = 0; /* nothing of it is to be read again */
        atomic_store(&view->states[i], AREA_PACKET_FREE);
        freed = true;
    }
    for (uint32_t i = 0; i < view->thread_count; i++)
        if (ended[i])
            atomic_store(&area_thread_at(view, i)->state, AREA_THREAD_FREE);
    free(ended);
    if (freed) {
        atomic_fetch_add(&view->area->freed, 1);
        syscall(SYS_futex, &view->area->freed, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    }
}

/* Packets that were being written when the process ended. */
static void collect_rest(struct mini_area *area)
{
    const struct area_view *view = &area->view;
    collect(area);
    for (uint32_t i = 0; i < view->thread_count; i++) {
        struct area_thread *thread = area_thread_at(view, i);
        uint32_t index = thread->packet;
        if (thread->state != AREA_THREAD_LIVE || index >= view->packet_count)
            continue;
        uint64_t start = view->packets_at + (uint64_t)index * view->packet_size;
        assert_int_equal(view->states[index] & 0xff, AREA_PACKET_TAKEN);
        assert_true(thread->cursor >= start && thread->cursor <= start + view->packet_size);
        packet_keep(area, index, UINT64_MAX, thread->cursor - start);
    }
}

static char *const *environment(struct mini *mini)
{
    static char preload[1024], socket_path[128];
    static char *list[256];
    size_t count = 0;
    const char *library = getenv("TEST_AGENT");
    assert_non_null(library);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
    snprintf(socket_path, sizeof socket_path, "SCRY_AGENT_SOCKET=%s/agent.sock", mini->directory);
    list[count++] = preload;
    list[count++] = socket_path;
    for (size_t i = 0; i < sizeof mini->environment / sizeof *mini->environment && mini->environment[i]; i++)
        list[count++] = (char *)(uintptr_t)mini->environment[i];
    for (char **entry = environ; *entry && count < 250; entry++)
        if (strncmp(*entry, "LD_PRELOAD=", 11) != 0 && strncmp(*entry, "SCRY", 4) != 0)
            list[count++] = *entry;
    list[count] = NULL;
    return list;
}

static void read_output(struct mini *mini, int fd)
{
    mini->output = realloc(mini->output, mini->output_size + 65537);
    ssize_t got = read(fd, mini->output + mini->output_size, 65536);
    if (got > 0)
        mini->output_size += (size_t)got;
    mini->output[mini->output_size] = '\0';
}

void mini_run(struct mini *mini, const char *program, const char *a, const char *b)
{
    mini->program = program;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
    char *const *list = environment(mini);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fcntl(out[1], F_SETFL, 0);
        dup2(out[1], STDOUT_FILENO);
        char *const arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
        execve(program, arguments, list);
        _exit(127);
    }
    close(out[1]);
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(pidfd >= 0);
    for (bool running = true; running;) {
        struct pollfd polls[] = {{mini->listener, POLLIN, 0}, {pidfd, POLLIN, 0}, {out[0], POLLIN, 0}};
        poll(polls, 3, mini->keep ? 1000 : 1);
        if (polls[0].revents)
            greet(mini);
        if (polls[2].revents & POLLIN)
            read_output(mini, out[0]);
        for (unsigned i = 0; i < mini->count && !mini->keep; i++)
            collect(&mini->areas[i]);
        if (mini->tick)
            mini->tick(mini);
        running = !(polls[1].revents & POLLIN) || polls[0].revents;
    }
    read_output(mini, out[0]);
    close(out[0]);
    close(pidfd);
    assert_int_equal(waitpid(pid, &mini->status, 0), pid);
    for (unsigned i = 0; i < mini->count; i++)
        collect_rest(&mini->areas[i]);
}

/* ---- names ---- */

static void symbols_read(struct mini *mini)
{
    char command[1100];
    snprintf(command, sizeof command, "nm -C '%s'", mini->program);
    FILE *nm = popen(command, "r");
    assert_non_null(nm);
    char line[4096];
    while (fgets(line, sizeof line, nm)) {
        char *end;
        uint64_t address = strtoull(line, &end, 16);
        if (end == line || end[0] != ' ' || !strchr("tTwW", end[1]) || end[2] != ' ')
            continue;
        end[strcspn(end, "\n")] = '\0';
        char *name = end + 3, *bracket = strchr(name, '(');
        if (bracket)
            *bracket = '\0';
        mini->symbols = realloc(mini->symbols, (mini->symbol_count + 1) * sizeof *mini->symbols);
        mini->symbols[mini->symbol_count++] = (struct mini_symbol){address, strdup(name)};
    }
    pclose(nm);
}

const char *mini_name(struct mini *mini, const struct mini_area *area, uint32_t slot)
{
    if (!mini->symbols)
        symbols_read(mini);
    assert_true(slot <= area->view.slot_mask);
    uint64_t address = area->view.slots[slot].function;
    assert_true(address != 0);
    for (size_t i = 0; i < mini->symbol_count; i++)
        if (mini->symbols[i].address == address)
            return mini->symbols[i].name;
    return "unknown";
}

uint32_t mini_slot(struct mini *mini, const struct mini_area *area, const char *name)
{
    if (!mini->symbols)
        symbols_read(mini);
    for (uint32_t i = 0; i <= area->view.slot_mask; i++)
        if (area->view.slots[i].function && strcmp(mini_name(mini, area, i), name) == 0)
            return i;
    return UINT32_MAX;
}
