/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Core files: the notes for who and why (core(5), <linux/elfcore.h>), libdwfl for the stacks. What comes out of the
 * file is checked: it may be cut, or not a core at all.
 */
#include "symbols/index/core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/system/process.h"
#include "symbols/index/lines.h"

enum { THREADS_MAX = 65536 };

struct thread_signal {
    pid_t tid;
    int signo;
};

/* While a core is read. */
struct reading {
    struct core *core;
    Elf *elf;
    struct lines lines;
    struct core_thread *thread; /* whose frames are read */
    int fd;
    uint64_t entry;                /* AT_ENTRY */
    struct thread_signal *signals; /* of NT_PRSTATUS, in the order of the file */
    size_t signal_count;
    bool has_siginfo;
    bool failed; /* out of memory */
};

void core_free(struct core *core)
{
    if (!core)
        return;
    for (size_t i = 0; i < core->count; i++) {
        struct core_thread *thread = &core->threads[i];
        for (size_t j = 0; j < thread->count; j++)
            line_location_done(&thread->frames[j].where);
        free(thread->frames);
        free(thread->incomplete);
    }
    free(core->threads);
    free(core->program);
    free(core);
}

/* ---- notes ---- */
static void read_status(struct reading *reading, const void *bytes, size_t size)
{
    struct elf_prstatus status;
    if (size < sizeof status || reading->signal_count >= THREADS_MAX)
        return;
    memcpy(&status, bytes, sizeof status);
    size_t room = reading->signal_count;
    if ((room & (room - 1)) == 0) { /* grows at 0, 1, 2, 4, 8 ... */
        struct thread_signal *grown = realloc(reading->signals, (room ? room * 2 : 1) * sizeof *grown);
        if (!grown) {
            reading->failed = true;
            return;
        }
        reading->signals = grown;
    }
    if (reading->signal_count == 0)
        memcpy(&reading->core->sp, (const char *)&status.pr_reg + offsetof(struct user_regs_struct, rsp),
               sizeof reading->core->sp);
    reading->signals[reading->signal_count++] = (struct thread_signal){.tid = status.pr_pid, .signo = status.pr_cursig};
    if (reading->signal_count == 1 && !reading->has_siginfo)
        reading->core->signo = status.pr_cursig; /* the kernel writes the thread that crashed first */
}

static void read_siginfo(struct reading *reading, const void *bytes, size_t size)
{
    siginfo_t info;
    if (size < sizeof info || reading->has_siginfo)
        return;
    memcpy(&info, bytes, sizeof info);
    reading->has_siginfo = true;
    reading->core->signo = info.si_signo;
    reading->core->code = info.si_code > 0 ? info.si_code : 0;
    switch (info.si_signo) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGTRAP:
        if (info.si_code > 0) /* not sent by kill(2) */
            reading->core->fault_addr = (uint64_t)(uintptr_t)info.si_addr;
        reading->core->faulted = siginfo_has_address(&info);
    }
}

static void read_process(struct reading *reading, const void *bytes, size_t size)
{
    struct elf_prpsinfo info;
    if (size < sizeof info)
        return;
    memcpy(&info, bytes, sizeof info);
    reading->core->pid = info.pr_pid;
    memcpy(reading->core->name, info.pr_fname, sizeof reading->core->name - 1);
}

static void read_auxv(struct reading *reading, const char *bytes, size_t size)
{
    for (Elf64_auxv_t item; size >= sizeof item; bytes += sizeof item, size -= sizeof item) {
        memcpy(&item, bytes, sizeof item);
        if (item.a_type == AT_ENTRY)
            reading->entry = item.a_un.a_val;
    }
}

/* NT_FILE: count, page size, count times (start, end, offset), then as many names. The one with the entry point is the
 * program. */
static void read_files(struct reading *reading, const char *bytes, size_t size)
{
    uint64_t head[2], range[3];
    if (size < sizeof head || reading->core->program)
        return;
    memcpy(head, bytes, sizeof head);
    uint64_t count = head[0];
    if (count > (size - sizeof head) / sizeof range)
        return;
    const char *name = bytes + sizeof head + count * sizeof range, *end = bytes + size;
    for (uint64_t i = 0; i < count && name < end; i++) {
        size_t len = strnlen(name, (size_t)(end - name));
        memcpy(range, bytes + sizeof head + i * sizeof range, sizeof range);
        if (reading->entry >= range[0] && reading->entry < range[1] && name + len < end) {
            reading->core->program = strdup(name);
            return;
        }
        name += len + 1;
    }
}

static void read_note(struct reading *reading, const GElf_Nhdr *note, const char *owner, const char *bytes)
{
    if (note->n_namesz < 4 || memcmp(owner, "CORE", 4) != 0)
        return;
    switch (note->n_type) {
    case NT_PRSTATUS:
        read_status(reading, bytes, note->n_descsz);
        break;
    case NT_PRPSINFO:
        read_process(reading, bytes, note->n_descsz);
        break;
    case NT_SIGINFO:
        read_siginfo(reading, bytes, note->n_descsz);
        break;
    case NT_AUXV: /* comes before NT_FILE */
        read_auxv(reading, bytes, note->n_descsz);
        break;
    case NT_FILE:
        read_files(reading, bytes, note->n_descsz);
        break;
    }
}

