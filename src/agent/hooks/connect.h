/* SPDX-License-Identifier: Apache-2.0 */
/* The environment as it was when the library was loaded. The program may change it later. */
#ifndef SCRY_AGENT_HOOKS_CONNECT_H
#define SCRY_AGENT_HOOKS_CONNECT_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shm/area.h"
#include "shm/waits.h"

struct mpi_shared; /* agent/hooks/mpi_host.h */

struct connect_settings {
    char socket[108]; /* SCRY_AGENT_SOCKET; "": none, or SCRY=off */
    const char *job;  /* SCRY_JOB; "" */
    uint64_t image;   /* ticks: programs that a process executes one after the other begin at different times */
    bool wanted;      /* SCRY_TRACE_WANTED: also say hello if nothing calls the hooks; */
    bool patches;     /* and that is "patches": functions without hooks get jumps to them (patched.h) */
    bool first;       /* our constructor ran before all others: no program has begun */
    bool late;        /* it came into a running program: what is interposed by name does not reach it */
};
extern struct connect_settings connect_settings;
/* Bytes of address space that are left below RLIMIT_AS; UINT64_MAX: no limit. */
uint64_t agent_address_room(void);
/* Tells the monitor something that needs no answer: bits of enum agent_hello_flag. */
void agent_say(int how, uint32_t flags);
/* Asks for the MPI area, for the interposer; once. false: nothing may be counted. */
bool agent_connect_mpi(const struct hello_mpi *mpi, struct mpi_shared *ret_shared);
extern bool agent_was_connected; /* in this process or one that it was forked from */

/*
 * A question to the monitor on its socket for agents, and its answer: the one conversation there is (the handshake of
 * shm/area.h). Only system calls, bounded waits, and no descriptor that stays.
 */

enum { ASK_FDS = 3 }; /* at most, in an answer */

struct agent_question {
    const char *socket; /* its path */
    const void *hello;
    uint32_t hello_size;
    uint32_t welcome_size; /* the exact size of the answer; 0: do not wait for one */
    void *welcome;
    int *fds; /* received with the answer, else -1: the caller closes them in any case */
    uint32_t fd_count;
    enum wait_kind wait; /* limit for all of it: WAIT_HELLO or WAIT_HELLO_FORK */
    bool *ret_said;      /* NULL, or: the hello is with the monitor */
    bool alone;          /* only one thread, and the program has not begun: any descriptor number is fine */
};

/* 0: sent, and answered if an answer was expected. -ETIMEDOUT: the monitor took too long. -EMFILE: it answered, but
 * this process had no room for its descriptors. -EPROTO: no answer of a monitor. Others: there is no monitor. */
typedef int agent_ask_function(const struct agent_question *question);
agent_ask_function agent_ask;

/* modules.c, called by interpose_x86_64.S: what is to be done before the function of that name, which is returned. */

struct area;

void *modules_dlopen(void);
void *modules_dlmopen(void);
void *modules_dlsym(void *handle, const char *name);
void *modules_makecontext(const ucontext_t *context);
void *modules_syscall(long number, long first, long second);
/* A function for these to return, which does nothing but return `value` in the same thread. */
void *modules_answer(uint64_t value);

/* Has the monitor look at the libraries and apply its selection before the program goes on; waits only a little, even
 * if it never answers. */
void modules_announce(struct area *area);
/* At a call of a function without a slot: has this thread called dlopen, and has nobody asked since? Then it is mostly
 * inside dlopen, calling constructors; the monitor has looked before this returns. Signal-safe. */
bool modules_came(struct area *area);

#endif
