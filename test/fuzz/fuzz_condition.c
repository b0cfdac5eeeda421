/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions of ct_function_called from any text: refused with a reason, or a program that can be run on anything. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "service/ct/ct.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = ARENA_INIT;
    struct ct_condition condition;
    struct err err = {0};
    int code = ct_condition_compile(&arena, span_of((const char *)data, size), size % 2, &condition, &err);
    fuzz_expect(code == 0 || (code == -EINVAL && err.text[0]));
    if (code == 0) {
        fuzz_expect(code_check(&condition.program, 1) && condition.param_count <= CODE_PARAMS);
        for (unsigned i = 0; i < condition.param_count; i++) {
            fuzz_expect(condition.params[i][0] && memmem(data, size, condition.params[i], strlen(condition.params[i])));
            for (unsigned k = 0; k < i; k++)
                fuzz_expect(strcmp(condition.params[i], condition.params[k]) != 0);
        }
        struct code_event event = {.param_count = condition.param_count};
        for (unsigned i = 0; i < CODE_PARAMS; i++) {
            event.params[i] = size ? (int64_t)(data[i % size] * UINT64_C(0x0123456789abcdef)) : 0;
            event.types[i] = (uint8_t)((size + i) % 5);
        }
        code_cell cell = 0;
        code_run(&condition.program, &event, &cell);
    }
    arena_done(&arena);
    return 0;
}
