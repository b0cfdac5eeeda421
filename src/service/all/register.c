/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>

#include "base/system/log.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/tracing/tracing.h"
#include "service/omis/service.h"

static const struct {
    const char *extension; /* "" is the basic monitoring system */
    const struct scry_service *rows;
} families[] = {
    {"", node_services},
    {"", proc_services},
    {"", proc_memory_services},
    {"", proc_event_services},
    {"", thread_services},
    {"", thread_register_services},
    {"", thread_event_services},
    {"", lib_call_services},
    {"", message_services},
    {"", csr_services},
    {"", user_event_services},
    {"", misc_services},
    {"scry", scry_services},
    {"scry", scry_thread_event_services},
    {"scry", scry_thread_services},
    {"scry", scry_process_services},
    {"job", job_services},
    {"job", job_part_services},
    {"job", job_node_services},
    {"job", job_event_services},
    {"ct", ct_services},
    {"mpi", mpi_services},
    {"mpi", mpi_message_services},
};

int service_register_all(struct monitor *monitor)
{
    struct registry *registry = monitor->registry;
    struct err err;
    monitor->tracing = &tracing_for_engine;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *extension = families[i].extension;
        if (*extension && !registry_has_extension(registry, span_str(extension)) &&
            registry_add_extension(registry, extension, &err) < 0) {
            log_error("%s", err.text);
            return -EINVAL;
        }
        for (const struct scry_service *row = families[i].rows; row->name; row++)
            if (registry_add(registry, row, extension, &err) < 0) {
                log_error("%s", err.text);
                return -EINVAL;
            }
    }
    return 0;
}
