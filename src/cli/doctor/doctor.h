/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `scry doctor`. Checks of the machine try things out, where that harms nobody, and say what the result
 * means for jobs. */
#ifndef SCRY_CLI_DOCTOR_DOCTOR_H
#define SCRY_CLI_DOCTOR_DOCTOR_H

#include <stdbool.h>

#include <jansson.h>

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

/* doctor/node.c: can another machine be reached as a node, and what is there? */
void doctor_node(struct doctor_out *out, const char *name);

/* doctor/kernel.c */
void doctor_kernel(struct finding *finding);
void doctor_ptrace(struct finding *finding);
void doctor_traced(struct finding *finding);
void doctor_memory(struct finding *finding);
void doctor_perf(struct finding *finding);
void doctor_core(struct finding *finding);
void doctor_files(struct finding *finding);

/* doctor/agent.c */
void doctor_agent(struct finding *finding);

/* doctor/checks.c */
void doctor_runtime(struct finding *finding);
void doctor_jobs(struct finding *finding);
void doctor_tmp(struct finding *finding);
void doctor_programs(struct finding *finding);
void doctor_extensions(struct finding *finding);
void doctor_monitor(struct finding *finding);
void doctor_mpi(struct finding *finding);

/* doctor/broker.c */
void doctor_broker(struct finding *finding);

#endif
