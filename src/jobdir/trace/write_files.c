/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a trace that is written: its streams, and what stands beside them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/data/grow.h"
#include "base/system/file.h"
#include "jobdir/trace/write_internal.h"

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

void trace_write_field(struct buf *out, const char *text)
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
    _cleanup_(freep) struct ctf_layout *layouts = calloc(writer->layout_count + 1, sizeof *layouts);
    if (!functions || !layouts)
        return -ENOMEM;
    for (struct function *function = writer->functions; function; function = function->hh.next)
        if (function->name)
            functions[i++] = (struct ctf_function){function->id, function->name};
    for (struct function *place = writer->functions, *of; place; place = place->hh.next) {
        HASH_FIND(hh, writer->functions, &place->of, sizeof place->of, of);
        if (!place->name && of && of->name)
            functions[i++] = (struct ctf_function){place->id, of->name};
    }
    for (size_t k = 0; k < writer->layout_count; k++)
        layouts[k] = (struct ctf_layout){writer->layouts[k].id, writer->layouts[k].role, writer->layouts[k].tsdl};
    ctf_metadata_print(&(struct ctf_metadata){.identity = &writer->identity,
                                              .uuid = writer->uuid,
                                              .functions = functions,
                                              .function_count = i,
                                              .layouts = layouts,
                                              .layout_count = writer->layout_count},
                       &text);
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
