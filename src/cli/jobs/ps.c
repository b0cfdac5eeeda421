/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "broker/url.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "cli/common/now.h"
#include "cli/common/table.h"
#include "cli/jobs/ranks.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/mirror.h"
#include "jobdir/report/report.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* scry ps, for programs: doc/reference/ps.schema.json. */

static json_t *state_json(const void *row, const void *all)
{
    return json_stringn(&((const struct job_process *)row)->state, 1);
}

static const struct field process_fields[] = {{"", FIELD_PART, .of = job_process_fields},
                                              {"state", FIELD_TEXT, .json = state_json, .about = "the kernel's letter"},
                                              {"rss_bytes", FIELD_BYTES, FIELD_AT(struct job_process, rss)},
                                              {"cpus", FIELD_NUMBER, FIELD_AT(struct job_process, cpu_share),
                                               .about = "processors used between the last two samples"},
                                              {0}};

/* Also for a job that cannot be read. */
struct row {
    const char *id, *path, *state, *reason, *cause, *brief;
    const struct job_report *report;
    struct job_result result;
    const char *status;
    const struct rank_now *ranks;
    size_t rank_count;
};

static const struct field place_fields[] = {{"id", FIELD_TEXT, FIELD_AT(struct row, id)},
                                            {"path", FIELD_TEXT, FIELD_AT(struct row, path)},
                                            {"state", FIELD_CHOICE, FIELD_AT(struct row, state),
                                             .choices = "running|ended|unwatched|lost|unreachable|unreadable"},
                                            {0}};

static const struct field reason_fields[] = {
    {"reason", FIELD_TEXT, FIELD_AT(struct row, reason), FIELD_OPTIONAL, .about = "why it is unreadable"}, {0}};

static const struct field info_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_report, info.name), FIELD_OPTIONAL},
    {"host", FIELD_TEXT, FIELD_AT(struct job_report, info.host), FIELD_OPTIONAL},
    {"user", FIELD_TEXT, FIELD_AT(struct job_report, info.user), FIELD_OPTIONAL, .about = "who ran it"},
    {"argv", FIELD_LIST, FIELD_AT(struct job_report, info.argv), FIELD_OPTIONAL, .of = fields_texts},
    {"started_seconds", FIELD_SECONDS, FIELD_AT(struct job_report, info.started_ns), FIELD_OPTIONAL},
    {"batch", FIELD_OBJECT, FIELD_AT(struct job_report, info.batch), FIELD_OR_NULL | FIELD_OPTIONAL,
     .of = job_batch_fields, .about = "as in report.schema.json"},
    {"task", FIELD_TEXT, FIELD_AT(struct job_report, info.task), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL,
     .about = "as in report.schema.json"},
    {0}};

static json_t *exit_code_json(const void *row, const void *all)
{
    const struct row *job = row;
    return job->report->info.ended ? json_integer(job->result.exit_code) : json_null();
}

static json_t *processes_json(const void *row, const void *all)
{
    const struct row *job = row;
    bool over = job->report->state == JOB_ENDED || job->report->state == JOB_LOST;
    json_t *list = json_array();
    for (size_t i = 0; !over && i <= job->report->part_count; i++)
        for (const struct job_process *each = job_report_model(job->report, i)->alive; each; each = each->hh.next)
            json_array_append_new(list, fields_json(process_fields, each, NULL));
    return list;
}

static json_t *its_ranks_json(const void *row, const void *all)
{
    return ranks_json(((const struct row *)row)->ranks, ((const struct row *)row)->rank_count);
}

/* How far it said last that it is; NULL: it did not. */
static const json_t *ps_progress(const struct job_report *report)
{
    return report->info.progress ? report->info.progress : now_progress(&report->model);
}

static json_t *progress_json(const void *row, const void *all)
{
    const struct row *job = row;
    bool over = job->report->state == JOB_ENDED || job->report->state == JOB_LOST;
    return now_progress_json(ps_progress(job->report), over ? -1 : job->result.wall_seconds);
}

/* Of a job that is elsewhere: whether it has signed what is known of it. *ret_known: somebody could tell. */
static bool ps_is_signed(const struct job_report *report, bool *ret_known)
{
    json_t *remote = mirror_read_remote(report->path), *said = json_object_get(remote, "signed");
    bool is_signed = json_is_true(said);
    *ret_known = json_is_boolean(said);
    json_decref(remote);
    return is_signed;
}

