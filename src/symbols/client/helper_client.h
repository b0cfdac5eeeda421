/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_CLIENT_HELPER_CLIENT_H
#define SCRY_SYMBOLS_CLIENT_HELPER_CLIENT_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "symbols/client/number_problem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The other end of the helper (symbols/client/helper.h): what its users write to it and read from it. No elfutils, no
 * processes and no files: the user starts scry-symbols (dirs_libexec), writes the request to its standard input, and
 * feeds what comes from its standard output in whatever pieces. Safe on any bytes.
 */

/* ---- requests ---- */
struct helper_compile {
    pid_t pid;
    unsigned depth, bytes, array, string; /* taken into the limits of the protocol */
    bool args, locals, caller, result, exit_args;
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
};
enum helper_site { HELPER_ENTRY, HELPER_EXIT, HELPER_CALL, HELPER_UNWIND }; /* as enum capture_site_kind */

struct helper_answer { /* borrowed until the next call; texts are never NULL */
    enum helper_answer_kind kind;
    const char *key, *file, *path, *name, *type, *old, *text;
    uint32_t id;
    bool first; /* the process's first thread is one of them */
    enum helper_site site;
    struct number_problem problem;
    uint64_t address, size;
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

#endif
