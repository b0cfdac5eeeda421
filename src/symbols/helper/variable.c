/* SPDX-License-Identifier: Apache-2.0 */
/* The helper's job `variable`: reads the request, finds, shows and writes. */
#include "symbols/helper/variable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "symbols/client/helper.h"
#include "symbols/helper/variable_internal.h"

/* ---- the request ---- */

static int bad_line(const char *word, struct err *err)
{
    return err_set(err, -EINVAL, "the request's line `%s` is not understood", word);
}

static int take_module(struct variable_job *job, char **fields, int count, struct err *err)
{
    struct variable_module *module = &job->modules[job->module_count];
    if (count < 3 || count > 4 || !helper_address(fields[2], &module->bias))
        return bad_line("module", err);
    if (job->module_count + 1 == VARIABLE_MODULES)
        return 0; /* so many are enough */
    module->path = strdup(fields[1]);
    if (!module->path)
        return err_set(err, -ENOMEM, "out of memory");
    module->program = count == 4 && strcmp(fields[3], "program") == 0;
    module->agent = count == 4 && strcmp(fields[3], "agent") == 0;
    job->module_count++;
    return 0;
}

static int take_frame(struct variable_job *job, char **fields, int count, struct err *err)
{
    struct variable_frame *frame = &job->frames[job->frame_count];
    if (count < 3 || !helper_address(fields[1], &frame->pc) || !helper_address(fields[2], &frame->cfa))
        return bad_line("frame", err);
    for (int i = 3; i < count; i++) {
        char *value = strchr(fields[i], '=');
        uint64_t reg;
        if (!value)
            return bad_line("frame", err);
        *value++ = 0;
        if (!helper_number(fields[i], 0, VARIABLE_REGISTERS - 1, &reg) ||
            !helper_address(value, &frame->registers.gpr[reg]))
            return bad_line("frame", err);
        frame->known = true;
    }
    frame->innermost = job->frame_count == 0;
    if (job->frame_count + 1 < VARIABLE_FRAMES)
        job->frame_count++;
    return 0;
}

static int take_number(const struct variable_job *job, char **fields, int count, struct err *err)
{
    const struct {
        const char *word;
        uint64_t low, high;
        unsigned *to;
    } numbers[] = {
        {"depth", 0, HELPER_DEPTH_MAX, (unsigned *)&job->options.depth},
        {"bytes", HELPER_BYTES_MIN, HELPER_BYTES_MAX, (unsigned *)&job->options.bytes},
        {"array", 0, HELPER_ARRAY_MAX, (unsigned *)&job->options.array},
        {"string", 0, HELPER_STRING_MAX, (unsigned *)&job->options.string},
        {"pid", 1, INT32_MAX, (unsigned *)&job->pid},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint64_t number;
        if (strcmp(numbers[i].word, fields[0]) != 0)
            continue;
        if (count != 2 || !helper_number(fields[1], numbers[i].low, numbers[i].high, &number))
            return bad_line(fields[0], err);
        *numbers[i].to = (unsigned)number;
        return 0;
    }
    return bad_line(fields[0], err);
}

static int take_text(char **to, char **fields, int count, struct err *err)
{
    free(*to);
    *to = count == 2 ? strdup(fields[1]) : NULL;
    return *to ? 0 : bad_line(fields[0], err);
}

static int read_job(struct variable_job *job, FILE *in, struct err *err)
{
    _cleanup_(freep) char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, in)) > 0) {
        char *fields[HELPER_FIELDS];
        if (line[length - 1] == '\n')
            line[length - 1] = 0;
        int count = helper_split(line, fields), r;
        if (count < 0)
            return bad_line("?", err);
        if (strcmp(fields[0], "end") == 0)
            return job->name && job->pid ? 0 : err_set(err, -EINVAL, "the request has no name or no pid");
        if (strcmp(fields[0], "module") == 0)
            r = take_module(job, fields, count, err);
        else if (strcmp(fields[0], "frame") == 0)
            r = take_frame(job, fields, count, err);
        else if (strcmp(fields[0], "name") == 0)
            r = take_text(&job->name, fields, count, err);
        else if (strcmp(fields[0], "write") == 0)
            r = take_text(&job->write, fields, count, err);
        else
            r = take_number(job, fields, count, err);
        if (r < 0)
            return r;
    }
    return err_set(err, -EINVAL, "the request ends without `end`");
}

static void job_free(struct variable_job *job)
{
    for (size_t i = 0; i < job->module_count; i++) {
        free(job->modules[i].path);
        capture_compiler_free(job->modules[i].compiler);
    }
    free(job->name);
    free(job->write);
    free(job);
}

/* ---- one variable ---- */

struct question {
    struct variable_job *job;
    bool where_only;          /* whether it has its value there does not matter */
    char *expression, *scope; /* the name without what chooses a static one; and that, or NULL */
    struct variable_found found;
    struct resolved resolved;
    struct err err;
};

