/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of this program get jumps at their beginnings, are called, and have to do what they did before. */
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "symbols/code/code.h"

#define NAMES(each) \
    each(plain) each(endbr) each(loads) each(compares) each(jumps) each(calls) each(calls_first) each(tail) each(tiny) \
        each(far_jump) each(hot_switch)
#define REFUSED(each) \
    each(loops) each(loops_late) each(branches_in) each(calls_early) each(calls_pointer) each(counts_down) \
        each(short_one) each(table_in) each(label_in) each(looks) each(pops) each(frames) each(symbol_in) \
            each(reached) each(falls)

#define DECLARE(name) long patch_##name(long, long);
NAMES(DECLARE)
REFUSED(DECLARE)
extern const char patch_text_begin[], patch_text_end[];

/* clang-format off */
#define FUNCTION(name, ...) \
    ".p2align 4, 0xcc\n .globl patch_" name "\n .type patch_" name ", @function\n patch_" name ":\n" __VA_ARGS__ \
    "\n .size patch_" name ", . - patch_" name "\n"
__asm__(
    ".text\n .p2align 12\n .globl patch_text_begin\n patch_text_begin:\n"
    FUNCTION("plain", "push %rbp\n mov %rsp, %rbp\n lea (%rdi,%rsi,2), %rax\n pop %rbp\n ret")
    FUNCTION("endbr", "endbr64\n push %rbx\n mov %rdi, %rbx\n lea 1(%rbx,%rsi), %rax\n pop %rbx\n ret")
    FUNCTION("loads", "add patch_number(%rip), %rdi\n cmpl $5, patch_number(%rip)\n sete %al\n movzbl %al, %eax\n add %rdi, %rax\n ret")
    FUNCTION("compares", "test %rdi, %rdi\n je 1f\n mov $7, %eax\n ret\n 1: mov %rsi, %rax\n ret")
    FUNCTION("jumps", "xor %eax, %eax\n nop\n jmp 1f\n ud2\n 1: lea 3(%rdi,%rax), %rax\n ret")
    FUNCTION("calls", "push %rbx\n call patch_tiny\n lea (%rax,%rdi), %rax\n pop %rbx\n ret")
    FUNCTION("calls_first", "call 1f\n 1: pop %rax\n lea 1b(%rip), %rcx\n sub %rcx, %rax\n ret")
    FUNCTION("tail", "mov %rsi, %rdi\n jmp patch_plain")
    FUNCTION("tiny", "mov %rsi, %rax\n ret")
    FUNCTION("far_jump", "cmp $100, %rdi\n jg 1f\n mov $1, %eax\n ret\n .skip 300, 0x90\n 1: mov $2, %eax\n ret")
    /* a loop with a switch by a table, none of whose cases is at the beginning */
    FUNCTION("hot_switch", "xor %eax, %eax\n lea patch_table(%rip), %r8\n 1: mov %rdi, %rcx\n and $1, %ecx\n movslq (%r8,%rcx,4), %rcx\n"
             "add %r8, %rcx\n jmp *%rcx\n 2: inc %rax\n dec %rdi\n 3: add %rdi, %rax\n dec %rdi\n jg 1b\n ret")
    /* ---- */
    FUNCTION("loops", "1: dec %rdi\n jg 1b\n mov %rsi, %rax\n ret")
    FUNCTION("loops_late", "endbr64\n 1: add %rdi, %rsi\n sub $1, %rdi\n nop\n nop\n jg 1b\n mov %rsi, %rax\n ret")
    FUNCTION("branches_in", "xor %eax, %eax\n 1: inc %rax\n nop\n nop\n dec %rdi\n jg 1b\n ret")
    FUNCTION("calls_early", "call *%rsi\n ret\n nop\n nop")
    FUNCTION("calls_pointer", "call *patch_pointer(%rip)\n ret")
    FUNCTION("counts_down", "mov %rdi, %rcx\n 1: loop 1b\n mov %rsi, %rax\n ret")
    FUNCTION("short_one", "mov %esi, %eax\n ret\n patch_next: mov %edi, %eax\n ret")
    FUNCTION("table_in", "push %rbx\n 9: mov %rdi, %rbx\n dec %rdi\n lea patch_in_table(%rip), %r8\n movslq (%r8), %rcx\n add %r8, %rcx\n jmp *%rcx\n pop %rbx\n ret")
    FUNCTION("label_in", "push %rbx\n 8: mov %rdi, %rbx\n dec %rdi\n mov patch_label(%rip), %rcx\n jmp *%rcx\n pop %rbx\n ret")
    /* as setjmp does, and what switches stacks; __builtin_return_address */
    FUNCTION("looks", "mov %rbx, (%rdi)\n mov (%rsp), %rdx\n mov %rdx, 8(%rdi)\n xor %eax, %eax\n ret")
    FUNCTION("pops", "mov %rsp, %rax\n pop %rdx\n mov %rsi, %rax\n jmp *%rdx")
    FUNCTION("frames", "push %rbp\n mov %rsp, %rbp\n mov 8(%rbp), %rax\n pop %rbp\n ret")
    FUNCTION("symbol_in", "push %rbx\n .globl patch_inside\n patch_inside: mov %rdi, %rbx\n mov %rbx, %rax\n pop %rbx\n ret")
    /* from its neighbour */
    FUNCTION("reached", "mov %rdi, %rax\n 7: lea 5(%rax,%rsi), %rax\n ret")
    FUNCTION("falls", "mov %rdi, %rax")
    FUNCTION("neighbour", "mov %rsi, %rax\n jmp 7b")
    ".p2align 12, 0xcc\n .globl patch_text_end\n patch_text_end:\n"
    ".section .rodata\n .p2align 3\n"
    "patch_table: .long 2b - patch_table, 3b - patch_table, 0x7fffffff\n"
    "patch_in_table: .long 9b - patch_in_table, 0x7fffffff\n"
    ".data\n .p2align 3\n patch_number: .quad 5\n patch_pointer: .quad patch_tiny\n patch_label: .quad 8b\n .text\n");
