/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/kinds.h"

#include <string.h>

static const char *const streams[STREAM_COUNT] = {
    [STREAM_JOB] = "job",       [STREAM_NODE] = "node",       [STREAM_PROCESS] = "process",
    [STREAM_SCRIPT] = "script", [STREAM_PYTHON] = "python",   [STREAM_FUNCTION] = "function",
    [STREAM_LOG] = "log",       [STREAM_WARNING] = "warning", [STREAM_MPI] = "mpi",
    [STREAM_RULE] = "rule",     [STREAM_SETTING] = "setting",
};

const char *record_stream_name(enum record_stream stream)
{
    return stream < STREAM_COUNT ? streams[stream] : NULL;
}

/* ---- fields ---- */

#define AT(member) FIELD_AT(struct ROW, member)

#define ROW spool_record
static const struct field spool_fields[] = {{"format", FIELD_CHOICE, AT(format), .choices = "scry-spool"},
                                            {"version", FIELD_COUNT, AT(version)},
                                            {"job", FIELD_TEXT, AT(job)},
                                            {"node", FIELD_TEXT, AT(node), .flags = FIELD_WHERE_KNOWN},
                                            {0}};
#undef ROW

#define ROW node_record
static const struct field node_fields[] = {
    {"host", FIELD_TEXT, AT(host)},
    {"os", FIELD_TEXT, AT(os)},
    {"release", FIELD_TEXT, AT(release)},
    {"arch", FIELD_TEXT, AT(arch)},
    {"cpus", FIELD_COUNT, AT(cpus), .flags = FIELD_NEGATIVE_IS_NULL},
    {"memory_bytes", FIELD_BYTES, AT(memory_bytes), .flags = FIELD_NEGATIVE_IS_NULL},
    {0}};
#undef ROW

#define ROW method_record
static const struct field method_fields[] = {
    {"singly", FIELD_BOOL, AT(singly), .about = "processes too short to be sampled are listed one by one"},
    {"reason", FIELD_TEXT, AT(reason), .about = "why they are not"},
    {0}};
#undef ROW

#define ROW tracing_record
static const struct field tracing_fields[] = {{"settings", FIELD_OBJECT, AT(settings)}, {0}};
#undef ROW

#define ROW script_record
static const struct field script_fields[] = {{"path", FIELD_TEXT, AT(path)}, {0}};
#undef ROW

#define ROW untraced_record
static const struct field untraced_fields[] = {{"text", FIELD_TEXT, AT(text)}, {0}};
#undef ROW

#define ROW request_record
static const struct field request_fields[] = {
    {"who", FIELD_TEXT, AT(who), .about = "the name of the key; of a tool on the job's nodes its program"},
    {"serial", FIELD_TEXT, AT(serial), .about = "of the key; \"\": there is none"},
    {"pid", FIELD_INTEGER, AT(pid), .flags = FIELD_OPTIONAL, .about = "of the tool; 0: it is on no node of the job"},
    {"uid", FIELD_INTEGER, AT(uid), .flags = FIELD_OPTIONAL, .about = "the user of the job's monitor"},
    {"request", FIELD_TEXT, AT(request), .about = "at most 4096 bytes of it"},
    {"status", FIELD_TEXT, AT(status), .about = "OMIS_OK, or the first error"},
    {"why", FIELD_TEXT, AT(why), .about = "it was refused"},
    {"left_out", FIELD_INTEGER, AT(left_out), .flags = FIELD_OPTIONAL,
     .about = "so many requests are not recorded, for they came too quickly; then the other texts are empty"},
    {0}};
#undef ROW

#define ROW setting_record
static const struct field setting_fields[] = {
    {"key", FIELD_TEXT, AT(key)}, {"value", FIELD_TEXT, AT(value)}, {"taken", FIELD_BOOL, AT(taken)}, {0}};
#undef ROW

#define ROW command_fields
static const struct field command_fields[] = {
    {"argv", FIELD_LIST, AT(argv), .flags = FIELD_WHERE_KNOWN, .of = fields_texts},
    {"argv_cut", FIELD_BOOL, AT(argv_cut), .flags = FIELD_WHERE_KNOWN, .about = "there is more of argv"},
    {"cwd", FIELD_TEXT, AT(cwd), .flags = FIELD_WHERE_KNOWN},
    {0}};
#undef ROW

#define ROW process_record
static const struct field process_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"ppid", FIELD_COUNT, AT(ppid)},
    {"start", FIELD_NUMBER, AT(start), .about = "seconds since the start of the job"},
    {"name", FIELD_TEXT, AT(name)},
    {"", FIELD_PART, AT(command), .of = command_fields},
    {0}};
#undef ROW

#define ROW process_bytes
#define BYTES(name, member) \
    { \
        name, FIELD_BYTES, AT(member), .flags = FIELD_NEGATIVE_IS_NULL | FIELD_OPTIONAL \
    }
static const struct field process_bytes_fields[] = {
    {"read_bytes", FIELD_BYTES, AT(read), .flags = FIELD_NEGATIVE_IS_NULL | FIELD_OPTIONAL,
     .about = "by itself, at least, in whole kilobytes of each thread; null: unknown"},
    BYTES("written_bytes", written),
    BYTES("disk_read_bytes", disk_read),
    BYTES("disk_written_bytes", disk_written),
    {0}};
#undef BYTES
#undef ROW

#define ROW process_end_record
static const struct field process_end_fields[] = {
    {"", FIELD_PART, AT(process), .of = process_fields},
    {"end", FIELD_NUMBER, AT(end), .about = "seconds since the start of the job"},
    {"cpu_ns", FIELD_NS, AT(cpu_ns)},
    {"threads", FIELD_COUNT, AT(threads), .about = "the most at once"},
    {"peak_rss", FIELD_BYTES, AT(peak_rss)},
    {"status", FIELD_COUNT, AT(status), .flags = FIELD_NEGATIVE_IS_NULL, .about = "as of wait(2); null: unknown"},
    {"source", FIELD_CHOICE, AT(source), .flags = FIELD_WHERE_KNOWN, .choices = "event|pidfd|wait",
     .about = "where the status is from"},
    {"why", FIELD_TEXT, AT(why), .flags = FIELD_WHERE_KNOWN, .about = "it is unknown"},
    {"", FIELD_PART, AT(bytes), .of = process_bytes_fields},
    {0}};
