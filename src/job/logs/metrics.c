/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that a program says again and again, such as a loss or a residual: by the names that many give them, by --metric, or by
 * scry_metric (include/scry/agent.h). */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "job/logs/logs.h"
#include "job/logs/match.h"
#include "jobdir/text/text.h"
#include "shm/metrics.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what was said ---- */

static struct log_metric *metric_of(struct log_metrics *metrics, const char *name)
{
    size_t i = 0;
    while (i < metrics->used && strncmp(metrics->all[i].name, name, LOG_METRIC_NAME - 1) != 0)
        i++;
    if (i == LOG_METRICS)
        return NULL;
    struct log_metric *metric = &metrics->all[i];
    if (i == metrics->used) {
        *metric = (struct log_metric){0};
        memcpy(metric->name, name, strnlen(name, sizeof metric->name - 1));
        metrics->used++;
    }
    return metric;
}

/* So many values: the last one, and between what they all are. */
static void metric_add(struct log_metrics *metrics, const char *name, uint64_t values, double value, double least,
                       double most)
{
    struct log_metric *metric = metric_of(metrics, name);
    if (!metric)
        return;
    if (!isfinite(value) || !isfinite(least) || !isfinite(most)) {
        metric->undefined += values;
        return;
    }
    metric->least = metric->values ? number_min(metric->least, least) : least;
    metric->most = metric->values ? number_max(metric->most, most) : most;
    metric->value = value;
    metric->values += values;
}

void log_metric_take(struct log_metrics *metrics, const char *name, double value)
{
    metric_add(metrics, name, 1, value, value, value);
}

bool log_metric_tell(struct log_metric *metric, const char *source, uint64_t now_ns, bool end,
                     struct metric_record *ret_told)
{
    if ((!metric->values && !metric->undefined) ||
        (!end && metric->said_ns && now_ns < metric->said_ns + NS_PER_SECOND))
        return false;
    *ret_told = (struct metric_record){.source = source,
                                       .name = metric->name,
                                       .value = metric->value,
                                       .least = metric->least,
                                       .most = metric->most,
                                       .values = metric->values,
                                       .undefined = metric->undefined};
    metric->said_ns = now_ns;
    metric->values = metric->undefined = 0;
    return true;
}

/* ---- lines ---- */

static bool is_name(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

/* What has become of numbers that were divided by 0. NULL: it is not one of them. */
static const char *undefined_parse(const char *at, double *ret_value)
{
    static const char *const words[] = {"nan", "infinity", "inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncasecmp(at, words[i], strlen(words[i])) == 0 && !is_name(at[strlen(words[i])])) {
            *ret_value = i ? HUGE_VAL : NAN;
            return at + strlen(words[i]);
        }
    return NULL;
}

/* A decimal number, with what may follow one. NULL: there is none. */
static const char *number_parse(const char *at, double *ret_value)
{
    const char *digits = at + (*at == '-' || *at == '+');
    char *end = (char *)undefined_parse(digits, ret_value);
    if (end)
        return end;
    if (!isdigit((unsigned char)*digits) && !(*digits == '.' && isdigit((unsigned char)digits[1])))
        return NULL;
    *ret_value = strtod(at, &end);
    size_t len = (size_t)(end - digits);
    if (strcspn(digits, "xXpP") < len) /* hexadecimal: an address, not a measurement */
        return NULL;
    return is_name(*end) || *end == '/' || (*end == '.' && isdigit((unsigned char)end[1])) || *end == ':' ? NULL : end;
}

/* What stands between a name and its number: "loss=1", "loss: 1", "residual norm 1", and behind a name in quotes. NULL: something
 * else. */
static const char *between(const char *at)
{
    static const char norm[] = "norm";
    if ((*at == '"' || *at == '\'') && at[1 + strspn(at + 1, " \t")] == ':')
        at++;
    const char *from = at;
    at += strspn(at, " \t");
    if (at > from && strncasecmp(at, norm, sizeof norm - 1) == 0 && !is_name(at[sizeof norm - 1]))
        at += sizeof norm - 1;
    at += strspn(at, " \t");
    at += *at == '=' || *at == ':';
    at += strspn(at, " \t");
    return at > from ? at : NULL;
}

/* What stands before a name and is a part of it: "Initial residual" and "Final residual", "train loss" and "val loss" are two each. From
 * there; `text` begins the line. */
static const char *with_kind(const char *text, const char *name)
{
    static const char *const kinds[] = {
        "initial", "final", "train",   "training", "val", "valid",    "validation", "test", "testing",       "eval",
        "mean",    "avg",   "average", "min",      "max", "relative", "absolute",   "true", "preconditioned"};
    const char *end = name, *from;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (from = end; from > text && is_name(from[-1]);)
        from--;
    for (size_t i = 0; end < name && i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i]) == (size_t)(end - from) && strncasecmp(from, kinds[i], strlen(kinds[i])) == 0)
            return from;
    return name;
}

