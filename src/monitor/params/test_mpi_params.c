/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/params/params.h"

static struct mpi_param named(const char *call, bool ended, const char *name)
{
    return mpi_param_named(call_find(call), ended, span_str(name));
}

static void assert_is(const char *call, bool ended, const char *name, enum mpi_param_kind kind, size_t offset)
{
    struct mpi_param param = named(call, ended, name);
    if (param.kind != kind || param.offset != offset)
        fail_msg("%s: %s is %d at %u", call, name, (int)param.kind, param.offset);
}

static void assert_none(const char *call, bool ended, const char *name)
{
    assert_is(call, ended, name, MPI_PARAM_NONE, 0);
}

static size_t par(unsigned number)
{
    return offsetof(struct mpi_told, par) + 8 * number;
}

/* The arguments of the C function, by number and by name, whatever the call. */
static void arguments(void **state)
{
    (void)state;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        const struct call_info *info = &call_infos[call];
        for (unsigned i = 1; i <= info->param_count && i <= MPI_TOLD_PARS; i++) {
            assert_int_equal(mpi_param_at(call, false, i).kind, MPI_PARAM_SIGNED);
            assert_int_equal(mpi_param_at(call, true, i).offset, par(i));
            assert_int_not_equal(
                mpi_param_named(call, true, span_str(call_param_name(&call_info_params(info)[i - 1]))).kind,
                MPI_PARAM_NONE);
        }
        assert_int_equal(mpi_param_at(call, false, 0).kind, MPI_PARAM_NONE);
        assert_int_not_equal(mpi_param_at(call, true, 0).kind, MPI_PARAM_NONE);
        assert_int_equal(mpi_param_at(call, true, mpi_param_last(call) + 1).kind, MPI_PARAM_NONE);
    }
    assert_is("MPI_Send", false, "count", MPI_PARAM_SIGNED, par(2));
    assert_is("MPI_Send", false, "$par4", MPI_PARAM_SIGNED, par(4));
    assert_is("MPI_Send", false, "par4", MPI_PARAM_SIGNED, par(4));
    assert_is("MPI_Send", true, "result", MPI_PARAM_SIGNED, par(0));
    assert_is("MPI_Wtime", true, "par0", MPI_PARAM_FLOATING, par(0));
    assert_none("MPI_Wtime", true, "result");
    assert_none("MPI_Send", false, "result");
    assert_none("MPI_Send", false, "source");
    assert_none("MPI_Send", false, "par");
    assert_none("MPI_Send", false, "par1x");
    assert_none("MPI_Send", false, "par1000");
    assert_none("MPI_Send", false, "");
}

/* What follows them: the message and its length. */
static void messages(void **state)
{
    (void)state;
    const size_t bytes = offsetof(struct mpi_told, bytes), got = offsetof(struct mpi_told, got_bytes);
    assert_is("MPI_Send", false, "par7", MPI_PARAM_SENT, offsetof(struct mpi_told, sent));
    assert_is("MPI_Send", false, "par8", MPI_PARAM_UNSIGNED, bytes);
    assert_is("MPI_Send", true, "par8", MPI_PARAM_UNSIGNED, bytes);
    assert_is("MPI_Recv", false, "par8", MPI_PARAM_GOT, offsetof(struct mpi_told, got));
    assert_is("MPI_Recv", false, "par9", MPI_PARAM_UNSIGNED, bytes);
    assert_is("MPI_Recv", true, "par9", MPI_PARAM_UNSIGNED, got);
    assert_is("MPI_Irecv", true, "par9", MPI_PARAM_UNSIGNED, bytes);
    assert_is("MPI_Sendrecv", true, "par13", MPI_PARAM_SENT, offsetof(struct mpi_told, sent));
    assert_is("MPI_Sendrecv", true, "par14", MPI_PARAM_UNSIGNED, bytes);
    assert_is("MPI_Sendrecv", true, "par15", MPI_PARAM_GOT, offsetof(struct mpi_told, got));
    assert_is("MPI_Sendrecv", true, "par16", MPI_PARAM_UNSIGNED, got);
    assert_none("MPI_Sendrecv", false, "par15");
    assert_is("MPI_Bcast", false, "par7", MPI_PARAM_UNSIGNED, bytes);
    assert_none("MPI_Barrier", false, "par2");
    assert_none("MPI_File_write", false, "par6");
    assert_is("MPI_File_write", false, "bytes", MPI_PARAM_UNSIGNED, bytes);
}

