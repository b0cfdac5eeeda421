/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ct_condition.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct operand {
    uint8_t kind;
    int64_t value;
};

struct comparison {
    struct operand a, b;
    uint8_t how;
    bool ends_group; /* '||' or the end follows */
};

struct reader {
    struct arena *arena;
    const char *text, *at; /* NUL-terminated */
    struct err *err;
    bool at_exit;
    struct comparison comparisons[CT_COMPARISONS];
    unsigned count;
    struct ct_condition *condition;
};

static int expected(const struct reader *reader, const char *what)
{
    size_t at = (size_t)(reader->at - reader->text) + 1;
    return *reader->at
               ? err_set(reader->err, -EINVAL, "condition: expected %s at \"%.20s\" (byte %zu)", what, reader->at, at)
               : err_set(reader->err, -EINVAL, "condition: expected %s at its end", what);
}

static void skip_space(struct reader *reader)
{
    while (isspace((unsigned char)*reader->at))
        reader->at++;
}

static bool take(struct reader *reader, const char *token)
{
    skip_space(reader);
    size_t len = strlen(token);
    if (strncmp(reader->at, token, len) != 0)
        return false;
    reader->at += len;
    return true;
}

static bool is_name_start(char c)
{
    return isalpha((unsigned char)c) || c == '_' || c == '$';
}

static bool take_name(struct reader *reader)
{
    if (!is_name_start(*reader->at))
        return false;
    while (is_name_start(*reader->at) || isdigit((unsigned char)*reader->at))
        reader->at++;
    return true;
}

static int take_index(struct reader *reader)
{
    unsigned depth = 0;
    do {
        if (!*reader->at || *reader->at == ';')
            return expected(reader, "']'");
        depth += *reader->at == '[';
        depth -= *reader->at == ']';
        reader->at++;
    } while (depth);
    return 0;
}

/* What follows a name: members, elements, scopes. */
static int take_rest(struct reader *reader)
{
    for (;;) {
        bool member = strncmp(reader->at, "->", 2) == 0 || strncmp(reader->at, "::", 2) == 0;
        if (*reader->at == '[') {
            int code = take_index(reader);
            if (code < 0)
                return code;
        } else if (member || *reader->at == '.') {
            reader->at += member ? 2 : 1;
            if (!take_name(reader))
                return expected(reader, "a name");
        } else {
            return 0;
        }
    }
}

/* The number of the parameter that an expression is; a new one if it was not there. -errno. */
static int param_of(struct reader *reader, struct span text)
{
    struct ct_condition *condition = reader->condition;
    for (unsigned i = 0; i < condition->param_count; i++)
        if (span_is(text, condition->params[i]))
            return (int)i;
    if (condition->param_count == CODE_PARAMS)
        return err_set(reader->err, -EINVAL, "condition: more than %d different expressions", CODE_PARAMS);
    const char *copy = arena_dup(reader->arena, text.ptr, text.len);
    if (!copy)
        return err_set(reader->err, -ENOMEM, "out of memory");
    condition->params[condition->param_count] = copy;
    return (int)condition->param_count++;
}

