/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a running process and of files, and core files of real crashes: whole, cut and foreign ones. */
#include <dirent.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbols/index/core.h"
#include "symbols/index/lines.h"

static const char *program(void)
{
    const char *path = getenv("CRASH_PROGRAM");
    if (!path)
        fail_msg("CRASH_PROGRAM is not set: run this test by meson");
    return path;
}

/* ---- lines ---- */
static void test_lines(void **state)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(program(), "crash", "wait", NULL);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    unsigned long middle, deep;
    assert_int_equal(fscanf(said, "%lx %lx", &middle, &deep), 2);

    struct err err = {0};
    struct lines *lines;
    setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9/", 1);
    assert_int_equal(lines_open_process(&lines, pid, &err), 0);
    assert_null(getenv("DEBUGINFOD_URLS"));
    struct line_location where;
    assert_int_equal(lines_find(lines, middle + 1, &where), 0);
    assert_int_equal(where.count, 1);
    assert_string_equal(where.frames[0].function, "middle");
    assert_int_equal(where.frames[0].offset, 1);
    assert_non_null(strstr(where.frames[0].file, "/test_crash.c"));
    assert_int_equal(where.frames[0].file[0], '/');
    assert_true(where.frames[0].line > 0);
    assert_string_equal(where.module, program());
    line_location_done(&where);
    assert_int_equal(lines_find(lines, 16, &where), 0);
    assert_null(where.module);
    assert_int_equal(where.count, 0);
    lines_close(lines);

    /* the same from the file alone: middle and deep as far apart as in memory */
    char maps[64], line[PATH_MAX + 100];
    snprintf(maps, sizeof maps, "/proc/%d/maps", pid);
    FILE *file = fopen(maps, "r");
    unsigned long bias = 0;
    while (!bias && fgets(line, sizeof line, file))
        if (strstr(line, program()))
            bias = strtoul(line, NULL, 16);
    fclose(file);
    struct lines_module module = {program(), bias}, missing = {"/nonexistent/file", 0};
    assert_int_equal(lines_open_modules(&lines, &module, 1, &err), 0);
    assert_int_equal(lines_find(lines, deep, &where), 0);
    assert_string_equal(where.frames[0].function, "deep");
    assert_int_equal(where.frames[0].offset, 0);
    line_location_done(&where);
    lines_close(lines);
    assert_int_equal(lines_open_modules(&lines, &missing, 1, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/file"));

    close(in[1]);
    fclose(said);
    waitpid(pid, NULL, 0);
    assert_int_equal(lines_open_process(&lines, pid, &err), -ESRCH);
}

static bool is_function(Dwarf_Die *die)
{
    int tag = dwarf_tag(die);
    return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

/* The functions around an address as libdw finds them, from the innermost to the one that is not inlined. */
static int functions_by_libdw(Dwarf_Die *unit, Dwarf_Addr addr, Dwarf_Die *ret_functions, int most)
{
    Dwarf_Die *scopes = NULL, *around = NULL;
    int count = dwarf_getscopes(unit, addr, &scopes), inner = 0, found = 0;
    while (inner < count && !is_function(&scopes[inner]))
        inner++;
    count = inner < count ? dwarf_getscopes_die(&scopes[inner], &around) : 0;
    for (int i = 0; i < count && found < most; i++) {
        if (!is_function(&around[i]))
            continue;
        ret_functions[found++] = around[i];
        if (dwarf_tag(&around[i]) == DW_TAG_subprogram)
            break;
    }
    free(scopes);
    free(around);
    return found;
}

/* The same functions and lines as lines_find has, for each address of what is the same. */
static void assert_around(struct lines *lines, uint64_t addr, Dwarf_Die *functions, int count,
                          const struct line_location *where)
{
    struct line_function found[8];
    uint64_t low, high;
    size_t around = lines_around(lines, addr, found, 8, &low, &high);
    assert_int_equal(around, count);
    assert_true(low <= addr && addr < high);
    for (size_t i = 0; i < around; i++) {
        assert_string_equal(dwarf_diename(&found[i].die), dwarf_diename(&functions[i]));
        assert_int_equal(found[i].line, where->frames[i].line);
    }
    for (uint64_t other = low; around && other < high; other += (high - low) / 3 + 1) {
        struct line_function same[8];
        assert_int_equal(lines_around(lines, other, same, 8, &low, &high), around);
        for (size_t i = 0; i < around; i++)
            assert_true(same[i].die.addr == found[i].die.addr && same[i].line == found[i].line);
    }
}

/* Inlined functions, parts that lie apart, and what lies between functions: as libdw says, which is asked for each address. */
static void test_scopes(void **state)
{
    enum { MOST = 100, ADDRESSES = 300 };
    struct lines_module module = {program(), 0};
    struct lines *lines;
    int fd = open(program(), O_RDONLY | O_CLOEXEC), inlined = 0, outside = 0;
    Dwarf *dwarf = dwarf_begin(fd, DWARF_C_READ);
    Dwarf_CU *cu = NULL;
    Dwarf_Die unit, functions[MOST];
    assert_int_equal(lines_open_modules(&lines, &module, 1, NULL), 0);
    while (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL) == 0) {
        Dwarf_Addr base, low, high;
        for (ptrdiff_t at = dwarf_ranges(&unit, 0, &base, &low, &high); at > 0;
             at = dwarf_ranges(&unit, at, &base, &low, &high))
            for (Dwarf_Addr addr = low; addr < high; addr += (high - low) / ADDRESSES + 1) {
                struct line_location where;
                int count = functions_by_libdw(&unit, addr, functions, MOST);
                assert_int_equal(lines_find(lines, addr, &where), 0);
                for (int i = 0; i < count; i++) {
                    assert_string_equal(where.frames[i].function, dwarf_diename(&functions[i]));
                    assert_int_equal(where.frames[i].inlined, i < count - 1);
                    inlined += i > 0;
                }
                outside += count == 0;
                assert_int_equal(where.count, count ? count : 1);
                assert_around(lines, addr, functions, count, &where);
                line_location_done(&where);
            }
    }
    assert_true(inlined > 0 && outside > 0);
    lines_close(lines);
    dwarf_end(dwarf);
    close(fd);
}

/* ---- cores ---- */
struct crash {
    char directory[64];
    char core[PATH_MAX];
    pid_t pid;
    char expected[512]; /* what the program said */
};

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    return remove(path);
}

