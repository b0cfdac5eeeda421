/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the file whose functions are compiled. */
#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

#include "symbols/capture/site.h"
#include "symbols/index/lines_internal.h"

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf, /* never called: the file is given */
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

static int open_file(struct capture_compiler *compiler, const char *path, struct err *err)
{
    symbols_stay_local();
    compiler->dwfl = dwfl_begin(&callbacks);
    if (!compiler->dwfl)
        return err_set(err, -ENOMEM, "out of memory for symbols");
    compiler->module = dwfl_report_elf(compiler->dwfl, path, path, -1, 0, true);
    dwfl_report_end(compiler->dwfl, NULL, NULL);
    GElf_Addr bias;
    Elf *elf = compiler->module ? dwfl_module_getelf(compiler->module, &bias) : NULL;
    if (!elf)
        return err_set(err, -ENOEXEC, "%s: %s", path, dwfl_errmsg(-1));
    int r = elf_code_read(&compiler->code, elf, err);
    if (r < 0)
        return r;
    compiler->dwarf = dwfl_module_getdwarf(compiler->module, &compiler->dwarf_bias);
    compiler->types.dwarf = compiler->dwarf;
    Elf *debug = compiler->dwarf ? dwarf_getelf(compiler->dwarf) : NULL;
    if (debug && debug != elf)
        elf_code_read_symbols(&compiler->code, debug);
    compiler->cfi[0] = dwfl_module_eh_cfi(compiler->module, &compiler->cfi_bias[0]);
    compiler->cfi[1] = dwfl_module_dwarf_cfi(compiler->module, &compiler->cfi_bias[1]);
    return 0;
}

int capture_compiler_new(struct capture_compiler **ret_compiler, const char *elf_path, uint64_t bias,
                         const struct capture_options *options, struct err *err)
{
    struct capture_compiler *compiler;
    int r = capture_compiler_open(&compiler, elf_path, bias, options, err);
    if (r < 0)
        return r;
    if (!compiler->dwarf) {
        capture_compiler_free(compiler);
        return err_set(err, -ENODATA, "%s has no debug information: compile with -g", elf_path);
    }
    *ret_compiler = compiler;
    return 0;
}

int capture_compiler_open(struct capture_compiler **ret_compiler, const char *elf_path, uint64_t bias,
                          const struct capture_options *options, struct err *err)
{
    struct capture_compiler *compiler = calloc(1, sizeof *compiler);
    if (!compiler)
        return err_set(err, -ENOMEM, "out of memory for symbols");
    compiler->bias = bias;
    compiler->options = *options;
    int r = open_file(compiler, elf_path, err);
    if (r < 0) {
        capture_compiler_free(compiler);
        return r;
    }
    *ret_compiler = compiler;
    return 0;
}

void capture_compiler_free(struct capture_compiler *compiler)
{
    if (!compiler)
        return;
    struct layout_entry *layout, *next_layout;
    HASH_ITER(hh, compiler->layouts, layout, next_layout)
    {
        HASH_DEL(compiler->layouts, layout);
        free(layout->text);
        free(layout);
    }
    struct site_entry *site, *next_site;
    HASH_ITER(hh, compiler->call_sites, site, next_site)
    {
        HASH_DEL(compiler->call_sites, site);
        free(site);
    }
    site_codes_done(compiler);
    variables_done(compiler);
    scopes_done(compiler);
    statics_done(compiler);
    memo_done(&compiler->memo);
    share_done(&compiler->shared);
    type_index_done(&compiler->types);
    elf_code_done(&compiler->code);
    if (compiler->dwfl)
        dwfl_end(compiler->dwfl);
    free(compiler);
}
