/* SPDX-License-Identifier: Apache-2.0 */
#include "python/python.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    FRAMES = 1 << 14,       /* of a thread; deeper ones are not timed */
    EXCEPTIONS_OF_CODE = 5, /* so many are told of each code */
};

struct watch_code {
    uint32_t generation;
    struct script_sum *sum;
    uint32_t file, function; /* texts */
    int first_line;
    struct script_sum **lines; /* from first_line on */
    uint32_t line_room;
    uint32_t exceptions;
    uint32_t active; /* calls that run, of the thread that is `owner` */
    struct watch_thread *owner;
};

struct watch_frame {
    struct watch_code *code;
    bool outermost; /* of that code */
    uint64_t begin, inner;
    struct script_sum *line;
    uint64_t line_begin;
};

struct watch_thread {
    struct watch_frame *frames; /* FRAMES; pages that are not used take no memory */
    uint32_t depth, beyond;     /* beyond: calls deeper than FRAMES */
    uint32_t generation;
    int32_t tid;
    uint64_t last;      /* when the current line's time was last added up */
    const void *raised; /* the exception that was told and is on its way; NULL: none. Only to compare */
    uint32_t raised_at; /* depth of the frame in which it is */
    uint32_t told_at;   /* and of that in which it was last told */
};

static bool codes_start(void);
static struct script_sum *code_line(struct watch_code *code, int line);
static struct script_sum *code_sum(struct watch_code *code);
static void watch_caught(struct watch_thread *self);

enum { RING = 64 << 10, TEXTS = 256 << 10, FUNCTIONS = 4096, LINES = 12288 };

struct watch watch;

static char directory[SCRIPT_PATH];
static pthread_key_t at_thread_end;
static __thread struct watch_thread *self_pointer __attribute__((tls_model("initial-exec")));

static inline uint64_t ticks(void)
{
    return __builtin_ia32_rdtsc();
}

/* Only one thread at a time writes them: it has the GIL. The reader may come at any time. */
static inline void add(_Atomic uint64_t *to, uint64_t more)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + more, memory_order_relaxed);
}

/* ---- the ring ---- */

static bool open_ring(void)
{
    int error;
    struct script_open open = {.directory = directory,
                               .language = "python",
                               .ring_size = RING,
                               .sum_count = FUNCTIONS + (watch.lines ? LINES : 0),
                               .texts_size = TEXTS,
                               .in_ticks = true};
    watch.writer = script_writer_open(&open, &error);
    if (!watch.writer) {
        watch.directory = NULL;
        return false;
    }
    watch.ring = script_writer_ring(watch.writer);
    watch.generation++;
    const char *version = py.Py_GetVersion ? py.Py_GetVersion() : "";
    script_put(watch.writer,
               &(struct script_event){.kind = SCRIPT_STARTED,
                                      .line = -1,
                                      .duration_ns = UINT64_MAX,
                                      .texts = {[SCRIPT_FILE] = {watch.program, (uint32_t)strlen(watch.program)},
                                                [SCRIPT_COMMAND] = {version, (uint32_t)strcspn(version, " ")}}});
    script_ring_bell(watch.writer);
    return true;
}

bool watch_renew(void)
{
    if (watch.writer && script_writer_mine(watch.writer))
        return true;
    watch.writer = NULL; /* the parent's page, which nobody needs any more */
    return watch.directory && open_ring();
}

static void end_thread(void *pointer)
{
    struct watch_thread *self = pointer;
    if (self->raised && watch.writer && self->generation == watch.generation)
        script_put(watch.writer,
                   &(struct script_event){
                       .kind = SCRIPT_EXCEPTION, .tid = self->tid, .duration_ns = UINT64_MAX, .status = SCRIPT_CAUGHT});
    self_pointer = NULL;
    munmap(self->frames, FRAMES * sizeof *self->frames + sizeof *self);
}

