/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "base/data/buf.h"
#include "base/system/dirs.h"
#include "base/system/file.h"

_Static_assert(sizeof((struct broker_url *)0)->path == sizeof((struct sockaddr_un *)0)->sun_path, "a socket's path");

enum { PORT_PLAIN = 1883, PORT_TLS = 8883, BROKERS_BYTES = 1 << 20 };

static bool text_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool broker_url_is(const char *word)
{
    if (word[0] == '@')
        return word[1] && strcmp(word, "@last") != 0;
    return text_begins(word, "mqtt://") || text_begins(word, "mqtts://") || text_begins(word, "unix:") ||
           strcmp(word, "local") == 0 || text_begins(word, "local//");
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Copies a part of the URL, with %XX decoded. `what` is for the message, which does not show the part: it may be secret. */
static int part_copy(struct span part, char *ret_text, size_t size, const char *what, struct err *err)
{
    size_t len = 0;
    for (size_t i = 0; i < part.len; i++) {
        char c = part.ptr[i];
        if (c == '%') {
            int high = i + 2 < part.len ? hex_digit(part.ptr[i + 1]) : -1,
                low = high < 0 ? -1 : hex_digit(part.ptr[i + 2]);
            if (low < 0)
                return err_set(err, -EINVAL, "the URL's %s: %% needs two hexadecimal digits (%%25 is a percent sign)",
                               what);
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (!c)
            return err_set(err, -EINVAL, "the URL's %s has a zero byte", what);
        if (len + 1 >= size)
            return err_set(err, -EINVAL, "the URL's %s is longer than %zu bytes", what, size - 1);
        ret_text[len++] = c;
    }
    ret_text[len] = 0;
    return 0;
}

static struct span span_until(struct span text, char end, struct span *ret_rest)
{
    const char *at = memchr(text.ptr, end, text.len);
    size_t len = at ? (size_t)(at - text.ptr) : text.len;
    *ret_rest = at ? span_of(at + 1, text.len - len - 1) : span_of(text.ptr + text.len, 0);
    return span_of(text.ptr, len);
}

/* [OWNER[/JOB]] */
static int take_job(struct span text, struct broker_url *url, struct err *err)
{
    struct span job, owner = span_until(text, '/', &job);
    if (memchr(job.ptr, '/', job.len))
        return err_set(err, -EINVAL, "the URL ends with OWNER/JOB, and %.*s has more (%%2f is a slash)",
                       SPAN_ARG(text));
    if (owner.len == 0 && job.len > 0)
        return err_set(err, -EINVAL, "the URL names a job, but not its owner: write OWNER/%.*s", SPAN_ARG(job));
    int code = part_copy(owner, url->owner, sizeof url->owner, "owner", err);
    return code < 0 ? code : part_copy(job, url->job, sizeof url->job, "job", err);
}

static int take_place(struct span text, struct broker_url *url, struct err *err)
{
    if (url->place_count == BROKER_PLACES)
        return err_set(err, -EINVAL, "the URL names more than %d hosts", BROKER_PLACES);
    struct broker_place *place = &url->places[url->place_count++];
    struct span host, port;
    bool has_port;
    if (text.len && text.ptr[0] == '[') {
        host = span_until(span_of(text.ptr + 1, text.len - 1), ']', &port);
        has_port = port.len > 0 && port.ptr[0] == ':';
        if (host.len + 2 > text.len || (port.len > 0 && !has_port))
            return err_set(err, -EINVAL, "%.*s: an IPv6 address stands in brackets: [ADDRESS]:PORT", SPAN_ARG(text));
        if (has_port)
            port = span_of(port.ptr + 1, port.len - 1);
    } else {
        host = span_until(text, ':', &port);
        has_port = host.len < text.len;
        if (memchr(port.ptr, ':', port.len))
            return err_set(err, -EINVAL, "%.*s: an IPv6 address stands in brackets: [ADDRESS]:PORT", SPAN_ARG(text));
    }
    if (host.len == 0)
        return err_set(err, -EINVAL, "the URL names no host: mqtt://HOST[:PORT]");
    if (host.len >= sizeof place->host)
        return err_set(err, -EINVAL, "a host's name is longer than %zu bytes", sizeof place->host - 1);
    for (size_t i = 0; i < host.len; i++)
        if ((unsigned char)host.ptr[i] <= ' ' || host.ptr[i] == 0x7f)
            return err_set(err, -EINVAL, "a host's name has a blank or a control character");
    memcpy(place->host, host.ptr, host.len);
    place->host[host.len] = 0;
    place->port = url->tls ? PORT_TLS : PORT_PLAIN;
    if (!has_port)
        return 0;
    int number = 0;
    for (size_t i = 0; i < port.len && number <= 65535; i++)
        number = port.ptr[i] >= '0' && port.ptr[i] <= '9' ? number * 10 + port.ptr[i] - '0' : 65536;
    if (port.len == 0 || number == 0 || number > 65535)
        return err_set(err, -EINVAL, "%.*s: a port is a number from 1 to 65535", SPAN_ARG(text));
    place->port = number;
    return 0;
}

/* A file that is for its owner alone: as ssh has it for its keys. */
static int read_private(const char *path, char **ret_text, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s is no ordinary file", path);
    if (st.st_mode & 077)
        return err_set(err, -EACCES, "%s has a password, and others may read it: chmod 600 it", path);
    size_t len;
    int code = file_read(path, ret_text, &len);
    return code < 0 ? err_errno(err, code, "%s", path) : 0;
}

static int take_password(const char *path, struct broker_url *url, struct err *err)
{
    _cleanup_(freep) char *text = NULL;
    int code = read_private(path, &text, err);
    if (code < 0)
        return code;
    size_t len = strcspn(text, "\r\n");
    if (len == 0 || len >= sizeof url->password)
        return err_set(err, -EINVAL, "%s: its first line is the password, of 1 to %zu bytes", path,
                       sizeof url->password - 1);
    memcpy(url->password, text, len);
    url->password[len] = 0;
    explicit_bzero(text, strlen(text));
    return 0;
}

/* NAME=VALUE; dir is where a relative FILE begins, or NULL. */
static int take_setting(struct span text, const char *dir, struct broker_url *url, struct err *err)
{
    struct span value, name = span_until(text, '=', &value);
    char path[PATH_MAX], file[PATH_MAX];
    int code = part_copy(value, file, sizeof file, "file", err);
    if (code < 0)
        return code;
    if (!*file || (*file != '/' && !dir))
        return err_set(err, -EINVAL, "%.*s needs an absolute path of a file", SPAN_ARG(name));
    if (snprintf(path, sizeof path, "%s%s%s", *file == '/' ? "" : dir, *file == '/' ? "" : "/", file) >= PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "%.*s: the path is too long", SPAN_ARG(name));
    if (span_is(name, "password"))
        return take_password(path, url, err);
    char *to = span_is(name, "ca")     ? url->ca
               : span_is(name, "cert") ? url->cert
               : span_is(name, "key")  ? url->key
                                       : NULL;
    if (!to)
        return err_set(err, -EINVAL, "%.*s: there are ca=FILE, cert=FILE, key=FILE and password=FILE", SPAN_ARG(name));
    memcpy(to, path, strlen(path) + 1);
    return 0;
}

static int parse_mqtt(struct span text, struct broker_url *url, struct err *err)
{
    struct span settings, job, user, places, rest = span_until(text, '?', &settings),
                                             authority = span_until(rest, '/', &job);
    int code = take_job(job, url, err);
    const char *at = memrchr(authority.ptr, '@', authority.len);
    if (code == 0 && at) {
        struct span password;
        user = span_until(span_of(authority.ptr, (size_t)(at - authority.ptr)), ':', &password);
        authority = span_of(at + 1, authority.len - (size_t)(at + 1 - authority.ptr));
        code = part_copy(user, url->user, sizeof url->user, "user", err);
        if (code == 0)
            code = part_copy(password, url->password, sizeof url->password, "password", err);
        if (code == 0 && !*url->user)
            code = err_set(err, -EINVAL, "the URL has an @, but no user before it");
    }
    for (places = authority; code == 0 && (places.len || !url->place_count);) {
        struct span place = span_until(places, ',', &places);
        code = take_place(place, url, err);
    }
    while (code == 0 && settings.len) {
        struct span setting = span_until(settings, '&', &settings);
        code = take_setting(setting, NULL, url, err);
    }
    return code;
}

static int parse_unix(struct span text, struct broker_url *url, struct err *err)
{
    const char *end = memmem(text.ptr, text.len, "//", 2);
    size_t len = end ? (size_t)(end - text.ptr) : text.len;
    if (len == 0 || text.ptr[0] != '/')
        return err_set(err, -EINVAL, "unix:PATH needs an absolute path; behind it, //OWNER/JOB may follow");
    /* It would be no socket, and what follows could not be told from it: PATH///OWNER. */
    if (text.ptr[len - 1] == '/')
        return err_set(err, -EINVAL, "unix:PATH needs the path of a socket, and %.*s ends with a slash", (int)len,
                       text.ptr);
    if (len >= sizeof url->path)
        return err_set(err, -EINVAL, "the path of a socket has at most %zu bytes: %.*s", sizeof url->path - 1, (int)len,
                       text.ptr);
    memcpy(url->path, text.ptr, len);
    url->path[len] = 0;
    return end ? take_job(span_of(end + 2, text.len - len - 2), url, err) : 0;
}

static int parse_local(const char *word, struct broker_url *url, struct err *err)
{
    char dir[PATH_MAX];
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    if ((size_t)snprintf(url->path, sizeof url->path, "%.*s/broker.sock", PATH_MAX - 16, dir) >= sizeof url->path)
        return err_set(err, -ENAMETOOLONG, "%s is too long for a socket: set SCRY_RUNTIME_DIR", dir);
    url->local = true;
    return word[5] ? take_job(span_str(word + 7), url, err) : 0;
}

/* What is needed together, or makes no sense. */
static int url_check(struct broker_url *url, struct err *err)
{
    if (!url->tls && (*url->ca || *url->cert || *url->key))
        return err_set(err, -EINVAL, "ca, cert and key are for mqtts://");
    if (!*url->cert != !*url->key)
        return err_set(err, -EINVAL, "a client's certificate needs both: cert=FILE and key=FILE");
    if (*url->cert && !*url->ca)
        return err_set(err, -EINVAL,
                       "with cert=FILE, say also which authority signed the broker's certificate: ca=FILE");
    if (*url->password && !*url->user)
        return err_set(err, -EINVAL, "a password needs a user: mqtt://USER@HOST");
    return 0;
}

static int parse_plain(const char *word, struct broker_url *url, struct err *err)
{
    if (text_begins(word, "mqtt://"))
        return parse_mqtt(span_str(word + 7), url, err);
    if (text_begins(word, "mqtts://")) {
        url->tls = true;
        return parse_mqtt(span_str(word + 8), url, err);
    }
    if (text_begins(word, "unix:"))
        return parse_unix(span_str(word + 5), url, err);
    if (strcmp(word, "local") == 0 || text_begins(word, "local//"))
        return parse_local(word, url, err);
    const char *colon = strstr(word, "://");
    if (colon)
        return err_set(err, -EINVAL, "brokers are reached by mqtt://, mqtts:// or unix:, not by %.*s://",
                       (int)(colon - word), word);
    return err_set(err, -EINVAL, "no URL of a broker: mqtt://HOST, mqtts://HOST, unix:PATH, local, or @NAME");
}

struct line {
    struct span name, url, settings;
    int number;
};

static struct span next_word(struct span *text)
{
    size_t from = 0, to;
    while (from < text->len && strchr(" \t\r", text->ptr[from]))
        from++;
    for (to = from; to < text->len && !strchr(" \t\r", text->ptr[to]);)
        to++;
    struct span word = span_of(text->ptr + from, to - from);
    *text = span_of(text->ptr + to, text->len - to);
    return word;
}

static bool next_line(struct span *text, struct line *line)
{
    while (text->len) {
        struct span rest = span_until(*text, '\n', text);
        line->number++;
        line->name = next_word(&rest);
        if (line->name.len == 0 || line->name.ptr[0] == '#')
            continue;
        line->url = next_word(&rest);
        line->settings = rest;
        return true;
    }
    return false;
}

static int parse_line(const struct line *line, const char *dir, mode_t mode, struct broker_url *url, struct err *err)
{
    char word[2048];
    if (line->url.len == 0 || line->url.len >= sizeof word)
        return err_set(err, -EINVAL, "a line is: NAME URL [ca=FILE] [cert=FILE] [key=FILE] [password=FILE]");
    memcpy(word, line->url.ptr, line->url.len);
    word[line->url.len] = 0;
    if (word[0] == '@')
        return err_set(err, -EINVAL, "%s: a line names the broker itself", word);
    int code = parse_plain(word, url, err);
    if (code == 0 && *url->password && mode & 077)
        return err_set(err, -EACCES, "others may read the password in it: chmod 600 it, or use password=FILE");
    for (struct span settings = line->settings, setting; code == 0 && (setting = next_word(&settings)).len;)
        code = take_setting(setting, dir, url, err);
    return code;
}

/* *ret_text: malloc'ed; -ENOENT is no error yet. */
static int read_brokers(char dir[PATH_MAX], char path[PATH_MAX + 16], mode_t *ret_mode, char **ret_text,
                        size_t *ret_len, struct err *err)
{
    int code = dirs_config(dir, PATH_MAX, err);
    if (code < 0)
        return code;
    snprintf(path, PATH_MAX + 16, "%s/brokers", dir);
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_size > BROKERS_BYTES)
        return err_set(err, -EINVAL, "%s is no ordinary file, or longer than %d bytes", path, BROKERS_BYTES);
    *ret_mode = st.st_mode;
    code = file_read(path, ret_text, ret_len);
    return code < 0 ? err_errno(err, code, "%s", path) : 0;
}

int broker_url_names(struct buf *out, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 16];
    _cleanup_(freep) char *content = NULL;
    size_t len;
    mode_t mode;
    int code = read_brokers(dir, path, &mode, &content, &len, err);
    if (code < 0)
        return code == -ENOENT ? 0 : code;
    struct span text = span_of(content, len);
    for (struct line line = {0}; next_line(&text, &line);) {
        buf_append(out, line.name.ptr, line.name.len);
        buf_putc(out, ' ');
    }
    return 0;
}

