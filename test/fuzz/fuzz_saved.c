/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry-view has kept of a job (web/view/picture.h), with any bytes changed and its sum made to fit: it is refused, or
 * questions are answered from it. The input is changes: where (two bytes), and what stands there then.
 */
#include "view_job.h"
#include "web/view/picture.h"

static struct buf whole;

static void prepare(void)
{
    view_job_make();
    view_job_open();
    view_job_read();
    view_job_ask("{\"ask\":\"profile\"}", strlen("{\"ask\":\"profile\"}"));
    fuzz_expect(view.complete && saved_put(&whole, &view) == 0);
    view_close(&view);
    view_job_open();
    fuzz_expect(saved_take(&view, whole.data, whole.len) == 1);
    view_close(&view);
    view_job_open();
    fuzz_expect(saved_take(&view, whole.data, whole.len - 1) < 0);
    view_close(&view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const questions[] = {
        "{\"ask\":\"picture\"}",
        "{\"ask\":\"tiles\",\"level\":0,\"index\":0}",
        "{\"ask\":\"tiles\",\"level\":3,\"index\":7}",
        "{\"ask\":\"selection\"}",
        "{\"ask\":\"search\",\"function\":\"*\"}",
        "{\"ask\":\"call\",\"lane\":0,\"at\":125}",
        "{\"ask\":\"tree\"}",
        "{\"ask\":\"profile\"}",
    };
    struct err err = {0};
    if (!root[0])
        prepare();
    char *bytes = malloc(whole.len);
    fuzz_expect(bytes);
    memcpy(bytes, whole.data, whole.len);
    for (; size >= 3; data += 3, size -= 3)
        bytes[(data[0] | (size_t)data[1] << 8) % whole.len] = (char)data[2];
    view_job_open();
    if (saved_take(&view, bytes, whole.len) == 1) {
        fuzz_expect(view_load_functions(&view, NULL, NULL, &err) == 0);
        for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
            view_job_ask(questions[i], strlen(questions[i]));
    }
    view_close(&view);
    free(bytes);
    return 0;
}