bool watch_start(const char *to, bool lines, struct py *program)
{
    const char *bytes;
    size_t size;
    struct py *text = py_text(program, &bytes, &size);
    if (text) {
        size = size < sizeof watch.program - 1 ? size : sizeof watch.program - 1;
        memcpy(watch.program, bytes, size);
        py.Py_DecRef(text);
    }
    if (strlen(to) >= sizeof directory || pthread_key_create(&at_thread_end, end_thread) != 0)
        return false;
    memcpy(directory, to, strlen(to) + 1);
    watch.directory = directory;
    watch.lines = lines;
    return open_ring() && codes_start();
}

void watch_refuse(const char *to, const char *reason)
{
    if (strlen(to) >= sizeof directory)
        return;
    memcpy(directory, to, strlen(to) + 1);
    watch.directory = directory;
    if (open_ring())
        watch_step_aside(reason);
    watch.directory = NULL;
}

void watch_step_aside(const char *reason)
{
    if (watch_ready()) {
        script_put(watch.writer,
                   &(struct script_event){.kind = SCRIPT_STEPPED_ASIDE,
                                          .line = -1,
                                          .duration_ns = UINT64_MAX,
                                          .texts = {[SCRIPT_FILE] = {watch.program, (uint32_t)strlen(watch.program)},
                                                    [SCRIPT_MESSAGE] = {reason, (uint32_t)strlen(reason)}}});
        script_ring_bell(watch.writer);
    }
}

/* ---- threads ---- */

static struct watch_thread *make_self(void)
{
    size_t frames = FRAMES * sizeof(struct watch_frame);
    char *memory = mmap(NULL, frames + sizeof(struct watch_thread), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        watch.directory = NULL; /* nothing is tried again, and again */
        watch.writer = NULL;
        return NULL;
    }
    struct watch_thread *self = (void *)(memory + frames);
    self->frames = (void *)memory;
    self->last = ticks();
    pthread_setspecific(at_thread_end, self);
    self_pointer = self;
    return self;
}

/* NULL: no memory. */
static struct watch_thread *watch_self(void)
{
    struct watch_thread *self = self_pointer ? self_pointer : make_self();
    if (self && self->generation != watch.generation) { /* it is new, or in a child of a fork */
        self->generation = watch.generation;
        self->tid = (int32_t)syscall(SYS_gettid);
        self->raised = NULL;
        for (uint32_t i = 0; i < self->depth; i++)
            self->frames[i].line = NULL;
    }
    return self;
}

void watch_go_on(void)
{
    struct watch_thread *self = watch_ready() ? watch_self() : NULL;
    if (!self)
        return;
    if (self->raised)
        watch_caught(self);
    while (self->depth)
        self->frames[--self->depth].code->active--;
    self->beyond = 0;
    script_put(watch.writer,
               &(struct script_event){.kind = SCRIPT_WENT_ON, .line = -1, .duration_ns = UINT64_MAX, .tid = self->tid});
}

/* ---- calls ---- */

/* The time until now belongs to the line that runs. */
static inline uint64_t pass(struct watch_thread *self)
{
    uint64_t now = ticks();
    if (watch.lines) {
        struct script_sum *line = self->depth ? self->frames[self->depth - 1].line : NULL;
        if (line)
            add(&line->self_ns, now - self->last);
        self->last = now;
    }
    return now;
}

void watch_enter(struct watch_code *code, bool counted)
{
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->raised && !self->depth)
        watch_caught(self);
    uint64_t now = pass(self);
    struct script_sum *sum = code_sum(code);
    if (counted)
        add(&sum->count, 1);
    if (self->depth == FRAMES) {
        self->beyond++;
        return;
    }
    struct watch_frame *frame = &self->frames[self->depth++];
    *frame = (struct watch_frame){.code = code, .begin = now, .outermost = !code->active || code->owner != self};
    if (!code->active)
        code->owner = self;
    code->active++;
}

static void end_line(struct watch_frame *frame, uint64_t now)
{
    if (frame->line)
        add(&frame->line->total_ns, now - frame->line_begin);
}

