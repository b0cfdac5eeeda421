/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS as the link speaks it: 1.3 only, both sides with certificates of one user's authority, and nothing that would let a
 * connection be used again without them: no tickets, no sessions, no early data. Names of hosts say nothing here: who the
 * other side is, is its key.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>

#include "keys/trust.h"
#include "link/transport.h"

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
static int verify(X509_STORE_CTX *store, void *arg)
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

static int use_key(struct tls *tls, const struct key *key, struct err *err)
{
    SSL_CTX *context = tls->context;
    SSL_CTX_set_cert_verify_callback(context, verify, tls);
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
        code = use_key(tls, key, err);
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

static int offer(SSL *ssl, const EVP_MD *digest, const unsigned char **ret_id, size_t *ret_len,
                 SSL_SESSION **ret_session)
{
    (void)digest; /* of a retry: it is the one of the suite */
    *ret_id = identity;
    *ret_len = sizeof identity;
    *ret_session = shared_session(ssl);
    return *ret_session != NULL;
}

/* Without a session there is nothing else that this side could show, and the handshake fails. */
static int find(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **ret_session)
{
    bool ours = len == sizeof identity && memcmp(id, identity, len) == 0;
    *ret_session = ours ? shared_session(ssl) : NULL;
    return !ours || *ret_session;
}

/* Whoever shows a certificate does not have the secret. */
static int refuse(X509_STORE_CTX *store, void *arg)
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
    SSL_CTX_set_cert_verify_callback(tls->context, refuse, NULL);
    if (SSL_CTX_set_session_id_context(tls->context, identity, sizeof identity) != 1 ||
        SSL_CTX_set_ciphersuites(tls->context, "TLS_AES_128_GCM_SHA256") != 1)
        return err_set(err, -ENOMEM, "out of memory");
    if (listens)
        SSL_CTX_set_psk_find_session_callback(tls->context, find);
    else
        SSL_CTX_set_psk_use_session_callback(tls->context, offer);
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
