/* SPDX-License-Identifier: Apache-2.0 */
/* Loads scry_ext_PREFIX.so files from the extension path (specification 6.2). */
#ifndef SCRY_DAEMON_EXTENSIONS_H
#define SCRY_DAEMON_EXTENSIONS_H

struct monitor;

/* Loads all; what cannot be loaded, or could be changed by others (base/trusted.h), is logged and left out. */
void extensions_load(struct monitor *monitor);

/* Those that are tools themselves end, when no other tool is there any more. */
void extensions_end(struct monitor *monitor);

#endif