/* clang-format on */

/* ---- a file ---- */

struct file {
    int fd;
    Elf *elf;
    struct elf_code code;
};

static bool file_open(struct file *file, const char *path)
{
    struct err err = {0};
    elf_version(EV_CURRENT);
    *file = (struct file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (file->fd < 0)
        return false;
    file->elf = elf_begin(file->fd, ELF_C_READ_MMAP, NULL);
    assert_non_null(file->elf);
    assert_int_equal(elf_code_read(&file->code, file->elf, &err), 0);
    assert_int_equal(elf_code_read_pointers(&file->code, file->elf), 0);
    return true;
}

static void file_close(struct file *file)
{
    elf_code_done(&file->code);
    elf_end(file->elf);
    close(file->fd);
}

/* Each function of a table of symbols. */
static void each_function(const struct file *file, void (*fn)(void *ctx, const char *name, uint64_t low, uint64_t high),
                          void *ctx)
{
    GElf_Word kind = SHT_DYNSYM;
    GElf_Shdr header;
    GElf_Sym symbol;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(file->elf, scn));)
        if (gelf_getshdr(scn, &header) && header.sh_type == SHT_SYMTAB)
            kind = SHT_SYMTAB;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(file->elf, scn));)
        if (gelf_getshdr(scn, &header) && header.sh_type == kind)
            for (int i = 0; gelf_getsym(elf_getdata(scn, NULL), i, &symbol); i++)
                if (GELF_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_size && symbol.st_shndx != SHN_UNDEF)
                    fn(ctx, elf_strptr(file->elf, header.sh_link, symbol.st_name), symbol.st_value,
                       symbol.st_value + symbol.st_size);
}

/* ---- patching this program ---- */

static struct file own;
static uint64_t bias;
static uint8_t *stubs; /* 16 pages near the program */
static size_t stub_bytes;
static volatile uint64_t passed;

struct wanted {
    const char *name;
    struct address_range range;
};

static void find_one(void *ctx, const char *name, uint64_t low, uint64_t high)
{
    struct wanted *wanted = ctx;
    if (strcmp(name, wanted->name) == 0)
        wanted->range = (struct address_range){low, high};
}

static enum patch_answer plan(const char *name, const void *function, struct patch *ret_patch)
{
    struct wanted wanted = {.name = name};
    each_function(&own, find_one, &wanted);
    assert_int_not_equal(wanted.range.low, 0);
    bias = (uint64_t)(uintptr_t)function - wanted.range.low;
    size_t room = 0;
    for (const uint8_t *after = (const uint8_t *)(uintptr_t)(wanted.range.high + bias);
         after[room] == 0xcc && room < 16;)
        room++;
    return patch_plan(ret_patch, &own.code, &wanted.range, 1, room);
}

