/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MPI area: what one MPI process has done and does. The interposer (src/mpi) counts in it, and the monitor reads it
 * at any time. One file in the runtime directory for one incarnation of a process, made by the monitor: the counts
 * outlive a process that is killed, aborts or never finalises, and a killed monitor, too. In the order of
 * the file:
 *
 *   struct mpi_area      geometry, switches (monitor writes), who the process is (interposer writes)
 *   threads              struct mpi_thread, one for each thread that has called MPI: the call it is in, its clock, rows
 *   comms                struct mpi_comm, one for each communicator, window and file ever seen; number = index
 *   requests             struct mpi_request, a hash by handle: operations that were begun and are not completed
 *   modules              struct mpi_module: what the addresses of call sites are relative to
 *   pool                 bump-allocated, never freed: histograms, tables of call sites and peers, lists of ranks
 *
 * Offsets are from the start of the file; 0: none. All times are ticks of the time stamp counter. Only the thread
 * itself writes its block and what belongs to it, so that counting needs no atomic operation. (Threads share block
 * MPIA_THREADS
 * - 1 if there are too many, and add atomically.) What a reader must see together is under a sequence number. Readers
 * check everything against the geometry, which is fixed: a program that overwrites this memory may lose its statistics,
 * nothing else. Freestanding.
 *
 * The handshake is that of shm/area.h, with AGENT_COUNTS_MPI: the agent has it for the interposer, which gets the two
 * mappings. The interposer rings after MPI_Init, MPI_Finalize and when asked to report.
 *
 * Definitions are those of J. Fernandez et al., "Monitoring and Debugging Parallel Software with BCS-MPI" (the Main
 * MDS).
 */
#ifndef SCRY_SHM_MPI_AREA_H
#define SCRY_SHM_MPI_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/mpi_calls.h" /* generated: enum call_id, CALL_COUNT, CALLS_HASH */

enum {
    MPIA_AREA_VERSION = 10,
    MPIA_AREA_SIZE = 8 << 20,
    MPIA_THREADS = 32,
    MPIA_COMMS = 1024,
    MPIA_REQUESTS = 8192, /* a power of two */
    MPIA_REQUEST_PROBES = 64,
    MPIA_MODULES = 64,
    MPIA_NAME = 64,         /* bytes of an object's name, with its end */
    MPIA_SITES_FIRST = 256, /* rows of a thread's first table of call sites; doubled when 3/4 full, up to .._MOST */
    MPIA_SITES_MOST = 8192,
    MPIA_PEERS_FIRST = 64,
    MPIA_PEERS_MOST = 16384,
    MPIA_BITS_MOST = 6, /* finest resolution of a histogram: 64 parts of an octave */
    MPIA_BITS_DEFAULT = 3,
    MPIA_WAITS = 8,
    MPIA_OCTAVES = 48, /* larger values are counted in the last bucket */
};
#define MPIA_AREA_MAGIC UINT32_C(0x4149504d) /* "MPIA" */

/* World ranks as they stand in rows; 0 and above: a rank of MPI_COMM_WORLD. */
enum {
    MPIA_RANK_ANY = -1,     /* MPI_ANY_SOURCE */
    MPIA_RANK_NULL = -2,    /* MPI_PROC_NULL */
    MPIA_RANK_NONE = -3,    /* the call has no peer */
    MPIA_RANK_ROOT = -4,    /* MPI_ROOT of an intercommunicator */
    MPIA_RANK_FOREIGN = -5, /* a process of another MPI_COMM_WORLD (spawned, connected) */
    MPIA_RANK_OTHERS = -16, /* the same, where it is known which: less i, of rank i of the communicator (of the remote
                               group of an intercommunicator) */
    MPIA_TAG_ANY = -1,
    MPIA_TAG_NONE = -3,
};

static inline int32_t mpi_rank_shown(int32_t rank)
{
    return rank <= MPIA_RANK_OTHERS ? MPIA_RANK_FOREIGN : rank;
}

