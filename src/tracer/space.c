/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address spaces: their memory, and room in them for copies of instructions. That room is what the linker leaves behind
 * the end of a code segment: the last page of an executable mapping is mapped whole, the bytes behind p_memsz belong
 * to nobody. They are written as breakpoints are (a private copy of the page) and get their content back at the end.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/proc_file.h"
#include "tracer/tracee.h"

enum { SCRATCH_SIZE_LIMIT = 4096, PHDR_LIMIT = 64, LOST_SPACES = 4 };

/*
 * Where called functions return to, see call_x86_64.c: an int3, and behind it mov $15, %eax; syscall (rt_sigreturn), by
 * which the thread finds back without us. When we leave, the int3 becomes a nop; nothing else of it ever changes while
 * a thread may be there.
 */
static const uint8_t stub_code[] = {INT3, 0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x0f, 0x0b};
static const uint8_t stub_trap = INT3, stub_nop = 0x90;

struct space *space_new(void)
{
    struct space *space = calloc(1, sizeof *space);
    if (space) {
        space->references = 1;
        space->mem_fd = -1;
    }
    return space;
}

struct space *space_get(struct space *space)
{
    space->references++;
    return space;
}

static struct space *lost[LOST_SPACES]; /* the latest first */

const struct space *space_lost(unsigned index)
{
    return index < LOST_SPACES ? lost[index] : NULL;
}

void space_put(struct space *space)
{
    if (!space || --space->references)
        return;
    unwinder_free(space->unwinder);
    space->unwinder = NULL;
    if (space->lost_child && (space->breakpoints || space->scratches)) {
        struct space *oldest = lost[LOST_SPACES - 1];
        memmove(lost + 1, lost, (LOST_SPACES - 1) * sizeof *lost);
        lost[0] = space;
        space = oldest;
        if (!space)
            return;
    }
    struct breakpoint *breakpoint, *next;
    HASH_ITER(hh, space->breakpoints, breakpoint, next)
    {
        HASH_DEL(space->breakpoints, breakpoint);
        for (struct breakpoint_user *user = breakpoint->users, *after; user; user = after) {
            after = user->next;
            free(user->program);
            free(user);
        }
        guard_trap_forget(&breakpoint->guarded);
        free(breakpoint);
    }
    for (struct scratch *scratch = space->scratches, *after; scratch; scratch = after) {
        after = scratch->next;
        guard_trap_forget(&scratch->guarded);
        free(scratch->original);
        free(scratch);
    }
    if (space->mem_fd >= 0)
        close(space->mem_fd);
    free(space);
}

