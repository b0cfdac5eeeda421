/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/test_mpi_area.h"

#include <stdlib.h>
#include <string.h>

enum { MODULE_AT = 0x400000, MODULE_SIZE = 0x10000 };

static uint32_t pool_take(void *area, uint64_t size)
{
    struct mpi_area *head = area;
    uint64_t at = MPIA_POOL_AT + atomic_fetch_add(&head->pool_used, (size + 63) / 64 * 64);
    return mpi_pool_at(area, (uint32_t)at, size) ? (uint32_t)at : 0;
}

void fake_area_make(void *area, int32_t pid, uint64_t rate)
{
    struct mpi_area *head = area;
    head->version = MPIA_AREA_VERSION;
    head->calls_hash = CALLS_HASH;
    head->pid = pid;
    head->size = MPIA_AREA_SIZE;
    head->rank = head->world_size = -1;
    head->library = MPIA_LIBRARY_OPENMPI;
    strcpy(head->namespace, "job 1");
    atomic_store(&head->ticks_per_second, rate);
    atomic_store(&head->bits, (uint32_t)MPIA_BITS_DEFAULT);
    atomic_store(&head->metrics, (uint32_t)MPIA_METRIC_ALL);
    memset((void *)head->selected, 0xff, sizeof head->selected);
    atomic_store(&head->on, 1u);
    head->magic = MPIA_AREA_MAGIC;
}

static uint32_t histogram(void *area)
{
    uint32_t bits = atomic_load(&((struct mpi_area *)area)->bits), count = mpi_bucket_count(bits);
    uint32_t at = pool_take(area, sizeof(struct mpi_histogram) + count * sizeof(uint64_t));
    struct mpi_histogram *made = mpi_pool_at(area, at, sizeof *made);
    made->bits = bits;
    made->bucket_count = count;
    return at;
}

static void count_value(void *area, uint32_t *inout_at, uint64_t value, uint64_t times)
{
    if (!*inout_at)
        *inout_at = histogram(area);
    struct mpi_histogram *at = mpi_pool_at(area, *inout_at, sizeof *at);
    at->buckets[mpi_bucket(value, at->bits)] += times;
    at->total += value * times;
}

struct mpi_thread *fake_area_thread(void *area, uint32_t index, uint32_t tid, uint64_t ticks)
{
    struct mpi_thread *thread = mpi_thread_at(area, index);
    thread->tid = tid;
    thread->sites_at = pool_take(area, MPIA_SITES_FIRST * sizeof(struct mpi_site));
    thread->sites_mask = MPIA_SITES_FIRST - 1;
    thread->peers_at = pool_take(area, MPIA_PEERS_FIRST * sizeof(struct mpi_peer));
    thread->peers_mask = MPIA_PEERS_FIRST - 1;
    thread->outermost.first = thread->outermost.last = ticks;
    strcpy(thread->name, "worker");
    atomic_store(&thread->state, (uint32_t)MPIA_THREAD_USED);
    return thread;
}

void fake_area_start(void *area, int32_t rank, int32_t size, uint32_t tid, uint64_t ticks)
{
    struct mpi_area *head = area;
    struct mpi_comm *world = mpi_comm_at(area, 0);
    struct mpi_module *module = mpi_module_at(area, 0);
    fake_area_thread(area, 0, tid, ticks)->is_main = 1;
    module->base = MODULE_AT;
    module->end = MODULE_AT + MODULE_SIZE;
    module->build_id_size = 2;
    module->build_id[0] = 0xab;
    module->build_id[1] = 0x01;
    strcpy(module->path, "/bin/program");
    atomic_store(&head->module_count, 1u);
    world->handle = 7;
    world->parent = UINT32_MAX;
    world->size = (uint32_t)size;
    world->rank = (uint32_t)rank;
    strcpy(world->name, "MPI_COMM_WORLD");
    atomic_store(&world->kind, (uint32_t)MPIA_COMM_INTRA);
    atomic_store(&head->comm_count, 1u);
    head->rank = rank;
    head->world_size = size;
    head->init_enter = ticks - 1000;
    head->init_return = ticks;
    head->init_wall_ns = 1700000000000000000;
    strcpy(head->processor, "node");
    strcpy(head->version_text, "A library");
    atomic_store(&head->state, (uint32_t)MPIA_RUNNING);
}

void fake_area_enter(void *area, uint32_t thread, const struct fake_call *call)
{
    struct mpi_now *now = &mpi_thread_at(area, thread)->now;
    atomic_fetch_add(&now->seq, 1);
    now->call = call->call;
    now->since = call->enter;
    now->site = call->site;
    now->peer = call->peer;
    now->tag = call->tag;
    now->comm = 0;
    now->bytes = call->bytes;
    now->source_peer = MPIA_RANK_NONE;
    now->source_tag = MPIA_TAG_NONE;
    atomic_fetch_add(&now->seq, 1);
}

