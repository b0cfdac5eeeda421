/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/raise.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "client/client.h"
#include "client/decode.h"
#include "job/watch/tracing.h"
#include "lang/value.h"
#include "lang/results.h"
#include "lang/signature.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rules_add(struct rules *rules, const char *text, bool optional)
{
    if (rules->count < RULES_LIMIT)
        rules->list[rules->count++] = (struct rule){.owner = rules, .text = text, .optional = optional};
}

static void fail(struct rule *rule, Omis_reply reply)
{
    struct rules *rules = rule->owner;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    while (!rule->optional && !rules->err.code && omis_reader_next(reader))
        if (omis_reader_status(reader) == OMIS_INTERNAL_ERROR)
            rules->lost =
                true; /* the monitor is lost, and the rule until there is another monitor: no error of the rule */
        else if (omis_reader_status(reader) >= OMIS_FIRST_ERROR)
            err_set(&rules->err, omis_reader_status(reader) == OMIS_UNKNOWN_SERVICE ? -ENOSYS : -EINVAL,
                    "rule '%s': %s", rule->text, omis_reader_error(reader));
}

static void on_enabled(Omis_reply reply, void *param)
{
    struct rule *rule = param;
    rule->owner->arming--;
    fail(rule, reply);
    omis_reply_free(reply);
}

static void enable(struct rule *rule, const char *csr)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, ":csr_enable([%s])", csr);
    if (!text.failed)
        client_request(span_of(text.data, text.len), on_enabled, rule, 0);
    buf_done(&text);
}

static void on_event(Omis_reply reply, void *param)
{
    struct rule *rule = param;
    struct rules *rules = rule->owner;
    Omis_status status = reply && reply[0] && reply[0]->obj_list ? reply[0]->status : OMIS_INTERNAL_ERROR;
    if (status == OMIS_CSR_TRIGGERED) {
        rule->fired++;
        rules->fired(rules->ctx, (size_t)(rule - rules->list), reply);
    } else if (status == OMIS_CSR_DEFINED && reply[0]->result && !rules->err.code) {
        fail(rule, reply); /* a definition is answered even if its event service failed */
        enable(rule, reply[0]->result);
    } else if (status == OMIS_CSR_ENABLED || status == OMIS_CSR_DISABLED) {
        /* errors of single processes, such as the held child, are not errors of the rule */
    } else if (rules->arming > 0) {
        rules->arming--;
        fail(rule, reply);
    }
    omis_reply_free(reply);
}

void rules_arm(struct rules *rules)
{
    rules->err = (struct err){0};
    rules->lost = false;
    rules->arming = (int)rules->count;
    pause_at("rules.arm");
    for (size_t i = 0; i < rules->count; i++)
        client_request(span_str(rules->list[i].text), on_event, &rules->list[i], OMIS_DONT_RETURN_EN_DIS);
    pause_at("rules.asked");
}

enum {
    WAITING_MOST = 256 << 10, /* bytes of requests; more is counted */
    BATCH_MOST = 32 << 10,    /* of one request: it fits into the socket */
    PLACES_MOST = 4096,
    FUNCTION_SIZE = 128,
    FUNCTIONS_MOST = 20, /* of one record */
};

struct raise_place {
    int32_t pid;
    bool summed; /* windows told of the calls: the sum of all its time has nothing new */
    char function[FUNCTION_SIZE];
    UT_hash_handle hh;
};

/* The events, and the record that each is made of: outputs have the names of its members. */
enum raised { LOG, LINE, FAILED, CALLED, EXCEPTION, WARNED, PROGRESS, RAISED };
static const struct {
    const char *service, *outputs;
} all[RAISED] = {
    [LOG] = {"job_log_matched", "-> " JOB_LOG_MATCHED},
    [LINE] = {"job_script_line", "-> " JOB_SCRIPT_LINE},
    [FAILED] = {"job_command_failed", "-> " JOB_COMMAND_FAILED},
    [CALLED] = {"job_function_called", "-> " JOB_FUNCTION_CALLED},
    [EXCEPTION] = {"job_exception_raised", "-> " JOB_EXCEPTION_RAISED},
    [WARNED] = {"job_warned", "-> " JOB_WARNED},
    [PROGRESS] = {"job_progress", "-> " JOB_PROGRESS},
};

_Static_assert(RAISED == (enum raised)RAISE_KINDS, "each kind has its own rate");

