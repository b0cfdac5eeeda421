/* SPDX-License-Identifier: Apache-2.0 */
#include "service/omis/priority.h"

#include <errno.h>

#include "probe/proc.h"

bool priority_check(struct scry_call *call)
{
    return call_check_range(call, 1, -20, 19);
}

void priority_set(struct scry_call *call, struct scry_object *object, pid_t pid, pid_t tid)
{
    int code = proc_set_nice(pid, tid, (int)call_integer(call, 1));
    if (code == -EACCES || code == -EPERM)
        call_fail(call, object, OMIS_NO_PERMISSION,
                  "only a privileged monitor may lower the nice value (raise the priority) again");
    else
        call_done(call, object, code, NULL);
}
