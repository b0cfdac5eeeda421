/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzzer's function over the files of a folder, without libFuzzer and with any compiler: each file as it is, cut
 * at many places, and with single bits changed. Output: TAP; a file that breaks the function ends the program, which
 * the harness counts as a failure.
 */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/system/file.h"
#include "fuzz.h"

enum { CUTS = 64, FLIPS = 256 };

/* From a block of exactly this size, so that the sanitizer sees a read too far. */
static void run(const char *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    fuzz_expect(copy != NULL);
    if (len)
        memcpy(copy, bytes, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static void run_variants(char *bytes, size_t len)
{
    run(bytes, len);
    for (size_t i = 0; i < CUTS; i++)
        run(bytes, len * i / CUTS);
    uint32_t random = 1;
    for (size_t i = 0; i < FLIPS && len; i++) {
        random = random * 1664525 + 1013904223;
        size_t at = (random >> 8) % len;
        char bit = (char)(1 << (random & 7));
        bytes[at] ^= bit;
        run(bytes, len);
        bytes[at] ^= bit;
    }
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    int count = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    if (count < 0) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    int number = 0, failures = 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX], *bytes;
        size_t len;
        snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') {
            bool failed = file_read(path, &bytes, &len) < 0;
            if (!failed) {
                run_variants(bytes, len);
                free(bytes);
            }
            failures += failed;
            printf("%sok %d - %s\n", failed ? "not " : "", ++number, entries[i]->d_name);
            fflush(stdout);
        }
        free(entries[i]);
    }
    free(entries);
    printf("1..%d\n", number);
    return failures || !number;
}