enum mpi_library { MPIA_LIBRARY_OPENMPI = 1, MPIA_LIBRARY_MPICH = 2 };

/* ---- rows ---- */

/* What was received is what the status says (also where the program gave MPI_STATUS_IGNORE); of non-blocking
 * receives it goes to the row of the call that posted it, when it completes. What was sent is counted at the post. Of
 * persistent operations both go to the row of the call that started them: MPI_Start or MPI_Startall. Calls that failed
 * are counted and timed, but move nothing. Nothing goes to or comes from MPI_PROC_NULL. */
struct mpi_row { /* one cache line. min: 0 is none, 1 also what took no tick */
    uint64_t count, ticks, min, max;
    uint64_t args_bytes;            /* count x size of the datatype, as the arguments say (IPM's convention) */
    uint64_t sent_bytes, got_bytes; /* really transferred by this rank (Score-P's convention) */
    uint32_t ticks_at, bytes_at;    /* struct mpi_histogram, of the duration and of args_bytes; 0: none */
};
_Static_assert(sizeof(struct mpi_row) == 64, "a row is a cache line");

/* Log-linear: values below 2^bits have a bucket each; above, each octave has 2^bits equal ones. */
struct mpi_histogram {
    uint32_t bits, bucket_count;
    uint64_t total; /* of the values, so that sums over a distribution are exact */
    uint64_t buckets[];
};

static inline uint32_t mpi_bucket_count(uint32_t bits)
{
    return (uint32_t)(MPIA_OCTAVES - bits + 1) << bits;
}

static inline uint32_t mpi_bucket(uint64_t value, uint32_t bits)
{
    if (value < UINT64_C(1) << bits)
        return (uint32_t)value;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(value);
    if (octave >= MPIA_OCTAVES)
        return mpi_bucket_count(bits) - 1;
    return ((octave - bits + 1) << bits) + (uint32_t)(value >> (octave - bits) & ((UINT64_C(1) << bits) - 1));
}

/* The least value of a bucket. */
static inline uint64_t mpi_bucket_low(uint32_t bucket, uint32_t bits)
{
    uint32_t octave = bucket >> bits;
    uint64_t part = bucket & ((UINT64_C(1) << bits) - 1);
    return octave == 0 ? part : ((UINT64_C(1) << bits) + part) << (octave - 1);
}

/* Where calls come from: (address, call). */
struct mpi_site {          /* one cache line */
    uint64_t address;      /* the call's return address; 0: free. Set last */
    uint32_t call, module; /* index in modules; UINT32_MAX: in none */
    uint64_t count, ticks, min, max;
    uint64_t args_bytes;
    uint64_t offset; /* as the file itself has addresses: the address less where the module was loaded */
};
_Static_assert(sizeof(struct mpi_site) == 64, "a site is a cache line");

/* Whom it exchanges messages with. The user's messages: call = CALL_NONE, peer a world rank. Collectives: call is
 * the collective, peer its root (MPIA_RANK_NONE: it has none), and both counts are that of the calls that this process
 * has completed, whatever its role. One-sided: call is the operation, comm the window, peer the target; of epochs
 * MPI_Win_start (sent_count: begun, got_count: completed, with peer as a target) and MPI_Win_post (sent_count: begun
 * for peer). Files: call, comm the file, peer MPIA_RANK_NONE. */
struct mpi_peer {  /* one cache line */
    uint32_t comm; /* number of the communicator */
    int32_t peer;
    uint32_t call;
    uint32_t used; /* set last */
    uint64_t sent_count, sent_bytes, got_count, got_bytes;
    uint64_t args_bytes;
    uint64_t reserved;
};
_Static_assert(sizeof(struct mpi_peer) == 64, "a peer is a cache line");

/* ---- threads ---- */

enum mpi_flag {
    MPIA_NOW_REQUESTS = 1, /* waits for the requests listed in waits_at */
    MPIA_NOW_FILE = 2,     /* comm is the number of a file */
    MPIA_NOW_WINDOW = 4,
    MPIA_NOW_OFFSET = 8,
};

