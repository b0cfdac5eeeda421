/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/trace/write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/trace.h"
#include "shm/mpi_calls.h"
#include "symbols/layout/layout.h"

struct stream {
    int fd; /* -1: closed for now */
    bool busy;
    uint64_t bytes, time_end, packets, discarded;
    uint64_t used; /* when last, for the cache of descriptors */
};

struct function {
    uint32_t id; /* with RECORD_PLACE, a place */
    char *name;
    uint32_t of; /* a place's: its function, whose name it has; name NULL */
    UT_hash_handle hh;
};

struct layout_type {
    uint32_t id;
    enum ctf_role { CTF_NONE, CTF_ENTRY, CTF_EXIT, CTF_CALLER } role; /* in which records it is found */
    char *tsdl;                                                       /* a struct type */
};

struct value {
    char *key, *text;
};

struct trace_writer {
    struct trace_identity identity;
    char *strings[4]; /* that identity points to */
    char *path;
    uint8_t uuid[16];
    struct stream *streams;
    uint32_t stream_count, open_files;
    size_t stream_cap;
    uint64_t uses, bytes;
    struct function *functions; /* hash by id, in the order in which they came */
    struct layout_type *layouts;
    size_t layout_count, layout_cap;
    struct value *values; /* problems among them */
    size_t value_count, value_cap;
    struct buf new_functions, new_places, new_layouts, new_modules; /* lines not yet in the files */
    uint64_t switches_bytes;
    bool switches_failed;
    bool metadata_stale, process_stale, ending;
    int failed; /* -errno: no packet is written any more */
    uint64_t metadata_bytes, metadata_ns;
};

/* ---- files ---- */

enum { OPEN_FILES = 8 };
#define METADATA_BYTES_PER_NS 200 /* ns to wait for each byte that a rewritten metadata file has */

/* Writes all at `offset`, or cuts the file back to it. */
static int write_whole(int fd, struct iovec *parts, int count, uint64_t offset)
{
    uint64_t at = offset;
    while (count > 0) {
        ssize_t put = pwritev(fd, parts, count, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            int code = put < 0 ? -errno : -EIO;
            int cut = ftruncate(fd, (off_t)offset);
            (void)cut;
            return code;
        }
        at += (uint64_t)put;
        for (; count > 0 && (size_t)put >= parts->iov_len; parts++, count--)
            put -= (ssize_t)parts->iov_len;
        if (count > 0) {
            parts->iov_base = (char *)parts->iov_base + put;
            parts->iov_len -= (size_t)put;
        }
    }
    return 0;
}

/* ---- the metadata ---- */

/*
 * What shm/record.h says, in TSDL (Common Trace Format 1.8.3, section 7 and appendix C), so that babeltrace2 and Trace Compass read the packets as they are. Function ids are an enumeration of their names, captured values a
 * variant chosen by their layout.
 */

struct ctf_function {
    uint32_t id;
    const char *name;
};

/* A string literal: quotes, backslashes and control characters escaped. */
static void put_string(struct buf *out, const char *text)
{
    buf_putc(out, '"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            buf_printf(out, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            buf_putc(out, '?');
        else
            buf_putc(out, (char)*c);
    }
    buf_putc(out, '"');
}

static void put_trace(struct buf *out, const struct trace_writer *writer)
{
    const struct trace_identity *identity = &writer->identity;
    buf_puts(out, "trace {\n    major = 1;\n    minor = 8;\n    uuid = \"");
    for (unsigned i = 0; i < sizeof writer->uuid; i++)
        buf_printf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", writer->uuid[i]);
    buf_puts(out,
             "\";\n    byte_order = le;\n    packet.header := struct {\n        u32 magic;\n        u32 stream_id;\n"
             "        u64 stream_instance_id;\n    };\n};\n\nenv {\n    hostname = ");
    put_string(out, identity->host);
    buf_puts(out, ";\n    procname = ");
    put_string(out, text_base(identity->exe));
    buf_puts(out, ";\n    exe = ");
    put_string(out, identity->exe);
    buf_puts(out, ";\n    node = ");
    put_string(out, identity->node);
    buf_printf(out, ";\n    vpid = %d;\n    tracer_name = \"scry\";\n};\n\n", identity->pid);
}

