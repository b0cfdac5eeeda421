/* SPDX-License-Identifier: Apache-2.0 */
/* How a job was to be recorded, by its own records. */
#ifndef SCRY_CLI_SETTINGS_H
#define SCRY_CLI_SETTINGS_H

#include <jansson.h>

/* Adds what scry run was told, and what scry set has changed since, to an object of keys and values. `path`: of the job
 * directory. What cannot be read is not there. */
void settings_read(const char *path, json_t *settings);

#endif
