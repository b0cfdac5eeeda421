/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/parts/told.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/put.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "lang/request.h"

static bool value_of(const struct event_told *event, struct span name, struct value *ret_value)
{
    return told_value(event, name, ret_value); /* the first member */
}

static struct told *new_for(const struct csr *csr)
{
    struct told *told = calloc(1, sizeof *told);
    if (!told)
        return NULL;
    told->as_event = (struct event_told){.where = told->where, .value = value_of};
    told->arena = ARENA_INIT;
    if (!substitute_names(&told->arena, &csr->request, &told->names, &told->count) ||
        !(told->values = arena_zalloc(&told->arena, told->count + 1, sizeof *told->values))) {
        told_free(told);
        return NULL;
    }
    return told;
}

struct told *told_new(const struct csr *csr, const struct event *event)
{
    struct told *told = new_for(csr);
    if (!told)
        return NULL;
    for (size_t i = 0; i < told->count; i++) {
        struct value value;
        if (!event_param(event, csr, told->names[i], &value))
            value = (struct value){.kind = VALUE_PARAM, .text = told->names[i]};
        if (!value_copy(&told->arena, &value, &told->values[i])) {
            told_free(told);
            return NULL;
        }
    }
    told->source = event_source_of(csr->object.monitor, event);
    strncpy(told->where, event_place(event), sizeof told->where - 1);
    told->time_ns = event->time_ns;
    told->chain = event->chain;
    told->hold = hold_keep(csr->object.monitor);
    return told;
}

void told_free(struct told *told)
{
    if (!told)
        return;
    hold_drop(told->hold);
    arena_done(&told->arena);
    free(told);
}

/* ---- from monitor to monitor ---- */

static struct value source_value(const char *token)
{
    return value_token(span_str(*token ? token : TOKEN_UNDEFINED));
}

void told_print(struct buf *out, const struct told *told)
{
    PUT(out, value_token(span_str(told->where)), told->time_ns, told->chain, source_value(told->source.process),
        source_value(told->source.thread), source_value(told->source.node));
    for (size_t i = 0; i < told->count; i++) { /* put_values would put nothing behind binary data */
        buf_putc(out, ',');
        value_print(out, &told->values[i]);
    }
}

enum { HEAD = 6 }; /* values before those of the parameters */

static bool read_token(const struct value *value, char *ret_token)
{
    if (value->kind != VALUE_TOKEN || value->text.len >= TOKEN_TEXT_SIZE)
        return false;
    if (!span_is(value->text, TOKEN_UNDEFINED))
        memcpy(ret_token, value->text.ptr, value->text.len);
    return true;
}

static int read_values(struct told *told, struct span text)
{
    const struct value *values;
    size_t count;
    struct err err;
    struct span copy = arena_span(&told->arena, text);
    int code = copy.ptr ? values_parse(&told->arena, copy, &values, &count, &err) : -ENOMEM;
    if (code < 0)
        return code == -ENOMEM ? code : -EBADMSG;
    if (count != told->count + HEAD || values[0].kind != VALUE_TOKEN || values[0].text.len >= sizeof told->where ||
        values[1].kind != VALUE_INTEGER || values[2].kind != VALUE_INTEGER ||
        !read_token(&values[3], told->source.process) || !read_token(&values[4], told->source.thread) ||
        !read_token(&values[5], told->source.node))
        return -EBADMSG;
    memcpy(told->where, values[0].text.ptr, values[0].text.len);
    told->time_ns = values[1].integer.bits;
    told->chain = (unsigned)values[2].integer.bits;
    if (told->count)
        memcpy(told->values, values + HEAD, told->count * sizeof *values);
    return 0;
}

int told_read(struct told **ret_told, const struct csr *csr, struct span text)
{
    struct told *told = new_for(csr);
    if (!told)
        return -ENOMEM;
    int code = read_values(told, text);
    if (code < 0) {
        told_free(told);
        return code;
    }
    *ret_told = told;
    return 0;
}

/* ---- as an event again ---- */

void told_event(const struct told *told, const struct csr *csr, struct event *ret_event)
{
    *ret_event = (struct event){.service = csr->event_service,
                                .source = told->source,
                                .time_ns = told->time_ns,
                                .chain = told->chain,
                                .told = &told->as_event};
}

bool told_value(const void *ctx, struct span name, struct value *ret_value)
{
    const struct told *told = ctx;
    for (size_t i = 0; i < told->count; i++)
        if (span_eq(told->names[i], name)) {
            *ret_value = told->values[i];
            return told->values[i].kind != VALUE_PARAM;
        }
    return false;
}
