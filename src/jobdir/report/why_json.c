/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/report/why_json.h"

#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

static json_t *text_or_null(const char *text)
{
    return text && *text ? text_json(text) : json_null();
}

static json_t *ranks_json(const struct mpi_why *why, const uint32_t *list, size_t count)
{
    json_t *json = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(json, json_integer(why->ranks[list[i]].stats->rank));
    return json;
}

static json_t *comm_json(const struct mpi_stats *stats, uint32_t comm)
{
    if (comm >= stats->comm_count)
        return json_null();
    struct buf name = BUF_INIT;
    mpi_text_comm(&name, stats, comm);
    json_t *json = text_json(name.data ? name.data : "");
    buf_done(&name);
    return json;
}

static json_t *peer_json(int32_t peer)
{
    if (peer >= 0)
        return json_integer(peer);
    return peer == MPIA_RANK_ANY ? json_string("any") : json_null();
}

static json_t *tag_json(int32_t tag)
{
    if (tag >= 0)
        return json_integer(tag);
    return tag == MPIA_TAG_ANY ? json_string("any") : json_null();
}

static json_t *condition_json(const struct mpi_why *why, const struct mpi_why_rank *rank,
                              const struct mpi_why_condition *condition)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:b, s:o, s:I}", "reason", mpi_why_reason_name(condition->reason),
                     "call", mpi_text_call(condition->call), "peer", peer_json(condition->peer), "tag",
                     tag_json(condition->tag), "communicator", comm_json(rank->stats, condition->comm), "all",
                     condition->all, "maybe", condition->maybe, "for_ranks",
                     ranks_json(why, condition->for_ranks, condition->for_count), "unreceived",
                     (json_int_t)condition->unmatched);
}

static json_t *site_json(const struct mpi_stats_site *site)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:I}", "function", text_or_null(site->function), "file",
                     text_or_null(site->file), "line", site->line ? json_integer(site->line) : json_null(), "module",
                     text_or_null(site->module), "offset", (json_int_t)site->offset);
}

static json_t *thread_json(const struct mpi_why *why, const struct mpi_why_rank *rank,
                           const struct mpi_why_thread *thread)
{
    const struct mpi_stats_now *now = mpi_why_call_of(thread);
    bool calls = now->call != CALL_NONE;
    json_t *conditions = json_array();
    for (size_t i = 0; i < thread->condition_count; i++)
        json_array_append_new(conditions, condition_json(why, rank, &thread->conditions[i]));
    struct buf text = BUF_INIT;
    mpi_why_call_text(&text, why, rank, thread);
    json_t *json = json_pack(
        "{s:i, s:b, s:s, s:b, s:b, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "tid",
        thread->thread->tid, "is_rank", thread->thread->is_main, "state", mpi_why_state_name(thread->state), "stuck",
        thread->stuck, "starved", mpi_why_is_starved(thread), "held_by", text_or_null(thread->thread->held), "call",
        calls ? json_string(mpi_text_call(now->call)) : json_null(), "seconds", (double)mpi_why_age_of(thread) / 1e9,
        "peer", calls ? peer_json(now->peer) : json_null(), "tag", calls ? tag_json(now->tag) : json_null(),
        "communicator", calls ? comm_json(rank->stats, now->comm) : json_null(), "collective",
        calls && now->ordinal ? json_integer(now->ordinal) : json_null(), "offset",
        calls && now->flags & MPIA_NOW_FILE ? json_integer((json_int_t)now->offset) : json_null(), "at",
        calls ? site_json(&now->site) : json_null(), "any", thread->any, "polls_per_second",
        thread->state == MPI_WHY_POLLS ? json_real(thread->thread->polls_per_second) : json_null(), "waits_for",
        conditions, "text", text_json(text.data ? text.data : ""));
    buf_done(&text);
    return json;
}

static json_t *actor_json(const struct mpi_why_actor *actor)
{
    struct buf text = BUF_INIT;
    mpi_why_actor_text(&text, actor);
    json_t *json = json_pack("{s:i, s:o, s:b, s:o}", "tid", actor->seen->tid, "name", text_json(actor->seen->name),
                             "may_act", actor->free, "text", text_json(text.data ? text.data : ""));
    buf_done(&text);
    return json;
}

static json_t *rank_json(const struct mpi_why *why, const struct mpi_why_rank *rank)
{
    json_t *threads = json_array(), *others = json_array();
    for (size_t i = 0; i < rank->thread_count; i++)
        json_array_append_new(threads, thread_json(why, rank, &rank->threads[i]));
    for (size_t i = 0; i < rank->actor_count; i++)
        if (!rank->actors[i].thread)
            json_array_append_new(others, actor_json(&rank->actors[i]));
    return json_pack("{s:i, s:o, s:i, s:s, s:b, s:o, s:o, s:o, s:o}", "rank", rank->stats->rank, "node",
                     text_or_null(rank->stats->node), "pid", rank->stats->pid, "state", mpi_why_state_name(rank->state),
                     "stuck", rank->stuck, "waits_in_the_end_for",
                     rank->root == MPI_WHY_NONE ? json_null() : json_integer(why->ranks[rank->root].stats->rank),
                     "where", text_or_null(rank->where), "threads", threads, "other_threads", others);
}

json_t *mpi_why_json(const struct mpi_why *why)
{
    json_t *ranks = json_array(), *findings = json_array();
    for (size_t i = 0; i < why->count; i++)
        json_array_append_new(ranks, rank_json(why, &why->ranks[i]));
    for (size_t i = 0; i < why->finding_count; i++) {
        const struct mpi_why_finding *finding = &why->findings[i];
        json_array_append_new(findings, json_pack("{s:s, s:o, s:o, s:o}", "kind", mpi_why_kind_name(finding->kind),
                                                  "text", text_json(finding->text), "ranks",
                                                  ranks_json(why, finding->ranks, finding->rank_count), "victims",
                                                  ranks_json(why, finding->victims, finding->victim_count)));
    }
    return json_pack("{s:o, s:o, s:i, s:i, s:i, s:i, s:f}", "findings", findings, "ranks", ranks, "waiting",
                     (int)why->waiting, "polling", (int)why->polling, "computing", (int)why->computing, "stuck",
                     (int)why->stuck, "still_seconds", (double)why->still_ns / 1e9);
}
