/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys/json.h"

#include <time.h>

const char *issued_state(const struct issued *issued)
{
    time_t now = time(NULL);
    return issued->revoked             ? "revoked"
           : now > issued->about.until ? "expired"
           : now < issued->about.from  ? "not yet"
                                       : "valid";
}

static json_t *kind_json(const void *row, const void *all)
{
    return json_string(key_kind_name(((const struct issued *)row)->about.kind));
}

static json_t *state_json(const void *row, const void *all)
{
    return json_string(issued_state(row));
}

static json_t *rights_json(const void *row, const void *all)
{
    static const char *const names[] = {"observe", "control", "memory"};
    const struct key_about *about = &((const struct issued *)row)->about;
    json_t *list = json_array();
    for (unsigned i = 0; i < 3 && about->kind != KEY_JOB; i++)
        if (about->rights & 1u << i)
            json_array_append_new(list, json_string(names[i]));
    return list;
}

void keys_put_date(struct buf *out, time_t time)
{
    struct tm parts;
    char text[40];
    if (gmtime_r(&time, &parts) && strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts))
        buf_puts(out, text);
}

static void put_until(struct buf *out, const void *at, const void *row, const void *all)
{
    keys_put_date(out, ((const struct issued *)row)->about.until);
}

void issued_put_rights(struct buf *out, const struct key_about *about)
{
    if (about->kind == KEY_JOB)
        buf_putc(out, '-');
    else
        key_put_rights(out, about->rights);
}

static void put_rights_of(struct buf *out, const void *at, const void *row, const void *all)
{
    issued_put_rights(out, &((const struct issued *)row)->about);
}

static void put_serial(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%.12s", ((const struct issued *)row)->about.serial);
}

/* clang-format off */
#define ABOUT(member) FIELD_AT(struct issued, about.member)
const struct field key_fields[] = {
    {"name", FIELD_TEXT, ABOUT(name), .about = "who has it", .column = FIELD_COLUMN(1, 0, -16, "Name")},
    {"kind", FIELD_CHOICE, .json = kind_json, .choices = "person|job|authority", .column = FIELD_COLUMN(2, 2, -6, "kind")},
    {"owner", FIELD_TEXT, ABOUT(owner), .about = "the user whose jobs it is for"},
    {"rights", FIELD_LIST, .json = rights_json, .of = fields_texts, .column = FIELD_COLUMN(3, 2, -22, "rights", .text = put_rights_of)},
    {"job", FIELD_TEXT, ABOUT(job), .flags = FIELD_ZERO_IS_NULL, .about = "a pattern for ids of jobs, and of people's keys for names", .column = FIELD_COLUMN(7, 2, 0, "jobs")},
    {"from", FIELD_INTEGER, ABOUT(from), .about = "seconds since 1970, as until"},
    {"until", FIELD_INTEGER, ABOUT(until), .column = FIELD_COLUMN(4, 2, -16, "until (UTC)", .text = put_until)},
    {"serial", FIELD_TEXT, ABOUT(serial), .about = "hexadecimal", .column = FIELD_COLUMN(6, 2, -12, "serial", .text = put_serial)},
    {"state", FIELD_CHOICE, .json = state_json, .choices = "valid|expired|not yet|revoked", .column = FIELD_COLUMN(5, 2, -7, "state")},
    {"private", FIELD_BOOL, ABOUT(is_private), .about = "the private key is in the file"},
    {0},
};
/* clang-format on */

json_t *keys_json(const struct issued *list, size_t count)
{
    return json_pack("{s:o}", "keys", fields_list(key_fields, list, count, sizeof *list, NULL));
}

json_t *keys_schema(void)
{
    static const struct field whole[] = {{"keys", FIELD_LIST, .of = key_fields, .about = "newest first"}, {0}};
    return fields_schema(whole);
}
