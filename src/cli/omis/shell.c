/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis/shell.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "cli/common/cli.h"
#include "client/client.h"
#include "client/decode.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "lang/results.h"
#include "lang/token.h"

#include <ctype.h>
#include <errno.h>
#include <histedit.h>
#include <jansson.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uthash.h>
#include <wchar.h>

/* How `scry omis` shows replies. */

/* Whether any status in it is an error. */
static bool omis_reply_has_error(Omis_reply reply)
{
    for (size_t i = 0; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status >= OMIS_FIRST_ERROR)
                return true;
    return false;
}

/* ---- text ---- */

static const char *style_code(bool color, const char *code)
{
    return color ? code : "";
}

/* Writes control characters and bytes that are not UTF-8 as \xNN, so that no result can control the terminal. */
static void omis_print_safely(FILE *out, const char *text, size_t len)
{
    while (len) {
        size_t size = utf8_length(text, len);
        if (size == 0 || utf8_starts_control(text, size)) {
            size = size ? size : 1;
            for (size_t i = 0; i < size; i++)
                fprintf(out, "\\x%02x", (unsigned char)text[i]);
        } else {
            fwrite(text, 1, size, out);
        }
        text += size;
        len -= size;
    }
}

/* Values may be binary and contain NULs. Element 0 and errors are texts, in which "3#" means nothing. */
static size_t result_length(const Omis_object_result *result, bool action)
{
    bool value = action && result->status < OMIS_FIRST_ERROR;
    return value ? reply_result_length(result->result) : strlen(result->result);
}

static void print_result(FILE *out, const Omis_object_result *result, const char *indent, bool color)
{
    bool error = result->status >= OMIS_FIRST_ERROR;
    fputs(indent, out);
    if (*result->obj_list) {
        omis_print_safely(out, result->obj_list, strlen(result->obj_list));
        fputs(": ", out);
    }
    if (error) {
        fprintf(out, "%s%s%s", style_code(color, "\033[31m"), omis_status_name(result->status),
                result->result ? ": " : "");
        if (result->result)
            omis_print_safely(out, result->result, strlen(result->result));
        fputs(style_code(color, "\033[0m"), out);
    } else if (result->result) {
        omis_print_safely(out, result->result, result_length(result, true));
    } else {
        fputs("ok", out);
    }
    fputc('\n', out);
}

static void print_services(FILE *out, Omis_reply reply, const char *indent, bool color)
{
    for (size_t i = 1; reply[i]; i++) {
        if (!reply[i]->obj_list)
            fprintf(out, "%sno objects\n", indent);
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            print_result(out, result, indent, color);
    }
}

/* The word for a state of a conditional request, NULL for any other status. */
static const char *state_word(Omis_status status)
{
    switch (status) {
    case OMIS_CSR_DEFINED:
        return "defined";
    case OMIS_CSR_ENABLED:
        return "enabled";
    case OMIS_CSR_DISABLED:
        return "disabled";
    case OMIS_CSR_DELETED:
        return "deleted";
    case OMIS_CSR_TRIGGERED:
        return "triggered";
    default:
        return NULL;
    }
}

/* What follows a state: for states other than "triggered" only errors. */
static void print_state_services(FILE *out, Omis_reply reply, bool color)
{
    if (reply[0]->status == OMIS_CSR_TRIGGERED) {
        print_services(out, reply, "  ", color);
        return;
    }
    for (size_t i = 1; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status >= OMIS_FIRST_ERROR || result->result)
                print_result(out, result, "  ", color);
}

/* Prints a line for each result: "OBJECTS: RESULT", with errors by their names. Replies of a conditional request
 * (`first` false, or a state of 7.3.1) begin with a line that has the request's number. */