#undef ROW

#define ROW withdrawn_record
static const struct field withdrawn_fields[] = {{"pid", FIELD_COUNT, AT(pid)},
                                                {"peak_processes", FIELD_COUNT, AT(peak_processes)},
                                                {"peak_threads", FIELD_COUNT, AT(peak_threads)},
                                                {0}};
#undef ROW

#define ROW tree_fields
static const struct field tree_fields[] = {
    {"processes", FIELD_COUNT, AT(processes)},
    {"threads", FIELD_COUNT, AT(threads)},
    {"rss", FIELD_BYTES, AT(rss)},
    {"cpu_ns", FIELD_NS, AT(cpu_ns), .about = "of all processes until now, of those that have ended, too"},
    {"started", FIELD_COUNT, AT(started)},
    {"ended", FIELD_COUNT, AT(ended)},
    {"peak_processes", FIELD_COUNT, AT(peak_processes)},
    {"peak_threads", FIELD_COUNT, AT(peak_threads)},
    {0}};
#undef ROW

#define ROW system_fields
#define UNKNOWN .flags = FIELD_NEGATIVE_IS_NULL
static const struct field system_fields[] = {
    {"load", FIELD_NUMBER, AT(load)},
    {"run_queue", FIELD_COUNT, AT(run_queue), UNKNOWN},
    {"disk_wait", FIELD_COUNT, AT(disk_wait), UNKNOWN, .about = "tasks that wait for a disk"},
    {"memory_free_bytes", FIELD_BYTES, AT(memory_free_bytes), UNKNOWN,
     .about = "that nobody uses, not even as a cache"},
    {"memory_available_bytes", FIELD_BYTES, AT(memory_available_bytes), UNKNOWN,
     .about = "that programs can have, caches with it (MemAvailable)"},
    {"swap_free_bytes", FIELD_BYTES, AT(swap_free_bytes), UNKNOWN},
    {"pages_in", FIELD_COUNT, AT(pages_in), UNKNOWN, .about = "this and the next, a second"},
    {"pages_out", FIELD_COUNT, AT(pages_out), UNKNOWN},
    {"disk_reads", FIELD_COUNT, AT(disk_reads), UNKNOWN},
    {"disk_writes", FIELD_COUNT, AT(disk_writes), UNKNOWN},
    {"packets", FIELD_COUNT, AT(packets), UNKNOWN},
    {0}};
#undef UNKNOWN
#undef ROW

#define ROW sample_record
static const struct field sample_fields[] = {
    {"tree", FIELD_OBJECT, AT(tree), .of = tree_fields, .about = "the job's processes together"},
    {"system", FIELD_OBJECT, AT(system), .flags = FIELD_WHERE_KNOWN | FIELD_POINTER, .of = system_fields,
     .about = "the node"},
    {"alive", FIELD_LIST, AT(alive), .of = (const struct field[]){{"", FIELD_LIST}, {0}},
     .about = "[pid, state, rss, peak_rss, cpu_ns, threads] of each process of which something changed"},
    {0}};
#undef ROW

#define ROW gap_record
static const struct field gap_fields[] = {
    {"from", FIELD_NUMBER, AT(from)}, {"to", FIELD_NUMBER, AT(to)}, {"reason", FIELD_TEXT, AT(reason)}, {0}};
#undef ROW

#define ROW warning_record
static const struct field warning_fields[] = {{"kind", FIELD_TEXT, AT(kind)},
                                              {"note", FIELD_TEXT, AT(note), .flags = FIELD_WHERE_KNOWN},
                                              {"fields", FIELD_OBJECT, AT(fields), .flags = FIELD_WHERE_KNOWN},
                                              {"text", FIELD_TEXT, AT(text)},
                                              {0}};
#undef ROW

#define ROW crash_record
static const struct field crash_fields[] = {{"pid", FIELD_COUNT, AT(pid)},
                                            {"name", FIELD_TEXT, AT(name)},
                                            {"signal", FIELD_COUNT, AT(signal)},
                                            {"core_dumped", FIELD_BOOL, AT(core_dumped)},
                                            {0}};
#undef ROW

#define ROW stall_record
static const struct field stall_fields[] = {
    {"seconds", FIELD_SECONDS, AT(seconds)},
    {"ranks", FIELD_COUNT, AT(ranks)},
    {"why", FIELD_TEXT, AT(why)},
    {"late", FIELD_COUNT, AT(late), FIELD_OPTIONAL,
     .about = "the process of a rank that computes while others wait for it; 0: there is none"},
    {0}};
#undef ROW

#define ROW standing_record
static const struct field standing_fields[] = {
    {"still", FIELD_BOOL, AT(still), .about = "false: it goes on"},
    {"seconds", FIELD_SECONDS, AT(seconds), .about = "for which it had done nothing then"},
    {"deadlock", FIELD_BOOL, AT(deadlock), .about = "it can never go on"},
    {"text", FIELD_TEXT, AT(text), .flags = FIELD_WHERE_KNOWN, .about = "what it waits for, and where"},
    {0}};
#undef ROW

