/* SPDX-License-Identifier: Apache-2.0 */
#include "bash/shell.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum shell_command_type {
    SHELL_SIMPLE = 4,
    SHELL_CONNECTION = 6,
    SHELL_ARITHMETIC = 10,
    SHELL_CONDITION = 11,
    SHELL_SUBSHELL = 13,
};

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { PAGE = 4096, NEAR_JUMP = 5, FAR_JUMP = 14, MOVED_MOST = 24, STEP = 64 << 10, STEPS = 16384 };

/* ---- what may be moved ---- */

/* The length of an instruction that saves a register, or makes room on the stack; 0: another one. */
static size_t prologue_instruction(const unsigned char *at)
{
    static const struct {
        unsigned char bytes[3], length, size;
    } fixed[] = {
        {{0x48, 0x89, 0xe5}, 3, 3}, /* mov %rsp, %rbp */
        {{0x48, 0x8b, 0xec}, 3, 3},
        {{0x48, 0x83, 0xec}, 3, 4}, /* sub $8 bits, %rsp */
        {{0x48, 0x81, 0xec}, 3, 7}, /* sub $32 bits, %rsp */
    };
    if (at[0] >= 0x50 && at[0] <= 0x57) /* push */
        return 1;
    if (at[0] == 0x41 && at[1] >= 0x50 && at[1] <= 0x57)
        return 2;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (memcmp(at, fixed[i].bytes, fixed[i].length) == 0)
            return fixed[i].size;
    return 0;
}

size_t patch_measure(const unsigned char *code, size_t size, size_t *ret_skip)
{
    static const unsigned char endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t skip = size > sizeof endbr64 && memcmp(code, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;
    size_t moved = 0;
    *ret_skip = skip;
    while (moved < NEAR_JUMP) {
        if (skip + moved + 8 > size)
            return 0;
        size_t length = prologue_instruction(code + skip + moved);
        if (!length)
            return 0;
        moved += length;
    }
    return moved;
}

/* ---- code ---- */

static unsigned char *put_far_jump(unsigned char *to, const void *target)
{
    static const unsigned char jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip), and the address */
    memcpy(to, jump, sizeof jump);
    memcpy(to + sizeof jump, &target, sizeof target);
    return to + FAR_JUMP;
}

/* A free page to which a near jump leads: below the program, where nothing grows. */
static unsigned char *near_page(const unsigned char *code)
{
    uintptr_t from = (uintptr_t)code & ~(uintptr_t)(STEP - 1);
    for (uintptr_t i = 1; i < STEPS && from > (i + 16) * STEP; i++) {
        void *wanted = (void *)(from - i * STEP);
        void *page =
            mmap(wanted, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (page == wanted)
            return page;
        if (page != MAP_FAILED)
            munmap(page, PAGE);
        else if (errno != EEXIST)
            return NULL;
    }
    return NULL;
}

/* The page is never without the right to execute: where that cannot be had together with the right to write, nothing
 * is changed. */
static bool write_code(unsigned char *to, const unsigned char *bytes, size_t size)
{
    uintptr_t first = (uintptr_t)to & ~(uintptr_t)(PAGE - 1);
    size_t pages = (((uintptr_t)to + size - first) + PAGE - 1) & ~(size_t)(PAGE - 1);
    if (mprotect((void *)first, pages, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
        return false;
    memcpy(to, bytes, size);
    mprotect((void *)first, pages, PROT_READ | PROT_EXEC);
    return true;
}

static const char *patch(unsigned char *code, size_t size, void *ours, void **ret_original)
{
    size_t skip, moved = patch_measure(code, size, &skip);
    if (!moved || moved > MOVED_MOST)
        return "unsupported: bash was compiled in another way";
    unsigned char *from = code + skip, *page = near_page(code), jump[MOVED_MOST];
    if (!page)
        return "no memory near bash's code";
    unsigned char *original = put_far_jump(page, ours);
    memcpy(original, from, moved);
    put_far_jump(original + moved, from + moved);
    int32_t distance = (int32_t)(page - (from + NEAR_JUMP));
    jump[0] = 0xe9;
    memcpy(jump + 1, &distance, sizeof distance);
    memset(jump + NEAR_JUMP, 0x90, moved - NEAR_JUMP);
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC) < 0 || !write_code(from, jump, moved)) {
        munmap(page, PAGE);
        return "the system lets no code be changed";
    }
    *ret_original = original;
    return NULL;
}

const char *patch_function(void *function, size_t size, void *ours, void **ret_original)
{
    int before = errno;
    const char *why = patch(function, size, ours, ret_original);
    errno = before;
    return why;
}

struct shell shell;

enum { ARRAY = 0x4, INVISIBLE = 0x1000, WORDS_MOST = 64, DEPTH_MOST = 100 };

struct variable { /* SHELL_VAR */
    char *name, *value, *exported;
    void *dynamic_value, *assign;
    int attributes, context;
};

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_named_so(void)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return false;
    path[size] = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return starts_with(name, "bash") || strcmp(name, "sh") == 0 || strcmp(name, "rbash") == 0;
}

