/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters for events: the distributed tool extension that the specification uses as its example. filter (8.2.2) raises
 * a user-defined event if two values are the same, filter_all (the "and" of 5.3) when several things have happened.
 * With
 *
 *     : user_event_create()                                                          returns e_1_1
 *     thread_has_started_lib_call([p_1_2], "MPI_Send") : filter($dest, 1, e_1_1)
 *     user_event_has_been_raised(e_1_1) : A
 *
 * the list A is executed if process p_1_2 sends to rank 1. It shows what an extension that only uses the interface of
 * OMIS looks like: it requests (omis_request), converts tokens and keeps state for each tool. Start with ext/null.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <scry/ext.h>

/*
 * An extension raises a user-defined event as a tool does. This request has no callback, so it is executed at once, as
 * a part of the action list that we were called from. With resume 0 whatever that list holds (the thread that sends)
 * waits for the lists of the user event, too, and is $thread and $proc in them.
 */
static void raise_event(struct scry_call *call, struct scry_object *event)
{
    char request[128];
    snprintf(request, sizeof request, ": user_event_raise(%s, [], 0)", scry_object_token(event));
    Omis_reply reply = omis_request(request, NULL, NULL, 0);
    /* element 0 is for the request, element 1 for its action; if the first is an error there is no other */
    const Omis_object_result *result = reply[0]->status >= OMIS_FIRST_ERROR ? reply[0] : reply[1];
    if (result->status == OMIS_OK)
        scry_ok(call, event);
    else
        scry_fail(call, event, result->status, "%s", result->result ? result->result : "it cannot be raised");
    omis_reply_free(reply);
}

/* ---- filter ---- */

/* A token is the same as one of an object that contains its object, as if it were converted for a service (7.2.2): a
 * thread is its process, any process its node. */
static int is_in(const char *inner_token, const char *outer_token)
{
    struct scry_object *inner = scry_object_find(inner_token), *outer = scry_object_find(outer_token);
    return inner && outer && scry_object_localise(inner, scry_object_class(outer)) == outer;
}

static int is_number(const char *text, double *ret_number)
{
    char *end;
    *ret_number = strtod(text, &end);
    return end > text && *end == 0;
}

static int same(struct scry_call *call)
{
    size_t var_len, val_len;
    const char *var = scry_arg_text(call, 0, &var_len), *val = scry_arg_text(call, 1, &val_len);
    if (!var || !val)
        return -1;
    if (var_len == val_len && memcmp(var, val, val_len) == 0)
        return 1;
    /* 1 is 1.0; two integers that differ in text are never the same, however large */
    double a, b;
    if (is_number(var, &a) && is_number(val, &b))
        return (strpbrk(var, ".en") || strpbrk(val, ".en")) && a == b;
    return is_in(var, val);
}

static void filter(struct scry_call *call)
{
    /* user_event is the argument with a class: the monitor has converted it, and answered if there is none */
    if (scry_object_count(call) == 0)
        return;
    struct scry_object *event = scry_object_at(call, 0);
    switch (same(call)) {
    case 0:
        scry_ok(call, event);
        break;
    case 1:
        raise_event(call, event);
        break;
    default:
        scry_fail(call, event, OMIS_NO_MEMORY, "out of memory");
    }
}

/* ---- filter_all: state per tool ---- */

enum { PARTS_LIMIT = 64 };

/* What has happened for an event, until all has. */
struct seen {
    char event[64];
    uint64_t parts;
    struct seen *next;
};

struct state {
    struct seen *first;
};

static char state_key; /* its address is the name of our state: nobody else has the same */

static void state_free(void *data)
{
    struct state *state = data;
    while (state->first) {
        struct seen *next = state->first->next;
        free(state->first);
        state->first = next;
    }
    free(state);
}

/* Of the tool that calls; the monitor frees it when the tool goes away. */
static struct state *state_of_tool(void)
{
    struct state *state = scry_tool_data(&state_key);
    if (state)
        return state;
    state = calloc(1, sizeof *state);
    if (state && scry_tool_set_data(&state_key, state, state_free) < 0) {
        free(state);
        return NULL;
    }
    return state;
}

static struct seen **seen_of_event(struct state *state, const char *event)
{
    struct seen **at = &state->first;
    while (*at && strcmp((*at)->event, event) != 0)
        at = &(*at)->next;
    if (!*at && (*at = calloc(1, sizeof **at)))
        snprintf((*at)->event, sizeof(*at)->event, "%s", event);
    return at;
}

static void filter_all(struct scry_call *call)
{
    if (scry_object_count(call) == 0)
        return;
    struct scry_object *event = scry_object_at(call, 0);
    int64_t part = scry_arg_integer(call, 0), parts = scry_arg_integer(call, 1);
    if (parts < 1 || parts > PARTS_LIMIT || part < 1 || part > parts) {
        scry_fail(call, event, OMIS_PARAMETER_ERROR, "part is from 1 to parts, and parts at most %d", PARTS_LIMIT);
        return;
    }
    struct state *state = state_of_tool();
    struct seen **at = state ? seen_of_event(state, scry_object_token(event)) : NULL;
    if (!at || !*at) {
        scry_fail(call, event, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    struct seen *seen = *at;
    seen->parts |= 1ull << (part - 1);
    if (seen->parts != UINT64_MAX >> (PARTS_LIMIT - parts)) {
        scry_ok(call, event);
        return;
    }
    *at = seen->next; /* from the beginning */
    free(seen);
    raise_event(call, event);
}

static const struct scry_service services[] = {
    {"filter", SCRY_MANIPULATION, "any var, any val, token<e> user_event -> void", SCRY_OPTIONAL, filter,
     "Raise a user-defined event, with resume 0, if var is val, or a token of something in val."},
    {"filter_all", SCRY_MANIPULATION, "integer part, integer parts, token<e> user_event -> void", SCRY_OPTIONAL,
     filter_all, "Raise a user-defined event, with resume 0, when each part from 1 to parts was there since the last."},
};

SCRY_EXT_API int filter_register(void);

int filter_register(void)
{
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        if (scry_register_service(&services[i]) < 0)
            return -1;
    return 0;
}
