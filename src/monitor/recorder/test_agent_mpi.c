/* SPDX-License-Identifier: Apache-2.0 */
/* What is recorded of each MPI call: programs that the agent runs, and layouts that say what came of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "monitor/recorder/agent_mpi.c" /* how it is made is its own business alone */
#include "symbols/layout/layout.h"

static int read_here(void *dst, uint64_t address, size_t size)
{
    memcpy(dst, (const void *)(uintptr_t)address, size);
    return 0;
}

/* The values of a call as people see them; `out` is of BUFFER bytes. */
enum { BUFFER = 4096 };
static void shown(uint32_t call, unsigned side, enum layout_part part, const struct mpi_told *told, char *out)
{
    const struct recipe *recipe = recipe_for(call, side);
    assert_non_null(recipe);
    struct {
        struct capture_head head;
        struct capture_insn insns[FIELDS];
    } code = {.head = recipe->head};
    memcpy(code.insns, recipe->insns, sizeof code.insns);
    size_t size = sizeof code.head + recipe->count * sizeof code.insns[0];
    assert_true(capture_check(&code, size));
    assert_false(capture_wants_xmm(&code, size));
    struct capture_frame frame = {.has_xmm = false};
    frame.gpr[MPI_TOLD_REGISTER] = frame.gpr[7] = (uint64_t)told;
    uint8_t bytes[BUFFER];
    size_t len = capture_run(&code, size, &frame, read_here, bytes, sizeof bytes);
    assert_true(len >= capture_minimum(&code, size) && len <= RECORD_VALUES_LIMIT);
    struct layout *layout = NULL;
    struct err err = {.text = ""};
    if (layout_parse(&layout, recipe->text, &err) < 0)
        fail_msg("%s: %s: %s", call_infos[call].name, recipe->text, err.text);
    struct buf text = BUF_INIT;
    const struct layout_style style = {.string_limit = 0};
    layout_format(layout, part, bytes, len, &style, &text);
    snprintf(out, BUFFER, "%s", text.data ? text.data : "");
    buf_done(&text);
    layout_free(layout);
}

static void every_call(void **state)
{
    static const char name[256] = "a name"; /* is read in pieces, as long as memory is there */
    char text[BUFFER];
    (void)state;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        struct mpi_told told = {.peer = 1, .tag = 2};
        for (unsigned i = 0; i <= MPI_TOLD_PARS; i++)
            told.par[i] = (int64_t)(uintptr_t)name;
        assert_true(call_infos[call].param_count <= MPI_TOLD_PARS);
        shown(call, 0, LAYOUT_ARGS, &told, text);
        if (strstr(text, "<cut>") || strstr(text, "<invalid>"))
            fail_msg("%s: %s", call_infos[call].name, text);
        shown(call, 1, LAYOUT_RESULT, &told, text);
        assert_true(*text);
    }
}

static void values(void **state)
{
    const struct mpi_told told = {
        .par = {[0] = 0, [1] = (int64_t)(uintptr_t) "half", [2] = 8, [3] = (int64_t)(uintptr_t) "half"},
        .site = 0x1234,
        .comm = 2,
        .peer = 3,
        .tag = 4,
        .source_peer = -1,
        .source_tag = 6,
        .bytes = 24,
        .got_bytes = 16,
        .completed = 2,
        .got = {.from = 7, .tag = 8}};
    char text[BUFFER];
    (void)state;
    shown(CALL_MPI_Send, 0, LAYOUT_ARGS, &told, text);
    assert_string_equal(text, "dest = 3, tag = 4, comm = 2, bytes = 24, site = 0x1234");
    shown(CALL_MPI_Sendrecv, 0, LAYOUT_ARGS, &told, text);
    assert_string_equal(text, "dest = 3, sendtag = 4, source = -1, recvtag = 6, comm = 2, bytes = 24, site = 0x1234");
    shown(CALL_MPI_Reduce, 0, LAYOUT_ARGS, &told, text);
    assert_string_equal(text, "root = 3, comm = 2, bytes = 24, site = 0x1234");
    shown(CALL_MPI_Barrier, 0, LAYOUT_ARGS, &told, text);
    assert_string_equal(text, "comm = 2, site = 0x1234");
    shown(CALL_MPI_Error_class, 0, LAYOUT_ARGS, &told, text);
    shown(CALL_MPI_Recv, 1, LAYOUT_LOCALS, &told, text);
    assert_string_equal(text, "source = 7, tag = 8, bytes = 16");
    shown(CALL_MPI_Waitall, 1, LAYOUT_LOCALS, &told, text);
    assert_string_equal(text, "source = 7, tag = 8, bytes = 16, completed = 2");
    shown(CALL_MPI_Send, 1, LAYOUT_RESULT, &told, text);
    assert_string_equal(text, "MPI_SUCCESS");
}

static void functions(void **state)
{
    (void)state;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        assert_int_equal(mpi_function_call(mpi_function(call)), call);
        assert_int_equal(mpi_function_call(mpi_function_entry(call)), call);
        assert_int_equal(mpi_function_call(mpi_function_exit(call)), call);
    }
    assert_false(mpi_function_is(0x7fffffffffff));
    assert_false(mpi_function_is(MPI_FUNCTIONS - 1));
    assert_false(mpi_function_is(mpi_function(CALL_COUNT)));
    assert_false(mpi_function_is(UINT64_MAX));
}

static void identities(void **state)
{
    (void)state;
    uint64_t half = mpi_comm_identity(MPI_IDENTITY_WORLD, 1, 0), other = mpi_comm_identity(MPI_IDENTITY_WORLD, 1, 2);
    assert_true(half != other && half > MPI_IDENTITY_SELF && other > MPI_IDENTITY_SELF);
    assert_int_equal(half, mpi_comm_identity(MPI_IDENTITY_WORLD, 1, 0));
    assert_true(mpi_comm_identity(half, 1, 0) != half);
    assert_int_equal(mpi_comm_identity(MPI_IDENTITY_NONE, 1, 0), MPI_IDENTITY_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call),
        cmocka_unit_test(values),
        cmocka_unit_test(functions),
        cmocka_unit_test(identities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
