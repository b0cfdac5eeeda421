/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is loaded into every process of a job, and most of them are never traced. Each page that such a process
 * touches is paid for some hundred times in a build; so what only traced ones need lies behind everything else.
 */
#ifndef SCRY_AGENT_LARGE_H
#define SCRY_AGENT_LARGE_H

/* The linker puts .bss.* behind .bss. */
#define AGENT_LARGE __attribute__((section(".bss.large")))

#endif
