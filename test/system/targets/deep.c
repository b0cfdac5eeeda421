/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library that calls back: for stacks that go through several modules. */
__attribute__((visibility("default"))) void deep(int levels, void (*function)(int levels), int rest);

__attribute__((noinline, noclone)) static void deeper(int levels, void (*function)(int levels), int rest)
{
    if (levels > 0)
        deeper(levels - 1, function, rest);
    else
        function(rest);
    __asm__ volatile(""); /* no tail call */
}

void deep(int levels, void (*function)(int levels), int rest)
{
    deeper(levels, function, rest);
    __asm__ volatile("");
}