/* Wall time of tick 0 in whole seconds and the rest in ticks. */
static void put_clock(struct buf *out, const struct trace_identity *identity)
{
    uint64_t seconds = identity->tick_zero_ns / NS_PER_SECOND, rest_ns = identity->tick_zero_ns % NS_PER_SECOND;
    uint64_t rest = (uint64_t)((unsigned __int128)rest_ns * identity->ticks_per_second / NS_PER_SECOND);
    buf_printf(out,
               "clock {\n    name = tsc;\n    description = \"time stamp counter\";\n    freq = %" PRIu64
               ";\n    precision = 1;\n    offset_s = %" PRIu64 ";\n    offset = %" PRIu64
               ";\n    absolute = false;\n};\n\n",
               identity->ticks_per_second, seconds, rest);
}

static void put_stream(struct buf *out)
{
    buf_puts(
        out,
        "typealias integer { size = 64; align = 8; signed = false; map = clock.tsc.value; } := ticks;\n"
        /* all unaligned: the struct would begin at the next byte, not after the 5 bits */
        "typealias integer { size = 27; align = 1; signed = false; map = clock.tsc.value; } := ticks27;\n"
        "typealias integer { size = 32; align = 1; signed = false; } := bits32;\n"
        "typealias integer { size = 64; align = 1; signed = false; map = clock.tsc.value; } := bits64;\n\n"
        "stream {\n    id = 0;\n"
        "    event.header := struct {\n"
        "        enum : integer { size = 5; align = 1; signed = false; } { compact = 0 ... 30, extended = 31 } id;\n"
        "        variant <id> {\n"
        "            struct { ticks27 timestamp; } compact;\n"
        "            struct { ticks27 low; bits32 id; bits64 timestamp; } extended;\n"
        "        } v;\n"
        "    } align(8);\n"
        "    packet.context := struct {\n"
        "        ticks timestamp_begin;\n        ticks timestamp_end;\n        u64 content_size;\n"
        "        u64 packet_size;\n        u64 events_discarded;\n        u64 packet_seq_num;\n"
        "        u32 tid;\n        u32 depth;\n        u32 stack;\n        u32 thread_serial;\n    };\n};\n\n");
}

/* babeltrace2 2.0 takes time with the square of these numbers: 1.5 s for 4000 functions, a quarter of an hour for
 * 100000; 2 s for 1000 layouts. What is beyond is a number there, or bytes; our own readers use `.functions` and
 * `.layouts`, which have all. */
enum { NAMED_FUNCTIONS = 4000 };

static void put_functions(struct buf *out, const struct ctf_function *functions, size_t count)
{
    buf_puts(out, "typealias enum : u32 {\n");
    for (size_t i = 0; i < count && i < NAMED_FUNCTIONS; i++) {
        buf_puts(out, "    ");
        put_string(out, functions[i].name);
        buf_printf(out, " = %" PRIu32 ",\n", functions[i].id);
    }
    if (count == 0)
        buf_puts(out, "    \"none\" = 0xffffffff,\n");
    buf_puts(out, "} := function_id;\n\n");
}

static bool layout_is_named(const struct layout_type *layout)
{
    return layout->id <= CTF_LAST_LAYOUT;
}

static void put_layouts(struct buf *out, const struct trace_writer *writer)
{
    if (writer->layout_count == 0)
        return;
    buf_printf(out, "typealias enum : u32 {\n    NONE = %d,\n", RECORD_NO_LAYOUT);
    bool more = false;
    for (size_t i = 0; i < writer->layout_count; i++) {
        if (layout_is_named(&writer->layouts[i]))
            buf_printf(out, "    L%" PRIu32 " = %" PRIu32 ",\n", writer->layouts[i].id, writer->layouts[i].id);
        more |= !layout_is_named(&writer->layouts[i]);
    }
    if (more)
        buf_printf(out, "    MORE = %d ... %" PRIu32 ",\n", CTF_LAST_LAYOUT + 1, UINT32_MAX);
    buf_puts(out, "} := layout_id;\n\n");
}

/* What a record with values ends with: a variant of those layouts that its kind of record has. The types stand where
 * they are used: babeltrace2 2.0 does not find the tags of variants inside of a typealias. */