static void omis_print_text(FILE *out, Omis_reply reply, uint32_t number, bool color)
{
    const Omis_object_result *whole = reply[0];
    if (!whole || !whole->obj_list) {
        print_services(out, reply, "", color);
        return;
    }
    const char *word = state_word(whole->status);
    if (word) {
        bool undefined = whole->status == OMIS_CSR_DEFINED && !whole->result;
        fprintf(out, "%s[%u] %s%s%s", style_code(color, "\033[2m"), number, undefined ? "not " : "", word,
                style_code(color, "\033[0m"));
        if (*whole->obj_list) {
            fputs(": ", out);
            omis_print_safely(out, whole->obj_list, strlen(whole->obj_list));
        }
        if (whole->result) {
            fputs(": ", out);
            omis_print_safely(out, whole->result, strlen(whole->result));
        }
        fputc('\n', out);
        print_state_services(out, reply, color);
    } else if (whole->status >= OMIS_FIRST_ERROR) {
        print_result(out, whole, "", color);
        print_services(out, reply, "", color);
    } else {
        print_services(out, reply, "", color);
    }
}

/* ---- JSON ---- */

static char *base64(const char *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((len + 2) / 3 * 4 + 1), *to = text;
    if (!text)
        return NULL;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t word = (uint32_t)(unsigned char)bytes[i] << 16;
        if (left > 1)
            word |= (uint32_t)(unsigned char)bytes[i + 1] << 8;
        if (left > 2)
            word |= (unsigned char)bytes[i + 2];
        *to++ = digits[word >> 18];
        *to++ = digits[word >> 12 & 63];
        *to++ = left > 1 ? digits[word >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[word & 63] : '=';
    }
    *to = 0;
    return text;
}

static json_t *json_objects(const char *list)
{
    json_t *objects = json_array();
    while (*list) {
        size_t len = strcspn(list, ",");
        json_array_append_new(objects, json_stringn(list, len));
        list += len + (list[len] == ',');
    }
    return objects;
}

static json_t *json_result(const Omis_object_result *result, bool action)
{
    json_t *object = json_object();
    json_object_set_new(object, "objects", json_objects(result->obj_list));
    json_object_set_new(object, "status", json_integer(result->status));
    if (!result->result) {
        json_object_set_new(object, "result", json_null());
        return object;
    }
    size_t len = result_length(result, action);
    json_t *text = json_stringn(result->result, len); /* NULL when it is not UTF-8 */
    if (text) {
        json_object_set_new(object, "result", text);
    } else {
        _cleanup_(freep) char *encoded = base64(result->result, len);
        json_object_set_new(object, "result_base64", encoded ? json_string(encoded) : json_null());
    }
    return object;
}

/* Prints one JSON object on one line: {"request":N,"services":[[{"objects":[...],"status":N,"result":"..."}]]}. Results
 * that are not UTF-8 are in "result_base64" instead. */
static void omis_print_json(Omis_reply reply, uint32_t number)
{
    json_t *services = json_array();
    for (size_t i = 0; reply[i]; i++) {
        json_t *service = json_array();
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            json_array_append_new(service, json_result(result, i > 0));
        json_array_append_new(services, service);
    }
    json_t *root = json_pack("{s:I, s:o}", "request", (json_int_t)number, "services", services);
    text_print_json(root, JSON_COMPACT);
    json_decref(root);
}

enum { OMIS_WORDS_LIMIT = 20000 }; /* tokens come without end */

struct omis_word;

struct omis_words {
    struct omis_word *set; /* by text */
    size_t count;
};

struct omis_match {
    const char **words; /* sorted; freed by the caller, the texts are borrowed */
    size_t count;
    size_t common; /* length of the common prefix */
    bool service;  /* there is one match, and it is a service */
};

static Omis_reply omis_session_query(struct omis_session *session, const char *text);

void omis_lines_feed(struct omis_lines *lines, const char *bytes, size_t len)
{
    buf_drop(&lines->bytes, lines->used);
    lines->at -= lines->used;
    lines->used = 0;
    buf_append(&lines->bytes, bytes, len);
}

/* The next state, after one character outside of binary data. */
static void lines_step(struct omis_lines *lines, char c)
{
    bool digit = isdigit((unsigned char)c), word = isalnum((unsigned char)c) || c == '_';
    switch (lines->state) {
    case LINES_ESCAPE:
        lines->state = LINES_STRING;
        return;
    case LINES_STRING:
        lines->state = c == '"' ? LINES_PLAIN : c == '\\' ? LINES_ESCAPE : LINES_STRING;
        return;
    case LINES_NUMBER:
        if (digit && lines->number <= REQUEST_SIZE_LIMIT)
            lines->number = lines->number * 10 + (size_t)(c - '0');
        if (digit)
            return;
        break;
    case LINES_PLAIN:
    case LINES_WORD:
        break;
    }
    if (lines->state == LINES_PLAIN && digit) {
        lines->state = LINES_NUMBER;
        lines->number = (size_t)(c - '0');
    } else {
        lines->state = c == '"' ? LINES_STRING : word ? LINES_WORD : LINES_PLAIN;
    }
}

