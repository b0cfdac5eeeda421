/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under Valgrind, the hooks are part of the program that it checks, but read what the program does not: arguments that
 * lead to memory never set or freed, and the stack. Its tools say nothing of the thread while it is in a hook.
 *
 * A client request is a row of instructions that do nothing on a processor (Valgrind manual, "The Client Request
 * mechanism"; numbers: enum Vg_ClientRequest).
 */
#ifndef SCRY_AGENT_SYSTEM_VALGRIND_H
#define SCRY_AGENT_SYSTEM_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

enum valgrind_request {
    VALGRIND_RUNNING = 0x1001, /* how many Valgrinds the program runs on */
    VALGRIND_SILENCE = 0x1801, /* of this thread: 1 more, or -1; nests */
};

static inline uint64_t valgrind_ask(enum valgrind_request request, int64_t argument)
{
    uint64_t words[6] = {request, (uint64_t)argument}, answer = 0;
    __asm__ volatile("rolq $3, %%rdi\n rolq $13, %%rdi\n rolq $61, %%rdi\n rolq $51, %%rdi\n xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
    return answer;
}

static inline bool valgrind_running(void)
{
    return valgrind_ask(VALGRIND_RUNNING, 0) != 0;
}

#endif