static void put_values(struct buf *out, const struct trace_writer *writer, enum ctf_role role)
{
    size_t count = 0;
    bool more = false;
    for (size_t i = 0; i < writer->layout_count; i++) {
        count += writer->layouts[i].role == role;
        more |= !layout_is_named(&writer->layouts[i]);
    }
    if (count == 0) {
        buf_puts(out, " u32 layout; u16 size; u8 values[size];");
        return;
    }
    buf_puts(out, " layout_id layout; u16 size; variant <layout> {\n        struct { u8 bytes[size]; } NONE;\n");
    if (more)
        buf_puts(out, "        struct { u8 bytes[size]; } MORE;\n");
    for (size_t i = 0; i < writer->layout_count; i++)
        if (writer->layouts[i].role == role && layout_is_named(&writer->layouts[i])) {
            buf_puts(out, "        ");
            buf_puts(out, writer->layouts[i].tsdl); /* may be long */
            buf_printf(out, " L%" PRIu32 ";\n", writer->layouts[i].id);
        }
    buf_puts(out, "    } values;");
}

/* Calls of MPI by their numbers: those that are among the functions. */
static void put_message(struct buf *out, const struct ctf_function *functions, size_t count)
{
    bool any = false;
    buf_puts(out, " enum : integer { size = 8; align = 8; signed = false; } { sent = 0, received = 1, collective = 2, "
                  "collective_done = 3, unsent = 4, begin = 5, sent_before = 6, received_before = 7, probed = 8, "
                  "posted = 9, sent_done = 10, freed = 11 } kind;");
    for (size_t i = 0; i < count; i++) {
        const char *name = functions[i].name;
        enum call_id call = strncmp(name, "MPI_", 4) == 0 ? call_find(name) : CALL_NONE;
        if (call == CALL_NONE)
            continue;
        buf_printf(out, "%s%s = %d", any ? ", " : " enum : u32 { ", name, (int)call);
        any = true;
    }
    buf_puts(out, any ? " } call;" : " u32 call;");
    buf_puts(out, " x64 comm; i32 peer; i32 tag; u64 bytes; u64 order;");
}

static const struct {
    enum record_id id;
    const char *name, *fields;
    enum ctf_role values;
} record_events[] = {
    {RECORD_ENTRY, "entry", " function_id function;", CTF_NONE},
    {RECORD_EXIT, "exit", "", CTF_NONE},
    {RECORD_EXIT_OF, "exit_of", " function_id function; u64 entry_time;", CTF_NONE},
    {RECORD_ENTRY_VALUES, "entry_values", " function_id function;", CTF_ENTRY},
    {RECORD_EXIT_VALUES, "exit_values", " function_id function; u64 entry_time;", CTF_EXIT},
    {RECORD_CALLER_VALUES, "caller_values", "", CTF_CALLER},
    {RECORD_UNWOUND, "unwound", " u32 count;", CTF_NONE},
    {RECORD_LOST, "lost_exits", " u32 count;", CTF_NONE},
    {RECORD_STACK, "stack", " u32 stack; u32 depth;", CTF_NONE},
    {RECORD_SIGNAL, "signal", " i32 signal; i32 code; x64 address; x64 pc;", CTF_NONE},
    {RECORD_MARK, "mark", " u16 size; utf8 text[size];", CTF_NONE},
    {RECORD_THINNED, "thinned", " function_id function;", CTF_NONE},
    {RECORD_MESSAGE, "mpi_message", "", CTF_NONE},
};

static void put_metadata(struct buf *out, const struct trace_writer *writer, const struct ctf_function *functions,
                         size_t count)
{
    buf_puts(out, "/* CTF 1.8 */\n\n");
    layout_tsdl_types(out);
    buf_putc(out, '\n');
    put_trace(out, writer);
    put_clock(out, &writer->identity);
    put_stream(out);
    put_functions(out, functions, count);
    put_layouts(out, writer);
    for (size_t i = 0; i < sizeof record_events / sizeof *record_events; i++) {
        buf_printf(out, "event {\n    name = \"%s\";\n    id = %d;\n    stream_id = 0;\n    fields := struct {%s",
                   record_events[i].name, record_events[i].id, record_events[i].fields);
        if (record_events[i].id == RECORD_MESSAGE)
            put_message(out, functions, count);
        if (record_events[i].values != CTF_NONE)
            put_values(out, writer, record_events[i].values);
        buf_puts(out, " };\n};\n\n");
    }
}

/* ---- the files beside the streams ---- */

/* Readers see the old or the new file. No fsync: after a crash of the machine the trace is worth what reached it. */
static int replace_file(const struct trace_writer *writer, const char *name, const struct buf *content)
{
    char path[PATH_MAX];
    if (content->failed)
        return -ENOMEM;
    snprintf(path, sizeof path, "%s/%s", writer->path, name);
    return file_replace_soon(path, content->data, content->len, 0600);
}

