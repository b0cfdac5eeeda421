/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal while scry top draws on it: keys come at once, and on a screen of its own. Whatever ends or stops scry
 * top restores the terminal. */
#ifndef SCRY_CLI_TOP_TERMINAL_H
#define SCRY_CLI_TOP_TERMINAL_H

#include <stdbool.h>

bool top_terminal_take(void); /* false: standard input is no terminal */
void top_terminal_restore(void);

#endif
