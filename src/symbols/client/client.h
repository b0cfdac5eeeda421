/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_CLIENT_CLIENT_H
#define SCRY_SYMBOLS_CLIENT_CLIENT_H

#include "base/data/buf.h"
#include "base/data/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Why an expression of a condition is no number in a function: what scry-symbols finds, and what people read of it. */

enum number_problem_kind {
    NUMBER_FINE,
    NUMBER_NO_VARIABLE, /* called `name`, nor an enumerator */
    NUMBER_NO_MEMBER,   /* called `name` */
    NUMBER_NO_BOUNDS,   /* of an array in Fortran */
    NUMBER_NO_INDEX,
    NUMBER_LARGE_INDEX,
    NUMBER_INDEX_BY_0,
    NUMBER_NO_DIMENSION,
    NUMBER_NO_ARRAY,
    NUMBER_NO_POINTER,
    NUMBER_NO_STRUCT,
    NUMBER_NO_ADDRESS,
    NUMBER_NO_NUMBER,
    NUMBER_NO_SIZE,
    NUMBER_NO_EXPRESSION, /* something else stands there */
    NUMBER_TOO_DEEP,
    NUMBER_OPTIMISED_OUT, /* from here on: at this place; elsewhere in the function it may be there */
    NUMBER_NOT_AVAILABLE,
    NUMBER_PROBLEMS
};

enum { NUMBER_NAME_SIZE = 64 };

struct number_problem {
    enum number_problem_kind kind;
    unsigned at;                 /* character of the expression, from 1 on */
    char name[NUMBER_NAME_SIZE]; /* that is unknown, cut where it is longer; "": none */
};

/* The word for it in the helper's language (symbols/client/helper.h); kinds by their words, NUMBER_FINE: there is none.
 */
const char *number_problem_word(enum number_problem_kind kind);

/* A condition with such an expression never holds in this function. */
bool number_problem_is_lasting(enum number_problem_kind kind);

/* Appends "EXPRESSION: what is wrong at character N". */
void number_problem_print(const struct number_problem *problem, const char *expression, struct buf *out);

/*
 * The other end of the helper (symbols/client/helper.h): what its users write to it and read from it. No elfutils, no
 * processes and no files: the user starts scry-symbols (dirs_libexec), writes the request to its standard input, and
 * feeds what comes from its standard output in whatever pieces. Safe on any bytes.
 */

/* ---- requests ---- */
struct helper_compile {
    pid_t pid;
    unsigned depth, bytes, array, string; /* taken into the limits of the protocol */
    bool args, locals, caller, result, exit_args, patched;
    const char *statics;    /* "": none */
    uint32_t layout, block; /* the first ids to use */
};

/* Begins a request of `scry-symbols compile`; then modules, each followed by its functions; then the end. */
void helper_compile_begin(struct buf *out, const struct helper_compile *compile);
void helper_compile_module(struct buf *out, const char *path, uint64_t bias);
void helper_compile_param(struct buf *out, const char *expression);
void helper_compile_function(struct buf *out, uint64_t address); /* in the file */
void helper_compile_end(struct buf *out);
/* Requests of `variable` are written with helper_line(). */

/* ---- answers ---- */
enum helper_answer_kind {
    HELPER_OK,            /* key, file */
    HELPER_MEMORY,        /* key, file, path, text: the reason */
    HELPER_FAILED,        /* text: the reason; file, of `index`, else "" */
    HELPER_LAYOUT,        /* id, text */
    HELPER_SITE,          /* site, address, id: the layout's, code */
    HELPER_PARAMS,        /* site, address, code */
    HELPER_BLOCK,         /* id, code */
    HELPER_FUNCTION,      /* address */
    HELPER_PARAM_PROBLEM, /* site, address, text: the expression, problem */
    HELPER_LINES_ONLY,    /* address */
    HELPER_MISSING,       /* address, text */
    HELPER_PROBLEM,       /* address, text */
    HELPER_DONE,
    HELPER_VALUE,    /* type, address, size, text */
    HELPER_VARIABLE, /* id: the frame, name, type, text: one of many, then HELPER_DONE */
    HELPER_WRITTEN,  /* type, old, text: the new value */
    HELPER_PROCESS,  /* id: its number, name, text: a problem, or "" */
    HELPER_STACK,    /* id: threads, size: how many of them run, first, name */
    HELPER_FRAME,    /* type: native, python or note; name, file, id: the line, path: the module */
    HELPER_PLACE,    /* address, size: the first one behind it, id: the line */
    HELPER_INLINED,  /* name, file, id: the line, size: that of the call */
    HELPER_PATCH, /* address, size: where the jump is in the process, stub: where that is, code: the bytes that are there, of
                        the jump, of the stub */
    HELPER_UNPATCHED, /* address, text */
};
enum helper_site { HELPER_ENTRY, HELPER_EXIT, HELPER_CALL, HELPER_UNWIND }; /* as enum capture_site_kind */

