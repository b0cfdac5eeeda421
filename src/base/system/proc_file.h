/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's files about processes in /proc, see proc(5): stat, status, comm, maps. (Code inside the target uses
 * agent/.) A task that is gone is -ESRCH, whatever the kernel calls it; a refusal is -EACCES. pid 0 is the caller, and
 * tid 0 the process. Only maps allocate. Thread-safe.
 */
#ifndef SCRY_BASE_SYSTEM_PROC_FILE_H
#define SCRY_BASE_SYSTEM_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Writes "/proc/PID/NAME" or, with tid != 0, "/proc/PID/task/TID/NAME". */
enum { PROC_PATH_SIZE = 96 };
void proc_path(char path[PROC_PATH_SIZE], pid_t pid, pid_t tid, const char *name);

/* Reads at most size - 1 bytes of the file and ends them with a NUL. 0 or -errno. */
int proc_file_read(pid_t pid, pid_t tid, const char *name, char *ret_text, size_t size, size_t *ret_len);

/* Memory of another process, which is not stopped (process_vm_readv(2)): up to the end of what can be read. Returns how many bytes;
 * of 0 errno says why. */
size_t proc_peek(pid_t pid, uint64_t address, void *ret_bytes, size_t size);

/* If the first thread has ended: another thread, for files that show what all threads share (memory, program,
 * directories). 0: it has not ended, or no thread is left. */
pid_t proc_deputy(pid_t pid);

/* What an errno of an access to a process means. ENOENT is ambiguous: then looks whether `pid` is there. */
int proc_errno(pid_t pid, int number);

/* The line in `stat`. Of a process it shows the first thread, which may have ended before the others (probe/proc.h). */
struct proc_stat {
    pid_t pid, ppid, pgrp, session;
    char comm[64];
    char state;           /* the kernel's letter */
    uint64_t start_ticks; /* since boot: with the pid, identifies a process for ever */
    bool never_executed;  /* it is as its parent was when it forked */
    bool kernels_own;     /* a thread of the kernel: no program */
    uint64_t user_ns, system_ns;
    uint64_t children_ns; /* of those that have ended and were waited for */
    uint64_t minor_faults, major_faults;
    long priority, nice, threads;
    uint64_t memory_bytes, resident_bytes;
    uint64_t start_stack;
    int processor;
    uint64_t arg_start, arg_end; /* of the command line; 0: we may not look */
    int exit_code;               /* wait status; 0 unless a zombie that we may look at */
};
int proc_stat_of(pid_t pid, pid_t tid, struct proc_stat *ret_stat); /* 0 or -errno */
int proc_stat_parse(const char *text, struct proc_stat *ret_stat);  /* 0 or -EBADMSG */
char proc_letter(pid_t pid, pid_t tid);                             /* state; 0: not known */

/* What a process has read and written, and its children that have ended and were waited for; also of one that has ended, until it
 * is waited for. */
struct proc_io {
    uint64_t reads, writes;             /* system calls, */
    uint64_t called_read, called_wrote; /* their bytes; */
    uint64_t read_bytes, written_bytes; /* and those that came from storage, and will go to it */
};
int proc_io_read(pid_t pid, struct proc_io *ret_io); /* 0 or -errno */

/* The number after "Name:" in `status`. -1: none, or not readable. */
int64_t proc_status_number(pid_t pid, pid_t tid, const char *name);
/* Its name; "": not known. */
void proc_comm(pid_t pid, pid_t tid, char *ret_comm, size_t size);

/* The decimal number after "Name:" at the start of a line of `text`, 0 when there is no such line. */
uint64_t proc_field(const char *text, const char *name);

/* One mapping of /proc/PID/maps. */
struct proc_map {
    uint64_t start, end, offset, inode;
    uint32_t device_major, device_minor;
    bool read, write, execute, private;
    const char *path; /* "" for anonymous memory */
};

/* All mappings, ascending by address; proc_maps_done frees them. */
struct proc_maps {
    size_t count;
    struct proc_map *maps;
    char *text; /* the paths lie in here */
};
int proc_maps_read(pid_t pid, struct proc_maps *ret_maps);
void proc_maps_done(struct proc_maps *maps);
const struct proc_map *proc_maps_find(const struct proc_maps *maps, uint64_t addr);

/*
 * Where glibc has what in its descriptor of a thread, which is where pthread_t points to: it tells debuggers (nptl_db).
 * Of our own C library; that of another process may be another one, so compare what is found there.
 */

enum { PTHREAD_DESCRIPTOR_MOST = 4096 }; /* all fields are within these bytes */

/* Offset in bytes of "_thread_db_pthread_tid" and the like; 0: not known. */
uint32_t pthread_field(const char *name);

#endif
