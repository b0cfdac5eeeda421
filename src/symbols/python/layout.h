/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside symbols/python: where CPython has what in its structures, as offsets in bytes. Up to 3.12 from its headers
 * (they do not change within 3.X); since 3.13 the process itself says so (_Py_DebugOffsets, at the start of
 * _PyRuntime).
 */
#ifndef SCRY_SYMBOLS_PYTHON_LAYOUT_H
#define SCRY_SYMBOLS_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "symbols/python/lines.h"
#include "symbols/python/find.h"

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

#endif