/* The quantity that a line of OpenFOAM is about: "Solving for Ux, ". 0: none. */
static size_t solved_for(const char *text, const char **ret_name)
{
    static const char before[] = "Solving for ";
    const char *at = strstr(text, before);
    size_t len = 0;
    *ret_name = at ? at + sizeof before - 1 : text;
    while (at && (is_name((*ret_name)[len]) || (len && (*ret_name)[len] == '.')))
        len++;
    return at && (*ret_name)[len] == ',' ? len : 0;
}

/* Whether that has become of a quantity of physics; a word behind it may say that it is about something else: "nan values replaced". */
static bool is_undefined(const char *number)
{
    static const char *const about[] = {"value",  "check",   "count", "guard", "filter",
                                        "detect", "replace", "handl", NULL};
    double value;
    const char *end = undefined_parse(number + (*number == '-' || *number == '+'), &value);
    return end && isnan(value) && (!*end || strchr(" \t,;)]}|'\"%", *end)) &&
           !text_begins_with_one(end + strspn(end, " \t"), about);
}

static bool ends_with(const char *name, size_t len, const char *word, size_t word_len)
{
    return len >= word_len && strncasecmp(name + len - word_len, word, word_len) == 0 &&
           (len == word_len || !isalnum((unsigned char)name[len - word_len - 1]));
}

/* A quantity of physics, of which there are many everywhere: where it has become undefined, and what it is after that. */
static bool is_quantity(const struct log_metrics *metrics, const char *name, size_t len, const char *number)
{
    static const char *const words[] = {"energy", "temperature", "pressure", "density", "norm", "cfl"};
    for (size_t i = 0; i < metrics->used; i++)
        if (ends_with(metrics->all[i].name, strlen(metrics->all[i].name), name, len))
            return true;
    for (size_t i = 0; i < sizeof words / sizeof *words && is_undefined(number); i++)
        if (ends_with(name, len, words[i], strlen(words[i])))
            return true;
    return false;
}

void log_metrics_parse(struct log_metrics *metrics, const char *text)
{
    /* a name ends with one of them: val_loss, train_accuracy */
    static const char *const words[] = {"loss", "accuracy", "acc", "residual", "perplexity", "reward", "rmse", NULL};
    const char *solved;
    const size_t solved_len = solved_for(text, &solved);
    for (const char *at = text; *at;) {
        if (!is_name(*at)) {
            at++;
            continue;
        }
        const char *name = at;
        while (is_name(*at))
            at++;
        size_t len = (size_t)(at - name), i = 0;
        while (words[i] && !ends_with(name, len, words[i], strlen(words[i])))
            i++;
        double value;
        const char *number = len < LOG_METRIC_NAME ? between(at) : NULL;
        if (!number || (!words[i] && !is_quantity(metrics, name, len, number)) || !number_parse(number, &value))
            continue;
        const char *kind = with_kind(text, name);
        const size_t kind_len = strcspn(kind, " \t");
        _cleanup_(buf_done) struct buf said = BUF_INIT;
        if (solved_len)
            buf_printf(&said, "%.*s.", (int)solved_len, solved);
        if (kind < name)
            buf_printf(&said, "%.*s_", (int)kind_len, kind);
        buf_append(&said, name, len);
        buf_putc(&said, '\0');
        if (said.len <= LOG_METRIC_NAME)
            log_metric_take(metrics, said.data, value);
    }
}

