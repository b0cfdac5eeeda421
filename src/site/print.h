/* SPDX-License-Identifier: Apache-2.0 */
/* What fields.c and print.c share: the columns of tables. */
#ifndef SCRY_SITE_PRINT_H
#define SCRY_SITE_PRINT_H

#include "jobdir/text/fields.h"
#include "site/site.h"

/* Of struct site_node, struct site_user, struct site_job; `all` is the site. */
extern const struct field site_node_fields[], site_user_fields[], site_job_fields[];

#endif
