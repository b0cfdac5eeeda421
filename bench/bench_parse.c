/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one parse of a typical request costs. Beside it, measured in turns with it, a calibration loop: the same number
 * of bytes read one by one through a table, about the least that anything looking at every byte can do. The ratio of
 * the two can be compared between machines; the time cannot.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/system/clock.h"
#include "lang/request.h"

enum { PAIRS = 31, ROUNDS = 20000 };

static uint8_t table[256];
static volatile unsigned keep; /* so that the calibration is not optimised away */

static uint64_t time_calibration(const char *text, size_t len)
{
    unsigned state = 0;
    uint64_t start = clock_now_ns();
    for (int i = 0; i < ROUNDS; i++)
        for (size_t at = 0; at < len; at++) /* each step needs the one before it */
            state = table[(state + (unsigned char)text[at]) & 0xff];
    uint64_t took = clock_now_ns() - start;
    keep = state;
    return took;
}

static uint64_t time_parses(struct span text)
{
    struct arena arena = ARENA_INIT;
    struct request request;
    uint64_t start = clock_now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        arena_reset(&arena);
        if (request_parse(&arena, text, &request, NULL) != 0)
            abort();
    }
    uint64_t took = clock_now_ns() - start;
    arena_done(&arena);
    return took;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void measure(const char *what, struct span text)
{
    double parses[PAIRS], calibrations[PAIRS], ratios[PAIRS];
    time_parses(text);
    for (int i = 0; i < PAIRS; i++) {
        calibrations[i] = (double)time_calibration(text.ptr, text.len) / ROUNDS / 1000;
        parses[i] = (double)time_parses(text) / ROUNDS / 1000;
        ratios[i] = parses[i] / calibrations[i];
    }
    qsort(parses, PAIRS, sizeof *parses, compare);
    qsort(calibrations, PAIRS, sizeof *calibrations, compare);
    qsort(ratios, PAIRS, sizeof *ratios, compare);
    /* the 95 % interval of a median of 31: ranks 10 and 22 of the sorted values */
    printf("%-12s %4zu bytes  %7.3f us a parse  calibration %7.3f us  ratio %5.2f [%5.2f, %5.2f]\n", what, text.len,
           parses[PAIRS / 2], calibrations[PAIRS / 2], ratios[PAIRS / 2], ratios[9], ratios[21]);
}

static void measure_large(void)
{
    struct buf text = BUF_INIT;
    struct arena arena = ARENA_INIT;
    struct request request;
    buf_puts(&text, ": proc_write_memory([p_1_2], 0x7ffc0000, [");
    while (text.len < 10000000)
        buf_printf(&text, "%zu,", text.len % 256);
    buf_puts(&text, "0])");
    uint64_t start = clock_now_ns();
    if (request_parse(&arena, span_of(text.data, text.len), &request, NULL) != 0)
        abort();
    double took = (double)(clock_now_ns() - start) / 1e6;
    printf("%-12s %4zu MB     %7.1f ms a parse  %7.1f ns a byte\n", "large", text.len / 1000000, took,
           took * 1e6 / (double)text.len);
    arena_done(&arena);
    buf_done(&text);
}

int main(void)
{
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i * 167 + 13);
    printf("parse: medians of %d interleaved pairs, interval of the ratio\n", PAIRS);
    measure("typical", span_str(": proc_get_info([p_1_12,p_1_13,p_1_14], 0x1ff) node_get_info([],3)"));
    measure("conditional", span_str("thread_reached_addr([t_1_4],0x401136):{thread_stop([$thread]) print([$time])}"));
    measure("strings", span_str(": proc_create([n_1],\"/bin/echo\",[\"a\\tb\",\"plain text\"],[\"HOME=/\"],0)"));
    measure("floats", span_str(": print([0.1,2.5,1e300,3.141592653589793,-0.001,123456.789012])"));
    measure_large();
    return 0;
}