/* What a call is about; a name of these that is an argument's, too, means what the call is about. */
static void names(void **state)
{
    (void)state;
    assert_is("MPI_Send", false, "peer", MPI_PARAM_SIGNED, offsetof(struct mpi_told, peer));
    assert_is("MPI_Send", false, "tag", MPI_PARAM_SIGNED, offsetof(struct mpi_told, tag));
    assert_is("MPI_Send", false, "comm", MPI_PARAM_SIGNED, offsetof(struct mpi_told, comm));
    assert_is("MPI_Bcast", false, "root", MPI_PARAM_SIGNED, par(4));
    assert_is("MPI_Bcast", false, "peer", MPI_PARAM_SIGNED, offsetof(struct mpi_told, peer));
    assert_none("MPI_Barrier", true, "peer");
    assert_none("MPI_Barrier", true, "bytes");
    assert_is("MPI_Waitall", true, "received", MPI_PARAM_UNSIGNED, offsetof(struct mpi_told, got_bytes));
    assert_none("MPI_Waitall", false, "received");
    struct mpi_told told = {.tag = 7, .par = {0, 1, -2}};
    assert_int_equal(mpi_param_bits(&told, named("MPI_Send", false, "tag")), 7);
    assert_int_equal(mpi_param_bits(&told, named("MPI_Send", false, "count")), -2);
    struct buf text = BUF_INIT;
    mpi_params_print(&text, call_find("MPI_Recv"), true);
    buf_putc(&text, '\0');
    assert_string_equal(text.data,
                        "par0 result, par1 buf, par2 count, par3 datatype, par4 source, par5 tag, par6 comm, "
                        "par7 status, par8 (the message), par9 (its length), peer, tag, comm, bytes, received");
    buf_done(&text);
}

static uint64_t calls[(CALL_COUNT + 63) / 64];
static const char *near[MPI_NEAR];
static struct span wrong;

static unsigned chosen(const char *text)
{
    unsigned count = 0;
    if (mpi_calls_choose(span_str(text), calls, &wrong, near) < 0)
        return 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        count += (unsigned)__builtin_popcountll(calls[i]);
    return count;
}

static void assert_near(const char *text, const char *first)
{
    assert_int_equal(chosen(text), 0);
    assert_non_null(near[0]);
    assert_string_equal(near[0], first);
}

static void choosing(void **state)
{
    (void)state;
    assert_int_equal(chosen("MPI_Send"), 1);
    assert_true(calls[CALL_MPI_Send / 64] >> CALL_MPI_Send % 64 & 1);
    assert_int_equal(chosen("mpi_send"), 1);
    assert_int_equal(chosen("PMPI_Send"), 1);
    assert_int_equal(chosen(" MPI_Send, MPI_Recv "), 2);
    assert_int_equal(chosen("MPI_Wait*"), 4);
    assert_int_equal(chosen(""), CALL_COUNT - 1);
    assert_int_equal(chosen("all"), CALL_COUNT - 1);
    assert_int_equal(chosen("MPI_*"), CALL_COUNT - 1);
    assert_near("MPI_Sned", "MPI_Send");
    assert_near("Barrier", "MPI_Barrier");
    assert_near("MPI_Recv,MPI_Bacst", "MPI_Bcast");
    assert_int_equal(wrong.len, strlen("MPI_Bacst"));
    assert_int_equal(chosen("pvm_barrier_of_something_else"), 0);
    assert_null(near[0]);
    char longest[4096];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(chosen(longest), 0);
    assert_null(near[0]);
    assert_int_equal(mpi_calls_choose(span_of("MPI_\0Send", 9), calls, &wrong, near), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arguments), cmocka_unit_test(messages), cmocka_unit_test(names),
                                       cmocka_unit_test(choosing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
