/* SPDX-License-Identifier: Apache-2.0 */
#include "options/table.h"

#include <limits.h>

#define RUN (1u << COMMAND_RUN)
#define SUBMIT (1u << COMMAND_SUBMIT)
#define TASK (1u << COMMAND_TASK)
#define PS (1u << COMMAND_PS)
#define TOP (1u << COMMAND_TOP)
#define WATCH (1u << COMMAND_WATCH)
#define LOGS (1u << COMMAND_LOGS)
#define WHY (1u << COMMAND_WHY)
#define SNAPSHOT (1u << COMMAND_SNAPSHOT)
#define SET (1u << COMMAND_SET)
#define REPORT (1u << COMMAND_REPORT)
#define DIFF (1u << COMMAND_DIFF)
#define REPLAY (1u << COMMAND_REPLAY)
#define EXPORT (1u << COMMAND_EXPORT)
#define STOP (1u << COMMAND_STOP)
#define RM (1u << COMMAND_RM)
#define PUBLISH (1u << COMMAND_PUBLISH)
#define RECORD (1u << COMMAND_RECORD)
#define SITE (1u << COMMAND_SITE)
#define SERVE (1u << COMMAND_SERVE)
#define OMIS (1u << COMMAND_OMIS)
#define KEYS (1u << COMMAND_KEYS)
#define MONITOR (1u << COMMAND_MONITOR)
#define LINK (1u << COMMAND_LINK)
#define BROKER (1u << COMMAND_BROKER)
#define DOCTOR (1u << COMMAND_DOCTOR)
#define ALL ((1u << COMMANDS) - 1)

#define ENV OPTION_ENVIRONMENT
#define TRACE (OPTION_ENVIRONMENT | OPTION_SETTING | OPTION_MONITOR)
#define AGE "an age such as 30m, 12h, 30d or 8w"

