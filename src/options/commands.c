/* SPDX-License-Identifier: Apache-2.0 */
/* What `scry help` and `scry COMMAND --help` say besides the options. No line is longer than 80 characters. */
#include "options/table.h"

/* clang-format off */
const struct command_row command_rows[COMMANDS] = {
    [COMMAND_RUN] = {
        "run", "Run a job and follow it; the exit status is the command's own",
        {"[OPTION...] [--] COMMAND [ARGUMENT...]"},
        "Runs a command, follows all its processes, and prints a summary: exit status,\n"
        "time, memory, processes. Everything else is as without scry: streams, terminal,\n"
        "signals and exit status are the command's own.\n",
        "Every option can also come from the environment (SCRY_SAMPLE=5) or a file\n"
        "(--config; a line is: sample 5). The command's environment has SCRY_JOB, the\n"
        "job's directory. With SCRY=off the command runs as if scry were not there.\n"
        "\n"
        "Exit status: the command's own; 128 + n if signal n killed it; 126 or 127 if it\n"
        "could not be executed or found; 125 if scry failed before the start.\n",
        "scry run --name build -- make -j4", WORDS_COMMAND, 1, SIZE_MAX, "no command"},
    [COMMAND_PS] = {
        "ps", "List jobs and their processes",
        {"[--all] [--json] [BROKER]"},
        "Lists the jobs, the newest first: those that run, with their processes and the\n"
        "MPI calls that their ranks are in, and the last 10 that ended. If jobs take much\n"
        "of the disk, a last line says so.\n"
        "A terminal gets lines of its width; a narrow one gets fewer columns.\n"
        "\n"
        "  running          watched by its scry run\n"
        "  unwatched        scry run was killed, the job goes on\n"
        "  lost             both are gone, no end recorded (kill -9, the node restarted)\n"
        "  unreachable      on another host, not heard of for a while: running or dead\n"
        "  exit N, SIG...   how it ended\n"
        "\n"
        "BROKER: your jobs there instead, wherever they run; BROKER/USER: another user's.\n",
        NULL, "scry ps", WORDS_NONE, 0, 1, .excess = "one broker at a time"},
    [COMMAND_TOP] = {
        "top", "Watch a job live",
        {"[--once] [--json] JOB", "[--once] PID..."},
        "Shows a job while it runs: the node, memory and processors over time, its\n"
        "processes, the traced functions that took the most time, and for each rank of\n"
        "MPI programs its current call and its share of MPI time (since MPI_Init, and\n"
        "now). Keys: q quits, h shows all keys: order, tree, filter, scrolling, only\n"
        "ranks or functions. When the job ends, the last picture stays. PID: processes\n"
        "that scry did not start, and all that these have started, as far as /proc tells.\n",
        NULL, "scry top @last", WORDS_JOBS, 1, SIZE_MAX},
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
    [COMMAND_LOGS] = {
        "logs", "Show what a job printed, while it runs or afterwards",
        {"[OPTION...] JOB"},
        "Shows what a job printed: standard output and standard error, all of it on\n"
        "standard output. It is there if it went to a file, or scry keeps it\n"
        "(scry run --tee). A file or pipe gets the bytes as they were printed;\n"
        "a terminal gets the colours, and what else it might obey as \\xNN.\n",
        "Exit status: 0; 1 if nothing of it is kept; 2 for errors.\n",
        "scry logs -f @last", WORDS_JOBS, 1, 1},
    [COMMAND_WHY] = {
        "why", "Say what keeps a job from going on, and who waits for whom",
        {"[--all] [--settled MS] [--json] JOB", "[--json] PID..."},
        "Says what keeps a job from going on, and stops nothing. For each rank of an MPI\n"
        "program: does it compute, poll, or wait; in which call, since when, for whom,\n"
        "and from which line. It finds deadlocks, receives that nothing can match,\n"
        "collectives on which the ranks disagree, ranks that died or are stopped, and\n"
        "the ranks that all others wait for. For other programs: what blocks each thread,\n"
        "and threads that wait for each other's mutexes. For a job that has ended: when\n"
        "its ranks last stood still, and why. PID: the same of processes that scry did\n"
        "not start, and of all that these have started.\n",
        "Exit status: 0; 3 if some rank or thread can never go on; 1, 2 for errors.\n",
        "scry why @last", WORDS_JOBS, 1, SIZE_MAX},
    [COMMAND_SNAPSHOT] = {
        "snapshot", "Show where all threads of all processes of a job are, merged",
        {"[--all] [--queues] [--rank SET] [--thread NAME] JOB", "[--all] [--files] [--values] [--thread NAME] PID..."},
        "Shows where all threads of a running job are, as one tree: what their stacks\n"
        "have in common from the outside in, and where they part; ranks as sets such as\n"
        "0-2,7. Functions of Python stand among the others, threads that do the same are\n"
        "one line. Nothing is stopped. PID: the same of processes that scry did not\n"
        "start, and of all that these have started. `scry stack` is the same command.\n",
        "Exit status: 0; 1 if nothing could be read of some process; 2 for errors.\n",
        "scry snapshot @last", WORDS_JOBS, 1, SIZE_MAX, .alias = "stack"},
    [COMMAND_REPORT] = {
        "report", "Show what a run was, and why it failed",
        {"[--json] [--process PID] [--rank N] JOB"},
        "Shows a run, also while it lasts: outcome, time, memory, processes, warnings.\n"
        "For traced programs: the functions that took the time, who calls whom, the\n"
        "slowest calls, and what tracing cost. For MPI programs: ranks, calls, call\n"
        "sites, volumes, and who sends how much to whom.\n",
        NULL, "scry report @last", WORDS_JOBS, 1, 1, .excess = "two are compared by scry diff"},
    [COMMAND_DIFF] = {
        "diff", "Compare two runs",
        {"[--json] JOB JOB"},
        "Shows two runs side by side: outcome, time, memory, functions and MPI, and how\n"
        "much the second differs from the first. What differs most comes first.\n",
        NULL, "scry diff yesterday @last", WORDS_JOBS, 2, 2, "two jobs are compared"},
    [COMMAND_REPLAY] = {
        "replay", "Show the recorded calls in the order of time",
        {"[OPTION...] JOB"},
        "Shows the recorded calls of a job in the order of time, indented by depth:\n"
        "name(arguments), the caller's locals, {locals at the return}, = result,\n"
        "duration, and source. A call with others inside it takes two lines. A terminal\n"
        "gets long values cut, a file or pipe gets them whole.\n",
        "On a terminal, a pager shows it: $SCRY_PAGER, $PAGER, or less. Empty: no pager.\n",
        "scry replay --fn 'solve*' --min-time 1ms @last", WORDS_JOBS, 1, 1},
    [COMMAND_EXPORT] = {
        "export", "Write a job's trace for other programs",
        {"[OPTION...] --format FORMAT -o FILE JOB"},
        "Writes the recorded calls of a job, and the messages of an MPI program, for\n"
        "another program or as a picture. FORMAT is one of:\n"
        "\n"
        "  chrome       JSON for Perfetto (ui.perfetto.dev), chrome://tracing and\n"
        "               speedscope, with values\n"
        "  folded       stacks with their own time in ns, for flamegraph.pl, inferno and\n"
        "               speedscope\n"
        "  folded-cpu, folded-waiting\n"
        "               the same: only time on a processor, or only time waiting\n"
        "  folded-samples, pprof, speedscope\n"
        "               the profile, by samples: no trace is needed\n"
        "  csv          a line for each call with its values, for spreadsheets and\n"
        "               scripts (RFC 4180)\n"
        "  messages     a line for each MPI message: where and when (RFC 4180)\n"
        "  spacetime    a picture (SVG) of the ranks of an MPI program over time\n",
        NULL, "scry export --format chrome -o trace.json @last", WORDS_JOBS, 1, 1},
    [COMMAND_SET] = {
        "set", "Change what a running job records",
        {"JOB KEY=VALUE...", "[--json] JOB"},
        "Changes what a running job records, from now on and in all its processes,\n"
        "without stopping it. Without KEY=VALUE: shows the settings.\n",
        NULL, "scry set @last trace='file:ocean.c !fn:get_*' min-time=1ms", WORDS_SETTINGS, 1, SIZE_MAX},
    [COMMAND_STOP] = {
        "stop", "End a running job, or what one has left",
        {"[--kill | --signal SIGNAL] JOB"},
        "Sends SIGTERM to all processes of a running job, wherever it was started:\n"
        "programs that handle it can write their results. The job's record says who\n"
        "asked for it. Of a job that has ended: to what it has left running.\n",
        "Exit status: 0 if the signal was sent; 1, 2 for errors.\n",
        "scry stop @last", WORDS_JOBS, 1, 1},
    [COMMAND_SIGNAL] = {
        "signal", "Send a signal to a running job",
        {"JOB SIGNAL"},
        "Sends a signal, by its name (USR1) or number, to a running job, wherever\n"
        "it was started: TERM, INT, QUIT, KILL, STOP, TSTP and CONT to all its processes,\n"
        "others to its command alone. The job's record says who asked for it.\n",
        "Exit status: 0 if the signal was sent; 1, 2 for errors.\n",
        "scry signal @last USR1", WORDS_JOBS, 2, 2, "name a job and a signal: scry signal @last USR1", "one job and one signal"},
    [COMMAND_RM] = {
        "rm", "Remove what was recorded of jobs that are over",
        {"[OPTION...] JOB...", "[OPTION...] [--older-than AGE] [--keep-size SIZE]", "[OPTION...] --older-than AGE BROKER..."},
        "Removes what was recorded of jobs that are over: those that you name, or those\n"
        "beyond the limits. It never touches the jobs themselves. In a directory that was\n"
        "given with -o, files that scry did not write stay. A name that several jobs have\n"
        "is refused. A broker is told to forget its job; a record of jobs keeps it.\n",
        NULL, "scry rm --older-than 30d --dry-run", WORDS_JOBS, 0, SIZE_MAX},
    [COMMAND_SERVE] = {
        "serve", "Show jobs in a browser, and answer programs by HTTP",
        {"[OPTION...]", "--link [--rights LIST]", "--bearer [--rights LIST] [--for AGE]"},
        "Shows your jobs in a browser: those that run, as they run, and those that are\n"
        "over. It prints a link, which lets one browser in, once. Only this machine can\n"
        "reach it, unless --address says otherwise, which needs TLS. It runs until it is\n"
        "ended (Ctrl-C).\n"
        "\n"
        "  --link     print another link, for another browser\n"
        "  --bearer   print a token for scripts\n",
        "Rights: observe (see jobs), control (change and signal them), submit (tasks),\n"
        "site (all jobs of a site). All include observe.\n",
        "scry serve --port 8080", WORDS_NONE, 0, 0},
    [COMMAND_SUBMIT] = {
        "submit", "Queue a program to be run and measured, some times or over many sizes",
        {"[OPTION...] [--] PROGRAM [ARGUMENT...]"},
        "Makes a task of a program, what to collect of it, and where it is to run, and\n"
        "queues it. A runner of your own executes one task after the other, each run as\n"
        "a job of scry run, and goes on when you log out. Prints the task's id.\n"
        "\n"
        "With several numbers of processes (-n 1,2,4,8) each becomes a task, and all a\n"
        "series: scry task scaling shows speed-up and efficiency.\n",
        "Exit status: 0; 1 if --wait was given and the task did not end well; 2 if it was\n"
        "not queued.\n",
        "scry submit -n 4 --repeat 3 --wait ./ocean 320 320", WORDS_COMMAND, 1, SIZE_MAX, "name a program"},
    [COMMAND_TASK] = {
        "task", "Show tasks, cancel and repeat them, compare their runs",
        {"ls [--all] [--json]", "show [--json] TASK", "cancel TASK...", "rerun TASK...", "rm TASK...",
         "compare [--json] TASK TASK", "scaling [--json] TASK..."},
        "Shows what became of tasks that scry submit has queued.\n"
        "\n"
        "  ls        list the tasks, the newest first: the last 20\n"
        "  show      show one: its phases, how far it is, its runs and their jobs\n"
        "  cancel    end it: SIGTERM, and SIGKILL after 5 s\n"
        "  rerun     queue it again; its earlier runs stay\n"
        "  rm        remove tasks that are over, with their runs\n"
        "  compare   compare the last runs of two tasks, as scry diff\n"
        "  scaling   seconds, speed-up and efficiency over numbers of processes, of a\n"
        "            series or of the tasks that you name\n"
        "\n"
        "TASK is an id, its unique beginning, a name (the newest of several) or @last.\n",
        NULL, "scry task show @last", WORDS_TASKS, 1, SIZE_MAX, "ls, show, cancel, rerun, rm, compare or scaling"},
    [COMMAND_DOCTOR] = {
        "doctor", "Show what works on this machine, what does not, and why",
        {"[--json]", "--job JOB [--json]", "--node NAME [--json]"},
        "Shows what works on this machine, what does not, why, and what to do about it.\n"
        "With --job: why a job shows nothing, or too little; what was requested, found\n"
        "and lost.\n"
        "With --node: whether another machine can be reached as a node, and what is\n"
        "there.\n"
        "\n"
        "Exit status: 0 if nothing failed (warnings are no failures), else 1.\n",
        NULL,
        "show only what needs attention\n"
        "\n"
        "  scry doctor --json | jq '.checks[] | select(.state != \"ok\")'"},
    [COMMAND_HELP] = {
        "help", "Show this list, or the help of one command",
        {"[COMMAND]"}, "Shows the list of commands, or the help of one.\n",
        NULL, "scry help run", WORDS_COMMANDS, 0, 1, .excess = "one command at a time"},
    [COMMAND_VERSION] = {
        "version", "Show the version", {""}, "Shows the version.\n"},
    [COMMAND_EXEC] = {
        "exec", "Run one program of a job inside any launcher",
        {"[--] PROGRAM [ARGUMENT...]"},
        "Becomes the program, and loads the library into it that traces its functions.\n"
        "Programs of a job (scry run) have that library anyway. Use scry exec where a\n"
        "launcher starts programs with an environment of its own, or to reach a program\n"
        "without a job. Without a job nothing is recorded: the monitor is started if\n"
        "needed, and tools can request calls and values.\n",
        "SCRY_JOB names the job. SCRY_TRACE=off: functions are not traced. SCRY_MPI=off:\n"
        "MPI calls are not counted. Both, or SCRY=off: nothing is loaded.\n"
        "\n"
        "Exit status: the program's own; 126, 127 when it could not be executed or found.\n",
        "mpirun -n 4 scry exec ./a.out", WORDS_COMMAND, 1, SIZE_MAX, "name a program"},
    [COMMAND_SITE] = {
        "site", "Show all jobs of a site, and those that do not do what they should",
        {"[OPTION...]"},
        "Shows what a record (scry record) knows of all jobs: how many on which node, of\n"
        "whom, in which state; nodes with problems; and jobs that do not do what they\n"
        "should, with the figures that say so, and advice:\n"
        "\n"
        "  idle, unused       processors are reserved, and not used\n"
        "  stalled            nothing of it moves\n"
        "  thrashing          its node waits for memory\n"
        "  one_rank           one rank does the work of all\n"
        "  memory_short, memory_unused\n"
        "                     far off the memory that it asked for\n"
        "  throttled          more threads than processors\n"
        "  overtime           needs more time than it asked for\n",
        NULL, "scry site --since 7d --owner USER", WORDS_NONE, 0, 0},
    [COMMAND_RECORD] = {
        "record", "Keep what is known of jobs in a database",
        {"[OPTION...] --broker URL", "[OPTION...] --import DIR...", "[OPTION...] --remove JOB..."},
        "Follows all jobs of a user at a broker, or of a site (--owner all), and stores\n"
        "what they publish, until it is ended. Or stores job directories (--import), also\n"
        "again: what is there is not stored twice. Other commands find jobs there when\n"
        "their directories are gone. The database is SQLite, or PostgreSQL by its URL;\n"
        "its tables and views are for you, too: see scry-record(1).\n",
        "Exit status: 0; 1 if something could not be stored; 2 for wrong arguments.\n",
        "scry record --broker local --keep 30d", WORDS_JOBS, 0, SIZE_MAX},
    [COMMAND_PUBLISH] = {
        "publish", "Send what was recorded of a job to a broker",
        {"--broker URL JOB..."},
        "Sends what was recorded of a job to an MQTT broker, as scry run --broker does\n"
        "while a job runs: for jobs that ran without it, or while the broker was away.\n"
        "A job that still runs is followed to its end.\n",
        "Default: SCRY_BROKER for --broker.\n",
        "scry publish --broker mqtt://broker.example @last", WORDS_JOBS, 1, SIZE_MAX},
    [COMMAND_BROKER] = {
        "broker", "Run a private MQTT broker (started when needed)",
        {"[--start] [--tls [ADDRESS:]PORT --cert FILE --key FILE ...]", "--status | --stop"},
        "Runs a mosquitto of your own, on a socket that nobody else can open. Jobs are\n"
        "published to it with `scry run --broker local`, which starts it if it does not\n"
        "run. Without --start it stays in the foreground.\n",
        "Exit status: 0; 1 if it does not run (--status, --stop); 2 for errors.\n",
        "scry broker --start"},
    [COMMAND_KEYS] = {
        "keys", "Say who may see and steer your jobs through a broker",
        {"init", "issue [OPTION...] -o FILE", "revoke [--broker URL] SERIAL|NAME", "list [--json]", "show [--json] [FILE]"},
        "Through a broker a job answers only to those that have a key of its user. Each\n"
        "user is an authority of their own, which signs the keys: for yourself elsewhere,\n"
        "for others, and for jobs that cannot read your home directory.\n"
        "\n"
        "  init      make your authority, once, and your own key with all rights\n"
        "  issue     write a new key to FILE\n"
        "  revoke    make a key useless, before its time\n"
        "  list      list the keys that were issued\n"
        "  show      show who a key is for, what it may do to which jobs, and how long\n",
        "Rights: observe (see), control (change, stop, end), memory (read and write\n"
        "values, call functions). All include observe.\n",
        "a colleague may look at one group of jobs, for two weeks\n"
        "\n"
        "  scry keys init\n"
        "  scry keys issue --name colleague --job 'climate-*' --for 2w -o colleague.pem",
        WORDS_ACTIONS, 1, 2, "init, issue, revoke, list or show"},
    [COMMAND_LINK] = {
        "link", "Let other machines reach the monitor of this one",
        {"serve [--listen HOST:PORT]...", "await [--listen HOST:PORT]...", "join", "bridge", "copy HOST"},
        "Carries the connections of tools and monitors between machines. scry starts it\n"
        "when it is needed. A connection that breaks is replaced by another one within a\n"
        "minute, and nothing is lost.\n"
        "\n"
        "  serve     be the end of such connections, beside a monitor that runs, or is\n"
        "            started for them\n"
        "  bridge    what ssh starts on the other machine\n"
        "  await     take monitors that come by themselves, from a job's other machines\n"
        "  join      bring the monitor here to the one that SCRY_JOIN names\n"
        "  copy      put scry onto another machine by ssh, into your cache directory\n"
        "            there\n"
        "\n"
        "Nothing listens on the network but serve --listen, which lets in those that\n"
        "have a key of yours (scry keys), and await, which prints a secret for a job.\n",
        NULL, "scry link serve --listen '*:7070'", WORDS_ACTIONS, 1, 2, "serve, await, join, bridge, or copy HOST"},
    [COMMAND_MONITOR] = {
        "monitor", "Run the monitor of this node (started when needed)",
        {"[--daemon] [--idle SECONDS] [--log-level LEVEL]", "--listen HOST:PORT... [OPTION...]", "--state", "--reference[=PAGE]"},
        "Runs the monitor of this node. Tools and scry run start it when they need it,\n"
        "and it ends when nobody has been connected for a while. Start it yourself to see\n"
        "its messages, for instance.\n",
        "Defaults: SCRY_IDLE for --idle, which is off with --listen; SCRY_LOG for\n"
        "--log-level.\n",
        "stay for an hour and log everything\n"
        "\n"
        "  scry monitor --log-level debug --idle 3600"},
    [COMMAND_OMIS] = {
        "omis", "Speak the monitor's request language: one shot, a pipe, or a shell",
        {"[OPTION...] [-c REQUEST]...", "--list-services"},
        "Sends requests of the On-line Monitoring Interface Specification 2.0 to the\n"
        "monitor and prints the replies. Without -c, it reads requests from standard\n"
        "input, one a line, and skips empty lines and lines that start with #. On a\n"
        "terminal it is a shell with history, completion (Tab) and help.\n",
        "Exit status: 0 if no status in any reply was an error, 1 if one was, 2 if no\n"
        "monitor could be asked.\n",
        "attach process 4711, print a line when it ends\n"
        "\n"
        "  scry omis -c ': proc_attach3([], 4711, \"\")' -c ': proc_get_info([], 3)' \\\n"
        "            -c 'proc_has_terminated([]) : print([\"ended\", $proc])' \\\n"
        "            -c ': csr_enable([])' --wait 1",
        .excess = "give requests with -c"},
};
/* clang-format on */
