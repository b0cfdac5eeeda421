/* SPDX-License-Identifier: Apache-2.0 */
/* What is collected of the jobs at a broker, where messages are lost, repeated, late and forged. There is no broker: the
 * test sees what is asked for, and says what comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "mirror/states.h"

static struct reader reader = {.owner = "ann", .via = "mqtt://host"};
static struct states states;
static char asked[16384];   /* "beat* state* beat:one ..." since it was looked at last */
static char marker[16][64]; /* what was published as markers, as texts */
static unsigned markers, ended;
static enum signed_by signed_by;

/* ---- in place of the connection ---- */

int reader_subscribe(struct reader *of, const char *job, const char *name, int qos)
{
    size_t used = strlen(asked);
    snprintf(asked + used, sizeof asked - used, "%s%s:%s:%d", used ? " " : "", name, job ? job : "*", qos);
    return 1;
}

void reader_question(const struct reader *of, char ret_id[64])
{
    snprintf(ret_id, 64, "q");
}

void reader_publish_json(struct reader *of, const char *topic, json_t *json_take)
{
    char *text = json_dumps(json_take, JSON_COMPACT);
    assert_string_equal(topic, "scry/v1/ann/-/again/q/end");
    snprintf(marker[markers++ % 16], sizeof *marker, "%s", text);
    free(text);
    json_decref(json_take);
}

enum signed_by reader_check(const struct reader *of, const struct topic *topic, struct span payload,
                            struct span *ret_text)
{
    *ret_text = payload;
    return signed_by;
}

int __wrap_link_subscribe(struct link *link, const char *pattern, int qos, int *ret_id);
int __wrap_link_subscribe(struct link *link, const char *pattern, int qos, int *ret_id)
{
    *ret_id = 7;
    return 0;
}

/* ---- what comes ---- */

static void come(enum topic_kind kind, const char *job, const char *text, bool retained)
{
    struct topic topic = {.kind = kind};
    snprintf(topic.owner, sizeof topic.owner, "ann");
    snprintf(topic.job, sizeof topic.job, "%s", job);
    if (kind == TOPIC_AGAIN)
        snprintf(topic.rest, sizeof topic.rest, "q");
    assert_true(states_message(&states, &topic, span_str(text), retained));
}

static void come_marker(unsigned which)
{
    come(TOPIC_AGAIN, "-", marker[which], false);
}

static void come_state(const char *job)
{
    come(TOPIC_STATE, job, "{\"info\":{}}", true);
}

static void come_beat(const char *job)
{
    come(TOPIC_BEAT, job, "{\"connected\":false}", true);
}

static void on_all_came(void *ctx)
{
    ended++;
}

static int begin(void **state)
{
    states = (struct states){.reader = &reader, .beats_too = true, .all_came = on_all_came};
    assert_int_equal(loop_new(&reader.loop), 0);
    asked[0] = 0;
    markers = ended = 0;
    signed_by = SIGNED_UNKNOWN;
    states_start(&states, NULL);
    assert_string_equal(asked, "beat:*:0 state:*:1");
    asked[0] = 0;
    states_subscribed(&states, 7);
    assert_int_equal(markers, 1);
    return 0;
}

static int end(void **state)
{
    states_done(&states);
    loop_free(reader.loop);
    return 0;
}

static void test_all(void **state)
{
    come_beat("one");
    come_state("one");
    come_marker(0);
    assert_int_equal(ended, 1);
    assert_false(states.unsure);
}

/* States that were dropped are asked for; a marker that comes again does not end the round that was begun meanwhile. */
static void test_old_marker(void **state)
{
    come_beat("one");
    come_beat("two");
    come_state("one");
    come_marker(0);
    assert_string_equal(asked, "state:two:1");
    assert_int_equal(markers, 2);
    come_marker(0);
    assert_int_equal(ended, 0);
    come_state("two");
    come_marker(1);
    assert_int_equal(ended, 1);
    assert_false(states.unsure);
}

static void test_state_that_never_comes(void **state)
{
    come_beat("one");
    come_marker(0);
    come_marker(1);
    assert_int_equal(ended, 1);
    assert_true(states.unsure);
    assert_int_equal(states.lacking, 1);
}

/* However many beats somebody has invented, of a job that is there the state is asked for. */
static void test_many_forged(void **state)
{
    enum { FORGED = 501 };
    char job[16];
    for (unsigned i = 0; i < FORGED; i++) {
        snprintf(job, sizeof job, "forged%u", i);
        come_beat(job);
    }
    come_beat("one");
    come_marker(0);
    assert_non_null(strstr(asked, "state:forged499:1"));
    assert_null(strstr(asked, "state:forged500:1"));
    asked[0] = 0;
    come_marker(1);
    assert_string_equal(asked, "state:forged500:1 state:one:1");
    come_state("one");
    asked[0] = 0;
    come_marker(2); /* something came of it: once more */
    assert_non_null(strstr(asked, "state:forged499:1"));
    come_marker(3);
    assert_int_equal(ended, 0);
    come_marker(4);
    assert_int_equal(ended, 1);
    assert_true(states.unsure);
    assert_int_equal(states.lacking, FORGED);
}

/* A broker may drop beats without a word, too: they are asked for, and others may be missing of which nobody knows. */
static void test_lost_beats(void **state)
{
    come_state("one");
    come_state("two");
    come_beat("two");
    come_marker(0);
    assert_string_equal(asked, "beat:one:1");
    come_beat("one");
    come_marker(1);
    assert_int_equal(ended, 1);
    assert_true(states.unsure);
    assert_int_equal(states.lacking, 0);
}

/* What the job has signed stays, whatever comes before or after it. */
static void test_forged(void **state)
{
    come(TOPIC_BEAT, "one", "{\"connected\":true,\"last_seq\":9}", false);
    signed_by = SIGNED_JOB;
    come(TOPIC_STATE, "one", "{\"info\":{\"result\":{}},\"complete\":true}", true);
    assert_null(states.jobs->beat);
    come_beat("one");
    come(TOPIC_STATE, "one", "{\"info\":{}}", true); /* an old one */
    assert_int_equal(state_progress(states.jobs->state), 2);
    signed_by = SIGNED_NOT;
    come(TOPIC_STATE, "one", "{\"info\":{\"name\":\"x\"},\"complete\":true}", true);
    come(TOPIC_BEAT, "one", "{\"connected\":true}", false);
    assert_int_equal(states.jobs->state_by, SIGNED_JOB);
    assert_false(states.jobs->beats);
    assert_int_equal(states.forged, 3);
    come_marker(0);
    assert_int_equal(ended, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all, begin, end),
        cmocka_unit_test_setup_teardown(test_old_marker, begin, end),
        cmocka_unit_test_setup_teardown(test_state_that_never_comes, begin, end),
        cmocka_unit_test_setup_teardown(test_many_forged, begin, end),
        cmocka_unit_test_setup_teardown(test_lost_beats, begin, end),
        cmocka_unit_test_setup_teardown(test_forged, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
