/* SPDX-License-Identifier: Apache-2.0 */

#include "base/data/number.h"
#include "base/system/log.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/engine/tool.h"
#include "monitor/recorder/agents.h"
#include "probe/cells.h"
#include "service/ct/ct.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CT_OPERATIONS = 32 }; /* of one condition */

struct operand {
    uint8_t kind;
    int64_t value;
};

enum { DEPTH_LIMIT = 64, STRONGEST = 10 /* level of single operands */ };
enum { NODE = CODE_OPERAND_COUNT }; /* kind of an operand: value is the number of an operation */

struct operation {
    struct operand a, b;
    uint8_t how; /* enum code_operation */
};

struct joint {
    const char *token;
    uint8_t how, level;
};

struct reader {
    struct arena *arena;
    const char *text, *at; /* NUL-terminated */
    struct err *err;
    bool at_exit;
    unsigned depth; /* of parentheses and signs */
    struct operation operations[CT_OPERATIONS];
    unsigned count;
    struct ct_condition *condition;
};

static int token_expected(const struct reader *reader, const char *what)
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

static bool token_take(struct reader *reader, const char *token)
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

/* Takes text from a bracket to its counterpart: an index, or the operand of sizeof. scry-symbols parses it. */
static int take_brackets(struct reader *reader)
{
    char opens = *reader->at, closes = opens == '[' ? ']' : ')';
    unsigned depth = 0;
    do {
        if (!*reader->at || *reader->at == ';')
            return token_expected(reader, closes == ']' ? "']'" : "')'");
        depth += *reader->at == opens;
        depth -= *reader->at == closes;
        reader->at++;
    } while (depth);
    return 0;
}

/* Takes what follows a name: members, elements, scopes. */
static int take_rest(struct reader *reader)
{
    for (;;) {
        bool member = strncmp(reader->at, "->", 2) == 0 || strncmp(reader->at, "::", 2) == 0;
        if (*reader->at == '[') {
            int code = take_brackets(reader);
            if (code < 0)
                return code;
        } else if (member || *reader->at == '.') {
            reader->at += member ? 2 : 1;
            if (!take_name(reader))
                return token_expected(reader, "a name");
        } else {
            return 0;
        }
    }
}

/* The number of the parameter for an expression, which is added if new. -errno. */
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

/* Takes what follows `sizeof`. The size of a number type is known here; *ret_is_type is set then. */
static int take_sizeof(struct reader *reader, bool *ret_is_type, struct operand *ret_operand)
{
    struct number_type type;
    skip_space(reader);
    size_t length = number_type_read(reader->at, &type);
    *ret_is_type = length > 0;
    if (!length)
        return *reader->at == '(' ? take_brackets(reader) : token_expected(reader, "'('");
    reader->at += length;
    *ret_operand = (struct operand){CODE_IMMEDIATE_UNSIGNED, (type.bits + 7) / 8};
    return 0;
}

static int read_expression(struct reader *reader, struct operand *ret_operand)
{
    skip_space(reader);
    const char *from = reader->at;
    bool known = false;
    while (*reader->at == '*' || *reader->at == '&')
        reader->at++;
    if (!take_name(reader)) {
        reader->at = from;
        return token_expected(reader, "a value, as n, p->x, *q, a[i] or a number");
    }
    bool size = span_is(span_of(from, (size_t)(reader->at - from)), "sizeof");
    int code = size ? take_sizeof(reader, &known, ret_operand) : take_rest(reader);
    if (code < 0 || known)
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
        if (*end == 'f' || *end == 'F') {
            number = (double)strtof(from, NULL);
            ret_operand->kind = CODE_IMMEDIATE_SINGLE;
        }
        memcpy(&ret_operand->value, &number, sizeof number);
    } else {
        unsigned long long number = strtoull(digits, &end, 0);
        if (errno || (negative && number > (unsigned long long)INT64_MAX + 1))
            return token_expected(reader, "a number of at most 64 bits");
        *ret_operand = (struct operand){negative ? CODE_IMMEDIATE : CODE_IMMEDIATE_UNSIGNED,
                                        (int64_t)(negative ? -number : number)};
    }
    while (*end && strchr("uUlLfF", *end)) /* suffixes as in C */
        end++;
    if (end == digits || is_name_start(*end) || isdigit((unsigned char)*end))
        return token_expected(reader, "a number");
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
        return token_expected(reader, "a character, as 'x' or '\\n'");
    *ret_operand = (struct operand){CODE_IMMEDIATE, c};
    reader->at = at + 2;
    return 0;
}

static int read_operand(struct reader *reader, struct operand *ret_operand)
{
    char c = *reader->at;
    if (c == '\'')
        return read_character(reader, ret_operand);
    if (isdigit((unsigned char)c) || c == '-' || c == '+' || c == '.')
        return read_number(reader, ret_operand);
    return read_expression(reader, ret_operand);
}

