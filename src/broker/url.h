/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a broker is, and a job that is reached through it:
 *
 *     mqtt://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]]...[/OWNER[/JOB]]      mqtts:// with TLS
 *     unix:PATH[//OWNER[/JOB]]                                                 a unix socket; PATH is absolute
 *     local[//OWNER[/JOB]]                                                     the user's private broker (broker/local.h)
 *     @NAME[/OWNER[/JOB]]                                                      a line of the file `brokers`
 *
 * Several hosts are the nodes of one broker, and are tried in turn. An IPv6 address stands in brackets. In USER, PASSWORD,
 * OWNER and JOB, %XX is the byte with that code. mqtt:// and mqtts:// may end with ?NAME=VALUE[&NAME=VALUE]...: ca, cert, key
 * and password are names of files, as in a line of `brokers` in the configuration directory:
 *
 *     NAME URL [ca=FILE] [cert=FILE] [key=FILE] [password=FILE]
 *
 * FILE is absolute, or begins in the directory of `brokers`. OWNER is the name of a user; without it, one's own. JOB is an
 * id, a name, a unique prefix of an id, or @last. A password in an URL is in nobody's list of processes: scry hands URLs to
 * its programs by a pipe or the environment, and shows them without.
 */
#ifndef SCRY_BROKER_URL_H
#define SCRY_BROKER_URL_H

#include <limits.h>
#include <stdbool.h>

#include "base/data/buf.h"
#include "base/data/err.h"

enum { BROKER_PLACES = 8 };

struct broker_place {
    char host[256];
    int port;
};

struct broker_url {
    bool tls;
    bool local; /* `local`: path is where its socket will be */
    struct broker_place places[BROKER_PLACES];
    int place_count; /* 0: a unix socket */
    char path[108];  /* of the socket; else "" */
    char user[128], password[256];
    char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX]; /* for TLS; "": the system's, none, none */
    char owner[128];                                  /* "": not named */
    char job[256];                                    /* "": not named */
};

/* Whether the word names something at a broker, and no job directory: by its beginning only. "@last" does not. */
bool broker_url_is(const char *word);
/* 0; -EINVAL, -ENOENT (@NAME is in no line; err says which there are), -errno of a file. Reads the file of a password. */
int broker_url_parse(const char *word, struct broker_url *ret_url, struct err *err);
/* The names in the file of brokers, with a blank after each; none, if there is no such file. 0 or -errno with err. */
int broker_url_names(struct buf *out, struct err *err);
/* For people: without the password; with owner and job, if it has them. */
void broker_url_show(const struct broker_url *url, char *ret_text, int size);
/* For other programs of scry: with the password and the files. broker_url_parse reads it back the same. */
void broker_url_put(struct buf *out, const struct broker_url *url);

#endif
