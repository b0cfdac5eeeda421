/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/patterns.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/data/near.h"
#include "base/data/span.h"

#define ERROR LOG_SEVERITY_ERROR
#define WARNING LOG_SEVERITY_WARNING

/* clang-format off */
const struct log_pattern log_patterns[] = {
    {"oom_kill", ERROR, "oom-kill|oom_kill|oom kill|oomkill|killed process|memory limit|memlimit",
     "(?i)\\boom[-_ ]?kill|out of memory: killed process|exceeded (?:job |step |\\w+ )?memory limit|TERM_MEMLIMIT",
     "killed because it took too much memory"},
    {"batch_limit", ERROR, "time limit|preemption|job killed|runlimit|node failure|walltime",
     "DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|=>> PBS: job killed|TERM_RUNLIMIT|walltime \\d+ exceeded limit",
     "ended by the batch system"},
    {"mpi_abort", ERROR, "mpi_abort|bad termination|occurred in mpi_|noticed that process rank",
     "MPI_ABORT was invoked|application called MPI_Abort|BAD TERMINATION OF ONE OF YOUR APPLICATION|"
     "error occurred in MPI_|noticed that process rank \\d+",
     "an MPI program gave up"},
    {"stack_smashing", ERROR, "stack smashing|buffer overflow detected",
     "\\*\\*\\* (?:stack smashing|buffer overflow) detected", "wrote past a buffer"},
    {"heap_corruption", ERROR, "double free or corruption|free(): |malloc(): |realloc(): |munmap_chunk(): |corrupted ",
     "double free or corruption|\\b(?:free|malloc|realloc|munmap_chunk)\\(\\): |"
     "\\bcorrupted (?:size vs|double-linked list|unsorted chunks)", "the C library found the heap damaged"},
    {"sanitizer", ERROR, "sanitizer|: runtime error: ",
     "(?:ERROR|WARNING): (?:Address|Leak|Memory|Thread|HWAddress)Sanitizer|:\\d+:\\d+: runtime error: ",
     "a sanitizer found an error"},
    {"gpu_error", ERROR, "cuda error|cuda out of memory|cudaerror|hip error|hiperror|nvrm: xid",
     "\\bCUDA (?:error|out of memory)|\\bcudaError(?!_t)\\w+|\\bHIP error|\\bhipError(?!_t)\\w+|NVRM: Xid", "an error of a GPU"},
    {"out_of_memory", ERROR,
     "out of memory|cannot allocate memory|bad_alloc|memoryerror|outofmemory|memory exhausted|insufficient virtual memory",
     "(?i)\\bout of memory\\b|\\bcannot allocate memory\\b|\\bstd::bad_alloc\\b|\\bMemoryError\\b|\\bOutOfMemoryError\\b|"
     "\\bmemory exhausted\\b|\\binsufficient virtual memory\\b", "memory could not be had"},
    {"segfault", ERROR, "segmentation |segfault|sigsegv",
     "(?i)\\bsegmentation (?:fault|violation)\\b|\\bsegfault\\b|\\bSIGSEGV\\b", "a segmentation fault"},
    {"bus_error", ERROR, "bus error|sigbus", "(?i)\\bbus error\\b|\\bSIGBUS\\b", "a bus error"},
    {"illegal_instruction", ERROR, "illegal instruction|sigill>", "(?i)\\billegal instruction\\b|\\bSIGILL\\b",
     "an illegal instruction: built for another processor?"},
    {"floating_point_exception", ERROR, "floating point exception|sigfpe",
     "(?i)\\bfloating point exception\\b|\\bSIGFPE\\b", "such as an integer divided by zero"},
    {"cxx_exception", ERROR, "terminate called|terminating with uncaught|terminating due to uncaught",
     "\\bterminate called (?:after throwing|without an active|recursively)|\\bterminating (?:with|due to) uncaught",
     "an exception of C++ that nothing caught"},
    {"assertion", ERROR, "assertion|assert failed",
     "(?i)\\bassertion\\b.*\\bfailed\\b|\\bassert failed\\b|\\bAssertionError\\b|\\bfailed assertion\\b",
     "an assertion failed"},
    {"abort", ERROR, "aborted|sigabrt", "^Aborted\\b|: \\d+ Aborted\\b|\\bAborted \\(core dumped\\)|\\bSIGABRT\\b", "aborted"},
    {"traceback", ERROR, "traceback (most recent", "Traceback \\(most recent call last\\)", "an exception of Python"},
    {"java_exception", ERROR, "exception in thread", "\\bException in thread \"", "an exception of Java"},
    {"panic", ERROR, "panicked at|<panic: ", "\\bpanicked at\\b|^panic: ", "a Rust or Go program gave up"},
    {"fortran_error", ERROR, "forrtl: |fortran runtime error", "\\bforrtl: (?:severe|error)|Fortran runtime error: ",
     "an error of Fortran's run-time library"},
    {"no_space", ERROR, "no space left|<disk full>|disk is full", "(?i)\\bno space left on device\\b|\\bdisk (?:is )?full\\b",
     "a disk is full"},
    {"disk_quota", ERROR, "quota exceeded|exceeded quota", "(?i)\\bquota exceeded\\b|\\bexceeded quota\\b",
     "a disk quota is used up"},
    {"read_only", ERROR, "read-only file system", "(?i)\\bread-only file system\\b", "a file system cannot be written"},
    {"io_error", ERROR, "input/output error|stale file handle|stale nfs file handle|remote i/o error",
     "(?i)\\b(?:input/output error|stale (?:NFS )?file handle|remote I/O error)\\b", "a disk or a file system failed"},
    {"too_many_files", ERROR, "too many open files", "(?i)\\btoo many open files\\b", "the limit of open files"},
    {"shared_object", ERROR,
     "cannot open shared object|loading shared libraries|undefined symbol|symbol lookup error|' not found (required by",
     "cannot open shared object file|error while loading shared libraries|\\bundefined symbol: |\\bsymbol lookup error: |"
     "version [`'].+' not found \\(required by", "a library is missing, or is another version"},
    {"command_not_found", ERROR,
     "command not found|: not found|unable to launch the|unable to find the specified|execvp error on|execve(): ",
     "\\bcommand not found\\b|: \\d+: [^ ]+: not found$|\\bunable to (?:launch the specified application|"
     "find the specified executable)|\\bexecvp error on file .+No such file|\\berror: execve\\(\\): .+No such file",
     "a shell or a launcher found no such program"},
    {"killed", ERROR, "<killed>|sigkill", "(?:^|[\\d:)] +)Killed\\b|\\bSIGKILL\\b|\\b[Kk]illed by signal", "killed"},
    {"exception", ERROR, "error: |exception: ", "^(?:\\w+\\.)*\\w+(?:Error|Exception): ",
     "which exception it was, below its traceback"},
    {"permission_denied", WARNING, "permission denied|operation not permitted",
     "(?i)\\bpermission denied\\b|\\boperation not permitted\\b", "something is not allowed"},
    {"connection_refused", WARNING, "connection refused", "(?i)\\bconnection refused\\b", "nobody listens there"},
    {"connection_timeout", WARNING, "connection timed out|operation timed out|connection timeout|connect timeout",
     "(?i)\\b(?:connection|operation) timed out\\b|\\bconnect(?:ion)? timeout\\b", "no answer from the network"},
    {"connection_lost", WARNING, "connection reset|no route to host|network is unreachable|broken pipe",
     "(?i)\\bconnection reset by peer\\b|\\bno route to host\\b|\\bnetwork is unreachable\\b|\\bbroken pipe\\b",
     "a connection was lost"},
    {"host_not_found", WARNING, "name resolution|could not resolve host|name or service not known",
     "(?i)\\bfailure in name resolution\\b|\\bcould not resolve host\\b|\\bname or service not known\\b",
     "a host's name is not known"},
    {"no_file", WARNING, "no such file or directory", "(?i)\\bno such file or directory\\b", "a file is missing"},
    {"scheduler_error", WARNING, "slurmstepd: error|srun: error", "\\b(?:slurmstepd|srun): error: ",
     "the batch system reports an error"},
    {"error", ERROR, "<error>|<fatal>|<critical>",
     "(?:^|: )(?:[Ff]atal )?[Ee]rror: |(?:^|: )[Ff]atal: |(?:^|[\\s\\[])(?:ERROR|FATAL|CRITICAL)[\\s\\]:]",
     "an error, in the words of a program"},
    {"nan", WARNING, "<nan>|<inf>|<infinity>", "\\b(?:[Nn]a[Nn]|NAN|[Ii]nf|INF|[Ii]nfinity|INFINITY)\\b",
     "a number that is none, or infinite"},
};
/* clang-format on */
const size_t log_pattern_count = sizeof log_patterns / sizeof *log_patterns;

