/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8 /* for pcre2.h */
#include "job/logs/patterns.h"

#include "base/data/buf.h"
#include "base/data/grow.h"
#include "base/data/err.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const log_severity_names[LOG_SEVERITIES] = {"error", "warning", "info", "debug"};

/* The first `=` without a backslash before it; NULL: none. */
static const char *find_equals(const char *text)
{
    for (; *text; text++) {
        if (*text == '=')
            return text;
        if (*text == '\\' && text[1])
            text++;
    }
    return NULL;
}

/* Cuts a level off the end of the expression. Who looks for ERROR alone, as many programs write it, means that level. */
static enum log_severity take_severity(char *expression)
{
    char *colon = strrchr(expression, ':');
    for (int i = 0; i < LOG_SEVERITIES; i++)
        if (colon && strcmp(colon + 1, log_severity_names[i]) == 0) {
            *colon = 0;
            return (enum log_severity)i;
        } else if (!colon && strcasecmp(expression, log_severity_names[i]) == 0) {
            return (enum log_severity)i;
        }
    return LOG_SEVERITY_INFO;
}

int log_rule_parse(struct log_rule *ret_rule, const char *text, struct err *err)
{
    const char *equals = find_equals(text);
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    struct log_rule rule = {.severity = LOG_SEVERITY_INFO};
    if (!len || len >= PATH_MAX)
        return err_set(err, -EINVAL, len ? "the name of the file is too long" : "name a file before the =");
    if (equals && !equals[1])
        return err_set(err, -EINVAL,
                       "there is no expression behind the =; a file alone (%.*s) is watched for the built-in patterns",
                       (int)(len < 100 ? len : 100), text);
    rule.file = strndup(text, len);
    rule.expression = equals ? strdup(equals + 1) : NULL;
    if (!rule.file || (equals && !rule.expression)) {
        log_rule_done(&rule);
        return err_set(err, -ENOMEM, "out of memory");
    }
    if (equals)
        rule.severity = take_severity(rule.expression);
    if (equals && !*rule.expression) {
        log_rule_done(&rule);
        return err_set(err, -EINVAL, "there is no expression before the level");
    }
    *ret_rule = rule;
    return 0;
}

void log_rule_done(struct log_rule *rule)
{
    free(rule->file);
    free(rule->expression);
    *rule = (struct log_rule){0};
}

enum { CLASSES = 72, STATES_MOST = 32000, HIT = 0x8000 };

struct word {
    uint16_t len, row;
    bool begins, ends;
    int next; /* another one that ends in the same state; -1: none */
};

struct state {
    uint16_t next[CLASSES]; /* with HIT, if a word ends there; while it is built, 0 is none */
    uint16_t fallback;      /* the longest proper end that begins a word, too */
    uint16_t shorter;       /* the nearest of those in which a word ends; 0: none */
    int word;               /* the first that ends here; -1: none */
};

struct words {
    unsigned char class[256]; /* 0: in no word */
    size_t classes;
    struct state *states;
    size_t state_count, state_room;
    struct word *words;
    size_t word_count, word_room;
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool add_state(struct words *words)
{
    if (words->state_count == STATES_MOST || !GROW(words->states, words->state_count, words->state_room))
        return false;
    words->states[words->state_count++] = (struct state){.word = -1};
    return true;
}

static bool class_of(struct words *words, char c, unsigned char *ret_class)
{
    unsigned char low = (unsigned char)tolower((unsigned char)c);
    if (!words->class[low]) {
        if (words->classes == CLASSES)
            return false;
        words->class[low] = words->class[toupper(low)] = (unsigned char)words->classes++;
    }
    *ret_class = words->class[low];
    return true;
}

static bool add_word(struct words *words, const char *text, size_t len, size_t row)
{
    struct word word = {.row = (uint16_t)row, .begins = len && *text == '<'};
    text += word.begins;
    len -= word.begins;
    word.ends = len && text[len - 1] == '>';
    len -= word.ends;
    word.len = (uint16_t)len;
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char class;
        if (!class_of(words, text[i], &class))
            return false;
        size_t next = words->states[at].next[class];
        if (!next) {
            next = words->state_count;
            if (!add_state(words))
                return false;
            words->states[at].next[class] = (uint16_t)next;
        }
        at = next;
    }
    if (!len || !GROW(words->words, words->word_count, words->word_room))
        return !len;
    word.next = words->states[at].word;
    words->states[at].word = (int)words->word_count;
    words->words[words->word_count++] = word;
    return true;
}

/* In order of their depth: a fallback is done before whoever needs it. */
static bool link_states(struct words *words)
{
    uint16_t *queue = calloc(words->state_count, sizeof *queue);
    size_t done = 0, count = 1;
    if (!queue)
        return false;
    for (; done < count; done++) {
        size_t at = queue[done];
        struct state *state = &words->states[at];
        const struct state *back = &words->states[state->fallback];
        state->shorter = back->word >= 0 ? state->fallback : back->shorter;
        for (size_t class = 0; class < CLASSES; class ++) {
            uint16_t next = state->next[class], other = at ? back->next[class] : 0;
            if (next) {
                words->states[next].fallback = other;
                queue[count++] = next;
            } else {
                state->next[class] = other;
            }
        }
    }
    free(queue);
    for (size_t i = 0; i < words->state_count; i++)
        for (size_t class = 0; class < CLASSES; class ++) {
            const struct state *next = &words->states[words->states[i].next[class]];
            if (next->word >= 0 || next->shorter)
                words->states[i].next[class] |= HIT;
        }
    return true;
}

