/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/text.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void append_text(struct buf *out, const char *text, size_t limit, bool escape_controls)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t left = strlen(text);
    while (left) {
        if (out->len >= limit) {
            buf_puts(out, "...");
            return;
        }
        size_t len = utf8_length(at, left);
        if (escape_controls && *at == '\t') {
            buf_putc(out, ' ');
        } else if (len == 0 || (escape_controls && utf8_starts_control(at, len))) {
            buf_printf(out, "\\x%02x", at[0]);
            len = len ? len : 1;
            for (size_t i = 1; i < len; i++)
                buf_printf(out, "\\x%02x", at[i]);
        } else {
            buf_append(out, at, len);
        }
        at += len;
        left -= len;
    }
}

void text_clean(struct buf *out, const char *bytes)
{
    append_text(out, bytes, TEXT_LIMIT, false);
}

void text_show(struct buf *out, const char *text)
{
    append_text(out, text, SIZE_MAX, true);
}

/* Bytes of a sequence that sets colours and begins there (ECMA-48, 8.3.117); 0: none does. */
static size_t sgr_at(const char *text, size_t len)
{
    enum { SGR_MOST = 64 };
    size_t end = 2;
    if (len < 3 || text[0] != '\033' || text[1] != '[')
        return 0;
    while (end < len && end < SGR_MOST && text[end] && strchr("0123456789;:", text[end]))
        end++;
    return end < len && text[end] == 'm' ? end + 1 : 0;
}

void text_show_line(struct buf *out, const char *line, size_t len, bool colours)
{
    bool coloured = false;
    while (len && line[len - 1] == '\r')
        len--;
    const char *over = memrchr(line, '\r', len), *end = line + len;
    for (const char *at = over ? over + 1 : line; at < end;) {
        size_t left = (size_t)(end - at), sgr = sgr_at(at, left), size = utf8_length(at, left);
        bool shown = *at == '\t' || (size && !utf8_starts_control(at, size));
        coloured |= sgr && colours;
        size = sgr ? sgr : size ? size : 1;
        if (shown || (sgr && colours))
            buf_append(out, at, size);
        for (size_t i = 0; i < size && !shown && !sgr; i++)
            buf_printf(out, "\\x%02x", (unsigned char)at[i]);
        at += size;
    }
    buf_puts(out, coloured ? TEXT_PLAIN : "");
}

void text_show_brief(struct buf *out, const char *text)
{
    static const char pid[] = " (pid ";
    for (const char *at; (at = strstr(text, pid));) {
        const char *end = at + strlen(pid) + strspn(at + strlen(pid), "0123456789");
        bool whole = *end == ')';
        _cleanup_(buf_done) struct buf part = BUF_INIT;
        buf_append(&part, text, (size_t)((whole ? at : end) - text));
        text_show(out, part.data ? part.data : "");
        text = end + whole;
    }
    text_show(out, text);
}

void text_quote(struct buf *out, const char *word)
{
    buf_putc(out, '\'');
    for (; *word; word++)
        if (*word == '\'')
            buf_puts(out, "'\\''");
        else
            buf_putc(out, *word);
    buf_putc(out, '\'');
}

