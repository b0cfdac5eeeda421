/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job `patches` of scry-symbols (symbols/client/helper.h): the jumps for functions of a file, and the stubs they lead to.
 *
 *     stub:   push $DISTANCE        from behind the call to the function
 *             call *HOOK            its address is in the first 8 bytes of the stubs; comes back with the push undone
 *             ...                   what patch_emit writes: the moved instructions, and back to the function
 */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "symbols/client/helper.h"
#include "symbols/code/code.h"
#include "symbols/helper/jobs.h"

enum { FUNCTIONS_MOST = 1 << 17, HOOK_BEFORE = 5 + 6, STUB_ALIGN = 16 };

struct planned {
    struct address_range range;
    struct patch patch;
    enum patch_answer answer;
    const char *reason; /* another one why it cannot be; NULL: none */
};

struct patches {
    FILE *out;
    char *file;
    uint64_t bias, stubs; /* stubs: where they will be */
    uint64_t size;        /* bytes that they may have */
    struct planned *functions;
    size_t count;
    struct address_range *cold; /* parts of functions that stand elsewhere */
    size_t cold_count;
};

/* ---- what must not be touched ---- */

/* Runtimes that go through the stack by themselves would take our return addresses for damage. */
static const char *runtime_of(Elf *elf)
{
    static const char *const sections[][2] = {{".gopclntab", "Go's runtime moves its stacks"},
                                              {".data.rel.ro.gopclntab", "Go's runtime moves its stacks"}};
    static const char *const symbols[][2] = {{"JNI_CreateJavaVM", "Java's runtime reads return addresses"},
                                             {"v8_Default_embedded_blob_code_", "V8 reads return addresses"},
                                             {"__morestack", "its stacks are in pieces, with little room in each"},
                                             {"caml_frametable", "OCaml's runtime reads return addresses"},
                                             {"stg_upd_frame_info", "Haskell's runtime has a stack of its own"}};
    size_t names;
    GElf_Shdr header;
    if (elf_getshdrstrndx(elf, &names) < 0)
        return NULL;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &header);) {
        const char *name = elf_strptr(elf, names, header.sh_name);
        for (size_t i = 0; name && i < sizeof sections / sizeof *sections; i++)
            if (strcmp(name, sections[i][0]) == 0)
                return sections[i][1];
        GElf_Sym symbol;
        Elf_Data *data = header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM ? elf_getdata(scn, NULL) : NULL;
        for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
            if (symbol.st_shndx == SHN_UNDEF)
                continue;
            const char *text = elf_strptr(elf, header.sh_link, symbol.st_name);
            for (size_t k = 0; text && k < sizeof symbols / sizeof *symbols; k++)
                if (strcmp(text, symbols[k][0]) == 0)
                    return symbols[k][1];
        }
    }
    return NULL;
}

/* ---- planning ---- */

/* Padding as compilers put it: int3, or nops. */
static size_t room_behind(const struct elf_code *code, uint64_t address)
{
    size_t left, room = 0;
    const uint8_t *bytes = elf_code_at(code, address, &left);
    if (!bytes)
        return 0;
    while (room < PATCH_JUMP && room < left && (bytes[room] == 0xcc || bytes[room] == 0x90))
        room++;
    size_t prefixes = 0;
    while (prefixes + 2 < left && prefixes < 8 && (bytes[prefixes] == 0x66 || bytes[prefixes] == 0x2e))
        prefixes++;
    bool long_nop = left >= PATCH_JUMP && bytes[prefixes] == 0x0f && bytes[prefixes + 1] == 0x1f;
    return long_nop && !room ? PATCH_JUMP : room;
}

static int compare_functions(const void *left, const void *right)
{
    uint64_t a = ((const struct planned *)left)->range.low, b = ((const struct planned *)right)->range.low;
    return a < b ? -1 : a > b;
}

