/* SPDX-License-Identifier: Apache-2.0 */
/* Section of the report of MPI: communicators. */
#include <inttypes.h>

#include "jobdir/report/mpi_internal.h"
#include "jobdir/mpi/text.h"
#include "jobdir/text/text.h"

enum { SHOWN_COMMS = 20 };

static const struct mpi_stats_comm *comm_of(const void *row)
{
    const struct mpi_report_comm *comm = row;
    return &comm->stats->comms[comm->index];
}

static json_t *comm_name_json(const void *row, const void *all)
{
    const struct mpi_report_comm *comm = row;
    struct buf name = BUF_INIT;
    mpi_text_comm(&name, comm->stats, comm->index);
    json_t *json = text_json(name.data ? name.data : "");
    buf_done(&name);
    return json;
}

static json_t *kind_json(const void *row, const void *all)
{
    static const char *const kinds[] = {"free", "intra", "inter", "window", "file"};
    uint32_t kind = comm_of(row)->kind;
    return json_string(kind < 5 ? kinds[kind] : "?");
}

static json_t *size_json(const void *row, const void *all)
{
    return json_integer(comm_of(row)->size);
}

static json_t *remote_size_json(const void *row, const void *all)
{
    return json_integer(comm_of(row)->remote_size);
}

static json_t *members_json(const void *row, const void *all)
{
    const struct mpi_stats_comm *own = comm_of(row);
    if (!own->ranks && (int64_t)own->size == ((const struct mpi_report_comm *)row)->stats->world_size)
        return json_null();
    json_t *ranks = json_array();
    for (uint32_t i = 0; i < own->size; i++)
        json_array_append_new(ranks, json_integer(own->ranks ? own->ranks[i] : (int32_t)i));
    return ranks;
}

/* ---- for people ---- */

static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_report_comm *comm = row;
    mpi_text_comm(out, comm->stats, comm->index);
}

/* Both groups of an intercommunicator together. */
static void put_size(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%u", comm_of(row)->size + comm_of(row)->remote_size);
}

static void put_members(struct buf *out, const struct mpi_stats *stats, const struct mpi_stats_comm *comm)
{
    enum { SHOWN = 64 };
    if (!comm->ranks && (int64_t)comm->size == stats->world_size) {
        buf_puts(out, "all");
        return;
    }
    int32_t ranks[SHOWN];
    uint32_t count = comm->size < SHOWN ? comm->size : SHOWN;
    for (uint32_t i = 0; i < count; i++)
        ranks[i] = comm->ranks ? comm->ranks[i] : (int32_t)i;
    mpi_text_ranks(out, ranks, count);
    buf_puts(out, comm->size > SHOWN ? "..." : "");
}

static void put_ranks(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct mpi_report_comm *comm = row;
    const struct mpi_report *report = all;
    put_members(out, comm->stats, comm_of(row));
    if (report->worlds > 1)
        buf_printf(out, " of program %u", mpi_report_who(report, comm->stats).program);
}

static bool is_one_sided(const void *all)
{
    const struct mpi_report *report = all;
    for (size_t i = 0; i < report->comm_count; i++)
        if (report->comms[i].moved.one_sided)
            return true;
    return false;
}

static const struct field moved_fields[] = {
    {"messages", FIELD_COUNT, FIELD_AT(struct mpi_report_moved, messages), .about = "of the user",
     .column = {4, 1, 11, "messages", .none = "-"}},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, bytes), .column = {5, 1, 11, "bytes", .none = "-"}},
    {"collective_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, coll_args)},
    {"collective_sent_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, coll_sent),
     .column = {6, 0, 17, "of collectives", .none = "-"}},
    {"collective_received_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, coll_got)},
    {"one_sided_bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_moved, one_sided),
     .about = "of one-sided operations on a window, put or got",
     .column = {7, 0, 11, "one-sided", .when = is_one_sided}},
    {0}};

const struct field mpi_comm_fields[] = {
    {"name", FIELD_TEXT, .json = comm_name_json, .column = {1, 2, -38, "Communicators", .text = put_name}},
    {"kind", FIELD_TEXT, .json = kind_json, .about = "intra, inter, window, file"},
    {"size", FIELD_COUNT, .json = size_json, .column = {2, 1, 6, "size", .text = put_size}},
    {"remote_size", FIELD_COUNT, .json = remote_size_json},
    {"ranks", FIELD_LIST, .flags = FIELD_OR_NULL, .json = members_json, .of = fields_integers,
     .about = "of MPI_COMM_WORLD; null: all", .column = {8, 2, 0, "ranks", .text = put_ranks}},
    {"seen_by", FIELD_COUNT, FIELD_AT(struct mpi_report_comm, ranks), .about = "ranks that have it"},
    {"collectives", FIELD_COUNT, FIELD_AT(struct mpi_report_comm, collectives), .column = {3, 1, 12, "collectives"}},
    {"", FIELD_PART, FIELD_AT(struct mpi_report_comm, measured), FIELD_POINTER | FIELD_OR_NULL, .of = moved_fields},
    {0}};

void mpi_report_put_comms(struct buf *out, const struct mpi_report *report)
{
    if (!report->comm_count)
        return;
    buf_putc(out, '\n');
    fields_title(out, mpi_comm_fields, report);
    for (size_t i = 0; i < report->comm_count && i < SHOWN_COMMS; i++)
        fields_row(out, mpi_comm_fields, &report->comms[i], report);
    if (report->comm_count > SHOWN_COMMS)
        buf_printf(out, "  ... and %zu more (--json lists them)\n", report->comm_count - SHOWN_COMMS);
}
