/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/test_tree.h"

#include <errno.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "job/health/credentials.h"

enum { NOW = 1700000000 };

/* Adds what was written to it, and frees it. */
static void put_output(struct buf *out, BIO *output)
{
    char *text;
    size_t len = (size_t)BIO_get_mem_data(output, &text);
    buf_append(out, text, len);
    BIO_free(output);
}

/* Appends a certificate that ends then. */
static void put_certificate(struct buf *out, EVP_PKEY *key, int64_t end)
{
    X509 *certificate = X509_new();
    BIO *output = BIO_new(BIO_s_mem());
    ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)(end - 100000));
    ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)end);
    X509_set_pubkey(certificate, key);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509(output, certificate), 1);
    put_output(out, output);
    X509_free(certificate);
}

/* A proxy as there are: its certificate, its key, and that of the user. */
static void put_proxy(struct buf *out, int64_t end, int64_t user_end)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    BIO *output = BIO_new(BIO_s_mem());
    put_certificate(out, key, end);
    PEM_write_bio_PrivateKey(output, key, NULL, NULL, 0, NULL, NULL);
    put_output(out, output);
    put_certificate(out, key, user_end);
    EVP_PKEY_free(key);
}

static void put_token(struct buf *out, const char *claims)
{
    unsigned char encoded[1024];
    EVP_EncodeBlock(encoded, (const unsigned char *)claims, (int)strlen(claims));
    for (unsigned char *c = encoded; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c == '=' ? 0 : *c;
    buf_printf(out, "eyJhbGciOiJub25lIn0.%s.c2lnbmF0dXJl\n", (char *)encoded);
}

/* ---- what is read ---- */

static void test_proxy(void **unused)
{
    struct buf proxy = BUF_INIT;
    int64_t end = 0;
    struct err err = {0};
    put_proxy(&proxy, NOW + 100, NOW + 5000);
    assert_int_equal(proxy_expires(proxy.data, proxy.len, &end, &err), 0);
    assert_int_equal(end, NOW + 100);
    /* cut anywhere, or with a damaged byte: an error, or a time of it */
    for (size_t len = 0; len < proxy.len; len += 7) {
        proxy_expires(proxy.data, len, &end, &err);
        char kept = proxy.data[len];
        proxy.data[len] = (char)(kept ^ 0x15);
        proxy_expires(proxy.data, proxy.len, &end, &err);
        proxy.data[len] = kept;
    }
    assert_int_equal(proxy_expires(proxy.data, 30, &end, &err), -EBADMSG);
    buf_clear(&proxy);
    put_proxy(&proxy, NOW + 5000, NOW + 7); /* the user's own ends before */
    assert_int_equal(proxy_expires(proxy.data, proxy.len, &end, &err), 0);
    assert_int_equal(end, NOW + 7);
    buf_done(&proxy);
}

static void test_token(void **unused)
{
    static const struct {
        const char *claims;
        int code;
        int64_t end;
    } cases[] = {{"{\"exp\": 1700000100}", 0, 1700000100},
                 {"{\"exp\": 1700000100.9, \"sub\": \"\xc3\xbf\xc3\xbe?>\"}", 0, 1700000100},
                 {"{\"sub\": \"x\"}", -ENODATA, 0},
                 {"{\"exp\": \"1700000100\"}", -EBADMSG, 0},
                 {"{\"exp\": -1}", -EBADMSG, 0},
                 {"{\"exp\": 1e300}", -EBADMSG, 0},
                 {"{\"exp\": 1, \"exp\": 2}", -EBADMSG, 0},
                 {"[1700000100]", -EBADMSG, 0},
                 {"{", -EBADMSG, 0}};
    static const char *const damaged[] = {
        "", ".", "..", "a.b", "a..c", "a.=.c", "a.====.c", "a.!!!!.c", "a.e30\n.c", "\n \t", "a.\xff\xff\xff.c"};
    struct err err;
    int64_t end;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf token = BUF_INIT;
        end = 0;
        put_token(&token, cases[i].claims);
        assert_int_equal(token_expires(token.data, token.len, &end, &err), cases[i].code);
        assert_int_equal(end, cases[i].end);
        buf_done(&token);
    }
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        assert_true(token_expires(damaged[i], strlen(damaged[i]), &end, &err) < 0);
}

