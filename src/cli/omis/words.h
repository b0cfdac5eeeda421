/* SPDX-License-Identifier: Apache-2.0 */
/* What the shell completes: names of services, and tokens seen in replies. */
#ifndef SCRY_CLI_OMIS_WORDS_H
#define SCRY_CLI_OMIS_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include <omis.h>

#include "base/data/buf.h"

enum { OMIS_WORDS_LIMIT = 20000 }; /* tokens come without end */

struct omis_word;

struct omis_words {
    struct omis_word *set; /* by text */
    size_t count;
};

void omis_words_add(struct omis_words *words, struct span text, bool service);
void omis_words_add_reply(struct omis_words *words, Omis_reply reply); /* the tokens in it */

struct omis_match {
    const char **words; /* sorted; freed by the caller, the texts are borrowed */
    size_t count;
    size_t common; /* length of the common prefix */
    bool service;  /* there is one match, and it is a service */
};

struct omis_match omis_words_match(const struct omis_words *words, struct span prefix);
void omis_words_done(struct omis_words *words);

#endif
