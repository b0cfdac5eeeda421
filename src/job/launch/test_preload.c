/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/launch/preload.h"
#include "job/launch/program.h"

static char dir[] = "/tmp/scry-preload-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[4][256];
    static unsigned next;
    char *into = path[next++ % 4];
    snprintf(into, sizeof path[0], "%s/%s", dir, name);
    return into;
}

static void write_file(const char *path, const void *bytes, size_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static const char *preload(void)
{
    const char *list = getenv("LD_PRELOAD");
    return list ? list : "(none)";
}

static void test_environment(void **state)
{
    struct preload on = {.library = "/lib/scry/libscry-agent.so",
                         .socket = "/run/agent.sock",
                         .mpi_dir = "/lib/scry",
                         .wanted = true},
                   off = {""};
    unsetenv("LD_PRELOAD");
    unsetenv("ASAN_OPTIONS");
    preload_apply(&on);
    assert_string_equal(preload(), "/lib/scry/libscry-agent.so");
    assert_string_equal(getenv("SCRY_AGENT_SOCKET"), "/run/agent.sock");
    assert_string_equal(getenv("SCRY_TRACE_WANTED"), "1");
    assert_string_equal(getenv("SCRY_MPI"), "stats");
    assert_string_equal(getenv("SCRY_MPI_DIR"), "/lib/scry");
    assert_string_equal(getenv("ASAN_OPTIONS"), "verify_asan_link_order=0");
    preload_apply(&on); /* a job in a job */
    assert_string_equal(preload(), "/lib/scry/libscry-agent.so");
    assert_string_equal(getenv("ASAN_OPTIONS"), "verify_asan_link_order=0");
    preload_apply(&off);
    assert_string_equal(preload(), "(none)");
    assert_null(getenv("SCRY_AGENT_SOCKET"));
    assert_null(getenv("SCRY_MPI"));
    assert_null(getenv("SCRY_MPI_DIR"));
    assert_null(getenv("SCRY_TRACE_WANTED"));

    setenv("LD_PRELOAD", "a.so b.so::/x/libscry-agent.so", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    on.wanted = false;
    on.mpi_off = true;
    preload_apply(&on); /* another one of ours is replaced, what else is there stays behind it */
    assert_string_equal(preload(), "/lib/scry/libscry-agent.so:a.so:b.so");
    assert_null(getenv("SCRY_TRACE_WANTED"));
    assert_string_equal(getenv("SCRY_MPI"), "off");
    on.mpi_off = false;
    setenv("SCRY_MPI", "messages", 1);
    preload_apply(&on);
    assert_string_equal(getenv("SCRY_MPI"), "messages"); /* it is handed on */
    on.mpi_off = true;
    preload_apply(&on);
    assert_string_equal(getenv("SCRY_MPI"), "off");
    assert_null(getenv("SCRY_MPI_DIR"));
    assert_string_equal(getenv("ASAN_OPTIONS"), "detect_leaks=0:verify_asan_link_order=0");
    setenv("LD_PRELOAD", "a.so b.so", 1);
    preload_apply(&off); /* nothing of ours: left as it is */
    assert_string_equal(preload(), "a.so b.so");
}

static void test_sanitizer_is_first(void **state)
{
    struct preload on = {.library = "/l/libscry-agent.so", .sanitizer = "/usr/lib/libasan.so.8", .socket = "s"};
    setenv("LD_PRELOAD", "a.so", 1);
    preload_apply(&on);
    assert_string_equal(preload(), "/usr/lib/libasan.so.8:/l/libscry-agent.so:a.so");
    assert_string_equal(getenv("SCRY_ASAN_PRELOAD"), "/usr/lib/libasan.so.8");
    setenv("LD_PRELOAD", "a.so:/mine/libasan.so.6", 1); /* the user's own */
    preload_apply(&on);
    assert_string_equal(preload(), "/mine/libasan.so.6:/l/libscry-agent.so:a.so");
    assert_null(getenv("SCRY_ASAN_PRELOAD"));
    unsetenv("LD_PRELOAD");
}

static void test_programs(void **state)
{
    struct program program;
    program_look(&program, "sh");
    assert_true(program.is_elf);
    assert_null(program.obstacle);
    assert_string_equal(program.sanitizer, "");
    program_look(&program, "no-such-command-anywhere");
    assert_string_equal(program.path, "");
    program_look(&program, "/");
    assert_false(program.is_elf);
    write_file(path_of("script"), "#!/bin/sh\n", 10, 0755);
    program_look(&program, path_of("script"));
    assert_false(program.is_elf);
    assert_null(program.obstacle);
}

/* An ELF header with or without what the loader needs, of any machine. */
static void make_elf(const char *path, unsigned char class, uint16_t machine, const char *interpreter, mode_t mode)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr segment;
        char text[64];
    } file = {.head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, class, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_DYN,
                       .e_machine = machine,
                       .e_phoff = sizeof(Elf64_Ehdr),
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 1}};
    file.segment =
        (Elf64_Phdr){.p_type = interpreter ? PT_INTERP : PT_NOTE, .p_offset = sizeof file.head + sizeof file.segment};
    snprintf(file.text, sizeof file.text, "%s", interpreter ? interpreter : "");
    write_file(path, &file, sizeof file, mode);
}

