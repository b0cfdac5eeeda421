/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a script, its lines, and the commands in it: read once, and shared by all shells that execute the same
 * file. Not thread-safe.
 */
#ifndef SCRY_JOB_SCRIPTS_SCRIPT_TEXT_H
#define SCRY_JOB_SCRIPTS_SCRIPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <uthash.h>

#include "base/data/buf.h"
#include "job/scripts/shell_scan.h"

enum {
    SCRIPT_TEXT_BYTES = 10 << 20, /* of longer scripts the lines are not known */
    SCRIPT_TEXT_TOTAL = 64 << 20, /* of all together */
    SCRIPT_COMMAND_BYTES = 200,   /* of a command's text; the rest is cut */
};

struct script_key { /* a file that was changed is another one */
    uint64_t device, inode, size, modified_ns;
};

struct script_text {
    struct script_key key;
    char *text; /* NULL: not known */
    size_t len;
    size_t *lines; /* the offset of each line's beginning */
    size_t line_count, line_room;
    struct shell_commands commands;
    unsigned users;
    UT_hash_handle hh;
};

struct script_texts {
    struct script_text *all; /* those with users */
    size_t bytes;
};

struct script_key script_key_of(const struct stat *stat);
bool script_key_same(const struct script_key *one, const struct script_key *other);

/* The text behind `path`, a regular file of which `stat` is; one more user. NULL: out of memory. What cannot be read,
 * or is too much, has no text. */
struct script_text *script_text_get(struct script_texts *texts, const char *path, const struct stat *stat);
void script_text_put(struct script_texts *texts, struct script_text *text); /* NULL is fine */
/* The same of bytes at hand, for nobody else. */
struct script_text *script_text_new(const char *bytes, size_t len);
void script_text_free(struct script_text *text);

/* The line in which the byte before `offset` is, from 1; 0: none is. */
uint32_t script_line_before(const struct script_text *text, size_t offset);
/* The command that ends there. NULL: none does, as far as is known. */
const struct shell_command *script_command_ending(const struct script_text *text, size_t offset);
/* Appends the text of a command in these lines: the first line. "..." is in the place of the rest. */
void script_command_show(struct buf *out, const struct script_text *text, uint32_t first_line, uint32_t last_line);

#endif
