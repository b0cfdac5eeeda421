/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes by files (scry run --files): memory that scry run shares with all processes of its job on this node, as in
 * shm/metrics.h. The library in the processes (files/files.c) adds to it, scry run reads it at the end, and believes nothing.
 *
 * A slot is a file and a program: all processes of that name add to one.
 */
#ifndef SCRY_SHM_FILES_H
#define SCRY_SHM_FILES_H

#include <stdatomic.h>
#include <stdint.h>

#define FILES_NAME "scry-files"          /* of the file */
#define FILES_ENV "SCRY_FILES"           /* where it is: /proc/PID/fd/N, of scry run */
#define FILES_MAGIC UINT32_C(0x53454c46) /* "FLES" */

enum {
    FILES_VERSION = 2,
    FILES_SLOTS = 4096, /* a power of two */
    FILES_PROBES = 64,
    FILES_PATH = 224, /* with its end; of a longer one the end is there */
    FILES_PROGRAM = 16,
};

enum files_state { FILES_FREE, FILES_TAKEN, FILES_READY };
/* What has no file of its own: `device` 0, and one of these as the inode. */
enum files_kind { FILES_PIPES = 1, FILES_SOCKETS, FILES_OTHERS };

struct files_slot {
    _Atomic uint32_t state;       /* READY: what stands before the numbers stays as it is */
    int32_t pid;                  /* which took it: the first */
    uint64_t device, inode, born; /* born: of files, in nanoseconds, where it is known: inodes are used again */
    char program[FILES_PROGRAM], path[FILES_PATH];
    _Atomic uint64_t read_bytes, written_bytes, reads, writes;
} __attribute__((aligned(64)));

struct files {
    uint32_t magic, version;
    int32_t filters;        /* of system calls (seccomp(2)), under which scry run itself is; -1: unknown */
    struct files_slot rest; /* of those for which there was no room */
    struct files_slot slots[FILES_SLOTS];
};

#endif
