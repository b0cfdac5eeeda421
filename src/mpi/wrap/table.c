/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One wrapper for all calls: those that programs make seldom, and any call while it is reported. It does what shape.h says
 * of a wrapper, but reads from tables where the arguments go. This works with the calling convention of x86-64: all
 * arguments of MPI calls are integers and addresses, the first six in registers, and a function does not mind more
 * arguments on the stack than it has.
 */
#include "mpi/wrap/table.h"

#include "mpi/wrap/wrap.h"

_Static_assert(2 * CALL_COUNT <= MPI_TABLE_ENTRIES && MPI_TABLE_ENTRIES < WRAP_ENTERED, "each call has its entries");
_Static_assert((int)WRAP_PARAMS <= (int)MPI_TOLD_PARS, "all arguments can be reported");

typedef int64_t few(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
typedef int64_t many(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                     uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

struct noted { /* a call on its way */
    const struct call_info *info;
    const struct wrap_call *call;
    const struct wrap_param *params;
    void *real;
    uint64_t passed[WRAP_PARAMS];
    union { /* cleared in one go */
        struct mpi_args args;
        uint8_t cleared[(sizeof(struct mpi_args) + 63) / 64 * 64];
    };
    struct mpi_told told;
};

_Static_assert(sizeof(struct mpi_told) % 64 == 0, "four pairs at a time");

/* Integers are sign-extended; what is no int has its whole register. */
static inline int64_t extended(uint64_t value, uint8_t size)
{
    return size == sizeof(int32_t) ? (int32_t)value : (int64_t)value;
}

static int64_t call_real(const struct noted *noted)
{
    const uint64_t *p = noted->passed;
    if (noted->call->floats) {
        double value = ((double (*)(void))noted->real)();
        int64_t bits;
        __builtin_memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    int64_t result = noted->info->param_count <= 6
                         ? ((few *)noted->real)(p[0], p[1], p[2], p[3], p[4], p[5])
                         : ((many *)noted->real)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10],
                                                 p[11], p[12], p[13], p[14]);
    return extended((uint64_t)result, noted->call->result);
}

/* The arguments, as shapes see them and as they are reported. */
static void take_arguments(struct noted *noted, const uint64_t *given, bool tells)
{
    told_clear(noted->cleared, sizeof noted->cleared);
    if (tells)
        told_clear(&noted->told, sizeof noted->told);
    noted->args.call = (uint32_t)(noted->info - call_infos);
    noted->args.volume = noted->info->volume;
    noted->args.blocking = noted->info->blocking;
    noted->args.told = tells ? &noted->told : NULL;
    for (unsigned i = 0, count = noted->info->param_count; i < count; i++, given++) {
        const struct wrap_param *param = &noted->params[i];
        given += i == 6;
        noted->passed[i] = *given;
        int64_t value = extended(noted->passed[i], param->size);
        noted->told.par[1 + i] = value;
        if (param->held == sizeof(int32_t))
            *(int32_t *)(void *)(noted->cleared + param->at) = (int32_t)value;
        else if (param->held)
            *(int64_t *)(void *)(noted->cleared + param->at) = value;
    }
}

/* What the call has handed back. */
static void take_back(struct noted *noted, int64_t result)
{
    if (!noted->call->fails || result != MPI_SUCCESS)
        return;
    for (unsigned backs = noted->call->backs; backs; backs &= backs - 1) {
        unsigned i = (unsigned)__builtin_ctz(backs);
        const void *back = (const void *)noted->passed[i];
        if (back)
            noted->told.par[1 + i] =
                noted->params[i].back == sizeof(int32_t) ? *(const int32_t *)back : *(const int64_t *)back;
    }
}

static int64_t tell_quick(struct noted *noted, struct mpi_self *self)
{
    uint8_t comm = noted->call->comm;
    uint64_t handle = comm ? noted->passed[comm - 1] : 0;
    if (comm && noted->params[comm - 1].size == sizeof(uint32_t)) /* as HANDLE_OF of mpi/count/library.h */
        handle = (uint32_t)handle;
    bool tells = mpi_quick_begins(self, &noted->told, handle);
    int64_t result = call_real(noted);
    if (tells) {
        take_back(noted, result);
        mpi_quick_ends(self, &noted->told, result);
    }
    return result;
}

static int64_t note(struct noted *noted, struct mpi_self *self, bool tells)
{
    const struct wrap_shape *shape = &wrap_shapes[noted->call->shape];
    shape->before(self, &noted->args);
    tells = tells && mpi_tell_begins(self, &noted->told);
    unsigned status = noted->call->status;
    if (status)
        noted->passed[status - 1] = *(const uint64_t *)(const void *)(noted->cleared + noted->params[status - 1].at);
    int64_t result = call_real(noted);
    int code = noted->call->fails ? (int)result : MPI_SUCCESS;
    mpi_leave(self, code);
    shape->after(self, &noted->args, code);
    if (tells) {
        take_back(noted, result);
        mpi_tell_ends(self, &noted->told, result);
    }
    mpi_done(self);
    return result;
}

struct wrap_returns mpi_by_table(const uint64_t *given, uint32_t number)
{
    uint32_t id = number % MPI_TABLE_ENTRIES / 2;
    struct noted noted;
    noted.info = &call_infos[id];
    noted.call = &wrap_calls[id];
    noted.params = &wrap_params[noted.call->first];
    noted.real = mpi_real[id][number % 2];
    bool tells = number & WRAP_ENTERED;
    struct mpi_self *self = tells ? mpi_telling() : NULL;
    if (!tells) {
        uint64_t site = given[6];
        uintptr_t frame = (uintptr_t)(given + 7);
        if (site - mpi_fortran.low < mpi_fortran.size && !(site = mpi_fortran_site(id, site)))
            return (struct wrap_returns){0, noted.real};
        if (noted.call->quick) {
            tells = mpi_quick(id);
            self = tells ? mpi_quick_tells(id, site, frame) : NULL;
        } else if (!(self = mpi_enter_at(id, site, frame))) {
            self = mpi_tells();
            tells = true;
        }
        if (!self)
            return (struct wrap_returns){0, noted.real};
    }
    take_arguments(&noted, given, tells);
    if (tells && !noted.call->quick && mpi_acts(self, &noted.told, MPI_ACTS_PARS)) {
        noted.args.told = NULL;
        tells = false;
    }
    return (struct wrap_returns){noted.call->quick ? tell_quick(&noted, self) : note(&noted, self, tells), NULL};
}

/* Its entries are in entry_x86_64.S, and leave the arguments where they are. */
void *mpi_pcontrol(int level, uint64_t site, uint32_t kind)
{
    const struct wrap_shape *shape = &wrap_shapes[wrap_calls[CALL_MPI_Pcontrol].shape];
    struct mpi_self *self = mpi_enter(CALL_MPI_Pcontrol, site), *telling = NULL;
    if (!self)
        self = telling = mpi_tells();
    if (self) {
        struct mpi_told told;
        told_clear(&told, sizeof told);
        told.par[1] = level;
        if (telling && mpi_acts(telling, &told, MPI_ACTS_PARS))
            telling = NULL;
        struct mpi_args args = {.call = CALL_MPI_Pcontrol, .told = telling ? &told : NULL, .level = level};
        shape->before(self, &args);
        bool tells = telling && mpi_tell_begins(self, &told);
        mpi_leave(self, MPI_SUCCESS);
        shape->after(self, &args, MPI_SUCCESS);
        if (tells)
            mpi_tell_ends(self, &told, MPI_SUCCESS);
        mpi_done(self);
    }
    return mpi_real[CALL_MPI_Pcontrol][kind];
}
