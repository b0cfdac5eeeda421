/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index file of any bytes, and a file of captures: it is refused, or everything that it hands out lies within it.
 * And the helper's language: the same bytes as answers, in pieces of two sizes, must come out alike.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "symbols/client/client.h"
#include "symbols/index/index.h"
#include "symbols/index/index_format.h"

static void look(const struct index_function *function, size_t size)
{
    fuzz_expect(strlen(function->name) < size && strlen(function->full) < size && strlen(function->linkage) < size &&
                strlen(function->file) < size);
}

static void read_index(const uint8_t *data, size_t size)
{
    struct index *index;
    struct index_function function, found;
    struct err err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_expect(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    int r = index_map(&index, fd, "fuzz", NULL, &err);
    close(fd);
    fuzz_expect(r == 0 || (r == -EBADMSG && err.text[0]));
    if (r < 0)
        return;
    fuzz_expect(strlen(index_problem(index)) < size && index_count(index) <= size / sizeof(struct index_row));
    for (size_t i = 0; i < index_count(index); i++) {
        index_at(index, i, &function);
        look(&function, size);
        if (index_find(index, function.address, &found))
            look(&found, size);
        if (index_find_name(index, function.name, &found))
            look(&found, size);
    }
    index_close(index);
}

static void read_answers(const uint8_t *data, size_t size, size_t piece, struct buf *seen)
{
    struct helper_reader reader = {0};
    struct helper_answer answer;
    int r = 0;
    for (size_t at = 0; at < size && r >= 0; at += piece) {
        helper_feed(&reader, data + at, size - at < piece ? size - at : piece);
        while ((r = helper_next(&reader, &answer, NULL)) == 1)
            buf_printf(seen, "%d %s %s %s %s %s %s %s %u %zu\n", answer.kind, answer.key, answer.file, answer.path,
                       answer.name, answer.type, answer.old, answer.text, answer.id, answer.code_size);
        fuzz_expect(r == 0 || r == -EBADMSG);
    }
    buf_printf(seen, "%d\n", r);
    helper_reader_done(&reader);
}

/* The sum in the file's head keeps most bytes from being looked at: the same as items. */
static void read_compiled(const uint8_t *data, size_t size)
{
    struct buf items = BUF_INIT, file = BUF_INIT;
    struct compiled_item item;
    const void *bytes;
    buf_append(&items, data, size);
    for (size_t at = 0; compiled_next(&items, &at, &item, &bytes);)
        fuzz_expect((const char *)bytes + item.size == items.data + at && at <= size &&
                    (item.kind != HELPER_LAYOUT || strlen(bytes) + 1 == item.size));
    uint64_t functions;
    int r = compiled_read(&file, &functions, data, size, "", NULL);
    fuzz_expect(r == 0 || (r == -EBADMSG && !file.len));
    buf_done(&items);
    buf_done(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = BUF_INIT, pieces = BUF_INIT;
    read_index(data, size);
    read_compiled(data, size);
    read_answers(data, size, size + 1, &whole);
    read_answers(data, size, 7, &pieces);
    fuzz_expect(whole.len == pieces.len && memcmp(whole.data, pieces.data, whole.len) == 0);
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}
