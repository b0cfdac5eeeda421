/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocked threads came from. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "job/places/aside.h"
#include "job/places/where.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/index/lines.h"

enum { FRAMES_MOST = 32 };

struct asked {
    pid_t pid;
    const pid_t *tids;
    size_t count;
};

static bool starts_with_any(const char *text, const char *const *starts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* Libraries on the way to system calls that block, and our own. */
static bool is_on_the_way(const char *module)
{
    static const char *const names[] = {"libc.so",      "libc-2",    "libpthread", "ld-linux", "ld-2",
                                        "libstdc++.so", "libc++.so", "libgcc_s",   "libscry-", "[vdso]"};
    return starts_with_any(text_base(module), names, sizeof names / sizeof *names);
}

/* The standard library's templates. */
static bool is_header(const char *file)
{
    static const char *const folders[] = {"/usr/include/", "/usr/lib/gcc/", "/usr/local/include/c++/"};
    return file && starts_with_any(file, folders, sizeof folders / sizeof *folders);
}

static json_t *place_of(const struct line_location *where)
{
    for (size_t i = 0; i < where->count; i++) {
        const struct line_frame *frame = &where->frames[i];
        if (is_header(frame->file))
            continue;
        json_t *place = json_pack("{s:o, s:i}", "module", text_json(where->module), "line", (int)frame->line);
        if (frame->function)
            json_object_set_new(place, "function", text_json(frame->function));
        if (frame->file)
            json_object_set_new(place, "file", text_json(frame->file));
        return place;
    }
    return NULL;
}

json_t *where_caller(struct lines *lines, const uint64_t *frames, size_t from, size_t count,
                     bool (*left_out)(const char *module))
{
    for (size_t i = from; i < count; i++) {
        struct line_location where;
        if (lines_find(lines, frames[i] - (i > 0), &where) < 0)
            break;
        json_t *place = where.module && !left_out(where.module) ? place_of(&where) : NULL;
        line_location_done(&where);
        if (place)
            return place;
    }
    return NULL;
}

static json_t *look(struct lines *lines, pid_t pid, pid_t tid)
{
    char path[64], text[256] = "";
    unsigned long long sp = 0, pc = 0;
    uint64_t frames[FRAMES_MOST];
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, tid);
    FILE *file = fopen(path, "re");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = '\0';
        fclose(file);
    }
    if (sscanf(text, "%*s 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%*x 0x%llx 0x%llx", &sp, &pc) != 2)
        return json_null();
    size_t count = lines_callers(lines, sp, pc, frames, FRAMES_MOST);
    json_t *place = where_caller(lines, frames, 1, count, is_on_the_way);
    return place ? place : json_null();
}

static json_t *look_at_all(const void *ctx)
{
    const struct asked *asked = ctx;
    struct lines *lines;
    if (lines_open_process(&lines, asked->pid, NULL) < 0)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < asked->count; i++)
        json_array_append_new(list, look(lines, asked->pid, asked->tids[i]));
    return list;
}

json_t *where_blocked(pid_t pid, const pid_t *tids, size_t count)
{
    struct asked asked = {pid, tids, count};
    return aside_run(look_at_all, &asked, WHERE_TIMEOUT_MS);
}