/* ---- Kerberos: a cache as MIT describes it (ccache file format, version 4) ---- */

static void put_u32(struct buf *out, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        buf_putc(out, (char)(number >> shift));
}

static void put_name(struct buf *out, const char *name)
{
    put_u32(out, (uint32_t)strlen(name));
    buf_puts(out, name);
}

static void put_principal(struct buf *out, const char *one, const char *two)
{
    put_u32(out, 1);
    put_u32(out, two ? 2 : 1);
    put_name(out, "REALM");
    put_name(out, one);
    if (two)
        put_name(out, two);
}

static void put_ticket(struct buf *out, const char *service, uint32_t end)
{
    put_principal(out, "user", NULL);
    put_principal(out, service, "REALM");
    buf_append(out, "\0\x12", 2); /* the key: its type and bytes */
    put_name(out, "key");
    for (int i = 0; i < 4; i++)
        put_u32(out, i == 2 ? end : 0);
    buf_append(out, "\0\0\0\0\0", 5); /* no skey, no flags */
    put_u32(out, 0);                  /* addresses */
    put_u32(out, 0);                  /* authorization data */
    put_name(out, "ticket");
    put_name(out, "");
}

static void test_tickets(void **unused)
{
    struct tree tree;
    struct buf cache = BUF_INIT;
    char path[128];
    int64_t end = 0;
    struct err err = {0};
    tree_init(&tree);
    snprintf(path, sizeof path, "FILE:%s/cache", tree.root);
    buf_append(&cache, "\x05\x04\0\0", 4);
    put_principal(&cache, "user", NULL);
    put_ticket(&cache, "host", NOW + 9999);
    put_ticket(&cache, "krbtgt", NOW + 50);
    tree_write_bytes(&tree, "/cache", cache.data, cache.len);
    int code = tickets_expire(path, &end, &err);
    if (code == -ENOTSUP) {
        print_message("SKIP: built without libkrb5\n");
        buf_done(&cache);
        tree_done(&tree);
        skip();
    }
    assert_int_equal(code, 0);
    assert_int_equal(end, NOW + 50);
    for (size_t len = 0; len < cache.len; len += 3) { /* cut anywhere */
        tree_write_bytes(&tree, "/cache", cache.data, len);
        tickets_expire(path, &end, &err);
    }
    assert_true(tickets_expire("NO_SUCH_TYPE:x", &end, &err) < 0);
    buf_done(&cache);
    tree_done(&tree);
}

/* ---- warnings ---- */

static struct tree *variables_of;
static const char *proxy_name, *token_name;
static bool has_runtime; /* the directory is the tree's root */

static char *variable(const char *name)
{
    static char path[PATH_MAX], none[] = "MEMORY:none";
    const char *file = strcmp(name, "X509_USER_PROXY") == 0     ? proxy_name
                       : strcmp(name, "BEARER_TOKEN_FILE") == 0 ? token_name
                                                                : NULL;
    if (strcmp(name, "KRB5CCNAME") == 0)
        return none;
    if (strcmp(name, "XDG_RUNTIME_DIR") == 0 && has_runtime)
        return variables_of->root;
    if (!file)
        return NULL;
    snprintf(path, sizeof path, "%s/%s", variables_of->root, file);
    return path;
}

static void look_later(struct credentials *credentials, struct tree *tree, int64_t now)
{
    tree_pass(tree, 11);
    credentials_look(credentials, &tree->look, now);
}

static void write_token(struct tree *tree, const char *claims)
{
    struct buf token = BUF_INIT;
    put_token(&token, claims);
    tree_write_bytes(tree, "/token", token.data, token.len);
    buf_done(&token);
}

