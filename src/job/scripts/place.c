/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/place.h"

void place_move(struct place *place, const struct script_text *text, size_t position)
{
    size_t before = place->exact ? place->position : place->done;
    const struct shell_command *command = script_command_ending(text, position);
    place->position = position;
    place->exact = false;
    place->first_line = place->last_line = 0;
    if (position == 0 || !text->line_count || position > text->len) {
        place->done = 0;
        return;
    }
    /* At the end of the file only one command may be meant. */
    if (command && (position < text->len || script_line_before(text, before) + 1 >= command->first_line)) {
        place->exact = true;
        place->done = text->lines[command->first_line - 1];
        place->first_line = command->first_line;
        place->last_line = command->last_line;
        return;
    }
    if (before > position) /* the file was changed, or it was no such shell */
        before = 0;
    place->done = before;
    place->first_line = script_line_before(text, before) + 1;
    place->last_line = script_line_before(text, position);
    if (place->first_line > place->last_line) /* it has come to the end: a trap at exit, perhaps */
        place->first_line = place->last_line = 0;
}