/* The call a thread is in, and its clocks: all of it under seq, which is odd while it is being written. */
struct mpi_now {
    _Atomic uint32_t seq;
    uint32_t call; /* CALL_NONE: it computes */
    uint64_t since;
    uint64_t site; /* return address of the call */
    int32_t peer;  /* world rank, root or target */
    int32_t tag;
    uint32_t comm;                   /* number; UINT32_MAX: none */
    uint32_t flags;                  /* enum mpi_flag */
    uint64_t bytes;                  /* by the arguments; 0 of a datatype that is not known yet */
    int32_t source_peer, source_tag; /* of the receiving half of a send-receive; else NONE */
    uint32_t ordinal; /* collectives: sequence number on comm (1: the first), by which ranks are compared; else 0 */
    uint32_t waiting; /* requests waited for */
    uint64_t offset;  /* in a file, where the call has one (MPIA_NOW_OFFSET) */
    uint64_t waits[MPIA_WAITS]; /* handles of the first requests waited for */
};
_Static_assert(offsetof(struct mpi_now, offset) == 64, "what most calls write is a cache line");

enum mpi_thread_state {
    MPIA_THREAD_FREE,
    MPIA_THREAD_USED,  /* by the thread tid; its block goes to another one only if no free one is left */
    MPIA_THREAD_SHARED /* the last block: of all threads that found no other. It has no clocks and no now */
};

/*
 * Clock of one definition of communication: all ticks from `first` to `last` are in one of the two sums, exactly:
 * compute + communicate = last - first. It starts at MPI_Init's return (of other threads at their first call) and ends
 * at MPI_Finalize's entry. While nothing is counted (MPI_Pcontrol(0), mpi_area.on = 0) it stands: the time from the
 * first call that is not counted, or from MPI_Pcontrol(0), to the next one that is, is in neither sum, and `first` is
 * moved on by it. Likewise `first` is the time of the reset after one. Calls that a process answers itself at once
 * (MPI_Wtime, MPI_Comm_rank, ...: shape quick) are only counted; the little time that they take is computation.
 */
struct mpi_clock {        /* as it is read: see mpi_clock_outermost, mpi_clock_blocking */
    uint64_t first, last; /* last: end of the last communication, or when the clock was stopped */
    uint64_t compute, communicate;
    uint64_t count; /* of communications, and of the computations before them; the one at the end of it all is one more
                       computation */
    uint64_t compute_min, compute_max, communicate_min, communicate_max; /* min: 0 is none */
};

/*
 * As it is kept: as little is written at each call as is needed. What is computation by the first definition is all
 * that is not communication. The second definition's clock stands there as its difference to the first one's, so that
 * of calls that block nothing is written: the calls that do not block, and `pending`, how long the last of them ended
 * after the last one that does. Distributions likewise: that of communication is the sum of those of the durations of
 * all calls (rows; but for MPI_Init and MPI_Finalize, which are in no clock), plus what stands here; numbers here may
 * be negative (modulo 2^64).
 */
struct mpi_outermost { /* communication: inside an outermost MPI call */
    uint64_t last, communicate, count, first;
    uint64_t compute_min, compute_max, communicate_min, communicate_max;
    uint32_t compute_at;     /* struct mpi_histogram: computation granularity */
    uint32_t communicate_at; /* communication overhead: of calls without a distribution of their own */
};

struct mpi_blocking { /* the paper's: inside a blocking one */
    uint64_t other_ticks, other_count, pending;
    uint64_t compute_min, compute_max, communicate_min, communicate_max;
    uint32_t compute_at;     /* less that of mpi_outermost */
    uint32_t communicate_at; /* of calls without a distribution of their own */
};

static inline struct mpi_clock mpi_clock_outermost(const struct mpi_outermost *from)
{
    return (struct mpi_clock){.first = from->first,
                              .last = from->last,
                              .compute = from->last - from->first - from->communicate,
                              .communicate = from->communicate,
                              .count = from->count,
                              .compute_min = from->compute_min,
                              .compute_max = from->compute_max,
                              .communicate_min = from->communicate_min,
                              .communicate_max = from->communicate_max};
}

