/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of tokens (specification 7.2.2): localisation to a containing object, expansion to the contained ones, the
 * empty list as "all that this tool attached". All conversions of one execution agree: each step is looked up once and
 * remembered by the execution.
 */
#ifndef SCRY_MONITOR_ENGINE_CONVERT_H
#define SCRY_MONITOR_ENGINE_CONVERT_H

#include "monitor/engine/execute.h"

/* Fills call->objects from the argument the service works on. Tokens that cannot be converted are answered in the
 * call's reply. Returns false when out of memory (the call was answered). */
bool convert_objects(struct scry_call *call);

/* The same for any token or list of tokens and class. */
bool convert_value(struct scry_call *call, const struct value *value, const char *class_name,
                   struct scry_object ***ret_objects, size_t *ret_count);

/* Localisation: the object of a class that contains this one, or it itself; NULL: none. */
struct scry_object *convert_localise(struct scry_object *object, const char *class_name);

/* Whether a token of class `from` can become an object of class `to`: one that contains it or, in a list, such as it
 * contains. */
bool convert_class_can(const char *from, const char *to, bool in_list);

/* Whether a token names an object, now, after conversion: itself, what it is in, or what is in it. */
bool convert_names(struct span token, const struct scry_object *object);

/* An argument that is one token beside those the service works on, converted to the class its signature says. NULL: the
 * call was answered. */
struct scry_object *convert_arg(struct scry_call *call, size_t index);

/* One token to one object of a class, by localisation only. NULL with a status and err. `attached`: processes must be
 * attached by the tool. */
struct scry_object *convert_one(struct scry_call *call, struct span token, const char *class_name, bool attached,
                                Omis_status *ret_status, struct err *err);

#endif
