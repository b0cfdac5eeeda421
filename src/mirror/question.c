/* SPDX-License-Identifier: Apache-2.0 */
/* What a follower asks of the publisher: the records that it lacks, and the small files. */
#include <errno.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "mirror/follow.h"
#include "shm/waits.h"

enum {
    SILENT_MOST = 2,    /* questions that nobody answers, and the publisher is taken for gone */
    SILENT_BEATING = 5, /* the same while its beats come: who asks too often is answered later */
    FRUITLESS_MOST = 3, /* answers without what was asked for, and it is taken for lost */
};

static void ask(struct follow *follow, uint64_t now_ns)
{
    struct question *question = &follow->question;
    bool holds = mirror_held(follow->mirror) != UINT64_MAX;
    *question = (struct question){.open = true,
                                  .from = mirror_next(follow->mirror),
                                  .to = holds ? mirror_lacks_to(follow->mirror) : UINT64_MAX,
                                  .files = !follow->has_files,
                                  .moved_ns = now_ns,
                                  .silent = question->silent,
                                  .fruitless = question->fruitless,
                                  .wait_ns = question->wait_ns};
    reader_question(follow->reader, question->id);
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    topic_put_again(&pattern, follow->reader->owner, follow->job, question->id, "+");
    if (pattern.failed || link_subscribe(follow->reader->link, pattern.data, 1, &question->subscription) < 0)
        question->open = false;
}

void question_subscribed(struct follow *follow, int id)
{
    struct question *question = &follow->question;
    if (!question->open || question->asked || id != question->subscription)
        return;
    question->asked = true;
    question->moved_ns = clock_now_ns();
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    topic_put(&topic, follow->reader->owner, follow->job, "ask", NULL);
    reader_publish_json(follow->reader, topic.data,
                        json_pack("{s:s, s:I, s:I, s:b}", "reader", question->id, "from", (json_int_t)question->from,
                                  "to", question->to == UINT64_MAX ? (json_int_t)-1 : (json_int_t)question->to, "files",
                                  question->files));
}

static void close_question(struct follow *follow)
{
    struct question *question = &follow->question;
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    topic_put_again(&pattern, follow->reader->owner, follow->job, question->id, "+");
    if (question->open && !pattern.failed)
        link_unsubscribe(follow->reader->link, pattern.data);
    question->open = false;
}

void question_forget(struct follow *follow)
{
    follow->question = (struct question){0};
}

void question_moved(struct follow *follow)
{
    follow->question.moved_ns = clock_now_ns();
    follow->question.silent = 0;
}

static uint64_t behind(const json_t *json, const char *key, uint64_t more)
{
    json_int_t number = json_integer_value(json_object_get(json, key));
    return number >= 0 && number < INT64_MAX / 2 ? (uint64_t)number + more : 0;
}

void question_end(struct follow *follow, struct span payload)
{
    struct question *question = &follow->question;
    json_t *json = json_loadb(payload.ptr, payload.len, 0, NULL);
    uint64_t to = behind(json, "to", 0), end = behind(json, "last_seq", 1), next = mirror_next(follow->mirror);
    bool is_end = question->open && topic_is_end_of(json, question->id, question->from, follow->is_signed);
    json_decref(json);
    if (!is_end)
        return;
    question_moved(follow);
    to = to < end ? to : end;
    follow->end = end > follow->end ? end : follow->end;
    follow->target = follow->target ? follow->target : end;
    follow->has_files |= question->files;
    question->wait_ns = next > question->from ? 0 : question->wait_ns ? 2 * question->wait_ns : NS_PER_SECOND;
    question->wait_ns = question->wait_ns < QUESTION_MOST_NS ? question->wait_ns : QUESTION_MOST_NS;
    question->next_ns = clock_now_ns() + time_hasten(question->wait_ns);
    question->fruitless = next > question->from || next >= to ? 0 : question->fruitless + 1;
    close_question(follow);
    if (next > question->from && next < follow->end) /* an answer has a limit: the rest at once */
        ask(follow, clock_now_ns());
    if (question->fruitless < FRUITLESS_MOST)
        return;
    uint64_t held = mirror_held(follow->mirror);
    follow->has_gaps = true;
    mirror_skip(follow->mirror, held < to ? held : to, "the publisher had no such records any more");
    question->fruitless = 0;
}

void question_look(struct follow *follow, uint64_t now_ns)
{
    struct question *question = &follow->question;
    uint64_t next = mirror_next(follow->mirror), end = mirror_end(follow->mirror);
    end = follow->end > end ? follow->end : end;
    if (question->open && now_ns - question->moved_ns > time_hasten(QUESTION_ANSWER_NS)) {
        question->silent++;
        close_question(follow);
        if (question->silent >= (follow->beats ? SILENT_BEATING : SILENT_MOST))
            follow_is_gone(follow, follow->beats);
    }
    bool stalled = now_ns - follow->seen_ns > (follow->is_ready ? QUESTION_STALLED_NS : QUESTION_STALLED_NS / 4);
    if (!question->open && now_ns >= question->next_ns && !follow->gone && follow->has_state &&
        (!follow->has_files || !follow->target || (next < end && stalled)))
        ask(follow, now_ns);
}
