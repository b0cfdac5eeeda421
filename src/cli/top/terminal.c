/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <termios.h>
#include <unistd.h>

#include "job/launch/signals.h"

static struct termios saved_modes;
static const char ENTER[] = "\033[?1049h\033[?25l", LEAVE[] = "\033[?25h\033[?1049l";

void top_terminal_restore(void)
{
    ssize_t put = write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    (void)put;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_modes);
}

static void on_deadly_signal(int signo)
{
    top_terminal_restore();
    signal(signo, SIG_DFL);
    raise(signo);
}

static void on_resize(int signo)
{
    /* its arrival ends the wait */
}

static void set_terminal(void)
{
    struct termios modes = saved_modes;
    modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    modes.c_cc[VMIN] = 0;
    modes.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &modes);
    ssize_t put = write(STDOUT_FILENO, ENTER, sizeof ENTER - 1);
    (void)put;
}

/* Ctrl-Z: gives the shell its screen back until scry top continues. */
static void on_stop(int signo)
{
    int code = errno;
    top_terminal_restore();
    signals_stop_self(signo);
    set_terminal();
    errno = code;
}

bool top_terminal_take(void)
{
    if (tcgetattr(STDIN_FILENO, &saved_modes) < 0)
        return false;
    static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        struct sigaction action = {.sa_handler = on_deadly_signal};
        sigaction(deadly[i], &action, NULL);
    }
    struct sigaction resize = {.sa_handler = on_resize};
    sigaction(SIGWINCH, &resize, NULL);
    struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGTSTP, &stop, NULL);
    set_terminal();
    return true;
}
