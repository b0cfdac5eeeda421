/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about crashed processes: their core files, and backtraces, taken live (--crash-stack) or from core
 * files; else the innermost function, by the kernel's log. */
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/process.h"
#include "job/launch/program.h"
#include "job/places/sandboxed_child.h"
#include "job/run/job.h"
#include "job/run/kernel_log.h"
#include "job/run/reason.h"
#include "job/run/said_stack.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/index/core.h"
#include "symbols/index/lines.h"

enum {
    FRAMES_KEPT = 64, /* of a crash, with inlined ones */
    CRASHES_EXPLAINED = 5,
    SAID_MOST = 1 << 20, /* bytes of standard error that are looked at, the last ones */
};

/* ---- where the kernel left the core file ---- */

/* Expands the specifiers of core_pattern; unknown ones match anything. */
static void expand_pattern(struct buf *out, const char *pattern, pid_t pid, const char *name, int signo)
{
    for (; *pattern; pattern++) {
        if (*pattern != '%') {
            if (strchr("*?[\\", *pattern))
                buf_putc(out, '\\');
            buf_putc(out, *pattern);
            continue;
        }
        switch (*++pattern) {
        case 0:
            return;
        case '%':
            buf_putc(out, '%');
            break;
        case 'p':
            buf_printf(out, "%d", pid);
            break;
        case 's':
            buf_printf(out, "%d", signo);
            break;
        case 'u':
            buf_printf(out, "%u", getuid());
            break;
        case 'e':
            buf_puts(out, name);
            break;
        default:
            buf_putc(out, '*');
        }
    }
}

static void find_newest(const char *pattern, time_t since, char **ret_path)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    time_t best = since;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct stat st;
        if (stat(found.gl_pathv[i], &st) < 0 || !S_ISREG(st.st_mode) || st.st_mtime < best)
            continue;
        best = st.st_mtime;
        free(*ret_path);
        *ret_path = strdup(found.gl_pathv[i]);
    }
    globfree(&found);
}

static void put_escaped(struct buf *out, const char *path)
{
    for (; *path; path++) {
        if (strchr("*?[\\", *path))
            buf_putc(out, '\\');
        buf_putc(out, *path);
    }
}

/* Where the kernel left the core file of a process (core_pattern(5)): *ret_path is malloc'ed, or NULL with a text for
 * people in `note` ("the core went to ...", or ""). Files older than `since` belong to others. */
static void find_core(pid_t pid, const char *name, const char *cwd, int signo, time_t since, char **ret_path,
                      char *note, size_t note_size)
{
    _cleanup_(freep) char *pattern = NULL, *with_pid = NULL;
    *ret_path = NULL;
    *note = 0;
    if (file_read("/proc/sys/kernel/core_pattern", &pattern, NULL) < 0)
        return;
    pattern[strcspn(pattern, "\n")] = 0;
    if (*pattern == '|') {
        snprintf(note, note_size, "the core went to %.*s%s", (int)strcspn(pattern + 1, " "), pattern + 1,
                 strstr(pattern, "systemd-coredump") ? ": see `coredumpctl info`" : "");
        return;
    }
    _cleanup_(buf_done) struct buf glob_pattern = BUF_INIT;
    if (*pattern != '/') {
        put_escaped(&glob_pattern, cwd);
        buf_putc(&glob_pattern, '/');
    }
    expand_pattern(&glob_pattern, pattern, pid, name, signo);
    if (glob_pattern.failed)
        return;
    if (!strstr(pattern, "%p") && file_read("/proc/sys/kernel/core_uses_pid", &with_pid, NULL) == 0 &&
        with_pid[0] == '1')
        buf_printf(&glob_pattern, ".%d", pid);
    if (!glob_pattern.failed)
        find_newest(glob_pattern.data, since, ret_path);
}

/* ---- from addresses to frames, in the child ---- */

