/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/serve.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "jobdir/record/info.h"
#include "jobdir/record/parts.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "jobdir/record/kinds.h"
#include "web/serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EVENTS_BYTES = 8 << 20 /* that are kept of a job */ };

struct event {
    char *text;            /* "id: ...\nevent: ...\ndata: ...\n\n" */
    uint32_t len, source;  /* source: which part */
    enum record_type type; /* RECORD_TYPES: one that is not known here */
    uint64_t offset;       /* in its source: where the next one begins */
};

struct follow;
struct follower { /* somebody who looks; in the list of the job */
    struct follow *follow;
    struct follower *next, **before;
    uint64_t next_event;                     /* its number */
    bool lost;                               /* some were gone when it came */
    struct position *behind;                 /* what it has got before it came; NULL: nothing */
    void (*more)(struct follower *follower); /* there are more events, or it was the last one */
};

static int follow_begin(struct follows *follows, const char *jobdir, const char *url, struct position *behind_take,
                        struct follower *ret_follower);
static void follow_got(struct follower *follower);
static void follow_end(struct follower *follower);
static const struct event *follow_next(struct follower *follower, uint64_t *ret_lost);
static const struct event *follow_last(struct follower *follower);

/* Records of a job as server-sent events. */

struct stream {
    struct follower follower;
    struct http_request *request;
    unsigned char types[RECORD_TYPES + 1]; /* wanted */
    struct buf rest;                       /* of an event that did not fit into a piece */
    size_t rest_at;
    bool quiet, last;
    lws_sorted_usec_list_t timer;
};

static void on_more(struct follower *follower)
{
    request_more(lws_container_of(follower, struct stream, follower)->request);
}

/* Proxies and browsers end connections that are silent; a session may have ended. */
static void on_quiet(lws_sorted_usec_list_t *timer)
{
    struct stream *stream = lws_container_of(timer, struct stream, timer);
    struct http_request *request = stream->request;
    stream->quiet = true;
    lws_sul_schedule(request->server->context, 0, &stream->timer, on_quiet, STREAM_QUIET_SECONDS * LWS_US_PER_SEC);
    request_more(request);
}

static void stream_done(struct http_request *request)
{
    struct stream *stream = request->extra;
    lws_sul_schedule(request->server->context, 0, &stream->timer, NULL, LWS_SET_TIMER_USEC_CANCEL);
    follow_end(&stream->follower);
    buf_done(&stream->rest);
    free(stream);
}

/* What did not fit into the last piece goes first. */
static size_t stream_put(struct stream *stream, unsigned char *room, size_t size, const char *text, size_t len)
{
    size_t part = len < size ? len : size;
    memcpy(room, text, part);
    if (part < len) {
        buf_clear(&stream->rest);
        buf_append(&stream->rest, text + part, len - part);
        stream->rest_at = 0;
    }
    return part;
}

static size_t put_rest(struct stream *stream, unsigned char *room, size_t size)
{
    size_t left = stream->rest.len - stream->rest_at, part = left < size ? left : size;
    if (part)
        memcpy(room, stream->rest.data + stream->rest_at, part);
    stream->rest_at += part;
    return part;
}

static size_t put_lost(struct stream *stream, unsigned char *room, size_t size, uint64_t lost)
{
    char text[96], number[24] = "null";
    if (lost != UINT64_MAX)
        snprintf(number, sizeof number, "%" PRIu64, lost);
    snprintf(text, sizeof text, "event: lost\ndata: {\"records\":%s}\n\n", number);
    return stream_put(stream, room, size, text, strlen(text));
}

