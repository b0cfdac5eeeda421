/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/rules.h"

#include <errno.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/pause.h"
#include "client/client.h"

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
