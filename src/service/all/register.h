/* SPDX-License-Identifier: Apache-2.0 */
/* All families of services that are built in, in the order of the reference. */
#ifndef SCRY_SERVICE_ALL_REGISTER_H
#define SCRY_SERVICE_ALL_REGISTER_H

struct monitor;

/* Registers them all. 0 or -errno (a row is wrong: logged). */
int service_register_all(struct monitor *monitor);

#endif
