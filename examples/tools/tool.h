/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the example tools share: each of them is a short program over this and libomis. Copy it into your own.
 *
 * For a tool that is run by hand an error is the end: it is said, and the program exits with status 1. The monitor then
 * undoes what the tool did to processes, as if it had crashed.
 */
#ifndef TOOL_H
#define TOOL_H

#include <scry/omis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* omis_init, with this name in front of error messages. It takes the --omis-... options out of argv. */
void tool_start(const char *name, int *argc, char ***argv, int *tool_id);

/* "NAME: what went wrong", and exit(1). */
_Noreturn void tool_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sends an unconditional request, made as printf does, and waits for its answer. The reader stands at the first result
 * of the first action; omis_reader_free is its end. */
struct omis_reader *tool_ask(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, but an error is left to the caller: omis_reader_error. */
struct omis_reader *tool_try(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same as tool_ask for requests of which only the first value matters, as text: mostly a token. In memory that is
 * never freed.
 */
const char *tool_ask_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Defines a conditional request and enables it. `event` is called from tool_wait each time the event occurs, with the
 * reader of what the action list gave, which is freed afterwards. */
typedef void tool_event_fn(struct omis_reader *reader, void *param);
void tool_on(tool_event_fn *event, void *param, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Waits, at most so long (-1: for ever), and calls what tool_on was given. Returns then. */
void tool_wait(int milliseconds);

/* Text as a string of the request language, in quotation marks. In memory that is never freed. */
const char *tool_quote(const char *text);

/* ---- symbols.c: names of functions, from the symbol tables of a process's files ---- */

/* Reads the tables of all files that a process has loaded so far; may be called again. */
void symbols_load(const char *process);
uint64_t symbols_address(const char *name); /* of a function in any file; 0: there is none */
const char *symbols_name(uint64_t address); /* the function that an address is in, else "[FILE]", else "?" */

#endif
