/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that is only a few lines: it speaks the protocol of shm/area.h, and makes packets whose content is known. */
#ifndef SCRY_MONITOR_RECORDER_TEST_FAKE_AGENT_H
#define SCRY_MONITOR_RECORDER_TEST_FAKE_AGENT_H

enum { FAKE_FUNCTIONS = 3 };

/*
 * What a child does (child_new):
 *
 *   c    connects                         e N  enters function N
 *   x    leaves it                        n N  N calls
 *   f    gives its packet away            g    garbage over everything the monitor reads
 *   h    says hello as one without hooks  q    ends
 *   i N  its next packet has index N, or is the first free one after that
 *   o N  begins to overwrite its packet number N
 *   s N  sleeps until it is woken: 0 as a packet is freed, 1 as it is let go on
 *   l    says that its limit of open files lets it take no area
 */
void fake_agent(int fd);

#endif
