/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MONITOR_ENGINE_OBJECT_H
#define SCRY_MONITOR_ENGINE_OBJECT_H

#include "base/data/arena.h"
#include "base/data/buf.h"
#include "base/data/err.h"
#include "lang/signature.h"

#include <omis.h>
#include <scry/ext.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

/*
 * Objects: everything that has a token. Nodes, processes, threads, user-defined events, conditional requests and the
 * objects of extensions are all a struct scry_object first. The table finds them by token; serial numbers are never
 * reused, so the token of an object that ended differs from one that was never issued.
 */

struct monitor;
struct tool;

/* What a tool may do (tool.h). Bits; the first three are those of keys (keys/keys.h). Who may do anything may observe. */
enum right {
    RIGHT_OBSERVE = 1,
    RIGHT_CONTROL = 2,
    RIGHT_MEMORY = 4,
    RIGHT_LOCAL = 8, /* only of tools on this node that are not confined */
};
const char *right_name(enum right right); /* "observe", ... */

enum { TOKEN_TEXT_SIZE = TOKEN_CLASS_SIZE + 36 };

/* The undefined object's token. */
#define TOKEN_UNDEFINED "u_0"

struct object_class {
    char name[TOKEN_CLASS_SIZE]; /* the token's prefix without the last underscore: "p", "pa_c" */
    uint64_t last_serial;
    void (*destroy)(void *data); /* of extensions' objects; may be NULL */
    const char *doc;
    bool builtin;
    const char *container_class; /* what its objects are in (7.2.2, Fig. 7.1); NULL: nothing */
    /* Of extensions' classes: the token of that object, and of those of another class that are in one. NULL: none. */
    const char *(*container)(void *data);
    const char *member_class;
    const char *(*member)(void *data, size_t index);
    UT_hash_handle hh;
};

struct scry_object {
    struct monitor *monitor;
    struct object_class *class;
    uint64_t serial;
    char token[TOKEN_TEXT_SIZE];
    struct tool *owner;         /* of monitor objects: the tool that created it; NULL for system objects */
    void *data;                 /* of extensions' objects */
    struct scry_watch *watches; /* likewise; on_end ends them */
    void (*on_end)(struct scry_object *object); /* NULL: nothing to do */
    uint64_t gathered;                          /* monitor->last_gather that found it (convert.c) */
    bool gone;                                  /* no longer in the table; freed when no execution can refer to it */
    struct scry_object *next_owned, *previous_owned; /* list of the owner */
    struct scry_object *next_grave;
    void (*free)(struct scry_object *object); /* of built-in objects, called at the end; NULL: free() */
    UT_hash_handle hh;
};

/* Creates the class, or returns the one that is there. NULL when out of memory or the name is too long. */
struct object_class *object_class_get(struct monitor *monitor, const char *name);
struct object_class *object_class_find(struct monitor *monitor, struct span name);

/* Gives a zeroed object its token and enters it into the table and the owner's list (owner may be NULL). */
void object_init(struct scry_object *object, struct monitor *monitor, struct object_class *class, struct tool *owner);

/* Gives it to another owner (NULL: to nobody). */
void object_give(struct scry_object *object, struct tool *owner);

/* Takes it out of the table; the memory stays until the monitor is idle (monitor_bury). */
void object_end(struct scry_object *object);

struct scry_object *object_find(struct monitor *monitor, struct span token);

/* True if such a token was issued at some time: its class is known and its serial number not above the last one. */
bool object_was_issued(struct monitor *monitor, struct span token);

static inline bool object_is(const struct scry_object *object, const char *class_name)
{
    return strcmp(object->class->name, class_name) == 0;
}

/* The node as an object: this machine. */

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

/*
 * The services this monitor knows, by name, and the extensions they came with. Built-in services are rows of the same
 * table type as those of extensions (scry/ext.h); a row's signature is parsed once, here.
 */

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
