/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A monitor for tests of the agent: gives areas to the processes of a program that it starts, collects their packets
 * and decodes them. Everything it expects of a record is asserted.
 */
#ifndef SCRY_AGENT_TEST_TEST_MONITOR_H
#define SCRY_AGENT_TEST_TEST_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shm/area.h"
#include "shm/record.h"

enum { MINI_AREAS = 400 };

struct mini_packet {
    uint64_t order;
    uint8_t *bytes; /* head and records */
    size_t size;
};

struct mini_area {
    struct area_view view;
    struct agent_hello hello;
    struct mini_packet *packets;
    size_t count;
};

struct mini {
    /* set before mini_run; 0: the defaults */
    uint64_t buffer_bytes;
    uint32_t slots, threads;
    uint32_t unknown_mode, policy, wait_us, max_depth, rate;
    uint64_t min_ticks;
    bool keep;        /* packets are not brought in before the program ended */
    bool no_filter;   /* nothing is chosen */
    bool refuse;      /* the welcome says no */
    uint32_t version; /* of the welcome */
    void (*prepare)(struct mini *mini, struct mini_area *area);
    void (*tick)(struct mini *mini); /* again and again while it runs */
    const char *environment[8];      /* NAME=VALUE, in addition */

    /* after it */
    struct mini_area areas[MINI_AREAS];
    unsigned count, hellos; /* hellos: all, those without hooks too */
    int status;             /* as of waitpid */
    char *output;           /* what it wrote on standard output */
    size_t output_size;

    char directory[64];
    int listener, bell_fd, cells_fd;
    struct doorbell *bell;
    const char *program;
    struct mini_symbol {
        uint64_t address;
        char *name;
    } * symbols;
    size_t symbol_count;
};

void mini_init(struct mini *mini);
void mini_done(struct mini *mini);
/* Runs `program` with up to three arguments under the agent. */
void mini_run(struct mini *mini, const char *program, const char *a, const char *b);

/* The name of a function by its slot. */
const char *mini_name(struct mini *mini, const struct mini_area *area, uint32_t slot);
/* Slot of a function by its name; UINT32_MAX */
uint32_t mini_slot(struct mini *mini, const struct mini_area *area, const char *name);

struct mini_event {
    uint32_t id;
    uint64_t time, entry_time;
    uint32_t serial, tid, stack;
    uint32_t function, count, depth;
    uint32_t layout;
    const uint8_t *bytes;
    size_t size;
    bool first; /* of its packet */
    uint64_t discarded;
};

/* All records in the order of packets. */
void mini_each(struct mini *mini, const struct mini_area *area, void (*fn)(void *ctx, const struct mini_event *event),
               void *ctx);

struct mini_totals {
    uint64_t entries, exits, unwound, lost, thinned, marks, open, threads, stacks;
    uint64_t discarded; /* of the blocks */
    uint64_t mended;    /* times that the depth was another than told: mini_pair allows none */
};
/* Pairs entries and exits: times never go back, each exit has its entry, EXIT_OF and EXIT_VALUES name it rightly. */
void mini_pair(struct mini *mini, const struct mini_area *area, struct mini_totals *ret_totals);
/* The same of a program that leaves hooks in the middle of their work: goes on with the depth that is told. */
void mini_pair_left(struct mini *mini, const struct mini_area *area, struct mini_totals *ret_totals);

/* The calls of thread `serial` as text: "main(a(b)c)"; `!` for each unwound, `?` for each lost exit, `[n]` where stack
 * n is switched to, "'text'" for marks, `~` thinned. Malloc'ed. */
char *mini_tree(struct mini *mini, const struct mini_area *area, uint32_t serial);

#endif
