/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a list can be executed where its event is (near), or only where its tool is (far, tell.h): if it works on objects
 * of other nodes, or on conditional requests and user events, which live at the home, or has a token that the node has no
 * number for. Pure.
 */
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
