/* SPDX-License-Identifier: Apache-2.0 */
/* Long answers on a terminal go through a pager, as with git: $SCRY_PAGER, else $PAGER, else less (LESS=FRX). */
#ifndef SCRY_CLI_PAGER_H
#define SCRY_CLI_PAGER_H

/* Standard output becomes the pager's input, if it is a terminal and a pager is wanted: one that is set and is neither
 * empty nor cat, or less where the terminal is no dumb one. Whatever depends on the terminal is to be asked before. */
void pager_start(void);

/* Waits until the person has read enough; that this was not all is no error. What the command's status becomes. Does
 * nothing where there is no pager. */
int pager_end(int status);

#endif
