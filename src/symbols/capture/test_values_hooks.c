/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hook library for test_values.py: at each hook runs the program that test_values_compile made for it (VALUES_FILE)
 * and writes what it captured to VALUES_OUT, in the form in which the traced programs print it themselves:
 *
 *     > NAME(ARGUMENTS)        < NAME: LOCALS = RESULT         @ CALLER  ^ CALLER'S LOCALS    (with VALUES_CALLER)
 */
#include <execinfo.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/capture.h"
#include "symbols/capture/test_values_hooks.h"
#include "symbols/layout/layout.h"

#define EXPORTED __attribute__((visibility("default")))

/* The registers as they are at the hook: in the order of struct capture_frame. */
#define STUB(name, exit) \
    __asm__(".globl " name "\n.type " name ",@function\n" name ":\n" \
            ".cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp,-16\n" \
            "mov %rsp,%rbp\n.cfi_def_cfa_register %rbp\nsub $416,%rsp\nand $-16,%rsp\n" \
            "mov %rax,(%rsp)\nmov %rdx,8(%rsp)\nmov %rcx,16(%rsp)\nmov %rbx,24(%rsp)\nmov %rsi,32(%rsp)\n" \
            "mov %rdi,40(%rsp)\nmov (%rbp),%rax\nmov %rax,48(%rsp)\nlea 16(%rbp),%rax\nmov %rax,56(%rsp)\n" \
            "mov %r8,64(%rsp)\nmov %r9,72(%rsp)\nmov %r10,80(%rsp)\nmov %r11,88(%rsp)\nmov %r12,96(%rsp)\n" \
            "mov %r13,104(%rsp)\nmov %r14,112(%rsp)\nmov %r15,120(%rsp)\nmov 8(%rbp),%rax\nmov %rax,128(%rsp)\n" \
            "movups %xmm0,136(%rsp)\nmovups %xmm1,152(%rsp)\nmovups %xmm2,168(%rsp)\nmovups %xmm3,184(%rsp)\n" \
            "movups %xmm4,200(%rsp)\nmovups %xmm5,216(%rsp)\nmovups %xmm6,232(%rsp)\nmovups %xmm7,248(%rsp)\n" \
            "movups %xmm8,264(%rsp)\nmovups %xmm9,280(%rsp)\nmovups %xmm10,296(%rsp)\nmovups %xmm11,312(%rsp)\n" \
            "movups %xmm12,328(%rsp)\nmovups %xmm13,344(%rsp)\nmovups %xmm14,360(%rsp)\nmovups %xmm15,376(%rsp)\n" \
            "movb $1,392(%rsp)\nmov %rsp,%rdx\nmov $" exit ",%ecx\ncall values_hook\nleave\nret\n.cfi_endproc\n" \
            ".size " name ",.-" name "\n")
_Static_assert(offsetof(struct capture_frame, xmm) == 136 && offsetof(struct capture_frame, has_xmm) == 392, "stub");
STUB("__cyg_profile_func_enter", "0");
STUB("__cyg_profile_func_exit", "1");

struct program {
    int kind;
    uint64_t address;
    unsigned layout;
    size_t size, before; /* before: shared blocks */
    uint8_t *code;
};

enum { PARAMS = 8 }; /* added to the kind */

struct name {
    uint64_t address;
    char text[256];
};

static struct program programs[1 << 15];
static struct name names[1 << 14];
static struct layout *layouts[1 << 14];
static uint8_t area[1 << 26] __attribute__((aligned(8)));
static size_t area_used, blocks[1 << 14]; /* blocks: where they are */
static size_t program_count, name_count;
static uint64_t bias;
static FILE *out, *stream;
static bool show_caller;

static int read_own(void *dst, uint64_t address, size_t size)
{
    struct iovec to = {dst, size}, from = {(void *)(uintptr_t)address, size};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)size ? 0 : -1;
}

static int first_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
    bias = info->dlpi_addr;
    return 1;
}