/* The function whose jump's bytes, but for the first, have this address. */
static struct planned *covered(const struct patches *patches, uint64_t address)
{
    size_t low = 0, high = patches->count;
    while (low < high) { /* the last that begins before it */
        size_t middle = low + (high - low) / 2;
        if (patches->functions[middle].range.low < address)
            low = middle + 1;
        else
            high = middle;
    }
    struct planned *function = low ? &patches->functions[low - 1] : NULL;
    return function && address > function->patch.address && address < function->patch.address + PATCH_JUMP ? function
                                                                                                           : NULL;
}

static struct planned *planned_at(const struct patches *patches, uint64_t address)
{
    const struct planned key = {.range = {.low = address}};
    return bsearch(&key, patches->functions, patches->count, sizeof key, compare_functions);
}

static void find_cold(struct patches *patches, Elf *elf)
{
    GElf_Shdr header;
    GElf_Sym symbol;
    size_t room = 0;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &header);) {
        Elf_Data *data = header.sh_type == SHT_SYMTAB ? elf_getdata(scn, NULL) : NULL;
        for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
            const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);
            if (!name || !strstr(name, ".cold") || !GROW(patches->cold, patches->cold_count, room))
                continue;
            patches->cold[patches->cold_count++] =
                (struct address_range){symbol.st_value, symbol.st_value + symbol.st_size};
        }
    }
}

/* A jump of 32 bits from a cold part to the beginning of a function is the end of a loop, and no call. */
static struct planned *looped(const struct patches *patches, uint64_t from, uint64_t target)
{
    enum { ENDBR = 4 };
    struct planned *function = planned_at(patches, target);
    if (!function && (function = planned_at(patches, target - ENDBR)) && function->patch.address != target)
        function = NULL;
    for (size_t i = 0; function && i < patches->cold_count; i++)
        if (from >= patches->cold[i].low && from < patches->cold[i].high)
            return function;
    return NULL;
}

/* Cold parts of a function, for which a stripped file has no name, jump back to it. All that can be read as a jump of 32 bits
 * from somewhere else into its first bytes counts, so nothing is missed; by chance it is one in a million. */
static void look_for_far_branches(const struct patches *patches, const struct elf_code *code)
{
    for (size_t i = 0; i < code->section_count; i++) {
        const struct code_section *section = &code->sections[i];
        for (uint64_t at = 0; at + 5 <= section->size; at++) {
            const uint8_t *bytes = section->bytes + at;
            size_t opcode = bytes[0] == 0xe9 || bytes[0] == 0xe8            ? 1
                            : bytes[0] == 0x0f && (bytes[1] & 0xf0) == 0x80 ? 2
                                                                            : 0;
            int32_t distance;
            if (!opcode || at + opcode + 4 > section->size)
                continue;
            memcpy(&distance, bytes + opcode, sizeof distance);
            uint64_t from = section->address + at;
            uint64_t target = from + opcode + 4 + (uint64_t)(int64_t)distance;
            struct planned *function = bytes[0] == 0xe8 ? NULL : looped(patches, from, target);
            if (function)
                function->answer = PATCH_LOOP;
            else if ((function = covered(patches, target)) &&
                     (from < function->range.low || from >= function->range.high))
                function->answer = PATCH_BRANCH;
        }
    }
}

static void plan_all(struct patches *patches, struct elf_code *code)
{
    qsort(patches->functions, patches->count, sizeof *patches->functions, compare_functions);
    for (size_t i = 0; i < patches->count; i++) {
        struct planned *function = &patches->functions[i];
        uint64_t next = i + 1 < patches->count ? patches->functions[i + 1].range.low : UINT64_MAX;
        size_t room = room_behind(code, function->range.high);
        if (next - function->range.high < room) /* also where one range is inside another */
            room = next > function->range.high ? (size_t)(next - function->range.high) : 0;
        function->answer = patch_plan(&function->patch, code, &function->range, 1, room);
    }
    look_for_far_branches(patches, code);
}

