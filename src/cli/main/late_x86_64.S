/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that few commands need, and nine more that these need: they are loaded when the first function of one is called.
 * At the start of each `scry run`, and in each of its forks, they cost more than all that it does itself.
 *
 * A function here takes the place of the library's, so that the linker does not ask for the library. The first call of it finds the
 * other one (main.c), and all go there. What is not in the list makes the linker take the library: test_costs.py then names
 * the system calls.
 */
    .macro late library, names:vararg
    .irp name, \names
    .text
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    endbr64
    jmp *.Lto_\name(%rip)
.Lfirst_\name:
    leaq .Lto_\name(%rip), %r11
    jmp find
    .size \name, . - \name

    .section .rodata.late, "a", @progbits
.Lname_\name:
    .asciz "\name"

    /* struct late */
    .section .data.late, "aw", @progbits
    .balign 8
.Lto_\name:
    .quad .Lfirst_\name, .Lname_\name, \library
    .endr
    .endm

    .section .rodata.late, "a", @progbits
libdw:
    .asciz "libdw.so.1"
libelf:
    .asciz "libelf.so.1"
libedit:
    .asciz "libedit.so.2"
libpcre2:
    .asciz "libpcre2-8.so.0"

    .text
/* The arguments stay as they are, also the number of vector registers in %al. None of the functions has floating ones. */
    .type find, @function
find:
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %rax
    movq %r11, %rdi
    call late_find
    movq %rax, %r11
    popq %rax
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    jmp *%r11
    .size find, . - find

    late libdw, dwarf_attr, dwarf_attr_integrate, dwarf_child, dwarf_cu_info, dwarf_diecu, dwarf_diename, dwarf_filesrc, \
        dwarf_formstring, dwarf_formudata, dwarf_getsrc_die, dwarf_getsrcfiles, dwarf_getsrclines, dwarf_lineaddr, \
        dwarf_linecol, dwarf_lineendsequence, dwarf_lineno, dwarf_linesrc, dwarf_onesrcline, dwarf_ranges, dwarf_siblingof, \
        dwarf_tag, dwfl_addrmodule, dwfl_attach_state, dwfl_begin, dwfl_build_id_find_debuginfo, dwfl_build_id_find_elf, \
        dwfl_core_file_attach, dwfl_core_file_report, dwfl_end, dwfl_errmsg, dwfl_frame_pc, dwfl_frame_reg, \
        dwfl_getthread_frames, dwfl_getthreads, dwfl_linux_proc_find_elf, dwfl_linux_proc_report, dwfl_module_addrdie, \
        dwfl_module_addrinfo, dwfl_module_addrname, dwfl_module_build_id, dwfl_module_getdwarf, dwfl_module_getelf, \
        dwfl_module_info, dwfl_module_nextcu, dwfl_offline_section_address, dwfl_report_elf, dwfl_report_end, \
        dwfl_standard_find_debuginfo, dwfl_thread_getframes, dwfl_thread_state_register_pc, dwfl_thread_state_registers, \
        dwfl_thread_tid
    late libelf, elf_begin, elf_end, elf_getdata_rawchunk, elf_getphdrnum, elf_kind, elf_version, gelf_getclass, gelf_getehdr, \
        gelf_getnote, gelf_getphdr
    late libedit, el_end, el_get, el_gets, el_init, el_insertstr, el_line, el_reset, el_set, el_source, el_wset, history, \
        history_end, history_init
    late libpcre2, pcre2_code_free_8, pcre2_compile_8, pcre2_get_error_message_8, pcre2_get_ovector_count_8, \
        pcre2_get_ovector_pointer_8, pcre2_jit_compile_8, pcre2_jit_stack_assign_8, pcre2_jit_stack_create_8, \
        pcre2_jit_stack_free_8, pcre2_match_8, pcre2_match_context_create_8, pcre2_match_context_free_8, \
        pcre2_match_data_create_from_pattern_8, pcre2_match_data_free_8, pcre2_pattern_info_8, pcre2_set_match_limit_8, \
        pcre2_set_offset_limit_8

    .section .note.GNU-stack, "", @progbits
