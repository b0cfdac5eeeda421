/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the signatures of service rows, and brings arguments into their form. */
#include "lang/signature.h"

#include <errno.h>
#include <stdio.h>

/* ---- reading ---- */

struct reader {
    const char *text, *at;
    struct err *err;
};

/* What is read, before it is known how much it is. */
struct draft {
    struct signature signature;
    struct param_type params[SIGNATURE_PARAMS], outputs[SIGNATURE_OUTPUTS];
};

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void skip_space(struct reader *reader)
{
    while (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\n')
        reader->at++;
}

static struct span take_word(struct reader *reader)
{
    skip_space(reader);
    const char *from = reader->at;
    while (is_name_char(*reader->at))
        reader->at++;
    return span_of(from, (size_t)(reader->at - from));
}

static bool take_char(struct reader *reader, char c)
{
    skip_space(reader);
    if (*reader->at != c)
        return false;
    reader->at++;
    return true;
}

static int bad_signature(const struct reader *reader, const char *expected)
{
    return err_set(reader->err, -EINVAL, "signature \"%s\": expected %s at \"%.20s\"", reader->text, expected,
                   reader->at);
}

static bool find_type(struct span word, enum type_kind *ret_kind)
{
    static const char *const names[] = {
        [TYPE_INTEGER] = "integer", [TYPE_FLOATING] = "floating", [TYPE_STRING] = "string",
        [TYPE_BINARY] = "binary",   [TYPE_TOKEN] = "token",       [TYPE_ANY] = "any",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_is(word, names[i])) {
            *ret_kind = (enum type_kind)i;
            return true;
        }
    return false;
}

/* TYPE [ '<' class or unit '>' ] [ '*' ] [ name ] */
static int read_param(struct reader *reader, struct param_type *ret_param)
{
    struct param_type param = {0};
    struct reader before = *reader;
    if (!find_type(take_word(reader), &param.kind))
        return bad_signature(&before, "integer, floating, string, binary, token or any");
    if (param.kind == TYPE_TOKEN && take_char(reader, '<')) {
        struct span class = take_word(reader);
        if (!class.len || class.len >= sizeof param.class || !take_char(reader, '>'))
            return bad_signature(reader, "a token class and '>'");
        memcpy(param.class, class.ptr, class.len);
    }
    /* a unit, for reference pages only */
    if ((param.kind == TYPE_INTEGER || param.kind == TYPE_FLOATING) && take_char(reader, '<')) {
        reader->at += strcspn(reader->at, ">");
        if (!take_char(reader, '>'))
            return bad_signature(reader, "a unit and '>'");
    }
    param.list = take_char(reader, '*');
    param.name = take_word(reader);
    *ret_param = param;
    return 0;
}

static int read_params(struct reader *reader, struct draft *draft)
{
    struct signature *signature = &draft->signature;
    struct reader before = *reader;
    if (span_is(take_word(reader), "void")) {
        skip_space(reader);
        return 0;
    }
    *reader = before;
    skip_space(reader);
    if (*reader->at == '-')
        return 0;
    bool optional = false;
    do {
        bool bracket = take_char(reader, '[');
        if (optional && !bracket)
            return bad_signature(reader, "'[', because the parameter before it may be left out");
        optional = bracket;
        if (signature->param_count == SIGNATURE_PARAMS)
            return err_set(reader->err, -EINVAL, "signature \"%s\": more than %d parameters", reader->text,
                           SIGNATURE_PARAMS);
        int code = read_param(reader, &draft->params[signature->param_count]);
        if (code < 0)
            return code;
        if (bracket && !take_char(reader, ']'))
            return bad_signature(reader, "']'");
        signature->param_count++;
        if (!optional)
            signature->required_count = signature->param_count;
    } while (take_char(reader, ','));
    return 0;
}

/* A member that is itself a struct: { ... } [ '*' ] [ name ]. For reference pages only; it counts as `any`. */
static bool skip_struct(struct reader *reader)
{
    unsigned depth = 0;
    do {
        if (!*reader->at)
            return false;
        depth += *reader->at == '{';
        depth -= *reader->at == '}';
        reader->at++;
    } while (depth);
    return true;
}

/* One member between the braces. Brackets mean "only if requested" and group nothing here. */
static int read_output(struct reader *reader, struct draft *draft)
{
    struct signature *signature = &draft->signature;
    struct param_type output = {.kind = TYPE_ANY};
    skip_space(reader);
    if (strncmp(reader->at, "...", 3) == 0) {
        reader->at += 3;
        signature->open_outputs = true;
        return 0;
    }
    if (*reader->at == '{') {
        if (!skip_struct(reader))
            return bad_signature(reader, "'}'");
        output.list = take_char(reader, '*');
        output.name = take_word(reader);
    } else {
        int code = read_param(reader, &output);
        if (code < 0)
            return code;
    }
    if (signature->output_count < SIGNATURE_OUTPUTS)
        draft->outputs[signature->output_count++] = output;
    else /* information services have many members, events have few */
        signature->open_outputs = true;
    return 0;
}

/* '{' member { (';' | ',') member } '}' */
static int read_outputs(struct reader *reader, struct draft *draft)
{
    unsigned brackets = 0;
    for (;;) {
        while (take_char(reader, '['))
            brackets++;
        if (take_char(reader, '}'))
            break;
        int code = read_output(reader, draft);
        if (code < 0)
            return code;
        while (brackets && take_char(reader, ']'))
            brackets--;
        if (take_char(reader, ';') || take_char(reader, ',')) {
            while (brackets && take_char(reader, ']')) /* "[integer a;]" */
                brackets--;
            continue;
        }
        if (!take_char(reader, '}'))
            return bad_signature(reader, "';' or '}'");
        break;
    }
    return brackets ? bad_signature(reader, "']' before the '}'") : 0;
}

static int read_signature(struct reader *reader, struct draft *draft)
{
    struct signature *signature = &draft->signature;
    int code = read_params(reader, draft);
    if (code < 0)
        return code;
    if (!take_char(reader, '-') || *reader->at != '>')
        return bad_signature(reader, "',' or '->'");
    reader->at++;
    skip_space(reader);
    const char *mark = strchr(reader->at, '!');
    signature->statuses = span_str(mark ? mark + 1 : "");
    signature->result = mark ? span_of(reader->at, (size_t)(mark - reader->at)) : span_str(reader->at);
    while (signature->result.len && strchr(" \t\n", signature->result.ptr[signature->result.len - 1]))
        signature->result.len--;
    if (!signature->result.len)
        return bad_signature(reader, "void or a result after '->'");
    signature->returns_void = span_is(signature->result, "void");
    if (signature->returns_void)
        return 0;
    struct param_type single;
    bool braces = take_char(reader, '{');
    code = braces ? read_outputs(reader, draft) : read_param(reader, &single);
    if (code < 0)
        return code;
    if (braces && take_char(reader, '*'))
        take_word(reader);
    skip_space(reader);
    if (reader->at != mark && *reader->at)
        return bad_signature(reader, "the end");
    return 0;
}

int signature_parse(struct arena *arena, const char *text, struct signature *ret_signature, struct err *err)
{
    struct reader reader = {.text = text, .at = text, .err = err};
    struct draft draft = {.signature = {.params = NULL}};
    int code = read_signature(&reader, &draft);
    if (code < 0)
        return code;
    struct signature *signature = &draft.signature;
    size_t params_size = signature->param_count * sizeof *draft.params;
    size_t outputs_size = signature->output_count * sizeof *draft.outputs;
    struct param_type *types = arena_alloc(arena, params_size + outputs_size);
    if (!types)
        return err_set(err, -ENOMEM, "signature \"%s\": out of memory", text);
    memcpy(types, draft.params, params_size);
    memcpy(types + signature->param_count, draft.outputs, outputs_size);
    signature->params = types;
    signature->outputs = types + signature->param_count;
    *ret_signature = *signature;
    return 0;
}

/* ---- checking ---- */

static bool param_matches(const struct param_type *param, const struct value *value)
{
    switch (value->kind) {
    case VALUE_PARAM:
        return true;
    case VALUE_INTEGER:
        return param->kind == TYPE_INTEGER || param->kind == TYPE_FLOATING || param->kind == TYPE_ANY;
    case VALUE_FLOATING:
        return param->kind == TYPE_FLOATING || param->kind == TYPE_ANY;
    case VALUE_STRING:
        return param->kind == TYPE_STRING || param->kind == TYPE_ANY;
    case VALUE_TOKEN:
        return param->kind == TYPE_TOKEN || param->kind == TYPE_ANY;
    case VALUE_BINARY:
        return param->kind == TYPE_BINARY || param->kind == TYPE_ANY;
    case VALUE_LIST:
        return param->kind == TYPE_ANY;
    }
    return false;
}

static bool needs_conversion(const struct param_type *param, const struct value *value)
{
    return param->kind == TYPE_FLOATING && value->kind == VALUE_INTEGER;
}

static struct value to_floating(const struct value *value)
{
    long double wide = value->integer.negative ? (long double)(int64_t)value->integer.bits : value->integer.bits;
    struct value floating = value_wide(wide);
    floating.floating.is_wide = floating.floating.number != wide;
    floating.offset = value->offset;
    return floating;
}

struct checker {
    const struct signature *signature;
    struct span service;
    struct arena *arena;
    struct err *err;
};

static const char *type_name(const struct param_type *param, char text[64])
{
    static const char *const one[] = {"an integer", "a floating", "a string", "binary data", "a token", "a value"};
    static const char *const many[] = {"integers", "floatings", "strings", "binary data", "tokens", "values"};
    snprintf(text, 64, "%s%s", param->list ? "a list of " : "", (param->list ? many : one)[param->kind]);
    return text;
}

static enum check_result param_mismatch(const struct checker *checker, size_t index, const struct value *found)
{
    const struct param_type *param = &checker->signature->params[index];
    char expected[64], where[32] = "";
    if (found->offset)
        snprintf(where, sizeof where, "at byte %u: ", found->offset);
    const char *kind = value_kind_name(found->kind);
    const char *article = found->kind == VALUE_BINARY ? "" : strchr("aeiou", kind[0]) ? "an " : "a ";
    err_set(checker->err, -EINVAL, "%sargument %zu (%.*s) of %.*s: expected %s, found %s%s%s", where, index + 1,
            SPAN_ARG(param->name), SPAN_ARG(checker->service), type_name(param, expected), article, kind,
            found->kind == VALUE_BINARY ? " data" : "");
    return CHECK_TYPE_MISMATCH;
}

static enum check_result no_memory(const struct checker *checker)
{
    err_set(checker->err, -ENOMEM, "out of memory");
    return CHECK_NO_MEMORY;
}

/* Checks the elements of a list argument. Copies the list only if an element must be converted. */
static enum check_result check_list(const struct checker *checker, size_t index, struct value *value)
{
    const struct param_type *param = &checker->signature->params[index];
    const struct value *items = value->list.items;
    size_t count = value->list.count;
    bool convert = false;
    for (size_t i = 0; i < count; i++) {
        if (!param_matches(param, &items[i]))
            return param_mismatch(checker, index, &items[i]);
        convert |= needs_conversion(param, &items[i]);
    }
    if (!convert)
        return CHECK_OK;
    struct value *copy = arena_alloc(checker->arena, count * sizeof *copy);
    if (!copy)
        return no_memory(checker);
    for (size_t i = 0; i < count; i++)
        copy[i] = needs_conversion(param, &items[i]) ? to_floating(&items[i]) : items[i];
    value->list.items = copy;
    return CHECK_OK;
}

/* Checks one argument, a copy, and changes it to the declared form. */
static enum check_result check_argument(const struct checker *checker, size_t index, struct value *value)
{
    const struct param_type *param = &checker->signature->params[index];
    if (value->kind == VALUE_PARAM)
        return CHECK_OK;
    if (param->list && value->kind == VALUE_LIST)
        return check_list(checker, index, value);
    if (!param->list && param->kind == TYPE_TOKEN && value->kind == VALUE_LIST && value->list.count == 1)
        *value = value->list.items[0];
    if (!param_matches(param, value))
        return param_mismatch(checker, index, value);
    if (needs_conversion(param, value))
        *value = to_floating(value);
    if (param->list) {
        struct value *item = arena_alloc(checker->arena, sizeof *item);
        if (!item)
            return no_memory(checker);
        *item = *value;
        *value = value_list(item, 1);
        value->offset = item->offset;
    }
    return CHECK_OK;
}

static enum check_result wrong_count(const struct checker *checker, size_t argc)
{
    const struct signature *signature = checker->signature;
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < signature->param_count && used < sizeof names - 1; i++) {
        char type[64];
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s: %s", i ? ", " : " (",
                                 SPAN_ARG(signature->params[i].name), type_name(&signature->params[i], type));
    }
    if (used && used < sizeof names - 1)
        snprintf(names + used, sizeof names - used, ")");
    char least[32] = "";
    if (signature->required_count < signature->param_count)
        snprintf(least, sizeof least, "%zu to ", signature->required_count);
    err_set(checker->err, -EINVAL, "%.*s takes %s%zu argument%s%s, found %zu", SPAN_ARG(checker->service), least,
            signature->param_count, signature->param_count == 1 ? "" : "s", names, argc);
    return CHECK_TYPE_MISMATCH;
}