int trace_writer_counts(struct trace_writer *writer, const struct buf *lines)
{
    return replace_file(writer, ".counts", lines);
}

static int append_file(const struct trace_writer *writer, const char *name, struct buf *lines)
{
    char path[PATH_MAX];
    struct stat st;
    if (lines->len == 0)
        return 0;
    snprintf(path, sizeof path, "%s/%s", writer->path, name);
    int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT);
    if (fd < 0)
        return fd;
    struct iovec part = {lines->data, lines->len};
    int code = fstat(fd, &st) < 0 ? -errno : write_whole(fd, &part, 1, (uint64_t)st.st_size);
    close(fd);
    if (code == 0)
        buf_clear(lines);
    return code;
}

/* A field of a line: tabs, newlines and backslashes are escaped. */
static void trace_write_field(struct buf *out, const char *text)
{
    for (size_t plain; text && *text; text += plain) {
        plain = strcspn(text, "\t\n\\");
        buf_append(out, text, plain);
        if (!text[plain])
            return;
        buf_puts(out, text[plain] == '\t' ? "\\t" : text[plain] == '\n' ? "\\n" : "\\\\");
        plain++;
    }
}

/* The state comes last: what lacks it is not whole. */
static int write_process(struct trace_writer *writer)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    for (int last = 0; last <= 1; last++)
        for (size_t i = 0; i < writer->value_count; i++) {
            if ((strcmp(writer->values[i].key, "state") == 0) != last)
                continue;
            buf_printf(&text, "%s\t", writer->values[i].key);
            trace_write_field(&text, writer->values[i].text);
            buf_putc(&text, '\n');
        }
    int code = replace_file(writer, ".process", &text);
    if (code == 0)
        writer->process_stale = false;
    return code;
}

static int write_metadata(struct trace_writer *writer)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    size_t count = HASH_COUNT(writer->functions), i = 0;
    _cleanup_(freep) struct ctf_function *functions = calloc(count + 1, sizeof *functions);
    if (!functions)
        return -ENOMEM;
    for (struct function *function = writer->functions; function; function = function->hh.next)
        if (function->name)
            functions[i++] = (struct ctf_function){function->id, function->name};
    for (struct function *place = writer->functions, *of; place; place = place->hh.next) {
        HASH_FIND(hh, writer->functions, &place->of, sizeof place->of, of);
        if (!place->name && of && of->name)
            functions[i++] = (struct ctf_function){place->id, of->name};
    }
    put_metadata(&text, writer, functions, i);
    int code = replace_file(writer, "metadata", &text);
    if (code == 0) {
        writer->metadata_stale = false;
        writer->metadata_bytes = text.len;
        writer->metadata_ns = clock_now_ns();
    }
    return code;
}

static int sync_files(struct trace_writer *writer, bool all, bool process)
{
    int code = append_file(writer, ".functions", &writer->new_functions);
    int other = append_file(writer, ".places", &writer->new_places);
    code = code < 0 ? code : other;
    other = append_file(writer, ".layouts", &writer->new_layouts);
    code = code < 0 ? code : other;
    if (writer->layout_count) { /* without values nobody looks for addresses */
        other = append_file(writer, ".modules", &writer->new_modules);
        code = code < 0 ? code : other;
    }
    bool due = all || clock_now_ns() - writer->metadata_ns >= writer->metadata_bytes * METADATA_BYTES_PER_NS;
    if (writer->metadata_stale && due) {
        other = write_metadata(writer);
        code = code < 0 ? code : other;
    }
    if (writer->process_stale && process) {
        other = write_process(writer);
        code = code < 0 ? code : other;
    }
    return code;
}

int trace_writer_sync(struct trace_writer *writer, bool all)
{
    return sync_files(writer, all, true);
}

/* ---- packets ---- */

int trace_writer_stream_new(struct trace_writer *writer, uint64_t time, uint32_t *ret_stream)
{
    for (uint32_t i = 0; i < writer->stream_count; i++)
        if (!writer->streams[i].busy && writer->streams[i].time_end <= time) {
            writer->streams[i].busy = true;
            *ret_stream = i;
            return 0;
        }
    if (!GROW(writer->streams, writer->stream_count, writer->stream_cap))
        return -ENOMEM;
    writer->streams[writer->stream_count] = (struct stream){.fd = -1, .busy = true};
    *ret_stream = writer->stream_count++;
    return 0;
}

