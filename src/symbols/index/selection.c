/* SPDX-License-Identifier: Apache-2.0 */
/* Selections of functions: parses and applies them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "symbols/index/names.h"
#include "symbols/index/index.h"

enum kind { BY_NAME, BY_FILE, BY_LIBRARY, BY_ADDRESS, EVERYTHING };

struct item {
    enum kind kind;
    bool excludes;
    char *glob;         /* of the first three; in the text */
    uint64_t low, high; /* of BY_ADDRESS */
    char *needle;       /* letters that stand in whatever the glob matches; "" */
    /* of BY_NAME, what stands in the glob */
    bool anything, scoped, template, dotted, parameters;
    bool literal; /* no wildcards */
};

struct selection {
    char *text;
    struct item *items;
    size_t count;
    bool has_choice; /* an item without ! */
};

/* ---- parsing ---- */
/* Where the group that opens at text[0] closes; NULL: nowhere, so it is just a letter. */
static const char *group_end(const char *text)
{
    char stack[64];
    size_t depth = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '\\' && c[1]) {
            c++;
        } else if (*c == '(' || *c == '<') {
            if (depth == sizeof stack)
                return NULL;
            stack[depth++] = *c == '(' ? ')' : '>';
        } else if (*c == ')' || *c == '>') {
            if (stack[depth - 1] != *c) {
                if (*c == '>') /* "->" or an operator */
                    continue;
                return NULL;
            }
            if (--depth == 0)
                return c;
        }
    }
    return NULL;
}

static bool is_separator(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',';
}

/* Behind the qualifiers that follow the parameters of a function. */
static const char *qualifiers_end(const char *text)
{
    static const char *const words[] = {" const", " volatile", " &&", " &"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i]);
        if (strncmp(text, words[i], len) == 0 && (!text[len] || is_separator(text[len])))
            return qualifiers_end(text + len);
    }
    return text;
}

static const char *item_end(const char *item)
{
    struct span all = span_str(item);
    size_t at = 0;
    while (item[at] && !is_separator(item[at])) {
        const char *end;
        size_t behind = item[at] == 'o' ? name_operator_end(all, at) : at;
        if (behind > at)
            at = behind;
        else if (item[at] == '\\' && item[at + 1])
            at += 2;
        else if ((item[at] == '(' || item[at] == '<') && (end = group_end(item + at)))
            at = (size_t)((*end == ')' ? qualifiers_end(end + 1) : end + 1) - item);
        else
            at++;
    }
    return item + at;
}

