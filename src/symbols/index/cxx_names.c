/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/cxx_names.h"

#include <ctype.h>
#include <string.h>

#include "base/data/cleanup.h"

enum { NEST_LIMIT = 64, ARGUMENTS = 64, NAME_LIMIT = 1 << 16 };

/* The library's templates whose last arguments are mostly left out. */
static const char *const templates[] = {
    "vector",
    "deque",
    "list",
    "forward_list",
    "set",
    "multiset",
    "map",
    "multimap",
    "unordered_set",
    "unordered_multiset",
    "unordered_map",
    "unordered_multimap",
    "basic_string",
    "basic_string_view",
    "unique_ptr",
    "queue",
    "stack",
    "priority_queue",
    "basic_ostream",
    "basic_istream",
    "basic_iostream",
    "basic_stringstream",
    "basic_ostringstream",
    "basic_istringstream",
    "basic_ofstream",
    "basic_ifstream",
};

/* What they are then: with the first argument in it, or with anything. */
static const struct {
    const char *name;
    bool of_first;
} defaults[] = {
    {"std::allocator", false}, {"std::char_traits", true},    {"std::less", true},  {"std::hash", true},
    {"std::equal_to", true},   {"std::default_delete", true}, {"std::deque", true}, {"std::vector", true},
};

static const struct {
    const char *character, *prefix;
} characters[] = {{"char", ""}, {"wchar_t", "w"}, {"char8_t", "u8"}, {"char16_t", "u16"}, {"char32_t", "u32"}};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

struct names {
    const char *at;
    unsigned nest;
};

static bool put_until_end(struct names *names, struct buf *out, bool argument);

/* The last word of what was put out, where it begins; false: it is none of the templates. */
static bool known_template(const struct buf *out, size_t *ret_begin)
{
    size_t begin = out->len;
    while (begin > 0 && is_word(out->data[begin - 1]))
        begin--;
    *ret_begin = begin;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (strlen(templates[i]) == out->len - begin && memcmp(templates[i], out->data + begin, out->len - begin) == 0)
            return true;
    return false;
}

static bool is_default(const char *argument, const char *first)
{
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        size_t length = strlen(defaults[i].name), of = strlen(first);
        if (strncmp(argument, defaults[i].name, length) != 0 || argument[length] != '<')
            continue;
        const char *inner = argument + length + 1;
        return !defaults[i].of_first || (strncmp(inner, first, of) == 0 && strcmp(inner + of, ">") == 0);
    }
    return false;
}

/* basic_string<char> is string. */
static bool put_short(struct buf *out, size_t begin, const char *argument)
{
    static const char basic[] = "basic_";
    enum { BASIC = sizeof basic - 1 };
    _cleanup_(buf_done) struct buf rest = BUF_INIT;
    if (out->len - begin <= BASIC || memcmp(out->data + begin, basic, BASIC) != 0)
        return false;
    for (size_t i = 0; i < sizeof characters / sizeof *characters; i++)
        if (strcmp(argument, characters[i].character) == 0) {
            buf_append(&rest, out->data + begin + BASIC, out->len - begin - BASIC);
            out->len = begin;
            buf_puts(out, characters[i].prefix);
            buf_append(out, rest.data, rest.len);
            return !rest.failed;
        }
    return false;
}

/* 3ul is 3. */
static void drop_suffix(struct buf *argument)
{
    size_t digits = 0;
    while (digits < argument->len && isdigit((unsigned char)argument->data[digits]))
        digits++;
    if (digits > 0 && strspn(argument->data + digits, "ulUL") == argument->len - digits) {
        argument->len = digits;
        argument->data[digits] = 0;
    }
}