static int find(const char *name, size_t len, size_t *ret_row, struct err *err)
{
    struct near_word meant = {.distance = NEAR_NONE};
    for (size_t i = 0; i < log_pattern_count; i++) {
        *ret_row = i;
        if (strlen(log_patterns[i].name) == len && memcmp(log_patterns[i].name, name, len) == 0)
            return 0;
        near_take(&meant, name, len, log_patterns[i].name);
    }
    return err_set(err, -EINVAL, "there is no pattern '%.*s'%s%s%s: `scry run --log-patterns list` shows them",
                   (int)(len < 100 ? len : 100), name, *meant.text ? " (did you mean " : "", meant.text,
                   *meant.text ? "?)" : "");
}

int log_patterns_select(const char *list, uint64_t *ret_rows, struct err *err)
{
    uint64_t all = UINT64_MAX >> (64 - log_pattern_count), some = 0, none = 0;
    bool only_without = true;
    for (list += strspn(list, ", "); *list; list += strcspn(list, ", "), list += strspn(list, ", ")) {
        size_t len = strcspn(list, ", "), without = *list == '!', row;
        struct span word = span_of(list + without, len - without);
        if (span_is(word, "off") && !without) {
            only_without = false;
        } else if (span_is(word, "all") && !without) {
            some = all;
        } else {
            int code = find(word.ptr, word.len, &row, err);
            if (code < 0)
                return code;
            *(without ? &none : &some) |= UINT64_C(1) << row;
        }
        only_without &= without == 1;
    }
    *ret_rows = (only_without ? all : some) & ~none;
    return 0;
}

void log_patterns_print(FILE *out)
{
    fputs("NAME                      LEVEL    ABOUT, EXPRESSION\n", out);
    for (const struct log_pattern *row = log_patterns; row < log_patterns + log_pattern_count; row++)
        fprintf(out, "%-25s %-8s %s\n%35s%s\n", row->name, log_severity_names[row->severity], row->about, "",
                row->expression);
}
