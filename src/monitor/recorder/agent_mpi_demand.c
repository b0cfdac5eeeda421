/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of requests for MPI calls: a program at each of the two sites of a call that reads struct mpi_told. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "monitor/recorder/agents_internal.h"
#include "monitor/recorder/mpi_params.h"
#include "shm/capture.h"
#include "shm/code.h"

enum { BLOCK = 3, WORD = sizeof(uint64_t) }; /* instructions of a parameter, bytes of a number */

struct params_program {
    struct area_program head;
    struct capture_head capture;
    struct capture_insn insns[CODE_PARAMS * BLOCK];
};

static const uint8_t code_types[] = {
    [MPI_PARAM_SIGNED] = CODE_SIGNED, [MPI_PARAM_UNSIGNED] = CODE_UNSIGNED, [MPI_PARAM_FLOATING] = CODE_FLOATING};

/* CAPTURE_NUMBER with a block that reads a word; what the call does not have is read where nothing is: missing. */
static void add_param(struct params_program *program, uint32_t *inout_at, struct mpi_param param)
{
    struct capture_insn *insn = &program->insns[*inout_at];
    bool number = param.kind >= MPI_PARAM_SIGNED && param.kind <= MPI_PARAM_FLOATING;
    insn[0] = (struct capture_insn){
        .op = CAPTURE_NUMBER, .n = BLOCK - 1, .off = number ? code_types[param.kind] : (int32_t)CODE_SIGNED};
    insn[1] =
        number
            ? (struct capture_insn){.op = CAPTURE_READ, .r = MPI_TOLD_REGISTER, .n = WORD, .off = (int32_t)param.offset}
            : (struct capture_insn){.op = CAPTURE_READ, .r = 0, .n = WORD, .off = 0};
    insn[2] = (struct capture_insn){.op = CAPTURE_END};
    *inout_at += BLOCK;
}

static int put(struct agent *agent, uint32_t call, bool ended, const char *const *names, unsigned count)
{
    struct params_program program = {.capture = {.version = CAPTURE_VERSION, .minimum = (uint16_t)(9 * count)}};
    uint32_t insns = 0;
    for (unsigned i = 0; i < count; i++)
        add_param(&program, &insns, mpi_param_named(call, ended, span_str(names[i])));
    program.head.size = (uint32_t)(sizeof program.capture + insns * sizeof program.insns[0]);
    struct area_site *site =
        area_site_find(&agent->view, ended ? mpi_function_exit(call) : mpi_function_entry(call), true);
    uint32_t at = site && capture_check(program.head.code, program.head.size)
                      ? agent_program_put(agent, &program, sizeof program.head + program.head.size)
                      : 0;
    if (!at)
        return -ENOSPC;
    atomic_store_explicit(&site->params, at, memory_order_release);
    return 0;
}

int agent_mpi_params_put(struct agent *agent, uint32_t call, const char *const *names, unsigned count)
{
    int code = put(agent, call, false, names, count);
    return code < 0 ? code : put(agent, call, true, names, count);
}
