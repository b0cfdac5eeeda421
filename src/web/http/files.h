/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the pages, inside the program. The build of src/web/ui makes the table, sorted by path in the order of
 * strcmp. Without node, the table is none.c: one page that says what to do.
 */
#ifndef SCRY_WEB_HTTP_FILES_H
#define SCRY_WEB_HTTP_FILES_H

#include <stddef.h>

struct web_file {
    const char *path; /* relative: "index.html", "assets/app.js" */
    const char *type; /* "text/html; charset=utf-8" */
    const unsigned char *bytes;
    size_t size;
    const unsigned char *gzip; /* NULL: it would not be smaller */
    size_t gzip_size;
    const char *etag; /* with its quotes: a hash of the bytes */
};
extern const struct web_file web_files[];
extern const size_t web_file_count;

#endif
