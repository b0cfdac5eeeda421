/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program scry-keys: what `scry keys` becomes. It is a program of its own since it links OpenSSL, with which all
 * others would start later.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "cli/common/cli.h"
#include "cli/keys/json.h"
#include "jobdir/text/text.h"
#include "keys/authority.h"

static int keys_fail(const struct err *err)
{
    cli_log_error(err);
    return EXIT_ERRORS;
}

/* ---- what is shown ---- */

static int print_json(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    json_decref(json);
    if (text)
        puts(text);
    free(text);
    return text ? 0 : EXIT_ERRORS;
}

static void put_line(struct buf *out, const char *label, const char *text)
{
    buf_printf(out, "%-8s ", label);
    text_show(out, text);
    buf_putc(out, '\n');
}

static void put_key(struct buf *out, const struct issued *issued)
{
    const struct key_about *about = &issued->about;
    put_line(out, "name", about->name);
    buf_printf(out, "kind     %s%s\n", key_kind_name(about->kind),
               about->is_private ? "" : " (without the private key)");
    put_line(out, "owner", about->owner);
    buf_puts(out, "rights   ");
    issued_put_rights(out, about);
    buf_putc(out, '\n');
    put_line(out, "jobs", about->job[0] ? about->job : "-");
    buf_puts(out, "from     ");
    keys_put_date(out, about->from);
    buf_puts(out, " UTC\nuntil    ");
    keys_put_date(out, about->until);
    buf_printf(out, " UTC\nserial   %s\nstate    %s\n", about->serial, issued_state(issued));
}

/* ---- init ---- */

static int run_init(const struct options *options)
{
    char user[USER_NAME_BYTES], path[PATH_MAX];
    struct err err;
    user_name(geteuid(), user, sizeof user);
    if (authority_init(user, &err) < 0 || authority_path("", path, sizeof path, &err) < 0)
        return keys_fail(&err);
    printf("made the authority of %s, and your own key with all rights, in %s\n", user, path);
    return 0;
}

/* ---- issue ---- */

/* FILE without its directory and its last extension. */
static void name_of_file(const char *path, char *ret_name, size_t size)
{
    snprintf(ret_name, size, "%s", text_base(path));
    char *dot = strrchr(ret_name, '.');
    if (dot && dot != ret_name)
        *dot = 0;
}

static int run_issue(const struct options *options)
{
    static const char *const person_only[] = {"rights", "name"};
    const char *path = options_text(options, "output"), *name = options_text(options, "name");
    struct key_about about = {.kind = (enum key_kind)options_number(options, "kind"), .from = time(NULL)}, issued;
    _cleanup_(buf_done) struct buf text = BUF_INIT, shown = BUF_INIT;
    struct err err;
    if (!path)
        return cli_usage_error(options, "where to? -o FILE, or -o - for standard output");
    for (size_t i = 0; i < 2 && about.kind == KEY_JOB; i++)
        if (options_given(options, person_only[i]))
            return cli_usage_error(options, "--%s is for keys of people: a job's key only says that it is this job",
                                   person_only[i]);
    if (about.kind == KEY_PERSON && !name && strcmp(path, "-") == 0)
        return cli_usage_error(options, "who gets the key? --name NAME");
    uint64_t seconds = options_number(options, "for") / NS_PER_SECOND;
    if (!seconds)
        return cli_usage_error(options, "--for: less than a second is of no use");
    about.until = about.from + (time_t)seconds;
    if (about.kind == KEY_PERSON)
        about.rights = (unsigned)options_number(options, "rights") | KEY_OBSERVE;
    if (name && strlen(name) > 64)
        return cli_usage_error(options, "--name: at most 64 bytes");
    if (strlen(options_text(options, "job")) >= sizeof about.job)
        return cli_usage_error(options, "--job: at most %zu bytes", sizeof about.job - 1);
    snprintf(about.job, sizeof about.job, "%s", options_text(options, "job"));
    if (name)
        snprintf(about.name, sizeof about.name, "%s", name);
    else if (about.kind == KEY_PERSON)
        name_of_file(path, about.name, sizeof about.name);
    if (authority_issue(&about, path, &issued, &err) < 0)
        return keys_fail(&err);
    if (issued.kind == KEY_PERSON) {
        buf_printf(&text, "%s may ", issued.name);
        key_put_rights(&text, issued.rights);
        buf_printf(&text, " jobs %s", issued.job);
    } else
        buf_printf(&text, "a key for jobs %s", issued.job);
    buf_puts(&text, ", until ");
    keys_put_date(&text, issued.until);
    text_show(&shown, path);
    buf_puts(&shown, ": ");
    text_show(&shown, text.data ? text.data : "");
    if (strcmp(path, "-") != 0)
        printf("%s UTC, serial %.12s\n", shown.data ? shown.data : "", issued.serial);
    return 0;
}

