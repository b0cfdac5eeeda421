/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `scry doctor`: each finds out by trying, where that harms nobody, and says what it means for jobs. */
#ifndef SCRY_CLI_DOCTOR_H
#define SCRY_CLI_DOCTOR_H

enum finding_state { FINDING_OK, FINDING_WARN, FINDING_FAIL };

struct finding {
    enum finding_state state; /* OK to begin with */
    char text[512];           /* what is there, and what follows from it */
    char remedy[512];         /* what to do; "" when nothing needs to be done */
};

void finding_set(struct finding *finding, enum finding_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void finding_remedy(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* doctor_kernel.c */
void doctor_kernel(struct finding *finding);
void doctor_ptrace(struct finding *finding);
void doctor_traced(struct finding *finding);
void doctor_memory(struct finding *finding);
void doctor_perf(struct finding *finding);
void doctor_core(struct finding *finding);
void doctor_files(struct finding *finding);

/* doctor_agent.c */
void doctor_agent(struct finding *finding);

/* doctor_checks.c */
void doctor_runtime(struct finding *finding);
void doctor_jobs(struct finding *finding);
void doctor_tmp(struct finding *finding);
void doctor_programs(struct finding *finding);
void doctor_extensions(struct finding *finding);
void doctor_monitor(struct finding *finding);
void doctor_mpi(struct finding *finding);

#endif
