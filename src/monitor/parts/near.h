/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a list can be executed where its event is (doc/explain/nodes.md, "Conditional requests over nodes"). Pure. */
#ifndef SCRY_MONITOR_PARTS_NEAR_H
#define SCRY_MONITOR_PARTS_NEAR_H

#include "lang/request.h"
#include "monitor/engine/registry.h"

/* At a node that is not its tool's home: the list works only on the event's own objects, on nothing, or on tokens with
 * this node's number. `services` are those of the actions. */
bool near_request(const struct request *request, struct service *const *services, uint32_t node);

/* At home, the parameters' values put in: it works on nothing that is at another node. */
bool near_home(const struct request *request, struct service *const *services, uint32_t node);

/* Whether it uses the parameter. */
bool near_uses(const struct request *request, const char *param);

#endif
