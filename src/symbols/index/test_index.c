/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes of real programs in all the ways they come, and of what is no program or no index any more. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/file.h"
#include "symbols/index/index.h"
#include "symbols/index/index_build.h"
#include "symbols/index/index_format.h"
#include "symbols/capture/test_support.h"

static const char c_source[] = "int middle(int n);\n"                                                   /* 1 */
                               "static int inner(int n)\n"                                              /* 2 */
                               "{ return n * 2; }\n"                                                    /* 3 */
                               "int middle(int n)\n"                                                    /* 4 */
                               "{ return inner(n) + 1; }\n"                                             /* 5 */
                               "int same(int n) __attribute__((alias(\"middle\")));\n"                  /* 6 */
                               "int main(int argc, char **argv)\n"                                      /* 7 */
                               "{ return middle(argc) == 0; }\n";                                       /* 8 */
static const char cxx_source[] = "namespace ns {\n"                                                     /* 1 */
                                 "template<typename T> T solve(T a) { return a + 1; }\n"                /* 2 */
                                 "struct Grid {\n"                                                      /* 3 */
                                 "    int n;\n"                                                         /* 4 */
                                 "    int step(double dt, int k) const;\n"                              /* 5 */
                                 "    bool operator<(const Grid &o) const;\n"                           /* 6 */
                                 "    operator int() const { return n; }\n"                             /* 7 */
                                 "};\n"                                                                 /* 8 */
                                 "int Grid::step(double dt, int k) const\n"                             /* 9 */
                                 "{ auto twice = [](int y) { return y * 2; }; return twice(k); }\n"     /* 10 */
                                 "bool Grid::operator<(const Grid &o) const { return n < o.n; }\n"      /* 11 */
                                 "namespace { int hidden(int x) { return x; } }\n"                      /* 12 */
                                 "}\n"                                                                  /* 13 */
                                 "extern \"C\" int plain(int x) { return x; }\n"                        /* 14 */
                                 "int main(int argc, char **argv)\n"                                    /* 15 */
                                 "{\n"                                                                  /* 16 */
                                 "    ns::Grid a{argc}, b{2};\n"                                        /* 17 */
                                 "    ns::solve(2.0);\n"                                                /* 18 */
                                 "    return plain(a < b) + ns::hidden(a) + a.step(ns::solve(1), 2);\n" /* 19 */
                                 "}\n";

static int enter(void **state)
{
    int r = support_enter(state);
    support_write("prog.c", c_source, sizeof c_source - 1);
    support_write("prog.cpp", cxx_source, sizeof cxx_source - 1);
    return r;
}

/* Builds, stores in place of the one that is there, and opens again. */
static struct index *index_of(const char *path)
{
    struct buf image = BUF_INIT;
    char key[INDEX_KEY_SIZE], stored[PATH_MAX];
    struct err err = {0};
    struct index *index = NULL;
    if (index_build(path, &image, key, &err) == 0 && index_file_path(stored, sizeof stored, key, false, NULL) == 0)
        unlink(stored);
    if (err.code < 0 || index_store(&image, key, &err) < 0 || index_open(&index, path, &err) < 0)
        fail_msg("%s", err.text);
    buf_done(&image);
    return index;
}

static struct index_function expect(const struct index *index, const char *name, unsigned line)
{
    struct index_function function, at;
    if (index_find_name(index, name, &function) == 0)
        fail_msg("%s is not in the index", name);
    assert_int_equal(function.line, line);
    if (line) {
        const char *slash = strrchr(function.file, '/');
        assert_non_null(slash);
        assert_true(strcmp(slash, "/prog.c") == 0 || strcmp(slash, "/prog.cpp") == 0);
        assert_int_equal(function.file[0], '/');
        assert_true(function.die != 0);
    } else {
        assert_string_equal(function.file, "");
    }
    assert_true(function.size > 0);
    assert_true(index_find(index, function.address, &at));
    assert_int_equal(at.address, function.address);
    assert_true(index_find(index, function.address + function.size - 1, &at));
    assert_int_equal(at.address, function.address);
    return function;
}

