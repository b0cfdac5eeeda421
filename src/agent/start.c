/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of the library: environment, is there anything to trace, connect; and what a program says itself.
 */
#include "agent/agent.h"
#include "agent/connect.h"
#include "agent/read.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

extern char **environ;

static const char *setting(const char *name, size_t length)
{
    for (char **entry = environ; entry && *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}
#define SETTING(name) setting(name, sizeof(name) - 1)

static bool copy_setting(char *to, size_t size, const char *value)
{
    size_t length = value ? strlen(value) : 0;
    if (!length || length >= size)
        return false;
    memcpy(to, value, length + 1);
    return true;
}

/* libasan comes first in LD_PRELOAD where the program itself needs it. What it starts need not, so there it does not
 * stand any more: taken out in place, since no setenv can be called here. */
static void drop_asan(void)
{
    const char *asan = SETTING("SCRY_ASAN_PRELOAD");
    char *preload = (char *)(uintptr_t)SETTING("LD_PRELOAD");
    size_t length = asan ? strlen(asan) : 0;
    if (!length || !preload || strncmp(preload, asan, length) != 0 ||
        (preload[length] && !strchr(": ", preload[length])))
        return;
    size_t skip = length + (preload[length] != '\0');
    memmove(preload, preload + skip, strlen(preload + skip) + 1);
}

/* ---- does anything call the hooks? ---- */

static uint64_t dynamic_address(const struct dl_phdr_info *object, uint64_t value)
{
    /* the dynamic linker has relocated the section in place where it is writable; the vdso's is not */
    return value >= object->dlpi_addr ? value : value + object->dlpi_addr;
}

struct imports {
    const char *strings;
    const Elf64_Sym *symbols;
    const Elf64_Rela *plt, *rest;
    size_t plt_count, rest_count, relative;
};

static bool names_hook(const struct imports *imports, const Elf64_Rela *relocation)
{
    uint64_t type = ELF64_R_TYPE(relocation->r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64)
        return false;
    const Elf64_Sym *symbol = &imports->symbols[ELF64_R_SYM(relocation->r_info)];
    return symbol->st_shndx == SHN_UNDEF && strcmp(imports->strings + symbol->st_name, "__cyg_profile_func_enter") == 0;
}

/* Its relocations tell what an object takes from others. */
static int object_imports(struct dl_phdr_info *object, size_t size, void *ctx)
{
    const Elf64_Dyn *dynamic = NULL;
    for (unsigned i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const Elf64_Dyn *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    struct imports imports = {0};
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        switch (dynamic->d_tag) {
        case DT_STRTAB:
            imports.strings = (const char *)dynamic_address(object, dynamic->d_un.d_ptr);
            break;
        case DT_SYMTAB:
            imports.symbols = (const Elf64_Sym *)dynamic_address(object, dynamic->d_un.d_ptr);
            break;
        case DT_JMPREL:
            imports.plt = (const Elf64_Rela *)dynamic_address(object, dynamic->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            imports.plt_count = dynamic->d_un.d_val / sizeof(Elf64_Rela);
            break;
        case DT_RELA:
            imports.rest = (const Elf64_Rela *)dynamic_address(object, dynamic->d_un.d_ptr);
            break;
        case DT_RELASZ:
            imports.rest_count = dynamic->d_un.d_val / sizeof(Elf64_Rela);
            break;
        case DT_RELACOUNT:
            imports.relative = dynamic->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (!imports.strings || !imports.symbols)
        return 0;
    for (size_t i = 0; imports.plt && i < imports.plt_count; i++)
        if (names_hook(&imports, &imports.plt[i]))
            return 1;
    for (size_t i = imports.relative; imports.rest && i < imports.rest_count; i++)
        if (names_hook(&imports, &imports.rest[i]))
            return 1;
    return 0;
}

bool agent_imports_hooks(void)
{
    return dl_iterate_phdr(object_imports, NULL) == 1;
}

/* ---- start and end ---- */

__attribute__((constructor(101))) static void agent_start(void)
{
    drop_asan();
    const char *off = SETTING("SCRY");
    if ((off && strcmp(off, "off") == 0) ||
        !copy_setting(connect_settings.socket, sizeof connect_settings.socket, SETTING("SCRY_AGENT_SOCKET")))
        return;
    copy_setting(connect_settings.job, sizeof connect_settings.job, SETTING("SCRY_JOB"));
    const char *wanted = SETTING("SCRY_TRACE_WANTED");
    connect_settings.wanted = wanted && strcmp(wanted, "1") == 0;
    threads_init();
    modules_init();
    pthread_atfork(NULL, NULL, fork_happened);
    agent_connect(CONNECT_START);
}

__attribute__((destructor(101))) static void agent_end(void)
{
    struct area *area = agent_hot.area;
    if (!area)
        return;
    struct agent_thread *self = &agent_self;
    if (self->block && !atomic_load(&self->block->pending)) {
        enum guard guard = thread_guard(self, (uint64_t)__builtin_frame_address(0));
        record_retire(self);
        thread_unguard(self, guard);
    }
    agent_read_done();
    atomic_store(&area->agent_state, AREA_EXITED);
    agent_ring();
}

/* ---- what a program says itself (scry/agent.h) ---- */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void scry_mark_text(const char *text);
EXPORTED void scry_thread_off(void);
EXPORTED void scry_thread_on(void);

enum { MARK_SIZE = 1024 };

/* A thread that says something before its first traced call is attached by it. */
EXPORTED void scry_mark_text(const char *text)
{
    struct agent_thread *self = &agent_self;
    fork_noticed();
    struct area *area = agent_hot.area;
    if (!area || !text || !atomic_load_explicit(&area->on, memory_order_relaxed) || self->off ||
        (!self->block && !thread_attach(self)))
        return;
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    enum guard guard = thread_guard(self, sp);
    uint16_t size = (uint16_t)raw_length(text, MARK_SIZE);
    if (guard == GUARD_STUCK)
        return;
    if (guard == GUARD_NESTED || sp - self->stack_low < self->size || stack_switch(self, guard, sp, true)) {
        if (guard == GUARD_OUTER && self->waiting)
            hooks_flush_waiting(self, guard);
        record_put(self, guard, RECORD_MARK, 0, &size, sizeof size, text, size);
    }
    thread_unguard(self, guard);
}

/* In this thread; each off needs its on. */
EXPORTED void scry_thread_off(void)
{
    struct agent_thread *self = &agent_self;
    self->off++;
    self->stack_size = 0;
}

EXPORTED void scry_thread_on(void)
{
    struct agent_thread *self = &agent_self;
    if (self->off && --self->off == 0)
        self->stack_size = self->size;
}
