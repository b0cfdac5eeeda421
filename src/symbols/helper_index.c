/* SPDX-License-Identifier: Apache-2.0 */
/* scry-symbols index: builds what is missing in the cache. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "symbols/helper.h"
#include "symbols/helper_jobs.h"
#include "symbols/index_build.h"

/* The cache cannot be written: the index lives in our memory, for as long as we do. */
static bool keep_in_memory(const struct buf *image, char *ret_path, size_t size)
{
    int fd = memfd_create("scry-index", MFD_CLOEXEC);
    if (fd < 0)
        return false;
    for (size_t done = 0; done < image->len;) {
        ssize_t put = write(fd, image->data + done, image->len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            close(fd);
            return false;
        }
        done += (size_t)put;
    }
    snprintf(ret_path, size, "/proc/%d/fd/%d", getpid(), fd);
    return true;
}

/* Returns whether there is something in memory for the one who asked. */
static bool index_one(const char *file, struct buf *answer)
{
    _cleanup_(buf_done) struct buf image = BUF_INIT;
    char key[INDEX_KEY_SIZE], path[64];
    struct index *index = NULL;
    struct err err = {0};
    if (index_key(file, key, &err) == 0 && index_open_key(&index, key, NULL) == 0) {
        index_close(index);
        helper_line(answer, "ok", key, file, NULL);
        return false;
    }
    err.code = 0;
    if (index_build(file, &image, key, &err) < 0) {
        helper_line(answer, "failed", file, err.text, NULL);
        return false;
    }
    if (index_store(&image, key, &err) == 0) {
        helper_line(answer, "ok", key, file, NULL);
        return false;
    }
    if (keep_in_memory(&image, path, sizeof path)) {
        helper_line(answer, "memory", key, file, path, err.text, NULL);
        return true;
    }
    helper_line(answer, "failed", file, err.text, NULL);
    return false;
}

int helper_index(char *const *files, int count, FILE *in, FILE *out)
{
    bool wait = false;
    for (int i = 0; i < count; i++) {
        _cleanup_(buf_done) struct buf answer = BUF_INIT;
        struct stat st;
        helper_guard(stat(files[i], &st) == 0 && st.st_size > 0 ? (unsigned long long)st.st_size : 0);
        wait |= index_one(files[i], &answer);
        if (answer.failed)
            helper_line(&answer, "failed", files[i], "out of memory", NULL);
        fwrite(answer.data, 1, answer.len, out);
        if (fflush(out) != 0)
            return 1;
    }
    alarm(0);
    while (wait && fgetc(in) != EOF)
        ;
    return 0;
}
