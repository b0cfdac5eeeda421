/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source "scripts" of the observer: where the shell scripts of the job are, from outside (--script outside, and all
 * levels above it, for the shells that these do not reach). It reads two files in /proc for each shell at a look. Looks
 * come ten times a second while something changes, seldom otherwise, and take a small share of a processor at most.
 */
#ifndef SCRY_JOB_SCRIPTS_SCRIPTS_H
#define SCRY_JOB_SCRIPTS_SCRIPTS_H

#include "job/observe/observe.h"

extern const struct observe_source scripts_source;

#endif
