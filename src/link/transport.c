/* SPDX-License-Identifier: Apache-2.0 */
#include "link/transport.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <openssl/err.h>

#include "base/system/clock.h"
#include "shm/waits.h"

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
        while (waitpid(transport->child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    free(transport);
}

void transport_linger(struct transport *transport)
{
    char bytes[4096];
    struct pollfd ready = {.fd = transport->fd, .events = POLLIN};
    uint64_t end_ns = clock_now_ns() + STREAM_LINGER_MS * (uint64_t)1000000, now_ns;
    if (transport->ssl)
        SSL_shutdown(transport->ssl);
    shutdown(transport->fd, SHUT_WR);
    while ((now_ns = clock_now_ns()) < end_ns) {
        if (poll(&ready, 1, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
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
