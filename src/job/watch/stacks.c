/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "client/client.h"
#include "client/decode.h"
#include "lang/results.h"

/* Attaches every new process before it runs. */
static const char FOLLOW[] = "thread_creates_proc([]) : proc_attach([$new_proc])";
/* SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS. 512: the local process id (specification 8.1.2). The
 * sample makes the job's follower watch the process, so that its end is known, however short its life. */
static const char CAPTURE[] = "thread_received_signal([],[4,5,6,7,8,11,31]) : thread_get_backtrace([$thread],64) "
                              "proc_get_info([$proc],512) proc_get_loader_info([$proc]) print([$fault]) "
                              "scry_thread_get_python_stack([$thread],64) job_get_info([%s],0)";
enum { ACTION_BACKTRACE = 1, ACTION_PID, ACTION_MODULES, ACTION_FAULT, ACTION_PYTHON, PID_FLAG = 512 };

static void free_modules(struct stacks_module *modules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(modules[i].path);
    free(modules);
}

static void free_python(struct stacks_python *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(frames[i].function);
        free(frames[i].file);
    }
    free(frames);
}

/* Of an action's only result; as if nothing were known if it failed. */
static void decode_action(struct omis_reader *reader, size_t action, const char *result, uint64_t flags,
                          const struct decode_field *fields, void *ret_struct)
{
    struct decoder decoder;
    decoder_init(&decoder, result, flags, fields);
    omis_reader_find(reader, action);
    decode(&decoder, omis_reader_values(reader), 0, ret_struct);
}

static void take_modules(struct stacks_entry *entry, const struct omis_value *list)
{
    struct module {
        const char *path;
        uint64_t code_start;
    } module;
    static const struct decode_field fields[] = {DECODE(struct module, path), DECODE(struct module, code_start), {0}};
    struct decoder decoder;
    decoder_init(&decoder, LOADER_MODULE, 0, fields);
    size_t count = decoder_rows(&decoder, list), used = 0;
    count = count > STACKS_MODULES ? STACKS_MODULES : count;
    struct stacks_module *modules = calloc(count ? count : 1, sizeof *modules);
    if (!modules || omis_kind(list) != OMIS_KIND_LIST) {
        free(modules);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        decode(&decoder, list, i, &module);
        modules[used].path = strdup(module.path);
        modules[used].code_start = module.code_start;
        used += modules[used].path != NULL;
    }
    free_modules(entry->modules, entry->module_count);
    entry->modules = modules;
    entry->module_count = used;
}

static void take_python(struct stacks_entry *entry, const struct omis_value *list)
{
    struct frame {
        const char *function, *file;
        int64_t line;
        bool entry;
    } frame;
    static const struct decode_field fields[] = {DECODE(struct frame, function),
                                                 DECODE(struct frame, file),
                                                 DECODE(struct frame, line),
                                                 DECODE(struct frame, entry),
                                                 {0}};
    struct decoder decoder;
    decoder_init(&decoder, PYTHON_FRAME, 0, fields);
    free_python(entry->python, entry->python_count);
    size_t count = omis_kind(list) == OMIS_KIND_LIST ? decoder_rows(&decoder, list) : 0, used = 0;
    count = count > STACKS_FRAMES ? STACKS_FRAMES : count;
    struct stacks_python *frames = calloc(count ? count : 1, sizeof *frames);
    for (size_t i = 0; frames && i < count; i++) {
        decode(&decoder, list, i, &frame);
        frames[used] = (struct stacks_python){strdup(frame.function), strdup(frame.file), frame.line, frame.entry};
        used += frames[used].function && frames[used].file;
    }
    entry->python = frames;
    entry->python_count = used;
}

static void take_frames(struct stacks_entry *entry, const struct omis_value *list)
{
    struct frame {
        uint64_t pc;
    } frame;
    static const struct decode_field fields[] = {DECODE(struct frame, pc), {0}};
    struct decoder decoder;
    decoder_init(&decoder, BACKTRACE_FRAME, 0, fields);
    size_t count = decoder_rows(&decoder, list);
    entry->frame_count = count > STACKS_FRAMES ? STACKS_FRAMES : count;
    for (size_t i = 0; i < entry->frame_count; i++) {
        decode(&decoder, list, i, &frame);
        entry->frames[i] = frame.pc;
    }
}

