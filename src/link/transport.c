/* SPDX-License-Identifier: Apache-2.0 */
#include "link/transport.h"

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "base/system/process.h"
#include "keys/keys.h"
#include "link/link.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static void transport_drain(struct transport *transport);

struct transport *transport_new_take(int fd)
{
    struct transport *transport = calloc(1, sizeof *transport);
    if (!transport) {
        close(fd);
        return NULL;
    }
    transport->fd = fd;
    transport->errors = -1;
    transport->shaken = true;
    return transport;
}

void transport_free(struct transport *transport)
{
    if (!transport)
        return;
    if (transport->ssl && transport->shaken)
        SSL_shutdown(transport->ssl);
    SSL_free(transport->ssl);
    tls_free(transport->tls);
    ERR_clear_error();
    if (transport->fd >= 0)
        close(transport->fd);
    if (transport->errors >= 0)
        close(transport->errors);
    if (transport->child > 0) {
        kill(transport->child, SIGTERM);
        child_reap(transport->child);
    }
    free(transport);
}

void transport_linger(struct transport *transport)
{
    char bytes[4096];
    uint64_t end_ns = clock_now_ns() + STREAM_LINGER_MS * (uint64_t)1000000;
    if (transport->ssl)
        SSL_shutdown(transport->ssl);
    shutdown(transport->fd, SHUT_WR);
    while (clock_now_ns() < end_ns) {
        if (!wait_fd_until(transport->fd, POLLIN, end_ns))
            continue;
        ssize_t got = recv(transport->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return;
    }
}

/* What the other side did not like of our certificate, by the alert that it sent (RFC 8446, 6.2). */
static const char *alert_text(int reason)
{
    switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "it asks for a key: `scry keys init` makes one, or put the one you were given into SCRY_KEY";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        return "this key was revoked there: `scry keys issue` makes another one";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "this key has expired, or the clocks differ: `scry keys issue` makes another one";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "it belongs to another user: ask for a key for their jobs, and put it into SCRY_KEY";
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
        return "it has another secret: that of SCRY_JOIN is of another `scry link await`";
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
        return "this key may not be used there";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return "what answers there is no scry that was started with --listen";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "TLS 1.3 is needed, and the other side has none";
    default:
        return NULL;
    }
}

/* What became of a call: -EAGAIN, 0 (the end), or an error. */
static int tls_error(struct transport *transport, int result, struct err *err)
{
    int saved = errno, kind = SSL_get_error(transport->ssl, result);
    const char *refused = (const char *)SSL_get_app_data(transport->ssl);
    transport->wants_output = kind == SSL_ERROR_WANT_WRITE;
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return -EAGAIN;
    if (kind == SSL_ERROR_ZERO_RETURN)
        return 0;
    unsigned long error = ERR_peek_last_error();
    const char *text = alert_text(ERR_GET_REASON(error));
    if (kind == SSL_ERROR_SYSCALL || ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        err_set(err, -ECONNRESET, "%s",
                saved && kind == SSL_ERROR_SYSCALL ? strerror(saved) : "it closed the connection");
    else if (refused && !text)
        err_set(err, -EACCES, "%s", refused);
    else
        err_set(err, text ? -EACCES : -EPROTO, "%s", text ? text : ERR_reason_error_string(error));
    ERR_clear_error();
    transport->shaken = false; /* nothing may be said any more */
    return kind == SSL_ERROR_SYSCALL ? -ECONNRESET : text || refused ? -EACCES : -EPROTO;
}

int transport_shake(struct transport *transport, struct err *err)
{
    if (transport->shaken)
        return 0;
    ERR_clear_error();
    errno = 0;
    transport->wants_output = false;
    int result = SSL_do_handshake(transport->ssl);
    if (result == 1) {
        transport->shaken = true;
        return 0;
    }
    int code = tls_error(transport, result, err);
    return code ? code : err_set(err, -ECONNRESET, "it closed the connection");
}

ssize_t transport_read(struct transport *transport, void *bytes, size_t len, struct err *err)
{
    if (transport->ssl) {
        size_t got;
        ERR_clear_error();
        errno = 0;
        transport->wants_output = false;
        return SSL_read_ex(transport->ssl, bytes, len, &got) == 1 ? (ssize_t)got : tls_error(transport, 0, err);
    }
    if (transport->child > 0)
        transport_drain(transport);
    for (;;) {
        ssize_t got = recv(transport->fd, bytes, len, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != EAGAIN)
            return err_errno(err, -errno, "the connection broke");
        return got < 0 ? -EAGAIN : got;
    }
}

ssize_t transport_write(struct transport *transport, const void *bytes, size_t len, struct err *err)
{
    if (transport->ssl) {
        size_t put;
        ERR_clear_error();
        errno = 0;
        transport->wants_output = false;
        int code = SSL_write_ex(transport->ssl, bytes, len, &put) == 1 ? 1 : tls_error(transport, 0, err);
        return code == 1 ? (ssize_t)put : code == 0 ? err_set(err, -EPIPE, "it closed the connection") : code;
    }
    for (;;) {
        ssize_t put = send(transport->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno != EAGAIN)
            return err_errno(err, -errno, "the connection broke");
        return put < 0 ? -EAGAIN : put;
    }
}

/*
 * TLS as the link speaks it: 1.3 only, both sides with certificates of one user's authority, and nothing that would let a
 * connection be used again without them: no tickets, no sessions, no early data. Names of hosts say nothing here: who the
 * other side is, is its key.
 */

struct tls {
    SSL_CTX *context;
    struct truster *truster; /* NULL: whoever has the secret is trusted */
    bool listens;
    uint8_t secret[TLS_SECRET];
};

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->context);
    truster_free(tls->truster);
    OPENSSL_cleanse(tls->secret, sizeof tls->secret);
    free(tls);
}