static int read_expression(struct reader *reader, struct operand *ret_operand)
{
    skip_space(reader);
    const char *from = reader->at;
    while (*reader->at == '*' || *reader->at == '&')
        reader->at++;
    if (!take_name(reader)) {
        reader->at = from;
        return expected(reader, "an argument, as n, p->x, *q or a[3], or a number");
    }
    int code = take_rest(reader);
    if (code < 0)
        return code;
    struct span text = span_of(from, (size_t)(reader->at - from));
    static const char *const words[] = {"false", "NULL", "nullptr", "true"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (span_is(text, words[i])) {
            *ret_operand = (struct operand){CODE_IMMEDIATE, i == 3};
            return 0;
        }
    if (reader->at_exit && (span_is(text, "duration") || span_is(text, "$duration"))) {
        *ret_operand = (struct operand){CODE_DURATION, 0};
        return 0;
    }
    code = param_of(reader, text);
    if (code < 0)
        return code;
    *ret_operand = (struct operand){CODE_PARAM, code};
    return 0;
}

static int read_number(struct reader *reader, struct operand *ret_operand)
{
    const char *from = reader->at;
    bool negative = *from == '-';
    const char *digits = from + (*from == '-' || *from == '+');
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    size_t len = strspn(digits, hex ? "0123456789abcdefABCDEFxX" : "0123456789");
    bool floating = strchr(hex ? ".pP" : ".eE", digits[len]) && digits[len];
    char *end;
    errno = 0;
    if (floating) {
        double number = strtod(from, &end);
        ret_operand->kind = CODE_IMMEDIATE_FLOATING;
        memcpy(&ret_operand->value, &number, sizeof number);
    } else {
        unsigned long long number = strtoull(digits, &end, 0);
        if (errno || (negative && number > (unsigned long long)INT64_MAX + 1))
            return expected(reader, "a number of at most 64 bits");
        *ret_operand = (struct operand){negative ? CODE_IMMEDIATE : CODE_IMMEDIATE_UNSIGNED,
                                        (int64_t)(negative ? -number : number)};
    }
    while (*end && strchr("uUlLfF", *end)) /* as C allows them */
        end++;
    if (end == digits || is_name_start(*end) || isdigit((unsigned char)*end))
        return expected(reader, "a number");
    reader->at = end;
    return 0;
}

static int read_character(struct reader *reader, struct operand *ret_operand)
{
    static const char escapes[] = "n\nt\tr\r0\0\\\\''\"\"";
    const char *at = reader->at + 1;
    int c = (unsigned char)*at;
    if (c == '\\') {
        c = -1;
        for (size_t i = 0; i + 1 < sizeof escapes; i += 2)
            if (at[1] == escapes[i])
                c = (unsigned char)escapes[i + 1];
        at += at[1] != 0;
    }
    if (c < 0 || !*at || at[1] != '\'')
        return expected(reader, "a character, as 'x' or '\\n'");
    *ret_operand = (struct operand){CODE_IMMEDIATE, c};
    reader->at = at + 2;
    return 0;
}

static int read_operand(struct reader *reader, struct operand *ret_operand)
{
    skip_space(reader);
    char c = *reader->at;
    if (c == '\'')
        return read_character(reader, ret_operand);
    if (isdigit((unsigned char)c) || c == '-' || c == '+' || c == '.')
        return read_number(reader, ret_operand);
    return read_expression(reader, ret_operand);
}

/* A number of seconds, as $duration has them, becomes one of nanoseconds. */
static int take_seconds(const struct reader *reader, struct operand *operand)
{
    double seconds;
    switch (operand->kind) {
    case CODE_IMMEDIATE_FLOATING:
        memcpy(&seconds, &operand->value, sizeof seconds);
        break;
    case CODE_IMMEDIATE_UNSIGNED:
        seconds = (double)(uint64_t)operand->value;
        break;
    case CODE_IMMEDIATE:
        seconds = (double)operand->value;
        break;
    default:
        return err_set(reader->err, -EINVAL,
                       "condition: duration is compared with a number of seconds, as in "
                       "duration > 0.001");
    }
    double ns = seconds * NS_PER_SECOND;
    *operand = (struct operand){CODE_IMMEDIATE, ns >= 0x1p63 ? INT64_MAX : ns > -0x1p63 ? (int64_t)ns : INT64_MIN};
    return 0;
}

static int read_comparison(struct reader *reader)
{
    static const struct {
        const char *token;
        uint8_t how;
    } operators[] = {{"==", CODE_EQ}, {"!=", CODE_NE}, {"<=", CODE_LE},
                     {">=", CODE_GE}, {"<", CODE_LT},  {">", CODE_GT}};
    struct comparison comparison = {.how = CODE_NE};
    if (reader->count == CT_COMPARISONS)
        return err_set(reader->err, -EINVAL, "condition: more than %d comparisons", CT_COMPARISONS);
    bool negated = take(reader, "!");
    int code = read_operand(reader, &comparison.a);
    if (code < 0)
        return code;
    if (negated)
        comparison.how = CODE_EQ;
    for (size_t i = 0; !negated && i < sizeof operators / sizeof *operators; i++)
        if (take(reader, operators[i].token)) {
            comparison.how = operators[i].how;
            if ((code = read_operand(reader, &comparison.b)) < 0)
                return code;
            break;
        }
    if (comparison.a.kind == CODE_DURATION && (code = take_seconds(reader, &comparison.b)) < 0)
        return code;
    if (comparison.b.kind == CODE_DURATION && (code = take_seconds(reader, &comparison.a)) < 0)
        return code;
    reader->comparisons[reader->count++] = comparison;
    return 0;
}

static int read_condition(struct reader *reader)
{
    for (;;) {
        int code = read_comparison(reader);
        if (code < 0)
            return code;
        if (take(reader, "&&"))
            continue;
        reader->comparisons[reader->count - 1].ends_group = true;
        if (!take(reader, "||"))
            return 0;
    }
}

static int read_more_params(struct reader *reader)
{
    do {
        struct operand ignored;
        int code = read_expression(reader, &ignored);
        if (code < 0)
            return code;
    } while (take(reader, ","));
    return 0;
}

/* One instruction a comparison. In the last group each one that fails ends the program; in the groups before, it leads
 * to the next group, and the last one that holds to the end of the condition. */
static void emit(const struct reader *reader, struct code_program *program)
{
    unsigned last_group = 0;
    for (unsigned i = 0; i + 1 < reader->count; i++)
        if (reader->comparisons[i].ends_group)
            last_group = i + 1;
    for (unsigned i = 0; i < reader->count; i++) {
        const struct comparison *comparison = &reader->comparisons[i];
        struct code_insn *insn = &program->insns[program->count++];
        *insn = (struct code_insn){.op = CODE_UNLESS,
                                   .comparison = comparison->how,
                                   .a_kind = comparison->a.kind,
                                   .a = comparison->a.value,
                                   .b_kind = comparison->b.kind,
                                   .b = comparison->b.value};
        if (i >= last_group)
            continue;
        unsigned next = i;
        while (!reader->comparisons[next].ends_group)
            next++;
        insn->op = comparison->ends_group ? CODE_SKIP_IF : CODE_SKIP_UNLESS;
        insn->other = comparison->ends_group ? reader->count - i - 1 : next - i;
    }
}

int ct_condition_compile(struct arena *arena, struct span text, bool at_exit, struct ct_condition *ret_condition,
                         struct err *err)
{
    struct ct_condition condition = {0};
    struct reader reader = {.arena = arena, .err = err, .at_exit = at_exit, .condition = &condition};
    if (text.len && memchr(text.ptr, 0, text.len))
        return err_set(err, -EINVAL, "condition: a NUL byte cannot be part of it");
    reader.text = reader.at = arena_dup(arena, text.ptr, text.len);
    if (!reader.text)
        return err_set(err, -ENOMEM, "out of memory");
    skip_space(&reader);
    int code = *reader.at && *reader.at != ';' ? read_condition(&reader) : 0;
    bool more = code == 0 && take(&reader, ";");
    if (more)
        code = read_more_params(&reader);
    skip_space(&reader);
    if (code == 0 && *reader.at)
        code = expected(&reader, more ? "',' and another expression" : "a comparison, && or ||, or ';'");
    if (code < 0)
        return code;
    emit(&reader, &condition.program);
    *ret_condition = condition;
    return 0;
}
