/* SPDX-License-Identifier: Apache-2.0 */
/*
 * badptr: functions whose arguments and locals are pointers that lead nowhere, or should not be followed: null,
 * misaligned, unmapped, of the kernel, not canonical, freed, unmapped again, into a page without access, across the end
 * of what is mapped, into a file mapping behind the file's end (SIGBUS), in cycles. The program itself reads through
 * none of them, has handlers of its own for both signals, and prints what it has computed:
 *
 *     pointer NAME ADDRESS        for each of them
 *     result SUM, handled N       SUM of what it really read, N faults of its own making
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define SEPARATE __attribute__((noinline))

struct node {
    int value;
    struct node *next, *other;
    const char *name;
};

static volatile long sum;
static volatile int handled;
static sigjmp_buf back;
static char *page; /* the size of one */
static long page_size;

QUIET static void handle(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code <= 0)
        _exit(3);
    handled++;
    siglongjmp(back, number);
}

SEPARATE static long null(struct node *node)
{
    return sum += node == NULL;
}

SEPARATE static long misaligned(struct node *node, double *number)
{
    struct node copy;
    memcpy(&copy, (char *)node, sizeof copy);
    return sum += copy.value + (number != NULL);
}

SEPARATE static long unmapped(struct node *node, const char *text, double *number)
{
    return sum += (node != NULL) + (text != NULL) + (number != NULL);
}

SEPARATE static long kernel(struct node *node, const char *text, struct node **pointer)
{
    return sum += (node != NULL) + (text != NULL) + (pointer != NULL);
}

SEPARATE static long freed(struct node *node)
{
    return sum += node != NULL;
}

SEPARATE static long gone(struct node *node, const char *text)
{
    return sum += (node != NULL) + (text != NULL);
}

SEPARATE static long guarded(struct node *node, const char *text)
{
    return sum += (node != NULL) + (text != NULL);
}

SEPARATE static long across(struct node *node, const char *text)
{
    return sum += (node != NULL) + (text[0] == 'e');
}

SEPARATE static long behind_file(struct node *node, const char *text, const char *inside)
{
    return sum += (node != NULL) + (text != NULL) + (inside[0] == 'f');
}

SEPARATE static long cycle(struct node *ring, struct node *self)
{
    struct node *at = ring;
    int steps = 0;
    do {
        steps++;
        at = at->next;
    } while (at != ring);
    return sum += steps + self->value;
}

SEPARATE static long leads_to_bad(struct node *list)
{
    struct node *last = list->next->next;
    return sum += list->value + list->next->value + (last != NULL);
}

/* Its own faults between ours: they are handled by its own handler, and go back to where it wants. */
SEPARATE static int own_fault(volatile int *at)
{
    int number = sigsetjmp(back, 1);
    if (number == 0)
        return *at;
    sum += number;
    return -number;
}

QUIET static void *map(size_t pages, int protection)
{
    void *at = mmap(NULL, pages * (size_t)page_size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        _exit(2);
    return at;
}

QUIET static void *tell(const char *name, const void *at)
{
    printf("pointer %s %p\n", name, at);
    return (void *)(size_t)at;
}

QUIET static void install(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

QUIET static void blocked(struct node *bad)
{
    sigset_t both, before;
    sigemptyset(&both);
    sigaddset(&both, SIGSEGV);
    sigaddset(&both, SIGBUS);
    sigprocmask(SIG_BLOCK, &both, &before);
    unmapped(bad, (const char *)bad, (double *)bad);
    sigset_t now;
    sigprocmask(SIG_SETMASK, &before, &now);
    sum += sigismember(&now, SIGSEGV) + sigismember(&now, SIGBUS);
}

QUIET int main(void)
{
    page_size = sysconf(_SC_PAGESIZE);
    install();
    null(NULL);

    static char bytes[128];
    struct node one = {.value = 5, .name = "one"};
    memcpy(bytes + 3, &one, sizeof one);
    misaligned((struct node *)(void *)(bytes + 3), (double *)(void *)(bytes + 41));

    struct node *bad = tell("unmapped", (void *)0x123456);
    unmapped(bad, tell("low", (void *)8), tell("top", (void *)0x7ffffffff000));
    kernel(tell("kernel", (void *)0xffff888000000000), tell("canonical", (void *)0x8000000000000000),
           tell("last", (void *)(size_t)-8));

    struct node *heap = malloc(sizeof *heap);
    *heap = one;
    free(heap);
    freed(heap);

    page = map(1, PROT_READ | PROT_WRITE);
    munmap(page, (size_t)page_size);
    gone(tell("gone", page), page + 8);

    char *guard = map(2, PROT_READ | PROT_WRITE);
    strcpy(guard + page_size - 4, "end");
    guard[page_size - 1] = '!';
    mprotect(guard + page_size, (size_t)page_size, PROT_NONE);
    guarded(tell("guarded", guard + page_size), guard + page_size + 16);
    across((struct node *)(void *)tell("across", guard + page_size - 8), guard + page_size - 4);

    FILE *file = tmpfile();
    if (!file || fputs("file", file) < 0 || fflush(file) != 0)
        return 2;
    char *mapped = mmap(NULL, 3 * (size_t)page_size, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (mapped == MAP_FAILED)
        return 2;
    behind_file(tell("behind", mapped + page_size), mapped + 2 * page_size, mapped);

    struct node ring[3] = {{1, &ring[1], &ring[2], "a"}, {2, &ring[2], &ring[0], "b"}, {3, &ring[0], &ring[1], "c"}};
    struct node self = {.value = 7, .next = &self, .other = &self, .name = (const char *)&self};
    cycle(ring, &self);

    struct node third = {1, (struct node *)(void *)(guard + page_size), bad, (const char *)bad};
    struct node second = {1, &third, (struct node *)(size_t)-16, "second"};
    struct node first = {1, &second, (struct node *)(void *)(mapped + page_size), "first"};
    leads_to_bad(&first);

    for (int i = 0; i < 3; i++) {
        own_fault((volatile int *)(size_t)bad);
        unmapped(bad, mapped + page_size, (double *)(void *)(guard + page_size));
        own_fault((volatile int *)(void *)(mapped + page_size));
    }
    blocked(bad);
    own_fault((volatile int *)(size_t)bad);
    printf("result %ld, handled %d\n", sum, handled);
    return 42;
}
