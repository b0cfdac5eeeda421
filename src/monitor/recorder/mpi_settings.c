/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of MPI, as people write them. */
#include <fnmatch.h>
#include <string.h>

#include "monitor/recorder/mpi_settings.h"

enum { WORD_SIZE = 64 };

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
