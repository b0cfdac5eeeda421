/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slurm's plugin (SPANK, spank(7)): the option --scry of srun, sbatch and salloc. Each task that Slurm starts becomes
 * scry-task, which becomes `scry run` or `scry exec` with the task's own command.
 *
 * The plugin never executes anything itself in a task: after slurm_spank_task_init Slurm still runs the task's prologs
 * and sets its limits. Slurm 23.11 has a function that puts words before the command. Older versions share the array of
 * the command with the plugin, which can replace its words, but not add any: so the first one is replaced, and the
 * program travels in the environment.
 *
 * A task is never lost because of scry: whatever is not as it should be ends in one line, and the task as it was. A wrong
 * option is refused at the submission.
 *
 * In plugstack.conf: `optional /path/scry_spank.so [scry=PATH] [task=PATH] [all] [--OPTION=VALUE...]`.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include "batch/handed.h"

#define EXPORTED __attribute__((visibility("default")))

#pragma GCC visibility push(default)
SPANK_PLUGIN(scry, 1);
#pragma GCC visibility pop

/* Of Slurm 23.11; NULL in older ones. */
extern spank_err_t spank_prepend_task_argv(spank_t spank, int argc, const char *argv[]) __attribute__((weak));

static struct {
    char scry[1024], task[1024];
    char site[HANDED_OPTIONS]; /* options of plugstack.conf */
    bool all;                  /* every job is followed, unless SCRY=off */
} settings = {.scry = SCRY_BINDIR "/scry", .task = SCRY_LIBEXECDIR "/scry-task"};

static bool asked, wanted; /* by --scry */
static char given[HANDED_OPTIONS];

/* To the user, on the standard error of srun, sbatch or the task. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[HANDED_OPTIONS + 512] = "scry: ";
    va_list args;
    va_start(args, format);
    vsnprintf(line + strlen(line), sizeof line - strlen(line) - 1, format, args);
    va_end(args);
    size_t len = strlen(line);
    line[len++] = '\n';
    ssize_t put = write(STDERR_FILENO, line, len);
    (void)put;
}

/* ---- the submission ---- */

/* In "each WORD...", how tasks are followed stands before the options. */
static bool take_each(char **options)
{
    if (strncmp(*options, "each", 4) != 0 || ((*options)[4] && (*options)[4] != ' '))
        return false;
    *options += 4;
    return true;
}

/* Has scry read the options, as a job would have it. false: they are wrong, and scry has said why. Where there is no
 * scry they are not checked. */
static bool options_check(char *options)
{
    static char run[] = "run", end[] = "--", command[] = "true";
    char *words[WORDS_MOST + 4] = {settings.scry, run};
    size_t count = 2;
    if (words_split(options, words, &count, WORDS_MOST) < 0) {
        say("--scry: a quote is not closed, or there are more than %d options", WORDS_MOST);
        return false;
    }
    if (count == 2 || access(settings.scry, X_OK) < 0)
        return true;
    words[count++] = end;
    words[count++] = command;
    words[count] = NULL;
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        setenv("SCRY", "off", 1); /* only look at the options */
        execv(settings.scry, words);
        _exit(0);
    }
    int status = 0;
    return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) == 0;
}

static int take_option(int value, const char *argument, int remote)
{
    /* An srun inside of the job gets the option from sbatch by the environment, where none is "(null)". */
    const char *text = argument && strcmp(argument, "(null)") != 0 ? argument : "";
    bool inside = remote || getenv("SLURM_JOB_ID"); /* too late to refuse anything */
    asked = true;
    wanted = strcasecmp(text, "off") != 0;
    if (!wanted)
        return 0;
    if (strlen(text) >= sizeof given || strchr(text, '\n')) {
        say("--scry: at most %zu bytes in one line", sizeof given - 1);
        wanted = false;
        return inside ? 0 : -1;
    }
    memcpy(given, text, strlen(text) + 1);
    char copy[HANDED_OPTIONS], *options = copy;
    memcpy(copy, given, sizeof copy);
    take_each(&options);
    return inside || options_check(options) ? 0 : -1;
}

static void take_settings(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        size_t used = strlen(settings.site);
        if (strncmp(word, "scry=", 5) == 0)
            snprintf(settings.scry, sizeof settings.scry, "%s", word + 5);
        else if (strncmp(word, "task=", 5) == 0)
            snprintf(settings.task, sizeof settings.task, "%s", word + 5);
        else if (strcmp(word, "all") == 0)
            settings.all = true;
        else if (strncmp(word, "--", 2) == 0 && used + strlen(word) < sizeof settings.site)
            snprintf(settings.site + used, sizeof settings.site - used, "%s ", word + 2);
        else
            slurm_error("scry_spank.so: unknown word in plugstack.conf: %s", word);
    }
}

EXPORTED int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    static char name[] = "scry", argument[] = "[OPTION...]",
                usage[] = "follow the job with scry run; OPTION is one of its options: name=x";
    struct spank_option option = {name, argument, usage, 2, 0, take_option};
    spank_context_t context = spank_context();
    take_settings(argc, argv);
    if (context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR || context == S_CTX_REMOTE)
        if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
            slurm_error("scry_spank.so: cannot register --scry: another plugin may have it");
    return 0;
}

