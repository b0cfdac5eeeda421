/* SPDX-License-Identifier: Apache-2.0 */
/* What people need to see of stacks, and sets of ranks. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/snapshot/snapshot.h"
#include "jobdir/text/text.h"

enum { SET_RANGES = 8 /* shown of a set */ };

/* ---- frames ---- */

static bool starts_with_any(const char *text, const char *const *starts)
{
    for (; *starts; starts++)
        if (strncmp(text, *starts, strlen(*starts)) == 0)
            return true;
    return false;
}

static bool is_native(const struct stack_frame *frame)
{
    return strcmp(frame->language, "native") == 0;
}

/* Its files are no places that the user knows, even where their lines are known. */
bool snapshot_is_library(const struct stack_frame *frame)
{
    static const char *const folders[] = {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "[", NULL};
    return is_native(frame) &&
           (starts_with_any(frame->module, folders) || (!*frame->file && strstr(text_base(frame->module), ".so")));
}

static bool is_interpreter(const struct stack_frame *frame)
{
    static const char *const names[] = {"python", "libpython", NULL};
    return is_native(frame) && starts_with_any(text_base(frame->module), names);
}

static bool is_start(const struct stack_frame *frame)
{
    static const char *const names[] = {"_start", "__libc_start", "start_thread", "clone", "__clone", "__GI___clone",
                                        NULL};
    return is_native(frame) && starts_with_any(frame->function, names);
}

static bool is_mpi(const struct stack_frame *frame)
{
    static const char *const names[] = {"MPI_", "PMPI_", NULL};
    return is_native(frame) && starts_with_any(frame->function, names);
}

/* The C library has its functions under several names: "__GI___nanosleep"; MPI has each under two. */
static const char *plain_name(const struct stack_frame *frame)
{
    static const char *const names[] = {"libc.so", "libc-2", "libpthread", "libm.so", NULL};
    const char *name = frame->function;
    if (strncmp(name, "PMPI_", 5) == 0)
        return name + 1;
    if (!starts_with_any(text_base(frame->module), names))
        return name;
    if (strncmp(name, "__GI_", 5) == 0)
        name += 5;
    const char *plain = name + strspn(name, "_");
    plain += strncmp(plain, "libc_", 5) == 0 ? 5 : 0;
    return *plain ? plain : name;
}

/* Both are somewhere in the same program, which has no names. */
static bool is_unnamed(const struct stack_frame *one, const struct stack_frame *other)
{
    return is_native(one) && is_native(other) && !*one->function && !*other->function &&
           strcmp(one->module, other->module) == 0;
}

size_t snapshot_trim(struct stack_frame *frames, size_t count)
{
    bool python = false;
    size_t end = count, kept = count;
    for (size_t i = 0; i < count; i++)
        python |= strcmp(frames[i].language, "python") == 0;
    for (size_t i = 0; i < count && end == count; i++) /* what is outside has no names, perhaps */
        end = is_start(&frames[i]) ? i : end;
    if (!end)
        return count;
    /* outside in: what was kept last decides on what it has called */
    const struct stack_frame *outer = NULL;
    for (size_t i = end; i-- > 0;) {
        /* a library without names, such as that of mpi4py, says less than what it has called */
        if (outer && is_mpi(&frames[i]) && snapshot_is_library(outer) && !*outer->function) {
            kept++;
            outer = NULL;
        }
        bool hidden = (outer && is_unnamed(outer, &frames[i])) || (python && is_interpreter(&frames[i])) ||
                      (outer && is_mpi(outer)) ||
                      (outer && snapshot_is_library(outer) && snapshot_is_library(&frames[i]));
        if (hidden)
            continue;
        frames[--kept] = frames[i];
        frames[kept].function = plain_name(&frames[kept]);
        outer = &frames[kept];
    }
    memmove(frames, frames + kept, (count - kept) * sizeof *frames);
    return count - kept;
}

/* ---- sets ---- */

void snapshot_put_set(struct buf *out, const uint32_t *numbers, size_t count)
{
    size_t shown = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1;)
            end++;
        if (end < count && shown == SET_RANGES - 1) {
            buf_printf(out, ",...,%" PRIu32, numbers[count - 1]);
            return;
        }
        if (end == i + 2) /* two: no range */
            end--;
        buf_printf(out, "%s%" PRIu32, i ? "," : "", numbers[i]);
        if (end > i + 1)
            buf_printf(out, "-%" PRIu32, numbers[end - 1]);
        shown++;
    }
}

static bool take_number(const char **at, uint32_t *ret_number)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    unsigned long long number = strtoull(*at, &end, 10);
    *at = end;
    *ret_number = (uint32_t)number;
    return errno == 0 && number <= INT32_MAX;
}

int snapshot_set_has(const char *set, uint32_t number, bool *ret_has, struct err *err)
{
    const char *at = set;
    *ret_has = false;
    for (bool more = true; more; at++) {
        uint32_t low, high;
        if (!take_number(&at, &low))
            break;
        high = low;
        if (*at == '-' && (at++, !take_number(&at, &high) || high < low))
            break;
        *ret_has |= number >= low && number <= high;
        more = *at == ',';
        if (!*at)
            return 0;
    }
    return err_set(err, -EINVAL, "'%s' is no set of ranks: write numbers and ranges, such as 0-3,8", set);
}