struct truster *tls_truster(struct tls *tls)
{
    return tls->truster;
}

static bool may_all(const struct key_about *about)
{
    return about->kind == KEY_PERSON && about->rights == KEY_RIGHTS && strcmp(about->job, "*") == 0;
}

/* Instead of OpenSSL's own verification: the authority is one, and signs all keys itself. */
static int on_verify(X509_STORE_CTX *store, void *arg)
{
    static const int errors[] = {
        [TRUST_FOREIGN] = X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
        [TRUST_FORGED] = X509_V_ERR_CERT_SIGNATURE_FAILURE,
        [TRUST_EXPIRED] = X509_V_ERR_CERT_HAS_EXPIRED,
        [TRUST_REVOKED] = X509_V_ERR_CERT_REVOKED,
    };
    static const char *const texts[] = {
        [TRUST_FOREIGN] = "a key of another user's authority answers: put the one you were given into SCRY_KEY",
        [TRUST_FORGED] = "what answers there has a forged key",
        [TRUST_EXPIRED] = "the key of what answers there has expired, or the clocks differ",
        [TRUST_REVOKED] = "the key of what answers there was revoked",
    };
    struct tls *tls = arg;
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    X509 *cert = X509_STORE_CTX_get0_cert(store);
    struct key_about about = {.kind = KEY_AUTHORITY};
    enum trust trust = cert ? truster_check(tls->truster, cert, time(NULL), &about) : TRUST_FOREIGN;
    const char *text = trust == TRUST_FINE ? NULL : tls->listens ? trust_name(trust) : texts[trust];
    int error = trust == TRUST_FINE ? X509_V_OK : errors[trust];
    if (trust == TRUST_FINE && (tls->listens ? about.kind != KEY_PERSON : !may_all(&about))) {
        error = X509_V_ERR_APPLICATION_VERIFICATION;
        text = tls->listens ? "of a job" : "what answers there has a key that may not stand for its user";
    }
    X509_STORE_CTX_set_error(store, error);
    SSL_set_app_data(ssl, (char *)text);
    return error == X509_V_OK;
}

/* What both kinds have in common. */
static int context_new(struct tls *tls, struct err *err)
{
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    SSL_CTX *context = tls->context = SSL_CTX_new(TLS_method());
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1)
        return err_set(err, -ENOMEM, "out of memory");
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_max_cert_list(context, KEY_TEXT_BYTES);
    return 0;
}

static int tls_use_key(struct tls *tls, const struct key *key, struct err *err)
{
    SSL_CTX *context = tls->context;
    SSL_CTX_set_cert_verify_callback(context, on_verify, tls);
    bool fine =
        SSL_CTX_use_certificate(context, key_cert(key)) == 1 && SSL_CTX_use_PrivateKey(context, key_private(key)) == 1;
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return fine ? 0 : err_set(err, -EINVAL, "TLS cannot be used with this key: %s", why ? why : "out of memory");
}