static const struct field result_fields[] = {{"action", FIELD_COUNT},
                                             {"service", FIELD_TEXT},
                                             {"objects", FIELD_TEXT},
                                             {"status", FIELD_INTEGER},
                                             {"error", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                             {"result", FIELD_TEXT},
                                             {0}};
static const struct field count_fields[] = {{"rule", FIELD_TEXT}, {"fired", FIELD_COUNT}, {"failed", FIELD_COUNT}, {0}};

#define ROW rule_record
static const struct field rule_fields[] = {
    {"rule", FIELD_TEXT, AT(rule)},
    {"fired", FIELD_COUNT, AT(fired)},
    {"results", FIELD_LIST, AT(results), .of = result_fields, .say = "{service}[ {error}][ {result}]"},
    {0}};
#undef ROW

#define ROW file_row
const struct field record_file_fields[] = {
    {"path", FIELD_TEXT, AT(path),
     .about = "of a long one the end; pipes, sockets, and terminals and devices are one each"},
    {"program", FIELD_TEXT, AT(program), .about = "the name of the process; all of one name are one"},
    {"pid", FIELD_COUNT, AT(pid), .about = "of the first of them"},
    {"read_bytes", FIELD_BYTES, AT(read_bytes)},
    {"written_bytes", FIELD_BYTES, AT(written_bytes)},
    {"reads", FIELD_COUNT, AT(reads), .about = "calls; a stream of the C library is one"},
    {"writes", FIELD_COUNT, AT(writes)},
    {0}};
#undef ROW

#define ROW files_record
static const struct field files_fields[] = {{"files", FIELD_LIST, AT(files), .of = record_file_fields,
                                             .about = "with most bytes; those come first",
                                             .say = "{path} ({program}): read {read_bytes}, wrote {written_bytes}"},
                                            {"others", FIELD_COUNT, AT(others), .about = "that are not listed"},
                                            {"other_read_bytes", FIELD_BYTES, AT(other_read_bytes)},
                                            {"other_written_bytes", FIELD_BYTES, AT(other_written_bytes)},
                                            {0}};
#undef ROW

#define ROW syscall_count_row
const struct field record_syscall_fields[] = {
    {"call", FIELD_TEXT, AT(call), .about = "its name, or its number"},
    {"count", FIELD_COUNT, AT(count)},
    {"seconds", FIELD_SECONDS, AT(ns), .about = "from its beginning to its end, waiting included, of all threads"},
    {0}};
const struct field record_syscall_process_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)}, {"", FIELD_PART, .of = record_syscall_fields}, {0}};
#undef ROW

#define ROW syscalls_record
static const struct field syscalls_fields[] = {{"calls", FIELD_LIST, AT(calls), .of = record_syscall_fields,
                                                .about = "of all processes", .say = "{call} {count} times, {seconds}"},
                                               {"processes", FIELD_LIST, AT(processes),
                                                .of = record_syscall_process_fields,
                                                .about = "by process; at most 300, those that took longest"},
                                               {0}};
#undef ROW

#define ROW rules_record
static const struct field rules_fields[] = {
    {"list", FIELD_LIST, AT(list), .of = count_fields, .about = "how often each fired, and how often an action failed",
     .say = "{rule} fired {fired} time{fired?|s}[, an action failed {failed} time{failed?|s}]"},
    {0}};
#undef ROW

#define UNKNOWN .flags = FIELD_NEGATIVE_IS_NULL

#define ROW load_fields
static const struct field load_fields[] = {
    {"cpu", FIELD_NUMBER, AT(cpu), UNKNOWN, .about = "share of all processors that was busy"},
    {"cpu_peak", FIELD_NUMBER, AT(cpu_peak), UNKNOWN, .about = "the same at the busiest moment"},
    {"iowait", FIELD_NUMBER, AT(iowait), UNKNOWN, .about = "share in which a processor waited for a disk"},
    {"steal", FIELD_NUMBER, AT(steal), UNKNOWN, .about = "share that the hypervisor took"},
    {"load", FIELD_NUMBER, AT(load), UNKNOWN, .about = "average of one minute"},
    {0}};
#undef ROW

#define ROW pressure_fields
static const struct field pressure_fields[] = {{"cpu", FIELD_NUMBER, AT(cpu), UNKNOWN},
                                               {"memory", FIELD_NUMBER, AT(memory), UNKNOWN},
                                               {"memory_full", FIELD_NUMBER, AT(memory_full), UNKNOWN},
                                               {"io", FIELD_NUMBER, AT(io), UNKNOWN},
                                               {"io_full", FIELD_NUMBER, AT(io_full), UNKNOWN},
                                               {0}};
#undef ROW

#define ROW memory_fields
static const struct field memory_fields[] = {{"total_bytes", FIELD_BYTES, AT(total_bytes), UNKNOWN},
                                             {"available_bytes", FIELD_BYTES, AT(available_bytes), UNKNOWN},
                                             {"available_least_bytes", FIELD_BYTES, AT(available_least_bytes), UNKNOWN},
                                             {"swap_total_bytes", FIELD_BYTES, AT(swap_total_bytes), UNKNOWN},
                                             {"swap_free_bytes", FIELD_BYTES, AT(swap_free_bytes), UNKNOWN},
                                             {0}};
#undef ROW

#define ROW traffic_fields
static const struct field traffic_fields[] = {{"disk_read_bytes", FIELD_NUMBER, AT(disk_read_bytes), UNKNOWN},
                                              {"disk_written_bytes", FIELD_NUMBER, AT(disk_written_bytes), UNKNOWN},
                                              {"received_bytes", FIELD_NUMBER, AT(received_bytes), UNKNOWN},
                                              {"sent_bytes", FIELD_NUMBER, AT(sent_bytes), UNKNOWN},
                                              {"network_errors", FIELD_NUMBER, AT(network_errors), UNKNOWN},
                                              {0}};
#undef ROW

static const struct field filesystem_fields[] = {
    {"path", FIELD_TEXT},
    {"uses", FIELD_TEXT, .about = "of the job: work, temporary, job directory, home, shared memory"},
    {"total_bytes", FIELD_BYTES},
    {"free_bytes", FIELD_BYTES, .about = "for this user"},
    {"inodes", FIELD_COUNT},
    {"free_inodes", FIELD_COUNT},
    {"first_free_bytes", FIELD_BYTES, .flags = FIELD_OPTIONAL, .about = "when the job was seen first"},
    {0}};
