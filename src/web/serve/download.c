/* SPDX-License-Identifier: Apache-2.0 */
/* Files of directories of jobs and tasks: their list, one of them or a part of it, all as an archive. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "web/serve/jobs.h"
#include "web/serve/question.h"
#include "web/serve/routes.h"
#include "web/serve/tree.h"

static void refuse(struct visit *visit, const char *of)
{
    visit_answer_error(visit, 404, "unknown", "there is no such file in the %s's directory", of);
}

/* ---- the list, which a child of this program makes ---- */

/* A task's files, and what its runs and builds printed. Runs are jobs, and have files of their own; a file that comes in is none
 * yet. */
bool file_is_output(const char *path)
{
    return (strncmp(path, "files/", 6) == 0 && path[6] != '.') ||
           (strncmp(path, "runs/", 5) == 0 && path[5] != '.' && !strchr(path + 5, '/'));
}

static int print_json(const struct tree *tree, bool outputs)
{
    json_t *list = json_array(), *json = json_pack("{s:o}", "files", list);
    for (size_t i = 0; json && i < tree->count; i++)
        if (!outputs || file_is_output(tree->files[i].path))
            json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "path", text_json(tree->files[i].path),
                                                  "size_bytes", (json_int_t)tree->files[i].size, "modified_seconds",
                                                  (json_int_t)tree->files[i].modified));
    int code = json ? json_dumpf(json, stdout, JSON_COMPACT) : -1;
    putchar('\n');
    json_decref(json);
    return code;
}

/* The forms in which a child lists files. */
static const char FILES_TREE[] = "tree", FILES_JSON[] = "json", FILES_OUTPUTS[] = "outputs";

int files_print(const char *form, const char *dir, const char *top)
{
    struct tree tree;
    struct err err = {0};
    int code = tree_read(dir, &tree);
    if (code == -E2BIG)
        err_set(&err, code, "there are more than %d files; copy the directory", TREE_MOST);
    else if (code < 0)
        err_errno(&err, code, "cannot read the directory");
    else if (strcmp(form, FILES_TREE) == 0)
        tree_print(&tree, top);
    else if (print_json(&tree, strcmp(form, FILES_OUTPUTS) == 0) < 0)
        err_set(&err, -ENOMEM, "out of memory");
    tree_done(&tree);
    if (err.code)
        log_error("%s", err.text);
    return err.code || fflush(stdout) != 0;
}

static void ask_files(struct visit *visit, const char *dir, const char *form, uint32_t fresh_ms)
{
    char top[FOREIGN_ID_MOST + 1]; /* foreign_is_id was asked: no longer, and no option */
    snprintf(top, sizeof top, "%.*s", SPAN_ARG(visit->parts[0]));
    const char *argv[] = {"--files", form, dir, top, NULL};
    question_ask(
        visit->server->questions, visit,
        &(struct question_spec){
            .argv = argv, .own = true, .once = !fresh_ms, .fresh_ms = fresh_ms, .limit_s = DOWNLOAD_LIMIT_SECONDS});
}

/* Never an older list: who has heard that a run is over asks once, for the last time. */
void outputs_answer_list(struct visit *visit, const char *dir)
{
    ask_files(visit, dir, FILES_OUTPUTS, 0);
}

void answer_files(struct visit *visit)
{
    struct named_job job;
    if (job_of_visit_here(visit, &job))
        ask_files(visit, job.path, FILES_JSON, DOWNLOAD_FRESH_MS);
}

/* ---- one file ---- */

static ssize_t more_of_file(struct visit *visit, unsigned char *room, size_t size)
{
    ssize_t got = read((int)(intptr_t)visit->extra, room, size);
    return got > 0 ? got : -2; /* it was cut, or cannot be read: the connection ends, so that this is seen */
}

static void close_file(struct visit *visit)
{
    close((int)(intptr_t)visit->extra);
}

/* Always something to keep, never something to show: what a job wrote may look like a page. */
void tree_answer_file(struct visit *visit, const char *home, const char *path, const char *of)
{
    struct stat info;
    char range[96];
    uint64_t from = 0, len;
    struct reply reply = {.status = 200, .type = "application/octet-stream", .disposition = "attachment"};
    _cleanup_(closep) int dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = dir >= 0 ? tree_open(dir, path) : -1;
    if (fd < 0 || fstat(fd, &info) < 0) {
        refuse(visit, of);
        return;
    }
    uint64_t size = len = (uint64_t)info.st_size;
    reply.range_unit = "bytes";
    switch (foreign_range(span_str(visit->range), size, &from, &len)) {
    case RANGE_PART:
        reply.status = 206;
        snprintf(range, sizeof range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, from + len - 1, size);
        reply.range = range;
        lseek(fd, (off_t)from, SEEK_SET);
        break;
    case RANGE_BEYOND:
        close(fd);
        snprintf(range, sizeof range, "bytes */%" PRIu64, size);
        visit->refusal.range = range;
        visit_answer_error(visit, 416, "range", "the file has %" PRIu64 " bytes", size);
        return;
    case RANGE_NONE:
        break;
    }
    visit->extra = (void *)(intptr_t)fd;
    visit->done = close_file;
    visit_answer_more(visit, &reply, len, more_of_file);
}

void answer_file(struct visit *visit)
{
    struct named_job job;
    char path[PATH_MAX];
    if (!job_of_visit_here(visit, &job))
        return;
    snprintf(path, sizeof path, "%.*s", SPAN_ARG(visit->parts[1]));
    tree_answer_file(visit, job.path, path, "job");
}

/* ---- all of them ---- */

struct archive {
    struct tar tar;
    struct blob *list; /* of its files */
    char top[FOREIGN_ID_MOST + 1];
};

static ssize_t more_of_archive(struct visit *visit, unsigned char *room, size_t size)
{
    struct archive *archive = visit->extra;
    ssize_t len = tar_read(&archive->tar, room, size);
    return len > 0 ? len : len < 0 ? -2 : -1; /* what is broken off is seen to be */
}

static void archive_done(struct visit *visit)
{
    struct archive *archive = visit->extra;
    tar_done(&archive->tar);
    blob_unref(archive->list);
    free(archive);
}

static void on_files(struct visit *visit, const struct answer *answer)
{
    char disposition[FOREIGN_ID_MOST + 64];
    struct named_job job;
    uint64_t size;
    if (!answer->blob) {
        answer_give(visit, answer);
        return;
    }
    if (!job_of_visit_here(visit, &job))
        return;
    struct archive *archive = calloc(1, sizeof *archive);
    if (!archive) {
        visit_answer_error(visit, 503, "memory", "out of memory; try again later");
        return;
    }
    archive->list = blob_ref(answer->blob);
    visit->extra = archive;
    visit->done = archive_done;
    snprintf(archive->top, sizeof archive->top, "%.*s", SPAN_ARG(visit->parts[0]));
    if (tar_begin(&archive->tar, job.path, archive->top, archive->list->bytes, archive->list->size, &size) < 0) {
        refuse(visit, "job");
        return;
    }
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s.tar\"", archive->top);
    visit_answer_more(visit, &(struct reply){.status = 200, .type = "application/x-tar", .disposition = disposition},
                      size, more_of_archive);
}

void answer_archive(struct visit *visit)
{
    struct named_job job;
    if (!job_of_visit_here(visit, &job))
        return;
    visit->then = on_files;
    ask_files(visit, job.path, FILES_TREE, DOWNLOAD_FRESH_MS);
}
