/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/names.h"

#include <ctype.h>
#include <string.h>

#include "base/data/cleanup.h"

/* ---- as people write them ---- */
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
static bool is_known_template(const struct buf *out, size_t *ret_begin)
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
static bool put_string_name(struct buf *out, size_t begin, const char *argument)
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
static void drop_number_suffix(struct buf *argument)
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
    bool known = is_known_template(out, &begin), good = false;
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
        drop_number_suffix(argument);
        good = *names->at == '>';
        names->at++;
        if (good)
            break;
    }
    if (good) {
        size_t shown = count;
        while (known && shown > 1 && is_default(arguments[shown - 1].data, arguments[0].data))
            shown--;
        if (shown > 1 || !put_string_name(out, begin, arguments[0].data)) {
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

/* The library's own inline namespaces. */
static bool skip_inner_namespace(struct names *names)
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
        size_t sign = begins && c == 'o' ? name_operator_end(span_str(names->at), 0) : 0;
        if (sign) {
            buf_append(out, names->at, sign);
            names->at += sign;
            last = ')';
            continue;
        }
        if (begins && c == 's' && skip_inner_namespace(names)) {
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

/* What Rust writes for what no C++ name may have: "$LT$" is <, "$u7b$" is {, ".." is ::. Returns how much of text it is; 0: it is
 * none, and nothing is appended. */
static size_t put_rust_sign(struct buf *out, struct span text)
{
    static const struct {
        const char *sign, *text;
    } signs[] = {{"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"}, {"$GT$", ">"},
                 {"$LP$", "("}, {"$RP$", ")"}, {"$C$", ", "}, {"..", "::"}};
    unsigned number = 0;
    size_t at = 2;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t len = strlen(signs[i].sign);
        if (text.len >= len && memcmp(text.ptr, signs[i].sign, len) == 0) {
            buf_puts(out, signs[i].text);
            return len;
        }
    }
    if (text.len < 4 || memcmp(text.ptr, "$u", 2) != 0)
        return 0;
    for (; at < text.len && isxdigit((unsigned char)text.ptr[at]) && number < 0x80; at++) {
        int digit = tolower((unsigned char)text.ptr[at]);
        number = 16 * number + (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    if (at == text.len || text.ptr[at] != '$' || number < ' ' || number > '~')
        return 0;
    buf_putc(out, (char)number);
    return at + 1;
}

static void put_rust_part(struct buf *out, struct span part)
{
    size_t at = part.len > 1 && part.ptr[0] == '_' && part.ptr[1] == '$';
    for (size_t len; at < part.len; at += len ? len : 1) {
        len = put_rust_sign(out, span_of(part.ptr + at, part.len - at));
        if (!len)
            buf_putc(out, part.ptr[at]);
    }
}

/* The last part is "h" and 16 digits, which tell two that have the same name apart. */
static bool is_rust_hash(struct span part)
{
    enum { HASH = 17 };
    if (part.len != HASH || *part.ptr != 'h')
        return false;
    for (size_t i = 1; i < part.len; i++)
        if (!isdigit((unsigned char)part.ptr[i]) && !(part.ptr[i] >= 'a' && part.ptr[i] <= 'f'))
            return false;
    return true;
}

bool rust_name_put(struct buf *out, const char *name)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const char *at = strncmp(name, "_ZN", 3) == 0 ? name + 3 : "";
    const size_t most = strlen(at);
    for (size_t parts = 0, len; isdigit((unsigned char)*at); parts++, at += len) {
        for (len = 0; isdigit((unsigned char)*at) && len < most; at++)
            len = 10 * len + (size_t)(*at - '0');
        if (len > strlen(at))
            return false;
        if (parts && at[len] == 'E' && is_rust_hash(span_of(at, len))) {
            buf_append(out, text.data, text.len);
            buf_puts(out, at + len + 1); /* of a clone */
            return !text.failed;
        }
        buf_puts(&text, parts ? "::" : "");
        put_rust_part(&text, span_of(at, len));
    }
    return false;
}

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

/* ---- parts of names ---- */
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
    static const char *const marks[] = {".part.", ".constprop.", ".isra.",  ".cold",    ".lto_priv.",
                                        ".llvm.", ".actor",      ".resume", ".destroy", ".cleanup"};
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