static ssize_t stream_more(struct http_request *request, unsigned char *room, size_t size)
{
    static const char comment[] = ": \n\n";
    struct stream *stream = request->extra;
    const struct event *event;
    uint64_t lost;
    size_t len = put_rest(stream, room, size);
    if (!request_is_let_in(request) ||
        stream->rest.failed) /* for want of memory: who comes back gets the event whole */
        return -1;
    if (stream->last && !len)
        return -1;
    while (!stream->last && len < size && stream->rest_at == stream->rest.len &&
           ((event = follow_next(&stream->follower, &lost)) || lost)) {
        if (lost)
            len += put_lost(stream, room + len, size - len, lost);
        else if (stream->types[event->type])
            len += stream_put(stream, room + len, size - len, event->text, event->len);
        if (!lost)
            follow_got(&stream->follower);
    }
    event = follow_last(&stream->follower);
    if (event && !stream->last && len < size && stream->rest_at == stream->rest.len) {
        stream->last = true;
        len += stream_put(stream, room + len, size - len, event->text, event->len);
        request_more(request);
    }
    if (!len && stream->quiet)
        len = stream_put(stream, room, size, comment, sizeof comment - 1);
    if (len) {
        stream->quiet = false;
        lws_set_timeout(request->wsi, PENDING_TIMEOUT_HTTP_CONTENT, STREAM_TIMEOUT_SECONDS);
    }
    return (ssize_t)len;
}

static void read_types(struct stream *stream, const char *types)
{
    struct span list = span_str(types ? types : ""), name;
    memset(stream->types, !list.len, sizeof stream->types);
    while (foreign_next(&list, ',', &name)) {
        size_t type = 0;
        while (type < RECORD_TYPES && !span_is(name, record_kinds[type].type))
            type++;
        if (type < RECORD_TYPES || span_is(name, "record"))
            stream->types[type] = 1;
    }
}

void answer_records(struct http_request *request)
{
    struct named_job job;
    if (!job_of_request_here(request, &job))
        return;
    struct stream *stream = calloc(1, sizeof *stream);
    struct position *behind = request->behind ? calloc(1, sizeof *behind) : NULL;
    if (behind && !position_parse(span_str(request->behind), behind)) {
        free(behind);
        behind = NULL;
    }
    int code = stream ? follow_begin(request->server->follows, job.path, job.followed ? job.word : NULL, behind,
                                     &stream->follower)
                      : -ENOMEM;
    if (!stream)
        free(behind); /* follow_begin takes it */
    if (code < 0) {
        free(stream);
        request->refusal.retry = "5";
        request_answer_error(request, 503, "busy", "too many jobs are looked at; try again later");
        return;
    }
    stream->request = request;
    stream->follower.more = on_more;
    read_types(stream, request_argument(request, "types"));
    request->extra = stream;
    request->done = stream_done;
    lws_http_mark_sse(request->wsi);
    lws_sul_schedule(request->server->context, 0, &stream->timer, on_quiet, LWS_US_PER_SEC);
    request_answer_more(request,
                        &(struct reply){.status = 200, .type = "text/event-stream", .cache = "no-store, no-transform"},
                        UINT64_MAX, stream_more);
}

enum {
    JOBS_MOST = 256,
    LOOK_FILES = 8, /* that are open at once while a job's state is looked at, at most */
    LINE_MOST =
        EVENTS_BYTES / 8, /* of a spool that others may have written: what one part of a job can take of the memory */
    START_BYTES = EVENTS_BYTES / 2 /* of a spool, from its end: the records of these are the first */
};

struct source {
    char *path;
    uint32_t name;
    struct spool_reader reader;
    json_t *next;    /* read, and no event yet; NULL: none */
    uint64_t offset; /* behind the last event */
    double shift;    /* when it began, by the job's clock */
};

struct follow {
    UT_hash_handle hh;
    char *jobdir, *url;   /* url NULL: the job is here */
    struct child *keeper; /* of the mirror; NULL: none */
    struct follows *all;
    struct source *sources; /* the first is the job's own */
    size_t source_count;
    double started_seconds;
    bool cut;             /* records before the first event were left out */
    struct event *events; /* a ring of `room`, a power of two */
    size_t room;
    uint64_t first, end; /* numbers of the first one that is kept, and behind the last one */
    size_t bytes;
    struct event last; /* text NULL: the job is not over */
    struct buf text;
    struct follower *followers;
    lws_sorted_usec_list_t timer;
    uint64_t looked_ns, changed_ns, left_ns, kept_ns;
    unsigned keepers;    /* that were started in a row and did not last */
    bool over, finished; /* finished: all was read, and the last event is there */
    bool starved;        /* for want of open files or memory not all was found: what is missing comes later */
};

struct follows {
    struct server *server;
    struct follow *table;
};

