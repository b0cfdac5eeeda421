/* SPDX-License-Identifier: Apache-2.0 */
/* Topics, URLs and the file `brokers` from any bytes; the first byte says which. What is accepted is written as it was read. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/system/dirs.h"
#include "broker/topics.h"
#include "broker/url.h"
#include "fuzz.h"

static void fuzz_topic(const char *text)
{
    static struct topic topic;
    memset(&topic, 0xa5, sizeof topic);
    if (!topic_parse(text, &topic))
        return;
    fuzz_expect(*topic.owner && strlen(topic.owner) < sizeof topic.owner && strlen(topic.job) < sizeof topic.job);
    fuzz_expect(strlen(topic.name) < sizeof topic.name && strlen(topic.rest) < sizeof topic.rest);
    struct buf out = BUF_INIT;
    switch (topic.kind) {
    case TOPIC_AGAIN:
        topic_put_again(&out, topic.owner, topic.job, topic.rest, "");
        topic_put_level(&out, topic.name);
        break;
    case TOPIC_STORED:
        topic_put(&out, topic.owner, topic.job, "stored", topic.rest);
        break;
    case TOPIC_REVOKED:
        fuzz_expect(!*topic.job);
        topic_put_revoked(&out, topic.owner);
        break;
    default:
        fuzz_expect(topic.kind == TOPIC_STREAM ? *topic.name != 0 : topic.kind <= TOPIC_UNKNOWN && !*topic.name);
    }
    /* "+" as a name is a name when it is read, and all of them when it is written */
    if (out.len && strcmp(topic.owner, "+") != 0 && strcmp(topic.job, "+") != 0 && strcmp(topic.rest, "+") != 0)
        fuzz_expect(strcmp(out.data, text) == 0);
    buf_done(&out);
}

static void fuzz_url(const char *word)
{
    static struct broker_url url, again;
    struct err err = {0};
    int code = broker_url_parse(word, &url, &err);
    fuzz_expect(code == 0 || (code < 0 && *err.text));
    if (code < 0)
        return;
    fuzz_expect(broker_url_is(word));
    fuzz_expect(url.place_count ? !*url.path : *url.path == '/');
    struct buf out = BUF_INIT, twice = BUF_INIT;
    broker_url_put(&out, &url);
    if (broker_url_parse(out.data, &again, &err) < 0) {
        fprintf(stderr, "%s: %s\n", out.data, err.text);
        abort();
    }
    broker_url_put(&twice, &again);
    fuzz_expect(strcmp(out.data, twice.data) == 0 && strcmp(url.password, again.password) == 0);
    buf_done(&out);
    buf_done(&twice);
}

static char dir[64], file[80];

/* What a broker of this machine (`local`) is found in is made for it. */
static void remove_dir(void)
{
    rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!*dir) {
        atexit(remove_dir);
        snprintf(dir, sizeof dir, "/tmp/scry-fuzz-broker-%d", (int)getpid());
        snprintf(file, sizeof file, "%s/scry/brokers", dir);
        setenv("XDG_CONFIG_HOME", dir, 1);
        setenv("SCRY_RUNTIME_DIR", dir, 1);
    }
    if (size == 0)
        return 0;
    char *text = strndup((const char *)data + 1, size - 1);
    if (data[0] == 't') {
        fuzz_topic(text);
    } else if (data[0] == 'u') {
        fuzz_url(text);
    } else if (data[0] == 'f') {
        fuzz_expect(mkdir(dir, 0700) == 0 || errno == EEXIST);
        char folder[80];
        snprintf(folder, sizeof folder, "%s/scry", dir);
        fuzz_expect(mkdir(folder, 0700) == 0 || errno == EEXIST);
        FILE *out = fopen(file, "w");
        fuzz_expect(out && fwrite(data + 1, 1, size - 1, out) == size - 1);
        fclose(out);
        fuzz_url("@a/b/c");
        unlink(file);
        rmdir(folder);
    }
    free(text);
    return 0;
}
