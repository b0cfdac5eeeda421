/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a job, from its own records. */
#ifndef SCRY_CLI_COMMON_SETTINGS_H
#define SCRY_CLI_COMMON_SETTINGS_H

#include <jansson.h>

/* Adds the options of scry run, and what scry set has changed since, to an object of keys and values. `path` is the job
 * directory. What cannot be read is left out. */
void settings_read(const char *path, json_t *settings);

#endif
