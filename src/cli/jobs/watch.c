/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "cli/common/now.h"
#include "jobdir/record/info.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/model.h"
#include "jobdir/record/parts.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct watch_status {
    bool on, colours;
    struct job_model model;
    size_t drawn; /* lines that are on the screen */
};

/*
 * The lines below the records of scry watch on a terminal: where each layer of the job is now. They are erased before
 * more records are printed, and drawn again below these. Not drawn where there is no room.
 */

enum {
    EACH = 2,      /* scripts, Python programs, sources of progress */
    ROWS_LEFT = 6, /* for records: a terminal with less than this above has no status */
    COLUMNS_MIN = 20
};

/* For a terminal that can do it; else nothing below does anything. */
static void watch_status_start(struct watch_status *status, int fd, bool colours)
{
    const char *terminal = getenv("TERM");
    if (!isatty(fd) || !terminal || !*terminal || strcmp(terminal, "dumb") == 0)
        return;
    status->on = job_model_init(&status->model, 0) == 0;
    status->colours = colours;
}

/* The last call. */
static void watch_status_done(struct watch_status *status)
{
    if (status->on)
        job_model_done(&status->model);
    status->on = false;
}

/* Appends what erases the lines, and what draws them: into the same buffer as the records between. */
static void watch_status_erase(struct watch_status *status, struct buf *out)
{
    if (status->drawn)
        buf_printf(out, "\033[%zuA\r\033[J", status->drawn);
    status->drawn = 0;
}

static void put_line(struct watch_status *status, struct buf *out, const char *text, size_t columns)
{
    buf_puts(out, status->colours ? TEXT_FAINT : "");
    buf_append(out, text, text_fit(text, strlen(text), columns));
    buf_puts(out, status->colours ? TEXT_PLAIN "\n" : "\n");
    status->drawn++;
}

static void watch_status_draw(struct watch_status *status, struct buf *out, size_t rows, size_t columns, double seconds)
{
    struct now_line lines[NOW_LINES];
    if (!status->on || columns < COLUMNS_MIN)
        return;
    size_t count = now_lines(&status->model, EACH, lines), room = rows > ROWS_LEFT ? rows - ROWS_LEFT : 0;
    if (!count || room < 2)
        return;
    _cleanup_(buf_done) struct buf head = BUF_INIT;
    for (size_t i = 0; i < (columns < 24 ? columns : 24); i++)
        buf_puts(&head, "-");
    buf_puts(&head, " now at ");
    text_seconds(&head, seconds);
    put_line(status, out, head.data ? head.data : "", columns - 1);
    for (size_t i = 0; i < count && i + 1 < room; i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        now_text(&text, &lines[i], seconds);
        put_line(status, out, text.data ? text.data : "", columns - 1); /* the last column may wrap */
    }
}

/* scry watch: the records of a job in the order of time, while it runs or afterwards. */

enum { STREAM_COLUMNS = 8 };

/* The job's own records, or those of its part on another node. */
struct source {
    char *path;
    const char *node; /* NULL: the job's own */
    struct spool_reader reader;
    json_t *next; /* read, and not shown yet; NULL: none */
    double shift; /* when it began, by the job's clock */
};

struct watching {
    bool still; /* no more records come */
    struct source *sources;
    size_t source_count;
    struct err err;   /* the job's spool cannot be opened */
    uint32_t streams; /* bits, 1 << enum record_stream; 0: all, and what is unknown */
    double since;
    regex_t pattern;
    bool end_seen; /* the record of the job's end */
    bool has_pattern, json, colours;
    struct buf line;           /* the record as it is shown; used again */
    size_t stream_at, text_at; /* in it: the name of the stream begins and ends */
    struct buf out;            /* such lines, not printed yet */
    const char *path;
    struct found_job *job;
    struct watch_status status; /* below them, where a person looks on */
    uint64_t drawn_ns;
    double started_seconds; /* of the job, since 1970 */
};