static void check_obstacle(const char *path, const char *expected)
{
    struct program program;
    program_look(&program, path);
    assert_true(program.is_elf);
    if (!expected) {
        assert_null(program.obstacle);
        return;
    }
    assert_non_null(program.obstacle);
    assert_non_null(program.remedy);
    assert_non_null(strstr(program.obstacle, expected));
}

static void test_obstacles(void **state)
{
    static const char loader[] = "/lib64/ld-linux-x86-64.so.2";
    make_elf(path_of("good"), ELFCLASS64, EM_X86_64, loader, 0755);
    check_obstacle(path_of("good"), NULL);
    make_elf(path_of("static"), ELFCLASS64, EM_X86_64, NULL, 0755);
    check_obstacle(path_of("static"), "statically linked");
    make_elf(path_of("arm"), ELFCLASS64, EM_AARCH64, loader, 0755);
    check_obstacle(path_of("arm"), "not a 64-bit x86-64");
    make_elf(path_of("small"), ELFCLASS32, EM_386, loader, 0755);
    check_obstacle(path_of("small"), "not a 64-bit x86-64");
    make_elf(path_of("musl"), ELFCLASS64, EM_X86_64, "/lib/ld-musl-x86_64.so.1", 0755);
    check_obstacle(path_of("musl"), "musl");
    make_elf(path_of("ld-linux-x86-64.so.2"), ELFCLASS64, EM_X86_64, NULL, 0755);
    check_obstacle(path_of("ld-linux-x86-64.so.2"), NULL);
    if (geteuid() == 0 && chown(path_of("good"), 65534, 65534) == 0) {
        make_elf(path_of("good"), ELFCLASS64, EM_X86_64, loader, 04755);
        check_obstacle(path_of("good"), "privileges");
    }
}

static void check_explained(const char *command, int code, const char *expected)
{
    struct buf text = BUF_INIT;
    program_explain(&text, command, code);
    assert_string_equal(text.data, expected);
    buf_done(&text);
}

