/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/series.h"

#include <math.h>

#include "shm/waits.h"

static void join_pairs(struct series *series)
{
    for (size_t i = 0; i < SERIES_WINDOWS / 2; i++)
        series->max[i] = fmax(series->max[2 * i], series->max[2 * i + 1]);
    series->used = (series->used + 1) / 2;
    for (size_t i = series->used; i < SERIES_WINDOWS; i++)
        series->max[i] = -1;
    series->width_seconds *= 2;
}

/* The window that a time is in; they are joined until there is one. */
static size_t window_at(struct series *series, double seconds)
{
    while (seconds / series->width_seconds >= SERIES_WINDOWS)
        join_pairs(series);
    return (size_t)(seconds / series->width_seconds);
}

void series_add_from(struct series *series, double from, double seconds, double value)
{
    if (series->width_seconds == 0) {
        series->width_seconds = SERIES_FIRST_SECONDS;
        for (size_t i = 0; i < SERIES_WINDOWS; i++)
            series->max[i] = -1;
    }
    if (!(seconds >= 0) || !isfinite(seconds) || !(value >= -1) || !isfinite(value))
        return;
    size_t last = window_at(series, seconds), first = from >= 0 && from < seconds ? window_at(series, from) : last;
    if (last + 1 < series->used)
        last = series->used - 1;
    if (last >= series->used)
        series->used = last + 1;
    for (size_t i = first < last ? first : last; i <= last; i++)
        series->max[i] = fmax(series->max[i], value);
}

void series_add(struct series *series, double seconds, double value)
{
    if (value >= 0)
        series_add_from(series, seconds, seconds, value);
}

double series_max(const struct series *series)
{
    double max = 0;
    for (size_t i = 0; i < series->used; i++)
        max = fmax(max, series->max[i]);
    return max;
}

/* The maximum of the windows that column `column` of `columns` covers. */
static double column_max(const struct series *series, size_t column, size_t columns)
{
    size_t from = column * series->used / columns, to = (column + 1) * series->used / columns;
    if (to == from)
        to = from + 1;
    double max = -1;
    for (size_t i = from; i < to && i < series->used; i++)
        max = fmax(max, series->max[i]);
    return max;
}

void series_sparkline(const struct series *series, struct buf *out, size_t columns, double top, int ascii)
{
    static const char plain[] = ".:-=+*#@";
    if (top <= 0)
        top = series_max(series);
    double value = -1;
    for (size_t i = 0; i < columns && series->used; i++) {
        double here = column_max(series, i, columns);
        /* windows are shorter than the sampling period: what was last measured holds until the next */
        value = here >= 0 ? here : value;
        if (value < 0) {
            buf_putc(out, ' ');
            continue;
        }
        int level = top > 0 ? (int)(value / top * 7.999) : 0;
        level = level < 0 ? 0 : level > 7 ? 7 : level;
        if (ascii)
            buf_putc(out, plain[level]);
        else
            buf_printf(out, "\xe2\x96%c", 0x81 + level);
    }
}