void trace_writer_stream_end(struct trace_writer *writer, uint32_t stream)
{
    if (stream >= writer->stream_count)
        return;
    struct stream *ended = &writer->streams[stream];
    ended->busy = false;
    if (ended->fd >= 0) {
        close(ended->fd);
        ended->fd = -1;
        writer->open_files--;
    }
}

static int open_stream(struct trace_writer *writer, uint32_t number)
{
    struct stream *stream = &writer->streams[number];
    stream->used = ++writer->uses;
    if (stream->fd >= 0)
        return 0;
    if (writer->open_files >= OPEN_FILES) {
        struct stream *oldest = NULL;
        for (uint32_t i = 0; i < writer->stream_count; i++)
            if (writer->streams[i].fd >= 0 && (!oldest || writer->streams[i].used < oldest->used))
                oldest = &writer->streams[i];
        if (oldest) {
            close(oldest->fd);
            oldest->fd = -1;
            writer->open_files--;
        }
    }
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/stream-%04" PRIu32, writer->path, number);
    stream->fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT);
    if (stream->fd < 0)
        return stream->fd;
    writer->open_files++;
    return 0;
}

int trace_writer_missing(struct trace_writer *writer, uint32_t number, const struct packet_head *head, uint64_t packets,
                         uint64_t records)
{
    struct packet_head empty = *head;
    empty.time_end = empty.time_begin;
    int code = 0;
    if (number < writer->stream_count && writer->streams[number].packets == 0) /* readers compare the numbers of two */
        code = trace_writer_packet(writer, number, &empty, NULL, 0, 0);
    if (code < 0 || number >= writer->stream_count)
        return code < 0 ? code : -EINVAL;
    writer->streams[number].packets += packets;
    code = trace_writer_packet(writer, number, &empty, NULL, 0, records);
    if (code < 0)
        writer->streams[number].packets -= packets;
    return code;
}

int trace_writer_packet(struct trace_writer *writer, uint32_t number, const struct packet_head *head,
                        const void *records, size_t size, uint64_t discarded)
{
    if (number >= writer->stream_count)
        return -EINVAL;
    if (writer->failed)
        return -EPIPE;
    if (!writer->metadata_ns) { /* nobody is to find packets without what they mean */
        int first = sync_files(writer, true, !writer->ending);
        if (first < 0)
            return writer->failed = first;
    }
    struct stream *stream = &writer->streams[number];
    struct packet_head ours = *head;
    if (stream->packets == 0 && discarded) { /* readers compare the counts of two packets: here is the first */
        ours.time_end = ours.time_begin;
        int first = trace_writer_packet(writer, number, &ours, NULL, 0, 0);
        if (first < 0)
            return first;
        ours = *head;
    }
    ours.magic = PACKET_MAGIC;
    ours.stream_class = 0;
    ours.stream = number;
    if (ours.time_begin < stream->time_end) /* readers refuse a file whose time goes back */
        ours.time_begin = stream->time_end;
    if (ours.time_end < ours.time_begin)
        ours.time_end = ours.time_begin;
    ours.content_size = ours.packet_size = 8 * (sizeof ours + (uint64_t)size);
    ours.events_discarded = stream->discarded + discarded;
    ours.packet_seq = stream->packets;
    struct iovec parts[] = {{&ours, sizeof ours}, {(void *)(uintptr_t)records, size}};
    int code = append_file(writer, ".places", &writer->new_places); /* entries cannot be read without */
    if (code == 0)
        code = open_stream(writer, number);
    if (code == 0)
        code = write_whole(stream->fd, parts, size ? 2 : 1, stream->bytes);
    if (code < 0)
        return writer->failed = code;
    stream->bytes += sizeof ours + size;
    writer->bytes += sizeof ours + size;
    stream->time_end = ours.time_end;
    stream->discarded = ours.events_discarded;
    stream->packets++;
    return 0;
}

int trace_writer_switches(struct trace_writer *writer, const struct buf *entries, uint64_t from, uint64_t until)
{
    char path[PATH_MAX];
    if (writer->switches_failed)
        return -EPIPE;
    snprintf(path, sizeof path, "%s/.switches", writer->path);
    int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT), code = fd < 0 ? fd : 0;
    struct iovec part = {entries->data, entries->len};
    if (code == 0 && entries->len)
        code = entries->failed ? -ENOMEM : write_whole(fd, &part, 1, writer->switches_bytes);
    if (fd >= 0)
        close(fd);
    writer->switches_failed = code < 0;
    if (code < 0)
        return code;
    writer->switches_bytes += entries->len;
    trace_writer_set(writer, "switches_from", "%" PRIu64, from);
    trace_writer_set(writer, "switches_until", "%" PRIu64, until);
    trace_writer_set(writer, "switches_bytes", "%" PRIu64, writer->switches_bytes);
    return 0;
}