int tls_new(struct tls **ret_tls, const struct key *key, bool listens, struct err *err)
{
    struct key_about about;
    key_about(key, &about);
    if (!about.is_private || about.kind != KEY_PERSON)
        return err_set(err, -EINVAL, "a key of a person is needed, with its private part (scry keys issue)");
    if (listens && !may_all(&about))
        return err_set(err, -EACCES,
                       "the key %s has not all rights for all jobs, and nobody would believe who shows it: listen with "
                       "own.pem (unset SCRY_KEY)",
                       about.name);
    _cleanup_(tls_freep) struct tls *tls = calloc(1, sizeof *tls);
    int code = tls ? context_new(tls, err) : err_set(err, -ENOMEM, "out of memory");
    if (code < 0)
        return code;
    tls->listens = listens;
    code = truster_new(&tls->truster, key, err);
    if (code == 0 && listens)
        code = truster_look(tls->truster, err); /* here a list of another authority is a mistake */
    if (code >= 0)
        code = tls_use_key(tls, key, err);
    if (code == 0)
        *ret_tls = TAKE_PTR(tls);
    return code;
}

/* ---- a secret instead of keys ---- */

static const unsigned char identity[] = "scry join";

/* A pre-shared key is to OpenSSL a session that may be used again. */
static SSL_SESSION *shared_session(SSL *ssl)
{
    static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    const struct tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session && cipher && SSL_SESSION_set1_master_key(session, tls->secret, sizeof tls->secret) == 1 &&
        SSL_SESSION_set1_id_context(session, identity, sizeof identity) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int on_psk_offer(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_id, size_t *ret_len,
                        SSL_SESSION **ret_session)
{
    (void)digest; /* of a retry: it is the one of the suite */
    *ret_id = identity;
    *ret_len = sizeof identity;
    *ret_session = shared_session(ssl);
    return *ret_session != NULL;
}

/* Without a session there is nothing else that this side could show, and the handshake fails. */
static int on_psk_find(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret_session)
{
    bool ours = len == sizeof identity && memcmp(id, identity, len) == 0;
    *ret_session = ours ? shared_session(ssl) : NULL;
    return !ours || *ret_session;
}

/* Whoever shows a certificate does not have the secret. */
static int on_verify_refuse(X509_STORE_CTX *store, void *arg)
{
    (void)arg;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

int tls_new_shared(struct tls **ret_tls, const uint8_t secret[TLS_SECRET], bool listens, struct err *err)
{
    _cleanup_(tls_freep) struct tls *tls = calloc(1, sizeof *tls);
    int code = tls ? context_new(tls, err) : err_set(err, -ENOMEM, "out of memory");
    if (code < 0)
        return code;
    tls->listens = listens;
    memcpy(tls->secret, secret, TLS_SECRET);
    SSL_CTX_set_app_data(tls->context, (char *)tls);
    SSL_CTX_set_cert_verify_callback(tls->context, on_verify_refuse, NULL);
    if (SSL_CTX_set_session_id_context(tls->context, identity, sizeof identity) != 1 ||
        SSL_CTX_set_ciphersuites(tls->context, "TLS_AES_128_GCM_SHA256") != 1)
        return err_set(err, -ENOMEM, "out of memory");
    if (listens)
        SSL_CTX_set_psk_find_session_callback(tls->context, on_psk_find);
    else
        SSL_CTX_set_psk_use_session_callback(tls->context, on_psk_offer);
    *ret_tls = TAKE_PTR(tls);
    return 0;
}

int tls_transport(struct tls *tls, int fd, struct transport **ret_transport, struct err *err)
{
    _cleanup_(transport_freep) struct transport *transport = transport_new_take(fd);
    if (transport) {
        transport->shaken = false;
        transport->ssl = SSL_new(tls->context);
    }
    if (!transport || !transport->ssl || SSL_set_fd(transport->ssl, fd) != 1)
        return err_set(err, -ENOMEM, "out of memory");
    if (tls->listens)
        SSL_set_accept_state(transport->ssl);
    else
        SSL_set_connect_state(transport->ssl);
    *ret_transport = TAKE_PTR(transport);
    return 0;
}

bool tls_peer(const struct tls *tls, const struct transport *transport, struct key_about *ret_about)
{
    X509 *cert = SSL_get0_peer_certificate(transport->ssl);
    if (!tls->truster) {
        *ret_about =
            (struct key_about){.kind = KEY_PERSON, .rights = KEY_RIGHTS, .name = "join", .job = "*", .serial = "join"};
        return SSL_session_reused(transport->ssl);
    }
    return cert && truster_check(tls->truster, cert, time(NULL), ret_about) == TRUST_FINE &&
           ret_about->kind == KEY_PERSON;
}

/*
 * A connection by ssh: the user's own program, with their configuration and keys. It may not ask anything, and what it says
 * becomes one line.
 */

enum { SSH_FAILED = 255, NOT_FOUND = 127, NOT_EXECUTABLE = 126, USAGE = 2, ARGUMENTS = 40 };

/* ---- starting ---- */

static int find_program(const char *name, char *ret_path, size_t size, struct err *err)
{
    const char *at = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(ret_path, size, "%s", name);
        return 0;
    }
    for (at = at && *at ? at : "/usr/bin:/bin"; *at;) {
        size_t len = strcspn(at, ":");
        if (len && (size_t)snprintf(ret_path, size, "%.*s/%s", (int)len, at, name) < size &&
            access(ret_path, X_OK) == 0)
            return 0;
        at += len + (at[len] == ':');
    }
    return err_set(err, -ENOENT,
                   "there is no program %s here: install OpenSSH's client, or name another one in SCRY_SSH", name);
}

static size_t put_arguments(const struct link_endpoint *endpoint, const char *command, char port[8], char most[32],
                            const char *argv[ARGUMENTS])
{
    static const char *const fixed[] = {
        "ssh", "-T",
        "-a",  "-x",
        "-o",  "BatchMode=yes",
        "-o",  "ClearAllForwardings=yes",
        "-o",  "ControlMaster=no",
        "-o",  "ControlPersist=no",
        "-o",  "PermitLocalCommand=no",
        "-o",  "RequestTTY=no",
        "-e",  "none",
    };
    size_t count = sizeof fixed / sizeof *fixed;
    memcpy(argv, fixed, sizeof fixed);
    snprintf(most, 32, "-oConnectTimeout=%u", (unsigned)time_hasten(LINK_DIAL_SECONDS));
    argv[count++] = most;
    if (endpoint->port) {
        snprintf(port, 8, "%u", endpoint->port);
        argv[count++] = "-p";
        argv[count++] = port;
    }
    if (endpoint->user[0]) {
        argv[count++] = "-l";
        argv[count++] = endpoint->user;
    }
    argv[count++] = "--";
    argv[count++] = endpoint->host;
    argv[count++] = command;
    argv[count] = NULL;
    return count;
}

int link_over_ssh(const struct link_endpoint *endpoint, const char *command, struct transport **ret_transport,
                  struct err *err)
{
    const char *argv[ARGUMENTS], *program = getenv("SCRY_SSH");
    char path[4096], port[8], most[32];
    int ends[2], errors[2], code = find_program(program && *program ? program : "ssh", path, sizeof path, err);
    if (code < 0)
        return code;
    put_arguments(endpoint, command, port, most, argv);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int ours = ends[0], theirs = ends[1];
    if (pipe2(errors, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_errno(err, -errno, "cannot start %s", path);
    _cleanup_(closep) int said = errors[0], says = errors[1];
    fcntl(says, F_SETFL, 0); /* ssh takes a full pipe for an error */
    pid_t pid = 0;
    code = spawn_program(&(struct spawn){.path = path,
                                         .argv = (char *const *)argv,
                                         .in = theirs,
                                         .out = theirs,
                                         .error = says,
                                         .group = SPAWN_OWN_SESSION},
                         &pid);
    if (code < 0)
        return err_errno(err, code, "cannot start %s", path);
    struct transport *transport = transport_new_take(TAKE_FD(ours));
    if (!transport) {
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
        return err_set(err, -ENOMEM, "out of memory");
    }
    transport->child = pid;
    transport->errors = TAKE_FD(said);
    transport->noisy = true;
    if (endpoint->port)
        snprintf(transport->host, sizeof transport->host, "%s", endpoint->shown);
    else
        snprintf(transport->host, sizeof transport->host, "%s%s%s", endpoint->user, endpoint->user[0] ? "@" : "",
                 endpoint->host);
    *ret_transport = transport;
    return 0;
}

/* ---- why it has ended ---- */

static const char no_agent[] = "; SSH_AUTH_SOCK names no ssh agent here: `scry monitor` can be started where one is";
static const char crowded[] = "%s: too many log in there at the same moment, or it lets nobody in (ssh %s true)";

static const struct {
    const char *words; /* of ssh */
    const char *text;  /* with the host once or twice */
    int code;          /* 0: -EHOSTUNREACH */
} reasons[] = {
    {"HOST IDENTIFICATION HAS CHANGED",
     "%s: its host key is another one than the known one: somebody may be in between; "
     "ask who runs it, then `ssh-keygen -R %s`"},
    {"Host key verification failed", "%s: its host key is not known: `ssh %s` once, and compare the key"},
    {"Could not resolve hostname", "%s: there is no host of this name (ssh does not know %s)"},
    {"Permission denied",
     "%s: ssh was refused: a key or ticket is needed that works without a password; try `ssh %s true`", -EACCES},
    {"Too many authentication failures",
     "%s: ssh was refused after too many keys: name one in ~/.ssh/config; try `ssh %s true`"},
    {"Connection closed by remote host", crowded, -EBUSY},
    {"Connection reset by peer", crowded, -EBUSY},
    {"MaxStartups", crowded, -EBUSY},
    {"Connection refused", "%s: nobody listens for ssh there (connection refused by %s)"},
    {"timed out", "%s: it does not answer (ssh waited 10 s for %s)"},
    {"No route to host", "%s: there is no route to it from here (%s)"},
    {"Network is unreachable", "%s: its network cannot be reached from here (%s)"},
};

/* Takes what ssh says, which would stop when nobody does. */
static void transport_drain(struct transport *transport)
{
    char bytes[1024];
    ssize_t got;
    while (transport->errors >= 0 &&
           ((got = read(transport->errors, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))) {
        if (got < 0)
            continue;
        size_t len = transport->said_len, more = (size_t)got, room = sizeof transport->said - 1;
        size_t keep = len + more <= room ? len : room - more;
        memmove(transport->said, transport->said + len - keep, keep);
        memcpy(transport->said + keep, bytes, more);
        transport->said_len = keep + more;
    }
    for (size_t i = 0; i < transport->said_len; i++)
        if (!transport->said[i])
            transport->said[i] = ' ';
    transport->said[transport->said_len] = 0;
}

/* Its exit status; -1: it goes on, or was killed. */
static int ssh_exit_status(struct transport *transport)
{
    int status = 0;
    _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, transport->child, 0);
    if (pidfd < 0 || !wait_fd(pidfd, POLLIN, SSH_END_MS))
        return -1;
    pid_t pid = waitpid(transport->child, &status, 0);
    transport->child = 0;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void text_last_line(char *text, char **ret_line)
{
    size_t len = strlen(text);
    while (len && strchr("\r\n ", text[len - 1]))
        text[--len] = 0;
    char *line = strrchr(text, '\n');
    *ret_line = line ? line + 1 : text;
    for (char *c = *ret_line; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
}

/* A monitor outlives the login in which it was started, and the agent of it. */
static bool has_agent(void)
{
    const char *path = getenv("SSH_AUTH_SOCK");
    return path && access(path, W_OK) == 0;
}

void transport_why(struct transport *transport, struct err *err)
{
    char *text = transport->said, *line;
    if (transport->child <= 0 || transport->errors < 0)
        return;
    int status = ssh_exit_status(transport);
    transport_drain(transport);
    for (size_t i = 0; status == SSH_FAILED && i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(text, reasons[i].words)) {
            char said[ERR_TEXT_SIZE];
            snprintf(said, sizeof said, reasons[i].text, transport->host, transport->host);
            err_set(err, reasons[i].code ? reasons[i].code : -EHOSTUNREACH, "%s%s", said,
                    reasons[i].code == -EACCES && !has_agent() ? no_agent : "");
            return;
        }
    text_last_line(text, &line);
    if (status == NOT_FOUND || status == NOT_EXECUTABLE)
        err_set(err, -ENOPKG, "%s: there is no scry: install it there, or `scry link copy %s`", transport->host,
                transport->host);
    else if (status == USAGE)
        err_set(err, -ENOPKG, "%s: its scry knows nothing of links: install this version there, " SCRY_VERSION " (%s)",
                transport->host, line);
    else if (*line)
        err_set(err, -ECONNRESET, "%s: %s", transport->host, line);
    else if (status >= 0)
        err_set(err, -ECONNRESET, "%s: ssh ended with status %d", transport->host, status);
}
