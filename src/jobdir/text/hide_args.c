/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/hide_args.h"

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "jobdir/text/text.h"

/* Hides to the end of the word: nobody knows where a quoted secret ends in a script, or whether a password has a blank.
 */
#define NAMES "passw(or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|credentials?"
#define SPACES " \t\n\v\f\r"
#define IS "[\"']?[[:space:]]*[=:][[:space:]]*"
static const char *const usual[] = {
    "(" NAMES ")" IS "(.*)",                /* --db-password=X, TOKEN=X, {"secret": "X"} */
    "(^|[^[:alnum:]])(pass|pwd)" IS "(.*)", /* no bypass=1 */
    "(^|[[:space:]])--?([[:alnum:]]+[-_])*(" NAMES "|pass|pwd)([[:space:]]+|$)(.*)", /* --password X */
    "authorization" IS "((bearer|basic|digest|token)[[:space:]]+)?(.*)",
};
enum { USUAL = sizeof usual / sizeof *usual, GROUPS = HIDE_ARGS_GROUPS + 1 };

struct rules {
    regex_t list[USUAL + 1];
    size_t count;
};

struct hide_args {
    struct rules usual, own;
    bool usual_wanted; /* and compiled when a word needs them: few do */
    bool failed;       /* then everything is hidden */
};

static void rules_done(struct rules *rules)
{
    while (rules->count)
        regfree(&rules->list[--rules->count]);
}

static bool is_off(const char *regex)
{
    return regex && (!*regex || strcmp(regex, "off") == 0);
}

static bool add_rule(struct rules *rules, const char *regex, int flags)
{
    regex_t *rule = &rules->list[rules->count];
    if (regcomp(rule, regex, REG_EXTENDED | flags) != 0)
        return false;
    rules->count++;
    return rule->re_nsub < GROUPS;
}

/* Every match of a usual rule contains one of these. Most words do not, and thousands of words come in a second. */
static bool may_be_usual(const char *word)
{
    static const char *const parts[] = {"pass", "pwd", "secret", "token", "key", "credential", "authorization", "://"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcasestr(word, parts[i]))
            return true;
    return false;
}

static void compile_usual(struct hide_args *hide)
{
    for (size_t i = hide->usual.count; i < USUAL && !hide->failed; i++)
        hide->failed = !add_rule(&hide->usual, usual[i], REG_ICASE);
}

/* Where a secret by these rules begins; `at` if there is none before that. *ret_next: the next word is a secret. */
static size_t secret_by(const struct rules *rules, const char *word, size_t at, bool *ret_next)
{
    size_t len = strlen(word);
    for (size_t i = 0; i < rules->count; i++) {
        regmatch_t found[GROUPS];
        size_t last = rules->list[i].re_nsub;
        int code = regexec(&rules->list[i], word, GROUPS, found, 0);
        if (code == REG_NOMATCH)
            continue;
        if (code) /* out of memory: not known */
            return 0;
        const regmatch_t *secret = found[last].rm_so >= 0 ? &found[last] : &found[0];
        size_t from = (size_t)secret->rm_so;
        *ret_next = *ret_next || (secret != &found[0] && from == len);
        at = from < at ? from : at;
    }
    return at;
}

/* https://user:X@host, but not http://host:8080/: where X begins, or SIZE_MAX. `goes_on`: the @ may come behind the end. Each
 * byte is looked at a few times only: as a regular expression it takes a second for a line of many addresses. */
static size_t url_secret_at(const char *text, bool goes_on)
{
    for (const char *at = text; (at = strstr(at, "://"));) {
        const char *user = at + strlen("://"), *secret = user + strcspn(user, "]/?#@:" SPACES);
        at = user;
        if (*secret++ != ':')
            continue;
        size_t len = strcspn(secret, SPACES);
        if ((goes_on && !secret[len]) || (len > 1 && memchr(secret + 1, '@', len - 1)))
            return (size_t)(secret - text);
        at = secret + len; /* nor has another one up to here */
    }
    return SIZE_MAX;
}

/* Where the secret in a word begins; the word's length if there is none. `goes_on`: this is not all of it. */
static size_t secret_at(struct hide_args *hide, const char *word, bool goes_on, bool *ret_next)
{
    size_t at = strlen(word);
    if (hide->usual_wanted && may_be_usual(word)) {
        size_t url = url_secret_at(word, goes_on);
        compile_usual(hide);
        at = hide->failed ? 0 : secret_by(&hide->usual, word, url < at ? url : at, ret_next);
    }
    return secret_by(&hide->own, word, at, ret_next);
}

struct hide_args *hide_args_new(const char *regex)
{
    struct hide_args *hide = calloc(1, sizeof *hide);
    if (!hide)
        return NULL;
    hide->usual_wanted = !is_off(regex);
    if (regex && !is_off(regex))
        hide->failed = !add_rule(&hide->own, regex, 0);
    return hide;
}

void hide_args_free(struct hide_args *hide)
{
    if (hide) {
        rules_done(&hide->usual);
        rules_done(&hide->own);
    }
    free(hide);
}

json_t *hide_args_json(char *const *command, struct hide_args *hide)
{
    json_t *list = json_array();
    size_t bytes = 0;
    bool hidden = false;
    for (char *const *word = command; *word && bytes < TEXT_LIMIT; word++) {
        bytes += strlen(*word) + 1;
        bool next = false;
        bool all = !hide || hide->failed;
        size_t at = hidden || all ? 0 : word == command ? strlen(*word) : secret_at(hide, *word, false, &next);
        hidden = next;
        _cleanup_(buf_done) struct buf shown = BUF_INIT;
        buf_append(&shown, *word, at);
        if ((*word)[at])
            buf_puts(&shown, "***");
        buf_putc(&shown, 0);
        json_array_append_new(list, shown.failed ? NULL : text_json(shown.data));
    }
    return list;
}

bool hide_is_off(const struct hide_args *hide)
{
    return hide && !hide->failed && !hide->usual_wanted && !hide->own.count;
}

void hide_text(struct hide_args *hide, char *bytes, size_t len)
{
    for (size_t at = 0, end; at < len; at = end + 1) {
        for (end = at; end < len && !hide_ends_line(bytes[end]);)
            end++;
        char was = bytes[end];
        bool next = false;
        bytes[end] = '\0';
        size_t from = !hide || hide->failed ? 0 : secret_at(hide, bytes + at, end == len, &next);
        memset(bytes + at + from, '*', end - at - from);
        bytes[end] = was;
    }
}
