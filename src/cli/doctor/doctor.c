/* SPDX-License-Identifier: Apache-2.0 */
/* scry doctor: what works on this machine, what does not, why, and what to do. */
#include "cli/common/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/doctor/doctor.h"
#include "jobdir/text/text.h"

static const struct {
    const char *name;
    void (*run)(struct finding *finding);
} checks[] = {
    {"kernel", doctor_kernel},
    {"ptrace", doctor_ptrace},
    {"session", doctor_traced},
    {"memory", doctor_memory},
    {"perf", doctor_perf},
    {"core", doctor_core},
    {"limits", doctor_files},
    {"runtime", doctor_runtime},
    {"jobs", doctor_jobs},
    {"tmp", doctor_tmp},
    {"programs", doctor_programs},
    {"agent", doctor_agent},
    {"extensions", doctor_extensions},
    {"monitor", doctor_monitor},
    {"mpi", doctor_mpi},
    {"broker", doctor_broker},
};

enum { CHECK_COUNT = sizeof checks / sizeof *checks };

static const struct {
    const char *word, *color;
} states[] = {
    [FINDING_OK] = {"ok", "\033[32m"},
    [FINDING_WARN] = {"warn", "\033[33m"},
    [FINDING_FAIL] = {"fail", "\033[31m"},
};

void finding_set(struct finding *finding, enum finding_state state, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finding->state = state;
    vsnprintf(finding->text, sizeof finding->text, format, args);
    va_end(args);
}

void finding_remedy(struct finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->remedy, sizeof finding->remedy, format, args);
    va_end(args);
}

static void print_text(const char *name, const struct finding *finding, bool color)
{
    printf("%s%-4s%s  %-10s  %s\n", color ? states[finding->state].color : "", states[finding->state].word,
           color ? "\033[0m" : "", name, finding->text);
    if (*finding->remedy)
        printf("%18s-> %s\n", "", finding->remedy);
    fflush(stdout);
}

/* Text that may not be UTF-8 (a path) is shown with the offending bytes replaced. */
static json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string)
        return string;
    char ascii[sizeof((struct finding *)0)->text];
    snprintf(ascii, sizeof ascii, "%s", text);
    for (char *at = ascii; *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    return json_string(ascii);
}

void doctor_say(struct doctor_out *out, const char *name, const struct finding *finding)
{
    out->counts[finding->state]++;
    if (out->list)
        json_array_append_new(out->list,
                              json_pack("{s:s, s:s, s:o, s:o}", "name", name, "state", states[finding->state].word,
                                        "text", json_text(finding->text), "remedy", json_text(finding->remedy)));
    else
        print_text(name, finding, out->color);
}

/* `what` was asked for by `name`: "job", "node". */
static void print_json(const struct doctor_out *out, const char *what, const char *name)
{
    json_t *root = json_pack("{s:s, s:i, s:i, s:O}", "version", SCRY_VERSION, "failed", out->counts[FINDING_FAIL],
                             "warnings", out->counts[FINDING_WARN], "checks", out->list);
    if (name)
        json_object_set_new(root, what, json_text(name));
    json_dumpf(root, stdout, JSON_INDENT(2) | text_json_flags());
    putchar('\n');
    json_decref(root);
}

static void check_machine(struct doctor_out *out)
{
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        struct finding finding = {0};
        checks[i].run(&finding);
        doctor_say(out, checks[i].name, &finding);
    }
}

int cmd_doctor(const struct options *options)
{
    const char *job = options_text(options, "job"), *node = options_text(options, "node");
    if (job && node)
        return cli_usage_error(options, "--job and --node at the same time");
    struct doctor_out out = {.color = text_has_colours(STDOUT_FILENO),
                             .list = options_on(options, "json") ? json_array() : NULL};
    int code = 0;
    if (job)
        code = doctor_job(&out, job);
    else if (node)
        doctor_node(&out, node);
    else
        check_machine(&out);
    if (out.list && code == 0)
        print_json(&out, job ? "job" : "node", job ? job : node);
    json_decref(out.list);
    return code ? code : out.counts[FINDING_FAIL] ? EXIT_ERRORS : 0;
}