static json_t *frame_json(uint64_t pc, const char *module, const struct line_frame *frame)
{
    json_t *json = json_pack("{s:I}", "pc", (json_int_t)pc);
    if (module)
        json_object_set_new(json, "module", text_json(module));
    if (frame && frame->function)
        json_object_set_new(json, "function", text_json(frame->function));
    if (frame && frame->file && frame->line) {
        json_object_set_new(json, "file", text_json(frame->file));
        json_object_set_new(json, "line", json_integer(frame->line));
    }
    return json;
}

static void add_frames(json_t *list, uint64_t pc, const struct line_location *where)
{
    if (where->count == 0)
        json_array_append_new(list, frame_json(pc, where->module, NULL));
    for (size_t i = 0; i < where->count && json_array_size(list) < FRAMES_KEPT; i++)
        json_array_append_new(list, frame_json(pc, where->module, &where->frames[i]));
}

/* Of one call of the interpreter: from frame `from` on. Returns the number of the next one. */
static size_t add_python(json_t *list, uint64_t pc, const struct stacks_entry *entry, size_t from)
{
    while (from < entry->python_count && json_array_size(list) < FRAMES_KEPT) {
        const struct stacks_python *frame = &entry->python[from++];
        json_t *json = json_pack("{s:I, s:s, s:o, s:o}", "pc", (json_int_t)pc, "language", "python", "function",
                                 text_json(frame->function), "file", text_json(frame->file));
        if (frame->line >= 0)
            json_object_set_new(json, "line", json_integer(frame->line));
        json_array_append_new(list, json);
        if (frame->entry)
            break;
    }
    return from;
}

/* Parts of it may be inlined there, and parts of it stand apart (.cold). */
static bool is_interpreter(const struct line_location *where)
{
    static const char name[] = "_PyEval_EvalFrameDefault";
    for (size_t i = 0; i < where->count; i++)
        if (where->frames[i].function && strncmp(where->frames[i].function, name, strlen(name)) == 0)
            return true;
    return false;
}

struct core_task {
    const char *path;
    pid_t pid;
};

/* What explain_fault() needs. */
static void put_fault(json_t *found, uint64_t address, uint64_t sp)
{
    json_object_set_new(found, "address", json_integer((json_int_t)address));
    json_object_set_new(found, "sp", json_integer((json_int_t)sp));
}

static json_t *read_core(const void *ctx)
{
    const struct core_task *task = ctx;
    struct core *core;
    struct err err = {0};
    if (core_read(&core, task->path, NULL, &err) < 0)
        return json_pack("{s:o}", "note", text_json(err.text));
    if (core->pid != task->pid) /* it belongs to another process */
        return json_pack("{s:b}", "other", 1);
    json_t *list = json_array();
    for (size_t i = 0; core->count && i < core->threads[0].count && json_array_size(list) < FRAMES_KEPT; i++)
        add_frames(list, core->threads[0].frames[i].pc, &core->threads[0].frames[i].where);
    json_t *found = json_pack("{s:o}", "frames", list);
    if (core->faulted)
        put_fault(found, core->fault_addr, core->sp);
    if (core->code)
        json_object_set_new(found, "code", json_integer(core->code));
    return found;
}

/* The difference between the addresses in memory and in the file, from where the code lies and where the file wants it.
 */
static bool module_bias(const struct stacks_module *module, uint64_t *ret_bias)
{
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    _cleanup_(closep) int fd = open(module->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &header, sizeof header, 0) != sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof segment)
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, at) != sizeof segment)
            return false;
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
            continue;
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        *ret_bias = (module->code_start - segment.p_vaddr + page - 1) & ~(page - 1);
        return true;
    }
    return false;
}

