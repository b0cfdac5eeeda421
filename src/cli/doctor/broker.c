/* SPDX-License-Identifier: Apache-2.0 */
/* Are there brokers through which jobs can be seen from elsewhere: one's own, those in the file of brokers, that of SCRY_BROKER? */
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/loop.h"
#include "broker/link.h"
#include "broker/local.h"

enum { CONNECT_SECONDS = 4 };

struct trial {
    struct loop *loop;
    bool connected;
    int places; /* not yet tried */
    char why[256];
};

static void on_connected(void *ctx, bool session_present)
{
    struct trial *trial = ctx;
    trial->connected = true;
    loop_stop(trial->loop);
}

static void on_lost(void *ctx, const char *why)
{
    struct trial *trial = ctx;
    snprintf(trial->why, sizeof trial->why, "%s", why);
    if (--trial->places <= 0)
        loop_stop(trial->loop);
}

static void on_published(void *ctx, int id)
{
}

static void on_late(void *ctx)
{
    struct trial *trial = ctx;
    loop_stop(trial->loop);
}

/* Connects, and says goodbye: a broker that refuses does so before that. */
static void try_to_connect(struct finding *finding, const struct broker_url *url)
{
    static const struct link_events events = {.connected = on_connected, .lost = on_lost, .published = on_published};
    struct trial trial = {.places = url->place_count};
    char name[64], client[32];
    struct link *link = NULL;
    struct err err = {0};
    broker_url_show(url, name, sizeof name);
    snprintf(client, sizeof client, "scry-doctor-%d", (int)getpid());
    snprintf(trial.why, sizeof trial.why, "no answer within %d s", CONNECT_SECONDS);
    if (loop_new(&trial.loop) < 0)
        return finding_set(finding, FINDING_WARN, "not tried: %s", strerror(ENOMEM));
    struct link_options options = {.url = url, .client = client, .events = &events, .ctx = &trial};
    if (link_open(&link, trial.loop, &options, &err) == 0 &&
        loop_add_timer(trial.loop, CONNECT_SECONDS * (uint64_t)NS_PER_SECOND, 0, on_late, &trial))
        loop_run(trial.loop);
    link_close(link, true);
    loop_free(trial.loop);
    if (trial.connected) {
        finding_set(finding, FINDING_OK, "SCRY_BROKER: %s answers", name);
    } else {
        finding_set(finding, FINDING_WARN, "SCRY_BROKER: %s: %s; jobs are published when it is there", name,
                    *err.text ? err.text : trial.why);
        finding_remedy(finding, "ask who runs it, or correct the URL, see scry-brokers(5)");
    }
}

/* The first line of the file that cannot be used. */
static bool check_names(struct finding *finding)
{
    _cleanup_(buf_done) struct buf names = BUF_INIT;
    struct broker_url url;
    struct err err;
    int code = broker_url_names(&names, &err);
    char *name, *rest = names.data;
    while (code == 0 && rest && (name = strtok_r(NULL, " ", &rest))) {
        char word[256];
        snprintf(word, sizeof word, "@%s", name);
        code = broker_url_parse(word, &url, &err);
    }
    if (code == 0)
        return true;
    finding_set(finding, FINDING_WARN, "%s", err.text);
    finding_remedy(finding, "correct that line, see scry-brokers(5)");
    return false;
}

void doctor_broker(struct finding *finding)
{
    char program[PATH_MAX];
    struct broker_local found;
    struct err err;
    const char *word = getenv("SCRY_BROKER");
    struct broker_url url;
    if (word && *word) {
        if (broker_url_parse(word, &url, &err) == 0 && !url.local)
            return try_to_connect(finding, &url);
        if (!broker_url_is(word) || broker_url_parse(word, &url, &err) < 0) {
            finding_set(finding, FINDING_WARN, "SCRY_BROKER: %s; jobs are published nowhere", err.text);
            finding_remedy(finding, "correct the variable, see scry-brokers(5)");
            return;
        }
    }
    if (!check_names(finding))
        return;
    if (broker_local_program(program, &err) < 0) {
        finding_set(finding, FINDING_WARN,
                    "no mosquitto is installed: jobs are seen from elsewhere only through a broker that "
                    "others run, not by --broker local");
        finding_remedy(finding, "install the package mosquitto, or name a broker, see scry-brokers(5)");
    } else if (broker_local_find(&found, &err) < 0) {
        finding_set(finding, FINDING_WARN, "%s", err.text);
    } else {
        finding_set(finding, FINDING_OK, "%s; a private broker %s", program,
                    found.answers ? "runs" : "is started when --broker local needs it");
    }
}
