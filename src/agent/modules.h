/* SPDX-License-Identifier: Apache-2.0 */
/* Called by interpose_x86_64.S: what is to be done before the function of that name, which is returned. */
#ifndef SCRY_AGENT_MODULES_H
#define SCRY_AGENT_MODULES_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

struct area;

void *modules_dlopen(void);
void *modules_dlmopen(void);
void *modules_dlsym(void *handle, const char *name);
void *modules_makecontext(const ucontext_t *context);
void *modules_syscall(long number, long operation);

/* Lets the monitor see what is there now, and put the selection for it in place, before the program goes on; not for
 * long, and not if it never answers. */
void modules_look(struct area *area);
/* At a call of a function that has no slot: whether this thread has called dlopen, and none has been asked for since.
 * Then it is mostly in there, calling constructors, and the monitor looked before this returns. Signal-safe. */
bool modules_came(struct area *area);

#endif