struct words *words_new(const char *const *rows, size_t count)
{
    struct words *words = calloc(1, sizeof *words);
    if (!words)
        return NULL;
    words->classes = 1;
    bool good = add_state(words);
    for (size_t row = 0; good && row < count && row < WORDS_ROWS; row++)
        for (const char *text = rows[row]; good && *text; text += strcspn(text, "|"), text += *text == '|')
            good = add_word(words, text, strcspn(text, "|"), row);
    if (good && link_states(words))
        return words;
    words_free(words);
    return NULL;
}

void words_free(struct words *words)
{
    if (!words)
        return;
    free(words->states);
    free(words->words);
    free(words);
}

/* The rows of the words that end in this state, behind bytes[end - 1]. */
static uint64_t rows_at(const struct words *words, size_t at, const char *bytes, size_t len, size_t end)
{
    uint64_t rows = 0;
    for (; at; at = words->states[at].shorter)
        for (int i = words->states[at].word; i >= 0; i = words->words[i].next) {
            const struct word *word = &words->words[i];
            size_t start = end - word->len;
            bool begins = !word->begins || start == 0 || !is_name(bytes[start - 1]);
            bool ends = !word->ends || end == len || !is_name(bytes[end]);
            rows |= begins && ends ? UINT64_C(1) << word->row : 0;
        }
    return rows;
}

size_t words_find(const struct words *words, const char *bytes, size_t len, size_t from)
{
    const struct state *states = words->states;
    uint16_t at = 0;
    for (size_t i = from; i < len; i++) {
        at = states[at].next[words->class[(unsigned char)bytes[i]]];
        if (!(at & HIT))
            continue;
        at &= (uint16_t)~HIT;
        if (rows_at(words, at, bytes, len, i + 1))
            return i;
    }
    return len;
}

uint64_t words_rows(const struct words *words, const char *bytes, size_t len)
{
    uint64_t rows = 0;
    uint16_t at = 0;
    for (size_t i = 0; i < len; i++) {
        at = words->states[at].next[words->class[(unsigned char)bytes[i]]];
        if (!(at & HIT))
            continue;
        at &= (uint16_t)~HIT;
        rows |= rows_at(words, at, bytes, len, i + 1);
    }
    return rows;
}

enum {
    STEPS_MOST = 100000, /* of one match, as PCRE2 counts them */
    STACK_BYTES = 32 << 10,
    STACK_MOST = 512 << 10,
    /* The limit above counts from each place at which a match may begin. So a long line is tried in parts, with a look
     * at the clock in between. */
    STARTS = 1024,
    LINE_NS_MOST = 20000000,
    FIELD_BYTES_MOST = 1024,
};

struct log_regex {
    pcre2_code *code;
    pcre2_match_data *found;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
};

/* Bytes that are no UTF-8 never match then, and are no error. */
static uint32_t utf_option(const char *expression)
{
    for (const char *at = expression, *end; strncmp(at, "(*", 2) == 0 && (end = strchr(at, ')')); at = end + 1)
        if (strncmp(at, "(*UTF)", strlen("(*UTF)")) == 0)
            return PCRE2_MATCH_INVALID_UTF;
    return 0;
}

int log_regex_new(struct log_regex **ret_regex, const char *expression, struct err *err)
{
    int problem = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                                     PCRE2_USE_OFFSET_LIMIT | utf_option(expression), &problem, &at, NULL);
    if (!code) {
        PCRE2_UCHAR said[200] = "the library libpcre2-8 is not there";
        pcre2_get_error_message(problem, said, sizeof said);
        return err_set(err, -EINVAL, "%s, at character %zu", (const char *)said, (size_t)at + 1);
    }
    struct log_regex *regex = calloc(1, sizeof *regex);
    if (regex) {
        pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where that is refused it is slower */
        regex->code = code;
        regex->found = pcre2_match_data_create_from_pattern(code, NULL);
        regex->limits = pcre2_match_context_create(NULL);
        regex->stack = pcre2_jit_stack_create(STACK_BYTES, STACK_MOST, NULL);
    } else {
        pcre2_code_free(code);
    }
    if (!regex || !regex->found || !regex->limits) {
        log_regex_free(regex);
        return err_set(err, -ENOMEM, "out of memory");
    }
    pcre2_set_match_limit(regex->limits, STEPS_MOST);
    pcre2_jit_stack_assign(regex->limits, NULL, regex->stack);
    *ret_regex = regex;
    return 0;
}

void log_regex_free(struct log_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    pcre2_match_data_free(regex->found);
    pcre2_match_context_free(regex->limits);
    pcre2_jit_stack_free(regex->stack);
    free(regex);
}

enum log_match log_regex_match(struct log_regex *regex, const char *line, size_t len)
{
    uint64_t start_ns = len > STARTS ? clock_now_ns() : 0;
    for (size_t from = 0;; from += STARTS) {
        bool last = len - from <= STARTS;
        pcre2_set_offset_limit(regex->limits, last ? PCRE2_UNSET : from + STARTS - 1);
        int found = pcre2_match(regex->code, (PCRE2_SPTR)line, len, from, 0, regex->found, regex->limits);
        if (found >= 0)
            return LOG_MATCH_YES;
        if (found != PCRE2_ERROR_NOMATCH && found != PCRE2_ERROR_BADUTFOFFSET)
            return LOG_MATCH_TOO_LONG; /* a limit: of steps, or of memory */
        if (last)
            return LOG_MATCH_NO;
        if (clock_now_ns() - start_ns > LINE_NS_MOST)
            return LOG_MATCH_TOO_LONG;
    }
}