static json_t *resolve_stack(const void *ctx)
{
    const struct stacks_entry *entry = ctx;
    struct lines_module modules[STACKS_MODULES];
    struct lines *lines = NULL;
    size_t count = 0, python = 0;
    for (size_t i = 0; i < entry->module_count; i++) {
        modules[count].path = entry->modules[i].path;
        count += module_bias(&entry->modules[i], &modules[count].bias);
    }
    if (lines_open_modules(&lines, modules, count, NULL) < 0)
        lines = NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < entry->frame_count && json_array_size(list) < FRAMES_KEPT; i++) {
        struct line_location where = {0};
        uint64_t pc = entry->frames[i];
        if (lines)
            lines_find(lines, i ? pc - 1 : pc, &where);
        if (python < entry->python_count && is_interpreter(&where))
            python = add_python(list, pc, entry, python);
        else
            add_frames(list, pc, &where);
        line_location_done(&where);
    }
    if (entry->frame_count) /* the way to the interpreter, or further out, is not known, but its functions are */
        while (python < entry->python_count && json_array_size(list) < FRAMES_KEPT)
            python = add_python(list, entry->frames[entry->frame_count - 1], entry, python);
    lines_close(lines);
    json_t *found = json_pack("{s:o}", "frames", list);
    if (entry->faulted)
        put_fault(found, entry->address, entry->sp);
    if (entry->code)
        json_object_set_new(found, "code", json_integer(entry->code));
    return found;
}

struct logged_task {
    const struct logged *logged;
    const struct recorder_crash *crash;
    const char *jobdir;
    uint64_t began_ns; /* its process; CLOCK_REALTIME */
};

/* Whether it is the file that the log means. Then what is there comes into `found`. */
static bool put_logged(json_t *found, const struct logged_task *task, const char *candidate)
{
    static const uint8_t traps[][LOGGED_INSTRUCTION] = {{0x0f, 0x0b}, {0x0f, 0xb9}, {0x0f, 0xff}};
    const struct logged *logged = task->logged;
    uint8_t instruction[LOGGED_INSTRUCTION];
    struct line_location where = {0};
    struct lines *lines;
    char path[PATH_MAX];
    struct lines_module module = {.path = path};
    if (!*candidate || !realpath(candidate, path) ||
        !logged_is_of(logged, path, task->began_ns, &module.bias, instruction))
        return false;
    json_t *list = json_array();
    if (lines_open_modules(&lines, &module, 1, NULL) == 0) {
        lines_find(lines, logged->ip, &where);
        lines_close(lines);
    }
    add_frames(list, logged->ip, &where);
    line_location_done(&where);
    json_object_set_new(found, "frames", list);
    bool trap = false;
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++)
        trap |= memcmp(instruction, traps[i], LOGGED_INSTRUCTION) == 0;
    if (logged->signo == SIGILL)
        json_object_set_new(found, "reason",
                            json_string(trap ? "a trap that the compiler put there"
                                             : "an instruction that this processor does not have"));
    return true;
}

/* One of the libraries of its name in which samples were. */
static bool put_logged_sampled(json_t *found, const struct logged_task *task)
{
    struct sampled *sampled;
    const char *tried = "";
    bool put = false;
    if (!*task->jobdir || sampled_read(&sampled, task->jobdir, false) < 0)
        return false;
    for (size_t i = 0; i < sampled->count && !put; i++) {
        const char *module = sampled->functions[i].module;
        if (strcmp(module, tried) == 0 || strcmp(text_base(module), task->logged->file) != 0)
            continue;
        tried = module;
        put = put_logged(found, task, module);
    }
    sampled_free(sampled);
    return put;
}

/* Beside its script, or another file that its command names. */
static bool put_logged_beside(json_t *found, const struct logged_task *task)
{
    size_t index;
    json_t *word;
    const char *cwd = task->crash->cwd;
    json_array_foreach(task->crash->argv, index, word)
    {
        char path[PATH_MAX];
        const char *text = json_string_value(word), *slash = text ? strrchr(text, '/') : NULL;
        bool whole = text && *text == '/';
        if (!text || (!whole && !cwd))
            continue;
        int len = snprintf(path, sizeof path, "%s%s%.*s%s", whole ? "" : cwd, whole ? "" : "/",
                           slash ? (int)(slash + 1 - text) : 0, text, task->logged->file);
        if (len > 0 && (size_t)len < sizeof path && put_logged(found, task, path))
            return true;
    }
    return false;
}

