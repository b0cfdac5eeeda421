/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a source file with what the functions and calls in them took. Only files are read that the job's debug
 * information names, and that have a name as sources have: a directory may be made up, and the answer goes to whoever
 * asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/file.h"
#include "job/places/place_names.h"
#include "jobdir/mpi/text.h"
#include "shm/waits.h"
#include "web/view/ask.h"

enum {
    SOURCE_BYTES = 4 << 20,
    SOURCE_LINES = 100000,
    SOURCE_FILES = 2000, /* that are listed */
};

/* ---- which file ---- */

/* How much of a path is that of the directory above the one in which the job lies: a task's, if the job is a run of it.
 * Its files are below ~/.local, so what is hidden counts only from there on. */
static size_t own_part(const char *job, const char *path)
{
    size_t length = strlen(job);
    for (int up = 0; up < 2; up++) {
        while (length > 0 && job[length - 1] != '/')
            length--;
        length -= length > 0;
    }
    return strncmp(job, path, length) == 0 && path[length] == '/' ? length : 0;
}

static bool is_source(const char *path, size_t own)
{
    static const char *const ends[] = {"c",   "h",   "cc",  "cpp", "cxx", "c++", "hh",  "hpp", "hxx", "inl",
                                       "cu",  "cuh", "f",   "F",   "for", "FOR", "f77", "f90", "F90", "f95",
                                       "F95", "f03", "F03", "f08", "F08", "py",  "rs",  "go",  "jl",  "pyx",
                                       "m",   "mm",  "s",   "S",   "d",   "adb", "pas", "C",   "H"};
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    if (!dot || (slash && dot < slash))
        return false;
    for (const char *at = path + own; (at = strstr(at, "/.")); at += 2)
        if (at[2] != '.' && at[2] != '/')
            return false; /* what is hidden is none */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(dot + 1, ends[i]) == 0)
            return true;
    return false;
}

static bool is_named(const struct view *view, const char *file)
{
    const struct job_functions *functions = view->report.functions;
    const struct mpi_report *mpi = view->report.mpi;
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (strcmp(each->file, file) == 0)
            return true;
    for (const struct job_site *each = functions->sites; each; each = each->hh.next)
        if (each->file && strcmp(each->file, file) == 0)
            return true;
    for (size_t i = 0; mpi && i < mpi->site_count; i++)
        if (strcmp(mpi->sites[i].site->file, file) == 0)
            return true;
    return false;
}

/* A directory of somebody else may name any file that we can read: then what is theirs, or everybody's, is shown. */
static bool may_show(const char *job, const struct stat *file)
{
    struct stat its;
    if (stat(job, &its) < 0)
        return false;
    return its.st_uid == geteuid() || file->st_uid == its.st_uid || (file->st_uid == 0 && file->st_mode & S_IROTH);
}

