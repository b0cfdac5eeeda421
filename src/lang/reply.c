/* SPDX-License-Identifier: Apache-2.0 */
#pragma GCC visibility push(default) /* libomis exports omis_status_name */
#include <scry/omis.h>
#pragma GCC visibility pop

#include "lang/reply.h"

#include "lang/lexer.h"
#include "lang/request.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RESULT_SIZE = 12 /* of an empty result */ };

static uint32_t get_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

/* ---- building ---- */

static void patch_u32(struct reply_builder *reply, size_t at, uint32_t value)
{
    uint32_t le = htole32(value);
    if (!reply->bytes.failed)
        memcpy(reply->bytes.data + at, &le, sizeof le);
}

void reply_begin(struct reply_builder *reply)
{
    struct buf bytes = reply->bytes;
    buf_clear(&bytes);
    *reply = (struct reply_builder){.bytes = bytes, .limit = reply->limit, .only_ok = true};
    buf_put_u32(&reply->bytes, 0);
}

static bool has_room(struct reply_builder *reply, size_t more)
{
    size_t limit = reply->limit ? reply->limit : REPLY_SIZE_LIMIT;
    reply->full = reply->full || more > limit || reply->bytes.len > limit - more;
    return !reply->full;
}

void reply_service(struct reply_builder *reply)
{
    if (reply->bytes.len == 0 && !reply->bytes.failed)
        reply_begin(reply);
    if (!has_room(reply, sizeof(uint32_t)))
        return;
    patch_u32(reply, 0, ++reply->service_count);
    reply->count_at = reply->bytes.len;
    reply->last_at = 0;
    reply->result_count = 0;
    buf_put_u32(&reply->bytes, 0);
}

static bool equals_last(const struct reply_builder *reply, Omis_status status, const struct span *text)
{
    if (!reply->last_at || reply->bytes.failed)
        return false;
    const char *last = reply->bytes.data + reply->last_at;
    uint32_t objects_len = get_u32(last + 4);
    uint32_t text_len = get_u32(last + 8 + objects_len);
    if (get_u32(last) != (uint32_t)status || !objects_len)
        return false;
    if (!text || text_len == REPLY_NO_RESULT)
        return !text && text_len == REPLY_NO_RESULT;
    return span_eq(*text, span_of(last + RESULT_SIZE + objects_len, text_len));
}

static void put_text(struct reply_builder *reply, const struct span *text)
{
    buf_put_u32(&reply->bytes, text ? (uint32_t)text->len : REPLY_NO_RESULT);
    if (text)
        buf_append(&reply->bytes, text->ptr, text->len);
}

void reply_result(struct reply_builder *reply, struct span objects, Omis_status status, const struct span *text)
{
    if (reply->service_count == 0)
        reply_service(reply);
    struct buf *bytes = &reply->bytes;
    if (objects.len > REPLY_SIZE_LIMIT || (text && text->len > REPLY_SIZE_LIMIT) ||
        !has_room(reply, RESULT_SIZE + objects.len + (text ? text->len : 0))) {
        reply->full = true;
        return;
    }
    if (reply->service_count > 1 && (status != OMIS_OK || text))
        reply->only_ok = false;
    if (reply->service_count > 1 && status >= OMIS_FIRST_ERROR && reply->first_error == OMIS_OK)
        reply->first_error = status;
    uint32_t last_len = reply->last_at && !bytes->failed ? get_u32(bytes->data + reply->last_at + 4) : 0;
    if (objects.len && equals_last(reply, status, text)) {
        bytes->len = reply->last_at + 8 + last_len; /* the objects' end; the text is put behind them again */
        buf_putc(bytes, ',');
        buf_append(bytes, objects.ptr, objects.len);
        patch_u32(reply, reply->last_at + 4, last_len + 1 + (uint32_t)objects.len);
        put_text(reply, text);
        return;
    }
    reply->last_at = bytes->len;
    reply->result_count++;
    buf_put_u32(bytes, (uint32_t)status);
    buf_put_u32(bytes, (uint32_t)objects.len);
    buf_append(bytes, objects.ptr, objects.len);
    put_text(reply, text);
    patch_u32(reply, reply->count_at, reply->result_count);
}

void reply_done(struct reply_builder *reply)
{
    buf_done(&reply->bytes);
}

/* ---- decoding ---- */