static int add_operation(struct reader *reader, struct operand a, uint8_t how, struct operand b,
                         struct operand *ret_operand)
{
    if (reader->count == CT_OPERATIONS)
        return err_set(reader->err, -EINVAL, "condition: more than %d operations", CT_OPERATIONS);
    reader->operations[reader->count] = (struct operation){a, b, how};
    *ret_operand = (struct operand){NODE, reader->count++};
    return 0;
}

static int read_value(struct reader *reader, unsigned level, struct operand *ret_operand);

/* The cast's type has been read. */
static int read_cast(struct reader *reader, const struct number_type *type, struct operand *ret_operand)
{
    int code = read_value(reader, STRONGEST, ret_operand);
    if (code < 0)
        return code;
    if (type->bits == 1) /* a truth value */
        return add_operation(reader, *ret_operand, CODE_NE, (struct operand){CODE_IMMEDIATE, 0}, ret_operand);
    uint8_t how = type->is_floating ? CODE_AS_FLOATING : CODE_AS_INTEGER;
    int64_t bits = type->is_signed && !type->is_floating ? -(int64_t)type->bits : (int64_t)type->bits;
    return add_operation(reader, *ret_operand, how, (struct operand){CODE_IMMEDIATE, bits}, ret_operand);
}

static int read_signed(struct reader *reader, struct operand *ret_operand)
{
    static const struct {
        char sign;
        uint8_t how;
        int64_t other;
    } signs[] = {{'!', CODE_EQ, 0}, {'~', CODE_BITS_XOR, -1}, {'-', CODE_TIMES, -1}, {'+', CODE_TIMES, 1}};
    const char *at = reader->at;
    bool number = (*at == '-' || *at == '+') && (isdigit((unsigned char)at[1]) || at[1] == '.');
    for (size_t i = 0; i < sizeof signs / sizeof *signs && !number; i++) {
        if (*at != signs[i].sign)
            continue;
        reader->at++;
        int code = read_value(reader, STRONGEST, ret_operand);
        if (code < 0)
            return code;
        return add_operation(reader, *ret_operand, signs[i].how, (struct operand){CODE_IMMEDIATE, signs[i].other},
                             ret_operand);
    }
    struct number_type type;
    size_t cast = number_type_read(at, &type);
    reader->at += cast;
    if (cast)
        return read_cast(reader, &type, ret_operand);
    if (number || !token_take(reader, "("))
        return read_operand(reader, ret_operand);
    int code = read_value(reader, 0, ret_operand);
    return code < 0 || token_take(reader, ")") ? code : token_expected(reader, "an operator or ')'");
}

/* The operator of C at this point; level 0 binds weakest. NULL: none. */
static const struct joint *joint_here(struct reader *reader)
{
    static const struct joint joints[] = {
        {"||", CODE_OR, 0},      {"&&", CODE_AND, 1},          {"|", CODE_BITS_OR, 2},
        {"^", CODE_BITS_XOR, 3}, {"&", CODE_BITS_AND, 4},      {"==", CODE_EQ, 5},
        {"!=", CODE_NE, 5},      {"<<", CODE_SHIFTED_LEFT, 7}, {">>", CODE_SHIFTED_RIGHT, 7},
        {"<=", CODE_LE, 6},      {">=", CODE_GE, 6},           {"<", CODE_LT, 6},
        {">", CODE_GT, 6},       {"+", CODE_PLUS, 8},          {"-", CODE_MINUS, 8},
        {"*", CODE_TIMES, 9},    {"/", CODE_DIVIDED, 9},       {"%", CODE_MODULO, 9},
    };
    skip_space(reader);
    for (size_t i = 0; i < sizeof joints / sizeof *joints; i++)
        if (strncmp(reader->at, joints[i].token, strlen(joints[i].token)) == 0)
            return &joints[i];
    return NULL;
}

/* Reads operands joined by operators of this level or stronger ones. */
static int read_value(struct reader *reader, unsigned level, struct operand *ret_operand)
{
    const struct joint *joint;
    struct operand right;
    if (reader->depth == DEPTH_LIMIT)
        return err_set(reader->err, -EINVAL, "condition: more than %d parentheses and signs in each other",
                       DEPTH_LIMIT);
    reader->depth++;
    skip_space(reader);
    int code = read_signed(reader, ret_operand);
    while (code == 0 && (joint = joint_here(reader)) && joint->level >= level) {
        reader->at += strlen(joint->token);
        code = read_value(reader, joint->level + 1, &right);
        if (code == 0)
            code = add_operation(reader, *ret_operand, joint->how, right, ret_operand);
    }
    reader->depth--;
    return code;
}

static int read_more_params(struct reader *reader)
{
    do {
        struct operand ignored;
        int code = read_expression(reader, &ignored);
        if (code < 0)
            return code;
    } while (token_take(reader, ","));
    return 0;
}

/* ---- instructions ---- */

