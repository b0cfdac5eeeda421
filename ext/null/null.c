/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null extension: the smallest useful one, to copy. It brings a service, a class of objects with its services, and
 * an event.
 *
 * Build (as ext/meson.build does, or by hand):
 *
 *     cc -shared -fPIC -o scry_ext_null.so null.c $(pkg-config --cflags scry)
 *
 * and put it where SCRY_EXT_PATH points, or into LIBDIR/scry/ext. Then:
 *
 *     $ scry omis -c ': null_echo("hello")'
 *
 * What to change in a copy: the prefix "null" everywhere (file name, null_register, service names, token class).
 */
#include <stdlib.h>
#include <string.h>

#include <scry/ext.h>

/* ---- a service without objects ---- */

/* The arguments were checked against the signature before we are called: argument 0 is a string. */
static void null_echo(struct scry_call *call)
{
    size_t len;
    const char *text = scry_arg_string(call, 0, &len);
    scry_result_string(call, NULL, text, len);
}

/* ---- a class of objects: boxes (token null_b_...) that keep a number ---- */

struct box {
    int64_t number;
};

/* A constructor works on no object and returns the token of the new one; so the answer names no object. */
static void null_box_create(struct scry_call *call)
{
    struct box *box = calloc(1, sizeof *box);
    struct scry_object *object = box ? scry_object_new(call, "null_b", box) : NULL;
    if (!object) {
        free(box);
        scry_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    scry_result(call, NULL, "%s", scry_object_token(object));
}

/* Services on objects answer once for each. The monitor has already expanded [] to all boxes of the calling tool and
 * answered for tokens that are no boxes. */
static void null_box_set(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct scry_object *object = scry_object_at(call, i);
        struct box *box = scry_object_data(object);
        int64_t number = scry_arg_integer(call, 1);
        if (number < 0) {
            /* an error leaves the object as it was; if that were impossible the status would carry OMIS_FATAL */
            scry_fail(call, object, OMIS_PARAMETER_ERROR, "a box keeps no negative numbers");
            continue;
        }
        box->number = number;
        scry_ok(call, object);
        /* requests that wait for null_box_changed on this box run after the current action list */
        const char *params[] = {scry_arg_list_text(call, 1, 0, NULL)};
        scry_event_raise("null_box_changed", object, params, 1);
    }
}

static void null_box_get(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct scry_object *object = scry_object_at(call, i);
        scry_result_integer(call, object, ((struct box *)scry_object_data(object))->number);
    }
}

static void null_box_delete(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct scry_object *object = scry_object_at(call, i);
        scry_ok(call, object);
        scry_object_destroy(object);
    }
}

/* ---- the table: one row a service ---- */

static const struct scry_service services[] = {
    {"null_echo", SCRY_INFORMATION, "string text -> string", SCRY_OPTIONAL, null_echo, "Return a string."},
    {"null_box_create", SCRY_MANIPULATION, "-> token", SCRY_OPTIONAL, null_box_create, "Create a box."},
    {"null_box_set", SCRY_MANIPULATION, "token<null_b>* box_list, integer number -> void", SCRY_OPTIONAL, null_box_set,
     "Put a number into boxes."},
    {"null_box_get", SCRY_INFORMATION, "token<null_b>* box_list -> integer", SCRY_OPTIONAL, null_box_get,
     "The numbers in boxes."},
    {"null_box_delete", SCRY_MANIPULATION, "token<null_b>* box_list -> void", SCRY_OPTIONAL, null_box_delete,
     "Delete boxes."},
    /* an event has no handler; the members in { } are its context parameters: $number */
    {"null_box_changed", SCRY_EVENT, "token<null_b>* box_list -> { integer number }", SCRY_OPTIONAL, NULL,
     "A box got a number."},
};

/* Called once, when the monitor starts. */
__attribute__((visibility("default"))) int null_register(void);

int null_register(void)
{
    if (scry_register_class("null_b", free, "box") < 0)
        return -1;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        if (scry_register_service(&services[i]) < 0)
            return -1;
    return 0;
}
