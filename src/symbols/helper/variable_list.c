/* SPDX-License-Identifier: Apache-2.0 */
/* All variables of a place in a program. */
#include <stdio.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "symbols/client/helper.h"
#include "symbols/helper/variable_internal.h"

struct listing {
    struct variable_job *job;
    struct variable_found at;
    struct buf *out;
    size_t frame;
};

static void locate_listed(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    const struct listing *listing = ctx;
    variable_locate_set(&listing->at, emitter, ret_place);
}

static void list_variable(void *ctx, Dwarf_Die *die, const char *name)
{
    struct listing *listing = ctx;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(buf_done) struct buf words = BUF_INIT;
    Dwarf_Die type;
    char frame[24];
    if (!name || !type_of(die, &type))
        return;
    struct emitter emitter;
    listing->at.die = *die;
    emitter_init(&emitter, &listing->job->options, &listing->at.module->compiler->types, false);
    buf_puts(&emitter.text, "result(");
    emit_field(&emitter, "", &type, locate_listed, listing);
    buf_putc(&emitter.text, ')');
    bool good = variable_show(listing->job, &emitter, listing->at.frame, &text);
    /* what is not in a copy is not invalid */
    if (!good || (variable_reads_copy() && text.data && strstr(text.data, "<invalid"))) {
        buf_clear(&text);
        buf_puts(&text, "<not available>");
    }
    emitter_done(&emitter);
    type_put_name(&listing->at.module->compiler->types, &type, true, &words);
    snprintf(frame, sizeof frame, "%zu", listing->frame);
    helper_line(listing->out, "value", frame, name, words.data ? words.data : "", text.data ? text.data : "", NULL);
}

void variable_list(struct variable_job *job, const struct variable_found *at, Dwarf_Die *scope, size_t frame,
                   struct buf *out)
{
    struct listing listing = {.job = job, .at = *at, .out = out, .frame = frame};
    scopes_parameters(at->module->compiler, scope, list_variable, &listing);
    scopes_locals(at->module->compiler, scope, at->pc, list_variable, &listing);
}

size_t variable_scopes(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                       Dwarf_Die ret_scopes[VARIABLE_SCOPES])
{
    size_t count = 0;
    Dwarf_Die scope;
    if (!variable_scope(job, frame, ret_at, &scope))
        return 0;
    while (count + 1 < VARIABLE_SCOPES && scope.addr != ret_at->function.addr) {
        ret_scopes[count++] = scope;
        scopes_around(ret_at->module->compiler, &ret_at->function, ret_at->pc, &ret_scopes[count - 1], &scope);
    }
    ret_scopes[count++] = ret_at->function;
    return count;
}
