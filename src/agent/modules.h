/* SPDX-License-Identifier: Apache-2.0 */
/* Called by interpose_x86_64.S: what is to be done before the function of that name, which is returned. */
#ifndef SCRY_AGENT_MODULES_H
#define SCRY_AGENT_MODULES_H

#include <stdint.h>
#include <ucontext.h>

struct area;

void *modules_dlopen(void);
void *modules_dlmopen(void);
void *modules_dlsym(void *handle, const char *name);
void *modules_makecontext(const ucontext_t *context);
void *modules_syscall(long number, long operation);

/* Lets the monitor see what `number` (area.modules) stands for, and put the selection for it in place, before the
 * program goes on; not for long, and not if it never answers. */
void modules_wait_seen(struct area *area, uint32_t number);

#endif
