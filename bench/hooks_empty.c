/* SPDX-License-Identifier: Apache-2.0 */
/* The least a hook library can do: nothing. What a compiled-in call costs below this is not the library's. */
void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

__attribute__((visibility("default"))) void __cyg_profile_func_enter(void *function, void *caller)
{
}

__attribute__((visibility("default"))) void __cyg_profile_func_exit(void *function, void *caller)
{
}