/* Puts the operand where an instruction finds it; calculates it into the temporary number `temp` if needed. */
static int emit_operand(const struct reader *reader, struct code_program *program, struct operand operand,
                        unsigned temp, uint8_t *ret_kind, int64_t *ret_value)
{
    *ret_kind = operand.kind == NODE ? CODE_TEMP : operand.kind;
    *ret_value = operand.kind == NODE ? temp : operand.value;
    if (operand.kind != NODE)
        return 0;
    if (temp == CODE_TEMPS)
        return err_set(reader->err, -EINVAL, "condition: more than %d results to keep; write it with fewer parentheses",
                       CODE_TEMPS);
    const struct operation *operation = &reader->operations[operand.value];
    struct code_insn insn = {.op = CODE_CALCULATE, .operation = operation->how, .other = temp};
    int code = emit_operand(reader, program, operation->a, temp, &insn.a_kind, &insn.a);
    if (code == 0)
        code = emit_operand(reader, program, operation->b, temp + (operation->a.kind == NODE), &insn.b_kind, &insn.b);
    if (code == 0)
        program->insns[program->count++] = insn;
    return code;
}

/* Ends the program unless the value holds. The operands of && are checked from left to right, as far as needed. */
static int emit_check(const struct reader *reader, struct code_program *program, struct operand value)
{
    struct operation operation = {value, {CODE_IMMEDIATE, 0}, CODE_NE};
    if (value.kind == NODE)
        operation = reader->operations[value.value];
    if (operation.how == CODE_AND) {
        int code = emit_check(reader, program, operation.a);
        return code < 0 ? code : emit_check(reader, program, operation.b);
    }
    struct code_insn insn = {.op = CODE_UNLESS, .operation = operation.how};
    int code = emit_operand(reader, program, operation.a, 0, &insn.a_kind, &insn.a);
    if (code == 0)
        code = emit_operand(reader, program, operation.b, operation.a.kind == NODE, &insn.b_kind, &insn.b);
    if (code == 0)
        program->insns[program->count++] = insn;
    return code;
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
    bool empty = !*reader.at || *reader.at == ';';
    struct operand value;
    int code = empty ? 0 : read_value(&reader, 0, &value);
    bool more = code == 0 && token_take(&reader, ";");
    if (more)
        code = read_more_params(&reader);
    skip_space(&reader);
    if (code == 0 && *reader.at)
        code = token_expected(&reader, more ? "',' and another expression" : "an operator, as == or &&, or ';'");
    if (code == 0 && !empty)
        code = emit_check(&reader, &condition.program, value);
    if (code < 0)
        return code;
    *ret_condition = condition;
    return 0;
}

struct agent *call_event_agent(const struct process *process)
{
    struct agents *agents = process->object.monitor->agents;
    return agents ? agents_find(agents, process->pid) : NULL;
}

/* ---- conditions ---- */

int call_event_lower(const struct ct_condition *condition, struct scry_code *code)
{
    for (uint32_t i = 0; i < condition->program.count; i++) {
        struct code_insn *insn = lower_insn(code, CODE_UNLESS);
        if (!insn)
            return -1;
        *insn = condition->program.insns[i];
    }
    return 0;
}

bool call_event_holds(const struct csr *csr, const struct ct_condition *condition, const struct event *event)
{
    struct code_event params;
    code_cell *gate = cell_at(csr->object.monitor->cells, csr->gate);
    if ((gate && !atomic_load(gate)) || !agent_event_params(event->seen, csr, &params))
        return false;
    return code_run(&condition->program, &params, NULL) & CODE_PASSED;
}

void call_event_rearm(struct csr *csr, struct process *process)
{
    const struct event_ops *ops = event_ops_of(csr->event_service);
    struct err err = {0};
    int code = ops->arm(csr, process, &err);
    if (code >= 0)
        return;
    ops->disarm(csr, process); /* stop the old program: another counter may own its cells now */
    csr_target_ready(csr, process, code, &err);
}

/* ---- raising ---- */

/* The thread that the area names. That memory is the program's: do not trust it. */
static struct thread *thread_of(struct process *process, const struct agent_event *seen)
{
    pid_t tid = (pid_t)seen->thread->tid;
    return tid > 0 && syscall(SYS_tgkill, process->pid, tid, 0) == 0 ? process_thread(process, tid) : NULL;
}

bool call_event_begin(struct monitor *monitor, const struct agent_event *seen, const char *service,
                      struct event *ret_event)
{
    *ret_event = (struct event){
        .service = registry_find(monitor->registry, span_str(service)),
        .process = process_find(monitor, agent_pid(seen->agent)),
        .time_ns = ct_time_ns(seen->agent, seen->raise.time),
        .seen = seen,
    };
    return ret_event->service->enabled && ret_event->process;
}

void call_event_raise(struct monitor *monitor, struct event *event, const struct value *outputs, size_t output_count)
{
    event->thread = thread_of(event->process, event->seen);
    event->object = event->thread ? &event->thread->object : &event->process->object;
    event->outputs = outputs;
    event->output_count = output_count;
    event_raise(monitor, event);
    event_run_queue(monitor);
}

/* ---- processes of jobs ---- */

void call_event_attach(struct tool *tool, pid_t pid, const char *job)
{
    struct session session = {.tool = tool};
    struct err err = {0};
    struct process *process = process_get(tool->monitor, pid, &err);
    if (!process || process_attach(&session, process, &err) < 0)
        log_info("process %d of job %s: %s", pid, job, err.text);
}
