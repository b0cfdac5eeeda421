/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/task_record.h"

#include <string.h>

bool task_record_decode(const struct perf_event_header *record, struct task_record *ret_record)
{
    const uint32_t *words = (const uint32_t *)(record + 1);
    size_t body = record->size - sizeof *record;
    struct perf_record_id id;
    if (!perf_record_id(record, &id))
        return false;
    *ret_record = (struct task_record){.type = (uint16_t)record->type, .time_ns = id.time_ns};
    switch (record->type) {
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT: /* pid, ppid, tid, ptid, time */
        if (body != 24 + sizeof id)
            return false;
        ret_record->pid = words[0];
        ret_record->ppid = words[1];
        ret_record->tid = words[2];
        ret_record->ptid = words[3];
        return true;
    case PERF_RECORD_COMM: /* pid, tid, name padded to 8 bytes */
        if (body != 8 + 8 + sizeof id && body != 8 + 16 + sizeof id)
            return false;
        ret_record->pid = words[0];
        ret_record->tid = words[1];
        ret_record->exec = record->misc & PERF_RECORD_MISC_COMM_EXEC;
        memcpy(ret_record->comm, words + 2, body - 8 - sizeof id);
        ret_record->comm[sizeof ret_record->comm - 1] = 0;
        return true;
    case PERF_RECORD_READ: /* pid, tid, value */
        if (body != 16 + sizeof id)
            return false;
        ret_record->pid = words[0];
        ret_record->tid = words[1];
        memcpy(&ret_record->value, words + 2, sizeof ret_record->value);
        return true;
    case PERF_RECORD_LOST: /* id, lost */
        if (body != 16 + sizeof id)
            return false;
        memcpy(&ret_record->value, words + 2, sizeof ret_record->value);
        return true;
    default:
        return false;
    }
}

int task_record_compare(const void *a, const void *b)
{
    const struct task_record *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}
