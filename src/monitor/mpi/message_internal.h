/* SPDX-License-Identifier: Apache-2.0 */
/* Between mpi/messages.c (queues, tags), mpi/message_event.c (what processes report) and mpi/message_command.c (what is
 * to be done). */
#ifndef SCRY_MONITOR_MPI_MESSAGE_INTERNAL_H
#define SCRY_MONITOR_MPI_MESSAGE_INTERNAL_H

#include "monitor/mpi/messages.h"

struct mpi_message_job;

struct mpi_messages {
    struct mpi_process *process;
    void *area; /* all of it, mapped */
    bool wanted, known;
    unsigned tagged, extended; /* requests that watch */
    uint64_t raised;           /* of mpim.raised, those that were handled */
    unsigned raising;
    struct mpi_message_job *first, *last; /* to be done; the first is put */
    uint32_t serial;
};

bool mpi_open_fits(const struct mpim_open *open, const struct message_id *id);
void mpi_message_commands_look(struct mpi_process *process, struct mpim *block);
void mpi_message_commands_end(struct mpi_process *process);
/* A monitor before this one may have been killed over a command: it is taken back, or its answer thrown away; and the
 * files of content that it left are removed, before any process is adopted. */
void mpi_message_commands_adopt(struct mpi_process *process);
void mpi_message_files_remove(struct agents *agents);
/* A queue of the job is watched, or is not any more: its ranks get to know which. */
void mpi_message_watch_all(struct mpi_process *process);

#endif
