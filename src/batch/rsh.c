/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-rsh: what launchers of MPI start in place of ssh, for a job that scry follows (job/launch/propagate.h). It becomes
 * that ssh, which then starts on the other node what it was to start, behind `scry run --part-of`. There
 *
 *     /bin/sh -c 'if SCRY works; then exec SCRY run --part-of ... -- SHELL -c COMMAND; fi; exec SHELL -c COMMAND'
 *
 * is executed, where SHELL is the user's: the command was written for that. A node without a scry that works starts the
 * command all the same. Whatever is not understood here becomes ssh as it is.
 *
 *     scry-rsh [ompi] [SSH-OPTION...] HOST COMMAND...
 *     scry-rsh OPTION-OF-SRUN... COMMAND...
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOT_FOUND = 127, NOT_EXECUTED = 126, PART_MOST = 256, AGENT_WORDS = 32 };
enum { PART_HOST, PART_ID, PART_DIR, PART_SCRY, PART_WORDS };

/* ---- text ---- */

struct text {
    char *data;
    size_t len, room;
    bool failed;
};

static void text_put(struct text *text, const char *bytes, size_t len)
{
    if (text->len + len + 1 > text->room) {
        size_t room = 2 * (text->len + len + 1);
        char *grown = realloc(text->data, room);
        if (!grown) {
            text->failed = true;
            return;
        }
        text->data = grown;
        text->room = room;
    }
    memcpy(text->data + text->len, bytes, len);
    text->len += len;
    text->data[text->len] = '\0';
}

static void puts_to(struct text *text, const char *string)
{
    text_put(text, string, strlen(string));
}

/* As one word of a shell. */
static void put_quoted(struct text *text, const char *string)
{
    puts_to(text, "'");
    for (const char *at = string; *at; at++) {
        if (*at == '\'')
            puts_to(text, "'\\''");
        else
            text_put(text, at, 1);
    }
    puts_to(text, "'");
}

/* ---- the agent ---- */

static bool is_there(const char *program)
{
    const char *path = getenv("PATH");
    char full[4096];
    if (strchr(program, '/'))
        return access(program, X_OK) == 0;
    for (size_t len; path && *path; path += len + (path[len] == ':')) {
        len = strcspn(path, ":");
        if ((size_t)snprintf(full, sizeof full, "%.*s/%s", (int)len, path, program) < sizeof full &&
            access(full, X_OK) == 0)
            return true;
    }
    return false;
}

/* The words of the first of these commands, separated by colons, that is there; as Open MPI looks for it. */
static size_t choose_agent(char *list, char **words)
{
    size_t count = 0;
    for (char *each; count == 0 && (each = strsep(&list, ":"));) {
        for (char *word; count < AGENT_WORDS && (word = strsep(&each, " \t"));)
            if (*word)
                words[count++] = word;
        if (count && !is_there(words[0]))
            count = 0;
    }
    return count;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- a batch system ---- */

/* MPICH's launcher starts this in place of the batch system's program, too, if it finds itself in a job of that, which
 * began when the environment was set already (scry run -- salloc ... mpirun). NULL: it is to be ssh. */
static const char *batch_program(int argc, char **argv)
{
    static const struct {
        const char *variable, *program;
    } rows[] = {
        {"SLURM_JOB_ID", "srun"}, {"SLURM_JOBID", "srun"}, {"PE_HOSTFILE", "qrsh"}, {"LSB_MCPU_HOSTS", "blaunch"}};
    if (argc < 2 || argv[1][0] != '-' || strcmp(argv[1], "-x") == 0) /* as it calls ssh and rsh */
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (getenv(rows[i].variable))
            return rows[i].program;
    return NULL;
}

/* Has the daemon started behind scry exec, which makes the part, where there is a scry that works. */
static void become_batch_program(const char *program, int argc, char **argv)
{
    static char shell[] = "/bin/sh", option[] = "-c",
                script[] = "[ -x \"$0\" ] && \"$0\" version >/dev/null 2>&1 && exec \"$0\" exec -- \"$@\"; exec \"$@\"";
    char **words = calloc((size_t)argc + 8, sizeof *words), *scry = getenv("SCRY_PART");
    size_t count = 0;
    if (!words)
        return;
    for (int i = 0; i < 3 && scry; i++) /* HOST, ID, DIR */
        scry = (scry = strchr(scry, '\t')) ? scry + 1 : NULL;
    scry = scry ? strndup(scry, strcspn(scry, "\t")) : NULL;
    words[count++] = strdup(program);
    for (int i = 1; i < argc; i++) {
        if (scry && strcmp(program, "srun") == 0 && strstr(argv[i], "hydra_pmi_proxy")) {
            char *before[] = {shell, option, script, scry};
            memcpy(words + count, before, sizeof before);
            count += sizeof before / sizeof *before;
            scry = NULL;
        }
        words[count++] = argv[i];
    }
    execvp(program, words);
}

/* ---- the command ---- */

/* Where the host is among ssh's arguments; 0: it is not known. */
static int find_host(int argc, char **argv)
{
    static const char with_value[] = "BbcDEeFIiJLlmOopQRSWw";
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        const char *option = argv[i] + 1;
        if (*option == '-')
            return 0; /* ssh has none of these: somebody else's arguments */
        option += strcspn(option, with_value);
        i += *option && !option[1];
    }
    return i + 1 < argc ? i : 0;
}

/* Where this word is in a line of words; NULL. */
static char *find_word(char *line, const char *word)
{
    size_t len = strlen(word);
    for (char *found = line; (found = strstr(found, word)); found += len)
        if ((found == line || found[-1] == ' ') && (found[len] == ' ' || !found[len]))
            return found;
    return NULL;
}

