/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/client/client.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/process.h"
#include "symbols/client/helper.h"
#include "symbols/index/index_format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *word, *text;
} kinds[NUMBER_PROBLEMS] = {
    [NUMBER_FINE] = {"", ""},
    [NUMBER_NO_VARIABLE] = {"variable", "no such variable here"},
    [NUMBER_NO_MEMBER] = {"member", "no such member"},
    [NUMBER_NO_BOUNDS] = {"bounds", "no such element to be had: only the program knows the bounds"},
    [NUMBER_NO_INDEX] = {"index", "no such element: the index is no integer"},
    [NUMBER_LARGE_INDEX] = {"large-index", "the index is too large"},
    [NUMBER_INDEX_BY_0] = {"index-by-0", "the index is divided by 0"},
    [NUMBER_NO_DIMENSION] = {"dimension", "an index for each dimension is needed"},
    [NUMBER_NO_ARRAY] = {"array", "no array"},
    [NUMBER_NO_POINTER] = {"pointer", "no pointer to something"},
    [NUMBER_NO_STRUCT] = {"struct", "no struct, class or union before this"},
    [NUMBER_NO_ADDRESS] = {"address", "it has no address"},
    [NUMBER_NO_NUMBER] = {"number", "it is no number"},
    [NUMBER_NO_SIZE] = {"size", "its size is not known"},
    [NUMBER_NO_EXPRESSION] = {"expression", "something that is not understood"},
    [NUMBER_TOO_DEEP] = {"deep", "too many operators"},
    [NUMBER_OPTIMISED_OUT] = {"optimised-out", "optimised out here"},
    [NUMBER_NOT_AVAILABLE] = {"not-available", "not available here"},
};

const char *number_problem_word(enum number_problem_kind kind)
{
    return kinds[kind].word;
}

static enum number_problem_kind number_problem_of_word(const char *word)
{
    for (size_t i = NUMBER_FINE + 1; i < NUMBER_PROBLEMS; i++)
        if (strcmp(word, kinds[i].word) == 0)
            return (enum number_problem_kind)i;
    return NUMBER_FINE;
}

bool number_problem_is_lasting(enum number_problem_kind kind)
{
    return kind > NUMBER_FINE && kind < NUMBER_OPTIMISED_OUT;
}

void number_problem_print(const struct number_problem *problem, const char *expression, struct buf *out)
{
    buf_printf(out, "%s: %s at character %u", expression, kinds[problem->kind].text, problem->at);
}

#define COMPILED_MAGIC "scrycapt"
enum { COMPILED_VERSION = 11, COMPILED_LIMIT = 64 << 20 };

struct compiled_head { /* then the request, and the items */
    char magic[8];
    char scry[24]; /* what another version compiles may be better */
    uint64_t version;
    uint64_t functions;
    uint64_t request_size, items_size;
    uint64_t sum; /* of both: a crash of the machine may leave any part unwritten */
};

/* ---- items ---- */

void compiled_add(struct buf *items, const struct helper_answer *answer)
{
    bool layout = answer->kind == HELPER_LAYOUT;
    size_t size = layout ? strlen(answer->text) + 1 : answer->code_size;
    struct compiled_item item = {.kind = (uint32_t)answer->kind,
                                 .site = (uint32_t)answer->site,
                                 .id = answer->id,
                                 .size = (uint32_t)size,
                                 .address = answer->address};
    buf_append(items, &item, sizeof item);
    buf_append(items, layout ? (const void *)answer->text : answer->code, size);
}

bool compiled_next(const struct buf *items, size_t *at, struct compiled_item *ret_item, const void **ret_bytes)
{
    struct compiled_item item;
    if (items->len - *at < sizeof item)
        return false;
    memcpy(&item, items->data + *at, sizeof item);
    const char *bytes = items->data + *at + sizeof item;
    bool layout = item.kind == HELPER_LAYOUT;
    bool program = item.kind == HELPER_SITE || item.kind == HELPER_PARAMS;
    if ((!layout && !program && item.kind != HELPER_BLOCK) || item.site > HELPER_UNWIND ||
        item.size > items->len - *at - sizeof item ||
        (layout && (!item.size || memchr(bytes, 0, item.size) != bytes + item.size - 1)))
        return false;
    *at += sizeof item + item.size;
    *ret_item = item;
    *ret_bytes = bytes;
    return true;
}

