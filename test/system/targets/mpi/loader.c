/* SPDX-License-Identifier: Apache-2.0 */
/* loader LIBRARY: a program that knows nothing of MPI, and loads a plugin that does. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "run") : NULL;
    if (!run) {
        fprintf(stderr, "loader: %s\n", argc > 1 ? dlerror() : "name a library");
        return 2;
    }
    return run(argc, argv);
}
