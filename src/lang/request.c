/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/request.h"

#include "lang/lexer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The parser of requests: recursive descent, one symbol ahead. Elements of a list are collected on a stack and moved to
 * the arena when the list ends. So each value is copied once, however long the lists are.
 */

enum { FIXED_VALUES = 32, FIXED_CALLS = 16 };

struct parser {
    struct lexer lexer;
    struct value *values; /* stack: the values of the lists still open */
    size_t value_count, value_cap, value_total;
    struct call_text *calls;
    size_t call_count, call_cap;
    struct value fixed_values[FIXED_VALUES]; /* the usual request needs no heap */
    struct call_text fixed_calls[FIXED_CALLS];
};

static void parser_init(struct parser *parser, struct arena *arena, struct span text, struct err *err)
{
    lexer_init(&parser->lexer, arena, text, err);
    parser->values = parser->fixed_values;
    parser->value_cap = FIXED_VALUES;
    parser->calls = parser->fixed_calls;
    parser->call_cap = FIXED_CALLS;
    parser->value_count = parser->value_total = parser->call_count = 0;
}

static void parser_done(struct parser *parser)
{
    if (parser->values != parser->fixed_values)
        free(parser->values);
    if (parser->calls != parser->fixed_calls)
        free(parser->calls);
}

static int out_of_memory(struct parser *parser)
{
    return err_set(parser->lexer.err, -ENOMEM, "out of memory");
}

/* Doubles a stack, which is then on the heap. NULL: out of memory; the old one is still valid. */
static void *stack_grow(void *items, const void *fixed, size_t size, size_t *cap)
{
    void *more = realloc(items == fixed ? NULL : items, *cap * 2 * size);
    if (!more)
        return NULL;
    if (items == fixed)
        memcpy(more, fixed, *cap * size);
    *cap *= 2;
    return more;
}

static int push_value(struct parser *parser, const struct value *value)
{
    if (++parser->value_total > REQUEST_VALUE_LIMIT)
        return err_set(parser->lexer.err, -E2BIG,
                       "at byte %u: more than %d values in one request: split it, or use binary data (LENGTH#BYTES)",
                       value->offset, REQUEST_VALUE_LIMIT);
    if (parser->value_count == parser->value_cap) {
        struct value *more = stack_grow(parser->values, parser->fixed_values, sizeof *value, &parser->value_cap);
        if (!more)
            return out_of_memory(parser);
        parser->values = more;
    }
    parser->values[parser->value_count++] = *value;
    return 0;
}

/* Takes the values above `mark` off the stack, into the arena. */
static int pop_values(struct parser *parser, size_t mark, const struct value **ret_values, size_t *ret_count)
{
    size_t count = parser->value_count - mark;
    struct value *items = NULL;
    if (count) {
        items = arena_alloc(parser->lexer.arena, count * sizeof *items);
        if (!items)
            return out_of_memory(parser);
        memcpy(items, parser->values + mark, count * sizeof *items);
    }
    parser->value_count = mark;
    *ret_values = items;
    *ret_count = count;
    return 0;
}

static int parse_values(struct parser *parser, char close, unsigned depth, const struct value **ret_values,
                        size_t *ret_count);

/* Parses the value at the current symbol, and moves to the symbol after it. */
static int parse_value(struct parser *parser, unsigned depth, struct value *ret_value)
{
    struct lexer *lexer = &parser->lexer;
    if (lexer->kind == SYMBOL_IDENTIFIER)
        lexer_special_float(lexer);
    if (lexer->kind == SYMBOL_IDENTIFIER || lexer->kind == SYMBOL_VALUE) {
        *ret_value = lexer->value;
        lexer_next(lexer);
        return 0;
    }
    uint32_t offset = lexer->value.offset;
    if (lexer->character == '$') {
        lexer_next(lexer);
        if (lexer->kind != SYMBOL_IDENTIFIER)
            return lexer_expected(lexer, "the name of an event context parameter after '$'");
        *ret_value = (struct value){.kind = VALUE_PARAM, .offset = offset, .text = lexer->value.text};
        lexer_next(lexer);
        return 0;
    }
    if (lexer->character != '[')
        return lexer_expected(lexer, "a value");
    if (depth == REQUEST_DEPTH_LIMIT)
        return err_set(lexer->err, -E2BIG, "at byte %u: lists are nested more than %d deep", offset,
                       REQUEST_DEPTH_LIMIT);
    lexer_next(lexer);
    const struct value *items;
    size_t count;
    int code = parse_values(parser, ']', depth + 1, &items, &count);
    if (code < 0)
        return code;
    *ret_value = (struct value){.kind = VALUE_LIST, .offset = offset, .list = {.items = items, .count = count}};
    lexer_next(lexer);
    return 0;
}

