/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job printed, as its relay keeps it: in JOB/output/, for each stream, segments STREAM.OFFSET, where OFFSET, 16
 * hexadecimal digits, is that of the segment's first byte in the stream; the first one is never removed, later ones are, the oldest
 * first. STREAM.times has a line OFFSET SECONDS for what was read at once: the offset, hexadecimal, of its first byte, and when that was,
 * seconds since 1970.
 *
 * This is the reader, also while the job runs. The files are anybody's.
 */
#ifndef SCRY_JOBDIR_RECORD_OUTPUT_H
#define SCRY_JOBDIR_RECORD_OUTPUT_H

#include "jobdir/record/info.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define OUTPUT_DIR "output"
enum output_stream { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_BOTH, OUTPUT_STREAMS };
/* "stdout", "stderr", "output": both are one open file */
extern const char *const output_names[OUTPUT_STREAMS];

enum {
    OUTPUT_SEGMENT_MOST = 64 << 20,
    OUTPUT_FILES_MOST = 16 << 10,
    OUTPUT_TIMES_MOST = 64 << 20,
    OUTPUT_TIMES_BYTES = 4 << 10,
    OUTPUT_FIRST = 1 << 20, /* of a mirror, output_trim leaves so much of the beginning, and of the end */
    OUTPUT_LAST = 16 << 20
};

#define OUTPUT_SEGMENT "%s.%016" PRIx64 /* a segment's name: its stream, its offset */

/* The segments of a stream that are there, and of these the last one that begins at the offset or before it, and the first one behind. */
struct output_segments {
    unsigned count;
    bool has_before, has_after;
    uint64_t before, after;
};

/* In this open directory. 0 or -errno. */
int output_segments(int dir, const char *stream, uint64_t offset, struct output_segments *ret_segments);

struct output_reader {
    int dir, segment; /* -1: not open */
    enum output_stream stream;
    uint64_t segment_at; /* where the segment begins */
    uint64_t offset;     /* the next byte to read */
    int times;           /* -1: there are none */
    uint64_t times_at;   /* of that file, so much is in the room below, or was */
    size_t times_len, times_used;
    char times_room[OUTPUT_TIMES_BYTES];
    uint64_t next_offset; /* of the entry after the one that counts */
    double seconds, next_seconds;
};

/* 0; -ENOENT: nothing of that stream is kept; or another -errno. output_close only after 0. */
int output_open(struct output_reader *ret_reader, const char *jobdir, enum output_stream stream);
/* Reads from the offset on. 0: there is no more now. *ret_gap: so many bytes that are not kept were passed over before that, also with
 * 0. -errno. */
ssize_t output_read(struct output_reader *reader, void *bytes, size_t size, uint64_t *ret_gap);
/* When the byte there was read, seconds since 1970; -1: not known. Offsets that are asked for must not fall. */
double output_seconds(struct output_reader *reader, uint64_t offset);
void output_close(struct output_reader *reader);

/* So many bytes of the stream were kept until now, those included that are gone. 0; -ENOENT: it is not kept; or another -errno. */
int output_end(const char *jobdir, enum output_stream stream, uint64_t *ret_end);
/* Of a stream whose pieces come without end, each a segment (publish/feed.h): this one, STREAM.OFFSET, has come. Those between the
 * beginning and the end of the stream are removed. */
void output_trim(const char *jobdir, const char *segment);

/* Where standard output and standard error of the job went. true: to one file; then the first says which bytes are of one of both. */
bool output_files_read(const struct job_info *info, struct job_output ret_outputs[2]);
/* Opens the file that standard output (0), or error (1), of the job `info` went to, `output`: by its name, by that of its process, or by
 * another one in its directory. Only if it is that file, and that of the owner of the job directory: anybody may have written what
 * names it. The descriptor, and *ret_other: its other name, or "". -ESTALE: another file is there by now; -EPERM: it is
 * not the owner's; or another -errno. */
int output_file_open(const char *jobdir, const struct job_info *info, bool over, int stream,
                     const struct job_output *output, char *ret_other, size_t size);
/* What that asks of every file: a regular one by this name, and no link, -EINVAL otherwise; and the owner's, if the job is somebody else's. */
int output_open_regular(const char *path);
bool output_is_of_owner(const char *jobdir, int fd);

#endif
