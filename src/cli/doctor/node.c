/* SPDX-License-Identifier: Apache-2.0 */
/* Can a node be reached, and what is there? `scry-link look` finds out, and prints one finding a line. */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/process.h"

/* "STATE NAME TEXT TAB REMEDY" */
static void show_line(struct doctor_out *out, char *line)
{
    static const char *const states[] = {[FINDING_OK] = "ok", [FINDING_WARN] = "warn", [FINDING_FAIL] = "fail"};
    struct finding finding = {.state = FINDING_FAIL};
    char *state = strtok_r(line, " ", &line), *name = strtok_r(NULL, " ", &line);
    char *text = strtok_r(NULL, "\t\n", &line), *remedy = strtok_r(NULL, "\n", &line);
    if (!text)
        return;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(state, states[i]) == 0)
            finding.state = (enum finding_state)i;
    finding_set(&finding, finding.state, "%s", text);
    finding_remedy(&finding, "%s", remedy ? remedy : "");
    doctor_say(out, name, &finding);
}

static int start(const char *name, pid_t *ret_pid, FILE **ret_output, struct err *err)
{
    char path[PATH_MAX], word[] = "look", *argv[] = {path, word, (char *)name, NULL};
    int ends[2], code = dirs_libexec("scry-link", path, sizeof path, err);
    if (code < 0)
        return code;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "cannot make a pipe");
    code = spawn_program(
        &(struct spawn){.path = path, .argv = argv, .in = SPAWN_NULL, .out = ends[1], .error = SPAWN_SAME}, ret_pid);
    close(ends[1]);
    *ret_output = code == 0 ? fdopen(ends[0], "r") : NULL;
    if (*ret_output)
        return 0;
    close(ends[0]);
    return err_errno(err, code < 0 ? code : -ENOMEM, "cannot start %s", path);
}

void doctor_node(struct doctor_out *out, const char *name)
{
    struct finding finding = {0};
    struct err err;
    pid_t pid;
    int status = 0;
    char line[2048];
    _cleanup_(fclosep) FILE *output = NULL;
    if (start(name, &pid, &output, &err) < 0) {
        finding_set(&finding, FINDING_FAIL, "%s", err.text);
        doctor_say(out, "programs", &finding);
        return;
    }
    while (fgets(line, sizeof line, output))
        show_line(out, line);
    if (waitpid(pid, &status, 0) == pid && status != 0) {
        finding_set(&finding, FINDING_FAIL, "scry-link could not find out what is there");
        doctor_say(out, "programs", &finding);
    }
}
