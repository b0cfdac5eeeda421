/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal while scry top draws on it: keys come at once, its screen is another one, and whatever ends or stops
 * scry top gives it back. */
#ifndef SCRY_CLI_TOP_TERMINAL_H
#define SCRY_CLI_TOP_TERMINAL_H

#include <stdbool.h>

bool top_terminal_take(void); /* false: standard input is none */
void top_terminal_restore(void);

#endif