/* Takes what chooses a static variable, `file.c:` or `function:`, out of the expression. */
static int split_scope(struct question *question)
{
    const char *text = question->job->name, *colon = NULL;
    size_t operators = strspn(text, "*&( ");
    for (const char *p = text + operators; *p && !strchr("[>", *p); p++)
        if (p[0] == ':' && p[1] != ':' && p > text && p[-1] != ':')
            colon = p;
    question->expression = strdup(text);
    if (!question->expression)
        return -ENOMEM;
    if (!colon)
        return 0;
    question->scope = strndup(text + operators, (size_t)(colon - text) - operators);
    memmove(question->expression + operators, colon + 1, strlen(colon + 1) + 1);
    return question->scope ? 0 : -ENOMEM;
}

static bool find(void *ctx, struct emitter *emitter, const char *name, size_t length, Dwarf_Die *ret_type,
                 struct place *ret_place)
{
    struct question *question = ctx;
    _cleanup_(buf_done) struct buf whole = BUF_INIT;
    if (question->scope)
        buf_printf(&whole, "%s:", question->scope);
    buf_append(&whole, name, length);
    if (whole.failed || !variable_find(question->job, whole.data, whole.len, &question->found) ||
        !type_of(&question->found.die, ret_type))
        return false;
    if (question->job->write || question->where_only)
        variable_locate(&question->found, emitter, ret_place);
    else
        variable_locate_set(&question->found, emitter, ret_place);
    return true;
}

static struct type_index *types_of(struct question *question)
{
    struct capture_compiler *compiler = question->found.module ? question->found.module->compiler : NULL;
    return compiler ? &compiler->types : NULL;
}

static struct emitter begin(struct question *question)
{
    struct emitter emitter;
    emitter_init(&emitter, &question->job->options, types_of(question), false);
    emitter.text_limit = emitter.code_limit = SIZE_MAX;
    return emitter;
}

/* Finds the variable and its type, for messages and for what comes then. */
static int look_up(struct question *question)
{
    struct emitter emitter = begin(question);
    bool good = numbers_resolve(&emitter, question->expression, find, question, &question->resolved, &question->err);
    emitter_done(&emitter);
    return good ? 0 : -EINVAL;
}

static void locate(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct question *question = ctx;
    if (!numbers_resolve(emitter, question->expression, find, question, &question->resolved, &question->err))
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    else
        *ret_place = question->resolved.place;
}

/* A bit field: its bits as a number of its type. */
static void show_bits(struct question *question, struct emitter *emitter)
{
    struct resolved *at = &question->resolved;
    struct place place;
    Dwarf_Die type = at->type;
    buf_puts(&emitter->text, "result(:");
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_TRY, 0, NULL);
    buf_putc(&emitter->text, '?');
    locate(question, emitter, &place);
    emit_bit_field(emitter, &type, &place, at->bit, at->bits);
    emit_block_end(emitter, block);
    buf_putc(&emitter->text, ')');
}

static bool show(struct question *question, struct buf *text)
{
    struct emitter emitter = begin(question);
    Dwarf_Die type = question->resolved.type;
    if (question->resolved.bits)
        show_bits(question, &emitter);
    else {
        buf_puts(&emitter.text, "result(");
        emit_field(&emitter, "", &type, locate, question);
        buf_putc(&emitter.text, ')');
    }
    bool good = variable_show(question->job, &emitter, question->found.frame, text);
    emitter_done(&emitter);
    return good;
}

/* Where it is in the process; false: in no memory. */
static bool address_of(struct question *question, uint64_t *ret_address)
{
    struct emitter emitter = begin(question);
    struct place place;
    question->where_only = true;
    locate(question, &emitter, &place);
    question->where_only = false;
    unsigned temp = emit_temp(&emitter);
    emit(&emitter, CAPTURE_LEA, temp, place.base, place.offset);
    emit(&emitter, CAPTURE_VALUE, temp, 8, 0);
    bool good = place.kind == PLACE_MEMORY && !place.missing[0] && !place.missing[1] &&
                variable_number(&emitter, question->found.frame, ret_address) &&
                *ret_address < UINT64_C(1) << 63; /* not the interpreter's own */
    emitter_done(&emitter);
    return good;
}

static int write_bits(struct question *question, uint64_t address)
{
    const struct resolved *at = &question->resolved;
    Dwarf_Die type = at->type;
    uint8_t bytes[8] = {0}, memory[8] = {0};
    uint64_t value, old, mask = at->bits < 64 ? (UINT64_C(1) << at->bits) - 1 : UINT64_MAX;
    size_t size = (size_t)type_size(&type), span = (size_t)(at->bit + at->bits + 7) / 8;
    if (size > 8 || span > 8)
        return err_set(&question->err, -EINVAL, "a bit field like this cannot be written");
    int r = variable_encode(&type, question->job->write, bytes, size, &question->err);
    if (r < 0)
        return r;
    memcpy(&value, bytes, 8);
    Dwarf_Die stripped;
    uint64_t rest = type_strip(&type, &stripped) && type_is_signed(&stripped) ? mask >> 1 : mask;
    uint64_t whole = size < 8 ? (UINT64_C(1) << size * 8) - 1 : UINT64_MAX;
    if ((value & whole & ~rest) != 0 && (value & whole & ~rest) != (whole & ~rest))
        return err_set(&question->err, -EINVAL, "%s does not fit into %d bits", question->job->write, (int)at->bits);
    if (variable_read(memory, address, span) < 0)
        return err_set(&question->err, -EFAULT, "its memory cannot be read");
    memcpy(&old, memory, 8);
    old = (old & ~(mask << at->bit)) | (value & mask) << at->bit;
    memcpy(memory, &old, 8);
    return variable_write(address, memory, span);
}

