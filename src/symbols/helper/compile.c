/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-symbols compile: reads the whole request first, so that a wrong one is answered by one line and nothing else,
 * then compiles function by function. One function that cannot be compiled is a `problem`, not the end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/pause.h"
#include "symbols/capture/compile.h"
#include "symbols/client/helper.h"
#include "symbols/helper/jobs.h"

enum { FUNCTIONS_MAX = 1 << 20, MODULES_MAX = 1 << 13, LISTS_MAX = 1 << 16 };

struct module {
    char *path;
    uint64_t bias;
};
struct params {
    char *texts[HELPER_PARAMS_MAX];
    unsigned count;
};
struct function {
    uint64_t address;
    size_t module, params; /* indexes */
};

struct request {
    struct capture_options options;
    char *statics;
    uint32_t layout, block;
    uint64_t pid;
    struct module *modules;
    struct params *params;
    struct function *functions;
    size_t module_count, params_count, function_count;
    bool params_open; /* a `param` line goes on with the last list */
    bool ended;
};

static void request_done(struct request *request)
{
    for (size_t i = 0; i < request->module_count; i++)
        free(request->modules[i].path);
    for (size_t i = 0; i < request->params_count; i++)
        for (unsigned j = 0; j < request->params[i].count; j++)
            free(request->params[i].texts[j]);
    free(request->modules);
    free(request->statics);
    free(request->params);
    free(request->functions);
}

/* ---- reading ---- */
/* Room for one more; arrays grow at powers of two. */
static void *list_grow(void *array, size_t count, size_t limit, size_t each)
{
    if (count >= limit)
        return NULL;
    if (count && (count & (count - 1)))
        return array;
    return realloc(array, (count ? count * 2 : 1) * each);
}

static bool take_limit(const char *field, uint64_t low, uint64_t high, unsigned *ret)
{
    uint64_t number;
    bool good = helper_number(field, low, high, &number);
    if (good)
        *ret = (unsigned)number;
    return good;
}

static bool take_pid(struct request *request, char **fields)
{
    return helper_number(fields[0], 1, INT32_MAX, &request->pid);
}
static bool take_depth(struct request *request, char **fields)
{
    return take_limit(fields[0], 0, HELPER_DEPTH_MAX, &request->options.depth);
}
static bool take_bytes(struct request *request, char **fields)
{
    return take_limit(fields[0], HELPER_BYTES_MIN, HELPER_BYTES_MAX, &request->options.bytes);
}
static bool take_array(struct request *request, char **fields)
{
    return take_limit(fields[0], 0, HELPER_ARRAY_MAX, &request->options.array);
}
static bool take_string(struct request *request, char **fields)
{
    return take_limit(fields[0], 0, HELPER_STRING_MAX, &request->options.string);
}
static bool take_layout(struct request *request, char **fields)
{
    return take_limit(fields[0], 0, UINT32_MAX, &request->layout);
}

static bool take_block(struct request *request, char **fields)
{
    return take_limit(fields[0], 1, UINT32_MAX, &request->block);
}

static bool take_want(struct request *request, char **fields)
{
    struct capture_options *options = &request->options;
    const struct {
        const char *word;
        bool *flag;
    } wants[] = {{"args", &options->args},     {"locals", &options->locals},       {"caller", &options->caller},
                 {"result", &options->result}, {"exit-args", &options->exit_args}, {"patched", &options->patched}};
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++)
        if (strcmp(fields[0], wants[i].word) == 0)
            return *wants[i].flag = true;
    return false;
}

static bool take_statics(struct request *request, char **fields)
{
    free(request->statics);
    request->options.statics = request->statics = strdup(fields[0]);
    return request->statics != NULL;
}

static bool take_module(struct request *request, char **fields)
{
    struct module *grown = list_grow(request->modules, request->module_count, MODULES_MAX, sizeof *grown);
    uint64_t bias;
    if (!grown)
        return false;
    request->modules = grown;
    char *path = *fields[0] && helper_address(fields[1], &bias) ? strdup(fields[0]) : NULL;
    if (!path)
        return false;
    request->modules[request->module_count++] = (struct module){path, bias};
    /* expressions before belong to functions before */
    request->params_open = false;
    return true;
}

static bool new_params(struct request *request)
{
    struct params *grown = list_grow(request->params, request->params_count, LISTS_MAX, sizeof *grown);
    if (!grown)
        return false;
    request->params = grown;
    request->params[request->params_count++] = (struct params){0};
    return true;
}

