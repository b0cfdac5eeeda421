/* SPDX-License-Identifier: Apache-2.0 */
/* What was found, as JSON. */
#include "jobdir/analysis/why.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/report.h"
#include "jobdir/text/text.h"

/* Rows are made of the analysis, and hold their own JSON until they are written. */
#define STATES "computes|moves|polls|waits|io|stopped|starts|ended|died|blocked"

static json_t *number_or_any(int32_t number, int32_t any)
{
    return number >= 0 ? json_integer(number) : number == any ? json_string("any") : NULL;
}

static json_t *numbers_json(const struct mpi_why *why, const uint32_t *list, size_t count)
{
    json_t *json = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(json, json_integer(why->ranks[list[i]].stats->rank));
    return json;
}

static struct buf comm_name(const struct mpi_stats *stats, uint32_t comm)
{
    struct buf name = BUF_INIT;
    if (comm < stats->comm_count)
        mpi_text_comm(&name, stats, comm);
    return name;
}

/* ---- what a thread waits for ---- */

struct condition_row {
    const char *reason, *call, *communicator, *elsewhere;
    json_t *peer, *tag, *for_ranks;
    bool all, maybe;
    uint64_t unreceived;
};
#define CONDITION(member) FIELD_AT(struct condition_row, member)
static const struct field condition_fields[] = {
    {"reason", FIELD_CHOICE, CONDITION(reason), .choices = "send|receive|collective|target|finalize|post|complete",
     .about = "what it waits for the others to do"},
    {"call", FIELD_TEXT, CONDITION(call)},
    {"peer", FIELD_INTEGER, CONDITION(peer), FIELD_OR_NULL | FIELD_OR_WORD, .about = "rank, or any"},
    {"tag", FIELD_INTEGER, CONDITION(tag), FIELD_OR_NULL | FIELD_OR_WORD},
    {"communicator", FIELD_TEXT, CONDITION(communicator), FIELD_ZERO_IS_NULL},
    {"all", FIELD_BOOL, CONDITION(all), .about = "all of for_ranks are needed; else any of them would do"},
    {"maybe", FIELD_BOOL, CONDITION(maybe),
     .about = "may have come true already: one of several requests, or a send that is perhaps buffered"},
    {"for_ranks", FIELD_LIST, CONDITION(for_ranks), .of = fields_integers},
    {"unreceived", FIELD_COUNT, CONDITION(unreceived),
     .about = "messages from there that were sent and not received: of another tag"},
    {"unreceived_on", FIELD_TEXT, CONDITION(elsewhere), FIELD_ZERO_IS_NULL,
     .about = "another communicator, on which there is something from there that was not received"},
    {0}};

static json_t *condition_json(const struct mpi_why *why, const struct mpi_why_rank *rank,
                              const struct mpi_why_condition *condition)
{
    struct buf comm = comm_name(rank->stats, condition->comm);
    struct buf elsewhere = BUF_INIT;
    if (condition->elsewhere)
        elsewhere = comm_name(rank->stats, condition->elsewhere_comm);
    struct condition_row row = {.reason = mpi_why_reason_name(condition->reason),
                                .call = mpi_text_call(condition->call),
                                .communicator = comm.data,
                                .elsewhere = elsewhere.data,
                                .peer = number_or_any(condition->peer, MPIA_RANK_ANY),
                                .tag = number_or_any(condition->tag, MPIA_TAG_ANY),
                                .for_ranks = numbers_json(why, condition->for_ranks, condition->for_count),
                                .all = condition->all,
                                .maybe = condition->maybe,
                                .unreceived = condition->unmatched};
    json_t *json = fields_json(condition_fields, &row, why);
    json_decref(row.peer);
    json_decref(row.tag);
    json_decref(row.for_ranks);
    buf_done(&elsewhere);
    buf_done(&comm);
    return json;
}

/* ---- threads ---- */