/* Parses `parameters` up to the closing character, which stays the current symbol (0: the end of the text). */
static int parse_values(struct parser *parser, char close, unsigned depth, const struct value **ret_values,
                        size_t *ret_count)
{
    struct lexer *lexer = &parser->lexer;
    size_t mark = parser->value_count;
    const char *closer = close == ')' ? "',' or ')'" : close == ']' ? "',' or ']'" : "',' or the end";
    bool empty = close ? lexer->character == close : lexer->kind == SYMBOL_END;
    while (!empty) {
        struct value value;
        int code = parse_value(parser, depth, &value);
        if (code == 0)
            code = push_value(parser, &value);
        if (code < 0)
            return code;
        if (lexer->character == ',')
            lexer_next(lexer);
        else if (close ? lexer->character == close : lexer->kind == SYMBOL_END)
            break;
        else
            return lexer_expected(lexer, closer);
    }
    return pop_values(parser, mark, ret_values, ret_count);
}

/* service_name '(' parameters ')' */
static int parse_call(struct parser *parser, const char *what, struct call_text *ret_call)
{
    struct lexer *lexer = &parser->lexer;
    if (lexer->kind != SYMBOL_IDENTIFIER)
        return lexer_expected(lexer, what);
    struct call_text call = {.name = lexer->value.text, .offset = lexer->value.offset};
    lexer_next(lexer);
    if (lexer->character != '(')
        return lexer_expected(lexer, "'(' after the name of the service");
    lexer_next(lexer);
    int code = parse_values(parser, ')', 0, &call.args, &call.argc);
    if (code < 0)
        return code;
    lexer_next(lexer);
    *ret_call = call;
    return 0;
}

static int push_call(struct parser *parser, const struct call_text *call)
{
    if (parser->call_count == parser->call_cap) {
        struct call_text *more = stack_grow(parser->calls, parser->fixed_calls, sizeof *call, &parser->call_cap);
        if (!more)
            return out_of_memory(parser);
        parser->calls = more;
    }
    parser->calls[parser->call_count++] = *call;
    return 0;
}

/* unlocked_al, and '}' if locked; up to the end of the text */
static int parse_actions(struct parser *parser, bool locked)
{
    struct lexer *lexer = &parser->lexer;
    const char *what = "an action";
    for (bool barrier = false;;) {
        struct call_text call;
        int code = parse_call(parser, what, &call);
        call.barrier = barrier;
        if (code == 0)
            code = push_call(parser, &call);
        if (code < 0)
            return code;
        barrier = lexer->character == ';';
        if (barrier) {
            lexer_next(lexer);
            what = "an action after ';' (it stands between two actions, not at the end)";
        } else if (lexer->kind != SYMBOL_IDENTIFIER) {
            break;
        }
    }
    if (locked) {
        if (lexer->character != '}')
            return lexer_expected(lexer, "another action, ';' or '}'");
        lexer_next(lexer);
    }
    if (lexer->kind != SYMBOL_END)
        return lexer_expected(lexer, locked ? "the end after '}'" : "another action, ';' or the end");
    return 0;
}

static int parse_request(struct parser *parser, struct request *ret_request)
{
    struct lexer *lexer = &parser->lexer;
    struct request request = {0};
    lexer_next(lexer);
    if (lexer->character != ':') {
        request.event = arena_alloc(lexer->arena, sizeof *request.event);
        if (!request.event)
            return out_of_memory(parser);
        int code = parse_call(parser, "an event definition or ':'", request.event);
        if (code < 0)
            return code;
        if (lexer->character != ':')
            return lexer_expected(lexer,
                                  "':' after the event definition (without an event, a request starts with ':')");
    }
    lexer_next(lexer);
    request.locked = lexer->character == '{';
    if (request.locked)
        lexer_next(lexer);
    int code = parse_actions(parser, request.locked);
    if (code < 0)
        return code;
    request.action_count = parser->call_count;
    request.actions = arena_alloc(lexer->arena, request.action_count * sizeof *request.actions);
    if (!request.actions)
        return out_of_memory(parser);
    memcpy(request.actions, parser->calls, request.action_count * sizeof *request.actions);
    *ret_request = request;
    return 0;
}

