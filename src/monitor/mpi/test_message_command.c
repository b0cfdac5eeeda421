/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be done with messages by a process at its next MPI call, which may not come. There is no process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>
#include <errno.h>

#include "base/system/loop.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/message_internal.h"
#include "monitor/recorder/agents_internal.h"

enum { SOON_NS = 1000000 };
static const uint64_t LATER_NS = UINT64_C(60000000000);

static void on_done(void *ctx, struct mpi_message_result *result)
{
    *(int *)ctx = result->code;
}

/* The next one is put when the time of the one before it is over. */
static void test_one_behind_the_other(void **state)
{
    struct monitor monitor = {.busy = 1};
    struct agents agents = {.monitor = &monitor};
    struct agent agent = {.pid = 4711};
    struct mpi_registry registry = {.agents = &agents};
    struct mpi_area head = {.messages_at = MPIA_POOL_AT};
    struct mpi_messages *messages = calloc(1, sizeof *messages);
    struct mpi_process process = {.registry = &registry, .agent = &agent, .head = &head, .messages = messages};
    struct mpi_message_command command = {.kind = MPIM_CLEAR};
    int first = 0, second = 0;
    messages->process = &process;
    messages->wanted = true;
    messages->area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(messages->area, MAP_FAILED);
    ((struct mpim *)(void *)((char *)messages->area + MPIA_POOL_AT))->size = sizeof(struct mpim);
    struct mpim *block = mpi_messages_of(&process);
    assert_non_null(block);
    assert_int_equal(loop_new(&monitor.loop), 0);
    command.tag = 1;
    assert_int_equal(mpi_message_do(&process, &command, SOON_NS, on_done, &first, NULL), 0);
    command.tag = 2;
    assert_int_equal(mpi_message_do(&process, &command, LATER_NS, on_done, &second, NULL), 0);
    assert_int_equal(block->command.tag, 1);
    while (!first)
        loop_step(monitor.loop, (int64_t)LATER_NS);
    assert_int_equal(first, -ETIMEDOUT);
    assert_int_equal(block->command.state, MPIM_COMMAND_PUT);
    assert_int_equal(block->command.tag, 2);
    block->command.state = MPIM_COMMAND_DONE;
    second = 1;
    mpi_message_commands_look(&process, block);
    assert_int_equal(second, 0);
    mpi_messages_forget(&process);
    loop_free(monitor.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_behind_the_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
