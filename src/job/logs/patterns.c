/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/patterns.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/data/near.h"
#include "base/data/buf.h"

#define ERROR LOG_SEVERITY_ERROR
#define WARNING LOG_SEVERITY_WARNING

/* clang-format off */
const char log_harmless[] =
    /* nothing, in numbers */
    "(?i)^\\W*(?:==\\d+==\\s*)?(?:\\w+: )?(?:no|0|zero) (?:\\w+ )?(?:errors?|warnings?|failures?|Fehler|erreurs?)\\b|"
    "\\b(?:errors?|error summary|errors? count|error total|fatal|critical|failures?|Fehler|erreurs?)\\s*[:=]\\s*(?:0|none|no|null|off)(?:\\s*$|[,;)}]|\\s+errors?\\b)|"
    "\\bError in [^:]{1,60}: +[-+]?(?:\\d+\\.\\d*|\\.\\d+|\\d+(?=e))(?:e[-+]?\\d+)?(?:\\s*[%(]|\\s*\\w{0,3}\\s*$)|"
    /* tests that passed */
    "\\btests?\\b.*:\\s*(?:passed|ok|success\\w*)[.!]?\\s*$|"
    /* settings and what they may be */
    "\\blog(?:ging)?[-_. ]?level\\b|\\blevels?\\b\\W{0,4}(?:to |is )?\\W{0,2}(?:error|fatal|critical)\\W*$|\\b(?:debug|warn|warning)\\W{1,3}error\\b|"
    "\\bFATAL, \\d+ = ERROR\\b|\"level\"\\s*:\\s*\"\\w+\"\\s*\\}\\}|"
    /* words of statistics and of documents */
    "\\b(?:error|critical|fatal) (?:bars?|model|count|total|rate|norm|estimates?|tolerance|handl\\w+|correct\\w+|messages? (?:go|are)|levels?|bounds?|log)\\b|"
    "^\\W*(?:if|in case|whenever)\\b.*\\berror|^\\s*(?:#|//) |\\b(?:re-?trying|ignored)\\b|"
    /* tables of the system's errors */
    "^\\s*(?:errno\\s+)?\\d+:?\\s+E(?!RROR)[A-Z]{2,14}\\s|^\\s*(?:#\\s*define\\s+)?E(?!RROR)[A-Z]{2,14}\\s*[=:]?\\s*\\d+\\b|"
    /* signals that are looked for */
    "\\b(?:install|register|enabl|catch|trap|will|handl|block)\\w*\\b.*(?:\\bSIG[A-Z]{2,}|exceptions? trapping)|\\bhandlers?\\b.*\\bSIG[A-Z]{2,}|"
    "^(?!.*\\b(?:fail\\w*|cannot|can't|could|couldn't|unable|not)\\b).*(?:"
    "\\b(?:segfault|segmentation (?:fault|violation)|bus error|floating point exception|illegal instruction) handlers?\\b.*\\b(?:install|register|enabl|activ)|"
    "\\b(?:install|register|enabl|activat)\\w*\\b.*\\b(?:segfault|fault|error|violation|exception|instruction) handlers?\\b)|"
    /* what Perl only warns of */
    "^(?:Use of uninitialized|Argument .* isn't numeric|Odd number of elements|Deep recursion)";

