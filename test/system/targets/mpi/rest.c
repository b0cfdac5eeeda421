/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into the MPI programs of tests: a rank that waits polls without end, and would take the processor from all who look
 * at it. Here it rests a millisecond now and then when there was nothing to be had. Where Open MPI is told to yield
 * (mpi_yield_when_idle), it does so just then; MPICH over UCX tells it by the number of what it has got.
 */
#include <dlfcn.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POLLS 50 /* in vain, one after the other, before each rest */

unsigned ucp_worker_progress(void *worker);

static void rest_if_idle(unsigned *polls)
{
    if (++*polls < POLLS)
        return;
    *polls = 0;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int sched_yield(void)
{
    static _Thread_local unsigned polls;
    rest_if_idle(&polls);
    return (int)syscall(SYS_sched_yield);
}

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*real)(void *);
    static _Thread_local unsigned polls;
    if (!real)
        real = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned done = real(worker);
    if (done)
        polls = 0;
    else
        rest_if_idle(&polls);
    return done;
}
