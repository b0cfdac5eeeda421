/* SPDX-License-Identifier: Apache-2.0 */
/* How far a job is: what lines say of that in the forms in which many programs do, and at which rate it goes. */
#include "base/system/clock.h"
#include "job/logs/match.h"
#include "shm/waits.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct progress_point *point(struct log_progress *progress, unsigned index)
{
    return &progress->points[(progress->first + index) % PROGRESS_POINTS];
}

void log_progress_take(struct log_progress *progress, uint64_t now_ns, double done, double total)
{
    if (done < progress->done || total != progress->total) /* something else has begun */
        progress->count = 0;
    progress->wants |= !progress->count || done != progress->done;
    progress->done = done;
    progress->total = total;
    progress->now_ns = now_ns;
    if (progress->count &&
        now_ns < point(progress, progress->count - 1)->at_ns + PROGRESS_APART_SECONDS * (uint64_t)NS_PER_SECOND)
        return;
    if (progress->count == PROGRESS_POINTS)
        progress->first++;
    else
        progress->count++;
    *point(progress, progress->count - 1) = (struct progress_point){now_ns, done};
}

bool log_progress_due(struct log_progress *progress, uint64_t now_ns, bool end)
{
    if (!progress->wants || (!end && progress->said && now_ns < progress->said_ns + NS_PER_SECOND))
        return false;
    progress->wants = false;
    progress->said = true;
    progress->said_ns = now_ns;
    return true;
}

double log_progress_left_seconds(const struct log_progress *progress)
{
    if (!progress->count)
        return -1;
    const struct progress_point *old = &progress->points[progress->first % PROGRESS_POINTS];
    double passed = (double)(progress->now_ns - old->at_ns) / NS_PER_SECOND, rose = progress->done - old->done;
    if (progress->done >= progress->total)
        return 0;
    return passed > 0 && rose > 0 ? (progress->total - progress->done) * passed / rose : -1;
}

/* ---- lines ---- */

enum { NUMBER_MOST = 12 }; /* digits: more are no count */

/* A number without sign or exponent. NULL: there is none. */
static const char *number(const char *at, double *ret_number)
{
    size_t digits = strspn(at, "0123456789"), fraction = at[digits] == '.' ? strspn(at + digits + 1, "0123456789") : 0;
    if (!digits || digits > NUMBER_MOST || fraction > NUMBER_MOST)
        return NULL;
    double whole = 0, part = 1;
    for (size_t i = 0; i < digits; i++)
        whole = 10 * whole + (at[i] - '0');
    for (size_t i = 0; i < fraction; i++)
        whole += (part /= 10) * (at[digits + 1 + i] - '0');
    *ret_number = whole;
    return at + digits + (fraction ? fraction + 1 : 0);
}

static const char *blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* "3/100", "3 / 100", "3 of 100", "3 (of 100)": what is behind it. NULL: it is none, or a date, a path, more than all. */
static const char *ratio(const char *at, double *ret_done, double *ret_total)
{
    if (!(at = number(at, ret_done)))
        return NULL;
    at = blanks(at);
    at += *at == '(';
    if (*at == '/')
        at = blanks(at + 1);
    else if (tolower((unsigned char)at[0]) == 'o' && tolower((unsigned char)at[1]) == 'f' && at[2] == ' ')
        at = blanks(at + 3);
    else
        return NULL;
    if (!(at = number(at, ret_total)) || *at == '/' || *at == '-' || *at == ':' || isalnum((unsigned char)*at))
        return NULL;
    return *ret_total >= 2 && *ret_done <= *ret_total ? at : NULL;
}

/* Behind a word: "Epoch 3/10", "step: 3 of 100", "iteration #3/9", "Epoch [3/10]". */
static bool behind_word(const char *text, const char *const *words, double *ret_done, double *ret_total)
{
    for (; *words; words++) {
        size_t len = strlen(*words);
        for (const char *at = text; (at = strcasestr(at, *words)); at += len) {
            const char *behind = at + len;
            bool begins = at == text || !isalnum((unsigned char)at[-1]);
            behind += begins && tolower((unsigned char)*behind) == 's';
            if (begins && ratio(behind + strspn(behind, " \t:=#[("), ret_done, ret_total))
                return true;
        }
    }
    return false;
}

