/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are not found by the name of a directory alone, as they were listed last: put somewhere under any name, behind a
 * broker, in the record. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/data/sum.h"
#include "base/system/dirs.h"
#include "jobdir/text/text.h"
#include "web/serve/jobs.h"

enum { KNOWN_MOST = 200000, NOTES_MOST = 20 };

void known_jobs_free(struct server *server)
{
    HASH_FREE_ALL(server->known, free(each->path), free(each->word));
}

const struct known_job *known_job_find(struct server *server, struct span id)
{
    struct known_job *known = NULL;
    HASH_FIND(hh, server->known, id.ptr, id.len, known);
    return known;
}

/* The broker's URL (broker/url.h) with owner and job, which stand before what follows a question mark. */
static void put_word(struct buf *out, const char *broker, const char *own, const char *id)
{
    size_t len = strcspn(broker, "?"), head = 1, end = len;
    const char *more = broker + len;
    bool socket = strncmp(broker, "unix:", 5) == 0 || strncmp(broker, "local", 5) == 0;
    while (end && broker[end - 1] == '/')
        end--;
    if (strncmp(broker, "mqtt", 4) == 0)
        head = (size_t)(strstr(broker, "//") ? strstr(broker, "//") + 2 - broker : 0);
    struct span rest = end > head ? span_of(broker + head, end - head) : (struct span){0};
    bool named = socket ? memmem(broker, end, "//", 2) != NULL : rest.len && memchr(rest.ptr, '/', rest.len);
    buf_append(out, broker, end);
    if (!named)
        buf_printf(out, "%s%s", socket ? "//" : "/", own);
    buf_printf(out, "/%s%s", id, more);
}

static void remember(struct server *server, const char *id, const char *path, const char *dir, const char *broker)
{
    size_t len = strlen(id);
    struct known_job *known = (struct known_job *)known_job_find(server, span_of(id, len));
    if (known) { /* what was there is gone: known_name has looked */
        HASH_DEL(server->known, known);
        free(known->path);
        free(known->word);
        free(known);
    }
    known = HASH_COUNT(server->known) < KNOWN_MOST ? calloc(1, sizeof *known + len + 1) : NULL;
    struct buf word = BUF_INIT;
    if (broker)
        put_word(&word, broker, server->user, id);
    else
        buf_puts(&word, dir ? path : id);
    if (known && (known->path = strdup(path)) && (known->word = buf_take(&word))) {
        known->followed = broker != NULL;
        known->dir = dir;
        memcpy(known->id, id, len);
        HASH_ADD_KEYPTR(hh, server->known, known->id, len, known);
    } else if (known) {
        free(known->path);
        free(known);
    }
    buf_done(&word);
}

/* ---- what was put somewhere ---- */

static void add_note(json_t *notes, const struct buf *text)
{
    if (json_array_size(notes) < NOTES_MOST)
        json_array_append_new(notes, text_json(text->data));
    else if (json_array_size(notes) == NOTES_MOST)
        json_array_append_new(notes, json_string("there are more directories of which the same is to be said"));
}

/* Does the id lead to another directory? */
static bool is_taken(struct server *server, const char *id, const char *path)
{
    char own[PATH_MAX];
    const struct known_job *known = known_job_find(server, span_str(id));
    if (job_own_path(span_str(id), own) && strcmp(own, path) != 0)
        return true;
    return known && strcmp(known->path, path) != 0 && (!known->dir || job_lies_in(known->dir, known->path));
}

static bool is_same(const char *path, const char *other)
{
    struct stat one, two;
    return strcmp(path, other) != 0 && stat(path, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

/* Is it a directory that is shown already, to which another way leads? */
static bool is_shown(struct server *server, const char *id, const char *path)
{
    char own[PATH_MAX];
    const struct known_job *known = known_job_find(server, span_str(id));
    return (foreign_is_id(span_str(id)) && job_own_path(span_str(id), own) && is_same(path, own)) ||
           (known && is_same(path, known->path));
}

/* The id by which it is asked for: its own one, unless that cannot stand in a path or is another directory's. Then it is made of
 * the path, so that it stays the same. */
static void name_dropped(struct server *server, json_t *row, const char *path, const char *dir, json_t *notes)
{
    char id[FOREIGN_ID_MOST + 24];
    const char *its = json_string_value(json_object_get(row, "id"));
    bool good = its && foreign_is_id(span_str(its));
    snprintf(id, sizeof id, "%s", good ? its : "job");
    if (!good || is_taken(server, id, path)) {
        int len = good ? (int)strnlen(its, FOREIGN_ID_MOST - 17) : 3;
        snprintf(id, sizeof id, "%.*s.%016" PRIx64, len, good ? its : "job", sum_add(0, path, strlen(path)));
        _cleanup_(buf_done) struct buf note = BUF_INIT;
        buf_printf(&note,
                   good ? "%s is a second directory of the job %s: it is shown as %s"
                        : "%s has no id that can be an address (%s): it is shown as %s",
                   path, its ? its : "", id);
        add_note(notes, &note);
        json_object_set_new(row, "id", json_string(id));
    }
    const struct known_job *known = known_job_find(server, span_str(id));
    if (!known || strcmp(known->path, path) != 0)
        remember(server, id, path, dir, NULL);
}

static bool is_below(const char *dir, const char *path)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    return strncmp(path, dir, len) == 0 && path[len] == '/';
}

bool known_job_learn(struct server *server, json_t *row, const char *dir, const char *broker, json_t *notes)
{
    char home[PATH_MAX];
    const char *id = json_string_value(json_object_get(row, "id")),
               *path = json_string_value(json_object_get(row, "path"));
    if (!id || !path)
        return false;
    if (!broker && dirs_jobs_find(home, sizeof home, NULL) == 0 && !dir && is_below(home, path)) {
        if (strcmp(text_base(path), id) != 0)
            name_dropped(server, row, path, "/", notes); /* links out of one's own directory are one's own */
        return true;
    }
    if (dir && !is_below(dir, path)) /* of the record: the list of one's own has it */
        return false;
    if (dir && !job_lies_in(dir, path)) {
        _cleanup_(buf_done) struct buf note = BUF_INIT;
        buf_printf(&note, "%s is left out: it leads out of that directory, or its name is no UTF-8", path);
        add_note(notes, &note);
        return false;
    }
    if (dir && is_shown(server, id, path))
        return false;
    if (dir)
        name_dropped(server, row, path, dir, notes);
    else if (*path == '/' && foreign_is_id(span_str(id)) && !known_job_find(server, span_str(id)))
        remember(server, id, path, NULL, broker);
    return true;
}