struct follows *follows_new(struct server *server)
{
    struct follows *all = calloc(1, sizeof *all);
    if (all)
        all->server = server;
    return all;
}

/* ---- sources ---- */

/* When the part began, by the job's clock: as scry watch has it. */
static double shift_of(const struct follow *follow, const char *dir)
{
    struct job_info info;
    struct part_clock clock;
    double shift = 0;
    job_part_clock(dir, &clock);
    if (job_info_read(dir, &info, NULL) == 0 && follow->started_seconds > 0)
        shift = ((double)info.started_ns - (double)clock.offset_ns) / NS_PER_SECOND - follow->started_seconds;
    job_info_done(&info);
    return shift;
}

/* Of a long spool only the end is read: the last line begins behind a line feed. */
static bool skip_old(struct spool_reader *reader)
{
    char bytes[64 << 10];
    struct stat info;
    if (fstat(reader->fd, &info) < 0 || info.st_size <= START_BYTES)
        return false;
    uint64_t from = (uint64_t)info.st_size - START_BYTES;
    for (ssize_t got; (got = pread(reader->fd, bytes, sizeof bytes, (off_t)from)) > 0; from += (uint64_t)got) {
        const char *end = memchr(bytes, '\n', (size_t)got);
        if (end)
            return spool_reader_seek(reader, from + (uint64_t)(end - bytes) + 1) == 0;
    }
    return spool_reader_seek(reader, (uint64_t)info.st_size) == 0; /* it has no line */
}

/* Without memory, or before its spool is there, it comes later. */
static int add_source(void *ctx, const char *dir)
{
    struct follow *follow = ctx;
    for (size_t i = 0; i < follow->source_count; i++)
        if (strcmp(follow->sources[i].path, dir) == 0)
            return 0;
    if (follow->source_count == POSITION_PARTS)
        return 0;
    struct source source = {.path = strdup(dir), .reader = {.fd = -1}}, *grown = NULL;
    int code = source.path ? spool_reader_open(&source.reader, dir, NULL) : -ENOMEM;
    if (code == 0 && !(grown = realloc(follow->sources, (follow->source_count + 1) * sizeof *grown)))
        code = -ENOMEM;
    if (code < 0) {
        follow->starved |= code == -ENOMEM || code == -EMFILE || code == -ENFILE;
        spool_reader_close(&source.reader);
        free(source.path);
        return follow->source_count ? 0 : 1; /* the job's own is the first */
    }
    follow->sources = grown;
    source.name = follow->source_count ? position_name(text_base(source.path)) : 0;
    source.shift = follow->source_count ? shift_of(follow, dir) : 0;
    source.reader.line_most = LINE_MOST;
    source.reader.in_pieces = true;
    follow->cut |= skip_old(&source.reader);
    source.offset = source.reader.offset;
    follow->sources[follow->source_count++] = source;
    return 0;
}

/* Without them a job that goes on looks like one that is over, or gone. */
static bool has_descriptors(void)
{
    int fds[LOOK_FILES];
    size_t count = 0;
    while (count < LOOK_FILES && (fds[count] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) >= 0)
        count++;
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    return count == LOOK_FILES;
}

static void look_state(struct follow *follow)
{
    struct job_info info;
    enum job_state state = JOB_ENDED;
    follow->starved = !has_descriptors();
    if (follow->starved)
        return;
    bool known = job_info_read_state(follow->jobdir, &info, &state, NULL) == 0;
    if (known)
        follow->started_seconds = (double)info.started_ns / NS_PER_SECOND;
    job_info_done(&info);
    follow->over = !known || (state != JOB_RUNNING && state != JOB_UNREACHABLE);
    job_dirs_each(follow->jobdir, add_source, follow);
}

/* ---- a mirror is as new as its job while scry-mirror follows it ---- */

static void on_keeper_said(struct child *child)
{
    buf_clear(&child->out.bytes);
}

static void on_keeper_ended(struct child *child)
{
    struct follow *follow = child->spec.ctx;
    if (!follow)
        return;
    follow->keeper = NULL;
    if (clock_now_ns() - follow->kept_ns > 2 * AGAIN_SELDOM_NS)
        follow->keepers = 0;
}