static void make_stubs(void)
{
    uint64_t near = (uint64_t)(uintptr_t)patch_text_end + (UINT64_C(1) << 29);
    stubs = mmap((void *)(uintptr_t)(near & ~UINT64_C(0xfff)), 16 << 12, PROT_READ | PROT_WRITE | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(stubs, MAP_FAILED);
    assert_int_equal(mprotect((void *)(uintptr_t)patch_text_begin, (size_t)(patch_text_end - patch_text_begin),
                              PROT_READ | PROT_WRITE | PROT_EXEC),
                     0);
}

/* A stub that counts, keeping all registers, flags and the red zone. */
static void put_jump(const struct patch *patch)
{
    static const uint8_t counts[] = {0x48, 0x8d, 0x64, 0x24, 0x80,
                                     0x9c, 0x50, 0x48, 0xb8}, /* lea -128(%rsp),%rsp; pushf; push %rax; movabs */
        adds[] = {0x48, 0xff, 0x00, 0x58, 0x9d, 0x48, 0x8d,
                  0xa4, 0x24, 0x80, 0,    0,    0}; /* incq (%rax); pop; popf; lea */
    uint8_t *stub = stubs + stub_bytes, *at = stub;
    volatile uint64_t *counter = &passed;
    memcpy(at, counts, sizeof counts);
    memcpy(at += sizeof counts, &counter, 8);
    memcpy(at += 8, adds, sizeof adds);
    at += sizeof adds;
    size_t len = patch_emit(patch, bias, (uint64_t)(uintptr_t)at, at);
    assert_true(len > 0);
    stub_bytes += (size_t)(at - stub) + PATCH_STUB_MOST;
    assert_true(
        patch_jump(patch->address + bias, (uint64_t)(uintptr_t)stub, (uint8_t *)(uintptr_t)(patch->address + bias)));
}

struct called {
    const char *name;
    long (*function)(long, long);
    long results[6];
};

static void call_all(const struct called *called, long results[6])
{
    static const long pairs[6][2] = {{0, 5}, {1, 2}, {5, -1}, {99, 3}, {101, 4}, {1000, 7}};
    for (int i = 0; i < 6; i++)
        results[i] = called->function(pairs[i][0], pairs[i][1]);
}

static void test_moved(void **state)
{
#define CALLED(name) {"patch_" #name, patch_##name, {0}},
    static struct called all[] = {NAMES(CALLED)};
    enum { ALL = sizeof all / sizeof *all };
    struct patch patches[ALL];
    make_stubs();
    for (size_t i = 0; i < ALL; i++) {
        enum patch_answer answer = plan(all[i].name, (const void *)(uintptr_t)all[i].function, &patches[i]);
        if (answer != PATCH_CAN)
            fail_msg("%s: %s", all[i].name, patch_reasons[answer]);
        call_all(&all[i], all[i].results);
    }
    for (size_t i = 0; i < ALL; i++) {
        long now[6];
        put_jump(&patches[i]);
        uint64_t before = passed;
        call_all(&all[i], now);
        assert_memory_equal(now, all[i].results, sizeof now);
        assert_true(passed >= before + 6);
    }
}

static void test_refused(void **state)
{
#define NAMED(name) {"patch_" #name, patch_##name, {0}},
    static const struct called all[] = {REFUSED(NAMED)};
    static const enum patch_answer expected[] = {PATCH_LOOP,  PATCH_LOOP,  PATCH_BRANCH, PATCH_CALL,   PATCH_CALL,
                                                 PATCH_STAYS, PATCH_SHORT, PATCH_BRANCH, PATCH_BRANCH, PATCH_LOOKS,
                                                 PATCH_LOOKS, PATCH_LOOKS, PATCH_BRANCH, PATCH_BRANCH, PATCH_SHORT};
    _Static_assert(sizeof expected / sizeof *expected == sizeof all / sizeof *all, "");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct patch patch;
        enum patch_answer answer = plan(all[i].name, (const void *)(uintptr_t)all[i].function, &patch);
        if (answer != expected[i])
            fail_msg("%s: '%s' in place of '%s'", all[i].name, patch_reasons[answer], patch_reasons[expected[i]]);
    }
}

static void test_reach(void **state)
{
    uint8_t bytes[PATCH_STUB_MOST];
    struct patch patch;
    assert_int_equal(plan("patch_loads", (const void *)(uintptr_t)patch_loads, &patch), PATCH_CAN);
    assert_true(patch_emit(&patch, bias, patch.address + bias + (UINT64_C(1) << 30), bytes) > 0);
    assert_int_equal(patch_emit(&patch, bias, patch.address + bias + (UINT64_C(3) << 30), bytes), 0);
    assert_false(patch_jump(0x1000, 0x1000 + (UINT64_C(1) << 31) + 5, bytes));
    assert_true(patch_jump(0x1000, 0x1000 + (UINT64_C(1) << 31) + 4, bytes));
}

/* ---- how many functions of programs as they come ---- */

struct coverage {
    const struct file *file;
    size_t answers[PATCH_ANSWERS], all;
    uint64_t last;
};

