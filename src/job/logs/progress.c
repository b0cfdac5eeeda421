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

/* "12,000", "12_000": bytes of a count in groups of three digits. 0: it is none. */
static size_t groups_len(const char *at)
{
    static const char digits[] = "0123456789";
    size_t len = strspn(at, digits);
    const char sign = at[len];
    if (len < 1 || len > 3 || *at == '0' || (sign != ',' && sign != '_'))
        return 0;
    while (at[len] == sign && strspn(at + len + 1, digits) == 3)
        len += 4;
    return at[len] != sign || at[len + 1] == ' ' || !at[len + 1] ? len : 0;
}

/* A number without sign or exponent. NULL: there is none. */
static const char *number(const char *at, double *ret_number)
{
    size_t grouped = groups_len(at);
    if (grouped > 3 && grouped <= NUMBER_MOST + NUMBER_MOST / 3) { /* with its signs */
        *ret_number = 0;
        for (const char *end = at + grouped; at < end; at++)
            *ret_number = isdigit((unsigned char)*at) ? 10 * *ret_number + (*at - '0') : *ret_number;
        return at;
    }
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

/* The unit that stands there, of time: its letters. */
static size_t unit_len(const char *at)
{
    static const char *const units[] = {"s", "ms", "us", "ns", "ps", "fs", "sec", "min", "h", "hours", "days", "years"};
    size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == len && memcmp(at, units[i], len) == 0)
            return len;
    return 0;
}

/* "3/100", "3 / 100", "3 of 100", "3 (of 100)", "3 of max 100", "3 s (end: 100 s)": what is behind it. NULL: it is none, or a
 * date, a path, more than all. */
static const char *ratio(const char *at, double *ret_done, double *ret_total)
{
    if (!(at = number(at, ret_done)))
        return NULL;
    static const char *const signs[] = {"/", "of max. ", "of max ", "of at most ", "of ", "(end: ", "(end "};
    const char *unit = blanks(at);
    size_t unit_size = unit_len(unit), i = 0;
    at = blanks(unit + unit_size);
    at += *at == '(' && strncasecmp(at + 1, "end", 3) != 0;
    while (i < sizeof signs / sizeof *signs && strncasecmp(at, signs[i], strlen(signs[i])) != 0)
        i++;
    if (i == sizeof signs / sizeof *signs)
        return NULL;
    const char *total = blanks(at + strlen(signs[i]));
    at = number(total, ret_total);
    if (at && unit_size) {
        at = blanks(at);
        at = unit_len(at) == unit_size && memcmp(at, unit, unit_size) == 0 ? at + unit_size : NULL;
    }
    if (!at || *at == '/' || *at == '-' || (*at == ':' && isdigit((unsigned char)at[1])) || isalnum((unsigned char)*at))
        return NULL;
    double least = memchr(total, '.', (size_t)(at - total)) ? 0.000001 : 2; /* a time may be of 1.0 */
    return *ret_total >= least && *ret_done <= *ret_total ? at : NULL;
}

/* One of the words begins there. */
static bool is_word(const char *at, const char *const *words)
{
    for (; *words; words++)
        if (strncasecmp(at, *words, strlen(*words)) == 0)
            return true;
    return false;
}

/* "passed" of "3/4 tests passed": how something ended, and not how far it is. */
static bool is_outcome(const char *behind)
{
    static const char *const outcomes[] = {"pass", "fail", "succe", "skip", "match", "ok", "converg", NULL};
    const char *first = blanks(behind), *second = blanks(first + strcspn(first, " \t"));
    return is_word(first, outcomes) || is_word(second, outcomes);
}

/* Behind a word: "Epoch 3/10", "step: 3 of 100", "iteration #3/9", "Epoch [3/10]". Of several the first in the text, which has the others in
 * it; NULL: none. */