/* The URL may hold a password, so it is no argument. */
static void mirror_keep(struct follow *follow)
{
    char program[PATH_MAX], *argv[] = {program, (char *)"follow", NULL};
    uint64_t now_ns = clock_now_ns(), again_ns = FOLLOW_AGAIN_MS * WAITS_NS_PER_MS;
    size_t len = follow->url ? strlen(follow->url) : 0;
    if (!len || follow->keeper || follow->over ||
        (follow->kept_ns && now_ns - follow->kept_ns < waits_again_ns(follow->keepers, again_ns, again_ns)) ||
        dirs_libexec("scry-mirror", program, sizeof program, NULL) < 0)
        return;
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    buf_printf(&line, "%s\n", follow->url);
    follow->kept_ns = now_ns;
    follow->keepers++;
    follow->keeper = child_start(follow->all->server, &(struct child_spec){.argv = argv,
                                                                           .input = true,
                                                                           .output_most = SIZE_MAX,
                                                                           .heard = on_keeper_said,
                                                                           .ended = on_keeper_ended,
                                                                           .ctx = follow});
    if (follow->keeper && (line.failed || child_write(follow->keeper, line.data, line.len) < 0))
        child_kill(follow->keeper);
}

static void keep_no_more(struct follow *follow)
{
    if (!follow->keeper)
        return;
    follow->keeper->spec.ctx = NULL;
    child_close_input(follow->keeper);
    follow->keeper = NULL;
}

static double seconds_of(const struct source *source)
{
    return json_number_value(json_object_get(source->next, "t")) + source->shift;
}

static struct source *next_source(struct follow *follow)
{
    struct source *next = NULL;
    for (size_t i = 0; i < follow->source_count; i++) {
        struct source *source = &follow->sources[i];
        if (!source->next)
            source->next = spool_reader_next(&source->reader);
        if (source->next && (!next || seconds_of(source) < seconds_of(next)))
            next = source;
    }
    return next;
}

/* ---- events ---- */

static void put_id(struct follow *follow, struct buf *out)
{
    buf_puts(out, "id: ");
    for (size_t i = 0; i < follow->source_count; i++)
        if (!i || follow->sources[i].offset)
            position_put(out, follow->sources[i].name, follow->sources[i].offset, !i);
    buf_putc(out, '\n');
}

/* The id stands last: a reader that has not got all of an event has not got its id, either. */
static void put_event(struct follow *follow, const char *name, const json_t *data)
{
    struct buf *out = &follow->text;
    _cleanup_(freep) char *text = json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    buf_clear(out);
    buf_printf(out, "event: %s\ndata: %s\n", name, text ? text : "null");
    put_id(follow, out);
    buf_putc(out, '\n');
}

static void drop_first(struct follow *follow)
{
    struct event *event = &follow->events[follow->first++ & (follow->room - 1)];
    follow->bytes -= event->len;
    free(event->text);
    event->text = NULL;
}

static bool make_room(struct follow *follow)
{
    size_t room = follow->room ? 2 * follow->room : 256;
    if (follow->end - follow->first < follow->room)
        return true;
    struct event *grown = calloc(room, sizeof *grown);
    if (!grown)
        return false;
    for (uint64_t i = follow->first; i < follow->end; i++)
        grown[i & (room - 1)] = follow->events[i & (follow->room - 1)];
    free(follow->events);
    follow->events = grown;
    follow->room = room;
    return true;
}

static void add_event(struct follow *follow, struct source *source)
{
    json_t *record = TAKE_PTR(source->next);
    enum record_type type = record_type(record);
    bool own = source == follow->sources;
    source->offset = source->reader.offset;
    spool_reader_complete(&source->reader, record);
    put_event(follow, type < RECORD_TYPES ? record_kinds[type].type : "record", record);
    json_decref(record);
    if (type == RECORD_end && own && follow->text.data) { /* the end of the stream has this name; it comes with that */
        free(follow->last.text);
        follow->last = (struct event){.len = (uint32_t)follow->text.len, .type = type};
        follow->last.text = follow->text.failed ? NULL : strdup(follow->text.data);
        return;
    }
    char *text = follow->text.failed ? NULL : malloc(follow->text.len);
    if (!text || !make_room(follow)) {
        free(text);
        follow->cut = true;
        return;
    }
    memcpy(text, follow->text.data, follow->text.len);
    follow->events[follow->end++ & (follow->room - 1)] =
        (struct event){text, (uint32_t)follow->text.len, (uint32_t)(source - follow->sources), type, source->offset};
    follow->bytes += follow->text.len;
    while (follow->bytes > EVENTS_BYTES)
        drop_first(follow);
}

