/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, and the ways in. */
#include "base/system/clock.h"
#include "web/http/route.h"

static json_t *rights_json(unsigned rights)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < RIGHTS; i++)
        if (rights & 1U << i)
            json_array_append_new(list, json_string(right_names[i]));
    return list;
}

static json_t *who(const struct visit *visit)
{
    return json_pack("{s:s, s:o, s:s}", "user", visit->server->user, "rights", rights_json(visit->rights), "version",
                     SCRY_VERSION);
}

void answer_session_get(struct visit *visit)
{
    visit_answer_json(visit, 200, who(visit));
}

void answer_session_post(struct visit *visit)
{
    char cookie[256];
    struct server *server = visit->server;
    json_t *json = visit_json(visit);
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
        visit_answer_error(visit, link ? 503 : 401, link ? "too_many" : "token",
                           link ? "too many sessions; end some, or try again later"
                                : "this link was used, or is too old; print another one: scry serve --link");
        return;
    }
    visit->rights = session->rights;
    /* without Path: it holds for what lies beside this path, under whatever prefix a proxy has put it */
    snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Max-Age=%llu%s", server->cookie, session->secret,
             (unsigned long long)(server->session_ns / NS_PER_SECOND), visit->is_secure ? "; Secure" : "");
    visit->refusal.cookie = cookie;
    visit_answer_json(visit, 200, who(visit));
    explicit_bzero(cookie, sizeof cookie);
}

void answer_session_delete(struct visit *visit)
{
    char cookie[256];
    struct session *session = session_by_number(visit->server->sessions, visit->session);
    if (session)
        session_end(session);
    snprintf(cookie, sizeof cookie, "%s=; HttpOnly; SameSite=Strict; Max-Age=0", visit->server->cookie);
    visit->refusal.cookie = cookie;
    visit_answer_nothing(visit);
}

/* Only by the unix socket, where the kernel says who asks. */
void answer_links_post(struct visit *visit)
{
    char text[512];
    struct server *server = visit->server;
    if (visit->way != WAY_OWNER) {
        visit_answer_error(visit, 403, "rights", "links are given by scry serve --link, on the machine of the server");
        return;
    }
    json_t *json = visit_json(visit);
    if (!json)
        return;
    bool bearer = json_is_true(json_object_get(json, "bearer"));
    json_int_t ns = json_integer_value(json_object_get(json, "ns"));
    unsigned rights = (unsigned)json_integer_value(json_object_get(json, "rights")) & RIGHT_ALL;
    json_decref(json);
    const struct session *made = session_new(server->sessions, bearer ? SECRET_BEARER : SECRET_LINK, rights,
                                             ns > 0 ? (uint64_t)ns : server->session_ns);
    if (!made) {
        visit_answer_error(visit, 503, "too_many", "too many sessions; end some, or try again later");
        return;
    }
    snprintf(text, sizeof text, "%s%s%s", bearer ? "" : server->link, bearer ? "" : "#token=", made->secret);
    visit_answer_json(visit, 200, json_pack("{s:s}", "link", text));
    explicit_bzero(text, sizeof text);
}
