/* SPDX-License-Identifier: Apache-2.0 */
/*
 * omis.h: the C binding of the On-Line Monitoring Interface Specification, version 2.0.
 *
 * This file is sections 7.1 and 7.3.1 of the specification and nothing else; a program written against the
 * printed text compiles and runs unchanged. What goes beyond it is in <scry/...>.
 */
#ifndef OMIS_H
#define OMIS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Status values (7.3.1). An error has a value of at least OMIS_FIRST_ERROR; the lowest bit says that the state
 * of the object was changed inconsistently and could not be restored. */
typedef int Omis_status;

#define OMIS_OK 0 /* no error */

#define OMIS_CSR_DEFINED 2    /* cond. request has been defined */
#define OMIS_CSR_ENABLED 4    /* cond. request has been enabled */
#define OMIS_CSR_DISABLED 6   /* cond. request has been disabled */
#define OMIS_CSR_DELETED 8    /* cond. request has been deleted */
#define OMIS_CSR_TRIGGERED 10 /* cond. request has been triggered */

#define OMIS_FIRST_ERROR 16 /* lowest status code for error */

#define OMIS_SYNTAX_ERROR 16        /* syntax error in request string */
#define OMIS_UNKNOWN_SERVICE 18     /* service name is unknown */
#define OMIS_UNSUPPORTED_SERVICE 20 /* service is not supported */
#define OMIS_UNKNOWN_ECP 22         /* event context par. is unknown */
#define OMIS_UNKNOWN_OBJECT 24      /* object is unknown/not existent */
#define OMIS_TYPE_MISMATCH 26       /* type mismatch in parameters */
#define OMIS_PARAMETER_ERROR 28     /* illegal parameter value */
#define OMIS_OS_ERROR 30            /* error from operating system */
#define OMIS_NO_PERMISSION 32       /* operation not permitted */
#define OMIS_NO_MEMORY 34           /* out of memory */
#define OMIS_INTERNAL_ERROR 36      /* internal error in mon. sys. */

#define OMIS_UNSPECIFIED_ERROR 1000 /* generic error code */

#define OMIS_FATAL 1 /* object state modified */

/* Result for a single object or identical results for a set of objects. The array of results of one service
 * ends with an entry whose obj_list is NULL. Strings end with a NUL; a result that holds binary data
 * (LENGTH#BYTES) may contain others before it. */
typedef struct {
    char *obj_list;     /* comma-separated tokens, "" where no object is concerned */
    Omis_status status; /* status for this set of objects */
    char *result;       /* result, or description of the error, or NULL */
} Omis_object_result;

/* Result of a single service */
typedef Omis_object_result *Omis_service_result;

/* Full reply of a service request: a NULL-terminated array. Element 0 is for the request as a whole, element
 * n for its n-th action. */
typedef Omis_service_result *Omis_reply;

/* Flags of omis_request (7.1.1) */
typedef unsigned int Omis_flags;

#define OMIS_WAIT_FOR_FIRST_REPLY 1 /* block until the first reply and return it, also with a callback */
#define OMIS_DONT_RETURN_OK 2       /* no callback for replies that only contain an OK status */
#define OMIS_DONT_RETURN_EN_DIS 4   /* no callback for error-free "enabled" and "disabled" replies */
#define OMIS_BUFFER_REQUEST 8       /* may be buffered until the next request without this flag */
#define OMIS_BUFFER_REPLIES 16      /* replies may be buffered for a while by the monitoring system */
#define OMIS_DEBUG 32               /* debugging output for this request, through the error handler */

/* Sends a service request (7.1.1). With callback NULL: blocks and returns the reply, which the caller frees.
 * Otherwise returns NULL at once (or the first reply, with OMIS_WAIT_FOR_FIRST_REPLY) and hands every later
 * reply to callback from inside omis_handler; such a reply belongs to the tool, which frees it. */
Omis_reply omis_request(char *request, void (*callback)(Omis_reply reply, void *param), void *param, Omis_flags flags);

/* Frees a reply; NULL is safe (7.1.2). */
void omis_reply_free(Omis_reply reply);

/* Connects to the monitoring system, starting it if needed, and takes its own options (--omis-...) out of argv
 * (7.1.3). error_handler and tool_id may be NULL; *tool_id is 0 in the master process of a distributed tool, and
 * what the master got in its slaves. Returns OMIS_OK or an error status. */
Omis_status omis_init(int *argc, char ***argv, void (*error_handler)(Omis_reply reply), int *tool_id);

/* Deletes the tool's conditional requests, detaches everything it attached and closes the connection (7.1.4). */
Omis_status omis_finalize(void);

/* A descriptor that is readable while replies wait for omis_handler, or -1 (7.1.5). */
int omis_fd(void);

/* Takes in what has arrived and calls the callbacks; never blocks (7.1.6). */
void omis_handler(void);

#ifdef __cplusplus
}
#endif

#endif
