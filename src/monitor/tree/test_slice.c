/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/system/clock.h"
#include "monitor/tree/slice.h"

/* Nodes: 1 is the home, 2 to 9 are behind edge 1, 10 to 19 behind edge 2, ... up to 999; theirs is one less, and node 5
 * is not known there. */
static int place_of(void *ctx, uint32_t node)
{
    (void)ctx;
    return node == 1 ? PLACE_HOME : node > 999 ? PLACE_UNKNOWN : node < 10 ? 1 : (int)(node / 10 + 1);
}

static uint32_t theirs(void *ctx, int place, uint32_t node)
{
    (void)ctx;
    assert_int_not_equal(place, PLACE_HOME);
    return node == 5 || place_of(NULL, node) != place ? 0 : node - 1;
}

static bool on_nodes(void *ctx, const char *class_name)
{
    (void)ctx;
    return *class_name && !strchr("ce", class_name[0]);
}

static bool attaches(void *ctx, const struct call_text *call)
{
    (void)ctx;
    return span_is(call->name, "move");
}

struct box {
    size_t from;
    struct registry *registry;
    struct arena arena;
    struct request request;
    struct cut cut;
    const struct slice_map *map;
};

static void run(struct scry_call *call)
{
    (void)call;
}

static const int three_places[] = {PLACE_HOME, 1, 2};
static const struct slice_map three = {
    .place_of = place_of, .theirs = theirs, .on_nodes = on_nodes, .places = three_places, .place_count = 3};
static const struct slice_map none = {.place_of = place_of, .theirs = theirs, .on_nodes = on_nodes};

static void box_init(struct box *box, const struct slice_map *map)
{
    static const struct scry_service rows[] = {
        {.name = "stop", .signature = "token<t>* list -> void", .doc = "", .run = run},
        {.name = "info", .signature = "token<p>* list, integer flags -> integer", .doc = "", .run = run},
        {.name = "move", .signature = "token<p>* list, token<n> node -> void", .doc = "", .run = run},
        {.name = "copy", .signature = "token<m> from, token<m> to -> void", .doc = "", .run = run},
        {.name = "print", .signature = "any* args -> any*", .doc = "", .run = run},
        {.name = "raise", .signature = "token<e> event, any* args -> void", .doc = "", .run = run},
        {.name = "enable", .signature = "token<c>* list -> void", .doc = "", .run = run},
        {.name = "read", .signature = "token* list, string name -> any", .doc = "", .run = run},
        {.name = "count", .signature = "integer part, token<pa_c>* list, any more -> integer", .doc = "", .run = run},
    };
    *box = (struct box){.map = map, .registry = calloc(1, sizeof(struct registry))};
    assert_non_null(box->registry);
    struct err err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(registry_add(box->registry, &rows[i], "", &err), 0);
}

static void box_clear(struct box *box)
{
    cut_done(&box->cut);
    arena_done(&box->arena);
}

static void box_done(struct box *box)
{
    box_clear(box);
    registry_free(box->registry);
}

static int try_cut(struct box *box, struct span text)
{
    box_clear(box);
    struct err err;
    int code = request_parse(&box->arena, text, &box->request, &err);
    assert_int_equal(code, 0);
    struct service **services = arena_alloc(&box->arena, box->request.action_count * sizeof(struct service *));
    assert_non_null(services);
    for (size_t i = 0; i < box->request.action_count; i++) {
        struct call_text *call = &box->request.actions[i];
        services[i] = registry_find(box->registry, call->name);
        assert_non_null(services[i]);
        assert_int_equal(signature_check(&services[i]->signature, call->name, call->args, call->argc, &box->arena,
                                         &call->args, &err),
                         CHECK_OK);
        call->argc = services[i]->signature.param_count;
    }
    return cut_request(&box->arena, &box->request, services, box->from, box->map, &box->cut);
}

/* "PLACE REQUEST (ACTION...)" with " | " between, phases with " || ", and at the end "? ACTION:TOKEN". */
static void check(struct box *box, const char *text, const char *want)
{
    struct buf got = BUF_INIT;
    buf_puts(&got, "");
    assert_int_equal(try_cut(box, span_str(text)), 0);
    for (size_t i = 0; i < box->cut.phase_count; i++) {
        const struct phase *phase = &box->cut.phases[i];
        buf_puts(&got, i ? " ||" : "");
        for (size_t j = 0; j < phase->slice_count; j++) {
            const struct slice *slice = &phase->slices[j];
            buf_printf(&got, "%s%d %.*s (", got.len ? j ? " | " : " " : "", slice->place, (int)slice->text.len,
                       slice->text.data);
            for (size_t k = 0; k < slice->action_count; k++)
                buf_printf(&got, "%s%zu", k ? "," : "", slice->actions[k]);
            buf_putc(&got, ')');
        }
    }
    for (size_t i = 0; i < box->cut.unknown_count; i++)
        buf_printf(&got, " ? %zu:%.*s", box->cut.unknown[i].action, SPAN_ARG(box->cut.unknown[i].token));
    assert_string_equal(got.data, want);
    buf_done(&got);
}

