/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about a whole job that is over: they take a pass over its traces, and stay as they are. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "web/view/ask.h"
#include "web/view/saved.h"

enum { WHOLE_MOST = 16, WHOLE_BYTES = 32 << 20 /* of all together */ };

struct whole {
    struct whole_answer {
        char *question, *text;
    } list[WHOLE_MOST];
    size_t count, bytes;
};

/* The question by its name and limit, malloc'ed. NULL: it is of a part, or not kept. */
static char *key_of(const struct view *view, const struct question *question, const struct asked *asked)
{
    char *key;
    const char *member;
    json_t *value;
    if (view->running || !question->whole)
        return NULL;
    json_object_foreach(asked->json, member, value)
    {
        if (strcmp(member, "id") != 0 && strcmp(member, "ask") != 0 && strcmp(member, "limit") != 0)
            return NULL;
    }
    return asprintf(&key, "%s %" PRId64, question->name, asked->limit) < 0 ? NULL : key;
}

const char *whole_find(const struct view *view, const struct question *question, const struct asked *asked)
{
    _cleanup_(freep) char *key = view->whole ? key_of(view, question, asked) : NULL;
    for (size_t i = 0; key && i < view->whole->count; i++)
        if (strcmp(view->whole->list[i].question, key) == 0)
            return view->whole->list[i].text;
    return NULL;
}

static void add(struct view *view, char *key_take, char *text_take)
{
    size_t size = strlen(key_take) + strlen(text_take);
    if (!view->whole)
        view->whole = calloc(1, sizeof *view->whole);
    struct whole *whole = view->whole;
    if (!whole || whole->count == WHOLE_MOST || size > WHOLE_BYTES - whole->bytes) {
        free(key_take);
        free(text_take);
        return;
    }
    whole->list[whole->count++] = (struct whole_answer){key_take, text_take};
    whole->bytes += size;
}

void whole_keep(struct view *view, const struct question *question, const struct asked *asked, const char *text,
                size_t len)
{
    char *key = key_of(view, question, asked), *copy = key ? strndup(text, len) : NULL;
    if (copy)
        add(view, key, copy);
    else
        free(key);
}

size_t whole_count(const struct view *view)
{
    return view->whole ? view->whole->count : 0;
}

/* It is printed as it is: one line of JSON. */
static bool is_answer(const char *text)
{
    json_t *json = strchr(text, '\n') ? NULL : json_loads(text, 0, NULL);
    bool is = json_is_object(json);
    json_decref(json);
    return is;
}

void whole_save(struct saving *saving, struct view *view)
{
    size_t count = whole_count(view);
    SAVED(saving, count);
    for (size_t i = 0; i < count && !saving->failed; i++) {
        const struct whole_answer *as_saved = saving->out ? &view->whole->list[i] : &(struct whole_answer){0};
        char *key = saved_text(saving, as_saved->question), *text = saved_text(saving, as_saved->text);
        if (saving->out)
            continue;
        saved_check(saving, !saving->failed && is_answer(text));
        if (!saving->failed) {
            add(view, key, text);
            continue;
        }
        free(key);
        free(text);
    }
}

void whole_free(struct view *view)
{
    for (size_t i = 0; i < whole_count(view); i++) {
        free(view->whole->list[i].question);
        free(view->whole->list[i].text);
    }
    free(view->whole);
    view->whole = NULL;
}