static void read_notes(struct reading *reading)
{
    size_t count;
    if (elf_getphdrnum(reading->elf, &count) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr phdr;
        if (!gelf_getphdr(reading->elf, (int)i, &phdr) || phdr.p_type != PT_NOTE)
            continue;
        Elf_Data *data = elf_getdata_rawchunk(reading->elf, (int64_t)phdr.p_offset, phdr.p_filesz,
                                              phdr.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
        GElf_Nhdr note;
        size_t at = 0, name, bytes;
        while (data && (at = gelf_getnote(data, at, &note, &name, &bytes)) > 0)
            read_note(reading, &note, (const char *)data->d_buf + name, (const char *)data->d_buf + bytes);
    }
}

/* ---- stacks ---- */
static int frame_keep(Dwfl_Frame *state, void *arg)
{
    struct reading *reading = arg;
    struct core_thread *thread = reading->thread;
    Dwarf_Addr pc;
    bool exact;
    if (!dwfl_frame_pc(state, &pc, &exact))
        return -1;
    if (thread->count == CORE_FRAMES) {
        thread->cut = true;
        return DWARF_CB_ABORT;
    }
    struct core_frame *frame = &thread->frames[thread->count++];
    frame->pc = pc;
    /* Where a call returns to may belong to the next line, or function; where a signal struck is exact. */
    return lines_find(&reading->lines, exact ? pc : pc - 1, &frame->where) < 0 ? -1 : DWARF_CB_OK;
}

static int thread_keep(Dwfl_Thread *state, void *arg)
{
    struct reading *reading = arg;
    struct core *core = reading->core;
    if (core->count >= THREADS_MAX)
        return DWARF_CB_ABORT;
    struct core_thread *grown = realloc(core->threads, (core->count + 1) * sizeof *grown);
    if (!grown) {
        reading->failed = true;
        return DWARF_CB_ABORT;
    }
    core->threads = grown;
    struct core_thread *thread = &core->threads[core->count];
    *thread =
        (struct core_thread){.tid = dwfl_thread_tid(state), .frames = calloc(CORE_FRAMES, sizeof *thread->frames)};
    if (!thread->frames) {
        reading->failed = true;
        return DWARF_CB_ABORT;
    }
    core->count++;
    for (size_t i = 0; i < reading->signal_count; i++)
        if (reading->signals[i].tid == thread->tid)
            thread->signo = reading->signals[i].signo;
    reading->thread = thread;
    if (dwfl_thread_getframes(state, frame_keep, reading) < 0)
        thread->incomplete = strdup(dwfl_errmsg(-1));
    struct core_frame *fitting = realloc(thread->frames, (thread->count + 1) * sizeof *fitting);
    if (fitting)
        thread->frames = fitting;
    return DWARF_CB_OK;
}

static int read_stacks(struct reading *reading, const char *path, struct err *err)
{
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = debuginfo_find,
    };
    reading->lines.dwfl = dwfl_begin(&callbacks);
    if (!reading->lines.dwfl)
        return err_set(err, -ENOMEM, "out of memory for symbols");
    if (dwfl_core_file_report(reading->lines.dwfl, reading->elf, reading->core->program) < 0 ||
        dwfl_report_end(reading->lines.dwfl, NULL, NULL) != 0)
        return err_set(err, -EIO, "core file %s: its load modules: %s", path, dwfl_errmsg(-1));
    if (dwfl_core_file_attach(reading->lines.dwfl, reading->elf) < 0)
        return err_set(err, -EIO, "core file %s: its threads: %s", path, dwfl_errmsg(-1));
    if (dwfl_getthreads(reading->lines.dwfl, thread_keep, reading) < 0 && reading->core->count == 0)
        return err_set(err, -EIO, "core file %s: its threads: %s", path, dwfl_errmsg(-1));
    if (reading->failed)
        return err_set(err, -ENOMEM, "out of memory for the threads of core file %s", path);
    struct core *core = reading->core;
    for (size_t i = 1; i < core->count && reading->signal_count; i++)
        if (core->threads[i].tid == reading->signals[0].tid) { /* the one that crashed comes first */
            struct core_thread first = core->threads[i];
            memmove(core->threads + 1, core->threads, i * sizeof first);
            core->threads[0] = first;
        }
    return 0;
}

static int read_all(struct reading *reading, const char *path, const char *program, struct err *err)
{
    reading->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (reading->fd < 0)
        return err_errno(err, -errno, "core file %s", path);
    elf_version(EV_CURRENT);
    reading->elf = elf_begin(reading->fd, ELF_C_READ_MMAP, NULL);
    GElf_Ehdr header;
    if (!reading->elf || elf_kind(reading->elf) != ELF_K_ELF || !gelf_getehdr(reading->elf, &header) ||
        header.e_type != ET_CORE)
        return err_set(err, -ENOEXEC, "%s is not a core file", path);
    if (gelf_getclass(reading->elf) != ELFCLASS64)
        return err_set(err, -ENOEXEC, "core file %s is of a 32-bit program, which is not supported", path);
    reading->core = calloc(1, sizeof *reading->core);
    if (reading->core && program)
        reading->core->program = strdup(program);
    if (!reading->core || (program && !reading->core->program))
        return err_set(err, -ENOMEM, "out of memory for core file %s", path);
    read_notes(reading);
    if (reading->signal_count == 0)
        return err_set(err, -ENOEXEC, "core file %s has no threads in it: it was cut short (see ulimit -c)", path);
    if (reading->failed)
        return err_set(err, -ENOMEM, "out of memory for the threads of core file %s", path);
    return read_stacks(reading, path, err);
}

int core_read(struct core **ret_core, const char *path, const char *program, struct err *err)
{
    struct reading reading = {.fd = -1};
    symbols_stay_local();
    int r = read_all(&reading, path, program, err);
    lines_forget(&reading.lines);
    if (reading.lines.dwfl)
        dwfl_end(reading.lines.dwfl);
    elf_end(reading.elf);
    if (reading.fd >= 0)
        close(reading.fd);
    free(reading.signals);
    if (r < 0) {
        core_free(reading.core);
        return r;
    }
    *ret_core = reading.core;
    return 0;
}