/* What is at the address of such a symbol is called once, and says which function is meant. */
static void refuse_chosen(const struct patches *patches, Elf *elf)
{
    GElf_Shdr header;
    GElf_Sym symbol;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &header);) {
        Elf_Data *data = header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM ? elf_getdata(scn, NULL) : NULL;
        for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
            struct planned *function =
                GELF_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC ? planned_at(patches, symbol.st_value) : NULL;
            if (function)
                function->reason = "which function it means is chosen at run time (ifunc)";
        }
    }
}

/* .eh_frame_hdr: where functions begin that unwinders know. Code by hand that is none of them may be entered by jumps, with anything
 * in the place of a return address, or return something in flags. A file without that table is believed. */
static void refuse_unknown(const struct patches *patches, Elf *elf)
{
    enum { HEAD = 12, VERSION = 1, COUNT_U32 = 0x03, TABLE_S32 = 0x3b };
    size_t names;
    GElf_Shdr header;
    if (elf_getshdrstrndx(elf, &names) < 0)
        return;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn)) && gelf_getshdr(scn, &header);) {
        const char *name = elf_strptr(elf, names, header.sh_name);
        Elf_Data *data = name && strcmp(name, ".eh_frame_hdr") == 0 ? elf_rawdata(scn, NULL) : NULL;
        const uint8_t *bytes = data ? data->d_buf : NULL;
        uint32_t count;
        if (!bytes || data->d_size < HEAD || bytes[0] != VERSION || bytes[2] != COUNT_U32 || bytes[3] != TABLE_S32)
            continue;
        memcpy(&count, bytes + 8, sizeof count);
        if (count > (data->d_size - HEAD) / 8)
            return;
        size_t at = 0;
        for (size_t i = 0; i < patches->count; i++) { /* both are by address */
            int64_t start = INT64_MIN;
            while (at < count && start < (int64_t)patches->functions[i].range.low) {
                int32_t distance;
                memcpy(&distance, bytes + HEAD + at * 8, sizeof distance);
                start = (int64_t)header.sh_addr + distance;
                at += start < (int64_t)patches->functions[i].range.low;
            }
            if (start != (int64_t)patches->functions[i].range.low)
                patches->functions[i].reason =
                    "unwinders know no function there: it may be entered in other ways than by calls";
        }
    }
}

/* ---- writing ---- */

static void put_hex(FILE *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        fprintf(out, "%02x", bytes[i]);
}

static size_t stub_put(const struct patches *patches, const struct patch *patch, uint64_t function, uint64_t at,
                       uint8_t ret_bytes[HOOK_BEFORE + PATCH_STUB_MOST])
{
    int64_t behind = (int64_t)(at + HOOK_BEFORE), distance = (int64_t)(function + patches->bias) - behind,
            hook = (int64_t)patches->stubs - behind;
    int32_t fields[] = {(int32_t)distance, (int32_t)hook};
    if (fields[0] != distance || fields[1] != hook)
        return 0;
    ret_bytes[0] = 0x68;
    memcpy(ret_bytes + 1, &fields[0], 4);
    ret_bytes[5] = 0xff;
    ret_bytes[6] = 0x15;
    memcpy(ret_bytes + 7, &fields[1], 4);
    size_t moved = patch_emit(patch, patches->bias, (uint64_t)behind, ret_bytes + HOOK_BEFORE);
    return moved ? HOOK_BEFORE + moved : 0;
}

