/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/user.h"

#include <pwd.h>
#include <stdio.h>

const char *user_name(uid_t uid, char *ret_name, size_t size)
{
    const struct passwd *entry = getpwuid(uid);
    if (entry && *entry->pw_name)
        snprintf(ret_name, size, "%s", entry->pw_name);
    else
        snprintf(ret_name, size, "%u", (unsigned)uid);
    return ret_name;
}
