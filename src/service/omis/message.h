/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_OMIS_MESSAGE_H
#define SCRY_SERVICE_OMIS_MESSAGE_H

#include "monitor/engine/messages.h"
#include "monitor/mpi/messages.h"
#include "shm/mpi_told.h"

/* What the message services share with events and with the extension mpi. */

extern const struct event_ops message_tagged_ops, message_extended_ops;

/* The token of a message that a call reported. false: messages are not counted there, or it is not certain which one it
 * is. */
bool message_token(struct monitor *monitor, struct process *process, const struct mpi_told_message *message,
                   char ret_token[TOKEN_TEXT_SIZE]);

#endif