size_t log_regex_text(const struct log_regex *regex)
{
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(regex->found);
    return pcre2_get_ovector_count(regex->found) > 1 && ends[2] != PCRE2_UNSET ? ends[2] : 0;
}

bool log_regex_has_group(const struct log_regex *regex)
{
    return pcre2_get_ovector_count(regex->found) > 1;
}

struct group {
    const char *name;
    size_t start, end;
};

/* The index-th named group. false: no more. One that took no part is empty. */
static bool get_group(const struct log_regex *regex, uint32_t index, struct group *ret_group)
{
    uint32_t count = 0, size = 0;
    PCRE2_SPTR names = NULL;
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMECOUNT, &count);
    if (index >= count)
        return false;
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
    pcre2_pattern_info(regex->code, PCRE2_INFO_NAMETABLE, &names);
    const unsigned char *entry = names + (size_t)index * size;
    unsigned number = (unsigned)entry[0] << 8 | entry[1];
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(regex->found);
    *ret_group = (struct group){.name = (const char *)entry + 2};
    if (ends[2 * number] != PCRE2_UNSET && ends[2 * number] <= ends[2 * number + 1]) {
        ret_group->start = ends[2 * number];
        ret_group->end = ends[2 * number + 1];
    }
    return true;
}

json_t *log_regex_fields(const struct log_regex *regex, const char *line)
{
    json_t *fields = NULL;
    struct group group;
    for (uint32_t i = 0; get_group(regex, i, &group); i++) {
        char value[FIELD_BYTES_MOST + 1];
        size_t len = group.end - group.start;
        len = len < FIELD_BYTES_MOST ? len : FIELD_BYTES_MOST;
        if (!len)
            continue;
        memcpy(value, line + group.start, len);
        value[len] = 0;
        fields = fields ? fields : json_object();
        json_object_set_new(fields, group.name, text_json(value));
    }
    return fields;
}

static bool group_number(const struct group *group, const char *line, double *ret_number)
{
    char digits[64], *end;
    size_t len = group->end - group->start;
    if (!len || len >= sizeof digits)
        return false;
    memcpy(digits, line + group->start, len);
    digits[len] = 0;
    *ret_number = strtod(digits, &end);
    return end != digits && isfinite(*ret_number);
}

bool log_regex_number(const struct log_regex *regex, const char *line, const char *name, double *ret_number)
{
    struct group group;
    for (uint32_t i = 0; get_group(regex, i, &group); i++)
        if (strcmp(group.name, name) == 0 && group_number(&group, line, ret_number))
            return true;
    return false;
}

bool log_regex_first_number(const struct log_regex *regex, const char *line, double *ret_number)
{
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(regex->found);
    bool has = log_regex_has_group(regex) && ends[2] != PCRE2_UNSET && ends[2] <= ends[3];
    return has && group_number(&(struct group){NULL, ends[2], ends[3]}, line, ret_number);
}

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
    /* lines of set -x: what a script does */
    "^\\+{1,2} (?!Exception Group )|"
    /* of a group of exceptions those after the first */
    "^ +\\| Traceback \\(|"
    /* what a program has got over: it went on with something else */
    "\\bfalling back (?:to|on)\\b|\\b(?:re-?)?trying (?:again|(?:the )?next|another|with)\\b|(?:--|;) using (?:the |a )?\\w|; (?:continuing|going on|proceeding) without\\b|(?<=[,;:(-] )skipp(?:ed|ing)\\b(?!:? ?\\d)|"
    "(?:^(?:\\S+: )?warning: |: W \\S).*\\bload (?:driver|dynamic library|plugin)\\b|"
    ", using (?:the |an? )?(?:slow|default|fall-?back|other|previous|old|next|built-?in)|\\b(?:handled|caught|recovered): *\\d|\\bout of memory bandwidth\\b|"
    "\\bKilled +timeout -(?:s|-signal)|"
    /* what Python's logging says by the way */
    "^(?:INFO|DEBUG):[\\w.]+:|"
    "\\bwhen one has already been registered\\b|^(?:log4j|SLF4J):|: pip's dependency resolver does not\\b|"
    /* settings and what they may be */
    "\\blog(?:ging)?[-_. ]?level\\b|\\blevels?\\b\\W{0,4}(?:to |is )?\\W{0,2}(?:error|fatal|critical)\\W*$|\\b(?:debug|warn|warning)\\W{1,3}error\\b|"
    "\\bFATAL, \\d+ = ERROR\\b|\"level\"\\s*:\\s*\"\\w+\"\\s*\\}\\}|"
    /* words of statistics and of documents */
    "\\b(?:error|critical|fatal) (?:L(?:\\d|_?inf\\w*)|RMS|bars?|model|count|total|rate|norm|estimates?|tolerance|handl\\w+|correct\\w+|messages? (?:will )?(?:go|are|be)|levels?|bounds?|log)\\b|"
    "\\bcritical (?:temperatures?|points?|exponents?|values?|paths?|sections?|pressures?|densit\\w+|speeds?|velocit\\w+|radius|mass|angles?|currents?|fields?|regions?|loads?|slopes?|depths?|numbers?)\\b|"
    "\\bout of memory (?:handl\\w+|protection|detection|checks?|guard|killer)\\b|"
    /* of a run before this one */
    "^\\W*(?:exit status of )?(?:the )?(?:previous|last|earlier) (?:run|job|attempt)\\b|"
    "(?:^|/)(?:etc/\\S+|\\.(?:bashrc|bash_profile|profile)): line \\d+: [^:]+: No such file or directory$|" /* each login says it */
    "^\\W*(?:if|in case|whenever)\\b.*\\berror|^\\s*(?:#|//) |\\b(?:re-?trying|(?<!\\d \\()ignored|will (?:re-?try|try again|be retried))\\b|, trying [^ ]+$|"
    /* tables of the system's errors */
    "^\\s*(?:errno\\s+)?\\d+:?\\s+E(?!RROR)[A-Z]{2,14}\\s|^\\s*(?:#\\s*define\\s+)?E(?!RROR)[A-Z]{2,14}\\s*[=:]?\\s*\\d+\\b|"
    /* signals that are looked for */
    "\\b(?:install|register|enabl|catch|trap|will|handl|block)\\w*\\b.*(?:\\bSIG[A-Z]{2,}|exceptions? trapping)|\\bhandlers?\\b.*\\bSIG[A-Z]{2,}|"
    "^(?!.*\\b(?:fail\\w*|cannot|can't|could|couldn't|unable|not)\\b).*(?:"
    "\\b(?:segfault|segmentation (?:fault|violation)|bus error|floating point exception|illegal instruction) handlers?\\b.*\\b(?:install|register|enabl|activ)|"
    "\\b(?:install|register|enabl|activat)\\w*\\b.*\\b(?:segfault|fault|error|violation|exception|instruction) handlers?\\b)|"
    /* what docker is about to fetch */
    "^Unable to find image '[^']*' locally$|"
    /* what Perl only warns of */
    "^(?:Use of uninitialized|Argument .* isn't numeric|Odd number of elements|Deep recursion)";

