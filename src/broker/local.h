/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's private broker: a mosquitto on the socket broker.sock of the runtime directory, which nobody else can
 * enter. It opens no port, unless one with TLS is asked for. It outlives whoever started it, and is started again when
 * it is needed and does not run: by each attempt to connect to the URL `local`.
 *
 * A lock in the runtime directory is held by mosquitto itself, by inheritance: who has the lock may start one. What
 * it keeps, its configuration, its log and its process id lie in broker/HOST of the state directory, for a home may
 * be shared by many hosts. Where that cannot be written, they lie beside the socket, and retained messages end with
 * it.
 */
#ifndef SCRY_BROKER_LOCAL_H
#define SCRY_BROKER_LOCAL_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/data/err.h"

/* All may be NULL. With tls, cert and key are needed, and passwords or ca: somebody has to say who may come. */
struct broker_listener {
    const char *tls;        /* [ADDRESS:]PORT */
    const char *cert, *key; /* the broker's */
    const char *ca;         /* clients need a certificate of this authority */
    const char *passwords;  /* made by mosquitto_passwd(1) */
};

struct broker_local {
    char socket[108];
    char place[PATH_MAX]; /* of configuration, log and what is kept */
    bool kept;            /* false: place is beside the socket */
    pid_t pid;            /* 0: it does not run */
    bool answers;         /* the socket can be connected to */
};

/* What there is now. 0 or -errno with err. */
int broker_local_find(struct broker_local *ret_found, struct err *err);

/* Returns when it answers: within milliseconds, if it runs already; at most WAIT_BROKER. `listener` NULL: the one
 * that it had last, unless it was ended by broker_local_stop. -EEXIST: it runs, so `listener` is not obeyed. Also in
 * threads. 0 or -errno with err: mosquitto is missing (-ENOENT), or what it complained of. */
int broker_local_start(const struct broker_listener *listener, struct err *err);

/* Becomes mosquitto, which logs to standard error. Returns if that failed, as above. */
int broker_local_become(const struct broker_listener *listener, struct err *err);

/* Ends it, and forgets how it was configured; retained messages stay. 1: none ran. 0, or -errno with err. */
int broker_local_stop(struct err *err);

/* Where mosquitto is: in PATH or one of the directories for daemons. -ENOENT with err, which says what to do. */
int broker_local_program(char ret_path[PATH_MAX], struct err *err);

#endif
