/* SPDX-License-Identifier: Apache-2.0 */
/* The members of proc_get_info: one row each, in the order of their bits. */
#ifndef SCRY_SERVICE_OMIS_PROC_INFO_H
#define SCRY_SERVICE_OMIS_PROC_INFO_H

#include "base/buf.h"
#include "monitor/engine/process.h"

enum { PROC_INFO_BITS = 25 };

#define PROC_INFO_RESULT \
    "{ [integer global_id]; [string* argv]; [integer uid]; [integer gid]; [string* user_argv]; [string* envp]; " \
    "[token parent]; [token message_queue]; [token node]; [integer local_id]; [integer scheduling_state]; " \
    "[floating<s> total_time]; [integer priority]; [floating<s> system_time]; [integer<bytes> memory_size]; " \
    "[integer<bytes> resident_size]; [integer<bytes> max_resident_size]; [integer<bytes*s> int_resident_size]; " \
    "[integer minor_page_faults]; " \
    "[integer major_page_faults]; [integer swaps]; [integer file_input]; [integer file_output]; " \
    "[integer vol_cont_switch]; [integer invol_cont_switch] }"

/* Appends the members that flags select, comma-separated. 0 or -errno (-ESRCH: it is gone). */
int proc_info_print(struct process *process, uint64_t flags, struct buf *out);

#endif
