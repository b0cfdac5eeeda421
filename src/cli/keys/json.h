/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as `scry keys list` and `show` print them, for people and for programs. */
#ifndef SCRY_CLI_KEYS_JSON_H
#define SCRY_CLI_KEYS_JSON_H

#include "jobdir/text/fields.h"
#include "keys/authority.h"

extern const struct field key_fields[]; /* of struct issued; also the columns of the table */

/* "valid", "expired", "not yet", "revoked" */
const char *issued_state(const struct issued *issued);
/* "observe,control"; of jobs "-" */
void issued_put_rights(struct buf *out, const struct key_about *about);
/* "2026-11-23 06:30", in UTC */
void keys_put_date(struct buf *out, time_t time);

/* {"keys": [...]}, and its schema. New references; NULL: out of memory. */
json_t *keys_json(const struct issued *list, size_t count);
json_t *keys_schema(void);

#endif
