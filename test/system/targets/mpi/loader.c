/* SPDX-License-Identifier: Apache-2.0 */
/* loader LIBRARY [COUNT]: a program that knows nothing of MPI, and loads a plugin that does. Then it forks COUNT children, one
 * after the other, that call a function. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int child_work(int number);

__attribute__((noinline)) int child_work(int number)
{
    return number + 1;
}

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "run") : NULL;
    if (!run) {
        fprintf(stderr, "loader: %s\n", argc > 1 ? dlerror() : "name a library");
        return 2;
    }
    int result = run(argc, argv);
    for (int i = argc > 2 ? atoi(argv[2]) : 0; i > 0; i--) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child_work(i) - i - 1);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
            return 1;
    }
    return result;
}
