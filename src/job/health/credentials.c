/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/credentials.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "shm/waits.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READERS_SYMBOL "scry_credential_readers"

static const struct credential_readers *library_find(struct err *err)
{
    static const struct credential_readers *found;
    char path[PATH_MAX];
    if (found)
        return found;
    if (dirs_libexec("libscry-credentials.so", path, sizeof path, err) < 0)
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct credential_readers *readers = library ? dlsym(library, READERS_SYMBOL) : NULL;
    if (!readers)
        err_set(err, -ELIBACC, "%s", dlerror());
    else if (strcmp(readers->version, SCRY_VERSION) != 0)
        err_set(err, -ELIBACC, "%s is of another version of scry: install scry again", path);
    else
        found = readers;
    return found;
}

/* NULL with err: it is not there. For any thread. */
static const struct credential_readers *readers_find(struct err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what library_find() keeps */
    pthread_mutex_lock(&lock);
    const struct credential_readers *readers = library_find(err);
    pthread_mutex_unlock(&lock);
    return readers;
}

/* Bearer tokens: a JSON Web Token (RFC 7519), three parts in base64url with dots. In the second, "exp" says when. */

/* Its six bits; -1: none of base64url. */
static int bits_of(char c)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *at = c ? strchr(letters, c) : NULL;
    return at ? (int)(at - letters) : -1;
}

/* The bytes of a part; NULL: it is none. */
static char *decode(const char *text, size_t len, size_t *ret_len)
{
    char *bytes = len % 4 == 1 || !len ? NULL : malloc(len);
    uint32_t kept = 0;
    size_t count = 0;
    for (size_t i = 0; bytes && i < len; i++) {
        int bits = bits_of(text[i]);
        if (bits < 0) {
            explicit_bzero(bytes, count);
            free(bytes);
            return NULL;
        }
        kept = kept << 6 | (uint32_t)bits;
        if (i % 4)
            bytes[count++] = (char)(kept >> (6 - 2 * (i % 4)));
    }
    *ret_len = count;
    return bytes;
}

static int read_claims(const char *bytes, size_t len, int64_t *ret_expires, struct err *err)
{
    json_t *claims = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *end = json_object_get(claims, "exp");
    double seconds = json_number_value(end);
    int code = 0;
    if (!json_is_object(claims))
        code = err_set(err, -EBADMSG, "its second part is no JSON object");
    else if (!end)
        code = err_set(err, -ENODATA, "it never expires");
    else if (!json_is_number(end) || !(seconds >= 0) || seconds > 1e15)
        code = err_set(err, -EBADMSG, "its \"exp\" is no time");
    else
        *ret_expires = (int64_t)seconds;
    json_decref(claims);
    return code;
}

int token_expires(const char *bytes, size_t len, int64_t *ret_expires, struct err *err)
{
    while (len && isspace((unsigned char)*bytes)) {
        bytes++;
        len--;
    }
    const char *first = memchr(bytes, '.', len);
    const char *second = first ? memchr(first + 1, '.', len - (size_t)(first + 1 - bytes)) : NULL;
    if (!second)
        return err_set(err, -EBADMSG, "this is no JSON Web Token");
    size_t claims_len = 0;
    char *claims = decode(first + 1, (size_t)(second - first - 1), &claims_len);
    if (!claims)
        return err_set(err, -EBADMSG, "its second part is no base64url");
    int code = read_claims(claims, claims_len, ret_expires, err);
    explicit_bzero(claims, claims_len);
    free(claims);
    return code;
}

static const int64_t stages[] = {3600, 600, 0}; /* seconds before */
enum { STAGES = sizeof stages / sizeof *stages };

/* ---- what reads them ---- */

static int read_proxy(const char *bytes, size_t len, int64_t *ret_expires, struct err *err)
{
    const struct credential_readers *readers = readers_find(err);
    return readers ? readers->proxy(bytes, len, ret_expires, err) : err->code;
}