bool omis_lines_next(struct omis_lines *lines, bool last, struct span *ret_line)
{
    size_t start = lines->used, len = lines->bytes.len;
    while (lines->at < len) {
        char c = lines->bytes.data[lines->at++];
        if (c == '\n') {
            *ret_line = span_of(lines->bytes.data + start, lines->at - 1 - start);
            lines->used = lines->at;
            lines->state = LINES_PLAIN;
            return true;
        }
        if (c == '#' && lines->state == LINES_NUMBER && lines->number <= REQUEST_SIZE_LIMIT) {
            /* may point beyond the data: the rest will come */
            lines->at += lines->number;
            lines->state = LINES_PLAIN;
        } else {
            lines_step(lines, c);
        }
    }
    if (!last || len == start)
        return false;
    *ret_line = span_of(lines->bytes.data + start, len - start);
    lines->used = lines->at = len;
    lines->state = LINES_PLAIN;
    return true;
}

void omis_lines_done(struct omis_lines *lines)
{
    buf_done(&lines->bytes);
    *lines = (struct omis_lines){0};
}

/* What the shell completes: names of services, and tokens seen in replies. */

struct omis_word {
    bool service;
    UT_hash_handle hh;
    char text[];
};

static void omis_words_add(struct omis_words *words, struct span text, bool service)
{
    struct omis_word *word;
    HASH_FIND(hh, words->set, text.ptr, text.len, word);
    if (word || text.len == 0 || words->count >= OMIS_WORDS_LIMIT)
        return;
    word = calloc(1, sizeof *word + text.len + 1);
    if (!word)
        return;
    memcpy(word->text, text.ptr, text.len);
    word->service = service;
    HASH_ADD_KEYPTR(hh, words->set, word->text, text.len, word);
    words->count++;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Where the string that starts at `at` ends. */
static size_t skip_string(const char *text, size_t at, size_t len)
{
    for (at++; at < len && text[at] != '"'; at++)
        at += text[at] == '\\';
    return at < len ? at + 1 : len;
}

static void add_tokens(struct omis_words *words, const char *text, size_t len)
{
    struct token token;
    for (size_t at = 0; at < len;) {
        if (text[at] == '"') {
            at = skip_string(text, at, len);
        } else if (is_word(text[at])) {
            size_t start = at;
            while (at < len && is_word(text[at]))
                at++;
            struct span word = span_of(text + start, at - start);
            if (token_parse(word, &token))
                omis_words_add(words, word, false);
        } else {
            at++;
        }
    }
}

static void omis_words_add_reply(struct omis_words *words, Omis_reply reply)
{
    for (size_t i = 0; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++) {
            add_tokens(words, result->obj_list, strlen(result->obj_list));
            if (result->result && result->status < OMIS_FIRST_ERROR)
                add_tokens(words, result->result, strlen(result->result));
        }
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct omis_match omis_words_match(const struct omis_words *words, struct span prefix)
{
    struct omis_match match = {.words = calloc(words->count + 1, sizeof *match.words)};
    struct omis_word *word, *after;
    if (!match.words)
        return match;
    HASH_ITER(hh, words->set, word, after)
    {
        if (strlen(word->text) >= prefix.len && memcmp(word->text, prefix.ptr, prefix.len) == 0) {
            match.words[match.count++] = word->text;
            match.service = word->service;
        }
    }
    match.service = match.service && match.count == 1;
    qsort(match.words, match.count, sizeof *match.words, compare_words);
    if (match.count) {
        const char *first = match.words[0], *last = match.words[match.count - 1];
        while (first[match.common] && first[match.common] == last[match.common])
            match.common++;
    }
    return match;
}

static void omis_words_done(struct omis_words *words)
{
    HASH_FREE_ALL(words->set);
    *words = (struct omis_words){0};
}

/* The monitor's answer to a request with one action. */
struct answer {
    struct omis_reader *reader;
    const struct omis_value *values; /* empty if why */
    const char *why;                 /* why there are no values, or NULL */
};

static struct answer session_ask(struct omis_session *session, const struct buf *request)
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
    _cleanup_(answer_done) struct answer answer = session_ask(visit->session, &request);
    if (answer.why) {
        fprintf(stderr, "scry omis: cannot list the services: %s\n", answer.why);
        return false;
    }
    for (size_t i = 0; i < omis_count(answer.values); i++)
        visit_strings(visit, omis_item(answer.values, i));
    return true;
}

/* Calls fn with the name of each service of this monitor, extensions included. False, after printing why, if the
 * monitor could not be asked. */
static bool omis_services_each(struct omis_session *session, void (*fn)(void *ctx, const char *name), void *ctx)
{
    const struct visit visit = {session, fn, ctx};
    if (!visit_extension(&visit, ""))
        return false;
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    buf_puts(&request, ": extensions()");
    _cleanup_(answer_done) struct answer answer = session_ask(session, &request);
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
    *ret_answer = session_ask(session, &request);
    decoder_init(&decoder, SERVICE_INFO_RESULT, 0, info_fields);
    decode(&decoder, ret_answer->values, 0, ret_info);
    return !ret_answer->why;
}

static const char *class_word(const char *class)
{
    return strcmp(class, "R") == 0 ? "required" : strcmp(class, "P") == 0 ? "required in part" : "optional";
}

/* Prints signature, class and purpose of a service. False: there is none of this name. */
static bool omis_services_explain(struct omis_session *session, const char *name)
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
        text_print_json(object, JSON_COMPACT);
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

/* The error handler of omis_init has no parameter. */
static struct omis_session *the_session;

static void reply_print(struct omis_session *session, Omis_reply reply, uint32_t number)
{
    if (session->before_output)
        session->before_output(session->ctx);
    if (session->json)
        omis_print_json(reply, number);
    else
        omis_print_text(stdout, reply, number, session->color);
    fflush(stdout);
    if (session->after_output)
        session->after_output(session->ctx);
}

/* The parameter of the callback is the request's number. */
static void on_reply(Omis_reply reply, void *param)
{
    struct omis_session *session = the_session;
    uint32_t number = (uint32_t)(uintptr_t)param;
    reply_print(session, reply, number);
    if (session->seen)
        session->seen(session->ctx, reply);
    if (omis_reply_has_error(reply))
        session->failed = true;
    if (number == session->awaited)
        session->awaited = 0;
    else
        session->replies++;
    omis_reply_free(reply);
}

/* Debugging output, and errors that belong to no request: for people. */
static void on_error(Omis_reply reply)
{
    const Omis_object_result *result = reply[0];
    bool error = result && result->obj_list && result->status >= OMIS_FIRST_ERROR;
    if (the_session->before_output)
        the_session->before_output(the_session->ctx);
    fputs(error ? "scry omis: " : "debug: ", stderr);
    const char *text = result && result->obj_list && result->result ? result->result : "no description";
    omis_print_safely(stderr, text, strlen(text));
    fputc('\n', stderr);
    if (the_session->after_output)
        the_session->after_output(the_session->ctx);
    if (error)
        the_session->failed = true;
    omis_reply_free(reply);
}

bool omis_session_open(struct omis_session *session, const char *url, bool start)
{
    char program[] = "scry", no_start[] = "--omis-no-start", connect[PATH_MAX + 32];
    char *arguments[4] = {program, NULL}, **argv = arguments;
    int argc = 1;
    if (url) {
        if ((size_t)snprintf(connect, sizeof connect, "--omis-connect=%s", url) >= sizeof connect) {
            fprintf(stderr, "scry omis: --connect: the URL is too long\n");
            return false;
        }
        arguments[argc++] = connect;
    }
    if (!start)
        arguments[argc++] = no_start;
    the_session = session;
    session->interrupt_fd = -1;
    return omis_init(&argc, &argv, on_error, NULL) == OMIS_OK;
}

bool omis_session_handle(struct omis_session *session)
{
    omis_handler();
    return client_connected();
}

/* Waits for replies until `until_ns` (0: for ever). False: waiting longer is useless. */
static bool wait_for_replies(struct omis_session *session, uint64_t until_ns)
{
    int timeout = -1;
    if (until_ns) {
        uint64_t now = clock_now_ns();
        if (now >= until_ns)
            return false;
        timeout = (int)((until_ns - now) / 1000000 < 1000000 ? (until_ns - now) / 1000000 + 1 : 1000000);
    }
    struct pollfd events[] = {{.fd = omis_fd(), .events = POLLIN}, {.fd = session->interrupt_fd, .events = POLLIN}};
    if (events[0].fd < 0)
        return false;
    int count = poll(events, 2, timeout);
    if ((count < 0 && errno != EINTR) || session->interrupted)
        return false;
    return count > 0 && events[0].revents ? omis_session_handle(session) : true;
}

void omis_session_ask(struct omis_session *session, struct span text)
{
    uint32_t number = ++session->requests;
    size_t others = client_unanswered();
    session->awaited = number;
    Omis_reply reply = client_request(text, on_reply, (void *)(uintptr_t)number, session->flags);
    if (reply) {
        on_reply(reply, (void *)(uintptr_t)number);
        return;
    }
    if (session->flags & OMIS_BUFFER_REQUEST)
        return;
    bool may_be_silent = session->flags & (OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS);
    /* One pass after the loss of the connection delivers the error reply. */
    while (session->awaited == number && (!may_be_silent || client_unanswered() > others) &&
           wait_for_replies(session, 0))
        ;
    session->awaited = 0;
}

void omis_session_flush(struct omis_session *session)
{
    if (!(session->flags & OMIS_BUFFER_REQUEST))
        return;
    client_send();
    while (client_unanswered() && wait_for_replies(session, 0))
        ;
}

/* The same for one request, but returns the reply (never NULL); it is neither printed nor counted. */
static Omis_reply omis_session_query(struct omis_session *session, const char *text)
{
    return client_request(span_str(text), NULL, NULL, 0);
}

void omis_session_listen(struct omis_session *session, uint64_t replies, uint64_t time_ns)
{
    uint64_t enough = session->replies + replies, until = time_ns ? clock_now_ns() + time_ns : 0;
    while (!session->interrupted && (!replies || session->replies < enough) && wait_for_replies(session, until))
        ;
}

int omis_session_close(struct omis_session *session)
{
    if (client_connected())
        omis_handler(); /* debugging output of the last request */
    bool lost = !client_connected();
    omis_finalize();
    return session->failed || lost ? EXIT_ERRORS : 0;
}

enum { HISTORY_SIZE = 1000 };

struct shell {
    struct omis_session *session;
    EditLine *editor;
    History *history;
    char history_path[PATH_MAX]; /* "": do not keep it */
    struct omis_words words;
    bool editing; /* the prompt and a line are on the screen */
    mbstate_t decoding;
};

static struct shell *the_shell; /* for the signal handler */

static void on_interrupt(int signo)
{
    int code = errno;
    the_shell->session->interrupted = 1;
    if (eventfd_write(the_shell->session->interrupt_fd, 1) < 0) {
        /* already set */
    }
    errno = code;
}

static void forget_interrupts(struct omis_session *session)
{
    eventfd_t count;
    session->interrupted = 0;
    if (eventfd_read(session->interrupt_fd, &count) < 0) {
        /* there is no history yet */
    }
}

/* ---- output above the prompt ---- */

static void clear_prompt(void *ctx)
{
    struct shell *shell = ctx;
    if (shell->editing)
        fputs("\r\033[J", stdout);
}

static void show_prompt(void *ctx)
{
    struct shell *shell = ctx;
    if (shell->editing)
        el_set(shell->editor, EL_REFRESH);
}

static void see_reply(void *ctx, Omis_reply reply)
{
    struct shell *shell = ctx;
    omis_words_add_reply(&shell->words, reply);
}

/* ---- input ---- */

static char *editor_prompt(EditLine *editor)
{
    static char text[] = "omis> ";
    return text;
}

/* libedit calls this for each character. While there is none, it receives replies. */
static int read_character(EditLine *editor, wchar_t *ret_character)
{
    void *data;
    el_get(editor, EL_CLIENTDATA, &data);
    struct shell *shell = data;
    for (;;) {
        struct pollfd events[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                  {.fd = omis_fd(), .events = POLLIN},
                                  {.fd = shell->session->interrupt_fd, .events = POLLIN}};
        int count = poll(events, 3, -1);
        if (shell->session->interrupted || (count < 0 && errno != EINTR))
            return -1;
        if (count < 0)
            continue;
        if (events[1].revents && !omis_session_handle(shell->session))
            return 0; /* the connection is lost, which ends the session */
        if (!events[0].revents)
            continue;
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return (int)got;
        size_t used = mbrtowc(ret_character, &byte, 1, &shell->decoding);
        if (used == (size_t)-1) { /* not in the terminal's encoding: unchanged */
            memset(&shell->decoding, 0, sizeof shell->decoding);
            *ret_character = (unsigned char)byte;
            return 1;
        }
        if (used != (size_t)-2)
            return 1;
    }
}

/* ---- completion ---- */

static void print_columns(const char *const *words, size_t count)
{
    size_t width = 0;
    for (size_t i = 0; i < count; i++)
        width = strlen(words[i]) > width ? strlen(words[i]) : width;
    size_t terminal = cli_columns(), columns = (terminal ? terminal : 80) / (width + 2);
    columns = columns ? columns : 1;
    size_t rows = (count + columns - 1) / columns;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = row; i < count; i += rows)
            printf("%-*s", i + rows < count ? (int)width + 2 : 0, words[i]);
        putchar('\n');
    }
}