#define LABEL "(?:^\\W*|[:\\]>|*!)]\\s*)"
/* before an expression that may match anywhere */
#define NO_WARNING "^(?!\\W*(?:\\S+: )?(?i:warn(?:ing)?)\\b|.{0,40}: W \\S|W\\d{4} ).*"
/* of UTF-8, U+2500 to U+257F */
#define BOX "\xe2[\x94\x95]"
#define NO_NUMBER "(?!\\s*[-+]?\\d[\\d.,eE+-]*\\s*(?:[%,(]|\\w{0,3}\\s*$))"
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
     NO_WARNING "(?:cannot open shared object file|error while loading shared libraries|\\bundefined symbol: |\\bsymbol lookup error: |"
     "version [`'].+' not found \\(required by)", "a library is missing, or is another version"},
    {"command_not_found", ERROR,
     "command not found|: not found|unable to launch the|unable to find the specified|execvp error on|execve(): |nicht gefunden|commande introuvable",
     "\\bcommand not found\\b|: \\d+: [^ ]+: not found$|\\bunable to (?:launch the specified application|"
     "find the specified executable)|\\bexecvp error on file .+No such|\\berror: execve\\(\\): .+No such file|"
     ": (?:Befehl|Kommando) nicht gefunden|: commande introuvable",
     "a shell or a launcher found no such program", "mpi\\w+ was unable to", "^Executable: \\S", 10},
    {"gpu_error", ERROR, "cuda error|cuda out of memory|cudaerror|hip error|hiperror|nvrm: xid|nccl error|watchdog caught",
     "\\bCUDA (?:error|out of memory)|\\bcudaError(?!_t)\\w+|\\bHIP error|\\bhipError(?!_t)\\w+|NVRM: Xid|\\bNCCL error\\b|"
     "\\bWatchdog caught collective operation timeout", "an error of a GPU, or of GPUs that talk to each other"},
    {"mpi_error", ERROR, "fatal error in |error occurred in mpi_|occurred in mpi_",
     "\\bFatal error in (?:P?MPIX?|internal)_\\w+: |\\bAn error occurred in MPI_\\w+", "an error that MPI found",
     "error stack:|An error occurred in", "\\bMPI_ERR_\\w+: |^\\w+\\(\\d+\\)\\.*: (?!MPIX?_\\w+\\()\\S", 8},
    {"mpi_abort", ERROR, "mpi_abort|bad termination|noticed that process rank|primary job ",
     "MPI_ABORT was invoked|application called MPI_Abort|BAD TERMINATION OF ONE OF YOUR APPLICATION|"
     "noticed that process rank \\d+|\\bPrimary job +terminated normally, but", "an MPI program gave up"},
    {"fortran_backtrace", ERROR, "backtrace", "^Error termination\\. Backtrace:|^Backtrace for this error:",
     "where gfortran's run-time library ended a program", "Backtrace", "^\\s+at (?!\\.)\\S+:\\d+$", 60},
    {"gave_up", ERROR,
     "error termination|execution halted|collect2: |*** [|build stopped|rsync error: |exited with |exiting prematurely|"
     "not been completed|not end normally|error executing process|test failed, to rerun|ended abnormally|terminated abnormally|abnormal termination|job execution failed|childfailederror|terminated with an error|could not be accomplished|configuring incomplete|fatal error|srun: error: |slurmstepd: error: ***",
     "\\bError termination\\b(?! request)|^Execution halted|^collect2: error: ld|\\bmake(?:\\[\\d+\\])?: \\*\\*\\* \\[.*Error \\d+|"
     "^ninja: build stopped|^rsync error: |\\bexited with (?:an error|error\\(s\\)|exit code [1-9])|Exiting prematurely|"
     "\\bTHE ANALYSIS HAS NOT BEEN COMPLETED|\\ba job execution failed|\\bdid not end normally|\\b(?:ended|terminated) abnormally|\\b[Aa]bnormal termination|\\bChildFailedError\\b|^-- Configuring incomplete|^Charm\\+\\+ fatal error|\\bError executing process > |^error: test failed, to rerun|"
     "\\bslurmstepd: error: \\*{3} \\w+ \\S+ ON \\S+ CANCELLED AT \\S+ \\*|\\bsrun: error: .*: tasks? [\\d,-]+: (?:Exited with|Killed|Terminated|Aborted|Segmentation)",
     "what follows an error that was said before"},
    {"stack_smashing", ERROR, "stack smashing|buffer overflow detected",
     "\\*\\*\\* (?:stack smashing|buffer overflow) detected", "wrote past a buffer"},
    {"heap_corruption", ERROR, "double free or corruption|free(): |malloc(): |realloc(): |munmap_chunk(): |corrupted ",
     "double free or corruption|\\b(?:free|malloc|realloc|munmap_chunk)\\(\\): |"
     "\\bcorrupted (?:size vs|double-linked list|unsorted chunks)", "the C library found the heap damaged"},
    {"sanitizer", ERROR, "sanitizer|: runtime error: ",
     "(?:ERROR|WARNING): (?:Address|Leak|Memory|Thread|HWAddress)Sanitizer|:\\d+:\\d+: runtime error: ",
     "a sanitizer found an error", "ERROR: \\w+Sanitizer: ", "^SUMMARY: \\w+Sanitizer: ", 1000, "sanitizer"},
    {"segfault", ERROR, "segmentation |segfault|sigsegv|failing at address|speicherzugriffsfehler|de segmentation",
     "(?i:\\bsegmentation (?:fault|violation)\\b|\\bsegfault\\b|\\bSpeicherzugriffsfehler|\\berreur de segmentation)|\\bSIGSEGV\\b|\\] Failing at address: ", "a segmentation fault"},
    {"bus_error", ERROR, "bus error|sigbus", "(?i:\\bbus error\\b)|\\bSIGBUS\\b", "a bus error"},
    {"illegal_instruction", ERROR, "illegal instruction|sigill>", "(?i:\\billegal instruction\\b)|\\bSIGILL\\b",
     "an illegal instruction: built for another processor?"},
    {"floating_point_exception", ERROR, "floating point exception|sigfpe",
     "(?i:\\bfloating point exception\\b)|\\bSIGFPE\\b", "such as an integer divided by zero"},
    {"cxx_exception", ERROR, "pure virtual |terminate called|terminating with uncaught|terminating due to uncaught|caught standard",
     "(?i:^pure virtual (?:method|function) called)|\\bterminate called (?:after throwing|without an active|recursively)|\\bterminating (?:with|due to) uncaught|"
     "\\bCaught standard std::exception", "an exception of C++ that nothing caught",
     "throwing an instance of|Caught standard", "^\\s*what\\(\\): |^ \\S", 4},
    {"assertion", ERROR, "assertion|assert failed|check failed: |cpassert",
     "(?i)\\bassertion\\b.*\\bfailed\\b|\\bassert failed\\b|^(?!E {3}|FAILED |ERROR \\S+::).*(?<!\\d: )\\bAssertionError\\b|\\bfailed assertion\\b|\\bCheck failed: |\\bCPASSERT failed",
     "an assertion failed"},
    {"abort", ERROR, "aborted|sigabrt|abgebrochen", "^(?:Aborted|Abgebrochen)\\b(?!:)|: \\d+ Aborted\\b|\\bAborted \\(core dumped\\)|\\bSIGABRT\\b", "aborted"},
    {"traceback", ERROR, "traceback (most recent", "Traceback \\(most recent call last\\)", "an exception of Python",
     "Traceback", "^(?:[ |+]*\\| )?((?:[\\w<>]+\\.)*\\w*(?:Error|Exception|Warning|Interrupt|Exit|Iteration)(?:: |:?\\s*$))", 1000, "exception",
     "^(?!\\.\\.\\.|" BOX ")[^\\s|+]"},
    {"java_exception", ERROR, "exception in thread", "\\bException in thread \"", "an exception of Java",
     "Exception in thread", "^Caused by: ", 1000, .take = LOG_TAKE_LAST},
    {"notebook", ERROR, "executionerror: ", "\\b(?:Cell|Papermill)ExecutionError: ", "a cell of a notebook failed, with the exception below",
     "ExecutionError: ", "^(?:\\w+\\.)*\\w*(?:Error|Exception): \\S", 1000, "exception"},
    {"python_unraised", LOG_SEVERITY_INFO, "exception in thread |exception ignored in|was never retrieved|<process ",
     "^Exception in thread (?!\").*:$|^Exception ignored in|\\bexception was never retrieved$|^Process \\S+:$",
     "of which thread or task an exception of Python was, above it"},
    {"python_chained", LOG_SEVERITY_INFO, "exception, another exception occurred:|the direct cause of the following exception:",
     "^[ |+]*(?:During handling of the above exception, another exception occurred|The above exception was the direct cause of the following exception):$",
     "that an exception of Python, above it, led to the one below it"},
    {"python_place", LOG_SEVERITY_INFO, "file \"", "(?:^|[\\]:>]) +File \"[^\"]+\", line \\d+$", "where Python could not read a program, above the error",
     "File", "^(?:Syntax|Indentation|Tab)Error: ", 6, "exception"},
    {"fault_place", LOG_SEVERITY_INFO, "(most recent call first)", "\\(most recent call first\\):$", "where Python's faulthandler says that it crashed",
     "most recent call first", "^ +File \"(?!<|[^\"]*/(?:lib(?:64)?/python|site-packages|dist-packages)).*\", line \\d+", 100},
    {"command_said", LOG_SEVERITY_INFO, "command error:", "^Command error:\\s*$", "what a command said that Nextflow had started",
     "^Command error", "^\\s+(?!\\[M::|INFO|WARN)\\S", 6, "error"},
    {"made_anyway", LOG_SEVERITY_INFO, "(ignored)", "^make(?:\\[\\d+\\])?: \\[.* Error \\d+ \\(ignored\\)$", "an error above it that make has got over"},
    {"recovered", LOG_SEVERITY_INFO, "reconnected|restored|re-established|reestablished|recovered|succeeded",
     "^(?!.*(?i:\\b(?:not|never|cannot|can't|could|unable|fail\\w*|until|when|if|will)\\b|\\[recovered\\])).*"
     "(?i:\\breconnected\\b|\\b(?:connection|session|link|service|server) (?:is |was |has been )?(?:re-?established|restored|recovered)\\b|"
     "\\brecovered (?:from|after|by)\\b|\\bsucceeded (?:after|on|at|in) (?:the )?(?:\\w+ )?(?:re-?tr|attempt|try|tries))",
     "that a program has got over what stands above"},
    {"tests", LOG_SEVERITY_INFO, "<ran | passed in | tests passed, ",
     "^Ran \\d+ tests? in [\\d.]+s$|^=* ?\\d+ passed in [\\d.]+s\\b|^100% tests passed, 0 tests failed", "how tests of unittest, pytest or CTest ended, that said what is above it",
     "^Ran", "^(?:OK|FAILED)\\b", 2},
    {"panic", ERROR, "panicked at|<panic: ", "\\bpanicked at\\b|^panic: ", "a Rust or Go program gave up",
     "panicked at \\S+:\\d+:\\d+:\\s*$", "\\S", 2},
    {"fortran_error", ERROR, "forrtl: |fortran runtime error|fio-|error stop|unrecoverable library",
     "\\bforrtl: (?:severe|error)|Fortran runtime error: |\\bFIO-[FES]-\\d+/|\\bERROR STOP\\b|\\bUNRECOVERABLE library error",
     "an error of Fortran's run-time library", "UNRECOVERABLE library", "\\w", 2},
    {"fortran_place", LOG_SEVERITY_INFO, "at line ", "(?:^|[\\]:>] ?)At line \\d+ of file \\S", "where an error of gfortran's run-time library was, above it",
     "At line", "^Fortran runtime error: ", 2, "fortran_error"},
    {"library_error", ERROR, "hdf5-diag: |netcdf: ",
     "\\bHDF5-DIAG: Error detected|"
     "\\bNetCDF: .*(?i:not found|error|unknown|exceed|invalid|not valid|denied|not permitted|cannot|can't|failure|mismatch)\\b",
     "an error that a library of simulations found", "HDF5-DIAG", "^\\s*#\\d+: (?:\\S+ line \\d+ in )?(.*)", 1000, "library_error", .take = LOG_TAKE_LAST},
    {"petsc_error", ERROR, "petsc error: ", "\\bPETSC ERROR: (?!\\s*$)", "an error that PETSc found",
     "Error Message -", "PETSC ERROR: (?!\\s*$|-|See http)(.*)", 4, "petsc_error", .take = LOG_TAKE_ALL},
    {"link_error", ERROR, "undefined reference to|cannot find -l", "\\bundefined reference to [`']|\\bcannot find -l\\S+",
     "a program could not be linked"},
    {"shell_error", ERROR,
     "unbound variable|parameter not set|parameter null or|bad substitution|syntax error|ambiguous redirect|no such file or directory|permission denied|is a directory|cannot execute|bad interpreter|verzeichnis nicht gefunden|"
     "dossier de ce nom|keine berechtigung|permission non accord",
     ": unbound variable$|: parameter (?:not set|null or not set)$|: [Bb]ad substitution$|: ambiguous redirect$|"
     ": syntax error (?:near|:)|: Syntax error: |: syntax error: unexpected end|"
     /* what it was to execute or open */
     "(?:: (?:line|Zeile|ligne) \\d+|^(?:ba|da)?sh): [^:]+: (?:No such file or directory$|Permission denied$|Is a directory$|cannot execute\\b|Datei oder Verzeichnis nicht gefunden$|"
     "Keine Berechtigung$|Aucun fichier ou dossier de ce (?:nom|type)$|Permission non accord)|: \\d+: [^ :]+: Permission denied$|: bad interpreter: ",
     "an error in a shell script, or what it could not execute or open"},
    {"perl_die", ERROR, " line ", "\\S at \\S+ line \\d+(?:, <\\w*> (?:line|chunk) \\d+)?\\.$", "a Perl program gave up"},
    {"killed", ERROR, "<killed>|sigkill|killed by signal|<get\xc3\xb6tet>", "^(?:Killed|Get\xc3\xb6tet)\\s*$|[\\d:)] +(?:Killed|Get\xc3\xb6tet)\\b|\\bSIGKILL\\b|\\b[Kk]illed by signal", "killed"},
    {"scheduler_error", ERROR, "slurmstepd: error|srun: error", "\\b(?:slurmstepd|srun): error: ",
     "the batch system reports an error"},
    {"validation", ERROR, "validation error", "\\b\\d+ validation errors? for \\w", "values that Pydantic refuses",
     "validation error", "^[\\w.\\[\\]-]+(?: -> [\\w.]+)*$|^ {2}\\S", 4, .take = LOG_TAKE_ALL},
    {"exception", ERROR, "error: |exception: |notfound: |exception in rule|exception in line|error in rule|notfound in rule|unhandled exception|exited with exception|exitedexception: |caused by: |error)|exception)|lua|psiexception",
     "^(?:\\w+\\.)*\\w*(?:Error|Exception|NotFound)(?:: | in (?:rule|line \\d+ of) )" NO_NUMBER "|\\b[Uu]nhandled exception\\b|"
     "^Caused by: |^PSIEXCEPTION: |:\\d+:in [`'].*\\(\\w+(?:Error|Exception)\\)$|^\\S*lua[\\d.]*: \\S", "which exception it was, below its traceback",
     /* its text is below */
     "^(?:\\w+\\.)*\\w*(?:Error|Exception|NotFound):(?: .*:)? *$|^MissingInputException in ", "^Original error was: |^ {8,}\\S|^(?i:\\w+ ){0,2}(?i:error): \\S", 12, NULL,
     "^(?!IMPORTANT: |Missing input files| {4}(?:output|input|wildcards|affected files|jobid)\\b).*[[:alpha:]]{2}.*\\w{2}"},
    {"error", ERROR,
     "error|<fatal>|fatal:|<abort|<critical>|<severe>|<f>|<e>|<e0|<e1|<e2|<e3|<e4|<e5|<e6|<e7|<e8|<e9|<f0|<f1|<f2|<f3|<f4|<f5|<f6|<f7|<f8|<f9|crit|panic|[e::|[e] |[abort]|e r r o r|fehler|erreur|errore:|erro:|"
     "\xd0\xbe\xd1\x88\xd0\xb8|\xe9\x94\x99\xe8|\xe3\x82\xa8\xe3\x83|"
     "no rule to make|.  stop.|<stop |enough slots|no module named|run terminated|cmiabort|can't open file|cannot be accomplished|"
     "unrecognized function or variable|refuse to continue with|finish called from|endrun: |abnormal end|of errors detected",
     /* in capitals: as a label, or before a text that is not in capitals as titles of columns are */
     "(?:^|[\\s\\[(*!<>|:#-])(?:ERROR|FATAL|CRITICAL|SEVERE)(?:\\s?[\\[(]?[\\w.-]*\\d[\\w.-]*[\\])]?)?"
     "(?:\\s*[:!\\]>|](?!=)|\\s+[-~] *\\S| +(?:PET)?\\[?(?:[a-z./\\d\"'][\\w.]|[A-Z][A-Za-z]*[a-z])| +PET\\d|(?: \\*\\*\\*)|"
     /* an abbreviation in a sentence; not a measure of an error */
     " +(?!L\\d|L?INF|R?M[SA][EDQ]?\\b|MEAN|AVG|AVERAGE|STD|MIN|MAX|SUM|TOTAL|NORM|COUNT|RATE|LEVEL|CODES?\\b|BARS?\\b|LOG)[A-Z][A-Z\\d_-]+ (?=.*\\b[a-z]{2,} .*\\b[a-z]{3,}\\b))" NO_NUMBER "|"
     /* as a label */
     LABEL "(?i:(?:fatal|internal|runtime|run-time|unhandled|input|system|usage|command line|library|abaqus|\\w*sh) )?(?:[Ee]rror|[Ff]atal|[Cc]ritical)"
     "(?:\\s?[\\[(]?[\\w.-]*\\d[\\w.-]*[\\])]?)?\\s?[:!](?!:) *" NO_NUMBER "(?:\\S|$)|^\\W*E(?:rror|RROR)\\W*$|"
     LABEL "(?:ABORT(?:ED|ING)?|Abort(?:ed|ing))\\s?: *+(?!(?i:no|none|not|false|never|off)\\b)" NO_NUMBER "[a-zA-Z]|"
     "\\b(?i:simulation|run|calculation|computation|integration|program|solver|execution|model) (?:was |is |has been )?(?:aborted|aborting|ABORTED|ABORTING): *+(?!(?i:no|none|not|false|never|off)\\b)" NO_NUMBER "[a-zA-Z]|"
     /* a number as the error, and that it is too much */
     "^\\W*(?:Error|ERROR):? [-+]?\\d[\\d.]*(?:[eE][-+]?\\d+)? (?:is |was )?(?:above|over|beyond|exceeds?|too (?:large|big|high)|(?:larger|greater|higher) than)\\b(?!.*(?i:iterat|refin|continu|again|retr|repeat|next|reduc))|"
     /* STOP of Fortran, with its text */
     "^\\W{0,3}STOP(?: \\d+:)? +(?!(?i:criteri|condition|file|flag|signal|command|request|button|word|codon))(?=.*\\b(?:not|negative|invalid|wrong|bad|missing|too|cannot|unable|fail\\w*|error|exceed\\w*|diverg\\w*|"
     "inconsistent|unknown|illegal|unexpected|mismatch\\w*|outside|must|corrupt\\w*|empty|unphysical|singular)\\b)(?!.*\\b(?:no|without|0) error)|"
     LABEL "Error (?!is )(?:[a-z]+ ){1,4}[a-z]+: " NO_NUMBER "\\S|\\b[Aa]n error (?:has )?occurred (?:in|at|while|when)\\b|"
     "\\bCalled CmiAbort\\b|^\\W*<[FSE]> <\\w+>|" LABEL "(?:CMake )?Error (?:in|at|on|using|while|executing|opening|reading|writing|detected|occurred|allocating|creating|loading|"
     "parsing|from|termination request) *\\S|" LABEL "Error [A-Z][A-Z0-9_]+: |\\[(?:error|critical|fatal|crit)\\]\\s*\\S|"
     "\\b(?i:(?:fatal|internal|unrecoverable|unhandled) error)\\b(?!s)|\\bFATAL CALLED FROM FILE|\\bthe following errors?: |"
     "\\berror termination in\\b|-- run terminated|\\*\\*\\* (?:No rule to make target|[^\\[].*  Stop\\.$)|\\bnot enough slots available|: No module named |"
     "\\bcan't open file '|\\bSHAKE\\) cannot be accomplished|^Unrecognized function or variable '|\\bI REFUSE TO CONTINUE WITH\\b|"
     "\\bFINISH called from\\b|^\\W*ENDRUN: ?\\S|\\bABNORMAL END\\b|\\bBECAUSE OF ERRORS DETECTED$|"
     /* as programs for programs write it */
     "^(?:\\[[^\\]]*\\]:? ?)*\\[?[EF]\\d{3,4} \\d\\d:\\d\\d:\\d\\d\\.|: [EF] \\w+/\\S+:\\d+\\]|^(?:[\\d:.,/T-]+ )*\\[E(?:::\\w+)?\\] \\S|^\\d[\\d:.,/T -]{7,30}.*,(?:ERROR|FATAL|CRITICAL),\\S|\\[ABORT\\]|\\bE R R O R\\b|"
     "\"(?:level|severity|levelname|log\\.level)\"\\s*:\\s*\"(?i:error|fatal|critical|panic)\".*\"(?:msg|message|event|error)\"|"
     "\"(?:msg|message|event)\".*\"(?:level|severity|levelname)\"\\s*:\\s*\"(?i:error|fatal|critical|panic)\"|"
     "\\blevel=(?:error|fatal|crit|critical|panic)\\b.*\\b(?:msg|err|error|message)=|"
     /* in other languages */
     "(?:^|: )(?:Schwerer )?(?:Fehler|FEHLER) ?: |\\bFehler (?:beim|in) |(?:^|: )(?i:erreur)(?: fatale)? ?: |(?:^|: )(?i:errore|erro) ?: |"
     "(?:^|: )(?:\xd0\x9e|\xd0\xbe)\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba\xd0\xb0 ?: |\xe9\x94\x99\xe8\xaf\xaf ?(?::|\xef\xbc\x9a)|"
     "\xe3\x82\xa8\xe3\x83\xa9\xe3\x83\xbc ?(?::|\xef\xbc\x9a)",
     "an error, in the words of a program",
     "[:*!] *$|^\\W*(?i:error)\\W*$|Called CmiAbort|FOAM FATAL|FATAL CALLED FROM|FINISH called|ERRORS DETECTED|E R R O R|\\[ABORT\\]|\\*\\*\\* ERROR \\*\\*\\*|^Error using ", "^(?! +(?:By not providing \"Find|project has asked CMake|(?:has )?asked CMake to find|.*CMake did not find one\\.$)).*(?:[[:alpha:]]{2}.*[[:alpha:]]{2}|^\\s*\"\\S+\"$)", 6},
    {"not_converged", WARNING, "converge|diverged|blew up",
     "(?i)\\b(?:failed to converge|convergence failure|(?:did|has|does|run|scf) not converged?|blew up|"
     "(?:solution|solver|simulation|integration|iterations?|newton|scf|gmres|\\w*cg) (?:has |have )?diverged|diverged (?:at|in|after) (?:\\w+ )?(?:iteration|step|\\d))\\b",
     "a solver found no solution"},
    {"tests_failed", WARNING, "tests failed:", "\\btests FAILED:", "which tests failed, of CTest",
     "tests FAILED:", "^\\s+\\d+ - ", 100, .take = LOG_TAKE_ALL},
    {"test_failed", WARNING, "<fail: |--- fail: |<failed |<error |[  failed  ] |<not ok |fail  ",
     "^FAIL: \\S|^(?:FAILED|ERROR) \\S+::\\S|^\\s*--- FAIL: \\S|^\\[  FAILED  \\] [A-Za-z]|^not ok \\d(?!.*# (?i:todo|skip))|^ *\\d+/\\d+ .* FAIL  +\\d",
     "a test that failed, of automake, pytest, Go, GoogleTest, TAP or meson"},
    {"failure", WARNING, "cannot|can't|could not|couldn't|unable to|failed to|failed.|failed:|: failed|undefined",
     "^(?!.*\\b(?i:using|skipp|falling back|instead|optional|continu|retry|will be|trying))"
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
    struct fuzzy_match meant = {.distance = FUZZY_NONE};
    for (size_t i = 0; i < log_pattern_count; i++) {
        *ret_row = i;
        if (strlen(log_patterns[i].name) == len && memcmp(log_patterns[i].name, name, len) == 0)
            return 0;
        fuzzy_match_try(&meant, name, len, log_patterns[i].name);
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
