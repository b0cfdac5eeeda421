/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis/shell.h"

#include <ctype.h>
#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <wchar.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "cli/common/cli.h"
#include "cli/omis/services.h"
#include "cli/omis/words.h"
#include "client/client.h"

enum { HISTORY_SIZE = 1000 };

struct shell {
    struct omis_session *session;
    EditLine *editor;
    History *history;
    char history_path[PATH_MAX]; /* "": do not keep it */
    struct omis_words words;
    bool editing; /* the prompt and a line are on the screen */
    mbstate_t decoding;
};

static struct shell *the_shell; /* for the signal handler */

static void on_interrupt(int signo)
{
    int code = errno;
    the_shell->session->interrupted = 1;
    if (eventfd_write(the_shell->session->interrupt_fd, 1) < 0) {
        /* already set */
    }
    errno = code;
}

static void forget_interrupts(struct omis_session *session)
{
    eventfd_t count;
    session->interrupted = 0;
    if (eventfd_read(session->interrupt_fd, &count) < 0) {
        /* there is no history yet */
    }
}

/* ---- output above the prompt ---- */

static void clear_prompt(void *ctx)
{
    struct shell *shell = ctx;
    if (shell->editing)
        fputs("\r\033[J", stdout);
}

static void show_prompt(void *ctx)
{
    struct shell *shell = ctx;
    if (shell->editing)
        el_set(shell->editor, EL_REFRESH);
}

static void see_reply(void *ctx, Omis_reply reply)
{
    struct shell *shell = ctx;
    omis_words_add_reply(&shell->words, reply);
}

/* ---- input ---- */

static char *prompt(EditLine *editor)
{
    static char text[] = "omis> ";
    return text;
}

/* libedit calls this for each character. While there is none, it receives replies. */
static int read_character(EditLine *editor, wchar_t *ret_character)
{
    void *data;
    el_get(editor, EL_CLIENTDATA, &data);
    struct shell *shell = data;
    for (;;) {
        struct pollfd events[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                  {.fd = omis_fd(), .events = POLLIN},
                                  {.fd = shell->session->interrupt_fd, .events = POLLIN}};
        int count = poll(events, 3, -1);
        if (shell->session->interrupted || (count < 0 && errno != EINTR))
            return -1;
        if (count < 0)
            continue;
        if (events[1].revents && !omis_session_handle(shell->session))
            return 0; /* the connection is lost, which ends the session */
        if (!events[0].revents)
            continue;
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return (int)got;
        size_t used = mbrtowc(ret_character, &byte, 1, &shell->decoding);
        if (used == (size_t)-1) { /* not in the terminal's encoding: unchanged */
            memset(&shell->decoding, 0, sizeof shell->decoding);
            *ret_character = (unsigned char)byte;
            return 1;
        }
        if (used != (size_t)-2)
            return 1;
    }
}

/* ---- completion ---- */

static void print_columns(const char *const *words, size_t count)
{
    size_t width = 0;
    for (size_t i = 0; i < count; i++)
        width = strlen(words[i]) > width ? strlen(words[i]) : width;
    size_t terminal = cli_columns(), columns = (terminal ? terminal : 80) / (width + 2);
    columns = columns ? columns : 1;
    size_t rows = (count + columns - 1) / columns;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = row; i < count; i += rows)
            printf("%-*s", i + rows < count ? (int)width + 2 : 0, words[i]);
        putchar('\n');
    }
}

static unsigned char complete(EditLine *editor, int character)
{
    void *data;
    el_get(editor, EL_CLIENTDATA, &data);
    struct shell *shell = data;
    const LineInfo *line = el_line(editor);
    const char *start = line->cursor;
    while (start > line->buffer && (isalnum((unsigned char)start[-1]) || start[-1] == '_'))
        start--;
    size_t len = (size_t)(line->cursor - start);
    bool helping = line->lastchar - line->buffer > 5 && strncmp(line->buffer, "help ", 5) == 0;
    struct omis_match match = omis_words_match(&shell->words, span_of(start, len));
    _cleanup_(freep) const char **words = match.words;
    if (match.count == 0)
        return CC_REFRESH_BEEP;
    if (match.common > len) {
        char rest[128];
        snprintf(rest, sizeof rest, "%.*s%s", (int)(match.common - len), words[0] + len,
                 match.service && !helping ? "(" : "");
        return el_insertstr(editor, rest) < 0 ? CC_ERROR : CC_REFRESH;
    }
    if (match.count == 1)
        return CC_REFRESH;
    putchar('\n');
    print_columns(words, match.count);
    el_set(editor, EL_REFRESH);
    return CC_NORM;
}

/* ---- commands ---- */

static void add_service(void *ctx, const char *name)
{
    struct shell *shell = ctx;
    omis_words_add(&shell->words, span_str(name), true);
}

