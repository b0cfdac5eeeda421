/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_RECORD_MIRROR_H
#define SCRY_JOBDIR_RECORD_MIRROR_H

#include "base/data/err.h"
#include "base/data/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A mirror: the job directory of a job that is elsewhere, or over and gone, as far as it is known here. It has job.json,
 * the spool and the small files (stats/, report.txt), and the same of its parts, not the traces. So whatever shows a job directory shows a mirror.
 * Beside them is remote.json: where the job is reached, and what is known of its life:
 *
 *     {"via": URL without password or "record", "owner": USER, "dir": of the job on its node, "heard": wall clock,
 *      "lease_seconds": N, "connected": bool, "complete": bool, "address": see keys/sealed.h or null, "clock": the job's
 *      wall clock minus ours, "state", "watched": as published, "caught_up", "gaps": bool,
 *      "signed": bool: all of it was signed by the job (keys/signed.h); absent: nobody could tell,
 *      "note": what is missing, for people, or absent}
 *
 * Mirrors are in $XDG_CACHE_HOME/scry/mirrors/BROKER/OWNER/JOB ($SCRY_CACHE_DIR instead of $XDG_CACHE_HOME), where
 * BROKER, OWNER and JOB are made safe for file names. One process writes a mirror (flock on mirror.lock). Records come in
 * any order and more than once; the spool has each once, in order. What nobody used for 30 days is removed when another
 * mirror is made.
 */

struct mirror;

/* The path of the mirror. `via` is without password. 0 or -errno. */
int mirror_path(const char *via, const char *owner, const char *job, char *ret_path, size_t size, struct err *err);
/* Makes or continues it. -EWOULDBLOCK: another process writes it. */
int mirror_open(struct mirror **ret_mirror, const char *path, struct err *err);
void mirror_close(struct mirror *mirror); /* NULL is fine */

/* The first record that it lacks; the one behind the last it has heard of. Both equal: nothing is missing. */
uint64_t mirror_next(const struct mirror *mirror);
uint64_t mirror_end(const struct mirror *mirror);
/* A line of a complete record (with "seq"), without its end. Held back until those before are there. If more than some
 * megabytes are held back, it is dropped: whoever asks for what is between mirror_next and mirror_end gets it again. 0,
 * -EEXIST (it has it), -EBADMSG (no record, or one of another job), -ENOSPC and other errors of the disk: then it was
 * not taken. */
int mirror_record(struct mirror *mirror, struct span line);
/* Records from `mirror_next` up to `to`, without it, are lost for good: those behind are written, with a record `gap` of
 * what is missing where the spool's reader expects it. 0 or an error of the disk. */
int mirror_skip(struct mirror *mirror, uint64_t to, const char *why);
/* The first record that is held back; UINT64_MAX: none is. */
uint64_t mirror_held(const struct mirror *mirror);
/* Behind the last record that it lacks, of those before mirror_end. */
uint64_t mirror_lacks_to(const struct mirror *mirror);
/* A file below the directory. -EINVAL: a name that leads out of it, or into the spool or the traces. The spool of a part
 * (jobdir/record/parts.h) grows, and comes in pieces: MIRROR_PART_SPOOL with the number of the piece's first byte behind
 * it, a multiple of MIRROR_PIECE. */
#define MIRROR_PART_SPOOL "spool/records.jsonl+"
enum { LIST_NEWEST = 10 }; /* of jobs that are over so many are listed, unless all are asked for */

enum { MIRROR_PIECE = 32 << 10, MIRROR_PIECES = 8192 };
int mirror_file(struct mirror *mirror, const char *name, struct span bytes);
int mirror_remote(struct mirror *mirror, const json_t *remote);
/* Writes what is held in memory, so far as it is in order. 0, or why it could not: it is tried again at the next call. */
int mirror_flush(struct mirror *mirror);

/* remote.json of a directory; NULL: it is no mirror. A new reference. */
json_t *mirror_read_remote(const char *path);
/* Removes a mirror. -EWOULDBLOCK: a process writes it. */
int mirror_remove(const char *path, struct err *err);

/* What the files of mirrors share. */

/* Whether a directory, named without links, lies where mirrors are kept. */
bool mirror_is_kept(const char *real_path);

#endif
