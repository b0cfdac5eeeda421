/* SPDX-License-Identifier: Apache-2.0 */
/* What test_tracer_load.c and the library that it loads say to each other. */
#ifndef SCRY_TRACER_TEST_LOAD_LIBRARY_H
#define SCRY_TRACER_TEST_LOAD_LIBRARY_H

struct test_load_data {
    _Atomic int *inside; /* not 0 while the function runs; NULL */
    long busy_ms;
    long value; /* the result is one more */
};

#endif
