/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a program that calls the hooks, or does not, is known to, however it was linked: meson.build makes one of
 * each kind. test_imports yes|no: what is expected of this one.
 */
#include <stdio.h>
#include <string.h>

#include "agent/system/imports.h"

#ifdef HOOKED
void __cyg_profile_func_enter(void *function, void *callsite);

static void call_hook(void)
{
#ifdef BY_ADDRESS /* then the linker makes a place in the program that its address is, and lists it as its own */
    void (*hook)(void *, void *) = NULL;
    __asm__ volatile("movl $__cyg_profile_func_enter, %k0" : "=r"(hook));
    hook(NULL, NULL);
#else
    __cyg_profile_func_enter(NULL, NULL);
#endif
}
#else
static void call_hook(void)
{
}
#endif

int main(int argc, char **argv)
{
    unsigned long changes = 0;
    call_hook();
    int found = agent_imports_hooks(&changes), wanted = argc > 1 && strcmp(argv[1], "yes") == 0;
    printf("1..1\n%s 1 - hooks %s, %lu changes\n", found == wanted && changes ? "ok" : "not ok",
           found ? "found" : "not found", changes);
    return found == wanted && changes ? 0 : 1;
}
