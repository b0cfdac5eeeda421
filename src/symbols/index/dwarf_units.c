/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/index/dwarf_units.h"

#include <dwarf.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

bool unit_content(Dwarf_Die *unit, Dwarf_Die *ret_content)
{
    uint8_t type;
    Dwarf_Die content = {0};
    if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &content, NULL, NULL, NULL) != 0)
        return false;
    if (type != DW_UT_skeleton)
        content = *unit;
    if (content.addr)
        *ret_content = content;
    return content.addr;
}

static const char *text_of(Dwarf_Die *die, unsigned number)
{
    Dwarf_Attribute attribute;
    const char *text = dwarf_formstring(dwarf_attr(die, number, &attribute));
    return text ? text : "";
}

void unit_put_file(Dwarf_Die *skeleton, struct buf *out)
{
    const char *name = text_of(skeleton, DW_AT_dwo_name), *directory = text_of(skeleton, DW_AT_comp_dir);
    if (!*name)
        name = text_of(skeleton, DW_AT_GNU_dwo_name);
    if (*name && *name != '/' && *directory)
        buf_printf(out, "%s/", directory);
    buf_puts(out, name);
}

void unit_put_missing(Dwarf_Die *skeleton, const char *program, struct buf *out)
{
    char package[PATH_MAX];
    struct buf file = BUF_INIT;
    unit_put_file(skeleton, &file);
    const char *path = file.data ? file.data : "";
    bool there = access(path, F_OK) == 0;
    bool packed =
        snprintf(package, sizeof package, "%s.dwp", program) < (int)sizeof package && access(package, F_OK) == 0;
    buf_printf(out, "its debug information is in %s, which is %s", path,
               there ? "of another build, damaged, or compiled with -fdebug-types-section, too" : "missing");
    if (packed && !there)
        buf_puts(out, " (a .dwp file is read with elfutils 0.191 and newer)");
    buf_done(&file);
}
