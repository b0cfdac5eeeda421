/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing variables of a running process by name, from outside. The helper's job `variable`; on standard
 * input, one a line (fields separated by tabs, escaped):
 *
 *     pid PID
 *     depth N / bytes N / array N / string N
 *     module PATH BIAS [program|agent]  all of the process, in order; the agent's variables are nobody's
 *     frame PC CFA REG=VALUE...       innermost first: to look for locals and parameters; none: only those at fixed
 *                                     addresses. Registers (by DWARF numbers) of the innermost are enough
 *     name EXPRESSION                 a variable, with .member, ->member, [index], leading * and &; file.c:name and
 *                                     function:name choose a static one. * alone: all of all frames
 *     write VALUE                     instead of reading: a number, true/false, a character, an enumerator, or a string
 *                                     for arrays of char (what fits)
 *     end
 *
 * answers one line: `value TYPE ADDRESS SIZE TEXT` (formatted as by symbols/layout/layout.h; ADDRESS 0x0: in no
 * memory), `written TYPE OLD NEW`, or `failed REASON`; for *, lines `value FRAME NAME TYPE TEXT` (FRAME 0 the
 * innermost) and `done`. Memory is read by process_vm_readv and written by process_vm_writev: the process is not
 * stopped.
 */
#include "symbols/helper/jobs.h"

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"
#include "symbols/capture/site.h"
#include "symbols/client/helper.h"
#include "symbols/layout/layout.h"

#include <ctype.h>
#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static struct capture_compiler *variable_compiler(struct variable_job *job, struct variable_module *module);

/* The memory of the process whose variables are asked for, and programs that are run on it from outside. */

enum { SHOWN_LIMIT = 16384 };

static const struct capture_frame no_registers;

/* A program's reads have no context (capture_read_fn): one process at a time. */
static pid_t process;
static struct {
    uint64_t address;
    const char *bytes; /* NULL: the process is read */
    size_t size;
} copy;

void variable_read_process(pid_t pid)
{
    process = pid;
    copy.bytes = NULL;
}

void variable_read_copy(uint64_t address, const void *bytes, size_t size)
{
    copy.address = address;
    copy.bytes = bytes;
    copy.size = size;
}

static bool variable_reads_copy(void)
{
    return copy.bytes != NULL;
}

static int variable_read(void *dst, uint64_t address, size_t size)
{
    uint64_t at = address - copy.address;
    if (copy.bytes) {
        if (at >= copy.size || copy.size - at < size)
            return -1;
        memcpy(dst, copy.bytes + at, size);
        return 0;
    }
    return proc_peek(process, address, dst, size) == size ? 0 : -1;
}

static int variable_write(uint64_t address, const void *bytes, size_t size)
{
    struct iovec from = {(void *)(uintptr_t)bytes, size}, to = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_writev(process, &from, 1, &to, 1, 0);
    return n < 0 ? -errno : (size_t)n == size ? 0 : -EFAULT;
}

static struct variable_module *module_at(struct variable_job *job, uint64_t address, Dwarf_Die *ret_function)
{
    for (size_t i = 0; i < job->module_count; i++) {
        struct capture_compiler *compiler = variable_compiler(job, &job->modules[i]);
        if (compiler && scopes_function(compiler, address - job->modules[i].bias, ret_function) &&
            scopes_entry(compiler, ret_function) == address - job->modules[i].bias)
            return &job->modules[i];
    }
    return NULL;
}

static bool name_address(void *ctx, uint64_t address, struct buf *out)
{
    Dwarf_Die function;
    if (!module_at(ctx, address, &function) || !die_name(&function))
        return false;
    buf_puts(out, die_name(&function));
    return true;
}

/* Runs a finished emitter and shows the result part of its layout. False: it could not be read. */
static bool variable_show(struct variable_job *job, struct emitter *emitter, const struct variable_frame *frame,
                          struct buf *ret_text)
{
    const struct layout_style style = {.name_address = name_address, .ctx = job};
    uint8_t bytes[SHOWN_LIMIT];
    struct layout *layout;
    bool empty = emitter->minimum == 0;
    if (!emitter_finish(emitter) || layout_parse(&layout, emitter->text.data, NULL) < 0)
        return false;
    size_t size = capture_run(emitter->code.data, emitter->code.len, frame ? &frame->registers : &no_registers,
                              variable_read, bytes, sizeof bytes);
    if (size > 0 || empty)
        layout_format(layout, LAYOUT_RESULT, bytes, size, &style, ret_text);
    layout_free(layout);
    return size > 0 || empty;
}