static bool is_key(char byte)
{
    return ((unsigned char)byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f;
}

/* To a terminal that a text is pasted into, control characters are keys. */
static void quote_keys(struct buf *out, const char *word)
{
    buf_puts(out, "$'");
    for (; *word; word++)
        if (is_key(*word))
            buf_printf(out, "\\%03o", *word);
        else
            buf_printf(out, *word == '\'' || *word == '\\' ? "\\%c" : "%c", *word);
    buf_putc(out, '\'');
}

void text_word(struct buf *out, const char *word)
{
    size_t plain = strcspn(word, " \t\n\"'`$&|;<>()[]{}*?!#~\\"), keys = 0;
    while (word[keys] && !is_key(word[keys]))
        keys++;
    if (word[keys])
        quote_keys(out, word);
    else if (*word && !word[plain])
        buf_puts(out, word);
    else
        text_quote(out, word);
}

/* The bytes that fit, and in *ret_columns the columns they take. */
static size_t columns_fit(const char *text, size_t len, size_t columns, size_t *ret_columns)
{
    size_t used = 0, i = 0;
    for (; i < len; i++) {
        bool starts = ((unsigned char)text[i] & 0xc0) != 0x80;
        if (starts && used == columns)
            break;
        used += starts;
    }
    *ret_columns = used;
    return i;
}

bool text_is_one(const char *text, const char *const *words)
{
    for (; text && *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

bool text_begins_with_one(const char *text, const char *const *starts)
{
    for (; text && *starts; starts++)
        if (strncmp(text, *starts, strlen(*starts)) == 0)
            return true;
    return false;
}

bool text_has_one(const char *text, const char *const *words)
{
    for (; text && *words; words++)
        if (strcasestr(text, *words))
            return true;
    return false;
}

const char *text_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void text_function(struct buf *out, const char *name, const char *file)
{
    static const struct {
        const char *prefix, *what;
    } made[] = {{"_GLOBAL__sub_I_", "initialisers of "},
                {"_GLOBAL__sub_D_", "finalisers of "},
                {"_GLOBAL__I_", "initialisers of "},
                {"_GLOBAL__D_", "finalisers of "}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        size_t len = strlen(made[i].prefix);
        if (strncmp(name, made[i].prefix, len) != 0)
            continue;
        buf_puts(out, made[i].what);
        text_show(out, *file ? text_base(file) : name + len);
        return;
    }
    text_show(out, name);
}

size_t text_fit(const char *text, size_t len, size_t columns)
{
    size_t used;
    return columns_fit(text, len, columns, &used);
}

/* Returns the columns taken. */
static size_t text_cut_to(struct buf *out, const char *text, size_t columns)
{
    size_t used, all, len = strlen(text), keep = columns_fit(text, len, columns, &used);
    columns_fit(text, len, SIZE_MAX, &all);
    if (keep == len || columns < 8) {
        buf_append(out, text, keep);
        return used;
    }
    size_t behind = (columns - 3) / 2, before = columns - 3 - behind;
    buf_append(out, text, columns_fit(text, len, before, &used));
    buf_puts(out, "...");
    buf_puts(out, text + columns_fit(text, len, all - behind, &used));
    return columns;
}

void text_cut(struct buf *out, const char *text, size_t columns)
{
    text_cut_to(out, text, columns);
}

void text_cut_end(struct buf *out, const char *text, size_t columns)
{
    static const char mark[] = "...";
    size_t used, len = strlen(text), keep = columns_fit(text, len, columns, &used), word;
    if (keep < len && columns > strlen(mark)) {
        keep = columns_fit(text, len, columns - strlen(mark), &used);
        for (word = keep; word > keep / 2 && text[word] != ' '; word--)
            ;
        keep = text[word] == ' ' ? word : keep;
        while (keep && text[keep - 1] == ' ')
            keep--;
    }
    buf_append(out, text, keep);
    buf_puts(out, keep < len && columns > strlen(mark) ? mark : "");
}

void text_column(struct buf *out, const char *text, size_t columns)
{
    for (size_t used = text_cut_to(out, text, columns); used < columns; used++)
        buf_putc(out, ' ');
}

/* ---- lines ---- */

enum { HANG_MOST = 24, HANG = 4 };

/* Bytes of an escape sequence that begins there. */
static size_t colour_at(const char *text, size_t len)
{
    size_t end = 2;
    if (len < 3 || text[0] != '\033' || text[1] != '[')
        return 0;
    while (end < len && text[end] != 'm')
        end++;
    return end < len ? end + 1 : 0;
}

/* Where what follows a line's first words begins, if these end near, but at most in the middle; else a little behind
 * the line's beginning. */
static size_t hang_of(const char *line, size_t len, size_t columns)
{
    size_t column = 0, spaces = 0, begin = 0, middle = columns / 2;
    bool begun = false;
    for (size_t i = 0; i < len; i++) {
        size_t colour = colour_at(line + i, len - i);
        if (colour) {
            i += colour - 1;
            continue;
        }
        if (line[i] != ' ') {
            if (begun && spaces > 1)
                return column < middle ? column : middle;
            if (column > HANG_MOST || column >= middle)
                break;
            begin = begun ? begin : column;
            begun = true;
        }
        spaces = line[i] == ' ' ? spaces + 1 : 0;
        column += ((unsigned char)line[i] & 0xc0) != 0x80;
    }
    return begin + HANG < middle ? begin + HANG : middle;
}

/* As much as fits: up to two spaces, if they are not too near, or one; of a word that is too long alone, up to a sign
 * in it. *ret_whole: it is the rest. */
static size_t line_piece(const char *line, size_t len, size_t columns, bool *ret_whole)
{
    size_t column = 0, space = 0, spaces = 0, sign = 0;
    bool begun = false;
    *ret_whole = false;
    for (size_t i = 0; i < len; i++) {
        size_t colour = colour_at(line + i, len - i);
        if (colour) {
            i += colour - 1;
            continue;
        }
        bool starts = ((unsigned char)line[i] & 0xc0) != 0x80;
        if (starts && column == columns && line[i] != ' ')
            return spaces ? spaces : space ? space : sign ? sign : i;
        column += starts && column < columns;
        if (line[i] == ' ' && begun) {
            space = i;
            if (i && line[i - 1] == ' ' && column > columns / 2)
                spaces = i;
        } else if (line[i] != ' ') {
            begun = true;
        }
        if (column > columns / 2 && column < columns && strchr("/,;:(_-&=", line[i]))
            sign = i + 1;
    }
    *ret_whole = true;
    return len;
}

static void wrap_line(struct buf *out, const char *line, size_t len, size_t columns)
{
    size_t hang = hang_of(line, len, columns), room = columns;
    bool whole;
    for (;; room = columns - hang) {
        size_t fits = line_piece(line, len, room, &whole);
        while (fits && line[fits - 1] == ' ' && fits < len)
            fits--;
        buf_append(out, line, fits);
        line += fits;
        len -= fits;
        while (len && *line == ' ') {
            line++;
            len--;
        }
        if (whole || !len)
            return;
        buf_printf(out, "\n%*s", (int)hang, "");
    }
}

void text_wrap(struct buf *out, size_t start, size_t columns)
{
    struct buf wrapped = BUF_INIT;
    if (!columns || out->failed || !out->data)
        return;
    columns = columns < 20 ? 20 : columns;
    for (size_t at = start; at < out->len;) {
        const char *end = memchr(out->data + at, '\n', out->len - at);
        size_t len = end ? (size_t)(end - out->data) - at : out->len - at;
        if (len > columns)
            wrap_line(&wrapped, out->data + at, len, columns);
        else
            buf_append(&wrapped, out->data + at, len);
        if (end)
            buf_putc(&wrapped, '\n');
        at += len + (end != NULL);
    }
    out->len = start;
    buf_append(out, wrapped.data ? wrapped.data : "", wrapped.len);
    out->failed |= wrapped.failed;
    buf_done(&wrapped);
}

bool text_has_colours(int fd)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

size_t text_columns(int fd)
{
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    if (isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col)
        return size.ws_col;
    unsigned long number = columns && !isatty(fd) ? strtoul(columns, NULL, 10) : 0;
    return number ? number : isatty(fd) ? 80 : TEXT_WHOLE_LINES;
}

/* ---- numbers ---- */

void text_size(struct buf *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    buf_printf(out, value < 9.95 && unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void text_seconds(struct buf *out, double seconds)
{
    if (!(seconds > 0))
        seconds = 0;
    uint64_t hours = seconds < 1e15 ? (uint64_t)(seconds / 3600) : 0; /* fmod would need libm in each monitor */
    if (seconds > 0 && seconds < 0.0995)
        buf_printf(out, "%.1f ms", seconds * 1000);
    else if (seconds < 9.995)
        buf_printf(out, "%.2f s", seconds);
    else if (seconds < 99.95)
        buf_printf(out, "%.1f s", seconds);
    else if (seconds < 3599.5)
        buf_printf(out, "%d min %02d s", (int)(seconds + 0.5) / 60, (int)(seconds + 0.5) % 60);
    else if (seconds < 48 * 3600.0)
        buf_printf(out, "%d h %02d min", (int)(seconds / 3600), (int)(seconds / 60) % 60);
    else
        buf_printf(out, "%.0f d %02d h", floor(seconds / 86400), (int)(hours % 24));
}

void text_ns(struct buf *out, double ns)
{
    static const struct {
        double limit, unit;
        const char *name;
    } units[] = {{999.5e3, 1e3, "us"}, {999.5e6, 1e6, "ms"}, {60e9, 1e9, "s"}};
    if (ns < 999.5) {
        buf_printf(out, "%.0f ns", ns);
        return;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double value = ns / units[i].unit;
        if (ns < units[i].limit) {
            buf_printf(out, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[i].name);
            return;
        }
    }
    text_seconds(out, ns / 1e9);
}

/* What was just appended to `cell`, in so many columns, to the right; frees it. */
static void put_in(struct buf *out, struct buf *cell, int columns)
{
    buf_printf(out, "%*s", columns, cell->data ? cell->data : "");
    out->failed |= cell->failed;
    buf_done(cell);
}

void text_size_in(struct buf *out, uint64_t bytes, int columns)
{
    struct buf cell = BUF_INIT;
    text_size(&cell, bytes);
    put_in(out, &cell, columns);
}

void text_ns_in(struct buf *out, double ns, int columns)
{
    struct buf cell = BUF_INIT;
    text_ns(&cell, ns);
    put_in(out, &cell, columns);
}

void text_label(struct buf *out, const char *label)
{
    text_label_in(out, label, NULL);
}

void text_label_in(struct buf *out, const char *label, const char *colour)
{
    int room = 11 - (int)strlen(label);
    buf_printf(out, "  %s%s%s%*s", colour ? colour : "", label, colour ? TEXT_PLAIN : "", room > 1 ? room : 1, "");
}

const char *text_signal(int signo, char *room, size_t size)
{
    const char *name = sigabbrev_np(signo);
    if (name)
        snprintf(room, size, "SIG%s", name);
    else
        snprintf(room, size, "signal %d", signo);
    return room;
}

int text_signal_number(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (end != text && !*end)
        return number > 0 && number < NSIG ? (int)number : 0;
    text += strncasecmp(text, "SIG", strlen("SIG")) == 0 ? strlen("SIG") : 0;
    for (int signo = 1; signo < NSIG; signo++)
        if (sigabbrev_np(signo) && strcasecmp(text, sigabbrev_np(signo)) == 0)
            return signo;
    return 0;
}

json_t *text_json(const char *bytes)
{
    if (!bytes)
        return json_null();
    struct buf clean = BUF_INIT;
    text_clean(&clean, bytes);
    json_t *json = clean.failed ? NULL : json_stringn(clean.data ? clean.data : "", clean.len);
    buf_done(&clean);
    return json;
}

void text_show_json(struct buf *out, const char *json, size_t size)
{
    for (size_t at = 0, len; at < size; at += len) {
        size_t valid = utf8_length(json + at, size - at);
        uint32_t character = valid ? utf8_character(json + at, valid) : 0xfffd;
        len = valid ? valid : 1;
        if (valid && (!utf8_is_control(character) || character == '\n'))
            buf_append(out, json + at, len);
        else if (character < 0x10000)
            buf_printf(out, "\\u%04x", character);
        else
            buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (character >> 10), 0xdc00 + (character & 0x3ff));
    }
}

void text_dump_json(struct buf *out, const json_t *json, size_t flags)
{
    bool shown = isatty(STDOUT_FILENO);
    char *text = json ? json_dumps(json, flags | (shown ? JSON_ENSURE_ASCII : 0)) : NULL;
    if (text && shown)
        text_show_json(out, text, strlen(text)); /* DEL is ASCII */
    else
        buf_puts(out, text ? text : "");
    out->failed |= !text;
    free(text);
}

void text_print_json(const json_t *json, size_t flags)
{
    struct buf out = BUF_INIT;
    text_dump_json(&out, json, flags);
    buf_putc(&out, '\n');
    if (!out.failed)
        fwrite(out.data, 1, out.len, stdout);
    buf_done(&out);
}

void text_put_json(struct buf *out, json_t *json_take)
{
    text_dump_json(out, json_take, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    buf_putc(out, '\n');
    json_decref(json_take);
}
