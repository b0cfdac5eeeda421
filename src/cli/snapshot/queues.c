/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of MPI that are not completed: sends, receives and others that ranks have begun and wait for, or will. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/snapshot/snapshot.h"
#include "client/decode.h"
#include "lang/results.h"

static int compare_numbers(int64_t one, int64_t other)
{
    return (one > other) - (one < other);
}

int snapshot_compare_operations(const struct snapshot_operation *one, const struct snapshot_operation *other)
{
    int order = strcmp(one->kind, other->kind);
    order = order ? order : strcmp(one->call, other->call);
    order = order ? order : strcmp(one->state, other->state);
    order = order ? order : compare_numbers(one->peer, other->peer);
    order = order ? order : compare_numbers(one->tag, other->tag);
    order = order ? order : compare_numbers(one->comm, other->comm);
    return order ? order : compare_numbers(one->bytes, other->bytes);
}

static int by_kind(const void *a, const void *b)
{
    const struct snapshot_operation *one = a, *other = b;
    int order = snapshot_compare_operations(one, other);
    return order ? order : compare_numbers(one->process, other->process);
}

static int add(struct snapshot *snapshot, uint32_t process, const struct omis_value *values, const char *error)
{
    const struct omis_value *list = omis_item(values, 0);
    static const struct decode_field fields[] = {DECODE(struct snapshot_operation, call),
                                                 DECODE(struct snapshot_operation, kind),
                                                 DECODE(struct snapshot_operation, state),
                                                 DECODE(struct snapshot_operation, peer),
                                                 DECODE(struct snapshot_operation, tag),
                                                 DECODE(struct snapshot_operation, comm),
                                                 DECODE(struct snapshot_operation, bytes),
                                                 DECODE(struct snapshot_operation, age_ns),
                                                 {0}};
    struct decoder decoder;
    if (error) {
        snapshot_note(snapshot, process, error);
        return 0;
    }
    decoder_init(&decoder, MPI_OPERATION, 0, fields);
    size_t count = decoder_rows(&decoder, list);
    struct snapshot_operation *larger =
        reallocarray(snapshot->operations, snapshot->operation_count + count + 1, sizeof *larger);
    if (!larger)
        return -ENOMEM;
    snapshot->operations = larger;
    for (size_t i = 0; i < count; i++) {
        struct snapshot_operation *operation = &larger[snapshot->operation_count++];
        *operation = (struct snapshot_operation){.process = process};
        decode(&decoder, list, i, operation);
    }
    return 0;
}

int snapshot_ask_queues(struct snapshot *snapshot, struct err *err)
{
    int code = snapshot_ask_each(snapshot, "mpi_get_pending", true, "", &snapshot->queues, add, err);
    if (code == -ENOENT)
        return err_set(err, code, "the job has no ranks of MPI, so no queues");
    if (snapshot->operation_count)
        qsort(snapshot->operations, snapshot->operation_count, sizeof *snapshot->operations, by_kind);
    return code;
}
