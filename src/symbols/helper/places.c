/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's job `places` (symbols/client/helper.h): which functions the compiler has put into others at addresses of files, and
 * lines. What is inlined has the name and the place that it has in the index where it also stands by itself. Each answer is written
 * at once: whoever asked may end us when it takes too long.
 */
#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "symbols/client/helper.h"
#include "symbols/helper/jobs.h"
#include "symbols/index/index_build.h"
#include "symbols/index/lines.h"

enum { INLINED_MOST = 64 }; /* into each other */

struct places {
    FILE *out;
    struct lines *lines; /* of the file; NULL: it cannot be read */
    struct buf answer, name, full;
};

static void name_put(struct places *places, Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    const char *name = dwarf_diename(die);
    const char *linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &attr));
    if (!linkage)
        linkage = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attr));
    bool mangled = linkage && (strncmp(linkage, "_Z", 2) == 0 || strncmp(linkage, "__", 2) == 0);
    readable_name(mangled || !name ? linkage ? linkage : "" : name, &places->name, &places->full);
}

static void inlined_put(struct places *places, struct line_function *function, uint32_t call_line)
{
    char numbers[2][16];
    int line = 0;
    const char *file = lines_declared_in(&function->die);
    _cleanup_(freep) char *path = strdup(file ? file : "");
    if (path)
        path_clean(path);
    if (dwarf_decl_line(&function->die, &line) != 0)
        line = 0;
    snprintf(numbers[0], sizeof numbers[0], "%u", line > 0 ? (unsigned)line : 0);
    snprintf(numbers[1], sizeof numbers[1], "%" PRIu32, call_line);
    name_put(places, &function->die);
    helper_line(&places->answer, "inlined", places->name.data ? places->name.data : "", path ? path : "", numbers[0],
                numbers[1], NULL);
}

static void place_answer(struct places *places, uint64_t address)
{
    struct line_function functions[INLINED_MOST];
    char low[24], high[24], line[16];
    uint64_t from = address, to = address + 1;
    size_t count = places->lines ? lines_around(places->lines, address, functions, INLINED_MOST, &from, &to) : 0;
    snprintf(low, sizeof low, "0x%" PRIx64, from);
    snprintf(high, sizeof high, "0x%" PRIx64, to);
    snprintf(line, sizeof line, "%" PRIu32, count ? functions[0].line : 0);
    buf_clear(&places->answer);
    helper_line(&places->answer, "place", low, high, line, NULL);
    for (size_t i = 0; i + 1 < count; i++)
        inlined_put(places, &functions[i], functions[i + 1].line);
    if (!places->answer.failed)
        fwrite(places->answer.data, 1, places->answer.len, places->out);
    fflush(places->out);
}

static void file_open(struct places *places, const char *path)
{
    struct stat st;
    const struct lines_module module = {path, 0};
    lines_close(places->lines);
    places->lines = NULL;
    helper_guard(stat(path, &st) == 0 && st.st_size > 0 ? (unsigned long long)st.st_size : 0);
    if (lines_open_modules(&places->lines, &module, 1, NULL) < 0)
        places->lines = NULL;
}

int places_main(FILE *in, FILE *out)
{
    struct places places = {.out = out};
    _cleanup_(freep) char *line = NULL;
    size_t room = 0;
    ssize_t len;
    bool end = false;
    while (!end && (len = getline(&line, &room, in)) > 0) {
        char *fields[HELPER_FIELDS];
        uint64_t address = 0;
        line[len - 1] = 0;
        int count = memchr(line, 0, (size_t)len - 1) ? -1 : helper_split(line, fields);
        end = count < 1 || (count == 1 && strcmp(fields[0], "end") == 0);
        if (count == 2 && strcmp(fields[0], "file") == 0)
            file_open(&places, fields[1]);
        else if (count == 2 && strcmp(fields[0], "address") == 0 && helper_address(fields[1], &address))
            place_answer(&places, address);
    }
    fputs("done\n", out);
    fflush(out);
    lines_close(places.lines);
    buf_done(&places.answer);
    buf_done(&places.name);
    buf_done(&places.full);
    return 0;
}
