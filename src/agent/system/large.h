/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is loaded into every process of a job, and most are never traced. A build pays for each page that such a
 * process touches some hundred times; so memory that only traced processes need lies after everything else.
 */
#ifndef SCRY_AGENT_SYSTEM_LARGE_H
#define SCRY_AGENT_SYSTEM_LARGE_H

/* The linker puts .bss.* behind .bss. */
#define AGENT_LARGE __attribute__((section(".bss.large")))

#endif
