/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of MPI that are not completed: sends, receives and others that ranks have begun and wait for, or will. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <omis.h>

#include "cli/snapshot/snapshot.h"
#include "client/client.h"
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

static int add(struct snapshot *snapshot, uint32_t process, const struct omis_value *list)
{
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

static int take(struct snapshot *snapshot)
{
    struct omis_reader *reader = snapshot->queues;
    int code = 0;
    while (code == 0 && omis_reader_next(reader)) {
        const char *error = omis_reader_error(reader), *token;
        for (size_t i = 0; code == 0 && (token = omis_reader_object(reader, i)); i++) {
            struct snapshot_process *process;
            HASH_FIND_STR(snapshot->tokens, token, process);
            if (process && error && !*process->problem)
                process->problem = error;
            else if (process && !error)
                code = add(snapshot, (uint32_t)(process - snapshot->list), omis_item(omis_reader_values(reader), 0));
        }
    }
    if (snapshot->operation_count)
        qsort(snapshot->operations, snapshot->operation_count, sizeof *snapshot->operations, by_kind);
    return code;
}

int snapshot_ask_queues(struct snapshot *snapshot, struct err *err)
{
    struct buf request = BUF_INIT;
    size_t asked = 0;
    buf_puts(&request, ":mpi_get_pending([");
    for (size_t i = 0; i < snapshot->count; i++)
        if (snapshot->list[i].wanted && snapshot->list[i].rank >= 0)
            buf_printf(&request, "%s%s", asked++ ? "," : "", snapshot->list[i].token);
    buf_puts(&request, "])");
    if (!asked) { /* the empty list means all that the tool has */
        buf_done(&request);
        return err_set(err, -ENOENT, "the job has no ranks of MPI, so no queues");
    }
    Omis_reply reply = client_ask(&request);
    snapshot->queues = reply ? omis_reader_take(reply) : NULL;
    if (!snapshot->queues || take(snapshot) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    return 0;
}
