/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls every function of the stand-in library in every way, and looks each time whether it was called once, with what
 * it was given, whether its own result came back, and whether the interposer noted one outermost call from here.
 * Prints TAP. Arguments: what it is called; the interposer; `--plain`: there is none.
 */
#include "mpi/test/test_twins.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ways[TWIN_WAYS] = {"its slot", "its PMPI_ slot", "a pointer to it", "dlsym", "dlsym of PMPI_"};
static struct twin_guest *guest;
static bool telling, acting;
static unsigned tried[TWIN_WAYS], failed[TWIN_WAYS];

static uint32_t all_twins(void)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < CALL_COUNT; i++)
        sum += twins[i].calls;
    return sum;
}

static uint32_t all_noted(void)
{
    uint32_t sum = 0;
    for (unsigned i = 0; guest && i < CALL_COUNT; i++)
        sum += guest->entered[i];
    return sum;
}

void *twin_hide(void *function)
{
    void *volatile hidden = function;
    return hidden;
}

void *twin_dlsym(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

void twin_before(struct twin_try *try, enum twin_way way)
{
    try->way = way;
    try->calls = twins[try->call].calls;
    try->others = all_twins();
    try->noted = all_noted();
    if (guest)
        guest->site = 0;
}

static bool from_here(uint64_t site)
{
    Dl_info here, there;
    return dladdr(ways, &here) && dladdr((void *)site, &there) && here.dli_fbase == there.dli_fbase;
}

static void fail(const struct twin_try *try, const char *what)
{
    printf("# %s through %s: %s\n", call_infos[try->call].name, ways[try->way], what);
    failed[try->way]++;
}

/* What was told are the numbers and addresses that the call was given; a handle may be an int or an address. */
static bool told_right(const struct twin_try *try, uint64_t result)
{
    const struct call_info *info = &call_infos[try->call];
    for (unsigned i = 0; i < info->param_count && i < 15; i++)
        if ((uint64_t)guest->told[i] != try->given[i])
            return false;
    /* a variadic one is told before it is jumped to */
    return info->variadic || acting || strcmp(call_result(info), "double") == 0 || (uint64_t)guest->result == result;
}

void twin_after(struct twin_try *try, uint64_t result, uint64_t expected)
{
    const struct twin *twin = &twins[try->call];
    tried[try->way]++;
    if (twin->calls != try->calls + 1 || all_twins() != try->others + 1)
        fail(try, "the library was not called once, and nothing else of it");
    else if (twin->count != try->count || memcmp(twin->given, try->given, try->count * sizeof *try->given) != 0)
        fail(try, "it was given something else");
    else if (result != expected)
        fail(try, "another result came back");
    else if (guest && all_noted() != try->noted + 1)
        fail(try, "it was not noted once");
    else if (guest && guest->site && !from_here(guest->site))
        fail(try, "it was not noted as called from the program");
    else if (guest && telling && !told_right(try, result))
        fail(try, "it was told something else");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    bool plain = argc > 2 && strcmp(argv[2], "--plain") == 0;
    void *interposer = argc > 2 && !plain ? dlopen(argv[2], RTLD_NOW | RTLD_NOLOAD) : NULL;
    guest = interposer ? dlsym(interposer, "twin_guest") : NULL;
    unsigned number = 0;
    const char *how = getenv("TEST_GUEST_TELLS");
    telling = how != NULL;
    acting = how && strcmp(how, "acts") == 0;
    if (!guest && !plain)
        printf("Bail out! the interposer is not loaded: %s\n", dlerror());
    for (unsigned i = 0; twin_tries[i]; i++)
        twin_tries[i]();
    for (unsigned i = 0; i < TWIN_WAYS; i++)
        printf("%s %u - %s: %u calls through %s\n", failed[i] ? "not ok" : "ok", ++number, name, tried[i], ways[i]);
    printf("1..%u\n", number);
    return 0;
}