static const struct field cgroup_fields[] = {
    {"version", FIELD_COUNT},
    {"path", FIELD_TEXT},
    {"memory_bytes", FIELD_BYTES, .flags = FIELD_OPTIONAL},
    {"memory_needed_bytes", FIELD_BYTES, .flags = FIELD_OPTIONAL,
     .about = "without files, which can be read again; near the limit only"},
    {"memory_peak_bytes", FIELD_BYTES, .flags = FIELD_OPTIONAL,
     .about = "since there is the group, which may be older than the job"},
    {"job_memory_peak_bytes", FIELD_BYTES, .flags = FIELD_OPTIONAL,
     .about = "that, if the peak was while the job was in the group"},
    {"memory_limit_bytes", FIELD_BYTES, .flags = FIELD_OPTIONAL},
    {"tasks", FIELD_COUNT, .flags = FIELD_OPTIONAL},
    {"tasks_limit", FIELD_COUNT, .flags = FIELD_OPTIONAL},
    {"cpus_limit", FIELD_NUMBER, .flags = FIELD_OPTIONAL},
    {"throttled", FIELD_NUMBER, .flags = FIELD_OPTIONAL,
     .about = "share of the periods in which it was kept from the processors"},
    {"oom_kills", FIELD_COUNT, .flags = FIELD_OPTIONAL, .about = "since there is the group"},
    {"job_oom_kills", FIELD_COUNT, .flags = FIELD_OPTIONAL,
     .about = "while the job was in it, and in those where it was before"},
    {0}};

#define ROW health_record
static const struct field health_fields[] = {
    {"seconds", FIELD_NUMBER, AT(seconds), .about = "since the record before: all shares are of this time"},
    {"load", FIELD_OBJECT, AT(load), .of = load_fields},
    {"pressure", FIELD_OBJECT, AT(pressure), .of = pressure_fields,
     .about = "share of the time in which some tasks, or all (full), waited"},
    {"memory", FIELD_OBJECT, AT(memory), .of = memory_fields},
    {"traffic", FIELD_OBJECT, AT(traffic), .of = traffic_fields, .about = "a second, of the whole node"},
    {"filesystems", FIELD_LIST, AT(filesystems), .of = filesystem_fields, .flags = FIELD_WHERE_KNOWN},
    {"cgroup", FIELD_OBJECT, AT(cgroup), .of = cgroup_fields, .flags = FIELD_WHERE_KNOWN},
    {"processes", FIELD_LIST, AT(processes), .of = (const struct field[]){{"", FIELD_LIST}, {0}},
     .flags = FIELD_WHERE_KNOWN,
     .about =
         "[pid, read_bytes, written_bytes, open_files, open_files_limit] of each of which something changed; bytes "
         "are those of its calls to read and write, from its start on; -1: unknown; no limit is null"},
    {0}};
#undef ROW

#define ROW memory_record
static const struct field job_memory_fields[] = {
    {"rss_bytes", FIELD_BYTES, AT(rss), .about = "of all processes; pages that they share count for each"},
    {"pss_bytes", FIELD_BYTES, AT(pss), .about = "of all processes; pages that they share count once (PSS)"},
    {"processes", FIELD_COUNT, AT(processes)},
    {"unread", FIELD_COUNT, AT(unread),
     .about = "of these, whose PSS may not be read, or would take too long: their RSS is in pss_bytes"},
    {0}};
#undef ROW

#define LEVELS "error|warning|info|debug"
#define ROW log_record
static const struct field log_fields[] = {
    {"file", FIELD_TEXT, AT(file)},
    {"pattern", FIELD_TEXT, AT(pattern), .about = "its name, or the regular expression"},
    {"level", FIELD_CHOICE, AT(level), .choices = LEVELS},
    {"text", FIELD_TEXT, AT(text)},
    {"text_cut", FIELD_BOOL, AT(text_cut), .flags = FIELD_WHERE_KNOWN},
    {"line", FIELD_COUNT, AT(line), UNKNOWN, .about = "in the file, from 1"},
    {"folded", FIELD_COUNT, AT(folded), .about = "lines that matched the same since the last record, and have none"},
    {"fields", FIELD_OBJECT, AT(fields), .flags = FIELD_WHERE_KNOWN, .about = "named groups of the expression"},
    {"place", FIELD_TEXT, AT(place), .flags = FIELD_WHERE_KNOWN,
     .about = "of an exception of Python, by its traceback: FILE:LINE of the innermost line that is of no library"},
    {"above", FIELD_TEXT, AT(above), .flags = FIELD_WHERE_KNOWN,
     .about = "of an exception of Python that tells that a command failed: the line above its traceback"},
    {"written", FIELD_NUMBER, AT(written), .flags = FIELD_ZERO_IS_NULL | FIELD_WHERE_KNOWN,
     .about = "when the file was written last before it was read, in seconds since the start of the job"},
    {0}};
#undef ROW

#define ROW log_folded_record
static const struct field log_folded_fields[] = {{"file", FIELD_TEXT, AT(file)},
                                                 {"pattern", FIELD_TEXT, AT(pattern)},
                                                 {"level", FIELD_CHOICE, AT(level), .choices = LEVELS},
                                                 {"lines", FIELD_COUNT, AT(lines)},
                                                 {0}};
#undef ROW

#define ROW log_file_record
static const struct field log_file_fields[] = {
    {"file", FIELD_TEXT, AT(file)},
    {"state", FIELD_CHOICE, AT(state), .choices = "watched|waited_for|rotated|truncated|removed|skipped|unwatched",
     .about = "skipped: a part was passed over; unwatched: the reason says why"},
    {"reason", FIELD_TEXT, AT(reason), .flags = FIELD_WHERE_KNOWN},
    {"bytes", FIELD_BYTES, AT(bytes), UNKNOWN, .about = "that were passed over"},
    {"expressions", FIELD_LIST, AT(expressions), .flags = FIELD_WHERE_KNOWN, .of = fields_texts,
     .about = "of --log, for its lines"},
    {0}};