static void pop(struct watch_thread *self, uint64_t now)
{
    struct watch_frame *frame = &self->frames[--self->depth];
    struct script_sum *sum = code_sum(frame->code);
    uint64_t passed = now - frame->begin;
    end_line(frame, now);
    frame->code->active--;
    if (frame->outermost)
        add(&sum->total_ns, passed);
    add(&sum->self_ns, passed > frame->inner ? passed - frame->inner : 0);
    if (self->depth)
        self->frames[self->depth - 1].inner += passed;
}

/* Greenlets and frames that were there before us leave in another order than they came. */
static bool unwind_to(struct watch_thread *self, const struct watch_code *code, uint64_t now)
{
    uint32_t at = self->depth;
    while (at && self->frames[at - 1].code != code)
        at--;
    if (!at)
        return false;
    while (self->depth > at)
        pop(self, now);
    return true;
}

static void move_exception(struct watch_thread *self, bool failed)
{
    if (!failed && self->raised_at >= self->depth)
        watch_caught(self);
    else if (failed && self->raised_at == self->depth)
        self->raised_at--;
}

void watch_leave(struct watch_code *code, bool failed)
{
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->beyond) {
        self->beyond--;
        return;
    }
    uint64_t now = pass(self);
    if (!unwind_to(self, code, now))
        return;
    if (self->raised)
        move_exception(self, failed);
    if (failed)
        add(&code_sum(code)->failed, 1);
    pop(self, now);
    struct script_sum *line = self->depth ? self->frames[self->depth - 1].line : NULL;
    if (line)
        atomic_store_explicit(&watch.ring->now, script_sum_number(watch.writer, line), memory_order_relaxed);
}

void watch_line(struct watch_code *code, int number)
{
    struct watch_thread *self = watch_self();
    if (!self || self->beyond)
        return;
    if (!self->depth || self->frames[self->depth - 1].code != code) {
        if (!unwind_to(self, code, ticks()))
            watch_enter(code, false); /* it was there before us */
        if (!self->depth || self->frames[self->depth - 1].code != code)
            return;
    }
    struct watch_frame *frame = &self->frames[self->depth - 1];
    struct script_sum *line = code_line(code, number);
    uint64_t now = ticks();
    if (frame->line)
        add(&frame->line->self_ns, now - self->last);
    self->last = now;
    end_line(frame, now);
    frame->line = line;
    frame->line_begin = now;
    add(&line->count, 1);
    atomic_store_explicit(&watch.ring->now, script_sum_number(watch.writer, line), memory_order_relaxed);
}

/*
 * What is known of code objects: a table by their addresses. A weak reference says whether it is still the same object,
 * so none is kept alive. (CPython's own "extra" of code objects would do, but what one tool puts there makes Python
 * call the functions of all others when the object goes.)
 */

enum { LINES_MOST = 100000, FIRST_ROWS = 4096 };

struct row {
    const struct py *code;    /* NULL: free */
    struct py *alive;         /* weak reference */
    struct watch_code *known; /* NULL: of no interest */
};

static struct row *rows;
static size_t row_count, rows_used;
static char library[256]; /* "/usr/lib", below which .../python3.11/ is the standard library */

static size_t place_of(const struct py *code, size_t count)
{
    return (size_t)((uintptr_t)code / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (count - 1);
}

/* Its row, or the free one where it would be. */
static struct row *find(struct row *in, size_t count, const struct py *code)
{
    size_t at = place_of(code, count);
    while (in[at].code && in[at].code != code)
        at = (at + 1) & (count - 1);
    return &in[at];
}

/* At most half of the rows are used. */
static bool make_room(void)
{
    if (2 * (rows_used + 1) <= row_count)
        return true;
    size_t count = row_count ? 2 * row_count : FIRST_ROWS;
    struct row *grown = calloc(count, sizeof *grown);
    if (!grown)
        return false;
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].code)
            *find(grown, count, rows[i].code) = rows[i];
    free(rows);
    rows = grown;
    row_count = count;
    return true;
}

static void forget(struct row *row)
{
    struct watch_code *known = row->known;
    py.Py_DecRef(row->alive);
    row->alive = NULL;
    row->known = NULL;
    if (!known || known->active) /* frames of it are still noted: it must not be used again */
        return;
    free(known->lines);
    free(known);
}

