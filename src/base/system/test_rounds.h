/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much a unit test tries of what finds something by luck, or by going through all there is: `many` in a thorough
 * run (SCRY_TEST_THOROUGH=1), else `few`. As rounds() in test/system/scrytest.py.
 */
#ifndef SCRY_BASE_SYSTEM_TEST_ROUNDS_H
#define SCRY_BASE_SYSTEM_TEST_ROUNDS_H

#include <stdlib.h>

static inline long test_rounds(long few, long many)
{
    const char *thorough = getenv("SCRY_TEST_THOROUGH");
    return thorough && thorough[0] == '1' && !thorough[1] ? many : few;
}

#endif
