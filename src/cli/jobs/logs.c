/* SPDX-License-Identifier: Apache-2.0 */
/* scry logs: what a job printed, of the files that its output went to, or as its relay keeps it; while it runs or afterwards. */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "job/logs/patterns.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/output.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_MOST = 64 << 10, /* of a longer line the pieces are shown one by one */
    ROOM = 2 * LINE_MOST,
    SOURCES = OUTPUT_STREAMS,
    PRINT_BYTES = 64 << 10,
};

#define REMEDY "scry run --tee -- COMMAND keeps it, or send it to files: >FILE 2>&1"
#define PUBLISH_REMEDY "scry run --publish-output -- COMMAND"

/* A line, or a part of one that is long or has no end yet; or bytes that are not kept. */
struct piece {
    const char *bytes;
    size_t len;      /* with the end of the line */
    uint64_t offset; /* in its stream */
    uint64_t gap;    /* 0: it is none */
    double seconds;  /* when the line began, since 1970; -1: not known */
    bool begins, ends;
};

/* One stream of the job. */
struct source {
    const char *name;            /* "stdout", "stderr", "output" */
    char *path;                  /* NULL: it is kept in the job directory */
    struct output_reader reader; /* of what is kept */
    int fd;                      /* of a file */
    uint64_t from, at, until;    /* of a file: what of it is the job's, and what was read */
    uint64_t end;                /* what comes behind that is not waited for */
    char *room;
    size_t used, len;
    size_t gap_at; /* in the room: behind that so many bytes are missing */
    uint64_t gap;
    uint64_t offset; /* of the first byte in the room that is not used */
    struct piece next;
    bool has_next;
    bool inside;    /* the next piece goes on with a line, */
    bool chosen;    /* which is shown */
    double seconds; /* and began then */
};

struct logs {
    struct found_job job;
    struct job_info info;
    enum job_state state;
    uint64_t described; /* which version of job.json was seen last */
    struct source sources[SOURCES];
    size_t count;
    bool out, err; /* what is wanted */
    int64_t rank;  /* -1: not those of a rank */
    bool follow, json, terminal, colours;
    double since; /* seconds since 1970; 0: all */
    double now;   /* what comes later is not waited for; 0: it is */
    struct log_regex *pattern;
    uint64_t last; /* lines; UINT64_MAX: all */
    bool counting; /* shows nothing: how many lines are there? */
    uint64_t lines, skip;
    const struct source *shown; /* whose line was shown last */
    bool open;                  /* and has not ended yet */
    bool draft;                 /* a line that is not whole yet stands on the terminal */
    struct buf text, output;
};

/* ---- files that output went to ---- */

static const char *name_of(int stream)
{
    return stream == OUTPUT_STDOUT ? "standard output" : "standard error";
}

static bool is_over(const struct logs *logs)
{
    return logs->state == JOB_ENDED || logs->state == JOB_LOST;
}

static bool is_elsewhere(const struct logs *logs)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return strcmp(host, logs->info.host) != 0;
}

/* Of what came over a network nobody knows who has named the file: it is not opened here. */
static bool is_mirror(const struct logs *logs)
{
    json_t *remote = mirror_read_remote(logs->job.path);
    bool mirror = remote || logs->job.remote;
    json_decref(remote);
    return mirror;
}

/* The descriptor, or -1 after saying why there is none. */
static int open_file(const struct logs *logs, int stream, const struct job_output *output)
{
    char other[PATH_MAX];
    if (is_mirror(logs)) {
        log_error("unsupported: the %s of the job is in %s on %s, and not published: scry logs there, or %s",
                  name_of(stream), output->path, logs->info.host, PUBLISH_REMEDY);
        return -1;
    }
    int fd = output_file_open(logs->job.path, &logs->info, is_over(logs), stream, output, other, sizeof other);
    if (fd >= 0 && *other)
        log_warning("%s was renamed to %s", output->path, text_base(other));
    else if (fd == -EPERM)
        log_error("%s is not of the owner of the job", output->path);
    else if (fd < 0 && is_elsewhere(logs))
        log_error("unsupported: the %s of the job is in %s on %s, and only to be read there", name_of(stream),
                  output->path, logs->info.host);
    else if (fd == -ENOENT || fd == -ENOTDIR)
        log_error("the %s of the job went to %s, which is gone", name_of(stream), output->path);
    else if (fd == -ESTALE)
        log_error("the %s of the job went to %s, which is another file by now", name_of(stream), output->path);
    else if (fd < 0)
        log_error("the %s of the job went to %s: %s", name_of(stream), output->path, strerror(-fd));
    return fd < 0 ? -1 : fd;
}

static uint64_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

