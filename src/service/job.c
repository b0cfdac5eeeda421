/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in extension `job`: what scry run needs of the monitor. One request a sample tells it everything. */
#include <sys/epoll.h>
#include <errno.h>
#include <stdlib.h>

#include "base/loop.h"
#include "monitor/call.h"
#include "monitor/object.h"
#include "service/job_follow.h"
#include "service/service.h"

static const char JOB_CLASS[] = "job_j";

struct job {
    struct job_follow *follow;
    struct loop_source *source;
};

static void job_free(void *data)
{
    struct job *job = data;
    if (!job)
        return;
    loop_remove(job->source);
    job_follow_free(job->follow);
    free(job);
}

static void on_buffers(void *ctx, int fd, uint32_t events)
{
    struct job *job = ctx;
    job_follow_drain(job->follow);
}

static struct object_class *job_class(struct monitor *monitor)
{
    struct object_class *class = object_class_get(monitor, JOB_CLASS);
    if (class) {
        class->destroy = job_free;
        class->doc = "a job that is followed";
    }
    return class;
}

static int job_new(struct scry_call *call, pid_t pid, struct job **ret_job, struct err *err)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return err_set(err, -ENOMEM, "out of memory");
    int code = job_follow_new(&job->follow, pid, err);
    if (code < 0) {
        free(job);
        return code;
    }
    int fd = job_follow_fd(job->follow);
    if (fd >= 0)
        job->source = loop_add_fd(call->monitor->loop, fd, EPOLLIN, on_buffers, job);
    *ret_job = job;
    return 0;
}

static void job_create(struct scry_call *call)
{
    struct err err = {0};
    struct job *job = NULL;
    if (!call_check_range(call, 1, 2, INT32_MAX) || !call_string(call, 0))
        return;
    struct object_class *class = job_class(call->monitor);
    struct scry_object *object = class ? calloc(1, sizeof *object) : NULL;
    if (!object) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    int code = job_new(call, (pid_t)call_integer(call, 1), &job, &err);
    if (code < 0) {
        free(object);
        call_fail_errno(call, NULL, code, &err);
        return;
    }
    object->data = job;
    object_init(object, call->monitor, class, call->tool);
    struct buf text = BUF_INIT;
    buf_puts(&text, object->token);
    call_text(call, object, &text);
    buf_done(&text);
}

static bool is_owner(struct scry_call *call, struct scry_object *object)
{
    if (object->owner == call->tool)
        return true;
    call_fail(call, object, OMIS_NO_PERMISSION, "%s belongs to another tool", object->token);
    return false;
}

static void job_get_info(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct scry_object *object = call->objects[i];
        struct job *job = object->data;
        if (!is_owner(call, object))
            continue;
        struct buf text = BUF_INIT;
        job_follow_print(job->follow, call_unsigned(call, 1), &text);
        call_text(call, object, &text);
        buf_done(&text);
    }
}

static void job_destroy(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        if (!is_owner(call, call->objects[i]))
            continue;
        call_ok(call, call->objects[i]);
        object_end(call->objects[i]);
    }
}

const struct scry_service job_services[] = {
    {"job_create", SCRY_MANIPULATION, "string dir, integer pid -> token", SCRY_OPTIONAL, job_create,
     "Follow a process and all its descendants; dir is the job directory."},
    {"job_get_info", SCRY_INFORMATION,
     "token<job_j>* job_list, integer cursor -> { integer cursor; integer time_ns; integer singly; string reason; "
     "integer lost; integer started; integer ended; integer ended_cpu_ns; integer peak_processes; integer "
     "peak_threads; integer forgotten; integer ended_num; "
     "any* ended_list; integer alive_num; any* alive_list }",
     SCRY_OPTIONAL, job_get_info,
     "A sample of the job's processes, and those that ended since the cursor of the last answer. ended_list: pid, "
     "ppid, start_ns, end_ns, cpu_ns, status, threads, peak_rss, name; alive_list: pid, ppid, start_ns, cpu_ns, rss, "
     "peak_rss, threads, state, name."},
    {"job_destroy", SCRY_MANIPULATION, "token<job_j>* job_list -> void", SCRY_OPTIONAL, job_destroy, "Stop following."},
    SERVICE_END,
};
