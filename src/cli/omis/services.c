/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis/services.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "cli/omis/print.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/text/text.h"
#include "lang/put.h"
#include "lang/results.h"

/* The monitor's answer to a request with one action. */
struct answer {
    struct omis_reader *reader;
    const struct omis_value *values; /* empty if why */
    const char *why;                 /* why there are no values, or NULL */
};

static struct answer ask(struct omis_session *session, const struct buf *request)
{
    struct answer answer = {.reader =
                                omis_reader_take(request->failed ? NULL : omis_session_query(session, request->data))};
    bool found = omis_reader_find(answer.reader, 1);
    answer.values = omis_reader_values(answer.reader);
    answer.why = omis_reader_error(answer.reader);
    if (!found && !answer.why)
        answer.why = request->failed ? "out of memory" : "the monitor gave no result";
    return answer;
}

static void answer_done(struct answer *answer)
{
    omis_reader_free(answer->reader);
}

/* ---- the list ---- */

struct visit {
    struct omis_session *session;
    void (*fn)(void *ctx, const char *name);
    void *ctx;
};

static void visit_strings(const struct visit *visit, const struct omis_value *list)
{
    for (size_t i = 0; i < omis_count(list); i++)
        if (omis_kind(omis_item(list, i)) == OMIS_KIND_STRING)
            visit->fn(visit->ctx, omis_text(omis_item(list, i), NULL));
}

/* services(): integer numfully, string* fully_impl, integer numpart, string* part_impl */
static bool visit_extension(const struct visit *visit, const char *prefix)
{
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    PUT_CALL(&request, "services", prefix);
    _cleanup_(answer_done) struct answer answer = ask(visit->session, &request);
    if (answer.why) {
        fprintf(stderr, "scry omis: cannot list the services: %s\n", answer.why);
        return false;
    }
    for (size_t i = 0; i < omis_count(answer.values); i++)
        visit_strings(visit, omis_item(answer.values, i));
    return true;
}

bool omis_services_each(struct omis_session *session, void (*fn)(void *ctx, const char *name), void *ctx)
{
    const struct visit visit = {session, fn, ctx};
    if (!visit_extension(&visit, ""))
        return false;
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    buf_puts(&request, ": extensions()");
    _cleanup_(answer_done) struct answer answer = ask(session, &request);
    if (answer.why) {
        fprintf(stderr, "scry omis: cannot list the extensions: %s\n", answer.why);
        return false;
    }
    bool good = true;
    const struct omis_value *prefixes = omis_item(answer.values, 1);
    for (size_t i = 0; i < omis_count(prefixes); i++)
        good = visit_extension(&visit, omis_text(omis_item(prefixes, i), NULL)) && good;
    return good;
}

/* ---- one service ---- */

struct info {
    const char *name, *kind, *signature, *class, *doc, *unsupported;
};
#define INFO(member) DECODE(struct info, member)
static const struct decode_field info_fields[] = {
    INFO(name), INFO(kind), INFO(signature), INFO(class), INFO(doc), INFO(unsupported), {0}};

/* What scry_service_get_info tells; the texts are the answer's. */
static bool get_info(struct omis_session *session, const char *name, struct answer *ret_answer, struct info *ret_info)
{
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    struct decoder decoder;
    PUT_CALL(&request, "scry_service_get_info", name);
    *ret_answer = ask(session, &request);
    decoder_init(&decoder, SERVICE_INFO_RESULT, 0, info_fields);
    decode(&decoder, ret_answer->values, 0, ret_info);
    return !ret_answer->why;
}

static const char *class_word(const char *class)
{
    return strcmp(class, "R") == 0 ? "required" : strcmp(class, "P") == 0 ? "required in part" : "optional";
}

bool omis_services_explain(struct omis_session *session, const char *name)
{
    _cleanup_(answer_done) struct answer answer;
    struct info info;
    if (!get_info(session, name, &answer, &info)) {
        printf("%s: ", name);
        omis_print_safely(stdout, answer.why, strlen(answer.why));
        putchar('\n');
        return false;
    }
    const char *bold = session->color ? "\033[1m" : "", *plain = session->color ? "\033[0m" : "";
    printf("%s%s%s: %s\n", bold, info.name, plain, info.doc);
    const char *result = strstr(info.signature, "->");
    int params = result ? (int)(result - info.signature) : (int)strlen(info.signature);
    while (params > 0 && info.signature[params - 1] == ' ')
        params--;
    bool event = strcmp(info.kind, "event") == 0;
    printf("  %s(%.*s)%s\n", info.name, params, info.signature, event ? " : ..." : "");
    if (result) { /* errors follow a '!': only the reference lists them */
        result += 2 + strspn(result + 2, " ");
        int len = (int)strcspn(result, "!");
        while (len > 0 && result[len - 1] == ' ')
            len--;
        printf("  %s %.*s\n", event ? "sets" : "returns", len, result);
    }
    printf("  %s service, %s by OMIS\n", info.kind, class_word(info.class));
    if (*info.unsupported)
        printf("  not available here: %s\n", info.unsupported);
    return true;
}

static void list_one(void *ctx, const char *name)
{
    struct omis_session *session = ctx;
    _cleanup_(answer_done) struct answer answer;
    struct info info;
    if (!get_info(session, name, &answer, &info))
        info.name = name;
    if (session->json) {
        json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "name", info.name, "kind", info.kind, "signature",
                                   info.signature, "class", info.class, "doc", info.doc, "state", info.unsupported);
        json_dumpf(object, stdout, JSON_COMPACT | text_json_flags());
        putchar('\n');
        json_decref(object);
    } else {
        printf("%-32s %-12s %s  %s\n", info.name, info.kind, info.class, info.doc);
    }
}

static void list_name(void *ctx, const char *name)
{
    puts(name);
}

bool omis_services_list(struct omis_session *session)
{
    /* As with ls, scripts and completion get bare names, one a line. */
    bool bare = !session->json && !isatty(STDOUT_FILENO);
    return omis_services_each(session, bare ? list_name : list_one, session);
}
