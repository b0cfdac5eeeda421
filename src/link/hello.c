/* SPDX-License-Identifier: Apache-2.0 */
#include "link/hello.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "wire/frame.h"

static const char magic[8] = "SCRYLINK";
enum { HEAD = sizeof magic + 4 + CHANNEL_SESSION };

void hello_put(struct buf *out, const struct hello *hello)
{
    size_t len = strlen(hello->text);
    const char head[4] = {(char)(hello->version & 0xff), (char)(hello->version >> 8), (char)hello->flags, (char)len};
    buf_append(out, magic, sizeof magic);
    buf_append(out, head, sizeof head);
    buf_append(out, (const char *)hello->session, CHANNEL_SESSION);
    buf_append(out, hello->text, len);
}

/* Where it begins, or where it may still do so. */
static size_t skip_noise(struct span bytes)
{
    const char *found = memmem(bytes.ptr, bytes.len, magic, sizeof magic);
    if (found)
        return (size_t)(found - bytes.ptr);
    return bytes.len < sizeof magic ? 0 : bytes.len - sizeof magic + 1;
}

ssize_t hello_parse(struct span bytes, bool noisy, struct hello *ret_hello)
{
    size_t at = noisy && bytes.len ? skip_noise(bytes) : 0;
    if (at > HELLO_NOISE_BYTES)
        return -EBADMSG;
    struct span rest = span_of(bytes.ptr + at, bytes.len - at);
    size_t known = rest.len < sizeof magic ? rest.len : sizeof magic;
    if (!noisy && known && memcmp(rest.ptr, magic, known) != 0)
        return -EBADMSG;
    if (rest.len < HEAD)
        return 0;
    const unsigned char *head = (const unsigned char *)rest.ptr + sizeof magic;
    size_t len = head[3];
    if (rest.len < HEAD + len)
        return 0;
    *ret_hello = (struct hello){.version = (uint16_t)(head[0] | head[1] << 8), .flags = head[2]};
    memcpy(ret_hello->session, head + 4, CHANNEL_SESSION);
    memcpy(ret_hello->text, rest.ptr + HEAD, len);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)ret_hello->text[i] < ' ' || ret_hello->text[i] == 0x7f)
            return -EBADMSG;
    return (ssize_t)(at + HEAD + len);
}

ssize_t hello_message(struct span bytes, struct span *ret_message)
{
    uint32_t len;
    if (bytes.len < sizeof len)
        return 0;
    memcpy(&len, bytes.ptr, sizeof len);
    len = le32toh(len);
    if (len < CHANNEL_HEADER || len > HELLO_MESSAGE_BYTES)
        return -EBADMSG;
    if (bytes.len < sizeof len + len)
        return 0;
    *ret_message = span_of(bytes.ptr + sizeof len, len);
    return (ssize_t)(sizeof len + len);
}

void frame_edges_pass(struct frame_edges *edges, struct span bytes)
{
    while (bytes.len) {
        size_t part = edges->left < bytes.len ? (size_t)edges->left : bytes.len;
        if (!edges->left) {
            part = FRAME_HEADER_SIZE - edges->have < bytes.len ? FRAME_HEADER_SIZE - edges->have : bytes.len;
            memcpy(edges->head + edges->have, bytes.ptr, part);
            edges->have += part;
            if (edges->have == FRAME_HEADER_SIZE) {
                uint32_t len;
                memcpy(&len, edges->head, sizeof len);
                edges->left = le32toh(len);
                edges->have = 0;
            }
        } else {
            edges->left -= part;
        }
        bytes = span_of(bytes.ptr + part, bytes.len - part);
    }
}

bool frame_edges_between(const struct frame_edges *edges)
{
    return !edges->left && !edges->have;
}