static json_t *signed_json(const void *row, const void *all)
{
    bool known, is_signed = ps_is_signed(((const struct row *)row)->report, &known);
    return known ? json_boolean(is_signed) : json_null();
}

static const struct field result_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct row, report), FIELD_POINTER, .of = info_fields},
    {"status", FIELD_TEXT, FIELD_AT(struct row, status), FIELD_OPTIONAL, .about = "as in report.schema.json"},
    {"exit_code", FIELD_INTEGER, .flags = FIELD_OR_NULL | FIELD_OPTIONAL, .json = exit_code_json},
    {"brief", FIELD_TEXT, FIELD_AT(struct row, brief), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL,
     .about = "cause in the words of a line of a list, beside how the job ended"},
    {"cause", FIELD_TEXT, FIELD_AT(struct row, cause), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL,
     .about = "why it failed, or what its exit status of 0 hides, or that it was lost, or what it was stuck in before "
              "that; null: not known, or it did not"},
    {"signal", FIELD_INTEGER, FIELD_AT(struct row, result.signal), FIELD_ZERO_IS_NULL | FIELD_OPTIONAL},
    {"wall_seconds", FIELD_SECONDS, FIELD_AT(struct row, result.wall_seconds), FIELD_OPTIONAL},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct row, result.cpu_seconds), FIELD_OPTIONAL},
    {"peak_tree_rss_bytes", FIELD_BYTES, FIELD_AT(struct row, result.peak_tree_rss_bytes), FIELD_OPTIONAL},
    {"peak_tree_pss_bytes", FIELD_BYTES, FIELD_AT(struct row, result.peak_tree_pss_bytes),
     FIELD_ZERO_IS_NULL | FIELD_OPTIONAL, .about = "as in report.schema.json"},
    {"", FIELD_PART, FIELD_AT(struct row, report), FIELD_POINTER, .of = report_standing_fields},
    {"progress", FIELD_OBJECT, .flags = FIELD_OR_NULL | FIELD_OPTIONAL, .json = progress_json,
     .of = now_progress_fields, .about = "how far the job says it is, or was at its end; null: it does not"},
    {"signed", FIELD_BOOL, .flags = FIELD_OR_NULL | FIELD_OPTIONAL, .json = signed_json,
     .about = "of a job at a broker: as mirror.signed in report.schema.json"},
    {"processes", FIELD_LIST, .flags = FIELD_OPTIONAL, .json = processes_json, .of = process_fields,
     .about = "that live"},
    {"ranks", FIELD_LIST, .flags = FIELD_OPTIONAL, .json = its_ranks_json, .of = ranks_fields,
     .about = "of its MPI programs"},
    {0}};

/* Whether anything is known of what it used: of a job elsewhere, lists have only that it runs. */
static bool ps_is_measured(const struct job_report *report, const struct job_result *result)
{
    return report->state == JOB_ENDED || report->state == JOB_LOST || result->processes;
}

/* Why it failed, or what its exit status of 0 hides, as far as is known; NULL: nothing. */
static const char *ps_reason(const struct job_report *report)
{
    const char *cause = json_string_value(json_object_get(report->info.cause, "text"));
    const char *stall = cause || !job_report_is_lost(report) ? NULL : job_report_stall(report);
    return stall ? stall : !cause && job_report_is_lost(report) ? JOB_LOST_TEXT : cause;
}

/* The same for a line of a list, beside how it ended: the words first. */
static void put_brief(struct buf *out, const struct job_report *report)
{
    const json_t *fields = json_object_get(report->info.cause, "fields");
    const char *words = member_text(fields, "words");
    enum note_kind kind = note_json_kind(report->info.cause);
    if (kind == NOTE_hidden_failure) {
        text_show_brief(out, member_text(fields, "what")); /* the state says the rest */
    } else if (kind == NOTE_cause_unknown && !*words) {
        job_report_put_standing(out, report);
    } else if ((kind == NOTE_cause_process || kind == NOTE_cause_unknown) && *words) {
        text_show(out, member_text(fields, "program"));
        buf_puts(out, ": ");
        text_show_brief(out, words);
    } else if (kind == NOTE_cause_log) {
        text_show(out, member_text(fields, "file"));
        buf_puts(out, ": ");
        text_show_brief(out, member_text(fields, "text"));
        text_show(out, member_text(fields, "place"));
    } else if (ps_reason(report)) {
        text_show_brief(out, ps_reason(report));
    } else {
        job_report_put_standing(out, report);
    }
}

