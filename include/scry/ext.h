/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry/ext.h: the extension interface of scry's monitor (the specification's 6.3 leaves it open).
 *
 * An extension is a shared object scry_ext_PREFIX.so in the extension path. It exports one function,
 *
 *     int PREFIX_register(void);          0, or -1 to be left out
 *
 * which calls scry_register_service() and scry_register_class() for what it offers. Every service name is PREFIX or
 * starts with "PREFIX_". Every token class is PREFIX_x with one character x. An extension links nothing: the functions
 * declared here, omis_request and omis_reply_free are in the monitor. Call them only on the monitor's thread, that is,
 * from PREFIX_register and from the functions that you hand over. These must not block.
 *
 * An extension acts for a tool: the one whose request or event is handled. In a callback it is the tool that the
 * request was made for. Objects and requests made meanwhile belong to that tool and end with it. What PREFIX_register
 * makes and requests belongs to the extension itself, which is then a tool (6.1, "distributed tool") as long as the
 * monitor lives.
 *
 * Examples: ext/null is commented, copy it. ext/filter requests and raises user events. ext/pa compiles its actions.
 * ext/temp is a sensor.
 */
#ifndef SCRY_EXT_H
#define SCRY_EXT_H

#include <stddef.h>
#include <stdint.h>

#include <omis.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCRY_EXT_API __attribute__((visibility("default")))

enum { SCRY_EXT_VERSION = 1 };

enum scry_kind { SCRY_INFORMATION, SCRY_MANIPULATION, SCRY_EVENT };
/* (R), (P), (O) of chapter 8. Add SCRY_PARTLY where a part of the service is missing: `doc` says which, and `services`
 * lists it so. */
enum scry_requirement {
    SCRY_REQUIRED,
    SCRY_PARTIAL,
    SCRY_OPTIONAL,
    SCRY_PARTLY = 4,
    /* Add one of these to say which right somebody needs who speaks with the job through a broker (scry-keys(1)).
     * Without: SCRY_CONTROL for manipulation, SCRY_OBSERVE for others. Such a tool has only objects of its job, and its
     * own; add SCRY_LOCAL if the service reaches anything else. */
    SCRY_OBSERVE = 8,
    SCRY_CONTROL = 16,
    SCRY_MEMORY = 32, /* also for everything that shows values of the program, or writes them */
    SCRY_LOCAL = 64,  /* nobody may, from there: it concerns other jobs or the monitor, or writes files */
    SCRY_RIGHTS = 120,
};

struct scry_call;   /* one action being executed on its objects */
struct scry_object; /* a thing with a token */
struct scry_code;   /* a program being compiled, see scry_lower_... */

/*
 * One service. `signature` is written as the specification's prototypes, parameters first (doc/reference/services.md
 * lists them all):
 *
 *     "token<pa_c>* counter_list, integer value -> void"
 *
 * The monitor checks the arguments against it and converts tokens to the class in <>. Then it calls `run`, which
 * answers once for each object with scry_ok, scry_result or scry_fail. Without objects it answers once for the call
 * (object NULL).
 *
 * `lower`, optional, compiles the action instead of running it (scry_lower_...). It returns 0, or -1 if these arguments
 * cannot be compiled. A conditional request whose actions all compile runs where its event occurs, without the monitor.
 *
 * `missing`, optional, returns why the service cannot work on this machine (borrowed text), or NULL if it works.
 */
struct scry_service {
    const char *name;
    enum scry_kind kind;
    const char *signature;
    enum scry_requirement requirement;
    void (*run)(struct scry_call *call);
    const char *doc; /* one line for people */
    int (*lower)(struct scry_call *call, struct scry_code *code);
    const char *(*missing)(void);
    const void *event; /* of built-in event services; extensions raise with scry_event_raise */
};

/* The row is borrowed for ever. Returns 0, or -1 and logs why (bad signature, name taken, wrong prefix). */
SCRY_EXT_API int scry_register_service(const struct scry_service *service);

/* Registers a class of tokens, such as "pa_c". `destroy` gets the object's data when the object ends: destroyed by a
 * service, or with the tool that owned it. `doc` is one line. */
SCRY_EXT_API int scry_register_class(const char *token_class, void (*destroy)(void *data), const char *doc);

/*
 * Conversion of tokens of such a class (7.2.2). All services use it then.
 *
 * A container is for localisation: `container` returns the token of the object that contains this one (the process that
 * has a file open). Expansion of a container to its objects follows from it. Members are for expansion only (a group of
 * processes): `member` returns the token of the index-th member, NULL after the last.
 *
 * Tokens of another class, or of objects that are gone, count as none. Register the other class first. Returns 0, or -1
 * and logs why.
 */
SCRY_EXT_API int scry_register_container(const char *token_class, const char *container_class,
                                         const char *(*container)(void *data));
SCRY_EXT_API int scry_register_members(const char *token_class, const char *member_class,
                                       const char *(*member)(void *data, size_t index));

