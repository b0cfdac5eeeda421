/* SPDX-License-Identifier: Apache-2.0 */
#include "job/output/relay.h"

#include "base/system/wait_world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* ---- which ---- */

static bool is_same_terminal(int one, int other)
{
    struct stat st[2];
    return isatty(one) && isatty(other) && fstat(one, &st[0]) == 0 && fstat(other, &st[1]) == 0 &&
           st[0].st_rdev == st[1].st_rdev;
}

/* What is typed comes from the terminal, or nothing is: not from a program that the terminal's keys are for, too. */
static bool is_input_apart(int input, int terminal)
{
    struct stat st;
    return is_same_terminal(input, terminal) || fstat(input, &st) < 0 || S_ISREG(st.st_mode) ||
           (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3));
}

enum terminal_use terminal_use_of(const int streams[3], const char **ret_reason)
{
    int input = streams[0], output = streams[1], error = streams[2];
    struct termios modes;
    *ret_reason = NULL;
    if (!isatty(output) && isatty(error))
        return TERMINAL_ERRORS;
    if (!is_same_terminal(output, error))
        *ret_reason = "it is a terminal, and standard error is not; send both to files or pipes";
    else if (!is_input_apart(input, output))
        *ret_reason = "it is a terminal, and standard input is a pipe; send it to a file or a pipe";
    else if (getpgrp() != getpid()) /* keys are for those around it, too, and two of us would take it from each other */
        *ret_reason = "it is a terminal, and scry run was not started at its prompt; send it to a file or a pipe";
    else if (tcgetpgrp(output) != getpgrp())
        *ret_reason = "it is a terminal, and scry run is not in its foreground; send it to a file or a pipe";
    else if (tcgetattr(output, &modes) < 0 || !(modes.c_lflag & ICANON))
        *ret_reason = "it is a terminal that another program uses; send it to a file or a pipe";
    return *ret_reason ? TERMINAL_LEFT : TERMINAL_WHOLE;
}

/* ---- both ends ---- */

static int command_end(int master, int flags)
{
    char path[64];
    int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC | flags);
    if (fd < 0 && ptsname_r(master, path, sizeof path) == 0)
        fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | flags);
    return fd;
}

int terminal_open(struct terminal *ret_terminal, int user, enum terminal_use use)
{
    char path[32];
    struct termios modes;
    *ret_terminal = TERMINAL_NONE;
    snprintf(path, sizeof path, "/proc/self/fd/%d", user);
    ret_terminal->user = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    ret_terminal->master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (ret_terminal->user < 0 || ret_terminal->master < 0 || unlockpt(ret_terminal->master) < 0 ||
        (ret_terminal->command = command_end(ret_terminal->master, 0)) < 0 ||
        tcgetattr(ret_terminal->user, &ret_terminal->modes) < 0)
        return -errno;
    modes = ret_terminal->modes;
    if (use == TERMINAL_ERRORS)
        modes.c_oflag &= ~(tcflag_t)OPOST; /* the user's does that */
    if (tcsetattr(ret_terminal->command, TCSANOW, &modes) < 0)
        return -errno;
    terminal_resize(ret_terminal->user, ret_terminal->master);
    return 0;
}

void terminal_close(struct terminal *terminal)
{
    int *fds[] = {&terminal->user, &terminal->master, &terminal->command};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

static struct termios taken_modes(const struct termios *modes)
{
    struct termios raw = *modes;
    cfmakeraw(&raw);
    raw.c_cflag = modes->c_cflag;
    return raw;
}

bool terminal_is_taken(int user, const struct termios *modes)
{
    struct termios now, raw = taken_modes(modes);
    return tcgetattr(user, &now) == 0 && now.c_lflag == raw.c_lflag && now.c_iflag == raw.c_iflag &&
           now.c_oflag == raw.c_oflag;
}

bool terminal_take(int user, const struct termios *modes)
{
    const struct termios raw = taken_modes(modes);
    return tcgetpgrp(user) == getpgrp() && tcsetattr(user, TCSANOW, &raw) == 0;
}

void terminal_give_back(int user, const struct termios *modes)
{
    tcsetattr(user, TCSANOW, modes);
}

void terminal_type(int user, const struct termios *modes, const char *bytes, size_t len)
{
    struct termios silent = *modes; /* an end of file is one only where the terminal makes lines */
    silent.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL | ISIG);
    silent.c_iflag &= ~(tcflag_t)(IXON | IXOFF);
    if (len)
        tcsetattr(user, TCSANOW, &silent);
    for (size_t i = 0; i < len; i++)
        if (ioctl(user, TIOCSTI, &bytes[i]) < 0)
            return;
}

size_t terminal_plain(const struct termios *modes, char *bytes, size_t len)
{
    size_t left = 0;
    if (!(modes->c_oflag & OPOST) || !(modes->c_oflag & ONLCR))
        return len;
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != '\r' || i + 1 == len || bytes[i + 1] != '\n')
            bytes[left++] = bytes[i];
    return left;
}