static const char *behind_word(const char *text, const char *const *words, double *ret_done, double *ret_total)
{
    const char *first = NULL, *found = NULL;
    double done, total;
    for (; *words; words++) {
        size_t len = strlen(*words);
        for (const char *at = text; (at = strcasestr(at, *words)) && (!first || at < first); at += len) {
            const char *behind = at + len;
            bool begins = at == text || !isalnum((unsigned char)at[-1]);
            behind += begins && tolower((unsigned char)*behind) == 's';
            if (!begins || !(behind = ratio(behind + strspn(behind, " \t:=#[("), &done, &total)) || is_outcome(behind))
                continue;
            first = at;
            found = *words;
            *ret_done = done;
            *ret_total = total;
        }
    }
    return found;
}

/* What programs say that they do with one after the other. */
static const char *const doings[] = {
    "processing", "downloading", "uploading",  "converting",  "computing", "calculating", "analyzing",  "analysing",
    "rendering",  "extracting",  "loading",    "reading",     "writing",   "copying",     "installing", "compiling",
    "building",   "generating",  "simulating", "indexing",    "aligning",  "merging",     "solving",    "fetching",
    "importing",  "exporting",   "encoding",   "compressing", "scanning",  "receiving",   "resolving",  "unpacking",
    "updating",   "plotting",    "working on", NULL};
static const char *const dones[] = {"done",       "complete",  "finished", "processed",
                                    "downloaded", "converted", "written",  NULL};

static const char *find_doing(const char *text)
{
    for (const char *at = text; *at; at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && is_word(at, doings))
            return at;
    return NULL;
}

/* "3 of 12 steps (25%) done", "Converting x.nc (3/12)". */
static bool is_of_items(const char *text, double *ret_done, double *ret_total)
{
    const char *doing = find_doing(text);
    for (const char *at = text; *at; at++) {
        const char *behind = (at == text || strchr(" \t([", at[-1])) ? ratio(at, ret_done, ret_total) : NULL;
        if (!behind || is_outcome(behind))
            continue;
        bool enclosed = at > text && strchr("([", at[-1]) && strchr(")]", *behind);
        if (doing && doing < at && enclosed && *behind)
            return true;
        behind = blanks(behind);
        if (!is_word(behind, dones))
            behind = blanks(behind + strspn(behind, "abcdefghijklmnopqrstuvwxyz"));
        if (*behind == '(')
            behind = blanks(behind + strcspn(behind, ")") + 1);
        if (is_word(behind, dones))
            return true;
    }
    return false;
}

/* What is drawn between the ends of a bar. */
static bool is_drawn(const char *from, const char *to)
{
    enum { LEAST = 5 };
    for (const char *at = from; at < to; at++)
        if (!strchr("=#>-.*+_~: ", *at) && (unsigned char)*at < 0x80)
            return false;
    return to - from >= LEAST;
}

/* "━━━━━ 60% 0:00:06": of lines as rich draws them, and a time behind, which a table or a histogram has not. */
static bool has_line(const char *text, const char *end, const char *behind)
{
    static const char line[] = "\u2501", halves[][4] = {"\u2578", "\u257a"};
    const size_t size = sizeof line - 1;
    const char *at = end;
    while ((size_t)(at - text) >= size &&
           (memcmp(at - size, line, size) == 0 || memcmp(at - size, halves[0], size) == 0 ||
            memcmp(at - size, halves[1], size) == 0))
        at -= size;
    behind += strspn(behind, "0123456789-");
    return (size_t)(end - at) >= 2 * size && *behind == ':';
}

/* "60%[====>    ]", "[===>   ] 60%", "|###   | 60%", "###      60%": number, with its sign, is from there to there. */
static bool has_bar(const char *text, const char *number, const char *sign)
{
    const char *open = blanks(sign + 1), *end = number;
    const char *close = *open && strchr("[|", *open) ? strchr(open + 1, *open == '[' ? ']' : '|') : NULL;
    while (end > text && end[-1] == ' ')
        end--;
    if ((close && is_drawn(open + 1, close)) || has_line(text, end, open))
        return true;
    if (end > text && strchr("]|", end[-1]))
        for (open = end - 1; open > text && open[-1] != (end[-1] == ']' ? '[' : '|'); open--)
            continue;
    return (open < end && open > text && is_drawn(open, end - 1)) || (*blanks(text) == '#' && is_drawn(text, number));
}

