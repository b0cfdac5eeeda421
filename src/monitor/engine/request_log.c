/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/request_log.h"

#include <stdlib.h>

#include "base/system/log.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/process.h"
#include "monitor/engine/tool.h"

static uint32_t tool_id(const struct session *session)
{
    return session->tool ? session->tool->id : 0;
}

void request_log_request(const struct session *session, uint32_t id, uint32_t flags, struct span text)
{
    log_debug("request tool=%u pid=%d id=%u flags=%#x bytes=%zu text=%s", tool_id(session), session->peer_pid, id,
              flags, text.len, LOG_BYTES(text.ptr, text.len));
}

/* The result that says most: the first error, else the first one with a text, else the first. NULL: there is none. */
static const Omis_object_result *telling(Omis_reply reply)
{
    const Omis_object_result *found = NULL;
    for (; *reply; reply++)
        for (const Omis_object_result *each = *reply; each->obj_list; each++) {
            if (each->status >= OMIS_FIRST_ERROR)
                return each;
            if (!found || (!found->result && each->result))
                found = each;
        }
    return found;
}

void request_log_reply(const struct session *session, uint32_t id, bool last, struct span encoded)
{
    Omis_reply reply;
    if (!log_wanted(LOG_DEBUG) || reply_decode(encoded, &reply) < 0)
        return;
    const Omis_object_result *result = telling(reply);
    log_debug("reply tool=%u pid=%d id=%u last=%d bytes=%zu status=%s text=%s", tool_id(session), session->peer_pid, id,
              last, encoded.len, result ? omis_status_name(result->status) : "none",
              LOG_TEXT(result && result->result ? result->result : ""));
    free(reply);
}

void request_log_event(const struct event *event, size_t matched)
{
    log_debug("event service=%s process=%s thread=%s matched=%zu", event->service->row->name,
              event->process ? event->process->object.token : "none",
              event->thread ? event->thread->object.token : "none", matched);
}

void request_log_csr(const struct csr *csr, const char *state)
{
    log_debug("csr token=%s state=%s event=%s tool=%u processes=%u", csr->object.token, state,
              csr->event_service ? csr->event_service->row->name : "none",
              csr->object.owner ? csr->object.owner->id : 0, HASH_COUNT(csr->targets));
}

void request_log_armed(const struct csr *csr, const struct csr_target *target)
{
    log_debug("armed csr=%s process=%s pid=%d status=%s text=%s", csr->object.token, target->process->object.token,
              target->process->pid, target->pending ? "pending" : omis_status_name(target->status),
              LOG_TEXT(target->text ? target->text : ""));
}