#undef ROW

#define ROW log_last_record
static const struct field log_last_fields[] = {
    {"file", FIELD_TEXT, AT(file)},
    {"quiet_seconds", FIELD_NUMBER, AT(quiet_seconds), UNKNOWN, .about = "since the last of the lines was written"},
    {"lines", FIELD_LIST, AT(lines), .of = fields_texts, .about = "whatever they say; long ones are cut"},
    {"pid", FIELD_COUNT, AT(pid), .flags = FIELD_NEGATIVE_IS_NULL | FIELD_OPTIONAL,
     .about = "of a process that failed, and for which a script had sent its output to this file"},
    {"line", FIELD_COUNT, AT(line), .flags = FIELD_ZERO_IS_NULL | FIELD_WHERE_KNOWN,
     .about = "the number of the last one in the file"},
    {"shared", FIELD_BOOL, AT(shared), .flags = FIELD_WHERE_KNOWN,
     .about = "of such a process: what had started it has the file open, too, and may have written the last lines"},
    {"output", FIELD_LIST, AT(output), .of = fields_texts, .flags = FIELD_WHERE_KNOWN,
     .about = "of standard error: the last lines of standard output, if they were not written long before"},
    {0}};
#undef ROW

#define ROW progress_record
static const struct field progress_fields[] = {
    {"source", FIELD_TEXT, AT(source), .about = "where it was read"},
    {"done", FIELD_NUMBER, AT(done)},
    {"total", FIELD_NUMBER, AT(total), .about = "0: it is not known any more how far it is"},
    {"left_seconds", FIELD_NUMBER, AT(left_seconds), UNKNOWN, .about = "until it is done, at the rate until now"},
    {0}};
#undef ROW

#define ROW metric_record
static const struct field metric_fields[] = {
    {"source", FIELD_TEXT, AT(source), .about = "where it was read; scry_metric: the program said it itself"},
    {"name", FIELD_TEXT, AT(name)},
    {"value", FIELD_NUMBER, AT(value), .about = "the last one"},
    {"least", FIELD_NUMBER, AT(least), .about = "since the record before"},
    {"most", FIELD_NUMBER, AT(most), .about = "since the record before"},
    {"values", FIELD_COUNT, AT(values),
     .about =
         "since the record before; of output that is only looked at now and then, those seen. 0: the numbers above are "
         "older"},
    {"undefined", FIELD_COUNT, AT(undefined), .about = "so often since then it was not a number, or infinite"},
    {0}};
#undef ROW

#define ROW line_fields
static const struct field line_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"language", FIELD_CHOICE, AT(language), .choices = "bash|sh|python"},
    {"file", FIELD_TEXT, AT(file)},
    {"line", FIELD_COUNT, AT(line), UNKNOWN},
    {"function", FIELD_TEXT, AT(function), .flags = FIELD_WHERE_KNOWN},
    {"command", FIELD_TEXT, AT(command), .flags = FIELD_WHERE_KNOWN, .about = "as it is written, not expanded"},
    {0}};
#undef ROW

#define FRAMES_SAY .say = "{function}[ ({file}:{line})]", .between = " < "
static const struct field frame_fields[] = {
    {"function", FIELD_TEXT}, {"file", FIELD_TEXT}, {"line", FIELD_COUNT, .flags = FIELD_OPTIONAL}, {0}};
#define TIME_FIELD \
    { \
        "time", FIELD_NUMBER, AT(time), UNKNOWN, .about = "when, where that is known better than by t" \
    }

#define ROW script_line_record
static const struct field script_line_fields[] = {
    {"", FIELD_PART, AT(at), .of = line_fields},
    {"last_line", FIELD_COUNT, AT(last_line), .flags = FIELD_NEGATIVE_IS_NULL | FIELD_ZERO_IS_NULL,
     .about = "what is executed stands between line and this one; null: line is that of the simple command that "
              "the shell began last"},
    {"how", FIELD_CHOICE, AT(how), .choices = "outside|trap|builtin|inside", .about = "it is known"},
    TIME_FIELD,
    {0}};
#undef ROW

#define ROW command_failed_record
static const struct field command_failed_fields[] = {
    {"", FIELD_PART, AT(at), .of = line_fields},
    {"status", FIELD_COUNT, AT(status), .about = "as $?"},
    {"stages", FIELD_LIST, AT(stages), .of = fields_integers, .flags = FIELD_WHERE_KNOWN, .between = " | ",
     .about = "of a pipeline, the statuses of its commands, as PIPESTATUS has them"},
    {"seconds", FIELD_SECONDS, AT(seconds), UNKNOWN, .about = "that the command took"},
    {"stack", FIELD_LIST, AT(stack), .of = frame_fields, .flags = FIELD_WHERE_KNOWN,
     .about = "the innermost first; of a file that is sourced and of the script itself, `source` and `main`",
     FRAMES_SAY},
    TIME_FIELD,
    {0}};
#undef ROW

static const struct field timed_line_fields[] = {{"file", FIELD_TEXT},
                                                 {"line", FIELD_COUNT},
                                                 {"last_line", FIELD_COUNT, .flags = FIELD_OPTIONAL},
                                                 {"command", FIELD_TEXT, .flags = FIELD_OPTIONAL},
                                                 {"count", FIELD_COUNT, .flags = FIELD_OPTIONAL},
                                                 {"failed", FIELD_COUNT, .flags = FIELD_OPTIONAL},
                                                 {"seconds", FIELD_NUMBER},
                                                 {0}};

