/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job/asked.h"

#include <stdio.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "lang/reply.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/registry.h"
#include "monitor/engine/tool.h"
#include "service/ct/job_object.h"

enum { WHO, SERIAL, PID, UID, TEXT, STATUS, WHY, LEFT_OUT, JOB, OUTPUTS };
enum { TEXT_SHOWN = 4096 /* bytes of a request, in the record */, REFUSED_SHOWN = 256 };
static const uint64_t TURN_NS = NS_PER_SECOND / ASKED_PER_SECOND;

static bool match(const struct csr *csr, const struct event *event)
{
    struct span name = csr->event_args[0].text, dir = event->outputs[JOB].text;
    return span_eq(name, dir) || span_eq(name, job_object_id(dir));
}

const struct event_ops asked_ops = {.match = match};

/* Not in the middle of a character. */
static struct span cut(struct span text, size_t most)
{
    if (text.len <= most)
        return text;
    text.len = most;
    while (text.len && ((unsigned char)text.ptr[text.len] & 0xc0) == 0x80)
        text.len--;
    return text;
}

static bool has_turn(struct asked *asked)
{
    uint64_t now = clock_now_ns();
    if (asked->turn_ns < now)
        asked->turn_ns = now;
    if (asked->turn_ns + TURN_NS > now + ASKED_BURST * TURN_NS)
        return false;
    asked->turn_ns += TURN_NS;
    return true;
}

/* Of a tool on this node that is not confined: its program. */
static void name_tool(const struct change *change, char *ret_name, size_t size)
{
    ret_name[0] = 0;
    if (change->pid > 0)
        proc_comm(change->pid, change->pid, ret_name, size);
    if (!ret_name[0])
        snprintf(ret_name, size, "%s", change->pid > 0 ? "a tool that has ended" : "a tool on another node");
}

static int raise_asked(struct monitor *monitor, struct value *outputs)
{
    struct event event = {.service = registry_find(monitor->registry, span_str(ASKED_EVENT)),
                          .time_ns = clock_now_ns(),
                          .outputs = outputs,
                          .output_count = OUTPUTS};
    return event.service->enabled ? event_queue(monitor, &event) : 0;
}

void asked_flush(struct asked *asked, struct monitor *monitor, const char *dir)
{
    struct value none = value_string(span_of("", 0));
    struct value outputs[OUTPUTS] = {[WHO] = none,
                                     [SERIAL] = none,
                                     [PID] = value_int(0),
                                     [UID] = value_int(geteuid()),
                                     [TEXT] = none,
                                     [STATUS] = none,
                                     [WHY] = none,
                                     [LEFT_OUT] = value_int((int64_t)asked->left_out),
                                     [JOB] = value_string(span_str(dir))};
    if (asked->left_out && raise_asked(monitor, outputs) == 0)
        asked->left_out = 0;
}

void asked_tell(struct asked *asked, struct monitor *monitor, const struct change *change, const char *dir)
{
    const struct confinement *of = &change->tool->confined;
    bool refused = change->status == OMIS_NO_PERMISSION;
    char name[64];
    if (!has_turn(asked)) {
        asked->left_out++;
        return;
    }
    asked_flush(asked, monitor, dir);
    if (!of->who)
        name_tool(change, name, sizeof name);
    struct value outputs[OUTPUTS] = {[WHO] = value_string(span_str(of->who ? of->who : name)),
                                     [SERIAL] = value_string(span_str(of->who ? of->serial : "")),
                                     [PID] = value_int(of->who ? 0 : change->pid),
                                     [UID] = value_int(geteuid()), /* others cannot connect */
                                     [TEXT] = value_string(cut(change->text, refused ? REFUSED_SHOWN : TEXT_SHOWN)),
                                     [STATUS] = value_string(span_str(omis_status_name(change->status & ~OMIS_FATAL))),
                                     [WHY] = value_string(change->why),
                                     [LEFT_OUT] = value_int(0),
                                     [JOB] = value_string(span_str(dir))};
    if (raise_asked(monitor, outputs) < 0)
        asked->left_out++; /* out of memory */
}