#define LABEL "(?:^\\W*|[:\\]>|*!)]\\s*)"
#define NO_NUMBER "(?!\\s*[-+]?\\d[\\d.,eE+-]*\\s*(?:[%,]|\\w{0,3}\\s*$))"
const struct log_pattern log_patterns[] = {
    {"oom_kill", ERROR, "oom-kill|oom_kill|oom kill|oomkill|killed process|memory limit|memlimit|memory usage limit|job killed: ",
     "(?i)\\boom[-_ ]?kill|out of memory: killed process|exceeded (?:job |step |\\w+ )?memory limit|TERM_MEMLIMIT|"
     "gone over memory limit|reaching LSF memory usage limit|PBS: job killed: p?v?mem\\b",
     "killed because it took too much memory"},
    {"batch_limit", ERROR, "time limit|preemption|job killed|term_|node failure|walltime|exceeded hard",
     "DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)|=>> PBS: job killed|\\bTERM_[A-Z_]+: job killed|walltime \\d+ exceeded limit|"
     "\\bexceeded hard (?:wallclock|cpu|run|memory)\\w* \\w+",
     "ended by the batch system"},
    {"out_of_memory", ERROR,
     "out of memory|cannot allocate memory|bad_alloc|memoryerror|outofmemory|memory exhausted|insufficient virtual memory|"
     "not enough memory|not allocate memory",
     "(?i)\\bout of memory\\b|\\bcannot allocate memory\\b|\\bstd::bad_alloc\\b|\\bMemoryError\\b|\\bOutOfMemoryError\\b|"
     "\\bmemory exhausted\\b|\\binsufficient virtual memory\\b|\\bnot enough memory\\b|\\bcould not allocate memory\\b",
     "memory could not be had"},
    {"no_space", ERROR, "no space left|<disk full>|disk is full|kein speicherplatz|espace disponible|queda espacio",
     "(?i)\\bno space left on device\\b|\\bdisk (?:is )?full\\b|\\bkein Speicherplatz mehr|Aucun espace disponible|No queda espacio",
     "a disk is full"},
    {"disk_quota", ERROR, "quota exceeded|exceeded quota", "(?i)\\bquota exceeded\\b|\\bexceeded quota\\b",
     "a disk quota is used up"},
    {"read_only", ERROR, "read-only file system", "(?i)\\bread-only file system\\b", "a file system cannot be written"},
    {"io_error", ERROR, "input/output error|stale file handle|stale nfs file handle|remote i/o error",
     "(?i)(?<!file )\\b(?:input/output error|stale (?:NFS )?file handle|remote I/O error)\\b(?!:)", "a disk or a file system failed"},
    {"too_many_files", ERROR, "too many open files", "(?i)\\btoo many open files\\b", "the limit of open files"},
    {"shared_object", ERROR,
     "cannot open shared object|loading shared libraries|undefined symbol|symbol lookup error|' not found (required by",
     "cannot open shared object file|error while loading shared libraries|\\bundefined symbol: |\\bsymbol lookup error: |"
     "version [`'].+' not found \\(required by", "a library is missing, or is another version"},
    {"command_not_found", ERROR,
     "command not found|: not found|unable to launch the|unable to find the specified|execvp error on|execve(): |nicht gefunden|commande introuvable",
     "\\bcommand not found\\b|: \\d+: [^ ]+: not found$|\\bunable to (?:launch the specified application|"
     "find the specified executable)|\\bexecvp error on file .+No such|\\berror: execve\\(\\): .+No such file|"
     ": (?:Befehl|Kommando) nicht gefunden|: commande introuvable",
     "a shell or a launcher found no such program"},
    {"gpu_error", ERROR, "cuda error|cuda out of memory|cudaerror|hip error|hiperror|nvrm: xid|nccl error|watchdog caught",
     "\\bCUDA (?:error|out of memory)|\\bcudaError(?!_t)\\w+|\\bHIP error|\\bhipError(?!_t)\\w+|NVRM: Xid|\\bNCCL error\\b|"
     "\\bWatchdog caught collective operation timeout", "an error of a GPU, or of GPUs that talk to each other"},
    {"mpi_error", ERROR, "fatal error in |error occurred in mpi_|occurred in mpi_",
     "\\bFatal error in (?:P?MPIX?|internal)_\\w+: |\\bAn error occurred in MPI_\\w+", "an error that MPI found",
     "error stack:|An error occurred in", "\\bMPI_ERR_\\w+: |^\\w+\\(\\d+\\)\\.*: (?!MPIX?_\\w+\\()\\S", 8},
    {"mpi_abort", ERROR, "mpi_abort|bad termination|noticed that process rank|primary job ",
     "MPI_ABORT was invoked|application called MPI_Abort|BAD TERMINATION OF ONE OF YOUR APPLICATION|"
     "noticed that process rank \\d+|\\bPrimary job +terminated normally, but", "an MPI program gave up"},
    {"gave_up", ERROR,
     "error termination|execution halted|collect2: |*** [|build stopped|rsync error: |exited with |exiting prematurely|"
     "not been completed|not end normally|ended abnormally|terminated abnormally|abnormal termination|job execution failed|childfailederror|terminated with an error|could not be accomplished|configuring incomplete|fatal error|srun: error: ",
     "\\bError termination\\b(?! request)|^Execution halted|^collect2: error: ld|\\bmake(?:\\[\\d+\\])?: \\*\\*\\* \\[.*Error \\d+|"
     "^ninja: build stopped|^rsync error: |\\bexited with (?:an error|error\\(s\\)|exit code [1-9])|Exiting prematurely|"
     "\\bTHE ANALYSIS HAS NOT BEEN COMPLETED|\\ba job execution failed|\\bdid not end normally|\\b(?:ended|terminated) abnormally|\\b[Aa]bnormal termination|\\bChildFailedError\\b|^-- Configuring incomplete|^Charm\\+\\+ fatal error|"
     "\\bsrun: error: .*: tasks? [\\d,-]+: (?:Exited with|Killed|Terminated|Aborted|Segmentation)",
     "what follows an error that was said before"},
    {"stack_smashing", ERROR, "stack smashing|buffer overflow detected",
     "\\*\\*\\* (?:stack smashing|buffer overflow) detected", "wrote past a buffer"},
    {"heap_corruption", ERROR, "double free or corruption|free(): |malloc(): |realloc(): |munmap_chunk(): |corrupted ",
     "double free or corruption|\\b(?:free|malloc|realloc|munmap_chunk)\\(\\): |"
     "\\bcorrupted (?:size vs|double-linked list|unsorted chunks)", "the C library found the heap damaged"},
    {"sanitizer", ERROR, "sanitizer|: runtime error: ",
     "(?:ERROR|WARNING): (?:Address|Leak|Memory|Thread|HWAddress)Sanitizer|:\\d+:\\d+: runtime error: ",
     "a sanitizer found an error"},
    {"segfault", ERROR, "segmentation |segfault|sigsegv|speicherzugriffsfehler|de segmentation",
     "(?i:\\bsegmentation (?:fault|violation)\\b|\\bsegfault\\b|\\bSpeicherzugriffsfehler|\\berreur de segmentation)|\\bSIGSEGV\\b", "a segmentation fault"},
    {"bus_error", ERROR, "bus error|sigbus", "(?i:\\bbus error\\b)|\\bSIGBUS\\b", "a bus error"},
    {"illegal_instruction", ERROR, "illegal instruction|sigill>", "(?i:\\billegal instruction\\b)|\\bSIGILL\\b",
     "an illegal instruction: built for another processor?"},
    {"floating_point_exception", ERROR, "floating point exception|sigfpe",
     "(?i:\\bfloating point exception\\b)|\\bSIGFPE\\b", "such as an integer divided by zero"},
    {"cxx_exception", ERROR, "terminate called|terminating with uncaught|terminating due to uncaught|caught standard",
     "\\bterminate called (?:after throwing|without an active|recursively)|\\bterminating (?:with|due to) uncaught|"
     "\\bCaught standard std::exception", "an exception of C++ that nothing caught",
     "throwing an instance of|Caught standard", "^\\s*what\\(\\): |^ \\S", 4},
    {"assertion", ERROR, "assertion|assert failed|check failed: |cpassert",
     "(?i)\\bassertion\\b.*\\bfailed\\b|\\bassert failed\\b|\\bAssertionError\\b|\\bfailed assertion\\b|\\bCheck failed: |\\bCPASSERT failed",
     "an assertion failed"},
    {"abort", ERROR, "aborted|sigabrt|abgebrochen", "^(?:Aborted|Abgebrochen)\\b|: \\d+ Aborted\\b|\\bAborted \\(core dumped\\)|\\bSIGABRT\\b", "aborted"},
    {"traceback", ERROR, "traceback (most recent", "Traceback \\(most recent call last\\)", "an exception of Python",
     "Traceback", "^(?:[\\w<>]+\\.)*\\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration)(?:: |:?\\s*$)", 1000, "exception",
     "^(?!\\.\\.\\.)[^\\s|+]"},
    {"java_exception", ERROR, "exception in thread", "\\bException in thread \"", "an exception of Java"},
    {"panic", ERROR, "panicked at|<panic: ", "\\bpanicked at\\b|^panic: ", "a Rust or Go program gave up",
     "panicked at \\S+:\\d+:\\d+:\\s*$", "\\S", 2},
    {"fortran_error", ERROR, "forrtl: |fortran runtime error|fio-|error stop|unrecoverable library",
     "\\bforrtl: (?:severe|error)|Fortran runtime error: |\\bFIO-[FES]-\\d+/|\\bERROR STOP\\b|\\bUNRECOVERABLE library error",
     "an error of Fortran's run-time library", "UNRECOVERABLE library", "\\w", 2},
    {"library_error", ERROR, "hdf5-diag: |netcdf: |petsc error: ",
     "\\bHDF5-DIAG: Error detected|\\bPETSC ERROR: (?!\\s*$)|"
     "\\bNetCDF: .*(?i:not found|error|unknown|exceed|invalid|not valid|denied|not permitted|cannot|can't|failure|mismatch)\\b",
     "an error that a library of simulations found", "HDF5-DIAG|Error Message -",
     "(?:^\\s*#\\d+: |PETSC ERROR: (?!\\s*$|-))", 4},
    {"link_error", ERROR, "undefined reference to|cannot find -l", "\\bundefined reference to [`']|\\bcannot find -l\\S+",
     "a program could not be linked"},
    {"shell_error", ERROR, "unbound variable|parameter not set|parameter null or|bad substitution|syntax error|ambiguous redirect",
     ": unbound variable$|: parameter (?:not set|null or not set)$|: [Bb]ad substitution$|: ambiguous redirect$|"
     ": syntax error (?:near|:)|: Syntax error: |: syntax error: unexpected end", "an error in a shell script"},
    {"perl_die", ERROR, " line ", "\\S at \\S+ line \\d+(?:, <\\w*> (?:line|chunk) \\d+)?\\.$", "a Perl program gave up"},
    {"killed", ERROR, "<killed>|sigkill|killed by signal|<get\xc3\xb6tet>", "(?:^|[\\d:)] +)(?:Killed|Get\xc3\xb6tet)\\b|\\bSIGKILL\\b|\\b[Kk]illed by signal", "killed"},
    {"scheduler_error", ERROR, "slurmstepd: error|srun: error", "\\b(?:slurmstepd|srun): error: ",
     "the batch system reports an error"},
    {"exception", ERROR, "error: |exception: |notfound: |exception in rule|error in rule|notfound in rule|unhandled exception|exited with exception|exitedexception: |caused by: |error)|exception)|lua|psiexception",
     "^(?:\\w+\\.)*\\w*(?:Error|Exception|NotFound)(?:: | in rule )" NO_NUMBER "|\\b[Uu]nhandled exception\\b|"
     "^Caused by: |^PSIEXCEPTION: |:\\d+:in [`'].*\\(\\w+(?:Error|Exception)\\)$|^\\S*lua[\\d.]*: \\S", "which exception it was, below its traceback"},
    {"error", ERROR,
     "error|<fatal>|fatal:|<critical>|<severe>|<f>|<e>|<e0|<e1|<e2|<e3|<e4|<e5|<e6|<e7|<e8|<e9|<f0|<f1|<f2|<f3|<f4|<f5|<f6|<f7|<f8|<f9|crit|panic|[e::|[abort]|e r r o r|fehler|erreur|errore:|erro:|"
     "\xd0\xbe\xd1\x88\xd0\xb8|\xe9\x94\x99\xe8|\xe3\x82\xa8\xe3\x83|"
     "no rule to make|.  stop.|enough slots|no module named|run terminated|cmiabort|can't open file|cannot be accomplished",
     /* in capitals: as a label, or before a text that is not in capitals as titles of columns are */
     "(?:^|[\\s\\[(*!<>|:#-])(?:ERROR|FATAL|CRITICAL|SEVERE)(?:\\s?[\\[(]?[\\w.-]*\\d[\\w.-]*[\\])]?)?"
     "(?:\\s*[:!\\]>|](?!=)|\\s+[-~] *\\S| +(?:PET)?\\[?(?:[a-z./\\d\"'][\\w.]|[A-Z][A-Za-z]*[a-z])| +PET\\d|(?: \\*\\*\\*))" NO_NUMBER "|"
     /* as a label */
     LABEL "(?i:(?:fatal|internal|runtime|run-time|unhandled|input|system|usage|command line|library|abaqus|\\w*sh) )?(?:[Ee]rror|[Ff]atal|[Cc]ritical)"
     "(?:\\s?[\\[(]?[\\w.-]*\\d[\\w.-]*[\\])]?)?\\s?[:!](?!:) *" NO_NUMBER "(?:\\S|$)|^\\W*E(?:rror|RROR)\\W*$|^\\W*Error (?:[a-z]+ ){1,4}[a-z]+: " NO_NUMBER "\\S|\\b[Aa]n error (?:has )?occurred (?:in|at|while|when)\\b|"
     "\\bCalled CmiAbort\\b|^\\W*<[FSE]> <\\w+>|" LABEL "(?:CMake )?Error (?:in|at|on|using|while|executing|opening|reading|writing|detected|occurred|allocating|creating|loading|"
     "parsing|from|termination request) ?\\S|" LABEL "Error [A-Z][A-Z0-9_]+: |\\[(?:error|critical|fatal|crit)\\]\\s*\\S|"
     "\\b(?i:(?:fatal|internal|unrecoverable|unhandled) error)\\b(?!s)|\\bFATAL CALLED FROM FILE|\\bthe following errors?: |"
     "\\berror termination in\\b|-- run terminated|\\*\\*\\* (?:No rule to make target|[^\\[].*  Stop\\.$)|\\bnot enough slots available|: No module named |"
     "\\bcan't open file '|\\bSHAKE\\) cannot be accomplished|"
     /* as programs for programs write it */
     "^(?:\\[[^\\]]*\\]:? ?)*\\[?[EF]\\d{3,4} \\d\\d:\\d\\d:\\d\\d\\.|: [EF] \\w+/\\S+:\\d+\\]|^\\[E(?:::\\w+)?\\] \\S|\\[ABORT\\]|\\bE R R O R\\b|"
     "\"(?:level|severity|levelname|log\\.level)\"\\s*:\\s*\"(?i:error|fatal|critical|panic)\".*\"(?:msg|message|event|error)\"|"
     "\"(?:msg|message|event)\".*\"(?:level|severity|levelname)\"\\s*:\\s*\"(?i:error|fatal|critical|panic)\"|"
     "\\blevel=(?:error|fatal|crit|critical|panic)\\b.*\\b(?:msg|err|error|message)=|"
     /* in other languages */
     "(?:^|: )(?:Schwerer )?Fehler ?: |\\bFehler (?:beim|in) |(?:^|: )(?i:erreur)(?: fatale)? ?: |(?:^|: )(?i:errore|erro) ?: |"
     "(?:^|: )(?:\xd0\x9e|\xd0\xbe)\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba\xd0\xb0 ?: |\xe9\x94\x99\xe8\xaf\xaf ?(?::|\xef\xbc\x9a)|"
     "\xe3\x82\xa8\xe3\x83\xa9\xe3\x83\xbc ?(?::|\xef\xbc\x9a)",
     "an error, in the words of a program",
     "[:*!] *$|^\\W*(?i:error)\\W*$|Called CmiAbort|FOAM FATAL|FATAL CALLED FROM|E R R O R|\\[ABORT\\]|\\*\\*\\* ERROR \\*\\*\\*|^Error using ", "[[:alpha:]]{2}.*[[:alpha:]]{2}", 6},
    {"not_converged", WARNING, "converge|diverged",
     "(?i)\\b(?:failed to converge|convergence failure|(?:did|has|does|run|scf) not converged?|solution diverged)\\b",
     "a solver found no solution"},
    {"failure", WARNING, "cannot|can't|could not|couldn't|unable to|failed to|failed.|failed:|: failed|undefined",
     "^(?!.*\\b(?i:using|skipp|falling back|instead|optional|continu|retry|will be))"
     "(?=.*(?i:\\b(?:cannot|can't|could not|couldn't|unable to|failed to)\\b|\\bfailed[.:](?!\\s*\\d+\\s*$)|: failed\\b|\\bundefined!)).*",
     "something failed, in the words of a program"},
    {"permission_denied", WARNING, "permission denied|operation not permitted|keine berechtigung|permission non accord",
     "(?i)\\bpermission denied\\b|\\boperation not permitted\\b|\\bKeine Berechtigung\\b|\\bPermission non accord",
     "something is not allowed"},
    {"connection_refused", WARNING, "connection refused", "(?i)\\bconnection refused\\b", "nobody listens there"},
    {"connection_timeout", WARNING, "connection timed out|operation timed out|connection timeout|connect timeout",
     "(?i)\\b(?:connection|operation) timed out\\b|\\bconnect(?:ion)? timeout\\b", "no answer from the network"},
    {"connection_lost", WARNING, "connection reset|no route to host|network is unreachable|broken pipe",
     "(?i)\\bconnection reset by peer\\b|\\bno route to host\\b|\\bnetwork is unreachable\\b|\\bbroken pipe\\b",
     "a connection was lost"},
    {"host_not_found", WARNING, "name resolution|could not resolve host|name or service not known",
     "(?i)\\bfailure in name resolution\\b|\\bcould not resolve host\\b|\\bname or service not known\\b",
     "a host's name is not known"},
    {"no_file", WARNING, "no such file or directory|verzeichnis nicht gefunden|dossier de ce nom|fichero o el directorio",
     "(?i)\\bno such file or directory\\b|\\bVerzeichnis nicht gefunden\\b|\\bdossier de ce nom\\b|\\bNo existe el fichero\\b",
     "a file is missing"},
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
    uint64_t all = LOG_PATTERNS_ALL, some = 0, none = 0;
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