/* ---- sources ---- */

static void source_done(struct source *source)
{
    if (!source->path)
        output_close(&source->reader);
    else
        close(source->fd);
    free(source->path);
    free(source->room);
}

static struct source *source_add(struct logs *logs, const char *name)
{
    struct source *source = &logs->sources[logs->count];
    *source = (struct source){
        .name = name, .fd = -1, .room = malloc(ROOM), .until = UINT64_MAX, .end = UINT64_MAX, .seconds = -1};
    if (!source->room)
        return NULL;
    logs->count++;
    return source;
}

static bool has_source(const struct logs *logs, const char *name)
{
    bool has = false;
    for (size_t i = 0; i < logs->count; i++)
        has |=
            strcmp(logs->sources[i].name, name) == 0 || strcmp(logs->sources[i].name, output_names[OUTPUT_BOTH]) == 0;
    return has;
}

static bool is_wanted(const struct logs *logs, enum output_stream stream)
{
    return stream == OUTPUT_BOTH || (stream == OUTPUT_STDOUT ? logs->out : logs->err);
}

/* What is kept, and was not there before. */
static void add_kept(struct logs *logs)
{
    static const enum output_stream order[] = {OUTPUT_BOTH, OUTPUT_STDOUT, OUTPUT_STDERR};
    for (size_t i = 0; i < OUTPUT_STREAMS && logs->count < SOURCES; i++) {
        enum output_stream stream = order[i];
        struct output_reader reader;
        if (!is_wanted(logs, stream) || has_source(logs, output_names[stream]) ||
            output_open(&reader, logs->job.path, stream) < 0)
            continue;
        struct source *source = source_add(logs, output_names[stream]);
        if (source)
            source->reader = reader;
        else
            output_close(&reader);
    }
}

static void add_files(struct logs *logs)
{
    struct job_output outputs[2];
    bool one = output_files_read(&logs->info, outputs);
    for (int i = 0; i < (!one ? 2 : logs->count ? 0 : 1) && logs->count < SOURCES; i++) {
        const char *name = one ? output_names[OUTPUT_BOTH] : output_names[i];
        if (strcmp(outputs[i].kind, "file") != 0 || has_source(logs, name) || (!one && !is_wanted(logs, i)))
            continue;
        int fd = open_file(logs, i, &outputs[i]);
        struct source *source = fd < 0 ? NULL : source_add(logs, name);
        if (!source) {
            closep(&fd);
            continue;
        }
        source->fd = fd;
        source->path = strdup(outputs[i].path);
        source->until = outputs[i].until;
        source->from = source->until < outputs[i].from ? 0 : outputs[i].from; /* it was cut while the job ran */
        source->offset = source->at = source->from;
        uint64_t size = size_of(fd);
        if (source->until != UINT64_MAX && size < source->until)
            log_warning("%s was cut short: %" PRIu64 " of the %" PRIu64 " bytes that it had are there", outputs[i].path,
                        size, source->until);
    }
    if (one && logs->out != logs->err && logs->count)
        log_warning("standard output and standard error went to one file: this is both");
}

/* ---- files of ranks, which launchers write ---- */

enum { RANK_DIGITS = 6 };

/* How launchers are told so. `letter` stands behind a % for the rank; 0: the name is that of a directory. */
static const struct rank_option {
    const char *launchers, *names; /* with blanks around each */
    char letter;
    bool err, out;
} rank_options[] = {
    {" mpirun mpiexec orterun ", " --output-filename -output-filename ", 0, true, true},
    {" mpirun mpiexec ", " -outfile-pattern --outfile-pattern ", 'r', false, true},
    {" mpirun mpiexec ", " -errfile-pattern --errfile-pattern ", 'r', true, false},
    {" srun ", " -o --output ", 't', false, true},
    {" srun ", " -e --error ", 't', true, false},
};

static bool is_among(const char *words, const char *word, size_t len)
{
    for (const char *at = strstr(words, " "); at && at[1]; at = strstr(at + 1, " "))
        if (strncmp(at + 1, word, len) == 0 && at[1 + len] == ' ')
            return true;
    return false;
}

static const char *argument(const json_t *argv, size_t at)
{
    const char *word = json_string_value(json_array_get(argv, at));
    return word ? word : "";
}

/* The value of such an option; NULL: it is not given, or by another launcher. Some launchers are scripts of a shell. */
static const char *rank_option_value(const struct rank_option *option, const json_t *argv)
{
    size_t at = 0;
    for (bool found = false; !found; at++) {
        const char *launcher = text_base(argument(argv, at));
        found = *launcher && is_among(option->launchers, launcher, strcspn(launcher, ".")); /* mpirun.openmpi */
        if (!found && at)
            return NULL;
    }
    for (; at < json_array_size(argv); at++) {
        const char *word = argument(argv, at);
        size_t len = strcspn(word, "=");
        if (len && is_among(option->names, word, len))
            return word[len] ? word + len + 1 : argument(argv, at + 1);
    }
    return NULL;
}

