/* SPDX-License-Identifier: Apache-2.0 */
/* The files that processes have open. */
#include "lang/put.h"
#include "lang/results.h"
#include "monitor/engine/call.h"
#include "probe/proc_files.h"
#include "service/omis/service.h"

enum { FILES_MOST = 4096 };

static void put_file(void *ctx, const struct proc_open_file *file)
{
    PUT(ctx, file->fd, file->kind, file->path, file->flags, file->offset, file->size);
}

static int get_files(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    put_list(text);
    ssize_t count = proc_files_each(call_process(call, index)->pid, FILES_MOST, put_file, text, err);
    put_end(text);
    PUT(text, count > FILES_MOST ? count - FILES_MOST : 0);
    return count < 0 ? (int)count : 0;
}

static void proc_get_files(struct scry_call *call)
{
    call_each(call, get_files);
}

const struct scry_service scry_process_services[] = {
    {"scry_proc_get_files", SCRY_INFORMATION, "token<p>* proc_list -> " PROC_FILES_RESULT, SCRY_OPTIONAL,
     proc_get_files,
     "The files that processes have open. kind: file, directory, device, pipe, socket, memory (of memfd_create), or "
     "other: then path is what the kernel calls it (eventpoll). flags: words of read, write, append, nonblock, direct, "
     "sync. offset: where it is read or written next; -1: it has none. size: as the node knows it without asking a "
     "file system; -1: not known. more: files behind the first 4096."},
    SERVICE_END,
};