/* "45%|####      | 45/100 [00:03<00:04, 11.2it/s]", as tqdm draws it. */
static bool is_bar(const char *text, double *ret_done, double *ret_total)
{
    const char *percent = strstr(text, "%|"), *bar = percent ? strchr(percent + 2, '|') : NULL;
    const char *behind = bar ? ratio(blanks(bar + 1), ret_done, ret_total) : NULL;
    return behind && *blanks(behind) == '[';
}

/* "[ 45%] Building", "[45/100] Compiling", as build programs begin their lines. */
static bool in_brackets(const char *text, double *ret_done, double *ret_total)
{
    const char *at = *text == '[' ? blanks(text + 1) : NULL, *behind = at ? ratio(at, ret_done, ret_total) : NULL;
    if (behind && *blanks(behind) == ']')
        return true;
    *ret_total = 100;
    behind = at ? number(at, ret_done) : NULL;
    return behind && behind[0] == '%' && behind[1] == ']' && *ret_done <= 100;
}

/* "progress: 45 %", "45% done". */
static bool is_percent(const char *text, double *ret_done, double *ret_total)
{
    static const char *const before[] = {"progress", "completed", "complete", "done", "finished"};
    static const char *const after[] = {"done", "complete", "finished"};
    *ret_total = 100;
    for (const char *sign = text; (sign = strchr(sign, '%')); sign++) {
        const char *from = sign;
        while (from > text && from[-1] == ' ')
            from--;
        const char *end = from;
        while (from > text && (isdigit((unsigned char)from[-1]) || from[-1] == '.'))
            from--;
        if (number(from, ret_done) != end || from == end || *ret_done > 100)
            continue;
        const char *head = from;
        while (head > text && strchr(" \t:=[(", head[-1]))
            head--;
        for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
            size_t len = strlen(before[i]);
            if ((size_t)(head - text) >= len && strncasecmp(head - len, before[i], len) == 0)
                return true;
        }
        for (size_t i = 0; i < sizeof after / sizeof *after; i++)
            if (strncasecmp(blanks(sign + 1), after[i], strlen(after[i])) == 0)
                return true;
    }
    return false;
}

enum log_progress_form log_progress_parse(const char *text, double *ret_done, double *ret_total)
{
    static const char *const outer[] = {"epoch", NULL};
    static const char *const inner[] = {"step",       "timestep", "time step", "iteration", "iter",  "cycle",
                                        "generation", "frame",    "sweep",     "round",     "batch", NULL};
    if (!strpbrk(text, "0123456789"))
        return LOG_PROGRESS_NONE;
    if (behind_word(text, outer, ret_done, ret_total))
        return LOG_PROGRESS_EPOCHS;
    if (behind_word(text, inner, ret_done, ret_total))
        return LOG_PROGRESS_STEPS;
    if (is_bar(text, ret_done, ret_total))
        return LOG_PROGRESS_BAR;
    if (in_brackets(text, ret_done, ret_total))
        return LOG_PROGRESS_BRACKETS;
    return is_percent(text, ret_done, ret_total) ? LOG_PROGRESS_PERCENT : LOG_PROGRESS_NONE;
}

void log_said_take(struct log_said *said, uint64_t now_ns, const char *text)
{
    double done, total;
    enum log_progress_form form = log_progress_parse(text, &done, &total);
    if (form == LOG_PROGRESS_NONE || (said->form && form > said->form) || (said->again & 1U << form))
        return;
    bool same = form == said->form;
    if (same && (done < said->progress.done / 2 ||
                 (done < said->progress.done && said->progress.done >= said->progress.total))) {
        said->again |= 1U << form; /* it counts parts of something: nobody knows how many there are */
        said->form = LOG_PROGRESS_NONE;
        done = total = 0;
    } else if (same && done < said->progress.done) {
        return; /* of another rank */
    } else {
        said->form = form;
    }
    log_progress_take(&said->progress, now_ns, done, total);
}
