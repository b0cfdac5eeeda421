/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: each answers some of the paths in routes.c. */
#ifndef SCRY_WEB_SERVE_SERVE_H
#define SCRY_WEB_SERVE_SERVE_H

#include "base/data/hash.h"
#include "web/http/request.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- jobs (jobs.c) ---- */

/* Which job an id means: one's own, one that was dropped into a directory (--jobs), one that is elsewhere. */

struct named_job {
    char path[PATH_MAX]; /* the absolute path of its directory, or of its mirror */
    const char *word;    /* how commands call it; good until the loop goes on */
    bool mirrored;       /* it is elsewhere, and this is its mirror: as old as the last command that asked for it */
    bool followed;       /* and it is behind a broker, so that more may come */
    bool own;            /* it lies among the user's own: what it says of its processes is believed */
};

/* The job that the first part of the path names. false: there is none, and the request has its answer, or gets it when the jobs have been
 * listed: then the route's function is called again. */
bool job_of_request(struct http_request *request, struct named_job *ret_job);
/* The same for who reads the directory itself. A mirror is brought up to date before: then it is false at first, and the route's
 * function is called again. */
bool job_of_request_here(struct http_request *request, struct named_job *ret_job);

void jobs_list_free(struct server *server);

/* Of jobs that are not found by their ids as names of directories, as they were listed last. */
void known_jobs_free(struct server *server);

/*
 * ---- questions (question.c) ----
 *
 * Questions that other programs answer: commands of scry, of which some run at once while others wait, and scry-view. Who
 * asks what is just being asked gets the same answer; an answer is kept for a while, or until the job's directory changes.
 * A child whose answer nobody waits for any more is ended.
 */

enum { QUESTION_WORDS = 68 }; /* behind `scry`, at most */

struct question_spec {
    const char *const *argv; /* of a command: the words behind `scry`, NULL-terminated */
    json_t *view;            /* or a question to scry-view about the job; borrowed, it may get an id */
    bool own;                /* they are not for scry, but for this program itself, as a child */
    const char *environment; /* NAME=VALUE for the command; NULL: none */
    /* It changes something, or may not be older than the question: nobody shares it, it is not kept, and it is done even if
     * nobody waits. */
    bool once;
    bool may_be_empty;  /* an answer without a byte is one: status 204 */
    const char *jobdir; /* the answer is good while files in it do not change; NULL: for fresh_ms */
    uint32_t fresh_ms;  /* an answer is good for so long at least */
    uint32_t limit_s;
    int good_status; /* another exit status than 0 that comes with an answer; 0: none */
};

struct answer {
    int status;              /* of HTTP */
    const char *kind, *text; /* of an error */
    struct blob *blob;       /* NULL: an error, or nothing (status 204) */
    const char *tag;
    uint64_t took_ns; /* the command that was asked */
};
/* Gives it to the request: what is done with an answer unless the request has `then`. */
void answer_give(struct http_request *request, const struct answer *answer);

struct questions;
struct questions *questions_new(struct server *server); /* NULL: out of memory */
void questions_free(struct questions *questions);

/* Answers the request now or later. */
void question_ask(struct questions *questions, struct http_request *request, const struct question_spec *spec);

/*
 * ---- records (follow.c) ----
 *
 * The records of a job as server-sent events, for all who look at it. Its spool, and those of its parts on other nodes, are
 * read while somebody looks; each record is turned into the text of an event once. The last of these are kept, for those who come
 * and those who are slow: whoever falls behind that goes on at the first that is there, and is told.
 */

struct follows;
struct follows *follows_new(struct server *server); /* NULL: out of memory */
void follows_free(struct follows *follows);

/* ---- files (files.c) ---- */

/* Answers with one of a directory's files, or the part of it that the request asks for; `of` is what has it, for people. */
void tree_answer_file(struct http_request *request, const char *dir, const char *path, const char *of);
/* What the child does that makes the list; the exit status. */
int files_print(const char *form, const char *dir, const char *top);
/* What a task's directory shows: whether a file is among it; the list. */
bool file_is_output(const char *path);
void outputs_answer_list(struct http_request *request, const char *dir);

/* ---- what the table of paths calls, by file ---- */

void answer_jobs(struct http_request *request); /* jobs.c */
void answer_job(struct http_request *request);
void answer_view(struct http_request *request);
void answer_logs(struct http_request *request);
void answer_compare(struct http_request *request);
void answer_site(struct http_request *request);
void answer_set(struct http_request *request); /* control.c */
void answer_signal(struct http_request *request);
void answer_records(struct http_request *request); /* follow.c */
void answer_files(struct http_request *request);   /* files.c */
void answer_file(struct http_request *request);
void answer_archive(struct http_request *request);
void answer_tasks(struct http_request *request); /* tasks.c */
void answer_tasks_post(struct http_request *request);
void answer_task_check(struct http_request *request);
void answer_task_ways(struct http_request *request);
void answer_task_outputs(struct http_request *request);
void answer_task_output(struct http_request *request);
void answer_task(struct http_request *request);
void answer_task_do(struct http_request *request);
void answer_task_file(struct http_request *request);
void answer_scaling(struct http_request *request);
void answer_task_events(struct http_request *request);

#endif