/* ---- files ---- */

static int file_path(char *ret_path, size_t size, const char *key, const char *request, bool make, struct err *err)
{
    char directory[PATH_MAX];
    if (!*key || strchr(key, '/') || strlen(key) >= INDEX_KEY_SIZE)
        return err_set(err, -EINVAL, "'%.100s' is no key of a symbol index", key);
    int r = index_directory(directory, sizeof directory, make, err);
    if (r == 0 && (size_t)snprintf(ret_path, size, "%s/%s-%016" PRIx64 ".captures", directory, key,
                                   sum_add(0, request, strlen(request))) >= size)
        r = err_set(err, -ENAMETOOLONG, "the path of the symbol cache is too long: set SCRY_CACHE_DIR");
    return r;
}

static struct compiled_head head_of(const struct buf *items, uint64_t functions, const char *request)
{
    struct compiled_head head = {.magic = COMPILED_MAGIC,
                                 .version = COMPILED_VERSION,
                                 .functions = functions,
                                 .request_size = strlen(request),
                                 .items_size = items->len};
    snprintf(head.scry, sizeof head.scry, "%s", SCRY_VERSION);
    head.sum = sum_add(sum_add(functions, request, head.request_size), items->data, items->len);
    return head;
}

int compiled_read(struct buf *ret_items, uint64_t *ret_functions, const void *file, size_t size, const char *request,
                  struct err *err)
{
    struct compiled_head head, right;
    struct compiled_item item;
    const void *bytes;
    size_t request_size = strlen(request), at = 0;
    bool good = size >= sizeof head && size - sizeof head >= request_size &&
                memcmp((const char *)file + sizeof head, request, request_size) == 0;
    if (good) {
        memcpy(&head, file, sizeof head);
        /* as the caller's: nothing is copied before it is known to be whole */
        struct buf items = {.data = (char *)(uintptr_t)file + sizeof head + request_size,
                            .len = size - sizeof head - request_size};
        right = head_of(&items, head.functions, request);
        good = memcmp(&head, &right, sizeof head) == 0;
        while (good && at < items.len)
            good = compiled_next(&items, &at, &item, &bytes);
        if (good)
            buf_append(ret_items, items.data, items.len);
        *ret_functions = head.functions;
    }
    if (ret_items->failed)
        return err_set(err, -ENOMEM, "out of memory");
    return good ? 0 : err_set(err, -EBADMSG, "damaged, or of another version: it has to be compiled again");
}

int compiled_load(struct buf *ret_items, uint64_t *ret_functions, const char *key, const char *request, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    int r = file_path(path, sizeof path, key, request, false, err);
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    _cleanup_(buf_done) struct buf file = BUF_INIT;
    size_t size = S_ISREG(st.st_mode) && st.st_size <= COMPILED_LIMIT ? (size_t)st.st_size : 0;
    char *to = buf_reserve(&file, size + 1);
    if (!to)
        return err_set(err, -ENOMEM, "out of memory");
    ssize_t got = 1;
    while (file.len < size && (got = read(fd, to + file.len, size - file.len)) > 0)
        file.len += (size_t)got;
    return compiled_read(ret_items, ret_functions, file.data, file.len, request, err);
}

int compiled_store(const struct buf *items, uint64_t functions, const char *key, const char *request, struct err *err)
{
    char path[PATH_MAX];
    struct compiled_head head = head_of(items, functions, request);
    const struct iovec parts[] = {
        {&head, sizeof head}, {(void *)(uintptr_t)request, head.request_size}, {items->data, items->len}};
    if (head.request_size + items->len > COMPILED_LIMIT - sizeof head)
        return err_set(err, -E2BIG, "too much for the symbol cache");
    int r = file_path(path, sizeof path, key, request, true, err);
    return r < 0 ? r : cache_file_write(path, parts, sizeof parts / sizeof *parts, CACHE_MOST_BYTES, NULL, NULL, err);
}

/* Lines of the helper's protocol, for both of its ends. */