/* "45%|####      | 45/100 [00:03<00:04, 11.2it/s]", as tqdm draws it. */
static bool is_bar(const char *text, double *ret_done, double *ret_total)
{
    const char *percent = strstr(text, "%|"), *bar = percent ? strchr(percent + 2, '|') : NULL;
    const char *behind = bar ? ratio(blanks(bar + 1), ret_done, ret_total) : NULL;
    return behind && *blanks(behind) == '[';
}

/* Behind a time, a level of importance and the like. */
static const char *message_of(const char *text)
{
    static const char *const levels[] = {"INFO", "DEBUG", "NOTICE", "[INFO]", "INFO:", NULL};
    for (size_t len; (len = strcspn(text, " \t"));) {
        bool stamp = len >= strlen("00:00") && strspn(text, "0123456789-:.,TZ+/[]") == len && strpbrk(text, ":-") &&
                     strpbrk(text, ":-") < text + len;
        for (size_t i = 0; levels[i]; i++)
            stamp |= strlen(levels[i]) == len && memcmp(text, levels[i], len) == 0;
        if (!stamp || !text[len])
            break;
        text = blanks(text + len);
    }
    return text;
}

/* "[ 45%] Building", "[45/100] Compiling", as build programs begin their lines, "(3/9) installing"; "PASSED   [ 45%]" as pytest ends
 * them. */
static bool in_brackets(const char *text, double *ret_done, double *ret_total)
{
    const char *from = message_of(text), *last = strrchr(text, '['), *behind;
    const char *at = *from == '[' || *from == '(' ? blanks(from + 1) : NULL;
    char end = *from == '(' ? ')' : ']';
    if (at && (behind = ratio(at, ret_done, ret_total)) && *blanks(behind) == end && !is_outcome(blanks(behind) + 1))
        return true;
    *ret_total = 100;
    at = *from == '[' ? at : last ? blanks(last + 1) : NULL;
    behind = at ? number(at, ret_done) : NULL;
    return behind && strncmp(behind, "%]", 2) == 0 && (*from == '[' || !behind[2]) && *ret_done <= 100;
}

/* How long it will take stands there: "ETA 0:12", "3 min remaining", "12.3MB/s 0:12". */
static bool has_rest(const char *behind)
{
    static const char *const rests[] = {"eta", "remaining", "left", NULL};
    const char *rate = strstr(behind, "B/s"), *colon = rate ? strchr(rate, ':') : NULL;
    if (is_word(blanks(behind), rests + 1)) /* of what is left, that is the share */
        return false;
    for (const char *at = behind; *at; at++)
        if (!isalnum((unsigned char)at[-1]) && is_word(at, rests))
            return true;
    return colon && isdigit((unsigned char)colon[-1]) && isdigit((unsigned char)colon[1]);
}

/* "(8.3%)", ", 45.0%", "[12 %]": such a share stands there, and is that of the two: what is behind it. NULL: it is none. */
static const char *share_of(const char *at, double done, double total)
{
    double percent;
    at = blanks(at);
    at = blanks(at + (*at && strchr("([,:-", *at)));
    const char *end = number(at, &percent);
    double apart = end ? percent - 100 * done / total : 0, most = end && memchr(at, '.', (size_t)(end - at)) ? 0.1 : 1;
    return end && *blanks(end) == '%' && apart <= most && apart >= -most ? blanks(end) + 1 : NULL;
}