/* ---- the option ---- */

int log_metric_rule(struct log_rule *ret_rule, const char *text, struct err *err)
{
    const char *sign = strchr(text, '=');
    size_t len = sign ? (size_t)(sign - text) : strlen(text);
    _cleanup_(buf_done) struct buf expression = BUF_INIT;
    *ret_rule = (struct log_rule){.severity = LOG_SEVERITY_DEBUG};
    if (!len || len >= LOG_METRIC_NAME)
        return err_set(err, -EINVAL, "give it a name of at most %d letters: loss, or loss='loss is (\\S+)'",
                       LOG_METRIC_NAME - 1);
    for (size_t i = 0; i < len; i++)
        if (!is_name(text[i]) && text[i] != '-' && text[i] != '.')
            return err_set(err, -EINVAL, "a name has letters, digits and _ - . only");
    if (sign)
        buf_puts(&expression, sign + 1);
    else
        buf_printf(&expression,
                   "(?<![A-Za-z0-9_])\\Q%s\\E\\s*[=:]?\\s*([-+]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][-+]?\\d+)?)", text);
    ret_rule->file = strndup(text, len);
    ret_rule->expression = buf_take(&expression);
    if (ret_rule->file && ret_rule->expression && !expression.failed)
        return 0;
    log_rule_done(ret_rule);
    return err_set(err, -ENOMEM, "out of memory");
}

/* ---- what programs say themselves ---- */

void metrics_share(char *ret_path, size_t size, pid_t self)
{
    int fd = memfd_create(METRICS_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ret_path[0] = '\0';
    if (fd >= 0)
        snprintf(ret_path, size, "/proc/%d/fd/%d", (int)self, fd);
}

/* As the first observer makes it, and the next ones find it. NULL: it cannot be. */
static struct metrics *metrics_map(const char *path)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct metrics *metrics = MAP_FAILED;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), had = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (had >= 0 && ((had & seals) == seals ||
                     (posix_fallocate(fd, 0, sizeof *metrics) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0)))
        metrics = mmap(NULL, sizeof *metrics, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (metrics == MAP_FAILED)
        return NULL;
    metrics->magic = METRICS_MAGIC;
    metrics->version = METRICS_VERSION;
    return metrics;
}

struct said {
    struct observer *observer;
    struct metrics *memory;
    struct log_metrics metrics;
};

static double number_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void said_look(struct said *said, bool end)
{
    struct metrics_taken taken;
    struct metric_record told;
    const uint64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < METRICS_SLOTS; i++)
        if (metrics_take(said->memory, i, &taken) && *taken.name) /* of several threads the last is that of one */
            metric_add(&said->metrics, taken.name, taken.count, number_of(taken.last), number_of(taken.least),
                       number_of(taken.most));
    for (size_t i = 0; i < said->metrics.used; i++)
        if (log_metric_tell(&said->metrics.all[i], "scry_metric", now_ns, end, &told))
            observe_put(said->observer, RECORD_metric, &told);
}

static void *said_start(struct observer *observer, struct err *err)
{
    if (!observer->metrics || !*observer->metrics)
        return NULL;
    struct said *said = calloc(1, sizeof *said);
    if (said)
        *said = (struct said){.observer = observer, .memory = metrics_map(observer->metrics)};
    if (said && said->memory)
        return said;
    err_set(err, -ENOMEM, said ? "their memory cannot be shared" : "out of memory");
    free(said);
    return NULL;
}

static void said_tick(void *state)
{
    said_look(state, false);
}

static void said_end(void *state)
{
    said_look(state, true);
    free(state);
}

const struct observe_source metrics_source = {
    .name = "numbers that programs say", .start = said_start, .tick = said_tick, .end = said_end};