/* ---- the task ---- */

/* With sbatch --export=NONE, Slurm (22.05) loses the option on the way to the script. srun would find it there: */
static void find_option(spank_t spank)
{
    char text[HANDED_OPTIONS];
    if (!asked && spank_getenv(spank, "SLURM_SPANK__SLURM_SPANK_OPTION_scry_scry", text, sizeof text) == ESPANK_SUCCESS)
        take_option(0, text, 1);
}

/* Without --scry the environment decides, and then the site. */
static bool is_wanted(spank_t spank)
{
    char value[16];
    spank_err_t code = spank_getenv(spank, "SCRY", value, sizeof value);
    if (code == ESPANK_SUCCESS && strcasecmp(value, "off") == 0)
        return false;
    return wanted || settings.all || (code == ESPANK_SUCCESS && strcasecmp(value, "on") == 0);
}

static uint32_t number_of(spank_t spank, spank_item_t item)
{
    uint32_t number = 0;
    return spank_get_item(spank, item, &number) == ESPANK_SUCCESS ? number : 0;
}

/* Of a job that is followed already, and not by this batch script's scry run. */
static bool is_in_job(spank_t spank)
{
    char value[8];
    return spank_getenv(spank, "SCRY_PART", value, sizeof value) != ESPANK_ENV_NOEXIST;
}

static bool hand_over(spank_t spank, bool prepended, const char *program)
{
    char handed[HANDED_SIZE], step_name[96] = "", memory_text[24] = "", *options = given;
    uint64_t memory = 0;
    uint32_t step = number_of(spank, S_JOB_STEPID), tasks = number_of(spank, S_JOB_LOCAL_TASK_COUNT);
    int task = 0;
    spank_get_item(spank, S_TASK_ID, &task);
    bool each = take_each(&options), batch = step == SLURM_BATCH_SCRIPT;
    const char *how = batch || number_of(spank, S_TASK_GLOBAL_ID) == 0 ? "run" : "quiet";
    if (!batch && !each && tasks > 1) {
        how = task > 0 ? "exec" : how;
        snprintf(step_name, sizeof step_name, "slurm-%u-%u-%u-%u", number_of(spank, S_JOB_ID), step,
                 number_of(spank, S_SLURM_RESTART_COUNT), number_of(spank, S_JOB_NODEID));
    }
    if (spank_get_item(spank, batch ? S_JOB_ALLOC_MEM : S_STEP_ALLOC_MEM, &memory) == ESPANK_SUCCESS && memory)
        snprintf(memory_text, sizeof memory_text, "%" PRIu64, memory);
    bool part = !batch && !each && is_in_job(spank);
    if (part)
        spank_unsetenv(spank, "SCRY_PART_HERE"); /* slurmd has started it, and no part that asked for it */
    int len = snprintf(handed, sizeof handed, "%s%s\n%s\n%s\n%s\n%s%s\n%s", part ? HANDED_PART : "", how, step_name,
                       memory_text, settings.scry, settings.site, options, prepended ? "" : program);
    return len > 0 && (size_t)len < sizeof handed && spank_setenv(spank, HANDED_NAME, handed, 1) == ESPANK_SUCCESS;
}

EXPORTED int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    char container[8], **command = NULL;
    int count = 0;
    uint32_t step = number_of(spank, S_JOB_STEPID);
    if (step == SLURM_BATCH_SCRIPT) {
        find_option(spank);
        spank_unsetenv(spank, "SCRY_PART"); /* it goes on when the job that submitted it is over */
    }
    if (!is_wanted(spank) || step == SLURM_EXTERN_CONT || step == SLURM_INTERACTIVE_STEP)
        return 0;
    if (spank_getenv(spank, "SLURM_CONTAINER", container, sizeof container) != ESPANK_ENV_NOEXIST) {
        say("the task runs without scry: Slurm starts it in a container; use scry run inside of that");
        return 0;
    }
    const char *missing = access(settings.scry, X_OK) < 0   ? settings.scry
                          : access(settings.task, X_OK) < 0 ? settings.task
                                                            : NULL;
    if (missing) {
        say("the task runs without scry: there is no %s on this node", missing);
        return 0;
    }
    if (spank_get_item(spank, S_JOB_ARGV, &count, &command) != ESPANK_SUCCESS || count < 1 || !command || !command[0]) {
        say("the task runs without scry: Slurm does not tell its command");
        return 0;
    }
    const char *words[] = {settings.task};
    bool prepended = spank_prepend_task_argv != NULL;
    if (!hand_over(spank, prepended, command[0])) {
        spank_unsetenv(spank, HANDED_NAME);
        say("the task runs without scry: its command or the options of --scry are too long");
    } else if (!prepended) {
        command[0] = settings.task; /* of this process, which is the task's already */
    } else if (spank_prepend_task_argv(spank, 1, words) != ESPANK_SUCCESS) {
        spank_unsetenv(spank, HANDED_NAME);
        say("the task runs without scry: Slurm refuses to put it before the command");
    }
    return 0;
}