static bool codes_start(void)
{
    const char *bytes;
    size_t size;
    struct py *prefix = py.PySys_GetObject("base_prefix"), *text = py_text(prefix, &bytes, &size);
    if (text && size < sizeof library - 8) {
        memcpy(library, bytes, size);
        memcpy(library + size, "/lib", sizeof "/lib");
    }
    if (text)
        py.Py_DecRef(text);
    return make_room();
}

static bool has(const char *bytes, size_t size, const char *part)
{
    return memmem(bytes, size, part, strlen(part)) != NULL;
}

static bool is_users(const char *file, size_t size)
{
    size_t start = strlen(library);
    if (has(file, size, "/site-packages/") || has(file, size, "/dist-packages/"))
        return false;
    if (size >= 7 && memcmp(file, "<frozen", 7) == 0)
        return false;
    if (size == 8 && memcmp(file, "<string>", 8) == 0 && watch.program[0]) /* what libraries make; else python -c */
        return false;
    return !start || size <= start || memcmp(file, library, start) != 0 || !has(file + start, size - start, "/python3");
}

/* threading.Thread's function around the one of the thread. */
static bool ends_threads(struct py *code)
{
    static const char wanted[] = "_bootstrap_inner";
    const char *bytes;
    size_t size;
    struct py *name = py_member(code, "co_name"), *text = py_text(name, &bytes, &size);
    bool is = text && size == sizeof wanted - 1 && memcmp(bytes, wanted, size) == 0;
    if (text)
        py.Py_DecRef(text);
    if (name)
        py.Py_DecRef(name);
    return is;
}

/* The names of its file and of itself, in the ring. false: it is of no interest. */
static bool keep_names(struct watch_code *known, struct py *code)
{
    const char *names[] = {"co_filename", py.minor >= 11 ? "co_qualname" : "co_name"};
    uint32_t *texts[] = {&known->file, &known->function};
    bool users = true;
    for (int i = 0; i < 2 && users; i++) {
        const char *bytes;
        size_t size;
        struct py *name = py_member(code, names[i]), *text = py_text(name, &bytes, &size);
        users = text && (i || is_users(bytes, size));
        *texts[i] = users ? script_text_keep(watch.writer, bytes, size) : 0;
        if (text)
            py.Py_DecRef(text);
        if (name)
            py.Py_DecRef(name);
    }
    known->generation = watch.generation;
    if (!users && ends_threads(code))
        watch.thread_end = code;
    return users;
}

static void fill(struct row *row, struct py *code)
{
    struct watch_code *known = NULL;
    struct py *alive = py.PyWeakref_NewRef(code, NULL);
    if (!alive) {
        py.PyErr_Clear();
        return;
    }
    known = calloc(1, sizeof *known);
    if (known && !keep_names(known, code)) {
        free(known);
        known = NULL;
    }
    if (known)
        known->first_line = py_member_int(code, "co_firstlineno");
    rows_used += !row->code;
    *row = (struct row){code, alive, known};
}

/* In a child of a fork the texts are in another ring. */
static void fill_again(struct watch_code *known, struct py *code)
{
    keep_names(known, code);
    known->sum = NULL;
    known->exceptions = 0;
    if (known->lines)
        memset(known->lines, 0, known->line_room * sizeof(struct script_sum *));
}

static struct watch_code *look_closely(struct py *code)
{
    struct py *type = NULL, *value = NULL, *traceback = NULL;
    py.PyErr_Fetch(&type, &value, &traceback);
    struct row *row = NULL;
    if (make_room()) {
        row = find(rows, row_count, code);
        if (row->alive && py.PyWeakref_GetObject(row->alive) != code)
            forget(row); /* another one lies there now */
        if (!row->alive)
            fill(row, code);
        else if (row->known)
            fill_again(row->known, code);
    }
    py.PyErr_Restore(type, value, traceback);
    return row ? row->known : NULL;
}

