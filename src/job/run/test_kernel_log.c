/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the kernel's log, of several versions, and the files that they mean. */
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/run/kernel_log.h"

static void test_lines(void **state)
{
    static const struct {
        const char *line, *name, *file, *reason;
        pid_t pid;
        int signo;
        uint64_t address, ip, sp, start, size, offset;
    } rows[] = {
        /* 6.18 */
        {"k[32197]: segfault at 8 ip 000055c1334d5190 sp 00007ffdb57cb980 error 6 in k[1190,55c1334d5000+1000] likely "
         "on CPU 0 "
         "(core 0, socket 0)\n SUBSYSTEM=x\n",
         "k", "k", NULL, 32197, SIGSEGV, 8, 0x55c1334d5190, 0x7ffdb57cb980, 0x55c1334d5000, 0x1000, 0x1190},
        {"k[32206]: segfault at 55b68bf48004 ip 000055b68bf471c2 sp 00007fff09c16050 error 7 in "
         "k[11c2,55b68bf47000+1000] likely on "
         "CPU 0 (core 0, socket 0)",
         "k", "k", "a write to memory that may only be read", 32206, SIGSEGV, 0x55b68bf48004, 0x55b68bf471c2,
         0x7fff09c16050, 0x55b68bf47000, 0x1000, 0x11c2},
        {"k[32210]: segfault at 0 ip 0000000000000000 sp 00007ffc59ef19f8 error 14 likely on CPU 1 (core 1, socket 0)",
         "k", "", "a NULL pointer that was taken for a function", 32210, SIGSEGV, 0, 0, 0x7ffc59ef19f8},
        {"k[32212]: segfault at 123450000 ip 0000000123450000 sp 00007ffdd6186f08 error 14 likely on CPU 0 (core 0, "
         "socket 0)",
         "k", "", "a jump to where no code is", 32212, SIGSEGV, 0x123450000, 0x123450000, 0x7ffdd6186f08},
        {"traps: k[32220] trap divide error ip:561dc383b215 sp:7ffd57ea3d00 error:0 in k[1215,561dc383b000+1000]", "k",
         "k", NULL, 32220, SIGFPE, 0, 0x561dc383b215, 0x7ffd57ea3d00, 0x561dc383b000, 0x1000, 0x1215},
        {"traps: k[32223] trap invalid opcode ip:55edc53dd223 sp:7fff12786c20 error:0 in k[1223,55edc53dd000+1000]",
         "k", "k", NULL, 32223, SIGILL, 0, 0x55edc53dd223, 0x7fff12786c20, 0x55edc53dd000, 0x1000, 0x1223},
        /* 5.14 */
        {"my [x] app[8073]: segfault at 8 ip 0000559206c9017b sp 00007ffebade0970 error 4 in a b[c+1] in "
         "d[559206c90000+1000]",
         "my [x] app", "a b[c+1] in d", NULL, 8073, SIGSEGV, 8, 0x559206c9017b, 0x7ffebade0970, 0x559206c90000, 0x1000},
        {"traps: fio[3920] general protection fault ip:7f789a2709f5 sp:7fff900e66d0 error:0 in "
         "libc.so.6[7f789a1f0000+16f000]",
         "fio", "libc.so.6", "probably a pointer with a value that no address has", 3920, SIGSEGV, 0, 0x7f789a2709f5,
         0x7fff900e66d0, 0x7f789a1f0000, 0x16f000},
        /* 3.10 and 4.18 */
        {"traps: div[2500] trap divide error ip:400524 sp:7ffcd27fd630 error:0 in div[400000+1000]", "div", "div", NULL,
         2500, SIGFPE, 0, 0x400524, 0x7ffcd27fd630, 0x400000, 0x1000},
        {"traps: a [b][14] general protection ip:5557ad94f2b4 sp:7fff5d1a2ab0 error:0 in seg[5557ad94f000+1000]",
         "a [b]", "seg", "probably a pointer with a value that no address has", 14, SIGSEGV, 0, 0x5557ad94f2b4,
         0x7fff5d1a2ab0, 0x5557ad94f000, 0x1000},
        /* the address is not in what it says */
        {"k[1]: segfault at 8 ip 1000 sp 2000 error 6 in k[3000+1000]", "k", "", NULL, 1, SIGSEGV, 8, 0x1000, 0x2000},
        /* names that look like a line */
        {"traps: ] trap int3 ip:[9] general protection fault ip:1 sp:2 error:0 in s[13]: segfault at 0 ip 1 sp 2 error "
         "4 in s[0+1000]",
         "] trap int3 ip:", "s[13]: segfault at 0 ip 1 sp 2 error 4 in s",
         "probably a pointer with a value that no address has", 9, SIGSEGV, 0, 1, 2, 0, 0x1000},
        {"Memory cgroup out of memory: Killed process 12 (stress) total-vm:1kB", "stress", "", NULL, 12, SIGKILL},
        {"Out of memory: Killed process 13 (a b) total-vm:1kB", "a b", "", NULL, 13, SIGKILL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct logged logged;
        assert_true(logged_parse(&logged, rows[i].line));
        assert_int_equal(logged.pid, rows[i].pid);
        assert_string_equal(logged.name, rows[i].name);
        assert_int_equal(logged.signo, rows[i].signo);
        assert_int_equal(logged.address, rows[i].address);
        assert_int_equal(logged.ip, rows[i].ip);
        assert_int_equal(logged.sp, rows[i].sp);
        assert_string_equal(logged.file, rows[i].file);
        if (*logged.file) {
            assert_int_equal(logged.start, rows[i].start);
            assert_int_equal(logged.size, rows[i].size);
            assert_int_equal(logged.has_offset, rows[i].offset != 0);
            assert_int_equal(logged.has_offset ? logged.offset : 0, rows[i].offset);
        }
        const char *reason = logged_reason(&logged);
        assert_string_equal(reason ? reason : "", rows[i].reason ? rows[i].reason : "");
    }
}

static void test_other_lines(void **state)
{
    static const char *const lines[] = {
        "traps: a[14] general protection fault ip:5557ad94f2b4",
        "a[14] trap divide error ip:1 sp:2 error:0 in a[0+1000]", "]: segfault at", "]: segfault at zz ip 0 sp 0",
        "a[1]: segfault at 8 ip 1 sp 2 error\n 4 in x", "Out of memory: Killed process ",
        /* by a process and a file with such names */
        "]: segfault at [9]: segfault at 0 ip 1 sp 2 error 4 in Out of memory: Killed process 13 (solver)[1+1]",
        "usb 1-1: 13-solver[13]: segfault at 0 ip 1 sp 2 error 4", "usb 1-1: Out of memory: Killed process 13 (solver)",
        "usb 1-1: new device", ""};
    struct logged logged;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_false(logged_parse(&logged, lines[i]));
}

static void test_code(void **state)
{
    static const char *const others[] = {"Code: Unable to access opcode bytes at 0xffffffffffffffd6.",
                                         "Code: 00 01",
                                         "Code: ",
                                         "Code: <0",
                                         "Code: 00 zz <01>",
                                         "ode: 00 <01>"};
    struct logged logged = {.code_count = 0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(logged_parse_code(&logged, others[i]));
    assert_int_equal(logged.code_count, 0);
    assert_true(logged_parse_code(&logged, "Code: 48 83 <c7> 04 25\n"));
    assert_int_equal(logged.code_count, 5);
    assert_int_equal(logged.code_at, 2);
    assert_memory_equal(logged.code, "\x48\x83\xc7\x04\x25", 5);
}

/* A file with its code from 0x1040 on, at 0x2040 of its addresses. */
enum { OFFSET = 0x1040, VADDR = 0x2040, CODE = 0x200, IP = 0x100 };

static void write_file(const char *path, Elf64_Half type)
{
    Elf64_Ehdr header = {.e_type = type, .e_phoff = sizeof header, .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2};
    Elf64_Phdr segments[] = {
        {.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x1000},
        {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = OFFSET, .p_vaddr = VADDR, .p_filesz = CODE}};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &header, sizeof header, 0), sizeof header);
    assert_int_equal(pwrite(fd, segments, sizeof segments, sizeof header), sizeof segments);
    for (unsigned i = 0; i < CODE; i++) {
        uint8_t byte = (uint8_t)(i * 7);
        assert_int_equal(pwrite(fd, &byte, 1, OFFSET + i), 1);
    }
    close(fd);
}

