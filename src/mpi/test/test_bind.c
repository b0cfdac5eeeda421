/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of all kinds, and what of their calls is seen: with a tool of their own, with their MPI in themselves, with
 * two, with one that comes and goes. Compiled once for each; what it is tells its first argument, the second is the
 * interposer, the third what it opens. Prints TAP.
 */
#include "mpi/test/test_twins.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_MPI
#include <mpi.h>
#endif

static struct twin_guest *guest;
static struct twin *library; /* of the stand-in */
static unsigned tests;

static void check(bool right, const char *what)
{
    printf("%s %u - %s\n", right ? "ok" : "not ok", ++tests, what);
}

static uint32_t entered(enum call_id call)
{
    return guest ? __atomic_load_n(&guest->entered[call], __ATOMIC_RELAXED) : 0;
}

static void look(const char *interposer)
{
    void *handle = dlopen(interposer, RTLD_NOW | RTLD_NOLOAD);
    guest = handle ? dlsym(handle, "twin_guest") : NULL;
    library = dlsym(RTLD_DEFAULT, "twins");
}

/* ---- programs that are linked with MPI ---- */

#ifdef WITH_MPI
static bool from_here(void)
{
    Dl_info here, there;
    return guest && dladdr(&guest, &here) && dladdr((void *)guest->site, &there) && here.dli_fbase == there.dli_fbase;
}

static bool send_works(void)
{
    uint32_t before = library[CALL_MPI_Send].calls;
    return MPI_Send(&before, 1, (MPI_Datatype)2, 3, 4, (MPI_Comm)5) == TWIN_ANSWER + CALL_MPI_Send &&
           library[CALL_MPI_Send].calls == before + 1 && library[CALL_MPI_Send].given[4] == 4;
}
#endif

#if defined(WITH_MPI) && (defined(TOOL_INSIDE) || defined(TOOL_BESIDE))
extern int tool_sends, tool_times;

/* In the program itself, its calls may not leave it: then the tool's are seen. */
static void tool(void)
{
    check(send_works() && tool_sends == 1, "the tool was asked, and the library by it");
    check(entered(CALL_MPI_Send) == 1, "one call was seen");
    check(from_here() == true, "it came from the program");
    int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm) =
        (__typeof__(send))dlsym(RTLD_DEFAULT, "MPI_Send");
    send(NULL, 1, (MPI_Datatype)2, 3, 4, (MPI_Comm)5);
    check(tool_sends == 2 && entered(CALL_MPI_Send) == 2, "dlsym finds the tool's, and one call is seen");
    MPI_Wtime();
    check(tool_times == 1 && library[CALL_MPI_Wtime].calls == 1 && entered(CALL_MPI_Wtime) == 1,
          "MPI_Wtime is seen once, too");
    PMPI_Wtime();
    PMPI_Send(NULL, 1, (MPI_Datatype)2, 3, 4, (MPI_Comm)5);
    check(tool_times == 1 && entered(CALL_MPI_Wtime) == 2 && tool_sends == 2 && entered(CALL_MPI_Send) == 3,
          "what goes by the tool is seen, too");
}
#endif

#ifdef WITH_MPI
static void alone(void)
{
    check(send_works(), "calls work as without us");
    check(entered(CALL_MPI_Send) == 0, "none is seen");
}

#ifdef WITH_PLUGIN
int plugin_send(void);

/* The program's own MPI is the first for everybody, also for a library that was made with another. */
static void own(void)
{
    alone();
    check(plugin_send() == TWIN_ANSWER + CALL_MPI_Send && library[CALL_MPI_Send].calls == 2 &&
              entered(CALL_MPI_Send) == 0,
          "nor of a library that has another MPI");
    check(guest && guest->why_not[0], "and it is said why");
}
#endif

#ifdef WITH_OTHER
int MPI_Psend_init(void); /* only one of the two has it */
void *volatile other_needed = (void *)MPI_Psend_init;
#endif

/* Switched off, or not there. */
static void without(void)
{
    alone();
    check(!guest, "nothing of ours was loaded");
}

static void two(void)
{
    alone();
    check(guest && guest->why_not[0], "and it is said why");
}