struct watch_code *watch_code_of(struct py *code)
{
    struct row *row = find(rows, row_count, code);
    if (row->code && row->alive && py.PyWeakref_GetObject(row->alive) == code &&
        (!row->known || row->known->generation == watch.generation))
        return row->known;
    return look_closely(code);
}

/* Where there is no room, all of them share one that nobody reads. */
static struct script_sum nowhere;

/* Makes the sums of this code, after a fork: again. NULL: no room. */
static struct script_sum *code_sum(struct watch_code *code)
{
    if (code->generation != watch.generation) /* it began before a fork: what is known of it is the parent's */
        return &nowhere;
    if (!code->sum) {
        code->sum = script_sum_new(watch.writer, SCRIPT_SUM_FUNCTION, code->file, code->function, code->first_line);
        if (!code->sum)
            code->sum = &nowhere;
    }
    return code->sum;
}

static struct script_sum *code_line(struct watch_code *code, int line)
{
    uint32_t index = (uint32_t)(line - code->first_line);
    if (line < code->first_line || index >= LINES_MOST)
        return &nowhere;
    if (index >= code->line_room) {
        uint32_t room = code->line_room ? code->line_room : 16;
        while (room <= index)
            room *= 2;
        struct script_sum **lines = reallocarray(code->lines, room, sizeof *lines);
        if (!lines)
            return &nowhere;
        memset(lines + code->line_room, 0, (room - code->line_room) * sizeof *lines);
        code->lines = lines;
        code->line_room = room;
    }
    if (!code->lines[index]) {
        struct script_sum *sum = script_sum_new(watch.writer, SCRIPT_SUM_LINE, code->file, code->function, line);
        code->lines[index] = sum ? sum : &nowhere;
    }
    return code->lines[index];
}

/*
 * Exceptions. Their text is made without calling anything of the program: what str() would return is taken from the
 * arguments where these are plain. An exception is told when it is raised, and once more when it is known whether it
 * was caught: when the function that it came to returns, or when Python reports it.
 */

enum { MESSAGE = SCRIPT_TEXT_MOST + 1, TOLD_FRAMES = 16 };

struct told {
    struct script_event event;
    struct script_frame frames[TOLD_FRAMES];
    struct py *kept[2 * TOLD_FRAMES + 1]; /* what the texts are in */
    unsigned kept_count;
    char message[MESSAGE + 64];
    size_t message_size;
};

static void say(struct told *told, const char *bytes, size_t size)
{
    size_t room = MESSAGE - told->message_size;
    size = size < room ? size : room;
    memcpy(told->message + told->message_size, bytes, size);
    told->message_size += size;
}

static void say_number(struct told *told, long number)
{
    char digits[24];
    size_t at = sizeof digits;
    unsigned long rest = number < 0 ? -(unsigned long)number : (unsigned long)number;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        digits[--at] = '-';
    say(told, digits + at, sizeof digits - at);
}

/* A str or an int, and nothing that is derived from them. */
static bool say_plain(struct told *told, struct py *value)
{
    const char *bytes;
    size_t size;
    if (py_is(value, py.string)) {
        struct py *text = py_text(value, &bytes, &size);
        if (!text)
            return false;
        say(told, bytes, size);
        py.Py_DecRef(text);
        return true;
    }
    if (!py_is(value, py.integer))
        return false;
    long number = py.PyLong_AsLong(value);
    if (number == -1)
        py.PyErr_Clear();
    say_number(told, number);
    return true;
}

/* What the class of the library, BaseException or OSError, has under that name, whatever the exception's own has. */
static struct py *own_member(struct py *class, const char *name, struct py *exception)
{
    struct py *descriptor = py_member(*(struct py **)(void *)class, name);
    struct py *found = descriptor ? py.PyObject_CallMethod(descriptor, "__get__", "O", exception) : NULL;
    if (!found)
        py.PyErr_Clear();
    if (descriptor)
        py.Py_DecRef(descriptor);
    return found;
}

static void say_file_name(struct told *told, struct py *exception)
{
    struct py *name = own_member(py.os_error, "filename", exception); /* NULL: it is none of these */
    if (name && py_is(name, py.string)) {
        say(told, ": '", 3);
        say_plain(told, name);
        say(told, "'", 1);
    }
    if (name)
        py.Py_DecRef(name);
}

