/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options, by their types. */
#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/data/units.h"
#include "lang/request.h"
#include "options/options.h"
#include "symbols/index/index.h"

struct span option_word(const struct option_row *row, size_t index)
{
    const char *at = row->words;
    for (; index; index--)
        at += strcspn(at, " ") + (at[strcspn(at, " ")] != 0);
    return span_of(at, strcspn(at, " "));
}

/* The index of a text among the row's words; -1: none. */
static int find_word(const struct option_row *row, struct span text, bool any_case)
{
    struct span word;
    for (size_t i = 0; (word = option_word(row, i)).len; i++)
        if (word.len == text.len && (any_case ? strncasecmp(word.ptr, text.ptr, word.len) == 0 : span_eq(word, text)))
            return (int)i;
    return -1;
}

static bool parse_switch(const char *text, bool *ret_on)
{
    static const struct option_row switches = {.words = "no yes off on false true 0 1"};
    int found = *text ? find_word(&switches, span_str(text), true) : 1; /* alone it is on */
    *ret_on = found % 2 == 1;
    return found >= 0;
}

static bool parse_choice(const struct option_row *row, const char *text, uint64_t *ret_number)
{
    int found = find_word(row, span_str(text), false);
    *ret_number = found < 0 ? 0 : (uint64_t)found;
    return found >= 0 || (!*text && row->flags & OPTION_OPTIONAL);
}

/* Flags may also be written as in C: OMIS_DEBUG. */
static bool parse_choices(const struct option_row *row, const char *text, uint64_t *ret_bits)
{
    for (*ret_bits = 0;; text += strspn(text, ", ")) {
        text += strncasecmp(text, "omis_", 5) == 0 ? 5 : 0;
        size_t len = strcspn(text, ", ");
        int found = find_word(row, span_of(text, len), true);
        if (found < 0)
            return false;
        *ret_bits |= UINT64_C(1) << found;
        text += len;
        if (!*text)
            return true;
    }
}

static bool in_range(const struct option_row *row, double number)
{
    return number >= row->least && (row->most == 0 || number <= row->most);
}

static bool parse_number(const struct option_row *row, const char *text, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && !errno && in_range(row, (double)*ret_number);
}

static bool parse_seconds(const struct option_row *row, const char *text, double *ret_seconds)
{
    char *end;
    *ret_seconds = strtod(text, &end);
    return end != text && (!*end || strcmp(end, "s") == 0) && in_range(row, *ret_seconds);
}

static bool parse_moment(const char *text, uint64_t *ret_ns)
{
    static const struct option_row any = {.most = 1e9};
    double seconds;
    if (time_parse(text, ret_ns))
        return true;
    if (!parse_seconds(&any, text, &seconds))
        return false;
    *ret_ns = (uint64_t)(seconds * NS_PER_SECOND);
    return true;
}

static int check_selection(const char *text, struct err *why)
{
    struct selection *selection;
    int code = selection_parse(&selection, text, why);
    if (code == 0)
        selection_free(selection);
    return code;
}

/* The monitor judges events and actions. Here only the form is checked: a conditional request. */
static int check_request(const char *text, struct err *why)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    struct request request;
    int code = request_parse(&arena, span_str(text), &request, why);
    return code < 0 || request.event ? code : err_set(why, -EINVAL, "it needs an event before the colon");
}

static int check_regex(const char *text, struct err *why)
{
    regex_t regex;
    char said[200];
    int code = regcomp(&regex, text, REG_EXTENDED);
    if (code) {
        regerror(code, &regex, said, sizeof said);
        return err_set(why, -EINVAL, "%s", said);
    }
    size_t groups = regex.re_nsub;
    regfree(&regex);
    return groups <= OPTION_REGEX_GROUPS
               ? 0
               : err_set(why, -EINVAL, "more than %d groups in parentheses", OPTION_REGEX_GROUPS);
}

static bool parse(const struct option_row *row, const char *text, struct option_value *value, struct err *why)
{
    switch (row->type) {
    case OPTION_SWITCH:
        return parse_switch(text, &value->on);
    case OPTION_TEXT:
        return true;
    case OPTION_LIST:
    case OPTION_DIR:
    case OPTION_FILE:
        return *text && in_range(row, (double)strlen(text));
    case OPTION_NUMBER:
        return parse_number(row, text, &value->number);
    case OPTION_SECONDS:
        return parse_seconds(row, text, &value->seconds);
    case OPTION_TIME:
        return time_parse(text, &value->number);
    case OPTION_MOMENT:
        return parse_moment(text, &value->number);
    case OPTION_SIZE:
        return size_parse(text, &value->number) && in_range(row, (double)value->number);
    case OPTION_CHOICE:
        return parse_choice(row, text, &value->number);
    case OPTION_CHOICES:
        return parse_choices(row, text, &value->number);
    case OPTION_SELECTION:
        value->on = strcmp(text, "off") != 0;
        return !value->on || check_selection(text, why) == 0;
    case OPTION_REQUEST:
        return check_request(text, why) == 0;
    case OPTION_REGEX:
        value->on = *text && strcmp(text, "off") != 0;
        return !value->on || check_regex(text, why) == 0;
    }
    return false;
}

/* "drop, wait or flight" */
static void put_words(struct buf *out, const struct option_row *row)
{
    struct span word;
    for (size_t i = 0; (word = option_word(row, i)).len; i++)
        buf_printf(out, "%s%.*s", i == 0 ? "" : option_word(row, i + 1).len ? ", " : " or ", SPAN_ARG(word));
}

static void put_expected(struct buf *out, const struct option_row *row)
{
    static const char *const expected[] = {
        [OPTION_SWITCH] = "yes or no",
        [OPTION_DIR] = "the name of a directory",
        [OPTION_FILE] = "the name of a file",
        [OPTION_TIME] = "a time such as 500us, 2ms or 1s",
        [OPTION_MOMENT] = "a time such as 0.5 (seconds), 20ms or 5us",
        [OPTION_SIZE] = "a size such as 500M or 20G",
        [OPTION_SELECTION] = "functions such as 'fn:solve*', 'file:ocean.c', '!fn:get_*' or off",
        [OPTION_REQUEST] = "'EVENT : ACTIONS'",
        [OPTION_REGEX] = "a POSIX extended regular expression or off",
    };
    if (row->expected || expected[row->type])
        buf_puts(out, row->expected ? row->expected : expected[row->type]);
    else
        put_words(out, row);
    if (row->type == OPTION_CHOICES)
        buf_puts(out, ", with commas between them");
}

int option_parse(const struct option_row *row, const char *text, const char *from, struct option_value *ret_value,
                 struct err *err)
{
    struct err why = {0};
    struct option_value value = {0};
    const char *colon = from ? ": " : "";
    from = from ? from : "";
    if (parse(row, text, &value, &why)) {
        *ret_value = value;
        return 0;
    }
    _cleanup_(buf_done) struct buf expected = BUF_INIT;
    put_expected(&expected, row);
    return err_set(err, -EINVAL, "%s%sexpected %s%s%.200s%s, not '%.100s%s'", from, colon,
                   expected.data ? expected.data : "", *why.text ? " (" : "", why.text, *why.text ? ")" : "", text,
                   strlen(text) > 100 ? "..." : "");
}