/* Open MPI's daemon goes into the background, where scry run would lose it: ssh stays instead, as it does with
 * --leave-session-attached. */
static void join_command(struct text *text, char **words)
{
    static const char background[] = "--daemonize";
    for (; *words; words++) {
        puts_to(text, text->len ? " " : "");
        puts_to(text, *words);
    }
    char *found = text->data ? find_word(text->data, background) : NULL;
    if (found)
        memset(found, ' ', sizeof background - 1);
}

/* Behind the options with which the job began, those that scry set has given it since. */
static void put_changed(struct text *script, const char *dir)
{
    char path[4096], *line = NULL;
    size_t room = 0;
    bool fits = (size_t)snprintf(path, sizeof path, "%s/parts/.options", dir) < sizeof path;
    FILE *file = fits ? fopen(path, "re") : NULL;
    while (file && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "--", 2) != 0)
            continue;
        puts_to(script, " ");
        put_quoted(script, line);
    }
    free(line);
    if (file)
        fclose(file);
}

static void put_script(struct text *script, char **part, size_t count, const char *command)
{
    puts_to(script, "c=");
    put_quoted(script, command);
    puts_to(script, "; p=");
    put_quoted(script, part[PART_SCRY]);
    puts_to(script, "; [ -x \"$p\" ] || p=scry; if \"$p\" version >/dev/null 2>&1; then SCRY_PART=");
    for (size_t i = 0; i < count; i++) {
        puts_to(script, i ? "'\t'" : "");
        put_quoted(script, part[i]);
    }
    puts_to(script, "; export SCRY_PART; exec \"$p\" run --anyway --quiet --part-of ");
    put_quoted(script, part[PART_ID]);
    puts_to(script, ":");
    put_quoted(script, part[PART_DIR]);
    for (size_t i = PART_WORDS; i < count; i++) {
        puts_to(script, " ");
        put_quoted(script, part[i]);
    }
    put_changed(script, part[PART_DIR]);
    puts_to(script, " -- \"${SHELL:-/bin/sh}\" -c \"$c\"; fi; exec \"${SHELL:-/bin/sh}\" -c \"$c\"");
}

/* What ssh is to start; NULL: as it was. */
static char *command_compose(char **words)
{
    char *part[PART_MOST], *rest = getenv("SCRY_PART");
    size_t count = 0;
    struct text command = {0}, script = {0}, whole = {0};
    rest = rest ? strdup(rest) : NULL;
    for (char *each; count < PART_MOST && (each = strsep(&rest, "\t"));)
        part[count++] = each;
    if (count < PART_WORDS || count == PART_MOST)
        return NULL;
    join_command(&command, words);
    if (command.failed || !command.len)
        return NULL;
    put_script(&script, part, count, command.data);
    puts_to(&whole, "/bin/sh -c ");
    if (!script.failed)
        put_quoted(&whole, script.data);
    return script.failed || whole.failed ? NULL : whole.data;
}

/* For scry run, which has the part brought from there if there is no shared file system. */
static void note_host(const char *host)
{
    char *part[PART_WORDS], *rest = getenv("SCRY_PART"), path[4096], line[512];
    size_t count = 0;
    rest = rest ? strdup(rest) : NULL;
    while (count < PART_WORDS && (part[count] = strsep(&rest, "\t")))
        count++;
    if (count <= PART_DIR || (size_t)snprintf(path, sizeof path, "%s/parts", part[PART_DIR]) >= sizeof path ||
        (mkdir(path, 0700) < 0 && errno != EEXIST) ||
        (size_t)snprintf(path, sizeof path, "%s/parts/.hosts", part[PART_DIR]) >= sizeof path)
        return;
    int len = snprintf(line, sizeof line, "%s\n", host);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if ((size_t)len < sizeof line)
        (void)!write(fd, line, (size_t)len); /* without it only the part from there is missing */
    close(fd);
}

int main(int argc, char **argv)
{
    bool ompi = argc > 1 && strcmp(argv[1], "ompi") == 0;
    const char *given = getenv(ompi ? "SCRY_RSH_OMPI" : "SCRY_RSH_HYDRA");
    char *list = strdup(given && *given ? given : ompi ? "ssh : rsh" : "ssh"), ssh[] = "ssh", no_x[] = "-x";
    char **words = calloc(AGENT_WORDS + (size_t)argc + 8, sizeof *words);
    if (!list || !words)
        return NOT_EXECUTED;
    argv += ompi;
    argc -= ompi;
    const char *batch = ompi ? NULL : batch_program(argc, argv);
    if (batch)
        become_batch_program(batch, argc, argv);
    size_t count = ompi ? choose_agent(list, words) : 0;
    if (count == 0)
        words[count++] = ompi ? ssh : list;
    if (ompi && count == 1 && strcmp(base_name(words[0]), "ssh") == 0)
        words[count++] = no_x; /* as Open MPI calls ssh */
    int host = find_host(argc, argv);
    char *command = host ? command_compose(argv + host + 1) : NULL;
    if (command)
        note_host(argv[host]);
    for (int i = 1; i < argc && (!command || i <= host); i++)
        words[count++] = argv[i];
    if (command)
        words[count++] = command;
    words[count] = NULL;
    execvp(words[0], words);
    int code = errno;
    fprintf(stderr, "scry-rsh: %s: %s\n", words[0], strerror(code));
    return code == ENOENT ? NOT_FOUND : NOT_EXECUTED;
}