/* @NAME[/OWNER[/JOB]] */
static int parse_named(const char *word, struct broker_url *url, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 16];
    _cleanup_(freep) char *content = NULL;
    size_t len;
    mode_t mode;
    struct span job, name = span_until(span_str(word + 1), '/', &job);
    bool last = !job.len && name.len && fuzzy_distance(name.ptr, name.len, "last") <= 2;
    const char *meant = last ? ": did you mean @last? A" : ": a";
    int code = read_brokers(dir, path, &mode, &content, &len, err);
    if (code == -ENOENT)
        return err_set(err, code, "@%.*s%s line of %s (NAME URL) says which broker that is, and there is no such file",
                       SPAN_ARG(name), meant, path);
    if (code < 0)
        return code;

    struct span text = span_of(content, len);
    struct line line = {0};
    char known[256] = "";
    while (next_line(&text, &line)) {
        if (span_eq(line.name, name)) {
            struct err inner;
            code = parse_line(&line, dir, mode, url, &inner);
            if (code < 0)
                return err_set(err, code, "%s, line %d: %s", path, line.number, inner.text);
            return job.len ? take_job(job, url, err) : 0;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%.*s", used ? ", " : "", SPAN_ARG(line.name));
    }
    return err_set(err, -ENOENT, "@%.*s%s line of %s (NAME URL) says which broker that is, and none does%s%s",
                   SPAN_ARG(name), meant, path, *known ? "; it has " : "", known);
}

