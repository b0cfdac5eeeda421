/* SPDX-License-Identifier: Apache-2.0 */
#include "options/table.h"

#include <limits.h>

#define RUN (1u << COMMAND_RUN)
#define PS (1u << COMMAND_PS)
#define TOP (1u << COMMAND_TOP)
#define WATCH (1u << COMMAND_WATCH)
#define WHY (1u << COMMAND_WHY)
#define SET (1u << COMMAND_SET)
#define REPORT (1u << COMMAND_REPORT)
#define REPLAY (1u << COMMAND_REPLAY)
#define EXPORT (1u << COMMAND_EXPORT)
#define RM (1u << COMMAND_RM)
#define OMIS (1u << COMMAND_OMIS)
#define MONITOR (1u << COMMAND_MONITOR)
#define DOCTOR (1u << COMMAND_DOCTOR)
#define ALL ((1u << COMMANDS) - 1)

#define ENV OPTION_ENVIRONMENT
#define TRACE (OPTION_ENVIRONMENT | OPTION_SETTING | OPTION_MONITOR)
#define AGE "an age such as 12h, 30d or 8w"

/* clang-format off */
const struct option_row option_rows[] = {
    /* scry run, and what scry set can change of it */
    {"output", 'o', "DIR", OPTION_DIR, RUN, ENV, "the job directory, instead of a new one"},
    {"name", 0, "NAME", OPTION_TEXT, RUN, ENV, "a name for people"},
    {"quiet", 'q', NULL, OPTION_SWITCH, RUN, ENV, "print neither the job's id nor the summary"},
    {"sample", 0, "SECONDS", OPTION_SECONDS, RUN, ENV | OPTION_SETTING, "between two looks at node and processes",
     "1", .least = 0.01, .most = 86400, .expected = "seconds, from 0.01 to 86400"},
    {"crash-stack", 0, NULL, OPTION_SWITCH, RUN, ENV, "a backtrace at a crash (by ptrace: no gdb meanwhile)"},
    {"hide-args", 0, "REGEX", OPTION_REGEX, RUN, ENV, "in the recorded command line, besides passwords; off"},
    {"max-size", 0, "SIZE", OPTION_SIZE, RUN, TRACE, "of the directory; then recording stops", "2G",
     .expected = "a size such as 500M or 2G"},
    {"trace", 0, "SEL", OPTION_SELECTION, RUN, TRACE | OPTION_MANY | OPTION_TRACING,
     "functions: fn:GLOB file:GLOB lib:GLOB !SEL all; off", .words = "fn: file: lib: addr: all off"},
    {"args", 0, NULL, OPTION_SWITCH, RUN, TRACE | OPTION_TRACING, "with the values of arguments and results"},
    {"locals", 0, NULL, OPTION_SWITCH, RUN, TRACE | OPTION_TRACING, "with the values of local variables"},
    {"statics", 0, "FILES", OPTION_LIST, RUN, TRACE | OPTION_TRACING, "with static variables of source files: GLOB,GLOB",
     .most = 1000, .expected = "source files such as 'solver*.c,model.h', or off"},
    {"count-only", 0, NULL, OPTION_SWITCH, RUN, TRACE, "count calls and times, record none singly"},
    {"depth", 0, "N", OPTION_NUMBER, RUN, TRACE, "levels of pointers that values follow", "1", .most = 16,
     .expected = "a number of pointer levels from 0 to 16"},
    {"array-items", 0, "N", OPTION_NUMBER, RUN, TRACE, "elements of an array that are shown", "8", .most = 1000,
     .expected = "a number of elements from 0 to 1000"},
    {"string-bytes", 0, "N", OPTION_NUMBER, RUN, TRACE, "bytes of a text that are shown", "64", .most = 3000,
     .expected = "a number of bytes from 0 to 3000"},
    {"min-time", 0, "T", OPTION_TIME, RUN, TRACE, "shorter calls leave no record: 500us, 2ms"},
    {"max-depth", 0, "N", OPTION_NUMBER, RUN, TRACE, "calls deeper than that leave no record", .most = UINT32_MAX,
     .expected = "a number (0: no limit)"},
    {"rate", 0, "N", OPTION_NUMBER, RUN, TRACE, "recorded calls a second of one function, at most", .most = UINT32_MAX,
     .expected = "a number (0: no limit)"},
    {"buffer", 0, "SIZE", OPTION_SIZE, RUN, TRACE, "of records not yet on disk, per process", "64M",
     .least = 1 << 20, .most = 64.0 * (1 << 30), .expected = "a size from 1M to 64G"},
    {"overflow", 0, "HOW", OPTION_CHOICE, RUN, TRACE, "when that is full: drop, wait, flight", "drop", "drop wait flight"},
    {"read-by", 0, "HOW", OPTION_CHOICE, RUN, TRACE, "values are read by: direct, syscall, victim", "direct",
     "direct syscall victim"},
    {"on", 0, NULL, OPTION_SWITCH, 0, OPTION_SETTING | OPTION_MONITOR, "no: nothing is recorded until it is yes again"},
    {"loaded", 0, "WHAT", OPTION_CHOICE, 0, OPTION_MONITOR, "what the job's processes got at their start", "all",
     "all functions nothing"},
    {"mpi", 0, "HOW", OPTION_CHOICE, RUN, TRACE, "of MPI: auto, off, stats, trace, messages", "auto",
     "auto off stats trace messages"},
    {"mpi-metrics", 0, "LIST", OPTION_CHOICES, RUN, TRACE, "a list, see scry-run(1); all, none", "all",
     "clocks distributions sites peers requests messages all none"},
    {"mpi-resolution", 0, "N", OPTION_CHOICE, RUN, TRACE, "parts of a doubling, of distributions", "8",
     "1 2 4 8 16 32 64"},
    {"mpi-distributions", 0, "LIST", OPTION_LIST, RUN, TRACE, "calls: MPI_*send; all, none", "all",
     .expected = "all, none, or names of MPI calls with commas, such as MPI_Send,MPI_*reduce"},
    {"mpi-stall", 0, "SECONDS", OPTION_SECONDS, RUN, ENV, "ranks that stand still so long are told", "60", .most = 86400,
     .expected = "seconds, up to 86400; 0: never"},
    {"rule", 0, "REQUEST", OPTION_REQUEST, RUN, ENV | OPTION_MANY, "'EVENT : ACTIONS', a conditional request for the job"},
    {"keep-for", 0, "AGE", OPTION_TIME, RUN, ENV, "remove jobs that ended longer ago: 30d, 8w", .expected = AGE},
    {"keep-size", 0, "SIZE", OPTION_SIZE, RUN, ENV, "remove the oldest jobs while all take more: 20G"},
    {"log-level", 0, "LEVEL", OPTION_CHOICE, RUN | MONITOR, ENV, "of scry itself: error, warning, info, debug", NULL,
     "error warning info debug", .expected = "error, warning, info or debug"},
    {"config", 0, "FILE", OPTION_FILE, RUN, ENV | OPTION_NOT_IN_FILE, "more of these options, one a line"},
    {"log", 0, "FILE=REGEX", OPTION_PLANNED, RUN}, /* SCRY_LOG has been how much scry tells of itself for longer */
    {"script", 0, "HOW", OPTION_PLANNED, RUN, ENV},
    {"broker", 0, "URL", OPTION_PLANNED, RUN, ENV},

    /* looking at jobs */
    {"all", 'a', NULL, OPTION_SWITCH, PS, 0, "every job, every process, every rank"},
    {"all", 'a', NULL, OPTION_SWITCH, WHY, 0, "of MPI programs the processes and threads that are no ranks, too"},
    {"settled", 0, "MS", OPTION_NUMBER, WHY, 0, "calls that last less count as going on", "200", .least = 1,
     .most = INT_MAX, .expected = "milliseconds"},
    {"once", 0, NULL, OPTION_SWITCH, TOP, 0, "print one picture and end (so does output to a pipe)"},
    {"stream", 0, "NAME", OPTION_CHOICE, WATCH, OPTION_MANY, "only this stream; may be repeated", NULL,
     "job node process warning mpi rule setting"},
    {"since", 0, "T", OPTION_MOMENT, WATCH, 0,
     "only from so long after the job's start on: seconds, or with a unit as in 20ms"},
    {"grep", 0, "REGEX", OPTION_TEXT, WATCH, 0, "only lines that match (POSIX extended)"},
    {"diff", 0, NULL, OPTION_SWITCH, REPORT, 0, "two runs side by side"},
    {"format", 'f', "FORMAT", OPTION_CHOICE, EXPORT, 0, "as above", NULL, 
     "chrome speedscope folded folded-cpu folded-waiting csv messages spacetime"},
    {"output", 'o', "FILE", OPTION_FILE, EXPORT, 0, "where to; - is standard output"},
    {"fn", 0, "GLOB", OPTION_TEXT, REPLAY | EXPORT, 0, "only functions whose name matches, as in 'solve*'"},
    {"thread", 0, "TID", OPTION_NUMBER, REPLAY, 0, "only this thread", .least = 1, .most = INT_MAX,
     .expected = "the number of a thread"},
    {"process", 0, "PID", OPTION_NUMBER, REPORT, 0, "functions of this process only", .least = 1, .most = INT_MAX,
     .expected = "the number of a process"},
    {"process", 0, "PID", OPTION_NUMBER, REPLAY | EXPORT, 0, "only this process", .least = 1, .most = INT_MAX,
     .expected = "the number of a process"},
    {"rank", 0, "N", OPTION_NUMBER, REPORT, 0, "of this rank of MPI only: functions, calls of MPI, its process",
     .most = INT_MAX, .expected = "the number of a rank"},
    {"rank", 0, "N", OPTION_NUMBER, REPLAY, 0, "only this rank of an MPI program", .most = INT_MAX,
     .expected = "the number of a rank"},
    {"from", 0, "T", OPTION_MOMENT, REPLAY | EXPORT, 0,
     "only what begins so long after the job's start, or later: seconds, or with a unit as in 20ms"},
    {"to", 0, "T", OPTION_MOMENT, REPLAY | EXPORT, 0, "or earlier"},
    {"min-time", 0, "T", OPTION_MOMENT, REPLAY, 0, "only calls that took at least so long, as in 5us"},
    {"max-depth", 0, "N", OPTION_NUMBER, REPLAY, 0, "only N levels of calls inside each other", .least = 1, .most = INT_MAX,
     .expected = "a number greater than 0"},
    {"types", 0, NULL, OPTION_SWITCH, REPLAY, 0,
     "with the declaration of each function whose values were recorded, as in 'int solve(int n)'"},
    {"follow", 0, NULL, OPTION_SWITCH, REPLAY, 0, "go on while the job runs; end with Ctrl-C"},
    {"times", 0, NULL, OPTION_SWITCH, REPLAY, 0, "time of day to the nanosecond, durations in nanoseconds"},

    /* scry rm */
    {"older-than", 0, "AGE", OPTION_TIME, RM, 0, "all that ended longer ago: 12h, 30d, 8w", .expected = AGE},
    {"keep-size", 0, "SIZE", OPTION_SIZE, RM, 0,
     "the oldest, until what is left takes less: 500M, 20G; the job that ended last stays"},
    {"dry-run", 'n', NULL, OPTION_SWITCH, RM, 0, "only say which, and how large they are"},
    {"force", 'f', NULL, OPTION_SWITCH, RM, 0, "named jobs also if they run, or may still run elsewhere"},
    {"quiet", 'q', NULL, OPTION_SWITCH, RM, 0, "print nothing but errors"},

    /* scry omis, scry monitor */
    {"command", 'c', "REQUEST", OPTION_TEXT, OMIS, OPTION_MANY, "send this; may be repeated, all in one session"},
    {"wait", 0, "N|TIME", OPTION_TEXT, OMIS, 0,
     "afterwards, listen for N more replies (--wait 3) or for a time (--wait 2.5s), unless one failed"},
    {"timeout", 0, "SECONDS", OPTION_SECONDS, OMIS, 0, "a request not answered within this time has failed", .least = 0.001,
     .most = 1e6, .expected = "seconds (2.5), more than 0"},
    {"flags", 0, "FLAG,...", OPTION_CHOICES, OMIS, 0,
     "the specification's flags for every request: dont_return_ok, dont_return_en_dis, buffer_request, buffer_replies, "
     "wait_for_first_reply, debug",
     NULL, "dont_return_ok dont_return_en_dis buffer_request buffer_replies wait_for_first_reply debug"},
    {"debug", 0, NULL, OPTION_SWITCH, OMIS, 0, "debugging output of the monitor, on standard error"},
    {"list-services", 0, NULL, OPTION_SWITCH, OMIS, 0,
     "the names of what the monitor can do here; on a terminal or with --json, more"},
    {"connect", 0, "URL", OPTION_TEXT, OMIS, 0, "unix:PATH, the socket of another monitor"},
    {"no-start", 0, NULL, OPTION_SWITCH, OMIS, 0, "do not start a monitor if none runs"},
    {"idle", 0, "SECONDS", OPTION_SECONDS, MONITOR, ENV, "how long it stays without tools", "60", .most = 1e9,
     .expected = "a number of seconds"},
    {"daemon", 0, NULL, OPTION_SWITCH, MONITOR, 0, "in the background; its messages go to monitor.log"},
    {"state", 0, NULL, OPTION_SWITCH, MONITOR, 0, "print what the monitor that runs holds now, a line each, and end"},
    {"reference", 0, "PAGE", OPTION_CHOICE, MONITOR, OPTION_OPTIONAL,
     "print the page of services, of MPI calls (mpi-calls), or of notes, and end", NULL, "mpi-calls notes"},

    /* several */
    {"json", 0, NULL, OPTION_SWITCH, PS, 0, "as JSON (doc/reference/ps.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, WHY, 0, "as JSON (doc/reference/why.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, REPORT, 0, "as JSON (doc/reference/report.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, TOP, 0, "print what is shown, once, as JSON (doc/reference/top.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, WATCH, 0, "a JSON object a line (doc/reference/records.md)"},
    {"json", 0, NULL, OPTION_SWITCH, SET, 0, "show as JSON: an object of keys and values"},
    {"json", 0, NULL, OPTION_SWITCH, REPLAY, 0, "a JSON object a line for each call that ended, and each event"},
    {"json", 0, NULL, OPTION_SWITCH, OMIS, 0, "one JSON object for each reply"},
    {"job", 0, "JOB", OPTION_TEXT, DOCTOR, 0, "why this job shows nothing, or too little; @last is the latest"},
    {"json", 0, NULL, OPTION_SWITCH, DOCTOR, 0, "version, failed, warnings, checks[]: name, state, text, remedy"},
    {"help", 'h', NULL, OPTION_SWITCH, ALL, 0, "this text"},
};
/* clang-format on */
const size_t option_row_count = sizeof option_rows / sizeof *option_rows;
