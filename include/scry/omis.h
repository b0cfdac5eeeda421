/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry/omis.h: what libomis adds to the six procedures of <omis.h>: a reader of replies, the names of statuses, and a
 * time limit for requests. Every function accepts NULL, and values of another kind than it is for: whatever a monitor
 * answers, a tool that reads it with these functions does not crash. As with <omis.h>, call them from one thread at a
 * time, and not from signal handlers.
 *
 *     struct omis_reader *reader =
 *         omis_reader_take(omis_request(": thread_get_backtrace([t_1_4], 0)", NULL, NULL, 0));
 *     while (omis_reader_next(reader)) {
 *         if (omis_reader_error(reader))
 *             fprintf(stderr, "%s\n", omis_reader_error(reader));
 *         const struct omis_value *frames = omis_item(omis_reader_values(reader), 1);
 *         for (size_t i = 0; i + 1 < omis_count(frames); i += 2)
 *             printf("%s: pc %#" PRIx64 "\n", omis_reader_object(reader, 0), omis_unsigned(omis_item(frames, i)));
 *     }
 *     omis_reader_free(reader);
 */
#ifndef SCRY_OMIS_H
#define SCRY_OMIS_H

#include <stddef.h>
#include <stdint.h>

#include <omis.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statuses ---- */

/* "OMIS_UNKNOWN_OBJECT", or with OMIS_FATAL "OMIS_OS_ERROR|OMIS_FATAL". "unknown status" for others. Never NULL. */
const char *omis_status_name(Omis_status status);

/* ---- a time limit ---- */

/* Limits how long the requests sent from now on wait for their first reply. If none came within `milliseconds`, the
 * library makes one, with OMIS_OS_ERROR in element 0 and the reason in words. 0, the default: no limit. With callbacks,
 * omis_handler calls them when the time is over; omis_fd is readable then.
 *
 * The monitor may still carry out the request, for it cannot be told to forget it. A late reply goes to the callback as
 * usual, and is dropped if there is none. The option --omis-timeout=SECONDS of omis_init does the same. */
void omis_set_timeout(unsigned milliseconds);

/* ---- the reader ---- */

/* Goes through all results of a reply: first those of element 0 (the request as a whole), then those of each action.
 * The reply is only read, and must live as long as the reader. Values and texts belong to the reader and live until
 * omis_reader_free. NULL: out of memory. A NULL reply has no results. */
struct omis_reader;
struct omis_reader *omis_reader_new(Omis_reply reply);
/* The same, but the reader takes the reply and omis_reader_free frees it. It is freed at once if there is no memory. */
struct omis_reader *omis_reader_take(Omis_reply reply);
void omis_reader_free(struct omis_reader *reader);

/* Goes to the next result: 1, or 0 when there is none. A new reader stands before the first. */
int omis_reader_next(struct omis_reader *reader);

/* Goes to the first result of an action (from 1; 0: the request as a whole): 1, or 0 when it has none. Then
 * omis_reader_error returns why the request as a whole was refused, or NULL: an action without objects has no results,
 * and that is no error. */
int omis_reader_find(struct omis_reader *reader, size_t action);

/* About the current result: the action's number. */
size_t omis_reader_action(const struct omis_reader *reader);
/* Its status; OMIS_OK if there is no current result. */
Omis_status omis_reader_status(const struct omis_reader *reader);
/* The result as it came, in the language, or the description of the error; "" if there is none. */
const char *omis_reader_text(const struct omis_reader *reader);
/* The token of its index-th object; NULL after the last. */
const char *omis_reader_object(struct omis_reader *reader, size_t index);
/* What went wrong, for people: "OMIS_UNKNOWN_OBJECT: there is no p_1_9", or that the result is not in the language.
 * NULL: nothing did. */
const char *omis_reader_error(struct omis_reader *reader);

/* Its values, as a list. Empty if there are none, and for errors. Never NULL. */
struct omis_value;
const struct omis_value *omis_reader_values(struct omis_reader *reader);

/* The first error of the whole reply, for people, or NULL. The reader stays where it is. */
const char *omis_reader_first_error(struct omis_reader *reader);

/* ---- values (specification 7.2.2) ---- */

enum omis_kind {
    OMIS_KIND_NONE, /* no value: after the end of a list */
    OMIS_KIND_INTEGER,
    OMIS_KIND_FLOATING,
    OMIS_KIND_STRING,
    OMIS_KIND_TOKEN,
    OMIS_KIND_BINARY, /* LENGTH#BYTES */
    OMIS_KIND_LIST
};
enum omis_kind omis_kind(const struct omis_value *value);

/* Integers lie between -2^63 and 2^64-1. This returns INT64_MAX for larger ones, and 0 for other kinds. */
int64_t omis_integer(const struct omis_value *value);
/* For addresses, registers and counts. 0 for negative integers (-1 means: not known) and for other kinds. */
uint64_t omis_unsigned(const struct omis_value *value);
/* Floating-point numbers bit by bit, also infinities and NaNs. Integers are converted. 0 for other kinds. */
double omis_floating(const struct omis_value *value);
/* The same with the precision and range of the x87, for its registers. */
long double omis_long_floating(const struct omis_value *value);

/* The bytes of a string (escapes resolved), a token, or binary data, with a NUL after them. "" for other kinds. Strings
 * and binary data may contain NULs: *ret_length (may be NULL) gets the number of bytes. */
const char *omis_text(const struct omis_value *value, size_t *ret_length);

/* The number of values in a list, 0 for other kinds; and one of them, NULL after the end. Lists of structures are flat
 * (7.4): [pc, fp, pc, fp] are two frames. */
size_t omis_count(const struct omis_value *list);
const struct omis_value *omis_item(const struct omis_value *list, size_t index);

#ifdef __cplusplus
}
#endif

#endif
