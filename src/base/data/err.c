/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_text(struct err *err, int code, const char *format, va_list args)
{
    err->code = code;
    vsnprintf(err->text, sizeof err->text, format, args);
}

int err_set(struct err *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        set_text(err, code, format, args);
        va_end(args);
    }
    return code;
}

int err_errno(struct err *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        set_text(err, code, format, args);
        va_end(args);
        size_t used = strlen(err->text);
        /* strerrordesc_np is the signal-safe, thread-safe strerror */
        const char *reason = strerrordesc_np(-code);
        snprintf(err->text + used, sizeof err->text - used, ": %s", reason ? reason : "unknown error");
    }
    return code;
}
