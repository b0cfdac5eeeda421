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
#include "lang/reply.h"
#include "lang/request.h"

/* The values of the only result of a request with one action; false, with *ret_why, when there is none. */
static bool ask_values(struct omis_session *session, struct arena *arena, const char *request,
                       const struct value **ret_values, size_t *ret_count, const char **ret_why)
{
    Omis_reply reply = omis_session_query(session, request);
    const Omis_object_result *whole = reply[0], *result = whole && whole->obj_list && reply[1] ? reply[1] : NULL;
    bool answered = whole && whole->obj_list && whole->status < OMIS_FIRST_ERROR && result && result->obj_list;
    if (!result || !result->obj_list)
        result = whole;
    const char *text = result && result->result ? result->result : "";
    bool good = answered && result->status < OMIS_FIRST_ERROR;
    size_t len = good ? reply_result_length(text) : strlen(text);
    char *copy = arena_dup(arena, text, len); /* values point into it */
    struct err err;
    *ret_why = copy ? copy : "out of memory";
    if (good && copy && values_parse(arena, span_of(copy, len), ret_values, ret_count, &err) < 0) {
        *ret_why = "the monitor's answer is no list of values";
        good = false;
    }
    omis_reply_free(reply);
    return good && copy;
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

static void visit_strings(const struct visit *visit, const struct value *list)
{
    if (list->kind != VALUE_LIST)
        return;
    for (size_t i = 0; i < list->list.count; i++) {
        const struct value *item = &list->list.items[i];
        _cleanup_(freep) char *name = item->kind == VALUE_STRING ? strndup(item->text.ptr, item->text.len) : NULL;
        if (name)
            visit->fn(visit->ctx, name);
    }
}

/* services(): integer numfully, string* fully_impl, integer numpart, string* part_impl */
static bool visit_extension(const struct visit *visit, struct span prefix)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    quoted_request(&request, "services", prefix);
    const struct value *values;
    size_t count;
    const char *why;
    if (request.failed || !ask_values(visit->session, &arena, request.data, &values, &count, &why)) {
        fprintf(stderr, "scry omis: cannot list the services: %s\n", request.failed ? "out of memory" : why);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        visit_strings(visit, &values[i]);
    return true;
}

bool omis_services_each(struct omis_session *session, void (*fn)(void *ctx, const char *name), void *ctx)
{
    const struct visit visit = {session, fn, ctx};
    if (!visit_extension(&visit, span_of("", 0)))
        return false;
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    const struct value *values;
    size_t count;
    const char *why;
    if (!ask_values(session, &arena, ": extensions()", &values, &count, &why)) {
        fprintf(stderr, "scry omis: cannot list the extensions: %s\n", why);
        return false;
    }
    bool good = true;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; values[i].kind == VALUE_LIST && j < values[i].list.count; j++)
            if (values[i].list.items[j].kind == VALUE_STRING)
                good = visit_extension(&visit, values[i].list.items[j].text) && good;
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
    const struct value *values;
    size_t count;
    *ret_why = "out of memory";
    if (request.failed || !ask_values(session, arena, request.data, &values, &count, ret_why))
        return false;
    for (size_t i = 0; i < INFO_COUNT; i++) {
        bool present = i < count && values[i].kind == VALUE_STRING;
        ret_info[i] = present ? arena_dup(arena, values[i].text.ptr, values[i].text.len) : "";
        if (!ret_info[i])
            return false;
    }
    return true;
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
    if (result)
        printf("  %s %s\n", event ? "sets" : "returns", result + 2 + strspn(result + 2, " "));
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
