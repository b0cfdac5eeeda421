/* SPDX-License-Identifier: Apache-2.0 */
/* Notes in records and reports. */
#ifndef SCRY_JOBDIR_TEXT_NOTES_JSON_H
#define SCRY_JOBDIR_TEXT_NOTES_JSON_H

#include <jansson.h>

#include "base/data/notes.h"
#include "jobdir/text/fields.h"

/* {"kind", "note", "fields", "text"}: its group, its name, its fields by their names, and what a person reads. Notes
 * recorded by versions before have "kind" and "text" only. NULL: out of memory. */
json_t *note_json(const struct note *note);
extern const struct field notes_fields[];            /* of it, for schemas */
enum note_kind note_json_kind(const json_t *record); /* NOTE_NONE: of another version */

#endif