static void test_stages(void **unused)
{
    struct tree tree;
    struct credentials credentials;
    tree_init(&tree);
    variables_of = &tree;
    proxy_name = "missing";
    token_name = "token";
    write_token(&tree, "{\"exp\": 1700010000}");
    credentials_init(&credentials, variable, "/");
    credentials.of[2].named = false; /* of tickets nothing is said here */
    credentials.wait_ms = 30000;
    credentials_look(&credentials, &tree.look, NOW);
    tree_assert_said(&tree, "credential_unreadable: the X.509 proxy /tmp/scry-health-");
    look_later(&credentials, &tree, NOW + 6000);
    tree_assert_said(&tree, "");
    look_later(&credentials, &tree, NOW + 7000);
    tree_assert_said(&tree, "credential_expires: the bearer token /tmp/scry-health-");
    look_later(&credentials, &tree, NOW + 8000);
    tree_assert_said(&tree, "");
    look_later(&credentials, &tree, NOW + 9500);
    tree_assert_said(&tree, "credential_expires");
    write_token(&tree, "{\"exp\": 1700020000, \"renewed\": true}");
    look_later(&credentials, &tree, NOW + 9990);
    tree_assert_said(&tree, "");
    look_later(&credentials, &tree, NOW + 20000);
    tree_assert_said(&tree, "credential_expired: the bearer token");
    look_later(&credentials, &tree, NOW + 20001);
    tree_assert_said(&tree, "");
    credentials_done(&credentials);
    tree_done(&tree);
}

/* Where nobody has named one, a file that somebody else has put there is none of ours. */
static void test_of_somebody_else(void **unused)
{
    struct tree tree;
    struct credentials credentials;
    char name[40], path[PATH_MAX];
    tree_init(&tree);
    variables_of = &tree;
    proxy_name = token_name = NULL;
    has_runtime = true;
    snprintf(name, sizeof name, "/bt_u%u", getuid());
    snprintf(path, sizeof path, "%s%s", tree.root, name);
    tree_write(&tree, name, "x");
    credentials_init(&credentials, variable, "/");
    assert_string_equal(credentials.of[1].path, path);
    credentials_done(&credentials);
    bool root = chown(path, getuid() + 1, (gid_t)-1) == 0;
    if (root) {
        credentials_init(&credentials, variable, "/");
        assert_true(!credentials.of[1].path || strcmp(credentials.of[1].path, path) != 0);
        credentials_done(&credentials);
    }
    has_runtime = false;
    tree_done(&tree);
    if (!root) {
        print_message("SKIP: only root gives files away\n");
        skip();
    }
}

static int answers[2]; /* a pipe: a byte is an answer */

static int answer_late(const char *bytes, size_t len, int64_t *ret_expires, struct err *err)
{
    char byte;
    *ret_expires = NOW + 60;
    return read(answers[0], &byte, 1) == 1 ? 0 : -EIO;
}

/* Nobody waits for one that hangs, and it is warned of; with its answer all is well. */
static void test_silent(void **unused)
{
    struct tree tree;
    struct credentials credentials;
    tree_init(&tree);
    variables_of = &tree;
    proxy_name = NULL;
    token_name = "token";
    write_token(&tree, "{}");
    assert_int_equal(pipe(answers), 0);
    credentials_init(&credentials, variable, "/");
    credentials.of[1].read = answer_late;
    credentials.of[2].named = false;
    credentials.wait_ms = 1;
    credentials_look(&credentials, &tree.look, NOW);
    tree_assert_said(&tree, "");
    look_later(&credentials, &tree, NOW);
    tree_assert_said(&tree, "credential_unreadable: the bearer token ");
    look_later(&credentials, &tree, NOW);
    tree_assert_said(&tree, "");
    assert_int_equal(write(answers[1], "x", 1), 1);
    while (!credentials.of[1].known)
        credentials_look(&credentials, &tree.look, NOW);
    tree_assert_said(&tree, "credential_expires: the bearer token");
    look_later(&credentials, &tree, NOW + 10);
    credentials_done(&credentials);
    close(answers[1]);
    tree_assert_said(&tree, "");
    tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_proxy),   cmocka_unit_test(test_token),
                                       cmocka_unit_test(test_tickets), cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_silent),  cmocka_unit_test(test_of_somebody_else)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
