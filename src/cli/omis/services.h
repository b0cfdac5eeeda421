/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and explains services, as the monitor itself describes them (`services`, `extensions`,
 * `scry_service_get_info`). */
#ifndef SCRY_CLI_OMIS_SERVICES_H
#define SCRY_CLI_OMIS_SERVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/omis/session.h"

/* Calls fn with the name of each service of this monitor, extensions included. False, after printing why, if the
 * monitor could not be asked. */
bool omis_services_each(struct omis_session *session, void (*fn)(void *ctx, const char *name), void *ctx);

/* Prints signature, class and purpose of a service. False: there is none of this name. */
bool omis_services_explain(struct omis_session *session, const char *name);

/* Prints one line for each service: text, or in a JSON session an object with name, kind, signature, class, doc, state.
 */
bool omis_services_list(struct omis_session *session);

#endif