/* What was read-only after relocation is so again. */
static int protected_again(struct dl_phdr_info *info, size_t size, void *ctx)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_GNU_RELRO)
            continue;
        uint64_t low = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) & -UINT64_C(4096);
        uint64_t high = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz) & -UINT64_C(4096);
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[512];
        while (maps && fgets(line, sizeof line, maps)) {
            unsigned long long from, to;
            char bits[8];
            if (sscanf(line, "%llx-%llx %7s", &from, &to, bits) == 3 && from < high && to > low && bits[1] == 'w')
                *(const char **)ctx = info->dlpi_name;
        }
        if (maps)
            fclose(maps);
    }
    return 0;
}

static void simple(void)
{
    const char *open = NULL;
    check(send_works() && entered(CALL_MPI_Send) == 1 && from_here(), "a call is seen, and from where");
    dl_iterate_phdr(protected_again, &open);
    check(!open, "what was read-only is read-only");
    if (open)
        printf("# %s\n", open);
}
#endif

/* ---- Fortran ---- */

#ifdef WITH_FORTRAN
void mpi_send_(void *buf, int *count, int *datatype, int *dest, int *tag, int *comm, int *error);
void mpi_comm_size_(int *comm, int *size, int *error);
void mpi_finalize_(void);

/* Calls mpi_finalize_ with all registers as given, which puts what it finds in `found`. */
void call_with(const uint64_t *given, uint64_t *found);
__asm__(".text\n"
        ".type call_with, @function\n"
        "call_with:\n"
        "pushq %rbx\n pushq %rbp\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "subq $8, %rsp\n"
        "movq %rsi, %rax\n movq %rdi, %r11\n"
        "movq (%r11), %rbx\n movq 8(%r11), %rcx\n movq 16(%r11), %rdx\n movq 24(%r11), %rsi\n"
        "movq 32(%r11), %rdi\n movq 40(%r11), %rbp\n movq 48(%r11), %r8\n movq 56(%r11), %r9\n"
        "movq 64(%r11), %r10\n movq 72(%r11), %r12\n movq 80(%r11), %r13\n movq 88(%r11), %r14\n"
        "movq 96(%r11), %r15\n movsd 112(%r11), %xmm0\n movsd 120(%r11), %xmm7\n"
        "stc\n"
        "call mpi_finalize_@plt\n"
        "addq $8, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbp\n popq %rbx\n"
        "ret\n"
        ".size call_with, . - call_with\n");

static void fortran(void)
{
    int one = 1, two = 2, error = 0, size;
    mpi_send_(&one, &one, &two, &one, &one, &one, &error);
    check(error == TWIN_ANSWER + CALL_MPI_Send && entered(CALL_MPI_Send) == 1 && from_here(),
          "a Fortran call is seen as one of the program");
    check(entered(CALL_MPI_Comm_size) == 0 && library[CALL_MPI_Comm_size].calls == 1,
          "what Fortran's wrapper calls for itself is not");
    mpi_comm_size_(&one, &size, &error);
    check(error == TWIN_ANSWER + CALL_MPI_Comm_size && entered(CALL_MPI_Comm_size) == 1,
          "the same call is where the program means it");

    static uint64_t found[24];
    uint64_t given[24];
    for (unsigned i = 0; i < 24; i++)
        given[i] = UINT64_C(0x1234567800000000) + i;
    call_with(given, found);
    uint64_t flags = found[16], sp = found[13];
    found[13] = given[13];
    check(memcmp(found, given, 16 * sizeof *given) == 0 && (flags & 1) && sp % 16 == 8,
          "registers come through as they are");
}
#endif

/* ---- programs that open it ---- */

struct plugin {
    void *handle;
    int (*send)(void), (*recv)(void);
};

static bool plugin_open(struct plugin *plugin, const char *path, int how)
{
    plugin->handle = dlopen(path, RTLD_NOW | how);
    if (!plugin->handle) {
        printf("# %s\n", dlerror());
        return false;
    }
    plugin->send = (__typeof__(plugin->send))dlsym(plugin->handle, "plugin_send");
    plugin->recv = (__typeof__(plugin->recv))dlsym(plugin->handle, "plugin_recv");
    return plugin->send && plugin->recv;
}

