/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/script_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"

struct script_key script_key_of(const struct stat *stat)
{
    return (struct script_key){stat->st_dev, stat->st_ino, (uint64_t)stat->st_size,
                               (uint64_t)stat->st_mtim.tv_sec * 1000000000 + (uint64_t)stat->st_mtim.tv_nsec};
}

bool script_key_same(const struct script_key *one, const struct script_key *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

/* false: not readable; then there is no text. The time of the last access stays, where the file is ours. */
static bool read_all(struct script_text *text, const char *path, size_t size)
{
    enum { HOW = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };
    _cleanup_(closep) int fd = open(path, HOW | O_NOATIME);
    if (fd < 0 && errno == EPERM)
        fd = open(path, HOW);
    text->text = fd < 0 ? NULL : malloc(size + 1);
    while (text->text && text->len < size) {
        ssize_t got = pread(fd, text->text + text->len, size - text->len, (off_t)text->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        text->len += (size_t)got;
    }
    return text->text != NULL;
}

/* What does not fit into memory is not known. */
static void find_lines(struct script_text *text)
{
    size_t at = 0;
    while (at < text->len) {
        if (!GROW(text->lines, text->line_count, text->line_room))
            return;
        text->lines[text->line_count++] = at;
        const char *newline = memchr(text->text + at, '\n', text->len - at);
        at = newline ? (size_t)(newline - text->text) + 1 : text->len;
    }
    shell_scan(&text->commands, text->text, text->len);
}

struct script_text *script_text_get(struct script_texts *texts, const char *path, const struct stat *stat)
{
    struct script_key key = script_key_of(stat);
    struct script_text *text;
    HASH_FIND(hh, texts->all, &key, sizeof key, text);
    if (text) {
        text->users++;
        return text;
    }
    text = calloc(1, sizeof *text);
    if (!text)
        return NULL;
    text->key = key;
    text->users = 1;
    if (S_ISREG(stat->st_mode) && stat->st_size > 0 && stat->st_size <= SCRIPT_TEXT_BYTES &&
        texts->bytes + (size_t)stat->st_size <= SCRIPT_TEXT_TOTAL && read_all(text, path, (size_t)stat->st_size)) {
        find_lines(text);
        texts->bytes += text->len;
    }
    HASH_ADD(hh, texts->all, key, sizeof text->key, text);
    return text;
}

void script_text_put(struct script_texts *texts, struct script_text *text)
{
    if (!text || --text->users)
        return;
    HASH_DEL(texts->all, text);
    texts->bytes -= text->len;
    script_text_free(text);
}

struct script_text *script_text_new(const char *bytes, size_t len)
{
    struct script_text *text = calloc(1, sizeof *text);
    if (text && (text->text = malloc(len + 1))) {
        memcpy(text->text, bytes, len);
        text->len = len;
        find_lines(text);
    }
    return text;
}

void script_text_free(struct script_text *text)
{
    if (!text)
        return;
    free(text->text);
    free(text->lines);
    free(text->commands.list);
    free(text);
}

uint32_t script_line_before(const struct script_text *text, size_t offset)
{
    size_t low = 0, high = text->line_count;
    while (low < high) { /* how many begin before it */
        size_t middle = (low + high) / 2;
        if (text->lines[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

const struct shell_command *script_command_ending(const struct script_text *text, size_t offset)
{
    size_t low = 0, high = text->commands.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct shell_command *command = &text->commands.list[middle];
        if (command->end == offset)
            return command;
        if (command->end < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void script_command_show(struct buf *out, const struct script_text *text, uint32_t first_line, uint32_t last_line)
{
    if (!first_line || last_line > text->line_count || first_line > last_line)
        return;
    static const char blanks[] = " \t\r\n";
    const char *at = text->text + text->lines[first_line - 1];
    const char *end = text->text + (first_line < text->line_count ? text->lines[first_line] : text->len);
    while (at < end && strchr(blanks, *at))
        at++;
    while (end > at && strchr(blanks, end[-1]))
        end--;
    bool cut = end - at > SCRIPT_COMMAND_BYTES;
    buf_append(out, at, cut ? SCRIPT_COMMAND_BYTES : (size_t)(end - at));
    if (cut || last_line > first_line)
        buf_puts(out, " ...");
}
