/* SPDX-License-Identifier: Apache-2.0 */
/* What all nodes say of a request that was enabled or disabled, as one reply. */
#include <stdlib.h>

#include "lang/reply.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/execute.h"
#include "monitor/tree/conditional.h"
#include "monitor/tree/merge.h"

struct gathered {
    const struct csr *csr;
    Omis_status change;
    struct merge *merge;
    struct gathered *next;
};

static struct gathered *all_gathered;

static struct gathered *find(const struct csr *csr)
{
    struct gathered *gathered = all_gathered;
    while (gathered && gathered->csr != csr)
        gathered = gathered->next;
    return gathered;
}

static struct gathered *gathered_new(const struct csr *csr, Omis_status change)
{
    struct gathered *gathered = calloc(1, sizeof *gathered);
    if (!gathered || merge_new(&gathered->merge, 1) < 0) {
        free(gathered);
        return NULL;
    }
    gathered->csr = csr;
    gathered->change = change;
    gathered->next = all_gathered;
    all_gathered = gathered;
    return gathered;
}

static void gathered_free(struct gathered *gathered)
{
    struct gathered **at = &all_gathered;
    while (*at != gathered)
        at = &(*at)->next;
    *at = gathered->next;
    merge_free(gathered->merge);
    free(gathered);
}

static Omis_status change_of(struct span reply)
{
    struct reply_reader reader;
    if (!reply_read_begin(&reader, reply) || !reply_read_service(&reader))
        return OMIS_INTERNAL_ERROR;
    return reply_read_part(&reader).status;
}

bool gather(const struct csr *csr, struct span reply)
{
    static const size_t action = 0;
    Omis_status change = change_of(reply);
    struct gathered *gathered = find(csr);
    if (change != OMIS_CSR_ENABLED && change != OMIS_CSR_DISABLED)
        return false;
    if (gathered && gathered->change != change) {
        gather_end(csr);
        gathered = NULL;
    }
    if (!gathered)
        gathered = gathered_new(csr, change);
    return gathered && merge_add(gathered->merge, reply, &action, 1, span_of("", 0)) == 0;
}

void gather_end(const struct csr *csr)
{
    struct gathered *gathered = find(csr);
    struct reply_builder reply = {0};
    if (!gathered)
        return;
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), gathered->change, NULL);
    const struct request order = {.actions = csr->request.event, .action_count = 1};
    merge_finish(gathered->merge, &order, &reply);
    gathered_free(gathered);
    if (csr->session)
        reply_send(csr->session, csr->request_id, false, false, &reply);
    reply_done(&reply);
}