static bool take_param(struct request *request, char **fields)
{
    if (!request->params_open && !new_params(request))
        return false;
    request->params_open = true;
    struct params *params = &request->params[request->params_count - 1];
    char *text = *fields[0] && params->count < HELPER_PARAMS_MAX ? strdup(fields[0]) : NULL;
    if (!text)
        return false;
    params->texts[params->count++] = text;
    return true;
}

static bool take_function(struct request *request, char **fields)
{
    struct function *grown = list_grow(request->functions, request->function_count, FUNCTIONS_MAX, sizeof *grown);
    uint64_t address;
    if (!grown)
        return false;
    request->functions = grown;
    bool after_module = request->function_count == 0 ||
                        request->functions[request->function_count - 1].module != request->module_count - 1;
    if (!request->module_count || !helper_address(fields[0], &address) ||
        (after_module && !request->params_open && !new_params(request)))
        return false;
    request->functions[request->function_count++] =
        (struct function){address, request->module_count - 1, request->params_count - 1};
    request->params_open = false;
    return true;
}

static bool take_end(struct request *request, char **fields)
{
    return request->ended = true;
}

static const struct {
    const char *word;
    int fields;
    bool (*take)(struct request *request, char **fields);
    const char *expected;
} lines[] = {
    {"pid", 1, take_pid, "pid PID"},
    {"depth", 1, take_depth, "depth 0..16"},
    {"bytes", 1, take_bytes, "bytes 16..4096"},
    {"array", 1, take_array, "array 0..4096"},
    {"string", 1, take_string, "string 0..4096"},
    {"want", 1, take_want, "want args|locals|caller|result|exit-args|patched"},
    {"statics", 1, take_statics, "statics GLOBS"},
    {"layout", 1, take_layout, "layout NUMBER"},
    {"block", 1, take_block, "block NUMBER"},
    {"module", 2, take_module, "module PATH 0xBIAS (at most 8192)"},
    {"param", 1, take_param, "param EXPRESSION (at most 16 for a function)"},
    {"function", 1, take_function, "function 0xADDRESS, after a module"},
    {"end", 0, take_end, "end"},
};

static int take_line(struct request *request, char *line, size_t number, struct err *err)
{
    char *fields[HELPER_FIELDS];
    int count = helper_split(line, fields);
    for (size_t i = 0; count > 0 && i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(fields[0], lines[i].word) != 0)
            continue;
        if (count - 1 == lines[i].fields && lines[i].take(request, fields + 1))
            return 0;
        return err_set(err, -EINVAL, "line %zu of the request: expected '%s', fields separated by tabs", number,
                       lines[i].expected);
    }
    return err_set(err, -EINVAL, "line %zu of the request: '%.60s' is not known", number, count > 0 ? fields[0] : line);
}

static int read_request(struct request *request, FILE *in, struct err *err)
{
    _cleanup_(freep) char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t len;
    while (!request->ended && (len = getline(&line, &room, in)) > 0) {
        number++;
        if (line[len - 1] != '\n' || memchr(line, 0, (size_t)len) || len > HELPER_LINE)
            return err_set(err, -EINVAL, "line %zu of the request is cut off, too long, or not text", number);
        line[len - 1] = 0;
        int r = take_line(request, line, number, err);
        if (r < 0)
            return r;
    }
    if (!request->ended)
        return err_set(err, -EINVAL, "the request does not end with the line 'end'");
    return 0;
}

