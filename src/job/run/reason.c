/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/reason.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "base/system/wait_world.h"
#include "job/launch/program.h"
#include "jobdir/layers/cause.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum {
    PAGE = 4096,
    BELOW = 256, /* bytes below the stack pointer that a call, a push or a leaf function writes */
    /* The kernel checks the limit by ticks, which overestimate on shared processors: so near to the limit is the limit.
     */
    NEARLY_PERCENT = 85,
};

const char *reason_of_fault(int signo, uint64_t address, uint64_t sp)
{
    if (signo != SIGSEGV && signo != SIGBUS)
        return NULL;
    if (address < PAGE && signo == SIGSEGV)
        return "a NULL pointer";
    /* The stack pointer's own page, or the bytes just below it, cannot be used. */
    return sp && address >= sp - BELOW && address / PAGE <= sp / PAGE ? REASON_STACK : NULL;
}

const char *reason_of_code(int signo, int code)
{
    static const struct {
        int signo, code;
        const char *text;
    } reasons[] = {
        {SIGFPE, FPE_INTDIV, "an integer was divided by zero"},
        {SIGFPE, FPE_INTOVF, "an integer became too large"},
        {SIGFPE, FPE_FLTDIV, "a number was divided by zero"},
        {SIGFPE, FPE_FLTOVF, "a number became too large"},
        {SIGFPE, FPE_FLTUND, "a number became too small"},
        {SIGFPE, FPE_FLTRES, "a result is not exact"},
        {SIGFPE, FPE_FLTINV, "an invalid operation, as with a number that is none (NaN)"},
        {SIGBUS, BUS_ADRALN, "an address that is not aligned"},
        {SIGBUS, BUS_ADRERR, "a mapped file that ends before that address, or whose disk is full"},
        {SIGBUS, BUS_MCEERR_AR, "broken memory of the machine"},
        {SIGBUS, 0, "probably a mapped file that was cut short, or whose disk is full"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].signo == signo && reasons[i].code == code)
            return reasons[i].text;
    return NULL;
}

/* "[node7:09874] Failing at address: 0x18" of Open MPI, "[node7:10582:0:10582] Caught signal 11 (... at address (nil))" of UCX. */
static bool take_said(const char *text, pid_t pid, uint64_t *ret_address)
{
    static const char label[] = "at address";
    const char *open = text ? strchr(text, '[') : NULL, *colon = open ? strchr(open, ':') : NULL;
    const char *at = colon ? strstr(colon, label) : NULL;
    char *end;
    if (!at || strtol(colon + 1, &end, 10) != pid || (end[strspn(end, " ")] != ']' && end[strspn(end, " ")] != ':'))
        return false;
    at += strlen(label);
    at += strspn(at, ": ");
    *ret_address = strtoull(at, NULL, 16);
    return strncmp(at, "(nil)", strlen("(nil)")) == 0 || strncmp(at, "0x", 2) == 0;
}

bool reason_find_said(const struct job_model *model, pid_t pid, uint64_t *ret_address)
{
    size_t index;
    json_t *record;
    json_array_foreach(model->layers.errors.records, index, record)
    {
        if (take_said(json_string_value(json_object_get(record, "text")), pid, ret_address))
            return true;
    }
    return false;
}

/* ---- limits ---- */

