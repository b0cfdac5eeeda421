/* SPDX-License-Identifier: Apache-2.0 */
/* Which MPI a program needs: the names of libraries in its dynamic section. Nothing of the program is executed. */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "task/launch.h"

enum { MOST_HEADERS = 64, MOST_DYNAMIC = 4096, NAME_BYTES = 64 };

static bool read_at(int fd, void *ret, size_t size, uint64_t at)
{
    return at < INT64_MAX && pread(fd, ret, size, (off_t)at) == (ssize_t)size;
}

/* Where the bytes at an address of the loaded program are in its file. */
static uint64_t file_offset(const Elf64_Phdr *headers, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (headers[i].p_type == PT_LOAD && address >= headers[i].p_vaddr &&
            address - headers[i].p_vaddr < headers[i].p_filesz)
            return headers[i].p_offset + (address - headers[i].p_vaddr);
    return UINT64_MAX;
}

/* MPICH and its relatives agreed on the number 12; Debian's MPICH has names of its own. A program of Fortran or C++ may need
 * the library of its language alone. */
static enum task_mpi mpi_of_name(const char *name)
{
    static const struct {
        const char *begin;
        enum task_mpi mpi;
    } rows[] = {{"libmpich.so", TASK_MPI_MPICH},      {"libmpichfort.so", TASK_MPI_MPICH},
                {"libmpichcxx.so", TASK_MPI_MPICH},   {"libmpi.so.12", TASK_MPI_MPICH},
                {"libmpifort.so.12", TASK_MPI_MPICH}, {"libmpicxx.so.12", TASK_MPI_MPICH},
                {"libmpi.so", TASK_MPI_OPENMPI},      {"libmpi_mpifh", TASK_MPI_OPENMPI},
                {"libmpi_usempi", TASK_MPI_OPENMPI},  {"libmpi_cxx.so", TASK_MPI_OPENMPI}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(name, rows[i].begin, strlen(rows[i].begin)) == 0)
            return rows[i].mpi;
    return TASK_MPI_UNKNOWN;
}

static enum task_mpi mpi_of_dynamic(int fd, const Elf64_Phdr *headers, size_t count, const Elf64_Phdr *dynamic)
{
    size_t entries = dynamic->p_filesz / sizeof(Elf64_Dyn);
    uint64_t names = UINT64_MAX;
    entries = entries < MOST_DYNAMIC ? entries : MOST_DYNAMIC;
    _cleanup_(freep) Elf64_Dyn *all = calloc(entries + 1, sizeof *all);
    if (!all || !read_at(fd, all, entries * sizeof *all, dynamic->p_offset))
        return TASK_MPI_UNKNOWN;
    for (size_t i = 0; i < entries; i++)
        if (all[i].d_tag == DT_STRTAB)
            names = file_offset(headers, count, all[i].d_un.d_ptr);
    for (size_t i = 0; i < entries && names != UINT64_MAX; i++) {
        char name[NAME_BYTES + 1] = "";
        if (all[i].d_tag != DT_NEEDED || all[i].d_un.d_val > UINT32_MAX)
            continue;
        if (pread(fd, name, NAME_BYTES, (off_t)(names + all[i].d_un.d_val)) > 0 && mpi_of_name(name))
            return mpi_of_name(name);
    }
    return TASK_MPI_UNKNOWN;
}

enum task_mpi task_mpi_of(const char *path)
{
    Elf64_Ehdr head;
    Elf64_Phdr headers[MOST_HEADERS];
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof *headers || head.e_phnum > MOST_HEADERS ||
        !read_at(fd, headers, head.e_phnum * sizeof *headers, head.e_phoff))
        return TASK_MPI_UNKNOWN;
    for (size_t i = 0; i < head.e_phnum; i++)
        if (headers[i].p_type == PT_DYNAMIC)
            return mpi_of_dynamic(fd, headers, head.e_phnum, &headers[i]);
    return TASK_MPI_UNKNOWN;
}
