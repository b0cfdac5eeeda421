/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The results of those services whose answers scry itself takes apart, as their rows have them (lang/signature.h). The
 * row of the service and who decodes its answer (client/decode.h) both use the text here, so a member that is added or
 * moved is known to both. Lists of structures are flat: their members follow each other without end.
 */
#ifndef SCRY_LANG_RESULTS_H
#define SCRY_LANG_RESULTS_H

/* ---- nodes, processes, threads (a bit of flags for each pair of brackets, from bit 0 on) ---- */

#define NODE_CLOCK_RESULT "{ integer<ns> time; integer<ns> wall_time }"
#define NODES_REACHED "{ string name; token node; string problem }"
#define NODE_INFO_RESULT \
    "{ [string name]; [string os_name; string os_version; string os_release; string os_nodename; integer " \
    "os_boottime]; [string cpu_arch; integer cpu_num; integer cpu_maxproc; integer<MHz> cpu_clock; floating " \
    "cpu_intbench; floating cpu_fpbench]; [integer<pages> mem_numpages; integer<bytes> mem_pagesize; floating " \
    "mem_bench]; [integer dsk_num; integer<pages> dsk_size; integer<pages> dsk_tmpsize; integer<pages> " \
    "dsk_swapspace; floating dsk_bench]; [integer net_numlinks; any* net_info]; [integer usr_maxlogins]; " \
    "[integer<1/s> os_ctxtswitch; integer<1/s> os_execs; integer<1/s> os_syscalls]; [integer cpu_rql; integer " \
    "cpu_dwj; integer cpu_pwj; integer cpu_slj; integer cpu_swj; floating cpu_rql1; floating cpu_rql5; floating " \
    "cpu_rql15]; [integer<pages> mem_freepages; integer<pages> mem_usedpages; integer<pages> mem_freeswap]; " \
    "[integer<1/s> vm_swap; integer<1/s> vm_swapin; integer<1/s> vm_swapout; integer<1/s> vm_page; integer<1/s> " \
    "vm_pagein; integer<1/s> vm_pageout]; [integer<1/s> dsk_rawrd; integer<1/s> dsk_rawwr; integer<1/s> " \
    "dsk_nfsrd; integer<1/s> dsk_nfswr; integer<1/s> dsk_sysrd; integer<1/s> dsk_syswr]; [integer<1/s> net_lpkt; " \
    "integer<1/s> net_fpkt; integer<1/s> net_fpktrcv; integer<1/s> net_fpktsnd; integer<1/s> net_spkt; " \
    "integer<1/s> net_spktrcv; integer<1/s> net_spktsnd]; [integer usr_numlocal; integer usr_localact; integer " \
    "usr_numremote; integer usr_remoteact] }"

#define PROC_INFO_RESULT \
    "{ [integer global_id]; [string* argv]; [integer uid]; [integer gid]; [string* user_argv]; [string* envp]; " \
    "[token parent]; [token message_queue]; [token node]; [integer local_id]; [integer scheduling_state]; " \
    "[floating<s> total_time]; [integer priority]; [floating<s> system_time]; [integer<bytes> memory_size]; " \
    "[integer<bytes> resident_size]; [integer<bytes> max_resident_size]; [integer<bytes*s> int_resident_size]; " \
    "[integer minor_page_faults]; [integer major_page_faults]; [integer swaps]; [integer file_input]; [integer " \
    "file_output]; [integer vol_cont_switch]; [integer invol_cont_switch] }"

#define SERVICE_INFO_RESULT \
    "{ string name; string kind; string signature; string class; string doc; string unsupported }"

#define BACKTRACE_FRAME "{ integer pc; integer fp }"
#define BACKTRACE_RESULT "{ integer num_frames; " BACKTRACE_FRAME "* stack }"

#define PYTHON_FRAME "{ string function; string file; integer line; integer entry }"
#define PYTHON_STACK_RESULT "{ string version; integer num_frames; " PYTHON_FRAME "* stack }"

#define LOADER_MODULE \
    "{ string path; string member; integer code_start; integer<bytes> code_len; integer data_start; integer<bytes> " \
    "data_len; integer bss_start; integer<bytes> bss_len }"
#define LOADER_INFO_RESULT "{ integer num_load_modules; " LOADER_MODULE "* loader_info }"

/* ---- stacks ---- */

#define STACKS_FRAME_MEMBERS "string language; string function; string file; integer line; string module"
#define STACKS_FRAME "{ " STACKS_FRAME_MEMBERS " }"
#define STACKS_VALUE "{ string name; string type; string value }"
#define STACKS_FRAME_VALUES "{ " STACKS_FRAME_MEMBERS "; " STACKS_VALUE "* values }"
#define STACKS_STACK_OF(frame) "{ string name; integer threads; integer running; integer first; " frame "* frames }"
#define STACKS_RESULT_OF(frame) "{ string program; string problem; " STACKS_STACK_OF(frame) "* stacks }"

