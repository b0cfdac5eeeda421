/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "symbols/client/helper.h"

enum { PLACES_MOST = 1 << 16, CALLS_MOST = 64, USELESS = 8 };

struct wanted {
    uint64_t address;
    bool asked;
    UT_hash_handle hh;
};

struct places {
    struct place *list; /* by address, none overlaps another; behind the first `sorted` ones answers as they came */
    size_t count, sorted, room;
    struct wanted *wanted;
    bool useful, useless; /* something is known; much was asked for, and nothing is */
};

struct places *places_new(void)
{
    return calloc(1, sizeof(struct places));
}

void places_free(struct places *places)
{
    struct wanted *wanted, *next;
    if (!places)
        return;
    HASH_ITER(hh, places->wanted, wanted, next)
    {
        HASH_DEL(places->wanted, wanted);
        free(wanted);
    }
    for (size_t i = 0; i < places->count; i++)
        free(places->list[i].calls);
    free(places->list);
    free(places);
}

enum places_state places_find(struct places *places, uint64_t address, const struct place **ret_place)
{
    struct wanted *wanted;
    size_t at = COUNT_BEFORE(places->sorted, i, places->list[i].high <= address);
    *ret_place = at < places->sorted && places->list[at].low <= address ? &places->list[at] : NULL;
    if (*ret_place)
        return PLACES_KNOWN;
    HASH_FIND(hh, places->wanted, &address, sizeof address, wanted);
    if (wanted)
        return PLACES_WANTED;
    bool asks = !places->useless && places->sorted + HASH_COUNT(places->wanted) < PLACES_MOST;
    wanted = asks ? calloc(1, sizeof *wanted) : NULL;
    if (!wanted)
        return PLACES_NEVER;
    wanted->address = address;
    HASH_ADD(hh, places->wanted, address, sizeof wanted->address, wanted);
    return PLACES_WANTED;
}

size_t places_ask(struct places *places, size_t most, struct buf *out)
{
    size_t count = 0;
    for (struct wanted *wanted = places->wanted; wanted && count < most; wanted = wanted->hh.next, count++) {
        char text[24];
        snprintf(text, sizeof text, "0x%" PRIx64, wanted->address);
        helper_line(out, "address", text, NULL);
        wanted->asked = true;
    }
    return count;
}

void places_add(struct places *places, uint64_t low, uint64_t high, uint32_t line)
{
    places->useful |= line != 0;
    if (low < high && places->count < 2 * PLACES_MOST && GROW(places->list, places->count, places->room))
        places->list[places->count++] = (struct place){.low = low, .high = high, .line = line};
}

void places_add_call(struct places *places, const struct profile_code *code, uint32_t line)
{
    struct place *place = places->count > places->sorted ? &places->list[places->count - 1] : NULL;
    if (!place || place->count == CALLS_MOST)
        return;
    struct place_call *calls = realloc(place->calls, (place->count + 1) * sizeof *calls);
    if (!calls)
        return;
    place->calls = calls;
    calls[place->count++] = (struct place_call){code, line};
}

void places_add_part(struct places *places, uint32_t line)
{
    struct place *place = places->count > places->sorted ? &places->list[places->count - 1] : NULL;
    if (place && place->count)
        place->calls[place->count - 1].line = line;
    else if (place)
        place->line = line;
}

static int by_address(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    if (left->low != right->low)
        return left->low < right->low ? -1 : 1;
    return left->high > right->high ? -1 : left->high < right->high;
}

/* Sorts the answers in; the same comes for several addresses. */
static void places_sort(struct places *places)
{
    size_t kept = 0;
    if (places->count)
        qsort(places->list, places->count, sizeof *places->list, by_address);
    for (size_t i = 0; i < places->count; i++)
        if (kept && places->list[i].low < places->list[kept - 1].high)
            free(places->list[i].calls);
        else
            places->list[kept++] = places->list[i];
    places->count = places->sorted = kept;
}

void places_end(struct places *places)
{
    struct wanted *wanted, *next;
    places->useless = !places->useful && HASH_COUNT(places->wanted) >= USELESS;
    places_sort(places);
    HASH_ITER(hh, places->wanted, wanted, next)
    {
        size_t at = COUNT_BEFORE(places->sorted, i, places->list[i].high <= wanted->address);
        bool known = at < places->sorted && places->list[at].low <= wanted->address;
        if (!known && wanted->asked)
            places_add(places, wanted->address, wanted->address + 1, 0);
        if (known || wanted->asked) {
            HASH_DEL(places->wanted, wanted);
            free(wanted);
        }
    }
    places_sort(places);
}
