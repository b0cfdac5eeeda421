/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for the tests to look at, linked in several ways (PIE, static, static-pie, stripped). It prints the
 * addresses of its main, of a variable in data and of one in bss, then waits until its standard input ends.
 */
#include <stdio.h>
#include <unistd.h>

int target_data = 4711;
char target_bss[3 << 20];

int main(void)
{
    printf("%p %p %p\n", (void *)main, (void *)&target_data, (void *)target_bss);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    return target_bss[0] + target_data - 4711;
}