/* clang-format off */
const struct option_row option_rows[] = {
    /* scry run, and settings that scry set changes */
    {"output", 'o', "DIR", OPTION_DIR, RUN, ENV, "write the job directory here"},
    {"name", 0, "NAME", OPTION_TEXT, RUN, ENV, "a name for people"},
    {"quiet", 'q', NULL, OPTION_SWITCH, RUN, ENV, "print no job id and no summary"},
    {"anyway", 0, NULL, OPTION_SWITCH, RUN, OPTION_EXPERT, "run COMMAND without scry if another option is wrong"},
    {"sample", 0, "SECONDS", OPTION_SECONDS, RUN, ENV | OPTION_SETTING, "between two samples of node and processes",
     "1", .least = 0.01, .most = 86400, .expected = "seconds, from 0.01 to 86400"},
    {"profile", 0, "HZ", OPTION_NUMBER, RUN, ENV, "sample where processors are used, so often a second, or off", "49",
     .words = "auto off", .most = 1000, .expected = "samples a second, from 1 to 1000, or off"},
    {"crash-stack", 0, NULL, OPTION_SWITCH, RUN, ENV, "a backtrace at a crash (ptrace: excludes gdb)"},
    {"files", 0, NULL, OPTION_SWITCH, RUN, ENV, "count which files are read and written, by whom"},
    {"syscalls", 0, NULL, OPTION_SWITCH, RUN, ENV, "count system calls, and how long they take (root only)"},
    {"hide-args", 0, "REGEX", OPTION_REGEX, RUN, ENV, "hide more than passwords in command lines (and in what is published); off"},
    {"max-size", 0, "SIZE", OPTION_SIZE, RUN, TRACE, "of the job directory: recording stops there", "2G",
     .expected = "a size such as 500M or 2G"},
    {"trace", 0, "SEL", OPTION_SELECTION, RUN, TRACE | OPTION_MANY | OPTION_TRACING,
     "functions: fn:GLOB file:GLOB lib:GLOB !SEL all; off (default: all, of the hottest the number)", .words = "fn: file: lib: addr: all off"},
    {"args", 0, NULL, OPTION_SWITCH, RUN, TRACE | OPTION_TRACING, "with the values of arguments and results (needs -g, not -g1)"},
    {"locals", 0, NULL, OPTION_SWITCH, RUN, TRACE | OPTION_TRACING, "with local variables: the caller's at a call, its own at the return"},
    {"statics", 0, "FILES", OPTION_LIST, RUN, TRACE | OPTION_TRACING, "with static variables of source files: GLOB,GLOB",
     .most = 1000, .expected = "source files such as 'solver*.c,model.h', or off"},
    {"count-only", 0, NULL, OPTION_SWITCH, RUN, TRACE, "only count calls and their times"},
    {"depth", 0, "N", OPTION_NUMBER, RUN, TRACE, "levels of pointers to follow", "1", .most = 16,
     .expected = "a number of pointer levels from 0 to 16"},
    {"array-items", 0, "N", OPTION_NUMBER, RUN, TRACE, "elements of an array to record, at most 1000", "8", .most = 1000,
     .expected = "a number of elements from 0 to 1000"},
    {"string-bytes", 0, "N", OPTION_NUMBER, RUN, TRACE, "bytes of a text to record, at most 3000", "64", .most = 3000,
     .expected = "a number of bytes from 0 to 3000"},
    {"min-time", 0, "T", OPTION_TIME, RUN, TRACE, "do not record shorter calls: 500us, 2ms"},
    {"max-depth", 0, "N", OPTION_NUMBER, RUN, TRACE, "do not record calls inside more than N recorded calls", .most = UINT32_MAX,
     .expected = "a number (0: no limit)"},
    {"rate", 0, "N", OPTION_NUMBER, RUN, TRACE, "record at most N calls a second of a function, count the others", .most = UINT32_MAX,
     .expected = "a number (0: no limit)"},
    {"buffer", 0, "SIZE", OPTION_SIZE, RUN, TRACE | OPTION_EXPERT, "memory of each process for records before they are on disk", "64M",
     .least = 1 << 20, .most = 64.0 * (1 << 30), .expected = "a size from 1M to 64G"},
    {"overflow", 0, "HOW", OPTION_CHOICE, RUN, TRACE | OPTION_EXPERT, "when that is full: drop, wait, flight", "drop", "drop wait flight"},
    {"read-by", 0, "HOW", OPTION_CHOICE, RUN, TRACE | OPTION_EXPERT, "read values: direct, syscall, victim", "direct",
     "direct syscall victim"},
    {"on", 0, NULL, OPTION_SWITCH, 0, OPTION_SETTING | OPTION_MONITOR, "no: record nothing until it is yes again"},
    {"loaded", 0, "WHAT", OPTION_CHOICE, 0, OPTION_MONITOR, "what was loaded into the job's processes", "all",
     "all functions nothing"},
    {"mpi", 0, "HOW", OPTION_CHOICE, RUN, TRACE, "of MPI: auto, off, stats, trace, messages", "auto",
     "auto off stats trace messages"},
    {"mpi-metrics", 0, "LIST", OPTION_CHOICES, RUN, TRACE | OPTION_EXPERT, "a list, see scry-run(1); all, none", "all",
     "clocks distributions sites peers requests messages all none"},
    {"mpi-resolution", 0, "N", OPTION_CHOICE, RUN, TRACE | OPTION_EXPERT, "of distributions: steps per doubling, 1 to 64", "8",
     "1 2 4 8 16 32 64"},
    {"mpi-distributions", 0, "LIST", OPTION_LIST, RUN, TRACE | OPTION_EXPERT, "calls to distribute: globs such as MPI_*send; all, none", "all",
     .expected = "all, none, or names of MPI calls with commas, such as MPI_Send,MPI_*reduce"},
    {"mpi-stall", 0, "SECONDS", OPTION_SECONDS, RUN, ENV, "report when ranks stand still so long", "60", .most = 86400,
     .expected = "seconds, up to 86400; 0: never"},
    {"script", 0, "HOW", OPTION_CHOICE, RUN, ENV, "of shell scripts and Python: off, outside, calls, lines", "outside",
     "off outside calls lines"},
    {"stall", 0, "SECONDS", OPTION_SECONDS, RUN, ENV | OPTION_SETTING, "warn when nothing of the job moves so long", "600",
     .most = 1e6, .expected = "seconds, up to 1000000; 0: never"},
    {"rule", 0, "REQUEST", OPTION_REQUEST, RUN, ENV | OPTION_MANY, "'EVENT : ACTIONS', a conditional request for the job"},
    {"keep-for", 0, "AGE", OPTION_TIME, RUN, ENV, "remove jobs that ended longer ago: 30d, 8w", .expected = AGE},
    {"keep-size", 0, "SIZE", OPTION_SIZE, RUN, ENV, "remove the oldest jobs above this size: 20G"},
    {"log-level", 0, "LEVEL", OPTION_CHOICE, RUN | MONITOR, ENV, "log of scry: error, warning, info, debug", NULL,
     "error warning info debug", .expected = "error, warning, info or debug"},
    {"config", 0, "FILE", OPTION_FILE, RUN, ENV | OPTION_NOT_IN_FILE, "read more options from here, one a line: sample 5"},
    /* SCRY_LOG is the default of --log-level */
    {"log", 0, "FILE=REGEX", OPTION_LIST, RUN, OPTION_MANY | OPTION_IN_FILE | OPTION_SETTING, "record matching lines of a file; FILE=REGEX:LEVEL",
     .expected = "FILE=REGEX or FILE=REGEX:LEVEL"},
    {"metric", 0, "NAME[=REGEX]", OPTION_LIST, RUN, OPTION_MANY | OPTION_IN_FILE, "follow a number in what is printed: loss, or loss='L is (\\S+)'",
     .expected = "NAME or NAME=REGEX"},
    {"log-patterns", 0, "LIST", OPTION_LIST, RUN, ENV | OPTION_LISTS | OPTION_SETTING, "look for these errors in stdout, stderr: all, off, list", "all",
     "all off list", .expected = "all, off, list, or names of patterns with commas"},
    {"tee", 0, NULL, OPTION_SWITCH, RUN, ENV, "keep and search stdout and stderr of pipes and terminals, too"},
    {"tee-size", 0, "SIZE", OPTION_SIZE, RUN, ENV | OPTION_EXPERT, "of the end of each that --tee keeps", "16M", .least = 4 << 20,
     .expected = "a size from 4M on, such as 16M"},
    {"key", 0, "FILE", OPTION_TEXT, RUN, ENV, "the job's key, of scry keys issue --kind job"},
    {"part-of", 0, "ID:DIR", OPTION_LIST, RUN, OPTION_EXPERT, "record what this node does for a job that another node began"},
    {"broker", 0, "URL", OPTION_TEXT, RUN, ENV, "publish the job at this MQTT broker: mqtt://HOST, @NAME"},
    {"publish-output", 0, NULL, OPTION_SWITCH, RUN, ENV, "and what it prints, to all who may read there"},

    /* scry submit, scry task */
    {"processes", 'n', "LIST", OPTION_LIST, SUBMIT, 0, "processes to start; 1,2,4 makes a series of tasks", "1"},
    {"name", 0, "NAME", OPTION_TEXT, SUBMIT, 0, "a name for people; otherwise that of the program"},
    {"by", 0, "HOW", OPTION_CHOICE, SUBMIT, 0, "launch it by mpirun, slurm, ssh or plain", "mpirun", "mpirun slurm ssh plain"},
    {"hosts", 0, "LIST", OPTION_LIST, SUBMIT, 0, "hosts for mpirun or slurm; the one for ssh"},
    {"partition", 0, "NAME", OPTION_LIST, SUBMIT, 0, "of Slurm"},
    {"launcher", 0, "OPTION", OPTION_LIST, SUBMIT, OPTION_MANY, "another option for mpirun or sbatch: --launcher=--bind-to; may be repeated"},
    {"trace", 0, "SEL", OPTION_SELECTION, SUBMIT, OPTION_MANY,
     "functions, as of scry run (default: none; of Python never any)", .words = "fn: file: lib: addr: all"},
    {"args", 0, NULL, OPTION_SWITCH, SUBMIT, 0, "with the values of arguments and results"},
    {"mpi", 0, "HOW", OPTION_CHOICE, SUBMIT, 0, "of MPI: auto, off, stats, trace, messages (default trace; by plain: auto)", NULL,
     "auto off stats trace messages"},
    {"log", 0, "FILE=REGEX", OPTION_LIST, SUBMIT, OPTION_MANY, "record matching lines of a file, stdout or stderr, and progress",
     .expected = "FILE=REGEX or FILE=REGEX:LEVEL"},
    {"repeat", 0, "N", OPTION_NUMBER, SUBMIT, 0, "run it N times", "1", .least = 1, .most = 1000,
     .expected = "a number from 1 to 1000"},
    {"build", 0, "COMMAND", OPTION_LIST, SUBMIT, 0, "a shell's command that makes the program first"},
    {"directory", 0, "DIR", OPTION_TEXT, SUBMIT, 0, "run it there (default: here); empty: among the task's own files"},
    {"file", 0, "FILE", OPTION_FILE, SUBMIT, OPTION_MANY, "copy it into the task, which then runs among its files"},
    {"env", 0, "NAME[=VALUE]", OPTION_LIST, SUBMIT, OPTION_MANY, "also this variable, yours or as given"},
    {"env-only", 0, NULL, OPTION_SWITCH, SUBMIT, 0, "hand on no variables but those of --env"},
    {"limit-time", 0, "T", OPTION_TIME, SUBMIT, 0, "stop a run after this time: 10min, 2h", "1h", .expected = "a time such as 90s, 10min or 2h"},
    {"limit-memory", 0, "SIZE", OPTION_SIZE, SUBMIT, 0, "stop it when its processes take more together: 4G", .least = 1 << 20,
     .expected = "a size from 1M on, such as 4G"},
    {"limit-space", 0, "SIZE", OPTION_SIZE, SUBMIT, 0, "stop it when it takes more of the disk: 10G", "2G", .least = 1 << 20,
     .expected = "a size from 1M on, such as 10G"},
    {"wait", 0, NULL, OPTION_SWITCH, SUBMIT, 0, "wait for its end, and say how it ended"},
    {"all", 'a', NULL, OPTION_SWITCH, TASK, 0, "list all tasks"},
    {"json", 0, NULL, OPTION_SWITCH, TASK, 0, "print JSON (doc/reference/task*.schema.json)"},

    {"broker", 0, "URL", OPTION_TEXT, PUBLISH, ENV, "the MQTT broker: mqtt://HOST, unix:PATH, local, @NAME"},

    /* looking at jobs */
    {"all", 'a', NULL, OPTION_SWITCH, PS, 0, "show every job, process and rank"},
    {"all", 'a', NULL, OPTION_SWITCH, WHY, 0, "also show processes and threads of MPI programs that are no ranks"},
    {"all", 'a', NULL, OPTION_SWITCH, SNAPSHOT, 0, "also show processes that are no ranks, and all frames"},
    {"depth", 0, "N", OPTION_NUMBER, SNAPSHOT, 0, "show N frames from where threads began, the rest as one (default: all)", .least = 1, .most = 1024},
    {"files", 0, NULL, OPTION_SWITCH, SNAPSHOT, 0, "also show which files are open"},
    {"queues", 0, NULL, OPTION_SWITCH, SNAPSHOT, 0, "also show requests of MPI that are not completed, and messages that were not received"},
    {"values", 0, NULL, OPTION_SWITCH, SNAPSHOT, 0, "also show arguments and locals of functions"},
    {"rank", 0, "SET", OPTION_TEXT, SNAPSHOT, 0, "only these ranks: 0-3,8"},
    {"thread", 0, "NAME", OPTION_TEXT, SNAPSHOT, 0, "only threads of that name (* and ?), or main"},
    {"settled", 0, "MS", OPTION_NUMBER, WHY, 0, "regard shorter calls as going on", "200", .least = 1,
     .most = INT_MAX, .expected = "milliseconds"},
    {"record", 0, "URL", OPTION_LIST, PS | TOP | WATCH | LOGS | WHY | REPORT | DIFF, OPTION_ENVIRONMENT,
     "find jobs that are gone in this record (scry record)"},
    {"once", 0, NULL, OPTION_SWITCH, TOP, 0, "print one picture and end (as output to a pipe does)"},
    {"stream", 0, "NAME", OPTION_CHOICE, WATCH, OPTION_MANY, "show only this stream; may be repeated", NULL,
     "job node process script python function log warning mpi rule setting"},
    {"since", 0, "T", OPTION_MOMENT, WATCH, 0, "begin so long after the job's start: seconds, or with a unit as in 20ms"},
    {"grep", 0, "REGEX", OPTION_TEXT, WATCH, 0, "show only lines that match (POSIX extended)"},
    {"follow", 'f', NULL, OPTION_SWITCH, LOGS, 0, "show what comes, until the job ends"},
    {"stdout", 0, NULL, OPTION_SWITCH, LOGS, 0, "only standard output"},
    {"stderr", 0, NULL, OPTION_SWITCH, LOGS, 0, "only standard error"},
    {"since", 0, "TIME", OPTION_LIST, LOGS, 0, "only lines that began since then: 10m (ago), 14:30, 2026-11-30T14:30", .expected = "a time such as 10m or 14:30"},
    {"grep", 0, "REGEX", OPTION_LIST, LOGS, 0, "only lines that match, as of scry run --log (PCRE)", .expected = "a regular expression"},
    {"rank", 0, "N", OPTION_NUMBER, LOGS, 0, "only what the launcher wrote into files of this MPI rank",
     .most = INT_MAX, .expected = "the number of a rank"},
    {"last", 'n', "N", OPTION_NUMBER, LOGS, 0, "only the last N of these lines", .most = 1e9, .expected = "a number of lines"},
    {"kill", 0, NULL, OPTION_SWITCH, STOP, 0, "send SIGKILL: they end at once, and can do nothing about it"},
    {"signal", 0, "SIGNAL", OPTION_TEXT, STOP, 0, "send that one, by its name or number", .words = "INT QUIT HUP USR1 USR2"},
    {"format", 'f', "FORMAT", OPTION_CHOICE, EXPORT, 0, "as above", NULL, 
     "chrome folded folded-cpu folded-waiting folded-samples pprof speedscope csv messages spacetime"},
    {"output", 'o', "FILE", OPTION_FILE, EXPORT, 0, "write here; - is standard output"},
    {"fn", 0, "GLOB", OPTION_TEXT, REPLAY | EXPORT, 0, "only functions whose name matches, as in 'solve*'"},
    {"thread", 0, "TID", OPTION_NUMBER, REPLAY, 0, "only this thread", .least = 1, .most = INT_MAX,
     .expected = "the number of a thread"},
    {"process", 0, "PID", OPTION_NUMBER, REPORT, 0, "only functions of this process", .least = 1, .most = INT_MAX,
     .expected = "the number of a process"},
    {"process", 0, "PID", OPTION_NUMBER, REPLAY | EXPORT, 0, "only this process", .least = 1, .most = INT_MAX,
     .expected = "the number of a process"},
    {"rank", 0, "N", OPTION_NUMBER, REPORT, 0, "only this MPI rank: its functions, MPI calls and process",
     .most = INT_MAX, .expected = "the number of a rank"},
    {"rank", 0, "N", OPTION_NUMBER, REPLAY, 0, "only this rank of an MPI program", .most = INT_MAX,
     .expected = "the number of a rank"},
    {"from", 0, "T", OPTION_MOMENT, REPLAY | EXPORT, 0,
     "only from this time after the job's start: seconds, or with a unit as in 20ms"},
    {"to", 0, "T", OPTION_MOMENT, REPLAY | EXPORT, 0, "only until this time"},
    {"min-time", 0, "T", OPTION_MOMENT, REPLAY, 0, "only calls that took at least this long, as in 5us"},
    {"max-depth", 0, "N", OPTION_NUMBER, REPLAY, 0, "only the outer N levels of calls", .least = 1, .most = INT_MAX,
     .expected = "a number greater than 0"},
    {"types", 0, NULL, OPTION_SWITCH, REPLAY, 0,
     "show the declaration of each function with recorded values, as in 'int solve(int n)'"},
    {"follow", 0, NULL, OPTION_SWITCH, REPLAY, 0, "go on while the job runs; Ctrl-C ends it"},
    {"times", 0, NULL, OPTION_SWITCH, REPLAY, 0, "print the time of day to the nanosecond, durations in nanoseconds"},

    /* scry rm */
    {"older-than", 0, "AGE", OPTION_TIME, RM, 0, "remove jobs that ended longer ago: 12h, 30d, 8w", .expected = AGE},
    {"keep-size", 0, "SIZE", OPTION_SIZE, RM, 0,
     "remove the oldest jobs until the rest takes less: 500M, 20G; the job that ended last stays"},
    {"dry-run", 'n', NULL, OPTION_SWITCH, RM, 0, "only list the jobs and their sizes"},
    {"force", 'f', NULL, OPTION_SWITCH, RM, 0, "remove named jobs even if they run, or may still run elsewhere"},
    {"quiet", 'q', NULL, OPTION_SWITCH, RM, 0, "print nothing but errors"},

    /* scry keys */
    {"name", 0, "NAME", OPTION_LIST, KEYS, 0, "who gets the key; the name of FILE"},
    {"rights", 0, "LIST", OPTION_CHOICES, KEYS, 0, "what it may do: observe, control, memory", "observe",
     "observe control memory"},
    {"job", 0, "GLOB", OPTION_LIST, KEYS, 0, "to which jobs: ids or names", "*"},
    {"for", 0, "AGE", OPTION_TIME, KEYS, 0, "how long: 12h, 30d, 8w", "7d", .expected = AGE},
    {"kind", 0, "KIND", OPTION_CHOICE, KEYS, 0, "of whom: a person, or a job", "person", "person job"},
    {"output", 'o', "FILE", OPTION_FILE, KEYS, 0, "write the new key here; - is standard output"},
    {"broker", 0, "URL", OPTION_TEXT, KEYS, 0, "also tell it to the jobs, through this broker"},
    {"json", 0, NULL, OPTION_SWITCH, KEYS, 0, "print JSON (doc/reference/keys.schema.json)"},

    /* scry record */
    {"broker", 0, "URL", OPTION_LIST, RECORD, OPTION_ENVIRONMENT, "follow the jobs at this broker"},
    {"owner", 0, "NAME", OPTION_LIST, RECORD, 0, "follow the jobs of this user; all: of all users"},
    {"import", 0, NULL, OPTION_SWITCH, RECORD, 0, "store these job directories"},
    {"remove", 0, NULL, OPTION_SWITCH, RECORD, 0, "remove these jobs from the record"},
    {"record", 0, "URL", OPTION_LIST, RECORD, OPTION_ENVIRONMENT, "store them there: a directory, or postgresql://..."},
    {"keep", 0, "AGE", OPTION_TIME, RECORD, OPTION_ENVIRONMENT, "drop records that came longer ago, by days: 30d, 8w", .expected = AGE},
    {"keep-minutes", 0, "AGE", OPTION_TIME, RECORD, OPTION_ENVIRONMENT,
     "drop the figures of minutes of jobs that were not heard of for so long", .expected = AGE},
    {"metrics", 0, "[ADDRESS:]PORT", OPTION_LIST, RECORD, 0, "answer Prometheus there; without ADDRESS only this node's",
     .expected = "[ADDRESS:]PORT"},
    {"otlp", 0, "URL", OPTION_LIST, RECORD, 0, "send the records there as logs of OpenTelemetry: http://HOST:4318"},
    {"otlp-retry", 0, "AGE", OPTION_TIME, RECORD, 0, "try again for so long, then drop what is not taken", "15min",
     .expected = "a time such as 30s or 15min"},
    {"once", 0, NULL, OPTION_SWITCH, RECORD, 0, "end when all jobs that are there are over and stored"},
    {"quiet", 'q', NULL, OPTION_SWITCH, RECORD, 0, "print nothing but errors"},

    /* scry site */
    {"record", 0, "URL", OPTION_LIST, SITE, OPTION_ENVIRONMENT, "ask this record: a directory, or postgresql://..."},
    {"owner", 0, "NAME", OPTION_LIST, SITE, 0, "only jobs of this user"},
    {"node", 0, "NAME", OPTION_LIST, SITE, 0, "only jobs on this node"},
    {"since", 0, "AGE", OPTION_TIME, SITE, 0, "jobs that are over: those that ended since: 30m, 12h, 30d", "1d", .expected = AGE},

    /* scry serve */
    {"port", 0, "N", OPTION_NUMBER, SERVE, 0, "answer at this port (default: a free one)", .most = 65535,
     .expected = "the number of a port"},
    {"address", 0, "ADDRESS", OPTION_LIST, SERVE, 0, "answer there; other machines only by TLS", "127.0.0.1"},
    {"tls-cert", 0, "FILE", OPTION_FILE, SERVE, 0, "the server's certificate, and those above it (PEM)"},
    {"tls-key", 0, "FILE", OPTION_FILE, SERVE, 0, "its private key (PEM)"},
    {"origin", 0, "URL", OPTION_LIST, SERVE, OPTION_MANY, "also at this URL, by a proxy: https://HOST[/PATH]"},
    {"proxy", 0, "USER:SOCKET", OPTION_LIST, SERVE, 0, "who comes by this socket as USER is a proxy that knows: it is you",
     .expected = "USER:SOCKET, such as www-data:/run/scry-serve/me/sock"},
    {"jobs", 0, "DIR", OPTION_DIR, SERVE, OPTION_MANY, "also show the job directories in it"},
    {"broker", 0, "URL", OPTION_LIST, SERVE, OPTION_MANY, "also show the jobs at this broker; URL/USER: another user's"},
    {"record", 0, "URL", OPTION_LIST, SERVE, OPTION_ENVIRONMENT, "find jobs that are gone in this record, and show its site"},
    {"keep-pictures", 0, "SIZE", OPTION_SIZE, SERVE, 0, "of what was read of traces, for the next look; 0: nothing", "2G"},
    {"pages", 0, "DIR", OPTION_DIR, SERVE, 0, "take the pages from here, not out of the program"},
    {"link", 0, NULL, OPTION_SWITCH, SERVE, 0, "print another link to the server that runs, and end"},
    {"bearer", 0, NULL, OPTION_SWITCH, SERVE, 0, "print a token for scripts, and end: Authorization: Bearer TOKEN"},
    {"rights", 0, "LIST", OPTION_CHOICES, SERVE, 0, "of the link, token or proxy: observe, control, submit, site",
     "observe,control,submit,site", "observe control submit site"},
    {"for", 0, "AGE", OPTION_TIME, SERVE, 0, "a session, or a token, is good for so long: 8h, 7d", "12h", .expected = AGE},

    /* scry omis, scry monitor */
    {"command", 'c', "REQUEST", OPTION_TEXT, OMIS, OPTION_MANY, "send this; may be repeated, for one session"},
    {"wait", 0, "N|TIME", OPTION_TEXT, OMIS, 0,
     "then listen for N more replies (--wait 3) or for a time (--wait 2.5s), unless a request failed"},
    {"timeout", 0, "SECONDS", OPTION_SECONDS, OMIS, 0, "a request fails if it is not answered in this time", .least = 0.001,
     .most = 1e6, .expected = "seconds (2.5), more than 0"},
    {"flags", 0, "FLAG,...", OPTION_CHOICES, OMIS, 0,
     "flags of the specification for every request: dont_return_ok, dont_return_en_dis, buffer_request, buffer_replies, "
     "wait_for_first_reply, debug",
     NULL, "dont_return_ok dont_return_en_dis buffer_request buffer_replies wait_for_first_reply debug"},
    {"debug", 0, NULL, OPTION_SWITCH, OMIS, 0, "print debugging output of the monitor on standard error"},
    {"list-services", 0, NULL, OPTION_SWITCH, OMIS, 0,
     "list the names of services; on a terminal or with --json, list more"},
    {"connect", 0, "URL", OPTION_TEXT, OMIS, 0,
     "use another monitor: unix:PATH, ssh://HOST, tls://HOST:PORT, or that of a job at a broker"},
    {"no-start", 0, NULL, OPTION_SWITCH, OMIS, 0, "do not start a monitor if none runs"},
    {"idle", 0, "SECONDS", OPTION_SECONDS, MONITOR, ENV, "end after this time without tools", "60", .most = 1e9,
     .expected = "a number of seconds"},
    {"daemon", 0, NULL, OPTION_SWITCH, MONITOR, 0, "run in the background; messages go to monitor.log"},
    {"listen", 0, "HOST:PORT", OPTION_TEXT, MONITOR | LINK, OPTION_MANY,
     "take connections from other machines there, of your keys (TLS)", .expected = "HOST:PORT, [ADDRESS]:PORT or *:PORT"},
    {"state", 0, NULL, OPTION_SWITCH, MONITOR, 0, "print what the running monitor holds now, a line each, and end"},
    {"reference", 0, "PAGE", OPTION_CHOICE, MONITOR, OPTION_OPTIONAL,
     "print the page on services or notes, or the calls of MPI as JSON (mpi-calls), and end", NULL, "mpi-calls notes"},

    /* scry broker */
    {"start", 0, NULL, OPTION_SWITCH, BROKER, 0, "start it in the background, unless it runs"},
    {"stop", 0, NULL, OPTION_SWITCH, BROKER, 0, "end it"},
    {"status", 0, NULL, OPTION_SWITCH, BROKER, 0, "say whether it runs, and where"},
    {"tls", 0, "[ADDRESS:]PORT", OPTION_LIST, BROKER, 0, "take other hosts' connections there, encrypted", .expected = "[ADDRESS:]PORT"},
    {"cert", 0, "FILE", OPTION_FILE, BROKER, 0, "its certificate (PEM), for --tls"},
    {"key", 0, "FILE", OPTION_FILE, BROKER, 0, "its private key (PEM), for --tls"},
    {"ca", 0, "FILE", OPTION_FILE, BROKER, 0, "clients at --tls need a certificate of this authority (PEM)"},
    {"passwords", 0, "FILE", OPTION_FILE, BROKER, 0, "clients at --tls need a name and password in it (mosquitto_passwd)"},

    /* several */
    {"json", 0, NULL, OPTION_SWITCH, PS, 0, "print JSON (doc/reference/ps.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, SITE, 0, "print JSON (doc/reference/site.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, SNAPSHOT, 0, "print JSON (doc/reference/snapshot.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, WHY, 0, "print JSON (doc/reference/why.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, REPORT, 0, "print JSON (doc/reference/report.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, DIFF, 0, "print JSON (doc/reference/report-diff.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, TOP, 0, "print one picture as JSON (doc/reference/top.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, WATCH, 0, "print JSON: a line for each record (doc/reference/records.md)"},
    {"json", 0, NULL, OPTION_SWITCH, LOGS, 0, "print JSON: an object for each line (doc/reference/logs.schema.json)"},
    {"json", 0, NULL, OPTION_SWITCH, SET, 0, "print JSON: an object of keys and values"},
    {"json", 0, NULL, OPTION_SWITCH, REPLAY, 0, "print JSON: a line for each call that ended, and each event"},
    {"json", 0, NULL, OPTION_SWITCH, OMIS, 0, "print one JSON object for each reply"},
    {"node", 0, "NAME", OPTION_TEXT, DOCTOR, 0, "say whether another machine can be reached as a node, and what is there"},
    {"job", 0, "JOB", OPTION_TEXT, DOCTOR, 0, "say why this job shows nothing, or too little; @last is the latest"},
    {"json", 0, NULL, OPTION_SWITCH, DOCTOR, 0, "print JSON: version, failed, warnings, checks[]: name, state, text, remedy"},
    {"help", 'h', NULL, OPTION_SWITCH, ALL, 0, "print this text"},
};
/* clang-format on */
const size_t option_row_count = sizeof option_rows / sizeof *option_rows;