/* Of a process that may have ended. 0: there is none, or it is not known. */
static int64_t soft_limit(pid_t pid, int resource)
{
    struct rlimit limit;
    bool known = prlimit(pid, resource, NULL, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return known && limit.rlim_cur <= INT64_MAX ? (int64_t)limit.rlim_cur : 0;
}

void reason_look(struct reason_limits *ret_limits, pid_t pid, bool failed)
{
    struct rlimit cpu;
    *ret_limits = (struct reason_limits){.address_bytes = soft_limit(pid, RLIMIT_AS)};
    if (!failed)
        return;
    ret_limits->data_bytes = soft_limit(pid, RLIMIT_DATA);
    ret_limits->stack_bytes = soft_limit(pid, RLIMIT_STACK);
    ret_limits->cpu_ns = wait_look(pid).cpu_ns;
    ret_limits->known = prlimit(pid, RLIMIT_CPU, NULL, &cpu) == 0;
    if (ret_limits->known) {
        ret_limits->soft_seconds = cpu.rlim_cur == RLIM_INFINITY ? UINT64_MAX : cpu.rlim_cur;
        ret_limits->hard_seconds = cpu.rlim_max == RLIM_INFINITY ? UINT64_MAX : cpu.rlim_max;
    }
}

void reason_sender(const struct signalfd_siginfo *info, bool terminal, char *ret_sender, size_t size)
{
    char program[64];
    if (info->ssi_code > 0) {
        bool key = info->ssi_signo == SIGINT || info->ssi_signo == SIGQUIT;
        snprintf(ret_sender, size, "%s", key ? SENDER_TERMINAL : terminal ? SENDER_KERNEL : SENDER_KERNEL_ALONE);
    } else if (!info->ssi_pid) { /* it has no number here */
        snprintf(ret_sender, size, "a process in another pid namespace, outside this container");
    } else {
        proc_comm((pid_t)info->ssi_pid, 0, program, sizeof program);
        snprintf(ret_sender, size, "%s (pid %u)", *program ? program : "a process", info->ssi_pid);
    }
}

void reason_signal_came(struct recorder *recorder, const struct signalfd_siginfo *info, bool terminal)
{
    static const int known[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    char name[32], sender[128];
    bool ends = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ends |= (int)info->ssi_signo == known[i];
    text_signal((int)info->ssi_signo, name, sizeof name);
    size_t index;
    json_t *warning;
    json_array_foreach(recorder->model.warnings.records, index, warning)
    {
        const char *before = json_string_value(json_object_get(json_object_get(warning, "fields"), "signal"));
        if (note_json_kind(warning) == NOTE_signal_came && before && strcmp(before, name) == 0)
            return;
    }
    if (!ends)
        return;
    reason_sender(info, terminal, sender, sizeof sender);
    recorder_note(recorder, NOTE(signal_came, .signal = name, .sender = sender));
}

void reason_task_stopped(struct recorder *recorder, const char *dir)
{
    static const struct {
        const char *stop, *why;
    } stops[] = {{"cancelled", "its task was cancelled"},
                 {"time", "its task came to its limit of time"},
                 {"memory", "its task took more memory than its limit"},
                 {"space", "its task took more of the disk than its limit"}};
    const char *task = getenv("SCRY_TASK");
    char path[PATH_MAX + sizeof ".stop"];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof path, "%s.stop", dir);
    if (!task || !*task || file_read_plain(path, &text, NULL) < 0)
        return;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        if (strcmp(text, stops[i].stop) == 0)
            recorder_note(recorder, NOTE(task_stopped, .why = stops[i].why));
}

bool reason_of_limits(struct buf *out, const struct reason_limits *limits, int signo)
{
    /* with SIGXCPU the kernel raises the soft limit by a second */
    uint64_t seconds = signo == SIGKILL ? limits->hard_seconds : limits->soft_seconds - 1;
    if (!limits->known || (signo != SIGKILL && signo != SIGXCPU) || seconds > UINT32_MAX)
        return false;
    uint64_t limit_ns = seconds * NS_PER_SECOND;
    if (limits->cpu_ns < limit_ns / 100 * NEARLY_PERCENT &&
        limits->cpu_ns + REASON_NEARLY_MS * (NS_PER_SECOND / 1000) < limit_ns)
        return false;
    bool sure = signo == SIGXCPU || limits->cpu_ns >= limit_ns;
    buf_printf(out, "%sits limit of processor time (ulimit -t %" PRIu64 ")", sure ? "" : "probably ", seconds);
    return true;
}

/* ---- what is there, and cannot be executed ---- */

static bool explain_in(struct buf *out, const char *name, const char *cwd)
{
    char path[PATH_MAX];
    int len = *name == '/' ? snprintf(path, sizeof path, "%s", name) : snprintf(path, sizeof path, "%s/%s", cwd, name);
    return len > 0 && (size_t)len < sizeof path && program_explain_interpreter(out, name, path);
}

/* Relative to the directory of a process that failed, of the last first, or to that of the job. */
static bool explain_name(struct buf *out, const struct job_model *model, const char *name, const char *cwd)
{
    enum { LOOKS_MOST = 16 };
    for (size_t i = model->ended_count, looks = 0; i-- > 0 && looks < LOOKS_MOST;) {
        const char *its = json_string_value(model->ended[i].cwd);
        if (!its || model->ended[i].status <= 0)
            continue;
        looks++;
        if (explain_in(out, name, its))
            return true;
    }
    return explain_in(out, name, cwd);
}

bool reason_of_interpreter(struct buf *out, const struct job_model *model, const char *cwd)
{
    enum { LINES_MOST = 10 };
    static const char quotes[] = "'\" ", between[] = ": ";
    const json_t *records = model->layers.errors.records;
    for (size_t i = json_array_size(records), looks = 0; i-- > 0 && looks < LINES_MOST; looks++) {
        const char *text = json_string_value(json_object_get(json_array_get(records, i), "text"));
        for (const char *at = text, *end; at; at = *end ? end + strlen(between) : NULL) {
            char name[PATH_MAX];
            end = strstr(at, between);
            end = end ? end : at + strlen(at);
            at += strspn(at, quotes);
            size_t len = end > at ? (size_t)(end - at) : 0;
            while (len && strchr(quotes, at[len - 1]))
                len--;
            if (!len || len >= sizeof name || !memchr(at, '/', len))
                continue;
            snprintf(name, sizeof name, "%.*s", (int)len, at);
            if (explain_name(out, model, name, cwd))
                return true;
        }
    }
    return false;
}
