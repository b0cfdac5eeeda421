/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table for the build, which makes completion and man pages from it (tools/option_table.py reads it). The
 * fields of a line are separated by tabs.
 *
 *     command  name  what follows the options  description  usage...
 *     setting  name
 *     option   command  letter  name  argument  1: it may be left out  values: @dir, @file, words  help
 */
#include <stdio.h>

#include "options/table.h"

static const char *values_of(const struct option_row *row)
{
    return row->type == OPTION_DIR ? "@dir" : row->type == OPTION_FILE ? "@file" : row->words ? row->words : "";
}

/* By one of its names. */
static void command_print(enum command number, const char *name)
{
    static const char *const kinds[] = {"",         "jobs",    "settings", "command",
                                        "commands", "actions", "tasks"}; /* enum word_kind */
    const struct command_row *command = &command_rows[number];
    printf("command\t%s\t%s\t%s", name, kinds[command->words], command->description);
    for (size_t usage = 0; usage < sizeof command->usage / sizeof *command->usage && command->usage[usage]; usage++)
        printf("\t%s", command->usage[usage]);
    putchar('\n');
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++)
        if (row->commands & 1u << number)
            printf("option\t%s\t%.1s\t%s\t%s\t%d\t%s\t%s%s%s%s\n", name, &row->letter, row->name,
                   row->argument ? row->argument : "", (row->flags & OPTION_OPTIONAL) != 0, values_of(row), row->help,
                   row->otherwise ? " (default " : "", row->otherwise ? row->otherwise : "", row->otherwise ? ")" : "");
}

int main(void)
{
    for (enum command i = 0; i < COMMANDS; i++) {
        command_print(i, command_rows[i].name);
        if (command_rows[i].alias)
            command_print(i, command_rows[i].alias);
    }
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++)
        if (row->flags & OPTION_SETTING)
            printf("setting\t%s\n", row->name);
    return 0;
}
