/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/token.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/tool.h"

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