void terminal_resize(int user, int master)
{
    struct winsize size;
    if (ioctl(user, TIOCGWINSZ, &size) == 0)
        ioctl(master, TIOCSWINSZ, &size);
}

/* ---- what is typed ---- */

enum { INPUT_MOST = 256 }; /* at once */

/*
 * Reads what was typed, without waiting. Line by line, where the terminal makes lines: there an end of file is not a character that raw
 * modes would show as such, but is known by a line that has no end. Then, `raw`, also a line that is not whole. It may be in the middle of one of these.
 */
static size_t typed_read(int fd, bool raw, char *ret_bytes, size_t size)
{
    struct termios modes, other;
    size_t len = 0;
    ssize_t got;
    if (tcgetattr(fd, &modes) < 0)
        return 0;
    while (modes.c_lflag & ICANON && len + 1 < size && (got = read(fd, ret_bytes + len, size - len - 1)) >= 0) {
        bool full = (size_t)got == size - len - 1;
        len += (size_t)got;
        if (!full && (!got || (ret_bytes[len - 1] != '\n' && (cc_t)ret_bytes[len - 1] != modes.c_cc[VEOL])))
            ret_bytes[len++] = (char)modes.c_cc[VEOF];
    }
    if (!raw)
        return len;
    other = modes;
    cfmakeraw(&other);
    tcsetattr(fd, TCSANOW, &other);
    while (len < size && (got = read(fd, ret_bytes + len, size - len)) > 0)
        len += (size_t)got;
    tcsetattr(fd, TCSANOW, &modes); /* what goes on after the command may be in there */
    return len;
}

void typed_before(struct relay_shared *shared, int user)
{
    struct relay_piece *piece = &shared->input;
    if (piece->len || shared->typed_over || tcgetpgrp(user) != getpgrp())
        return;
    piece->at = 0;
    piece->len = (uint32_t)typed_read(user, false, piece->bytes, INPUT_MOST);
}

void typed_take_back(struct relay_shared *shared, int master)
{
    struct relay_piece *unread = &shared->unread, *input = &shared->input;
    if (!shared->whole || shared->typed_over)
        return;
    shared->typed_over = true;
    int fd = command_end(master, O_NONBLOCK);
    if (fd >= 0) {
        unread->len = (uint32_t)typed_read(fd, true, unread->bytes, sizeof unread->bytes - INPUT_MOST);
        close(fd);
    }
    memcpy(unread->bytes + unread->len, input->bytes + input->at, input->len - input->at);
    unread->len += input->len - input->at;
    input->at = input->len = 0;
}

/* SIGINT or SIGQUIT, if the job's terminal makes that of one of these characters; 0: none. */
static int typed_signal(int master, const char *bytes, size_t len)
{
    static const struct {
        int key, signo;
    } keys[] = {{VQUIT, SIGQUIT}, {VINTR, SIGINT}};
    struct termios modes;
    if (tcgetattr(master, &modes) < 0 || !(modes.c_lflag & ISIG))
        return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (modes.c_cc[keys[i].key] != _POSIX_VDISABLE && memchr(bytes, modes.c_cc[keys[i].key], len))
            return keys[i].signo;
    return 0;
}

void typed_handle(struct relay_shared *shared, const int *fds, bool *inout_hold, const struct pollfd polls[2])
{
    struct relay_piece *piece = &shared->input;
    *inout_hold |= polls[0].revents && waits_is_stopped(wait_look(shared->supervisor).state);
    if (!*inout_hold && !piece->len && polls[0].revents & POLLIN && shared->taken && !shared->typed_over) {
        ssize_t got = read(fds[TYPED_USER], piece->bytes, INPUT_MOST);
        piece->at = 0;
        piece->len = got > 0 ? (uint32_t)got : 0;
        int signo = typed_signal(fds[TYPED_JOB], piece->bytes, piece->len);
        shared->typed_signal = signo ? signo : shared->typed_signal;
    }
    if (!piece->len || !(polls[1].revents & POLLOUT))
        return;
    ssize_t put = write(fds[TYPED_JOB], piece->bytes + piece->at, piece->len - piece->at);
    if (put > 0)
        piece->at += (uint32_t)put;
    if (piece->at == piece->len || (put < 0 && errno != EAGAIN && errno != EINTR))
        piece->len = 0;
}

void typed_polls(const struct relay_shared *shared, const int *fds, bool hold, struct pollfd ret_polls[2])
{
    bool whole = shared->whole && fds[TYPED_JOB] >= 0, wanted = shared->taken && !shared->typed_over && !hold;
    ret_polls[0] =
        (struct pollfd){.fd = whole && wanted && !shared->input.len ? fds[TYPED_USER] : -1, .events = POLLIN};
    ret_polls[1] = (struct pollfd){.fd = whole && shared->input.len ? fds[TYPED_JOB] : -1, .events = POLLOUT};
}