static const struct field site_fields[] = {
    {"function", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, function), FIELD_ZERO_IS_NULL},
    {"file", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, file), FIELD_ZERO_IS_NULL},
    {"line", FIELD_INTEGER, FIELD_AT(struct mpi_stats_site, line), FIELD_ZERO_IS_NULL},
    {"module", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, module), FIELD_ZERO_IS_NULL},
    {"offset", FIELD_COUNT, FIELD_AT(struct mpi_stats_site, offset)},
    {0}};

struct thread_row {
    int32_t tid;
    bool is_rank, stuck, starved, any;
    const char *state, *held_by, *call, *communicator, *text;
    double seconds, polls_per_second; /* < 0: it does not poll */
    json_t *peer, *tag, *waits_for;
    uint64_t collective;
    int64_t offset; /* -1: none */
    const struct mpi_stats_site *at;
};
#define THREAD(member) FIELD_AT(struct thread_row, member)
static const struct field thread_fields[] = {
    {"tid", FIELD_INTEGER, THREAD(tid)},
    {"is_rank", FIELD_BOOL, THREAD(is_rank)},
    {"state", FIELD_CHOICE, THREAD(state), .choices = STATES},
    {"stuck", FIELD_BOOL, THREAD(stuck), .about = "can never go on"},
    {"starved", FIELD_BOOL, THREAD(starved),
     .about = "waits or polls, and had no processor while it was looked at: what it waits for may have come"},
    {"held_by", FIELD_TEXT, THREAD(held_by), FIELD_ZERO_IS_NULL,
     .about = "of one that a rule or a tool of scry has stopped"},
    {"call", FIELD_TEXT, THREAD(call), FIELD_ZERO_IS_NULL, .about = "that it is in, or polls with"},
    {"seconds", FIELD_NUMBER, THREAD(seconds),
     .about = "since when it is in that, or computes; of one that polls: for how long nothing came of it"},
    {"peer", FIELD_INTEGER, THREAD(peer), FIELD_OR_NULL | FIELD_OR_WORD},
    {"tag", FIELD_INTEGER, THREAD(tag), FIELD_OR_NULL | FIELD_OR_WORD},
    {"communicator", FIELD_TEXT, THREAD(communicator), FIELD_ZERO_IS_NULL},
    {"collective", FIELD_INTEGER, THREAD(collective), FIELD_ZERO_IS_NULL,
     .about = "sequence number on the communicator"},
    {"offset", FIELD_INTEGER, THREAD(offset), FIELD_NEGATIVE_IS_NULL, .about = "in the file"},
    {"at", FIELD_OBJECT, THREAD(at), FIELD_OR_NULL | FIELD_POINTER, .of = site_fields},
    {"any", FIELD_BOOL, THREAD(any), .about = "one of waits_for is enough"},
    {"polls_per_second", FIELD_NUMBER, THREAD(polls_per_second), FIELD_NEGATIVE_IS_NULL,
     .about = "how often it polls; null: it does not"},
    {"waits_for", FIELD_LIST, THREAD(waits_for), .of = condition_fields},
    {"text", FIELD_TEXT, THREAD(text)},
    {0}};