static unsigned char editor_complete(EditLine *editor, int character)
{
    void *data;
    el_get(editor, EL_CLIENTDATA, &data);
    struct shell *shell = data;
    const LineInfo *line = el_line(editor);
    const char *start = line->cursor;
    while (start > line->buffer && (isalnum((unsigned char)start[-1]) || start[-1] == '_'))
        start--;
    size_t len = (size_t)(line->cursor - start);
    bool helping = line->lastchar - line->buffer > 5 && strncmp(line->buffer, "help ", 5) == 0;
    struct omis_match match = omis_words_match(&shell->words, span_of(start, len));
    _cleanup_(freep) const char **words = match.words;
    if (match.count == 0)
        return CC_REFRESH_BEEP;
    if (match.common > len) {
        char rest[128];
        snprintf(rest, sizeof rest, "%.*s%s", (int)(match.common - len), words[0] + len,
                 match.service && !helping ? "(" : "");
        return el_insertstr(editor, rest) < 0 ? CC_ERROR : CC_REFRESH;
    }
    if (match.count == 1)
        return CC_REFRESH;
    putchar('\n');
    print_columns(words, match.count);
    el_set(editor, EL_REFRESH);
    return CC_NORM;
}

/* ---- commands ---- */

static void add_service(void *ctx, const char *name)
{
    struct shell *shell = ctx;
    omis_words_add(&shell->words, span_str(name), true);
}

