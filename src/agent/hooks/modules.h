/* SPDX-License-Identifier: Apache-2.0 */
/* Called by interpose_x86_64.S: what is to be done before the function of that name, which is returned. */
#ifndef SCRY_AGENT_HOOKS_MODULES_H
#define SCRY_AGENT_HOOKS_MODULES_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

struct area;

void *modules_dlopen(void);
void *modules_dlmopen(void);
void *modules_dlsym(void *handle, const char *name);
void *modules_makecontext(const ucontext_t *context);
void *modules_syscall(long number, long first, long second);
/* A function for these to return, which does nothing but return `value` in the same thread. */
void *modules_answer(uint64_t value);

/* Has the monitor look at the libraries and apply its selection before the program goes on; waits only a little, even
 * if it never answers. */
void modules_announce(struct area *area);
/* At a call of a function without a slot: has this thread called dlopen, and has nobody asked since? Then it is mostly
 * inside dlopen, calling constructors; the monitor has looked before this returns. Signal-safe. */
bool modules_came(struct area *area);

#endif