static void print_help(struct shell *shell)
{
    fputs("A request is [EVENT] : ACTION ...    for instance\n"
          "  : version()\n"
          "  : node_attach2(\"\"); proc_attach3([], 4711, \"\") proc_get_info([], 3)\n"
          "  proc_has_terminated([]) : print([\"ended\", $proc])\n"
          "help SERVICE shows what a service takes and returns; Tab completes; quit ends. Services:\n\n",
          stdout);
    struct shell only_services = {.session = shell->session};
    omis_services_each(shell->session, add_service, &only_services);
    struct omis_match match = omis_words_match(&only_services.words, span_of("", 0));
    print_columns(match.words, match.count);
    free(match.words);
    omis_words_done(&only_services.words);
}

/* The line without white space around it, cut in place. */
static char *trim(char *line)
{
    while (isspace((unsigned char)*line))
        line++;
    size_t len = strlen(line);
    while (len && isspace((unsigned char)line[len - 1]))
        line[--len] = 0;
    return line;
}

/* False: end the session. */
static bool execute(struct shell *shell, char *line)
{
    line = trim(line);
    if (!*line)
        return true;
    HistEvent event;
    history(shell->history, &event, H_ENTER, line);
    if (strcmp(line, "quit") == 0 || strcmp(line, "exit") == 0)
        return false;
    if (strcmp(line, "help") == 0) {
        print_help(shell);
    } else if (strncmp(line, "help", 4) == 0 && isspace((unsigned char)line[4])) {
        omis_services_explain(shell->session, trim(line + 4));
    } else {
        omis_session_ask(shell->session, span_str(line));
        if (shell->session->interrupted)
            puts("interrupted: the reply will be shown when it comes");
    }
    return client_connected();
}

/* ---- beginning and end ---- */

static void find_history(struct shell *shell)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char dir[PATH_MAX - 32];
    int len = state && *state ? snprintf(dir, sizeof dir, "%s/scry", state)
              : home && *home ? snprintf(dir, sizeof dir, "%s/.local/state/scry", home)
                              : -1;
    if (len < 0 || (size_t)len >= sizeof dir || dirs_make(dir, 0700) < 0)
        return;
    snprintf(shell->history_path, sizeof shell->history_path, "%s/omis_history", dir);
    HistEvent event;
    history(shell->history, &event, H_LOAD, shell->history_path);
}

static bool open_editor(struct shell *shell)
{
    HistEvent event;
    shell->editor = el_init("scry", stdin, stdout, stderr);
    shell->history = history_init();
    if (!shell->editor || !shell->history)
        return false;
    history(shell->history, &event, H_SETSIZE, HISTORY_SIZE);
    history(shell->history, &event, H_SETUNIQUE, 1);
    find_history(shell);
    el_set(shell->editor, EL_CLIENTDATA, shell);
    el_set(shell->editor, EL_PROMPT, prompt);
    el_set(shell->editor, EL_EDITOR, "emacs");
    el_set(shell->editor, EL_SIGNAL, 0);
    el_set(shell->editor, EL_HIST, history, shell->history);
    el_set(shell->editor, EL_GETCFN, read_character);
    /* the wide form borrows the strings; the narrow one copies them and never frees the copies */
    el_wset(shell->editor, EL_ADDFN, L"omis-complete", L"complete services and tokens", complete);
    el_set(shell->editor, EL_BIND, "^I", "omis-complete", NULL);
    el_set(shell->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(shell->editor, NULL); /* ~/.editrc */
    return true;
}

static void close_editor(struct shell *shell)
{
    HistEvent event;
    if (shell->history && shell->history_path[0])
        history(shell->history, &event, H_SAVE, shell->history_path);
    if (shell->history)
        history_end(shell->history);
    if (shell->editor)
        el_end(shell->editor);
    omis_words_done(&shell->words);
}

/* The next line (malloc'ed); NULL at the end. An interrupt gives an empty line. */
static char *read_line(struct shell *shell)
{
    int len;
    forget_interrupts(shell->session);
    shell->editing = true;
    const char *line = el_gets(shell->editor, &len);
    shell->editing = false;
    if (line && len > 0)
        return strdup(line);
    putchar('\n');
    if (!shell->session->interrupted)
        return NULL;
    el_reset(shell->editor);
    return strdup("");
}

void omis_shell_run(struct omis_session *session)
{
    struct shell shell = {.session = session};
    setlocale(LC_CTYPE, "");
    the_shell = &shell;
    session->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &action, &before);
    if (session->interrupt_fd >= 0 && open_editor(&shell)) {
        session->before_output = clear_prompt;
        session->after_output = show_prompt;
        session->seen = see_reply;
        session->ctx = &shell;
        omis_services_each(session, add_service, &shell);
        omis_words_add(&shell.words, span_str("help"), false);
        omis_words_add(&shell.words, span_str("quit"), false);
        puts("help lists the services, Tab completes, quit or Ctrl-D ends.");
        for (;;) {
            _cleanup_(freep) char *line = read_line(&shell);
            if (!line || !execute(&shell, line))
                break;
        }
        session->before_output = session->after_output = NULL;
        session->seen = NULL;
    } else {
        fputs("scry omis: cannot use this terminal for line editing\n", stderr);
        session->failed = true;
    }
    sigaction(SIGINT, &before, NULL);
    if (session->interrupt_fd >= 0)
        close(session->interrupt_fd);
    session->interrupt_fd = -1;
    session->interrupted = 0;
    close_editor(&shell);
}
