/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tracer inside an interpreter (bash, Python) tells the observer: a file for each process in the directory of
 * the job that SCRY_SCRIPT_DIR names. In the order of the file:
 *
 *   struct script_ring   geometry, positions, where the script is now
 *   ring                 records of variable length: what happened (script_put)
 *   sums                 an array of what is counted, as of functions and lines (script_sum_new): they are up to date
 *                        even if the process is killed
 *   texts                the names in sums
 *
 * Many threads may write, and the observer reads. A writer never waits: what finds no room is dropped and counted. The
 * file has all its blocks before it is used, so no write to it can fail. After a fork the child has no writer, unless
 * it was opened to be shared; then it may open one of its own. A program that is executed has none, either.
 *
 * The reader believes nothing: it takes what it needs out of the shared memory once, and checks the copy. It wants
 * base/system/own_memory.h against files that are cut.
 *
 * Freestanding. Everything is async-signal-safe, and no function of the writer changes errno.
 */
#ifndef SCRY_SHM_SCRIPT_RING_H
#define SCRY_SHM_SCRIPT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCRIPT_RING_MAGIC UINT32_C(0x474e5253) /* "SRNG" */
#define SCRIPT_RING_DIR "SCRY_SCRIPT_DIR"      /* variable of the environment: the directory */
#define SCRIPT_RING_NEW "new"                  /* begin of the name of a file that is not ready; else the language */

enum {
    SCRIPT_RING_VERSION = 1,
    SCRIPT_RING_LEAST = 16 << 10, /* bytes of a ring, a power of two */
    SCRIPT_RING_MOST = 16 << 20,
    SCRIPT_SUMS_MOST = 1 << 16,
    SCRIPT_TEXTS_MOST = 16 << 20, /* bytes */
    SCRIPT_TEXT_MOST = 1024,      /* bytes of one text in a record; the rest is cut */
    SCRIPT_NAME_MOST = 512,       /* of a name in a frame, or in texts */
    SCRIPT_FRAMES_MOST = 32,
    SCRIPT_PATH = 512, /* of the file; a longer one is refused */
    SCRIPT_LANGUAGE = 16,
};

enum script_kind {
    SCRIPT_STARTED = 1, /* texts: file, -, version, - */
    SCRIPT_LINE,        /* a command or line begins; with duration_ns: it has ended. texts: file, function, command */
    SCRIPT_FAILED, /* a command failed: status; the same texts, and of a pipeline the statuses of its commands ("1 0");
                            frames, the innermost first */
    SCRIPT_EXCEPTION,     /* status: enum script_caught. texts: file, function, name, message; frames: where it was
                            raised first */
    SCRIPT_ENTERED,       /* a function; texts: file, function */
    SCRIPT_LEFT,          /* and its duration_ns, status */
    SCRIPT_ENDED,         /* status; texts: file */
    SCRIPT_STEPPED_ASIDE, /* the tracer does not go on; text: -, -, -, the reason */
    SCRIPT_WENT_ON        /* now it does */
};
enum script_caught { /* RAISED: the same thread tells later, without a name, whether it was caught; if it does not, it
                        was */
                     SCRIPT_UNCAUGHT,
                     SCRIPT_CAUGHT,
                     SCRIPT_RAISED
};

enum script_text_index { SCRIPT_FILE, SCRIPT_FUNCTION, SCRIPT_COMMAND, SCRIPT_MESSAGE, SCRIPT_TEXTS };

struct script_text {
    const char *bytes; /* NULL: none. Not ended by a NUL */
    uint32_t size;
};

struct script_frame {
    struct script_text file, function;
    int32_t line;
};

/* A record, as it is written and as it is read. */
struct script_event {
    uint32_t kind;        /* enum script_kind */
    int32_t pid, tid;     /* writer: pid is filled in; tid 0: not said */
    int32_t line, status; /* line -1: unknown */
    uint64_t time_ns;     /* CLOCK_MONOTONIC; writer: 0 is now */
    uint64_t duration_ns; /* UINT64_MAX: none */
    uint64_t count;       /* of such things since the record before that said it; 0: this one */
    uint32_t cut;         /* reader: bit of each text of which there is more; bit SCRIPT_TEXTS: more frames */
    uint32_t frame_count;
    struct script_text texts[SCRIPT_TEXTS];
    const struct script_frame *frames;
};

enum script_sum_kind { SCRIPT_SUM_FUNCTION = 1, SCRIPT_SUM_LINE };

struct script_sum {        /* a cache line */
    _Atomic uint32_t kind; /* enum script_sum_kind, set last; 0: not ready */
    int32_t line;
    uint32_t file, function; /* in texts; 0: none */
    _Atomic uint64_t count, total_ns, self_ns, failed;
    uint32_t command; /* in texts, of a line: what it was when it was first executed; 0: not said */
    uint32_t unused[3];
};
_Static_assert(sizeof(struct script_sum) == 64, "a sum is a cache line");

