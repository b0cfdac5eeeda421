/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/extensions.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/log.h"
#include "monitor/monitor.h"
#include "monitor/registry.h"

static const char file_prefix[] = "scry_ext_";

/* Code that others can change is not run in the user's name. */
static bool trusted(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
        log_error("extension %s is no file", path);
        return false;
    }
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        log_error("extension %s is left out: it can be changed by others (chmod go-w it)", path);
        return false;
    }
    return true;
}

static void load(struct monitor *monitor, const char *path, const char *prefix)
{
    struct registry *registry = monitor->registry;
    struct err err;
    if (registry_has_extension(registry, span_str(prefix)) || !trusted(path))
        return; /* the first one in the path wins */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        log_error("extension %s is left out: %s", path, dlerror());
        return;
    }
    char symbol[TOKEN_CLASS_SIZE + 16];
    snprintf(symbol, sizeof symbol, "%s_register", prefix);
    int (*start)(void);
    *(void **)&start = dlsym(handle, symbol);
    snprintf(registry->registering, sizeof registry->registering, "%s", prefix);
    bool ok = start && start() == 0 && registry_add_extension(registry, prefix, &err) == 0;
    registry->registering[0] = 0;
    if (ok)
        return;
    /* it stays mapped: its rows may be referred to by classes */
    log_error("extension %s is left out: %s", path,
              start ? "its register function failed" : "it exports no register function");
    registry_remove_extension(registry, prefix);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_dir(void *ctx, const char *dir)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
        size_t start = sizeof file_prefix - 1;
        if (strncmp(name, file_prefix, start) == 0 && dot && strcmp(dot, ".so") == 0 && dot > name + start) {
            char path[PATH_MAX], prefix[TOKEN_CLASS_SIZE - 2];
            size_t len = (size_t)(dot - name) - start;
            snprintf(path, sizeof path, "%s/%s", dir, name);
            if (len < sizeof prefix) {
                memcpy(prefix, name + start, len);
                prefix[len] = 0;
                load(ctx, path, prefix);
            } else {
                log_error("extension %s is left out: its prefix is longer than %zu characters", path,
                          sizeof prefix - 1);
            }
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

void extensions_load(struct monitor *monitor)
{
    dirs_extensions(load_dir, monitor);
}
