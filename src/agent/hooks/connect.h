/* SPDX-License-Identifier: Apache-2.0 */
/* The environment as it was when the library was loaded. The program may change it later. */
#ifndef SCRY_AGENT_HOOKS_CONNECT_H
#define SCRY_AGENT_HOOKS_CONNECT_H

#include <stdbool.h>

#include "shm/area.h"

struct mpi_shared; /* agent/hooks/mpi_host.h */

struct connect_settings {
    char socket[108]; /* SCRY_AGENT_SOCKET; "": none, or SCRY=off */
    const char *job;  /* SCRY_JOB; "" */
    uint64_t image;   /* ticks: programs that a process executes one after the other begin at different times */
    bool wanted;      /* SCRY_TRACE_WANTED=1: also say hello if nothing calls the hooks */
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

#endif
