/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/rule.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const log_severity_names[LOG_SEVERITIES] = {"error", "warning", "info", "debug"};

/* The first `=` without a backslash before it; NULL: none. */
static const char *find_equals(const char *text)
{
    for (; *text; text++) {
        if (*text == '=')
            return text;
        if (*text == '\\' && text[1])
            text++;
    }
    return NULL;
}

/* Cuts a level off the end of the expression. Who looks for ERROR alone, as many programs write it, means that level. */
static enum log_severity take_severity(char *expression)
{
    char *colon = strrchr(expression, ':');
    for (int i = 0; i < LOG_SEVERITIES; i++)
        if (colon && strcmp(colon + 1, log_severity_names[i]) == 0) {
            *colon = 0;
            return (enum log_severity)i;
        } else if (!colon && strcasecmp(expression, log_severity_names[i]) == 0) {
            return (enum log_severity)i;
        }
    return LOG_SEVERITY_INFO;
}

int log_rule_parse(struct log_rule *ret_rule, const char *text, struct err *err)
{
    const char *equals = find_equals(text);
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    struct log_rule rule = {.severity = LOG_SEVERITY_INFO};
    if (!len || len >= PATH_MAX)
        return err_set(err, -EINVAL, len ? "the name of the file is too long" : "name a file before the =");
    if (equals && !equals[1])
        return err_set(err, -EINVAL,
                       "there is no expression behind the =; a file alone (%.*s) is watched for the built-in patterns",
                       (int)(len < 100 ? len : 100), text);
    rule.file = strndup(text, len);
    rule.expression = equals ? strdup(equals + 1) : NULL;
    if (!rule.file || (equals && !rule.expression)) {
        log_rule_done(&rule);
        return err_set(err, -ENOMEM, "out of memory");
    }
    if (equals)
        rule.severity = take_severity(rule.expression);
    if (equals && !*rule.expression) {
        log_rule_done(&rule);
        return err_set(err, -EINVAL, "there is no expression before the level");
    }
    *ret_rule = rule;
    return 0;
}

void log_rule_done(struct log_rule *rule)
{
    free(rule->file);
    free(rule->expression);
    *rule = (struct log_rule){0};
}