/* One of .jobs, with its ranks (none if it is over). */
static json_t *ps_job_json(const struct job_report *report, const struct rank_now *ranks, size_t rank_count)
{
    _cleanup_(buf_done) struct buf brief = BUF_INIT;
    put_brief(&brief, report);
    const struct row row = {.id = report->info.id,
                            .path = report->path,
                            .state = job_state_name(report->state),
                            .report = report,
                            .result = job_report_total(report),
                            .status = job_report_status(report),
                            .cause = ps_reason(report),
                            .brief = brief.data,
                            .ranks = ranks,
                            .rank_count = rank_count};
    json_t *json = fields_json(place_fields, &row, NULL);
    fields_add(json, result_fields, &row, NULL);
    if (!ps_is_measured(report, &row.result)) {
        json_object_del(json, "cpu_seconds");
        json_object_del(json, "peak_tree_rss_bytes");
        json_object_del(json, "peak_tree_pss_bytes");
    }
    return json;
}

/* A job whose directory cannot be read. */
static json_t *ps_unreadable_json(const char *path, const char *reason)
{
    const struct row row = {.id = text_base(path), .path = path, .state = "unreadable", .reason = reason};
    json_t *json = fields_json(place_fields, &row, NULL);
    fields_add(json, reason_fields, &row, NULL);
    return json;
}

json_t *ps_schema(void)
{
    static const struct field job[] = {{"", FIELD_PART, .of = place_fields},
                                       {"", FIELD_PART, .of = reason_fields},
                                       {"", FIELD_PART, .of = result_fields},
                                       {0}},
                              whole[] = {{"jobs", FIELD_LIST, .of = job, .about = "newest first"}, {0}};
    return fields_schema(whole);
}

/* scry ps: jobs and their processes. */

enum {
    COMMAND_SHARE = 8, /* of the columns, beside a reason */
    REASON_BESIDE =
        100, /* columns from which on a reason stands beside the command: else below, for little of it would be seen */
    PS_ENDED = LIST_NEWEST, /* ended jobs shown without --all */
    PS_PROCESSES = 10,      /* processes of a job shown without --all */
};

static bool is_over(const struct job_report *report)
{
    return report->state == JOB_ENDED || report->state == JOB_LOST;
}

static void command_line(const struct job_report *report, struct buf *out)
{
    enum { SHOWN = 4096 }; /* more than any terminal has columns */
    size_t index;
    json_t *arg;
    if (report->info.name[0]) {
        text_show(out, report->info.name);
        return;
    }
    json_array_foreach(report->info.argv, index, arg)
    {
        buf_puts(out, index ? " " : "");
        text_show(out, json_string_value(arg) ? json_string_value(arg) : "?");
        if (out->len > SHOWN) {
            out->len = text_fit(out->data, out->len, SHOWN);
            buf_puts(out, "...");
            break;
        }
    }
}

static void put_outcome(struct buf *out, const struct job_report *report, const struct job_result *result)
{
    char name[32];
    const char *status = job_report_status(report);
    if (strcmp(status, "signaled") == 0)
        buf_puts(out, text_signal(result->signal, name, sizeof name));
    else if (strcmp(status, "exited") == 0 || strcmp(status, "not_started") == 0)
        buf_printf(out, "exit %d", result->exit_code);
    else
        buf_puts(out, job_is_stopped(report->path, &report->info) ? "stopped" : status);
}

static int by_cpu_share(const void *a, const void *b)
{
    const struct job_process *left = *(struct job_process *const *)a, *right = *(struct job_process *const *)b;
    if (left->cpu_share != right->cpu_share)
        return left->cpu_share < right->cpu_share ? 1 : -1;
    return left->pid - right->pid;
}

static bool is_rank(const struct rank_now *ranks, size_t count, const struct job_process *process, const char *host)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].pid == process->pid &&
            (process->node ? ranks[i].host && strcmp(ranks[i].host, host) == 0 : !ranks[i].elsewhere))
            return true;
    return false;
}

