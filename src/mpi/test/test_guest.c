/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of what the interposer counts: who came in, for tests of the wrappers and of how slots are bound. With
 * TEST_GUEST_LOG, each call is written there: its name, the file that it was called from, and the offset in it.
 */
#include "agent/hooks/mpi_host.h"
#include "mpi/wrap/wrap.h"
#include "mpi/count/library.h"
#include "mpi/test/test_shape.h"
#include "mpi/test/test_twins.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct mpi_self {
    bool inside, telling;
};
static bool tells, acts;
static _Thread_local struct mpi_self self;
static int log_fd = -1;

__attribute__((visibility("default"))) extern struct twin_guest twin_guest;
struct twin_guest twin_guest;

static void note(uint32_t call, uint64_t site)
{
    Dl_info info = {0};
    char line[512];
    __atomic_fetch_add(&twin_guest.entered[call], 1, __ATOMIC_RELAXED);
    twin_guest.site = site;
    if (log_fd < 0)
        return;
    if (site)
        dladdr((void *)site, &info);
    int length = snprintf(line, sizeof line, "%s %s %llx\n", call_infos[call].name,
                          info.dli_fname ? info.dli_fname : "-", (unsigned long long)(site - (uint64_t)info.dli_fbase));
    if (write(log_fd, line, (size_t)length) != length)
        abort();
}

void (*self_look)(void);
static _Thread_local bool opened;

bool self_seal(const char *why);
bool self_seal(const char *why)
{
    (void)why;
    return true;
}

void self_note_running(void);
void self_note_running(void)
{
}

void self_opens(void);
void self_opens(void)
{
    opened = true;
}

struct mpi_self *mpi_enter_at(uint32_t call, uint64_t site, uintptr_t frame)
{
    if (opened) {
        opened = false;
        self_look();
    }
    if (self.inside) {
        __atomic_fetch_add(&twin_guest.inner, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    self.inside = true;
    note(call, site);
    self.telling = tells;
    return tells ? NULL : &self;
}

void mpi_leave(struct mpi_self *me, int result)
{
    me->inside = false;
}

void mpi_done(struct mpi_self *me)
{
}

/* No poll does without a time stamp. */
struct mpi_self *mpi_poll(uint32_t call, uint64_t site)
{
    return NULL;
}

void mpi_poll_in_vain(struct mpi_self *me)
{
}

void mpi_poll_came(struct mpi_self *me, uint32_t call, uint64_t site, int result)
{
}

void mpi_poll_timed(struct mpi_self *me)
{
}

bool mpi_quick(uint32_t call)
{
    if (self.inside)
        return false;
    if (!tells)
        note(call, 0);
    return tells;
}

/* ---- telling: TEST_GUEST_TELLS is set; `acts`: of calls that can be acted on, only the arguments are told ---- */

struct mpi_self *mpi_tells(void)
{
    bool telling = self.telling;
    self.telling = false;
    return telling ? &self : NULL;
}

struct mpi_self *mpi_telling(void)
{
    return &self;
}

bool mpi_acts_on_pars(const struct mpi_self *me)
{
    return acts;
}

bool mpi_acts(struct mpi_self *me, const struct mpi_told *told, uint32_t given)
{
    if (acts)
        memcpy(twin_guest.told, told->par + 1, sizeof twin_guest.told);
    return acts;
}

bool mpi_tell_begins(struct mpi_self *me, struct mpi_told *told)
{
    for (unsigned i = 0; i < MPI_TOLD_PARS; i++)
        twin_guest.told[i] = told->par[i + 1];
    return true;
}

void mpi_tell_ends(struct mpi_self *me, struct mpi_told *told, int64_t result)
{
    twin_guest.result = result;
}

struct mpi_self *mpi_quick_tells(uint32_t call, uint64_t site, uintptr_t frame)
{
    note(call, site);
    return &self;
}

bool mpi_quick_begins(struct mpi_self *me, struct mpi_told *told, uint64_t comm)
{
    return mpi_tell_begins(me, told);
}

void mpi_quick_ends(struct mpi_self *me, struct mpi_told *told, int64_t result)
{
    mpi_tell_ends(me, told, result);
}

/* Nothing of it is told: there is no agent's side here. (mpi/message/tell.h has what this file has its own of.) */
void tell_start(const struct mpi_host *host);
void tell_start(const struct mpi_host *host)
{
    const char *how = getenv("TEST_GUEST_TELLS");
    tells = how != NULL;
    acts = how && strcmp(how, "acts") == 0;
}

bool mpi_library_start(void *handle, library_find *find)
{
    return find(handle, "PMPI_Comm_size");
}

bool mpi_connect(const struct mpi_host *host)
{
    const char *path = getenv("TEST_GUEST_LOG");
    if (path)
        log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (host->why_not)
        strncpy(twin_guest.why_not, host->why_not, sizeof twin_guest.why_not - 1);
    return !host->why_not;
}