/* ---- revoke ---- */

/* What it says, see mirror/reader.h. The list is there only if it says "ready". */
static int read_said(FILE *said)
{
    char line[2048];
    struct err err = {0};
    bool ready = false;
    while (fgets(line, sizeof line, said)) {
        line[strcspn(line, "\n")] = 0;
        char *text = line, *word = strsep(&text, " ");
        ready |= strcmp(word, "ready") == 0;
        if (strcmp(word, "error") == 0 && text)
            err_set(&err, -EIO, "%s", text);
    }
    if (ready)
        puts("the broker has the list of revoked keys: its jobs know");
    else if (err.code)
        cli_log_error(&err);
    return ready ? 0 : EXIT_ERRORS;
}

/* Libraries of brokers are in a program of their own. */
static int run_publish(const struct options *options)
{
    char path[PATH_MAX], *argv[] = {path, (char *)"revoke", NULL};
    struct err err;
    int ends[3];
    pid_t child;
    _cleanup_(buf_done) struct buf input = BUF_INIT;
    buf_printf(&input, "%s\n", options_text(options, "broker"));
    if (dirs_libexec("scry-mirror", path, sizeof path, &err) < 0 || authority_revoked(&input, &err) < 0)
        return keys_fail(&err);
    signal(SIGPIPE, SIG_IGN);
    fflush(stdout);
    /* An URL may hold a password, and everybody sees arguments: it gets it on standard input. */
    const struct spawn spawn = {.path = path, .argv = argv, .in = SPAWN_PIPE, .out = SPAWN_PIPE, .error = SPAWN_SAME};
    int code = spawn_piped(&spawn, &child, ends);
    if (code < 0) {
        err_errno(&err, code, "cannot start %s", path);
        return keys_fail(&err);
    }
    for (size_t at = 0; at < input.len;) {
        ssize_t put = write(ends[0], input.data + at, input.len - at);
        if (put < 0 && errno != EINTR)
            break; /* it has ended, and says why */
        at += put > 0 ? (size_t)put : 0;
    }
    _cleanup_(fclosep) FILE *said = fdopen(ends[1], "r");
    int status = said ? read_said(said) : EXIT_ERRORS;
    close(ends[0]);
    child_reap(child);
    return status;
}

static int revoke_key(const struct options *options)
{
    struct key_about about;
    struct err err;
    if (options->word_count < 2)
        return cli_usage_error(options, "which key? its serial or name, as in scry keys list");
    int code = authority_revoke(options->words[1], &about, &err);
    if (code < 0)
        return keys_fail(&err);
    printf("%s %s%s%s\n", code ? "was revoked before:" : "revoked", about.serial, about.name[0] ? ", " : "",
           about.name);
    if (options_given(options, "broker"))
        return run_publish(options);
    if (!code)
        puts("jobs that run hear of it through their broker: --broker URL");
    return 0;
}

/* ---- list, show ---- */

