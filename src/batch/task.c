/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-task: becomes `scry run` or `scry exec` with the command of a task of a batch system, as batch/handed.h says; or
 * the command itself, if that is not possible. scry is asked for its version first: one that cannot be executed here, for
 * instance because a library is missing on this node, must not cost the task.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch/handed.h"

enum { NOT_FOUND = 127, NOT_EXECUTED = 126 };

static int command_become(char **command)
{
    execvp(command[0], command);
    int code = errno;
    fprintf(stderr, "scry-task: %s: %s\n", command[0], strerror(code));
    return code == ENOENT ? NOT_FOUND : NOT_EXECUTED;
}

static bool scry_works(char *scry)
{
    char version[] = "version", *argv[] = {scry, version, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    int code = posix_spawn(&pid, scry, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    while (code == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return code == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether what is recorded here reaches the job that this is started in: its directory is seen here, or scry knows the
 * way there. */
static bool may_be_part(void)
{
    const char *part = getenv("SCRY_PART"), *join = getenv("SCRY_JOIN");
    char path[4096], *words[3] = {NULL}, *copy = part ? strdup(part) : NULL, *rest = copy;
    for (size_t i = 0; i < 3; i++)
        words[i] = strsep(&rest, "\t"); /* HOST, ID, DIR */
    bool fits = words[2] && (size_t)snprintf(path, sizeof path, "%s/job.json", words[2]) < sizeof path;
    bool may = fits && ((join && *join) || access(path, F_OK) == 0);
    free(copy);
    return may;
}

/* The part has the options of its job, and behind them its own. */
static bool give_part(const char *options)
{
    char *words[WORDS_MOST], *copy = strdup(options), text[HANDED_SIZE];
    size_t count = 0;
    int len = snprintf(text, sizeof text, "%s", getenv("SCRY_PART"));
    bool good = copy && words_split(copy, words, &count, WORDS_MOST) == 0;
    free(copy);
    for (size_t i = 0; i < count && len < (int)sizeof text; i++)
        if (!strpbrk(words[i], "\t\n"))
            len += snprintf(text + len, sizeof text - (size_t)len, "\t%s", words[i]);
    return good && len < (int)sizeof text && setenv("SCRY_PART", text, 1) == 0;
}

/* Takes the "part-" off what is to be done. */
static void choose_part(char *lines[HANDED_LINES])
{
    static char exec[] = "exec", nothing[] = "";
    if (strncmp(lines[HANDED_HOW], HANDED_PART, strlen(HANDED_PART)) != 0)
        return;
    lines[HANDED_HOW] += strlen(HANDED_PART);
    if (!may_be_part() || !give_part(lines[HANDED_WORDS]))
        return;
    lines[HANDED_HOW] = exec;
    lines[HANDED_STEP] = nothing; /* all tasks of a node are of one part */
}

/* The words of scry, with the command behind them; NULL: it cannot be done, and a line has said why. */
static char **command_compose(char *lines[HANDED_LINES], char **command, int count)
{
    static char run[] = "run", exec[] = "exec", anyway[] = "--anyway", quiet[] = "--quiet", end[] = "--";
    char **words = calloc(WORDS_MOST + 8 + (size_t)count + 1, sizeof *words);
    size_t used = 0;
    if (!words)
        return NULL;
    words[used++] = lines[HANDED_SCRY];
    words[used++] = strcmp(lines[HANDED_HOW], exec) == 0 ? exec : run;
    if (words[1] == run)
        words[used++] = anyway;
    if (strcmp(lines[HANDED_HOW], "quiet") == 0)
        words[used++] = quiet;
    if (words[1] == run && words_split(lines[HANDED_WORDS], words, &used, WORDS_MOST) < 0) {
        fputs("scry: the task runs without scry: a quote in --scry is not closed, or it has too many options\n",
              stderr);
        return NULL;
    }
    words[used++] = end;
    memcpy(words + used, command, (size_t)count * sizeof *words);
    return words;
}

int main(int argc, char **argv)
{
    char *lines[HANDED_LINES], *given = getenv(HANDED_NAME);
    char *rest = given ? strdup(given) : NULL;
    unsetenv(HANDED_NAME);
    size_t found = 0;
    while (rest && found < HANDED_LINES && strchr(rest, '\n'))
        lines[found++] = strsep(&rest, "\n");
    if (found == HANDED_LINES && *rest)
        argv[0] = rest;
    else
        argv++, argc--; /* the command stands behind our name */
    if (argc < 1) {
        fputs("scry-task is started by batch systems, see scry-batch(7): it needs a command\n", stderr);
        return NOT_EXECUTED;
    }
    if (found == HANDED_LINES)
        choose_part(lines);
    char **words = found == HANDED_LINES ? command_compose(lines, argv, argc) : NULL;
    if (words && !scry_works(words[0])) {
        fprintf(stderr, "scry: the task runs without scry: %s does not work on this node\n", words[0]);
        words = NULL;
    }
    if (!words)
        return command_become(argv);
    const char *mpi = getenv("SCRY_MPI");
    if (getenv("SCRY_JOB") && mpi && strcmp(mpi, "stats") == 0)
        unsetenv("SCRY_MPI"); /* the outer job's default for its agents, and no wish of the user's */
    if (*lines[HANDED_STEP])
        setenv("SCRY_STEP", lines[HANDED_STEP], 1);
    if (*lines[HANDED_MEMORY])
        setenv("SCRY_BATCH_MEMORY", lines[HANDED_MEMORY], 1);
    execv(words[0], words);
    unsetenv("SCRY_STEP");
    unsetenv("SCRY_BATCH_MEMORY");
    return command_become(argv);
}
