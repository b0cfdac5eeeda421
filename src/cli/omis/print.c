/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/omis/print.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "jobdir/text/text.h"
#include "lang/reply.h"

bool omis_reply_has_error(Omis_reply reply)
{
    for (size_t i = 0; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status >= OMIS_FIRST_ERROR)
                return true;
    return false;
}

/* ---- text ---- */

static const char *style(bool color, const char *code)
{
    return color ? code : "";
}

void omis_print_safely(FILE *out, const char *text, size_t len)
{
    while (len) {
        size_t size = utf8_length(text, len);
        if (size == 0 || utf8_starts_control(text, size)) {
            size = size ? size : 1;
            for (size_t i = 0; i < size; i++)
                fprintf(out, "\\x%02x", (unsigned char)text[i]);
        } else {
            fwrite(text, 1, size, out);
        }
        text += size;
        len -= size;
    }
}

/* Values may be binary and contain NULs. Element 0 and errors are texts, in which "3#" means nothing. */
static size_t result_length(const Omis_object_result *result, bool action)
{
    bool value = action && result->status < OMIS_FIRST_ERROR;
    return value ? reply_result_length(result->result) : strlen(result->result);
}

static void print_result(FILE *out, const Omis_object_result *result, const char *indent, bool color)
{
    bool error = result->status >= OMIS_FIRST_ERROR;
    fputs(indent, out);
    if (*result->obj_list) {
        omis_print_safely(out, result->obj_list, strlen(result->obj_list));
        fputs(": ", out);
    }
    if (error) {
        fprintf(out, "%s%s%s", style(color, "\033[31m"), omis_status_name(result->status), result->result ? ": " : "");
        if (result->result)
            omis_print_safely(out, result->result, strlen(result->result));
        fputs(style(color, "\033[0m"), out);
    } else if (result->result) {
        omis_print_safely(out, result->result, result_length(result, true));
    } else {
        fputs("ok", out);
    }
    fputc('\n', out);
}

static void print_services(FILE *out, Omis_reply reply, const char *indent, bool color)
{
    for (size_t i = 1; reply[i]; i++) {
        if (!reply[i]->obj_list)
            fprintf(out, "%sno objects\n", indent);
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            print_result(out, result, indent, color);
    }
}

/* The word for a state of a conditional request, NULL for any other status. */
static const char *state_word(Omis_status status)
{
    switch (status) {
    case OMIS_CSR_DEFINED:
        return "defined";
    case OMIS_CSR_ENABLED:
        return "enabled";
    case OMIS_CSR_DISABLED:
        return "disabled";
    case OMIS_CSR_DELETED:
        return "deleted";
    case OMIS_CSR_TRIGGERED:
        return "triggered";
    default:
        return NULL;
    }
}

/* What follows a state: for states other than "triggered" only errors. */
static void print_state_services(FILE *out, Omis_reply reply, bool color)
{
    if (reply[0]->status == OMIS_CSR_TRIGGERED) {
        print_services(out, reply, "  ", color);
        return;
    }
    for (size_t i = 1; reply[i]; i++)
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            if (result->status >= OMIS_FIRST_ERROR || result->result)
                print_result(out, result, "  ", color);
}

void omis_print_text(FILE *out, Omis_reply reply, uint32_t number, bool color)
{
    const Omis_object_result *whole = reply[0];
    if (!whole || !whole->obj_list) {
        print_services(out, reply, "", color);
        return;
    }
    const char *word = state_word(whole->status);
    if (word) {
        bool undefined = whole->status == OMIS_CSR_DEFINED && !whole->result;
        fprintf(out, "%s[%u] %s%s%s", style(color, "\033[2m"), number, undefined ? "not " : "", word,
                style(color, "\033[0m"));
        if (*whole->obj_list) {
            fputs(": ", out);
            omis_print_safely(out, whole->obj_list, strlen(whole->obj_list));
        }
        if (whole->result) {
            fputs(": ", out);
            omis_print_safely(out, whole->result, strlen(whole->result));
        }
        fputc('\n', out);
        print_state_services(out, reply, color);
    } else if (whole->status >= OMIS_FIRST_ERROR) {
        print_result(out, whole, "", color);
        print_services(out, reply, "", color);
    } else {
        print_services(out, reply, "", color);
    }
}

/* ---- JSON ---- */

static char *base64(const char *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((len + 2) / 3 * 4 + 1), *to = text;
    if (!text)
        return NULL;
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t word = (uint32_t)(unsigned char)bytes[i] << 16;
        if (left > 1)
            word |= (uint32_t)(unsigned char)bytes[i + 1] << 8;
        if (left > 2)
            word |= (unsigned char)bytes[i + 2];
        *to++ = digits[word >> 18];
        *to++ = digits[word >> 12 & 63];
        *to++ = left > 1 ? digits[word >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[word & 63] : '=';
    }
    *to = 0;
    return text;
}

static json_t *json_objects(const char *list)
{
    json_t *objects = json_array();
    while (*list) {
        size_t len = strcspn(list, ",");
        json_array_append_new(objects, json_stringn(list, len));
        list += len + (list[len] == ',');
    }
    return objects;
}

static json_t *json_result(const Omis_object_result *result, bool action)
{
    json_t *object = json_object();
    json_object_set_new(object, "objects", json_objects(result->obj_list));
    json_object_set_new(object, "status", json_integer(result->status));
    if (!result->result) {
        json_object_set_new(object, "result", json_null());
        return object;
    }
    size_t len = result_length(result, action);
    json_t *text = json_stringn(result->result, len); /* NULL when it is not UTF-8 */
    if (text) {
        json_object_set_new(object, "result", text);
    } else {
        _cleanup_(freep) char *encoded = base64(result->result, len);
        json_object_set_new(object, "result_base64", encoded ? json_string(encoded) : json_null());
    }
    return object;
}

void omis_print_json(FILE *out, Omis_reply reply, uint32_t number)
{
    json_t *services = json_array();
    for (size_t i = 0; reply[i]; i++) {
        json_t *service = json_array();
        for (const Omis_object_result *result = reply[i]; result->obj_list; result++)
            json_array_append_new(service, json_result(result, i > 0));
        json_array_append_new(services, service);
    }
    json_t *root = json_pack("{s:I, s:o}", "request", (json_int_t)number, "services", services);
    if (root)
        json_dumpf(root, out, JSON_COMPACT | text_json_flags());
    fputc('\n', out);
    json_decref(root);
}
