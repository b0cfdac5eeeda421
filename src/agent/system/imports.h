/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_AGENT_SYSTEM_IMPORTS_H
#define SCRY_AGENT_SYSTEM_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

/* Does any loaded object import the hooks? *ret_changes: how often objects had come and gone then. */
bool agent_imports_hooks(uint64_t *ret_changes);
/* All objects that do, as one number; 0: none. */
uint64_t agent_importers(void);

struct dl_phdr_info;

/* The number of libraries whose constructors have run and may have called hooks; only those that `matters` accepts. */
unsigned agent_constructed(bool (*matters)(const struct dl_phdr_info *info));

bool agent_object_has(const struct dl_phdr_info *info, uint64_t address);
bool agent_object_imports_hooks(const struct dl_phdr_info *info);
uint64_t agent_object_name(const struct dl_phdr_info *info); /* a hash of it */

#endif
