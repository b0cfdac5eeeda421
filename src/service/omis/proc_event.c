/* SPDX-License-Identifier: Apache-2.0 */
/* Event services on processes (specification 8.1.2). */
#include "monitor/engine/event.h"
#include "monitor/engine/switching.h"
#include "probe/switches.h"
#include "service/omis/service.h"

/* A traced process is reported while its memory can still be read, others by their pidfd. The event alone does not
 * start tracing. */
static void wish_thread_exit(struct trace_need *need)
{
    need->watch.thread_exit = true;
}

static const struct event_ops terminated_ops = {.object_class = "p", .wish = wish_thread_exit};

/* Raised by monitor/tracing/runstate.c, which decides run states. */
static const struct event_ops runstate_ops = {.object_class = "p"};

static const struct event_ops switching_ops = {
    .object_class = "p", .arm = switching_arm, .disarm = switching_disarm, .wish = switching_wish};

static const char *no_migration(void)
{
    return "processes cannot be moved: this monitor knows only its own node";
}

const struct scry_service proc_event_services[] = {
    {"proc_has_terminated", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_REQUIRED, NULL, "A process has terminated.",
     .event = &terminated_ops},
    {"proc_has_been_stopped", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_REQUIRED, NULL,
     "All threads of a process have been stopped by the monitoring system.", .event = &runstate_ops},
    {"proc_has_been_continued", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_REQUIRED, NULL,
     "All threads of a process that was stopped have been continued by the monitoring system.", .event = &runstate_ops},
    {"proc_has_been_scheduled", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_OPTIONAL, NULL,
     "A process got a processor (reported afterwards).", .missing = switches_missing, .event = &switching_ops},
    {"proc_has_been_descheduled", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_OPTIONAL, NULL,
     "A process lost its processor (reported afterwards).", .missing = switches_missing, .event = &switching_ops},
    {"proc_will_be_migrated", SCRY_EVENT, "token<p>* proc_list -> { integer dest_node }", SCRY_OPTIONAL, NULL,
     "A process is going to be migrated.", .missing = no_migration},
    {"proc_has_been_migrated", SCRY_EVENT, "token<p>* proc_list -> void", SCRY_OPTIONAL, NULL,
     "A process has been migrated to another node.", .missing = no_migration},
    SERVICE_END,
};