struct script_ring {
    uint32_t magic, version;
    int32_t pid;
    uint32_t ring_at, ring_size, sums_at, sum_count, texts_at, texts_size;
    uint32_t size;
    uint32_t in_ticks;      /* 1: times of sums are ticks of the time stamp counter; 0: ns */
    uint32_t pid_namespace; /* whose number `pid` is: the inode of /proc/self/ns/pid; 0: not known */
    uint64_t born_ns;       /* CLOCK_BOOTTIME: a process that started later is another one with this pid */
    uint64_t stack; /* where the stack of its program began, as in /proc/PID/stat: a process that has another one
                          executes something else; 0: not known */
    char language[SCRIPT_LANGUAGE];
    /* ---- writers ---- */
    _Alignas(64) _Atomic uint64_t reserved; /* bytes of the ring since the start */
    _Atomic uint64_t dropped;               /* records without room */
    _Atomic uint64_t sums_dropped;          /* sums and texts without room */
    _Atomic uint32_t sums_used, texts_used;
    _Atomic uint32_t belled;           /* 1: the observer was called, and has not come yet */
    _Alignas(64) _Atomic uint32_t now; /* a line: 1 + its sum; 0: not said */
    /* ---- the reader ---- */
    _Alignas(64) _Atomic uint64_t taken; /* before it all bytes of the ring are zero again */
};

/* ---- the writer ---- */

struct script_open {
    const char *directory, *language; /* language: letters, at most SCRIPT_LANGUAGE - 1 */
    uint32_t ring_size;               /* power of two */
    uint32_t sum_count, texts_size;   /* 0: nothing is counted */
    bool in_ticks;                    /* times of sums are ticks of the time stamp counter */
    bool shared; /* children made by fork go on with it: for shells, whose subshells live too shortly for an own one */
};

struct script_writer;

/* Makes the file. NULL with *ret_error: a positive errno. No descriptor stays open. A few 10 us. */
struct script_writer *script_writer_open(const struct script_open *open, int *ret_error);
/* false: this is a child of the process that opened it, which may open its own (the memory of the old is gone). */
bool script_writer_mine(const struct script_writer *writer);
/* Nothing is written any more. The file stays for the reader. */
void script_writer_close(struct script_writer *writer);

/* false: dropped. Frames and texts are borrowed. */
bool script_put(struct script_writer *writer, const struct script_event *record);
/* Calls the observer, which otherwise comes some times a second. One system call. */
void script_ring_bell(struct script_writer *writer);

/* Keeps a text; 0: no room. The same text may be kept twice. */
uint32_t script_text_keep(struct script_writer *writer, const char *bytes, size_t size);
/* A new sum, all 0. NULL: no room. */
struct script_sum *script_sum_new(struct script_writer *writer, enum script_sum_kind kind, uint32_t file,
                                  uint32_t function, int32_t line);
/* For script_ring.now. */
uint32_t script_sum_number(const struct script_writer *writer, const struct script_sum *sum);
struct script_ring *script_writer_ring(const struct script_writer *writer);

/* ---- the reader ---- */

enum { SCRIPT_RECORD_MOST = 16 << 10 };

struct script_view {
    struct script_ring *ring;
    struct script_ring head; /* what does not change, as it was when it was checked */
    uint64_t taken;
    int32_t waits_for;
    uint64_t damaged; /* how often records were damaged; what was in the ring then is lost */
    uint64_t room[SCRIPT_RECORD_MOST / 8];
    struct script_frame frames[SCRIPT_FRAMES_MOST];
};

/* Is that a ring, and does it fit into the `size` bytes that are mapped? */
bool script_view_init(struct script_view *ret_view, void *memory, size_t size);
/* Takes the next record; what it points to is valid until the next call. false: there is none now. If the next one is
 * not finished, waits_for has the pid of its writer. `gone`: that process writes no more, so what it did not finish is
 * skipped. */
enum { SCRIPT_GONE_NONE = 0, SCRIPT_GONE_ALL = -1 };
bool script_view_take(struct script_view *view, int32_t gone, struct script_event *ret_record);

struct script_sum_copy {
    uint32_t kind;
    int32_t line;
    uint64_t count, total_ns, self_ns, failed;
    char file[SCRIPT_NAME_MOST], function[SCRIPT_NAME_MOST]; /* "": none */
};
uint32_t script_view_sums(const struct script_view *view); /* how many there are */
/* false: not ready, or damaged. `names` false: file and function are not copied. */
bool script_view_sum(const struct script_view *view, uint32_t index, bool names, struct script_sum_copy *ret_sum);
/* script_sum.command of it; "": none. */
void script_view_command(const struct script_view *view, uint32_t index, char ret_command[SCRIPT_NAME_MOST]);
/* The number of the sum of the line where it is now; UINT32_MAX: not said. */
uint32_t script_view_now(const struct script_view *view);

/* ---- a record in the ring: for script_ring.c and script_view.c ---- */

enum script_state { SCRIPT_FREE, SCRIPT_OPEN, SCRIPT_WHOLE, SCRIPT_PAD };

struct script_stored {
    _Atomic uint64_t word; /* size (24 bits), enum script_state (8), pid of the writer (32) */
    uint64_t time_ns, duration_ns, count;
    uint32_t kind;
    int32_t tid, line, status;
    uint32_t cut;
    uint16_t frame_count, text_sizes[SCRIPT_TEXTS];
    uint16_t none_bits; /* of texts that are NULL */
    char bytes[];       /* texts; frames: struct script_stored_frame with its names; at any address */
};

struct script_stored_frame {
    int32_t line;
    uint16_t file, function; /* bytes; UINT16_MAX: none */
};

static inline uint64_t script_word(uint32_t size, enum script_state state, int32_t pid)
{
    return size | (uint64_t)state << 24 | (uint64_t)(uint32_t)pid << 32;
}

#endif
