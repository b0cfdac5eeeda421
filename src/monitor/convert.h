/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of tokens (specification 7.2.2): localisation to a containing object, expansion to the contained ones, the
 * empty list as "all that this tool attached". All conversions of one execution agree: each step is looked up once and
 * remembered by the execution.
 */
#ifndef SCRY_MONITOR_CONVERT_H
#define SCRY_MONITOR_CONVERT_H

#include "monitor/call.h"

/* Fills call->objects from the argument the service works on. Tokens that cannot be converted are answered in the
 * call's reply. Returns false when out of memory (the call was answered). */
bool convert_objects(struct scry_call *call);

/* One token to one object of a class, by localisation only. NULL with a status and err. `attached`: processes must be
 * attached by the tool. */
struct scry_object *convert_one(struct scry_call *call, struct span token, const char *class_name, bool attached,
                                Omis_status *ret_status, struct err *err);

#endif
