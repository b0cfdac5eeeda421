/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The services this monitor knows, by name, and the extensions they came with. Built-in services are rows of the same
 * table type as those of extensions (scry/ext.h); a row's signature is parsed once, here.
 */
#ifndef SCRY_MONITOR_ENGINE_REGISTRY_H
#define SCRY_MONITOR_ENGINE_REGISTRY_H

#include <stdbool.h>

#include <omis.h>
#include <scry/ext.h>
#include <uthash.h>

#include "base/data/arena.h"
#include "base/data/err.h"
#include "base/data/buf.h"
#include "lang/signature.h"
#include "monitor/engine/confine.h"

struct csr;
struct tool;

struct service {
    const struct scry_service *row;
    struct signature signature;
    int object_arg;                     /* index of the argument it works on; -1: no object is concerned */
    enum right right;                   /* that a confined tool needs */
    const char *object_class;           /* class of object_arg: "p", "pa_c" */
    char extension[TOKEN_CLASS_SIZE];   /* prefix; "" is the basic monitoring system */
    struct csr *enabled, *last_enabled; /* of event services: conditional requests, in the order of enabling */
    UT_hash_handle hh;
};

struct registry {
    struct arena types;                 /* of the services' parameters */
    struct service *services;           /* hash by name, in order of registration */
    char registering[TOKEN_CLASS_SIZE]; /* the prefix of the extension whose register function runs; "" */
    struct tool *registering_tool;      /* that it is itself, if it requests something; NULL */
    char extensions[64][TOKEN_CLASS_SIZE];
    size_t extension_count;
};

/* -EEXIST, -EINVAL (signature, prefix), -ENOMEM. `extension`: prefix or "". */
int registry_add(struct registry *registry, const struct scry_service *row, const char *extension, struct err *err);
struct service *registry_find(struct registry *registry, struct span name);
int registry_add_extension(struct registry *registry, const char *prefix, struct err *err);
bool registry_has_extension(const struct registry *registry, struct span prefix);
/* Forgets an extension that failed to register, with what it had registered so far. */
void registry_remove_extension(struct registry *registry, const char *prefix);
void registry_free(struct registry *registry);

/* Whether an action or event of this service may answer with the status, by its row. Those of requests as a whole
 * (syntax, unknown services, types, memory, internal errors) are no service's own. For reference pages, and a check in
 * builds for tests. */
bool registry_may_answer(const struct service *service, Omis_status status);

static inline const char *registry_missing(const struct service *service)
{
    return service->row->missing ? service->row->missing() : NULL;
}

#endif
