/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library is loaded into each process of a job with --script calls or lines (job/launch/preload.h). In all that
 * are no bash it does nothing. In these it takes the place of the function that executes a command, of whatever kind,
 * before main. Scripts see nothing of it: no trap, no option, no variable is another one.
 *
 * Commands are nested: a function's are in the command that calls it, those of an `if` in the `if`. bash leaves them in
 * order, or by a longjmp over any number of them (return, exit, set -e, errors). So what is known of each is in an array
 * here, not on the stack, and the place of each on the stack says whether it is still there.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bash/shell.h"

enum { FRAMES = 512, STAGES_TEXT = 128 };

struct frame {
    const char *stack; /* it is there as long as the stack is deeper */
    struct tally_place place;
    uint64_t begin_ns;
    bool counted;    /* place is set */
    bool has_status; /* what it returns is its status */
    bool ignored;    /* a failure means nothing: a condition, "!" */
    bool pipeline;   /* it takes the time, its commands are counted; its place is that of the last one */
    bool piped;      /* one of a pipeline, in a process of its own */
    bool leaves;     /* exit, return: its status is not its own, */
    bool returns;    /* but of what called the function */
    int failed;      /* status of the last one in it that was reported; 0: none */
    int trapped;     /* with which it began the trap of errors, whose own may be another; 0: it did not */
    uint32_t size;   /* of the text: bash may have freed the command when its end is noticed */
    char text[TALLY_TEXT];
};

/* The function that does what bash's own did, once that is replaced. */
static shell_execute_fn *follow_original;

static struct frame frames[FRAMES];
static unsigned depth;
static enum { NEW, FOLLOWING, OFF } state;
static bool lines, started, ignored_outside;
static char directory[SCRIPT_PATH];
static struct tally_place last; /* where the shell was when that was told */

