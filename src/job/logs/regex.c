/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/regex.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/system/clock.h"
#include "jobdir/text/text.h"

enum {
    STEPS_MOST = 100000, /* of one match, as PCRE2 counts them */
    STACK_BYTES = 32 << 10,
    STACK_MOST = 512 << 10,
    /* The limit above counts from each place at which a match may begin. So a long line is tried in parts, with a look
     * at the clock in between. */
    STARTS = 1024,
    LINE_NS_MOST = 20000000,
    FIELD_BYTES_MOST = 1024,
};

struct log_regex {
    pcre2_code *code;
    pcre2_match_data *found;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
};

/* Bytes that are no UTF-8 never match then, and are no error. */
static uint32_t utf_option(const char *expression)
{
    for (const char *at = expression, *end; strncmp(at, "(*", 2) == 0 && (end = strchr(at, ')')); at = end + 1)
        if (strncmp(at, "(*UTF)", strlen("(*UTF)")) == 0)
            return PCRE2_MATCH_INVALID_UTF;
    return 0;
}

int log_regex_new(struct log_regex **ret_regex, const char *expression, struct err *err)
{
    int problem = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                                     PCRE2_USE_OFFSET_LIMIT | utf_option(expression), &problem, &at, NULL);
    if (!code) {
        PCRE2_UCHAR said[200];
        pcre2_get_error_message(problem, said, sizeof said);
        return err_set(err, -EINVAL, "%s, at character %zu", (const char *)said, (size_t)at + 1);
    }
    struct log_regex *regex = calloc(1, sizeof *regex);
    if (regex) {
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where that is refused it is slower */
        regex->code = code;
        regex->found = pcre2_match_data_create_from_pattern(code, NULL);
        regex->limits = pcre2_match_context_create(NULL);
        regex->stack = pcre2_jit_stack_create(STACK_BYTES, STACK_MOST, NULL);
    } else {
        pcre2_code_free(code);
    }
    if (!regex || !regex->found || !regex->limits) {
        log_regex_free(regex);
        return err_set(err, -ENOMEM, "out of memory");
    }
    pcre2_set_match_limit(regex->limits, STEPS_MOST);
    pcre2_jit_stack_assign(regex->limits, NULL, regex->stack);
    *ret_regex = regex;
    return 0;
}

void log_regex_free(struct log_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    pcre2_match_data_free(regex->found);
    pcre2_match_context_free(regex->limits);
    pcre2_jit_stack_free(regex->stack);
    free(regex);
}

enum log_match log_regex_match(struct log_regex *regex, const char *line, size_t len)
{
    uint64_t start_ns = len > STARTS ? clock_now_ns() : 0;
    for (size_t from = 0;; from += STARTS) {
        bool last = len - from <= STARTS;
        pcre2_set_offset_limit(regex->limits, last ? PCRE2_UNSET : from + STARTS - 1);
        int found = pcre2_match(regex->code, (PCRE2_SPTR)line, len, from, 0, regex->found, regex->limits);
        if (found >= 0)
            return LOG_MATCH_YES;
        if (found != PCRE2_ERROR_NOMATCH && found != PCRE2_ERROR_BADUTFOFFSET)
            return LOG_MATCH_TOO_LONG; /* a limit: of steps, or of memory */
        if (last)
            return LOG_MATCH_NO;
        if (clock_now_ns() - start_ns > LINE_NS_MOST)
            return LOG_MATCH_TOO_LONG;
    }
}

struct group {
    const char *name;
    size_t start, end;
};

/* The index-th named group. false: no more. One that took no part is empty. */
static bool get_group(const struct log_regex *regex, uint32_t index, struct group *ret_group)
{
    uint32_t count = 0, size = 0;
    PCRE2_SPTR names = NULL;
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMECOUNT, &count);
    if (index >= count)
        return false;
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMETABLE, &names);
    const unsigned char *entry = names + (size_t)index * size;
    unsigned number = (unsigned)entry[0] << 8 | entry[1];
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(regex->found);
    *ret_group = (struct group){.name = (const char *)entry + 2};
    if (ends[2 * number] != PCRE2_UNSET && ends[2 * number] <= ends[2 * number + 1]) {
        ret_group->start = ends[2 * number];
        ret_group->end = ends[2 * number + 1];
    }
    return true;
}

json_t *log_regex_fields(const struct log_regex *regex, const char *line)
{
    json_t *fields = NULL;
    struct group group;
    for (uint32_t i = 0; get_group(regex, i, &group); i++) {
        char value[FIELD_BYTES_MOST + 1];
        size_t len = group.end - group.start;
        len = len < FIELD_BYTES_MOST ? len : FIELD_BYTES_MOST;
        if (!len)
            continue;
        memcpy(value, line + group.start, len);
        value[len] = 0;
        fields = fields ? fields : json_object();
        json_object_set_new(fields, group.name, text_json(value));
    }
    return fields;
}

bool log_regex_number(const struct log_regex *regex, const char *line, const char *name, double *ret_number)
{
    struct group group;
    for (uint32_t i = 0; get_group(regex, i, &group); i++) {
        char digits[64], *end;
        size_t len = group.end - group.start;
        if (strcmp(group.name, name) != 0 || !len || len >= sizeof digits)
            continue;
        memcpy(digits, line + group.start, len);
        digits[len] = 0;
        *ret_number = strtod(digits, &end);
        if (end != digits && isfinite(*ret_number))
            return true;
    }
    return false;
}