/* The processes that are no ranks. */
static void put_processes(struct buf *out, const struct job_report *report, const struct rank_now *ranks,
                          size_t rank_count, bool all)
{
    const struct job_model *model = &report->model;
    const char *host = report->info.host ? report->info.host : text_base(report->path); /* a part may have just begun */
    size_t count = HASH_COUNT(model->alive), used = 0;
    _cleanup_(freep) const struct job_process **list = calloc(count + 1, sizeof *list);
    for (const struct job_process *process = model->alive; process && list; process = process->hh.next)
        if (!is_rank(ranks, rank_count, process, host))
            list[used++] = process;
    if (used)
        qsort(list, used, sizeof *list, by_cpu_share);
    for (size_t i = 0; i < used && (all || i < PS_PROCESSES); i++) {
        struct buf name = BUF_INIT;
        text_show(&name, list[i]->name);
        buf_printf(out, "    %8d %c %5.0f%%  ", list[i]->pid, list[i]->state, 100 * list[i]->cpu_share);
        text_size(out, list[i]->rss);
        buf_printf(out, "  %s", name.data ? name.data : "");
        if (list[i]->threads > 1)
            buf_printf(out, " (%llu threads)", (unsigned long long)list[i]->threads);
        buf_putc(out, '\n');
        buf_done(&name);
    }
    if (!all && used > PS_PROCESSES)
        buf_printf(out, "    ... and %zu more\n", used - PS_PROCESSES);
}

/* What the job has on another node. */
static void put_part(struct buf *out, const struct job_report *part, const struct rank_now *ranks, size_t rank_count,
                     bool all)
{
    _cleanup_(buf_done) struct buf processes = BUF_INIT;
    if (part->state == JOB_ENDED)
        return;
    put_processes(&processes, part, ranks, rank_count, all);
    if (!processes.len && part->state == JOB_RUNNING) /* its ranks stand below */
        return;
    buf_puts(out, "    on ");
    text_show(out, part->model.part);
    if (part->state != JOB_RUNNING)
        buf_printf(out, " (%s)", job_state_name(part->state));
    buf_putc(out, '\n');
    buf_append(out, processes.data, processes.len);
}

/* ---- ranks ---- */

static void put_ranks(struct buf *out, const struct job_report *report, const struct rank_now *ranks, size_t count,
                      bool all)
{
    for (size_t same; count; ranks += same, count -= same) {
        same = ranks_same(ranks, count);
        const struct ranks_view view = {report, .host_width = ranks_host_width(ranks, same, SIZE_MAX)};
        buf_puts(out, "    ");
        ranks_summary(out, ranks, same, true);
        buf_puts(out, "\n     ");
        fields_title(out, ranks_fields, &view);
        for (size_t i = 0; i < same && (all || i < PS_PROCESSES); i++) {
            buf_puts(out, "     ");
            fields_row(out, ranks_fields, &ranks[i], &view);
        }
        if (!all && same > PS_PROCESSES)
            buf_printf(out, "    ... and %zu more ranks\n", same - PS_PROCESSES);
    }
}

/* ---- the table ---- */

enum { COLUMN_ID, COLUMN_STATE, COLUMN_ELAPSED, COLUMN_CPU, COLUMN_PEAK, COLUMN_PROGRESS, COLUMN_COMMAND, COLUMNS };

static const struct table_column columns[] = {
    [COLUMN_ID] = {"JOB"},
    [COLUMN_STATE] = {"STATE"},
    [COLUMN_ELAPSED] = {"ELAPSED", .number = true, .omitted = 3},
    [COLUMN_CPU] = {"CPU", .number = true, .omitted = 1},
    [COLUMN_PEAK] = {"PEAK", .number = true, .omitted = 2},
    [COLUMN_PROGRESS] = {"PROGRESS", .number = true, .if_any = true}, /* few jobs say how far they are */
    [COLUMN_COMMAND] = {"COMMAND", .least = 18, .words = true},
    [COLUMNS] = {0},
};

/* A line of its own, of at most so many characters. */
static void put_reason_below(struct buf *out, const char *mark, const char *reason, size_t width)
{
    static const char indent[] = "    ";
    size_t before = strlen(indent) + strlen(mark);
    buf_printf(out, "%s%s", indent, mark);
    text_cut_end(out, reason, width > before ? width - before : 0);
    buf_putc(out, '\n');
}