static void expect_c(const struct index *index, bool places)
{
    expect(index, "main", places ? 7 : 0);
    expect(index, "inner", places ? 2 : 0);
    struct index_function middle = expect(index, "middle", places ? 4 : 0), same, first, second;
    assert_true(index_find_name(index, "same", &same) == 1); /* the other name of it */
    assert_int_equal(same.address, middle.address);
    assert_int_equal(index_find_name(index, "nowhere", &same), 0);
    assert_false(index_find(index, 1, &same));
    for (size_t i = 1; i < index_count(index); i++) {
        index_at(index, i - 1, &first);
        index_at(index, i, &second);
        assert_true(first.address < second.address);
    }
}

/* ---- the ways programs come in ---- */
static void test_ways(void **state)
{
    static const char *const ways[] = {"-g",
                                       "-g -O2 -fno-inline -fno-ipa-cp -fno-ipa-sra -fno-ipa-icf",
                                       "-g -gdwarf-4",
                                       "-g -gdwarf-2",
                                       "-g -gz",
                                       "-g -static",
                                       "-g -no-pie",
                                       "-g -static-pie",
                                       "-g3 -gdwarf64",
                                       "-g -gdwarf-4 -gz=zlib -Wl,--compress-debug-sections=zlib-gnu"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        support_run("cc %s -o prog prog.c", ways[i]);
        struct index *index = index_of("prog");
        expect_c(index, true);
        bool is_static = strstr(ways[i], "-static");
        assert_int_equal(index_flags(index) & ~(unsigned)INDEX_HAS_HOOKS,
                         INDEX_HAS_DWARF | (is_static ? INDEX_STATIC : 0));
        assert_string_equal(index_problem(index), "");
        index_close(index);
    }
}

static void test_clang(void **state)
{
    const char *clang = support_has("clang") ? "clang" : "clang-14";
    if (!support_has(clang)) {
        print_message("# SKIP: no clang\n");
        skip();
    }
    support_run("%s -g -o prog prog.c", clang);
    struct index *index = index_of("prog");
    expect_c(index, true);
    index_close(index);
    support_run("%s -g -gdwarf-4 -O1 -fno-inline -o prog prog.c", clang);
    index = index_of("prog");
    expect_c(index, true);
    index_close(index);
}

static void expect_cxx(const struct index *index)
{
    assert_string_equal(expect(index, "ns::Grid::step", 9).full, "ns::Grid::step(double, int) const");
    assert_string_equal(expect(index, "ns::Grid::operator<", 11).full, "ns::Grid::operator<(ns::Grid const&) const");
    assert_string_equal(expect(index, "ns::Grid::operator int", 7).full, "ns::Grid::operator int() const");
    assert_string_equal(expect(index, "ns::solve<int>", 2).full, "ns::solve<int>(int)");
    assert_string_equal(expect(index, "ns::(anonymous namespace)::hidden", 12).full,
                        "ns::(anonymous namespace)::hidden(int)");
    assert_string_equal(expect(index, "plain", 14).linkage, "plain");
    assert_string_equal(expect(index, "_ZNK2ns4Grid4stepEdi", 9).name, "ns::Grid::step");
    expect(index, "ns::solve<double>", 2);
}

static void test_cxx(void **state)
{
    struct index_function lambda;
    support_run("g++ -g -o prog prog.cpp");
    struct index *index = index_of("prog");
    expect_cxx(index);
    size_t found = 0;
    for (size_t i = 0; i < index_count(index); i++) {
        index_at(index, i, &lambda);
        if (strstr(lambda.name, "{lambda")) {
            assert_string_equal(lambda.name, "ns::Grid::step(double, int) const::{lambda(int)#1}::operator()");
            assert_int_equal(lambda.line, 10);
            found++;
        }
    }
    assert_int_equal(found, 1);
    index_close(index);
    if (support_has("clang++")) {
        support_run("clang++ -g -o prog prog.cpp");
        index = index_of("prog");
        expect_cxx(index);
        index_close(index);
    }
}