/* The log has the name of the file only: it is the program, or lies where programs or libraries are looked for. */
static json_t *resolve_logged(const void *ctx)
{
    const struct logged_task *task = ctx;
    const char *name = task->logged->file;
    struct program program, other;
    char library[PATH_MAX];
    json_t *found = json_object();
    program_look(&program, task->crash->program ? task->crash->program : name);
    if (put_logged(found, task, program.path))
        return found;
    program_look(&other, name);
    program_library(&program, name, library, sizeof library);
    if (!put_logged(found, task, other.path) && !put_logged(found, task, library) && !put_logged_sampled(found, task) &&
        !put_logged_beside(found, task) && *name)
        json_object_set_new(found, "frames", json_pack("[o]", frame_json(task->logged->ip, name, NULL)));
    return found;
}

/* ---- what its handler of signals said ---- */

struct said_task {
    struct job_output output; /* standard error */
    pid_t pid;
    const char *host, *cwd;
    uint64_t began_ns; /* its process; CLOCK_REALTIME */
};

/* What of its end is the job's. */
static char *read_said(const struct job_output *output, size_t *ret_len)
{
    struct stat st;
    _cleanup_(closep) int fd = open(output->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_ino != output->inode)
        return NULL;
    uint64_t end = output->until < (uint64_t)st.st_size ? output->until : (uint64_t)st.st_size;
    uint64_t from = end > SAID_MOST && end - SAID_MOST > output->from ? end - SAID_MOST : output->from;
    char *text = from < end ? malloc((size_t)(end - from)) : NULL;
    ssize_t got = text ? pread(fd, text, (size_t)(end - from), (off_t)from) : -1;
    *ret_len = got > 0 ? (size_t)got : 0;
    return text;
}

/* Its absolute path in *inout_frame, and where it lies, if that is known, and it is older than the process. */
static bool place_said(struct said_frame *inout_frame, const struct said_frame *frames, size_t count,
                       const struct said_task *task)
{
    Elf64_Ehdr header;
    struct stat st;
    char path[2 * PATH_MAX];
    for (size_t i = 0; i < count && !inout_frame->based; i++)
        if (frames[i].based && strcmp(frames[i].module, inout_frame->module) == 0) {
            inout_frame->based = true;
            inout_frame->bias = frames[i].bias;
        }
    snprintf(path, sizeof path, "%s/%s", *inout_frame->module == '/' ? "" : task->cwd, inout_frame->module);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !realpath(path, inout_frame->module) || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        (uint64_t)st.st_ctim.tv_sec * NS_PER_SECOND + (uint64_t)st.st_ctim.tv_nsec >= task->began_ns ||
        pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    return header.e_type == ET_EXEC || inout_frame->based;
}

static json_t *resolve_said(const void *ctx)
{
    const struct said_task *task = ctx;
    size_t len, count = 0;
    _cleanup_(freep) char *text = read_said(&task->output, &len);
    _cleanup_(freep) struct said_frame *frames = calloc(SAID_FRAMES, sizeof *frames);
    if (text && frames)
        count = said_stack_parse(text, len, task->host, task->pid, frames);
    json_t *list = json_array();
    for (size_t i = 0; i < count && json_array_size(list) < FRAMES_KEPT; i++) {
        struct said_frame frame = frames[i];
        struct line_location where = {0};
        struct lines *lines;
        bool placed = place_said(&frame, frames, count, task);
        const struct lines_module module = {frame.module, frame.bias};
        if (placed && lines_open_modules(&lines, &module, 1, NULL) == 0) {
            lines_find(lines, i ? frame.address - 1 : frame.address, &where);
            lines_close(lines);
        }
        const struct line_frame named = {.function = *frame.symbol ? frame.symbol : NULL};
        if (where.module)
            add_frames(list, frame.address, &where);
        else
            json_array_append_new(list, frame_json(frame.address, frame.module, &named));
        line_location_done(&where);
    }
    return json_pack("{s:o}", "frames", list);
}

