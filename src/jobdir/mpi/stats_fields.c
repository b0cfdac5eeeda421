/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/stats_fields.h"

#define FIELD(type, member, name, kind) \
    { \
        name, kind, offsetof(struct type, member) \
    }
#define END \
    { \
        NULL, FIELD_U32, 0 \
    }

const char *const *mpi_field_words(enum mpi_field_kind kind)
{
    static const char *const states[] = {"loaded", "running", "ended", "off", NULL};
    static const char *const kinds[] = {"", "intra", "inter", "window", "file", NULL};
    static const char *const attends[] = {"unknown", "attends", "starved", "stopped", "unsaid", NULL};
    static const char *const waits[] = {"none", "owner", "end", "others", "ended", NULL};
    return kind == FIELD_STATE ? states : kind == FIELD_KIND ? kinds : kind == FIELD_ATTENDS ? attends : waits;
}

const struct mpi_field mpi_stats_fields[] = {
#define F(member, kind) FIELD(mpi_stats, member, #member, kind)
    F(node, FIELD_TEXT),
    F(pid, FIELD_I32),
    F(exe, FIELD_TEXT),
    F(namespace, FIELD_TEXT),
    F(rank, FIELD_I32),
    F(world_size, FIELD_I32),
    F(library, FIELD_TEXT),
    F(library_version, FIELD_TEXT),
    F(processor, FIELD_TEXT),
    F(thread_level, FIELD_I32),
    F(state, FIELD_STATE),
    F(running, FIELD_BOOL),
    F(aborted, FIELD_BOOL),
    F(abort_code, FIELD_I32),
    F(status_known, FIELD_BOOL),
    F(status, FIELD_I32),
    F(spawned, FIELD_BOOL),
    F(started_wall_ns, FIELD_U64),
    F(taken_wall_ns, FIELD_U64),
    F(init_ns, FIELD_U64),
    F(finalize_ns, FIELD_U64),
    F(omitted, FIELD_U64),
    F(requests_omitted, FIELD_U64),
    F(sites_omitted, FIELD_U64),
    F(peers_omitted, FIELD_U64),
    F(clocks_off, FIELD_BOOL),
    F(peers_off, FIELD_BOOL),
    F(requests_off, FIELD_BOOL),
    F(receives_freed, FIELD_U64),
    F(unrecorded, FIELD_BOOL),
    F(looked, FIELD_BOOL),
    F(resets, FIELD_U64),
    F(reset_ns, FIELD_U64),
    F(paused_ns, FIELD_U64),
    F(fault, FIELD_TEXT),
#undef F
    END,
};

const struct mpi_field mpi_clock_fields[] = {
#define F(member) FIELD(mpi_stats_clock, member, #member, FIELD_U64)
    F(total_ns),
    F(compute_ns),
    F(communicate_ns),
    F(count),
    F(compute_open_ns),
    F(communicate_open_ns),
    F(compute_min_ns),
    F(compute_max_ns),
    F(communicate_min_ns),
    F(communicate_max_ns),
#undef F
    END,
};

const struct mpi_field mpi_now_fields[] = {
#define F(member, kind) FIELD(mpi_stats_now, member, #member, kind)
    F(call, FIELD_CALL),
    F(age_ns, FIELD_U64),
    F(peer, FIELD_I32),
    F(tag, FIELD_I32),
    F(source_peer, FIELD_I32),
    F(source_tag, FIELD_I32),
    F(comm, FIELD_INDEX),
    F(ordinal, FIELD_U32),
    F(flags, FIELD_U32),
    F(waiting, FIELD_U32),
    F(bytes, FIELD_U64),
    F(offset, FIELD_U64),
    F(waits, FIELD_WAITS),
#undef F
    FIELD(mpi_stats_now, site.module, "module", FIELD_TEXT),
    FIELD(mpi_stats_now, site.build_id, "build_id", FIELD_TEXT),
    FIELD(mpi_stats_now, site.offset, "module_offset", FIELD_U64),
    END,
};

const struct mpi_field mpi_thread_fields[] = {
#define F(member, kind) FIELD(mpi_stats_thread, member, #member, kind)
    F(tid, FIELD_I32),
    F(is_main, FIELD_BOOL),
    F(ended, FIELD_BOOL),
    F(name, FIELD_TEXT),
    F(held, FIELD_TEXT),
    F(errors, FIELD_U64),
#undef F
    END,
};

