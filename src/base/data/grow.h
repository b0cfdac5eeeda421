/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays on the heap that grow as they are filled:
 *
 *     if (!GROW(list->items, list->count, list->room))
 *         return -ENOMEM;
 *     list->items[list->count++] = item;
 *
 * and sorted ones, in which is searched:
 *
 *     size_t at = COUNT_BEFORE(list->count, i, list->items[i].address < address);
 */
#ifndef SCRY_BASE_DATA_GROW_H
#define SCRY_BASE_DATA_GROW_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Whether there is room for one more behind `count`: where `room` is used up, it is doubled. false: out of memory, and
 * all is as it was. All three are variables. */
#define GROW(array, count, room) GROW_TO(array, (count) + 1, room)

/* The same for `wanted` elements in all. */
#define GROW_TO(array, wanted, room) GROW_BY(array, wanted, room, false)
/* The same, and what is new is zero. */
#define GROW_ZERO_TO(array, wanted, room) GROW_BY(array, wanted, room, true)

#define GROW_BY(array, wanted, room, zeroed) \
    ((wanted) <= (room) || ({ \
         size_t wanted_ = (wanted), room_ = (room) ? 2 * (size_t)(room) : 8; \
         room_ = room_ < wanted_ ? wanted_ : room_; \
         char *grown_ = reallocarray(array, room_, sizeof *(array)); \
         if (grown_) { \
             if (zeroed) \
                 memset(grown_ + (room) * sizeof *(array), 0, (room_ - (room)) * sizeof *(array)); \
             (array) = (void *)grown_; \
             (room) = room_; \
         } \
         grown_ != NULL; \
     }))

/* For how many of `count` elements the condition on `i`, the index of one, holds: it holds for none behind one for which it does not.
 */
#define COUNT_BEFORE(count, i, is_before) \
    ({ \
        size_t low_ = 0, high_ = (count); \
        while (low_ < high_) { \
            size_t i = low_ + (high_ - low_) / 2; \
            if (is_before) \
                low_ = i + 1; \
            else \
                high_ = i; \
        } \
        low_; \
    })

#endif