static void tokens_go_where_they_lie(void **state)
{
    struct box box;
    box_init(&box, &three);
    check(&box, ":info([p_1_3,p_2_5,p_11_7,p_3_1,p_1_9],1)",
          "0 :info([p_1_3,p_1_9],1) (0) | 1 :info([p_1_5,p_2_1],1) (0) | 2 :info([p_10_7],1) (0)");
    check(&box, ":info(p_2_5,1)", "1 :info([p_1_5],1) (0)");
    check(&box, ":copy(m_2_5,m_3_5)", "1 :copy(m_1_5,m_2_5) (0)");
    check(&box, ":count(7,[pa_c_3_4,pa_c_1_4],[\"pa_c_3_4\",[pa_c_3_4,5#p_3_4,n_3]])",
          "0 :count(7,[pa_c_1_4],[\"pa_c_3_4\",[pa_c_3_4,5#p_3_4,n_3]]) (0) | "
          "1 :count(7,[pa_c_2_4],[\"pa_c_3_4\",[pa_c_2_4,5#p_3_4,n_2]]) (0)");
    check(&box, ":read([t_2_1,p_11_1],\"t_2_1\")", "1 :read([t_1_1],\"t_2_1\") (0) | 2 :read([p_10_1],\"t_2_1\") (0)");
    check(&box, ":move([p_2_1],n_11)", "1 :move([p_1_1],u_0) (0)"); /* that edge does not know the node */
    check(&box, ":info([p_5_1],1)", "1 :info([u_0],1) (0)");
    box_done(&box);
}

static void empty_lists_go_everywhere(void **state)
{
    struct box box;
    box_init(&box, &three);
    check(&box, ":stop([])", "0 :stop([]) (0) | 1 :stop([]) (0) | 2 :stop([]) (0)");
    check(&box, ":enable([]) read([],\"x\")", "0 :enable([]) read([],\"x\") (0,1)"); /* of no node */
    box.map = &none;
    check(&box, ":stop([])", "0 :stop([]) (0)"); /* no node yet: the home says what that means */
    static const int far[] = {2, 7};
    const struct slice_map elsewhere = {
        .place_of = place_of, .theirs = theirs, .on_nodes = on_nodes, .places = far, .place_count = 2};
    box.map = &elsewhere;
    check(&box, ":stop([])", "2 :stop([]) (0) | 7 :stop([]) (0)");
    box_done(&box);
}

static void what_works_on_no_object_stays_at_home(void **state)
{
    struct box box;
    box_init(&box, &three);
    check(&box, ":print([p_2_3]) raise(e_1_3,[p_2_3])", "0 :print([p_2_3]) raise(e_1_3,[p_2_3]) (0,1)");
    check(&box, ":info([u_0,foo,p_0_3],1)", "0 :info([u_0,foo,p_0_3],1) (0)"); /* its answer says what is wrong */
    box_done(&box);
}

static void phases_end_at_barriers(void **state)
{
    struct box box;
    box_init(&box, &three);
    check(&box, ":info([p_1_3,p_2_5],1) stop([p_11_1]); print([\"done\"]) stop([p_2_1])",
          "0 :info([p_1_3],1) (0) | 1 :info([p_1_5],1) (0) | 2 :stop([p_10_1]) (1) || "
          "0 :print([\"done\"]) (2) | 1 :stop([p_1_1]) (3)");
    assert_int_equal(box.cut.phases[1].first, 2);
    assert_int_equal(box.cut.phases[1].count, 2);
    check(&box, ":{stop([p_2_1]);stop([p_11_1]) stop([p_2_2])}",
          "1 :{stop([p_1_1])} (0) || 1 :{stop([p_1_2])} (2) | 2 :{stop([p_10_1])} (1)");
    check(&box, ":{stop([p_2_1]);stop([p_3_1]) stop([p_2_2])}", /* one place: as it is */
          "1 :{stop([p_1_1]);stop([p_2_1]) stop([p_1_2])} (0,1,2)");
    assert_int_equal(box.cut.phases[0].count, 3);
    check(&box, ":print([]);print([])", "0 :print([]);print([]) (0,1)");
    box_done(&box);
}

