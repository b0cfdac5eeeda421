/* SPDX-License-Identifier: Apache-2.0 */
/* How `scry omis` shows replies. */
#ifndef SCRY_CLI_OMIS_PRINT_H
#define SCRY_CLI_OMIS_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <omis.h>

/* Prints a line for each result: "OBJECTS: RESULT", with errors by their names. Replies of a conditional request
 * (`first` false, or a state of 7.3.1) begin with a line that has the request's number. */
void omis_print_text(FILE *out, Omis_reply reply, uint32_t number, bool color);

/* Prints one JSON object on one line: {"request":N,"services":[[{"objects":[...],"status":N,"result":"..."}]]}. Results
 * that are not UTF-8 are in "result_base64" instead. */
void omis_print_json(FILE *out, Omis_reply reply, uint32_t number);

/* Whether any status in it is an error. */
bool omis_reply_has_error(Omis_reply reply);

/* Writes control characters and bytes that are not UTF-8 as \xNN, so that no result can control the terminal. */
void omis_print_safely(FILE *out, const char *text, size_t len);

#endif
