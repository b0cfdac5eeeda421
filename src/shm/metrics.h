/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that programs say themselves (scry_metric, include/scry/agent.h): memory that scry run shares with all processes of its
 * job on this node. It is a sealed file of memory (memfd_create(2)), so nobody can cut it while others look at it. A thread has a
 * slot of its own for each name as long as there is room; then it takes one that others use, too, which is right as well, but slower.
 *
 * A writer never waits, and needs no more than some ten instructions and an atomic addition each time. The observer takes, about once
 * a second, what has come; it believes nothing.
 *
 * Freestanding, general registers only. Everything is async-signal-safe.
 */
#ifndef SCRY_SHM_METRICS_H
#define SCRY_SHM_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define METRICS_NAME "scry-metrics"        /* of the file */
#define METRICS_ENV "SCRY_METRICS"         /* where it is: /proc/PID/fd/N, of scry run */
#define METRICS_MAGIC UINT32_C(0x43544d53) /* "SMTC" */

enum {
    METRICS_VERSION = 1,
    METRICS_SLOTS = 256,    /* a power of two */
    METRICS_NAME_SIZE = 32, /* with its end; the rest is cut */
    METRICS_PROBES = 16,    /* slots that are looked at for one of its own, and for a common one */
    METRICS_ENV_SIZE = 48,  /* of the path, with its end */
    METRICS_KEY_COMMON = 0,
    METRICS_KEY_UNDEFINED = 2, /* of what is no number: one slot for all threads, for that is rare */
};

enum metrics_state { METRICS_FREE, METRICS_TAKEN, METRICS_READY };

/* Numbers are doubles as integers in the same order: metrics_order. */
struct metrics_slot {
    _Atomic uint32_t state; /* READY: key and name stay as they are. Who dies while it takes one leaves it TAKEN */
    uint32_t unused;
    uint64_t key; /* whose it is */
    char name[METRICS_NAME_SIZE];
    _Atomic uint64_t count; /* values since they were taken: changed last, taken first */
    _Atomic int64_t last, least, most;
} __attribute__((aligned(128)));

struct metrics {
    uint32_t magic, version;
    struct metrics_slot slots[METRICS_SLOTS];
};

/* As integers doubles are in the order of their values; its own inverse. */
static inline int64_t metrics_order(int64_t bits)
{
    return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

static inline bool metrics_is_number(uint64_t bits)
{
    return (bits >> 52 & 0x7ff) != 0x7ff; /* neither infinite nor NaN */
}

static inline bool metrics_is(const struct metrics_slot *slot, const char *name, size_t len)
{
    size_t i = 0;
    while (i < len && slot->name[i] == name[i])
        i++;
    return i == len && !slot->name[len];
}

/* The slot with that name; key COMMON: whosever, of numbers. A free one becomes it. NULL: there is no room. */
static inline struct metrics_slot *metrics_find(struct metrics *metrics, const char *name, size_t len, uint64_t hash,
                                                uint64_t key)
{
    for (uint64_t i = 0, at = hash; i < METRICS_PROBES; i++, at++) {
        struct metrics_slot *slot = &metrics->slots[at % METRICS_SLOTS];
        uint32_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
        if (state == METRICS_FREE && atomic_compare_exchange_strong(&slot->state, &state, METRICS_TAKEN)) {
            for (size_t k = 0; k < len; k++)
                slot->name[k] = name[k];
            slot->key = key;
            atomic_store_explicit(&slot->least, INT64_MAX, memory_order_relaxed);
            atomic_store_explicit(&slot->most, INT64_MIN, memory_order_relaxed);
            atomic_store_explicit(&slot->state, METRICS_READY, memory_order_release);
            return slot;
        }
        if (state == METRICS_READY &&
            (slot->key == key || (key == METRICS_KEY_COMMON && slot->key != METRICS_KEY_UNDEFINED)) &&
            metrics_is(slot, name, len))
            return slot;
    }
    return NULL;
}

/* `self`: another one for each thread. */
static inline void metrics_say(struct metrics *metrics, const char *name, uint64_t bits, uint64_t self)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t len = 0;
    for (; len < METRICS_NAME_SIZE - 1 && name[len]; len++)
        hash = (hash ^ (unsigned char)name[len]) * UINT64_C(1099511628211);
    if (!len)
        return;
    const uint64_t common = hash ^ hash >> 29, own = (common ^ self) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    const bool number = metrics_is_number(bits);
    struct metrics_slot *slot = number ? metrics_find(metrics, name, len, own, self | 1)
                                       : metrics_find(metrics, name, len, common, METRICS_KEY_UNDEFINED);
    if (!slot && number)
        slot = metrics_find(metrics, name, len, common, METRICS_KEY_COMMON);
    if (!slot)
        return;
    const int64_t value = metrics_order((int64_t)bits);
    int64_t least = atomic_load_explicit(&slot->least, memory_order_relaxed),
            most = atomic_load_explicit(&slot->most, memory_order_relaxed);
    while (
        number && value < least &&
        !atomic_compare_exchange_weak_explicit(&slot->least, &least, value, memory_order_relaxed, memory_order_relaxed))
        ;
    while (
        number && value > most &&
        !atomic_compare_exchange_weak_explicit(&slot->most, &most, value, memory_order_relaxed, memory_order_relaxed))
        ;
    atomic_store_explicit(&slot->last, value, memory_order_relaxed);
    atomic_fetch_add_explicit(&slot->count, 1, memory_order_release);
}

/* ---- for the observer ---- */

struct metrics_taken {
    char name[METRICS_NAME_SIZE];
    uint64_t count;
    int64_t last, least, most; /* bits of doubles; all no numbers, where those were none that were said */
};

/* What has come to a slot since it was taken at last. false: nothing. */
static inline bool metrics_take(struct metrics *metrics, size_t at, struct metrics_taken *ret_taken)
{
    struct metrics_slot *slot = &metrics->slots[at];
    if (atomic_load_explicit(&slot->state, memory_order_acquire) != METRICS_READY ||
        !atomic_load_explicit(&slot->count, memory_order_relaxed))
        return false;
    ret_taken->count = atomic_exchange_explicit(&slot->count, 0, memory_order_acquire);
    int64_t last = atomic_load_explicit(&slot->last, memory_order_relaxed),
            least = atomic_exchange_explicit(&slot->least, INT64_MAX, memory_order_relaxed),
            most = atomic_exchange_explicit(&slot->most, INT64_MIN, memory_order_relaxed);
    for (size_t k = 0; k < METRICS_NAME_SIZE; k++)
        ret_taken->name[k] = slot->name[k];
    ret_taken->name[METRICS_NAME_SIZE - 1] = '\0';
    /* what came between count and least was taken with the one before */
    ret_taken->last = metrics_order(last);
    ret_taken->least = metrics_order(least < last ? least : last);
    ret_taken->most = metrics_order(most > last ? most : last);
    return true;
}

#endif