/* The file's text, malloc'ed, and where it was found. */
static char *read_source(const struct view *view, const char *file, char *ret_path, size_t *ret_size,
                         const char **ret_why)
{
    char path[PATH_MAX];
    struct stat st;
    const char *cwd = view->report.info.cwd;
    *ret_why = "the file is not on this machine";
    if (file[0] != '/' && cwd ? (size_t)snprintf(path, sizeof path, "%s/%s", cwd, file) >= sizeof path
                              : (size_t)snprintf(path, sizeof path, "%s", file) >= sizeof path)
        return NULL;
    if (path[0] != '/' || !realpath(path, ret_path))
        return NULL;
    if (!is_source(ret_path, own_part(view->job, ret_path))) {
        *ret_why = "it has no name as sources have";
        return NULL;
    }
    _cleanup_(closep) int fd = file_open_own(AT_FDCWD, ret_path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    if (!may_show(view->job, &st)) {
        *ret_why = "the job is somebody else's, and this file is neither theirs nor the system's";
        return NULL;
    }
    size_t size = st.st_size < SOURCE_BYTES ? (size_t)st.st_size : SOURCE_BYTES, have = 0;
    char *text = malloc(size + 1);
    for (ssize_t got = 1; text && have < size && got > 0; have += got > 0 ? (size_t)got : 0)
        got = read(fd, text + have, size - have);
    if (text && memchr(text, 0, have)) {
        free(text);
        *ret_why = "it is no text";
        return NULL;
    }
    *ret_size = have;
    return text;
}

/* ---- what is said of it ---- */

static void put_lines(struct buf *out, char *text, size_t size)
{
    size_t count = 0;
    buf_puts(out, ",\"lines\":[");
    for (char *at = text, *end = text ? text + size : NULL; at < end && count < SOURCE_LINES;) {
        char *line = memchr(at, '\n', (size_t)(end - at));
        if (line)
            *line = '\0';
        buf_puts(out, count++ ? "," : "");
        view_put_text(out, at);
        at = line ? line + 1 : end;
    }
    buf_putc(out, ']');
}

static void put_site(struct buf *out, bool *first, const char *function, uint64_t line, uint64_t calls,
                     int64_t total_ns)
{
    buf_printf(out, "%s{\"line\":%" PRIu64 ",\"function\":", *first ? "" : ",", line);
    view_put_text(out, function);
    buf_printf(out, ",\"calls\":%" PRIu64 ",\"total_ns\":%" PRId64 "}", calls, total_ns);
    *first = false;
}

static void put_functions(struct buf *out, const struct view *view, const char *file)
{
    const struct job_functions *functions = view->report.functions;
    const struct mpi_report *mpi = view->report.mpi;
    bool first = true;
    buf_puts(out, ",\"functions\":[");
    for (const struct job_function *each = functions->functions; each; each = each->hh.next) {
        if (strcmp(each->file, file) != 0)
            continue;
        buf_printf(out, "%s{\"line\":%" PRIu32 ",\"function\":", first ? "" : ",", each->line);
        view_put_text(out, each->name);
        buf_printf(out, ",\"calls\":%" PRIu64 ",\"total_ns\":%" PRId64 ",\"self_ns\":%" PRId64 "}", each->calls,
                   view_ns(each->total_ns), view_ns(each->self_ns));
        first = false;
    }
    buf_puts(out, "],\"sites\":[");
    first = true;
    for (const struct job_site *each = functions->sites; each; each = each->hh.next) {
        if (!each->file || strcmp(each->file, file) != 0)
            continue;
        put_site(out, &first, each->function->name, each->line, each->calls, view_ns(each->total_ns));
    }
    for (size_t i = 0; mpi && i < mpi->site_count; i++) {
        const struct mpi_report_site *each = &mpi->sites[i];
        if (strcmp(each->site->file, file) == 0)
            put_site(out, &first, mpi_text_call(each->call), each->site->line, each->count, (int64_t)each->total_ns);
    }
    buf_putc(out, ']');
}

/* ---- all files ---- */

struct file {
    const char *name;
    uint64_t functions;
    double self_ns;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static int by_self(const void *a, const void *b)
{
    const struct file *left = a, *right = b;
    if (left->self_ns != right->self_ns)
        return left->self_ns > right->self_ns ? -1 : 1;
    return by_name(a, b);
}

static int put_files(struct buf *out, const struct job_functions *functions, const struct mpi_report *mpi,
                     struct err *err)
{
    size_t count = 0, used = 0, sites = mpi ? mpi->site_count : 0;
    _cleanup_(freep) struct file *files = calloc(HASH_COUNT(functions->functions) + sites + 1, sizeof *files);
    if (!files)
        return err_set(err, -ENOMEM, "out of memory");
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (each->file[0])
            files[count++] = (struct file){each->file, 1, each->self_ns};
    for (size_t i = 0; i < sites; i++)
        if (mpi->sites[i].site->file[0]) /* of which no function may have been recorded */
            files[count++] = (struct file){mpi->sites[i].site->file, 0, 0};
    qsort(files, count, sizeof *files, by_name);
    for (size_t i = 0; i < count; i++)
        if (used && strcmp(files[used - 1].name, files[i].name) == 0) {
            files[used - 1].functions += files[i].functions;
            files[used - 1].self_ns += files[i].self_ns;
        } else {
            files[used++] = files[i];
        }
    qsort(files, used, sizeof *files, by_self);
    buf_puts(out, "{\"files\":[");
    for (size_t i = 0; i < used && i < SOURCE_FILES; i++) {
        buf_puts(out, i ? ",{\"file\":" : "{\"file\":");
        view_put_text(out, files[i].name);
        buf_printf(out, ",\"functions\":%" PRIu64 ",\"self_ns\":%" PRId64 "}", files[i].functions,
                   view_ns(files[i].self_ns));
    }
    buf_puts(out, "]}");
    return 0;
}

int answer_source(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    struct job_functions *functions = view->report.functions;
    struct err unnamed = {0};
    if (view->report.mpi && !view->mpi_named &&
        mpi_names_find(&view->report.mpi->set, view->job, MPI_NAMES_TIMEOUT_MS, &unnamed) == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory");
    view->mpi_named = true;
    if (!asked->file)
        return put_files(out, functions, view->report.mpi, err);
    if (!functions->sites_named && trace_names_sites(functions, view->job, &unnamed) == -ENOMEM)
        return err_set(err, -ENOMEM, "out of memory");
    if (!*asked->file || !is_named(view, asked->file))
        return err_set(err, -ENOENT, "no recorded function is in a file %.200s", asked->file);
    char path[PATH_MAX];
    size_t size = 0;
    const char *why = NULL;
    _cleanup_(freep) char *text = read_source(view, asked->file, path, &size, &why);
    buf_puts(out, "{\"file\":");
    view_put_text(out, asked->file);
    buf_puts(out, ",\"path\":");
    view_put_text(out, text ? path : NULL);
    buf_puts(out, ",\"missing\":");
    view_put_text(out, text ? NULL : why);
    if (text)
        text[size] = '\0';
    put_lines(out, text, text ? size : 0);
    put_functions(out, view, asked->file);
    buf_putc(out, '}');
    return 0;
}
