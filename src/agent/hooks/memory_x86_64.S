/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole pages of memory: agent_hot and agent_filter, see agent.h and large.h. In a section of their own, for their
 * alignment would part the other variables from those that begin with a value, and cost each process one page more.
 */
#define PAGE 4096
#define FILTER_SIZE 65536

        .section .agent_pages, "aw", @nobits

        .macro PAGES name size
        .p2align 12
        .globl  \name
        .hidden \name
        .type   \name, @object
        .size   \name, \size
\name:
        .skip   \size
        .endm

        PAGES agent_hot, PAGE
        PAGES agent_filter, FILTER_SIZE

        .section .note.GNU-stack, "", @progbits