/* Runs what emits a single number of eight bytes. */
static bool variable_number(struct emitter *emitter, const struct variable_frame *frame, uint64_t *ret_number)
{
    return emitter_finish(emitter) &&
           capture_run(emitter->code.data, emitter->code.len, frame ? &frame->registers : &no_registers, variable_read,
                       ret_number, 8) == 8;
}

/* Finding variables by name: in the frames of a thread, innermost first, then among the static ones. */

static struct capture_compiler *variable_compiler(struct variable_job *job, struct variable_module *module)
{
    if (!module->tried) {
        module->tried = true;
        capture_compiler_open(&module->compiler, module->path, module->bias, &job->options, NULL);
    }
    return module->compiler;
}

/* ---- frames ---- */

/* The scope of a frame: false: no debug information there. */
static bool variable_scope(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                           Dwarf_Die *ret_scope)
{
    uint64_t pc = frame->innermost ? frame->pc : frame->pc - 1;
    for (size_t i = 0; i < job->module_count; i++) {
        struct variable_module *module = &job->modules[i];
        if (pc < module->bias)
            continue;
        struct capture_compiler *compiler = module->agent ? NULL : variable_compiler(job, module);
        if (!compiler || !scopes_function(compiler, pc - module->bias, &ret_at->function))
            continue;
        ret_at->module = module;
        ret_at->frame = frame;
        ret_at->pc = pc - module->bias;
        if (!scopes_inlined(compiler, &ret_at->function, ret_at->pc, NULL, ret_scope))
            *ret_scope = ret_at->function;
        return true;
    }
    return false;
}

/* Any module's call frame information serves, with debug information or without. */
static bool unwind_program(struct variable_job *job, uint64_t pc, struct emitter *emitter)
{
    for (size_t i = 0; i < job->module_count; i++) {
        struct capture_compiler *compiler = variable_compiler(job, &job->modules[i]);
        if (!compiler || pc < job->modules[i].bias)
            continue;
        emitter_done(emitter);
        emitter_init(emitter, &job->options, NULL, false);
        if (location_unwind(compiler, pc - job->modules[i].bias, emitter) && emitter_finish(emitter))
            return true;
    }
    return false;
}

/* Registers of outer frames, by call frame information. */
static void variable_unwind(struct variable_job *job)
{
    for (size_t i = 0; i + 1 < job->frame_count && job->frames[i].known; i++) {
        const struct variable_frame *frame = &job->frames[i];
        struct variable_frame *caller = &job->frames[i + 1];
        struct emitter emitter;
        emitter_init(&emitter, &job->options, NULL, false);
        uint64_t pc = frame->innermost ? frame->pc : frame->pc - 1;
        if (unwind_program(job, pc, &emitter) &&
            capture_run(emitter.code.data, emitter.code.len, &frame->registers, variable_read, caller->registers.gpr,
                        sizeof caller->registers.gpr) == sizeof caller->registers.gpr)
            caller->known = caller->registers.gpr[16] == caller->pc; /* else it was about another place */
        emitter_done(&emitter);
    }
}

struct lookup {
    const char *name;
    size_t length;
    Dwarf_Die *ret_die;
    bool found;
};

static void match_name(void *ctx, Dwarf_Die *die, const char *name)
{
    (void)name;
    struct lookup *lookup = ctx;
    if (!die_is_named(die, lookup->name, lookup->length))
        return;
    *lookup->ret_die = *die;
    lookup->found = true;
}

static bool find_in_scope(struct variable_found *at, Dwarf_Die *scope, struct lookup *lookup)
{
    scopes_locals(at->module->compiler, scope, at->pc, match_name, lookup);
    if (!lookup->found)
        scopes_parameters(at->module->compiler, scope, match_name, lookup);
    return lookup->found;
}

static bool find_in_frames(struct variable_job *job, const char *name, size_t length, struct variable_found *found)
{
    struct lookup lookup = {name, length, &found->die, false};
    for (size_t i = 0; i < job->frame_count; i++) {
        Dwarf_Die scope;
        if (!variable_scope(job, &job->frames[i], found, &scope))
            continue;
        if (find_in_scope(found, &scope, &lookup) || find_in_scope(found, &found->function, &lookup))
            return true;
    }
    return false;
}

/* ---- at fixed addresses ---- */