const struct mpi_field mpi_look_fields[] = {
#define F(member, kind) FIELD(mpi_stats_thread, member, #member, kind)
    F(attends, FIELD_ATTENDS),
    F(polls, FIELD_BOOL),
    F(polls_ns, FIELD_U64),
    F(polls_per_second, FIELD_REAL),
#undef F
    END,
};

static const struct mpi_field row_fields[] = {
#define F(member, kind) FIELD(mpi_stats_row, member, #member, kind)
    F(call, FIELD_CALL),
    F(count, FIELD_U64),
    F(total_ns, FIELD_U64),
    F(min_ns, FIELD_U64),
    F(max_ns, FIELD_U64),
    F(args_bytes, FIELD_U64),
    F(sent_bytes, FIELD_U64),
    F(got_bytes, FIELD_U64),
    F(others_count, FIELD_U64),
    F(others_ns, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field site_fields[] = {
#define F(member, kind) FIELD(mpi_stats_site, member, #member, kind)
    F(call, FIELD_CALL),
    F(module, FIELD_TEXT),
    F(build_id, FIELD_TEXT),
    F(offset, FIELD_U64),
    F(function, FIELD_TEXT),
    F(file, FIELD_TEXT),
    F(line, FIELD_U32),
    F(count, FIELD_U64),
    F(total_ns, FIELD_U64),
    F(min_ns, FIELD_U64),
    F(max_ns, FIELD_U64),
    F(args_bytes, FIELD_U64),
    F(others_count, FIELD_U64),
    F(others_ns, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field peer_fields[] = {
#define F(member, kind) FIELD(mpi_stats_peer, member, #member, kind)
    F(comm, FIELD_INDEX),
    F(peer, FIELD_I32),
    F(call, FIELD_CALL),
    F(sent_count, FIELD_U64),
    F(sent_bytes, FIELD_U64),
    F(got_count, FIELD_U64),
    F(got_bytes, FIELD_U64),
    F(args_bytes, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field comm_fields[] = {
#define F(member, kind) FIELD(mpi_stats_comm, member, #member, kind)
    F(kind, FIELD_KIND),
    F(number, FIELD_U32),
    F(parent, FIELD_INDEX),
    F(ordinal, FIELD_U32),
    F(call, FIELD_CALL),
    F(lowest, FIELD_I32),
    F(size, FIELD_U32),
    F(rank, FIELD_U32),
    F(remote_size, FIELD_U32),
    F(ended, FIELD_BOOL),
    F(collectives, FIELD_U32),
    F(ranks, FIELD_RANKS),
    F(remote_ranks, FIELD_REMOTE_RANKS),
    F(name, FIELD_TEXT),
    F(identity, FIELD_U64),
    F(held, FIELD_U32),
    F(meeting, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field request_fields[] = {
#define F(member, kind) FIELD(mpi_stats_request, member, #member, kind)
    F(call, FIELD_CALL),
    F(comm, FIELD_INDEX),
    F(flags, FIELD_U32),
    F(peer, FIELD_I32),
    F(tag, FIELD_I32),
    F(thread, FIELD_INDEX),
    F(ordinal, FIELD_U32),
    F(bytes, FIELD_U64),
    F(age_ns, FIELD_U64),
    F(handle, FIELD_U64),
#undef F
    END,
};

static const struct mpi_field seen_fields[] = {
#define F(member, name, kind) FIELD(thread_seen, member, name, kind)
    F(tid, "tid", FIELD_I32),
    F(name, "name", FIELD_CHARS),
    F(wait.kind, "wait", FIELD_WAIT),
    F(wait.tid, "waits_for", FIELD_I32),
    F(wait.word, "word", FIELD_U64),
    F(wait.limited, "limited", FIELD_BOOL),
    F(wait.unseen, "unseen", FIELD_BOOL),
#undef F
    END,
};

#define TABLE(name, fields, type, rows, count) \
    { \
        name, fields, sizeof(struct type), offsetof(struct mpi_stats, rows), offsetof(struct mpi_stats, count) \
    }

const struct mpi_table mpi_tables[MPI_TABLES] = {
    TABLE("communicators", comm_fields, mpi_stats_comm, comms, comm_count),
    TABLE("calls", row_fields, mpi_stats_row, rows, row_count),
    TABLE("completions", row_fields, mpi_stats_row, spans, span_count),
    TABLE("sites", site_fields, mpi_stats_site, sites, site_count),
    TABLE("peers", peer_fields, mpi_stats_peer, peers, peer_count),
    TABLE("requests", request_fields, mpi_stats_request, requests, request_count),
    [MPI_TABLE_SEEN] = TABLE("seen", seen_fields, thread_seen, seen, seen_count),
};