static inline struct mpi_clock mpi_clock_blocking(const struct mpi_outermost *outermost,
                                                  const struct mpi_blocking *from)
{
    uint64_t last = outermost->last - from->pending, communicate = outermost->communicate - from->other_ticks;
    return (struct mpi_clock){.first = outermost->first,
                              .last = last,
                              .compute = last - outermost->first - communicate,
                              .communicate = communicate,
                              .count = outermost->count - from->other_count,
                              .compute_min = from->compute_min,
                              .compute_max = from->compute_max,
                              .communicate_min = from->communicate_min,
                              .communicate_max = from->communicate_max};
}

/* Whether calls are in no clock, whatever is switched on. */
static inline bool mpi_call_is_untimed(uint32_t call)
{
    return call == CALL_MPI_Init || call == CALL_MPI_Init_thread || call == CALL_MPI_Finalize;
}

struct mpi_thread {
    _Atomic uint32_t state;
    uint32_t tid;
    uint32_t is_main; /* called MPI_Init: it is the rank */
    uint32_t sites_mask, peers_mask;
    uint32_t sites_at, peers_at; /* struct mpi_site[], struct mpi_peer[]; set after the table was filled. A table that
                                    grows is another one: read _at before and after _mask; 0: it is being replaced */
    uint32_t reset_seen;         /* as area.reset: what is counted here is since the last reset */
    uint64_t errors;             /* calls that returned another than MPI_SUCCESS */
    uint64_t sites_omitted, peers_omitted; /* calls that found no room in a table */
    uint64_t requests_omitted;             /* operations that found no room among the requests */
    uint64_t polls_untimed;                /* calls whose times are estimated (mpi/count/poll.c) */
    uint64_t receives_freed; /* given up by MPI_Request_free before they were complete: what they got is in no number */
    char name[16];
    _Alignas(64) struct mpi_now now;
    _Alignas(64) struct mpi_outermost outermost;
    _Alignas(64) struct mpi_blocking blocking;
    _Alignas(64) struct mpi_row rows[CALL_COUNT];  /* by enum call_id: each outermost call */
    _Alignas(64) struct mpi_row spans[CALL_COUNT]; /* non-blocking ones: from their post to their completion */
};

/* ---- communicators, windows, files ---- */

#define MPIA_RANKS_UNKNOWN UINT32_MAX /* there was no room for them in the pool */

#define MPIA_MEETING_HERE 2 /* a bit of mpi_comm.meeting: both are on one host */

/* Numbers are not given twice. What is made when MPIA_COMMS - 1 are given has the last one together, named "(others)".
 */
enum mpi_comm_kind { MPIA_COMM_FREE, MPIA_COMM_INTRA, MPIA_COMM_INTER, MPIA_COMM_WINDOW, MPIA_COMM_FILE };

struct mpi_comm {
    _Atomic uint32_t kind; /* set last */
    uint32_t ended;        /* was freed */
    uint64_t handle;       /* as the program has it; a freed one's may come again */
    uint32_t parent;       /* number; UINT32_MAX: none. Of windows and files: their communicator */
    uint32_t ordinal;    /* sequence number among those made from parent: with lowest and parent's identity, the same on
                            all ranks */
    int32_t lowest;      /* world rank */
    uint32_t size, rank; /* of the own group */
    uint32_t remote_size;
    uint32_t ranks_at, remote_at; /* int32_t[size] world ranks; 0: rank i is world rank i; MPIA_RANKS_UNKNOWN */
    uint32_t call;                /* that made it */
    uint64_t created;
    _Atomic uint32_t collectives; /* begun on it by this process: now.ordinal */
    _Atomic uint32_t held;        /* windows: how many locks this process holds on it (passive target) */
    uint64_t identity; /* the same in all processes: 1 MPI_COMM_WORLD, 2 MPI_COMM_SELF, else by parent, ordinal, lowest;
                          0: not known */
    uint64_t meeting;  /* with another program (shape/shape_comm.c), where it was the root of the call; 0: not known */
    char name[MPIA_NAME]; /* MPI_Comm_set_name; of a file its path's end */
};

