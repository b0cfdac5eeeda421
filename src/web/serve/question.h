/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions that other programs answer: commands of scry, of which some run at once while others wait, and scry-view. Who asks what is just being asked gets the same answer; an answer is kept for a while, or until
 * the job's directory changes. A child whose answer nobody waits for any more is ended.
 */
#ifndef SCRY_WEB_SERVE_QUESTION_H
#define SCRY_WEB_SERVE_QUESTION_H

#include <stdbool.h>
#include <stdint.h>

#include "web/http/visit.h"

enum { QUESTION_WORDS = 68 }; /* behind `scry`, at most */

struct question_spec {
    const char *const *argv; /* of a command: the words behind `scry`, NULL-terminated */
    json_t *view;            /* or a question to scry-view about the job; borrowed, it may get an id */
    bool own;                /* they are not for scry, but for this program itself, as a child */
    const char *environment; /* NAME=VALUE for the command; NULL: none */
    bool
        once; /* it changes something, or may not be older than the question: nobody shares it, it is not kept, and it is done even
                * if nobody waits */
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
/* Gives it to the visit: what is done with an answer unless the visit has `then`. */
void answer_give(struct visit *visit, const struct answer *answer);

struct questions;
struct questions *questions_new(struct server *server); /* NULL: out of memory */
void questions_free(struct questions *questions);

/* Answers the visit now or later. */
void question_ask(struct questions *questions, struct visit *visit, const struct question_spec *spec);
/* The visit is gone. */
void question_forget(struct visit *visit);

#endif