static void nodes_that_nobody_knows(void **state)
{
    struct box box;
    box_init(&box, &three);
    check(&box, ":info([p_1000_3,p_2_5],1) stop([p_4000_1,p_4001_1]) stop([p_2_1])",
          "1 :info([p_1_5],1) stop([p_1_1]) (0,2) ? 0:p_1000_3 ? 1:p_4000_1 ? 1:p_4001_1");
    check(&box, ":stop([p_2_1]);stop([p_4000_1]) stop([p_2_2])", /* the ';' stays between the others */
          "1 :stop([p_1_1]);stop([p_1_2]) (0,2) ? 1:p_4000_1");
    check(&box, ":stop([p_4000_1])", " ? 0:p_4000_1");
    check(&box, ":stop([p_2_1]);stop([p_4000_1]);stop([p_11_2])",
          "1 :stop([p_1_1]) (0) || || 2 :stop([p_10_2]) (2) ? 1:p_4000_1");
    box_done(&box);
}

static void what_is_behind_an_attach_is_cut_later(void **state)
{
    static const struct slice_map growing = {.place_of = place_of,
                                             .theirs = theirs,
                                             .on_nodes = on_nodes,
                                             .attaches = attaches,
                                             .places = three_places,
                                             .place_count = 1};
    static const char text[] = ":stop([]) move([p_2_1],n_2) stop([t_2_1]) stop([]) info([p_1_1],1)";
    struct box box;
    box_init(&box, &growing);
    check(&box, text, "0 :stop([]) (0) | 1 :move([p_1_1],n_1) stop([t_1_1]) (1,2)");
    assert_int_equal(box.cut.end, 3);
    box.from = 3;
    box.map = &three;
    check(&box, text, "0 :stop([]) info([p_1_1],1) (3,4) | 1 :stop([]) (3) | 2 :stop([]) (3)");
    assert_int_equal(box.cut.end, 5);
    box.from = 0;
    box.map = &growing;
    check(&box, ":{move([p_2_1],n_2) stop([])}",
          "0 :{stop([])} (1) | 1 :{move([p_1_1],n_1)} (0)"); /* all is locked first */
    box_done(&box);
}

static void limits(void **state)
{
    int places[900];
    for (int i = 0; i < 900; i++)
        places[i] = i;
    const struct slice_map map = {
        .place_of = place_of, .theirs = theirs, .on_nodes = on_nodes, .places = places, .place_count = 900};
    struct box box;
    struct buf text = BUF_INIT;
    box_init(&box, &map);
    buf_puts(&text, ":");
    for (int i = 0; i < 5000; i++)
        buf_puts(&text, i ? ";stop([])" : "stop([])");
    assert_int_equal(try_cut(&box, span_of(text.data, text.len)), -E2BIG);
    assert_int_equal(box.cut.phase_count, 0);
    buf_clear(&text);
    buf_puts(&text, ":count(1,[],1000000#");
    for (int i = 0; i < 1000000; i++)
        buf_putc(&text, 'x');
    buf_puts(&text, ")");
    assert_int_equal(try_cut(&box, span_of(text.data, text.len)), -E2BIG);
    buf_done(&text);
    box_done(&box);
}

/* 100 000 objects of 500 nodes behind 51 edges, in turn: time and that none is lost. */
static void many_objects(void **state)
{
    enum { COUNT = 100000 };
    struct box box;
    struct buf text = BUF_INIT;
    box_init(&box, &three);
    buf_puts(&text, ":stop([");
    for (int i = 0; i < COUNT; i++)
        buf_printf(&text, "%st_%d_%d", i ? "," : "", i % 500 + 6, i);
    buf_puts(&text, "])");
    uint64_t before = clock_now_ns();
    assert_int_equal(try_cut(&box, span_of(text.data, text.len)), 0);
    printf("# parsed, checked and cut: %d objects in %.1f ms\n", COUNT, (double)(clock_now_ns() - before) / 1e6);
    assert_int_equal(box.cut.phases[0].slice_count, 51);
    size_t tokens = 0;
    for (size_t i = 0; i < 51; i++) {
        const struct buf *part = &box.cut.phases[0].slices[i].text;
        for (size_t at = 0; at + 1 < part->len; at++)
            tokens += part->data[at] == 't' && part->data[at + 1] == '_';
    }
    assert_int_equal(tokens, COUNT);
    buf_done(&text);
    box_done(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_go_where_they_lie),
        cmocka_unit_test(empty_lists_go_everywhere),
        cmocka_unit_test(what_works_on_no_object_stays_at_home),
        cmocka_unit_test(phases_end_at_barriers),
        cmocka_unit_test(nodes_that_nobody_knows),
        cmocka_unit_test(what_is_behind_an_attach_is_cut_later),
        cmocka_unit_test(limits),
        cmocka_unit_test(many_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
