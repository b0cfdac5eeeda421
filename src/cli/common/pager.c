/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/pager.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t pager; /* 0: none */

/* NULL: no pager; "": less. */
static const char *wanted(void)
{
    const char *own = getenv("SCRY_PAGER"), *terminal = getenv("TERM");
    const char *command = own ? own : getenv("PAGER");
    if (!command)
        return terminal && strcmp(terminal, "dumb") == 0 ? NULL : "";
    return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

static void become(const char *command, int from)
{
    dup2(from, STDIN_FILENO);
    close(from);
    signal(SIGPIPE, SIG_DFL);
    setenv("LESS", "FRX", 0); /* end if it fits, colours, leave it on the screen */
    if (*command) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    } else {
        execlp("less", "less", (char *)NULL);
        execlp("cat", "cat", (char *)NULL);
    }
    _exit(127);
}

void pager_start(void)
{
    int ends[2];
    const char *command = isatty(STDOUT_FILENO) ? wanted() : NULL;
    if (!command || pipe(ends) < 0)
        return;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        become(command, ends[0]);
    }
    close(ends[0]);
    if (child > 0) {
        dup2(ends[1], STDOUT_FILENO);
        signal(SIGPIPE, SIG_IGN); /* if it ends, so do we */
        signal(SIGINT, SIG_IGN);  /* ^C at the terminal is for the pager */
        pager = child;
    }
    close(ends[1]);
}

int pager_end(int status)
{
    if (!pager)
        return status;
    bool cut = fflush(stdout) != 0 || ferror(stdout);
    close(STDOUT_FILENO);
    while (waitpid(pager, NULL, 0) < 0 && errno == EINTR) {
    }
    pager = 0;
    __fpurge(stdout); /* nobody reads the rest */
    clearerr(stdout);
    return cut ? 0 : status;
}