/* ---- arguments: index 0 is the first in the signature; types are already checked ---- */
SCRY_EXT_API int64_t scry_arg_integer(struct scry_call *call, size_t index);
SCRY_EXT_API double scry_arg_floating(struct scry_call *call, size_t index); /* integers are converted */
SCRY_EXT_API const char *scry_arg_string(struct scry_call *call, size_t index,
                                         size_t *ret_len); /* also binary and token */
/* Any argument, as the request language writes it. NULL: out of memory. */
SCRY_EXT_API const char *scry_arg_text(struct scry_call *call, size_t index, size_t *ret_len);
/* For lists. An `any` argument that is no list counts as one element. Elements are text of the request language. */
SCRY_EXT_API size_t scry_arg_count(struct scry_call *call, size_t index);
SCRY_EXT_API int64_t scry_arg_list_integer(struct scry_call *call, size_t index, size_t element);
SCRY_EXT_API const char *scry_arg_list_text(struct scry_call *call, size_t index, size_t element, size_t *ret_len);

/* ---- objects of the call: the argument with a token class, converted ---- */
SCRY_EXT_API size_t scry_object_count(struct scry_call *call);
SCRY_EXT_API struct scry_object *scry_object_at(struct scry_call *call, size_t index);
SCRY_EXT_API const char *scry_object_token(struct scry_object *object); /* valid while the object lives */
SCRY_EXT_API void *scry_object_data(struct scry_object *object);        /* what scry_object_new was given */

/* A new object, owned by the calling tool; `call` NULL: by the tool that is served now. NULL: out of memory. */
SCRY_EXT_API struct scry_object *scry_object_new(struct scry_call *call, const char *token_class, void *data);
/* Ends the object. Its data are destroyed when nothing that runs can refer to it any more. */
SCRY_EXT_API void scry_object_destroy(struct scry_object *object);

/* ---- conversion of tokens (7.2.2), as the monitor converts arguments that have a class ---- */
/* Objects are valid until your function returns to the monitor: keep their tokens. */
SCRY_EXT_API struct scry_object *scry_object_find(const char *token);   /* NULL: there is none */
SCRY_EXT_API const char *scry_object_class(struct scry_object *object); /* "p", "pa_c" */
/* Localisation: the object of a class that contains this one, or this one itself. NULL: none does. */
SCRY_EXT_API struct scry_object *scry_object_localise(struct scry_object *object, const char *token_class);
/* Converts a token or a list of tokens, as scry_arg_text returns them, to objects of a class: by localisation, and in a
 * list also by expansion. "[]" is every object of the class in the tool's scope. Tokens that cannot be converted are
 * answered in the call's reply. Returns the number of objects in *ret_objects, which lives until the call ends. */
SCRY_EXT_API size_t scry_convert(struct scry_call *call, const char *tokens, const char *token_class,
                                 struct scry_object ***ret_objects);