/* The symbol, if it is the program's own. dladdr would say so, too, but looks at all symbols each time. */
static void *find(const char *name)
{
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR), *own = NULL;
    size_t count = getauxval(AT_PHNUM);
    uintptr_t found = (uintptr_t)dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; found && i < count && !own; i++)
        if (header[i].p_type == PT_PHDR)
            own = &header[i];
    for (size_t i = 0; own && i < count; i++)
        if (header[i].p_type == PT_LOAD &&
            found - ((uintptr_t)header - own->p_vaddr + header[i].p_vaddr) < header[i].p_memsz)
            return (void *)found;
    return NULL;
}

static size_t size_of(void *function)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    return dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol ? symbol->st_size : 0;
}

static bool is_known(const char *version)
{
    return strcmp(version, "5.2") == 0; /* others may have other structs, and nobody has tried them */
}

bool shell_find(const char **ret_why)
{
    if (!is_named_so())
        return false;
    char **version = find("dist_version");
    *ret_why = NULL;
    if (!version) /* dash, or one that exports nothing */
        return false;
    if (!is_known(*version)) {
        *ret_why = "unsupported: bash other than 5.2";
        return true;
    }
    shell.version = *version;
    shell.interactive_shell = find("interactive_shell");
    shell.running_trap = find("running_trap");
    shell.variable_context = find("variable_context");
    shell.last_command_exit_value = find("last_command_exit_value");
    *(void **)&shell.find_variable = find("find_variable");
    *(void **)&shell.array_reference = find("array_reference");
    *(void **)&shell.execute = find("execute_command_internal");
    if (!shell.interactive_shell || !shell.running_trap || !shell.variable_context || !shell.last_command_exit_value ||
        !shell.find_variable || !shell.array_reference || !shell.execute)
        *ret_why = "unsupported: this bash does not export what is needed";
    else
        shell.execute_size = size_of((void *)shell.execute);
    return true;
}

const char *shell_caller(const char *array, long index)
{
    struct variable *variable = shell.find_variable(array);
    if (!variable || !(variable->attributes & ARRAY) || variable->attributes & INVISIBLE || !variable->value)
        return NULL;
    return shell.array_reference(variable->value, index);
}

bool shell_stages(char *out, size_t size)
{
    enum { SHELL_SIGNAL = 128 };
    const char *status;
    bool failed = false;
    size_t used = 0;
    for (long i = 0; (status = shell_caller("PIPESTATUS", i)) != NULL; i++) {
        size_t len = strlen(status);
        if (used + len + 2 > size)
            return false;
        if (i)
            out[used++] = ' ';
        memcpy(out + used, status, len + 1);
        used += len;
        failed = failed || (strcmp(status, "0") != 0 && atoi(status) != SHELL_SIGNAL + SIGPIPE);
    }
    return failed;
}

const struct shell_command *shell_command_leaf(const struct shell_command *command)
{
    for (int i = 0; i < DEPTH_MOST && command && command->type == SHELL_CONNECTION; i++)
        command = command->value.connection && command->value.connection->connector == '|'
                      ? command->value.connection->second
                      : NULL;
    if (!command || !command->value.leaf)
        return NULL;
    return command->type == SHELL_SIMPLE || command->type == SHELL_ARITHMETIC || command->type == SHELL_CONDITION ||
                   command->type == SHELL_SUBSHELL
               ? command
               : NULL;
}

size_t shell_command_text(const struct shell_command *command, char *out, size_t size)
{
    const struct shell_command *leaf = shell_command_leaf(command);
    size_t used = 0;
    if (!leaf || leaf->type != SHELL_SIMPLE)
        return 0;
    const struct shell_words *words = leaf->value.leaf->words;
    for (int i = 0; words && i < WORDS_MOST && used < size; i++, words = words->next) {
        const char *text = words->word ? words->word->text : NULL;
        if (used)
            out[used++] = ' ';
        for (; text && *text && used < size; text++)
            out[used++] = *text;
    }
    return used;
}

static bool is_pipeline(const struct shell_command *command)
{
    return command && command->type == SHELL_CONNECTION && command->value.connection &&
           command->value.connection->connector == '|';
}

static size_t pipeline_text(const struct shell_command *command, char *out, size_t size, int depth)
{
    static const char between[] = " | ", other[] = "..."; /* no simple command */
    if (!is_pipeline(command)) {
        size_t len = command ? shell_command_text(command, out, size) : 0;
        if (len || size < sizeof other)
            return len;
        memcpy(out, other, sizeof other - 1);
        return sizeof other - 1;
    }
    size_t used = depth < DEPTH_MOST ? pipeline_text(command->value.connection->first, out, size, depth + 1) : 0;
    if (depth == DEPTH_MOST || size - used < sizeof between)
        return used;
    memcpy(out + used, between, sizeof between - 1);
    used += sizeof between - 1;
    return used + pipeline_text(command->value.connection->second, out + used, size - used, depth + 1);
}

size_t shell_pipeline_text(const struct shell_command *command, char *out, size_t size)
{
    return pipeline_text(command, out, size, 0);
}
