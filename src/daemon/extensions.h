/* SPDX-License-Identifier: Apache-2.0 */
/* Loads scry_ext_PREFIX.so files from the extension path (specification 6.2). */
#ifndef SCRY_DAEMON_EXTENSIONS_H
#define SCRY_DAEMON_EXTENSIONS_H

struct monitor;

/* Loads all extensions. Logs and omits those that cannot be loaded, or that others could change
 * (base/system/trusted.h). */
void extensions_load(struct monitor *monitor);

/* Ends extensions that are tools themselves, when there is no other tool. */
void extensions_end(struct monitor *monitor);

#endif