static json_t *thread_json(const struct mpi_why *why, const struct mpi_why_rank *rank,
                           const struct mpi_why_thread *thread)
{
    static const struct mpi_stats_now nothing = {
        .call = CALL_NONE, .peer = MPIA_RANK_NONE, .tag = MPIA_TAG_NONE, .comm = UINT32_MAX};
    bool calls = mpi_why_call_of(thread)->call != CALL_NONE;
    const struct mpi_stats_now *now = calls ? mpi_why_call_of(thread) : &nothing;
    struct buf text = BUF_INIT, comm = comm_name(rank->stats, now->comm);
    mpi_why_call_text(&text, why, rank, thread);
    struct thread_row row = {
        .tid = thread->thread->tid,
        .is_rank = thread->thread->is_main,
        .state = mpi_why_state_name(thread->state),
        .stuck = thread->stuck,
        .starved = mpi_why_is_starved(thread),
        .held_by = thread->thread->held,
        .call = calls ? mpi_text_call(now->call) : NULL,
        .seconds = (double)mpi_why_age_of(thread) / 1e9,
        .peer = number_or_any(now->peer, MPIA_RANK_ANY),
        .tag = number_or_any(now->tag, MPIA_TAG_ANY),
        .communicator = comm.data,
        .collective = now->ordinal,
        .offset = now->flags & MPIA_NOW_FILE ? (int64_t)now->offset : -1,
        .at = calls ? &now->site : NULL,
        .any = thread->any,
        .polls_per_second = thread->state == MPI_WHY_POLLS ? thread->thread->polls_per_second : -1,
        .waits_for = json_array(),
        .text = text.data,
    };
    for (size_t i = 0; i < thread->condition_count; i++)
        json_array_append_new(row.waits_for, condition_json(why, rank, &thread->conditions[i]));
    json_t *json = fields_json(thread_fields, &row, why);
    json_decref(row.peer);
    json_decref(row.tag);
    json_decref(row.waits_for);
    buf_done(&text);
    buf_done(&comm);
    return json;
}

/* ---- ranks ---- */

struct actor_row {
    int32_t tid;
    const char *name, *text;
    bool may_act;
};
static const struct field actor_fields[] = {
    {"tid", FIELD_INTEGER, FIELD_AT(struct actor_row, tid)},
    {"name", FIELD_TEXT, FIELD_AT(struct actor_row, name)},
    {"may_act", FIELD_BOOL, FIELD_AT(struct actor_row, may_act),
     .about = "may go on, and call MPI if it is initialised for that"},
    {"text", FIELD_TEXT, FIELD_AT(struct actor_row, text), .about = "what it waits for"},
    {0}};

static json_t *threads_json(const void *row, const void *all)
{
    const struct mpi_why_rank *rank = row;
    json_t *list = json_array();
    for (size_t i = 0; i < rank->thread_count; i++)
        json_array_append_new(list, thread_json(all, rank, &rank->threads[i]));
    return list;
}

static json_t *actors_json(const void *row, const void *all)
{
    const struct mpi_why_rank *rank = row;
    json_t *list = json_array();
    for (size_t i = 0; i < rank->actor_count; i++) {
        const struct mpi_why_actor *actor = &rank->actors[i];
        struct buf text = BUF_INIT;
        if (actor->thread)
            continue;
        mpi_why_actor_text(&text, actor);
        json_array_append_new(
            list, fields_json(actor_fields,
                              &(struct actor_row){actor->seen->tid, actor->seen->name, text.data, actor->free}, all));
        buf_done(&text);
    }
    return list;
}

static json_t *state_json(const void *row, const void *all)
{
    return json_string(mpi_why_state_name(((const struct mpi_why_rank *)row)->state));
}

static json_t *unheard_json(const void *row, const void *all)
{
    const struct mpi_stats *stats = ((const struct mpi_why_rank *)row)->stats;
    uint64_t ns = stats->taken_wall_ns ? stats->unheard_ns : 0;
    return ns ? json_real((double)ns / 1e9) : json_null();
}

static json_t *root_json(const void *row, const void *all)
{
    uint32_t root = ((const struct mpi_why_rank *)row)->root;
    return root == MPI_WHY_NONE ? json_null() : json_integer(((const struct mpi_why *)all)->ranks[root].stats->rank);
}

static const struct field stats_fields[] = {{"rank", FIELD_INTEGER, FIELD_AT(struct mpi_stats, rank)},
                                            {"node", FIELD_TEXT, FIELD_AT(struct mpi_stats, node), FIELD_ZERO_IS_NULL},
                                            {"pid", FIELD_INTEGER, FIELD_AT(struct mpi_stats, pid)},
                                            {0}};
