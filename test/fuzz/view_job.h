/* SPDX-License-Identifier: Apache-2.0 */
/* A job with a small trace, and what scry-view says of it: shared by its fuzzers. */
#ifndef SCRY_TEST_FUZZ_VIEW_JOB_H
#define SCRY_TEST_FUZZ_VIEW_JOB_H

#include <string.h>

#include "fuzz.h"
#include "jobdir/trace/test_trace.h"
#include "web/view/ask.h"
#include "web/view/lane.h"

static struct view view;
static char root[64];

static inline void view_job_remove(void)
{
    view_close(&view);
    made_root_remove(root);
}

/* In `root`, until the program ends. */
static inline void view_job_make(void)
{
    char dir[256];
    struct made made = {0};
    made_root(root, dir);
    made_text(root, "job.json",
              "{\"format\":\"scry-job\",\"version\":1,\"id\":\"j\",\"name\":\"j\",\"host\":\"node\",\"user\":\"u\","
              "\"cwd\":\"/\",\"argv\":[\"x\"],"
              "\"started_ns\":1000,\"result\":{\"started\":true,\"exit_code\":0}}");
    made_begin(&made, 7, 100);
    made_enter(&made, 100, 1);
    made_enter_with(&made, 110, 2, 1, 5);
    made_leaf(&made, 120, 130, 3);
    made_end(&made);
    made_begin(&made, 7, 140);
    made.head.depth = 2;
    made.head.packet_seq = 1;
    made_exit_with(&made, 150, 2, 110, 2, 6);
    made_end(&made);
    made_stream(&made, dir, "stream-0000");
    made_done(&made);
    atexit(view_job_remove);
}

/* `view` is the job's. */
static inline void view_job_open(void)
{
    struct err err = {0};
    if (view_open(&view, root, &err) < 0)
        fprintf(stderr, "%s\n", err.text);
    fuzz_expect(!err.code);
}

static inline void view_job_read(void)
{
    struct err err = {0};
    while (pass_work(&view, &err) == 1)
        ;
    fuzz_expect(view_load_functions(&view, NULL, NULL, &err) == 0);
    fuzz_expect(view_load_messages(&view, NULL, NULL, &err) == 0);
    view.messages_done = true;
}

/* Whatever the question is: one line of JSON, with its id. */
static inline void view_job_ask(const char *line, size_t size)
{
    struct asked asked;
    const struct question *question;
    struct err err = {0};
    struct buf out = BUF_INIT;
    if (asked_parse(&asked, &question, line, size, &err) == 0)
        asked_answer(&view, question, &asked, &out);
    else
        asked_refuse(asked.id, &err, &out);
    json_t *answer = json_loadb(out.data, out.len, 0, NULL);
    fuzz_expect(answer && memchr(out.data, '\n', out.len) == out.data + out.len - 1);
    fuzz_expect(json_integer_value(json_object_get(answer, "id")) == asked.id);
    const char *text = json_string_value(json_object_get(json_object_get(answer, "error"), "text"));
    fuzz_expect(json_is_object(json_object_get(answer, "ok")) || (text && *text));
    json_decref(answer);
    asked_done(&asked);
    buf_done(&out);
}

#endif
