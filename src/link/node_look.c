/* SPDX-License-Identifier: Apache-2.0 */
/* scry-link look NAME: can a node be reached, and what is there? `scry doctor --node` shows it. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/system/clock.h"
#include "link/node.h"
#include "link/dialler.h"
#include "link/node_copy.h"
#include "link/node_script.h"
#include "shm/waits.h"

enum { DONE = 1 };

struct look {
    const struct link_way *way;
    const char *name;
    uint64_t begun_ns;
    bool link, monitor; /* it has scry-link; a monitor runs */
    char scry[200];     /* a scry without scry-link */
};

/* The remedy comes behind a tab in the text. */
static void say(const char *state, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(const char *state, const char *name, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 127)
            *c = '?';
    printf("%s %s %s%s\n", state, name, text, strchr(text, '\t') ? "" : "\t");
    fflush(stdout);
}

static void on_host(struct look *look, char *text)
{
    say("ok", "ssh", "logs in without a question within %.1f s, and reaches host %s",
        (double)(clock_now_ns() - look->begun_ns) / 1e9, text);
}

static void on_fits(struct look *look, char *text)
{
    say("ok", "machine", "%s", text);
}

static void on_differs(struct look *look, char *text)
{
    say("fail", "machine", "%s: scry runs on Linux x86_64 only", text);
}

static void on_ptrace(struct look *look, char *text)
{
    int scope = atoi(text);
    if (scope >= 2)
        say("fail", "ptrace", "ptrace_scope is %d: nothing can be stopped, no breakpoints, no backtraces\t%s", scope,
            scope >= 3 ? "ptrace_scope 3 can only be lifted by booting with another value"
                       : "there, as root: sysctl kernel.yama.ptrace_scope=1");
    else if (scope == 1)
        say("warn", "ptrace",
            "ptrace_scope is 1: works for jobs started by scry run; other programs cannot be stopped\t"
            "there, as root: sysctl kernel.yama.ptrace_scope=0, or start jobs with scry run");
    else
        say("ok", "ptrace", "ptrace_scope is 0");
}

static void on_perf(struct look *look, char *text)
{
    int level = atoi(text);
    if (level > 2)
        say("warn", "perf",
            "perf_event_paranoid is %d: processes too short to be sampled are counted but not listed\t"
            "there, as root: sysctl kernel.perf_event_paranoid=2",
            level);
    else
        say("ok", "perf", "perf_event_paranoid is %d", level);
}

/* Only whether somebody has forgotten to set it: the monitors measure it better. */
static void on_time(struct look *look, char *text)
{
    struct timespec now;
    char *end;
    double there = strtod(text, &end);
    clock_gettime(CLOCK_REALTIME, &now);
    double ahead = there - ((double)now.tv_sec + (double)now.tv_nsec / 1e9);
    if (end == text)
        return;
    if (fabs(ahead) > NODE_CLOCK_SECONDS)
        say("warn", "clock",
            "differs by %.0f s from the one here; scry corrects for it, others may not\tset it there, or let chrony do "
            "it",
            ahead);
    else
        say("ok", "clock", "as here");
}

static void on_link(struct look *look, char *text)
{
    char *version = strrchr(text, ' ');
    look->link = true;
    if (version && strcmp(version + 1, SCRY_VERSION) == 0)
        say("ok", "scry", "%.*s, version " SCRY_VERSION " as here", (int)(version - text), text);
    else
        say("warn", "scry",
            "%s, and here is " SCRY_VERSION ": monitors of two versions may not understand each other\t"
            "install the same version there",
            text);
}

static void on_scry(struct look *look, char *text)
{
    snprintf(look->scry, sizeof look->scry, "%s", text);
}

static void on_monitor(struct look *look, char *text)
{
    look->monitor = true;
    say("ok", "monitor", "runs there in %s", text);
}

static const struct {
    const char *word;
    void (*take)(struct look *look, char *text);
} facts[] = {
    {"host", on_host}, {"fits", on_fits}, {"differs", on_differs}, {"ptrace", on_ptrace},   {"perf", on_perf},
    {"time", on_time}, {"link", on_link}, {"scry", on_scry},       {"monitor", on_monitor},
};

static int on_line(void *ctx, char *line, struct buf *answer, struct err *err)
{
    struct look *look = ctx;
    char *text = strchr(line, ' ');
    if (!text)
        return strcmp(line, "end") == 0 ? DONE : 0; /* or a fact that is not known there */
    *text++ = 0;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(line, facts[i].word) == 0)
            facts[i].take(look, text);
    return 0;
}

static void conclude(const struct look *look)
{
    if (!look->link)
        say("fail", "scry",
            "%s%s, so no monitor can be reached there\tinstall scry " SCRY_VERSION " there, or: scry link copy %s",
            look->scry[0] ? look->scry : "there is no scry", look->scry[0] ? " has no scry-link" : "", look->name);
    else if (!look->monitor)
        say("ok", "monitor", "none runs there: it is started when needed");
}

static int look_by_ssh(struct look *look, struct err *err)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    _cleanup_(parcel_freep) struct parcel *parcel = NULL;
    char here[PATH_MAX];
    int code = parcel_find(&parcel, err);
    node_own_path(here);
    node_script_look(&script, code == 0 ? parcel->id : "-", here);
    if (script.failed)
        return err_set(err, -ENOMEM, "out of memory");
    code = node_talk(look->way, script.data, NODE_SCRIPT_LOOK, NODE_LOOK_SECONDS, on_line, look, err);
    if (code == DONE)
        conclude(look);
    return code;
}

int node_look(const char *name)
{
    struct link_way way;
    struct err err = {0};
    _cleanup_(transport_freep) struct transport *transport = NULL;
    struct dialler dialler;
    struct look look = {.way = &way, .name = name, .begun_ns = clock_now_ns()};
    dialler_init(&dialler, &way);
    if (link_way_node(name, &way, &err) < 0) {
        say("fail", "name", "%s", err.text);
    } else if (way.kind == LINK_SSH) {
        if (look_by_ssh(&look, &err) < 0)
            say("fail", "ssh", "%s", err.text);
    } else if (dialler_connect(&dialler, &transport, &err) < 0) {
        say("fail", "tls", "%s", err.text);
    } else {
        say("ok", "tls", "%s answers within %.1f s, takes the key here, and has one of the same user", way.shown,
            (double)(clock_now_ns() - look.begun_ns) / 1e9);
    }
    dialler_done(&dialler);
    return 0;
}
