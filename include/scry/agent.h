/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that tell scry about themselves. Link nothing: the functions are weak, and exist only when the program
 * runs under scry. Without scry these calls do nothing.
 *
 *     scry_mark("residual below 1e-3");   puts a text into the trace, with this time and thread
 *     scry_trace_off();                   from here on, this thread's calls are not recorded ...
 *     scry_trace_on();                    ... until here; each off needs its on
 *
 * All are safe in signal handlers.
 */
#ifndef SCRY_AGENT_API_H
#define SCRY_AGENT_API_H

#ifdef __cplusplus
extern "C" {
#endif

#pragma weak scry_mark_text
#pragma weak scry_thread_off
#pragma weak scry_thread_on
extern void scry_mark_text(const char *text);
extern void scry_thread_off(void);
extern void scry_thread_on(void);

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

#ifdef __cplusplus
}
#endif

#endif
