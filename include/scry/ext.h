/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry/ext.h: the extension interface of scry's monitor (the specification's 6.3 leaves it open).
 *
 * An extension is a shared object scry_ext_PREFIX.so in the extension path. It exports one function,
 *
 *     int PREFIX_register(void);          0, or -1 to be left out
 *
 * which calls scry_register_service() and scry_register_class() for what it brings. Every service name starts with
 * "PREFIX_", every token class is PREFIX_x with one character x. The functions declared here are the monitor's own: an
 * extension links nothing. They may only be called on the monitor's thread, that is, from PREFIX_register and from the
 * handlers it registered. A handler must not block. ext/null is the commented example to copy, ext/pa a useful one.
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

/* ---- arguments: index 0 is the first in the signature; types are already checked ---- */
SCRY_EXT_API int64_t scry_arg_integer(struct scry_call *call, size_t index);
SCRY_EXT_API double scry_arg_floating(struct scry_call *call, size_t index); /* integers are converted */
SCRY_EXT_API const char *scry_arg_string(struct scry_call *call, size_t index,
                                         size_t *ret_len); /* also binary and token */
/* Lists; `any` arguments: the count of a list, else 1, and its elements as text of the language. */
SCRY_EXT_API size_t scry_arg_count(struct scry_call *call, size_t index);
SCRY_EXT_API int64_t scry_arg_list_integer(struct scry_call *call, size_t index, size_t element);
SCRY_EXT_API const char *scry_arg_list_text(struct scry_call *call, size_t index, size_t element, size_t *ret_len);

/* ---- objects of the call: the argument with a token class, converted ---- */
SCRY_EXT_API size_t scry_object_count(struct scry_call *call);
SCRY_EXT_API struct scry_object *scry_object_at(struct scry_call *call, size_t index);
SCRY_EXT_API const char *scry_object_token(struct scry_object *object); /* valid while the object lives */
SCRY_EXT_API void *scry_object_data(struct scry_object *object);        /* what scry_object_new was given */

/* A new object owned by the calling tool, or NULL when out of memory. */
SCRY_EXT_API struct scry_object *scry_object_new(struct scry_call *call, const char *token_class, void *data);
SCRY_EXT_API void scry_object_destroy(struct scry_object *object);

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

/* ---- events of the extension's own ---- */
/* Raises the event service `name` (registered with kind SCRY_EVENT) on an object of ours (or NULL). `params` are texts
 * in the request language, one for each output of the signature. */
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
