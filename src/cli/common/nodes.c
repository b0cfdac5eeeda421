/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/nodes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/record/info.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/results.h"
#include "lang/token.h"
#include "shm/waits.h"

struct names {
    const char *jobdir;
    char here[256]; /* as this node calls itself */
    bool here_named;
    char **list;
    size_t count, room;
};

static const char *host_of(const char *name)
{
    const char *at = strrchr(name, '@');
    return at ? at + 1 : name;
}

/* This node is no other one: a batch system may have started something beside the job itself, too, and where files are
 * shared anybody may ask for the job. */
static bool add_name(struct names *names, const char *name)
{
    if (*name && strcmp(host_of(name), names->here) == 0)
        return names->here_named = true;
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(host_of(names->list[i]), host_of(name)) == 0)
            return true;
    char *copy = GROW(names->list, names->count, names->room) ? strdup(name) : NULL;
    if (copy)
        names->list[names->count++] = copy;
    return copy != NULL;
}

/* That of the job itself, seen from another one. */
static bool add_home(struct names *names)
{
    struct job_info info;
    bool good = job_info_read(names->jobdir, &info, NULL) < 0 || !info.host || add_name(names, info.host);
    job_info_done(&info);
    names->here_named = false; /* it is in the list */
    return good;
}

/* Of parts that have ended nothing is left to ask. */
static int add_part(void *ctx, const char *dir)
{
    struct names *names = ctx;
    struct job_info info;
    if (dir == names->jobdir)
        return 0;
    bool lives = job_info_read(dir, &info, NULL) == 0 && !info.ended;
    bool good = !lives || add_name(names, info.host);
    job_info_done(&info);
    return good ? 0 : -ENOMEM;
}

static int count_part(void *ctx, const char *dir)
{
    (void)dir;
    ++*(size_t *)ctx;
    return 0;
}

/* As launchers named them, which ssh knows. Where one was started otherwise, its part says the node's own name. */
enum { NAMES_MOST = 1 << 16 };

static int find_names(struct names *names)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t parts = 0;
    gethostname(names->here, sizeof names->here - 1);
    if (!add_name(names, "") || !add_home(names))
        return -ENOMEM;
    if ((size_t)snprintf(path, sizeof path, "%s/parts/" PARTS_HOSTS, names->jobdir) < sizeof path)
        file_read_plain(path, &text, NULL);
    for (char *rest = text, *line; names->count < NAMES_MOST && (line = strsep(&rest, "\n"));)
        if (*line && rest && !add_name(names, line)) /* the last one is being written */
            return -ENOMEM;
    int code = job_dirs_each(names->jobdir, count_part, &parts); /* with the job itself, as names has this node */
    return code == 0 && parts > names->count + names->here_named ? job_dirs_each(names->jobdir, add_part, names) : code;
}

static void names_done(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->list[i]);
    free(names->list);
}

static int nodes_read(struct job_nodes *nodes, struct err *err)
{
    static const struct decode_field fields[] = {DECODE(struct job_node, name),
                                                 {"node", DECODE_TEXT, offsetof(struct job_node, token)},
                                                 DECODE(struct job_node, problem),
                                                 {0}};
    struct decoder decoder;
    const char *why = nodes->reply ? omis_reader_first_error(nodes->reply) : "out of memory";
    if (why || !omis_reader_find(nodes->reply, 1))
        return err_set(err, -EIO, "the monitor does not reach the job's nodes: %s", why ? why : "it said nothing");
    decoder_init(&decoder, NODES_REACHED, 0, fields);
    const struct omis_value *list = omis_item(omis_reader_values(nodes->reply), 0);
    size_t count = decoder_rows(&decoder, list);
    nodes->list = calloc(count + 1, sizeof *nodes->list);
    if (!nodes->list)
        return err_set(err, -ENOMEM, "out of memory");
    for (; nodes->count < count; nodes->count++)
        decode(&decoder, list, nodes->count, &nodes->list[nodes->count]);
    return 0;
}

int job_nodes_request(struct buf *ret_request, const char *jobdir, struct err *err)
{
    struct names names = {.jobdir = jobdir};
    int code = find_names(&names);
    buf_puts(ret_request, ":job_attach_nodes(");
    put_list(ret_request);
    for (size_t i = 0; i < names.count; i++)
        PUT(ret_request, names.list[i]);
    put_end(ret_request);
    PUT(ret_request, time_hasten(NODES_TIMEOUT_MS));
    buf_putc(ret_request, ')');
    names_done(&names);
    return code < 0 || ret_request->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

int job_nodes_answer(struct job_nodes *ret_nodes, Omis_reply reply_take, struct err *err)
{
    *ret_nodes = (struct job_nodes){.reply = omis_reader_take(reply_take)};
    return nodes_read(ret_nodes, err);
}

int job_nodes_attach(struct job_nodes *ret_nodes, const char *jobdir, struct err *err)
{
    struct buf text = BUF_INIT;
    *ret_nodes = (struct job_nodes){0};
    int code = job_nodes_request(&text, jobdir, err);
    if (code == 0)
        return job_nodes_answer(ret_nodes, client_ask(&text), err);
    buf_done(&text);
    return code;
}

static bool is_reached(const struct job_node *node)
{
    struct token token;
    return token_parse(span_str(node->token), &token) && token.node;
}

size_t job_nodes_put(struct buf *request, const struct job_nodes *nodes, size_t first)
{
    size_t count = 0;
    buf_putc(request, '[');
    for (size_t i = first; i < nodes->count; i++)
        if (is_reached(&nodes->list[i]))
            buf_printf(request, "%s%s", count++ ? "," : "", nodes->list[i].token);
    buf_putc(request, ']');
    return count;
}

const char *job_nodes_name(const struct job_nodes *nodes, const char *token)
{
    struct token wanted, has;
    if (!token || !token_parse(span_str(token), &wanted) || !wanted.node)
        return NULL;
    for (size_t i = 0; i < nodes->count; i++)
        if (token_parse(span_str(nodes->list[i].token), &has) && has.node == wanted.node)
            return *nodes->list[i].name ? host_of(nodes->list[i].name) : "this node";
    return NULL;
}

bool job_nodes_has_problem(const struct job_nodes *nodes, const char *host)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (!is_reached(&nodes->list[i]) && strcmp(host_of(nodes->list[i].name), host) == 0)
            return true;
    return false;
}

void job_nodes_put_problems(struct buf *out, const struct job_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct job_node *node = &nodes->list[i];
        if (is_reached(node))
            continue;
        buf_puts(out, out->len ? "; node " : "node ");
        text_show(out, node->name);
        buf_puts(out, " cannot be asked: ");
        text_show(out, *node->problem ? node->problem : "nobody says why");
    }
}

void job_nodes_done(struct job_nodes *nodes)
{
    free(nodes->list);
    omis_reader_free(nodes->reply);
    *nodes = (struct job_nodes){0};
}
