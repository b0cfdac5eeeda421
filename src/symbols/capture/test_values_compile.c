/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_values_compile FILE: compiles captures of all functions that FILE's own debug information has, for the hooks of
 * test_values_hooks.c. Lines: `function ADDRESS NAME`, `layout ID TEXT`, `block ID HEX`, `site KIND ADDRESS LAYOUT
 * HEX`, `params KIND ADDRESS HEX`; problems on standard error.
 */
#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/capture/internal.h"
#include "symbols/index/lines.h"
#include "symbols/layout/layout.h"

static char *texts[1 << 14]; /* of layouts and their parts */

static const char *text_of(void *ctx, uint32_t id)
{
    return id < sizeof texts / sizeof texts[0] ? texts[id] : NULL;
}

static void layout(void *ctx, uint32_t id, const char *text)
{
    struct buf whole = BUF_INIT;
    if (id >= sizeof texts / sizeof texts[0] || !(texts[id] = strdup(text)) ||
        layout_expand(text, id, text_of, NULL, &whole) < 0)
        abort();
    if (!layout_is_part(text))
        printf("layout %" PRIu32 " %s\n", id, whole.data);
    buf_done(&whole);
}

static void hex(const void *code, size_t size)
{
    for (size_t i = 0; i < size; i++)
        printf("%02x", ((const uint8_t *)code)[i]);
    putchar('\n');
}

static void site(void *ctx, enum capture_site_kind kind, uint64_t address, uint32_t id, const void *code, size_t size)
{
    printf("site %d 0x%" PRIx64 " %" PRIu32 " ", (int)kind, address, id);
    hex(code, size);
}

static void params(void *ctx, enum capture_site_kind kind, uint64_t address, const void *code, size_t size)
{
    printf("params %d 0x%" PRIx64 " ", (int)kind, address);
    hex(code, size);
}

static void problem(void *ctx, uint64_t address, const char *text)
{
    fprintf(stderr, "0x%" PRIx64 ": %s\n", address, text);
}

static void lines_only(void *ctx, uint64_t address)
{
    problem(ctx, address, "lines only");
}

static void param_problem(void *ctx, enum capture_site_kind kind, uint64_t address, const char *expression,
                          const struct number_problem *what)
{
    fprintf(stderr, "0x%" PRIx64 ": %s: %s at %u\n", address, expression, number_problem_word(what->kind), what->at);
}

static uint32_t block(void *ctx, const void *code, size_t size)
{
    static uint32_t last;
    printf("block %" PRIu32 " ", ++last);
    hex(code, size);
    return last;
}

static int function(Dwarf_Die *die, void *ctx)
{
    struct capture_compiler *compiler = ctx;
    static uint32_t next_layout = 1;
    const struct capture_output output = {NULL,       layout,  site,    params, param_problem,
                                          lines_only, problem, problem, block};
    char expressions[4096] = "", *list[64];
    unsigned count = 0;
    if (getenv("VALUES_PARAMS"))
        snprintf(expressions, sizeof expressions, "%s", getenv("VALUES_PARAMS"));
    for (char *word = strtok(expressions, ";"); word && count < 64; word = strtok(NULL, ";"))
        list[count++] = word;
    uint64_t address = scopes_entry(compiler, die);
    struct err err;
    if (address == 0 || !die_name(die))
        return DWARF_CB_OK;
    printf("function 0x%" PRIx64 " %s\n", address, die_name(die));
    if (capture_compile_function(compiler, address, (const char *const *)list, count, &next_layout, &output, &err) < 0)
        fprintf(stderr, "%s\n", err.text);
    return DWARF_CB_OK;
}

static void walk(Dwarf_Die *parent, struct capture_compiler *compiler)
{
    Dwarf_Die child;
    if (dwarf_child(parent, &child) != 0)
        return;
    do {
        if (dwarf_tag(&child) == DW_TAG_subprogram)
            function(&child, compiler);
        if (dwarf_tag(&child) == DW_TAG_namespace || dwarf_tag(&child) == DW_TAG_class_type ||
            dwarf_tag(&child) == DW_TAG_structure_type || dwarf_tag(&child) == DW_TAG_module ||
            dwarf_tag(&child) == DW_TAG_subprogram)
            walk(&child, compiler);
    } while (dwarf_siblingof(&child, &child) == 0);
}

int main(int argc, char **argv)
{
    struct capture_compiler *compiler;
    struct err err;
    const char *depth = getenv("VALUES_DEPTH");
    const struct capture_options options = {.depth = depth ? (unsigned)atoi(depth) : 2,
                                            .bytes = 2048,
                                            .array = 16,
                                            .string = 40,
                                            .args = true,
                                            .locals = true,
                                            .caller = true,
                                            .patched = getenv("VALUES_PATCHED"),
                                            .result = true};
    int r = argc == 2 ? capture_compiler_new(&compiler, argv[1], 0, &options, &err) : -EINVAL;
    if (r < 0) {
        fprintf(stderr, "%s\n", argc == 2 ? err.text : "usage: test_values_compile FILE");
        return 1;
    }
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit;
    while (dwarf_get_units(compiler->dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0)
        if (unit_content(&unit, &unit))
            walk(&unit, compiler);
    capture_compiler_free(compiler);
    return fflush(stdout) == 0 ? 0 : 1;
}