static void put_escaped(struct buf *out, const char *field)
{
    for (; *field; field++) {
        const char *special = strchr("\t\n\\", *field);
        if (special) {
            buf_putc(out, '\\');
            buf_putc(out, *special == '\t' ? 't' : *special == '\n' ? 'n' : '\\');
        } else {
            buf_putc(out, *field);
        }
    }
}

void helper_line(struct buf *out, const char *word, ...)
{
    va_list fields;
    buf_puts(out, word);
    va_start(fields, word);
    for (const char *field; (field = va_arg(fields, const char *));) {
        buf_putc(out, '\t');
        put_escaped(out, field);
    }
    va_end(fields);
    buf_putc(out, '\n');
}

int helper_split(char *line, char *ret_fields[HELPER_FIELDS])
{
    int count = 1;
    char *to = line;
    ret_fields[0] = line;
    for (const char *from = line; *from; from++) {
        if (*from == '\t') {
            *to++ = 0;
            if (count == HELPER_FIELDS)
                return -EBADMSG;
            ret_fields[count++] = to;
        } else if (*from == '\\') {
            from++;
            if (*from != 't' && *from != 'n' && *from != '\\')
                return -EBADMSG;
            *to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : '\\';
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
    return count;
}

static bool number_parse(const char *field, int base, uint64_t *ret)
{
    char *end;
    if (!*field || strspn(field, base == 10 ? "0123456789" : "0123456789abcdefABCDEF") != strlen(field))
        return false;
    errno = 0;
    *ret = strtoull(field, &end, base);
    return errno == 0 && !*end;
}

bool helper_number(const char *field, uint64_t low, uint64_t high, uint64_t *ret_number)
{
    uint64_t number;
    if (!number_parse(field, 10, &number) || number < low || number > high)
        return false;
    *ret_number = number;
    return true;
}

bool helper_address(const char *field, uint64_t *ret_address)
{
    return strncmp(field, "0x", 2) == 0 && number_parse(field + 2, 16, ret_address);
}

int helper_process_start(struct helper_process *ret_process, char *const argv[], struct err *err)
{
    char path[PATH_MAX];
    int ends[3], code = dirs_libexec("scry-symbols", path, sizeof path, err);
    if (code < 0)
        return code;
    const struct spawn spawn = {.path = path, .argv = argv, .in = SPAWN_PIPE, .out = SPAWN_PIPE, .error = SPAWN_SAME};
    pid_t pid;
    code = spawn_piped(&spawn, &pid, ends);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    *ret_process = (struct helper_process){pid, ends[0], ends[1]};
    return 0;
}

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

/* Writes what the pipe takes of a request; input is closed when all is written, or it has no reader. */
static void helper_process_write(struct helper_process *process, const struct buf *request, size_t *inout_written)
{
    ssize_t len = write(process->input, request->data + *inout_written, request->len - *inout_written);
    if (len > 0)
        *inout_written += (size_t)len;
    if ((len < 0 && errno != EAGAIN && errno != EINTR) || *inout_written == request->len)
        close_end(&process->input);
}

/* Feeds the reader with what there is. How many bytes; 0: none now, or, if output is closed, never again; -errno. */
static ssize_t helper_process_read(struct helper_process *process, struct helper_reader *reader)
{
    char bytes[65536];
    ssize_t len = read(process->output, bytes, sizeof bytes);
    if (len < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    if (len == 0)
        close_end(&process->output);
    helper_feed(reader, bytes, (size_t)len);
    return len;
}

/* Closes both, and waits for its end; `now`: it is killed before. */
static void helper_process_end(struct helper_process *process, bool now)
{
    close_end(&process->input);
    close_end(&process->output);
    if (now)
        kill(process->pid, SIGKILL); /* it is our child: the number is still its own */
    child_reap(process->pid);
}

static int process_converse(struct helper_process *process, const struct buf *request, uint64_t time_ns, size_t limit,
                            struct helper_reader *reader, struct err *err)
{
    uint64_t deadline = clock_now_ns() + time_ns;
    size_t written = 0, total = 0;
    while (process->output >= 0) {
        uint64_t now = clock_now_ns();
        if (now >= deadline)
            return err_set(err, -ETIME, "the debug information was not read within %llu s",
                           (unsigned long long)(time_ns / NS_PER_SECOND));
        struct pollfd fds[] = {{process->output, POLLIN, 0}, {process->input, POLLOUT, 0}};
        if (poll(fds, 2, (int)((deadline - now) / 1000000) + 1) < 0 && errno != EINTR)
            return err_errno(err, -errno, "cannot wait for scry-symbols");
        if (fds[1].revents)
            helper_process_write(process, request, &written);
        ssize_t got = fds[0].revents ? helper_process_read(process, reader) : 0;
        if (got < 0)
            return err_errno(err, (int)got, "cannot read from scry-symbols");
        total += (size_t)got;
        if (total > limit)
            return err_set(err, -E2BIG, "more than %zu MB of values", limit >> 20);
    }
    return 0;
}

int helper_process_run(const char *job, const struct buf *request, uint64_t time_ns, size_t limit,
                       struct helper_reader *ret_reader, struct err *err)
{
    struct helper_process process;
    char *argv[] = {(char *)(uintptr_t) "scry-symbols", (char *)(uintptr_t)job, NULL};
    *ret_reader = (struct helper_reader){0};
    if (request->failed)
        return err_set(err, -ENOMEM, "out of memory");
    int code = helper_process_start(&process, argv, err);
    if (code < 0)
        return code;
    code = process_converse(&process, request, time_ns, limit, ret_reader, err);
    helper_process_end(&process, code < 0);
    return code;
}

/* ---- requests ---- */
static void number_line(struct buf *out, const char *word, uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    helper_line(out, word, text, NULL);
}

static unsigned limit_put(unsigned value, unsigned low, unsigned high)
{
    return value < low ? low : value > high ? high : value;
}

void helper_compile_begin(struct buf *out, const struct helper_compile *compile)
{
    number_line(out, "pid", (uint64_t)compile->pid);
    number_line(out, "depth", limit_put(compile->depth, 0, HELPER_DEPTH_MAX));
    number_line(out, "bytes", limit_put(compile->bytes, HELPER_BYTES_MIN, HELPER_BYTES_MAX));
    number_line(out, "array", limit_put(compile->array, 0, HELPER_ARRAY_MAX));
    number_line(out, "string", limit_put(compile->string, 0, HELPER_STRING_MAX));
    if (compile->args)
        helper_line(out, "want", "args", NULL);
    if (compile->locals)
        helper_line(out, "want", "locals", NULL);
    if (compile->caller)
        helper_line(out, "want", "caller", NULL);
    if (compile->result)
        helper_line(out, "want", "result", NULL);
    if (compile->exit_args)
        helper_line(out, "want", "exit-args", NULL);
    if (compile->patched)
        helper_line(out, "want", "patched", NULL);
    if (compile->statics && *compile->statics)
        helper_line(out, "statics", compile->statics, NULL);
    number_line(out, "layout", compile->layout);
    number_line(out, "block", compile->block ? compile->block : 1);
}

void helper_compile_module(struct buf *out, const char *path, uint64_t bias)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, bias);
    helper_line(out, "module", path, text, NULL);
}

void helper_compile_param(struct buf *out, const char *expression)
{
    helper_line(out, "param", expression, NULL);
}

void helper_compile_function(struct buf *out, uint64_t address)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    helper_line(out, "function", text, NULL);
}

