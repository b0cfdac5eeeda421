/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata of a trace: what shm/record.h says, in TSDL (Common Trace Format 1.8.3, section 7 and appendix C), so
 * that babeltrace2 and Trace Compass read the packets as they are. Function ids are an enumeration of their names,
 * captured values a variant chosen by their layout.
 */
#ifndef SCRY_JOBDIR_TRACE_CTF_METADATA_H
#define SCRY_JOBDIR_TRACE_CTF_METADATA_H

#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "jobdir/trace/write.h"

struct ctf_function {
    uint32_t id;
    const char *name;
};
enum { CTF_LAST_LAYOUT = 1000 }; /* those with greater numbers are bytes: their types are not used */
enum ctf_role { CTF_NONE, CTF_ENTRY, CTF_EXIT, CTF_CALLER };
struct ctf_layout {
    uint32_t id;
    enum ctf_role role; /* in which records it is found */
    const char *tsdl;   /* a struct type */
};

struct ctf_metadata {
    const struct trace_identity *identity;
    const uint8_t *uuid; /* 16 bytes */
    const struct ctf_function *functions;
    size_t function_count;
    const struct ctf_layout *layouts;
    size_t layout_count;
};

void ctf_metadata_print(const struct ctf_metadata *metadata, struct buf *out);

#endif
