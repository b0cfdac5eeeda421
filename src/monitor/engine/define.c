/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/execute.h"

#include <errno.h>
#include <string.h>

#include "lang/token.h"
#include "monitor/engine/confine.h"
#include "monitor/engine/convert.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/request_log.h"

static void reply_defined(struct csr *csr, Omis_status status, const char *why)
{
    struct reply_builder reply = {0};
    struct span token = span_str(csr->object.token), text = span_str(why ? why : "");
    bool ok = status == OMIS_OK;
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), OMIS_CSR_DEFINED, ok ? &token : NULL);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), status, ok ? NULL : &text);
    reply_send(csr->session, csr->request_id, !ok, false, &reply);
    reply_done(&reply);
}

/* What another node has is known to its monitor only. */
static bool was_issued(struct monitor *monitor, struct span text)
{
    struct token token;
    return object_was_issued(monitor, text) ||
           (monitor->knows_node && token_parse(text, &token) && token.node != monitor->node_number &&
            monitor->knows_node(monitor, token.node));
}

/* Tokens in an event definition may be of objects that are not attached, or gone, but must have been issued. */
static Omis_status check_event_tokens(struct csr *csr, struct err *err)
{
    const struct service *service = csr->event_service;
    if (service->object_arg < 0)
        return OMIS_OK;
    const struct value *arg = &csr->event_args[service->object_arg];
    const struct value *tokens = arg->kind == VALUE_LIST ? arg->list.items : arg;
    size_t count = arg->kind == VALUE_LIST ? arg->list.count : 1;
    for (size_t i = 0; i < count; i++) {
        struct token token;
        if (!was_issued(csr->object.monitor, tokens[i].text)) {
            err_set(err, -ESRCH, "at byte %u: there is no object %.*s", tokens[i].offset, SPAN_ARG(tokens[i].text));
            return OMIS_UNKNOWN_OBJECT;
        }
        struct scry_object *object = object_find(csr->object.monitor, tokens[i].text);
        Omis_status confined = object ? confine_object(csr->object.owner, object, err) : OMIS_OK;
        if (confined != OMIS_OK)
            return confined;
        if (token_parse(tokens[i].text, &token) &&
            !convert_class_can(token.class, service->object_class, arg->kind == VALUE_LIST)) {
            err_set(err, -EINVAL, "at byte %u: %.*s cannot be converted to an object of class %s_", tokens[i].offset,
                    SPAN_ARG(tokens[i].text), service->object_class);
            return OMIS_TYPE_MISMATCH;
        }
    }
    return OMIS_OK;
}

static Omis_status define_event(struct csr *csr, struct err *err)
{
    const char *missing = registry_missing(csr->event_service);
    if (missing) {
        err_set(err, -EOPNOTSUPP, "unsupported: %s: %s", csr->event_service->row->name, missing);
        return OMIS_UNSUPPORTED_SERVICE;
    }
    Omis_status status = check_event_tokens(csr, err);
    const struct event_ops *ops = event_ops_of(csr->event_service);
    if (status == OMIS_OK && ops && ops->define)
        status = ops->define(csr, err);
    return status;
}

static bool make_part(struct csr *csr, const struct csr_home *home)
{
    csr->home_token = arena_dup(&csr->arena, home->token.ptr, home->token.len);
    csr->far = home->far;
    csr->clock = home->clock;
    if (home->far)
        csr->elsewhere = csr->object.monitor->parts->tell;
    return csr->home_token != NULL;
}

Omis_status define_csr(struct session *session, const struct checked_request *request, const struct csr_home *home)
{
    struct err err = {0};
    uint32_t id = request->id;
    Omis_status status = confine_room(session->tool, request->text.len, &err);
    if (status != OMIS_OK) {
        reply_status(session, id, true, status, "%s", err.text);
        return status;
    }
    struct csr *csr = csr_new(session, request->arena);
    if (!csr || (home && !make_part(csr, home))) {
        reply_status(session, id, true, OMIS_NO_MEMORY, "out of memory");
        if (csr)
            object_end(&csr->object);
        return OMIS_NO_MEMORY;
    }
    csr->request_id = id;
    csr->flags = request->flags;
    csr->request = *request->request;
    csr->text = request->text;
    csr->event_service = request->event;
    csr->event_args = csr->request.event->args;
    csr->actions = request->services;
    status = define_event(csr, &err);
    if (status == OMIS_OK)
        request_log_csr(csr, "defined");
    reply_defined(csr, status, err.text);
    if (status != OMIS_OK)
        object_end(&csr->object);
    else
        csr_changed(csr, CSR_DEFINED);
    return status;
}
