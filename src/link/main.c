/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-link COMMAND: carries the connections of tools and monitors between machines (doc/explain/nodes.md, "The link").
 *
 *     connect   for a tool: standard input is a socket of libomis, and the way its first line
 *     node      for a monitor: standard input is a socket, and the name of the node that it leads to an argument
 *     beside    the other end, for the monitor that has started it: ends with standard input
 *     look      for scry doctor: prints whether a node can be reached, and what is there
 *     serve     the other end (scry link serve)
 *     bridge    for ssh: from standard input and output to the other end (scry link bridge)
 *     await     takes monitors that come by themselves (scry link await)
 *     join      brings the monitor here to it (scry link join)
 *     copy      puts scry onto a node (scry link copy)
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/data/cleanup.h"
#include "base/system/line.h"
#include "base/system/log.h"
#include "link/node.h"
#include "options/options.h"

enum { EXIT_USAGE = 2 };

static int cmd_connect(int argc, char **argv)
{
    char line[LINK_NAME + 1] = "";
    struct link_way way;
    struct err err;
    (void)argc;
    (void)argv;
    if (fork() > 0) /* the tool that started it has no child of ours to wait for */
        _exit(0);
    int code = line_read(line, sizeof line) ? link_way_parse(line, &way, &err)
                                            : err_set(&err, -EINVAL, "the name of the other end is too long");
    return code < 0 ? link_refuse(STDIN_FILENO, &err) : link_run(&way, STDIN_FILENO);
}

static int cmd_node(int argc, char **argv)
{
    if (argc != 2)
        return EXIT_USAGE;
    if (fork() > 0) /* as above */
        _exit(0);
    return node_run(argv[1], STDIN_FILENO);
}

static int cmd_look(int argc, char **argv)
{
    return argc == 2 ? node_look(argv[1]) : EXIT_USAGE;
}

static int cmd_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts(SCRY_VERSION);
    return 0;
}

static int cmd_beside(int argc, char **argv)
{
    struct link_wishes wishes = {.beside = true};
    for (int i = 1; i < argc && wishes.count < LINK_LISTEN_MOST; i++)
        wishes.listen[wishes.count++] = argv[i];
    return link_serve(&wishes);
}

/* The secret is not among the arguments, which everybody sees. */
static int join(void)
{
    char line[LINK_NAME + 2 * TLS_SECRET + 16] = "", *text = line;
    static const char name[] = "SCRY_JOIN";
    const char *given = getenv(name);
    if (given && *given)
        snprintf(line, sizeof line, "%s", given);
    else if (!line_read(line, sizeof line))
        line[0] = 0;
    if (strncmp(text, name, sizeof name - 1) == 0 && text[sizeof name - 1] == '=') /* the line as it was printed */
        text += sizeof name;
    unsetenv(name); /* the monitor that is started, and its programs, need not know */
    return node_join(text);
}

/* What a person may start, as `scry link`. */
static int run_command(int argc, char **argv)
{
    struct options options;
    struct link_wishes wishes = {.count = 0};
    struct err err;
    int status = EXIT_USAGE;
    if (options_parse(&options, COMMAND_LINK, argc, argv, &err) < 0) {
        log_error("%s; see `scry link --help`", err.text);
    } else if (options.help) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        options_help(&text, COMMAND_LINK);
        status = text.data && fputs(text.data, stdout) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    } else {
        const char *listen, *action = options.words[0];
        for (size_t at = 0; (listen = options_next(&options, "listen", &at)) && wishes.count < LINK_LISTEN_MOST;)
            wishes.listen[wishes.count++] = listen;
        wishes.awaits = strcmp(action, "await") == 0;
        bool alone = options.word_count == 1;
        if ((strcmp(action, "serve") == 0 || wishes.awaits) && alone)
            status = link_serve(&wishes);
        else if (strcmp(action, "bridge") == 0 && alone && !wishes.count)
            status = link_bridge();
        else if (strcmp(action, "join") == 0 && alone && !wishes.count)
            status = join();
        else if (strcmp(action, "copy") == 0 && !wishes.count && options.word_count == 2)
            status = node_install(options.words[1]);
        else
            log_error(
                "expected serve or await [--listen HOST:PORT]..., join, bridge, or copy HOST; see `scry link --help`");
    }
    options_done(&options);
    return status;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"connect", cmd_connect},
                    {"node", cmd_node},
                    {"beside", cmd_beside},
                    {"look", cmd_look},
                    {"--version", cmd_version}};
    log_open("scry link", 0);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0); /* there is a key in memory */
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return run_command(argc, argv);
}
