/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that says what is to be seen of it: DO() makes a call and notes it, sent() and got() note messages, and
 * expect_print() writes a file expect.RANK for each rank (a line so long would be mixed with those of others):
 *
 *     {"rank": 0, "calls": {"MPI_Send": [COUNT, BYTES], ...}, "sent": {"1": [MESSAGES, BYTES]}, "got": {...},
 *      "lines": {"MPI_Send": [LINE, ...]}}
 *
 * Bytes of a call: as its arguments say, of a send-receive what is sent.
 */
#ifndef EXPECT_H
#define EXPECT_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPECT_CALLS = 128, EXPECT_RANKS = 16, EXPECT_LINES = 32 };

static struct expect_call {
    const char *name;
    long count;
    long long bytes;
    int lines[EXPECT_LINES], line_count;
} expect_calls[EXPECT_CALLS];
static struct {
    long count;
    long long bytes;
} expect_sent[EXPECT_RANKS], expect_got[EXPECT_RANKS];

static void expect_note(const char *name, long long bytes, int line)
{
    struct expect_call *call = expect_calls;
    while (call->name && strcmp(call->name, name) != 0)
        call++;
    call->name = name;
    call->count++;
    call->bytes += bytes;
    for (int i = 0; i < call->line_count; i++)
        if (call->lines[i] == line)
            return;
    if (call->line_count < EXPECT_LINES)
        call->lines[call->line_count++] = line;
}

#define DO(call, bytes, ...) (expect_note(#call, bytes, __LINE__), call(__VA_ARGS__))

static void sent(int to, long long bytes)
{
    if (to >= 0) {
        expect_sent[to].count++;
        expect_sent[to].bytes += bytes;
    }
}

static void got(int from, long long bytes)
{
    if (from >= 0) {
        expect_got[from].count++;
        expect_got[from].bytes += bytes;
    }
}

static int expect_peers(char *at, const char *name, int is_sent)
{
    int len = sprintf(at, ", \"%s\": {", name), used = 0;
    for (int i = 0; i < EXPECT_RANKS; i++) {
        long count = is_sent ? expect_sent[i].count : expect_got[i].count;
        long long bytes = is_sent ? expect_sent[i].bytes : expect_got[i].bytes;
        if (count)
            len += sprintf(at + len, "%s\"%d\": [%ld, %lld]", used++ ? ", " : "", i, count, bytes);
    }
    return len + sprintf(at + len, "}");
}

static void expect_print(int rank)
{
    static char line[65536];
    int len = sprintf(line, "{\"rank\": %d, \"calls\": {", rank);
    for (struct expect_call *call = expect_calls; call->name; call++)
        len += sprintf(line + len, "%s\"%s\": [%ld, %lld]", call == expect_calls ? "" : ", ", call->name, call->count,
                       call->bytes);
    len += sprintf(line + len, "}");
    len += expect_peers(line + len, "sent", 1);
    len += expect_peers(line + len, "got", 0);
    len += sprintf(line + len, ", \"lines\": {");
    for (struct expect_call *call = expect_calls; call->name; call++) {
        len += sprintf(line + len, "%s\"%s\": [", call == expect_calls ? "" : ", ", call->name);
        for (int i = 0; i < call->line_count; i++)
            len += sprintf(line + len, "%s%d", i ? ", " : "", call->lines[i]);
        len += sprintf(line + len, "]");
    }
    len += sprintf(line + len, "}}\n");
    char path[32];
    sprintf(path, "expect.%d", rank);
    FILE *file = fopen(path, "w");
    if (!file)
        MPI_Abort(MPI_COMM_WORLD, 3);
    fputs(line, file);
    fclose(file);
}

#endif
