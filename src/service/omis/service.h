/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families of services, one file each. A family is a table of rows that ends with an empty one. To add a service,
 * add a row, its handler and a test.
 */
#ifndef SCRY_SERVICE_OMIS_SERVICE_H
#define SCRY_SERVICE_OMIS_SERVICE_H

#include <scry/ext.h>

struct monitor;

/* service/all/register.c registers them. */
extern const struct scry_service node_services[], proc_services[], proc_memory_services[], proc_event_services[],
    thread_services[], thread_register_services[], thread_event_services[], scry_thread_event_services[],
    scry_thread_services[], scry_process_services[], lib_call_services[], message_services[], csr_services[],
    user_event_services[], misc_services[], scry_services[], job_services[], job_part_services[], job_node_services[],
    ct_services[], mpi_services[], mpi_message_services[];

/* Lets the agents' events come in, once monitor->agents is there. */
void ct_start(struct monitor *monitor);
void lib_call_start(struct monitor *monitor);

#define SERVICE_END \
    { \
        .name = NULL \
    }

#endif
