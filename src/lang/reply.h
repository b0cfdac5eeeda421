/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LANG_REPLY_H
#define SCRY_LANG_REPLY_H

#include "base/data/buf.h"

#include <omis.h>
#include <scry/omis.h>
#include <stdbool.h>

/*
 * Replies (specification 7.3): built service by service, sent as bytes, and decoded into the structure of omis.h.
 *
 * Encoding, little-endian:   u32 service_count { u32 result_count { u32 status, u32 objects_len, objects,
 *                            u32 result_len or 0xffffffff for NULL, result } }
 */

enum {
    REPLY_SIZE_LIMIT = 64 << 20,  /* bytes of one reply: a frame takes no more */
    REPLY_NO_RESULT = 0xffffffff, /* in place of the length of a result */
};

/* Building. Zero-initialised is ready; errors are sticky in bytes.failed. */
struct reply_builder {
    struct buf bytes;
    bool full;    /* a result would have exceeded the limit: it and all after it are missing */
    size_t limit; /* of its bytes; 0: REPLY_SIZE_LIMIT */
    uint32_t service_count;
    size_t count_at; /* where the result count of the open service stands */
    size_t last_at;  /* where the last result starts, for merging; 0 when none */
    uint32_t result_count;
    Omis_status first_error; /* of the actions; OMIS_OK: none */
    bool only_ok;            /* so far every result beyond element 0 is OMIS_OK without text (OMIS_DONT_RETURN_OK) */
};

void reply_begin(struct reply_builder *reply); /* clears, keeps its memory and its limit */

/* Opens the next element; element 0 is the request as a whole. */
void reply_service(struct reply_builder *reply);

/* Adds a result to the open element. objects: one token, or "". A result equal to the one before (same status and text,
 * both with objects) is merged: its object is appended to that list. `text` NULL: no result. */
void reply_result(struct reply_builder *reply, struct span objects, Omis_status status, const struct span *text);

void reply_done(struct reply_builder *reply); /* frees; the bytes are complete after every call before */

/* Decodes foreign bytes, and checks everything. *ret_reply is one block from malloc, freed by free(). Strings are
 * NUL-terminated. 0, -EBADMSG or -ENOMEM. */
int reply_decode(struct span bytes, Omis_reply *ret_reply);

/* Reading without a copy: begin checks everything, so what follows cannot fail. */
struct reply_reader {
    const char *at, *end;
    uint32_t service_count;
};
struct reply_part {
    Omis_status status;
    bool has_text;
    struct span objects, text; /* in the bytes; objects have no NUL inside */
};
bool reply_read_begin(struct reply_reader *reader, struct span bytes); /* false: this is no reply */
uint32_t reply_read_service(struct reply_reader *reader); /* how many results the next element has; read all of them */
struct reply_part reply_read_part(struct reply_reader *reader);

/* The length of a result that may contain NULs in binary data (LENGTH#BYTES), by the language's rules. Only for results
 * of actions (element 1 and up) with a status below OMIS_FIRST_ERROR: error texts end at the first NUL. NULL has length
 * 0. */
size_t reply_result_length(const char *result);

/*
 * Replies that omis_request makes in the process that asked: made on the spot, filtered by the flags, and freed. Used
 * by libomis, and in the monitor for extensions.
 */

/* A reply of one element with a copy of text, which may be NULL. Never NULL: without memory it is a reply that says so.
 */
Omis_reply local_reply_new(Omis_status status, const char *text);
Omis_reply local_reply_no_memory(void);
void local_reply_free(Omis_reply reply); /* also those of reply_decode; NULL is fine */

/* Do the flags (OMIS_DONT_RETURN_...) keep the reply from a callback? */
bool local_reply_unwanted(Omis_reply reply, Omis_flags flags);

#endif