/* Bytes as digits, behind those before; how many. */
static size_t put_hex(const char *hex)
{
    size_t size = 0;
    for (; hex[0] && hex[1] && area_used + size < sizeof area; hex += 2)
        size += sscanf(hex, "%2hhx", &area[area_used + size]) == 1;
    area_used += size;
    return size;
}

static void add_block(const char *line)
{
    unsigned id;
    if (sscanf(line, "block %u", &id) != 1 || id >= sizeof blocks / sizeof blocks[0])
        abort();
    blocks[id] = area_used;
    put_hex(strrchr(line, ' ') + 1);
}

/* Numbers of blocks become distances. */
static void link_blocks(const struct program *program)
{
    for (size_t pc = sizeof(struct capture_head); pc < program->size;) {
        struct capture_insn insn;
        uint64_t id, distance;
        memcpy(&insn, program->code + pc, sizeof insn);
        pc += sizeof insn;
        if (!capture_is_long(insn.op))
            continue;
        memcpy(&id, program->code + pc, sizeof id);
        distance = program->before - blocks[id % (sizeof blocks / sizeof blocks[0])];
        if (insn.op == CAPTURE_SHARED)
            memcpy(program->code + pc, &distance, sizeof distance);
        pc += sizeof id;
    }
}

static void add_program(char *line)
{
    struct program *program = &programs[program_count];
    char *hex = strrchr(line, ' ') + 1;
    if (program_count == sizeof programs / sizeof programs[0] ||
        (sscanf(line, "site %d 0x%" SCNx64 " %u", &program->kind, &program->address, &program->layout) != 3 &&
         sscanf(line, "params %d 0x%" SCNx64, &program->kind, &program->address) != 2))
        return;
    if (line[0] == 'p')
        program->kind += PARAMS;
    program->before = area_used;
    program->code = area + area_used;
    program->size = put_hex(hex);
    link_blocks(program);
    program_count++;
}

/* With VALUES_CTF, a directory: what is captured as a CTF trace in which each layout is a kind of event. */
static void open_trace(const char *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/metadata", directory);
    FILE *metadata = fopen(path, "we");
    snprintf(path, sizeof path, "%s/stream", directory);
    stream = fopen(path, "we");
    if (!metadata || !stream)
        abort();
    fprintf(metadata, "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer "
                      "{ size = 32; align = 8; } magic; }; };\nclock { name = c; freq = 1000000000; };\n"
                      "stream { event.header := struct { integer { size = 32; align = 8; } id; integer { size = 64; "
                      "align = 8; map = clock.c.value; } timestamp; }; };\n");
    struct buf types = BUF_INIT;
    layout_tsdl_types(&types);
    fputs(types.data, metadata);
    buf_done(&types);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct buf text = BUF_INIT;
        if (!layouts[i])
            continue;
        layout_tsdl(layouts[i], &text);
        fprintf(metadata, "event { name = \"layout\"; id = %zu; fields := %s; };\n", i, text.data);
        buf_done(&text);
    }
    fclose(metadata);
    fwrite(&(uint32_t){0xc1fc1fc1}, 4, 1, stream);
}

static void record(unsigned layout, const void *bytes, size_t size)
{
    static uint64_t time;
    if (!stream)
        return;
    time++;
    fwrite(&layout, 4, 1, stream);
    fwrite(&time, 8, 1, stream);
    fwrite(bytes, 1, size, stream);
    fflush(stream);
}

