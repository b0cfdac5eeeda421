/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/progress.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/system/clock.h"

static const char gone[] = "\r\033[K";

/* Removes the line, and lets the signal end the command as if it were not handled. */
static void end_of(int signo)
{
    ssize_t written = write(STDERR_FILENO, gone, sizeof gone - 1);
    (void)written;
    raise(signo); /* blocked here, and by now as it was: SA_RESETHAND */
}

static void handle(int signo)
{
    struct sigaction before;
    if (sigaction(signo, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_DFL)
        sigaction(signo, &(struct sigaction){.sa_handler = end_of, .sa_flags = (int)SA_RESETHAND}, NULL);
}

void progress_begin(struct progress *progress, const char *what)
{
    *progress =
        (struct progress){.what = what, .next_ns = clock_now_ns() + NS_PER_SECOND, .off = !isatty(STDERR_FILENO)};
}

static bool is_due(struct progress *progress)
{
    uint64_t now_ns = progress->off ? 0 : clock_now_ns();
    if (progress->off || now_ns < progress->next_ns)
        return false;
    if (!progress->shown) {
        handle(SIGINT);
        handle(SIGTERM);
    }
    progress->shown = true;
    progress->next_ns = now_ns + NS_PER_SECOND / 10;
    return true;
}

void progress_show(void *ctx, double share)
{
    struct progress *progress = ctx;
    if (is_due(progress))
        fprintf(stderr, "\r%s: %3.0f %%", progress->what, 100 * (share < 1 ? share : 1));
}

void progress_say(struct progress *progress, const char *text)
{
    if (is_due(progress))
        fprintf(stderr, "\r%s\033[K", text);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs(gone, stderr);
    progress->off = true;
}