/* ---- requests ---- */

enum mpi_request_flag {
    MPIA_REQUEST_PERSISTENT = 1,
    MPIA_REQUEST_INACTIVE = 2, /* persistent, not started */
    MPIA_REQUEST_RECEIVE = 4,
    MPIA_REQUEST_SEND = 8,
    MPIA_REQUEST_FREED = 16, /* MPI_Request_free before it was seen to be complete: when it completes is not seen */
};

struct mpi_request { /* one cache line; MPICH hands out one handle for several completed sends: handles may repeat */
    _Atomic uint64_t handle; /* 0: never used; 1: was used. Taken by compare-and-exchange, `call` set last */
    _Atomic uint32_t call;   /* CALL_NONE: being written */
    int32_t peer, tag;
    uint32_t comm;
    uint32_t flags;
    uint32_t thread; /* index of who began it */
    uint64_t bytes;
    uint64_t since;
    uint64_t site;
    uint32_t ordinal; /* of non-blocking collectives, as now.ordinal; else 0 */
    uint32_t reserved;
};
_Static_assert(sizeof(struct mpi_request) == 64, "a request is a cache line");

struct mpi_module {
    uint64_t base, end; /* where it was loaded */
    uint8_t build_id[20];
    uint32_t build_id_size; /* 0: has none */
    char path[216];
};
_Static_assert(sizeof(struct mpi_module) == 256, "");

/* ---- the whole ---- */

enum mpi_state {
    MPIA_LOADED,
    MPIA_RUNNING /* MPI_Init returned */,
    MPIA_ENDED /* MPI_Finalize entered */,
    MPIA_OFF /* fault */
};
enum mpi_metric { /* bits of mpi_area.metrics */
                  MPIA_METRIC_CLOCKS = 1,
                  MPIA_METRIC_DISTRIBUTIONS = 2,
                  MPIA_METRIC_SITES = 4,
                  MPIA_METRIC_PEERS = 8,
                  MPIA_METRIC_REQUESTS = 16,
                  MPIA_METRIC_ALL = 31,      /* of what is counted */
                  MPIA_METRIC_TELL = 32,     /* calls and messages are reported to the agent (agent/hooks/mpi_host.h) */
                  MPIA_METRIC_MESSAGES = 64, /* messages of each channel are numbered */
                  MPIA_METRIC_RECORD = 128,  /* and all of them are recorded */
                  MPIA_METRIC_POKE =
                      256, /* and the bits above: a number that grows whenever each thread has to look around */
};

struct mpi_area {
    uint32_t magic, version, calls_hash;
    int32_t pid;
    uint64_t size, start_ticks, serial;
    char namespace[128];

    /* ---- the monitor's switches; looked at by each call ---- */
    _Alignas(64) _Atomic uint32_t on; /* 0: nothing is counted (`scry set mpi=off`) */
    _Atomic uint32_t metrics;         /* enum mpi_metric */
    _Atomic uint32_t bits;  /* resolution of histograms: taken over by a thread when it comes, and at resets */
    _Atomic uint32_t reset; /* grows, after reset_at was set: counts start again (each thread at its next call) */
    /* calls whose distributions are taken; all ones: all. Looked at when one of the switches above changes */
    _Atomic uint64_t selected[(CALL_COUNT + 63) / 64];
    _Atomic uint64_t ticks_per_second;
    /* With MPIA_METRIC_TELL: calls that nobody wants to hear of. */
    _Atomic uint64_t untold[(CALL_COUNT + 63) / 64];