void helper_compile_end(struct buf *out)
{
    helper_line(out, "end", NULL);
}

/* ---- answers ---- */
void helper_reader_done(struct helper_reader *reader)
{
    buf_done(&reader->bytes);
    buf_done(&reader->line);
    buf_done(&reader->code);
    reader->taken = 0;
    reader->broken = false;
}

void helper_feed(struct helper_reader *reader, const void *bytes, size_t len)
{
    if (!reader->broken)
        buf_append(&reader->bytes, bytes, len);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool take_code(struct helper_reader *reader, const char *hex, struct helper_answer *answer)
{
    size_t len = strlen(hex);
    buf_clear(&reader->code);
    char *to = len % 2 ? NULL : buf_reserve(&reader->code, len / 2 + 1);
    if (!to)
        return false;
    for (size_t i = 0; i < len; i += 2) {
        int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);
        if (high < 0 || low < 0)
            return false;
        to[i / 2] = (char)(high << 4 | low);
    }
    answer->code = to;
    answer->code_size = len / 2;
    return true;
}

static bool take_site(const char *field, struct helper_answer *answer)
{
    static const char *const sites[] = {
        [HELPER_ENTRY] = "entry", [HELPER_EXIT] = "exit", [HELPER_CALL] = "call", [HELPER_UNWIND] = "unwind"};
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++)
        if (strcmp(field, sites[i]) == 0) {
            answer->site = (enum helper_site)i;
            return true;
        }
    return false;
}

