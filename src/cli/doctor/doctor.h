/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_DOCTOR_DOCTOR_H
#define SCRY_CLI_DOCTOR_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>

/* The checks of `scry doctor`. Checks of the machine try things out, where that harms nobody, and say what the result
 * means for jobs. */

enum finding_state { FINDING_OK, FINDING_WARN, FINDING_FAIL };

struct finding {
    enum finding_state state; /* at first OK */
    char text[512];           /* what was found, and what follows */
    char remedy[512];         /* what to do; "" when nothing needs to be done */
};

void finding_set(struct finding *finding, enum finding_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void finding_remedy(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Collects the findings. */
struct doctor_out {
    json_t *list; /* NULL: print them */
    bool color;
    int counts[3]; /* by enum finding_state */
};
void doctor_say(struct doctor_out *out, const char *name, const struct finding *finding);

/* doctor/job.c: why a job shows nothing, or too little. 0, or an exit status after logging that there is no such job.
 */
int doctor_job(struct doctor_out *out, const char *job);

#endif
