/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/python_places.h"

#include <inttypes.h>

#include "jobdir/text/text.h"

void python_places_read(struct python_places *ret_places, pid_t pid)
{
    struct python_program program;
    const struct python_memory memory = python_memory_of(&pid);
    *ret_places = (struct python_places){0};
    if (python_find(&program, pid) == 0)
        python_read(&ret_places->stacks, &program, &memory, 0, PYTHON_OWN_FRAME);
}

void python_places_done(struct python_places *places)
{
    python_stacks_done(&places->stacks);
}

const struct python_frame *python_places_find(const struct python_places *places, pid_t tid, bool *ret_loop)
{
    for (size_t i = 0; i < places->stacks.count; i++) {
        const struct python_thread *thread = &places->stacks.threads[i];
        if (thread->tid != tid)
            continue;
        if (ret_loop)
            *ret_loop = python_is_in_asyncio(thread);
        return python_own_frame(thread);
    }
    return NULL;
}

void python_place_put(struct buf *out, const struct python_frame *frame)
{
    text_show(out, frame->function);
    buf_puts(out, " (");
    text_show(out, text_base(frame->file));
    if (frame->line >= 0)
        buf_printf(out, ":%" PRId64, frame->line);
    buf_putc(out, ')');
}