static void put_literal(struct buf *out, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        buf_puts(out, strchr("*?[\\{,}", bytes[i]) ? "\\" : "");
        buf_putc(out, bytes[i]);
    }
}

/* A pattern of glob(7) of the file. false: it is not one file for each rank. */
static bool rank_pattern(struct buf *out, const struct rank_option *option, const char *value, const char *cwd,
                         int64_t rank, bool err)
{
    bool ranks = !option->letter, any = false;
    unsigned folders = 0; /* whose names are not known, in which is looked */
    if (*value != '/') {
        put_literal(out, cwd, strlen(cwd));
        buf_putc(out, '/');
    }
    if (!option->letter) { /* DIR[:nocopy,...]/JOB/rank.0N/stdout */
        put_literal(out, value, strcspn(value, ":"));
        buf_puts(out, strstr(value, "nojobid") ? "/rank.{" : "/*/rank.{");
        for (int width = 1; width <= RANK_DIGITS; width++) /* zeros in front, as many as the greatest rank needs */
            buf_printf(out, "%s%0*" PRId64, width > 1 ? "," : "", width, rank);
        buf_printf(out, "}/%s", err ? "stderr" : "stdout");
        return *value;
    }
    for (const char *at = value; *at; at++) {
        size_t width = strspn(at + 1, "0123456789");
        if (*at != '%' || !at[1 + width]) {
            folders += *at == '/' && any;
            any &= *at != '/';
            put_literal(out, at, 1);
            continue;
        }
        bool its = at[1 + width] == option->letter;
        if (its)
            buf_printf(out, "%0*" PRId64, width < 3 ? atoi(at + 1) : 0, rank);
        else
            buf_puts(out, "*");
        ranks |= its;
        any |= !its;
        at += 1 + width;
    }
    return ranks && folders < 2; /* more would be a search through a tree that whoever made the job has named */
}

