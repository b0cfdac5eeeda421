/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logins: /run/utmp (utmp(5)), where it is kept; else the sessions of systemd-logind, which anybody may read (the files
 * are the ones that sd_login(3) reads). Remote is who came from another host; a display or terminal of this host is
 * local. Active is who used the terminal within five minutes, by its access time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

#include "base/data/cleanup.h"
#include "probe/node_internal.h"
#include "shm/waits.h"

static bool terminal_used(const char *terminal)
{
    char path[128];
    struct stat info;
    if (!terminal[0] || strstr(terminal, "..") || terminal[0] == ':')
        return false;
    snprintf(path, sizeof path, "/dev/%s", terminal);
    return stat(path, &info) == 0 && S_ISCHR(info.st_mode) && time(NULL) - info.st_atime <= USERS_ACTIVE_SECONDS;
}

static void count_user(struct node_users *users, bool remote, bool active)
{
    *(remote ? &users->remote : &users->local) += 1;
    if (active)
        *(remote ? &users->remote_active : &users->local_active) = 1;
}

static bool from_utmp(struct node_users *users)
{
    _cleanup_(closep) int fd = open(_PATH_UTMP, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct utmp entry;
    while (read(fd, &entry, sizeof entry) == sizeof entry) {
        if (entry.ut_type != USER_PROCESS || !entry.ut_user[0])
            continue;
        if (entry.ut_pid > 0 && kill(entry.ut_pid, 0) < 0 && errno == ESRCH)
            continue; /* left behind by a crash */
        char terminal[sizeof entry.ut_line + 1] = "";
        memcpy(terminal, entry.ut_line, sizeof entry.ut_line); /* NUL-terminated only when shorter */
        bool remote = entry.ut_host[0] && entry.ut_host[0] != ':' && strncmp(entry.ut_host, "tmux(", 5) != 0 &&
                      strncmp(entry.ut_host, "login screen", 12) != 0;
        count_user(users, remote, terminal_used(terminal));
    }
    return true;
}

static bool assigned(const char *text, const char *assignment)
{
    size_t len = strlen(assignment);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, assignment, len) == 0 && (line[len] == '\n' || !line[len]))
            return true;
    }
    return false;
}

static bool from_sessions(struct node_users *users)
{
    DIR *dir = opendir("/run/systemd/sessions");
    if (!dir)
        return false;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        char text[2048], terminal[64] = "";
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '.') || /* "1.ref" is a pipe: opening it would wait */
            entry->d_type != DT_REG || !node_read_text(text, sizeof text, "/run/systemd/sessions/%s", entry->d_name))
            continue;
        if (!assigned(text, "CLASS=user") || assigned(text, "STATE=closing"))
            continue;
        const char *line = strstr(text, "\nTTY=");
        if (line)
            snprintf(terminal, sizeof terminal, "%.*s", (int)strcspn(line + 5, "\n"), line + 5);
        count_user(users, assigned(text, "REMOTE=1"), terminal_used(terminal));
    }
    closedir(dir);
    return true;
}

void node_users_read(struct node_users *ret_users)
{
    *ret_users = (struct node_users){0};
    if (!from_utmp(ret_users) && !from_sessions(ret_users))
        *ret_users = (struct node_users){-1, -1, -1, -1};
}
