/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry/omis.h: what libomis has beyond the six procedures of <omis.h>: a reader of replies, the names of statuses, and
 * a time limit for requests. Every function here may be handed NULL, and a value of another kind than it is for:
 * whatever a monitor answers, a tool that reads it with these does not crash. As in <omis.h>, one thread at a time;
 * none of them may be called from signal handlers.
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

/* "OMIS_UNKNOWN_OBJECT", ...; with OMIS_FATAL: "OMIS_OS_ERROR|OMIS_FATAL"; "unknown status" for others. Never NULL. */
const char *omis_status_name(Omis_status status);

/* ---- a time limit ---- */

/* For the requests that are sent from now on: the first reply comes within `milliseconds`, or in its place one made by
 * the library, with OMIS_OS_ERROR in element 0 and the reason in words. 0, the default: no limit. It holds for calls
 * that wait and for callbacks, which omis_handler calls when the time is over (omis_fd is readable then).
 *
 * A monitor cannot be told to forget a request, so it may still be carried out: what is answered later goes to the
 * callback as ever, and is dropped where there is none. The option --omis-timeout=SECONDS of omis_init does the same.
 */
void omis_set_timeout(unsigned milliseconds);

/* ---- the reader ---- */

/* Goes through all results of a reply: those of element 0 (the request as a whole), then those of each action. The
 * reply is read, never written, and must live as long as the reader. What the reader hands out (values, texts) is the
 * reader's and lives until omis_reader_free. NULL when there is no memory; a NULL reply has no results. */
struct omis_reader;
struct omis_reader *omis_reader_new(Omis_reply reply);
/* The same, but the reply is the reader's: omis_reader_free frees it, too; where there is no memory it is freed at
 * once.
 */
struct omis_reader *omis_reader_take(Omis_reply reply);
void omis_reader_free(struct omis_reader *reader);

/* To the next result: 1, or 0 when there is none. A new reader stands before the first. */
int omis_reader_next(struct omis_reader *reader);

/* To the first result of an action (from 1; 0: the request as a whole), wherever the reader stands: 1, or 0 when it has
 * none. Then omis_reader_error says why the request as a whole was refused, if it was: an action without objects has no
 * results, and that is no error. */
int omis_reader_find(struct omis_reader *reader, size_t action);

/* Of the result where the reader stands: the action's number, */
size_t omis_reader_action(const struct omis_reader *reader);
/* its status (OMIS_OK where the reader stands nowhere), */
Omis_status omis_reader_status(const struct omis_reader *reader);
/* the result as it came, in the language, or the description of the error, "" where there is none, */
const char *omis_reader_text(const struct omis_reader *reader);
/* the token of its index-th object, or NULL behind the last, */
const char *omis_reader_object(struct omis_reader *reader, size_t index);
/* what went wrong, for people ("OMIS_UNKNOWN_OBJECT: there is no p_1_9", or that the result is not in the language), or
 * NULL when all is well, */
const char *omis_reader_error(struct omis_reader *reader);

/* and its values, as a list: empty where there are none, and of results that are errors. Never NULL. */
struct omis_value;
const struct omis_value *omis_reader_values(struct omis_reader *reader);

/* The first error of the whole reply, for people, or NULL. The reader stays where it is. */
const char *omis_reader_first_error(struct omis_reader *reader);

/* ---- values (specification 7.2.2) ---- */

enum omis_kind {
    OMIS_KIND_NONE, /* no value: behind the end of a list */
    OMIS_KIND_INTEGER,
    OMIS_KIND_FLOATING,
    OMIS_KIND_STRING,
    OMIS_KIND_TOKEN,
    OMIS_KIND_BINARY, /* LENGTH#BYTES */
    OMIS_KIND_LIST
};
enum omis_kind omis_kind(const struct omis_value *value);

/* Integers lie between -2^63 and 2^64-1. As signed ones; above 2^63-1, that. 0 for other kinds. */
int64_t omis_integer(const struct omis_value *value);
/* As unsigned ones, for addresses, registers and counts; 0 for negative ones (-1 is what is not known) and other kinds.
 */
uint64_t omis_unsigned(const struct omis_value *value);
/* Floating point numbers, also infinities and NaNs, bit by bit; and integers, converted. 0 for other kinds. */
double omis_floating(const struct omis_value *value);
/* The same with the precision and range of the x87, for its registers. */
long double omis_long_floating(const struct omis_value *value);

/* The bytes of a string (its escapes resolved), of a token, or of binary data, with a NUL behind them; "" for other
 * kinds. Strings and binary data may hold NULs: `ret_length`, which may be NULL, gets how many bytes there are. */
const char *omis_text(const struct omis_value *value, size_t *ret_length);

/* How many values a list has, 0 for other kinds; and one of them, NULL behind the end. Lists of structures are flat
 * (7.4): [pc, fp, pc, fp] are two frames. */
size_t omis_count(const struct omis_value *list);
const struct omis_value *omis_item(const struct omis_value *list, size_t index);

#ifdef __cplusplus
}
#endif

#endif