/* ---- answering ---- */
static void put_hex(struct buf *out, const void *code, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = code;
    char *to = buf_reserve(out, size * 2);
    for (size_t i = 0; to && i < size; i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    if (to) {
        *to = 0;
        out->len += size * 2;
    }
}

static const char *site_name(enum capture_site_kind kind)
{
    static const char *const names[] = {"entry", "exit", "call", "unwind"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

struct answer {
    struct buf out;
    uint32_t next_block;
};

static void put_layout(void *ctx, uint32_t id, const char *text)
{
    char number[16];
    snprintf(number, sizeof number, "%" PRIu32, id);
    struct answer *answer = ctx;
    helper_line(&answer->out, "layout", number, text, NULL);
}

static void put_site(void *ctx, enum capture_site_kind kind, uint64_t address, uint32_t layout, const void *code,
                     size_t size)
{
    struct buf *out = &((struct answer *)ctx)->out;
    buf_printf(out, "site\t%s\t0x%" PRIx64 "\t%" PRIu32 "\t", site_name(kind), address, layout);
    put_hex(out, code, size);
    buf_putc(out, '\n');
}

static void put_params(void *ctx, enum capture_site_kind kind, uint64_t address, const void *code, size_t size)
{
    struct buf *out = &((struct answer *)ctx)->out;
    buf_printf(out, "params\t%s\t0x%" PRIx64 "\t", site_name(kind), address);
    put_hex(out, code, size);
    buf_putc(out, '\n');
}

static uint32_t put_block(void *ctx, const void *code, size_t size)
{
    struct answer *answer = ctx;
    uint32_t id = answer->next_block++;
    buf_printf(&answer->out, "block\t%" PRIu32 "\t", id);
    put_hex(&answer->out, code, size);
    buf_putc(&answer->out, '\n');
    return id;
}

static void put_problem(void *ctx, uint64_t address, const char *text)
{
    char number[24];
    snprintf(number, sizeof number, "0x%" PRIx64, address);
    struct answer *answer = ctx;
    helper_line(&answer->out, "problem", number, text, NULL);
}

static void put_function(struct answer *answer, uint64_t address)
{
    char number[24];
    snprintf(number, sizeof number, "0x%" PRIx64, address);
    helper_line(&answer->out, "function", number, NULL);
}

static void answer_done(struct answer *answer)
{
    buf_done(&answer->out);
}

static void put_missing(void *ctx, uint64_t address, const char *text)
{
    char number[24];
    snprintf(number, sizeof number, "0x%" PRIx64, address);
    struct answer *answer = ctx;
    helper_line(&answer->out, "missing", number, text, NULL);
}

static void put_lines_only(void *ctx, uint64_t address)
{
    char number[24];
    snprintf(number, sizeof number, "0x%" PRIx64, address);
    struct answer *answer = ctx;
    helper_line(&answer->out, "lines-only", number, NULL);
}

static void put_param_problem(void *ctx, enum capture_site_kind kind, uint64_t address, const char *expression,
                              const struct number_problem *problem)
{
    char number[24], at[16];
    snprintf(number, sizeof number, "0x%" PRIx64, address);
    snprintf(at, sizeof at, "%u", problem->at);
    struct answer *answer = ctx;
    helper_line(&answer->out, "param-problem", site_name(kind), number, expression, number_problem_word(problem->kind),
                at, problem->name, NULL);
}

static int answer_flush(struct buf *answer, FILE *out)
{
    if (answer->failed)
        return -ENOMEM;
    if (answer->len)
        fwrite(answer->data, 1, answer->len, out);
    buf_clear(answer);
    return fflush(out) == 0 ? 0 : -EPIPE;
}

/* The functions of the module of request->functions[i]; *ret_next: behind them. */
static int compile_module(struct request *request, size_t i, size_t *ret_next, struct answer *answer, FILE *out)
{
    const struct capture_output output = {answer,         put_layout,  put_site,    put_params, put_param_problem,
                                          put_lines_only, put_missing, put_problem, put_block};
    const struct module *module = &request->modules[request->functions[i].module];
    struct capture_compiler *compiler = NULL;
    struct err err = {0};
    pause_at("symbols.compile");
    int r = 0, opened = capture_compiler_new(&compiler, module->path, module->bias, &request->options, &err);
    size_t of = request->functions[i].module;
    for (; r == 0 && i < request->function_count && request->functions[i].module == of; i++) {
        const struct function *function = &request->functions[i];
        const struct params *params = &request->params[function->params];
        int done = opened;
        helper_guard(0);
        if (opened == 0) {
            err.code = 0;
            done = capture_compile_function(compiler, function->address, (const char *const *)params->texts,
                                            params->count, &request->layout, &output, &err);
        }
        if (done < 0)
            put_problem(answer, function->address, err.code ? err.text : strerror(-done));
        put_function(answer, function->address);
        r = answer_flush(&answer->out, out);
        pause_at("symbols.function");
    }
    capture_compiler_free(compiler);
    *ret_next = i;
    return r;
}

int helper_compile(FILE *in, FILE *out)
{
    _cleanup_(request_done) struct request request = {.block = 1,
                                                      .options = {.depth = 1, .bytes = 512, .array = 8, .string = 64}};
    _cleanup_(answer_done) struct answer answer = {.out = BUF_INIT};
    struct err err = {0};
    int r = read_request(&request, in, &err);
    if (r < 0) {
        helper_line(&answer.out, "failed", err.text, NULL);
        answer_flush(&answer.out, out);
        return 1;
    }
    answer.next_block = request.block;
    for (size_t i = 0; r == 0 && i < request.function_count;)
        r = compile_module(&request, i, &i, &answer, out);
    if (r == 0) {
        helper_line(&answer.out, "done", NULL);
        r = answer_flush(&answer.out, out);
    }
    return r < 0;
}