static void end_clocks(void *area, struct mpi_thread *thread, const struct fake_call *call)
{
    struct mpi_outermost *outermost = &thread->outermost;
    struct mpi_blocking *blocking = &thread->blocking;
    uint64_t computed = call->enter - outermost->last, communicated = call->leave - call->enter;
    bool blocks = call_infos[call->call].blocking;
    count_value(area, &outermost->compute_at, computed, 1);
    if (!blocks || blocking->pending)
        count_value(area, &blocking->compute_at, computed, UINT64_MAX);
    if (blocks && blocking->pending)
        count_value(area, &blocking->compute_at, computed + blocking->pending, 1);
    blocking->pending = blocks ? 0 : blocking->pending + computed + communicated;
    blocking->other_count += !blocks;
    blocking->other_ticks += blocks ? 0 : communicated;
    outermost->communicate += communicated;
    outermost->last = call->leave;
    outermost->count++;
}

static void count_site(void *area, struct mpi_thread *thread, const struct fake_call *call)
{
    struct mpi_site *table = mpi_pool_at(area, thread->sites_at, 64), *site = NULL;
    uint64_t ticks = call->leave - call->enter;
    for (uint32_t i = 0; i <= thread->sites_mask; i++) {
        site = &table[(call->site + i) & thread->sites_mask];
        if (!site->address || (site->address == call->site && site->call == call->call))
            break;
    }
    if (!site->address)
        *site = (struct mpi_site){.call = call->call, .module = 0, .offset = call->site - MODULE_AT, .min = ticks};
    site->count++;
    site->ticks += ticks;
    site->min = ticks < site->min ? ticks : site->min;
    site->max = ticks > site->max ? ticks : site->max;
    site->args_bytes += call->bytes;
    site->address = call->site;
}

static void count_peer(void *area, struct mpi_thread *thread, const struct fake_call *call)
{
    struct mpi_peer *table = mpi_pool_at(area, thread->peers_at, 64), *peer = NULL;
    bool sends = call->call == CALL_MPI_Send;
    for (uint32_t i = 0; i <= thread->peers_mask; i++) {
        peer = &table[((uint32_t)call->peer + i) & thread->peers_mask];
        if (!peer->used || peer->peer == call->peer)
            break;
    }
    peer->peer = call->peer;
    peer->sent_count += sends;
    peer->sent_bytes += sends ? call->bytes : 0;
    peer->got_count += !sends;
    peer->got_bytes += sends ? 0 : call->bytes;
    peer->args_bytes += call->bytes;
    peer->used = 1;
}

void fake_area_leave(void *area, uint32_t thread, const struct fake_call *call)
{
    struct mpi_thread *block = mpi_thread_at(area, thread);
    struct mpi_row *row = &block->rows[call->call];
    uint64_t ticks = call->leave - call->enter;
    end_clocks(area, block, call);
    row->min = !row->count || ticks < row->min ? ticks : row->min;
    row->max = ticks > row->max ? ticks : row->max;
    row->ticks += ticks;
    row->args_bytes += call->bytes;
    row->sent_bytes += call->call == CALL_MPI_Send ? call->bytes : 0;
    row->got_bytes += call->call == CALL_MPI_Recv ? call->bytes : 0;
    row->count++;
    count_value(area, &row->ticks_at, ticks, 1);
    count_value(area, &row->bytes_at, call->bytes, 1);
    if (call->site)
        count_site(area, block, call);
    if (call->peer >= 0)
        count_peer(area, block, call);
    atomic_fetch_add(&block->now.seq, 1);
    block->now.call = CALL_NONE;
    atomic_fetch_add(&block->now.seq, 1);
}

void fake_area_call(void *area, uint32_t thread, const struct fake_call *call)
{
    fake_area_enter(area, thread, call);
    fake_area_leave(area, thread, call);
}

void fake_area_request(void *area, uint64_t handle, uint32_t call, int32_t peer, int32_t tag, uint64_t bytes,
                       uint64_t since)
{
    struct mpi_request *request = mpi_request_at(area, (uint32_t)handle % MPIA_REQUESTS);
    atomic_store(&request->handle, handle);
    request->peer = peer;
    request->tag = tag;
    request->flags = call == CALL_MPI_Irecv ? MPIA_REQUEST_RECEIVE : MPIA_REQUEST_SEND;
    request->bytes = bytes;
    request->since = since;
    atomic_store(&request->call, call);
}

void fake_area_finalize(void *area, uint64_t enter, uint64_t leave)
{
    struct mpi_area *head = area;
    struct mpi_outermost *clock = &mpi_thread_at(area, 0)->outermost;
    clock->last = enter;
    head->finalize_enter = enter;
    head->finalize_return = leave;
    atomic_store(&head->state, (uint32_t)MPIA_ENDED);
}
