/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry/ext.h: the extension interface of scry's monitor (the specification's 6.3 leaves it open).
 *
 * An extension is a shared object scry_ext_PREFIX.so in the extension path. It exports one function,
 *
 *     int PREFIX_register(void);          0, or -1 to be left out
 *
 * which calls scry_register_service() and scry_register_class() for what it brings. Every service name is PREFIX or
 * starts with "PREFIX_", every token class is PREFIX_x with one character x. The functions declared here, omis_request
 * and omis_reply_free are the monitor's own: an extension links nothing. They may only be called on the monitor's
 * thread, that is, from PREFIX_register and from the functions that were given to them. These must not block.
 *
 * What an extension does, it does for a tool: the one whose request or event is handled; in a callback, the one for
 * whom was requested. What it makes meanwhile belongs to that tool and ends with it. What PREFIX_register makes, and
 * requests, is for the extension itself, which is a tool then (6.1, "distributed tool"), as long as the monitor lives.
 *
 * ext/null is the commented example to copy; ext/filter requests and raises user events; ext/pa can be compiled;
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
/* (R), (P), (O) of chapter 8. SCRY_PARTLY, beside one of them: not all of it is there (`doc` says what), and `services`
 * lists it so. */
enum scry_requirement { SCRY_REQUIRED, SCRY_PARTIAL, SCRY_OPTIONAL, SCRY_PARTLY = 4 };

struct scry_call;   /* one action being executed on its objects */
struct scry_object; /* a thing with a token */
struct scry_code;   /* a program being compiled, see scry_lower_... */

/*
 * One service. `signature` as in the specification's prototypes, parameters first (doc/reference/services.md has them
 * all):
 *
 *     "token<pa_c>* counter_list, integer value -> void"
 *
 * Arguments are checked against it, and tokens converted to the class in <>, before `run` is called; `run` then answers
 * once for each object with scry_ok, scry_result or scry_fail (for the call itself, object NULL, where no object is
 * concerned).
 *
 * `lower`, optional, compiles the action instead of running it (scry_lower_...); it returns 0, or -1 when these
 * arguments cannot be compiled. A conditional request whose actions all compile runs where its event happens, without
 * the monitor.
 *
 * `missing`, optional, says why the service cannot work on this machine (borrowed text), or NULL if it works.
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

/* The rows are borrowed for ever. Returns 0, or -1 and logs why (bad signature, name taken, wrong prefix). */
SCRY_EXT_API int scry_register_service(const struct scry_service *service);

/* A class of tokens, "pa_c". `destroy` is called with the object's data when the object ends (destroyed by a service,
 * or with the tool that owned it). `doc`: one line. */
SCRY_EXT_API int scry_register_class(const char *token_class, void (*destroy)(void *data), const char *doc);

/*
 * Conversion of tokens of such a class (7.2.2), which services of everybody make then, where they get one: localisation
 * to what an object is in (an open file in a process), and by it expansion of that to what it contains; expansion to
 * the members of an object (a group of processes) without the way back. `container` gives the token of the object that
 * one with these data is in, `member` that of the index-th member, NULL behind the last. Tokens of what is gone, or of
 * another class, are as none. The other class is there before. 0, or -1 and logs why.
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
/* Any argument as the request language writes it; NULL when out of memory. */
SCRY_EXT_API const char *scry_arg_text(struct scry_call *call, size_t index, size_t *ret_len);
/* Lists; `any` arguments: the count of a list, else 1, and its elements as text of the language. */
SCRY_EXT_API size_t scry_arg_count(struct scry_call *call, size_t index);
SCRY_EXT_API int64_t scry_arg_list_integer(struct scry_call *call, size_t index, size_t element);
SCRY_EXT_API const char *scry_arg_list_text(struct scry_call *call, size_t index, size_t element, size_t *ret_len);