static const char *const stream_colours[STREAM_COUNT] = {
    [STREAM_NODE] = TEXT_FAINT,     [STREAM_PROCESS] = TEXT_BLUE,   [STREAM_SCRIPT] = TEXT_CYAN,
    [STREAM_PYTHON] = TEXT_MAGENTA, [STREAM_FUNCTION] = TEXT_GREEN, [STREAM_LOG] = TEXT_YELLOW,
    [STREAM_WARNING] = TEXT_YELLOW, [STREAM_MPI] = TEXT_MAGENTA,    [STREAM_RULE] = TEXT_GREEN,
    [STREAM_SETTING] = TEXT_FAINT,
};

/* Of what the record says, where that matters more than its layer. */
static const char *colour_of(const json_t *record, enum record_type type)
{
    const char *level = type == RECORD_log ? json_string_value(json_object_get(record, "level")) : NULL;
    if (type == RECORD_crash || type == RECORD_stall || type == RECORD_command_failed ||
        (level && strcmp(level, "error") == 0) ||
        (type == RECORD_python_exception && !json_is_true(json_object_get(record, "caught"))))
        return TEXT_RED;
    if (level && strcmp(level, "warning") == 0)
        return TEXT_YELLOW;
    if (type == RECORD_warning || type == RECORD_gap)
        return TEXT_YELLOW;
    if (type == RECORD_end)
        return json_integer_value(json_object_get(record, "exit_code")) ? TEXT_RED : TEXT_GREEN;
    return type == RECORD_sample || type == RECORD_TYPES ? TEXT_FAINT : NULL;
}

/* ---- where records come from ---- */

/* Those of parts are among the job's by their times. */
static double seconds_of(const struct source *source, const json_t *record)
{
    return member_number(record, "t") + source->shift;
}

/* The source with the earliest record that is there; NULL: there is none now. */
static struct source *next_source(struct watching *watching)
{
    struct source *next = NULL;
    for (size_t i = 0; i < watching->source_count; i++) {
        struct source *source = &watching->sources[i];
        if (!source->next)
            source->next = spool_reader_next(&source->reader);
        if (source->next && (!next || seconds_of(source, source->next) < seconds_of(next, next->next)))
            next = source;
    }
    return next;
}

/* When the part began, by the job's clock. */
static double shift_of(const struct watching *watching, const char *dir)
{
    struct job_info info;
    struct part_clock clock;
    double shift = 0;
    job_part_clock(dir, &clock);
    if (job_info_read(dir, &info, NULL) == 0 && watching->started_seconds > 0)
        shift = ((double)info.started_ns - (double)clock.offset_ns) / NS_PER_SECOND - watching->started_seconds;
    job_info_done(&info);
    return shift;
}

/* The job, and each part as it comes. Without memory, or before its spool is there, it comes later. */
static int add_source(void *ctx, const char *dir)
{
    struct watching *watching = ctx;
    for (size_t i = 0; i < watching->source_count; i++)
        if (strcmp(watching->sources[i].path, dir) == 0)
            return 0;
    struct source source = {.path = strdup(dir), .reader = {.fd = -1}}, *grown = NULL;
    bool own = dir == watching->path;
    if (source.path && spool_reader_open(&source.reader, dir, own ? &watching->err : NULL) == 0)
        grown = realloc(watching->sources, (watching->source_count + 1) * sizeof *grown);
    if (!grown) {
        spool_reader_close(&source.reader);
        free(source.path);
        return own ? -1 : 0;
    }
    source.node = own ? NULL : text_base(source.path);
    source.shift = own ? 0 : shift_of(watching, dir);
    watching->sources = grown;
    watching->sources[watching->source_count++] = source;
    return 0;
}

static void sources_done(struct watching *watching)
{
    for (size_t i = 0; i < watching->source_count; i++) {
        json_decref(watching->sources[i].next);
        spool_reader_close(&watching->sources[i].reader);
        free(watching->sources[i].path);
    }
    free(watching->sources);
}

/* ---- what is shown ---- */

static bool is_wanted(const struct watching *watching, const struct source *source, const json_t *record,
                      enum record_type type)
{
    if (seconds_of(source, record) < watching->since)
        return false;
    if (!watching->streams)
        return true;
    return type < RECORD_TYPES && watching->streams & 1u << record_kinds[type].stream;
}