static int write_value(struct question *question, uint64_t address)
{
    Dwarf_Die type = question->resolved.type;
    if (question->resolved.bits)
        return write_bits(question, address);
    uint64_t size = type_size(&type);
    uint8_t bytes[4096];
    if (size == 0 || size > sizeof bytes)
        return err_set(&question->err, -EINVAL, "it is too large to be written as a whole");
    int r = variable_encode(&type, question->job->write, bytes, (size_t)size, &question->err);
    return r < 0 ? r : variable_write(address, bytes, (size_t)size);
}

static int answer_read(struct question *question, struct buf *out)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(buf_done) struct buf type = BUF_INIT;
    uint64_t address = 0;
    char where[24], size[24];
    bool has_address = address_of(question, &address);
    type_put_name(types_of(question), &question->resolved.type, true, &type);
    if (question->resolved.address) { /* &name */
        if (!has_address)
            return err_set(&question->err, -EINVAL, "%s: it has no address", question->job->name);
        buf_printf(&text, "0x%" PRIx64, address);
        buf_puts(&type, " *");
        snprintf(size, sizeof size, "8");
    } else {
        if (!show(question, &text))
            return err_set(&question->err, -EFAULT, "%s: its memory cannot be read", question->job->name);
        snprintf(size, sizeof size, "%" PRIu64, type_size(&question->resolved.type));
    }
    snprintf(where, sizeof where, "0x%" PRIx64, address);
    helper_line(out, "value", type.data ? type.data : "", where, size, text.data ? text.data : "", NULL);
    return 0;
}

static int answer_write(struct question *question, struct buf *out)
{
    _cleanup_(buf_done) struct buf before = BUF_INIT;
    _cleanup_(buf_done) struct buf after = BUF_INIT;
    _cleanup_(buf_done) struct buf type = BUF_INIT;
    uint64_t address;
    if (question->resolved.address || !address_of(question, &address))
        return err_set(&question->err, -EINVAL, "%s: it is in no memory here, so it cannot be written",
                       question->job->name);
    show(question, &before);
    int r = write_value(question, address);
    if (r < 0)
        return question->err.code ? r : err_errno(&question->err, r, "%s: it cannot be written", question->job->name);
    show(question, &after);
    type_put_name(types_of(question), &question->resolved.type, true, &type);
    helper_line(out, "written", type.data ? type.data : "", before.data ? before.data : "",
                after.data ? after.data : "", NULL);
    return 0;
}

/* ---- all variables of all frames ---- */

static void list_all(struct variable_job *job, struct buf *out)
{
    for (size_t i = 0; i < job->frame_count; i++) {
        struct variable_found at = {0};
        Dwarf_Die scope;
        if (job->frames[i].known && variable_scope(job, &job->frames[i], &at, &scope))
            variable_list(job, &at, &scope, i, out);
    }
    helper_line(out, "done", NULL);
}

/* ---- the job ---- */

static int run(struct variable_job *job, FILE *in, struct buf *out, struct err *err)
{
    int r = read_job(job, in, err);
    if (r < 0)
        return r;
    variable_read_process(job->pid);
    variable_unwind(job);
    if (strcmp(job->name, "*") == 0) {
        list_all(job, out);
        return 0;
    }
    _cleanup_(freep) struct question *question = calloc(1, sizeof *question);
    if (!question)
        return err_set(err, -ENOMEM, "out of memory");
    question->job = job;
    r = split_scope(question);
    if (r == 0)
        r = look_up(question);
    if (r == 0)
        r = job->write ? answer_write(question, out) : answer_read(question, out);
    if (r < 0)
        *err = question->err;
    free(question->expression);
    free(question->scope);
    return r;
}

int variable_main(FILE *in, FILE *out)
{
    _cleanup_(buf_done) struct buf answer = BUF_INIT;
    struct err err = {0};
    struct variable_job *job = calloc(1, sizeof *job);
    int r = job ? 0 : -ENOMEM;
    if (job) {
        job->options = (struct capture_options){.depth = 1, .bytes = HELPER_BYTES_MAX, .array = 64, .string = 256};
        r = run(job, in, &answer, &err);
        job_free(job);
    }
    if (r < 0 || answer.failed) {
        buf_clear(&answer);
        answer.failed = false;
        helper_line(&answer, "failed", err.text[0] ? err.text : "out of memory", NULL);
    }
    if (!answer.data || fwrite(answer.data, 1, answer.len, out) != answer.len || fflush(out) != 0)
        return r < 0 ? r : -EIO;
    return r;
}
