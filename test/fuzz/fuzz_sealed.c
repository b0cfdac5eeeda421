/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages for a job, whose keys are in fuzz_sealed.h. The first byte says what follows: M a message; P its encapsulated
 * key and what was encrypted, so that it gets behind the encryption; A the address of another end. What was taken is not
 * taken again. S and R: an object, or records, that the job may have signed (keys/signed.h); it did not.
 */
#include "fuzz.h"
#include "fuzz_sealed.h" /* made once: the keys of this job and of its authority, which are used nowhere else */
#include "keys/sealed.c"
#include "keys/signed.c"

static struct sealed_box *box_of_job(void)
{
    static struct sealed_box box;
    static struct key *key;
    size_t len = sizeof box.public_key;
    if (!key) {
        keys_start();
        fuzz_expect(key_read_text(span_str(fuzz_key), &key, NULL) == 0);
        box.key = key;
        box.exchange = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, fuzz_exchange, sizeof fuzz_exchange);
        snprintf(box.job, sizeof box.job, "%s", "job-1");
        fuzz_expect(box.exchange && EVP_PKEY_get_raw_public_key(box.exchange, box.public_key, &len) == 1);
    }
    nonces_done(&box.nonces);
    return &box;
}

static void check_signed(const struct sealed_box *box, struct span input, const char *kind)
{
    static struct signed_readers_key reader;
    struct span text;
    if (!reader.key) {
        reader.key = (struct key *)box->key;
        key_about(reader.key, &reader.about);
        fuzz_expect(truster_new(&reader.truster, reader.key, NULL) == 0);
    }
    enum signed_by by = signed_check(&reader, reader.about.owner, "job-1", kind, input, &text);
    fuzz_expect(text.ptr == input.ptr && text.len <= input.len);
    struct buf again = BUF_INIT;
    buf_append(&again, text.ptr, text.len);
    if (by == SIGNED_JOB && signed_put(box->key, kind, "job-1", 0, &again) == 0 && strcmp(kind, "records") == 0)
        fuzz_expect(signed_check(&reader, "", "job-1", kind, span_of(again.data, again.len), &text) == SIGNED_JOB);
    buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sealed_box *box = box_of_job();
    struct sealed_sender sender;
    struct buf room = BUF_INIT;
    struct span text, input = span_of((const char *)data + 1, size - 1);
    if (size > 1 && data[0] == 'M') {
        enum sealed_refusal refusal = sealed_open(box, input, FUZZ_NOW, NULL, &room, &text, &sender);
        if (refusal == SEALED_FINE) {
            fuzz_expect(text.ptr >= room.data && text.ptr + text.len <= room.data + room.len);
            refusal = sealed_open(box, input, FUZZ_NOW, NULL, &room, &text, &sender);
            fuzz_expect(refusal == SEALED_REPEATED);
        }
    } else if (size > 1 + KEY_BYTES && data[0] == 'P') {
        struct span plain = span_of(input.ptr + KEY_BYTES, input.len - KEY_BYTES);
        if (message_open(box, plain, input.ptr, FUZZ_NOW, NULL, &text, &sender) == SEALED_FINE)
            fuzz_expect(sender.about.kind == KEY_PERSON && sender.address.len &&
                        text.ptr + text.len == plain.ptr + plain.len);
    } else if (size > 1 && data[0] == 'A') {
        struct err err = {0};
        uint8_t nonce[16];
        int code = sealed_put(box, input, NULL, FUZZ_NOW, span_str("x"), &room, nonce, &err);
        fuzz_expect(code == 0 ? room.len > KEY_BYTES : err.text[0] && !room.len);
    }
    if (size > 1 && (data[0] == 'S' || data[0] == 'R'))
        check_signed(box, input, data[0] == 'S' ? "state" : "records");
    buf_done(&room);
    return 0;
}
