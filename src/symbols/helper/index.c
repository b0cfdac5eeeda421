/* SPDX-License-Identifier: Apache-2.0 */
/* scry-symbols index: builds what is missing in the cache. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "shm/waits.h"
#include "symbols/client/helper.h"
#include "symbols/helper/jobs.h"
#include "symbols/index/index_build.h"

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

/* Returns whether there is something in memory for the one who asked. ret_key: of what was put into the cache. */
static bool index_one(const char *file, struct buf *answer, char ret_key[INDEX_KEY_SIZE])
{
    _cleanup_(buf_done) struct buf image = BUF_INIT;
    char key[INDEX_KEY_SIZE], path[64];
    ret_key[0] = 0;
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
        memcpy(ret_key, key, sizeof key);
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

/* In a process of its own: whoever asked goes on meanwhile, and ends us. */
static void settle(char (*keys)[INDEX_KEY_SIZE], int count)
{
    if (fork() != 0)
        return;
    setsid();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        close(fd);
    alarm(INDEX_MOST_SECONDS);
    for (int i = 0; i < count; i++)
        if (*keys[i])
            index_settle(keys[i]);
    _exit(0);
}

int helper_index(char *const *files, int count, FILE *in, FILE *out)
{
    bool wait = false, stored = false;
    char(*keys)[INDEX_KEY_SIZE] = calloc((size_t)count + 1, sizeof *keys);
    if (!keys)
        return 1;
    for (int i = 0; i < count; i++) {
        _cleanup_(buf_done) struct buf answer = BUF_INIT;
        struct stat st;
        helper_guard(stat(files[i], &st) == 0 && st.st_size > 0 ? (unsigned long long)st.st_size : 0);
        wait |= index_one(files[i], &answer, keys[i]);
        stored |= *keys[i] != 0;
        if (answer.failed)
            helper_line(&answer, "failed", files[i], "out of memory", NULL);
        fwrite(answer.data, 1, answer.len, out);
        if (fflush(out) != 0)
            break;
    }
    alarm(0);
    if (stored)
        settle(keys, count);
    while (wait && fgetc(in) != EOF)
        ;
    free(keys);
    return ferror(out) != 0;
}
