/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PYTHON_PYTHON_H
#define SCRY_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/script_ring.h"

/*
 * The functions of CPython's C interface that the library needs, looked up in the running interpreter: so one library
 * serves all versions, and none is needed to build it. Objects are opaque. Most functions want the GIL.
 */

struct py;       /* PyObject */
struct py_state; /* PyThreadState, PyInterpreterState */

/* Py_tracefunc */
typedef int py_trace_fn(struct py *object, struct py *frame, int what, struct py *argument);
/* Py_AuditHookFunction */
typedef int py_audit_fn(const char *event, struct py *arguments, void *data);
/* PyMethodDef, of the stable ABI */
struct py_method {
    const char *name;
    void *function;
    int flags;
    const char *doc;
};

/* result, name, arguments */
#define PY_FUNCTIONS(API) \
    API(const char *, Py_GetVersion, (void)) \
    API(int, PySys_AddAuditHook, (py_audit_fn *, void *)) \
    API(void, Py_IncRef, (struct py *)) \
    API(void, Py_DecRef, (struct py *)) \
    API(struct py *, PyEval_GetFrame, (void)) \
    API(struct py *, PyFrame_GetCode, (struct py *)) \
    API(int, PyFrame_GetLineNumber, (struct py *)) \
    API(void, PyEval_SetProfile, (py_trace_fn *, struct py *)) \
    API(void, PyEval_SetTrace, (py_trace_fn *, struct py *)) \
    API(struct py *, PyImport_ImportModule, (const char *)) \
    API(struct py *, PySys_GetObject, (const char *)) \
    API(struct py *, PyObject_GetAttrString, (struct py *, const char *)) \
    API(struct py *, PyObject_CallFunction, (struct py *, const char *, ...)) \
    API(struct py *, PyObject_CallMethod, (struct py *, const char *, const char *, ...)) \
    API(struct py *, PyObject_Type, (struct py *)) \
    API(struct py *, PyUnicode_AsEncodedString, (struct py *, const char *, const char *)) \
    API(int, PyBytes_AsStringAndSize, (struct py *, char **, ssize_t *)) \
    API(ssize_t, PyTuple_Size, (struct py *)) \
    API(struct py *, PyTuple_GetItem, (struct py *, ssize_t)) \
    API(ssize_t, PyList_Size, (struct py *)) \
    API(struct py *, PyList_GetItem, (struct py *, ssize_t)) \
    API(long, PyLong_AsLong, (struct py *)) \
    API(void, PyErr_Fetch, (struct py **, struct py **, struct py **)) \
    API(void, PyErr_Restore, (struct py *, struct py *, struct py *)) \
    API(void, PyErr_Clear, (void)) \
    API(const char *, PyExceptionClass_Name, (struct py *)) \
    API(struct py *, PyException_GetTraceback, (struct py *)) \
    API(struct py *, PyWeakref_NewRef, (struct py *, struct py *)) \
    API(struct py *, PyWeakref_GetObject, (struct py *)) \
    API(int, PyObject_IsInstance, (struct py *, struct py *)) \
    API(struct py *, PyCFunction_NewEx, (struct py_method *, struct py *, struct py *)) \
    API(void *, PyCFunction_GetFunction, (struct py *)) \
    API(struct py_state *, PyThreadState_Get, (void)) \
    API(struct py_state *, PyInterpreterState_Main, (void)) \
    API(struct py_state *, PyInterpreterState_Get, (void)) \
    API(struct py_state *, PyInterpreterState_ThreadHead, (struct py_state *))

struct py_api {
#define PY_MEMBER(result, name, arguments) result(*name) arguments;
    PY_FUNCTIONS(PY_MEMBER)
#undef PY_MEMBER
    /* Of other threads; until 3.11. May be NULL. */
    int (*set_profile)(struct py_state *thread, py_trace_fn *, struct py *);
    int (*set_trace)(struct py_state *thread, py_trace_fn *, struct py *);
    struct py *none;
    /* types, for what may be read without running code of the program */
    struct py *string, *integer, *list, *exception, *os_error;
    int minor; /* 12 of 3.12; 0: no Python 3 */
    bool free_threading;
};
extern struct py_api py;

/* An attribute of an object whose type is CPython's own, so that no code of the program runs. A new reference, or NULL
 * without an exception. */
struct py *py_member(struct py *object, const char *name);
/* As int; -1: none. */
int py_member_int(struct py *object, const char *name);
/* The text of a str in UTF-8, odd characters as they came. A new reference to a bytes object, NULL: none. */
struct py *py_text(struct py *string, const char **ret_bytes, size_t *ret_size);
/* The type of the object, exactly. */
bool py_is(struct py *object, struct py *type);

/*
 * What is counted, whatever tells of it: functions with their calls and times, lines with
 * theirs, and exceptions, for code that is the user's: neither the standard library's nor an installed package's. All
 * of it wants the GIL, which is its lock, and leaves an exception that is set alone. Times are of the time stamp
 * counter.
 */

struct watch_code; /* what is known of a code object */

struct watch {
    const char *directory; /* of rings; NULL: off for good */
    bool lines;
    struct script_writer *writer; /* NULL: not open yet */
    struct script_ring *ring;
    const struct py *thread_end; /* the code that calls a thread's function, as soon as it was called */
    uint32_t generation;         /* grows when sums are others: in a child of a fork */
    char program[SCRIPT_TEXT_MOST];
};
extern struct watch watch;

/* Once, when Python is ready and no code of the program has run. false: no room for it, nothing is watched. */
bool watch_start(const char *directory, bool lines, struct py *program);
/* In its place, before Python is initialised: this Python cannot be watched. */
void watch_refuse(const char *directory, const char *reason);
/* The tracer does not go on, at least in this thread. */
void watch_step_aside(const char *reason);
/* After that: what this thread was in may have been left. */
void watch_go_on(void);

/* May be called whenever a function of this file is about to be: after a fork there is another ring. false: off. */
bool watch_renew(void);
static inline bool watch_ready(void)
{
    return watch.writer && script_writer_mine(watch.writer) ? true : watch_renew();
}

/* NULL: of no interest, or no memory. The code object is borrowed. */
struct watch_code *watch_code_of(struct py *code);

/* A function of that code begins, or goes on (`counted` false: a generator); ends, by an exception if `failed`. */
void watch_enter(struct watch_code *code, bool counted);
void watch_leave(struct watch_code *code, bool failed);
void watch_line(struct watch_code *code, int line);
/* An exception of that class is on its way through this code, at this line (-1: ask the frame). As long as it is not
 * made, `exception` is its argument. */
void watch_raised(struct watch_code *code, int line, struct py *exception, struct py *type);
/* The same in code that is of no interest: is that the one in which Python ends a thread? */
void watch_passed(const struct py *code, struct py *exception);
/* Python reports an exception that it cannot give to anyone. */
void watch_unraisable(void);
/* The exception reached the end of the program. */
void watch_uncaught(struct py *type, struct py *exception, struct py *traceback);

#endif