#define PROC_FILE "{ integer fd; string kind; string path; string flags; integer<bytes> offset; integer<bytes> size }"
#define PROC_FILES_RESULT "{ " PROC_FILE "* files; integer more }"

/* ---- jobs ---- */

#define MPI_OPERATION \
    "{ integer request; string call; string kind; string state; integer peer; integer tag; integer comm; " \
    "integer<bytes> bytes; integer<ns> age_ns }"

#define MPI_QUEUED \
    "{ token message; token sender; integer rank; integer tag; integer comm; integer number; integer<bytes> bytes; " \
    "integer<ns> age_ns; integer monitor_tag; string doubts }"
#define MPI_QUEUE "{ string note; " MPI_QUEUED "* messages }"

#define MPI_LOOKED "{ string node; string* ranks }"
#define MPI_GRAPH_NODE "{ token object; string node; integer ranks; integer<ns> taken; string problem }"
#define MPI_WAIT_GRAPH \
    "{ integer<ns> still; any* ranks; any* waits; any* findings; string text; " MPI_GRAPH_NODE "* nodes }"

#define JOB_MEMBER \
    "{ token process; integer pid; integer ppid; string name; string host; string mpi_job; integer rank; integer " \
    "ranks }"

/* The members that a process has in both lists. */
#define JOB_PROCESS_COMMAND "integer whole; string directory; string* args"
#define JOB_ENDED \
    "{ integer pid; integer ppid; integer<ns> start_ns; integer<ns> end_ns; integer<ns> cpu_ns; integer status; " \
    "integer threads; integer<bytes> peak_rss; string name; string source; string why; " JOB_PROCESS_COMMAND " }"
#define JOB_ALIVE \
    "{ integer pid; integer ppid; integer<ns> start_ns; integer<ns> cpu_ns; integer<bytes> rss; integer<bytes> " \
    "peak_rss; integer threads; string state; string name; " JOB_PROCESS_COMMAND " }"
#define JOB_INFO_RESULT \
    "{ integer cursor; integer<ns> time_ns; integer singly; string reason; integer lost; integer started; integer " \
    "ended; integer<ns> ended_cpu_ns; integer peak_processes; integer peak_threads; integer forgotten; integer " \
    "ended_num; " JOB_ENDED "* ended_list; integer alive_num; " JOB_ALIVE "* alive_list; integer coming; integer " \
    "unseen; integer<ns> unclocked_ns }"

#define JOB_TRACE_INFO_RESULT \
    "{ integer agents; integer draining; integer events; integer discarded; string problem; string note; integer " \
    "choosing; string unmatched; any* notes; any* problems }"

/* The files of a part of a job (jobdir/record/parts.h). */
#define JOB_PART_FILE "{ string name; integer<bytes> size; integer<ns> changed }"
#define JOB_PART_FILES "{ string dir; " JOB_PART_FILE "* files; string host; integer parts }"

/* Events that scry run raises of its records (job_raise): what they say, by the names of the records' members
 * (jobdir/record/kinds.h). The job is added by the monitor. */
#define JOB_LOG_MATCHED \
    "{ string file; integer line; string level; string pattern; string text; integer folded; string fields; string " \
    "job }"
#define JOB_SCRIPT_LINE \
    "{ integer pid; string language; string file; integer line; string function; string command; string how; string " \
    "job }"
#define JOB_COMMAND_FAILED \
    "{ integer pid; string language; string file; integer line; string function; string command; integer status; " \
    "floating<s> seconds; string job }"
#define JOB_FUNCTION_CALLED \
    "{ integer pid; string language; string file; integer line; string function; integer calls; string job }"
#define JOB_EXCEPTION_RAISED \
    "{ integer pid; integer tid; string name; string message; string file; integer line; string function; integer " \
    "caught; string job }"
#define JOB_WARNED "{ string note; string kind; string text; string fields; string job }"
#define JOB_PROGRESS "{ string source; floating done; floating total; floating<s> left_seconds; string job }"
/* Which of these anybody waits for: their names, with spaces between them. */
#define JOB_EVENTS_WANTED "{ string events; string job }"

/* ---- functions, MPI ---- */

#define CT_PROFILE_ROW \
    "{ string name; string file; integer line; integer calls; integer<ns> total_ns; integer<ns> self_ns; integer<ns> " \
    "min_ns; integer<ns> max_ns }"

#define MPI_ACTIVITY_ROW \
    "{ string job; string mpi_job; integer rank; integer ranks; string host; integer pid; string library; string " \
    "state; integer spawned; string call; integer<ns> since_ns; integer peer; integer tag; string text; " \
    "integer<ns> compute_ns; integer<ns> communicate_ns; string fault; string details }"

#endif