/* By name; `file.c:` or `function:` in front chooses a static one. */
static bool variable_find(struct variable_job *job, const char *name, size_t length, struct variable_found *ret_found)
{
    if (find_in_frames(job, name, length, ret_found))
        return true;
    for (int program = 1; program >= 0; program--) /* the program's own first */
        for (size_t i = 0; i < job->module_count; i++) {
            struct variable_module *module = &job->modules[i];
            if (module->program != program || module->agent)
                continue;
            struct capture_compiler *compiler = variable_compiler(job, module);
            if (!compiler || !statics_find(compiler, NULL, DW_TAG_variable, name, length, &ret_found->die))
                continue;
            ret_found->module = module;
            ret_found->frame = NULL;
            ret_found->pc = 0;
            return true;
        }
    return false;
}

/* Where it is; instructions are emitted. `set`: only if it has its value there. */
static void variable_locate(const struct variable_found *found, struct emitter *emitter, struct place *ret_place)
{
    Dwarf_Die die = found->die, function = found->function;
    struct location location = {.compiler = found->module->compiler,
                                .emitter = emitter,
                                .function = &function,
                                .pc = found->pc,
                                .caller = found->frame && !found->frame->innermost,
                                .unknown = found->frame ? found->frame->unknown : 0,
                                .no_xmm = true};
    *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    if (!found->frame || found->frame->known || variable_is_static(&die))
        location_variable(&location, &die, ret_place);
}

static void variable_locate_set(const struct variable_found *found, struct emitter *emitter, struct place *ret_place)
{
    Dwarf_Die die = found->die;
    struct job job = {.compiler = found->module->compiler, .function = found->function};
    struct site *site = found->frame && found->frame->known && !variable_is_static(&die) ? malloc(sizeof *site) : NULL;
    struct variable variable = {site, &die, NULL};
    if (!site) {
        variable_locate(found, emitter, ret_place);
        return;
    }
    site->emitter = emitter;
    site_in_frame(site, &job, found->pc, found->frame->innermost);
    site->unknown = found->frame->unknown;
    site->nowhere |= site->unknown && site->kind == CAPTURE_ENTRY; /* which is followed by all registers */
    for (unsigned i = 0; i < site->parameter_count && site->by_abi; i++)
        if (site->parameters[i].addr == die.addr)
            variable.abi = &site->places[i];
    site_locate_variable(&variable, emitter, ret_place);
    emitter->attribute = NULL; /* whose context is gone */
    free(site);
}

/* All variables of a place in a program. */

struct listing {
    struct variable_job *job;
    struct variable_found at;
    struct buf *out;
    size_t frame;
};

static void locate_listed(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    const struct listing *listing = ctx;
    variable_locate_set(&listing->at, emitter, ret_place);
}

static void list_variable(void *ctx, Dwarf_Die *die, const char *name)
{
    struct listing *listing = ctx;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(buf_done) struct buf words = BUF_INIT;
    Dwarf_Die type;
    char frame[24];
    if (!name || !type_of(die, &type))
        return;
    struct emitter emitter;
    listing->at.die = *die;
    emitter_init(&emitter, &listing->job->options, &listing->at.module->compiler->types, false);
    buf_puts(&emitter.text, "result(");
    emit_field(&emitter, "", &type, locate_listed, listing);
    buf_putc(&emitter.text, ')');
    bool good = variable_show(listing->job, &emitter, listing->at.frame, &text);
    /* what is not in a copy is not invalid */
    if (!good || (variable_reads_copy() && text.data && strstr(text.data, "<invalid"))) {
        buf_clear(&text);
        buf_puts(&text, "<not available>");
    }
    emitter_done(&emitter);
    type_put_name(&listing->at.module->compiler->types, &type, true, &words);
    snprintf(frame, sizeof frame, "%zu", listing->frame);
    helper_line(listing->out, "value", frame, name, words.data ? words.data : "", text.data ? text.data : "", NULL);
}

void variable_list(struct variable_job *job, const struct variable_found *at, Dwarf_Die *scope, size_t frame,
                   struct buf *out)
{
    struct listing listing = {.job = job, .at = *at, .out = out, .frame = frame};
    scopes_parameters(at->module->compiler, scope, list_variable, &listing);
    scopes_locals(at->module->compiler, scope, at->pc, list_variable, &listing);
}

size_t variable_scopes(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                       Dwarf_Die ret_scopes[VARIABLE_SCOPES])
{
    size_t count = 0;
    Dwarf_Die scope;
    if (!variable_scope(job, frame, ret_at, &scope))
        return 0;
    while (count + 1 < VARIABLE_SCOPES && scope.addr != ret_at->function.addr) {
        ret_scopes[count++] = scope;
        scopes_around(ret_at->module->compiler, &ret_at->function, ret_at->pc, &ret_scopes[count - 1], &scope);
    }
    ret_scopes[count++] = ret_at->function;
    return count;
}