static uint64_t now_ns(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* What was begun is the parent's. */
static void in_child(void)
{
    ignored_outside = depth ? frames[depth - 1].ignored : ignored_outside;
    depth = 0;
}

/* ---- the end of a command ---- */

/* `here`: it has come to its own end, and PIPESTATUS is its. */
static void end_frame(int status, bool known, bool here)
{
    struct frame *frame = &frames[--depth];
    struct frame *outer = depth ? &frames[depth - 1] : NULL;
    int failed = frame->failed;
    if (frame->counted) {
        uint64_t ns = now_ns() - frame->begin_ns;
        tally_ended(&frame->place, !frame->pipeline, frame->piped ? 0 : ns);
        char stages[STAGES_TEXT];
        if (known && status && frame->has_status && !frame->ignored) {
            bool stage = here && frame->pipeline && shell_stages(stages, sizeof stages);
            if (failed != status && !frame->leaves)
                tally_failed(&frame->place, frame->text, frame->size, status, stage ? stages : NULL, ns);
            if (!frame->returns)
                failed = status;
        }
    }
    if (outer && failed)
        outer->failed = failed;
}

/* Those that bash has left by a longjmp. What made it do that is the innermost one, if it failed; not what its trap failed at then. */
static void end_left(const char *stack)
{
    int status = *shell.last_command_exit_value;
    while (depth && frames[depth - 1].stack <= stack) {
        status = frames[depth - 1].trapped ? frames[depth - 1].trapped : status;
        end_frame(status, true, false);
    }
}

/* ---- its beginning ---- */

static bool is_call_of(const char *text, size_t size, const char *name)
{
    size_t len = strlen(name);
    return size >= len && memcmp(text, name, len) == 0 && (size == len || text[len] == ' ');
}

static void begin_frame(const struct shell_command *command, const char *stack, bool alone, bool piped)
{
    const struct shell_command *leaf = shell_command_leaf(command);
    struct frame *frame = &frames[depth++];
    bool ignored = depth > 1 ? frame[-1].ignored : ignored_outside; /* eval and source do not hand it on */
    frame->stack = stack;
    frame->has_status = alone;
    frame->counted = false;
    frame->failed = frame->trapped = 0;
    frame->leaves = frame->returns = false;
    frame->ignored = ignored || (command->flags & (SHELL_IGNORED | SHELL_INVERTED)) != 0;
    if (!leaf || (leaf != command && !alone))
        return;
    const char *function = *shell.variable_context > 0 ? shell_caller("FUNCNAME", 0) : NULL;
    if (function && strcmp(function, "source") == 0)
        function = NULL;
    frame->ignored |= (leaf->flags & (SHELL_IGNORED | SHELL_INVERTED)) != 0;
    frame->pipeline = leaf != command;
    frame->piped = piped;
    frame->size = (uint32_t)(frame->pipeline ? shell_pipeline_text(command, frame->text, sizeof frame->text)
                                             : shell_command_text(leaf, frame->text, sizeof frame->text));
    frame->returns = is_call_of(frame->text, frame->size, "return");
    frame->leaves = frame->returns || is_call_of(frame->text, frame->size, "exit");
    frame->counted = tally_place(shell_caller("BASH_SOURCE", 0), function, leaf->value.leaf->line, frame->text,
                                 frame->size, &frame->place);
    frame->begin_ns = now_ns();
    if (!frame->counted || frame->pipeline)
        return;
    if (!started)
        tally_started(&frame->place);
    started = true;
    bool other =
        lines ? frame->place.key != last.key : frame->place.file != last.file || frame->place.function != last.function;
    last = frame->place;
    tally_now(&frame->place, frame->text, frame->size, frame->begin_ns, other);
}

/* What has no file is not followed, and takes no room. */
static bool is_ready(void)
{
    if (state == NEW && shell_caller("BASH_SOURCE", 0))
        state = tally_open(directory) ? FOLLOWING : OFF;
    return state == FOLLOWING;
}

static int follow_command(struct shell_command *command, int asynchronous, int pipe_in, int pipe_out, void *fds)
{
    const char *stack = __builtin_frame_address(0);
    int before = errno;
    unsigned own = FRAMES;
    if (!*shell.interactive_shell && command && is_ready()) {
        /* the trap of its exit: all is left, although that may be deeper */
        end_left(*shell.running_trap == SHELL_EXIT_TRAP ? (const char *)UINTPTR_MAX : stack);
        if (*shell.running_trap == SHELL_ERROR_TRAP && depth && !frames[depth - 1].trapped)
            frames[depth - 1].trapped = *shell.last_command_exit_value;
        if (!*shell.running_trap && depth < FRAMES) {
            own = depth;
            bool piped = pipe_in != SHELL_NO_PIPE || pipe_out != SHELL_NO_PIPE;
            begin_frame(command, stack, !asynchronous && !piped, piped);
        }
    }
    errno = before;
    int status = follow_original(command, asynchronous, pipe_in, pipe_out, fds);
    before = errno;
    if (own < depth && frames[own].stack == stack) {
        while (depth > own + 1)
            end_frame(0, false, false);
        end_frame(status, true, true);
    }
    errno = before;
    return status;
}

/* exit(): what was begun is left. */
__attribute__((destructor)) static void end(void)
{
    if (state == FOLLOWING)
        end_left((const char *)UINTPTR_MAX);
}

__attribute__((constructor)) static void start(void)
{
    const char *level = getenv("SCRY_SCRIPT"), *off = getenv("SCRY"), *to = getenv(SCRIPT_RING_DIR), *why;
    if (!to || !level || strlen(to) >= sizeof directory || (off && strcmp(off, "off") == 0) || !shell_find(&why))
        return;
    memcpy(directory, to, strlen(to) + 1);
    if (!why) {
        lines = strcmp(level, "lines") == 0;
        if (pthread_atfork(NULL, NULL, in_child) != 0)
            state = OFF;
        why = patch_function((void *)shell.execute, shell.execute_size, (void *)follow_command,
                             (void **)&follow_original);
    }
    if (why && tally_open(directory))
        tally_refuse(why);
}