/* Of what stands there, and before, it is said that it was judged or measured. */
static bool is_measured(const char *text, const char *end)
{
    static const char *const words[] = {"accura", "acc ",  "correct", "wrong",  "pass",  "fail", "succe",
                                        "skip",   "match", "align",   "mapped", "hit",   "miss", "error",
                                        "score",  "lost",  "cover",   "used",   "usage", "free", "avail",
                                        "memory", "disk",  "converg", NULL};
    end += strcspn(end, ",;|]\t");
    for (const char *at = text; at < end; at++)
        if ((at == text || !isalpha((unsigned char)at[-1])) && is_word(at, words))
            return true;
    return false;
}

/* "1000 of 12,000 (8.3%)", "45% (450 of 1000)" */
static bool is_of_share(const char *text, double *ret_done, double *ret_total)
{
    for (const char *at = text; *at; at++) {
        const char *behind = (at == text || strchr(" \t([", at[-1])) ? ratio(at, ret_done, ret_total) : NULL;
        const char *share = behind ? share_of(behind, *ret_done, *ret_total) : NULL, *from = at;
        while (behind && from > text && strchr(" \t([", from[-1]))
            from--;
        if (!share && behind && from > text && from[-1] == '%') { /* it stands before */
            for (from--; from > text && strchr("0123456789. ", from[-1]);)
                from--;
            share = share_of(from, *ret_done, *ret_total) ? behind : NULL;
        }
        if (share)
            return !is_measured(text, share);
    }
    return false;
}

/* "progress: 45 %", "45% done", "Receiving objects: 45%", or beside a bar. */
static enum log_progress_form find_percent(const char *text, double *ret_done, double *ret_total)
{
    static const char *const before[] = {"progress", "completed", "complete", "done", "finished"};
    const char *doing = find_doing(text);
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
        if (has_bar(text, from, sign))
            return LOG_PROGRESS_BAR;
        const char *head = from;
        while (head > text && strchr(" \t:=[(", head[-1]))
            head--;
        for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
            size_t len = strlen(before[i]);
            if ((size_t)(head - text) >= len && strncasecmp(head - len, before[i], len) == 0)
                return LOG_PROGRESS_PERCENT;
        }
        if (is_word(blanks(sign + 1), dones) || has_rest(sign + 1) || (doing && doing < from))
            return LOG_PROGRESS_PERCENT;
    }
    return LOG_PROGRESS_NONE;
}

/* *ret_word: which of them it was behind; NULL: none. */
static enum log_progress_form find_form(const char *text, double *ret_done, double *ret_total, const char **ret_word)
{
    static const char *const outer[] = {"epoch",    "fold",       "trial",         "scenario",   "member",
                                        "ensemble", "run",        "replica",       "simulation", "realization",
                                        "case",     "experiment", "parameter set", NULL};
    static const char *const inner[] = {
        "step",   "timestep", "time step",       "iteration",      "iter",       "cycle", "generation",
        "frame",  "sweep",    "round",           "batch",          "t =",        "t=",    "t:",
        "time =", "time=",    "simulation time", "simulated time", "model time", "day",   "month",
        "year",   "nstep",    "istep",           "it =",           "it=",        "kt =",  "kt=",
        NULL};
    static const char *const items[] = {"file",      "sample",     "image",     "item",      "chunk",     "block",
                                        "tile",      "page",       "slice",     "event",     "job",       "molecule",
                                        "structure", "sequence",   "progress",  "completed", "processed", "finished",
                                        "done",      "downloaded", "converted", NULL};
    *ret_word = NULL;
    if (!strpbrk(text, "0123456789"))
        return LOG_PROGRESS_NONE;
    if ((*ret_word = behind_word(text, outer, ret_done, ret_total)) != NULL)
        return LOG_PROGRESS_EPOCHS;
    if ((*ret_word = behind_word(text, inner, ret_done, ret_total)) != NULL)
        return LOG_PROGRESS_STEPS;
    if (is_bar(text, ret_done, ret_total))
        return LOG_PROGRESS_BAR;
    if (in_brackets(text, ret_done, ret_total))
        return LOG_PROGRESS_BRACKETS;
    if ((*ret_word = behind_word(text, items, ret_done, ret_total)) != NULL ||
        (*ret_word = behind_word(text, doings, ret_done, ret_total)) != NULL || is_of_items(text, ret_done, ret_total))
        return LOG_PROGRESS_ITEMS;
    return is_of_share(text, ret_done, ret_total) ? LOG_PROGRESS_PERCENT : find_percent(text, ret_done, ret_total);
}

