/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the kernel's log, in which programs and files have names of any bytes, and stacks that handlers of signals print: what is taken of
 * them fits, and lies where it says. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "job/run/kernel_log.h"
#include "job/run/said_stack.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    struct logged logged;
    fuzz_expect(text);
    memcpy(text, bytes, size);
    text[size] = '\0';
    if (logged_parse(&logged, text)) {
        fuzz_expect(logged.signo > 0 && strlen(logged.name) < sizeof logged.name);
        fuzz_expect(strlen(logged.file) < sizeof logged.file && logged.code_count == 0);
        fuzz_expect(!*logged.file || logged.ip - logged.start < logged.size);
        logged_reason(&logged);
        const char *next = strchr(text, '\n');
        if (next && logged_parse_code(&logged, next + 1))
            fuzz_expect(logged.code_at < logged.code_count && logged.code_count <= LOGGED_CODE);
    }
    static struct said_frame frames[SAID_FRAMES];
    size_t count = said_stack_parse(text, size, "n", 7, frames);
    fuzz_expect(count < SAID_FRAMES);
    for (size_t i = 0; i < count; i++) {
        fuzz_expect(strlen(frames[i].module) < sizeof frames[i].module && *frames[i].module);
        fuzz_expect(strlen(frames[i].symbol) < sizeof frames[i].symbol);
    }
    free(text);
    return 0;
}