enum { INCARNATION_LIMIT = 100000, VALUES_BYTES = 8192 /* .process, twice */ };

/* ---- making one ---- */

static int adopt_identity(struct trace_writer *writer, const struct trace_identity *identity)
{
    const char **fields[] = {&writer->identity.node, &writer->identity.exe, &writer->identity.host,
                             &writer->identity.boot_id};
    writer->identity = *identity;
    for (size_t i = 0; i < 4; i++) {
        writer->strings[i] = strdup(*fields[i] ? *fields[i] : "");
        if (!writer->strings[i])
            return -ENOMEM;
        *fields[i] = writer->strings[i];
    }
    if (writer->identity.ticks_per_second == 0)
        writer->identity.ticks_per_second = NS_PER_SECOND;
    return 0;
}

static int make_directory(struct trace_writer *writer, const char *jobdir, struct err *err)
{
    char node[256], parent[PATH_MAX], path[PATH_MAX];
    snprintf(node, sizeof node, "%s", *writer->identity.node ? writer->identity.node : "node");
    for (char *c = node; *c; c++)
        if (*c == '/')
            *c = '_';
    if (node[0] == '.')
        node[0] = '_';
    int len = snprintf(parent, sizeof parent, "%s/trace/%s", jobdir, node);
    if (len < 0 || (size_t)len >= sizeof parent - 64)
        return err_set(err, -ENAMETOOLONG, "the path of the job directory is too long: %s", jobdir);
    struct stat st;
    if (stat(jobdir, &st) < 0)
        return err_errno(err, -errno, "cannot write a trace to the job directory %s", jobdir);
    int code = 0;
    bool made = false;
    for (int n = 0; code == 0 && n < INCARNATION_LIMIT; n++) {
        snprintf(path, sizeof path, "%.*s/%d-%d", (int)sizeof path - 64, parent, writer->identity.pid, n);
        if (mkdir(path, 0700) == 0) {
            writer->path = strdup(path);
            return writer->path ? 0 : err_set(err, -ENOMEM, "out of memory");
        }
        if (errno == ENOENT && !made) { /* the first of its job */
            made = true;
            code = dirs_make(parent, 0700);
            n--;
        } else if (errno != EEXIST) {
            code = -errno;
        }
    }
    return err_errno(err, code ? code : -EEXIST, "cannot make a directory for the trace in %s", parent);
}

int trace_writer_new(struct trace_writer **ret_writer, const char *jobdir, const struct trace_identity *identity,
                     bool lazy, struct err *err)
{
    struct trace_writer *writer = calloc(1, sizeof *writer);
    if (!writer || adopt_identity(writer, identity) < 0) {
        trace_writer_free(writer);
        return err_set(err, -ENOMEM, "out of memory");
    }
    int code = make_directory(writer, jobdir, err);
    if (code < 0) {
        trace_writer_free(writer);
        return code;
    }
    if (getrandom(writer->uuid, sizeof writer->uuid, GRND_NONBLOCK) != sizeof writer->uuid) {
        uint64_t ns = clock_wall_ns();
        memcpy(writer->uuid, &ns, sizeof ns);
        memcpy(writer->uuid + 8, &writer->identity.pid, sizeof writer->identity.pid);
    }
    writer->metadata_stale = writer->process_stale = true;
    trace_writer_set(writer, "version", "%d", TRACE_VERSION);
    trace_writer_set(writer, "pid", "%d", identity->pid);
    trace_writer_set(writer, "ppid", "%d", identity->ppid);
    trace_writer_set(writer, "node", "%s", writer->identity.node);
    trace_writer_set(writer, "exe", "%s", writer->identity.exe);
    trace_writer_set(writer, "host", "%s", writer->identity.host);
    trace_writer_set(writer, "boot_id", "%s", writer->identity.boot_id);
    trace_writer_set(writer, "start_ns", "%" PRIu64, identity->start_ns);
    trace_writer_set(writer, "state", "running");
    trace_writer_clock(writer, writer->identity.ticks_per_second, identity->tick_zero_ns);
    code = lazy ? 0 : trace_writer_sync(writer, true);
    if (code < 0) {
        err_errno(err, code, "cannot write the trace %s", writer->path);
        trace_writer_free(writer);
        return code;
    }
    *ret_writer = writer;
    return 0;
}

