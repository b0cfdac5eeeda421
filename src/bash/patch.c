/* SPDX-License-Identifier: Apache-2.0 */
#include "bash/patch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

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
