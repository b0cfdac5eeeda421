/* SPDX-License-Identifier: Apache-2.0 */
/* The node as an object: this machine. */
#ifndef SCRY_MONITOR_ENGINE_NODE_H
#define SCRY_MONITOR_ENGINE_NODE_H

#include "monitor/engine/object.h"

struct node_probe;

struct node {
    struct scry_object object;
    char name[256];
    struct node_probe *probe; /* made when first asked for */
};

int node_new(struct monitor *monitor, struct node **ret_node);
void node_free(struct node *node);
/* True if `name` means this machine: "", "localhost", its host name (short or full), or one of its addresses. */
bool node_is_local(const struct node *node, const char *name);

#endif
