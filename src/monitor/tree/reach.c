/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/grow.h"
#include "base/system/dirs.h"
#include "base/system/loop.h"
#include "base/system/process.h"
#include "lang/value.h"
#include "lang/reply.h"
#include "lang/token.h"
#include "monitor/tree/internal.h"
#include "wire/stream.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A connection to the monitor of a name: a socket of this machine, or scry-link. */

#define UNIX_SCHEME "unix:"

/* scry-link, or the first of its processes: ended at some time. */
struct link_process {
    pid_t pid;
    int fd;
    struct loop_source *source;
};

static void link_reap(void *ctx, int fd, uint32_t events)
{
    (void)events;
    struct link_process *process = ctx;
    waitpid(process->pid, NULL, WNOHANG);
    loop_remove(process->source);
    close(fd);
    free(process);
}

static void reap_later(struct loop *loop, pid_t pid)
{
    struct link_process *process = calloc(1, sizeof *process);
    if (!process)
        return;
    *process = (struct link_process){.pid = pid, .fd = (int)syscall(SYS_pidfd_open, pid, 0)};
    if (process->fd >= 0)
        process->source = loop_add_fd(loop, process->fd, EPOLLIN, link_reap, process);
    if (process->source)
        return;
    if (process->fd >= 0)
        close(process->fd);
    free(process);
}