#define ROW script_end_record
static const struct field script_end_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"file", FIELD_TEXT, AT(file)},
    {"status", FIELD_COUNT, AT(status), UNKNOWN},
    {"seconds", FIELD_SECONDS, AT(seconds)},
    {"how", FIELD_CHOICE, AT(how), .choices = "outside|inside", .about = "the times of lines are known"},
    {"lines", FIELD_LIST, AT(lines), .of = timed_line_fields, .flags = FIELD_WHERE_KNOWN,
     .about = "of most time first"},
    {0}};
#undef ROW

#define ROW script_trap_record
static const struct field script_trap_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"commands", FIELD_LIST, AT(commands), .of = fields_texts, .between = ", ",
     .about = "names of programs in the traps of its exit and of its errors, by its text"},
    {"only", FIELD_LIST, AT(only), .of = fields_texts, .flags = FIELD_WHERE_KNOWN,
     .about = "those of them that stand nowhere else in it"},
    {0}};
#undef ROW

#define ROW script_tested_record
static const struct field script_tested_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"commands", FIELD_LIST, AT(commands), .of = fields_texts, .between = ", ",
     .about = "the words with which they begin, by its text"},
    {"conditions", FIELD_LIST, AT(conditions), .of = fields_texts, .between = ", ", .flags = FIELD_WHERE_KNOWN,
     .about = "those of them that it tests otherwise than by what stands behind ||"},
    {"piped", FIELD_LIST, AT(piped), .of = fields_texts, .between = ", ", .flags = FIELD_WHERE_KNOWN,
     .about = "the same of commands in pipelines, but not the last of one, whose errors it does not throw away"},
    {"prints", FIELD_LIST, AT(prints), .of = fields_texts, .between = ", ", .flags = FIELD_WHERE_KNOWN,
     .about = "how the texts begin that it prints itself, by echo and printf; empty: of one that is not known"},
    {0}};
#undef ROW

static const struct field kill_fields[] = {{"line", FIELD_COUNT},
                                           {"signal", FIELD_COUNT},
                                           {"self", FIELD_BOOL, .about = "to the shell itself, or its group"},
                                           {0}};

#define ROW script_kills_record
static const struct field script_kills_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"file", FIELD_TEXT, AT(file), .flags = FIELD_WHERE_KNOWN, .about = "of a shell with -c there is none"},
    {"kills", FIELD_LIST, AT(kills), .of = kill_fields, .about = "by its text"},
    {0}};
#undef ROW

static const struct field thread_fields[] = {
    {"tid", FIELD_COUNT},
    {"name", FIELD_TEXT, .flags = FIELD_OPTIONAL},
    {"frames", FIELD_LIST, .of = frame_fields, .about = "the innermost first", FRAMES_SAY},
    {"moved", FIELD_BOOL, .flags = FIELD_OPTIONAL, .about = "it ran: frames inside these changed while they were read"},
    {"cut", FIELD_BOOL, .flags = FIELD_OPTIONAL, .about = "there are more frames outside"},
    {0}};

#define ROW python_stack_record
static const struct field python_stack_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"version", FIELD_TEXT, AT(version)},
    {"threads", FIELD_LIST, AT(threads), .of = thread_fields, .say = "thread {tid}[ {name}]: {frames}"},
    {"cut", FIELD_BOOL, AT(cut), .flags = FIELD_WHERE_KNOWN, .about = "there may be more threads"},
    {0}};
#undef ROW

#define ROW python_exception_record
static const struct field python_exception_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"tid", FIELD_COUNT, AT(tid)},
    {"name", FIELD_TEXT, AT(name)},
    {"message", FIELD_TEXT, AT(message)},
    {"message_cut", FIELD_BOOL, AT(message_cut), .flags = FIELD_WHERE_KNOWN},
    {"file", FIELD_TEXT, AT(file)},
    {"line", FIELD_COUNT, AT(line), UNKNOWN},
    {"function", FIELD_TEXT, AT(function)},
    {"caught", FIELD_BOOL, AT(caught)},
    {"traceback", FIELD_LIST, AT(traceback), .of = frame_fields, .flags = FIELD_WHERE_KNOWN,
     .about = "where it was raised first; of what a worker of a pool raised, the worker's frames come first"},
    TIME_FIELD,
    {0}};
#undef ROW

static const struct field python_function_fields[] = {{"function", FIELD_TEXT},
                                                      {"file", FIELD_TEXT},
                                                      {"line", FIELD_COUNT},
                                                      {"calls", FIELD_COUNT},
                                                      {"total_ns", FIELD_NS},
                                                      {"self_ns", FIELD_NS},
                                                      {0}};

#define ROW python_calls_record
static const struct field python_calls_fields[] = {
    {"pid", FIELD_COUNT, AT(pid)},
    {"whole", FIELD_BOOL, AT(whole),
     .about = "of all the time of the process, at its end; else since the record before"},
    {"calls", FIELD_COUNT, AT(calls)},
    {"functions", FIELD_LIST, AT(functions), .of = python_function_fields, .about = "of most self time first",
     .say = "{function} {calls} time{calls?|s}, {self_ns}"},
    {0}};
#undef ROW

static const struct field function_sum_fields[] = {
    {"name", FIELD_TEXT}, {"calls", FIELD_COUNT}, {"self_ns", FIELD_NS}, {0}};

#define ROW functions_record
static const struct field functions_fields[] = {
    {"seconds", FIELD_NUMBER, AT(seconds), .about = "since the record before"},
    {"calls", FIELD_COUNT, AT(calls)},
    {"list", FIELD_LIST, AT(list), .of = function_sum_fields, .about = "of most self time first",
     .say = "{name} {calls} time{calls?|s}, {self_ns}"},
    {0}};
#undef ROW
#undef UNKNOWN