/* Values given as text become the bytes of a type. */

static int put_integer(uint64_t value, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = i < 8 ? (uint8_t)(value >> 8 * i) : (uint8_t)((int64_t)value < 0 ? 0xff : 0);
    return 0;
}

/* One character of C text, with its escapes; NULL: there is none. */
static const char *read_char(const char *at, char *ret_char)
{
    static const char from[] = "abfnrtv0", to[] = "\a\b\f\n\r\t\v";
    if (*at == 0)
        return NULL;
    if (*at != '\\') {
        *ret_char = *at;
        return at + 1;
    }
    at++;
    if (*at >= '0' && *at <= '7') {
        unsigned value = 0;
        for (int i = 0; i < 3 && *at >= '0' && *at <= '7'; i++)
            value = value * 8 + (unsigned)(*at++ - '0');
        *ret_char = (char)value;
        return at;
    }
    const char *known = *at ? strchr(from, *at) : NULL;
    if (*at == 0)
        return NULL;
    *ret_char = known ? to[known - from] : *at;
    return at + 1;
}

static bool find_enumerator(Dwarf_Die *type, const char *name, uint64_t *ret_value)
{
    const char *last = strrchr(name, ':');
    last = last ? last + 1 : name;
    return type_enumerator(type, last, strlen(last), ret_value);
}

static int encode_integer(Dwarf_Die *type, const char *text, uint8_t *bytes, size_t size, struct err *err)
{
    char *end, c;
    bool is_signed = type_is_signed(type) && type_kind_of(type) != TYPE_POINTER;
    errno = 0;
    bool negative = text[0] == '-';
    uint64_t value = negative ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (end == text || *end) {
        const char *after = text[0] == '\'' ? read_char(text + 1, &c) : NULL;
        if (after && strcmp(after, "'") == 0)
            value = (uint64_t)(int64_t)c;
        else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
            value = text[0] == 't';
        else if (type_kind_of(type) != TYPE_ENUM || !find_enumerator(type, text, &value))
            return err_set(err, -EINVAL, "%s is no value of this type", text);
        return put_integer(value, bytes, size);
    }
    bool fits = !errno;
    if (size < 8 && !is_signed)
        fits &= !negative && value >> size * 8 == 0;
    else if (size < 8)
        fits &= (int64_t)value >= -(INT64_C(1) << (size * 8 - 1)) && (int64_t)value < INT64_C(1) << (size * 8 - 1);
    else
        fits &= is_signed ? negative || value <= INT64_MAX : !negative;
    if (type_kind_of(type) == TYPE_BOOL)
        fits = value <= 1;
    return fits ? put_integer(value, bytes, size) : err_set(err, -EINVAL, "%s does not fit into this type", text);
}

static int encode_float(const char *text, uint8_t *bytes, size_t size, struct err *err)
{
    char *end;
    long double value = strtold(text, &end);
    if (end == text || *end)
        return err_set(err, -EINVAL, "%s is no number", text);
    memset(bytes, 0, size);
    if (size == 4)
        memcpy(bytes, &(float){(float)value}, 4);
    else if (size == 8)
        memcpy(bytes, &(double){(double)value}, 8);
    else
        memcpy(bytes, &value, 10);
    return 0;
}

/* Text for an array of char: in quotes with escapes, or as it is. */
static int encode_text(const char *text, uint8_t *bytes, size_t size, struct err *err)
{
    size_t n = 0, length = strlen(text);
    bool quoted = length >= 2 && text[0] == '"' && text[length - 1] == '"';
    const char *at = text + quoted, *end = text + length - quoted;
    memset(bytes, 0, size);
    while (at < end) {
        char c = *at;
        at = quoted ? read_char(at, &c) : at + 1;
        if (!at || n == size)
            return err_set(err, -EINVAL, "the text does not fit into %zu bytes", size);
        bytes[n++] = (uint8_t)c;
    }
    return n < size ? 0 : err_set(err, -EINVAL, "the text and its end do not fit into %zu bytes", size);
}

