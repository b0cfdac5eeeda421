/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate of --tls-cert, when it is renewed. */
#ifndef SCRY_WEB_HTTP_CERTIFICATE_H
#define SCRY_WEB_HTTP_CERTIFICATE_H

struct server;

/* Looks at its files from now on, and uses what they have in server->tls. */
void certificate_follow(struct server *server);

#endif
