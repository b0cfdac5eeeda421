/* SPDX-License-Identifier: Apache-2.0 */
/* System calls by name. */
#ifndef SCRY_SERVICE_OMIS_SYSCALLS_H
#define SCRY_SERVICE_OMIS_SYSCALLS_H

#include <stdint.h>

#include "base/data/span.h"

struct syscall_row {
    uint32_t number;
    const char *name;
    uint32_t arg_count;
};

/* NULL: this processor's Linux has no such call. */
const struct syscall_row *syscall_by_name(struct span name);

#endif