/* ---- crashes ---- */

static void explain_core(const struct job *job, json_t *crash, pid_t pid)
{
    _cleanup_(freep) char *core = NULL;
    char note[256];
    const char *name = json_string_value(json_object_get(crash, "name"));
    int signo = (int)json_integer_value(json_object_get(crash, "signal"));
    find_core(pid, name ? name : "*", job->cwd, signo, (time_t)(job->info.started_ns / NS_PER_SECOND), &core, note,
              sizeof note);
    if (*note)
        json_object_set_new(crash, "note", text_json(note));
    if (!core)
        return;
    struct core_task task = {.path = core, .pid = pid};
    json_t *found = sandboxed_child_run(read_core, &task, CRASH_TIMEOUT_MS);
    if (!json_object_get(found, "other"))
        json_object_set_new(crash, "core", text_json(core));
    json_object_del(found, "other");
    json_object_update(crash, found);
    json_decref(found);
}

static const char *traced_value(const char *process, const char *key)
{
    const char *at = strstr(process, key);
    return at ? at + strlen(key) : "0";
}

/* The si_code of its signal, and the address, as the trace's .process has them (jobdir/trace/trace.h). */
static void take_traced(json_t *crash, const char *trace)
{
    char path[PATH_MAX + 16];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof path, "%s/.process", trace);
    if (file_read_plain(path, &text, NULL) < 0)
        return;
    siginfo_t info = {.si_signo = atoi(traced_value(text, "\ncrash_signal\t")),
                      .si_code = atoi(traced_value(text, "\ncrash_code\t"))};
    if (info.si_code <= 0 || info.si_signo != json_integer_value(json_object_get(crash, "signal")))
        return;
    json_object_set_new(crash, "code", json_integer(info.si_code));
    if (siginfo_has_address(&info))
        put_fault(crash, strtoull(traced_value(text, "\ncrash_address\t"), NULL, 16), 0);
}

/* Its traces, or those of all (0). false: there are none, or it is not known. Pass *ret_found to globfree. */
static bool find_traces(const struct job *job, pid_t pid, glob_t *ret_found)
{
    char pattern[PATH_MAX + 64], number[16] = "*";
    *ret_found = (glob_t){0};
    if (strpbrk(job->dir, "*?[\\"))
        return false;
    if (pid)
        snprintf(number, sizeof number, "%d", pid);
    snprintf(pattern, sizeof pattern, "%s/trace/*/%s-*", job->dir, number);
    return glob(pattern, 0, NULL, ret_found) == 0;
}

bool crash_any_traced(const struct job *job)
{
    glob_t found;
    bool traced = find_traces(job, 0, &found) || strpbrk(job->dir, "*?[\\");
    globfree(&found);
    return traced;
}

/* Whether it was traced. */
static bool explain_traced(const struct job *job, json_t *crash, pid_t pid)
{
    glob_t found;
    bool traced = find_traces(job, pid, &found);
    for (size_t i = 0; i < found.gl_pathc && traced; i++)
        take_traced(crash, found.gl_pathv[i]);
    globfree(&found);
    return traced;
}

/* Whether it is a program of gfortran, whose library says of each fault "Program received signal SIGSEGV", and where that was; but it has
 * not, though that would have been read: it had no stack left to say so. The kernel's log has nothing of what a handler is to deal with. */
static bool is_speechless(const struct job *job, const char *path)
{
    static const char received[] = "Program received signal SIG";
    const struct layers *layers = &job->recorder.model.layers;
    const struct layer_last *output;
    struct program program;
    size_t index;
    const json_t *record;
    HASH_FIND_STR(layers->log_files, "stderr", output);
    const char *state = output ? json_string_value(json_object_get(output->record, "state")) : NULL;
    if (!path || !state || strcmp(state, "watched") != 0)
        return false;
    json_array_foreach(layers->logs.records, index, record)
    {
        const char *text = json_string_value(json_object_get(record, "text"));
        if (text && strstr(text, received))
            return false;
    }
    program_look(&program, path);
    return program.gfortran;
}