static const struct field rank_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct mpi_why_rank, stats), FIELD_POINTER, .of = stats_fields},
    {"state", FIELD_CHOICE, .json = state_json, .choices = STATES},
    {"unheard_seconds", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = unheard_json,
     .about = "its node does not answer: all of this is so old; null: it was asked, or that is not known"},
    {"stuck", FIELD_BOOL, FIELD_AT(struct mpi_why_rank, stuck)},
    {"asleep", FIELD_BOOL, FIELD_AT(struct mpi_why_rank, asleep),
     .about = "all of its threads wait for each other, or for what only one of them could give, as a semaphore"},
    {"waits_in_the_end_for", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = root_json,
     .about = "the rank that goes on, and for which it waits over any number of others"},
    {"where", FIELD_TEXT, FIELD_AT(struct mpi_why_rank, where), FIELD_ZERO_IS_NULL,
     .about = "where it computes, of ranks that others wait for"},
    {"python", FIELD_TEXT, FIELD_AT(struct mpi_why_rank, python), FIELD_ZERO_IS_NULL,
     .about = "which function and line of a Python program called MPI"},
    {"threads", FIELD_LIST, .json = threads_json, .of = thread_fields},
    {"other_threads", FIELD_LIST, .json = actors_json, .of = actor_fields,
     .about = "of a process that was looked at: those that have not called MPI, but for the MPI library's own"},
    {0}};

/* ---- all ---- */

static json_t *kind_json(const void *row, const void *all)
{
    return json_string(mpi_why_kind_name(((const struct mpi_why_finding *)row)->kind));
}

static json_t *found_ranks_json(const void *row, const void *all)
{
    const struct mpi_why_finding *finding = row;
    return numbers_json(all, finding->ranks, finding->rank_count);
}

static json_t *victims_json(const void *row, const void *all)
{
    const struct mpi_why_finding *finding = row;
    return numbers_json(all, finding->victims, finding->victim_count);
}

static const struct field finding_fields[] = {
    {"kind", FIELD_CHOICE, .json = kind_json, .choices = "mismatch|deadlock|dead_peer|unmatched|polls|straggler|died"},
    {"text", FIELD_TEXT, FIELD_AT(struct mpi_why_finding, text)},
    {"ranks", FIELD_LIST, .json = found_ranks_json, .of = fields_integers,
     .about = "who make it; of a circle in its order"},
    {"victims", FIELD_LIST, .json = victims_json, .of = fields_integers, .about = "who wait for these"},
    {0}};

static json_t *findings_json(const void *row, const void *all)
{
    const struct mpi_why *why = row;
    return fields_list(finding_fields, why->findings, why->finding_count, sizeof *why->findings, why);
}

static json_t *ranks_json(const void *row, const void *all)
{
    const struct mpi_why *why = row;
    return fields_list(rank_fields, why->ranks, why->count, sizeof *why->ranks, why);
}

const struct field mpi_why_fields[] = {
    {"findings", FIELD_LIST, .json = findings_json, .of = finding_fields, .about = "gravest first"},
    {"ranks", FIELD_LIST, .json = ranks_json, .of = rank_fields},
    {"waiting", FIELD_COUNT, FIELD_AT(struct mpi_why, waiting)},
    {"polling", FIELD_COUNT, FIELD_AT(struct mpi_why, polling), .about = "ranks that poll"},
    {"computing", FIELD_COUNT, FIELD_AT(struct mpi_why, computing)},
    {"stuck", FIELD_COUNT, FIELD_AT(struct mpi_why, stuck)},
    {"unheard", FIELD_COUNT, FIELD_AT(struct mpi_why, unheard),
     .about = "ranks on nodes that do not answer: in none of these, unless they are stuck since before"},
    {"still_seconds", FIELD_SECONDS, FIELD_AT(struct mpi_why, still_ns),
     .about = "for so long no rank has begun or ended a call; 0: some did"},
    {0}};
