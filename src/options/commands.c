/* SPDX-License-Identifier: Apache-2.0 */
/* What `scry help` and `scry COMMAND --help` say besides the options. No line is longer than 80 characters. */
#include "options/table.h"

/* clang-format off */
const struct command_row command_rows[COMMANDS] = {
    [COMMAND_RUN] = {
        "run", "Run a job and follow it; the exit status is the command's own",
        {"[OPTION...] [--] COMMAND [ARGUMENT...]"},
        "Runs the command, follows all its processes and sums up what they were: status,\n"
        "time, memory, processes, how it ended. Everything else is as without scry:\n"
        "streams, terminal, signals, exit status.\n",
        "Every option also comes from the environment (SCRY_SAMPLE=5) or a file\n"
        "(--config), one a line: sample 5. The command sees SCRY_JOB, the job's\n"
        "directory. SCRY=off runs the command and nothing else.\n"
        "\n"
        "Exit status: the command's own; 128 + n when signal n killed it; 126, 127 when\n"
        "it could not be executed or found; 125 when scry failed before the start.\n",
        "scry run --name build -- make -j4", WORDS_COMMAND, 1, SIZE_MAX, "no command"},
    [COMMAND_EXEC] = {
        "exec", "Run one program of a job inside any launcher",
        {"[--] PROGRAM [ARGUMENT...]"},
        "Becomes the program, with the library loaded into it that traces its functions.\n"
        "In a job (scry run) that is so anyway; it is for programs that a launcher starts\n"
        "with an environment of its own, or that are to be reached without a job: then\n"
        "the monitor is started if need be, and requests of tools can look at calls and\n"
        "values, but nothing is recorded.\n",
        "SCRY_JOB names the job. SCRY_TRACE=off: no functions are traced; SCRY_MPI=off:\n"
        "calls of MPI are not counted; both, or SCRY=off: nothing is loaded.\n"
        "\n"
        "Exit status: the program's own; 126, 127 when it could not be executed or found.\n",
        "mpirun -n 4 scry exec ./a.out", WORDS_COMMAND, 1, SIZE_MAX, "name a program"},
    [COMMAND_PS] = {
        "ps", "List jobs and their processes",
        {"[--all] [--json]"},
        "Lists the jobs: those that run with their processes and what the ranks of their\n"
        "MPI programs are in, and the last 10 that ended; the newest first. A last line\n"
        "says so when they take much of the disk.\n"
        "On a terminal, lines are cut to its width, and a narrow one shows fewer columns.\n"
        "\n"
        "  running          watched by its scry run\n"
        "  unwatched        scry run was killed, the job goes on\n"
        "  lost             both are gone, no end recorded (kill -9, the node restarted)\n"
        "  unreachable      on another host, not heard of for a while: running or dead\n"
        "  exit N, SIG...   how it ended\n",
        NULL, "scry ps"},
    [COMMAND_TOP] = {
        "top", "Watch a job live",
        {"[--once] [--json] JOB"},
        "Shows a job while it runs: the node, memory and processors over time, its\n"
        "processes, what each rank of its MPI programs is in and its share of MPI time\n"
        "(since MPI_Init, and now), and the traced functions that took the most time.\n"
        "Keys: q quits, h shows all keys: other orders, a tree, a filter, scrolling, only\n"
        "ranks or functions. When the job ends, its last picture is left.\n",
        NULL, "scry top @last", WORDS_JOBS, 1, 1},
    [COMMAND_WATCH] = {
        "watch", "Show what is recorded of a job, a line each, while it runs",
        {"[--stream NAME]... [--since T] [--grep REGEX] [--json] JOB"},
        "Shows the records of a job in the order of time, and those that come, until the\n"
        "job ends. A line has the seconds since the start, the stream, and what happened:\n"
        "\n"
        "  job        how it began and ended, and what could not be seen of it\n"
        "  node       what the node is, and figures of node and processes, at intervals\n"
        "  process    processes that begin, end and crash\n"
        "  warning    what a person should know\n"
        "  mpi        ranks that stand still\n"
        "  rule       rules that fired\n"
        "  setting    what was set, and changed while it ran\n",
        NULL, "scry watch --stream process --stream warning @last", WORDS_JOBS, 1, 1},
    [COMMAND_WHY] = {
        "why", "Say what keeps a job from going on, and who keeps whom waiting",
        {"[--all] [--settled MS] [--json] JOB"},
        "Says what keeps a job from going on, without stopping anything: for each rank of\n"
        "an MPI program whether it computes, polls, or in which call it is since when,\n"
        "for whom, and from which line; deadlocks, receives that nothing can match,\n"
        "collectives on which the ranks disagree, ranks that died or are stopped, and the\n"
        "ranks that all others wait for. Of other programs: what each thread is blocked\n"
        "in, and threads that wait for each other's mutexes. Of a job that has ended:\n"
        "when its ranks last stood still, and why.\n",
        "Exit status: 0; 3 when some rank or thread can never go on; 1, 2 for errors.\n",
        "scry why @last", WORDS_JOBS, 1, 1},
    [COMMAND_SET] = {
        "set", "Change what a running job records",
        {"JOB KEY=VALUE...", "[--json] JOB"},
        "Changes what a running job records, from now on and in all its processes. The\n"
        "job is not stopped for it. Without KEY=VALUE: shows how it is set.\n",
        NULL, "scry set @last trace='file:ocean.c !fn:get_*' min-time=1ms", WORDS_SETTINGS, 1, SIZE_MAX},
    [COMMAND_REPORT] = {
        "report", "Show what a run was",
        {"[--json] [--process PID] [--rank N] JOB", "[--json] --diff JOB JOB"},
        "Shows what a run was or, while it lasts, is: outcome, time, memory, processes,\n"
        "warnings; of traced programs the functions that took the time, who calls whom,\n"
        "the slowest calls, and what tracing cost; of MPI programs the ranks, calls, call\n"
        "sites, volumes and who sends how much to whom.\n",
        NULL, "scry report @last", WORDS_JOBS, 1, 2},
    [COMMAND_REPLAY] = {
        "replay", "Show the recorded calls in the order of time",
        {"[OPTION...] JOB"},
        "Shows the recorded calls of a job in the order of time, as a tree indented by\n"
        "depth: name(arguments), the caller's locals, {locals at the return}, = result,\n"
        "duration and source. A call with others inside it takes two lines. On a terminal\n"
        "long values are cut, elsewhere they are whole.\n",
        "On a terminal, a pager shows it: $SCRY_PAGER, $PAGER, or less; empty: none.\n",
        "scry replay --fn 'solve*' --min-time 1ms @last", WORDS_JOBS, 1, 1},
    [COMMAND_EXPORT] = {
        "export", "Write a job's trace for other programs",
        {"[OPTION...] --format FORMAT -o FILE JOB"},
        "Writes the recorded calls of a job, and the messages of an MPI program, for\n"
        "another program or as a picture. FORMAT is one of\n"
        "\n"
        "  chrome       JSON for Perfetto (ui.perfetto.dev) and chrome://tracing, with\n"
        "               values\n"
        "  speedscope   for speedscope (www.speedscope.app)\n"
        "  folded       stacks with their own time in ns, for flamegraph.pl, inferno and\n"
        "               speedscope\n"
        "  folded-cpu, folded-waiting\n"
        "               the same, but only while they had a processor, or waited\n"
        "  csv          a line a call with its values, for spreadsheets and scripts\n"
        "               (RFC 4180)\n"
        "  messages     a line a message of MPI, where and when (RFC 4180)\n"
        "  spacetime    a picture (SVG) of the ranks of an MPI program over time\n",
        NULL, "scry export --format chrome -o trace.json @last", WORDS_JOBS, 1, 1},
    [COMMAND_RM] = {
        "rm", "Remove what was recorded of jobs that are over",
        {"[OPTION...] JOB...", "[OPTION...] [--older-than AGE] [--keep-size SIZE]"},
        "Removes what was recorded of jobs that are over: those that are named, or those\n"
        "that the limits are for. The jobs themselves are never touched. Of a directory\n"
        "that was given with -o, files that scry did not write stay. A name that several\n"
        "jobs have is not taken.\n",
        NULL, "scry rm --older-than 30d --dry-run", WORDS_JOBS, 0, SIZE_MAX},
    [COMMAND_OMIS] = {
        "omis", "Speak the monitor's request language: one shot, a pipe, or a shell",
        {"[OPTION...] [-c REQUEST]...", "--list-services"},
        "Sends requests of the On-line Monitoring Interface Specification 2.0 to the\n"
        "monitor and prints the replies. Without -c, requests are read from standard\n"
        "input, one a line (empty lines and lines that start with # are skipped); on a\n"
        "terminal that is a shell with history, completion (Tab) and help.\n",
        "The exit status is 0 if no status in any reply was an error, 1 if one was, 2 if\n"
        "there was no monitor to ask.\n",
        "the process 4711, then a line when it ends\n"
        "\n"
        "  scry omis -c ': proc_attach3([], 4711, \"\")' -c ': proc_get_info([], 3)' \\\n"
        "            -c 'proc_has_terminated([]) : print([\"ended\", $proc])' \\\n"
        "            -c ': csr_enable([])' --wait 1",
        .excess = "requests are given with -c"},
    [COMMAND_MONITOR] = {
        "monitor", "Run the monitor of this node (others start it when needed)",
        {"[--daemon] [--idle SECONDS] [--log-level LEVEL]", "--state", "--reference[=PAGE]"},
        "The node monitor. Tools and scry run start it when they need it, and it ends\n"
        "when nobody has been connected for a while; by hand, for instance, to see its\n"
        "messages.\n",
        "SCRY_IDLE is the default of --idle, SCRY_LOG of --log-level.\n",
        "a monitor that stays for an hour and logs all it does\n"
        "\n"
        "  scry monitor --log-level debug --idle 3600"},
    [COMMAND_DOCTOR] = {
        "doctor", "Show what works on this machine, what does not, and why",
        {"[--json]", "--job JOB [--json]"},
        "Shows what of scry works on this machine, what does not, why, and what to do\n"
        "about it. With --job: why a job shows nothing, or too little; what was asked,\n"
        "found and lost. The exit status is 0 if nothing fails (warnings are no\n"
        "failures), else 1.\n",
        NULL,
        "only what needs attention\n"
        "\n"
        "  scry doctor --json | jq '.checks[] | select(.state != \"ok\")'"},
    [COMMAND_HELP] = {
        "help", "Show this list, or the help of one command",
        {"[COMMAND]"}, "Shows the list of commands, or the help of one.\n",
        NULL, "scry help run", WORDS_COMMANDS, 0, 1, .excess = "one command at a time"},
    [COMMAND_VERSION] = {
        "version", "Show the version", {""}, "Shows the version.\n"},
};
/* clang-format on */