/* The limit is of the stack of its first thread, which lies above all else; others may have stacks of another size. */
static void put_overflow(const struct job *job, json_t *crash, bool probable)
{
    static const json_int_t first_stack = 0x7ffc00000000;
    bool first = probable || json_integer_value(json_object_get(crash, "address")) >= first_stack;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_printf(&text, "%s" REASON_STACK, probable ? "probably a " : "");
    if (first && job->limits.stack_bytes > 0) {
        buf_puts(&text, " (its stack may have ");
        text_size(&text, (uint64_t)job->limits.stack_bytes);
        buf_puts(&text, ": ulimit -s)");
    }
    json_object_set_new(crash, "reason", text_json(text.data ? text.data : REASON_STACK));
}

/* The log has the thread's number: those of the process that were sampled are known. */
static bool find_logged_thread(const struct job *job, pid_t pid, uint64_t since_ns, uint64_t until_ns,
                               struct logged *ret_logged)
{
    struct sampled *sampled;
    if (!job->dir[0] || sampled_read(&sampled, job->dir, false) < 0)
        return false;
    _cleanup_(freep) struct logged_thread *threads = calloc(sampled->thread_count + 1, sizeof *threads);
    size_t count = 0;
    for (size_t i = 0; threads && i < sampled->thread_count; i++) {
        const struct sampled_thread *thread = &sampled->threads[i];
        if (sampled->processes[thread->process].pid == pid && thread->tid != pid)
            threads[count++] = (struct logged_thread){(pid_t)thread->tid, thread->name};
    }
    bool found = count && logged_find(ret_logged, threads, count, since_ns, until_ns);
    sampled_free(sampled);
    return found;
}

static uint64_t seconds_ns(double seconds)
{
    return seconds > 0 ? (uint64_t)(seconds * NS_PER_SECOND) : 0; /* the command is forked before it is begun */
}

/* Of the time in which it lived. */
static bool find_logged(const struct job *job, const json_t *crash, const struct recorder_crash *more,
                        struct logged *ret_logged)
{
    pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
    const struct logged_thread first = {pid, json_string_value(json_object_get(crash, "name"))};
    uint64_t start_ns = job->recorder.start_ns, since_ns = start_ns + seconds_ns(more->start),
             until_ns = start_ns + seconds_ns(more->end);
    return (logged_find(ret_logged, &first, 1, since_ns, until_ns) ||
            find_logged_thread(job, pid, since_ns, until_ns, ret_logged)) &&
           ret_logged->signo == json_integer_value(json_object_get(crash, "signal"));
}

static void put_logged_place(const struct job *job, json_t *crash, const struct recorder_crash *more,
                             const struct logged *logged)
{
    const struct logged_task task = {.logged = logged,
                                     .crash = more,
                                     .jobdir = job->dir,
                                     .began_ns = job->info.started_ns + seconds_ns(more->start)};
    json_t *place = sandboxed_child_run(resolve_logged, &task, CRASH_TIMEOUT_MS);
    json_object_update(crash, place);
    json_decref(place);
}

/* In a file; what goes to a pipe or a terminal nobody can read again. */
static void put_said_stack(const struct job *job, json_t *crash, const struct recorder_crash *more)
{
    const struct said_task task = {.output = job_output_read(&job->info, STDERR_FILENO),
                                   .pid = (pid_t)json_integer_value(json_object_get(crash, "pid")),
                                   .host = job->info.host,
                                   .cwd = more->cwd ? more->cwd : job->cwd,
                                   .began_ns = job->info.started_ns + seconds_ns(more->start)};
    if (strcmp(task.output.kind, "file") != 0)
        return;
    json_t *found = sandboxed_child_run(resolve_said, &task, CRASH_TIMEOUT_MS);
    if (json_array_size(json_object_get(found, "frames"))) {
        json_object_update(crash, found);
        json_object_del(crash, "note"); /* how to get a backtrace */
    }
    json_decref(found);
}