static void streams_wake(struct follow *follow)
{
    for (struct follower *follower = follow->followers, *next; follower; follower = next) {
        next = follower->next;
        follower->more(follower);
    }
}

static void follow_free(struct follow *follow)
{
    keep_no_more(follow);
    while (follow->first < follow->end)
        drop_first(follow);
    for (size_t i = 0; i < follow->source_count; i++) {
        json_decref(follow->sources[i].next);
        spool_reader_close(&follow->sources[i].reader);
        free(follow->sources[i].path);
    }
    free(follow->sources);
    free(follow->events);
    free(follow->last.text);
    buf_done(&follow->text);
    free(follow->jobdir);
    free(follow->url);
    free(follow);
}

void follows_free(struct follows *all)
{
    struct follow *follow, *next;
    if (!all)
        return;
    HASH_ITER(hh, all->table, follow, next)
    {
        HASH_DEL(all->table, follow);
        follow->keeper = NULL; /* all children are gone */
        follow_free(follow);
    }
    free(all);
}

/* Its own last event is the record of its end, if there is one. */
static void follow_finish(struct follow *follow)
{
    json_t *null = json_null();
    if (!follow->last.text) {
        put_event(follow, "end", null);
        follow->last.text = follow->text.failed ? NULL : strdup(follow->text.data);
        follow->last.len = (uint32_t)follow->text.len;
    }
    follow->finished = follow->last.text != NULL;
}

static void follow_forget(struct follow *follow)
{
    lws_sul_schedule(follow->all->server->context, 0, &follow->timer, NULL, LWS_SET_TIMER_USEC_CANCEL);
    HASH_DEL(follow->all->table, follow);
    follow_free(follow);
}

/* Makes room for another job: the first one that nobody looks at any more goes. false: there is none. */
static bool forget_one(struct follows *all)
{
    struct follow *follow, *next;
    HASH_ITER(hh, all->table, follow, next)
    if (!follow->followers) {
        follow_forget(follow);
        return true;
    }
    return false;
}

/* Until the next look: at all jobs at once, on the same ticks. So the server wakes up once for what all of them have
 * written; to wake up for each of them costs two to three times as much. */
static lws_usec_t until_tick(const struct follow *follow, uint64_t now_ns)
{
    bool quick = now_ns - follow->changed_ns < FOLLOW_QUIET_MS * UINT64_C(1000000) && !follow->finished;
    uint64_t tick_us = (quick ? FOLLOW_QUICK_MS : FOLLOW_SLOW_MS) * LWS_US_PER_MS;
    return (lws_usec_t)(tick_us - now_ns / 1000 % tick_us);
}

static void follows_look(lws_sorted_usec_list_t *timer)
{
    struct follow *follow = lws_container_of(timer, struct follow, timer);
    uint64_t begun_ns = clock_now_ns(), now_ns = begun_ns, end = follow->end;
    struct source *source = NULL;
    if (!follow->followers && now_ns - follow->left_ns > FOLLOW_KEEP_MS * UINT64_C(1000000)) {
        follow_forget(follow);
        return;
    }
    if (now_ns - follow->looked_ns > FOLLOW_STATE_MS * UINT64_C(1000000)) {
        look_state(follow); /* before: what was recorded by then is read */
        follow->looked_ns = now_ns;
        mirror_keep(follow);
    }
    while (now_ns - begun_ns < FOLLOW_SLICE_MS * UINT64_C(1000000) && (source = next_source(follow))) {
        add_event(follow, source);
        now_ns = clock_now_ns();
    }
    if (!source && follow->over && !follow->starved && !follow->finished) {
        keep_no_more(follow);
        follow_finish(follow);
    }
    if (follow->end != end)
        follow->changed_ns = now_ns;
    if (follow->end != end || follow->finished)
        streams_wake(follow);
    lws_sul_schedule(follow->all->server->context, 0, &follow->timer, follows_look,
                     source ? 1 : until_tick(follow, now_ns));
}

