/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/object.h"

#include "lang/token.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/tool.h"
#include "probe/node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <scry/omis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool name_is_identifier(const char *name)
{
    for (const char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || *c == '_' || (c > name && *c >= '0' && *c <= '9')))
            return false;
    return *name != 0;
}

/* What the row says, else by the kind: who asks observes, who changes controls. */
static enum right right_of(const struct scry_service *row)
{
    switch (row->requirement & SCRY_RIGHTS) {
    case 0:
        return row->kind == SCRY_MANIPULATION ? RIGHT_CONTROL : RIGHT_OBSERVE;
    case SCRY_OBSERVE:
        return RIGHT_OBSERVE;
    case SCRY_CONTROL:
        return RIGHT_CONTROL;
    case SCRY_MEMORY:
        return RIGHT_MEMORY;
    default:
        return RIGHT_LOCAL;
    }
}

int registry_add(struct registry *registry, const struct scry_service *row, const char *extension, struct err *err)
{
    size_t prefix_len = strlen(extension);
    if (!row->name || !name_is_identifier(row->name))
        return err_set(err, -EINVAL, "service '%s': a name has lower-case letters, digits and '_'",
                       row->name ? row->name : "");
    if (row->kind > SCRY_EVENT || (row->requirement & ~(SCRY_PARTLY | SCRY_RIGHTS)) > SCRY_OPTIONAL ||
        !row->signature || !row->doc)
        return err_set(err, -EINVAL, "service %s: its row lacks a signature or doc, or its kind or class is none",
                       row->name);
    if (row->kind != SCRY_EVENT && !row->run && !row->missing)
        return err_set(err, -EINVAL, "service %s has no function to run", row->name);
    if (prefix_len &&
        (strncmp(row->name, extension, prefix_len) != 0 || (row->name[prefix_len] && row->name[prefix_len] != '_')))
        return err_set(err, -EINVAL, "service %s of extension %s: its name must be \"%s\" or start with \"%s_\"",
                       row->name, extension, extension, extension);
    if (registry_find(registry, span_str(row->name)))
        return err_set(err, -EEXIST, "service %s exists already", row->name);
    struct service *service = calloc(1, sizeof *service);
    if (!service)
        return err_set(err, -ENOMEM, "service %s: out of memory", row->name);
    service->row = row;
    service->right = right_of(row);
    struct err why;
    int code = signature_parse(&registry->types, row->signature, &service->signature, &why);
    if (code < 0) {
        free(service);
        return err_set(err, code, "service %s: %s", row->name, why.text);
    }
    service->object_arg = -1;
    for (size_t i = 0; i < service->signature.param_count && service->object_arg < 0; i++) {
        const struct param_type *param = &service->signature.params[i];
        if (param->kind == TYPE_TOKEN && param->class[0]) {
            service->object_arg = (int)i;
            service->object_class = param->class;
        }
    }
    snprintf(service->extension, sizeof service->extension, "%s", extension);
    HASH_ADD_KEYPTR(hh, registry->services, row->name, strlen(row->name), service);
    return 0;
}

struct service *registry_find(struct registry *registry, struct span name)
{
    struct service *service;
    HASH_FIND(hh, registry->services, name.ptr, name.len, service);
    return service;
}

int registry_add_extension(struct registry *registry, const char *prefix, struct err *err)
{
    if (registry_has_extension(registry, span_str(prefix)))
        return err_set(err, -EEXIST, "extension %s is there already", prefix);
    if (registry->extension_count == sizeof registry->extensions / sizeof *registry->extensions)
        return err_set(err, -ENOSPC, "too many extensions");
    snprintf(registry->extensions[registry->extension_count++], TOKEN_CLASS_SIZE, "%s", prefix);
    return 0;
}

bool registry_has_extension(const struct registry *registry, struct span prefix)
{
    for (size_t i = 0; i < registry->extension_count; i++)
        if (span_is(prefix, registry->extensions[i]))
            return true;
    return false;
}

void registry_remove_extension(struct registry *registry, const char *prefix)
{
    struct service *service, *next;
    HASH_ITER(hh, registry->services, service, next)
    {
        if (strcmp(service->extension, prefix) != 0)
            continue;
        HASH_DELETE(hh, registry->services, service);
        free(service);
    }
}

void registry_free(struct registry *registry)
{
    if (!registry)
        return;
    struct service *service, *next;
    HASH_ITER(hh, registry->services, service, next)
    {
        HASH_DELETE(hh, registry->services, service);
        free(service);
    }
    arena_done(&registry->types);
    free(registry);
}

bool registry_may_answer(const struct service *service, Omis_status status)
{
    const struct signature *signature = &service->signature;
    const struct scry_service *row = service->row;
    bool objects = service->object_arg >= 0, values = signature->param_count > (size_t)objects;
    bool names = !objects && values && signature->params[0].kind != TYPE_ANY; /* of something outside */
    bool of_monitor = objects && (strcmp(service->object_class, "c") == 0 || strcmp(service->object_class, "e") == 0);
    switch (status & ~OMIS_FATAL) {
    case OMIS_OK:
    case OMIS_UNKNOWN_ECP:
    case OMIS_TYPE_MISMATCH:
    case OMIS_NO_MEMORY:
        return true; /* of every service */
    case OMIS_UNKNOWN_OBJECT:
        if (objects || names)
            return true;
        break;
    case OMIS_PARAMETER_ERROR:
        if (values || (objects && row->kind == SCRY_MANIPULATION))
            return true;
        break;
    case OMIS_UNSUPPORTED_SERVICE:
        if (row->missing || row->requirement & SCRY_PARTLY || (objects && !of_monitor))
            return true;
        break;
    case OMIS_OS_ERROR:
    case OMIS_NO_PERMISSION: /* the system was asked */
        if ((objects && !of_monitor) || names)
            return true;
        break;
    default:
        break;
    }
    const char *name = omis_status_name(status & ~OMIS_FATAL);
    return signature->statuses.len && memmem(signature->statuses.ptr, signature->statuses.len, name, strlen(name));
}

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

static void object_own(struct scry_object *object, struct tool *owner)
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

static void object_disown(struct scry_object *object)
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
    object_disown(object);
    object_own(object, owner);
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
    object_own(object, owner);
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
    object_disown(object);
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