/* ---- objects of the call: the argument with a token class, converted ---- */
SCRY_EXT_API size_t scry_object_count(struct scry_call *call);
SCRY_EXT_API struct scry_object *scry_object_at(struct scry_call *call, size_t index);
SCRY_EXT_API const char *scry_object_token(struct scry_object *object); /* valid while the object lives */
SCRY_EXT_API void *scry_object_data(struct scry_object *object);        /* what scry_object_new was given */

/* A new object owned by the calling tool, or NULL when out of memory. `call` NULL: by the tool that is served. */
SCRY_EXT_API struct scry_object *scry_object_new(struct scry_call *call, const char *token_class, void *data);
/* Its data are destroyed when nothing that runs can refer to it any more. */
SCRY_EXT_API void scry_object_destroy(struct scry_object *object);

/* ---- conversion of tokens (7.2.2), as the monitor does it with arguments that have a class ---- */
/* Objects are valid until the function that the extension was called with returns: keep their tokens. */
SCRY_EXT_API struct scry_object *scry_object_find(const char *token);   /* NULL: there is none (any more) */
SCRY_EXT_API const char *scry_object_class(struct scry_object *object); /* "p", "pa_c" */
/* Localisation: the object of a class that contains this one, or it itself; NULL: none does. */
SCRY_EXT_API struct scry_object *scry_object_localise(struct scry_object *object, const char *token_class);
/* Converts a token or a list of tokens, as scry_arg_text gives them, to objects of a class: by localisation; in a list
 * by expansion, too; "[]" is all of the class that the tool has. The tool's scope counts. Those that cannot be
 * converted are answered in the call's reply. Returns how many there are in *ret_objects, which stays until the call's
 * end. */
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

/* ---- requests: omis_request and omis_reply_free of <omis.h>, in just the same way as tools do (6.3) ---- */
/*
 * Without a callback, or with OMIS_WAIT_FOR_FIRST_REPLY, the request is executed at once, as a part of the action list
 * that the handler was called from: it sees the same held threads, and user_event_raise with resume 0 passes the source
 * of the event on. Actions whose answer takes a while answer as they do in braces, most with an error that says so.
 *
 * With a callback it is executed soon after, when no action list runs; the callback is called then, too, never from
 * inside another function of the extension. It is called until the last reply was given to it: for an unconditional
 * request that is the only one, for a conditional one OMIS_CSR_DELETED, or that it could not be defined. When the tool
 * goes away it is called for the last time, before the tool's objects end, so that it can free `param`.
 *
 * A reply is returned instead of given to the callback where the request could not be taken: from `missing`, `destroy`
 * and, if it waits, `lower`; for a tool that goes; with 16 requests that wait for each other, or 10000 that were not
 * executed yet. The conditional requests that are made belong to the tool and are meant by its csr_delete([]), too.
 */

/* For handlers whose answer takes a while, as when it comes of a request with a callback. The handler returns without
 * an answer; everybody else is served, the rest of the action list and the tool's next requests wait. `cancel`, not
 * NULL, is called if the tool goes away before. Objects may end meanwhile: keep their tokens. NULL: lists that run for
 * an event, for its thread is held, and in braces are not interrupted: answer now. */
struct scry_later;
SCRY_EXT_API struct scry_later *scry_later(struct scry_call *call, void (*cancel)(void *ctx), void *ctx);
/* Brackets the answer: the call that it is for (the one that the handler got is gone), and `answered`: the list goes on
 * (then `later` is gone), 0: not yet. */
SCRY_EXT_API struct scry_call *scry_later_begin(struct scry_later *later);
SCRY_EXT_API void scry_later_end(struct scry_later *later, int answered);

/* ---- state per tool ---- */
/* What an extension keeps about the tool that it serves now; NULL: nothing yet, or it serves none. `key` is the address
 * of a static variable of the extension: any number of states, and no two extensions have the same. */