static bool take_u32(struct reply_reader *reader, uint32_t *ret_value)
{
    if (reader->end - reader->at < 4)
        return false;
    *ret_value = get_u32(reader->at);
    reader->at += 4;
    return true;
}

static bool take_bytes(struct reply_reader *reader, size_t len, struct span *ret_bytes)
{
    if (len > (size_t)(reader->end - reader->at))
        return false;
    *ret_bytes = span_of(reader->at, len);
    reader->at += len;
    return true;
}

/* In a result of an action, reply_result_length must find the end inside the text. (Element 0 and errors are texts for
 * people.) */
static bool is_scannable(const struct reply_part *part, bool action)
{
    return !action || part->status >= OMIS_FIRST_ERROR || !part->text.len ||
           lexer_length(part->text.ptr, part->text.ptr + part->text.len, REQUEST_SIZE_LIMIT) <= part->text.len;
}

static bool take_part(struct reply_reader *reader, struct reply_part *ret_part)
{
    uint32_t status, len;
    struct reply_part part = {0};
    if (!take_u32(reader, &status) || !take_u32(reader, &len) || !take_bytes(reader, len, &part.objects) ||
        !take_u32(reader, &len))
        return false;
    part.status = (Omis_status)status;
    part.has_text = len != REPLY_NO_RESULT;
    if (part.has_text && !take_bytes(reader, len, &part.text))
        return false;
    *ret_part = part;
    return true;
}

/* The sizes of the three parts of the block: pointers, results, characters. */
struct shape {
    size_t services, results, characters;
};

static bool reply_measure(struct span bytes, struct shape *ret_shape)
{
    struct reply_reader reader = {.at = bytes.ptr, .end = bytes.ptr + bytes.len};
    struct shape shape = {0};
    uint32_t services, results;
    if (!take_u32(&reader, &services))
        return false;
    /* a count that the bytes cannot hold fails in the loops, before anything is allocated for it */
    for (uint32_t i = 0; i < services; i++) {
        if (!take_u32(&reader, &results))
            return false;
        for (uint32_t j = 0; j < results; j++) {
            struct reply_part part;
            if (!take_part(&reader, &part) || !is_scannable(&part, i > 0) ||
                (part.objects.len && memchr(part.objects.ptr, 0, part.objects.len)))
                return false;
            shape.characters += part.objects.len + 1 + (part.has_text ? part.text.len + 1 : 0);
        }
        shape.results += (size_t)results + 1;
    }
    shape.services = (size_t)services + 1;
    *ret_shape = shape;
    return reader.at == reader.end;
}

bool reply_read_begin(struct reply_reader *reader, struct span bytes)
{
    struct shape shape;
    if (!bytes.ptr || !reply_measure(bytes, &shape))
        return false;
    *reader = (struct reply_reader){bytes.ptr + 4, bytes.ptr + bytes.len, (uint32_t)(shape.services - 1)};
    return true;
}

uint32_t reply_read_service(struct reply_reader *reader)
{
    uint32_t count = 0;
    take_u32(reader, &count);
    return count;
}

struct reply_part reply_read_part(struct reply_reader *reader)
{
    struct reply_part part = {0};
    take_part(reader, &part);
    return part;
}

static char *reply_put_string(char **to, struct span text)
{
    char *string = *to;
    if (text.len)
        memcpy(string, text.ptr, text.len);
    string[text.len] = 0;
    *to += text.len + 1;
    return string;
}

int reply_decode(struct span bytes, Omis_reply *ret_reply)
{
    struct shape shape;
    if (!bytes.ptr || !reply_measure(bytes, &shape))
        return -EBADMSG;
    size_t pointers = shape.services * sizeof(Omis_service_result), size = shape.results * sizeof(Omis_object_result);
    if (__builtin_add_overflow(size, pointers, &size) || __builtin_add_overflow(size, shape.characters, &size))
        return -ENOMEM;
    char *block = malloc(size);
    if (!block)
        return -ENOMEM;
    Omis_reply reply = (Omis_reply)(void *)block;
    Omis_object_result *results = (Omis_object_result *)(void *)(block + pointers);
    char *characters = (char *)(results + shape.results);
    struct reply_reader reader = {.at = bytes.ptr + 4, .end = bytes.ptr + bytes.len}; /* measured: cannot fail */
    for (size_t i = 0; i + 1 < shape.services; i++) {
        reply[i] = results;
        for (uint32_t count = reply_read_service(&reader); count; count--) {
            struct reply_part part = reply_read_part(&reader);
            *results++ =
                (Omis_object_result){.obj_list = reply_put_string(&characters, part.objects),
                                     .status = part.status,
                                     .result = part.has_text ? reply_put_string(&characters, part.text) : NULL};
        }
        *results++ = (Omis_object_result){0};
    }
    reply[shape.services - 1] = NULL;
    *ret_reply = reply;
    return 0;
}