static void count_one(void *ctx, const char *name, uint64_t low, uint64_t high)
{
    enum { LEAST = 6 };
    struct coverage *coverage = ctx;
    struct address_range range = {low, high};
    struct patch patch;
    if (high - low < LEAST || low == coverage->last)
        return;
    coverage->last = low;
    coverage->answers[patch_plan(&patch, &coverage->file->code, &range, 1, 0)]++;
    coverage->all++;
}

static void test_programs(void **state)
{
    static const char *const paths[] = {"/lib/x86_64-linux-gnu/libc.so.6",
                                        "/bin/bash",
                                        "/usr/bin/python3",
                                        "/usr/lib/x86_64-linux-gnu/libmpi.so.40",
                                        "/usr/lib/x86_64-linux-gnu/libmpich.so.12",
                                        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
                                        "/usr/lib/x86_64-linux-gnu/libgfortran.so.5"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct file file;
        if (!file_open(&file, paths[i]))
            continue;
        struct coverage coverage = {.file = &file};
        each_function(&file, count_one, &coverage);
        print_message("# %s: %zu of %zu functions\n", paths[i], coverage.answers[PATCH_CAN], coverage.all);
        for (size_t k = PATCH_CAN + 1; k < PATCH_ANSWERS; k++)
            if (coverage.answers[k])
                print_message("#   %zu: %s\n", coverage.answers[k], patch_reasons[k]);
        assert_true(coverage.all < 100 || coverage.answers[PATCH_CAN] * 100 >= coverage.all * 95);
        file_close(&file);
    }
}

/* ---- such programs with a jump in each function ---- */

static void run(const char *program, const char *script, const char *before, char *ret_text, size_t size)
{
    char command[4096];
    snprintf(command, sizeof command, "env %s %s -c '%s' 2>&1", before, program, script);
    FILE *said = popen(command, "re");
    assert_non_null(said);
    size_t len = fread(ret_text, 1, size - 1, said);
    ret_text[len] = '\0';
    assert_int_equal(pclose(said), 0);
}

static void test_patched_programs(void **state)
{
    static const char *const programs[][2] = {
        {"/bin/bash",
         "f() { local i=0; while ((i < 500)); do ((i++)); done; echo $i; }; f; for x in {1..40}; do echo $x; done | "
         "sort -r | head -3; [[ abc =~ b(.) ]] && echo ${BASH_REMATCH[1]}; (exit 3); echo $?; declare -A m; m[x]=1; "
         "echo ${!m[@]} $(echo sub) ${x//4/y}; trap \"echo bye\" EXIT; read a <<<\"in put\"; echo $a"},
        {"/usr/bin/python3",
         "import json, re, decimal, threading, collections\n"
         "print(json.loads(json.dumps({\"a\": [1, {\"b\": None}]})), re.sub(r\"(\\w+) (\\w+)\", r\"\\2 \\1\", \"a b \" "
         "* 3))\n"
         "print(sum(i * i for i in range(20000)), decimal.Decimal(1) / 3, collections.Counter(\"mississippi\"))\n"
         "try:\n int(\"x\")\nexcept ValueError as e:\n print(e)\n"
         "r = []\nt = [threading.Thread(target=lambda i=i: r.append(sum(range(1000 * i)))) for i in range(4)]\n"
         "[x.start() for x in t]\n[x.join() for x in t]\nprint(sorted(r))"},
    };
    const char *library = getenv("TEST_PATCH_ALL");
    char counts[] = "/tmp/test_patch_XXXXXX", before[4096], plain[4096], patched[4096];
    for (size_t i = 0; library && i < sizeof programs / sizeof *programs; i++) {
        unsigned long long functions = 0, calls = 0;
        if (access(programs[i][0], X_OK) < 0)
            continue;
        int fd = mkstemp(counts);
        assert_true(fd >= 0);
        snprintf(before, sizeof before, "TEST_PATCH_COUNTS=%s LD_PRELOAD=%s", counts, library);
        run(programs[i][0], programs[i][1], "-", plain, sizeof plain);
        run(programs[i][0], programs[i][1], before, patched, sizeof patched);
        assert_string_equal(patched, plain);
        ssize_t len = pread(fd, before, sizeof before - 1, 0);
        before[len > 0 ? len : 0] = '\0';
        assert_int_equal(sscanf(before, "%llu %llu", &functions, &calls), 2);
        print_message("# %s: %llu functions with a jump, %llu calls\n", programs[i][0], functions, calls);
        assert_true(functions > 1000 && calls > 10000);
        close(fd);
        unlink(counts);
        memcpy(counts + sizeof counts - 7, "XXXXXX", 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moved), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_reach), cmocka_unit_test(test_programs),
                                       cmocka_unit_test(test_patched_programs)};
    if (!file_open(&own, "/proc/self/exe"))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
