/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_OUTPUT_RELAY_H
#define SCRY_JOB_OUTPUT_RELAY_H

#include "base/data/err.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

/*
 * Standard output and error of a job that are no files, passed on and kept (job/output/keep.h). In place of each the job gets a
 * pipe; one for both, where both are the same, so that the order stays.
 *
 * The relay, a process of its own that lives as long as somebody can write, moves what is in the job's pipe, or was written to its
 * terminal, to a pipe of its own, the way, by splice(2), copies that to another by tee(2), and moves it on. Its memory never holds a
 * byte: so whoever kills the relay takes none away, and doubles none. A standby takes its place when it dies, sees what is on the way and what of that
 * was copied, and makes a new one. The keeper writes the copy to the disk; it holds nothing of the user's, so a disk that hangs holds
 * up it alone: then no more is kept. Only who kills relay and standby at the same time ends the job's output.
 *
 * What is typed at a terminal is passed on, too, piece by piece: there, who kills the relay at a bad moment may take away one piece.
 *
 * If nobody reads any more, nobody reads the job's pipe: it gets its SIGPIPE as it would have. If somebody reads slowly, the job
 * waits as it would have. The flags of the user's descriptors, which others share, are not touched.
 */

/*
 * A terminal of the job's own, a pseudo-terminal, in place of the user's (terminal.c).
 *
 * Where standard output and error are the terminal at whose prompt scry run was started, the command gets the whole of it: what is
 * typed, job control, the size. It is the first of a session of its own there, led by a process that does nothing else and lives as
 * long as the relay: what outlives the command keeps its terminal. Where standard error alone is a terminal, that alone is
 * replaced; the command's controlling terminal and what is typed stay the user's.
 */

enum terminal_use { TERMINAL_LEFT, TERMINAL_ERRORS, TERMINAL_WHOLE };

/* How it can be used, where one of standard input, output and error, `streams`, is one. TERMINAL_LEFT: why, for a person. */
enum terminal_use terminal_use_of(const int streams[3], const char **ret_reason);

struct terminal {
    int user;             /* the user's, opened anew and non-blocking: the flags of the one that others share stay */
    int master;           /* of the job's: the relay's end, non-blocking */
    int command;          /* and the command's end */
    struct termios modes; /* of the user's */
};

#define TERMINAL_NONE ((struct terminal){.user = -1, .master = -1, .command = -1})

/* Makes one with the modes and the size of `user`. 0 or -errno; terminal_close in both cases. */
int terminal_open(struct terminal *ret_terminal, int user, enum terminal_use use);
void terminal_close(struct terminal *terminal);

/* What is typed goes to the job as it is: ^C is a character until the job's terminal makes a signal of it. false: the caller is in
 * the background of the user's terminal, which is left as it is. */
bool terminal_take(int user, const struct termios *modes);
void terminal_give_back(int user, const struct termios *modes);
/* Nobody has given it other modes since. */
bool terminal_is_taken(int user, const struct termios *modes);

/* Types that at the user's, where the kernel allows it (dev.tty.legacy_tiocsti); it is not shown again. Then terminal_give_back. */
void terminal_type(int user, const struct termios *modes, const char *bytes, size_t len);
/* Undoes in what the job has printed what a terminal of these modes does itself: a return before each newline. The new length. */
size_t terminal_plain(const struct termios *modes, char *bytes, size_t len);

/* Gives the job's terminal the size of the user's. */
void terminal_resize(int user, int master);

/* ---- the relay ---- */

enum { RELAY_STREAMS = 2, RELAY_PIECE = 4096 };

/* What was typed. */
struct relay_piece {
    char bytes[RELAY_PIECE];
    _Atomic uint32_t at, len;
};

