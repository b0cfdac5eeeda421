/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/cells.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/system/file.h"

enum { CELLS_RESTING = 1024 }; /* given back, and not used again while there are others */

struct cell_memory {
    code_cell *cells;
    int fd;
    int next;    /* never used so far */
    int *unused; /* given back, oldest first, in a ring */
    int unused_first, unused_count, unused_cap;
};

int cells_new(struct cell_memory **ret_cells)
{
    struct cell_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return -ENOMEM;
    size_t size = CODE_CELLS * sizeof(code_cell);
    memory->fd = memfd_create("scry-cells", MFD_CLOEXEC);
    if (memory->fd < 0 || ftruncate(memory->fd, (off_t)size) < 0)
        goto fail;
    memory->cells = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    if (memory->cells == MAP_FAILED)
        goto fail;
    *ret_cells = memory;
    return 0;
fail:;
    int code = -errno;
    if (memory->fd >= 0)
        close(memory->fd);
    free(memory);
    return code;
}

int cells_keep(struct cell_memory *memory, const char *path)
{
    size_t size = CODE_CELLS * sizeof(code_cell), used = (size_t)memory->next * sizeof(code_cell);
    int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return fd;
    /* with its room: a full file system is no SIGBUS later */
    int code = -posix_fallocate(fd, 0, (off_t)size);
    if (code == 0 && pwrite(fd, memory->cells, used, 0) != (ssize_t)used)
        code = -EIO;
    if (code == 0 && mmap(memory->cells, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        code = -errno;
    if (code < 0) {
        close(fd);
        return code;
    }
    close(memory->fd);
    memory->fd = fd;
    return 0;
}

void cells_free(struct cell_memory *memory)
{
    if (!memory)
        return;
    munmap(memory->cells, CODE_CELLS * sizeof(code_cell));
    close(memory->fd);
    free(memory->unused);
    free(memory);
}

int cells_fd(const struct cell_memory *memory)
{
    return memory->fd;
}

/* A cell that was given back is used again as late as possible: a program that was taken away from an agent may still
 * be running in a thread that was interrupted in it. */
int cell_new(struct cell_memory *memory)
{
    int cell = -1;
    if (memory->unused_count > CELLS_RESTING || (memory->unused_count && memory->next == CODE_CELLS)) {
        cell = memory->unused[memory->unused_first];
        memory->unused_first = (memory->unused_first + 1) % memory->unused_cap;
        memory->unused_count--;
    } else if (memory->next < CODE_CELLS) {
        cell = memory->next++;
    }
    if (cell >= 0)
        atomic_store(&memory->cells[cell], 0);
    return cell;
}

void cell_free(struct cell_memory *memory, int cell)
{
    if (cell < 0 || cell >= memory->next)
        return;
    if (memory->unused_count == memory->unused_cap) {
        int cap = memory->unused_cap ? 2 * memory->unused_cap : 16;
        int *unused = malloc((size_t)cap * sizeof *unused);
        if (!unused)
            return; /* one cell is lost, nothing else */
        for (int i = 0; i < memory->unused_count; i++)
            unused[i] = memory->unused[(memory->unused_first + i) % memory->unused_cap];
        free(memory->unused);
        memory->unused = unused;
        memory->unused_cap = cap;
        memory->unused_first = 0;
    }
    memory->unused[(memory->unused_first + memory->unused_count++) % memory->unused_cap] = cell;
}

code_cell *cell_at(struct cell_memory *memory, int cell)
{
    return cell >= 0 && cell < memory->next ? &memory->cells[cell] : NULL;
}
