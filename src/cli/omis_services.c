/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis_services.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/omis_print.h"
#include "client/client.h"
#include "lang/value.h"

/* What the monitor answered to a request with one action. */
struct answer {
    struct omis_reader *reader;
    const struct omis_value *values; /* empty when why */
    const char *why;                 /* there are none, or NULL */
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

static void quoted_request(struct buf *out, const char *service, struct span argument)
{
    buf_printf(out, ": %s(", service);
    value_print_string(out, argument);
    buf_putc(out, ')');
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
    quoted_request(&request, "services", span_str(prefix));
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

enum { INFO_NAME, INFO_KIND, INFO_SIGNATURE, INFO_CLASS, INFO_DOC, INFO_STATE, INFO_COUNT };

static const char *const info_keys[INFO_COUNT] = {"name", "kind", "signature", "class", "doc", "state"};

/* The six strings of scry_service_get_info, in the arena. */
static bool get_info(struct omis_session *session, struct arena *arena, const char *name,
                     const char *ret_info[INFO_COUNT], const char **ret_why)
{
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    quoted_request(&request, "scry_service_get_info", span_str(name));
    _cleanup_(answer_done) struct answer answer = ask(session, &request);
    *ret_why = answer.why ? arena_dup(arena, answer.why, strlen(answer.why)) : "out of memory";
    for (size_t i = 0; i < INFO_COUNT && !answer.why; i++) {
        const char *text = omis_text(omis_item(answer.values, i), NULL);
        ret_info[i] = arena_dup(arena, text, strlen(text));
        if (!ret_info[i])
            return false;
    }
    if (!*ret_why)
        *ret_why = "out of memory";
    return !answer.why;
}

static const char *class_word(const char *class)
{
    return strcmp(class, "R") == 0 ? "required" : strcmp(class, "P") == 0 ? "required in part" : "optional";
}

bool omis_services_explain(struct omis_session *session, const char *name)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const char *info[INFO_COUNT], *why;
    if (!get_info(session, &arena, name, info, &why)) {
        printf("%s: ", name);
        omis_print_safely(stdout, why, strlen(why));
        putchar('\n');
        return false;
    }
    const char *bold = session->color ? "\033[1m" : "", *plain = session->color ? "\033[0m" : "";
    printf("%s%s%s: %s\n", bold, info[INFO_NAME], plain, info[INFO_DOC]);
    const char *result = strstr(info[INFO_SIGNATURE], "->");
    int params = result ? (int)(result - info[INFO_SIGNATURE]) : (int)strlen(info[INFO_SIGNATURE]);
    while (params > 0 && info[INFO_SIGNATURE][params - 1] == ' ')
        params--;
    bool event = strcmp(info[INFO_KIND], "event") == 0;
    printf("  %s(%.*s)%s\n", info[INFO_NAME], params, info[INFO_SIGNATURE], event ? " : ..." : "");
    if (result) { /* behind a '!' are errors, which the reference lists */
        result += 2 + strspn(result + 2, " ");
        int len = (int)strcspn(result, "!");
        while (len > 0 && result[len - 1] == ' ')
            len--;
        printf("  %s %.*s\n", event ? "sets" : "returns", len, result);
    }
    printf("  %s service, %s by OMIS\n", info[INFO_KIND], class_word(info[INFO_CLASS]));
    if (*info[INFO_STATE])
        printf("  not available here: %s\n", info[INFO_STATE]);
    return true;
}

static void list_one(void *ctx, const char *name)
{
    struct omis_session *session = ctx;
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const char *info[INFO_COUNT], *why;
    if (!get_info(session, &arena, name, info, &why)) {
        info[INFO_NAME] = name;
        for (size_t i = INFO_KIND; i < INFO_COUNT; i++)
            info[i] = "";
    }
    if (session->json) {
        json_t *object = json_object();
        for (size_t i = 0; i < INFO_COUNT; i++)
            json_object_set_new(object, info_keys[i], json_string(info[i]));
        json_dumpf(object, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(object);
    } else {
        printf("%-32s %-12s %s  %s\n", info[INFO_NAME], info[INFO_KIND], info[INFO_CLASS], info[INFO_DOC]);
    }
}

static void list_name(void *ctx, const char *name)
{
    puts(name);
}

bool omis_services_list(struct omis_session *session)
{
    /* Like ls: the bare names, one a line, are what a script or completion wants. */
    bool bare = !session->json && !isatty(STDOUT_FILENO);
    return omis_services_each(session, bare ? list_name : list_one, session);
}
