/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times as people write them in options and settings. */
#ifndef SCRY_BASE_DATA_UNITS_H
#define SCRY_BASE_DATA_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* "512", "64K", "1.5G", "2 GB", "2GiB": binary multiples. False: no size, or 2^63 bytes or more. */
bool size_parse(const char *text, uint64_t *ret_bytes);
/* "500us", "2 ms", "1.5s", "800ns", "5 min", "2h", "30d", "2w", "0". False: no time, or more than 1e18 ns. */
bool time_parse(const char *text, uint64_t *ret_ns);

#endif
