/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper program scry-symbols (libexec): everything that needs elfutils, for programs that may not link it. It
 * reads one job from standard input, answers on standard output, and ends. It runs with its caller's priority, without
 * debuginfod, and under limits of time and memory: if it ends without having answered, damaged debug information was
 * too much for it. Requests and answers are lines of fields separated by tabs (\t \n \\ in fields are escaped by a
 * backslash):
 *
 *   scry-symbols index FILE...            builds missing indexes; for each
 *        ok KEY FILE                       the index is in the cache
 *        memory KEY FILE PATH REASON       it is not, for that reason; it can be opened at PATH (index_open_file) until
 *                                          the helper's standard input is closed
 *        failed FILE REASON
 *   scry-symbols compile                  standard input, one a line:
 *        pid PID
 *        depth N           pointer levels (0 .. 16)
 *        bytes N           at most so many a record (16 .. 4096)
 *        array N           at most so many elements of an array (0 .. 4096)
 *        string N          at most so many bytes of a string (0 .. 4096)
 *        want args|locals|caller|result|exit-args|patched
 *                          (several lines; exit-args: arguments at returns, too; patched: functions without hooks
 *                          get sites, too)
 *        statics GLOBS     static variables of the source files that match one of them, at returns
 *        layout N          the first layout id to use
 *        block N           the first block id to use, from 1 on
 *        module PATH BIAS
 *        function ADDRESS  in the file of the module before; several
 *        param EXPRESSION  for functions that follow: compile a params program that emits these as values, in order;
 *                          those before a `module` or after a `function` begin a new list
 *        end
 *     answers:
 *        layout ID TEXT    symbols/layout/layout.h, or a part of some (symbols/layout/layout.h); each before its
 *                          first use
 *        block ID HEX      instructions that programs share: CAPTURE_SHARED in them has the number, not yet a
 *                          distance; each before its first use
 *        site KIND ADDRESS LAYOUT HEX
 *                          KIND entry|exit|call|unwind; ADDRESS of the hook's (the call's) return address, in the file;
 *                          HEX the capture program. With `want patched`, of a function without hooks of its own:
 *                          entry at the function's ADDRESS, exit at ADDRESS + 1; which registers the programs have there
 *                          is said in symbols/capture/compile.h
 *        params KIND ADDRESS HEX
 *                          a hook's program of parameters, in the same form
 *        param-problem KIND ADDRESS EXPRESSION WHY AT NAME
 *                          the expression is no number at that hook; why (symbols/client/client.h), at which
 *                          character, and the name that is unknown
 *        lines-only ADDRESS
 *                          the function has no values: its file was compiled with -g1
 *        missing ADDRESS TEXT
 *                          the file with its debug information is missing; TEXT is for people
 *        problem ADDRESS TEXT
 *                          what else a function could not be given, for people
 *        function ADDRESS  the end of one function; functions come in the order of the request
 *        done              the end of all; or one line and nothing else, if the request is not understood:
 *        failed REASON
 *
 *   scry-symbols places                   standard input, one a line:
 *        file PATH         an ELF file
 *        address ADDRESS   in it; several
 *        end
 *     answers, for each address:
 *        place LOW HIGH LINE
 *                          of all addresses from LOW on, before HIGH: the line in the innermost function; 0: not known, or
 *                          it is not in the file that the function is in
 *        inlined NAME FILE LINE CALL
 *                          behind it, innermost first: a function whose code is a part of the next one's, the last one's a
 *                          part of the function that the index has; where it is defined, and the line of the call
 *        done
 *
 *   scry-symbols patches                  standard input, one a line:
 *        file PATH         an ELF file
 *        place BIAS STUBS SIZE
 *                          how the process has it, and where its stubs are to be, with at most so many bytes
 *        function ADDRESS SIZE
 *                          in the file; several
 *        end
 *     answers, for each function, by address:
 *        patch ADDRESS PLACE STUB HEX
 *                          its address in the file; those in the process of the jump and of its stub; the PATCH_JUMP
 *                          (symbols/code/code.h) bytes that are there, those of the jump, and those of the stub
 *        unpatched ADDRESS REASON
 *                          none can be made; REASON is for people
 *        done              or failed REASON
 *
 *   scry-symbols variable                 finds a variable by name, see symbols/helper/jobs.h
 *   scry-symbols stacks                   says where the threads of processes are, see symbols/helper/jobs.h
 *
 * Numbers are decimal; ADDRESS and BIAS hexadecimal with 0x.
 */
#ifndef SCRY_SYMBOLS_CLIENT_HELPER_H
#define SCRY_SYMBOLS_CLIENT_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"

enum {
    HELPER_FIELDS = 32,
    HELPER_LINE = 1 << 20, /* bytes of a line at most */
    HELPER_DEPTH_MAX = 16,
    HELPER_BYTES_MIN = 16,
    HELPER_BYTES_MAX = 4096,
    HELPER_ARRAY_MAX = 4096,
    HELPER_STRING_MAX = 4096,
    HELPER_PARAMS_MAX = 16,
};

/* Appends a line: the word, then fields until NULL. */
void helper_line(struct buf *out, const char *word, ...) __attribute__((sentinel));

/* Splits a line (without its newline) in place and unescapes its fields. Returns their number, the word included;
 * -EBADMSG: an unknown escape, or more than HELPER_FIELDS. */
int helper_split(char *line, char *ret_fields[HELPER_FIELDS]);

/* Whole fields as numbers: nothing before, nothing behind. */
bool helper_number(const char *field, uint64_t low, uint64_t high, uint64_t *ret_number);
bool helper_address(const char *field, uint64_t *ret_address);

#endif