static bool plugin_works(const struct plugin *plugin)
{
    return plugin->send() == TWIN_ANSWER + CALL_MPI_Send && plugin->recv() == TWIN_ANSWER + CALL_MPI_Recv;
}

static void opened(char **argv, int how)
{
    struct plugin first, other, again;
    check(!guest, "nothing of ours is there without MPI");
    if (!plugin_open(&first, argv[3], how))
        printf("Bail out!\n");
    look(argv[2]);
    check(guest, "it is when MPI was opened");
    check(plugin_works(&first) && entered(CALL_MPI_Send) == 1 && entered(CALL_MPI_Recv) == 1, "its calls are seen");
    void *symbol = dlsym(first.handle, "MPI_Recv");
    check(symbol &&
              ((int (*)(void *, int, int, int, int, int, void *))symbol)(NULL, 1, 2, 3, 4, 5, NULL) ==
                  TWIN_ANSWER + CALL_MPI_Recv &&
              entered(CALL_MPI_Recv) == 2,
          "and by what dlsym finds");
    if (plugin_open(&other, argv[4], RTLD_LOCAL)) {
        check(plugin_works(&other), "another MPI works beside it");
        check(entered(CALL_MPI_Send) == (how == RTLD_GLOBAL ? 2u : 1u),
              "its calls are seen where they go to the first");
    }
    uint32_t before = entered(CALL_MPI_Send);
    if (plugin_open(&again, argv[5], RTLD_LOCAL))
        check(plugin_works(&again) && entered(CALL_MPI_Send) == before + 1, "what is opened later is bound, too");
    dlerror();
    dlclose(again.handle);
    check(!dlerror(), "no error is told that is not the program's");
    if (plugin_open(&again, argv[5], RTLD_LOCAL))
        check(plugin_works(&again) && entered(CALL_MPI_Send) == before + 2, "also when it was closed before");
    if (other.handle)
        dlclose(other.handle);
}

static _Atomic bool stop;
static _Atomic bool broken;

static void *caller(void *of)
{
    const struct plugin *plugin = of;
    while (!atomic_load(&stop))
        if (!plugin_works(plugin))
            atomic_store(&broken, true);
    return NULL;
}

static void *opener(void *path)
{
    for (unsigned i = 0; i < 200; i++) {
        struct plugin plugin;
        if (!plugin_open(&plugin, path, RTLD_LOCAL) || !plugin_works(&plugin))
            atomic_store(&broken, true);
        dlclose(plugin.handle);
    }
    return NULL;
}

/* Objects come and go in two threads while a third calls. */
static void threads(char **argv)
{
    struct plugin first;
    pthread_t calls, opens[2];
    if (!plugin_open(&first, argv[3], RTLD_LOCAL))
        printf("Bail out!\n");
    look(argv[2]);
    pthread_create(&calls, NULL, caller, &first);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&opens[i], NULL, opener, argv[4 + i]);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(opens[i], NULL);
    atomic_store(&stop, true);
    pthread_join(calls, NULL);
    check(!broken, "calls work while libraries come and go");
    check(entered(CALL_MPI_Send) > 0, "and are seen");
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    look(argc > 2 ? argv[2] : "");
#ifdef WITH_MPI
    if (strcmp(what, "simple") == 0)
        simple();
#ifdef WITH_PLUGIN
    if (strcmp(what, "own") == 0)
        own();
#endif
    if (strcmp(what, "two") == 0)
        two();
    if (strcmp(what, "without") == 0)
        without();
#if defined(TOOL_INSIDE) || defined(TOOL_BESIDE)
    if (strcmp(what, "tool") == 0)
        tool();
#endif
#ifdef WITH_FORTRAN
    if (strcmp(what, "fortran") == 0)
        fortran();
#endif
#endif
    if (strcmp(what, "local") == 0)
        opened(argv, RTLD_LOCAL);
    if (strcmp(what, "global") == 0)
        opened(argv, RTLD_GLOBAL);
    if (strcmp(what, "threads") == 0)
        threads(argv);
    printf("1..%u\n", tests);
    return tests ? 0 : 1;
}