static void test_file(void **state)
{
    enum { BIAS = 0x7000000 };
    char directory[] = "/tmp/scry-log-XXXXXX", path[64];
    uint8_t instruction[LOGGED_INSTRUCTION];
    uint64_t bias = 0;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/lib.so", directory);
    write_file(path, ET_DYN);
    const struct logged good = {
        .ip = BIAS + VADDR + IP, .file = "lib.so", .start = BIAS + (VADDR & ~0xfff), .size = 0x1000};
    struct logged logged = good;
    /* as it lies; nothing is known of its code, but that it is older than the process */
    assert_true(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    assert_int_equal(bias, BIAS);
    assert_int_equal(instruction[0], (uint8_t)(IP * 7));
    assert_false(logged_is_of(&logged, path, 1, &bias, instruction));
    logged.size = 0x2000;
    assert_false(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    logged.has_offset = true;
    logged.offset = OFFSET + IP;
    assert_true(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    logged.offset = OFFSET + CODE;
    assert_false(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    logged.offset = OFFSET + IP + 1; /* no address of a page */
    assert_false(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    /* its code is the log's: then its age does not matter */
    logged = good;
    logged.code_count = 16;
    logged.code_at = 4;
    for (unsigned i = 0; i < logged.code_count; i++)
        logged.code[i] = (uint8_t)((IP - logged.code_at + i) * 7);
    assert_true(logged_is_of(&logged, path, 1, &bias, instruction));
    logged.code[3]++;
    assert_false(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    /* of another name; one that is loaded where it wants to be; none */
    logged = good;
    strcpy(logged.file, "lib.so.1");
    assert_false(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    write_file(path, ET_EXEC);
    assert_false(logged_is_of(&good, path, UINT64_MAX, &bias, instruction));
    logged = good;
    logged.ip -= BIAS;
    logged.start -= BIAS;
    assert_true(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    assert_int_equal(bias, 0);
    assert_int_equal(truncate(path, 70), 0);
    assert_false(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    unlink(path);
    assert_false(logged_is_of(&logged, path, UINT64_MAX, &bias, instruction));
    rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_other_lines),
                                       cmocka_unit_test(test_code), cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