static void test_flags(void **state)
{
    support_run("cc -g -finstrument-functions -o prog prog.c");
    struct index *index = index_of("prog");
    assert_int_equal(index_flags(index), INDEX_HAS_HOOKS | INDEX_HAS_DWARF);
    index_close(index);
    support_run("cc -g -finstrument-functions -static -o prog prog.c");
    index = index_of("prog");
    assert_int_equal(index_flags(index), INDEX_HAS_HOOKS | INDEX_HAS_DWARF | INDEX_STATIC);
    index_close(index);
    support_run("cc -g -finstrument-functions -fPIC -shared -o lib.so prog.c");
    index = index_of("lib.so");
    assert_int_equal(index_flags(index), INDEX_HAS_HOOKS | INDEX_HAS_DWARF);
    index_close(index);
    support_run("{ cat prog.c; echo 'void __cyg_profile_func_enter(void*f,void*c){}'; } >own.c && "
                "cc -g -o prog own.c");
    index = index_of("prog");
    assert_int_equal(index_flags(index), INDEX_HAS_HOOKS | INDEX_HAS_DWARF | INDEX_OWN_HOOKS);
    index_close(index);
    if (system("cc -fsanitize=address -g -o prog prog.c 2>/dev/null") == 0) {
        index = index_of("prog");
        assert_int_equal(index_flags(index), INDEX_HAS_DWARF | INDEX_NEEDS_ASAN);
        index_close(index);
    }
}

/* ---- less than there could be ---- */
static void test_without_debug(void **state)
{
    support_run("cc -o prog prog.c");
    struct index *index = index_of("prog");
    expect_c(index, false);
    assert_int_equal(index_flags(index), 0);
    assert_non_null(strstr(index_problem(index), "-g"));
    index_close(index);

    support_run("cc -g -rdynamic -s -o prog prog.c");
    index = index_of("prog");
    expect(index, "middle", 0);
    struct index_function inner;
    assert_int_equal(index_find_name(index, "inner", &inner), 0);
    assert_non_null(strstr(index_problem(index), "stripped"));
    index_close(index);
}

/* DWARF without symbol table: names of the DIEs. */
static void test_without_symbols(void **state)
{
    support_run("cc -g -o full prog.c && objcopy --strip-all --keep-section='.debug_*' full prog 2>/dev/null");
    struct index *index = index_of("prog");
    expect(index, "inner", 2);
    expect(index, "middle", 4);
    index_close(index);
}

static void expect_unloaded(const char *library)
{
    char line[PATH_MAX + 128];
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        assert_null(strstr(line, library));
    fclose(maps);
}

static void test_separate_debug(void **state)
{
    char key[INDEX_KEY_SIZE];
    support_run("cc -g -o full prog.c && objcopy --only-keep-debug full prog.debug && cp full prog && strip prog && "
                "objcopy --add-gnu-debuglink=prog.debug prog");
    assert_int_equal(index_key("prog", key, NULL), 0);
    assert_non_null(strstr(key, "-0"));
    assert_int_equal(rename("prog.debug", "elsewhere"), 0);
    struct index *index = index_of("prog");
    assert_non_null(strstr(index_problem(index), "stripped"));
    index_close(index);
    expect_unloaded("libdebuginfod"); /* and with it all that fetches from networks */

    /* it comes: the index is outdated */
    assert_int_equal(rename("elsewhere", "prog.debug"), 0);
    assert_int_equal(index_open(&index, "prog", NULL), -ENOENT);
    index = index_of("prog");
    expect_c(index, true);
    assert_string_equal(index_problem(index), "");
    index_close(index);

    /* the unstripped file of the same build-id has an index of its own */
    assert_int_equal(index_open(&index, "full", NULL), -ENOENT);

    /* a debug file of another build */
    support_run(
        "sed s/inner/other/ prog.c >b.c && cc -g -o b b.c && rm prog.debug && objcopy --only-keep-debug b prog.debug");
    index = index_of("prog");
    assert_int_equal(index_flags(index), 0);
    assert_non_null(strstr(index_problem(index), "another build"));
    assert_non_null(strstr(index_problem(index), "prog.debug"));
    index_close(index);
}