static int read_tickets(const char *name, int64_t *ret_expires, struct err *err)
{
    const struct credential_readers *readers = readers_find(err);
    return readers ? readers->tickets(name, ret_expires, err) : err->code;
}

/* ---- which ---- */

/* Anybody can put a file into /tmp. */
static bool is_own(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_uid == geteuid();
}

static void take_path(struct credential *credential, const char *cwd, bool named, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void take_path(struct credential *credential, const char *cwd, bool named, const char *format, ...)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    va_list args;
    va_start(args, format);
    buf_vprintf(&path, format, args);
    va_end(args);
    if (path.failed || !path.len || credential->path)
        return;
    if (credential->read && path.data[0] != '/') {
        _cleanup_(buf_done) struct buf whole = BUF_INIT;
        buf_printf(&whole, "%s/%s", cwd, path.data);
        credential->path = buf_take(&whole);
    } else {
        credential->path = buf_take(&path);
    }
    credential->named = named;
    if (!named && !is_own(credential->path)) {
        free(credential->path);
        credential->path = NULL;
    }
}

static void take_variable(struct credential *credential, const char *cwd, const char *value)
{
    if (value && *value)
        take_path(credential, cwd, true, "%s", value);
}

void credentials_init(struct credentials *credentials, char *(*variable)(const char *name), const char *cwd)
{
    *credentials = (struct credentials){.wait_ms = CREDENTIALS_WAIT_MS,
                                        .of = {{.what = "X.509 proxy", .read = read_proxy},
                                               {.what = "bearer token", .read = token_expires},
                                               {.what = "Kerberos ticket"}}};
    struct credential *proxy = &credentials->of[0], *token = &credentials->of[1], *ticket = &credentials->of[2];
    unsigned uid = getuid();
    take_variable(proxy, cwd, variable("X509_USER_PROXY"));
    take_path(proxy, cwd, false, "/tmp/x509up_u%u", uid);
    const char *runtime = variable("XDG_RUNTIME_DIR"), *tickets = variable("KRB5CCNAME");
    take_variable(token, cwd, variable("BEARER_TOKEN_FILE"));
    if (runtime && *runtime)
        take_path(token, cwd, false, "%s/bt_u%u", runtime, uid);
    take_path(token, cwd, false, "/tmp/bt_u%u", uid);
    take_variable(ticket, cwd, tickets);
    take_path(ticket, cwd, false, "/tmp/krb5cc_%u", uid);
}

void credentials_done(struct credentials *credentials)
{
    for (size_t i = 0; i < CREDENTIALS; i++) {
        ask_drop(credentials->of[i].ask);
        free(credentials->of[i].path);
    }
}

/* ---- reading, in a thread ---- */

struct question {
    int (*read)(const char *bytes, size_t len, int64_t *ret_expires, struct err *err); /* NULL: tickets */
    bool changed; /* only if it has changed since */
    struct stat seen;
    char path[];
};

struct answer {
    bool read; /* else it has not changed */
    int code;
    int64_t expires;
    struct stat seen;
    struct err err;
};

static int read_file(const struct question *question, struct answer *answer)
{
    struct err *err = &answer->err;
    _cleanup_(closep) int fd = open(question->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0)
        return err_set(err, -errno, "%s", strerror(errno));
    answer->seen = info;
    if (!S_ISREG(info.st_mode) || info.st_size > CREDENTIAL_MOST)
        return err_set(err, -EINVAL, "this is no file of a credential");
    _cleanup_(freep) char *bytes = calloc(1, (size_t)info.st_size + 1);
    if (!bytes)
        return err_set(err, -ENOMEM, "out of memory");
    ssize_t len = read(fd, bytes, (size_t)info.st_size);
    int code = len < 0 ? err_set(err, -errno, "%s", strerror(errno))
                       : question->read(bytes, (size_t)len, &answer->expires, err);
    explicit_bzero(bytes, (size_t)info.st_size); /* keys are in there, too */
    return code;
}