/* Of a child, as subprocess has it: a str, or a list of such. */
static bool say_command(struct told *told, struct py *command)
{
    bool list = py_is(command, py.list);
    ssize_t count = list ? py.PyList_Size(command) : 1;
    if (!list && !py_is(command, py.string))
        return false;
    say(told, "Command '", 9);
    say(told, "[", list);
    for (ssize_t i = 0; i < count && told->message_size < MESSAGE; i++) {
        struct py *word = list ? py.PyList_GetItem(command, i) : command; /* borrowed */
        say(told, ", ", i ? 2 : 0);
        say(told, "'", list);
        if (!word || !say_plain(told, word))
            say(told, "...", 3);
        say(told, "'", list);
    }
    py.PyErr_Clear();
    say(told, "]", list);
    say(told, "'", 1);
    return true;
}

/* subprocess.CalledProcessError and TimeoutExpired make their texts of these. */
static void say_child(struct told *told, const char *class, struct py *first, struct py *second)
{
    if (strcmp(class, "CalledProcessError") == 0 && py_is(first, py.integer)) {
        long status = py.PyLong_AsLong(first);
        if (status == -1)
            py.PyErr_Clear();
        if (!say_command(told, second))
            return;
        say(told, status < 0 ? " died with signal " : " returned non-zero exit status ", status < 0 ? 18 : 31);
        say_number(told, status < 0 ? -status : status);
    } else if (strcmp(class, "TimeoutExpired") == 0 && say_command(told, first)) {
        say(told, " timed out", 10);
    }
}

static void say_message(struct told *told, struct py *exception, const char *class)
{
    if (py_is(exception, py.string)) { /* it is not made yet: its only argument */
        say_plain(told, exception);
        return;
    }
    if (py.PyObject_IsInstance(exception, *(struct py **)(void *)py.exception) != 1) {
        py.PyErr_Clear();
        return;
    }
    struct py *arguments = own_member(py.exception, "args", exception);
    if (!arguments)
        return;
    ssize_t count = py.PyTuple_Size(arguments);
    struct py *first = count > 0 ? py.PyTuple_GetItem(arguments, 0) : NULL;
    struct py *second = count > 1 ? py.PyTuple_GetItem(arguments, 1) : NULL;
    if (count == 1)
        say_plain(told, first);
    else if (second && py_is(first, py.integer) && py_is(second, py.string)) { /* as of OSError */
        say(told, "[Errno ", 7);
        say_plain(told, first);
        say(told, "] ", 2);
        say_plain(told, second);
        say_file_name(told, exception);
    } else if (second) {
        say_child(told, class, first, second);
    }
    py.Py_DecRef(arguments);
}

static struct script_text keep(struct told *told, struct py *owner, const char *name)
{
    struct script_text found = {0};
    const char *bytes;
    size_t size;
    struct py *value = py_member(owner, name), *text = py_text(value, &bytes, &size);
    if (value)
        py.Py_DecRef(value);
    if (text) {
        found = (struct script_text){bytes, (uint32_t)size};
        told->kept[told->kept_count++] = text;
    }
    return found;
}

static void forget_frame(struct told *told)
{
    for (unsigned i = 0; i < told->kept_count; i++)
        py.Py_DecRef(told->kept[i]);
    told->kept_count = 0;
}

static void add_frame(struct told *told, struct py *frame, int line)
{
    struct py *code = py_member(frame, "f_code");
    if (!code)
        return;
    struct script_frame *next = &told->frames[told->event.frame_count++];
    next->file = keep(told, code, "co_filename");
    next->function = keep(told, code, py.minor >= 11 ? "co_qualname" : "co_name");
    next->line = line;
    py.Py_DecRef(code);
}