void trace_writer_free(struct trace_writer *writer)
{
    if (!writer)
        return;
    if (writer->path)
        trace_writer_sync(writer, true);
    for (uint32_t i = 0; i < writer->stream_count; i++)
        if (writer->streams[i].fd >= 0)
            close(writer->streams[i].fd);
    free(writer->streams);
    HASH_FREE_ALL(writer->functions, free(each->name));
    for (size_t i = 0; i < writer->layout_count; i++)
        free(writer->layouts[i].tsdl);
    free(writer->layouts);
    for (size_t i = 0; i < writer->value_count; i++) {
        free(writer->values[i].key);
        free(writer->values[i].text);
    }
    free(writer->values);
    for (size_t i = 0; i < 4; i++)
        free(writer->strings[i]);
    buf_done(&writer->new_functions);
    buf_done(&writer->new_modules);
    buf_done(&writer->new_places);
    buf_done(&writer->new_layouts);
    free(writer->path);
    free(writer);
}

const char *trace_writer_path(const struct trace_writer *writer)
{
    return writer->path;
}

bool trace_writer_failed(const struct trace_writer *writer)
{
    return writer->failed != 0;
}

bool trace_writer_again(struct trace_writer *writer)
{
    if (writer->failed == -ENOSPC || writer->failed == -EDQUOT)
        writer->failed = 0;
    return !writer->failed;
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
    return writer->bytes;
}

uint64_t trace_writer_names(const struct trace_writer *writer)
{
    return VALUES_BYTES + writer->metadata_bytes +
           2 * (writer->new_functions.len + writer->new_places.len + writer->new_layouts.len);
}

void trace_writer_clock(struct trace_writer *writer, uint64_t ticks_per_second, uint64_t tick_zero_ns)
{
    writer->identity.ticks_per_second = ticks_per_second;
    writer->identity.tick_zero_ns = tick_zero_ns;
    writer->metadata_stale = true;
    trace_writer_set(writer, "ticks_per_second", "%" PRIu64, ticks_per_second);
    trace_writer_set(writer, "clock_offset_ns", "%" PRIu64, tick_zero_ns);
    trace_writer_set(writer, "tick_offset", "0");
}

void trace_writer_ending(struct trace_writer *writer)
{
    writer->ending = true;
}

/* ---- names and values ---- */

static struct function *function_get(struct trace_writer *writer, uint32_t id)
{
    struct function *function;
    HASH_FIND(hh, writer->functions, &id, sizeof id, function);
    if (!function && (function = calloc(1, sizeof *function))) {
        function->id = id;
        HASH_ADD(hh, writer->functions, id, sizeof function->id, function);
    }
    return function;
}

int trace_writer_function(struct trace_writer *writer, uint32_t id, uint64_t address, const char *name,
                          const char *file, uint32_t line, uint64_t size, const char *module)
{
    struct function *function = function_get(writer, id);
    char *copy = function ? strdup(name) : NULL;
    if (!copy)
        return -ENOMEM;
    free(function->name);
    function->name = copy;
    struct buf *out = &writer->new_functions;
    buf_printf(out, "%" PRIu32 "\t0x%" PRIx64 "\t", id, address);
    trace_write_field(out, name);
    buf_putc(out, '\t');
    trace_write_field(out, file);
    buf_printf(out, "\t%" PRIu32 "\t%" PRIu64 "\t", line, size);
    trace_write_field(out, module);
    buf_putc(out, '\n');
    writer->metadata_stale = true;
    return out->failed ? -ENOMEM : 0;
}

void trace_writer_module(struct trace_writer *writer, uint64_t start, uint64_t end, uint64_t bias, const char *key)
{
    struct buf *out = &writer->new_modules;
    buf_printf(out, "0x%" PRIx64 "\t0x%" PRIx64 "\t0x%" PRIx64 "\t", start, end, bias);
    trace_write_field(out, key);
    buf_putc(out, '\n');
}

int trace_writer_place(struct trace_writer *writer, uint32_t number, const struct trace_place *place)
{
    struct function *function = function_get(writer, number | RECORD_PLACE);
    struct buf *out = &writer->new_places;
    if (!function)
        return -ENOMEM;
    function->of = place->function;
    buf_printf(out, "%" PRIu32 "\t%" PRIu32 "\t0x%" PRIx64 "\t0x%" PRIx64 "\t", number, place->function, place->address,
               place->offset);
    trace_write_field(out, place->module);
    buf_printf(out, "\t%s\t%d\n", place->build_id, place->inlined);
    writer->metadata_stale = true;
    return out->failed ? -ENOMEM : 0;
}