static void put_json(struct watching *watching, const struct source *source, json_t *record)
{
    spool_reader_complete(&source->reader, record);
    text_dump_json(&watching->line, record, JSON_COMPACT | JSON_REAL_PRECISION(12));
}

static void put_text(struct watching *watching, const struct source *source, const json_t *record,
                     enum record_type type)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, shown = BUF_INIT;
    const char *stream = json_string_value(json_object_get(record, "stream"));
    if (!stream)
        stream = type < RECORD_TYPES ? record_stream_name(record_kinds[type].stream) : "?";
    struct buf *line = &watching->line;
    buf_printf(line, "%10.3f  ", seconds_of(source, record));
    watching->stream_at = line->len;
    text_show(&shown, stream); /* of a record from elsewhere it may be anything */
    text_column(line, shown.data ? shown.data : "", STREAM_COLUMNS);
    watching->text_at = line->len;
    buf_puts(line, "  ");
    if (source->node) {
        text_show(line, source->node);
        buf_puts(line, ": ");
    }
    record_text(&text, record);
    text_show(line, text.data ? text.data : "");
}

/* What happened in its own colour, else the stream in that of its layer. */
static void put_coloured(struct watching *watching, const json_t *record, enum record_type type)
{
    const char *whole = colour_of(record, type), *text = watching->line.data;
    const char *layer = type < RECORD_TYPES ? stream_colours[record_kinds[type].stream] : NULL;
    struct buf *out = &watching->out;
    if (whole || !layer) {
        buf_puts(out, whole ? whole : "");
        buf_puts(out, text);
        buf_puts(out, whole ? TEXT_PLAIN : "");
        return;
    }
    buf_append(out, text, watching->stream_at);
    buf_puts(out, layer);
    buf_append(out, text + watching->stream_at, watching->text_at - watching->stream_at);
    buf_puts(out, TEXT_PLAIN);
    buf_puts(out, text + watching->text_at);
}

static void record_show(struct watching *watching, const struct source *source, json_t *record)
{
    enum record_type type = record_type(record);
    watching->end_seen |= type == RECORD_end && !source->node;
    if (!is_wanted(watching, source, record, type))
        return;
    buf_clear(&watching->line);
    if (watching->json)
        put_json(watching, source, record);
    else
        put_text(watching, source, record, type);
    if (!watching->line.data ||
        (watching->has_pattern && regexec(&watching->pattern, watching->line.data, 0, NULL, 0) != 0))
        return;
    if (watching->colours)
        put_coloured(watching, record, type);
    else
        buf_puts(&watching->out, watching->line.data);
    buf_putc(&watching->out, '\n');
}

static void output_print(struct watching *watching)
{
    cli_print(watching->out.data ? watching->out.data : "", watching->out.len);
    buf_clear(&watching->out);
}

static void draw_status(struct watching *watching)
{
    struct winsize size = {0};
    struct job_info info;
    if (watching->status.on && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
        job_info_read(watching->path, &info, NULL) == 0) {
        double seconds = job_age_seconds(watching->path, &info, watching->status.model.last_seconds);
        watch_status_draw(&watching->status, &watching->out, size.ws_row, size.ws_col, seconds);
        job_info_done(&info);
    }
}

/* All that is there now. */
static void show_rest(struct watching *watching)
{
    enum { PRINT_BYTES = 64 << 10 };
    uint64_t now_ns = clock_now_ns();
    bool draw = watching->status.on && now_ns - watching->drawn_ns >= JOBS_REDRAW_NS;
    job_dirs_each(watching->path, add_source, watching);
    struct source *source = next_source(watching);
    if (source || draw)
        watch_status_erase(&watching->status, &watching->out);
    for (; source; source = next_source(watching)) {
        json_t *record = TAKE_PTR(source->next);
        if (watching->status.on && !source->node)
            job_model_apply(&watching->status.model, record);
        record_show(watching, source, record);
        json_decref(record);
        draw |= watching->status.on;
        if (watching->out.len > PRINT_BYTES)
            output_print(watching);
    }
    if (draw) {
        draw_status(watching);
        watching->drawn_ns = now_ns;
    }
    output_print(watching);
}

