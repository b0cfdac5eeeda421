/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_PYTHON_PYTHON_H
#define SCRY_SYMBOLS_PYTHON_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/arena.h"

/* Inside symbols/python, and for its tests: memory of another process, read in parts. */

struct python_part {
    uint64_t address;
    void *bytes;
    size_t size;
};

enum { PYTHON_PARTS = 64 }; /* of one read */

struct python_memory {
    /* All parts, or -EFAULT: not all can be read; -ESRCH, -EACCES. */
    int (*read)(void *ctx, const struct python_part *parts, size_t count);
    void *ctx;
};

/* That of a process; *pid is borrowed. */
struct python_memory python_memory_of(const pid_t *pid);

int python_get(const struct python_memory *memory, uint64_t address, void *ret_bytes, size_t size);

/* Inside symbols/python: what a mapped program or library exports (elf(5): DT_GNU_HASH), from its memory alone. */

struct exports {
    const struct python_memory *memory; /* borrowed */
    uint64_t bias, symbols, names, buckets, chains;
    uint32_t bucket_count, first;
};

/* `base`: where the file's first byte is mapped. 0, -ENOEXEC, or as reading memory. */
int exports_open(struct exports *ret_exports, const struct python_memory *memory, uint64_t base);
/* Address of a symbol that is defined there; 0: none. */
uint64_t exports_find(const struct exports *exports, const char *name);

/*
 * Inside symbols/python: the line of an instruction, from the table that a code object has (CPython's
 * Objects/lnotab_notes.txt, InternalDocs/code_objects.md).
 */

enum python_lines {
    PYTHON_LINES_LNOTAB,    /* 3.9: co_lnotab */
    PYTHON_LINES_RANGES,    /* 3.10: co_linetable */
    PYTHON_LINES_LOCATIONS, /* since 3.11: co_linetable with columns */
};

/* `at`: offset of the instruction in bytes; < 0: before the first. -1: none, or the table is damaged. */
int64_t python_line(enum python_lines kind, const uint8_t *table, size_t size, int64_t first_line, int64_t at);

/*
 * Inside symbols/python: where CPython has what in its structures, as offsets in bytes. Up to 3.12 from its headers
 * (they do not change within 3.X); since 3.13 the process itself says so (_Py_DebugOffsets, at the start of
 * _PyRuntime).
 */

struct python_layout {
    uint32_t interpreters;                                                  /* _PyRuntimeState: the list's head */
    uint32_t interpreter_next, interpreter_threads;                         /* PyInterpreterState */
    uint32_t thread_next, thread_interpreter, thread_frame;                 /* PyThreadState */
    uint32_t thread_tid, thread_pthread;                                    /* one of them; the other is 0 */
    uint32_t frame_code, frame_previous, frame_at, frame_owner;             /* PyFrameObject, _PyInterpreterFrame */
    uint32_t frame_entry;                                                   /* 3.11: is_entry */
    uint32_t code_file, code_name, code_first_line, code_table, code_start; /* PyCodeObject */
    uint32_t object_type, text_length, text_state, text_ascii, text_wide;   /* where the characters begin */
    uint32_t bytes_size, bytes_data;
    uint32_t cframe_frame; /* with by_cframe */
    enum python_lines lines;
    bool by_cframe;         /* thread_frame points to a struct that has the frame */
    bool objects;           /* frames are objects; frame_at is a number, in units of at_unit bytes */
    uint8_t at_unit, shims; /* frame_owner from which on it is none; 0: frames have no owner */
    bool no_lines;          /* a free-threaded one: each thread may have its own copy of the instructions */
};

/* 0, -ENOTSUP: not known; or as reading memory. */
int python_layout_find(struct python_layout *ret_layout, uint32_t version, const struct python_memory *memory,
                       uint64_t runtime);

