/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that take rights from themselves, and many processes at once. Prints how often its functions are called, as
 * they are. `early` are calls before the rights are gone, `late` those after.
 *
 *   drop           becomes user 65534, calls, forks a child that calls
 *   drop-first     the same, but calls nothing before
 *   strict, filter restricts its system calls (seccomp), calls
 *   together N     forks N children, which are all there at the same time
 *   heavy MB N     has so much memory, calls N times
 */
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

enum { USER = 65534, EARLY = 10, LATE = 1000 };

int early(int i);
int late(int i);

int early(int i)
{
    return i + 1;
}

int late(int i)
{
    return i + 2;
}

QUIET static int call_late(void)
{
    int sum = 0;
    for (int i = 0; i < LATE; i++)
        sum += late(i) - i - 2;
    return sum;
}

QUIET static int drop(int before)
{
    for (int i = 0; i < before; i++)
        early(i);
    if (setgroups(0, NULL) || setgid(USER) || setuid(USER))
        return 1;
    int sum = call_late(), status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(call_late() ? 1 : 7);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        return 1;
    printf("early %d late %d\n", before, 2 * LATE);
    return sum;
}

/* Nothing but what the rest of this program needs; anything else ends it. */
QUIET static int restrict_filter(void)
{
    static const int allowed[] = {SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn};
    struct sock_filter code[2 * sizeof allowed / sizeof *allowed + 2];
    unsigned short n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {n, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

QUIET static int restricted(int strict)
{
    static const char text[] = "early 10 late 1000\n";
    for (int i = 0; i < EARLY; i++)
        early(i);
    if (strict ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) : restrict_filter())
        return 2;
    int sum = call_late();
    if (write(STDOUT_FILENO, text, sizeof text - 1) != sizeof text - 1)
        sum = 1;
    syscall(SYS_exit, sum ? 1 : 0); /* strict mode does not let exit_group() through */
    return 0;
}

QUIET static int together(int count)
{
    int ready[2], go[2], failed = 0, status;
    char byte = 0;
    if (pipe(ready) || pipe(go))
        return 2;
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            close(go[1]);
            early(i);
            failed = write(ready[1], &byte, 1) != 1;
            while (read(go[0], &byte, 1) < 0 && errno == EINTR)
                ;
            late(i);
            _exit(failed);
        }
        failed += pid < 0;
    }
    for (int i = 0; i < count - failed; i++)
        if (read(ready[0], &byte, 1) != 1)
            return 3;
    close(go[1]);
    while (wait(&status) > 0)
        failed += status != 0;
    printf("early %d late %d\n", count - failed, count - failed);
    return failed != 0;
}

QUIET static int heavy(size_t bytes, int calls)
{
    volatile char *memory = malloc(bytes);
    for (size_t i = 0; memory && i < bytes; i += 4096)
        memory[i] = 1;
    for (int i = 0; i < calls; i++)
        late(i);
    printf("early 0 late %d\n", calls);
    return memory ? 0 : 1;
}

QUIET int main(int argc, char **argv)
{
    const char *action = argc > 1 ? argv[1] : "";
    if (strncmp(action, "drop", 4) == 0)
        return drop(strcmp(action, "drop") == 0 ? EARLY : 0);
    if (strcmp(action, "strict") == 0 || strcmp(action, "filter") == 0)
        return restricted(*action == 's');
    if (strcmp(action, "together") == 0 && argc > 2)
        return together(atoi(argv[2]));
    if (strcmp(action, "heavy") == 0 && argc > 3)
        return heavy((size_t)atoi(argv[2]) << 20, atoi(argv[3]));
    fprintf(stderr, "privileges: unknown action %s\n", action);
    return 64;
}
