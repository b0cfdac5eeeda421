/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/local_reply.h"

#include <stdlib.h>
#include <string.h>

/* Returned if there is no memory for a reply. Arrays, since a tool may write to a reply. */
static char no_memory_objects[] = "";
static char no_memory_text[] = "out of memory: the tool has no memory left for the reply";
static Omis_object_result no_memory_results[] = {{no_memory_objects, OMIS_NO_MEMORY, no_memory_text}, {NULL, 0, NULL}};
static Omis_service_result no_memory_reply[] = {no_memory_results, NULL};

/* One block, as from reply_decode, so that free() frees either. */
struct local_reply {
    Omis_service_result services[2];
    Omis_object_result results[2];
    char objects[1];
    char text[];
};

Omis_reply local_reply_no_memory(void)
{
    return no_memory_reply;
}

Omis_reply local_reply_new(Omis_status status, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    struct local_reply *reply = calloc(1, sizeof *reply + len + 1);
    if (!reply)
        return no_memory_reply;
    if (len)
        memcpy(reply->text, text, len);
    reply->results[0] = (Omis_object_result){reply->objects, status, text ? reply->text : NULL};
    reply->services[0] = reply->results;
    return reply->services; /* the first member: the block's own address */
}

void local_reply_free(Omis_reply reply)
{
    if (reply != no_memory_reply)
        free(reply);
}

/* OMIS_DONT_RETURN_OK: the reply has only OK statuses. */
static bool only_ok(Omis_reply reply)
{
    if (!reply[0] || (reply[0]->status != OMIS_OK && reply[0]->status != OMIS_CSR_TRIGGERED))
        return false;
    for (size_t i = 1; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status != OMIS_OK || (result->result && *result->result))
                return false;
    return true;
}

/* OMIS_DONT_RETURN_EN_DIS: the reply is "enabled" or "disabled", without an error. */
static bool only_enabled_or_disabled(Omis_reply reply)
{
    if (!reply[0] || (reply[0]->status != OMIS_CSR_ENABLED && reply[0]->status != OMIS_CSR_DISABLED))
        return false;
    for (size_t i = 1; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status >= OMIS_FIRST_ERROR)
                return false;
    return true;
}

bool local_reply_unwanted(Omis_reply reply, Omis_flags flags)
{
    return ((flags & OMIS_DONT_RETURN_OK) && only_ok(reply)) ||
           ((flags & OMIS_DONT_RETURN_EN_DIS) && only_enabled_or_disabled(reply));
}
