/* SPDX-License-Identifier: Apache-2.0 */
/* Between signals.c and signals_interpose.c. Masks are the kernel's 64 bits. */
#ifndef SCRY_AGENT_SAFETY_SIGNALS_INTERNAL_H
#define SCRY_AGENT_SAFETY_SIGNALS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/system/sigset.h"

/* In the unused end of the mask of a sigjmp_buf; see signals_x86_64.S. */
#define SIGNALS_TAG UINT64_C(0x7363727900000000)
enum { SIGNALS_TAG_AT = 192 };

/* What the program believes blocked in this thread but the kernel keeps open. */
extern _Thread_local uint64_t agent_signals_blocked __attribute__((tls_model("initial-exec")));

/* Do we keep the disposition of this signal? Then call the next function instead of the real one. */
bool signals_mine(int signal);
/* Either pointer may be NULL. 0 or -errno. */
int signals_action(int signal, const struct kernel_action *action, struct kernel_action *ret_old);

/* Do we keep the masks of threads now, at least in part? */
bool signals_masking(void);
/* As rt_sigprocmask; set and ret_old may be NULL. 0 or -errno. */
int signals_mask(int how, const uint64_t *set, uint64_t *ret_old);

/* Around calls that wait, with this mask or (0) their thread's: blocks really what is believed blocked. */
struct signals_wait {
    uint64_t believed;
    bool unknown; /* until the end */
};
struct signals_wait signals_wait_begin(uint64_t mask);
void signals_wait_end(struct signals_wait wait);

/* The program reads these itself: from now on blocked means blocked. */
void signals_step_aside(uint64_t set);

#endif