static int run_list(const struct options *options)
{
    _cleanup_(freep) struct issued *keys = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    size_t count = 0, damaged = 0;
    struct err err;
    if (authority_list(&keys, &count, &damaged, &err) < 0)
        return keys_fail(&err);
    if (damaged)
        log_warning("%zu files in issued/ cannot be read as certificates", damaged);
    if (options_on(options, "json"))
        return print_json(keys_json(keys, count));
    fields_title(&out, key_fields, NULL);
    for (size_t i = 0; i < count; i++)
        fields_row(&out, key_fields, &keys[i], NULL);
    fputs(out.data ? out.data : "", stdout);
    return 0;
}

/* Whether our own authority has revoked it; of others we do not know. */
static bool is_revoked(const struct key_about *about)
{
    _cleanup_(freep) struct issued *keys = NULL;
    size_t count = 0, damaged;
    if (authority_list(&keys, &count, &damaged, NULL) < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].about.serial, about->serial) == 0)
            return keys[i].revoked;
    return false;
}

static int run_show(const struct options *options)
{
    _cleanup_(key_freep) struct key *key = NULL;
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    struct issued issued;
    char own[PATH_MAX];
    struct err err;
    const char *named = options->word_count > 1 ? options->words[1] : NULL;
    int code = authority_path("own.pem", own, sizeof own, &err);
    if (code == 0 && (code = key_read(named ? named : own, &key, &err)) == -ENOENT && !named)
        err_set(&err, code, "you have no key here yet (%s): scry keys init makes one; or name a file", own);
    if (code < 0)
        return keys_fail(&err);
    key_about(key, &issued.about);
    issued.revoked = is_revoked(&issued.about);
    if (options_on(options, "json"))
        return print_json(fields_json(key_fields, &issued, NULL));
    put_key(&out, &issued);
    fputs(out.data ? out.data : "", stdout);
    return 0;
}

/* ---- the command line ---- */

enum takes { TAKES_ISSUE = 1, TAKES_BROKER = 2, TAKES_JSON = 4, TAKES_WORD = 8 };
static const struct action {
    const char *name;
    int (*run)(const struct options *options);
    unsigned takes;
} actions[] = {
    {"init", run_init, 0},
    {"issue", run_issue, TAKES_ISSUE},
    {"revoke", revoke_key, TAKES_BROKER | TAKES_WORD},
    {"list", run_list, TAKES_JSON},
    {"show", run_show, TAKES_JSON | TAKES_WORD},
};

static int keys_run(const struct options *options)
{
    static const struct {
        const char *name;
        unsigned of;
    } some[] = {{"name", TAKES_ISSUE}, {"rights", TAKES_ISSUE}, {"job", TAKES_ISSUE},     {"for", TAKES_ISSUE},
                {"kind", TAKES_ISSUE}, {"output", TAKES_ISSUE}, {"broker", TAKES_BROKER}, {"json", TAKES_JSON}};
    const struct action *action = NULL;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(options->words[0], actions[i].name) == 0)
            action = &actions[i];
    if (!action)
        return cli_usage_error(options, "there is no scry keys \"%s\": init, issue, revoke, list or show",
                               options->words[0]);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (options_given(options, some[i].name) && !(some[i].of & action->takes))
            return cli_usage_error(options, "scry keys %s has no --%s", action->name, some[i].name);
    if (options->word_count > 1 && !(action->takes & TAKES_WORD))
        return cli_usage_error(options, "scry keys %s takes no \"%s\"", action->name, options->words[1]);
    return action->run(options);
}

int main(int argc, char **argv)
{
    struct options options;
    struct err err = {0};
    log_open("scry keys", 0);
    int status = EXIT_USAGE;
    if (options_parse(&options, COMMAND_KEYS, argc, argv, &err) < 0)
        cli_usage_error(&options, "%s", err.text);
    else if (!options.help) /* scry itself has it */
        status = keys_run(&options);
    options_done(&options);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        log_error("cannot write to standard output");
        status = status ? status : EXIT_ERRORS;
    }
    return status;
}
