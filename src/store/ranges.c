/* SPDX-License-Identifier: Apache-2.0 */
#include "store/ranges.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void ranges_done(struct ranges *ranges)
{
    free(ranges->list);
    *ranges = (struct ranges){.changed = INT64_MAX};
}

/* How many begin at seq or before. */
static size_t begun(const struct ranges *ranges, int64_t seq)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->list[middle].first <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool have(const struct ranges *ranges, int64_t seq)
{
    size_t at = begun(ranges, seq);
    return at && seq < ranges->list[at - 1].behind;
}

static void touch(struct ranges *ranges, int64_t first)
{
    if (first < ranges->changed)
        ranges->changed = first;
}

static int insert(struct ranges *ranges, size_t at, int64_t first, int64_t behind, const char *day)
{
    if (ranges->count >= RANGES_MOST)
        return -E2BIG;
    if (ranges->count == ranges->room) {
        size_t room = ranges->room ? 2 * ranges->room : 8;
        struct range *list = realloc(ranges->list, room * sizeof *list);
        if (!list)
            return -ENOMEM;
        ranges->list = list;
        ranges->room = room;
    }
    memmove(&ranges->list[at + 1], &ranges->list[at], (ranges->count - at) * sizeof *ranges->list);
    ranges->list[at] = (struct range){.first = first, .behind = behind};
    snprintf(ranges->list[at].day, DB_DAY_SIZE, "%s", day);
    ranges->count++;
    return 0;
}

/* That none of them is there is known. */
static int add(struct ranges *ranges, int64_t first, int64_t behind, const char *day)
{
    size_t at = begun(ranges, first);
    struct range *before = at ? &ranges->list[at - 1] : NULL, *next = at < ranges->count ? &ranges->list[at] : NULL;
    bool joins = before && before->behind == first && strcmp(before->day, day) == 0;
    bool joined = next && next->first == behind && strcmp(next->day, day) == 0;
    if (joins) {
        touch(ranges, before->first);
        before->behind = joined ? next->behind : behind;
        if (joined) {
            memmove(next, next + 1, (ranges->count - at - 1) * sizeof *next);
            ranges->count--;
        }
        return 0;
    }
    if (joined) {
        touch(ranges, first);
        next->first = first;
        return 0;
    }
    int code = insert(ranges, at, first, behind, day);
    if (code == 0)
        touch(ranges, first);
    return code;
}

int ranges_add(struct ranges *ranges, int64_t seq, const char *day)
{
    return have(ranges, seq) ? -EEXIST : add(ranges, seq, seq + 1, day);
}

int64_t ranges_missing(const struct ranges *ranges, int64_t from, int64_t end, int64_t *ret_behind)
{
    size_t at = begun(ranges, from);
    if (at && from < ranges->list[at - 1].behind)
        from = ranges->list[at - 1].behind;
    while (at < ranges->count && ranges->list[at].first == from)
        from = ranges->list[at++].behind;
    *ret_behind = at < ranges->count && ranges->list[at].first < end ? ranges->list[at].first : end;
    return from < end ? from : (*ret_behind = end);
}

int ranges_fill(struct ranges *ranges, int64_t first, int64_t behind, int64_t *ret_added)
{
    int64_t end;
    *ret_added = 0;
    for (int64_t at; (at = ranges_missing(ranges, first, behind, &end)) < behind; first = end) {
        int code = add(ranges, at, end, "");
        if (code < 0)
            return code;
        *ret_added += end - at;
    }
    return 0;
}

void ranges_cut(struct ranges *ranges, int64_t behind)
{
    while (ranges->count && ranges->list[ranges->count - 1].behind > behind) {
        struct range *last = &ranges->list[ranges->count - 1];
        touch(ranges, last->first);
        if (last->first < behind)
            last->behind = behind;
        else
            ranges->count--;
    }
}

static int take(void *ctx, const struct db_value *values, int count)
{
    struct ranges *ranges = ctx;
    char day[DB_DAY_SIZE];
    snprintf(day, sizeof day, "%.*s", SPAN_ARG(values[2].text));
    return insert(ranges, ranges->count, values[0].integer, values[1].integer, day);
}

int ranges_load(struct ranges *ranges, struct db *db, int64_t job, struct err *err)
{
    struct db_value value = db_integer(job);
    ranges_done(ranges);
    return db_query(db, "SELECT first, behind, day FROM ranges WHERE job = $1 ORDER BY first", &value, 1, take, ranges,
                    err);
}

int ranges_save(struct ranges *ranges, struct db *db, int64_t job, struct err *err)
{
    if (ranges->changed == INT64_MAX)
        return 0;
    struct db_value from[] = {db_integer(job), db_integer(ranges->changed)};
    int code = db_query(db, "DELETE FROM ranges WHERE job = $1 AND first >= $2", from, 2, NULL, NULL, err);
    for (size_t at = begun(ranges, ranges->changed - 1); at < ranges->count && code == 0; at++) {
        struct range *range = &ranges->list[at];
        struct db_value values[] = {db_integer(job), db_integer(range->first), db_integer(range->behind),
                                    db_string(range->day)};
        code = db_query(db, "INSERT INTO ranges (job, first, behind, day) VALUES ($1, $2, $3, $4)", values, 4, NULL,
                        NULL, err);
    }
    if (code == 0)
        ranges->changed = INT64_MAX;
    return code;
}
