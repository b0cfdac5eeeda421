/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/route.h"

const char *method_name(enum method method)
{
    switch (method) {
    case METHOD_GET:
        return "get";
    case METHOD_HEAD:
        return "head";
    case METHOD_POST:
        return "post";
    case METHOD_PUT:
        return "put";
    case METHOD_DELETE:
        return "delete";
    case METHOD_OTHER:
        break;
    }
    return "other";
}

static bool matches(const char *pattern, const char *path, struct span ret_parts[PARTS_OF_PATH])
{
    size_t count = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*path++ != *pattern)
                return false;
            continue;
        }
        bool rest = pattern[1] == '*';
        size_t len = rest ? strlen(path) : strcspn(path, "/");
        pattern += rest;
        if (!len || count == PARTS_OF_PATH)
            return false;
        ret_parts[count++] = span_of(path, len);
        path += len;
    }
    return !*path;
}

const struct route *route_find(const char *path, enum method method, struct span ret_parts[PARTS_OF_PATH],
                               unsigned *ret_methods)
{
    bool api = strncmp(path, "api/", 4) == 0;
    enum method wanted = method == METHOD_HEAD ? METHOD_GET : method;
    *ret_methods = 0;
    for (size_t i = 0; i + 1 < route_count; i++) {
        if (!api || !matches(route_rows[i].path, path, ret_parts))
            continue;
        if (route_rows[i].method == wanted)
            return &route_rows[i];
        *ret_methods |= (unsigned)route_rows[i].method;
    }
    if (!api && wanted == METHOD_GET)
        return &route_rows[route_count - 1];
    *ret_methods |= api ? 0 : METHOD_GET;
    return NULL;
}
