/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "shm/waits.h"
#include "task/advance.h"
#include "task/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * What a runner finds out by children, so that it never waits itself: the space of tasks, and why Slurm has not begun a run.
 */

enum {
    BLOCK_BYTES = 512,
    FILE_BYTES = 256 /* of a file's description */,
    NICE = 19,
    REST = 10 /* times as long as it took */
};

static struct look {
    struct look *next;
    char id[TASK_ID_SIZE];
    int fd; /* the child's answer; -1: none looks */
    uint64_t began_ns, took_ns, ended_ns, bytes;
    bool known;
} * looks;

uint64_t task_space_sum(const char *dir, uint64_t most_files)
{
    char *paths[] = {(char *)dir, NULL};
    uint64_t bytes = 0;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    for (FTSENT *entry; tree && (entry = fts_read(tree));) {
        if (entry->fts_info == FTS_DP || entry->fts_info == FTS_NS)
            continue;
        if (!most_files--) {
            bytes = UINT64_MAX;
            break;
        }
        bytes += (uint64_t)entry->fts_statp->st_blocks * BLOCK_BYTES + FILE_BYTES;
    }
    if (tree)
        fts_close(tree);
    return bytes;
}

static void look_start(struct look *look, const char *dir)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        /* Nothing else is its own: who holds the runner's lock while a slow disk is read keeps the next runner away. */
        int answer = dup2(ends[1], STDERR_FILENO + 1);
        close_range(STDERR_FILENO + 2, ~0U, 0);
        if (nice(NICE) == -1)
            errno = 0;
        pause_at("task.space");
        uint64_t bytes = task_space_sum(dir, UINT64_MAX);
        _exit(write(answer, &bytes, sizeof bytes) != sizeof bytes);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return;
    }
    look->fd = ends[0];
    look->began_ns = clock_now_ns();
}

int task_space_look(const char *id, const char *dir, uint64_t *ret_bytes)
{
    struct look *look = looks;
    while (look && strcmp(look->id, id) != 0)
        look = look->next;
    if (!look) {
        look = calloc(1, sizeof *look);
        if (!look)
            return -ENOMEM;
        *look = (struct look){.next = looks, .fd = -1};
        memcpy(look->id, id, strnlen(id, sizeof look->id - 1));
        looks = look;
    }
    uint64_t now = clock_now_ns(), bytes;
    if (look->fd >= 0) {
        ssize_t got = read(look->fd, &bytes, sizeof bytes);
        if (got == sizeof bytes) {
            look->bytes = bytes;
            look->known = true;
        }
        if (got >= 0 || errno != EAGAIN) {
            close(look->fd);
            look->fd = -1;
            look->took_ns = now - look->began_ns;
            look->ended_ns = now;
        }
    } else if (now - look->ended_ns >= REST * look->took_ns) { /* so it takes a tenth of a processor at most */
        look_start(look, dir);
    }
    *ret_bytes = look->bytes;
    return look->known ? 0 : -EAGAIN;
}

void task_space_forget(const char *id)
{
    for (struct look **at = &looks; *at; at = &(*at)->next)
        if (strcmp((*at)->id, id) == 0) {
            struct look *gone = *at;
            *at = gone->next;
            if (gone->fd >= 0)
                close(gone->fd);
            free(gone);
            return;
        }
}

/* Why Slurm has not begun a run. A controller has many users: it is asked at once, and then less and less often. */
enum { QUESTIONS_MOST = 64 };

static struct question {
    char id[TASK_ID_SIZE];
    uint64_t run, rest_ns, due_ns;
    int answer; /* of the child; 0: none is asked */
} questions[QUESTIONS_MOST];

/* The one about that run; NULL: there are too many. One that nobody wants to know for long has made room. */
static struct question *question_find(const char *id, uint64_t run, uint64_t now)
{
    struct question *room = NULL;
    for (struct question *each = questions; each < questions + QUESTIONS_MOST; each++) {
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

static void question_start(struct question *question, const struct task *task, const char *job)
{
    struct task_launch launch;
    int ends[3], code = task_launch_ask(&launch, task, job, NULL);
    pid_t pid;
    if (code == 0)
        code = spawn_piped(&(struct spawn){.path = launch.argv[0],
                                           .argv = launch.argv,
                                           .environment = launch.environment,
                                           .in = SPAWN_NULL,
                                           .out = SPAWN_PIPE,
                                           .error = SPAWN_NULL},
                           &pid, ends);
    if (code == 0 && fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0)
        question->answer = ends[1];
    task_launch_done(&launch);
}

bool task_waits_look(const struct task *task, uint64_t run, const char *job, char ret_reason[TASK_REASON_SIZE])
{
    uint64_t now = clock_now_ns();
    struct question *question = question_find(task->id, run, now);
    if (!question)
        return false;
    if (!question->answer && now >= question->due_ns) {
        question_start(question, task, job);
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