static void print_help(struct shell *shell)
{
    fputs("A request is [EVENT] : ACTION ...    for instance\n"
          "  : version()\n"
          "  : node_attach2(\"\"); proc_attach3([], 4711, \"\") proc_get_info([], 3)\n"
          "  proc_has_terminated([]) : print([\"ended\", $proc])\n"
          "help SERVICE shows what a service takes and returns; Tab completes; quit ends. Services:\n\n",
          stdout);
    struct shell only_services = {.session = shell->session};
    omis_services_each(shell->session, add_service, &only_services);
    struct omis_match match = omis_words_match(&only_services.words, span_of("", 0));
    print_columns(match.words, match.count);
    free(match.words);
    omis_words_done(&only_services.words);
}

/* The line without white space around it, cut in place. */
static char *trim(char *line)
{
    while (isspace((unsigned char)*line))
        line++;
    size_t len = strlen(line);
    while (len && isspace((unsigned char)line[len - 1]))
        line[--len] = 0;
    return line;
}

/* False: end the session. */
static bool line_execute(struct shell *shell, char *line)
{
    line = trim(line);
    if (!*line)
        return true;
    HistEvent event;
    history(shell->history, &event, H_ENTER, line);
    if (strcmp(line, "quit") == 0 || strcmp(line, "exit") == 0)
        return false;
    if (strcmp(line, "help") == 0) {
        print_help(shell);
    } else if (strncmp(line, "help", 4) == 0 && isspace((unsigned char)line[4])) {
        omis_services_explain(shell->session, trim(line + 4));
    } else {
        omis_session_ask(shell->session, span_str(line));
        if (shell->session->interrupted)
            puts("interrupted: the reply will be shown when it comes");
    }
    return client_connected();
}