/* From the frame outwards. */
static void add_stack(struct told *told, int line)
{
    struct py *frame = py.PyEval_GetFrame();
    if (frame)
        py.Py_IncRef(frame);
    while (frame && told->event.frame_count < TOLD_FRAMES) {
        add_frame(told, frame, line >= 0 ? line : py_member_int(frame, "f_lineno"));
        line = -1;
        struct py *back = py_member(frame, "f_back");
        py.Py_DecRef(frame);
        frame = back;
        if (frame == py.none) {
            py.Py_DecRef(frame);
            frame = NULL;
        }
    }
    if (frame)
        py.Py_DecRef(frame);
}

/* What a worker of a pool raised is raised again by the one who waits for it, and has as its cause the worker's traceback, as text: the
 * frames of that come first. */
static void add_remote(struct told *told, struct py *exception)
{
    static const char head[] = "Traceback (most recent call last)", open[] = "  File \"", middle[] = "\", line ",
                      in[] = ", in ";
    const char *lines[TOLD_FRAMES], *bytes;
    size_t size, count = 0;
    struct py *cause = own_member(py.exception, "__cause__", exception);
    struct py *type = cause && cause != py.none ? py.PyObject_Type(cause) : NULL;
    bool remote = type && py.PyObject_IsInstance(cause, *(struct py **)(void *)py.exception) == 1 &&
                  strstr(py.PyExceptionClass_Name(type), "RemoteTraceback");
    struct py *arguments = remote ? own_member(py.exception, "args", cause) : NULL;
    struct py *first = arguments && py.PyTuple_Size(arguments) == 1 ? py.PyTuple_GetItem(arguments, 0) : NULL;
    struct py *text = first && py_is(first, py.string) ? py_text(first, &bytes, &size) : NULL;
    py.PyErr_Clear();
    if (arguments)
        py.Py_DecRef(arguments);
    if (type)
        py.Py_DecRef(type);
    if (cause)
        py.Py_DecRef(cause);
    if (!text)
        return;
    told->kept[told->kept_count++] = text;
    for (const char *at = bytes, *end; at; at = end ? end + 1 : NULL) { /* a bytes object ends with a zero */
        end = strchr(at, '\n');
        if (strncmp(at, head, sizeof head - 1) == 0)
            count = 0; /* of several the last is the one that came to the end */
        else if (strncmp(at, open, sizeof open - 1) == 0)
            lines[count++ % TOLD_FRAMES] = at;
    }
    for (size_t i = 0; i < count && i < TOLD_FRAMES; i++) {
        const char *file = lines[(count - 1 - i) % TOLD_FRAMES] + sizeof open - 1;
        const char *end = strchrnul(file, '\n'),
                   *number = memmem(file, (size_t)(end - file), middle, sizeof middle - 1);
        const char *function = number ? memmem(number, (size_t)(end - number), in, sizeof in - 1) : NULL;
        if (!function)
            continue;
        struct script_frame *next = &told->frames[told->event.frame_count++];
        *next = (struct script_frame){
            .file = {file, (uint32_t)(number - file)},
            .function = {function + sizeof in - 1, (uint32_t)(end - function - (ssize_t)sizeof in + 1)},
            .line = atoi(number + sizeof middle - 1)};
    }
}

/* A traceback has the outermost first: the last ones, the other way round. */
static void add_traceback(struct told *told, struct py *traceback)
{
    struct py *last[TOLD_FRAMES] = {0};
    unsigned count = 0;
    if (traceback)
        py.Py_IncRef(traceback);
    while (traceback && traceback != py.none) {
        struct py **place = &last[count++ % TOLD_FRAMES];
        if (*place)
            py.Py_DecRef(*place);
        *place = traceback;
        traceback = py_member(traceback, "tb_next");
    }
    if (traceback)
        py.Py_DecRef(traceback);
    for (unsigned i = 0; i < count && i < TOLD_FRAMES; i++) {
        struct py *one = last[(count - 1 - i) % TOLD_FRAMES], *frame = py_member(one, "tb_frame");
        if (frame && told->event.frame_count < TOLD_FRAMES)
            add_frame(told, frame, py_member_int(one, "tb_lineno"));
        if (frame)
            py.Py_DecRef(frame);
        py.Py_DecRef(one);
    }
}