static void test_split(void **state)
{
    for (int version = 4; version <= 5; version++) {
        support_run("rm -f *.dwo; cc -c -g -gdwarf-%d -gsplit-dwarf prog.c && cc -o prog prog.o", version);
        struct index *index = index_of("prog");
        expect_c(index, true);
        assert_string_equal(index_problem(index), "");
        index_close(index);

        assert_int_equal(rename("prog.dwo", "elsewhere"), 0);
        index = index_of("prog");
        expect_c(index, false);
        assert_non_null(strstr(index_problem(index), "/prog.dwo, which is missing"));
        index_close(index);

        support_run("sed s/inner/other/ prog.c >b.c && cc -c -g -gdwarf-%d -gsplit-dwarf b.c && mv b.dwo prog.dwo",
                    version);
        assert_int_equal(index_open(&index, "prog", NULL), -ENOENT);
        index = index_of("prog");
        expect_c(index, false);
        assert_non_null(strstr(index_problem(index), "/prog.dwo, which is of another build"));
        index_close(index);

        assert_int_equal(rename("elsewhere", "prog.dwo"), 0);
        assert_int_equal(index_open(&index, "prog", NULL), -ENOENT);
        index = index_of("prog");
        expect_c(index, true);
        index_close(index);
    }
}

static void test_no_build_id(void **state)
{
    char first[INDEX_KEY_SIZE], second[INDEX_KEY_SIZE];
    support_run("cc -g -Wl,--build-id=none -o prog prog.c");
    assert_int_equal(index_key("prog", first, NULL), 0);
    struct index *index = index_of("prog");
    expect_c(index, true);
    index_close(index);
    support_run("sed s/inner/other/ prog.c >b.c && cc -g -Wl,--build-id=none -o prog b.c");
    assert_int_equal(index_key("prog", second, NULL), 0);
    assert_string_not_equal(first, second);
}

static void test_not_elf(void **state)
{
    char key[INDEX_KEY_SIZE];
    struct buf image = BUF_INIT;
    struct err err = {0};
    assert_int_equal(index_key("prog.c", key, &err), -ENOEXEC);
    assert_non_null(strstr(err.text, "prog.c"));
    assert_int_equal(index_build("prog.c", &image, key, &err), -ENOEXEC);
    assert_int_equal(index_key("missing", key, &err), -ENOENT);
    assert_int_equal(index_key(".", key, &err), -ENOEXEC);
    assert_int_equal(index_key("/dev/null", key, &err), -ENOEXEC);
}

/* Debug information with bytes changed: an index comes of it, or an error, and it ends. */
static void test_damaged(void **state)
{
    char *bytes;
    size_t len;
    support_run("cc -g -o full prog.c");
    assert_int_equal(file_read("full", &bytes, &len), 0);
    uint32_t random = 1;
    for (int round = 0; round < 100; round++) {
        char *copy = malloc(len);
        memcpy(copy, bytes, len);
        for (int i = 0; i < 20; i++) {
            random = random * 1664525 + 1013904223;
            copy[64 + (random >> 4) % (len - 64)] = (char)random;
        }
        support_write("prog", copy, round % 4 ? len : len * (size_t)round / 100);
        free(copy);
        struct buf image = BUF_INIT;
        char key[INDEX_KEY_SIZE];
        struct err err = {0};
        int r = index_build("prog", &image, key, &err);
        if (r < 0)
            assert_true(err.text[0] != 0);
        else
            assert_true(image.len >= sizeof(struct index_header));
        buf_done(&image);
    }
    free(bytes);
}

/* ---- the cache ---- */

/* An index that another node has written, and that is not on disk yet: nodes with one home take each other's. */
static void test_of_another_node(void **state)
{
    char key[INDEX_KEY_SIZE], path[PATH_MAX], *bytes;
    struct buf image = BUF_INIT;
    struct index *index;
    struct err err = {0};
    struct stat before, after;
    struct index_header header;
    size_t len;
    support_run("cc -g -Wl,--build-id -o prog prog.c");
    assert_int_equal(index_build("prog", &image, key, &err), 0);
    memcpy(&header, image.data, sizeof header);
    header.boot = 1;
    memcpy(image.data, &header, sizeof header);
    assert_int_equal(index_store(&image, key, &err), 0);
    assert_int_equal(index_open_key(&index, key, &err), 0);
    index_close(index);
    assert_int_equal(index_file_path(path, sizeof path, key, false, &err), 0);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(index_store(&image, key, &err), 0); /* the first one stays */
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(after.st_nlink, 1);
    /* the machine crashed before all of it came to the disk */
    assert_int_equal(file_read(path, &bytes, &len), 0);
    bytes[header.functions_at + 8] ^= 1;
    support_write(path, bytes, len);
    free(bytes);
    assert_int_equal(index_open_key(&index, key, &err), -EBADMSG);
    assert_int_equal(index_store(&image, key, &err), 0);
    assert_int_equal(index_open_key(&index, key, &err), 0);
    index_close(index);
    buf_done(&image);
}

