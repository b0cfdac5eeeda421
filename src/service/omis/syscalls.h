/* SPDX-License-Identifier: Apache-2.0 */
/* System calls by name. */
#ifndef SCRY_SERVICE_OMIS_SYSCALLS_H
#define SCRY_SERVICE_OMIS_SYSCALLS_H

#include <stdint.h>

#include "base/data/buf.h"

struct syscall_row {
    uint16_t number;
    uint8_t arg_count;
    char name[25]; /* no address, which would be relocated in each process */
};

/* NULL: this processor's Linux has no such call. */
const struct syscall_row *syscall_by_name(struct span name);

#endif
