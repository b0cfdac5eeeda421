/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of MPI, as people write it. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/mpi_settings.h"

enum { WORD_SIZE = 64 };

static const struct {
    const char *name;
    uint32_t bit;
} metrics[] = {
    {"clocks", MPIA_METRIC_CLOCKS}, {"distributions", MPIA_METRIC_DISTRIBUTIONS}, {"sites", MPIA_METRIC_SITES},
    {"peers", MPIA_METRIC_PEERS},   {"requests", MPIA_METRIC_REQUESTS},           {"messages", MPIA_METRIC_MESSAGES},
};
enum { METRICS = sizeof metrics / sizeof *metrics };

/* The next word of a list with commas. false: it is at its end, or the word is too long (then *inout_at is NULL). */
static bool next_word(const char **inout_at, char word[WORD_SIZE])
{
    const char *at = *inout_at;
    at += strspn(at, ", ");
    size_t len = strcspn(at, ", ");
    *inout_at = len < WORD_SIZE ? at + len : NULL;
    if (!len || len >= WORD_SIZE)
        return false;
    memcpy(word, at, len);
    word[len] = 0;
    return true;
}

bool mpi_metrics_parse(const char *text, uint32_t *ret_metrics)
{
    char word[WORD_SIZE];
    uint32_t bits = 0;
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0) {
        *ret_metrics = *text == 'a' ? (uint32_t)MPIA_METRIC_ALL : 0;
        return true;
    }
    while (next_word(&text, word)) {
        size_t i = 0;
        while (i < METRICS && strcmp(metrics[i].name, word) != 0)
            i++;
        if (i == METRICS)
            return false;
        bits |= metrics[i].bit;
    }
    if (!text || !bits)
        return false;
    *ret_metrics = bits;
    return true;
}

void mpi_metrics_print(uint32_t bits, char *ret_text, size_t size)
{
    size_t len = 0;
    snprintf(ret_text, size, "%s", bits == MPIA_METRIC_ALL ? "all" : "none");
    for (size_t i = 0; i < METRICS && bits != MPIA_METRIC_ALL; i++)
        if (bits & metrics[i].bit && len < size)
            len += (size_t)snprintf(ret_text + len, size - len, "%s%s", len ? "," : "", metrics[i].name);
}

bool mpi_parts_parse(const char *text, unsigned *ret_bits)
{
    char *end;
    unsigned long parts = isdigit((unsigned char)*text) ? strtoul(text, &end, 10) : 0;
    for (unsigned bits = 0; bits <= MPIA_BITS_MOST; bits++)
        if (parts == 1ul << bits && !*end) {
            *ret_bits = bits;
            return true;
        }
    return false;
}

bool mpi_calls_parse(const char *text, uint64_t ret_selected[MPI_SELECTED])
{
    char word[WORD_SIZE];
    bool all = strcmp(text, "all") == 0;
    memset(ret_selected, all ? 0xff : 0, MPI_SELECTED * sizeof *ret_selected);
    if (all || strcmp(text, "none") == 0)
        return true;
    bool any = false;
    while (next_word(&text, word)) {
        bool found = false;
        for (uint32_t call = 1; call < CALL_COUNT; call++)
            if (fnmatch(word, call_infos[call].name, FNM_CASEFOLD) == 0) {
                ret_selected[call / 64] |= UINT64_C(1) << call % 64;
                found = true;
            }
        if (!found)
            return false;
        any = true;
    }
    return text && any;
}
