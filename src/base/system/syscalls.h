/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASE_SYSTEM_SYSCALLS_H
#define SCRY_BASE_SYSTEM_SYSCALLS_H

#include <stdint.h>

#include "base/data/buf.h"

/* The system calls of this processor's Linux. */
struct syscall_row {
    uint16_t number;
    uint8_t arg_count;
    char name[25]; /* no address, which would be relocated in each process */
};

/* NULL: there is no such call, or it is too new for the table. */
const struct syscall_row *syscall_by_name(struct span name);
const struct syscall_row *syscall_by_number(uint32_t number);

#endif
