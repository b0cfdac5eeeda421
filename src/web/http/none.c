/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the pages, where they could not be built. */
#include "web/http/files.h"

static const char page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>scry</title></head><body>\n"
    "<h1>scry was built without its pages</h1>\n"
    "<p>Install node and what src/web/ui needs (tools/install-deps), then build scry again. Programs are answered all "
    "the "
    "same: see <code>api/session</code>.</p>\n"
    "</body></html>\n";

const struct web_file web_files[] = {
    {"index.html", "text/html; charset=utf-8", (const unsigned char *)page, sizeof page - 1, NULL, 0, "\"none\""}};
const size_t web_file_count = 1;
