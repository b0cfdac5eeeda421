/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/server.h"

#include "base/system/clock.h"
#include "web/http/request.h"

#include <stdlib.h>
#include <sys/random.h>

static const char *const right_names[RIGHTS] = {"observe", "control", "submit", "site"};

static void session_end(struct session *session);
static struct session *session_by_number(struct sessions *sessions, uint64_t number);

/* Sessions, and the ways in. */

static json_t *rights_json(unsigned rights)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < RIGHTS; i++)
        if (rights & 1U << i)
            json_array_append_new(list, json_string(right_names[i]));
    return list;
}

static json_t *session_json(const struct http_request *request)
{
    return json_pack("{s:s, s:o, s:s}", "user", request->server->user, "rights", rights_json(request->rights),
                     "version", SCRY_VERSION);
}

void answer_session_get(struct http_request *request)
{
    request_answer_json(request, 200, session_json(request));
}

void answer_session_post(struct http_request *request)
{
    char cookie[256];
    struct server *server = request->server;
    json_t *json = request_json(request);
    if (!json)
        return;
    const char *token = json_string_value(json_object_get(json, "token"));
    struct session *link = token ? session_find(server->sessions, SECRET_LINK, span_str(token)) : NULL;
    const struct session *session = NULL;
    if (link) {
        unsigned rights = link->rights;
        session_end(link);
        session = session_new(server->sessions, SECRET_SESSION, rights, server->session_ns);
    }
    json_decref(json);
    if (!session) {
        request_answer_error(request, link ? 503 : 401, link ? "too_many" : "token",
                             link ? "too many sessions; end some, or try again later"
                                  : "this link was used, or is too old; print another one: scry serve --link");
        return;
    }
    request->rights = session->rights;
    /* without Path: it holds for what lies beside this path, under whatever prefix a proxy has put it */
    snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Max-Age=%llu%s", server->cookie, session->secret,
             (unsigned long long)(server->session_ns / NS_PER_SECOND), request->is_secure ? "; Secure" : "");
    request->refusal.cookie = cookie;
    request_answer_json(request, 200, session_json(request));
    explicit_bzero(cookie, sizeof cookie);
}

void answer_session_delete(struct http_request *request)
{
    char cookie[256];
    struct session *session = session_by_number(request->server->sessions, request->session);
    if (session)
        session_end(session);
    snprintf(cookie, sizeof cookie, "%s=; HttpOnly; SameSite=Strict; Max-Age=0", request->server->cookie);
    request->refusal.cookie = cookie;
    request_answer_nothing(request);
}

/* Only by the unix socket, where the kernel says who asks. */
void answer_links_post(struct http_request *request)
{
    char text[512];
    struct server *server = request->server;
    if (request->entrance != ENTRANCE_OWNER) {
        request_answer_error(request, 403, "rights",
                             "links are given by scry serve --link, on the machine of the server");
        return;
    }
    json_t *json = request_json(request);
    if (!json)
        return;
    bool bearer = json_is_true(json_object_get(json, "bearer"));
    json_int_t ns = json_integer_value(json_object_get(json, "ns"));
    unsigned rights = (unsigned)json_integer_value(json_object_get(json, "rights")) & RIGHT_ALL;
    json_decref(json);
    const struct session *made = session_new(server->sessions, bearer ? SECRET_BEARER : SECRET_LINK, rights,
                                             ns > 0 ? (uint64_t)ns : server->session_ns);
    if (!made) {
        request_answer_error(request, 503, "too_many", "too many sessions; end some, or try again later");
        return;
    }
    snprintf(text, sizeof text, "%s%s%s", bearer ? "" : server->link, bearer ? "" : "#token=", made->secret);
    request_answer_json(request, 200, json_pack("{s:s}", "link", text));
    explicit_bzero(text, sizeof text);
}

enum { SESSIONS_MOST = 1024, REQUESTS_SAVED = 600, REQUESTS_A_SECOND = 50, SECRET_BYTES = 32 };

struct sessions {
    struct session all[SESSIONS_MOST];
    uint64_t count; /* that there were */
};

struct sessions *sessions_new(void)
{
    return calloc(1, sizeof(struct sessions));
}

void sessions_free(struct sessions *sessions)
{
    if (sessions)
        explicit_bzero(sessions, sizeof *sessions);
    free(sessions);
}

/* 43 characters have 258 bits: the last one has four of them. */
static bool secret_make(char ret_text[SECRET_TEXT + 1])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char bytes[SECRET_BYTES + 1] = {0};
    if (getrandom(bytes, SECRET_BYTES, 0) != SECRET_BYTES)
        return false;
    for (size_t i = 0; i < SECRET_TEXT; i++) {
        size_t bit = 6 * i;
        unsigned two = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];
        ret_text[i] = digits[two >> (10 - bit % 8) & 63];
    }
    ret_text[SECRET_TEXT] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return true;
}

/* The same for any two texts of one length, wherever they differ. */
static bool secret_equal(struct span a, struct span b)
{
    unsigned char differ = 0;
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        differ |= (unsigned char)(a.ptr[i] ^ b.ptr[i]);
    return !differ;
}

static bool is_over(const struct session *session, uint64_t now_ns)
{
    return session->end_ns <= now_ns;
}

const struct session *session_new(struct sessions *sessions, enum secret_kind kind, unsigned rights, uint64_t ns)
{
    uint64_t now_ns = clock_now_ns();
    struct session made = {
        .kind = kind, .rights = rights | RIGHT_OBSERVE, .end_ns = now_ns + ns, .allowance = {REQUESTS_SAVED, now_ns}};
    for (size_t i = 0; i < SESSIONS_MOST; i++)
        if (is_over(&sessions->all[i], now_ns)) {
            if (!secret_make(made.secret))
                return NULL;
            made.number = ++sessions->count;
            sessions->all[i] = made;
            return &sessions->all[i];
        }
    return NULL;
}

struct session *session_find(struct sessions *sessions, enum secret_kind kind, struct span secret)
{
    uint64_t now_ns = clock_now_ns();
    struct session *found = NULL;
    if (secret.len != SECRET_TEXT)
        return NULL;
    for (size_t i = 0; i < SESSIONS_MOST; i++) {
        struct session *session = &sessions->all[i];
        bool same = secret_equal(secret, span_of(session->secret, SECRET_TEXT));
        if (same && session->kind == kind && !is_over(session, now_ns))
            found = session;
    }
    return found;
}

static struct session *session_by_number(struct sessions *sessions, uint64_t number)
{
    for (size_t i = 0; number && i < SESSIONS_MOST; i++)
        if (sessions->all[i].number == number)
            return is_over(&sessions->all[i], clock_now_ns()) ? NULL : &sessions->all[i];
    return NULL;
}

bool session_lives(struct sessions *sessions, uint64_t number)
{
    return session_by_number(sessions, number) != NULL;
}

static void session_end(struct session *session)
{
    explicit_bzero(session, sizeof *session);
}

bool session_take(struct session *session)
{
    return allowance_take(&session->allowance, REQUESTS_A_SECOND, REQUESTS_SAVED);
}