static void clean_up(struct crash *crash)
{
    nftw(crash->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Where the kernel does not write cores as files beside the program, there is nothing to test with. */
static void need_cores(void)
{
    char pattern[256] = "";
    FILE *file = fopen("/proc/sys/kernel/core_pattern", "r");
    if (file) {
        if (!fgets(pattern, sizeof pattern, file))
            pattern[0] = 0;
        fclose(file);
    }
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    if (strncmp(pattern, "core", 4) == 0 && limit.rlim_max == RLIM_INFINITY)
        return;
    print_message("# SKIP: needs kernel.core_pattern 'core' (here: %.*s) and an unlimited hard limit of core files\n",
                  (int)strcspn(pattern, "\n"), pattern);
    skip();
}

static void make_core(struct crash *crash, const char *mode)
{
    need_cores();
    strcpy(crash->directory, "/tmp/scry-test-core-XXXXXX");
    assert_non_null(mkdtemp(crash->directory));
    int out[2], status;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    crash->pid = fork();
    if (crash->pid == 0) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_CORE, &limit);
        dup2(out[1], 1);
        if (chdir(crash->directory) == 0)
            execl(program(), "crash", mode, NULL);
        _exit(99);
    }
    close(out[1]);
    size_t len = 0;
    for (ssize_t got; (got = read(out[0], crash->expected + len, sizeof crash->expected - 1 - len)) > 0;)
        len += (size_t)got;
    crash->expected[len] = 0;
    close(out[0]);
    assert_int_equal(waitpid(crash->pid, &status, 0), crash->pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && WCOREDUMP(status));
    DIR *dir = opendir(crash->directory);
    const struct dirent *entry;
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, "core", 4) == 0)
            snprintf(crash->core, sizeof crash->core, "%s/%s", crash->directory, entry->d_name);
    closedir(dir);
    assert_true(crash->core[0]);
}

static void check_frames(const struct core_thread *thread, const char *expected)
{
    char text[512] = "";
    size_t len = 0;
    for (size_t i = 0; i < thread->count; i++)
        for (size_t k = 0; k < thread->frames[i].where.count; k++) {
            const struct line_frame *frame = &thread->frames[i].where.frames[k];
            if (!frame->file || !strstr(frame->file, "/test_crash.c"))
                continue; /* the C library below main */
            len += (size_t)snprintf(text + len, sizeof text - len, "%s %u\n", frame->function, frame->line);
            assert_int_equal(frame->inlined, strcmp(frame->function, "poke") == 0);
        }
    assert_string_equal(text, expected);
}