/* Explains a fault by the backtrace taken live, the core file or the kernel's log. */
static void explain_fault(const struct job *job, json_t *crash, const struct recorder_crash *more)
{
    struct logged logged;
    int signo = (int)json_integer_value(json_object_get(crash, "signal"));
    const json_t *address = json_object_get(crash, "address");
    uint64_t sp = (uint64_t)json_integer_value(json_object_get(crash, "sp"));
    int code = (int)json_integer_value(json_object_get(crash, "code"));
    if (signo == SIGBUS && address)
        code = BUS_ADRERR; /* siginfo_has_address */
    bool framed = json_object_get(crash, "frames");
    bool sent = !code && framed; /* by somebody, for else its code would be known */
    const char *reason = sent ? NULL : reason_of_code(signo, code);
    json_object_del(crash, "sp");
    json_object_del(crash, "code");
    bool unknown = signo == SIGSEGV ? !address || !sp : signo == SIGFPE && !reason;
    pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
    uint64_t said;
    bool logs = signo != SIGABRT && signo != SIGBUS && signo != SIGSYS;
    bool found = logs && (unknown || !framed) && find_logged(job, crash, more, &logged);
    if (found && !framed)
        put_logged_place(job, crash, more, &logged);
    else if (!framed)
        put_said_stack(job, crash, more);
    if (found && signo == SIGFPE)
        reason = reason_of_code(signo, FPE_INTDIV);
    if (found && logged.addressed) {
        json_object_set_new(crash, "address", json_integer((json_int_t)logged.address));
        address = json_object_get(crash, "address");
        sp = logged.sp;
    }
    if (signo == SIGSEGV && !address && reason_find_said(&job->recorder.model, pid, &said)) {
        json_object_set_new(crash, "address", json_integer((json_int_t)said));
        address = json_object_get(crash, "address");
    }
    const char *fault =
        address && signo != SIGFPE ? reason_of_fault(signo, (uint64_t)json_integer_value(address), sp) : NULL;
    const char *by_log = found ? logged_reason(&logged) : NULL;
    reason = fault && !(by_log && (logged.error & LOGGED_FETCH)) ? fault : by_log ? by_log : reason;
    bool speechless = signo == SIGSEGV && !reason && !address && !sent && is_speechless(job, more->program);
    if (speechless || (reason && strcmp(reason, REASON_STACK) == 0))
        put_overflow(job, crash, speechless);
    else if (reason)
        json_object_set_new(crash, "reason", json_string(reason));
}

/* `advised`: another crash already says how to get backtraces. */
static void explain_one(const struct job *job, json_t *crash, bool *advised)
{
    pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
    const struct stacks_entry *stack = stacks_find(&job->watch.stacks, pid);
    bool traced = !stack && explain_traced(job, crash, pid);
    if (stack) {
        json_t *found = sandboxed_child_run(resolve_stack, stack, CRASH_TIMEOUT_MS);
        json_object_update(crash, found);
        json_decref(found);
    } else if (json_is_true(json_object_get(crash, "core_dumped"))) {
        explain_core(job, crash, pid);
    } else if (traced) {
        json_object_set_new(crash, "note", json_string("`scry report` shows the calls that led to it"));
    } else if (!job->options->crash_stack && !*advised) {
        *advised = true;
        json_object_set_new(crash, "note",
                            json_sprintf("no core file: use `ulimit -c unlimited` or --crash-stack for backtraces%s",
                                         tracing_note(&job->watch.traces, NOTE_left_alone)
                                             ? ", or `--trace all`, as children of fork were not traced"
                                             : ""));
    }
}

void crash_explain(struct job *job)
{
    size_t index;
    json_t *crash;
    bool advised = false;
    json_array_foreach(job->recorder.model.crashes, index, crash)
    {
        if (index >= CRASHES_EXPLAINED)
            break;
        explain_one(job, crash, &advised);
        explain_fault(job, crash, &job->recorder.crashes[index]);
    }
}