#define ROW end_record
static const struct field end_fields[] = {
    {"started", FIELD_BOOL, AT(started), .about = "the command was executed"},
    {"exit_code", FIELD_INTEGER, AT(exit_code)},
    {"signal", FIELD_COUNT, AT(signal), .about = "0: none"},
    {"reason", FIELD_TEXT, AT(reason), .flags = FIELD_OR_NULL,
     .about = "of the signal, or why it was not started, where it is known"},
    {"core_dumped", FIELD_BOOL, AT(core_dumped)},
    {"unexecuted", FIELD_TEXT, AT(unexecuted), .flags = FIELD_WHERE_KNOWN,
     .about = "why a program that something in the job did not find, although it is there, could not be executed"},
    {"address_limit_bytes", FIELD_BYTES, AT(address_limit_bytes), .flags = FIELD_WHERE_KNOWN,
     .about = "of the command, the limit of its address space (ulimit -v)"},
    {"data_limit_bytes", FIELD_BYTES, AT(data_limit_bytes), .flags = FIELD_WHERE_KNOWN,
     .about = "of the command, the limit of its data (ulimit -d)"},
    {"wall_seconds", FIELD_SECONDS, AT(wall_seconds)},
    {"cpu_seconds", FIELD_SECONDS, AT(cpu_seconds)},
    {0}};
#undef ROW

/* ---- kinds ---- */

const struct record_kind record_kinds[RECORD_TYPES] = {
    [RECORD_spool] = {"spool", STREAM_JOB, spool_fields,
                      "The first record: what the file is. Its job and node are those of all records.", "job {job}"},
    [RECORD_node] = {"node", STREAM_NODE, node_fields, "What the node is; once.",
                     "{host}: {os} {release} {arch}[, {cpus} processors][, {memory_bytes}]"},
    [RECORD_method] = {"method", STREAM_JOB, method_fields,
                       "Whether processes that are too short to be sampled are listed.",
                       "{singly?every process is listed|short processes may be missed: }{reason}"},
    [RECORD_tracing] = {"tracing", STREAM_SETTING, tracing_fields, "The settings that scry run was given.",
                        "{settings}"},
    [RECORD_script] = {"script", STREAM_JOB, script_fields, "The command is a script.", "{path} is a script"},
    [RECORD_untraced] = {"untraced", STREAM_JOB, untraced_fields,
                         "The agent cannot be in the command, and what can be done about it.", "{text}"},
    [RECORD_setting] = {"setting", STREAM_SETTING, setting_fields, "A setting that scry set changed, or would have.",
                        "{key} = {value}{taken?|, refused}"},
    [RECORD_request] = {"request", STREAM_SETTING, request_fields,
                        "A tool changed something of the job, or one that speaks with it through a broker was "
                        "refused. At most 64 at once and 4 a second, and of refusals one; a conditional request "
                        "counts once.",
                        "[{who}][ (key {serial})][ (process {pid} of user {uid})][ asked '{request}'][: {status}]"
                        "[, {why}][{left_out} requests that changed something are not recorded]"},
    [RECORD_process] = {"process", STREAM_PROCESS, process_fields,
                        "A process was first seen, or has a new name or command.",
                        "{pid} {name}, of {ppid}[: {argv:words}]{argv_cut? ...|}[ ({cwd})]"},
    [RECORD_process_end] = {"process_end", STREAM_PROCESS, process_end_fields, "A process ended.",
                            "{pid} {name} ended[ with {status:wait}][, {why}]: {cpu_ns} of CPU time[, {peak_rss}]"},
    [RECORD_withdrawn] = {"withdrawn", STREAM_PROCESS, withdrawn_fields,
                          "A process that was none of the job's; the maxima without it.", "{pid} is none of the job's"},
    [RECORD_sample] =
        {"sample", STREAM_NODE, sample_fields, "Figures, at intervals.",
         "{tree.processes} process{tree.processes?|es}, {tree.threads} thread{tree.threads?|s}, {tree.rss}, "
         "{tree.cpu_ns} of CPU time[; load {system.load}][, {system.memory_available_bytes} of memory available]"},
    [RECORD_health] =
        {"health", STREAM_NODE, health_fields, "The node's health, and the limits of the job, at intervals.",
         "{memory.available_bytes} of memory available[, processors {load.cpu:percent} busy][, waiting for memory "
         "{pressure.memory:percent}][, waiting for disks {pressure.io:percent}]"},
    [RECORD_memory] = {"memory", STREAM_NODE, job_memory_fields,
                       "The job's memory with shared pages counted once: at peaks, and every ten seconds, where its "
                       "processes may share much.",
                       "{pss_bytes} of memory in {processes} process{processes?|es}, {rss_bytes} if shared pages count "
                       "for each[; those of {unread} are not told apart]"},
    [RECORD_script_line] = {"script_line", STREAM_SCRIPT, script_line_fields, "A script is at another line.",
                            "{pid} {file}[:{line}][-{last_line}][ in {function}][: {command}]"},
    [RECORD_command_failed] = {"command_failed", STREAM_SCRIPT, command_failed_fields, "A command of a script failed.",
                               "{pid} {file}[:{line}][ in {function}] failed with {status}[ ({stages})][: {command}]"},
    [RECORD_script_end] = {"script_end", STREAM_SCRIPT, script_end_fields, "A script ended.",
                           "{pid} {file} ended[ with {status}] after {seconds}"},
    [RECORD_script_trap] = {"script_trap", STREAM_SCRIPT, script_trap_fields,
                            "What a script that failed, or in which something did, starts when it ends.",
                            "{pid} starts at its end: {commands}"},
    [RECORD_script_tested] = {"script_tested", STREAM_SCRIPT, script_tested_fields,
                              "Of which commands a script in which something failed tests everywhere whether they do.",
                              "{pid} tests the status of {commands}"},
    [RECORD_script_kills] = {"script_kills", STREAM_SCRIPT, script_kills_fields,
                             "Where a script sends signals that failed, or in which something did.",
                             "{pid} sends signals[: {file}]"},
    [RECORD_python_stack] = {"python_stack", STREAM_PYTHON, python_stack_fields,
                             "Where the threads of a Python program are.", "{pid} {threads}"},
    [RECORD_python_exception] = {"python_exception", STREAM_PYTHON, python_exception_fields,
                                 "An exception was raised, of each place the first times.",
                                 "{pid} {file}[:{line}] in {function}: {name}[: {message}]{caught? (caught)|}"},
    [RECORD_python_calls] = {"python_calls", STREAM_PYTHON, python_calls_fields,
                             "Calls of functions of a Python program.",
                             "{pid} {calls} call{calls?|s}{whole? in all|}[: {functions}]"},
    [RECORD_functions] =
        {"functions", STREAM_FUNCTION, functions_fields,
         "Calls of traced functions, of all processes together; at most once a second, and only if there "
         "were some. What a process calls in its last second, or two, is only in its trace.",
         "{calls} call{calls?|s}[: {list}]"},
    [RECORD_log] = {"log", STREAM_LOG, log_fields, "A line of a log matched.",
                    "{file}[:{line}] {level}: {text}[ ({folded} more before)]"},
    [RECORD_log_folded] = {"log_folded", STREAM_LOG, log_folded_fields,
                           "Lines that matched, and came too fast to be listed.",
                           "{file} {level}: {lines} more line{lines?|s} matched {pattern}"},
    [RECORD_log_file] = {"log_file", STREAM_LOG, log_file_fields, "What became of a log.",
                         "{file} {state}[, {bytes}][: {reason}]"},
    [RECORD_log_last] =
        {"log_last", STREAM_LOG, log_last_fields,
         "What standard error, or standard output, ended with when the job did, and of a process that failed its own.",
         "{file} ended with: {lines}"},
    [RECORD_progress] = {"progress", STREAM_LOG, progress_fields, "How far the job is, as a log says.",
                         "{source}: {done}[ of {total}][, {left_seconds.0} s left]"},
    [RECORD_metric] = {"metric", STREAM_LOG, metric_fields,
                       "A number that a program says again and again, such as a loss.", "{source}: {name} {value}"},
    [RECORD_gap] = {"gap", STREAM_JOB, gap_fields, "Nothing was observed in between.",
                    "nothing was seen from {from.1} to {to.1} s: {reason}"},
    [RECORD_warning] = {"warning", STREAM_WARNING, warning_fields,
                        "What a person should know: a [note](notes.md) with its fields and text.", "{text}"},
    [RECORD_crash] = {"crash", STREAM_PROCESS, crash_fields, "A process was killed by the signal of a fault.",
                      "{pid} {name} crashed: {signal:signal}{core_dumped?, with a core file|}"},
    [RECORD_stall] = {"stall", STREAM_MPI, stall_fields, "No rank began or ended a call of MPI for so long.",
                      "{ranks} rank{ranks?|s} {ranks?stands|stand} still for {seconds}: {why:line}"},
    [RECORD_standing] = {"standing", STREAM_PROCESS, standing_fields,
                         "The job has done nothing for some seconds, and why that is so; or it goes on.",
                         "{still?stands still|goes on}[: {text:line}]"},
    [RECORD_rule] = {"rule", STREAM_RULE, rule_fields, "A rule fired; of each rule the first times.",
                     "{rule} (time {fired})[: {results}]"},
    [RECORD_rules] = {"rules", STREAM_RULE, rules_fields, "How often each rule fired in all; at the end.", "{list}"},
    [RECORD_files] = {"files", STREAM_PROCESS, files_fields,
                      "With --files, which files calls of the processes have read and written; at the end.", "{files}"},
    [RECORD_syscalls] =
        {"syscalls", STREAM_PROCESS, syscalls_fields,
         "With --syscalls, how often the processes called the kernel, and how long that took; at the end.", "{calls}"},
    [RECORD_end] = {"end", STREAM_JOB, end_fields, "The command ended.",
                    "exit status {exit_code}{started?|, the command was not started}[: {signal:signal}][ ({reason})], "
                    "{wall_seconds}, {cpu_seconds} of CPU time"},
};