static void add_job(struct table *table, const struct job_report *report, const struct rank_list *ranks, bool all)
{
    struct job_result result = job_report_total(report);
    struct table_row *row = table_add(table);
    bool known;
    if (!row)
        return;
    struct buf *cells = row->cells;
    text_show(&cells[COLUMN_ID], report->info.id);
    put_outcome(&cells[COLUMN_STATE], report, &result);
    if (!ps_is_signed(report, &known) && known)
        buf_puts(&cells[COLUMN_STATE], ", unsigned");
    if (is_over(report) || result.wall_seconds > 0)
        text_seconds(&cells[COLUMN_ELAPSED], result.wall_seconds);
    if (ps_is_measured(report, &result)) {
        text_seconds(&cells[COLUMN_CPU], result.cpu_seconds);
        text_size(&cells[COLUMN_PEAK], job_result_memory(&result));
    }
    now_progress_text(&cells[COLUMN_PROGRESS], ps_progress(report), is_over(report) ? -1 : result.wall_seconds);
    _cleanup_(buf_done) struct buf command = BUF_INIT, reason = BUF_INIT;
    put_brief(&reason, report);
    bool beside = reason.len && table->width >= REASON_BESIDE;
    command_line(report, &command);
    text_cut_end(&cells[COLUMN_COMMAND], command.data ? command.data : "",
                 beside ? table->width / COMMAND_SHARE : table->width);
    const char *mark =
        is_over(report) && !job_report_is_lost(report) && !result.exit_code && !result.signal ? "! " : "-> ";
    if (beside) {
        buf_printf(&cells[COLUMN_COMMAND], "  %s", mark);
        buf_append(&cells[COLUMN_COMMAND], reason.data, reason.len);
    } else if (reason.len) {
        put_reason_below(&row->below, mark, reason.data, table->width);
    }
    if (!is_over(report)) {
        size_t count;
        const struct rank_now *list = ranks_of(ranks, report->path, &count);
        put_processes(&row->below, report, list, count, all);
        for (size_t i = 0; i < report->part_count; i++)
            put_part(&row->below, &report->parts[i], list, count, all);
        put_ranks(&row->below, report, list, count, all);
    }
}

/* Lists jobs whose directory cannot be read, too: without them the listing would be wrong. */
static void add_unreadable(struct table *table, json_t *list, const char *path, const struct err *err)
{
    const char *cells[COLUMNS] = {text_base(path), "unreadable", "", "", "", "", err->text};
    json_array_append_new(list, ps_unreadable_json(path, err->text));
    struct table_row *row = table_add(table);
    for (size_t column = 0; row && column < COLUMNS; column++)
        text_show(&row->cells[column], cells[column]);
}

static int add_part(void *ctx, const char *dir)
{
    struct job_report *report = ctx, *part = dir == report->path ? NULL : job_report_add_part(report, dir);
    struct err err;
    if (part && !part->info.ended) /* its node went away: nobody has written down the sums */
        job_model_read(&part->model, part->path, part->problems, &err);
    return dir == report->path || part ? 0 : -ENOMEM;
}

/* Reads the spool only of what is not over. */
static int report_load(struct job_report *report, const char *path, struct err *err)
{
    struct job_info info;
    int code = job_info_read(path, &info, err);
    if (code == 0 && info.ended) {
        *report = (struct job_report){.path = path, .info = info, .state = JOB_ENDED};
        job_dirs_each(path, add_part, report);
        return 0;
    }
    job_info_done(&info);
    return code < 0 ? code : job_report_load(report, path, err);
}

/* The ranks of running jobs; asks the monitor once for all. */
static void look_at_ranks(struct rank_list *ranks, bool *asked, const struct job_report *report)
{
    _cleanup_(buf_done) struct buf missing = BUF_INIT;
    if (is_over(report))
        return;
    if (!*asked)
        ranks_ask(ranks);
    *asked = true;
    ranks_ask_elsewhere(ranks, report->path, &missing);
    ranks_add_elsewhere(ranks, report->path);
    if (missing.len)
        log_warning("job %s: %s", report->info.id, missing.data);
}

struct listing {
    struct table table;
    json_t *list;
    struct rank_list ranks;
    bool all, json, remote, asked;
    size_t over;
    uint64_t shown_ns;
};

static void listing_done(struct listing *listing)
{
    table_done(&listing->table);
    ranks_done(&listing->ranks);
    json_decref(listing->list);
}

/* What there is by now. A long list comes in pieces, so that one sees that it comes. */
static void listing_show(struct listing *listing)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    table_put(&out, &listing->table);
    fputs(out.data ? out.data : "", stdout);
    fflush(stdout);
    listing->shown_ns = clock_now_ns();
}