/* The descriptor belongs to the memory, not to the process: it is opened again after exec, with the new space. */
int space_mem_fd(struct process *process)
{
    struct space *space = process->space;
    if (space->mem_fd >= 0)
        return space->mem_fd;
    /* a leader that ended has no memory any more: ask any thread */
    for (struct thread *thread = process->threads; thread; thread = thread->next) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/mem", thread->tid);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        char byte;
        if (fd >= 0 && (pread(fd, &byte, 1, 0) != 0)) { /* 0: no memory; an error: nothing at address 0 */
            space->mem_fd = fd;
            return fd;
        }
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

ssize_t space_read_raw(struct process *process, uint64_t addr, void *ret_bytes, size_t len)
{
    int fd = space_mem_fd(process);
    size_t done = 0;
    while (fd >= 0 && done < len) {
        ssize_t got = pread(fd, (char *)ret_bytes + done, len - done, (off_t)(addr + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done || !len ? (ssize_t)done : -EIO;
}

ssize_t space_write_raw(struct process *process, uint64_t addr, const void *bytes, size_t len)
{
    int fd = space_mem_fd(process);
    size_t done = 0;
    while (fd >= 0 && done < len) {
        ssize_t put = pwrite(fd, (const char *)bytes + done, len - done, (off_t)(addr + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            break;
        done += (size_t)put;
    }
    return done == len ? (ssize_t)done : -EIO;
}

int space_read_some(struct process *process, uint64_t addr, void *ret_bytes, size_t len, size_t *ret_done)
{
    ssize_t got = space_read_raw(process, addr, ret_bytes, len);
    if (got < 0)
        return -EIO;
    *ret_done = (size_t)got;
    if (!process->space->inserted_count)
        return 0;
    struct breakpoint *breakpoint, *next;
    HASH_ITER(hh, process->space->breakpoints, breakpoint, next)
    {
        if (breakpoint->inserted && breakpoint->addr - addr < (uint64_t)got)
            ((uint8_t *)ret_bytes)[breakpoint->addr - addr] = breakpoint->original;
    }
    return 0;
}

int space_read(struct process *process, uint64_t addr, void *ret_bytes, size_t len)
{
    size_t done;
    return space_read_some(process, addr, ret_bytes, len, &done) == 0 && done == len ? 0 : -EIO;
}

int space_write(struct process *process, uint64_t addr, const void *bytes, size_t len)
{
    return space_write_raw(process, addr, bytes, len) < 0 ? -EIO : 0;
}

/* ---- scratch areas ---- */

/* Where the code of the executable segment that ends in [start, end) ends, by the program headers in memory. */
static uint64_t code_end(struct process *process, const struct proc_map *header, const struct proc_map *code)
{
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdrs[PHDR_LIMIT];
    if (space_read(process, header->start, &ehdr, sizeof ehdr) < 0 || memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 ||
        ehdr.e_phentsize != sizeof *phdrs || ehdr.e_phnum > PHDR_LIMIT ||
        space_read(process, header->start + ehdr.e_phoff, phdrs, ehdr.e_phnum * sizeof *phdrs) < 0)
        return 0;
    uint64_t bias = 0, end = 0;
    bool biased = false;
    for (unsigned i = 0; i < ehdr.e_phnum; i++) {
        if (phdrs[i].p_type != PT_LOAD)
            continue;
        if (!biased)
            bias = header->start - (phdrs[i].p_vaddr & ~UINT64_C(4095));
        biased = true;
        uint64_t segment_end = bias + phdrs[i].p_vaddr + phdrs[i].p_memsz;
        if ((phdrs[i].p_flags & PF_X) && phdrs[i].p_filesz == phdrs[i].p_memsz && segment_end > code->start &&
            segment_end < code->end && code->end - segment_end < 4096)
            end = segment_end;
    }
    return end;
}

static void add_scratch(struct process *process, uint64_t start, uint64_t end)
{
    start = (start + 15) & ~UINT64_C(15);
    if (end < start + SLOT_SIZE)
        return;
    size_t stub_size = end < start + CALL_STUB_SIZE + SLOT_SIZE ? 0 : CALL_STUB_SIZE;
    size_t size = end - start > SCRATCH_SIZE_LIMIT ? SCRATCH_SIZE_LIMIT : end - start;
    struct scratch *scratch = calloc(1, sizeof *scratch);
    uint8_t *original = malloc(size);
    if (!scratch || !original || space_read_raw(process, start, original, size) != (ssize_t)size) {
        free(scratch);
        free(original);
        return;
    }
    scratch->start = start;
    scratch->end = start + size;
    scratch->stub_size = stub_size;
    scratch->slots_end = start + stub_size;
    scratch->original = original;
    scratch->next = process->space->scratches;
    process->space->scratches = scratch;
}

static void search_scratches(struct process *process)
{
    struct space *space = process->space;
    if (space->scratch_searched || !process->threads)
        return;
    space->scratch_searched = true;
    struct proc_maps maps;
    const struct proc_map *header = NULL;
    if (proc_maps_read(process_live_tid(process), &maps) < 0)
        return;
    for (const struct proc_map *map = maps.maps; map < maps.maps + maps.count; map++) {
        if (map->path[0] != '/')
            continue;
        if (map->offset == 0)
            header = map;
        if (!map->execute || !map->private || !header || strcmp(header->path, map->path) != 0)
            continue;
        uint64_t end = code_end(process, header, map);
        if (end)
            add_scratch(process, end, map->end);
    }
    proc_maps_done(&maps);
}

uint64_t space_slot_new(struct process *process, const struct insn *insn, uint64_t addr)
{
    search_scratches(process);
    uint8_t bytes[SLOT_SIZE];
    for (struct scratch *scratch = process->space->scratches; scratch; scratch = scratch->next) {
        uint64_t slot = scratch->slots_end;
        memset(bytes, INT3, sizeof bytes);
        if (slot + SLOT_SIZE > scratch->end || insn_relocate(insn, addr, slot, bytes) < 0 ||
            space_write_raw(process, slot, bytes, sizeof bytes) < 0)
            continue;
        scratch->slots_end += SLOT_SIZE;
        return slot;
    }
    return 0;
}

uint64_t space_call_stub(struct process *process)
{
    search_scratches(process);
    for (struct scratch *scratch = process->space->scratches; scratch; scratch = scratch->next) {
        if (!scratch->stub_size)
            continue;
        if (!scratch->guarded)
            scratch->guarded = guard_trap(space_mem_fd(process), scratch->start, stub_nop);
        /* the first byte last: calls of an earlier seizing may be on their way through the rest */
        if (!scratch->stub_written &&
            (space_write_raw(process, scratch->start + 1, stub_code + 1, sizeof stub_code - 1) < 0 ||
             space_write_raw(process, scratch->start, &stub_trap, 1) < 0))
            continue;
        scratch->stub_written = true;
        return scratch->start;
    }
    return 0;
}

bool space_is_call_stub(const struct space *space, uint64_t addr)
{
    for (const struct scratch *scratch = space->scratches; scratch; scratch = scratch->next)
        if (scratch->stub_written && scratch->start == addr)
            return true;
    return false;
}

void space_stub_original(const struct space *space, uint64_t stub, uint8_t ret_bytes[CALL_STUB_SIZE])
{
    for (const struct scratch *scratch = space->scratches; scratch; scratch = scratch->next)
        if (scratch->start == stub)
            memcpy(ret_bytes, scratch->original, CALL_STUB_SIZE);
}

bool space_translate(const struct space *space, uint64_t pc, uint64_t *ret_pc)
{
    const struct scratch *scratch = space->scratches;
    while (scratch && pc - scratch->start >= scratch->slots_end - scratch->start)
        scratch = scratch->next;
    if (!scratch)
        return false;
    struct breakpoint *breakpoint, *next;
    HASH_ITER(hh, space->breakpoints, breakpoint, next)
    {
        if (breakpoint->slot && pc - breakpoint->slot < SLOT_SIZE) {
            *ret_pc = breakpoint->addr + (pc == breakpoint->slot ? 0 : breakpoint->insn.length);
            return true;
        }
    }
    return false;
}

void space_leave_stubs(struct process *process)
{
    for (const struct scratch *scratch = process->space->scratches; scratch; scratch = scratch->next)
        if (scratch->stub_written)
            space_write_raw(process, scratch->start, &stub_nop, 1);
}

bool space_has_stub(struct process *process, const struct scratch *scratch)
{
    uint8_t bytes[sizeof stub_code];
    return scratch->stub_written &&
           space_read_raw(process, scratch->start, bytes, sizeof bytes) == (ssize_t)sizeof bytes &&
           (bytes[0] == stub_trap || bytes[0] == stub_nop) && memcmp(bytes + 1, stub_code + 1, sizeof bytes - 1) == 0;
}

void space_restore_bytes(struct process *process, const struct scratch *scratch, bool keep_stub)
{
    uint64_t slots = scratch->start + scratch->stub_size;
    if (keep_stub && scratch->stub_written)
        space_write_raw(process, scratch->start, &stub_nop, 1);
    else if (scratch->stub_written)
        space_write_raw(process, scratch->start, scratch->original, CALL_STUB_SIZE);
    if (scratch->slots_end > slots)
        space_write_raw(process, slots, scratch->original + scratch->stub_size, scratch->slots_end - slots);
}

void space_restore_scratch(struct process *process, bool keep_stubs)
{
    for (struct scratch *scratch = process->space->scratches; scratch; scratch = scratch->next)
        space_restore_bytes(process, scratch, keep_stubs);
}