enum record_type record_type(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "type"));
    enum record_type type = 0;
    while (name && type < RECORD_TYPES && strcmp(record_kinds[type].type, name) != 0)
        type++;
    return name ? type : RECORD_TYPES;
}

json_t *record_json(enum record_type type, const void *row)
{
    json_t *record = json_pack("{s:s}", "type", record_kinds[type].type);
    fields_add(record, record_kinds[type].fields, row, NULL);
    return record;
}

void record_read(const json_t *record, enum record_type type, void *ret_row)
{
    static const size_t sizes[RECORD_TYPES] = {
#define SIZE(name) [RECORD_##name] = sizeof(struct name##_record),
        RECORD_KINDS(SIZE)
#undef SIZE
    };
    fields_read(record_kinds[type].fields, record, ret_row, sizes[type]);
}

void record_text(struct buf *out, const json_t *record)
{
    enum record_type type = record_type(record);
    const struct record_kind *kind = type < RECORD_TYPES ? &record_kinds[type] : NULL;
    fields_say(out, kind ? kind->fields : NULL, kind ? kind->text : NULL, record);
}

/* ---- schema ---- */

const struct field record_head_fields[] = {{"job", FIELD_TEXT},
                                           {"node", FIELD_TEXT},
                                           {"stream", FIELD_TEXT},
                                           {"seq", FIELD_COUNT, .about = "the place in the file, counted from 0"},
                                           {"t", FIELD_NUMBER, .about = "seconds since the start of the job"},
                                           {0}};

json_t *record_schema(void)
{
    json_t *any = json_array();
    for (enum record_type type = 0; type < RECORD_TYPES; type++) {
        const struct record_kind *kind = &record_kinds[type];
        const struct field fields[] = {{"type", FIELD_CHOICE, .choices = kind->type, .about = kind->about},
                                       {"", FIELD_PART, .of = record_head_fields},
                                       {"", FIELD_PART, .of = kind->fields},
                                       {0}};
        json_array_append_new(any, fields_schema(fields));
    }
    return json_pack("{s:o}", "oneOf", any);
}
