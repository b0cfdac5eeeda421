/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "symbols/python/python.h"

static bool is_of_library(const char *file)
{
    for (const char *at = file; (at = strstr(at, "/python3.")) != NULL; at++) {
        bool lib =
            (at - file >= 4 && memcmp(at - 4, "/lib", 4) == 0) || (at - file >= 6 && memcmp(at - 6, "/lib64", 6) == 0);
        if (lib && isdigit((unsigned char)at[strlen("/python3.")]))
            return true;
    }
    return false;
}

bool python_is_own_code(const char *file)
{
    static const char frozen[] = "<frozen";
    return strncmp(file, frozen, strlen(frozen)) != 0 && strcmp(file, "<string>") != 0 &&
           !strstr(file, "/site-packages/") && !strstr(file, "/dist-packages/") && !is_of_library(file);
}

const struct python_frame *python_own_frame(const struct python_thread *thread)
{
    for (size_t i = 0; i < thread->count; i++)
        if (python_is_own_code(thread->frames[i].file))
            return &thread->frames[i];
    for (size_t i = 0; i < thread->count; i++)
        if (strcmp(thread->frames[i].file, "<string>") == 0) /* python -c; a thread that it has started */
            return &thread->frames[i];
    return thread->count ? &thread->frames[0] : NULL;
}

bool python_is_in_asyncio(const struct python_thread *thread)
{
    static const char function[] = "_run_once", file[] = "/asyncio/base_events.py";
    for (size_t i = 0; i < thread->count; i++) {
        const struct python_frame *frame = &thread->frames[i];
        size_t len = strlen(frame->function), path = strlen(frame->file);
        if (python_is_own_code(frame->file))
            return false; /* a task */
        if (len >= sizeof function - 1 && strcmp(frame->function + len - (sizeof function - 1), function) == 0 &&
            path >= sizeof file - 1 && strcmp(frame->file + path - (sizeof file - 1), file) == 0)
            return true;
    }
    return false;
}
