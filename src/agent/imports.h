/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_AGENT_IMPORTS_H
#define SCRY_AGENT_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether any loaded object takes the hooks from another. *ret_changes: how often objects had come and gone then. */
bool agent_imports_hooks(uint64_t *ret_changes);
/* How many of the objects that are loaded do. */
uint32_t agent_count_importers(void);

#endif
