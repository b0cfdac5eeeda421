/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/readers.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "base/system/dirs.h"

static const struct credential_readers *find(struct err *err)
{
    static const struct credential_readers *found;
    char path[PATH_MAX];
    if (found)
        return found;
    if (dirs_libexec("libscry-credentials.so", path, sizeof path, err) < 0)
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct credential_readers *readers = library ? dlsym(library, READERS_SYMBOL) : NULL;
    if (!readers)
        err_set(err, -ELIBACC, "%s", dlerror());
    else if (strcmp(readers->version, SCRY_VERSION) != 0)
        err_set(err, -ELIBACC, "%s is of another version of scry: install scry again", path);
    else
        found = readers;
    return found;
}

const struct credential_readers *readers_find(struct err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what find() keeps */
    pthread_mutex_lock(&lock);
    const struct credential_readers *readers = find(err);
    pthread_mutex_unlock(&lock);
    return readers;
}