size_t reply_result_length(const char *result)
{
    return result ? lexer_length(result, NULL, REQUEST_SIZE_LIMIT) : 0;
}

/* ---- names ---- */

const char *omis_status_name(Omis_status status)
{
#define NAME(name) \
    { \
        name, #name, #name "|OMIS_FATAL" \
    }
    static const struct {
        Omis_status status;
        const char *name, *fatal;
    } names[] = {
        NAME(OMIS_OK),
        NAME(OMIS_CSR_DEFINED),
        NAME(OMIS_CSR_ENABLED),
        NAME(OMIS_CSR_DISABLED),
        NAME(OMIS_CSR_DELETED),
        NAME(OMIS_CSR_TRIGGERED),
        NAME(OMIS_SYNTAX_ERROR),
        NAME(OMIS_UNKNOWN_SERVICE),
        NAME(OMIS_UNSUPPORTED_SERVICE),
        NAME(OMIS_UNKNOWN_ECP),
        NAME(OMIS_UNKNOWN_OBJECT),
        NAME(OMIS_TYPE_MISMATCH),
        NAME(OMIS_PARAMETER_ERROR),
        NAME(OMIS_OS_ERROR),
        NAME(OMIS_NO_PERMISSION),
        NAME(OMIS_NO_MEMORY),
        NAME(OMIS_INTERNAL_ERROR),
        NAME(OMIS_UNSPECIFIED_ERROR),
    };
#undef NAME
    bool fatal = status >= OMIS_FIRST_ERROR && (status & OMIS_FATAL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == (fatal ? status & ~OMIS_FATAL : status))
            return fatal ? names[i].fatal : names[i].name;
    return "unknown status";
}

/* Returned if there is no memory for a reply. Arrays, since a tool may write to a reply. */
static char no_memory_objects[] = "";
static char no_memory_text[] = "out of memory: the tool has no memory left for the reply";
static Omis_object_result no_memory_results[] = {{no_memory_objects, OMIS_NO_MEMORY, no_memory_text}, {NULL, 0, NULL}};
static Omis_service_result no_memory_reply[] = {no_memory_results, NULL};

/* One block, as from reply_decode, so that free() frees either. */
struct local_reply {
    Omis_service_result services[2];
    Omis_object_result results[2];
    char objects[1];
    char text[];
};

Omis_reply local_reply_no_memory(void)
{
    return no_memory_reply;
}

Omis_reply local_reply_new(Omis_status status, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    struct local_reply *reply = calloc(1, sizeof *reply + len + 1);
    if (!reply)
        return no_memory_reply;
    if (len)
        memcpy(reply->text, text, len);
    reply->results[0] = (Omis_object_result){reply->objects, status, text ? reply->text : NULL};
    reply->services[0] = reply->results;
    return reply->services; /* the first member: the block's own address */
}

void local_reply_free(Omis_reply reply)
{
    if (reply != no_memory_reply)
        free(reply);
}

/* OMIS_DONT_RETURN_OK: the reply has only OK statuses. */
static bool only_ok(Omis_reply reply)
{
    if (!reply[0] || (reply[0]->status != OMIS_OK && reply[0]->status != OMIS_CSR_TRIGGERED))
        return false;
    for (size_t i = 1; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status != OMIS_OK || (result->result && *result->result))
                return false;
    return true;
}

/* OMIS_DONT_RETURN_EN_DIS: the reply is "enabled" or "disabled", without an error. */
static bool only_enabled_or_disabled(Omis_reply reply)
{
    if (!reply[0] || (reply[0]->status != OMIS_CSR_ENABLED && reply[0]->status != OMIS_CSR_DISABLED))
        return false;
    for (size_t i = 1; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status >= OMIS_FIRST_ERROR)
                return false;
    return true;
}

bool local_reply_unwanted(Omis_reply reply, Omis_flags flags)
{
    return ((flags & OMIS_DONT_RETURN_OK) && only_ok(reply)) ||
           ((flags & OMIS_DONT_RETURN_EN_DIS) && only_enabled_or_disabled(reply));
}
