/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody sends over a connection of the link: a hello, behind noise if the first byte is odd, and then messages for the
 * session that it names. The end of the session hands out nothing that was not next, and keeps no more than it may.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "link/end.h"

enum { KEPT = CHANNEL_HELD + CHANNEL_WINDOW * CHANNEL_PART };

static bool gone;

static void on_lost(void *ctx, const struct err *why)
{
    fuzz_expect(!ctx && why->text[0]);
    gone = true;
}

static void on_over(void *ctx, const char *why)
{
    fuzz_expect(!ctx && strlen(why) <= CHANNEL_REASON);
    gone = true;
}

static void feed(struct loop *loop, const struct hello *hello, struct span rest)
{
    static const struct end_events events = {.lost = on_lost, .over = on_over};
    struct end end;
    int ends[2], local[2];
    gone = false;
    fuzz_expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    fuzz_expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, local) == 0);
    fuzz_expect(end_init(&end, loop, hello->session, &events, NULL) == 0);
    fuzz_expect(end_set_local_take(&end, local[0]) == 0);
    fuzz_expect(end_attach_take(&end, transport_new_take(ends[0]), rest) == 0);
    loop_step(loop, 0);
    fuzz_expect(end.channel.in.len < KEPT && end.in.len <= HELLO_MESSAGE_BYTES + rest.len);
    end_stop(&end, "enough");
    end_done(&end);
    close(ends[1]);
    close(local[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct loop *loop;
    struct hello hello;
    struct frame_edges edges = {.left = 0};
    struct span bytes = span_of((const char *)data + (size > 0), size - (size > 0)), message;
    if (!loop)
        fuzz_expect(loop_new(&loop) == 0);
    ssize_t took = hello_parse(bytes, size && data[0] & 1, &hello);
    fuzz_expect(took <= (ssize_t)bytes.len);
    frame_edges_pass(&edges, bytes);
    if (took > 0) {
        fuzz_expect(memchr(hello.text, 0, sizeof hello.text));
        feed(loop, &hello, span_of(bytes.ptr + took, bytes.len - (size_t)took));
    }
    took = hello_message(bytes, &message);
    fuzz_expect(took <= 0 ||
                (message.len >= CHANNEL_HEADER && message.len <= HELLO_MESSAGE_BYTES && took <= (ssize_t)bytes.len));
    return 0;
}
