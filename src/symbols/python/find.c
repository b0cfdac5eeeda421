/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"
#include "symbols/python/exports.h"
#include "symbols/python/python.h"

enum { VERSION_3_9 = 0x03090000, VERSION_3_10 = 0x030a0000, VERSION_3_11 = 0x030b0000 };

void python_version(char text[PYTHON_VERSION_SIZE], uint32_t version)
{
    if (version & 0xffff)
        snprintf(text, PYTHON_VERSION_SIZE, "%u.%u.%u", version >> 24, version >> 16 & 255, version >> 8 & 255);
    else
        snprintf(text, PYTHON_VERSION_SIZE, "%u.%u", version >> 24, version >> 16 & 255);
}

/* Before 3.11 it does not say it in a variable. What each version was the first to have does. */
static uint32_t version_of(const struct exports *exports)
{
    uint64_t version = 0, at = exports_find(exports, "Py_Version");
    if (at)
        return python_get(exports->memory, at, &version, sizeof version) == 0 && version >= VERSION_3_11
                   ? (uint32_t)version
                   : 0;
    if (exports_find(exports, "PyIter_Send"))
        return VERSION_3_10;
    return exports_find(exports, "PyFrame_GetBack") && exports_find(exports, "PyObject_GC_IsTracked") ? VERSION_3_9 : 0;
}

/* A program that is no position-independent one may have its own copy of a library's variable. */
static uint64_t variable(const struct exports *program, const struct exports *library, const char *name)
{
    uint64_t at = program->bucket_count ? exports_find(program, name) : 0;
    return at ? at : exports_find(library, name);
}

static int take(struct python_program *ret_program, const struct exports *main, const struct exports *exports)
{
    ret_program->runtime = exports_find(exports, "_PyRuntime");
    if (!ret_program->runtime)
        return -ENOENT;
    ret_program->version = version_of(exports);
    ret_program->code_type = variable(main, exports, "PyCode_Type");
    ret_program->text_type = variable(main, exports, "PyUnicode_Type");
    ret_program->bytes_type = variable(main, exports, "PyBytes_Type");
    int r = python_layout_find(&ret_program->layout, ret_program->version, exports->memory, ret_program->runtime);
    if (ret_program->layout.objects)
        ret_program->frame_type = variable(main, exports, "PyFrame_Type");
    if (r == 0 && (!ret_program->code_type || !ret_program->text_type || !ret_program->bytes_type ||
                   (ret_program->layout.objects && !ret_program->frame_type)))
        return -ENOTSUP;
    return r;
}

/* Not the extensions, "_ctypes.cpython-311-x86_64-linux-gnu.so". */
static bool may_have_it(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return strncmp(name, "libpython", strlen("libpython")) == 0 || strncmp(name, "python", strlen("python")) == 0;
}

int python_find(struct python_program *ret_program, pid_t pid)
{
    struct python_memory memory = python_memory_of(&pid);
    _cleanup_(proc_maps_done) struct proc_maps maps = {0};
    struct exports program = {0}, library = {0};
    char exe[PATH_MAX] = "", link[PROC_PATH_SIZE];
    *ret_program = (struct python_program){.pid = pid};
    int r = proc_maps_read(pid, &maps);
    if (r < 0)
        return r;
    proc_path(link, pid, 0, "exe");
    ssize_t len = readlink(link, exe, sizeof exe - 1);
    exe[len > 0 ? len : 0] = 0;
    int result = -ENOENT;
    for (size_t i = 0; i < maps.count && result == -ENOENT; i++) {
        const struct proc_map *map = &maps.maps[i];
        const bool main = *exe && strcmp(map->path, exe) == 0 && !program.bucket_count;
        if (map->offset || !map->read || (!main && !may_have_it(map->path)))
            continue;
        r = exports_open(main ? &program : &library, &memory, map->start);
        if (r == -ESRCH || r == -EACCES)
            return r;
        if (r == 0)
            result = take(ret_program, &program, main ? &program : &library);
    }
    return result;
}