static void load(void)
{
    static char line[1 << 20];
    FILE *file = fopen(getenv("VALUES_FILE"), "re");
    out = fopen(getenv("VALUES_OUT"), "we");
    show_caller = getenv("VALUES_CALLER");
    if (!file || !out)
        abort();
    dl_iterate_phdr(first_module, NULL);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        unsigned id;
        int at = 0;
        struct err err;
        struct name *name = &names[name_count];
        if (sscanf(line, "layout %u %n", &id, &at) == 1 && at && id < sizeof layouts / sizeof layouts[0]) {
            if (layout_parse(&layouts[id], line + at, &err) < 0) {
                fprintf(stderr, "%s: %s\n", line + at, err.text);
                abort();
            }
        } else if (sscanf(line, "function 0x%" SCNx64 " %255[^\n]", &name->address, name->text) == 2 &&
                   name_count + 1 < sizeof names / sizeof names[0])
            name_count++;
        else if (strncmp(line, "block ", 6) == 0)
            add_block(line);
        else if (strncmp(line, "site ", 5) == 0 || strncmp(line, "params ", 7) == 0)
            add_program(line);
    }
    fclose(file);
    if (getenv("VALUES_CTF"))
        open_trace(getenv("VALUES_CTF"));
}

static const char *name_of(uint64_t address)
{
    for (size_t i = 0; i < name_count; i++)
        if (names[i].address == address)
            return names[i].text;
    return "?";
}

static bool name_address(void *ctx, uint64_t address, struct buf *text)
{
    buf_puts(text, name_of(address - bias));
    return true;
}

static const struct program *program_at(int kind, uint64_t address)
{
    for (size_t i = 0; i < program_count; i++)
        if (programs[i].kind == kind && programs[i].address == address - bias)
            return &programs[i];
    return NULL;
}

static const struct layout_style style = {.name_address = name_address};

/* Appends what a program captures. */
static const struct layout *captured(const struct program *program, const struct capture_frame *frame, uint8_t *bytes,
                                     size_t *ret_size)
{
    if (!program)
        return NULL;
    if (!capture_check_sharing(program->code, program->size, program->before))
        abort();
    *ret_size = capture_run_sharing(program->code, program->size, program->before, frame, read_own, bytes, 4096);
    if (*ret_size == 0)
        fprintf(out, "nothing captured\n");
    record(program->layout, bytes, *ret_size);
    return *ret_size ? layouts[program->layout] : NULL;
}

static void print_caller(const struct capture_frame *frame, uint64_t callsite)
{
    static uint8_t bytes[4096];
    struct capture_frame caller = {0};
    const struct program *unwind = program_at(3, frame->gpr[16]), *program = program_at(2, frame->gpr[16] - 1);
    bool inlined = program; /* as the agent does: the caller of an inlined function is known by the hook */
    size_t size;
    if (!program)
        program = program_at(2, callsite);
    if (!unwind || !program ||
        capture_run(unwind->code, unwind->size, frame, read_own, caller.gpr, sizeof caller.gpr) != sizeof caller.gpr)
        return;
    if (!inlined && caller.gpr[16] != callsite)
        fprintf(out, "unwound to the wrong place\n");
    const struct layout *layout = captured(program, &caller, bytes, &size);
    struct buf text = BUF_INIT;
    if (layout)
        layout_format(layout, LAYOUT_CALLER, bytes, size, &style, &text);
    if (layout && layout_function(layout, LAYOUT_CALLER))
        fprintf(out, "@ %s\n", layout_function(layout, LAYOUT_CALLER));
    fprintf(out, "^ %s\n", text.data ? text.data : "");
    buf_done(&text);
}

/* ? NAME TYPE VALUE ... of the numbers for conditions */
static void print_params(const char *name, const struct capture_frame *frame, int exit)
{
    const struct program *program = program_at(PARAMS + exit, frame->gpr[16]);
    uint8_t bytes[9 * 64];
    if (!program || !capture_check_sharing(program->code, program->size, program->before))
        return;
    size_t size =
        capture_run_sharing(program->code, program->size, program->before, frame, read_own, bytes, sizeof bytes);
    fprintf(out, "? %s", name);
    for (size_t i = 0; i + 9 <= size; i += 9) {
        int64_t integer;
        double real;
        memcpy(&integer, bytes + i + 1, 8);
        memcpy(&real, bytes + i + 1, 8);
        if (bytes[i] == 2 || bytes[i] == 3)
            fprintf(out, " %d %g", bytes[i], real);
        else
            fprintf(out, " %d %" PRId64, bytes[i], integer);
    }
    fputc('\n', out);
}

