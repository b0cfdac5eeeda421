/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/capture/test_support.h"

#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/file.h"

static char folder[PATH_MAX];

int support_enter(void **state)
{
    char cache[PATH_MAX + 16];
    snprintf(folder, sizeof folder, "/tmp/scry-test-symbols-XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) < 0)
        return -1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    return setenv("SCRY_CACHE_DIR", cache, 1);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    return remove(path);
}

int support_leave(void **state)
{
    return chdir("/") < 0 || nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) < 0 ? -1 : 0;
}

void support_write(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

void support_copy(const char *from, const char *to)
{
    char *bytes;
    size_t len;
    assert_int_equal(file_read(from, &bytes, &len), 0);
    support_write(to, bytes, len);
    assert_int_equal(chmod(to, 0755), 0);
    free(bytes);
}

void support_run(const char *format, ...)
{
    char command[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    setenv("CCACHE_DISABLE", "1", 1); /* its objects name the directory in which they were first made */
    int status = system(command);
    if (status != 0)
        fail_msg("status %d of: %s", status, command);
}

bool support_has(const char *program)
{
    char command[256];
    snprintf(command, sizeof command, "command -v %s >/dev/null", program);
    return system(command) == 0;
}