static bool is_over(struct watching *watching, enum job_state *ret_state)
{
    struct job_info info;
    bool known = job_info_read_state(watching->path, &info, ret_state, NULL) == 0;
    watching->started_seconds = (double)info.started_ns / NS_PER_SECOND;
    job_info_done(&info);
    return !known || (*ret_state != JOB_RUNNING && *ret_state != JOB_UNREACHABLE);
}

/* 0, or -errno with watching->err: the job is not over, but nothing of it comes any more. */
static int job_follow(struct watching *watching)
{
    char file[PATH_MAX + 32];
    snprintf(file, sizeof file, "%s/spool/records.jsonl", watching->path);
    _cleanup_(closep) int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (changes >= 0)
        inotify_add_watch(changes, file, IN_MODIFY);
    enum job_state state = JOB_ENDED;
    int code = 0;
    bool over = is_over(watching, &state) || watching->still; /* before: what was recorded by then is read */
    if (!over && !watching->json)
        watch_status_start(&watching->status, STDOUT_FILENO, watching->colours);
    for (;;) {
        show_rest(watching);
        if (over || code < 0 || ferror(stdout) || !cli_wait_for_more(changes))
            break;
        code = find_look(watching->job, &watching->err);
        over = is_over(watching, &state);
    }
    watch_status_erase(&watching->status, &watching->out);
    output_print(watching);
    if (state == JOB_UNWATCHED || state == JOB_LOST)
        log_warning("scry run was killed%s: nothing more was recorded",
                    state == JOB_UNWATCHED ? ", and the job goes on" : "");
    else if (watching->still && state != JOB_ENDED)
        log_warning("the record has no more of the job, which is %s", job_state_name(state));
    else if (state == JOB_ENDED && !watching->end_seen)
        log_warning("the last records of the job are missing");
    return over ? 0 : code;
}

static int read_options(const struct options *options, struct watching *watching)
{
    size_t at = 0;
    for (const char *name; (name = options_next(options, "stream", &at));)
        for (enum record_stream stream = 0; stream < STREAM_COUNT; stream++)
            if (strcmp(record_stream_name(stream), name) == 0)
                watching->streams |= 1u << stream;
    watching->since = (double)options_number(options, "since") / 1e9;
    watching->json = options_on(options, "json");
    watching->colours = !watching->json && text_has_colours(STDOUT_FILENO);
    const char *pattern = options_text(options, "grep");
    char why[256];
    int code = pattern ? regcomp(&watching->pattern, pattern, REG_EXTENDED | REG_NOSUB) : 0;
    watching->has_pattern = pattern && code == 0;
    if (code == 0)
        return 0;
    regerror(code, &watching->pattern, why, sizeof why);
    return cli_usage_error(options, "--grep: '%s' is no regular expression: %s", pattern, why);
}

int cmd_watch(const struct options *options)
{
    struct found_job job = {.input = -1, .output = -1};
    struct watching watching = {.path = job.path, .job = &job};
    int status = read_options(options, &watching);
    if (status == 0 && (find_job(&job, options->words[0], &watching.err) < 0 || add_source(&watching, job.path) < 0)) {
        cli_log_error(&watching.err);
        status = EXIT_ERRORS;
    } else if (status == 0) {
        watching.still = job.still;
        int code = job_follow(&watching);
        uint64_t unread = 0;
        for (size_t i = 0; i < watching.source_count; i++)
            unread += watching.sources[i].reader.unread;
        if (unread)
            log_warning("%llu lines of the spool cannot be read", (unsigned long long)unread);
        if (code < 0)
            cli_log_error(&watching.err);
        status = code < 0 ? EXIT_ERRORS : 0;
    }
    find_close(&job);
    sources_done(&watching);
    buf_done(&watching.line);
    buf_done(&watching.out);
    watch_status_done(&watching.status);
    if (watching.has_pattern)
        regfree(&watching.pattern);
    return status;
}