static enum ctf_role role_of(const char *layout)
{
    return strncmp(layout, "args", 4) == 0 ? CTF_ENTRY : strncmp(layout, "caller", 6) == 0 ? CTF_CALLER : CTF_EXIT;
}

static int add_layout(struct trace_writer *writer, uint32_t id, enum ctf_role role, char *tsdl_take)
{
    if (!tsdl_take)
        return -ENOMEM;
    if (!GROW(writer->layouts, writer->layout_count, writer->layout_cap)) {
        free(tsdl_take);
        return -ENOMEM;
    }
    writer->layouts[writer->layout_count++] = (struct layout_type){id, role, tsdl_take};
    writer->metadata_stale = true;
    return 1;
}

/* Of those that are only bytes in the metadata one stands for all. */
static int use_unshown(struct trace_writer *writer, uint32_t id, enum ctf_role role)
{
    for (size_t i = 0; i < writer->layout_count; i++)
        if (writer->layouts[i].id > CTF_LAST_LAYOUT && writer->layouts[i].role == role)
            return 0;
    return add_layout(writer, id, role, strdup(""));
}

int trace_writer_layout_use(struct trace_writer *writer, uint32_t id, const char *text)
{
    struct layout *layout = NULL;
    struct err err;
    if (id > CTF_LAST_LAYOUT)
        return use_unshown(writer, id, role_of(text));
    int code = layout_parse(&layout, text, &err);
    if (code < 0)
        return code;
    struct buf tsdl = BUF_INIT;
    layout_tsdl(layout, &tsdl);
    layout_free(layout);
    return add_layout(writer, id, role_of(text), buf_take(&tsdl));
}

int trace_writer_layout_note(struct trace_writer *writer, uint32_t id, const char *text)
{
    buf_printf(&writer->new_layouts, "%" PRIu32 "\t", id);
    trace_write_field(&writer->new_layouts, text);
    buf_putc(&writer->new_layouts, '\n');
    return writer->new_layouts.failed ? -ENOMEM : 0;
}

static struct value *add_value(struct trace_writer *writer, const char *key)
{
    if (!GROW(writer->values, writer->value_count, writer->value_cap))
        return NULL;
    char *copy = strdup(key);
    if (!copy)
        return NULL;
    writer->values[writer->value_count] = (struct value){copy, NULL};
    return &writer->values[writer->value_count++];
}

void trace_writer_set(struct trace_writer *writer, const char *key, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return;
    struct value *value = NULL;
    for (size_t i = 0; i < writer->value_count && !value; i++)
        if (strcmp(writer->values[i].key, key) == 0)
            value = &writer->values[i];
    if (!value)
        value = add_value(writer, key);
    if (!value || (value->text && strcmp(value->text, text) == 0)) {
        free(text);
        return;
    }
    free(value->text);
    value->text = text;
    writer->process_stale = true;
}

static struct value *find_problem(struct trace_writer *writer, const char *line)
{
    for (size_t i = 0; i < writer->value_count; i++) {
        struct value *value = &writer->values[i];
        if (strcmp(value->key, "problem") == 0 && value->text && strcmp(value->text, line) == 0)
            return value;
    }
    return NULL;
}

void trace_writer_problem(struct trace_writer *writer, const struct note *note)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    note_put_line(&line, note);
    if (line.failed || find_problem(writer, line.data))
        return;
    struct value *value = add_value(writer, "problem");
    if (value)
        value->text = buf_take(&line);
    writer->process_stale = true;
}

void trace_writer_problem_over(struct trace_writer *writer, const struct note *note)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    note_put_line(&line, note);
    struct value *value = line.failed ? NULL : find_problem(writer, line.data);
    if (!value)
        return;
    free(value->key);
    free(value->text);
    size_t behind = (size_t)(writer->values + writer->value_count - (value + 1));
    memmove(value, value + 1, behind * sizeof *value);
    writer->value_count--;
    writer->process_stale = true;
}

void trace_put_problem(struct buf *out, const struct note *note)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    note_put_line(&line, note);
    buf_puts(out, "problem\t");
    trace_write_field(out, line.data ? line.data : "");
    buf_putc(out, '\n');
}
