/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do with signals what programs do, each run as it is and with the agent's handlers in it
 * (libtest-preload.so, under the three ways of reading): what it prints and how it ends has to be the same. Where the
 * library is, the programs also read bad addresses at every step.
 *
 * `test_signals LIBRARY` runs them all; `test_signals = NAME` is one of them.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/test/test_signal_tools.h"
#include "shm/area.h"

static const struct program *const programs[] = {signal_faults, signal_places};
enum { LISTS = sizeof programs / sizeof *programs };

static const struct program *program_of(const char *name)
{
    for (int i = 0; i < LISTS; i++)
        for (const struct program *program = programs[i]; program->name; program++)
            if (strcmp(program->name, name) == 0)
                return program;
    return NULL;
}

static int program_count(void)
{
    int all = 0;
    for (int i = 0; i < LISTS; i++)
        for (const struct program *program = programs[i]; program->name; program++)
            all++;
    return all;
}

struct outcome {
    int status;
    size_t size;
    char text[65536];
};

static int program_main(const char *name)
{
    struct rlimit none = {0, 0}, stack = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_STACK, &stack);
    void *symbol = dlsym(RTLD_DEFAULT, "test_read");
    memcpy(&reader, &symbol, sizeof reader);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    hole = pages + 4096;
    alarm(20);
    const struct program *program = program_of(name);
    return program ? program->run() : 99;
}

/* libraries: LD_PRELOAD; NULL: without. arguments: before the program's, NULL at the end. */
static void run(const char *const *arguments, const char *name, const char *libraries, const char *area,
                struct outcome *ret_outcome)
{
    const char *all[12];
    int all_count = 0;
    int pipes[2];
    ssize_t got;
    if (pipe(pipes) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 1);
        if (strstr(arguments[0], "asan")) /* its reports, with addresses */
            dup2(open("/dev/null", O_WRONLY), 2);
        close(pipes[0]);
        close(pipes[1]);
        if (libraries) {
            setenv("TEST_AREA", area, 1);
            if (!arguments[1])
                setenv("LD_PRELOAD", libraries, 1);
        }
        while (arguments[all_count]) {
            all[all_count] = arguments[all_count];
            all_count++;
        }
        all[all_count++] = "=";
        all[all_count++] = name;
        all[all_count] = NULL;
        execvp(all[0], (char *const *)(uintptr_t)all);
        _exit(98);
    }
    close(pipes[1]);
    ret_outcome->size = 0;
    while ((got = read(pipes[0], ret_outcome->text + ret_outcome->size,
                       sizeof ret_outcome->text - 1 - ret_outcome->size)) > 0)
        ret_outcome->size += (size_t)got;
    ret_outcome->text[ret_outcome->size] = 0;
    close(pipes[0]);
    waitpid(child, &ret_outcome->status, 0);
}

static bool same(const char *name, const char *way, const struct outcome *plain, const struct outcome *with)
{
    if (plain->status == with->status && strcmp(plain->text, with->text) == 0)
        return true;
    printf("# %s, %s: status %#x instead of %#x\n# --- without:\n%s# --- with:\n%s", name, way, with->status,
           plain->status, plain->text, with->text);
    return false;
}

static char path[] = "/tmp/test-signals-area-XXXXXX";
static struct area *area;

/* One program in all ways. */
static bool compare(const char *const *arguments, const struct program *program, const char *libraries, int noted)
{
    static struct outcome plain, with;
    static const char *const ways[] = {"direct", "syscall", "victim"};
    bool ok = true;
    run(arguments, program->name, NULL, NULL, &plain);
    for (uint32_t way = AREA_READ_DIRECT; way <= AREA_READ_VICTIM; way++) {
        memset((void *)area, 0, AREA_PAGE);
        atomic_store(&area->on, 1);
        atomic_store(&area->reader, way);
        run(arguments, program->name, libraries, path, &with);
        ok = same(program->name, ways[way], &plain, &with) && ok;
        int signal = atomic_load(&area->crash.valid) ? area->crash.signal : 0;
        if (signal != noted || (signal && (area->crash.depth == 0 || area->crash.regs[7] == 0))) {
            printf("# %s: noted signal %d instead of %d\n", program->name, signal, noted);
            ok = false;
        }
    }
    return ok;
}

/* Faults of our own would stop it in the debugger. */
static bool in_debugger(const char *self, const char *library)
{
    static struct outcome with;
    char preload[PATH_MAX + 40];
    snprintf(preload, sizeof preload, "set environment LD_PRELOAD %s", library);
    const char *const arguments[] = {"gdb", "-nx", "-batch", "-ex", preload, "-ex", "run", "--args", self, NULL};
    memset((void *)area, 0, AREA_PAGE);
    atomic_store(&area->on, 1);
    run(arguments, "probes", library, path, &with);
    if (strstr(with.text, "exited with code 05") && !strstr(with.text, "SIGSEGV"))
        return true;
    printf("# in gdb:\n%s", with.text);
    return false;
}

static void result(int *number, int *failed, bool ok, const char *name, const char *more)
{
    printf("%sok %d - %s%s\n", ok ? "" : "not ", ++*number, name, more);
    fflush(stdout);
    *failed += !ok;
}

int main(int argc, char **argv)
{
    static const char *const sanitized[] = {"probes", "crash", "handler jumps", "abort", "threads"};
    enum { SANITIZED = sizeof sanitized / sizeof *sanitized };
    const char *const plain[] = {argv[0], NULL};
    int number = 0, failed = 0;
    unsetenv("LD_PRELOAD");
    if (argc == 3 && strcmp(argv[1], "=") == 0)
        return program_main(argv[2]);
    if (argc != 2 && argc != 4)
        return 2;
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, AREA_PAGE) != 0)
        return 1;
    area = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    printf("1..%d\n", program_count() + 1 + SANITIZED);
    for (int i = 0; i < LISTS; i++)
        for (const struct program *program = programs[i]; program->name; program++)
            result(&number, &failed, compare(plain, program, argv[1], program->noted), program->name, "");
    if (access("/usr/bin/gdb", X_OK) == 0)
        result(&number, &failed, in_debugger(argv[0], argv[1]), "in a debugger", "");
    else
        result(&number, &failed, true, "in a debugger", " # SKIP there is no gdb");
    for (int i = 0; i < SANITIZED; i++) {
        char libraries[2 * PATH_MAX + 2];
        if (argc != 4) {
            result(&number, &failed, true, sanitized[i], " # SKIP there is no address sanitizer");
            continue;
        }
        const char *const arguments[] = {argv[3], NULL};
        snprintf(libraries, sizeof libraries, "%s:%s", argv[2], argv[1]);
        /* its handlers stay in place, so that nothing is noted */
        result(&number, &failed, compare(arguments, program_of(sanitized[i]), libraries, 0), sanitized[i],
               ", address sanitizer");
    }
    unlink(path);
    return failed != 0;
}