static void take_capture(struct stacks *stacks, Omis_reply reply)
{
    struct captured {
        int32_t local_id;
        const struct omis_value *stack, *loader_info;
    } captured, python;
    static const struct decode_field backtrace_fields[] = {DECODE(struct captured, stack), {0}},
                                     pid_fields[] = {DECODE(struct captured, local_id), {0}},
                                     modules_fields[] = {DECODE(struct captured, loader_info), {0}};
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    decode_action(reader, ACTION_BACKTRACE, BACKTRACE_RESULT, 0, backtrace_fields, &captured);
    decode_action(reader, ACTION_PID, PROC_INFO_RESULT, PID_FLAG, pid_fields, &captured);
    decode_action(reader, ACTION_MODULES, LOADER_INFO_RESULT, 0, modules_fields, &captured);
    if (omis_kind(captured.stack) != OMIS_KIND_LIST || captured.local_id < 0)
        return;
    pid_t pid = captured.local_id;
    struct stacks_entry *entry;
    HASH_FIND_INT(stacks->entries, &pid, entry);
    if (!entry) {
        if (HASH_COUNT(stacks->entries) >= STACKS_PROCESSES || !(entry = calloc(1, sizeof *entry)))
            return;
        entry->pid = pid;
        HASH_ADD_INT(stacks->entries, pid, entry);
    }
    take_frames(entry, captured.stack);
    take_modules(entry, captured.loader_info);
    decode_action(reader, ACTION_PYTHON, PYTHON_STACK_RESULT, 0, backtrace_fields, &python);
    take_python(entry, python.stack);
    omis_reader_find(reader, ACTION_FAULT);
    const struct omis_value *fault = omis_item(omis_item(omis_reader_values(reader), 1), 0);
    entry->code = omis_count(fault) == 1 ? (int)omis_unsigned(omis_item(fault, 0)) : 0;
    entry->faulted = omis_count(fault) == 2;
    entry->address = omis_unsigned(omis_item(fault, 0));
    entry->sp = omis_unsigned(omis_item(fault, 1));
}

static void fail(struct stacks *stacks, Omis_reply reply)
{
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    if (!stacks->err.code && omis_reader_first_error(reader))
        err_set(&stacks->err, -EIO, "%s", omis_reader_first_error(reader));
}

static void on_enabled(Omis_reply reply, void *param)
{
    struct stacks *stacks = param;
    stacks->arming--;
    fail(stacks, reply);
    omis_reply_free(reply);
}

static void on_event(Omis_reply reply, void *param)
{
    struct stacks *stacks = param;
    Omis_status status = reply && reply[0] && reply[0]->obj_list ? reply[0]->status : OMIS_INTERNAL_ERROR;
    if (status == OMIS_CSR_DEFINED && reply[0]->result) {
        struct buf text = BUF_INIT;
        buf_printf(&text, ":csr_enable([%s])", reply[0]->result);
        if (!text.failed)
            client_request(span_of(text.data, text.len), on_enabled, stacks, 0);
        buf_done(&text);
    } else if (status == OMIS_CSR_DEFINED || (status >= OMIS_FIRST_ERROR && stacks->arming > 0)) {
        stacks->arming--;
        fail(stacks, reply);
    } else if (status == OMIS_CSR_TRIGGERED) {
        take_capture(stacks, reply);
    }
    omis_reply_free(reply);
}

void stacks_arm(struct stacks *stacks, const char *job)
{
    struct buf capture = BUF_INIT;
    buf_printf(&capture, CAPTURE, job);
    stacks->arming = 2;
    stacks->err = (struct err){0};
    client_request(span_str(FOLLOW), on_event, stacks, OMIS_DONT_RETURN_EN_DIS);
    if (!capture.failed)
        client_request(span_of(capture.data, capture.len), on_event, stacks, OMIS_DONT_RETURN_EN_DIS);
    buf_done(&capture);
}

const struct stacks_entry *stacks_find(const struct stacks *stacks, pid_t pid)
{
    struct stacks_entry *entry;
    HASH_FIND_INT(stacks->entries, &pid, entry);
    return entry;
}

void stacks_done(struct stacks *stacks)
{
    struct stacks_entry *entry, *next;
    HASH_ITER(hh, stacks->entries, entry, next)
    {
        HASH_DEL(stacks->entries, entry);
        free_modules(entry->modules, entry->module_count);
        free_python(entry->python, entry->python_count);
        free(entry);
    }
}
