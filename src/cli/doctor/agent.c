/* SPDX-License-Identifier: Apache-2.0 */
/* Can the library that traces functions be loaded into programs, and does it have its hooks? */
#include "cli/doctor/doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/process.h"
#include "base/data/cleanup.h"
#include "job/launch/preload.h"

/* Runs in a child: a crash in there must not end the doctor. */
static _Noreturn void load(const char *library, int report_fd)
{
    typedef void hook(void *function, void *call_site);
    setenv("SCRY", "off", 1); /* only load it */
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const char *problem = handle ? NULL : dlerror();
    hook *enter = handle ? (hook *)dlsym(handle, "__cyg_profile_func_enter") : NULL;
    hook *leave = handle ? (hook *)dlsym(handle, "__cyg_profile_func_exit") : NULL;
    if (enter && leave) {
        enter((void *)load, __builtin_return_address(0));
        leave((void *)load, __builtin_return_address(0));
    } else if (!problem) {
        problem = "it has no hooks: it is of another version";
    }
    if (problem)
        dprintf(report_fd, "%.300s", problem);
    _exit(problem ? 1 : 0);
}

/* An empty text, or the problem. */
static void try_to_load(const char *library, char *ret_problem, size_t size)
{
    int ends[2], status = 0;
    *ret_problem = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        snprintf(ret_problem, size, "it cannot be tested: %s", strerror(errno));
        return;
    }
    pid_t pid = fork();
    if (pid == 0)
        load(library, ends[1]);
    close(ends[1]);
    ssize_t got = pid > 0 ? read(ends[0], ret_problem, size - 1) : 0;
    ret_problem[got > 0 ? got : 0] = 0;
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        snprintf(ret_problem, size, "it cannot be tested: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        snprintf(ret_problem, size, "a program that loads it is killed by signal %d", WTERMSIG(status));
}

void doctor_agent(struct finding *finding)
{
    char library[PATH_MAX], problem[400];
    struct err err;
    const char *off = getenv("SCRY");
    if (agent_library(library, sizeof library, &err) < 0) {
        finding_set(finding, FINDING_FAIL, "%s", err.text);
        return;
    }
    try_to_load(library, problem, sizeof problem);
    if (*problem) {
        finding_set(finding, FINDING_FAIL, "%.200s cannot be loaded, so no functions are traced: %.250s", library,
                    problem);
        finding_remedy(finding, "install scry again");
    } else if (off && strcasecmp(off, "off") == 0) {
        finding_set(finding, FINDING_WARN, "%.400s, but SCRY=off is set: nothing is followed or traced", library);
        finding_remedy(finding, "unset SCRY");
    } else {
        finding_set(finding, FINDING_OK, "functions can be traced: %.400s", library);
    }
}