/* They come the newest first. */
static void add_path(void *ctx, const char *path)
{
    struct listing *listing = ctx;
    struct job_report report = {0};
    struct err err = {0};
    if (report_load(&report, path, &err) < 0) {
        add_unreadable(&listing->table, listing->list, path, &err);
    } else if (!is_over(&report) || listing->over++ < PS_ENDED || listing->all) {
        if (!listing->remote) /* their monitors are elsewhere */
            look_at_ranks(&listing->ranks, &listing->asked, &report);
        size_t rank_count = 0;
        const struct rank_now *its = is_over(&report) ? NULL : ranks_of(&listing->ranks, report.path, &rank_count);
        if (listing->json)
            json_array_append_new(listing->list, ps_job_json(&report, its, rank_count));
        else
            add_job(&listing->table, &report, &listing->ranks, listing->all);
    }
    job_report_done(&report);
    if (!listing->json && listing->table.count && clock_now_ns() > listing->shown_ns + PS_SIZES_NS)
        listing_show(listing);
}

/* The jobs of a broker; of those that are over, *ret_more are left out. */
static int list_remote(struct listing *listing, const char *broker, size_t *ret_more, struct err *err)
{
    listing->shown_ns = clock_now_ns();
    return find_list(broker, !listing->all, add_path, listing, ret_more, err);
}

/* Says so if all jobs together take much: more than SCRY_KEEP_SIZE, by default 10 GB or a tenth of the disk. Gives up
 * after a moment. */
static void put_space(struct buf *out, char **paths, size_t count)
{
    enum { MUCH_GB = 10 };
    const char *wanted = getenv("SCRY_KEEP_SIZE");
    uint64_t much, bytes, total = 0, deadline_ns = clock_now_ns() + PS_SIZES_NS;
    struct statvfs disk;
    if (!count)
        return;
    if (!wanted || !size_parse(wanted, &much)) {
        much = (uint64_t)MUCH_GB << 30;
        if (statvfs(paths[count - 1], &disk) == 0 && disk.f_frsize * disk.f_blocks / 10 < much)
            much = disk.f_frsize * disk.f_blocks / 10;
    }
    bool all = true;
    for (size_t i = 0; i < count && all; i++, total += bytes)
        all = jobdir_size(paths[i], deadline_ns, &bytes);
    if (total <= much)
        return;
    buf_printf(out, "%zu job%s %s", count, count == 1 ? " takes" : "s take", all ? "" : "more than ");
    text_size(out, total);
    buf_puts(out, " of the disk: scry rm --older-than 30d\n");
}

int cmd_ps(const struct options *options)
{
    bool all = options_on(options, "all"), json = options_on(options, "json");
    struct err err = {0};
    char **paths = NULL;
    size_t count = 0, more = 0;
    const char *broker = options->word_count ? options->words[0] : NULL;
    if (broker && !broker_url_is(broker))
        return cli_usage_error(
            options,
            "'%s' is no broker: mqtt://HOST, unix:PATH, local, or @NAME of the file brokers; of a job: scry report %s",
            broker, broker);
    _cleanup_(listing_done) struct listing listing = {
        .table = {.columns = columns, .width = text_columns(STDOUT_FILENO)},
        .list = json_array(),
        .all = all,
        .json = json,
        .remote = broker != NULL,
        .shown_ns = UINT64_MAX / 2, /* here all is there at once */
    };
    if ((broker ? list_remote(&listing, broker, &more, &err) : jobdir_list(&paths, &count, &err)) < 0) {
        cli_log_error(&err);
        return EXIT_ERRORS;
    }
    size_t here = count;
    int status = 0;
    if (all && !broker && record_add(&paths, &count, &err) < 0) {
        cli_log_error(&err);
        status = EXIT_ERRORS; /* the jobs of this machine are listed all the same */
    }
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    for (size_t i = count; i-- > 0;)
        add_path(&listing, paths[i]);
    if (!json)
        listing_show(&listing);
    more += listing.over > PS_ENDED ? listing.over - PS_ENDED : 0;
    if (!json && !all && more)
        buf_printf(&out, "%zu more that ended: scry ps --all\n", more);
    if (!json && !broker)
        put_space(&out, paths, here);
    jobdir_list_free(paths, count);
    if (json) {
        json_t *whole = json_pack("{s:O}", "jobs", listing.list);
        text_print_json(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        json_decref(whole);
    } else {
        fputs(out.data ? out.data : "", stdout);
    }
    return status;
}
