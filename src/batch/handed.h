/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the plugin hands to scry-task, in one environment variable that scry-task takes out: lines HOW, STEP, MEMORY,
 * SCRY, OPTIONS, and the program, which is the rest.
 *
 *   HOW       run: a job of its own; quiet: the same with --quiet; exec: part of the job of a task beside it
 *             part-run, part-quiet, part-exec: part of the job that it is started in (job/launch/spread.h), if that can
 *             have parts here, else as without "part-"
 *   STEP      the name that the tasks of this step share on this node, for SCRY_STEP; "": nobody else is there
 *   MEMORY    MB that the job or step has on this node, for SCRY_BATCH_MEMORY; "": not known
 *   SCRY      the path of scry
 *   OPTIONS   what was given to --scry: KEY or KEY=VALUE, with blanks between them, and quotes where blanks belong to one
 */
#ifndef SCRY_BATCH_HANDED_H
#define SCRY_BATCH_HANDED_H

#define HANDED_NAME "SCRY_HANDED"
#define HANDED_PART "part-"

/* The lines, without the program. */
enum { HANDED_HOW, HANDED_STEP, HANDED_MEMORY, HANDED_SCRY, HANDED_WORDS, HANDED_LINES };
enum { HANDED_OPTIONS = 4000, HANDED_SIZE = 16384 };

#endif