/* ---- answers; object may be NULL: about the call as a whole ---- */
SCRY_EXT_API void scry_ok(struct scry_call *call, struct scry_object *object);
SCRY_EXT_API void scry_result(struct scry_call *call, struct scry_object *object, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
SCRY_EXT_API void scry_result_integer(struct scry_call *call, struct scry_object *object, int64_t value);
SCRY_EXT_API void scry_result_floating(struct scry_call *call, struct scry_object *object, double value);
SCRY_EXT_API void scry_result_string(struct scry_call *call, struct scry_object *object, const char *text, size_t len);
SCRY_EXT_API void scry_fail(struct scry_call *call, struct scry_object *object, Omis_status status, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

/* ---- time: the event's time stamp in seconds inside a conditional request, else now ---- */
SCRY_EXT_API double scry_call_time(struct scry_call *call);

/* ---- requests: omis_request and omis_reply_free of <omis.h>, as for tools (6.3) ---- */
/*
 * Without a callback, or with OMIS_WAIT_FOR_FIRST_REPLY, the request is executed at once, as part of the action list
 * that called the handler. It sees the same held threads, and user_event_raise with resume 0 passes the event's source
 * on. Actions that take a while answer as they do in braces: most with an error that says so. A request that concerns
 * other nodes is refused: their answers would come later.
 *
 * With a callback, the request is executed soon after, when no action list runs. The callback is called then, never
 * from inside another function of the extension. Its last call brings the reply of an unconditional request; for a
 * conditional one OMIS_CSR_DELETED, or the error that it could not be defined. If the tool goes away, the last call
 * comes before the tool's objects end, so that the callback can free `param`.
 *
 * The conditional requests belong to the tool, and its csr_delete([]) deletes them, too.
 *
 * A request that cannot be taken is answered by the return value, not by the callback: in `missing` and `destroy`; in
 * `lower`, if it waits; for a tool that goes away; when 16 requests wait for each other, or 10000 are queued.
 */

/* Lets a handler answer later, for instance from a callback. The handler returns without an answer. Other tools are
 * served; the rest of the action list and this tool's next requests wait. `cancel` (may be NULL) is called if the tool
 * goes away first. Objects may end meanwhile: keep their tokens. Returns NULL where the list cannot be interrupted, for
 * an event (its thread is held) and in braces: answer at once. */
struct scry_later;
SCRY_EXT_API struct scry_later *scry_later(struct scry_call *call, void (*cancel)(void *ctx), void *ctx);
/* Put the answer between these two. _begin returns the call to answer; the one that the handler got is gone.
 * `answered`: 1, the list goes on and `later` is gone; 0, not yet. */
SCRY_EXT_API struct scry_call *scry_later_begin(struct scry_later *later);
SCRY_EXT_API void scry_later_end(struct scry_later *later, int answered);

/* ---- state per tool ---- */
/* What an extension keeps about the tool that it serves now. NULL: nothing yet, or no tool is served. `key` is the
 * address of a static variable of the extension, so there can be several states, and extensions do not collide. */
SCRY_EXT_API void *scry_tool_data(const void *key);
/* Replaces the state; the old one is destroyed. `destroy` (may be NULL) is called when the tool has gone, after all its
 * callbacks and after the `destroy` of all its objects. Returns 0, or -1: out of memory, or no tool is served. */
SCRY_EXT_API int scry_tool_set_data(const void *key, void *data, void (*destroy)(void *data));

/* ---- timers and descriptors: an extension can be a sensor ---- */
/*
 * A watch belongs to an object of an extension. It ends with the object, or with scry_watch_end. The monitor's loop
 * calls the function when no action list runs, for the tool that owns the object. The function may end the watch and
 * destroy the object. Returns NULL: out of memory, or not possible.
 */
struct scry_watch;
#define SCRY_WATCH_LEAST 1e-3 /* seconds: a shorter period would keep the monitor from other work */
#define SCRY_WATCH_MOST 1e9
SCRY_EXT_API struct scry_watch *scry_watch_timer(struct scry_object *object, double period_seconds,
                                                 void (*fn)(struct scry_object *object));
/* `events`: POLLIN, POLLOUT of <poll.h>. The descriptor is borrowed, and can be watched once (else dup it). Close it
 * after the watch has ended, for instance in the class's `destroy`. POLLHUP and POLLERR are always reported, and are
 * the last. If you leave data unread, the function is called again at once. */
SCRY_EXT_API struct scry_watch *scry_watch_fd(struct scry_object *object, int fd, unsigned events,
                                              void (*fn)(struct scry_object *object, int fd, unsigned events));
SCRY_EXT_API void scry_watch_end(struct scry_watch *watch); /* NULL is fine */

/* ---- events of the extension's own ---- */
/* Raises the event service `name` (registered with kind SCRY_EVENT) on an object of its class, or with NULL on all. The
 * action lists that wait for it run when the current list has ended. `params` are texts in the request language, one
 * for each output of the signature. User-defined events (8.2.2) are raised with omis_request.
 *
 * Returns 0, also if nobody waits for it. Returns -1, and the monitor's log says why: no such event of an extension,
 * wrong number of parameters, a parameter that is no value, an object of another class, out of memory, or events that
 * raise each other without end. */
SCRY_EXT_API int scry_event_raise(const char *name, struct scry_object *object, const char *const *params,
                                  size_t count);

/* ---- cells: 64-bit numbers in memory shared with the places where events happen ---- */
/* Returns the number of a new cell with the value 0. -1: there are no more. */
SCRY_EXT_API int scry_cell_new(void);
SCRY_EXT_API void scry_cell_free(int cell);
SCRY_EXT_API int64_t scry_cell_get(int cell);
SCRY_EXT_API void scry_cell_set(int cell, int64_t value);
SCRY_EXT_API int64_t scry_cell_add(int cell, int64_t value); /* returns the new value; overflow wraps */
SCRY_EXT_API uint64_t scry_now_ns(void);                     /* the clock of timers in cells and of lowered programs */

/* ---- lowering: inside a `lower` handler ---- */
/* Adds an argument of the call (a literal integer or an event context parameter) to a cell. 0 or -1. */
SCRY_EXT_API int scry_lower_add(struct scry_code *code, int cell, struct scry_call *call, size_t arg_index);
/* A timer is two cells, in nanoseconds: `started` (0 while it does not run, else the time) and `total`. */
SCRY_EXT_API int scry_lower_timer_start(struct scry_code *code, int started_cell);
SCRY_EXT_API int scry_lower_timer_stop(struct scry_code *code, int started_cell, int total_cell);
SCRY_EXT_API int scry_lower_set(struct scry_code *code, int cell, int64_t value);
/* Ends the program here unless the comparison ("==", "!=", "<", "<=", ">", ">=") of the two arguments holds. */
SCRY_EXT_API int scry_lower_unless(struct scry_code *code, struct scry_call *call, size_t left_arg,
                                   const char *comparison, size_t right_arg);

#ifdef __cplusplus
}
#endif

#endif
