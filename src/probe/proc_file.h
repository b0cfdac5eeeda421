/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the probe: reading small files of /proc, and the lines of /proc/PID/maps. Errors are those of proc.h: a task
 * that is gone is -ESRCH, whatever the kernel called it; a refusal is -EACCES.
 */
#ifndef SCRY_PROBE_PROC_FILE_H
#define SCRY_PROBE_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Writes "/proc/PID/NAME" or, with tid != 0, "/proc/PID/task/TID/NAME". */
enum { PROC_PATH_SIZE = 96 };
void proc_path(char path[PROC_PATH_SIZE], pid_t pid, pid_t tid, const char *name);

/* Reads at most size - 1 bytes of the file and ends them with a NUL. 0 or -errno. */
int proc_file_read(pid_t pid, pid_t tid, const char *name, char *ret_text, size_t size, size_t *ret_len);

/* A thread that shows what all threads share (memory, program, directories), if the first one, which shows it
 * otherwise, has ended. 0: it has not, or nobody is left. */
pid_t proc_deputy(pid_t pid);

/* What an errno of an access to a process means; `pid` is looked at when ENOENT leaves it open. */
int proc_errno(pid_t pid, int number);

/* The decimal number after "Name:" at the start of a line of `text`, 0 when there is no such line. */
uint64_t proc_field(const char *text, const char *name);

/* One mapping of /proc/PID/maps. */
struct proc_map {
    uint64_t start, end, offset, inode;
    uint32_t device_major, device_minor;
    bool read, write, execute;
    const char *path; /* "" for anonymous memory */
};

/* All mappings, ascending by address; one block that the caller frees. */
struct proc_maps {
    size_t count;
    struct proc_map *maps;
    char *text; /* the paths lie in here */
};
int proc_maps_read(pid_t pid, struct proc_maps *ret_maps);
void proc_maps_done(struct proc_maps *maps);
const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t addr);

#endif
