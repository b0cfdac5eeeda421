/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of statistics of MPI, or (if it begins with '#') of a distribution, of any bytes. What can be read is written
 * again, and is then read as the same.
 */
#include <string.h>

#include "fuzz.h"
#include "jobdir/mpi/stats.h"

static void parse_distribution(const char *text, size_t size)
{
    struct arena arena = ARENA_INIT;
    struct mpi_stats_distribution distribution;
    struct err err = {.text = ""};
    if (mpi_stats_parse_distribution(&distribution, text, size, &arena, &err) < 0)
        fuzz_expect(err.text[0]);
    else
        for (size_t i = 0; i < distribution.count; i++)
            fuzz_expect(distribution.buckets[i].from < distribution.buckets[i].to &&
                        (!i || distribution.buckets[i - 1].to <= distribution.buckets[i].from));
    arena_done(&arena);
}

static bool print_again(const char *text, size_t size, struct buf *out)
{
    struct arena arena = ARENA_INIT;
    struct mpi_stats stats;
    struct err err = {.text = ""};
    bool ok = mpi_stats_parse(&stats, text, size, &arena, &err) == 0;
    if (ok)
        mpi_stats_print(&stats, out);
    else
        fuzz_expect(err.text[0]);
    fuzz_expect(!out->failed);
    arena_done(&arena);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf once = BUF_INIT, twice = BUF_INIT;
    if (size && data[0] == '#') {
        parse_distribution((const char *)data, size);
    } else if (print_again((const char *)data, size, &once)) {
        fuzz_expect(print_again(once.data, once.len, &twice));
        fuzz_expect(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
    }
    buf_done(&once);
    buf_done(&twice);
    return 0;
}