struct helper_answer { /* borrowed until the next call; texts are never NULL */
    enum helper_answer_kind kind;
    const char *key, *file, *path, *name, *type, *old, *text;
    uint32_t id;
    bool first; /* the process's first thread is one of them */
    enum helper_site site;
    struct number_problem problem;
    uint64_t address, size, stub;
    const void *code;
    size_t code_size;
};

struct helper_reader { /* {0} to begin with */
    struct buf bytes, line, code;
    size_t taken; /* of bytes */
    bool broken;
};
void helper_reader_done(struct helper_reader *reader);
void helper_feed(struct helper_reader *reader, const void *bytes, size_t len);
/* The next answer that is complete: 1; 0: none yet; -EBADMSG: not the helper's language (for good; lines that begin
 * with an unknown word are passed over, as newer helpers may say more); -ENOMEM. */
int helper_next(struct helper_reader *reader, struct helper_answer *ret_answer, struct err *err);

/*
 * Running the helper scry-symbols (symbols/client/helper.h): started, written to, read from, ended. A caller with a
 * loop of events calls these as the pipes get ready. One that has none, and may wait, calls helper_process_run.
 */

struct helper_process {
    pid_t pid;         /* a child of this process, which waits for it */
    int input, output; /* our ends of its standard input and output, non-blocking; -1: closed */
};

/* The child gets the two pipes and nothing else of ours; what this process blocks and ignores is its own. argv[0] is
 * for its name only. 0; -ENOENT: it is not installed; -errno. */
int helper_process_start(struct helper_process *ret_process, char *const argv[], struct err *err);

/* All of it, waiting: `scry-symbols JOB` gets the request and says at most `limit` bytes within `time_ns`. 0 or -errno;
 * in any case the caller ends the reader, which has the answers. */
int helper_process_run(const char *job, const struct buf *request, uint64_t time_ns, size_t limit,
                       struct helper_reader *ret_reader, struct err *err);

/*
 * What scry-symbols compiled for a request (symbols/client/helper.h), in memory and, in the same form, in the cache:
 * files beside the indexes, each of one ELF file, by its key, and one request. Plain code, no elfutils, safe on any
 * bytes.
 */

#define COMPILED_ALL UINT64_MAX

struct compiled_item {
    uint32_t kind; /* enum helper_answer_kind: a layout, a site, params, a block */
    uint32_t site; /* enum helper_site */
    uint32_t id, size;
    uint64_t address;
    /* behind it: of a layout its text with its NUL, of the others the program, or the block */
};

/* Appends such an answer. */
void compiled_add(struct buf *items, const struct helper_answer *answer);
/* The next one, and what is behind it; *at is 0 at first. false: no more; *at is less than items->len if what comes
 * there is none. */
bool compiled_next(const struct buf *items, size_t *at, struct compiled_item *ret_item, const void **ret_bytes);

/* Of the file with that key (index_key()) and a request that is the same wherever that is mapped. -ENOENT; -EBADMSG:
 * damaged, of another version, or of another request: to be compiled again. */
int compiled_load(struct buf *ret_items, uint64_t *ret_functions, const char *key, const char *request,
                  struct err *err);
/* functions: of so many, in the order of the request, it is all there; or COMPILED_ALL. 0 or -errno. */
int compiled_store(const struct buf *items, uint64_t functions, const char *key, const char *request, struct err *err);
/* Takes the bytes of such a file apart. */
int compiled_read(struct buf *ret_items, uint64_t *ret_functions, const void *file, size_t size, const char *request,
                  struct err *err);

#endif
