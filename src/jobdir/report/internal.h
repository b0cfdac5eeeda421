/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside jobdir: the sections of a report. Each is a file of its own, which says what it shows to people and which
 * members it has in the report's JSON. report.c has the table of them.
 */
#ifndef SCRY_JOBDIR_REPORT_INTERNAL_H
#define SCRY_JOBDIR_REPORT_INTERNAL_H

#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"

struct job_end;
struct job_rank;

/* `whole`: in the report; otherwise in the summary. Appends nothing if there is nothing to say. */
typedef void report_section_fn(struct buf *out, const struct job_report *report, struct report_style style, bool whole);

report_section_fn report_last_text, report_scripts_text, report_logs_text, report_health_text, report_head_text,
    report_usage_text, report_failures_text, report_rules_text, report_crashes_text, report_warnings_text,
    report_trace_text, report_pauses_text, report_mpi_text, report_messages_text, report_commands_text,
    report_processes_text, report_gaps_text, report_profile_text, report_metrics_text, report_nodes_text,
    report_node_table_text, report_files_text, report_syscalls_text;

/* The members, of a struct job_report unless there is a function that sets them. */
extern const struct field report_last_fields[], report_layer_fields[], report_head_fields[], report_timeline_fields[],
    report_failed_fields[], report_rule_fields[], report_crash_fields[], report_warning_fields[], report_pause_fields[],
    report_trace_fields[], report_mpi_fields[], report_messages_fields[], report_command_fields[],
    report_process_fields[], report_gap_fields[], report_node_fields[], report_file_fields[], report_syscalls_fields[];
/* The first rank that failed; NULL: none is known. Pass *ret_how and *ret_call to buf_done. */
const struct job_rank *report_failed_rank(const struct job_report *report, struct job_rank *ret_rank,
                                          struct buf *ret_how, struct buf *ret_call);
/* What the ranks waited for each other in when they were ended, or for one that was late. */
void report_last_waits(const struct job_report *report, struct buf *ret_text, struct job_end *ret_end);
/* Whether the ssh that led to the node lost its connection: what ran there is gone, or out of reach for good. Then
 * *ret_seconds is when, at last. */
bool report_node_broke(const struct job_model *model, const char *node, double *ret_seconds);
/* A line; nothing if it is NULL. */
void report_batch_text(struct buf *out, const json_t *batch);
void report_head_json(json_t *object, const struct job_report *report);
void report_trace_json(json_t *object, const struct job_report *report);
void report_mpi_json(json_t *object, const struct job_report *report);
void report_messages_json(json_t *object, const struct job_report *report);

/* The commands by CPU time, malloc'ed. NULL: out of memory. */
/* Those of one name on several nodes are one. */
struct job_command *report_commands(const struct job_report *report, size_t *ret_count);

/* A copy of an array of records without what only the spool needs. */
json_t *report_records_json(const json_t *records);
/* Of two arrays of the same records the longer one: job.json has a copy, which may be older. */
const json_t *report_longer(const json_t *a, const json_t *b);

#endif