/* Returns where the next stub may begin. */
static uint64_t function_answer(const struct patches *patches, const struct planned *function,
                                const struct elf_code *code, uint64_t at)
{
    uint8_t stub[HOOK_BEFORE + PATCH_STUB_MOST], jump[PATCH_JUMP];
    size_t left, size = 0;
    const uint8_t *before = elf_code_at(code, function->patch.address, &left);
    const char *reason =
        function->answer == PATCH_CAN && function->reason ? function->reason : patch_reasons[function->answer];
    if (function->answer == PATCH_CAN && !function->reason && before && left >= PATCH_JUMP) {
        size = stub_put(patches, &function->patch, function->range.low, at, stub);
        if (!size || at + size > patches->stubs + patches->size ||
            !patch_jump(function->patch.address + patches->bias, at, jump))
            size = 0;
        reason = "there is no room near it";
    }
    if (!size) {
        fprintf(patches->out, "unpatched\t0x%" PRIx64 "\t%s\n", function->range.low, reason);
        return at;
    }
    fprintf(patches->out, "patch\t0x%" PRIx64 "\t0x%" PRIx64 "\t0x%" PRIx64 "\t", function->range.low,
            function->patch.address + patches->bias, at);
    put_hex(patches->out, before, PATCH_JUMP);
    put_hex(patches->out, jump, PATCH_JUMP);
    put_hex(patches->out, stub, size);
    fputc('\n', patches->out);
    return (at + size + STUB_ALIGN - 1) & -(uint64_t)STUB_ALIGN;
}

static const char *file_answer(struct patches *patches)
{
    struct elf_code code = {0};
    struct err err = {0};
    _cleanup_(closep) int fd = open(patches->file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    elf_version(EV_CURRENT);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
    const char *problem = !elf ? "it cannot be read" : runtime_of(elf);
    if (!problem && (elf_code_read(&code, elf, &err) < 0 || elf_code_read_pointers(&code, elf) < 0))
        problem = "its code cannot be read";
    if (!problem) {
        uint64_t at = patches->stubs + STUB_ALIGN;
        find_cold(patches, elf);
        plan_all(patches, &code);
        refuse_chosen(patches, elf);
        refuse_unknown(patches, elf);
        for (size_t i = 0; i < patches->count; i++)
            at = function_answer(patches, &patches->functions[i], &code, at);
    }
    elf_code_done(&code);
    elf_end(elf);
    return problem;
}

static bool take_function(struct patches *patches, const char *address, const char *size)
{
    uint64_t low, bytes;
    if (!helper_address(address, &low) || !helper_number(size, 0, UINT32_MAX, &bytes) ||
        patches->count == FUNCTIONS_MOST)
        return false;
    if (!(patches->count & (patches->count - 1))) {
        size_t room = patches->count ? 2 * patches->count : 1;
        struct planned *grown = realloc(patches->functions, room * sizeof *grown);
        if (!grown)
            return false;
        patches->functions = grown;
    }
    patches->functions[patches->count++] = (struct planned){.range = {low, low + bytes}};
    return true;
}

static bool take_line(struct patches *patches, char *line, bool *ret_end)
{
    char *fields[HELPER_FIELDS];
    int count = helper_split(line, fields);
    *ret_end = count == 1 && strcmp(fields[0], "end") == 0;
    if (count == 2 && strcmp(fields[0], "file") == 0) {
        free(patches->file);
        return (patches->file = strdup(fields[1])) != NULL;
    }
    if (count == 4 && strcmp(fields[0], "place") == 0)
        return helper_address(fields[1], &patches->bias) && helper_address(fields[2], &patches->stubs) &&
               helper_number(fields[3], STUB_ALIGN, UINT32_MAX, &patches->size);
    if (count == 3 && strcmp(fields[0], "function") == 0)
        return take_function(patches, fields[1], fields[2]);
    return *ret_end;
}

int patches_main(FILE *in, FILE *out)
{
    struct patches patches = {.out = out};
    _cleanup_(freep) char *line = NULL;
    size_t room = 0;
    ssize_t len;
    bool end = false, good = true;
    while (good && !end && (len = getline(&line, &room, in)) > 0) {
        good = line[len - 1] == '\n' && !memchr(line, 0, (size_t)len);
        line[len - 1] = 0;
        good = good && take_line(&patches, line, &end);
    }
    const char *problem =
        good && end && patches.file && patches.size ? file_answer(&patches) : "the request is not understood";
    if (problem)
        fprintf(out, "failed\t%s\n", problem);
    else
        fputs("done\n", out);
    fflush(out);
    free(patches.functions);
    free(patches.cold);
    free(patches.file);
    return problem != NULL;
}
