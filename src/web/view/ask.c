/* SPDX-License-Identifier: Apache-2.0 */
#include "web/view/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- members ---- */

static const struct member {
    const char *name;
    enum { MEMBER_NUMBER, MEMBER_TEXT } type;
    size_t at;
    size_t has_at; /* a bool that says whether it was there; 0: none */
    int64_t least, most, absent;
} members[] = {
    {"level", MEMBER_NUMBER, offsetof(struct asked, level), 0, 0, 40, 0},
    {"index", MEMBER_NUMBER, offsetof(struct asked, index), 0, 0, INT64_C(1) << 40, 0},
    {"from", MEMBER_NUMBER, offsetof(struct asked, from), offsetof(struct asked, has_from), -TIMELINE_LIMIT_NS,
     TIMELINE_LIMIT_NS, 0},
    {"to", MEMBER_NUMBER, offsetof(struct asked, to), offsetof(struct asked, has_to), -TIMELINE_LIMIT_NS,
     TIMELINE_LIMIT_NS, 0},
    {"limit", MEMBER_NUMBER, offsetof(struct asked, limit), 0, 1, 10000, 1000},
    {"lane", MEMBER_NUMBER, offsetof(struct asked, lane), 0, 0, VIEW_LANES, 0},
    {"at", MEMBER_NUMBER, offsetof(struct asked, at), 0, -TIMELINE_LIMIT_NS, TIMELINE_LIMIT_NS, 0},
    {"depth", MEMBER_NUMBER, offsetof(struct asked, depth), 0, 0, 1 << 20, -1},
    {"values", MEMBER_NUMBER, offsetof(struct asked, values), 0, 0, 1, 0},
    {"lanes", MEMBER_TEXT, .at = offsetof(struct asked, lanes)},
    {"processes", MEMBER_TEXT, .at = offsetof(struct asked, processes)},
    {"function", MEMBER_TEXT, .at = offsetof(struct asked, function)},
    {"file", MEMBER_TEXT, .at = offsetof(struct asked, file)},
    {"process", MEMBER_TEXT, .at = offsetof(struct asked, process)},
    {"program", MEMBER_TEXT, .at = offsetof(struct asked, program)},
    {"thread", MEMBER_TEXT, .at = offsetof(struct asked, thread)},
};

static int number_of(const json_t *value, int64_t *ret_number)
{
    if (json_is_integer(value)) {
        *ret_number = json_integer_value(value);
        return 0;
    }
    const char *text = json_string_value(value);
    char *end;
    errno = 0;
    long long number = text ? strtoll(text, &end, 10) : 0;
    if (!text || !*text || *end || errno || strchr(" \t\n\v\f\r+", *text))
        return -EINVAL;
    *ret_number = number;
    return 0;
}

static int set_member(struct asked *asked, const struct member *member, const json_t *value, struct err *err)
{
    char *at = (char *)asked + member->at;
    if (member->type == MEMBER_TEXT) {
        const char *text = json_string_value(value);
        if (!text)
            return err_set(err, -EINVAL, "%s is no text", member->name);
        memcpy(at, &text, sizeof text);
        return 0;
    }
    int64_t number;
    if (number_of(value, &number) < 0 || number < member->least || number > member->most)
        return err_set(err, -EINVAL, "%s is no integer from %" PRId64 " to %" PRId64, member->name, member->least,
                       member->most);
    memcpy(at, &number, sizeof number);
    if (member->has_at)
        *(bool *)((char *)asked + member->has_at) = true;
    return 0;
}

/* Whether the question may have the member, and *ret_must: it has to. */
static bool is_member(const struct question *question, const char *name, bool *ret_must)
{
    size_t len = strlen(name);
    for (const char *at = question->members; *at; at += strcspn(at, " "), at += *at == ' ') {
        size_t size = strcspn(at, " !");
        *ret_must = at[size] == '!';
        if (size == len && memcmp(at, name, len) == 0)
            return true;
    }
    return false;
}

static int set_members(struct asked *asked, const struct question *question, struct err *err)
{
    const char *key;
    json_t *value;
    bool must;
    json_object_foreach(asked->json, key, value)
    {
        if (strcmp(key, "id") != 0 && strcmp(key, "ask") != 0 && !is_member(question, key, &must))
            return err_set(err, -EINVAL, "%s has no member %.40s: it has %s", question->name, key,
                           *question->members ? question->members : "none");
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (members[i].type == MEMBER_NUMBER)
            memcpy((char *)asked + members[i].at, &members[i].absent, sizeof members[i].absent);
        if (!is_member(question, members[i].name, &must))
            continue;
        value = json_object_get(asked->json, members[i].name);
        if (!value && must)
            return err_set(err, -EINVAL, "%s needs %s", question->name, members[i].name);
        int code = value ? set_member(asked, &members[i], value, err) : 0;
        if (code < 0)
            return code;
    }
    if (asked->has_from && asked->has_to && asked->to <= asked->from)
        return err_set(err, -EINVAL, "to has to be later than from");
    return 0;
}

