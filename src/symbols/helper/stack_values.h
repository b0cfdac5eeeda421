/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and locals of the frames of threads that nobody stops, for the job `stacks`. A variable whose place follows
 * from registers that are not known is not available: never another value. Of a thread that was sampled, only what lies
 * in the copy of its stack is read, for it has gone on.
 */
#ifndef SCRY_SYMBOLS_HELPER_STACK_VALUES_H
#define SCRY_SYMBOLS_HELPER_STACK_VALUES_H

#include <sys/types.h>

#include "base/data/buf.h"
#include "symbols/index/lines.h"

struct stack_values;

/* depth: levels of pointers that are followed. NULL: out of memory. */
struct stack_values *stack_values_new(unsigned depth);
void stack_values_free(struct stack_values *values);
/* The process whose threads come now. `lines` is borrowed until the next one. */
void stack_values_process(struct stack_values *values, pid_t pid, struct lines *lines);
/* A frame of a thread; stack_values_put is of it from now on. */
void stack_values_frame(struct stack_values *values, const struct lines_thread *thread,
                        const struct lines_registers *registers, bool innermost);
/* Appends lines `value 0 NAME TYPE TEXT` of the level-th of `levels` functions of that frame, from the innermost on; or
 * one without a name: why nothing is known of its values. */
void stack_values_put(struct stack_values *values, size_t level, size_t levels, struct buf *out);

#endif
