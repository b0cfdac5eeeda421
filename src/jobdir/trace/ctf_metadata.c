/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/trace/ctf_metadata.h"

#include <inttypes.h>
#include <string.h>

#include "base/system/clock.h"
#include "shm/mpi_calls.h"
#include "jobdir/text/text.h"
#include "symbols/layout/layout.h"

/* A string literal: quotes, backslashes and control characters escaped. */
static void put_string(struct buf *out, const char *text)
{
    buf_putc(out, '"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            buf_printf(out, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            buf_putc(out, '?');
        else
            buf_putc(out, (char)*c);
    }
    buf_putc(out, '"');
}

static void put_uuid(struct buf *out, const uint8_t *uuid)
{
    for (unsigned i = 0; i < 16; i++)
        buf_printf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static void put_trace(struct buf *out, const struct ctf_metadata *metadata)
{
    const struct trace_identity *identity = metadata->identity;
    buf_puts(out, "trace {\n    major = 1;\n    minor = 8;\n    uuid = \"");
    put_uuid(out, metadata->uuid);
    buf_puts(out,
             "\";\n    byte_order = le;\n    packet.header := struct {\n        u32 magic;\n        u32 stream_id;\n"
             "        u64 stream_instance_id;\n    };\n};\n\nenv {\n    hostname = ");
    put_string(out, identity->host);
    buf_puts(out, ";\n    procname = ");
    put_string(out, text_base(identity->exe));
    buf_puts(out, ";\n    exe = ");
    put_string(out, identity->exe);
    buf_puts(out, ";\n    node = ");
    put_string(out, identity->node);
    buf_printf(out, ";\n    vpid = %d;\n    tracer_name = \"scry\";\n};\n\n", identity->pid);
}

/* Wall time of tick 0 in whole seconds and the rest in ticks. */
static void put_clock(struct buf *out, const struct trace_identity *identity)
{
    uint64_t seconds = identity->tick_zero_ns / NS_PER_SECOND, rest_ns = identity->tick_zero_ns % NS_PER_SECOND;
    uint64_t rest = (uint64_t)((unsigned __int128)rest_ns * identity->ticks_per_second / NS_PER_SECOND);
    buf_printf(out,
               "clock {\n    name = tsc;\n    description = \"time stamp counter\";\n    freq = %" PRIu64
               ";\n    precision = 1;\n    offset_s = %" PRIu64 ";\n    offset = %" PRIu64
               ";\n    absolute = false;\n};\n\n",
               identity->ticks_per_second, seconds, rest);
}

static void put_stream(struct buf *out)
{
    buf_puts(
        out,
        "typealias integer { size = 64; align = 8; signed = false; map = clock.tsc.value; } := ticks;\n"
        /* all unaligned: the struct would begin at the next byte, not after the 5 bits */
        "typealias integer { size = 27; align = 1; signed = false; map = clock.tsc.value; } := ticks27;\n"
        "typealias integer { size = 32; align = 1; signed = false; } := bits32;\n"
        "typealias integer { size = 64; align = 1; signed = false; map = clock.tsc.value; } := bits64;\n\n"
        "stream {\n    id = 0;\n"
        "    event.header := struct {\n"
        "        enum : integer { size = 5; align = 1; signed = false; } { compact = 0 ... 30, extended = 31 } id;\n"
        "        variant <id> {\n"
        "            struct { ticks27 timestamp; } compact;\n"
        "            struct { ticks27 low; bits32 id; bits64 timestamp; } extended;\n"
        "        } v;\n"
        "    } align(8);\n"
        "    packet.context := struct {\n"
        "        ticks timestamp_begin;\n        ticks timestamp_end;\n        u64 content_size;\n"
        "        u64 packet_size;\n        u64 events_discarded;\n        u64 packet_seq_num;\n"
        "        u32 tid;\n        u32 depth;\n        u32 stack;\n        u32 thread_serial;\n    };\n};\n\n");
}

/* babeltrace2 2.0 takes time with the square of these numbers: 1.5 s for 4000 functions, a quarter of an hour for
 * 100000; 2 s for 1000 layouts. What is beyond is a number there, or bytes; our own readers use `.functions` and
 * `.layouts`, which have all. */
enum { NAMED_FUNCTIONS = 4000 };

static void put_functions(struct buf *out, const struct ctf_metadata *metadata)
{
    buf_puts(out, "typealias enum : u32 {\n");
    for (size_t i = 0; i < metadata->function_count && i < NAMED_FUNCTIONS; i++) {
        buf_puts(out, "    ");
        put_string(out, metadata->functions[i].name);
        buf_printf(out, " = %" PRIu32 ",\n", metadata->functions[i].id);
    }
    if (metadata->function_count == 0)
        buf_puts(out, "    \"none\" = 0xffffffff,\n");
    buf_puts(out, "} := function_id;\n\n");
}

static bool is_shown(const struct ctf_layout *layout)
{
    return layout->id <= CTF_LAST_LAYOUT;
}

static void put_layouts(struct buf *out, const struct ctf_metadata *metadata)
{
    if (metadata->layout_count == 0)
        return;
    buf_printf(out, "typealias enum : u32 {\n    NONE = %d,\n", RECORD_NO_LAYOUT);
    bool more = false;
    for (size_t i = 0; i < metadata->layout_count; i++) {
        if (is_shown(&metadata->layouts[i]))
            buf_printf(out, "    L%" PRIu32 " = %" PRIu32 ",\n", metadata->layouts[i].id, metadata->layouts[i].id);
        more |= !is_shown(&metadata->layouts[i]);
    }
    if (more)
        buf_printf(out, "    MORE = %d ... %" PRIu32 ",\n", CTF_LAST_LAYOUT + 1, UINT32_MAX);
    buf_puts(out, "} := layout_id;\n\n");
}

/* What a record with values ends with: a variant of those layouts that its kind of record has. The types stand where
 * they are used: babeltrace2 2.0 does not find the tags of variants inside of a typealias. */
static void put_values(struct buf *out, const struct ctf_metadata *metadata, enum ctf_role role)
{
    size_t count = 0;
    bool more = false;
    for (size_t i = 0; i < metadata->layout_count; i++) {
        count += metadata->layouts[i].role == role;
        more |= !is_shown(&metadata->layouts[i]);
    }
    if (count == 0) {
        buf_puts(out, " u32 layout; u16 size; u8 values[size];");
        return;
    }
    buf_puts(out, " layout_id layout; u16 size; variant <layout> {\n        struct { u8 bytes[size]; } NONE;\n");
    if (more)
        buf_puts(out, "        struct { u8 bytes[size]; } MORE;\n");
    for (size_t i = 0; i < metadata->layout_count; i++)
        if (metadata->layouts[i].role == role && is_shown(&metadata->layouts[i])) {
            buf_puts(out, "        ");
            buf_puts(out, metadata->layouts[i].tsdl); /* may be long */
            buf_printf(out, " L%" PRIu32 ";\n", metadata->layouts[i].id);
        }
    buf_puts(out, "    } values;");
}

/* Calls of MPI by their numbers: those that are among the functions. */
static void put_message(struct buf *out, const struct ctf_metadata *metadata)
{
    bool any = false;
    buf_puts(out, " enum : integer { size = 8; align = 8; signed = false; } { sent = 0, received = 1, collective = 2, "
                  "collective_done = 3, unsent = 4, begin = 5, sent_before = 6, received_before = 7, probed = 8, "
                  "posted = 9, sent_done = 10, freed = 11 } kind;");
    for (size_t i = 0; i < metadata->function_count; i++) {
        const char *name = metadata->functions[i].name;
        enum call_id call = strncmp(name, "MPI_", 4) == 0 ? call_find(name) : CALL_NONE;
        if (call == CALL_NONE)
            continue;
        buf_printf(out, "%s%s = %d", any ? ", " : " enum : u32 { ", name, (int)call);
        any = true;
    }
    buf_puts(out, any ? " } call;" : " u32 call;");
    buf_puts(out, " x64 comm; i32 peer; i32 tag; u64 bytes; u64 order;");
}

static const struct {
    enum record_id id;
    const char *name, *fields;
    enum ctf_role values;
} records[] = {
    {RECORD_ENTRY, "entry", " function_id function;", CTF_NONE},
    {RECORD_EXIT, "exit", "", CTF_NONE},
    {RECORD_EXIT_OF, "exit_of", " function_id function; u64 entry_time;", CTF_NONE},
    {RECORD_ENTRY_VALUES, "entry_values", " function_id function;", CTF_ENTRY},
    {RECORD_EXIT_VALUES, "exit_values", " function_id function; u64 entry_time;", CTF_EXIT},
    {RECORD_CALLER_VALUES, "caller_values", "", CTF_CALLER},
    {RECORD_UNWOUND, "unwound", " u32 count;", CTF_NONE},
    {RECORD_LOST, "lost_exits", " u32 count;", CTF_NONE},
    {RECORD_STACK, "stack", " u32 stack; u32 depth;", CTF_NONE},
    {RECORD_SIGNAL, "signal", " i32 signal; i32 code; x64 address; x64 pc;", CTF_NONE},
    {RECORD_MARK, "mark", " u16 size; utf8 text[size];", CTF_NONE},
    {RECORD_THINNED, "thinned", " function_id function;", CTF_NONE},
    {RECORD_MESSAGE, "mpi_message", "", CTF_NONE},
};

void ctf_metadata_print(const struct ctf_metadata *metadata, struct buf *out)
{
    buf_puts(out, "/* CTF 1.8 */\n\n");
    layout_tsdl_types(out);
    buf_putc(out, '\n');
    put_trace(out, metadata);
    put_clock(out, metadata->identity);
    put_stream(out);
    put_functions(out, metadata);
    put_layouts(out, metadata);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        buf_printf(out, "event {\n    name = \"%s\";\n    id = %d;\n    stream_id = 0;\n    fields := struct {%s",
                   records[i].name, records[i].id, records[i].fields);
        if (records[i].id == RECORD_MESSAGE)
            put_message(out, metadata);
        if (records[i].values != CTF_NONE)
            put_values(out, metadata, records[i].values);
        buf_puts(out, " };\n};\n\n");
    }
}