int asked_numbers(const char *text, size_t count, bool *ret_set, struct err *err)
{
    memset(ret_set, !text, count * sizeof *ret_set);
    for (const char *at = text; at && *at;) {
        char *end;
        errno = 0;
        unsigned long first = strtoul(at, &end, 10), last = first;
        bool good = end > at && *at >= '0' && *at <= '9';
        if (good && *end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
            good = end > at && *at >= '0' && *at <= '9';
        }
        if (!good || errno || last < first || (*end && (*end != ',' || !end[1])))
            return err_set(err, -EINVAL, "\"%.60s\" is no list of numbers such as 0-63,70", text);
        for (size_t i = first; i <= last && i < count; i++)
            ret_set[i] = true;
        at = end + (*end == ',');
    }
    return 0;
}

/* ---- questions ---- */

static const struct question questions[] = {
    {"picture", NEEDS_TIMES, "", answer_picture},
    {"tiles", NEEDS_TIMES, "level! index! lanes", answer_tiles},
    {"selection", NEEDS_CALLS | NEEDS_TIMES | NEEDS_MESSAGES, "from to lanes limit", answer_selection, .slow = true,
     .whole = true},
    {"search", NEEDS_CALLS | NEEDS_TIMES, "function! from to lanes limit values", answer_search, .slow = true},
    {"call", NEEDS_TIMES, "lane! at! depth", answer_call, .slow = true},
    {"profile", NEEDS_FUNCTIONS, "", answer_profile, .whole = true},
    {"volume", NEEDS_NOTHING, "", answer_volume},
    {"tree", NEEDS_FUNCTIONS, "processes limit", answer_tree, .whole = true},
    {"distributions", NEEDS_NOTHING, "", answer_distributions},
    {"source", NEEDS_FUNCTIONS, "file", answer_source},
    {"samples", NEEDS_NOTHING, "process program thread from to", answer_samples},
    {"forget", NEEDS_NOTHING, "", answer_forget},
};

static const struct question *question_find(const char *name)
{
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (strcmp(questions[i].name, name) == 0)
            return &questions[i];
    return NULL;
}

int asked_parse(struct asked *ret_asked, const struct question **ret_question, const char *line, size_t size,
                struct err *err)
{
    json_error_t error;
    *ret_asked = (struct asked){.json = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error)};
    if (!json_is_object(ret_asked->json))
        return err_set(err, -EINVAL, "the question is no JSON object: %s",
                       ret_asked->json ? "it is something else" : error.text);
    const json_t *id = json_object_get(ret_asked->json, "id");
    const char *name = json_string_value(json_object_get(ret_asked->json, "ask"));
    ret_asked->id = json_integer_value(id);
    if (id && !json_is_integer(id))
        return err_set(err, -EINVAL, "id is no integer");
    if (!name)
        return err_set(err, -EINVAL, "the question has no text \"ask\"");
    *ret_question = question_find(name);
    if (!*ret_question)
        return err_set(err, -EINVAL, "there is no question \"%.40s\"", name);
    return set_members(ret_asked, *ret_question, err);
}

void asked_done(struct asked *asked)
{
    json_decref(asked->json);
    *asked = (struct asked){0};
}

/* ---- answers ---- */

int answer_forget(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    (void)view, (void)asked, (void)out;
    return err_set(err, -ECANCELED, "nobody waits for the answer any more");
}

static const char *kind_of(int code)
{
    switch (code) {
    case -EINVAL:
        return "bad_question";
    case -ENOENT:
        return "not_found";
    case -ENODATA:
        return "no_trace";
    case -ENOMEM:
        return "out_of_memory";
    case -ECANCELED:
        return "forgotten";
    default:
        return "unreadable";
    }
}

void asked_refuse(int64_t id, const struct err *err, struct buf *out)
{
    buf_printf(out, "{\"id\":%" PRId64 ",\"error\":{\"kind\":\"%s\",\"text\":", id, kind_of(err->code));
    view_put_text(out, err->text);
    buf_puts(out, "}}\n");
}

void asked_answer(struct view *view, const struct question *question, const struct asked *asked, struct buf *out)
{
    struct err err = {0};
    size_t before = out->len;
    buf_printf(out, "{\"id\":%" PRId64 ",\"ok\":", asked->id);
    int code = 0;
    const char *whole = whole_find(view, question, asked);
    size_t begin = out->len;
    if (whole)
        buf_puts(out, whole);
    else if ((question->needs & NEEDS_FUNCTIONS) && !view->report.functions)
        code = err_set(&err, view->functions_err.code, "%s", view->functions_err.text);
    if (code == 0 && !whole)
        code = question->answer(view, asked, out, &err);
    if (code == 0 && !whole && !out->failed)
        whole_keep(view, question, asked, out->data + begin, out->len - begin);
    buf_puts(out, "}\n");
    if (out->failed) { /* it had nothing but this answer */
        buf_done(out);
        before = 0;
        code = err_set(&err, -ENOMEM, "there is not enough memory for this answer");
    }
    if (code == 0)
        return;
    if (!err.code)
        err_set(&err, code, "cannot be answered: %s", strerror(-code));
    out->len = before;
    asked_refuse(asked->id, &err, out);
}
