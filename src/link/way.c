/* SPDX-License-Identifier: Apache-2.0 */
/* The names of ways: tls://HOST:PORT[/JOB], ssh://[USER@]HOST[:PORT], and what ssh alone takes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/link.h"

/* What names of hosts and users are made of; % is for the zone of an address. As an argument of ssh a beginning '-' would
 * be an option, and ssh's configuration may put such a name into a command for a shell. */
static bool is_name(const char *text, const char *more)
{
    if (!*text || *text == '-')
        return false;
    for (const char *c = text; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("-._", *c) ||
              strchr(more, *c)))
            return false;
    return true;
}

static int take_port(const char *text, struct link_way *way, const char *whole, struct err *err)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || !port || port > 65535)
        return err_set(err, -EINVAL, "%s: a port is a number from 1 to 65535, not \"%s\"", whole, text);
    way->port = (uint16_t)port;
    return 0;
}

/* HOST, HOST:PORT, [ADDRESS], [ADDRESS]:PORT; an address with several colons and without brackets has no port. */
static int take_host(char *text, struct link_way *way, const char *whole, struct err *err)
{
    char *port = NULL, *close = text[0] == '[' ? strchr(text, ']') : NULL;
    if (close && (close[1] == ':' || !close[1])) {
        port = close[1] ? close + 2 : NULL;
        *close = 0;
        text++;
    } else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
        port = strchr(text, ':');
        *port++ = 0;
    }
    if (!is_name(text, ":%"))
        return err_set(err, -EINVAL, "%s: \"%s\" is no name or address of a host", whole, text);
    snprintf(way->host, sizeof way->host, "%s", text);
    return port ? take_port(port, way, whole, err) : 0;
}

static int take_ssh(char *text, struct link_way *way, const char *whole, struct err *err)
{
    char *at = strrchr(text, '@');
    way->kind = LINK_SSH;
    if (at) {
        *at = 0;
        if (strchr(text, ':')) /* the error must not show it */
            return err_set(err, -EINVAL, "the name of a node has no password: give ssh a key (ssh-copy-id)");
        if (!is_name(text, "+@"))
            return err_set(err, -EINVAL, "%s: \"%s\" is no name of a user", whole, text);
        snprintf(way->user, sizeof way->user, "%s", text);
        text = at + 1;
    }
    return take_host(text, way, whole, err);
}

static int take_tls(char *text, struct link_way *way, const char *whole, struct err *err)
{
    char *job = strchr(text, '/');
    way->kind = LINK_TLS;
    if (job) {
        *job++ = 0;
        if (strchr(job, '/') || job[0] == '.')
            return err_set(err, -EINVAL, "%s: \"%s\" is no id or name of a job", whole, job);
        snprintf(way->job, sizeof way->job, "%s", job);
    }
    int code = take_host(text, way, whole, err);
    if (code == 0 && !way->port)
        code =
            err_set(err, -EINVAL, "%s: a port is missing: tls://HOST:PORT, as `scry monitor --listen` has it", whole);
    return code;
}

static int begin(const char *text, char copy[LINK_NAME], struct link_way *way, struct err *err)
{
    *way = (struct link_way){.kind = LINK_SSH};
    if (!*text)
        return err_set(err, -EINVAL,
                       "the name of a node is missing: HOST, USER@HOST, ssh://HOST:PORT or tls://HOST:PORT");
    if (strlen(text) >= LINK_NAME)
        return err_set(err, -EINVAL, "the name of a node has at most %d bytes", LINK_NAME - 1);
    for (const char *c = text; *c; c++)
        if (*c < ' ' || *c == 127) /* as a signed char also what is no ASCII */
            return err_set(err, -EINVAL, "the name of a node is made of letters, digits, dots and dashes");
    snprintf(copy, LINK_NAME, "%s", text);
    snprintf(way->shown, sizeof way->shown, "%s", text);
    return 0;
}

int link_way_parse(const char *text, struct link_way *ret_way, struct err *err)
{
    char copy[LINK_NAME];
    int code = begin(text, copy, ret_way, err);
    if (code < 0)
        return code;
    if (strncmp(text, "tls://", 6) == 0)
        return take_tls(copy + 6, ret_way, text, err);
    if (strncmp(text, "ssh://", 6) != 0)
        return err_set(err, -EINVAL, "\"%s\" is no way to another machine: tls://HOST:PORT or ssh://[USER@]HOST[:PORT]",
                       text);
    size_t len = strlen(copy);
    if (len && copy[len - 1] == '/')
        copy[len - 1] = 0;
    return take_ssh(copy + 6, ret_way, text, err);
}

/* USER@HOST or HOST, as ssh takes it. */
static int parse_ssh(const char *text, struct link_way *ret_way, struct err *err)
{
    char copy[LINK_NAME];
    int code = begin(text, copy, ret_way, err);
    if (code == 0)
        code = take_ssh(copy, ret_way, text, err);
    return code == 0 && ret_way->port ? err_set(err, -EINVAL, "%s: a host with a port is written ssh://HOST:PORT", text)
                                      : code;
}

int link_way_node(const char *text, struct link_way *ret_way, struct err *err)
{
    return strstr(text, "://") ? link_way_parse(text, ret_way, err) : parse_ssh(text, ret_way, err);
}
