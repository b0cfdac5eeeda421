/* SPDX-License-Identifier: Apache-2.0 */
/* Are there brokers through which jobs can be seen from elsewhere: one's own, those in the file of brokers, that of
 * SCRY_BROKER? */
#include "cli/doctor/doctor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "broker/local.h"
#include "broker/url.h"
#include "cli/common/find.h"

static void try_to_reach(struct finding *finding, const char *word, const struct broker_url *url)
{
    char name[128];
    struct err err = {0};
    broker_url_show(url, name, sizeof name);
    if (find_reach(word, &err) == 0) {
        finding_set(finding, FINDING_OK, "SCRY_BROKER: %s answers", name);
    } else {
        finding_set(finding, FINDING_WARN, "SCRY_BROKER: %s: %s; jobs are not published as long as that is so", name,
                    err.text);
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
            return try_to_reach(finding, word, &url);
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
