/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/count/library.h"

#include <stddef.h>

struct library mpi_library;

static bool functions_find(void *handle, library_find *find)
{
    void *found;
#define LIBRARY_FIND(name) \
    found = find(handle, "PMPI_" #name); \
    if (!found) \
        return false; \
    mpi_library.name = (__typeof__(mpi_library.name))found;
    LIBRARY_FUNCTIONS(LIBRARY_FIND)
#undef LIBRARY_FIND
    return true;
}

#ifdef OPEN_MPI
static const char *const type_names[] = {"ompi_mpi_2cplex",
                                         "ompi_mpi_2dblcplex",
                                         "ompi_mpi_2dblprec",
                                         "ompi_mpi_2int",
                                         "ompi_mpi_2integer",
                                         "ompi_mpi_2real",
                                         "ompi_mpi_aint",
                                         "ompi_mpi_byte",
                                         "ompi_mpi_c_bool",
                                         "ompi_mpi_c_double_complex",
                                         "ompi_mpi_c_float_complex",
                                         "ompi_mpi_c_long_double_complex",
                                         "ompi_mpi_char",
                                         "ompi_mpi_character",
                                         "ompi_mpi_complex16",
                                         "ompi_mpi_complex32",
                                         "ompi_mpi_complex8",
                                         "ompi_mpi_count",
                                         "ompi_mpi_cplex",
                                         "ompi_mpi_cxx_bool",
                                         "ompi_mpi_cxx_cplex",
                                         "ompi_mpi_cxx_dblcplex",
                                         "ompi_mpi_cxx_ldblcplex",
                                         "ompi_mpi_dblcplex",
                                         "ompi_mpi_dblprec",
                                         "ompi_mpi_double",
                                         "ompi_mpi_double_int",
                                         "ompi_mpi_float",
                                         "ompi_mpi_float_int",
                                         "ompi_mpi_int",
                                         "ompi_mpi_int16_t",
                                         "ompi_mpi_int32_t",
                                         "ompi_mpi_int64_t",
                                         "ompi_mpi_int8_t",
                                         "ompi_mpi_integer",
                                         "ompi_mpi_integer1",
                                         "ompi_mpi_integer16",
                                         "ompi_mpi_integer2",
                                         "ompi_mpi_integer4",
                                         "ompi_mpi_integer8",
                                         "ompi_mpi_lb",
                                         "ompi_mpi_logical",
                                         "ompi_mpi_logical1",
                                         "ompi_mpi_logical2",
                                         "ompi_mpi_logical4",
                                         "ompi_mpi_logical8",
                                         "ompi_mpi_long",
                                         "ompi_mpi_long_double",
                                         "ompi_mpi_long_int",
                                         "ompi_mpi_long_long_int",
                                         "ompi_mpi_longdbl_int",
                                         "ompi_mpi_offset",
                                         "ompi_mpi_packed",
                                         "ompi_mpi_real",
                                         "ompi_mpi_real16",
                                         "ompi_mpi_real4",
                                         "ompi_mpi_real8",
                                         "ompi_mpi_short",
                                         "ompi_mpi_short_int",
                                         "ompi_mpi_signed_char",
                                         "ompi_mpi_ub",
                                         "ompi_mpi_uint16_t",
                                         "ompi_mpi_uint32_t",
                                         "ompi_mpi_uint64_t",
                                         "ompi_mpi_uint8_t",
                                         "ompi_mpi_unsigned",
                                         "ompi_mpi_unsigned_char",
                                         "ompi_mpi_unsigned_long",
                                         "ompi_mpi_unsigned_long_long",
                                         "ompi_mpi_unsigned_short",
                                         "ompi_mpi_wchar"};
_Static_assert(sizeof type_names / sizeof *type_names <= LIBRARY_TYPES, "");

static void types_find(void *handle, library_find *find)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        void *found = find(handle, type_names[i]);
        if (found)
            mpi_library.types[mpi_library.type_count++] = found;
    }
}

static bool handles_find(void *handle, library_find *find)
{
    const struct {
        const char *name;
        void *member;
    } rows[] = {
        {"ompi_mpi_comm_world", &mpi_library.comm_world},
        {"ompi_mpi_comm_self", &mpi_library.comm_self},
        {"ompi_mpi_comm_null", &mpi_library.comm_null},
        {"ompi_mpi_group_null", &mpi_library.group_null},
        {"ompi_request_null", &mpi_library.request_null},
        {"ompi_message_null", &mpi_library.message_null},
        {"ompi_message_no_proc", &mpi_library.message_no_proc},
        {"ompi_mpi_datatype_null", &mpi_library.datatype_null},
        {"ompi_mpi_packed", &mpi_library.packed},
        {"ompi_mpi_win_null", &mpi_library.win_null},
        {"ompi_mpi_file_null", &mpi_library.file_null},
        {"ompi_mpi_op_no_op", &mpi_library.no_op},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *found = find(handle, rows[i].name);
        if (!found)
            return false;
        *(void **)rows[i].member = found;
    }
    mpi_library.request_empty = (uint64_t)(uintptr_t)find(handle, "ompi_request_empty");
    types_find(handle, find);
    return true;
}
#else
static bool handles_find(void *handle, library_find *find)
{
    static const MPI_Datatype pairs[] = {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT,
                                         MPI_LONG_DOUBLE_INT};
    (void)handle;
    mpi_library.comm_world = MPI_COMM_WORLD;
    mpi_library.comm_self = MPI_COMM_SELF;
    mpi_library.comm_null = MPI_COMM_NULL;
    mpi_library.group_null = MPI_GROUP_NULL;
    mpi_library.request_null = MPI_REQUEST_NULL;
    mpi_library.message_null = MPI_MESSAGE_NULL;
    mpi_library.message_no_proc = MPI_MESSAGE_NO_PROC;
    mpi_library.datatype_null = MPI_DATATYPE_NULL;
    mpi_library.packed = MPI_PACKED;
    mpi_library.win_null = MPI_WIN_NULL;
    mpi_library.file_null = MPI_FILE_NULL;
    mpi_library.no_op = MPI_NO_OP;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i] != MPI_DATATYPE_NULL)
            mpi_library.types[mpi_library.type_count++] = pairs[i];
    return find != NULL;
}
#endif

bool mpi_library_start(void *handle, library_find *find)
{
    return functions_find(handle, find) && handles_find(handle, find);
}
