/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the events of MPI calls have as parameters: the arguments of the C function by number and by name, what follows
 * them for calls that communicate, and what a call is about. Where each of them is in struct mpi_told (shm/mpi_told.h).
 *
 *     par0              the result, once the call has ended
 *     par1 ... parN     the arguments of the C function; also by their names
 *     parN+1, parN+2    of calls that send: the message's token and its length in bytes; of calls that receive, too; of
 *                       send-receives those of the message that is sent, and in parN+3, parN+4 of the one received. Of
 *                       collective and one-sided calls no message, and the length.
 *     peer tag comm bytes received source source_tag ordinal
 *     result            as par0, of calls that return whether they succeeded (not MPI_Wtime)
 */
#ifndef SCRY_MONITOR_PARAMS_MPI_PARAMS_H
#define SCRY_MONITOR_PARAMS_MPI_PARAMS_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "shm/mpi_told.h"

enum { MPI_CALL_WORDS = (CALL_COUNT + 63) / 64 }; /* of a set of calls: bits by enum call_id */

enum mpi_param_kind {
    MPI_PARAM_NONE,   /* the call has no such parameter, or not at this side */
    MPI_PARAM_SIGNED, /* a number, as the next two */
    MPI_PARAM_UNSIGNED,
    MPI_PARAM_FLOATING,
    MPI_PARAM_SENT, /* the message that is sent, */
    MPI_PARAM_GOT,  /* or received: tokens, no numbers */
};

struct mpi_param {
    enum mpi_param_kind kind;
    uint32_t offset; /* in struct mpi_told */
};

/* By its number. */
struct mpi_param mpi_param_at(uint32_t call, bool ended, unsigned number);
/* By its name: "count", "peer", "par3", "$par3". */
struct mpi_param mpi_param_named(uint32_t call, bool ended, struct span name);
/* It is one of the names of what a call is about, and this call has it. */
bool mpi_param_is_about(uint32_t call, bool ended, struct span name);
/* The greatest number that it has. */
unsigned mpi_param_last(uint32_t call);

/* Its 64 bits in what the call reported. */
int64_t mpi_param_bits(const struct mpi_told *told, struct mpi_param param);

/* Appends what it has, for people: "par1 buf, par2 count, ..., par7 message, par8 length". */
void mpi_params_print(struct buf *out, uint32_t call, bool ended);

/* ---- choosing calls ---- */

enum { MPI_NEAR = 3 };

/* Calls by names with wildcards, separated by commas, case-insensitive ("MPI_Send", "mpi_*send", "MPI_Win_*,MPI_Put");
 * "" and "all": all. 0; -ENOENT: with the first name that chooses none in ret_wrong, and calls with names near to it.
 */
int mpi_calls_choose(struct span text, uint64_t ret_calls[MPI_CALL_WORDS], struct span *ret_wrong,
                     const char *ret_near[MPI_NEAR]);
/* The same of a setting, where "none" chooses none. false: a name chooses none, or there is none. */
bool mpi_calls_parse(const char *text, uint64_t ret_calls[MPI_CALL_WORDS]);
/* That it chose none, for people: the parameter that named it, and what is near. -EINVAL. */
int mpi_calls_unknown(const char *param, struct span wrong, const char *const near[MPI_NEAR], struct err *err);

#endif
