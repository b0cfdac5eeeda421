/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the monitor (client.c) and the program scry-tracer over a stream socket. Private to this folder:
 * both ends come from one build, but the version is checked. Each message is a struct wire_message followed by size -
 * sizeof bytes. The client sends one request at a time and waits for the reply with the same serial number; releasing a
 * hold has no reply. Events have serial number 0 and carry a struct tracer_event.
 */
#ifndef SCRY_TRACER_PROTOCOL_H
#define SCRY_TRACER_PROTOCOL_H

#include <stdint.h>

enum {
    WIRE_VERSION = 3,
    WIRE_SOCKET_FD = 3, /* where the program finds its socket */
    WIRE_CELLS_FD = 4,  /* and the memory of the cells, if there is any */
    WIRE_SIZE_LIMIT = 64 << 20,
};

enum wire_kind {
    WIRE_HELLO, /* the tracer's first message; a: WIRE_VERSION */
    WIRE_EVENT, /* payload: struct tracer_event */
    WIRE_REPLY, /* code; payload: the result, or the text of the error */
    WIRE_BYE,
    WIRE_SEIZE,
    WIRE_RELEASE,
    WIRE_SPAWN, /* payload: see attach.c; reply a: pid */
    WIRE_WATCH, /* payload: struct tracer_watch */
    WIRE_STOP,  /* payload: pid_t[]; reply: int[] */
    WIRE_CONTINUE,
    WIRE_RELEASE_HOLD, /* a: hold; no reply */
    WIRE_STEP,         /* a: mode */
    WIRE_GET_REGS,
    WIRE_SET_REGS,
    WIRE_GET_XSTATE,
    WIRE_SET_XSTATE,
    WIRE_GOTO,        /* a: address */
    WIRE_CALL,        /* a: address; reply: struct tracer_call_place */
    WIRE_BACKTRACE,   /* a: depth; reply: struct tracer_frame[] */
    WIRE_LOAD,        /* a: it tells; payload: path, NUL, symbol, NUL, data */
    WIRE_LOAD_RESULT, /* reply a: what the function returned */
    WIRE_WRITE,       /* a: address; payload: the bytes */
    WIRE_BREAK_SET,   /* a: address, b: id; payload: struct code_program or nothing; reply a: the original byte */
    WIRE_BREAK_CLEAR, /* a: address, b: id */
    WIRE_KIND_COUNT,
};

struct wire_message {
    uint32_t size; /* with the payload */
    uint32_t kind;
    uint64_t serial;
    int32_t code; /* 0 or -errno */
    int32_t id;   /* pid or tid */
    uint64_t a, b;
};

#endif
