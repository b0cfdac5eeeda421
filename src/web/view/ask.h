/* SPDX-License-Identifier: Apache-2.0 */
/* Questions: what there are, what may stand in them, and who answers. */
#ifndef SCRY_WEB_VIEW_ASK_H
#define SCRY_WEB_VIEW_ASK_H

#include "web/view/view.h"

/* The members of a question, after their types and limits were checked. Texts belong to `json`. */
struct asked {
    json_t *json;
    int64_t id, level, index, from, to, limit, lane, at, depth, values;
    bool has_from, has_to;
    const char *function, *file, *lanes, *processes, *process, *program, *thread;
};

/* What has to be read before a question can be answered. */
enum view_needs {
    NEEDS_NOTHING = 0,
    NEEDS_FUNCTIONS = 1, /* view->report.functions */
    NEEDS_MESSAGES = 2,  /* view->messages */
    NEEDS_CALLS = 4,     /* the pass over the traces */
    NEEDS_TIMES = 8,     /* the clocks of several nodes, which messages compare */
};

/* Appends the answer, an object. 0, or -errno with err, and what was appended is dropped. -EINVAL: the question is wrong;
 * -ENOENT: there is no such thing; -ENODATA: nothing was recorded that says it. */
typedef int view_answer_fn(struct view *view, const struct asked *asked, struct buf *out, struct err *err);

struct question {
    const char *name;
    unsigned needs;
    const char *members; /* that it may have, besides id and ask: "level! index! lanes"; `!`: that it must have */
    view_answer_fn *answer;
    bool slow;  /* it may read much of a trace again: calls view->between */
    bool whole; /* its answer about all of a job that is over stays as it is: it is kept (picture.c) */
};

/* Reads a question from a line. 0, or -EINVAL with err; ret_asked->id is set as far as it could be read. Pass ret_asked
 * to asked_done in any case. */
int asked_parse(struct asked *ret_asked, const struct question **ret_question, const char *line, size_t size,
                struct err *err);
void asked_done(struct asked *asked);
/* The answer, or the error, as the line that is printed. */
void asked_answer(struct view *view, const struct question *question, const struct asked *asked, struct buf *out);
void asked_refuse(int64_t id, const struct err *err, struct buf *out);

/* A list of numbers, as "0-63,70": those below `count` are set in ret_set, an array of so many, all of them if text is
 * NULL. 0 or -EINVAL with err. */
int asked_numbers(const char *text, size_t count, bool *ret_set, struct err *err);

view_answer_fn answer_picture, answer_profile, answer_tiles, answer_selection, answer_search, answer_call,
    answer_volume, answer_distributions, answer_tree, answer_source, answer_samples, answer_forget;

/* ---- picture.c: answers about all of a job that is over, which are kept with its picture ---- */

/* NULL: it has to be made. */
const char *whole_find(const struct view *view, const struct question *question, const struct asked *asked);
/* Keeps an answer, if it is of that kind, and there is room. */
void whole_keep(struct view *view, const struct question *question, const struct asked *asked, const char *text,
                size_t len);
size_t whole_count(const struct view *view);
void whole_free(struct view *view);

/* The part of the picture that a question has in from and to. */
void asked_part(const struct view *view, const struct asked *asked, int64_t *ret_from, int64_t *ret_to);

/* How many levels of tiles a picture has: in the last, a column is a nanosecond. */
unsigned tile_levels(const struct view *view);

#endif
