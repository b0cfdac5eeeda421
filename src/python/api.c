/* SPDX-License-Identifier: Apache-2.0 */
#include "python/api.h"

#include <dlfcn.h>
#include <string.h>

struct py_api py;

static bool find(void **to, const char *name)
{
    *to = dlsym(RTLD_DEFAULT, name);
    return *to != NULL;
}

bool py_find(void)
{
    bool all = true;
    void *type, *os_error;
#define FIND(result, name, arguments) all = all && find((void **)&py.name, #name);
    PY_FUNCTIONS(FIND)
#undef FIND
    if (!py.Py_GetVersion || !py.PySys_AddAuditHook)
        return false;
    find((void **)&py.set_profile, "_PyEval_SetProfile");
    find((void **)&py.set_trace, "_PyEval_SetTrace");
    all = all && find((void **)&py.none, "_Py_NoneStruct") && find((void **)&py.string, "PyUnicode_Type") &&
          find((void **)&py.integer, "PyLong_Type") && find((void **)&py.list, "PyList_Type") &&
          find(&type, "PyExc_BaseException") && find(&os_error, "PyExc_OSError");
    if (!all)
        return false;
    py.exception = type;    /* the address of a pointer, which is not set yet; */
    py.os_error = os_error; /* so is this */
    const char *version = py.Py_GetVersion();
    if (strncmp(version, "3.", 2) == 0)
        for (const char *digit = version + 2; *digit >= '0' && *digit <= '9'; digit++)
            py.minor = 10 * py.minor + *digit - '0';
    py.free_threading = strstr(version, "free-threading") != NULL;
    return py.minor > 0;
}

struct py *py_member(struct py *object, const char *name)
{
    struct py *found = object ? py.PyObject_GetAttrString(object, name) : NULL;
    if (!found)
        py.PyErr_Clear();
    return found;
}

int py_member_int(struct py *object, const char *name)
{
    struct py *found = py_member(object, name);
    if (!found)
        return -1;
    int number = found == py.none ? -1 : (int)py.PyLong_AsLong(found);
    if (number == -1)
        py.PyErr_Clear();
    py.Py_DecRef(found);
    return number;
}

struct py *py_text(struct py *string, const char **ret_bytes, size_t *ret_size)
{
    char *bytes;
    ssize_t size;
    struct py *encoded = string ? py.PyUnicode_AsEncodedString(string, "utf-8", "surrogateescape") : NULL;
    if (!encoded || py.PyBytes_AsStringAndSize(encoded, &bytes, &size) < 0) {
        py.PyErr_Clear();
        if (encoded)
            py.Py_DecRef(encoded);
        return NULL;
    }
    *ret_bytes = bytes;
    *ret_size = (size_t)size;
    return encoded;
}

bool py_is(struct py *object, struct py *type)
{
    struct py *own = py.PyObject_Type(object);
    bool same = own == type;
    py.Py_DecRef(own);
    return same;
}