/* `scry-link node NAME` finds the way; we talk with it as with the monitor there. */
static int start_link(struct tree *tree, const char *name, struct err *err)
{
    char path[PATH_MAX], program[] = "scry-link", command[] = "node", *copy = strdup(name);
    char *argv[] = {program, command, copy, NULL};
    int ends[2], code = copy ? dirs_libexec("scry-link", path, sizeof path, err) : -ENOMEM;
    if (code == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        code = err_errno(err, -errno, "cannot start %s", path);
    if (code < 0) {
        free(copy);
        return code;
    }
    pid_t pid = 0;
    code = spawn_program(&(struct spawn){.path = path,
                                         .argv = argv,
                                         .in = ends[1],
                                         .out = SPAWN_NULL,
                                         .error = SPAWN_NULL,
                                         .group = SPAWN_OWN_SESSION},
                         &pid);
    free(copy);
    close(ends[1]);
    if (code == 0) {
        reap_later(tree->monitor->loop, pid);
        return ends[0];
    }
    close(ends[0]);
    return err_errno(err, code, "cannot start %s", path);
}

/* A socket of this machine. */
static bool dial_is_unix(const char *name)
{
    return strncmp(name, UNIX_SCHEME, sizeof UNIX_SCHEME - 1) == 0;
}

/* A socket on this machine: its owner must be ours, for we tell it what our tools want. */
static int connect_unix(const char *path, struct err *err)
{
    uid_t uid;
    if (*path != '/')
        return err_set(err, -EINVAL, "%s is no absolute path", path);
    int fd = local_connect_at_once(path, err);
    if (fd < 0 || (local_peer(fd, &uid, NULL) == 0 && uid == geteuid()))
        return fd;
    close(fd);
    return err_set(err, -EPERM, "%s is another user's", path);
}

int dial(struct tree *tree, const char *name, struct err *err)
{
    return dial_is_unix(name) ? connect_unix(name + sizeof UNIX_SCHEME - 1, err) : start_link(tree, name, err);
}

/*
 * node_attach2: an edge to the node of a name, or a way that is there, or a monitor below that makes one; then
 * node_attach in the tool's session there. Whoever asks for the same name meanwhile waits for the same edge.
 *
 * Many nodes are attached at the same time. What monitors below are to do waits until one of them is there that has no such
 * request of the tool: it gets its share of all that waits, in one request. So all get the same where all are equally fast, and the
 * others do not wait for one that cannot be reached.
 */

/* ---- names ---- */

static struct edge *edge_that_greets(struct tree *tree, const char *name)
{
    for (struct edge *edge = tree->edges; edge; edge = edge->next)
        if (edge->asked && edge->state == EDGE_GREETS && strcmp(edge->asked, name) == 0)
            return edge;
    return NULL;
}

/* Came by itself (scry link await): nobody has asked for it by its name. Of others only who has asked ssh, or TLS, for a
 * name knows who that is. */
static bool is_believed(const struct tree_node *node)
{
    const struct edge *edge = node->edge;
    return edge->node == node && edge->ours && dial_is_unix(edge->asked);
}

/* That was asked for by this name, or came by itself and calls itself so. */
static struct tree_node *node_of_name(struct tree *tree, const char *name)
{
    struct tree_node *found = NULL;
    unsigned named = 0;
    for (struct tree_node *node = NULL; (node = tree_next_node(tree, node));) {
        if (!node->edge || !node->edge->ours)
            continue;
        if (node->asked && strcmp(node->asked, name) == 0)
            return node;
        if (is_believed(node) && strcmp(node->name, name) == 0) {
            found = node;
            named++;
        }
    }
    return named == 1 ? found : NULL;
}

static void remember_name(struct tree_node *node, const char *name)
{
    char *copy = strdup(name);
    if (!copy)
        return;
    free(node->asked);
    node->asked = copy;
}

/* ---- who waits ---- */

struct attaching {
    struct tree *tree;
    struct tool *tool;
    char *name;
    struct edge *edge;      /* whose greeting is waited for; NULL: it is over */
    struct asking *asking;  /* and then for this answer */
    struct tree_node *node; /* that is to be attached; NULL: a monitor below finds it, and answers with its token */
    tree_attached_fn *fn;   /* NULL: it was begun ahead, and nobody has asked for it yet */
    void *ctx;
    bool *over; /* set when it goes; NULL */
    bool waits; /* for a monitor below */
    bool ended; /* what follows is known, and waits to be asked for */
    char token[TOKEN_TEXT_SIZE];
    Omis_status status;
    struct err why;
    struct attaching *next, *previous;
};

/* One request in a tool's session behind an edge, an action for each of them. */
struct asking {
    struct via *via;
    uint32_t id;              /* 0: it is not sent yet, or is answered */
    bool makes;               /* it is node_attach2: counted by the session */
    struct attaching **items; /* NULL: forgotten */
    size_t count, cap;
    struct buf text;
};

static void place_later(struct tree *tree);

static void asking_over(struct asking *asking)
{
    if (asking->makes) {
        asking->via->making = false;
        place_later(asking->via->edge->tree);
    }
    asking->makes = false;
}

static void asking_free(struct asking *asking)
{
    free(asking->items);
    buf_done(&asking->text);
    free(asking);
}

/* The request goes on, for the others. */
static void leave_asking(struct attaching *attaching)
{
    struct asking *asking = attaching->asking;
    size_t left = 0;
    attaching->asking = NULL;
    for (size_t i = 0; asking && i < asking->count; i++) {
        if (asking->items[i] == attaching)
            asking->items[i] = NULL;
        left += asking->items[i] != NULL;
    }
    if (!asking || left || !asking->id)
        return;
    via_forget(asking->via, asking->id);
    asking_over(asking);
    asking_free(asking);
}

void tree_attach_forget(struct attaching *attaching)
{
    struct tree *tree = attaching->tree;
    leave_asking(attaching);
    if (attaching->over)
        *attaching->over = true;
    if (attaching->previous)
        attaching->previous->next = attaching->next;
    else
        tree->attaching = attaching->next;
    if (attaching->next)
        attaching->next->previous = attaching->previous;
    free(attaching->name);
    free(attaching);
}

static void attaching_done(struct attaching *attaching, const char *token, Omis_status status, const char *why)
{
    if (!attaching->fn) {
        attaching->ended = true;
        attaching->status = status;
        snprintf(attaching->token, sizeof attaching->token, "%s", token ? token : "");
        err_set(&attaching->why, 0, "%s", why ? why : "");
        return;
    }
    tree_attached_fn *fn = attaching->fn;
    void *ctx = attaching->ctx;
    char copy[TOKEN_TEXT_SIZE];
    struct err text;
    snprintf(copy, sizeof copy, "%s", token ? token : "");
    err_set(&text, 0, "%s", why ? why : "");
    tree_attach_forget(attaching);
    fn(ctx, token ? copy : NULL, status, text.text);
}

void reach_tool_gone(struct tree *tree, const struct tool *tool)
{
    for (struct attaching *attaching = tree->attaching, *next; attaching; attaching = next) {
        next = attaching->next;
        if (attaching->tool == tool)
            tree_attach_forget(attaching);
    }
}

/* ---- asking the other monitor ---- */

static struct asking *asking_new(struct via *via)
{
    struct asking *asking = via ? calloc(1, sizeof *asking) : NULL;
    if (asking)
        asking->via = via;
    return asking;
}

static bool asking_add(struct asking *asking, struct attaching *attaching)
{
    if (!GROW(asking->items, asking->count, asking->cap))
        return false;
    asking->items[asking->count++] = attaching;
    attaching->asking = asking;
    return true;
}

static void attach_itself(struct attaching *attaching);

static void take_result(struct attaching *attaching, Omis_service_result result)
{
    char token[TOKEN_TEXT_SIZE];
    struct token parsed;
    if (!attaching->node && result->status == OMIS_OS_ERROR) { /* who has keys here may have none there */
        attach_itself(attaching);
        return;
    }
    if (result->status >= OMIS_FIRST_ERROR) {
        attaching_done(attaching, NULL, result->status, result->result);
        return;
    }
    if (attaching->node)
        snprintf(token, sizeof token, "n_%u", attaching->node->number);
    else
        snprintf(token, sizeof token, "%s", result->result ? result->result : "");
    struct tree_node *node = token_parse(span_str(token), &parsed) ? tree_node(attaching->tree, parsed.node) : NULL;
    if (!node || parsed.serial) { /* tools put it into requests as it is */
        attaching_done(attaching, NULL, OMIS_INTERNAL_ERROR,
                       "the monitor that was asked to attach it sent what is no node");
        return;
    }
    if (node->number != TREE_HERE)
        remember_name(node, attaching->name);
    attaching_done(attaching, token, OMIS_OK, NULL);
}

/* Whoever is told may go on, and begin or forget others. */
static void attach_answered(void *ctx, bool last, struct span reply, const char *lost)
{
    (void)last;
    struct asking *asking = ctx;
    Omis_reply decoded = NULL;
    asking->id = 0;
    asking_over(asking); /* before its session goes */
    bool fine = !lost && reply_decode(reply, &decoded) == 0 && decoded[0];
    for (size_t i = 0, element = 0; i < asking->count; i++) {
        if (fine && decoded[0]->status < OMIS_FIRST_ERROR)
            element += decoded[element + 1] != NULL;
        struct attaching *attaching = asking->items[i];
        asking->items[i] = NULL;
        if (!attaching)
            continue;
        attaching->asking = NULL;
        if (fine)
            take_result(attaching, decoded[element]);
        else
            attaching_done(attaching, NULL, OMIS_UNSPECIFIED_ERROR, lost ? lost : "its monitor sent what is no reply");
    }
    free(decoded);
    asking_free(asking);
}

static void asking_send(struct asking *asking)
{
    struct err err = {.text = "out of memory"};
    asking->id = asking->text.failed ? 0
                                     : via_request(asking->via, FRAME_REQUEST, span_of("\0\0\0\0", 4),
                                                   span_of(asking->text.data, asking->text.len), VIA_ANSWER,
                                                   attach_answered, asking, &err);
    if (!asking->id)
        attach_answered(asking, true, span_of("", 0), err.text);
}

/* There is a way to the node: attach it for the tool. */
static void attach_known(struct attaching *attaching, struct tree_node *node)
{
    attaching->edge = NULL;
    if (node->number == TREE_HERE) {
        attaching->tool->node_attached = true;
        attaching_done(attaching, "n_1", OMIS_OK, NULL);
        return;
    }
    if (!node->edge) {
        attaching_done(attaching, NULL, OMIS_UNKNOWN_OBJECT, node->why);
        return;
    }
    struct asking *asking = asking_new(tree_via(attaching->tool, node->edge));
    if (!asking || !asking_add(asking, attaching)) {
        free(asking);
        attaching_done(attaching, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    attaching->node = node;
    buf_printf(&asking->text, ":node_attach([n_%u])", node->theirs);
    asking_send(asking);
}

static struct attaching *waiting_for(struct edge *edge)
{
    struct attaching *attaching = edge->tree->attaching;
    while (attaching && attaching->edge != edge)
        attaching = attaching->next;
    return attaching;
}

void reach_greeted(struct edge *edge, struct tree_node *node, const char *why)
{
    struct attaching *attaching;
    place_later(edge->tree);
    while ((attaching = waiting_for(edge))) {
        attaching->edge = NULL;
        if (node)
            attach_known(attaching, node);
        else
            attaching_done(attaching, NULL, OMIS_OS_ERROR, why);
    }
}

/* ---- where ---- */

static size_t nodes_behind(const struct edge *edge)
{
    size_t count = 0;
    for (size_t i = 0; i < edge->tree->node_count; i++)
        count += edge->tree->nodes[i]->edge == edge;
    for (struct attaching *attaching = edge->tree->attaching; attaching; attaching = attaching->next)
        count += attaching->asking && attaching->asking->via->edge == edge && !attaching->node; /* it makes one */
    return count;
}

static bool is_enough(const struct tree *tree)
{
    unsigned ours = 0;
    for (const struct edge *edge = tree->edges; edge; edge = edge->next)
        ours += edge->ours && edge->state != EDGE_GONE;
    return ours >= EDGE_FANOUT;
}

/* Whether it can make edges for us, or will when it has greeted. A socket on this machine can be reached only from this machine. */
static bool edge_fits(const struct edge *edge, const char *name)
{
    return edge->ours && edge->state != EDGE_GONE && !edge->silent &&
           (!dial_is_unix(name) || dial_is_unix(edge->asked));
}

/* A monitor below is to make the edge: we have enough of them. */
static bool is_for_below(const struct tree *tree, const char *name)
{
    const struct edge *edge = is_enough(tree) ? tree->edges : NULL;
    while (edge && !edge_fits(edge, name))
        edge = edge->next;
    return edge;
}

/* The one with the fewest nodes of those that have nothing to make for the tool, and how many can have a share. */
static struct edge *idle_edge(const struct attaching *attaching, size_t *ret_sharing)
{
    size_t least = SIZE_MAX;
    struct edge *found = NULL;
    *ret_sharing = 0;
    for (struct edge *edge = attaching->tree->edges; edge; edge = edge->next) {
        const struct via *via = tree_find_via(attaching->tool, edge);
        if (!edge_fits(edge, attaching->name) || (via && via->making))
            continue;
        ++*ret_sharing;
        size_t count = edge->state == EDGE_UP ? nodes_behind(edge) : SIZE_MAX;
        if (count < least) {
            least = count;
            found = edge;
        }
    }
    return found;
}

static struct attaching *attaching_new(struct tree *tree, struct tool *tool, const char *name, tree_attached_fn *fn,
                                       void *ctx)
{
    struct attaching *attaching = calloc(1, sizeof *attaching);
    char *copy = strdup(name);
    if (!attaching || !copy) {
        free(attaching);
        free(copy);
        return NULL;
    }
    *attaching =
        (struct attaching){.tree = tree, .tool = tool, .name = copy, .fn = fn, .ctx = ctx, .next = tree->attaching};
    if (tree->attaching)
        tree->attaching->previous = attaching;
    tree->attaching = attaching;
    return attaching;
}

static struct edge *make_edge(struct tree *tree, const char *name, struct err *err)
{
    int fd = dial(tree, name, err);
    struct edge *edge = fd < 0 ? NULL : edge_connect(tree, fd, name);
    if (fd >= 0 && !edge)
        err_set(err, -ENOMEM, "out of memory");
    return edge;
}

/* ---- beginning ---- */

/* By an edge of our own. */
static void attach_itself(struct attaching *attaching)
{
    struct err err;
    attaching->edge = edge_that_greets(attaching->tree, attaching->name);
    if (!attaching->edge)
        attaching->edge = make_edge(attaching->tree, attaching->name, &err);
    if (!attaching->edge)
        attaching_done(attaching, NULL, OMIS_OS_ERROR, err.text);
}

static void attach_name(struct attaching *attaching)
{
    struct tree *tree = attaching->tree;
    struct tree_node *node = node_of_name(tree, attaching->name);
    struct edge *edge = node ? NULL : edge_that_greets(tree, attaching->name);
    attaching->waits = !node && !edge && is_for_below(tree, attaching->name);
    if (attaching->waits)
        place_later(tree);
    else if (node)
        attach_known(attaching, node);
    else
        attach_itself(attaching);
}

/* ---- by monitors below ---- */

/* It waits, and whoever can take the other one can take it. */
static bool is_alike(const struct attaching *one, const struct attaching *other)
{
    return one->waits && one->tool == other->tool && dial_is_unix(one->name) == dial_is_unix(other->name);
}

/* The share of an edge, in one request. False: all have something to do. */
static bool attaching_give(struct attaching *first)
{
    struct tree *tree = first->tree;
    size_t sharing, waiting = 0;
    struct edge *edge = idle_edge(first, &sharing);
    if (!edge)
        return false;
    struct via *via = tree_via(first->tool, edge);
    struct asking *asking = asking_new(via);
    if (!asking || !asking_add(asking, first)) {
        free(asking);
        first->waits = false;
        attaching_done(first, NULL, OMIS_NO_MEMORY, "out of memory");
        return true;
    }
    for (const struct attaching *one = tree->attaching; one; one = one->next)
        waiting += is_alike(one, first);
    size_t share = (waiting + sharing - 1) / sharing;
    const struct attaching like = *first;
    for (struct attaching *one = first; one && share; one = one->next) {
        if (!is_alike(one, &like) || (one != first && !asking_add(asking, one)))
            continue;
        one->waits = false;
        PUT_CALL(&asking->text, "node_attach2", one->name);
        share--;
    }
    asking->makes = via->making = true;
    asking_send(asking);
    return true;
}

/* Whoever is told that it cannot be may begin and forget others. */
static void attaching_place(void *ctx)
{
    struct tree *tree = ctx;
    tree->placing = NULL;
    for (struct attaching *attaching = tree->attaching, *next; attaching; attaching = next) {
        bool here = attaching->waits && !is_for_below(tree, attaching->name);
        next = attaching->next;
        if (here)
            attach_name(attaching);
        if (here || (attaching->waits && attaching_give(attaching)))
            next = tree->attaching;
    }
}

static void place_later(struct tree *tree)
{
    if (!tree->placing)
        tree->placing = loop_add_deferred(tree->monitor->loop, attaching_place, tree);
}

static struct attaching *find_ahead(struct tree *tree, const struct tool *tool, const char *name)
{
    struct attaching *attaching = tree->attaching;
    while (attaching && (attaching->fn || attaching->tool != tool || strcmp(attaching->name, name) != 0))
        attaching = attaching->next;
    return attaching;
}

bool tree_attach_ahead(struct tool *tool, const char *name)
{
    struct tree *tree = tool->monitor->tree;
    if (!tree || !tree_keep_vias(tool) || find_ahead(tree, tool, name))
        return false;
    struct attaching *attaching = attaching_new(tree, tool, name, NULL, NULL);
    if (attaching)
        attach_name(attaching);
    return attaching;
}

struct attaching *tree_attach(struct tool *tool, const char *name, tree_attached_fn *fn, void *ctx)
{
    struct tree *tree = tool->monitor->tree;
    struct attaching *attaching = tree ? find_ahead(tree, tool, name) : NULL;
    bool over = false, begun = attaching;
    if (attaching && attaching->ended) {
        attaching->fn = fn;
        attaching->ctx = ctx;
        attaching_done(attaching, attaching->token[0] ? attaching->token : NULL, attaching->status,
                       attaching->why.text);
        return NULL;
    }
    if (!attaching)
        attaching = tree ? attaching_new(tree, tool, name, fn, ctx) : NULL;
    if (!attaching) {
        fn(ctx, NULL, OMIS_NO_MEMORY, "out of memory");
        return NULL;
    }
    attaching->fn = fn;
    attaching->ctx = ctx;
    attaching->over = &over;
    if (!begun)
        attach_name(attaching);
    if (over)
        return NULL;
    attaching->over = NULL;
    return attaching;
}
