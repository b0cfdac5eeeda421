/* SPDX-License-Identifier: Apache-2.0 */
/* Services on messages and message queues (specification 8.1.4). They need a message passing library that is watched.
 */
#include "service/service.h"

static const char *no_messages(void)
{
    return "messages are seen inside the message passing library, which this version of scry does not watch";
}

#define MESSAGE_ROW(name, kind, signature, doc) \
    { \
        name, kind, signature, SCRY_OPTIONAL, NULL, doc, .missing = no_messages \
    }

const struct scry_service message_services[] = {
    MESSAGE_ROW("message_insert_into_queue", SCRY_MANIPULATION, "token<m> msg, token<q> queue, integer pos -> void",
                "Insert a message into a message queue."),
    MESSAGE_ROW("message_queue_remove", SCRY_MANIPULATION, "token<q> queue, token<m> msg -> void",
                "Remove a message from a message queue."),
    MESSAGE_ROW("message_queue_clear", SCRY_MANIPULATION, "token<q>* queue_list -> void", "Clear message queues."),
    MESSAGE_ROW("message_tag", SCRY_MANIPULATION, "token<m>* msg_list, integer tag -> void",
                "Add a monitor tag to messages."),
    MESSAGE_ROW("message_create", SCRY_MANIPULATION, "-> token", "Create a new message."),
    MESSAGE_ROW("message_copy", SCRY_MANIPULATION, "token<m> src, token<m> dst -> void", "Copy a message."),
    MESSAGE_ROW("message_destroy", SCRY_MANIPULATION, "token<m>* msg_list -> void", "Destroy messages."),
    MESSAGE_ROW("message_queue_get_info", SCRY_INFORMATION,
                "token<q>* queue_list, integer flags -> { integer queue_length; any* messages }",
                "Return information on message queues."),
    MESSAGE_ROW("message_queue_has_been_extended", SCRY_EVENT,
                "token<q>* queue_list -> { token queue; token msg; token sender; integer size; integer monitor_tag }",
                "A message has been appended to a message queue."),
    SERVICE_END,
};