static void test_cache(void **state)
{
    struct stat st;
    struct err err = {0};
    char key[INDEX_KEY_SIZE], path[PATH_MAX];
    struct index *index, *other;
    support_run("cc -g -Wl,--build-id -o prog prog.c");
    assert_int_equal(index_open(&index, "prog", &err), -ENOENT);
    index_close(index_of("prog"));
    assert_int_equal(index_key("prog", key, &err), 0);
    assert_int_equal(index_file_path(path, sizeof path, key, false, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    *strrchr(path, '/') = 0;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    path[strlen(path)] = '/';

    /* an index that is replaced stays readable for who has it */
    assert_int_equal(index_open_key(&index, key, &err), 0);
    index_close(index_of("prog"));
    expect_c(index, true);
    index_close(index);

    /* cut, foreign, another's */
    char *bytes;
    size_t len;
    assert_int_equal(file_read(path, &bytes, &len), 0);
    for (size_t cut = 0; cut < len; cut += 1 + len / 100) {
        support_write(path, bytes, cut);
        assert_int_equal(index_open_key(&index, key, &err), -EBADMSG);
    }
    bytes[8]++; /* the version */
    support_write(path, bytes, len);
    assert_int_equal(index_open_key(&index, key, &err), -EBADMSG);
    bytes[8]--;
    support_write(path, bytes, len);
    assert_int_equal(index_open_key(&index, key, &err), 0);
    assert_int_equal(index_open_file(&other, path, "another", &err), -EBADMSG);
    assert_int_equal(index_open_file(&other, "prog.c", NULL, &err), -EBADMSG);
    index_close(index);
    assert_int_equal(index_open_key(&index, "../x", &err), -EINVAL);
    assert_int_equal(index_open_key(&index, "", &err), -EINVAL);

    /* a place that cannot be written */
    struct buf image = BUF_INIT;
    assert_int_equal(index_build("prog", &image, key, &err), 0);
    setenv("SCRY_CACHE_DIR", "/dev/null/cache", 1);
    assert_int_equal(index_store(&image, key, &err), -ENOTDIR);
    assert_non_null(strstr(err.text, "/dev/null/cache"));
    buf_done(&image);
    free(bytes);
}

/* Whatever the bytes are, what is handed out lies in them. */
static void test_wrong_offsets(void **state)
{
    char key[INDEX_KEY_SIZE], path[PATH_MAX], *bytes;
    size_t len;
    support_run("cc -g -o prog prog.c");
    index_close(index_of("prog"));
    assert_int_equal(index_key("prog", key, NULL), 0);
    assert_int_equal(index_file_path(path, sizeof path, key, false, NULL), 0);
    assert_int_equal(file_read(path, &bytes, &len), 0);
    uint32_t random = 7;
    for (int round = 0; round < 2000; round++) {
        random = random * 1664525 + 1013904223;
        size_t at = (random >> 8) % (round % 2 ? sizeof(struct index_header) : len);
        char before = bytes[at];
        bytes[at] = (char)(random >> 3);
        support_write("index", bytes, len);
        struct index *index;
        struct index_function function;
        if (index_open_file(&index, "index", NULL, NULL) == 0) {
            size_t sum = strlen(index_problem(index));
            for (size_t i = 0; i < index_count(index); i++) {
                index_at(index, i, &function);
                sum += strlen(function.name) + strlen(function.full) + strlen(function.linkage) + strlen(function.file);
                index_find(index, function.address, &function);
            }
            index_find_name(index, "middle", &function);
            assert_true(sum < index_count(index) * len * 4 + len);
            index_close(index);
        }
        bytes[at] = before;
    }
    free(bytes);
}

static void test_clones(void **state)
{
    static const char source[] =
        "#include <stdlib.h>\n"
        "static int work(int n, int k) __attribute__((noinline));\n"
        "static int work(int n, int k)\n"
        "{ if (n == 77) { abort(); } int s = 0; for (int i = 0; i < n; i++) s += i * k; return s; }\n"
        "int main(int argc, char **argv)\n"
        "{ return work(argc, 3) + work(argc + 1, 3); }\n";
    struct index_function function;
    support_write("clone.c", source, sizeof source - 1);
    support_run("cc -g -O3 -o prog clone.c");
    struct index *index = index_of("prog");
    size_t clones = 0;
    for (size_t i = 0; i < index_count(index); i++) {
        index_at(index, i, &function);
        if (strncmp(function.name, "work.", 5) == 0) {
            assert_string_equal(function.name, function.linkage);
            assert_int_equal(function.line, 3);
            clones++;
        }
    }
    if (clones == 0)
        print_message("# SKIP: this compiler makes no clones of it\n");
    index_close(index);
}

/* What the hash table finds is what looking at every function finds. */
static void expect_candidates(const struct index *index, const char *text, bool few, size_t least)
{
    struct selection *selection;
    struct err err = {0};
    size_t *list = NULL, count = 0, at = 0, meant = 0;
    struct module program = {.name = "prog", .is_program = true};
    if (selection_parse(&selection, text, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    if (selection_candidates(selection, index, &list, &count) != few)
        fail_msg("%s: %s", text, few ? "looks at everything" : "looks at some only");
    for (size_t i = 0; i < index_count(index); i++) {
        struct index_function function;
        index_at(index, i, &function);
        bool is_meant = selection_matches(selection, &program, &function);
        while (at < count && list[at] < i)
            at++;
        if (few && is_meant && (at == count || list[at] != i))
            fail_msg("%s: %s is not found", text, function.full);
        meant += is_meant;
    }
    if (meant < least)
        fail_msg("%s: means %zu functions only", text, meant);
    for (size_t i = 1; i < count; i++)
        assert_true(list[i - 1] < list[i]);
    assert_true(count < index_count(index));
    free(list);
    selection_free(selection);
}

static void test_candidates(void **state)
{
    struct index *index;
    support_run("g++ -g -O0 -o prog prog.cpp");
    index = index_of("prog");
    expect_candidates(index, "solve", true, 2);
    expect_candidates(index, "fn:ns::solve", true, 2);
    expect_candidates(index, "solve<double>", true, 1);
    expect_candidates(index, "fn:ns::solve<int>", true, 1);
    expect_candidates(index, "step plain,main", true, 3);
    expect_candidates(index, "Grid::step", true, 0);
    expect_candidates(index, "_ZNK2ns4Grid4stepEdi", true, 1);
    expect_candidates(index, "hidden !ns::*", true, 0);
    expect_candidates(index, "operator<", true, 1);
    expect_candidates(index, "nosuch", true, 0);
    expect_candidates(index, "main main", true, 1);
    expect_candidates(index, "s*", false, 3);
    expect_candidates(index, "main s[ot]*", false, 4);
    expect_candidates(index, "fn:ns::solve(double)", false, 0);
    expect_candidates(index, "file:prog.cpp", false, 6);
    expect_candidates(index, "!main", false, 3);
    expect_candidates(index, "all", false, 8);
    index_close(index);
    support_run("gcc -g -O3 -o prog prog.c");
    index = index_of("prog");
    for (size_t i = 0; i < index_count(index); i++) {
        struct index_function function;
        index_at(index, i, &function);
        expect_candidates(index, function.linkage, true, 1);
    }
    index_close(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ways, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_clang, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_cxx, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_flags, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_without_debug, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_without_symbols, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_separate_debug, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_split, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_no_build_id, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_not_elf, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_damaged, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_of_another_node, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_cache, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_wrong_offsets, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_clones, enter, support_leave),
        cmocka_unit_test_setup_teardown(test_candidates, enter, support_leave),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
