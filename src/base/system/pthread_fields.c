/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/pthread_fields.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

struct field { /* nptl_db's */
    uint32_t bits, count, offset;
};

uint32_t pthread_field(const char *name)
{
    struct field field = {0};
    const void *found = dlsym(RTLD_DEFAULT, name);
    if (found)
        memcpy(&field, found, sizeof field);
    return field.offset < PTHREAD_DESCRIPTOR_MOST - sizeof(uint64_t) ? field.offset : 0;
}