/* The arguments of the template whose name was just put out, behind the <. */
static bool put_arguments(struct names *names, struct buf *out)
{
    struct buf arguments[ARGUMENTS];
    size_t count = 0, begin;
    bool known = known_template(out, &begin), good = false;
    while (count < ARGUMENTS) {
        struct buf *argument = &arguments[count++];
        *argument = (struct buf)BUF_INIT;
        while (*names->at == ' ')
            names->at++;
        if (!put_until_end(names, argument, true))
            break;
        buf_putc(argument, ' '); /* so that there is a text */
        while (argument->len > 0 && argument->data[argument->len - 1] == ' ')
            argument->data[--argument->len] = 0;
        drop_suffix(argument);
        good = *names->at == '>';
        names->at++;
        if (good)
            break;
    }
    if (good) {
        size_t shown = count;
        while (known && shown > 1 && is_default(arguments[shown - 1].data, arguments[0].data))
            shown--;
        if (shown > 1 || !put_short(out, begin, arguments[0].data)) {
            buf_putc(out, '<');
            for (size_t i = 0; i < shown; i++) {
                buf_puts(out, i > 0 ? ", " : "");
                buf_append(out, arguments[i].data, arguments[i].len);
            }
            buf_putc(out, '>');
        }
    }
    for (size_t i = 0; i < count; i++)
        buf_done(&arguments[i]);
    return good;
}

/* "operator" and its sign. */
static void put_operator(struct names *names, struct buf *out)
{
    static const char *const signs[] = {"<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "<", ">", ","};
    buf_puts(out, "operator");
    names->at += strlen("operator");
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(names->at, signs[i], strlen(signs[i])) == 0) {
            buf_puts(out, signs[i]);
            names->at += strlen(signs[i]);
            return;
        }
}

/* The library's own inline namespaces. */
static bool skip_inner(struct names *names)
{
    static const char *const inner[] = {"std::__cxx11::", "std::__1::", "std::__ndk1::", "std::_V2::"};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        if (strncmp(names->at, inner[i], strlen(inner[i])) == 0) {
            names->at += strlen(inner[i]);
            return true;
        }
    return false;
}

/* Up to the end, of an argument to the comma or > behind it. False: brackets do not match. */
static bool put_until_end(struct names *names, struct buf *out, bool argument)
{
    char closes[NEST_LIMIT];
    unsigned open = 0;
    if (++names->nest > NEST_LIMIT)
        return false;
    for (char last = 0; *names->at;) {
        char c = *names->at;
        bool begins = !is_word(last);
        if (argument && open == 0 && (c == ',' || c == '>')) {
            names->nest--;
            return true;
        }
        last = c;
        if (begins && strncmp(names->at, "operator", 8) == 0 && !is_word(names->at[8])) {
            put_operator(names, out);
            last = ')';
            continue;
        }
        if (begins && c == 's' && skip_inner(names)) {
            buf_puts(out, "std::");
            last = ':';
            continue;
        }
        names->at++;
        if (c == '<' && out->len > 0 && (is_word(out->data[out->len - 1]) || out->data[out->len - 1] == ']')) {
            if (!put_arguments(names, out))
                return false;
            last = '>';
            continue;
        }
        if (c == '-' && *names->at == '>') {
            buf_puts(out, "->");
            names->at++;
            continue;
        }
        if (c == '(' || c == '{' || c == '[' || c == '<') {
            if (open == NEST_LIMIT)
                return false;
            closes[open++] = c == '(' ? ')' : c == '{' ? '}' : c == '[' ? ']' : '>';
        } else if (c == ')' || c == '}' || c == ']' || c == '>') {
            if (open == 0 || closes[--open] != c)
                return false;
        }
        buf_putc(out, c);
    }
    names->nest--;
    return !argument && open == 0;
}

void cxx_name_put(struct buf *out, const char *name)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct names names = {.at = name};
    bool good = strlen(name) < NAME_LIMIT && put_until_end(&names, &text, false) && !text.failed;
    buf_puts(out, good && text.data ? text.data : name);
}

bool fortran_name_put(struct buf *out, const char *name)
{
    static const char mark[] = "_MOD_";
    const char *module = strncmp(name, "__", 2) == 0 ? name + 2 : "", *end = strstr(module, mark);
    if (!end || end == module || !end[sizeof mark - 1])
        return false;
    buf_printf(out, "%.*s::%s", (int)(end - module), module, end + sizeof mark - 1);
    return true;
}
