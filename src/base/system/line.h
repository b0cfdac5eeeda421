/* SPDX-License-Identifier: Apache-2.0 */
/* A line of standard input, for programs that get something there that arguments would show to everybody. */
#ifndef SCRY_BASE_SYSTEM_LINE_H
#define SCRY_BASE_SYSTEM_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Without its end, which may be missing on the last one. Takes no byte behind it. False: there is none, or it is longer. */
bool line_read(char *text, size_t size);

#endif
