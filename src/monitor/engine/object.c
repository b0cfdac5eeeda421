/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/object.h"

#include "lang/token.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/tool.h"
#include "probe/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

struct object_class *object_class_find(struct monitor *monitor, struct span name)
{
    struct object_class *class;
    HASH_FIND(hh, monitor->classes, name.ptr, name.len, class);
    return class;
}

struct object_class *object_class_get(struct monitor *monitor, const char *name)
{
    struct object_class *class = object_class_find(monitor, span_str(name));
    if (class || strlen(name) >= sizeof class->name)
        return class;
    class = calloc(1, sizeof *class);
    if (!class)
        return NULL;
    snprintf(class->name, sizeof class->name, "%s", name);
    HASH_ADD_KEYPTR(hh, monitor->classes, class->name, strlen(class->name), class);
    return class;
}

static void own(struct scry_object *object, struct tool *owner)
{
    object->owner = owner;
    if (!owner)
        return;
    object->previous_owned = NULL;
    object->next_owned = owner->owned;
    if (owner->owned)
        owner->owned->previous_owned = object;
    owner->owned = object;
}

static void disown(struct scry_object *object)
{
    if (!object->owner)
        return;
    if (object->previous_owned)
        object->previous_owned->next_owned = object->next_owned;
    else
        object->owner->owned = object->next_owned;
    if (object->next_owned)
        object->next_owned->previous_owned = object->previous_owned;
}

void object_give(struct scry_object *object, struct tool *owner)
{
    if (object->owner == owner || object->gone)
        return;
    disown(object);
    own(object, owner);
}

void object_init(struct scry_object *object, struct monitor *monitor, struct object_class *class, struct tool *owner)
{
    object->monitor = monitor;
    object->class = class;
    object->serial = ++class->last_serial;
    /* a node's token is its number alone: it is the same seen from every node */
    if (strcmp(class->name, "n") == 0)
        snprintf(object->token, sizeof object->token, "n_%u", monitor->node_number);
    else
        snprintf(object->token, sizeof object->token, "%s_%u_%llu", class->name, monitor->node_number,
                 (unsigned long long)object->serial);
    HASH_ADD_KEYPTR(hh, monitor->objects, object->token, strlen(object->token), object);
    own(object, owner);
}

void object_end(struct scry_object *object)
{
    if (object->gone)
        return;
    object->gone = true;
    struct monitor *monitor = object->monitor;
    HASH_DELETE(hh, monitor->objects, object);
    /* its cells may become another object's; user events are posted by programs */
    monitor->programs_stale |= !object->class->builtin || object_is(object, "e");
    if (object->on_end)
        object->on_end(object);
    disown(object);
    object->next_grave = monitor->graveyard;
    monitor->graveyard = object;
}

struct scry_object *object_find(struct monitor *monitor, struct span token)
{
    struct scry_object *object;
    HASH_FIND(hh, monitor->objects, token.ptr, token.len, object);
    return object;
}

bool object_was_issued(struct monitor *monitor, struct span text)
{
    struct token token;
    if (!token_parse(text, &token) || token.node != monitor->node_number)
        return false;
    struct object_class *class = object_class_find(monitor, span_str(token.class));
    return class && token.serial <= class->last_serial && (token.serial > 0 || strcmp(token.class, "n") == 0);
}