static bool take_problem(char **fields, struct number_problem *ret_problem)
{
    uint64_t at;
    *ret_problem = (struct number_problem){.kind = number_problem_of_word(fields[0])};
    if (ret_problem->kind == NUMBER_FINE || !helper_number(fields[1], 0, UINT32_MAX, &at))
        return false;
    ret_problem->at = (unsigned)at;
    snprintf(ret_problem->name, sizeof ret_problem->name, "%s", fields[2]);
    return true;
}

static bool take_id(const char *field, struct helper_answer *answer)
{
    uint64_t id;
    bool good = helper_number(field, 0, UINT32_MAX, &id);
    answer->id = good ? (uint32_t)id : 0;
    return good;
}

static const struct {
    const char *word;
    enum helper_answer_kind kind;
    int fields; /* behind the word */
} words[] = {
    {"ok", HELPER_OK, 2},
    {"memory", HELPER_MEMORY, 4},
    {"failed", HELPER_FAILED, 2},
    {"failed", HELPER_FAILED, 1},
    {"layout", HELPER_LAYOUT, 2},
    {"site", HELPER_SITE, 4},
    {"params", HELPER_PARAMS, 3},
    {"problem", HELPER_PROBLEM, 2},
    {"done", HELPER_DONE, 0},
    {"value", HELPER_VALUE, 4},
    {"written", HELPER_WRITTEN, 3},
    {"param-problem", HELPER_PARAM_PROBLEM, 6},
    {"lines-only", HELPER_LINES_ONLY, 1},
    {"missing", HELPER_MISSING, 2},
    {"block", HELPER_BLOCK, 2},
    {"function", HELPER_FUNCTION, 1},
    {"process", HELPER_PROCESS, 3},
    {"stack", HELPER_STACK, 4},
    {"frame", HELPER_FRAME, 5},
    {"place", HELPER_PLACE, 3},
    {"inlined", HELPER_INLINED, 4},
    {"patch", HELPER_PATCH, 4},
    {"unpatched", HELPER_UNPATCHED, 2},
};

/* Of a snapshot's variable the first word is the number of its frame: no type is a number. */
static bool take_value(char **f, struct helper_answer *a)
{
    if (helper_number(f[0], 0, UINT32_MAX, &a->size)) {
        a->kind = HELPER_VARIABLE;
        a->id = (uint32_t)a->size;
        a->size = 0;
        a->name = f[1];
        a->type = f[2];
        a->text = f[3];
        return true;
    }
    a->type = f[0];
    a->text = f[3];
    return helper_address(f[1], &a->address) && helper_number(f[2], 0, UINT64_MAX, &a->size);
}

