/* SPDX-License-Identifier: Apache-2.0 */
/* Shows long output on a terminal in a pager, as git does: $SCRY_PAGER, else $PAGER, else less (LESS=FRX). */
#ifndef SCRY_CLI_COMMON_PAGER_H
#define SCRY_CLI_COMMON_PAGER_H

/* Makes standard output the pager's input, if it is a terminal and a pager is wanted: one that is set, and is neither
 * empty nor cat; or less, unless the terminal is dumb. Ask the terminal for its properties before. */
void pager_start(void);

/* Waits until the person has finished reading; leaving early is no error. Returns the command's exit status. Does
 * nothing without a pager. */
int pager_end(int status);

#endif
