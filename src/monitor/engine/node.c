/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/engine/monitor.h"
#include "probe/node.h"

int node_new(struct monitor *monitor, struct node **ret_node)
{
    struct node *node = calloc(1, sizeof *node);
    struct object_class *class = object_class_get(monitor, "n");
    if (!node || !class) {
        free(node);
        return -ENOMEM;
    }
    gethostname(node->name, sizeof node->name - 1);
    object_init(&node->object, monitor, class, NULL);
    *ret_node = node;
    return 0;
}

void node_free(struct node *node)
{
    if (!node)
        return;
    if (node->probe)
        node_probe_free(node->probe);
    HASH_DELETE(hh, node->object.monitor->objects, &node->object);
    free(node);
}

static bool is_own_address(const char *name)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return false;
    bool found = false;
    for (struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "";
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET)
            inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr, text, sizeof text);
        else if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET6)
            inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)a->ifa_addr)->sin6_addr, text, sizeof text);
        found = text[0] && strcmp(text, name) == 0;
    }
    freeifaddrs(all);
    return found;
}

bool node_is_local(const struct node *node, const char *name)
{
    size_t short_len = strcspn(node->name, ".");
    return !*name || strcmp(name, "localhost") == 0 || strcmp(name, node->name) == 0 ||
           (strlen(name) == short_len && strncmp(name, node->name, short_len) == 0) || is_own_address(name);
}
