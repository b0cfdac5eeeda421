/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of any bytes, its DWARF with it: the building of its index ends, with an index that can be opened, or with
 * an error that says something.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "symbols/index/index.h"
#include "symbols/index/index_build.h"
#include "symbols/index/index_format.h"

static int file_of(const void *bytes, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_expect(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], key[INDEX_KEY_SIZE], again[INDEX_KEY_SIZE];
    struct buf image = BUF_INIT;
    struct err err = {0};
    struct index *index;
    int fd = file_of(data, size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int r = index_build(path, &image, key, &err);
    fuzz_expect(r == 0 || (r < 0 && err.text[0]));
    if (r == 0) {
        fuzz_expect(index_key(path, again, NULL) == 0 && strcmp(key, again) == 0);
        int indexed = file_of(image.data, image.len);
        fuzz_expect(index_map(&index, indexed, "fuzz", key, &err) == 0);
        close(indexed);
        struct index_function before = {0}, function;
        for (size_t i = 0; i < index_count(index); i++) {
            index_at(index, i, &function);
            fuzz_expect(i == 0 || before.address < function.address);
            before = function;
        }
        index_close(index);
    }
    buf_done(&image);
    close(fd);
    return 0;
}
