/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a broker is, and a job that is reached through it:
 *
 *     mqtt://[USER[:PASSWORD]@]HOST[:PORT][/OWNER[/JOB]]      mqtts:// with TLS
 *     unix:PATH[//OWNER[/JOB]]                                a unix socket
 *     local[//OWNER[/JOB]]                                    the user's private broker (scry broker)
 *     @NAME[/OWNER[/JOB]]                                     a line of the file `brokers` in the configuration
 *
 * The lines of that file are: NAME URL [ca=FILE] [cert=FILE] [key=FILE] [password=FILE]. OWNER is the name of a user; without it,
 * one's own. JOB is an id, a name, a unique prefix of an id, or @last. A password in an URL is in nobody's list of
 * processes: scry hands URLs to its programs by a pipe or the environment, and shows them without.
 */
#ifndef SCRY_BROKER_URL_H
#define SCRY_BROKER_URL_H

#include <limits.h>
#include <stdbool.h>

#include "base/data/err.h"

struct broker_url {
    bool tls;
    char host[256]; /* "": a unix socket */
    int port;       /* 0: a unix socket */
    char path[108]; /* of the socket */
    char user[128], password[256];
    char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX]; /* for TLS; "": the system's, none, none */
    char owner[128];                                  /* "": not named */
    char job[256];                                    /* "": not named */
};

/* Whether the word names something at a broker, and no job directory: by its beginning only. "@last" does not. */
bool broker_url_is(const char *word);
/* 0; -EINVAL, -ENOENT (@NAME is in no line; err says which there are), -errno of the file. */
int broker_url_parse(const char *word, struct broker_url *ret_url, struct err *err);
/* For people: without the password; with owner and job, if it has them. */
void broker_url_show(const struct broker_url *url, char *ret_text, int size);

#endif