/* ---- what is wanted ---- */

struct wanted {
    const char *events;
};
static const struct decode_field wanted_fields[] = {DECODE(struct wanted, events), {0}};

void raise_rule(char *ret_rule, size_t size, const char *dir)
{
    tracing_rule(ret_rule, size, "job_events_wanted", dir, "", wanted_fields);
}

static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += len)
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
            return true;
    return false;
}

void raise_take(struct raises *raises, Omis_reply reply)
{
    struct wanted wanted;
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    omis_reader_find(reader, 1);
    if (!decode_printed(omis_reader_values(reader), wanted_fields, &wanted))
        return;
    raises->wanted = 0;
    for (enum raised each = 0; each < RAISED; each++)
        raises->wanted |= has_word(wanted.events, all[each].service) ? 1u << each : 0;
}

void raise_restart(struct raises *raises)
{
    raises->up = true;
    raises->asking = false;
    raises->wanted = 0;
    buf_clear(&raises->waiting); /* of requests that are gone */
}

void raise_done(struct raises *raises)
{
    HASH_FREE_ALL(raises->places);
    buf_done(&raises->waiting);
    raises->up = raises->asking = false;
    raises->wanted = 0;
}

/* ---- sending ---- */

static void send_waiting(struct raises *raises);

static void on_done(Omis_reply reply, void *param)
{
    struct raises *raises = param;
    omis_reply_free(reply); /* the rules have replies of their own */
    raises->asking = false;
    send_waiting(raises);
}

static void raise_request(struct raises *raises, const char *text, size_t len)
{
    raises->asking = true;
    Omis_reply at_once = client_request(span_of(text, len), on_done, raises, 0);
    if (at_once) /* the connection is lost: watch.c finds out */
        omis_reply_free(at_once);
}

/* As many requests as fit into a batch. They are a line each: no character of theirs ends one. */
static void send_waiting(struct raises *raises)
{
    struct buf *waiting = &raises->waiting;
    if (!raises->up || raises->asking || !waiting->len)
        return;
    size_t len = 0;
    for (const char *end; len < waiting->len && (end = memchr(waiting->data + len, '\n', waiting->len - len));) {
        size_t next = (size_t)(end - waiting->data) + 1;
        if (len && next > BATCH_MOST)
            break;
        len = next;
    }
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_putc(&text, ':');
    buf_append(&text, waiting->data, len);
    buf_drop(waiting, len);
    if (!text.failed)
        raise_request(raises, text.data, text.len);
}

void raise_settle(struct raises *raises)
{
    static const char nothing[] = ":print([])";
    if (raises->up && raises->any && !raises->asking)
        raise_request(raises, nothing, sizeof nothing - 1);
}

/* ---- records ---- */

static bool may_raise(struct raises *raises, enum raised which)
{
    uint64_t now = clock_now_ns();
    if (now - raises->second_ns >= NS_PER_SECOND) {
        raises->second_ns = now;
        memset(raises->raised, 0, sizeof raises->raised);
    }
    if (raises->raised[which] < RAISE_RATE && raises->waiting.len < WAITING_MOST && !raises->waiting.failed) {
        raises->raised[which]++;
        return true;
    }
    raises->omitted++;
    return false;
}

/* Not in the middle of a character. */
static struct span cut(const char *text)
{
    size_t len = strnlen(text, RAISE_TEXT + 1);
    if (len > RAISE_TEXT)
        for (len = RAISE_TEXT; len && ((unsigned char)text[len] & 0xc0) == 0x80;)
            len--;
    return span_of(text, len);
}