/* Whether it is another file than the one that was read, or has been written since. */
static bool has_changed(const struct question *question)
{
    const struct stat *seen = &question->seen;
    struct stat now;
    if (stat(question->path, &now) < 0)
        return false; /* it is being replaced, or gone: the one that was read may be in use */
    return now.st_ino != seen->st_ino || now.st_size != seen->st_size || now.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec;
}

static void read_in_thread(const void *asked, void *ret_answer)
{
    const struct question *question = asked;
    struct answer *answer = ret_answer;
    answer->seen = question->seen;
    answer->read = !question->changed || has_changed(question);
    if (answer->read)
        answer->code =
            question->read ? read_file(question, answer) : read_tickets(question->path, &answer->expires, &answer->err);
}

/* ---- what was read ---- */

static void credential_ask(struct credential *credential, uint64_t now_ns)
{
    size_t size = sizeof(struct question) + strlen(credential->path) + 1;
    _cleanup_(freep) struct question *question = calloc(1, size);
    if (!question)
        return;
    question->read = credential->read;
    question->seen = credential->seen;
    /* Of tickets that are in no file nobody says when they change. */
    question->changed = credential->answered && credential->read && !credential->failures;
    memcpy(question->path, credential->path, strlen(credential->path) + 1);
    credential->asked_ns = now_ns;
    credential->ask = ask_start(read_in_thread, question, size, sizeof(struct answer));
}

static void say_unreadable(struct credential *credential, const struct look *look, const char *reason)
{
    if (credential->named && !credential->refused && !look->quiet)
        look->say(look->ctx, NOTE(credential_unreadable, .credential = credential->what, .path = credential->path,
                                  .reason = reason));
    credential->refused |= credential->named;
}

static void credential_take(struct credential *credential, const struct look *look, const struct answer *answer)
{
    bool first = !credential->answered;
    credential->answered = true;
    if (!answer->read)
        return;
    int64_t before = credential->known ? credential->expires : -1;
    credential->seen = answer->seen;
    credential->known = answer->code == 0;
    if (credential->known)
        credential->expires = answer->expires;
    if (credential->known && credential->expires != before)
        credential->said = 0;
    bool failed = answer->code < 0 && answer->code != -ENODATA;
    credential->failures = failed ? credential->failures + 1 : 0;
    if (failed && (first || credential->failures > 1))
        say_unreadable(credential, look, answer->err.text);
}

/* ---- warnings ---- */

static void credential_judge(struct credential *credential, const struct look *look, int64_t now, bool first)
{
    int64_t left = credential->expires > now ? credential->expires - now : 0;
    int reached = 0;
    while (credential->known && reached < STAGES && left <= stages[reached])
        reached++;
    if (reached <= credential->said)
        return;
    credential->said = reached;
    if (look->quiet || (first && !left && !credential->named))
        return;
    if (left)
        look->say(look->ctx, NOTE(credential_expires, .credential = credential->what, .path = credential->path,
                                  .left_seconds = (double)left));
    else
        look->say(look->ctx, NOTE(credential_expired, .credential = credential->what, .path = credential->path));
}

void credentials_look(struct credentials *credentials, const struct look *look, int64_t now)
{
    bool first = !credentials->looked;
    bool due = first || look->now_ns >= credentials->looked_ns + CREDENTIALS_EVERY_NS;
    credentials->looked = true;
    if (due)
        credentials->looked_ns = look->now_ns;
    for (size_t i = 0; i < CREDENTIALS; i++) {
        struct credential *credential = &credentials->of[i];
        struct answer answer;
        bool unknown = !credential->answered, is_new = due && !credential->ask;
        if (!credential->path)
            continue;
        if (is_new)
            credential_ask(credential, look->now_ns);
        if (credential->ask && ask_take(credential->ask, is_new ? credentials->wait_ms : 0, &answer)) {
            credential->ask = NULL;
            credential_take(credential, look, &answer);
        } else if (credential->ask && look->now_ns >= credential->asked_ns + CREDENTIALS_SILENT_NS) {
            say_unreadable(credential, look, "its file system does not answer");
        }
        credential_judge(credential, look, now, unknown);
    }
}