/* The value of an argument that was left out. */
static struct value param_absent(const struct param_type *param)
{
    if (param->list)
        return value_list(NULL, 0);
    switch (param->kind) {
    case TYPE_INTEGER:
        return value_int(0);
    case TYPE_FLOATING:
        return value_floating(0);
    default:
        return value_string(span_of("", 0));
    }
}

enum check_result signature_check(const struct signature *signature, struct span service, const struct value *args,
                                  size_t argc, struct arena *arena, const struct value **ret_args, struct err *err)
{
    struct checker checker = {.signature = signature, .service = service, .arena = arena, .err = err};
    if (service.len > 64) /* in messages */
        checker.service.len = 64;
    if (argc < signature->required_count || argc > signature->param_count)
        return wrong_count(&checker, argc);
    if (!signature->param_count) {
        *ret_args = args;
        return CHECK_OK;
    }
    struct value *checked = arena_alloc(arena, signature->param_count * sizeof *checked);
    if (!checked)
        return no_memory(&checker);
    if (argc)
        memcpy(checked, args, argc * sizeof *checked);
    for (size_t i = argc; i < signature->param_count; i++)
        checked[i] = param_absent(&signature->params[i]);
    for (size_t i = 0; i < argc; i++) {
        enum check_result result = check_argument(&checker, i, &checked[i]);
        if (result != CHECK_OK)
            return result;
    }
    *ret_args = checked;
    return CHECK_OK;
}