static bool take_fields(struct helper_reader *reader, struct helper_answer *a, char **f, int count)
{
    switch (a->kind) {
    case HELPER_OK:
    case HELPER_MEMORY:
        a->key = f[0];
        a->file = f[1];
        a->path = count > 2 ? f[2] : "";
        a->text = count > 2 ? f[3] : "";
        return true;
    case HELPER_FAILED:
        a->file = count > 1 ? f[0] : "";
        a->text = f[count - 1];
        return true;
    case HELPER_LAYOUT:
        a->text = f[1];
        return take_id(f[0], a);
    case HELPER_SITE:
        return take_site(f[0], a) && helper_address(f[1], &a->address) && take_id(f[2], a) &&
               take_code(reader, f[3], a);
    case HELPER_PARAMS:
        return take_site(f[0], a) && helper_address(f[1], &a->address) && take_code(reader, f[2], a);
    case HELPER_BLOCK:
        return take_id(f[0], a) && take_code(reader, f[1], a);
    case HELPER_PARAM_PROBLEM:
        a->text = f[2];
        return take_site(f[0], a) && helper_address(f[1], &a->address) && take_problem(f + 3, &a->problem);
    case HELPER_FUNCTION:
    case HELPER_LINES_ONLY:
        return helper_address(f[0], &a->address);
    case HELPER_MISSING:
    case HELPER_PROBLEM:
    case HELPER_UNPATCHED:
        a->text = f[1];
        return helper_address(f[0], &a->address);
    case HELPER_DONE:
        return true;
    case HELPER_VALUE:
        return take_value(f, a);
    case HELPER_VARIABLE: /* begins with the same word as a value */
        return false;
    case HELPER_WRITTEN:
        a->type = f[0];
        a->old = f[1];
        a->text = f[2];
        return true;
    case HELPER_PROCESS:
        a->name = f[1];
        a->text = f[2];
        return take_id(f[0], a);
    case HELPER_STACK:
        a->first = strcmp(f[2], "1") == 0;
        a->name = f[3];
        return take_id(f[0], a) && helper_number(f[1], 0, UINT32_MAX, &a->size);
    case HELPER_FRAME:
        a->type = f[0];
        a->name = f[1];
        a->file = f[2];
        a->path = f[4];
        return take_id(f[3], a);
    case HELPER_PLACE:
        return helper_address(f[0], &a->address) && helper_address(f[1], &a->size) && take_id(f[2], a);
    case HELPER_INLINED:
        a->name = f[0];
        a->file = f[1];
        return take_id(f[2], a) && helper_number(f[3], 0, UINT32_MAX, &a->size);
    case HELPER_PATCH:
        return helper_address(f[0], &a->address) && helper_address(f[1], &a->size) && helper_address(f[2], &a->stub) &&
               take_code(reader, f[3], a);
    }
    return false;
}

/* One line in reader->line: 1, 0: passed over, -EBADMSG. */
static int take_line(struct helper_reader *reader, struct helper_answer *ret_answer)
{
    char *fields[HELPER_FIELDS];
    int count = helper_split(reader->line.data, fields);
    bool known = false;
    if (count < 0)
        return -EBADMSG;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(fields[0], words[i].word) != 0)
            continue;
        known = true;
        if (count - 1 != words[i].fields)
            continue;
        struct helper_answer answer = {words[i].kind, "", "", "", "", "", "", ""};
        if (!take_fields(reader, &answer, fields + 1, count - 1))
            return reader->code.failed ? -ENOMEM : -EBADMSG;
        *ret_answer = answer;
        return 1;
    }
    return known ? -EBADMSG : 0;
}

int helper_next(struct helper_reader *reader, struct helper_answer *ret_answer, struct err *err)
{
    if (reader->bytes.failed)
        return err_set(err, -ENOMEM, "out of memory for the answer of scry-symbols");
    while (!reader->broken) {
        if (!reader->bytes.len)
            return 0;
        const char *from = reader->bytes.data + reader->taken;
        size_t len = reader->bytes.len - reader->taken;
        const char *newline = len ? memchr(from, '\n', len) : NULL;
        if (newline)
            len = (size_t)(newline - from);
        if (len > HELPER_LINE || (newline && memchr(from, 0, len)))
            break;
        if (!newline) {
            buf_drop(&reader->bytes, reader->taken);
            reader->taken = 0;
            return 0;
        }
        buf_clear(&reader->line);
        buf_append(&reader->line, from, len);
        reader->taken += len + 1;
        if (reader->line.failed || !buf_reserve(&reader->line, 1))
            return err_set(err, -ENOMEM, "out of memory for the answer of scry-symbols");
        reader->line.data[len] = 0;
        int r = take_line(reader, ret_answer);
        if (r == -ENOMEM)
            return err_set(err, r, "out of memory for the answer of scry-symbols");
        if (r > 0)
            return r;
        if (r < 0)
            break;
    }
    reader->broken = true;
    return err_set(err, -EBADMSG, "scry-symbols gave an answer that is not understood: is it of another version?");
}
