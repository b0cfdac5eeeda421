/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job/command.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "lang/put.h"
#include "probe/proc.h"

/* The limit for all command lines, so that an answer of the monitor has room for them, escaped. */
enum { BYTES_MOST = 12 << 20 };
static size_t bytes_kept;

static size_t size_of(const struct job_command *command)
{
    return (size_t)(command->args - (const char *)command) + command->args_size;
}

struct job_command *job_command_new(struct span directory, struct span args, bool whole, uint64_t time_ns)
{
    size_t kept = args.len < JOB_COMMAND_BYTES ? args.len : JOB_COMMAND_BYTES;
    size_t size = sizeof(struct job_command) + directory.len + 1 + kept + 1;
    struct job_command *command = kept && bytes_kept + size <= BYTES_MOST ? malloc(size) : NULL;
    if (!command)
        return NULL;
    char *to = command->directory + directory.len + 1;
    *command = (struct job_command){.users = 1, .time_ns = time_ns, .whole = whole && kept == args.len, .args = to};
    memcpy(command->directory, directory.ptr, directory.len);
    to[-1] = 0;
    memcpy(to, args.ptr, kept);
    if (to[kept - 1])
        to[kept++] = 0;
    command->args_size = kept;
    bytes_kept += size_of(command);
    return command;
}

struct job_command *job_command_read(pid_t pid)
{
    _cleanup_(buf_done) struct buf args = BUF_INIT;
    char directory[PATH_MAX] = "";
    if (proc_cmdline(pid, &args) < 0 || args.failed)
        return NULL;
    if (proc_cwd(pid, directory, sizeof directory) < 0)
        directory[0] = 0;
    return job_command_new(span_str(directory), span_of(args.data, args.len), true, clock_now_ns());
}

struct job_command *job_command_share(struct job_command *command)
{
    if (command)
        command->users++;
    return command;
}

void job_command_drop(struct job_command *command)
{
    if (!command || --command->users)
        return;
    bytes_kept -= size_of(command);
    free(command);
}

void job_command_print(const struct job_command *command, struct buf *out)
{
    PUT(out, command ? command->whole + 2 * !command->said : -1, command ? command->directory : "");
    put_strings(out, command ? span_of(command->args, command->args_size) : span_of("", 0), 0);
}
