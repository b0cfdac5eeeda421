/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies that omis_request makes in the process that asked: made on the spot, filtered by the flags, and freed. Used
 * by libomis, and in the monitor for extensions.
 */
#ifndef SCRY_LANG_LOCAL_REPLY_H
#define SCRY_LANG_LOCAL_REPLY_H

#include <stdbool.h>

#include <omis.h>

/* A reply of one element with a copy of text, which may be NULL. Never NULL: without memory it is a reply that says so.
 */
Omis_reply local_reply_new(Omis_status status, const char *text);
Omis_reply local_reply_no_memory(void);
void local_reply_free(Omis_reply reply); /* also those of reply_decode; NULL is fine */

/* Do the flags (OMIS_DONT_RETURN_...) keep the reply from a callback? */
bool local_reply_unwanted(Omis_reply reply, Omis_flags flags);

#endif
