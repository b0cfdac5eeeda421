/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/about.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

bool about_look(struct about *about)
{
    struct job_info info;
    enum job_state state;
    if (job_info_read_state(about->dir, &info, &state, NULL) < 0) {
        job_info_done(&info);
        if (!about->known)
            return false;
        state = job_state(about->dir, &about->info); /* the directory is gone: what it said holds */
        bool changed = state != about->state;
        about->state = state;
        return changed;
    }
    bool other = !about->known || state != about->state || !json_equal(info.json, about->info.json);
    job_info_done(&about->info);
    about->info = info;
    about->state = state;
    about->known = true;
    return other;
}

void about_done(struct about *about)
{
    if (about->known)
        job_info_done(&about->info);
    about->known = false;
}

bool about_is_over(const struct about *about)
{
    return about->known && (about->state == JOB_ENDED || about->state == JOB_LOST);
}

static const char *state_name(const struct about *about)
{
    if (about->state == JOB_ENDED)
        return job_end_name(&about->info.result);
    return about->state == JOB_LOST ? "lost" : "running";
}

static void put_json_take(struct buf *out, json_t *json)
{
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(json);
    if (text)
        buf_puts(out, text);
}

void about_put_state(const struct about *about, int64_t last_seq, const char *address, bool complete, struct buf *out)
{
    char path[PATH_MAX];
    const struct job_info *info = &about->info;
    put_json_take(out,
                  json_pack("{s:i, s:s, s:o, s:s, s:s, s:O?, s:o, s:s, s:I, s:s?, s:b, s:b}", "version", 1, "job",
                            info->id, "owner", text_json(about->owner), "node", info->host, "state", state_name(about),
                            "info", info->json, "dir", text_json(realpath(about->dir, path) ? path : about->dir),
                            "boot_id", info->boot_id, "last_seq", (json_int_t)last_seq, "address", address, "watched",
                            about->state != JOB_UNWATCHED, "complete", (int)complete));
}

void about_put_beat(const struct about *about, uint64_t beat, bool connected, int64_t last_seq, struct buf *out)
{
    json_t *json =
        json_pack("{s:b, s:f, s:f, s:I}", "connected", (int)connected, "time", (double)clock_wall_ns() / NS_PER_SECOND,
                  "lease_seconds", (double)PUBLISH_LEASE_SECONDS, "last_seq", (json_int_t)last_seq);
    if (beat)
        json_object_set_new(json, "beat", json_integer((json_int_t)beat));
    if (beat && (about->state == JOB_RUNNING || about->state == JOB_UNWATCHED))
        json_object_set_new(json, "age", json_real(job_age_seconds(about->dir, &about->info, 0)));
    put_json_take(out, json);
}
