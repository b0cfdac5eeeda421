/* SPDX-License-Identifier: Apache-2.0 */
/* scry-symbols: everything that needs elfutils, in a process of its own that may take its time, and may fail. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/own_memory.h"
#include "shm/waits.h"
#include "symbols/client/helper.h"
#include "symbols/helper/jobs.h"
#include "symbols/index/index_build.h"

#define GIGABYTE ((rlim_t)1 << 30)

/* Damaged debug information can send a reader round in circles: the process then ends unheard. */
void helper_guard(unsigned long long bytes)
{
    unsigned long long more_s = bytes >> 24;
    alarm(60 + (unsigned)(more_s < 3600 ? more_s : 3600));
}

/* Half of the machine's memory, but at least what big debug information needs: mapped files count, too. */
static rlim_t memory_limit(void)
{
    struct sysinfo info;
    rlim_t least = 4 * GIGABYTE, half = sysinfo(&info) == 0 ? (rlim_t)info.totalram * info.mem_unit / 2 : 0;
    return half > least ? half : least;
}

static void limit_memory(void)
{
    struct rlimit limit, none = {0, 0};
    FILE *file = fopen("/proc/self/oom_score_adj", "we");
    if (file) { /* when memory gets short for the job, this goes first */
        fputs("1000", file);
        fclose(file);
    }
    if (!SANITIZED && getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur > memory_limit()) {
        limit.rlim_cur = memory_limit();
        setrlimit(RLIMIT_DATA, &limit);
    }
    setrlimit(RLIMIT_CORE, &none); /* nobody wants a core of this */
}

/* ---- scry-symbols index: builds what is missing in the cache ---- */
/* The cache cannot be written: the index lives in our memory, for as long as we do. */
static bool keep_in_memory(const struct buf *image, char *ret_path, size_t size)
{
    int fd = memfd_create("scry-index", MFD_CLOEXEC);
    if (fd < 0)
        return false;
    for (size_t done = 0; done < image->len;) {
        ssize_t put = write(fd, image->data + done, image->len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            close(fd);
            return false;
        }
        done += (size_t)put;
    }
    snprintf(ret_path, size, "/proc/%d/fd/%d", getpid(), fd);
    return true;
}

/* Returns whether there is something in memory for the one who asked. ret_key: of what was put into the cache. */
static bool index_one(const char *file, struct buf *answer, char ret_key[INDEX_KEY_SIZE])
{
    _cleanup_(buf_done) struct buf image = BUF_INIT;
    char key[INDEX_KEY_SIZE], path[64];
    ret_key[0] = 0;
    struct index *index = NULL;
    struct err err = {0};
    if (index_key(file, key, &err) == 0 && index_open_key(&index, key, NULL) == 0) {
        index_close(index);
        helper_line(answer, "ok", key, file, NULL);
        return false;
    }
    err.code = 0;
    if (index_build(file, &image, key, &err) < 0) {
        helper_line(answer, "failed", file, err.text, NULL);
        return false;
    }
    if (index_store(&image, key, &err) == 0) {
        memcpy(ret_key, key, sizeof key);
        helper_line(answer, "ok", key, file, NULL);
        return false;
    }
    if (keep_in_memory(&image, path, sizeof path)) {
        helper_line(answer, "memory", key, file, path, err.text, NULL);
        return true;
    }
    helper_line(answer, "failed", file, err.text, NULL);
    return false;
}

/* In a process of its own: whoever asked goes on meanwhile, and ends us. */
static void indexes_settle(char (*keys)[INDEX_KEY_SIZE], int count)
{
    if (fork() != 0)
        return;
    setsid();
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        close(fd);
    alarm(INDEX_MOST_SECONDS);
    for (int i = 0; i < count; i++)
        if (*keys[i])
            index_settle(keys[i]);
    _exit(0);
}

static int index_files(char *const *files, int count)
{
    bool wait = false, stored = false;
    char(*keys)[INDEX_KEY_SIZE] = calloc((size_t)count + 1, sizeof *keys);
    if (!keys)
        return 1;
    for (int i = 0; i < count; i++) {
        _cleanup_(buf_done) struct buf answer = BUF_INIT;
        struct stat st;
        helper_guard(stat(files[i], &st) == 0 && st.st_size > 0 ? (unsigned long long)st.st_size : 0);
        wait |= index_one(files[i], &answer, keys[i]);
        stored |= *keys[i] != 0;
        if (answer.failed)
            helper_line(&answer, "failed", files[i], "out of memory", NULL);
        fwrite(answer.data, 1, answer.len, stdout);
        if (fflush(stdout) != 0)
            break;
    }
    alarm(0);
    if (stored)
        indexes_settle(keys, count);
    while (wait && fgetc(stdin) != EOF)
        ;
    free(keys);
    return ferror(stdout) != 0;
}

/* ---- the program ---- */
static const struct {
    const char *name, *arguments, *what;
    int (*run)(FILE *in, FILE *out);
} jobs[] = {
    {"index", " FILE...", "builds the symbol indexes of files that have none", NULL},
    {"compile", "", "compiles what to record of functions; the request comes on standard input", helper_compile},
    {"places", "", "says which functions are inlined at addresses of files, and lines; likewise", places_main},
    {"patches", "", "makes jumps for functions that have no hooks; likewise", patches_main},
    {"variable", "", "reads or writes a variable of a process; likewise", variable_main},
    {"stacks", "", "says where all threads of processes are; likewise", stacks_main},
};

static int usage(FILE *to)
{
    fprintf(to, "scry-symbols does the parts of scry's work that need debug information; scry starts it by itself.\n");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        fprintf(to, "  scry-symbols %s%s\n        %s\n", jobs[i].name, jobs[i].arguments, jobs[i].what);
    return to == stdout ? 0 : 2;
}

static int run(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return usage(stdout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("scry-symbols " SCRY_VERSION);
        return 0;
    }
    unsetenv("DEBUGINFOD_URLS"); /* nothing is fetched from the network */
    limit_memory();
    helper_guard(0);
    if (argc >= 3 && strcmp(argv[1], jobs[0].name) == 0)
        return index_files(argv + 2, argc - 2);
    for (size_t i = 1; argc == 2 && i < sizeof jobs / sizeof *jobs; i++)
        if (strcmp(argv[1], jobs[i].name) == 0)
            return jobs[i].run(stdin, stdout) != 0;
    return usage(stderr);
}

int main(int argc, char **argv)
{
    return stack_run(run, argc, argv);
}
