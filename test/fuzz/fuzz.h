/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all fuzzers share. A fuzzer is one function, as libFuzzer wants it; linked with replay.c instead of libFuzzer it
 * is a test that runs the seeds and everything that ever broke it (FUZZER.corpus/).
 */
#ifndef SCRY_TEST_FUZZ_H
#define SCRY_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_expect(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

#endif
