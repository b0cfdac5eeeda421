/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user is called in all that is recorded, published and signed: all programs have to agree on it, or a user's keys
 * and jobs are not of the same user.
 */
#ifndef SCRY_BASE_SYSTEM_USER_H
#define SCRY_BASE_SYSTEM_USER_H

#include <stddef.h>
#include <sys/types.h>

#define USER_NAME_BYTES 256

/* The name in the user database; where it has none (containers, a directory service that is away) the number, as ls -l
 * shows it. Never empty; longer names are cut. Returns ret_name. Not thread-safe (getpwuid). */
const char *user_name(uid_t uid, char *ret_name, size_t size);

#endif
