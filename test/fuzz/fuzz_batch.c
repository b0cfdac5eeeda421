/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What batch systems say of their jobs. Lines NAME=value of any bytes are the environment, and the same bytes are HTCondor's
 * description of a job. Whatever they are, what is found can be written as JSON, and no number is negative.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "job/record/batch.h"

static const char *get(void *ctx, const char *name)
{
    static char value[512];
    return batch_ad_value(ctx, name, value, sizeof value) && strcmp(name, "_CONDOR_JOB_AD") != 0 ? value : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1), name[64];
    fuzz_expect(text);
    memcpy(text, bytes, size);
    text[size] = '\0';
    json_t *json = batch_json(get, text, name, sizeof name);
    const char *key;
    json_t *value;
    json_object_foreach(json, key, value)
    {
        fuzz_expect(json_is_null(value) || json_is_string(value) || json_integer_value(value) >= 0);
    }
    char *written = json ? json_dumps(json, 0) : NULL;
    fuzz_expect(!json || (written && json_object_size(json) == 9));
    fuzz_expect(strlen(name) < sizeof name);
    free(written);
    json_decref(json);
    free(text);
    return 0;
}