/* The newest file of that name. NULL: there is none. */
static char *newest_file(const char *pattern)
{
    glob_t found;
    struct stat st;
    char *newest = NULL;
    time_t newest_time = 0;
    if (glob(pattern, GLOB_NOSORT | GLOB_BRACE, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (lstat(found.gl_pathv[i], &st) < 0 || !S_ISREG(st.st_mode) || (newest && st.st_mtime <= newest_time))
            continue;
        free(newest);
        newest = strdup(found.gl_pathv[i]);
        newest_time = st.st_mtime;
    }
    globfree(&found);
    return newest;
}

static void add_rank_file(struct logs *logs, const json_t *argv, const char *cwd, bool err)
{
    for (size_t i = 0; i < sizeof rank_options / sizeof *rank_options; i++) {
        const struct rank_option *option = &rank_options[i];
        const char *value = (err ? option->err : option->out) ? rank_option_value(option, argv) : NULL;
        _cleanup_(buf_done) struct buf pattern = BUF_INIT;
        char *path = value && rank_pattern(&pattern, option, value, cwd, logs->rank, err) && !pattern.failed
                         ? newest_file(pattern.data)
                         : NULL;
        int fd = path ? output_open_regular(path) : -1;
        bool good = fd >= 0 && output_is_of_owner(logs->job.path, fd);
        struct source *source = !good ? NULL : source_add(logs, output_names[err ? OUTPUT_STDERR : OUTPUT_STDOUT]);
        if (source) {
            source->fd = fd;
            source->path = path;
            return;
        }
        closep(&fd);
        free(path);
    }
}

/* A launcher may have its daemons write such files on their own nodes. */
static void put_node_of_rank(const struct logs *logs, char *ret_text, size_t size)
{
    struct mpi_stats_set set = {0};
    struct err err = {0};
    const char *node = NULL;
    mpi_stats_read(&set, logs->job.path, &err);
    for (size_t i = 0; i < set.count && !node; i++)
        node = set.ranks[i].rank == logs->rank ? set.ranks[i].node : NULL;
    if (node && strcmp(node, logs->info.host) != 0)
        snprintf(ret_text, size, " (it ran on %s: look there, too)", node);
    mpi_stats_set_done(&set);
}

/* The launcher may be started by a script: by each command line that was seen. An exit status. */
static int add_rank(struct logs *logs)
{
    struct spool_reader reader;
    struct err err = {0};
    json_t *record;
    for (int stream = 0; stream < 2; stream++)
        if (is_wanted(logs, stream))
            add_rank_file(logs, logs->info.argv, logs->info.cwd, stream == OUTPUT_STDERR);
    if (logs->count)
        return 0;
    if (spool_reader_open(&reader, logs->job.path, &err) < 0) {
        cli_log_error(&err);
        return EXIT_ERRORS;
    }
    while (!logs->count && (record = spool_reader_next(&reader))) {
        const char *cwd = member_text(record, "cwd");
        for (int stream = 0; stream < 2; stream++)
            if (is_wanted(logs, stream) && json_is_array(json_object_get(record, "argv")))
                add_rank_file(logs, json_object_get(record, "argv"), *cwd ? cwd : logs->info.cwd,
                              stream == OUTPUT_STDERR);
        json_decref(record);
    }
    spool_reader_close(&reader);
    if (logs->count)
        return 0;
    char where[320] = "";
    put_node_of_rank(logs, where, sizeof where);
    log_error("unsupported: no file of rank %" PRId64
              " is here%s, and in what a launcher has put together ranks cannot "
              "be told apart: mpirun --output-filename DIR, mpiexec -outfile-pattern FILE-%%r, srun -o FILE-%%t",
              logs->rank, where);
    return EXIT_ERRORS;
}

/* What the job says of itself now. */
static void logs_look(struct logs *logs)
{
    struct job_info info;
    struct job_output outputs[2];
    enum job_state state;
    if (job_info_read_state(logs->job.path, &info, &state, NULL) < 0) {
        job_info_done(&info);
        return;
    }
    job_info_done(&logs->info);
    logs->info = info;
    logs->state = state;
    bool one = output_files_read(&logs->info, outputs);
    for (size_t i = 0; i < logs->count; i++) {
        struct source *source = &logs->sources[i];
        if (source->path && logs->rank < 0)
            source->until = outputs[!one && strcmp(source->name, output_names[OUTPUT_STDERR]) == 0].until;
    }
}

/* From its beginning on again. */
static void source_rewind(struct logs *logs, struct source *source)
{
    enum output_stream stream = source->reader.stream;
    source->at = source->offset = source->path ? source->from : 0;
    source->used = source->len = 0;
    source->gap = 0;
    source->has_next = source->inside = false;
    source->seconds = -1;
    if (source->path)
        return;
    output_close(&source->reader);
    if (output_open(&source->reader, logs->job.path, stream) < 0)
        source->reader = (struct output_reader){.dir = -1, .segment = -1, .times = -1, .next_offset = UINT64_MAX};
}

/* A file may be huge: goes on where so many lines before its end begin. */
static void source_near_end(struct source *source, uint64_t lines)
{
    uint64_t size = size_of(source->fd), at = size < source->until ? size : source->until, found = 0;
    for (bool last = true; at > source->from; last = false) {
        size_t len = at - source->from < ROOM ? (size_t)(at - source->from) : ROOM;
        if (pread(source->fd, source->room, len, (off_t)(at - len)) != (ssize_t)len)
            return;
        size_t end = last && source->room[len - 1] == '\n' ? len - 1 : len;
        while (end && source->room[end - 1] != '\n')
            end--;
        for (; end; end--)
            if (source->room[end - 1] == '\n' && ++found == lines) {
                source->from = at - len + end;
                return;
            }
        at -= len;
    }
}

/* ---- pieces ---- */

/* Has the job said something new of itself, such as its end? */
static bool is_described_anew(struct logs *logs)
{
    char path[PATH_MAX + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/job.json", logs->job.path);
    uint64_t before = logs->described;
    logs->described = stat(path, &st) == 0 ? (uint64_t)st.st_ino ^ (uint64_t)st.st_mtim.tv_nsec << 32 : 0;
    return logs->described != before;
}

/* Reads what fits. false: there is no more now. */
static bool source_read(struct logs *logs, struct source *source)
{
    memmove(source->room, source->room + source->used, source->len - source->used);
    source->len -= source->used;
    source->used = 0;
    char *room = source->room + source->len;
    size_t most = ROOM - source->len < LINE_MOST ? ROOM - source->len : LINE_MOST;
    ssize_t got;
    if (!source->path) {
        source->gap_at = source->len;
        got = source->reader.dir < 0 ? 0 : output_read(&source->reader, room, most, &source->gap);
        source->len += got > 0 ? (size_t)got : 0;
        return got > 0 || source->gap;
    }
    uint64_t size = size_of(source->fd);
    if (size < source->at && source->until == UINT64_MAX) {
        log_warning("%s was cut short: this is what it begins with now", source->path);
        source->at = 0;
    }
    uint64_t left = source->at < size ? size - source->at : 0;
    got = left ? pread(source->fd, room, left < most ? (size_t)left : most, (off_t)source->at) : 0;
    /* what is behind the end of the job is of scry, or of the next job; the job says its end before anybody else writes */
    if (got > 0 && source->until == UINT64_MAX && logs->rank < 0 && is_described_anew(logs))
        logs_look(logs);
    uint64_t end = source->end < source->until ? source->end : source->until;
    left = source->at < end ? end - source->at : 0;
    if (got > 0 && (uint64_t)got > left)
        got = (ssize_t)left;
    if (got <= 0)
        return false;
    source->at += (uint64_t)got;
    source->len += (size_t)got;
    return true;
}

/* Finds the next piece. rest: also of a line that has no end yet. false: there is none now. */
static bool source_next(struct logs *logs, struct source *source, bool rest)
{
    struct piece *next = &source->next;
    while (!source->has_next) {
        size_t end = source->gap ? source->gap_at : source->len, left = end - source->used, len = 0;
        const char *start = source->room + source->used;
        const char *feed = left ? memchr(start, '\n', left) : NULL;
        if (feed)
            len = (size_t)(feed - start) + 1;
        else if (left >= LINE_MOST || source->gap)
            len = left;
        else if (source_read(logs, source))
            continue;
        else if (rest && left) /* it was moved */
            len = left;
        else
            return false;
        start = source->room + source->used;
        if (!source->inside)
            source->seconds = source->path ? -1 : output_seconds(&source->reader, source->offset);
        *next = (struct piece){.bytes = start,
                               .len = len,
                               .offset = source->offset,
                               .gap = len ? 0 : source->gap,
                               .seconds = source->seconds,
                               .begins = !source->inside,
                               .ends = feed != NULL};
        source->has_next = true;
    }
    return true;
}

static void source_take(struct source *source)
{
    const struct piece *piece = &source->next;
    source->has_next = false;
    source->used += piece->len;
    source->offset += piece->gap ? piece->gap : piece->len;
    source->inside = !piece->gap && !piece->ends;
    source->gap = piece->gap ? 0 : source->gap;
}

/* The source with the earliest line that is there; NULL: there is none now. */
static struct source *logs_next(struct logs *logs, bool rest)
{
    struct source *next = NULL;
    for (size_t i = 0; i < logs->count; i++) {
        struct source *source = &logs->sources[i];
        if (source_next(logs, source, rest) && !(logs->now > 0 && source->next.seconds > logs->now) &&
            (!next || source->next.seconds < next->next.seconds))
            next = source;
    }
    return next;
}

/* ---- showing ---- */

static void logs_print(struct logs *logs)
{
    if (logs->output.len)
        cli_print(logs->output.data, logs->output.len);
    buf_clear(&logs->output);
}

struct output_line {
    const char *stream;
    double seconds;
    const char *text;
    bool cut;
    int64_t missing;
};

static const struct field line_fields[] = {
    {"stream", FIELD_CHOICE, FIELD_AT(struct output_line, stream), .choices = "stdout|stderr|output",
     .about = "output: both, in one file"},
    {"time", FIELD_NUMBER, FIELD_AT(struct output_line, seconds), .flags = FIELD_NEGATIVE_IS_NULL,
     .about = "when the line began to come, seconds since 1970; null: of a file that is not known"},
    {"text", FIELD_TEXT, FIELD_AT(struct output_line, text), .flags = FIELD_OR_NULL,
     .about = "without its end; bytes that are not UTF-8, and NUL, are \\xNN. null: what was there is not kept"},
    {"cut", FIELD_BOOL, FIELD_AT(struct output_line, cut), .flags = FIELD_WHERE_KNOWN,
     .about = "the line goes on in the next object of this stream, or has no end"},
    {"missing_bytes", FIELD_BYTES, FIELD_AT(struct output_line, missing), .flags = FIELD_OPTIONAL,
     .about = "that are not kept, instead of a line"},
    {0}};

json_t *logs_schema(void)
{
    return fields_schema(line_fields);
}

static void put_json(struct logs *logs, const struct source *source, const struct piece *piece)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, line = BUF_INIT;
    size_t len = piece->len - piece->ends;
    len -= piece->ends && len && piece->bytes[len - 1] == '\r';
    for (size_t at = 0; at < len;) {
        size_t end = at + strnlen(piece->bytes + at, len - at);
        buf_append(&text, piece->bytes + at, end - at);
        buf_puts(&text, end < len ? "\\x00" : "");
        at = end + 1;
    }
    json_t *json = fields_json(line_fields,
                               &(struct output_line){.stream = source->name,
                                                     .seconds = piece->seconds,
                                                     .cut = !piece->gap && !piece->ends,
                                                     .missing = (int64_t)piece->gap},
                               NULL);
    if (!piece->gap) {
        json_object_del(json, "missing_bytes");
        json_object_set_new(json, "text", text_json(text.data ? text.data : ""));
    }
    text_dump_json(&line, json, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(json);
    buf_append(&logs->output, line.data ? line.data : "", line.len);
    buf_putc(&logs->output, '\n');
}

static void erase_draft(struct logs *logs)
{
    buf_puts(&logs->output, logs->draft ? "\r\033[K" : "");
    logs->draft = false;
}

static void end_line(struct logs *logs)
{
    buf_puts(&logs->output, logs->open && logs->terminal ? "\n" : "");
    logs->open = false;
}

/* A terminal shows what is of which stream, unless the lines tell it by their times. */
static void put_head(struct logs *logs, const struct source *source)
{
    bool timed = source->next.seconds >= 0;
    if (logs->shown == source || logs->count < 2 || timed || !source->path)
        return;
    buf_puts(&logs->output, logs->colours ? TEXT_FAINT "==> " : "==> ");
    text_show(&logs->output, source->path);
    buf_puts(&logs->output, logs->colours ? " <==" TEXT_PLAIN "\n" : " <==\n");
}

static void put_gap(struct logs *logs, const struct source *source, const struct piece *piece)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_puts(&text, "... ");
    text_size(&text, piece->gap);
    buf_puts(&text, " of ");
    buf_puts(&text, source->name);
    buf_puts(&text, logs->job.remote ? " were not published ..." : " are not kept ...");
    if (!logs->terminal) {
        logs_print(logs);
        fprintf(stderr, "%s\n", text.data ? text.data : "");
        return;
    }
    end_line(logs);
    buf_puts(&logs->output, text.data ? text.data : "");
    buf_putc(&logs->output, '\n');
}

static void put_piece(struct logs *logs, const struct source *source, const struct piece *piece)
{
    if (!logs->terminal) {
        buf_append(&logs->output, piece->bytes, piece->len);
        return;
    }
    if (logs->shown != source) {
        end_line(logs);
        put_head(logs, source);
    }
    text_show_line(&logs->output, piece->bytes, piece->len - piece->ends, logs->colours);
    buf_puts(&logs->output, piece->ends ? "\n" : "");
    logs->open = !piece->ends;
    logs->shown = source;
}

/* Is the line wanted? Of a long one its first piece says. */
static bool is_chosen(struct logs *logs, const struct piece *piece)
{
    if (logs->since > 0 && piece->seconds < logs->since)
        return false;
    size_t len = piece->len - piece->ends;
    len -= len && piece->bytes[len - 1] == '\r';
    if (logs->pattern && log_regex_match(logs->pattern, piece->bytes, len) != LOG_MATCH_YES)
        return false;
    return logs->lines++ >= logs->skip;
}

static void source_show(struct logs *logs, struct source *source)
{
    const struct piece *piece = &source->next;
    if (piece->gap)
        source->chosen =
            !logs->pattern && logs->lines >= logs->skip && (logs->since <= 0 || piece->seconds >= logs->since);
    else if (piece->begins)
        source->chosen = is_chosen(logs, piece);
    if (logs->counting || !source->chosen)
        return;
    erase_draft(logs);
    if (logs->json)
        put_json(logs, source, piece);
    else if (piece->gap)
        put_gap(logs, source, piece);
    else
        put_piece(logs, source, piece);
    if (logs->output.len > PRINT_BYTES)
        logs_print(logs);
}

/* On a terminal, a line that is not whole yet: a question, or progress. Of one source only. */
static void put_draft(struct logs *logs)
{
    const struct source *source = &logs->sources[0];
    size_t left = source->len - source->used, room = text_columns(STDOUT_FILENO);
    if (logs->count != 1 || !logs->terminal || !left || logs->pattern || source->inside || source->gap)
        return;
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    text_show_line(&line, source->room + source->used, left, false);
    erase_draft(logs);
    buf_append(&logs->output, line.data ? line.data : "",
               text_fit(line.data ? line.data : "", line.len, room > 1 ? room - 1 : 1));
    logs->draft = true;
}

/* All that is there now. */
static void show_rest(struct logs *logs, bool rest)
{
    struct source *source;
    while ((source = logs_next(logs, rest)) && !cli_print_errno()) {
        source_show(logs, source);
        source_take(source);
    }
    if (!rest)
        put_draft(logs);
    logs_print(logs);
}

/* Finds out how many lines come before the last ones. */
static void skip_to_last(struct logs *logs)
{
    if (logs->last == UINT64_MAX)
        return;
    for (size_t i = 0; i < logs->count; i++)
        if (logs->sources[i].path && !logs->pattern && logs->last) {
            source_near_end(&logs->sources[i], logs->last);
            source_rewind(logs, &logs->sources[i]);
        }
    logs->counting = true;
    show_rest(logs, true);
    logs->counting = false;
    logs->skip = logs->lines > logs->last ? logs->lines - logs->last : 0;
    logs->lines = 0;
    for (size_t i = 0; i < logs->count; i++)
        source_rewind(logs, &logs->sources[i]);
}

/* ---- following ---- */

static void watch_changes(const struct logs *logs, int changes)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/" OUTPUT_DIR, logs->job.path);
    inotify_add_watch(changes, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO);
    inotify_add_watch(changes, logs->job.path, IN_MOVED_TO | IN_CREATE); /* job.json */
    for (size_t i = 0; i < logs->count; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", logs->sources[i].fd);
        if (logs->sources[i].path)
            inotify_add_watch(changes, path, IN_MODIFY);
    }
}

