/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PYTHON_START_H
#define SCRY_PYTHON_START_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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

#endif
