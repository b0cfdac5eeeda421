/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A certificate that was renewed holds for connections that come. Its two files are not replaced at once, and nobody says how
 * much later the second one comes: so the old pair stays until a certificate and its key are there, and both are put in
 * place together. (lws_tls_cert_updated puts in one, and then finds out that the other does not fit.)
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/sum.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "shm/waits.h"
#include "web/http/certificate.h"
#include "web/http/server.h"

struct pair {
    X509 *own;
    STACK_OF(X509) * above;
    EVP_PKEY *key;
};

static void pair_done(struct pair *pair)
{
    X509_free(pair->own);
    sk_X509_pop_free(pair->above, X509_free);
    EVP_PKEY_free(pair->key);
}

/* No key is worth a question on the terminal of a server. */
static int no_password(char *room, int size, int writes, void *ctx)
{
    (void)room, (void)size, (void)writes, (void)ctx;
    return -1;
}

static BIO *open_text(const char *path, char **ret_text)
{
    size_t len;
    return file_read_plain(path, ret_text, &len) == 0 ? BIO_new_mem_buf(*ret_text, (int)len) : NULL;
}

static void read_pair(const char *cert, const char *key, struct pair *ret_pair)
{
    _cleanup_(freep) char *cert_text = NULL, *key_text = NULL;
    BIO *certs = open_text(cert, &cert_text), *keys = open_text(key, &key_text);
    *ret_pair = (struct pair){.above = sk_X509_new_null()};
    if (certs)
        ret_pair->own = PEM_read_bio_X509(certs, NULL, no_password, NULL);
    for (X509 *each; certs && ret_pair->above && (each = PEM_read_bio_X509(certs, NULL, no_password, NULL));)
        if (!sk_X509_push(ret_pair->above, each)) {
            X509_free(each);
            break;
        }
    if (keys)
        ret_pair->key = PEM_read_bio_PrivateKey(keys, NULL, no_password, NULL);
    BIO_free(certs);
    BIO_free(keys);
    if (key_text)
        explicit_bzero(key_text, strlen(key_text));
}

/* Puts in both, or none. */
static bool take_pair(const struct server *server)
{
    struct pair pair;
    read_pair(options_text(server->options, "tls-cert"), options_text(server->options, "tls-key"), &pair);
    bool good = pair.own && pair.above && pair.key &&
                SSL_CTX_use_cert_and_key(server->tls, pair.own, pair.key, pair.above, 1) == 1;
    ERR_clear_error();
    pair_done(&pair);
    return good;
}

/* 0: one of the files cannot be read. */
static uint64_t stamp_of(const struct server *server)
{
    const char *files[] = {options_text(server->options, "tls-cert"), options_text(server->options, "tls-key")};
    uint64_t stamp = 1;
    struct stat info;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (stat(files[i], &info) < 0 || access(files[i], R_OK) < 0)
            return 0;
        uint64_t facts[] = {(uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                            (uint64_t)info.st_mtim.tv_nsec};
        stamp = sum_add(stamp, facts, sizeof facts);
    }
    return stamp;
}

/* What is there is looked at when it has been the same for a while: a file may be half written. */
static void look(lws_sorted_usec_list_t *timer)
{
    struct server *server = lws_container_of(timer, struct server, renewal);
    uint64_t stamp = stamp_of(server);
    if (stamp != server->certificate && stamp == server->certificate_seen) {
        if (stamp && take_pair(server))
            server->certificate_refused = false;
        else if (!server->certificate_refused) { /* once, until one fits */
            log_warning("--tls-cert and --tls-key have changed, and %s: the old ones are used until both are there",
                        stamp ? "the key does not fit the certificate, or one is no PEM" : "cannot be read");
            server->certificate_refused = true;
        }
        server->certificate = stamp;
    }
    server->certificate_seen = stamp;
    lws_sul_schedule(server->context, 0, timer, look,
                     (lws_usec_t)time_hasten(CERTIFICATE_LOOK_SECONDS * LWS_US_PER_SEC));
}

void certificate_follow(struct server *server)
{
    server->certificate = server->certificate_seen = stamp_of(server);
    lws_sul_schedule(server->context, 0, &server->renewal, look,
                     (lws_usec_t)time_hasten(CERTIFICATE_LOOK_SECONDS * LWS_US_PER_SEC));
}