/* 0, or -errno with err: the job is not over, but nothing of it comes any more. */
static int logs_follow(struct logs *logs, struct err *err)
{
    _cleanup_(closep) int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int code = 0;
    bool over = is_over(logs) || logs->job.still; /* before: what was written by then is read */
    for (;;) {
        if (changes >= 0)
            watch_changes(logs, changes);
        show_rest(logs, over);
        if (over || code < 0 || cli_print_errno() || !cli_wait_for_more(changes))
            break;
        code = find_look(&logs->job, err);
        if (logs->rank < 0)
            add_kept(logs);
        logs_look(logs);
        over = is_over(logs);
    }
    return over ? 0 : code;
}

/* ---- the command ---- */

/* Why there is nothing, or not all; an exit status. */
static int explain_missing(const struct logs *logs)
{
    static const char *const went[][2] = {
        {"terminal", "to a terminal"}, {"pipe", "to a pipe"}, {"null", "to /dev/null"}, {"other", "to a device"}};
    const char *where[2] = {NULL, NULL}, *words[2] = {"", ""};
    bool kept = false;
    for (size_t i = 0; i < 2; i++) {
        const char *kind = job_output_read(&logs->info, i == 0 ? STDOUT_FILENO : STDERR_FILENO).kind;
        for (size_t k = 0; k < sizeof went / sizeof *went && is_wanted(logs, i); k++)
            if (strcmp(went[k][0], kind) == 0 && !(logs->count && strcmp(kind, "null") == 0) &&
                !has_source(logs, output_names[i]))
                where[i] = went[k][1];
        words[i] = where[i] ? name_of((int)i) : "";
        kept |= strcmp(kind, "file") == 0 && is_wanted(logs, i);
    }
    if (where[0] && where[1] && strcmp(where[0], where[1]) == 0) {
        where[1] = NULL;
        words[0] = "standard output and standard error";
    }
    char text[256] = "";
    for (size_t i = 0; i < 2; i++)
        if (where[i])
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s went %s", *text ? ", " : "", words[i],
                     where[i]);
    const char *slash = strrchr(logs->job.path, '/');
    const char *part = strstr(logs->job.path, "/parts/");
    if (part && part + strlen("/parts") == slash && !logs->count)
        log_error("what a part of a job prints goes to the launcher, where the job began: scry logs %.*s",
                  (int)(part - logs->job.path), logs->job.path);
    else if (is_mirror(logs) && (*text || !logs->count) && !kept)
        log_error("what the job printed is not here%s%s: it was not published; what was kept of it is on %s: scry logs "
                  "there, or " PUBLISH_REMEDY,
                  *text ? ", for its " : "", text, logs->info.host);
    else if (*text && logs->count)
        log_warning("%s, and was not kept: " REMEDY, text);
    else if (*text && !kept)
        log_error("what the job printed is not kept, for its %s: " REMEDY, text);
    else if (!logs->count && !kept)
        log_error("it is not known where the output of the job went: " REMEDY);
    return logs->count ? 0 : EXIT_ERRORS;
}