/* ---- those who look ---- */

static struct follow *follow_new(struct follows *all, const char *jobdir, const char *url)
{
    struct follow *follow = calloc(1, sizeof *follow);
    if (follow && (!(follow->jobdir = strdup(jobdir)) || (url && !(follow->url = strdup(url))))) {
        free(follow->jobdir);
        free(follow);
        follow = NULL;
    }
    if (!follow)
        return NULL;
    follow->all = all;
    look_state(follow);
    follow->looked_ns = clock_now_ns();
    mirror_keep(follow);
    HASH_ADD_KEYPTR(hh, all->table, follow->jobdir, strlen(follow->jobdir), follow);
    lws_sul_schedule(all->server->context, 0, &follow->timer, follows_look, 1);
    return follow;
}

/* Begins. url: of the job at a broker, whose mirror the directory is, which is kept as new as the job; otherwise NULL. `behind`
 * is taken, or NULL. 0; -ENOMEM; -EMFILE: too many jobs are followed. */
static int follow_begin(struct follows *all, const char *jobdir, const char *url, struct position *behind,
                        struct follower *ret_follower)
{
    struct follow *follow = NULL;
    HASH_FIND(hh, all->table, jobdir, strlen(jobdir), follow);
    if (!follow && HASH_COUNT(all->table) >= JOBS_MOST && !forget_one(all)) {
        free(behind);
        return -EMFILE;
    }
    if (!follow && !(follow = follow_new(all, jobdir, url))) {
        free(behind);
        return -ENOMEM;
    }
    ret_follower->follow = follow;
    ret_follower->behind = behind;
    ret_follower->next_event = follow->first;
    ret_follower->lost = follow->cut || follow->first;
    ret_follower->before = &follow->followers;
    ret_follower->next = follow->followers;
    if (ret_follower->next)
        ret_follower->next->before = &ret_follower->next;
    follow->followers = ret_follower;
    return 0;
}

static void follow_end(struct follower *follower)
{
    struct follow *follow = follower->follow;
    if (!follow)
        return;
    *follower->before = follower->next;
    if (follower->next)
        follower->next->before = follower->before;
    free(follower->behind);
    follower->behind = NULL;
    follower->follow = NULL;
    follow->left_ns = clock_now_ns();
}

/* Whoever comes back has lost nothing if what it got reaches to what is there. */
static bool has_lost(struct follower *follower, const struct event *event)
{
    struct follow *follow = follower->follow;
    if (!follower->lost || !follower->behind)
        return follower->lost;
    const struct source *source = &follow->sources[event->source];
    return position_of(follower->behind, source->name) < event->offset;
}

/* The next event that it has not got; NULL: none now. *ret_lost: so many were left out before it, UINT64_MAX: it is not known how
 * many. The event is good until the loop goes on. */
static const struct event *follow_next(struct follower *follower, uint64_t *ret_lost)
{
    struct follow *follow = follower->follow;
    *ret_lost = 0;
    if (follower->next_event < follow->first) {
        *ret_lost = follow->first - follower->next_event;
        follower->next_event = follow->first;
    }
    while (follower->next_event < follow->end) {
        const struct event *event = &follow->events[follower->next_event & (follow->room - 1)];
        const struct source *source = &follow->sources[event->source];
        if (has_lost(follower, event))
            *ret_lost = UINT64_MAX;
        follower->lost = false;
        if (!follower->behind || position_of(follower->behind, source->name) < event->offset)
            return event;
        follower->next_event++;
    }
    return NULL;
}

/* It has got this one. */
static void follow_got(struct follower *follower)
{
    follower->next_event++;
}

/* The job is over, and it has got all. The text of the last event. NULL: not yet. */
static const struct event *follow_last(struct follower *follower)
{
    struct follow *follow = follower->follow;
    return follow->finished && follower->next_event >= follow->end ? &follow->last : NULL;
}