/* With VALUES_HELPER, scry-symbols: what it says of all variables of all frames, at one enter hook of a few. */
static void print_frames(const struct capture_frame *frame, const char *helper)
{
    enum { EACH = 5, MOST = 24, FRAMES = 64 };
    static unsigned calls;
    void *addresses[FRAMES];
    char path[4096], line[65536];
    if (calls++ % EACH || calls > EACH * MOST)
        return;
    int count = backtrace(addresses, FRAMES), first = 0, to_helper[2], from_helper[2];
    while (first < count && (uint64_t)(uintptr_t)addresses[first] != frame->gpr[16])
        first++;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (first == count || length < 0 || pipe(to_helper) < 0 || pipe(from_helper) < 0)
        abort();
    path[length] = 0;
    fflush(out);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to_helper[0], 0);
        dup2(from_helper[1], 1);
        close(to_helper[1]);
        close(from_helper[0]);
        unsetenv("LD_PRELOAD");
        execl(helper, helper, "variable", NULL);
        _exit(127);
    }
    prctl(PR_SET_PTRACER, pid);
    close(to_helper[0]);
    close(from_helper[1]);
    dprintf(to_helper[1], "module\t%s\t0x%" PRIx64 "\tprogram\nname\t*\npid\t%d\n", path, bias, getpid());
    for (int i = first; i < count; i++) {
        dprintf(to_helper[1], "frame\t0x%" PRIx64 "\t0x0", (uint64_t)(uintptr_t)addresses[i]);
        for (int reg = 0; reg < 17 && i == first; reg++)
            dprintf(to_helper[1], "\t%d=0x%" PRIx64, reg, frame->gpr[reg]);
        dprintf(to_helper[1], "\n");
    }
    dprintf(to_helper[1], "end\n");
    close(to_helper[1]);
    FILE *answer = fdopen(from_helper[0], "re");
    while (answer && fgets(line, sizeof line, answer)) {
        char *fields[8] = {line}, *rest = line;
        for (int i = 1; i < 6 && rest && (rest = strchr(rest, '\t')); i++) {
            *rest++ = 0;
            fields[i] = rest;
        }
        if (strcmp(fields[0], "value") == 0 && fields[4])
            fprintf(out, "$ %s = %s", fields[2], fields[4]);
    }
    if (answer)
        fclose(answer);
    waitpid(pid, NULL, 0);
}

void values_each(void (*function)(uint64_t address))
{
    load();
    for (size_t i = 0; i < name_count; i++)
        function(names[i].address + bias);
}

void values_hook(void *function, void *callsite, const struct capture_frame *frame, int exit)
{
    static uint8_t bytes[4096];
    if (!out)
        load();
    const char *name = name_of((uint64_t)(uintptr_t)function - bias);
    struct buf text = BUF_INIT;
    size_t size = 0;
    print_params(name, frame, exit);
    const struct layout *layout = captured(program_at(exit, frame->gpr[16]), frame, bytes, &size);
    if (!exit) {
        if (show_caller)
            print_caller(frame, (uint64_t)(uintptr_t)callsite);
        if (getenv("VALUES_HELPER"))
            print_frames(frame, getenv("VALUES_HELPER"));
        if (layout)
            layout_format(layout, LAYOUT_ARGS, bytes, size, &style, &text);
        fprintf(out, "> %s(%s)\n", name, text.data ? text.data : "");
    } else {
        if (layout)
            layout_format(layout, LAYOUT_LOCALS, bytes, size, &style, &text);
        if (layout && layout_has(layout, LAYOUT_RESULT)) {
            buf_puts(&text, " = ");
            layout_format(layout, LAYOUT_RESULT, bytes, size, &style, &text);
        }
        fprintf(out, "< %s: %s%s\n", name, text.data ? text.data : "", layout ? "" : "<none>");
    }
    fflush(out);
    buf_done(&text);
}