/* Either so long ago, or a date, a time, or both, of here. false: it is none. */
static bool since_parse(const char *text, double now, double *ret_seconds)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M",
                                        "%Y-%m-%d",          "%H:%M:%S",          "%H:%M"};
    uint64_t ago_ns;
    if (time_parse(text, &ago_ns)) {
        *ret_seconds = now - (double)ago_ns / NS_PER_SECOND;
        return true;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        time_t today = (time_t)now;
        struct tm tm;
        localtime_r(&today, &tm);
        tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
        tm.tm_isdst = -1;
        const char *end = strptime(text, forms[i], &tm);
        bool utc = end && strcmp(end, "Z") == 0;
        if (!end || (*end && !utc))
            continue;
        *ret_seconds = (double)(utc ? timegm(&tm) : mktime(&tm));
        return true;
    }
    return false;
}

static int read_options(const struct options *options, struct logs *logs)
{
    struct err err = {0};
    bool out = options_on(options, "stdout"), wants_err = options_on(options, "stderr");
    const char *pattern = options_text(options, "grep");
    logs->out = out || !wants_err;
    logs->err = wants_err || !out;
    logs->rank = options_given(options, "rank") ? (int64_t)options_number(options, "rank") : -1;
    logs->follow = options_on(options, "follow");
    logs->json = options_on(options, "json");
    logs->terminal = !logs->json && isatty(STDOUT_FILENO);
    logs->colours = logs->terminal && text_has_colours(STDOUT_FILENO);
    logs->last = options_given(options, "last") ? options_number(options, "last") : UINT64_MAX;
    if (pattern && log_regex_new(&logs->pattern, pattern, &err) < 0)
        return cli_usage_error(options, "--grep: %s", err.text);
    return 0;
}