int broker_url_parse(const char *word, struct broker_url *ret_url, struct err *err)
{
    struct broker_url url = {0};
    int code = word[0] == '@' ? parse_named(word, &url, err) : parse_plain(word, &url, err);
    if (code == 0)
        code = url_check(&url, err);
    if (code == 0)
        *ret_url = url;
    explicit_bzero(url.password, sizeof url.password);
    return code;
}

static void put_part(struct buf *out, const char *text)
{
    for (; *text; text++)
        if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9') ||
            strchr("-._~", *text))
            buf_putc(out, *text);
        else
            buf_printf(out, "%%%02X", (unsigned char)*text);
}

static void put_places(struct buf *out, const struct broker_url *url)
{
    for (int i = 0; i < url->place_count; i++) {
        const struct broker_place *place = &url->places[i];
        bool brackets = strchr(place->host, ':');
        buf_printf(out, "%s%s%s%s", i ? "," : "", brackets ? "[" : "", place->host, brackets ? "]" : "");
        if (place->port != (url->tls ? PORT_TLS : PORT_PLAIN))
            buf_printf(out, ":%d", place->port);
    }
}

static void url_put(struct buf *out, const struct broker_url *url, bool all)
{
    if (url->local)
        buf_puts(out, "local");
    else if (!url->place_count)
        buf_printf(out, "unix:%s", url->path);
    else {
        buf_puts(out, url->tls ? "mqtts://" : "mqtt://");
        put_part(out, url->user);
        if (all && *url->password) {
            buf_putc(out, ':');
            put_part(out, url->password);
        }
        if (*url->user)
            buf_putc(out, '@');
        put_places(out, url);
    }
    if (*url->owner) {
        buf_puts(out, url->place_count ? "/" : "//");
        put_part(out, url->owner);
        if (*url->job) {
            buf_putc(out, '/');
            put_part(out, url->job);
        }
    }
    const char *files[][2] = {{"ca", url->ca}, {"cert", url->cert}, {"key", url->key}};
    char mark = '?';
    for (size_t i = 0; all && i < 3; i++)
        if (*files[i][1]) {
            buf_printf(out, "%c%s=", mark, files[i][0]);
            put_part(out, files[i][1]);
            mark = '&';
        }
}

void broker_url_put(struct buf *out, const struct broker_url *url)
{
    url_put(out, url, true);
}

void broker_url_show(const struct broker_url *url, char *ret_text, int size)
{
    struct buf text = BUF_INIT;
    url_put(&text, url, false);
    snprintf(ret_text, (size_t)size, "%s", text.failed ? "" : text.data);
    buf_done(&text);
}
