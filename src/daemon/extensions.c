/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/extensions.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "base/system/trusted.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/registry.h"
#include "monitor/engine/tool.h"

static const char file_prefix[] = "scry_ext_";

static void load(struct monitor *monitor, const char *name, const char *prefix)
{
    struct registry *registry = monitor->registry;
    struct err err;
    char path[PATH_MAX];
    if (registry_has_extension(registry, span_str(prefix)))
        return; /* the first one in the path wins */
    if (trusted_path(path, name, S_IFREG, &err) < 0) {
        log_error("extension %s is left out: %s", name, err.text);
        return;
    }
    pause_at("extensions.trusted");
    /* By its real name: by a descriptor's name in /proc it could not find files beside it. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        log_error("extension %s is left out: %s", name, dlerror());
        return;
    }
    char symbol[TOKEN_CLASS_SIZE + 16];
    snprintf(symbol, sizeof symbol, "%s_register", prefix);
    int (*start)(void);
    *(void **)&start = dlsym(handle, symbol);
    snprintf(registry->registering, sizeof registry->registering, "%s", prefix);
    bool ok = start && start() == 0 && registry_add_extension(registry, prefix, &err) == 0;
    registry->registering[0] = 0;
    struct tool *tool = registry->registering_tool;
    registry->registering_tool = NULL;
    if (ok)
        return;
    if (tool) /* its requests refer to its services */
        tool_end(tool);
    /* it stays mapped: classes may refer to its rows */
    log_error("extension %s is left out: %s", name,
              start ? "its register function failed" : "it exports no register function");
    registry_remove_extension(registry, prefix);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void load_dir(void *ctx, const char *name_of_dir)
{
    struct dirent **entries;
    struct err err;
    char dir[PATH_MAX];
    if (trusted_path(dir, name_of_dir, S_IFDIR, &err) < 0) {
        log_error("extensions in %s are left out: %s", name_of_dir, err.text);
        return;
    }
    int count = scandir(dir, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name, *dot = strrchr(name, '.');
        size_t start = sizeof file_prefix - 1;
        if (strncmp(name, file_prefix, start) == 0 && dot && strcmp(dot, ".so") == 0 && dot > name + start) {
            char path[PATH_MAX + NAME_MAX + 2], prefix[TOKEN_CLASS_SIZE - 2];
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

void extensions_end(struct monitor *monitor)
{
    while (monitor->tools)
        tool_end(monitor->tools);
}

void extensions_load(struct monitor *monitor)
{
    dirs_extensions(load_dir, monitor);
}
