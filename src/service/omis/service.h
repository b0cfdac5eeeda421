/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families of services, one file each. A family is a table of rows that ends with an empty one. To add a service,
 * add a row, its handler and a test.
 */
#ifndef SCRY_SERVICE_OMIS_SERVICE_H
#define SCRY_SERVICE_OMIS_SERVICE_H

#include <scry/ext.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "monitor/engine/object.h"

struct event_ops;
struct monitor;
struct mpi_told_message;
struct process;

/* service/all/register.c */
extern const struct scry_service node_services[], proc_services[], proc_memory_services[], proc_event_services[],
    thread_services[], thread_register_services[], thread_event_services[], scry_thread_event_services[],
    scry_thread_services[], scry_process_services[], lib_call_services[], message_services[], csr_services[],
    user_event_services[], misc_services[], scry_services[], job_services[], job_part_services[], job_node_services[],
    job_event_services[], ct_services[], mpi_services[], mpi_message_services[];

/* Registers them all, in the order of the reference. 0 or -errno (a row is wrong: logged). */
int service_register_all(struct monitor *monitor);

/* Lets the agents' events come in, once monitor->agents is there. */
void ct_start(struct monitor *monitor);
void lib_call_start(struct monitor *monitor);

#define SERVICE_END \
    { \
        .name = NULL \
    }

/* ---- what the families share ---- */

/* Priorities of processes and threads: nice values. On Linux every thread has its own. */

/* Is argument 1 of the call a nice value? Answers the call if not. */
bool priority_check(struct scry_call *call);

/* Sets the nice value of one thread, or with tid 0 of all threads of a process, to argument 1. Answers for the call's
 * object. */
void priority_set(struct scry_call *call, struct scry_object *object, pid_t pid, pid_t tid);

/* Messages (message.c), for events and the extension mpi. */
extern const struct event_ops message_tagged_ops, message_extended_ops;

/* The token of a message that a call reported. false: messages are not counted there, or it is not certain which one it
 * is. */
bool message_token(struct monitor *monitor, struct process *process, const struct mpi_told_message *message,
                   char ret_token[TOKEN_TEXT_SIZE]);

#endif