enum log_progress_form log_progress_parse(const char *text, double *ret_done, double *ret_total)
{
    const char *word;
    return find_form(text, ret_done, ret_total, &word);
}

/* Of several bars which one it is: by the words before it, up to the first figure, and by how many it counts. */
static uint64_t bar_label(const char *text, double total)
{
    const uint64_t basis = 0xcbf29ce484222325, prime = 0x100000001b3; /* FNV-1a */
    uint64_t label = basis ^ (uint64_t)total;
    for (const char *at = blanks(text); isalpha((unsigned char)*at) || *at == ' ' || *at == '_'; at++)
        label = (label ^ (unsigned char)*at) * prime;
    return label;
}

/* The one with that form, word and label; NULL: there are too many. */
static struct log_counter *find_counter(struct log_said *said, enum log_progress_form form, const char *word,
                                        uint64_t label)
{
    for (size_t i = 0; i < said->count; i++)
        if (said->counters[i].form == form && said->counters[i].word == word && said->counters[i].label == label)
            return &said->counters[i];
    if (said->count == LOG_COUNTERS)
        return NULL;
    said->counters[said->count] = (struct log_counter){.form = form, .word = word, .label = label};
    return &said->counters[said->count++];
}

static bool is_whole(const struct log_counter *counter)
{
    return counter->total > 0 && counter->done >= counter->total;
}

/* It counts parts of something, as do those that came to their ends meanwhile: how many there are may be said by another one,
 * which has gone on. */
static void count_again(struct log_said *said, uint64_t now_ns, const struct log_counter *counter)
{
    const struct log_counter *outer = NULL;
    for (struct log_counter *each = said->counters; each < said->counters + said->count; each++)
        each->again |= each == counter || (each->form >= counter->form && is_whole(each));
    if (!said->current || !said->current->again)
        return;
    for (const struct log_counter *each = said->counters; each < said->counters + said->count; each++)
        if (!each->again && each->total > 0 && (!outer || each->form < outer->form))
            outer = each;
    said->current = outer;
    said->form = outer ? outer->form : LOG_PROGRESS_NONE;
    log_progress_take(&said->progress, now_ns, outer ? outer->done : 0, outer ? outer->total : 0);
}

void log_said_take(struct log_said *said, uint64_t now_ns, const char *text)
{
    double done, total;
    const char *word;
    const struct log_counter *current = said->current;
    enum log_progress_form form = find_form(text, &done, &total, &word);
    struct log_counter *counter =
        form ? find_counter(said, form, word, form == LOG_PROGRESS_BAR ? bar_label(text, total) : 0) : NULL;
    if (form && !counter && current && is_whole(current)) /* one after the other, and nobody knows how many */
        count_again(said, now_ns, current);
    if (!counter || counter->again)
        return;
    if (form == LOG_PROGRESS_PERCENT && said->form != form) {
        double percent = 100 * done / total;
        bool grew = said->percent > 0 && percent > said->percent;
        said->percent = percent;
        if (!grew)
            return;
    }
    if (counter->total > 0 && done < counter->done && (done < counter->done / 2 || counter->done >= counter->total)) {
        count_again(said, now_ns, counter);
        return;
    }
    if (done < counter->done)
        return; /* of another rank */
    counter->done = done;
    counter->total = total;
    bool whole = current && current->form != LOG_PROGRESS_EPOCHS && is_whole(current); /* it goes on with more */
    if (current && current != counter && form >= current->form && !whole)
        return; /* of what came first, or is more, it is a part */
    said->current = counter;
    said->form = form;
    log_progress_take(&said->progress, now_ns, done, total);
}
