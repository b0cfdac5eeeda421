/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies as omis_request hands them out, where it runs in the same process as whoever asked: those that are made on
 * the spot, the filters of its flags, and the end of every reply. Used by libomis, and in the monitor for extensions.
 */
#ifndef SCRY_LANG_LOCAL_REPLY_H
#define SCRY_LANG_LOCAL_REPLY_H

#include <stdbool.h>

#include <omis.h>

/* One element with a copy of text, which may be NULL. Never NULL: without memory it says that. */
Omis_reply local_reply_new(Omis_status status, const char *text);
Omis_reply local_reply_no_memory(void);
void local_reply_free(Omis_reply reply); /* also those of reply_decode; NULL is fine */

/* Whether the flags (OMIS_DONT_RETURN_...) keep the reply from a callback. */
bool local_reply_unwanted(Omis_reply reply, Omis_flags flags);

#endif
