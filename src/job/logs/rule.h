/* SPDX-License-Identifier: Apache-2.0 */
/* What --log says: FILE=REGEX[:LEVEL]. scry-run(1) has the rules. */
#ifndef SCRY_JOB_LOGS_RULE_H
#define SCRY_JOB_LOGS_RULE_H

#include "base/data/err.h"

enum log_severity { LOG_SEVERITY_ERROR, LOG_SEVERITY_WARNING, LOG_SEVERITY_INFO, LOG_SEVERITY_DEBUG, LOG_SEVERITIES };
/* "error", "warning", "info", "debug" */
extern const char *const log_severity_names[LOG_SEVERITIES];

struct log_rule {
    char *file;       /* a pattern of glob(7) in which \ takes the next character as it is; or "stdout", "stderr" */
    char *expression; /* NULL: the built-in patterns */
    enum log_severity severity;
};

/* Takes it apart; the expression is not looked at. 0, or -EINVAL or -ENOMEM with err. */
int log_rule_parse(struct log_rule *ret_rule, const char *text, struct err *err);
void log_rule_done(struct log_rule *rule);

#endif