static int check_size(struct span text, struct err *err)
{
    if (text.len > REQUEST_SIZE_LIMIT)
        return err_set(err, -E2BIG, "%zu bytes are more than one request may have (%d)", text.len, REQUEST_SIZE_LIMIT);
    return 0;
}

int request_parse(struct arena *arena, struct span text, struct request *ret_request, struct err *err)
{
    int code = check_size(text, err);
    if (code < 0)
        return code;
    struct parser parser;
    parser_init(&parser, arena, text, err);
    code = parse_request(&parser, ret_request);
    parser_done(&parser);
    return code;
}

int values_parse(struct arena *arena, struct span text, const struct value **ret_values, size_t *ret_count,
                 struct err *err)
{
    int code = check_size(text, err);
    if (code < 0)
        return code;
    struct parser parser;
    parser_init(&parser, arena, text, err);
    lexer_next(&parser.lexer);
    code = parse_values(&parser, 0, 0, ret_values, ret_count);
    parser_done(&parser);
    return code;
}

size_t request_length(const char *text)
{
    return lexer_length(text, NULL, REQUEST_SIZE_LIMIT);
}

static void print_call(struct buf *out, const struct call_text *call)
{
    buf_append(out, call->name.ptr, call->name.len);
    buf_putc(out, '(');
    for (size_t i = 0; i < call->argc; i++) {
        if (i)
            buf_putc(out, ',');
        value_print(out, &call->args[i]);
    }
    buf_putc(out, ')');
}

void request_print(struct buf *out, const struct request *request)
{
    if (request->event)
        print_call(out, request->event);
    buf_puts(out, request->locked ? ":{" : ":");
    for (size_t i = 0; i < request->action_count; i++) {
        if (i)
            buf_putc(out, request->actions[i].barrier ? ';' : ' ');
        print_call(out, &request->actions[i]);
    }
    if (request->locked)
        buf_putc(out, '}');
}

/* ---- names ---- */

struct names {
    struct arena *arena;
    struct span *list;
    size_t count, cap;
};

static bool add_name(struct names *names, struct span name)
{
    for (size_t i = 0; i < names->count; i++)
        if (span_eq(names->list[i], name))
            return true;
    if (names->count == names->cap) {
        size_t cap = names->cap ? 2 * names->cap : 8;
        struct span *list = arena_alloc(names->arena, cap * sizeof *list);
        if (!list)
            return false;
        if (names->count)
            memcpy(list, names->list, names->count * sizeof *list);
        names->list = list;
        names->cap = cap;
    }
    names->list[names->count++] = name;
    return true;
}

static bool add_names(struct names *names, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_PARAM && !add_name(names, values[i].text))
            return false;
        if (values[i].kind == VALUE_LIST && !add_names(names, values[i].list.items, values[i].list.count))
            return false;
    }
    return true;
}

bool substitute_names(struct arena *arena, const struct request *request, struct span **ret_names, size_t *ret_count)
{
    struct names names = {.arena = arena};
    for (size_t i = 0; i < request->action_count; i++)
        if (!add_names(&names, request->actions[i].args, request->actions[i].argc))
            return false;
    *ret_names = names.list;
    *ret_count = names.count;
    return true;
}

/* ---- values ---- */

bool substitute(struct arena *arena, substitute_fn *value_of, const void *ctx, const struct value *values, size_t count,
                const struct value **ret_values, bool *ret_changed, struct span *ret_missing)
{
    struct value *copy = NULL;
    for (size_t i = 0; i < count; i++) {
        struct value replacement = values[i];
        bool changed = false;
        if (values[i].kind == VALUE_LIST) {
            const struct value *items;
            if (!substitute(arena, value_of, ctx, values[i].list.items, values[i].list.count, &items, &changed,
                            ret_missing))
                return false;
            replacement.list.items = items;
        } else if (values[i].kind == VALUE_PARAM) {
            *ret_missing = values[i].text;
            if (!value_of(ctx, values[i].text, &replacement))
                return false;
            changed = true;
        }
        if (!changed)
            continue;
        if (!copy) {
            copy = arena_alloc(arena, count * sizeof *copy);
            *ret_missing = span_of(NULL, 0);
            if (!copy)
                return false;
            memcpy(copy, values, count * sizeof *copy);
        }
        copy[i] = replacement;
        *ret_changed = true;
    }
    *ret_values = copy ? copy : values;
    return true;
}
