/* SPDX-License-Identifier: Apache-2.0 */
/* Why Slurm has not begun a run. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "shm/waits.h"
#include "task/advance.h"
#include "task/launch.h"

/* A controller has many users: it is asked at once, and then less and less often. */
enum { MOST = 64 };

static struct question {
    char id[TASK_ID_SIZE];
    uint64_t run, rest_ns, due_ns;
    int answer; /* of the child; 0: none is asked */
} questions[MOST];

/* The one about that run; NULL: there are too many. One that nobody wants to know for long has made room. */
static struct question *find(const char *id, uint64_t run, uint64_t now)
{
    struct question *room = NULL;
    for (struct question *each = questions; each < questions + MOST; each++) {
        if (strcmp(each->id, id) == 0 && each->run == run)
            return each;
        if (now >= each->due_ns && now - each->due_ns >= 2 * TASK_WHY_MOST_SECONDS * (uint64_t)NS_PER_SECOND)
            room = each;
    }
    if (!room)
        return NULL;
    if (room->answer)
        close(room->answer);
    *room = (struct question){.run = run, .rest_ns = TASK_WHY_FIRST_SECONDS * (uint64_t)NS_PER_SECOND};
    memcpy(room->id, id, strnlen(id, sizeof room->id - 1));
    room->due_ns = now + room->rest_ns; /* most begin at once */
    return room;
}

static void begin(struct question *question, const struct task *task, const char *job)
{
    struct task_launch launch;
    int ends[2];
    if (task_launch_ask(&launch, task, job, NULL) == 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            int null = open("/dev/null", O_RDWR | O_CLOEXEC);
            dup2(null, STDIN_FILENO);
            dup2(ends[1], STDOUT_FILENO);
            dup2(null, STDERR_FILENO);
            close_range(STDERR_FILENO + 1, ~0U, 0);
            signal(SIGPIPE, SIG_DFL);
            execve(launch.argv[0], launch.argv, launch.environment);
            _exit(127);
        }
        close(ends[1]);
        question->answer = pid > 0 ? ends[0] : 0;
        if (pid < 0)
            close(ends[0]);
    }
    task_launch_done(&launch);
}

bool task_waits_look(const struct task *task, uint64_t run, const char *job, char ret_reason[TASK_REASON_SIZE])
{
    uint64_t now = clock_now_ns();
    struct question *question = find(task->id, run, now);
    if (!question)
        return false;
    if (!question->answer && now >= question->due_ns) {
        begin(question, task, job);
        question->rest_ns = question->rest_ns < TASK_WHY_MOST_SECONDS * (uint64_t)NS_PER_SECOND ? 2 * question->rest_ns
                                                                                                : question->rest_ns;
        question->due_ns = now + question->rest_ns;
    }
    if (!question->answer)
        return false;
    char said[TASK_REASON_SIZE]; /* a line is written at once */
    ssize_t got = read(question->answer, said, sizeof said - 1);
    if (got < 0 && errno == EAGAIN)
        return false;
    close(question->answer);
    question->answer = 0;
    if (got <= 0) /* nobody answered, or it is over */
        return false;
    said[got] = 0;
    said[strcspn(said, "\n")] = 0;
    snprintf(ret_reason, TASK_REASON_SIZE, "%s", strcmp(said, "None") == 0 ? "" : said);
    return true;
}
