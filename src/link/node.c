/* SPDX-License-Identifier: Apache-2.0 */
/* scry-link node NAME, scry-link copy NAME. */
#include "link/node.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/log.h"
#include "link/node_copy.h"
#include "link/node_gate.h"
#include "link/node_script.h"

void node_own_path(char ret_path[PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", ret_path, PATH_MAX - 1);
    ret_path[len < 0 ? 0 : len] = 0;
}

const char *link_remote_command(void)
{
    static struct buf script;
    _cleanup_(parcel_freep) struct parcel *parcel = NULL;
    char here[PATH_MAX];
    if (!script.data) {
        node_own_path(here);
        node_script_bridge(&script, parcel_find(&parcel, NULL) == 0 ? parcel->id : "-", here);
    }
    return script.failed || !script.data ? "exit 127" : script.data;
}

/* ---- the first connection ---- */

struct node {
    struct link_way way;
    int place; /* at the gate; -1: none */
};

static void leave_gate(void *ctx)
{
    struct node *node = ctx;
    if (node->place >= 0)
        close(node->place);
    node->place = -1;
}

static int copy(const struct link_way *way, struct err *err)
{
    _cleanup_(parcel_freep) struct parcel *parcel = NULL;
    int code = parcel_find(&parcel, err);
    return code < 0 ? code : node_copy(way, parcel, err);
}

static int on_missing(void *ctx, struct err *err)
{
    const struct node *node = ctx;
    const char *may = getenv("SCRY_COPY");
    return may && strcmp(may, "yes") == 0 ? copy(&node->way, err) : err->code;
}

int node_run(const char *name, int fd)
{
    struct node node = {.place = -1};
    const struct link_first first = {.missing = on_missing, .begun = leave_gate, .ctx = &node};
    struct err err;
    if (link_way_node(name, &node.way, &err) < 0)
        return link_refuse(fd, &err);
    node.way.first = &first;
    if (node.way.kind == LINK_SSH)
        node.place = gate_enter(fd);
    if (node.place == -EPIPE)
        return 1;
    int status = link_run(&node.way, fd);
    leave_gate(&node);
    return status;
}

int node_install(const char *name)
{
    struct link_way way;
    struct err err;
    int code = link_way_node(name, &way, &err);
    if (code == 0 && way.kind != LINK_SSH)
        code = err_set(&err, -EINVAL, "%s: scry is copied by ssh: write HOST, USER@HOST or ssh://HOST:PORT", name);
    if (code == 0)
        code = copy(&way, &err);
    if (code < 0)
        log_error("%s", err.text);
    return code < 0 ? 1 : 0;
}