/* ---- beginning and end ---- */

static void find_history(struct shell *shell)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char dir[PATH_MAX - 32];
    int len = state && *state ? snprintf(dir, sizeof dir, "%s/scry", state)
              : home && *home ? snprintf(dir, sizeof dir, "%s/.local/state/scry", home)
                              : -1;
    if (len < 0 || (size_t)len >= sizeof dir || dirs_make(dir, 0700) < 0)
        return;
    snprintf(shell->history_path, sizeof shell->history_path, "%s/omis_history", dir);
    HistEvent event;
    history(shell->history, &event, H_LOAD, shell->history_path);
}

static bool open_editor(struct shell *shell)
{
    HistEvent event;
    shell->editor = el_init("scry", stdin, stdout, stderr);
    shell->history = history_init();
    if (!shell->editor || !shell->history)
        return false;
    history(shell->history, &event, H_SETSIZE, HISTORY_SIZE);
    history(shell->history, &event, H_SETUNIQUE, 1);
    find_history(shell);
    el_set(shell->editor, EL_CLIENTDATA, shell);
    el_set(shell->editor, EL_PROMPT, editor_prompt);
    el_set(shell->editor, EL_EDITOR, "emacs");
    el_set(shell->editor, EL_SIGNAL, 0);
    el_set(shell->editor, EL_HIST, history, shell->history);
    el_set(shell->editor, EL_GETCFN, read_character);
    /* the wide form borrows the strings; the narrow one copies them and never frees the copies */
    el_wset(shell->editor, EL_ADDFN, L"omis-complete", L"complete services and tokens", editor_complete);
    el_set(shell->editor, EL_BIND, "^I", "omis-complete", NULL);
    el_set(shell->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(shell->editor, NULL); /* ~/.editrc */
    return true;
}

static void close_editor(struct shell *shell)
{
    HistEvent event;
    if (shell->history && shell->history_path[0])
        history(shell->history, &event, H_SAVE, shell->history_path);
    if (shell->history)
        history_end(shell->history);
    if (shell->editor)
        el_end(shell->editor);
    omis_words_done(&shell->words);
}

/* The next line (malloc'ed); NULL at the end. An interrupt gives an empty line. */
static char *read_line(struct shell *shell)
{
    int len;
    forget_interrupts(shell->session);
    shell->editing = true;
    const char *line = el_gets(shell->editor, &len);
    shell->editing = false;
    if (line && len > 0)
        return strdup(line);
    putchar('\n');
    if (!shell->session->interrupted)
        return NULL;
    el_reset(shell->editor);
    return strdup("");
}

void omis_shell_run(struct omis_session *session)
{
    struct shell shell = {.session = session};
    setlocale(LC_CTYPE, "");
    the_shell = &shell;
    session->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &action, &before);
    if (session->interrupt_fd >= 0 && open_editor(&shell)) {
        session->before_output = clear_prompt;
        session->after_output = show_prompt;
        session->seen = see_reply;
        session->ctx = &shell;
        omis_services_each(session, add_service, &shell);
        omis_words_add(&shell.words, span_str("help"), false);
        omis_words_add(&shell.words, span_str("quit"), false);
        puts("help lists the services, Tab completes, quit or Ctrl-D ends.");
        for (;;) {
            _cleanup_(freep) char *line = read_line(&shell);
            if (!line || !line_execute(&shell, line))
                break;
        }
        session->before_output = session->after_output = NULL;
        session->seen = NULL;
    } else {
        fputs("scry omis: cannot use this terminal for line editing\n", stderr);
        session->failed = true;
    }
    sigaction(SIGINT, &before, NULL);
    if (session->interrupt_fd >= 0)
        close(session->interrupt_fd);
    session->interrupt_fd = -1;
    session->interrupted = 0;
    close_editor(&shell);
    the_shell = NULL;
}