SCRY_EXT_API void *scry_tool_data(const void *key);
/* Takes the place of what was there, which is destroyed. `destroy`, NULL: none, is called when the tool has gone, after
 * all its callbacks and the `destroy` of all its objects. 0, or -1: out of memory, or no tool is served. */
SCRY_EXT_API int scry_tool_set_data(const void *key, void *data, void (*destroy)(void *data));

/* ---- timers and descriptors: an extension can be a sensor ---- */
/*
 * Each belongs to an object of an extension, and ends with it (which ends with its tool) or with scry_watch_end. The
 * function is called from the monitor's loop, when no action list runs, for the tool that the object belongs to; it may
 * end the watch and destroy the object. NULL: out of memory, or not possible.
 */
struct scry_watch;
#define SCRY_WATCH_LEAST 1e-3 /* seconds: less would keep the monitor from everything else */
#define SCRY_WATCH_MOST 1e9
SCRY_EXT_API struct scry_watch *scry_watch_timer(struct scry_object *object, double period_seconds,
                                                 void (*fn)(struct scry_object *object));
/* `events`: POLLIN, POLLOUT of <poll.h>. The descriptor is borrowed, and watched once (else dup it); close it after the
 * watch has ended, as in the class's `destroy`. After POLLHUP or POLLERR, which are always told, nothing more is. Who
 * does not read what there is to read is called again at once. */
SCRY_EXT_API struct scry_watch *scry_watch_fd(struct scry_object *object, int fd, unsigned events,
                                              void (*fn)(struct scry_object *object, int fd, unsigned events));
SCRY_EXT_API void scry_watch_end(struct scry_watch *watch); /* NULL is fine */

/* ---- events of the extension's own ---- */
/* Raises the event service `name` (registered with kind SCRY_EVENT) on an object of its class (or NULL: on all). The
 * action lists that wait for it run when the list that runs now has ended. `params` are texts in the request language,
 * one for each output of the signature. 0 also if nobody waits for it; -1: no such event of an extension, a wrong
 * number of parameters or one that is no value, an object of another class (the monitor's log says which), out of
 * memory, or events that raise each other without end. User-defined events (8.2.2) are raised with omis_request. */
SCRY_EXT_API int scry_event_raise(const char *name, struct scry_object *object, const char *const *params,
                                  size_t count);

/* ---- cells: 64-bit numbers in memory shared with the places where events happen ---- */
/* -1 when there are no more. A cell is 0 when new. */
SCRY_EXT_API int scry_cell_new(void);
SCRY_EXT_API void scry_cell_free(int cell);
SCRY_EXT_API int64_t scry_cell_get(int cell);
SCRY_EXT_API void scry_cell_set(int cell, int64_t value);
SCRY_EXT_API int64_t scry_cell_add(int cell, int64_t value); /* returns the new value; overflow wraps */
SCRY_EXT_API uint64_t scry_now_ns(void);                     /* the clock of timers in cells and of lowered programs */

/* ---- lowering: inside a `lower` handler ---- */
/* Adds an argument of the call (a literal integer or an event context parameter) to a cell. 0 or -1. */
SCRY_EXT_API int scry_lower_add(struct scry_code *code, int cell, struct scry_call *call, size_t arg_index);
/* A timer is two cells, `started` (0: not running, else the time) and `total`, in nanoseconds. */
SCRY_EXT_API int scry_lower_timer_start(struct scry_code *code, int started_cell);
SCRY_EXT_API int scry_lower_timer_stop(struct scry_code *code, int started_cell, int total_cell);
/* Sets a cell. */
SCRY_EXT_API int scry_lower_set(struct scry_code *code, int cell, int64_t value);
/* Ends the program here unless the comparison ("==", "!=", "<", "<=", ">", ">=") of two arguments holds. */
SCRY_EXT_API int scry_lower_unless(struct scry_code *code, struct scry_call *call, size_t left_arg,
                                   const char *comparison, size_t right_arg);

#ifdef __cplusplus
}
#endif

#endif