static int parse_addresses(struct item *item, const char *text, size_t column, struct err *err)
{
    char *end;
    errno = 0;
    item->low = strtoull(text, &end, 16);
    bool good = end != text && *text != '-' && *text != '+' && *end == '-';
    if (good) {
        const char *high = end + 1;
        item->high = strtoull(high, &end, 16);
        good = end != high && *high != '-' && *high != '+' && !*end && errno == 0;
    }
    if (!good)
        return err_set(err, -EINVAL,
                       "'addr:%.100s' at character %zu is no range of addresses: write addr:LOW-HIGH with hexadecimal "
                       "numbers, as in /proc/PID/maps",
                       text, column);
    if (item->low >= item->high)
        return err_set(err, -EINVAL,
                       "the range 'addr:%.100s' at character %zu is empty: its end is not behind its start", text,
                       column);
    return 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

/* Refuses an item that is no function's name, such as a source file. */
static int check_bare(const char *glob, size_t column, struct err *err)
{
    static const char *const sources[] = {".c",   ".cc",  ".cpp", ".cxx", ".C",   ".h",
                                          ".hpp", ".hxx", ".f",   ".f90", ".F90", ".inc"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (ends_with(glob, sources[i]))
            return err_set(err, -EINVAL,
                           "'%.100s' at character %zu looks like a file: write file:%.100s (or fn:%.100s)", glob,
                           column, glob, glob);
    if (ends_with(glob, ".so") || strstr(glob, ".so."))
        return err_set(err, -EINVAL, "'%.100s' at character %zu looks like a library: write lib:%.100s (or fn:%.100s)",
                       glob, column, glob, glob);
    return 0;
}

static int parse_kind(struct item *item, char *text, size_t column, struct err *err)
{
    static const struct {
        const char *word;
        enum kind kind;
    } kinds[] = {{"fn", BY_NAME}, {"file", BY_FILE}, {"lib", BY_LIBRARY}, {"addr", BY_ADDRESS}};
    if (strcmp(text, "all") == 0) {
        item->kind = EVERYTHING;
        return 0;
    }
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
    if (text[len] != ':' || text[len + 1] == ':') {
        item->glob = text;
        return *text ? check_bare(text, column, err)
                     : err_set(err, -EINVAL, "'!' at character %zu excludes nothing: write what, as in !fn:main",
                               column - 1);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strlen(kinds[i].word) != len || memcmp(kinds[i].word, text, len) != 0)
            continue;
        item->kind = kinds[i].kind;
        item->glob = text + len + 1;
        if (!*item->glob)
            return err_set(err, -EINVAL, "nothing follows '%s' at character %zu; to choose everything write all", text,
                           column);
        return item->kind == BY_ADDRESS ? parse_addresses(item, item->glob, column, err) : 0;
    }
    return err_set(
        err, -EINVAL,
        "'%.*s:' at character %zu is not known: an item is fn:NAME, file:PATH, lib:NAME, addr:LOW-HIGH, all, "
        "or the name of a function",
        (int)(len > 100 ? 100 : len), text, column);
}

static const char special[] = "*?[\\";

/* The longest run of letters that mean themselves. Inside [ ] they do not. */
static bool needle_find(struct item *item)
{
    const char *best = "", *at = item->glob;
    size_t most = 0;
    while (*at && *at != '[') {
        size_t len = strcspn(at, special);
        if (len > most) {
            most = len;
            best = at;
        }
        at += len;
        while (*at == '*' || *at == '?')
            at++;
        if (*at == '\\')
            at += at[1] ? 2 : 1;
    }
    return (item->needle = strndup(best, most)) != NULL;
}

/* As the index has names: default arguments of the C++ library's templates left out. */
static void glob_tidy(char *glob)
{
    struct buf name = BUF_INIT;
    cxx_name_put(&name, glob);
    if (name.data && name.len <= strlen(glob))
        memcpy(glob, name.data, name.len + 1);
    buf_done(&name);
}

static int parse_item(struct item *item, char *text, size_t column, struct err *err)
{
    *item = (struct item){.excludes = *text == '!'};
    if (item->excludes) {
        text++;
        column++;
    }
    int r = parse_kind(item, text, column, err);
    if (r < 0 || !item->glob)
        return r;
    size_t slashes = 0;
    for (const char *c = item->glob + strlen(item->glob); c > item->glob && c[-1] == '\\'; c--)
        slashes++;
    if (slashes % 2)
        return err_set(err, -EINVAL,
                       "'%.100s' at character %zu ends in a backslash: it takes the next character as it is", text,
                       column);
    if (item->kind != BY_ADDRESS && glob_unclosed(item->glob))
        return err_set(err, -EINVAL,
                       "'%.100s' at character %zu has a [ that is not closed: write \\[ for the character itself", text,
                       column);
    if (item->kind == BY_NAME && strchr(item->glob, '<'))
        glob_tidy(item->glob);
    if (item->kind == BY_FILE)
        while (strncmp(item->glob, "./", 2) == 0)
            item->glob += 2;
    item->anything = strspn(item->glob, "*") == strlen(item->glob);
    item->scoped = name_last_part(span_str(item->glob)).len < strlen(item->glob);
    item->template = strchr(item->glob, '<');
    item->dotted = strchr(item->glob, '.');
    item->parameters = strchr(item->glob, '(');
    item->literal = !strpbrk(item->glob, special) && !item->parameters;
    return needle_find(item) ? 0 : err_set(err, -ENOMEM, "out of memory for the selection");
}

int selection_parse(struct selection **ret_selection, const char *text, struct err *err)
{
    if (strnlen(text, SELECTION_TEXT) >= SELECTION_TEXT)
        return err_set(err, -E2BIG, "the selection is longer than %d characters", SELECTION_TEXT);
    struct selection *selection = calloc(1, sizeof *selection);
    size_t room = 0;
    if (!selection || !(selection->text = strdup(text))) {
        free(selection);
        return err_set(err, -ENOMEM, "out of memory for the selection");
    }
    int r = 0;
    for (char *at = selection->text; r == 0;) {
        while (is_separator(*at))
            at++;
        if (!*at)
            break;
        char *end = (char *)item_end(at);
        bool more = *end != 0;
        *end = 0;
        if (selection->count == SELECTION_ITEMS || !GROW(selection->items, selection->count, room)) {
            r = err_set(err, -E2BIG, "the selection has more than %d items: use wildcards", SELECTION_ITEMS);
            break;
        }
        struct item *item = &selection->items[selection->count];
        r = parse_item(item, at, (size_t)(at - selection->text) + 1, err);
        if (r == 0) {
            selection->has_choice |= !item->excludes;
            selection->count++;
        }
        at = more ? end + 1 : end;
    }
    if (r < 0) {
        selection_free(selection);
        return r;
    }
    *ret_selection = selection;
    return 0;
}

void selection_free(struct selection *selection)
{
    if (!selection)
        return;
    for (size_t i = 0; i < selection->count; i++)
        free(selection->items[i].needle);
    free(selection->items);
    free(selection->text);
    free(selection);
}

/* ---- applying ---- */
static bool last_part_matches(const struct item *item, struct span name)
{
    return glob_matches(item->glob, name) || (!item->scoped && glob_matches(item->glob, name_last_part(name)));
}

static bool name_matches(const struct item *item, const char *text)
{
    struct span name = span_str(text);
    if (!name.len)
        return false;
    if (last_part_matches(item, name))
        return true;
    if (!item->dotted)
        name = name_without_clone(name);
    struct span plain = item->template ? name : name_without_template(name);
    return (name.len < strlen(text) && last_part_matches(item, name)) ||
           (plain.len < name.len && last_part_matches(item, plain));
}

static bool function_matches(const struct item *item, const struct index_function *function)
{
    if (item->anything)
        return true;
    if (!strstr(function->name, item->needle) && !strstr(function->linkage, item->needle) &&
        !(item->parameters && function->full && strstr(function->full, item->needle)))
        return false;
    if (glob_matches(item->glob, span_str(function->linkage)))
        return true;
    if (item->parameters && function->full && *function->full) {
        const char *parameters_end = strrchr(function->full, ')');
        return last_part_matches(item, span_str(function->full)) ||
               (parameters_end &&
                last_part_matches(item, span_of(function->full, (size_t)(parameters_end + 1 - function->full))));
    }
    return name_matches(item, function->name) ||
           (strcmp(function->name, function->linkage) != 0 && name_matches(item, function->linkage));
}

static bool file_matches(const struct item *item, const char *file)
{
    if (!*file || !strstr(file, item->needle))
        return item->anything;
    for (const char *at = file; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (glob_matches(item->glob, span_str(at)))
            return true;
    return false;
}

static bool item_matches(const struct item *item, const struct module *module, const struct index_function *function)
{
    switch (item->kind) {
    case BY_NAME:
        return function_matches(item, function);
    case BY_FILE:
        return file_matches(item, function->file);
    case BY_LIBRARY:
        return module ? glob_matches(item->glob, span_str(module->name)) : item->anything;
    case BY_ADDRESS: {
        uint64_t address = function->address + (module ? module->bias : 0);
        return address >= item->low && address < item->high;
    }
    case EVERYTHING:
        return true;
    }
    return false;
}

/* Its functions by their names, or all of a library. */
static bool names(const struct item *item)
{
    return !item->excludes && (item->kind == BY_NAME ? item->literal : item->kind == BY_LIBRARY && !item->anything);
}

bool selection_has_names(const struct selection *selection)
{
    for (size_t i = 0; i < selection->count; i++)
        if (names(&selection->items[i]))
            return true;
    return false;
}

/* by_name: an item without wildcards. */
static bool matches(const struct selection *selection, const struct module *module,
                    const struct index_function *function, bool by_name)
{
    bool chosen = !selection->has_choice && !by_name && (!module || module->is_program);
    for (size_t i = 0; i < selection->count; i++) {
        const struct item *item = &selection->items[i];
        if ((chosen && !item->excludes) || (by_name && !item->excludes && !names(item)) ||
            !item_matches(item, module, function))
            continue;
        if (item->excludes)
            return false;
        chosen = true;
    }
    return chosen;
}

bool selection_matches(const struct selection *selection, const struct module *module,
                       const struct index_function *function)
{
    return matches(selection, module, function, false);
}

bool selection_names(const struct selection *selection, const struct module *module,
                     const struct index_function *function)
{
    return matches(selection, module, function, true);
}

static int compare_places(const void *left, const void *right)
{
    size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return a < b ? -1 : a > b;
}

struct places {
    size_t *list, count, room;
};

static bool places_add(struct places *places, const struct index *index, const char *name)
{
    size_t cursor = 0, i;
    while (index_next_named(index, name, &cursor, &i)) {
        if (!GROW(places->list, places->count, places->room))
            return false;
        places->list[places->count++] = i;
    }
    return true;
}

/* What a glob without wildcards can match has the same short name, or the glob for a linkage name. */
static bool places_add_item(struct places *places, const struct index *index, const struct item *item)
{
    char last[512];
    struct span part = name_short(span_str(item->glob));
    return snprintf(last, sizeof last, "::%.*s", SPAN_ARG(part)) < (int)sizeof last &&
           places_add(places, index, item->glob) && places_add(places, index, last);
}

bool selection_candidates(const struct selection *selection, const struct index *index, size_t **ret_list,
                          size_t *ret_count)
{
    struct places places = {0};
    bool few = selection->has_choice;
    for (size_t i = 0; few && i < selection->count; i++) {
        const struct item *item = &selection->items[i];
        if (!item->excludes)
            few = item->kind == BY_NAME && item->literal && places_add_item(&places, index, item);
    }
    if (!few) {
        free(places.list);
        return false;
    }
    if (places.count > 1)
        qsort(places.list, places.count, sizeof *places.list, compare_places);
    size_t kept = 0;
    for (size_t i = 0; i < places.count; i++)
        if (!kept || places.list[kept - 1] != places.list[i])
            places.list[kept++] = places.list[i];
    *ret_list = places.list;
    *ret_count = kept;
    return true;
}

bool selection_wants_unknown(const struct selection *selection, const struct module *module)
{
    bool wanted = !selection->has_choice && (!module || module->is_program);
    for (size_t i = 0; i < selection->count; i++) {
        const struct item *item = &selection->items[i];
        bool whole = item->kind == EVERYTHING || (item->kind <= BY_FILE && item->anything) ||
                     (item->kind == BY_LIBRARY &&
                      (module ? glob_matches(item->glob, span_str(module->name)) : item->anything || !item->excludes));
        if (item->excludes && whole)
            return false;
        if (!item->excludes && item->kind == BY_ADDRESS)
            whole = !module || (item->low < module->end && item->high > module->start);
        wanted |= !item->excludes && whole;
    }
    return wanted;
}
