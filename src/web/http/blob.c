/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of answers, which many may share. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/data/sum.h"
#include "web/http/visit.h"

enum {
    SHORT = 512,    /* bytes that gzip would not make fewer */
    LONG = 4 << 20, /* it would keep the server from others: 40 ms for these */
};

struct blob *blob_new(struct buf *take)
{
    struct blob *blob = take->failed ? NULL : calloc(1, sizeof *blob);
    if (blob) {
        blob->count = 1;
        blob->size = take->len;
        blob->bytes = buf_take(take);
    }
    if (blob && !blob->bytes) {
        free(blob);
        blob = NULL;
    }
    buf_done(take);
    return blob;
}

struct blob *blob_ref(struct blob *blob)
{
    blob->count++;
    return blob;
}

void blob_unref(struct blob *blob)
{
    if (!blob || --blob->count)
        return;
    free(blob->bytes);
    free(blob->gzip);
    free(blob);
}

void blob_tag(const struct blob *blob, char ret_tag[BLOB_TAG])
{
    snprintf(ret_tag, BLOB_TAG, "\"%016" PRIx64 "\"", sum_add(blob->size, blob->bytes, blob->size));
}

bool blob_zip(struct blob *blob)
{
    enum { WINDOW_GZIP = 15 + 16, MEMORY = 8, QUICK = 3 };
    z_stream zip = {0};
    if (blob->gzip_tried || blob->size < SHORT || blob->size > LONG)
        return blob->gzip;
    blob->gzip_tried = true;
    char *bytes = malloc(blob->size);
    if (!bytes || deflateInit2(&zip, QUICK, Z_DEFLATED, WINDOW_GZIP, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(bytes);
        return false;
    }
    zip.next_in = (unsigned char *)blob->bytes;
    zip.next_out = (unsigned char *)bytes;
    zip.avail_in = zip.avail_out = (unsigned)blob->size;
    bool smaller = deflate(&zip, Z_FINISH) == Z_STREAM_END;
    blob->gzip_size = zip.total_out;
    deflateEnd(&zip);
    blob->gzip = smaller ? bytes : NULL;
    if (!smaller)
        free(bytes);
    return smaller;
}
