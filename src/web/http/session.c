/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/session.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/system/clock.h"

enum { SESSIONS_MOST = 1024, REQUESTS_SAVED = 600, REQUESTS_A_SECOND = 50, SECRET_BYTES = 32 };

const char *const right_names[RIGHTS] = {"observe", "control", "submit", "site"};

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

bool secret_equal(struct span a, struct span b)
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

struct session *session_by_number(struct sessions *sessions, uint64_t number)
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

void session_end(struct session *session)
{
    explicit_bzero(session, sizeof *session);
}

bool session_take(struct session *session)
{
    return allowance_take(&session->allowance, REQUESTS_A_SECOND, REQUESTS_SAVED);
}
