/* SPDX-License-Identifier: Apache-2.0 */
/* Notes that are kept: in memory with their texts, and in files as lines. */
#ifndef SCRY_BASE_DATA_NOTE_LINE_H
#define SCRY_BASE_DATA_NOTE_LINE_H

#include "base/data/notes.h"

/* A note with its own copies of its texts. It points into itself: it is not to be copied or moved. */
struct kept_note {
    struct note note; /* NOTE_NONE: there is none */
    char texts[512];
};

/* Later texts are cut where earlier ones leave no room. `note` may have texts of `kept`'s own only if it is its note.
 */
void note_keep(struct kept_note *kept, const struct note *note);
bool note_equal(const struct note *one, const struct note *other);

/* As a line without its end: the name, the fields, and the text for versions that do not know it. Tabs separate them; a
 * backslash stands before tabs and backslashes in them. */
void note_put_line(struct buf *out, const struct note *note);
/* Any text: what is no note, or none of this version, becomes NOTE_said. */
void note_read_line(struct kept_note *ret_note, const char *line);

#endif