/* The bytes of a value given as text. 0 or -EINVAL. */
static int variable_encode(Dwarf_Die *type, const char *text, uint8_t *ret_bytes, size_t size, struct err *err)
{
    Dwarf_Die stripped, element;
    while (isspace((unsigned char)*text))
        text++;
    if (!type_strip(type, &stripped))
        return err_set(err, -EINVAL, "nothing can be written there");
    switch (type_kind_of(&stripped)) {
    case TYPE_SIGNED:
    case TYPE_UNSIGNED:
    case TYPE_CHAR:
    case TYPE_BOOL:
    case TYPE_ENUM:
    case TYPE_POINTER:
        return encode_integer(&stripped, text, ret_bytes, size, err);
    case TYPE_FLOAT:
        return encode_float(text, ret_bytes, size, err);
    case TYPE_ARRAY:
        if (type_of(&stripped, &element) && type_strip(&element, &element) && type_kind_of(&element) == TYPE_CHAR &&
            type_size(&element) == 1)
            return encode_text(text, ret_bytes, size, err);
        break;
    default:
        break;
    }
    return err_set(err, -EINVAL,
                   "only numbers, enumerators, pointers and arrays of char can be written; name a member");
}

/* The helper's job `variable`: reads the request, finds, shows and writes. */

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

static bool lookup_find(void *ctx, struct emitter *emitter, const char *name, size_t length, Dwarf_Die *ret_type,
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

static struct emitter lookup_begin(struct question *question)
{
    struct emitter emitter;
    emitter_init(&emitter, &question->job->options, types_of(question), false);
    emitter.text_limit = emitter.code_limit = SIZE_MAX;
    return emitter;
}

/* Finds the variable and its type, for messages and for what comes then. */
static int lookup_name(struct question *question)
{
    struct emitter emitter = lookup_begin(question);
    bool good =
        numbers_resolve(&emitter, question->expression, lookup_find, question, &question->resolved, &question->err);
    emitter_done(&emitter);
    return good ? 0 : -EINVAL;
}

static void lookup_locate(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    struct question *question = ctx;
    if (!numbers_resolve(emitter, question->expression, lookup_find, question, &question->resolved, &question->err))
        *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    else
        *ret_place = question->resolved.place;
}

/* A bit field: its bits as a number of its type. */
static void value_show_bits(struct question *question, struct emitter *emitter)
{
    struct resolved *at = &question->resolved;
    struct place place;
    Dwarf_Die type = at->type;
    buf_puts(&emitter->text, "result(:");
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_TRY, 0, NULL);
    buf_putc(&emitter->text, '?');
    lookup_locate(question, emitter, &place);
    emit_bit_field(emitter, &type, &place, at->bit, at->bits);
    emit_block_end(emitter, block);
    buf_putc(&emitter->text, ')');
}

static bool value_show(struct question *question, struct buf *text)
{
    struct emitter emitter = lookup_begin(question);
    Dwarf_Die type = question->resolved.type;
    if (question->resolved.bits)
        value_show_bits(question, &emitter);
    else {
        buf_puts(&emitter.text, "result(");
        emit_field(&emitter, "", &type, lookup_locate, question);
        buf_putc(&emitter.text, ')');
    }
    bool good = variable_show(question->job, &emitter, question->found.frame, text);
    emitter_done(&emitter);
    return good;
}

/* Where it is in the process; false: in no memory. */
static bool address_of(struct question *question, uint64_t *ret_address)
{
    struct emitter emitter = lookup_begin(question);
    struct place place;
    question->where_only = true;
    lookup_locate(question, &emitter, &place);
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
        if (!value_show(question, &text))
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
    value_show(question, &before);
    int r = write_value(question, address);
    if (r < 0)
        return question->err.code ? r : err_errno(&question->err, r, "%s: it cannot be written", question->job->name);
    value_show(question, &after);
    type_put_name(types_of(question), &question->resolved.type, true, &type);
    helper_line(out, "written", type.data ? type.data : "", before.data ? before.data : "",
                after.data ? after.data : "", NULL);
    return 0;
}

/* ---- all variables of all frames ---- */

static void job_list(struct variable_job *job, struct buf *out)
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

static int job_run(struct variable_job *job, FILE *in, struct buf *out, struct err *err)
{
    int r = read_job(job, in, err);
    if (r < 0)
        return r;
    variable_read_process(job->pid);
    variable_unwind(job);
    if (strcmp(job->name, "*") == 0) {
        job_list(job, out);
        return 0;
    }
    _cleanup_(freep) struct question *question = calloc(1, sizeof *question);
    if (!question)
        return err_set(err, -ENOMEM, "out of memory");
    question->job = job;
    r = split_scope(question);
    if (r == 0)
        r = lookup_name(question);
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
        r = job_run(job, in, &answer, &err);
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