/*
 * Where the threads of a Python process are: functions, files and lines, read from its memory while it runs. CPython
 * 3.9 to 3.14. Nothing is stopped, nothing is written, no file of it is opened.
 *
 * Its threads go on meanwhile, so each stack is read twice. What both have is true. Where they differ, the frames
 * inside the difference are left out. What does not look as CPython's own objects do (by their types, kinds and
 * lengths) is never shown: no stack rather than a wrong one. Thread-safe.
 */

/* A Python in a process: found once, and good until it executes something. */
struct python_program {
    pid_t pid;
    uint32_t version; /* as Py_Version: 0x030b07f0; the lower half is 0 where it is unknown */
    struct python_layout layout;
    uint64_t runtime, code_type, text_type, bytes_type, frame_type; /* addresses; frame_type 0: not compared */
};

/* 0; -ENOENT: there is none, or not yet; -ENOTSUP: a version that is not known, which is in ret_program->version; or
 * -ESRCH, -EACCES. */
int python_find(struct python_program *ret_program, pid_t pid);
/* "3.11.7", "3.9". */
enum { PYTHON_VERSION_SIZE = 24 };
void python_version(char text[PYTHON_VERSION_SIZE], uint32_t version);

struct python_frame {
    const char *function, *file; /* as the bytes are: escape what is shown. UTF-8, but for names that are none */
    int64_t line;                /* -1: unknown */
    bool entry;                  /* C called the interpreter here: what is outside of it, C called in turn */
};

struct python_thread {
    pid_t tid;
    struct python_frame *frames; /* the innermost first */
    size_t count;
    bool moved; /* it ran: the innermost frames changed while they were read, and are left out */
    bool cut;   /* there are more frames outside */
};

struct python_stacks {
    struct arena memory;           /* of all below */
    struct python_thread *threads; /* the first thread of the process first, then by tid; without those that are not in
                                      Python */
    size_t count;
    bool cut; /* there may be more threads */
};

enum { PYTHON_THREADS = 500, PYTHON_FRAMES = 200, PYTHON_NAME = 300, PYTHON_FILE = 1024, PYTHON_OWN_FRAME = 0 };

/* Of all threads, or of one (tid != 0); at most `frames` of each, or from the innermost one outwards to the first of
 * the user's own code (PYTHON_OWN_FRAME). 0, -ESRCH, -EACCES, -ENOMEM; -EAGAIN: what is there is not understood, it may
 * be just starting or ending. Call python_stacks_done in any case. */
int python_read(struct python_stacks *ret_stacks, const struct python_program *program,
                const struct python_memory *memory, pid_t tid, size_t frames);
void python_stacks_done(struct python_stacks *stacks);

/*
 * The same for samples that are taken many times a second, of one thread each: read once, without a second look. So the
 * innermost function may be one that has just returned or just begun; over many samples that evens out. What it has read of
 * functions and threads is kept and only compared, so that a frame costs little more than one read of memory.
 */
struct python_sampler;

struct python_code { /* borrowed, until the next sample */
    const char *function, *file;
    int32_t line; /* where it is defined */
};
struct python_sample_frame {
    const struct python_code *code;
    bool entry; /* as in struct python_frame */
};

/* Of a program that was found; copied. NULL: no memory. */
struct python_sampler *python_sampler_new(const struct python_program *program);
void python_sampler_free(struct python_sampler *sampler); /* NULL is fine */
/* The innermost first. 0: it is not in Python, or cannot be read. */
size_t python_sample(struct python_sampler *sampler, pid_t tid, struct python_sample_frame *ret_frames, size_t most);

/* Neither of Python's own library nor of an installed package, as far as its path says that. */
bool python_is_own_code(const char *file);
/* The innermost frame of the user's own code, or else the innermost one. NULL: there are no frames. */
const struct python_frame *python_own_frame(const struct python_thread *thread);
/* What the user's own code waits for in a function of Python's library that it called, as "an item in a queue"; NULL: not known. */
const char *python_waits_for(const struct python_thread *thread);
/* Is it in asyncio's event loop, and not in a task of it? */
bool python_is_in_asyncio(const struct python_thread *thread);

#endif