static void fill_told(struct told *told, struct py *exception, struct py *type, enum script_caught caught, int32_t tid)
{
    const char *name = py.PyExceptionClass_Name(type);
    say_message(told, exception, name);
    told->event.kind = SCRIPT_EXCEPTION;
    told->event.tid = tid;
    told->event.status = caught;
    told->event.duration_ns = UINT64_MAX;
    told->event.frames = told->frames;
    told->event.line = told->event.frame_count ? told->frames[0].line : -1;
    told->event.texts[SCRIPT_FILE] = told->frames[0].file;
    told->event.texts[SCRIPT_FUNCTION] = told->frames[0].function;
    told->event.texts[SCRIPT_COMMAND] = (struct script_text){name, (uint32_t)strlen(name)};
    told->event.texts[SCRIPT_MESSAGE] = (struct script_text){told->message, (uint32_t)told->message_size};
}

/* Those with which Python ends loops and programs. */
static bool is_ordinary(const char *name)
{
    static const char *const ordinary[] = {"StopIteration", "StopAsyncIteration", "GeneratorExit", "SystemExit"};
    for (size_t i = 0; i < sizeof ordinary / sizeof *ordinary; i++)
        if (strcmp(name, ordinary[i]) == 0)
            return true;
    return false;
}

static void end_raised(struct watch_thread *self, enum script_caught caught)
{
    self->raised = NULL;
    script_put(watch.writer,
               &(struct script_event){
                   .kind = SCRIPT_EXCEPTION, .tid = self->tid, .duration_ns = UINT64_MAX, .status = (int32_t)caught});
}

/* The exception on its way was handled. */
static void watch_caught(struct watch_thread *self)
{
    end_raised(self, SCRIPT_CAUGHT);
}

void watch_passed(const struct py *code, struct py *exception)
{
    struct watch_thread *self = code == watch.thread_end && watch_ready() ? watch_self() : NULL;
    if (self && self->raised == exception)
        end_raised(self, SCRIPT_UNCAUGHT);
}

void watch_unraisable(void)
{
    struct watch_thread *self = watch_ready() ? watch_self() : NULL;
    if (self && self->raised && !self->raised_at)
        end_raised(self, SCRIPT_UNCAUGHT);
}

static void tell(struct py *exception, struct py *type, int line, struct watch_thread *self)
{
    struct told told;
    memset(&told, 0, offsetof(struct told, message));
    told.message_size = 0;
    add_stack(&told, line);
    fill_told(&told, exception, type, SCRIPT_RAISED, self->tid);
    if (script_put(watch.writer, &told.event))
        self->raised = exception;
    forget_frame(&told);
}

void watch_raised(struct watch_code *code, int line, struct py *exception, struct py *type)
{
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->raised == exception && self->depth < self->told_at) { /* not another one in the same memory */
        self->raised_at = self->told_at = self->depth;
        return;
    }
    struct py *types[3] = {0};
    py.PyErr_Fetch(&types[0], &types[1], &types[2]);
    if (self->raised)
        watch_caught(self);
    if (code->exceptions < EXCEPTIONS_OF_CODE && !is_ordinary(py.PyExceptionClass_Name(type))) {
        code->exceptions++;
        self->raised_at = self->told_at = self->depth;
        tell(exception, type, line, self);
    }
    py.PyErr_Restore(types[0], types[1], types[2]);
}

void watch_uncaught(struct py *type, struct py *exception, struct py *traceback)
{
    struct told told;
    struct watch_thread *self = watch_self();
    if (!self)
        return;
    if (self->raised && self->raised != exception)
        watch_caught(self);
    memset(&told, 0, offsetof(struct told, message));
    told.message_size = 0;
    add_remote(&told, exception); /* its frames stand further in */
    add_traceback(&told, traceback);
    fill_told(&told, exception, type, SCRIPT_UNCAUGHT, self->tid);
    self->raised = NULL; /* the reader has it once */
    script_put(watch.writer, &told.event);
    script_ring_bell(watch.writer);
    forget_frame(&told);
}