static void check_core(const struct crash *crash, const char *given)
{
    struct err err = {0};
    struct core *core;
    int r = core_read(&core, crash->core, given, &err);
    if (r < 0)
        fail_msg("core_read: %s", err.text);
    assert_int_equal(core->pid, crash->pid);
    assert_int_equal(core->signo, SIGSEGV);
    assert_int_equal(core->fault_addr, 17); /* argc + 15 */
    assert_string_equal(core->program, program());
    assert_true(strncmp(core->name, strrchr(program(), '/') + 1, 15) == 0);
    assert_int_equal(core->count, 2);
    assert_int_equal(core->threads[0].tid, crash->pid);
    assert_int_equal(core->threads[0].signo, SIGSEGV);
    assert_null(core->threads[0].incomplete);
    assert_false(core->threads[0].cut);
    check_frames(&core->threads[0], crash->expected);
    /* the other one waits in a system call of the C library, called from here */
    const struct core_thread *other = &core->threads[1];
    assert_true(other->tid != crash->pid && other->count >= 3);
    bool found = false;
    for (size_t i = 0; i < other->count; i++)
        found = found || (other->frames[i].where.count && other->frames[i].where.frames[0].function &&
                          strcmp(other->frames[i].where.frames[0].function, "wait_for_ever") == 0);
    assert_true(found);
    core_free(core);
}

static void test_crash(void **state)
{
    struct crash crash = {0};
    make_core(&crash, "now");
    check_core(&crash, program());
    check_core(&crash, NULL);
    clean_up(&crash);
}

static void test_deep(void **state)
{
    struct crash crash = {0};
    struct core *core;
    make_core(&crash, "deep");
    assert_int_equal(core_read(&core, crash.core, NULL, NULL), 0);
    assert_int_equal(core->count, 1);
    assert_true(core->threads[0].cut);
    assert_int_equal(core->threads[0].count, CORE_FRAMES);
    for (size_t i = 0; i < CORE_FRAMES; i++)
        assert_string_equal(core->threads[0].frames[i].where.frames[0].function, "deep");
    core_free(core);
    clean_up(&crash);
}

/* Cut anywhere, a core is an error or a shorter answer, never a crash of ours. */
static void test_cut(void **state)
{
    struct crash crash = {0};
    struct stat info;
    struct err err;
    make_core(&crash, "now");
    assert_int_equal(stat(crash.core, &info), 0);
    for (off_t size = info.st_size; size > 0; size = size * 2 / 3) {
        struct core *core = NULL;
        assert_int_equal(truncate(crash.core, size), 0);
        err.text[0] = 0;
        if (core_read(&core, crash.core, NULL, &err) == 0) {
            assert_int_equal(core->signo, SIGSEGV);
            core_free(core);
        } else {
            assert_non_null(strstr(err.text, crash.core));
        }
    }
    clean_up(&crash);
}

static void test_foreign(void **state)
{
    struct core *core;
    struct err err = {0};
    assert_int_equal(core_read(&core, program(), NULL, &err), -ENOEXEC);
    assert_non_null(strstr(err.text, "is not a core file"));
    assert_int_equal(core_read(&core, "/etc/passwd", NULL, &err), -ENOEXEC);
    assert_int_equal(core_read(&core, "/nonexistent/core", NULL, &err), -ENOENT);
    assert_int_equal(core_read(&core, "/dev/null", NULL, &err), -ENOEXEC);
}

/* Whoever has made the program may have made a pipe of that name, and nobody writes to it. */
static void test_debug_information_in_pipes(void **state)
{
    char dir[] = "/tmp/scry-debuginfo-XXXXXX", file[64], pipe[64], folder[64], *found = NULL;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/prog", dir);
    snprintf(folder, sizeof folder, "%s/.debug", dir);
    mkdir(folder, 0700);
    static const char *const names[][2] = {{"prog.debug", NULL}, {"link", "link"}, {".debug/link", "link"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(pipe, sizeof pipe, "%s/%s", dir, names[i][0]);
        assert_int_equal(mkfifo(pipe, 0600), 0);
        assert_int_equal(debuginfo_find(NULL, NULL, file, 0, file, names[i][1], 0, &found), -1);
        unlink(pipe);
    }
    assert_int_equal(debuginfo_find(NULL, NULL, file, 0, file, "../link", 0, &found), -1);
    /* in folders through which others got to the program, too */
    snprintf(pipe, sizeof pipe, "%s/prog.debug", dir);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
    snprintf(folder, sizeof folder, "%s/.debug/prog", dir);
    assert_int_equal(symlink(file, folder), 0);
    assert_int_equal(debuginfo_find(NULL, NULL, folder, 0, folder, NULL, 0, &found), -1);
    unlink(folder);
    unlink(file);
    unlink(pipe);
    snprintf(folder, sizeof folder, "%s/.debug", dir);
    rmdir(folder);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_debug_information_in_pipes),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_foreign),
    };
    return cmocka_run_group_tests_name("symbols", tests, NULL, NULL);
}