    /* ---- the interposer's side ---- */
    _Alignas(64) _Atomic uint32_t state; /* enum mpi_state */
    _Atomic uint32_t pcontrol;           /* MPI_Pcontrol(0): 1, counting is off until MPI_Pcontrol(1) */
    uint32_t library;                    /* enum mpi_library */
    int32_t rank, world_size;            /* -1 before MPIA_RUNNING */
    int32_t thread_level;                /* 0 single .. 3 multiple, as granted */
    _Atomic uint32_t reports;            /* grows: the program asked for a report so far (MPI_Pcontrol(3)) */
    int32_t abort_code;
    _Atomic uint32_t aborted; /* MPI_Abort was called, with abort_code */
    _Atomic uint32_t comm_count, module_count, threads_used;
    uint64_t init_enter, init_return, finalize_enter, finalize_return; /* ticks; 0: not yet */
    uint64_t init_wall_ns;                                             /* CLOCK_REALTIME at init_return */
    _Atomic uint64_t pool_used;
    _Atomic uint64_t pool_refused;         /* bytes that there was no room for: distributions or tables are missing */
    uint64_t parent_world;                 /* started by MPI_Comm_spawn: 1 */
    char processor[64], version_text[128]; /* MPI_Get_processor_name, first line of MPI_Get_library_version */
    char fault[200];
    _Atomic uint32_t messages_at; /* struct mpim (shm/mpi_messages.h); 0: messages were never counted */
    uint32_t late;                /* 1: MPI ran before its calls were watched */
    _Atomic uint32_t taken;       /* the interposer has it; else it had given up waiting for it */
    _Atomic uint64_t reset_at;    /* ticks, of the last time that `reset` grew; 0: never */
    _Atomic uint32_t unrecorded;  /* calls were not recorded since the last recorded one (MPIA_METRIC_RECORD) */
};
_Static_assert(sizeof(struct mpi_area) <= 4096, "the header is a page");

#define MPIA_ALIGN(value, to) (((value) + (to)-1) / (to) * (to))
enum {
    MPIA_THREADS_AT = 4096,
    MPIA_THREAD_STRIDE = MPIA_ALIGN(sizeof(struct mpi_thread), 4096),
    MPIA_COMMS_AT = MPIA_THREADS_AT + MPIA_THREADS * MPIA_THREAD_STRIDE,
    MPIA_REQUESTS_AT = MPIA_ALIGN(MPIA_COMMS_AT + MPIA_COMMS * sizeof(struct mpi_comm), 4096),
    MPIA_MODULES_AT = MPIA_REQUESTS_AT + MPIA_REQUESTS * sizeof(struct mpi_request),
    MPIA_POOL_AT = MPIA_ALIGN(MPIA_MODULES_AT + MPIA_MODULES * sizeof(struct mpi_module), 4096),
};
_Static_assert(MPIA_POOL_AT + (3 << 20) <= MPIA_AREA_SIZE, "there is room for distributions");

static inline struct mpi_thread *mpi_thread_at(void *area, uint32_t index)
{
    return (struct mpi_thread *)(void *)((uint8_t *)area + MPIA_THREADS_AT + (uint64_t)index * MPIA_THREAD_STRIDE);
}
static inline struct mpi_comm *mpi_comm_at(void *area, uint32_t index)
{
    return (struct mpi_comm *)(void *)((uint8_t *)area + MPIA_COMMS_AT) + index;
}
static inline struct mpi_request *mpi_request_at(void *area, uint32_t index)
{
    return (struct mpi_request *)(void *)((uint8_t *)area + MPIA_REQUESTS_AT) + index;
}
static inline struct mpi_module *mpi_module_at(void *area, uint32_t index)
{
    return (struct mpi_module *)(void *)((uint8_t *)area + MPIA_MODULES_AT) + index;
}

/* Something of `size` bytes in the pool of an area of MPIA_AREA_SIZE, or NULL if it is not wholly there. */
static inline void *mpi_pool_at(void *area, uint32_t at, uint64_t size)
{
    bool inside = at >= MPIA_POOL_AT && at <= MPIA_AREA_SIZE && at % 8 == 0;
    return inside && size <= MPIA_AREA_SIZE - (uint64_t)at ? (uint8_t *)area + at : NULL;
}

#endif