static int check_since(const struct options *options, struct logs *logs)
{
    const char *since = options_text(options, "since");
    double now = (double)job_now_ns(logs->job.path) / NS_PER_SECOND;
    if (since && !since_parse(since, now, &logs->since))
        return cli_usage_error(options, "--since: expected 10m, 2h, 14:30 or 2026-11-30T14:30, not '%s'", since);
    for (size_t i = 0; since && i < logs->count; i++)
        if (logs->sources[i].path || logs->sources[i].reader.times < 0) {
            log_error("unsupported: the lines of %s have no times, which --since needs; scry run --tee keeps them",
                      logs->sources[i].path ? logs->sources[i].path : logs->sources[i].name);
            return EXIT_ERRORS;
        }
    return 0;
}

/* A relay keeps the output, and there is none yet, or was none. */
static bool keeps_output(const struct logs *logs)
{
    char path[PATH_MAX + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/" OUTPUT_DIR, logs->job.path);
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Who does not follow wants what is there now, and no race with a job that writes as fast as it is read. */
static void end_here(struct logs *logs)
{
    for (size_t i = 0; i < logs->count && !logs->follow; i++)
        if (logs->sources[i].path)
            logs->sources[i].end = size_of(logs->sources[i].fd);
    logs->now = logs->follow || is_over(logs) ? 0 : (double)job_now_ns(logs->job.path) / NS_PER_SECOND;
}

static int logs_show(const struct options *options, struct logs *logs)
{
    struct err err = {0};
    int code = find_job(&logs->job, options->words[0], &err);
    code = code < 0 ? code : job_info_read_state(logs->job.path, &logs->info, &logs->state, &err);
    if (code < 0) {
        cli_log_error(&err);
        return EXIT_ERRORS;
    }
    int status = 0;
    if (logs->rank >= 0 && is_mirror(logs)) {
        log_error("unsupported: the files of ranks are on %s, and only to be read there", logs->info.host);
        status = EXIT_ERRORS;
    } else if (logs->rank >= 0) {
        status = add_rank(logs);
    } else {
        add_kept(logs);
        add_files(logs);
    }
    if (status == 0)
        status = check_since(options, logs);
    if (status == 0 && logs->rank < 0 && !keeps_output(logs))
        status = explain_missing(logs);
    if (status)
        return status;
    end_here(logs);
    skip_to_last(logs);
    if (!logs->follow)
        show_rest(logs, true);
    else if ((code = logs_follow(logs, &err)) < 0)
        cli_log_error(&err);
    erase_draft(logs);
    end_line(logs);
    logs_print(logs);
    if (logs->follow && (logs->state == JOB_LOST || logs->state == JOB_UNREACHABLE))
        log_warning(logs->state == JOB_LOST ? "the end of the job was not recorded: its scry run was killed"
                                            : "nothing is heard of the job any more");
    return code < 0 ? EXIT_ERRORS : 0;
}

int cmd_logs(const struct options *options)
{
    _cleanup_(freep) struct logs *logs = calloc(1, sizeof *logs);
    if (!logs) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    logs->job.input = logs->job.output = -1;
    int status = read_options(options, logs);
    if (status == 0)
        status = logs_show(options, logs);
    find_close(&logs->job);
    job_info_done(&logs->info);
    for (size_t i = 0; i < logs->count; i++)
        source_done(&logs->sources[i]);
    log_regex_free(logs->pattern);
    buf_done(&logs->output);
    return status;
}
