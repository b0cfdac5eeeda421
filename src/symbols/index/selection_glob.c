/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/selection_glob.h"

#include <ctype.h>

/* ---- globs ---- */
/* The end of the set that begins at glob[0] == '['; NULL: it is none. */
static const char *set_end(const char *glob)
{
    const char *c = glob + 1;
    if (*c == '!' || *c == '^')
        c++;
    if (*c == ']')
        c++;
    while (*c && *c != ']')
        c += *c == '\\' && c[1] ? 2 : 1;
    return *c ? c : NULL;
}

static unsigned char set_char(const char **at)
{
    if (**at == '\\' && (*at)[1])
        ++*at;
    return (unsigned char)*(*at)++;
}

static bool in_set(const char *glob, const char *end, unsigned char c)
{
    const char *at = glob + 1;
    bool negated = *at == '!' || *at == '^', found = false;
    at += negated;
    while (at < end) {
        unsigned char low = set_char(&at), high = low;
        if (at + 1 < end && *at == '-') {
            at++;
            high = set_char(&at);
        }
        found = found || (c >= low && c <= high);
    }
    return found != negated;
}

/* One element of the glob against one character; *ret_next: behind the element. */
static bool matches_one(const char *glob, char c, const char **ret_next)
{
    const char *end;
    *ret_next = glob + 1;
    if (*glob == '?')
        return true;
    if (*glob == '[' && (end = set_end(glob))) {
        *ret_next = end + 1;
        return in_set(glob, end, (unsigned char)c);
    }
    if (*glob == '\\' && glob[1]) {
        *ret_next = glob + 2;
        return glob[1] == c;
    }
    return *glob && *glob == c;
}

bool glob_matches(const char *glob, struct span text)
{
    const char *star = NULL; /* behind the last star passed: only that one has to be tried again */
    size_t at = 0, star_at = 0;
    while (at < text.len) {
        const char *next;
        if (*glob == '*') {
            star = ++glob;
            star_at = at;
        } else if (matches_one(glob, text.ptr[at], &next)) {
            glob = next;
            at++;
        } else if (star) {
            glob = star;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return !*glob;
}

/* ---- names ---- */
static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

size_t name_operator_end(struct span name, size_t at)
{
    static const char word[] = "operator";
    static const char *const signs[] = {
        "()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "==", "!=", "&&",
        "||", "++", "--",  "+=",  "-=",  "*=",  "/=", "%=", "^=", "&=", "|=", "->", "<",
        ">",  "=",  "!",   "+",   "-",   "*",   "/",  "%",  "^",  "&",  "|",  "~",  ","};
    size_t len = sizeof word - 1, left = name.len - at;
    if (left < len || memcmp(name.ptr + at, word, len) != 0 || (at > 0 && is_word(name.ptr[at - 1])) ||
        (left > len && is_word(name.ptr[at + len])))
        return at;
    at += len;
    left -= len;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) { /* longer ones first */
        size_t size = strlen(signs[i]);
        if (left >= size && memcmp(name.ptr + at, signs[i], size) == 0)
            return at + size;
    }
    return at;
}

/* An operator's name begins there: to its last letter. */
static bool pass_operator(struct span name, size_t *at)
{
    size_t end = name.ptr[*at] == 'o' ? name_operator_end(name, *at) : *at;
    if (end == *at)
        return false;
    *at = end - 1;
    return true;
}

const char *glob_unclosed(const char *glob)
{
    struct span all = span_str(glob);
    for (size_t at = 0; at < all.len; at++) {
        if (pass_operator(all, &at))
            continue;
        if (glob[at] == '\\' && glob[at + 1]) {
            at++;
        } else if (glob[at] == '[') {
            const char *end = set_end(glob + at);
            if (!end && glob[at + 1] != ']')
                return glob + at;
            at = end ? (size_t)(end - glob) : at + 1;
        }
    }
    return NULL;
}

struct span name_last_part(struct span name)
{
    size_t last = 0;
    int depth = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (pass_operator(name, &i))
            continue;
        switch (name.ptr[i]) { /* names of templates have thousands of letters */
        case '<':
        case '(':
        case '{':
        case '[':
            depth++;
            break;
        case '>':
            depth -= depth > 0 && !(i > 0 && name.ptr[i - 1] == '-');
            break;
        case ')':
        case '}':
        case ']':
            depth -= depth > 0;
            break;
        case ':':
            if (depth == 0 && i + 1 < name.len && name.ptr[i + 1] == ':')
                last = i++ + 2;
            break;
        default:
            break;
        }
    }
    return span_of(name.ptr + last, name.len - last);
}

struct span name_without_template(struct span name)
{
    if (name.len < 2 || name.ptr[name.len - 1] != '>')
        return name;
    int depth = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (pass_operator(name, &i))
            continue;
        char c = name.ptr[i];
        if (c == '<' && depth++ == 0) {
            /* does this one close at the end? */
            int inner = 0;
            for (size_t j = i; j < name.len; j++) {
                inner += (name.ptr[j] == '<') - (name.ptr[j] == '>' && name.ptr[j - 1] != '-');
                if (inner == 0 && j + 1 == name.len)
                    return span_of(name.ptr, i > 0 && name.ptr[i - 1] == ' ' ? i - 1 : i);
                if (inner == 0)
                    break;
            }
        } else if (c == '>' && depth > 0 && name.ptr[i - 1] != '-') {
            depth--;
        }
    }
    return name;
}

struct span name_short(struct span name)
{
    return name_last_part(name_without_template(name_without_clone(name)));
}

struct span name_without_clone(struct span name)
{
    static const char *const marks[] = {".part.", ".constprop.", ".isra.", ".cold", ".lto_priv.", ".llvm."};
    const char *dot = name.len ? memchr(name.ptr + 1, '.', name.len - 1) : NULL;
    if (!dot)
        return name;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t len = strlen(marks[i]);
        for (const char *at = dot; at && (size_t)(name.ptr + name.len - at) >= len;
             at = memchr(at + 1, '.', (size_t)(name.ptr + name.len - at - 1)))
            if (memcmp(at, marks[i], len) == 0)
                return name_without_clone(span_of(name.ptr, (size_t)(at - name.ptr)));
    }
    return name;
}
