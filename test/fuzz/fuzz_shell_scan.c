/* SPDX-License-Identifier: Apache-2.0 */
/* A shell script: its commands stand one behind the other, each within the lines that it is said to have. */
#include "fuzz.h"
#include "job/scripts/scripts.h"
#include "job/scripts/shell.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script_source *text = script_source_new((const char *)data, size);
    struct place place = {0};
    size_t end = 0;
    uint32_t line = 0;
    for (size_t i = 0; i < text->commands.count; i++) {
        const struct shell_command *command = &text->commands.list[i];
        fuzz_expect(command->end > end && command->end <= size);
        fuzz_expect(command->first_line > line && command->last_line >= command->first_line);
        fuzz_expect(script_line_before(text, command->end) == command->last_line);
        end = command->end;
        line = command->last_line;
    }
    for (size_t at = 0; at <= size + 1; at += 1 + size / 16) {
        place_move(&place, text, at);
        fuzz_expect(place.last_line >= place.first_line && place.last_line <= text->line_count);
    }
    struct script_trap trap = script_trap_find((const char *)data, size);
    fuzz_expect(json_array_size(trap.only) <= json_array_size(trap.commands));
    script_trap_done(&trap);
    struct script_tested tested = script_tested_find((const char *)data, size);
    fuzz_expect(json_array_size(tested.commands) <= SCRIPT_TESTED_MOST &&
                json_array_size(tested.conditions) <= json_array_size(tested.commands) &&
                json_array_size(tested.piped) <= SCRIPT_TESTED_MOST);
    script_tested_done(&tested);
    json_t *kills = script_kills_find((const char *)data, size);
    fuzz_expect(json_array_size(kills) <= SCRIPT_KILLS_MOST);
    json_decref(kills);
    script_source_free(text);
    return 0;
}
