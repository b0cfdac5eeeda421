/* SPDX-License-Identifier: Apache-2.0 */
/* A folder with files, in place of / for what is read, and the notes that come of it. */
#ifndef SCRY_JOB_HEALTH_TEST_TREE_H
#define SCRY_JOB_HEALTH_TEST_TREE_H

/* cmocka wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/notes.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "job/health/health.h"

struct tree {
    char root[64];
    struct look look;
    struct buf said; /* a line a note: its name, and its text */
};

static inline void tree_say(void *ctx, struct note note)
{
    struct tree *tree = ctx;
    buf_printf(&tree->said, "%s: ", note_name(note.kind));
    note_text(&tree->said, &note);
    buf_putc(&tree->said, '\n');
}

static inline void tree_init(struct tree *tree)
{
    *tree = (struct tree){.root = "/tmp/scry-health-XXXXXX"};
    assert_non_null(mkdtemp(tree->root));
    tree->look =
        (struct look){.root = tree->root, .now_ns = UINT64_C(1000) * NS_PER_SECOND, .say = tree_say, .ctx = tree};
}

static inline void tree_done(struct tree *tree)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", tree->root);
    assert_int_equal(system(command), 0);
    buf_done(&tree->said);
}

static inline void tree_write_bytes(struct tree *tree, const char *name, const void *bytes, size_t len)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s", tree->root, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    assert_int_equal(dirs_make(path, 0700), 0);
    *slash = '/';
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

static inline void tree_write(struct tree *tree, const char *name, const char *text)
{
    tree_write_bytes(tree, name, text, strlen(text));
}

/* What was said since the last call begins with this; "": nothing was. */
static inline void tree_assert_said(struct tree *tree, const char *beginning)
{
    const char *said = tree->said.data ? tree->said.data : "";
    if (!*beginning)
        assert_string_equal(said, "");
    else if (strncmp(said, beginning, strlen(beginning)) != 0)
        fail_msg("said '%s', not '%s'", said, beginning);
    buf_clear(&tree->said);
}

static inline void tree_pass(struct tree *tree, double seconds)
{
    tree->look.now_ns += (uint64_t)(seconds * NS_PER_SECOND);
}

#endif
