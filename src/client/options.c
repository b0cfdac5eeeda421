/* SPDX-License-Identifier: Apache-2.0 */
/* Options of omis_init on the command line and in the environment (7.1.3 leaves it to the implementation):
 *
 *     --omis-connect=URL        unix:PATH, the socket of a running monitor; the monitor of another machine, as
 *                               ssh://HOST or tls://HOST:PORT; or a job behind a broker, as mqtt://HOST/USER/JOB or
 *                               @NAME/USER/JOB; unix:PATH also as SCRY_CONNECT
 *     --omis-start              start this user's monitor on this node if none runs (the default without a URL)
 *     --omis-no-start           fail instead
 *     --omis-stop-at-finalize   omis_finalize asks the monitor to end once no other tool uses it
 *     --omis-timeout=SECONDS    what omis_set_timeout sets; 0: no limit
 *
 * Everything after an argument "--" is the tool's own. */
#include "client/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char option_prefix[] = "--omis-";

/* As link/link.h and broker/url.h have them. A path with // is a broker's socket. */
static bool is_elsewhere(const char *url)
{
    static const char *const beginnings[] = {"mqtt://", "mqtts://", "local/", "@"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(url, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    if (client_is_link(url))
        return true;
    return strncmp(url, "unix:", 5) == 0 && strstr(url + 5, "//");
}

static int parse_url(struct client_options *options, const char *from, const char *url, struct err *err)
{
    if (is_elsewhere(url)) {
        if ((size_t)snprintf(options->elsewhere, sizeof options->elsewhere, "%s", url) >= sizeof options->elsewhere)
            return err_set(err, -EINVAL, "%s: the URL is too long", from);
        return 0;
    }
    if (strncmp(url, "unix:", 5) != 0)
        return err_set(err, -EINVAL,
                       "%s: cannot connect to \"%s\": give the monitor's socket as unix:PATH, another machine as "
                       "ssh://HOST or tls://HOST:PORT, or a job as mqtt://HOST/USER/JOB",
                       from, url);
    url += 5;
    if (!*url || strlen(url) > 107)
        return err_set(err, -EINVAL, "%s: the path of a socket has 1 to 107 bytes, this one has %zu", from,
                       strlen(url));
    snprintf(options->path, sizeof options->path, "%s", url);
    return 0;
}

/* Parses seconds, also fractions, as milliseconds. */
static int parse_timeout(struct client_options *options, const char *text, struct err *err)
{
    char *end;
    double seconds = strtod(text, &end);
    if ((*text < '0' || *text > '9') && *text != '.')
        end = NULL;
    if (!end || end == text || *end || !(seconds >= 0 && seconds <= 1e6))
        return err_set(err, -EINVAL, "--omis-timeout expects seconds (0 to 1000000; 0: no limit), not \"%s\"", text);
    options->timeout_given = true;
    options->timeout_ms = (unsigned)(seconds * 1000 + (seconds > 0 && seconds < 0.001 ? 1 : 0.5));
    return 0;
}

static int parse_option(struct client_options *options, bool *start_asked, const char *option, struct err *err)
{
    const char *name = option + sizeof option_prefix - 1;
    if (strncmp(name, "connect=", 8) == 0)
        return parse_url(options, "--omis-connect", name + 8, err);
    if (strncmp(name, "timeout=", 8) == 0)
        return parse_timeout(options, name + 8, err);
    if (strcmp(name, "start") == 0) {
        options->start = START_IF_NEEDED;
        *start_asked = true;
    } else if (strcmp(name, "no-start") == 0) {
        options->start = START_NEVER;
        *start_asked = false;
    } else if (strcmp(name, "stop-at-finalize") == 0) {
        options->stop_at_finalize = true;
    } else {
        return err_set(err, -EINVAL,
                       "unknown option %s: expected --omis-connect=unix:PATH, --omis-start, --omis-no-start, "
                       "--omis-stop-at-finalize and --omis-timeout=SECONDS",
                       option);
    }
    return 0;
}

static bool is_option(const char *argument)
{
    return strncmp(argument, option_prefix, sizeof option_prefix - 1) == 0;
}

int client_options_take(struct client_options *ret_options, int *argc, char ***argv, struct err *err)
{
    struct client_options options = {.start = START_IF_NEEDED};
    bool start_asked = false;
    int count = argc && argv && *argv ? *argc : 0, end = count;
    for (int i = 1; i < count; i++) {
        const char *argument = (*argv)[i];
        if (!argument || strcmp(argument, "--") == 0) {
            end = i;
            break;
        }
        int code = is_option(argument) ? parse_option(&options, &start_asked, argument, err) : 0;
        if (code < 0)
            return code;
    }
    const char *connect = getenv("SCRY_CONNECT");
    if (!options.path[0] && !options.elsewhere[0] && connect && *connect) {
        if (is_elsewhere(connect)) /* scry run would wait for a network before a job */
            return err_set(err, -EINVAL, "SCRY_CONNECT: what is on another machine is given as --omis-connect only");
        int code = parse_url(&options, "SCRY_CONNECT", connect, err);
        if (code < 0)
            return code;
    }
    bool elsewhere = options.path[0] || options.elsewhere[0];
    if (elsewhere && start_asked)
        return err_set(err, -EINVAL,
                       "--omis-start starts this user's own monitor: it cannot be given with the socket of "
                       "another one");
    if (elsewhere)
        options.start = START_NEVER;
    if (count > 0) {
        int kept = 1;
        for (int i = 1; i < count; i++)
            if (i >= end || !is_option((*argv)[i]))
                (*argv)[kept++] = (*argv)[i];
        if (kept < count)
            (*argv)[kept] = NULL;
        *argc = kept;
    }
    *ret_options = options;
    return 0;
}
