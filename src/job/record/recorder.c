/* SPDX-License-Identifier: Apache-2.0 */
#include "job/record/recorder.h"

#include "base/system/log.h"
#include "jobdir/record/info.h"
#include "jobdir/text/notes_json.h"
#include "jobdir/text/text.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>

enum { RECORDER_CRASHES = 20 };

double recorder_seconds(const struct recorder *recorder, uint64_t monotonic_ns)
{
    return monotonic_ns > recorder->start_ns ? (double)(monotonic_ns - recorder->start_ns) / NS_PER_SECOND : 0;
}

/* Returns its time. */
static double see(struct recorder *recorder, const char *type, json_t *record)
{
    double seconds = recorder->started ? recorder_seconds(recorder, clock_now_ns()) : 0;
    log_debug("record type=%s", type);
    json_object_set_new(record, "t", json_real(seconds));
    job_model_apply(&recorder->model, record);
    if (recorder->recorded)
        recorder->recorded(recorder->ctx, record_type(record), record);
    return seconds;
}

/* Adopts the record (NULL: out of memory, counted as lost), and adds "type" and "t" (now). */
static void recorder_put_take(struct recorder *recorder, const char *type, json_t *record)
{
    if (record) {
        json_object_set_new(record, "type", json_string(type));
        see(recorder, type, record);
    }
    scribe_put_take(&recorder->scribe, record);
}

void recorder_put_line(struct recorder *recorder, const char *type, json_t *record, struct span line)
{
    double seconds = see(recorder, type, record);
    scribe_put_line(&recorder->scribe, line, seconds);
}

void recorder_put(struct recorder *recorder, enum record_type type, const void *row)
{
    recorder_put_take(recorder, record_kinds[type].type, record_json(type, row));
}

void recorder_note(struct recorder *recorder, struct note note)
{
    recorder_put_take(recorder, "warning", note_json(&note));
}

int recorder_status(const struct recorder *recorder, pid_t pid)
{
    return recorder->command == pid ? recorder->command_status : JOB_STATUS_UNKNOWN;
}

void recorder_ended(struct recorder *recorder, pid_t pid, const char *name, int status)
{
    if (status == JOB_STATUS_UNKNOWN || !WIFSIGNALED(status) || !job_signal_is_fault(WTERMSIG(status)))
        return;
    if (json_array_size(recorder->model.crashes) >= RECORDER_CRASHES) {
        recorder->crashes_omitted++;
        return;
    }
    recorder_put(recorder, RECORD(crash, .pid = pid, .name = name, .signal = WTERMSIG(status),
                                  .core_dumped = WCOREDUMP(status) != 0));
}