/* What could not be started, why, and what helps. */
static void test_not_started(void **state)
{
    static const char crlf[] = "#!/bin/sh\r\necho\r\n", lost[] = "#! /no/such/shell -e\n";
    char expected[600];
    const char *path = path_of("script");
    check_explained("no-such-command", -ENOENT, "no-such-command: there is no such command");
    check_explained("", -ENOENT, "'': there is no such command");
    check_explained("/no/such", -ENOENT, "/no/such: there is no such file");
    check_explained("/", -EACCES, "/ is a directory");
    write_file(path, "#!/bin/sh\n", 10, 0644);
    snprintf(expected, sizeof expected, "%s may not be executed: chmod +x %s", path, path);
    check_explained(path, -EACCES, expected);
    snprintf(expected, sizeof expected, "script may not be executed: chmod +x %s", path);
    setenv("PATH", dir, 1);
    check_explained("script", -EACCES, expected);
    setenv("PATH", "/bin:/usr/bin", 1);
    write_file(path, lost, sizeof lost - 1, 0755);
    snprintf(expected, sizeof expected, "%s: its interpreter /no/such/shell is not there", path);
    check_explained(path, -ENOENT, expected);
    write_file(path, crlf, sizeof crlf - 1, 0755);
    snprintf(expected, sizeof expected,
             "%s: its first line ends with a carriage return (CRLF, as Windows ends lines): sed -i 's/\\r$//' %s", path,
             path);
    check_explained(path, -ENOENT, expected);
    make_elf(path, ELFCLASS64, EM_X86_64, "/no/such/loader", 0755);
    snprintf(expected, sizeof expected, "%s: its interpreter /no/such/loader is not there", path);
    check_explained(path, -ENOENT, expected);
    snprintf(expected, sizeof expected, "%s could not be started: Argument list too long", path);
    check_explained(path, -E2BIG, expected);
}

static void explain_cut(void)
{
    struct buf text = BUF_INIT;
    program_explain(&text, path_of("cut"), -ENOENT);
    assert_false(text.failed);
    buf_done(&text);
}

/* Any beginning of a file, and any byte of it changed: an answer, and no fault. */
static void test_damaged(void **state)
{
    char bytes[4096];
    struct program program;
    int fd = open("/proc/self/exe", O_RDONLY);
    ssize_t size = read(fd, bytes, sizeof bytes);
    close(fd);
    assert_true(size > 512);
    for (size_t len = 1; len < 1024; len += 7) {
        write_file(path_of("cut"), bytes, len, 0755);
        program_look(&program, path_of("cut"));
        explain_cut();
    }
    for (size_t at = 16; at < 1024; at += 3) {
        char saved = bytes[at];
        bytes[at] = (char)0xff;
        write_file(path_of("cut"), bytes, (size_t)size, 0755);
        program_look(&program, path_of("cut"));
        explain_cut();
        bytes[at] = saved;
    }
}

static int make_dir(void **state)
{
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    static const char *const names[] = {"script", "good", "static", "arm", "small", "musl", "ld-linux-x86-64.so.2",
                                        "cut"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    return rmdir(dir);
}

static void test_scripts(void **state)
{
    struct script_env on = {.dir = "/run/scripts.1",
                            .level = "lines",
                            .libraries = {"/lib/scry/libscry-bash.so", "/lib/scry/libscry-python.so"}},
                      off = {""};
    unsetenv("ASAN_OPTIONS");
    setenv("LD_PRELOAD", "/lib/a.so:/outer/libscry-python.so /lib/b.so /outer/libscry-bash.so", 1);
    script_env_apply(&on);
    assert_string_equal(preload(), "/lib/a.so:/lib/b.so:/lib/scry/libscry-bash.so:/lib/scry/libscry-python.so");
    assert_string_equal(getenv("SCRY_SCRIPT_DIR"), "/run/scripts.1");
    assert_string_equal(getenv("SCRY_SCRIPT"), "lines");
    assert_string_equal(getenv("ASAN_OPTIONS"), "verify_asan_link_order=0"); /* as with the agent */
    unsetenv("ASAN_OPTIONS");
    script_env_apply(&off);
    assert_null(getenv("ASAN_OPTIONS"));
    assert_string_equal(preload(), "/lib/a.so:/lib/b.so");
    assert_null(getenv("SCRY_SCRIPT_DIR"));
    setenv("LD_PRELOAD", "/lib/a.so /lib/b.so", 1);
    script_env_apply(&off);
    assert_string_equal(preload(), "/lib/a.so /lib/b.so"); /* nothing of ours: as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment), cmocka_unit_test(test_sanitizer_is_first), cmocka_unit_test(test_programs),
        cmocka_unit_test(test_obstacles),   cmocka_unit_test(test_not_started),        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_scripts),
    };
    return cmocka_run_group_tests_name("job_preload", tests, make_dir, remove_dir);
}
