/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the extension `mpi` on jobs: their ranks, their files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/recorder/agents.h"
#include "monitor/engine/call.h"
#include "monitor/mpi/mpi.h"
#include "monitor/engine/node.h"
#include "service/ct/job_object.h"
#include "service/mpi/mpi.h"
#include "lang/put.h"
#include "service/omis/service.h"

const char *mpi_job_part(struct monitor *monitor, struct span name)
{
    const char *dir = job_directory(monitor, name);
    for (struct scry_object *object = monitor->objects; object && !dir; object = object->hh.next)
        if (job_object_is(monitor, object, name))
            dir = ((const struct job_object *)object->data)->dir;
    return dir;
}

const char *mpi_job_named(struct scry_call *call)
{
    struct span name = call->args[0].text;
    if (!name.len)
        return "";
    const char *dir = mpi_job_part(call->monitor, name);
    if (dir)
        return dir;
    if (name.ptr[0] == '/' && (dir = call_string(call, 0))) /* its scry run is gone, or is elsewhere */
        return dir;
    if (name.ptr[0] != '/')
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "no job %.*s runs here", SPAN_ARG(name));
    return NULL;
}

struct scry_object *mpi_asked_node(const struct scry_call *call)
{
    return call->object_count ? call->objects[0] : NULL;
}

static const char *dir_or_all(const char *dir)
{
    return *dir ? dir : NULL;
}

/* ---- ranks ---- */

struct rank_list {
    struct scry_call *call;
    struct buf *text;
    const struct mpi_found *found;
    size_t found_count;
    bool *told; /* of found */
};

static void put_rank(struct rank_list *list, bool here, pid_t pid, const char *namespace, int32_t rank, int32_t size)
{
    struct err err;
    struct process *process = here ? process_get(list->call->monitor, pid, &err) : NULL;
    PUT(list->text, value_token(span_str(process ? process->object.token : TOKEN_UNDEFINED)), namespace, rank, size);
}

static const char *library_name(uint32_t library)
{
    return library == MPIA_LIBRARY_OPENMPI ? "openmpi" : library == MPIA_LIBRARY_MPICH ? "mpich" : "";
}

/* A process with an area. That memory is the program's: do not trust it. */
static void tell_process(void *ctx, struct mpi_process *process)
{
    struct rank_list *list = ctx;
    const struct mpi_area *head = mpi_process_head(process);
    const struct mpi_found *found = NULL;
    char namespace[sizeof head->namespace + 1] = "";
    int32_t rank = head->rank, size = head->world_size;
    for (size_t i = 0; i < list->found_count; i++)
        if (list->found[i].here && list->found[i].pid == mpi_process_pid(process)) {
            list->told[i] = true;
            found = &list->found[i];
        }
    memcpy(namespace, head->namespace, sizeof head->namespace);
    if (rank < 0 && found) {
        rank = found->rank;
        size = found->size;
    }
    put_rank(list, true, mpi_process_pid(process), namespace, rank, size);
    PUT(list->text, list->call->monitor->node->name, mpi_process_pid(process), library_name(head->library),
        mpi_state_name(atomic_load(&head->state)), mpi_process_exe(process), mpi_process_job(process));
}

static void tell_found(struct rank_list *list, const struct mpi_found *found)
{
    put_rank(list, found->here, found->pid, found->namespace, found->rank, found->size);
    PUT(list->text, found->host, found->pid, library_name(found->library), "found", found->exe, found->job);
}

void mpi_get_ranks(struct scry_call *call)
{
    const char *dir = mpi_job_named(call);
    struct mpi_found *found = NULL;
    size_t count = 0;
    char note[256];
    if (!dir)
        return;
    int code = mpi_find_ranks(&found, &count, note, sizeof note);
    struct rank_list list = {.call = call,
                             .found = found,
                             .found_count = count,
                             .told = arena_zalloc(call->arena, count + 1, sizeof *list.told)};
    if (code < 0 || !list.told) {
        free(found);
        call_fail_errno(call, mpi_asked_node(call), code < 0 ? code : -ENOMEM, NULL);
        return;
    }
    struct buf text = BUF_INIT;
    list.text = &text;
    PUT(&text, note);
    put_list(&text);
    mpi_process_each(call->monitor->mpi, dir_or_all(dir), tell_process, &list);
    for (size_t i = 0; i < count; i++)
        if (!list.told[i] && (!*dir || (strcmp(found[i].job, dir) == 0 &&
                                        (!found[i].here || agents_job_has(call->monitor->agents, dir, found[i].pid)))))
            tell_found(&list, &found[i]);
    put_end(&text);
    call_text(call, mpi_asked_node(call), &text);
    buf_done(&text);
    free(found);
}

/* ---- files ---- */

void mpi_flush(struct scry_call *call)
{
    const char *dir = mpi_job_named(call);
    struct err err = {0};
    if (!dir)
        return;
    int code = mpi_job_flush(call->monitor->mpi, dir_or_all(dir), true, &err);
    call_done(call, mpi_asked_node(call), code, &err);
}
