/* SPDX-License-Identifier: Apache-2.0 */
/* Kerberos tickets: the one that gets others (krbtgt) counts; without one the last of all to expire. */
#include <errno.h>

#include "job/health/readers.h"

#ifdef SCRY_KRB5
#include <stdbool.h>
#include <string.h>

#include <krb5.h>

enum { TICKETS_MOST = 10000 };

static bool gets_others(const krb5_creds *ticket)
{
    const krb5_data *first = ticket->server && ticket->server->length > 0 ? &ticket->server->data[0] : NULL;
    static const char name[] = KRB5_TGS_NAME;
    return first && first->length == sizeof name - 1 && memcmp(first->data, name, first->length) == 0;
}

/* 0: there are none. */
static int64_t last_end(krb5_context context, krb5_ccache cache)
{
    krb5_cc_cursor cursor;
    krb5_creds ticket;
    int64_t last[2] = {0}; /* of all, and of those */
    if (krb5_cc_start_seq_get(context, cache, &cursor) != 0)
        return 0;
    for (int i = 0; i < TICKETS_MOST && krb5_cc_next_cred(context, cache, &cursor, &ticket) == 0; i++) {
        bool setting = ticket.server && krb5_is_config_principal(context, ticket.server);
        int64_t end = setting ? 0 : (int64_t)(uint32_t)ticket.times.endtime;
        int64_t *to = &last[gets_others(&ticket)];
        *to = end > *to ? end : *to;
        krb5_free_cred_contents(context, &ticket);
    }
    krb5_cc_end_seq_get(context, cache, &cursor);
    return last[1] ? last[1] : last[0];
}

int tickets_expire(const char *name, int64_t *ret_expires, struct err *err)
{
    krb5_context context = NULL;
    krb5_ccache cache = NULL;
    int64_t end = 0;
    krb5_error_code code = krb5_init_context(&context);
    if (code)
        return err_set(err, -EIO, "libkrb5 does not start: see /etc/krb5.conf");
    code = krb5_cc_resolve(context, name, &cache);
    if (code) {
        const char *text = krb5_get_error_message(context, code);
        err_set(err, -EBADMSG, "%s", text);
        krb5_free_error_message(context, text);
    } else {
        end = last_end(context, cache);
        krb5_cc_close(context, cache);
    }
    krb5_free_context(context);
    if (code)
        return -EBADMSG;
    if (!end)
        return err_set(err, -EBADMSG, "no tickets are in it");
    *ret_expires = end;
    return 0;
}

#else

int tickets_expire(const char *name, int64_t *ret_expires, struct err *err)
{
    return err_set(err, -ENOTSUP, "this scry was built without libkrb5");
}

#endif
