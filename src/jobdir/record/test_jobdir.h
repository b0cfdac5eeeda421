/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of job directories share: a folder of jobs for each test. */
#ifndef SCRY_JOBDIR_RECORD_TEST_JOBDIR_H
#define SCRY_JOBDIR_RECORD_TEST_JOBDIR_H

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/file.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"

struct place {
    char root[64], jobs[96];
};

static inline int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    snprintf(place->root, sizeof place->root, "/tmp/scry-jobdir-XXXXXX");
    assert_non_null(mkdtemp(place->root));
    snprintf(place->jobs, sizeof place->jobs, "%s/jobs", place->root);
    setenv("SCRY_STATE_DIR", place->jobs, 1);
    *state = place;
    return 0;
}

static inline void remove_tree(const char *path)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static inline int tear_down(void **state)
{
    struct place *place = *state;
    remove_tree(place->root);
    free(place);
    return 0;
}

static inline void write_file(const char *dir, const char *name, const char *text, size_t len)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    close(fd);
}

static inline char *read_name(const char *dir, const char *name, size_t *ret_len)
{
    char path[512], *text;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(file_read(path, &text, ret_len), 0);
    return text;
}

static inline void make_job(struct place *place, char *path, size_t size)
{
    struct err err = {0};
    assert_int_equal(jobdir_make("20260101T000000-h-1-abcdef", NULL, path, size, &err), 0);
}

static inline struct job_info example_info(json_t *argv)
{
    return (struct job_info){.id = "20260101T000000-h-1-abcdef",
                             .name = "na\"me",
                             .host = "h",
                             .user = "u",
                             .cwd = "/",
                             .boot_id = "b",
                             .argv = argv,
                             .started_ns = UINT64_C(1700000000123456789),
                             .sample_seconds = 0.5,
                             .supervisor = 10,
                             .supervisor_ticks = 11,
                             .root = 12,
                             .root_ticks = 13};
}

static inline int write_info(const char *path, const struct job_info *info)
{
    char file[PATH_MAX];
    char *text = job_info_text(info);
    assert_non_null(text);
    snprintf(file, sizeof file, "%s/job.json", path);
    int code = file_replace(file, text, strlen(text), 0600);
    free(text);
    return code;
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