/* What all of its processes, and scry run, know. One of them writes each value. */
struct relay_shared {
    _Atomic pid_t relay;            /* it, once there is a standby */
    _Atomic unsigned keepers;       /* that were made */
    _Atomic bool given;             /* the job has its ends */
    _Atomic bool over;              /* nobody can write any more */
    _Atomic unsigned asked, passed; /* that all that was written before is passed on */
    struct relay_bytes {
        _Atomic uint64_t behind;         /* of what is on its way, so much, or all of it, is not copied yet */
        _Atomic uint64_t copied, missed; /* and so much never was */
        _Atomic unsigned taking;         /* odd: the keeper is about to count what it takes */
        _Atomic uint64_t taken, kept;
        _Atomic uint64_t lost;      /* taken, and not known to be kept */
        _Atomic uint64_t waited_ns; /* of the job, for room for copies */
        _Atomic int error;          /* why nothing is kept any more: an errno */
        _Atomic bool closed;
    } streams[RELAY_STREAMS];
    bool whole; /* a whole terminal: what is typed is passed on while it is taken */
    _Atomic bool taken;
    _Atomic int typed_signal; /* SIGINT or SIGQUIT: the last of ^C and ^\ */
    _Atomic bool let_go;      /* the command has ended: its terminal is open as long as others have it */
    pid_t supervisor;         /* scry run */
    _Atomic unsigned resized;
    struct termios modes; /* of the user's terminal */
    struct relay_piece input, unread;
    _Atomic bool typed_over; /* nothing more is typed for the job: `unread` is what it has not read */
};

/* ---- what is typed at a whole terminal (terminal.c) ---- */

enum {
    TYPED_USER = 1,
    TYPED_JOB = 0
}; /* places of the descriptors: the user's terminal, and the relay's end of the job's */

/* What the relay polls to pass it on, of the user's terminal and of the job's. hold: scry run is stopped, so it is not for the job until that
 * says something. */
void typed_polls(const struct relay_shared *shared, const int *fds, bool hold, struct pollfd ret_polls[2]);
void typed_handle(struct relay_shared *shared, const int *fds, bool *inout_hold, const struct pollfd polls[2]);
/* The job needs no more: what it has not read is `unread`, for who has the user's terminal next. Once. */
void typed_take_back(struct relay_shared *shared, int master);
/* scry run is about to take the user's terminal: what was typed before. */
void typed_before(struct relay_shared *shared, int user);

struct relay {
    int control;                /* it hangs up when all is passed on; -1: there is no relay */
    pid_t pid;                  /* of the first */
    int outputs[RELAY_STREAMS]; /* standard output and error of the job, our ends; -1: as they are */
    int input;                  /* and standard input */
    int leash;                  /* not -1: the job gets a session of its own that lives as long as this (launch_held) */
    enum terminal_use use;
    struct terminal terminal;
    const char *names[RELAY_STREAMS]; /* what each is kept as: "stdout", "stderr", "output" for both; NULL: it is not */
    const char *reasons[RELAY_STREAMS]; /* why not; NULL: it is a file, or closed */
    struct relay_shared *shared;
};

#define RELAY_NONE \
    ((struct relay){.control = -1, .outputs = {-1, -1}, .input = -1, .leash = -1, .terminal = TERMINAL_NONE})

/* Starts it where one of `targets`, standard output and error of the caller, is a pipe, a socket, a terminal or /dev/null. `most`: bytes of
 * the end to keep of each, in the job directory `dir`. 0 or -errno: then there is none. */
int relay_start(struct relay *ret_relay, const int targets[RELAY_STREAMS], const char *dir, uint64_t most);
/* The job has its ends. */
void relay_given(struct relay *relay);
/* Takes the user's terminal for the job, if scry run is in its foreground, or gives it back: before scry run stops, prints, or ends. */
void relay_terminal(struct relay *relay, bool take);
/* There is one to take, once scry run is in its foreground again. */
bool relay_waits_for_terminal(const struct relay *relay);
/* Readable, with a hangup, when nobody is left who passes on what is typed; -1: there is nothing to look at. Then relay_lost, which
 * gives the user's terminal back. */
int relay_fd(const struct relay *relay);
void relay_lost(struct relay *relay);
/* SIGINT or SIGQUIT: the job's terminal had that key, and its foreground the signal. 0: none. */
int relay_typed_signal(const struct relay *relay);
/* The user's terminal has another size. */
void relay_resized(struct relay *relay);
/* Waits until what was written so far is passed on, as long as the reader takes some of it every RELAY_STUCK_MS, and then a moment
 * until it is kept; what is left is passed on after that. false: `interrupt` (-1: none) became readable before. */
bool relay_wait(struct relay *relay, int interrupt);
/* What is not whole of the i-th stream's copy, in words; NULL: nothing. */
const char *relay_lack(const struct relay *relay, size_t i, char *ret_text, size_t size);
/* Lets go of it; it goes on. `job_started` false: it ends, and is waited for; nothing is kept. */
void relay_done(struct relay *relay, bool job_started);

#endif
