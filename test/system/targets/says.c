/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says numbers itself: `says COUNT`. "loss" so often, from COUNT down to 1; in two children and two threads of one, "energy" of
 * each; from a handler of a signal, "signals"; "odd", which are no numbers.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scry/agent.h"

static void handler(int signal)
{
    scry_metric("signals", signal);
}

static void *energy(void *value)
{
    scry_metric("energy", *(double *)value);
    return NULL;
}

int main(int argc, char **argv)
{
    const long count = argc > 1 ? atol(argv[1]) : 1;
    double values[] = {-1.5, 2.5, -4, 8};
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            pthread_t threads[2];
            for (int k = 0; k < 2; k++)
                pthread_create(&threads[k], NULL, energy, &values[2 * i + k]);
            for (int k = 0; k < 2; k++)
                pthread_join(threads[k], NULL);
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    scry_metric("odd", NAN);
    scry_metric("odd", INFINITY);
    for (long i = count; i; i--)
        scry_metric("loss", (double)i);
    return 0;
}