/* The value that the output has; a text made of others goes to *ret_made. What a record lacks is "", -1, or 0 times. */
static struct value value_of(const struct param_type *type, const json_t *member, char **ret_made)
{
    if (type->kind == TYPE_STRING && json_is_string(member))
        return value_string(cut(json_string_value(member)));
    if (type->kind == TYPE_STRING) {
        *ret_made = member && !json_is_null(member) ? json_dumps(member, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        return value_string(*ret_made ? cut(*ret_made) : span_str(""));
    }
    if (json_is_boolean(member))
        return value_int(json_is_true(member));
    if (!json_is_number(member))
        return type->kind == TYPE_INTEGER ? value_int(-1) : value_floating(-1);
    if (type->kind == TYPE_INTEGER)
        return value_int(json_is_integer(member) ? json_integer_value(member) : (json_int_t)json_real_value(member));
    return value_floating(json_number_value(member));
}

static void raise_event(struct raises *raises, enum raised which, const json_t *record)
{
    struct signature signature;
    struct err err;
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    struct value values[SIGNATURE_OUTPUTS];
    char *made[SIGNATURE_OUTPUTS] = {NULL};
    if (!(raises->wanted & 1u << which) || !may_raise(raises, which) ||
        signature_parse(&arena, all[which].outputs, &signature, &err) < 0 || !signature.output_count)
        return;
    size_t count = signature.output_count - 1; /* the job is the last one */
    for (size_t i = 0; i < count; i++) {
        const struct param_type *type = &signature.outputs[i];
        char name[64];
        snprintf(name, sizeof name, "%.*s", SPAN_ARG(type->name));
        const json_t *member = json_object_get(record, name);
        values[i] = value_of(type, member, &made[i]);
    }
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    PUT_CALL(&text, "job_raise", raises->dir, all[which].service, value_list(values, count));
    for (size_t i = 0; i < count; i++)
        free(made[i]);
    if (!text.failed && text.len)
        buf_append(&raises->waiting, text.data + 1, text.len - 1); /* without the colon */
    buf_putc(&raises->waiting, '\n');
    raises->any = true;
    send_waiting(raises);
}

/* Of the record's process; NULL: out of memory. */
static struct raise_place *place_of(struct raises *raises, const json_t *record)
{
    int32_t pid = (int32_t)json_integer_value(json_object_get(record, "pid"));
    struct raise_place *place;
    HASH_FIND_INT(raises->places, &pid, place);
    if (place)
        return place;
    if (HASH_COUNT(raises->places) >= PLACES_MOST)
        HASH_FREE_ALL(raises->places);
    place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->pid = pid;
    HASH_ADD_INT(raises->places, pid, place);
    return place;
}

/* A shell that is in another function than before has called it. */
static void raise_if_entered(struct raises *raises, const json_t *record)
{
    const char *function = json_string_value(json_object_get(record, "function"));
    struct raise_place *place = raises->wanted & 1u << CALLED ? place_of(raises, record) : NULL;
    if (!place)
        return;
    bool entered = function && *function && strncmp(function, place->function, FUNCTION_SIZE - 1) != 0;
    strncpy(place->function, function ? function : "", FUNCTION_SIZE - 1);
    if (!entered)
        return;
    json_t *call = json_copy((json_t *)record);
    json_object_set_new(call, "calls", json_integer(1));
    raise_event(raises, CALLED, call);
    json_decref(call);
}

static void raise_calls(struct raises *raises, const json_t *record)
{
    const json_t *list = json_object_get(record, "functions");
    size_t count = json_array_size(list);
    bool whole = json_is_true(json_object_get(record, "whole"));
    struct raise_place *place = raises->wanted & 1u << CALLED ? place_of(raises, record) : NULL;
    if (!place || (whole && place->summed))
        return;
    place->summed = !whole;
    for (size_t i = 0; i < count && i < FUNCTIONS_MOST && raises->wanted & 1u << CALLED; i++) {
        json_t *call = json_copy(json_array_get(list, i));
        json_object_set(call, "pid", json_object_get(record, "pid"));
        json_object_set_new(call, "language", json_string("python"));
        raise_event(raises, CALLED, call);
        json_decref(call);
    }
}

void raise_record(struct raises *raises, enum record_type type, const json_t *record)
{
    if (!raises->up || !raises->wanted)
        return;
    switch (type) {
    case RECORD_log:
        raise_event(raises, LOG, record);
        return;
    case RECORD_script_line:
        raise_event(raises, LINE, record);
        raise_if_entered(raises, record);
        return;
    case RECORD_command_failed:
        raise_event(raises, FAILED, record);
        return;
    case RECORD_python_calls:
        raise_calls(raises, record);
        return;
    case RECORD_python_exception:
        raise_event(raises, EXCEPTION, record);
        return;
    case RECORD_warning:
        raise_event(raises, WARNED, record);
        return;
    case RECORD_progress:
        if (json_number_value(json_object_get(record, "total")) > 0) /* else it is not known any more */
            raise_event(raises, PROGRESS, record);
        return;
    default:
        return;
    }
}
