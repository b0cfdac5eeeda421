/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that tell scry about themselves. Link nothing: the functions are weak, and exist only when the program
 * runs under scry. Without scry these calls do nothing.
 *
 *     scry_mark("residual below 1e-3");   puts a text into the trace, with this time and thread
 *     scry_trace_off();                   from here on, this thread's calls are not recorded ...
 *     scry_trace_on();                    ... until here; each off needs its on
 *     scry_metric("loss", 0.12);          a number of the job, as `scry run --metric` follows those that are printed
 *
 * All are safe in signal handlers, and in all threads. scry_metric never waits, and takes some 20 ns, so it may stand in an inner
 * loop: of each name the job has the last value about once a second, with the least and the greatest since, and how many they were.
 * It needs no hooks and no trace. At most 16 names; of a name the first 31 bytes count.
 */
#ifndef SCRY_AGENT_API_H
#define SCRY_AGENT_API_H

#ifdef __cplusplus
extern "C" {
#endif

#pragma weak scry_mark_text
#pragma weak scry_thread_off
#pragma weak scry_thread_on
#pragma weak scry_metric_bits
extern void scry_mark_text(const char *text);
extern void scry_thread_off(void);
extern void scry_thread_on(void);
extern void scry_metric_bits(const char *name, __UINT64_TYPE__ bits);

/* `text` is UTF-8. Only its first 1024 bytes are recorded. */
static inline __attribute__((no_instrument_function, unused)) void scry_mark(const char *text)
{
    if (scry_mark_text)
        scry_mark_text(text);
}

static inline __attribute__((no_instrument_function, unused)) void scry_trace_off(void)
{
    if (scry_thread_off)
        scry_thread_off();
}

static inline __attribute__((no_instrument_function, unused)) void scry_trace_on(void)
{
    if (scry_thread_on)
        scry_thread_on();
}

/* What is infinite, or no number, is told as undefined. */
static inline __attribute__((no_instrument_function, unused)) void scry_metric(const char *name, double value)
{
    __UINT64_TYPE__ bits;
    if (!scry_metric_bits)
        return;
    __builtin_memcpy(&bits, &value, sizeof bits);
    scry_metric_bits(name, bits);
}

#ifdef __cplusplus
}
#endif

#endif
