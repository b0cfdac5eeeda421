/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/top.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "cli/common/cli.h"
#include "cli/common/find.h"
#include "cli/common/now.h"
#include "cli/common/pids.h"
#include "client/client.h"
#include "job/launch/signals.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/layers/sections.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

struct top_functions_view {
    const struct top_functions *functions;
    bool narrow;
};

const char *const top_keys_help[] = {
    "q        quit                        h, ?     show or hide this help",
    "",
    "c        by processor now            up, k    a line up",
    "t        by processor time           down, j  a line down",
    "m        by memory                   page up, page down",
    "p        by process id               home, g  to the top",
    "n        by name                     end, G   to the end",
    "",
    "v        processes as a tree         /        only names that contain a text;",
    "r        only ranks, and all                  Enter keeps it, Esc shows all",
    "f        only functions, and all",
    NULL,
};

static void scroll_by(struct top_choice *choice, long lines)
{
    if (lines < 0 && choice->scroll < (size_t)-lines)
        choice->scroll = 0;
    else if (choice->scroll < SIZE_MAX / 2 || lines < 0)
        choice->scroll += (size_t)lines;
}

/* The number of bytes of a key that sends several; 0: unknown key. */
static size_t take_sequence(struct top_choice *choice, const char *keys, size_t len)
{
    static const struct {
        const char *bytes;
        int pages, lines;
        bool top, end;
    } sequences[] = {
        {"\033[A", .lines = -1},  {"\033OA", .lines = -1}, {"\033[B", .lines = 1},  {"\033OB", .lines = 1},
        {"\033[5~", .pages = -1}, {"\033[6~", .pages = 1}, {"\033[H", .top = true}, {"\033OH", .top = true},
        {"\033[1~", .top = true}, {"\033[F", .end = true}, {"\033OF", .end = true}, {"\033[4~", .end = true},
    };
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        size_t size = strlen(sequences[i].bytes);
        if (len < size || memcmp(keys, sequences[i].bytes, size) != 0)
            continue;
        scroll_by(choice, sequences[i].lines + sequences[i].pages * (long)choice->page);
        if (sequences[i].top || sequences[i].end)
            choice->scroll = sequences[i].end ? SIZE_MAX / 2 : 0;
        return size;
    }
    return 0;
}

static void filter_type(struct top_choice *choice, char key)
{
    size_t len = strlen(choice->filter);
    if (key == '\r' || key == '\n') {
        choice->typing = false;
    } else if (key == '\b' || key == 0x7f) {
        choice->filter[len ? len - 1 : 0] = 0;
    } else if (isprint((unsigned char)key) && len + 1 < sizeof choice->filter) {
        choice->filter[len] = key;
        choice->filter[len + 1] = 0;
    }
    choice->scroll = 0;
}

static void show_all(struct top_choice *choice)
{
    choice->filter[0] = 0;
    choice->typing = choice->help = false;
    choice->scroll = 0;
}

static bool take_letter(struct top_choice *choice, char key)
{
    static const char orders[] = "cmtpn"; /* enum top_order */
    const char *order = strchr(orders, tolower((unsigned char)key));
    if (key && order) {
        choice->order = (enum top_order)(order - orders);
        return true;
    }
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case 'h':
    case 'H':
    case '?':
        choice->help = !choice->help;
        break;
    case 'v':
    case 'V':
        choice->tree = !choice->tree;
        break;
    case 'f':
    case 'F':
        choice->only_functions = !choice->only_functions;
        choice->only_ranks = false;
        break;
    case 'r':
    case 'R':
        choice->only_ranks = !choice->only_ranks;
        choice->only_functions = false;
        break;
    case 'k':
    case 'j':
        scroll_by(choice, key == 'k' ? -1 : 1);
        break;
    case 'g':
    case 'G':
        choice->scroll = key == 'G' ? SIZE_MAX / 2 : 0;
        break;
    case '/':
        choice->filter[0] = 0;
        choice->typing = true;
        break;
    default:
        break;
    }
    return true;
}

bool top_keys_take(struct top_choice *choice, const char *keys, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t used = take_sequence(choice, keys + i, len - i);
        if (!used && keys[i] == '\033') {
            show_all(choice);
            return true; /* the rest belongs to an unknown key */
        }
        if (!used && choice->typing)
            filter_type(choice, keys[i]);
        else if (!used && !take_letter(choice, keys[i]))
            return false;
        i += used ? used : 1;
    }
    return true;
}

bool top_choice_has(const struct top_choice *choice, const char *name)
{
    return strcasestr(name, choice->filter) != NULL;
}

void top_keys_line(const struct top_choice *choice, char *ret_text, size_t size)
{
    if (choice->typing)
        snprintf(ret_text, size, "only names that contain: %s_  (Enter keeps it, Esc shows all)", choice->filter);
    else
        snprintf(ret_text, size, "q quit  h help  c cpu  m memory  v tree  r ranks  f functions  / filter%s%s",
                 choice->filter[0] ? ": " : "", choice->filter);
}

/* The terminal while scry top draws on it: keys come at once, and on a screen of its own. Whatever ends or stops scry
 * top restores the terminal. */

static struct termios saved_modes;
static const char ENTER[] = "\033[?1049h\033[?25l", LEAVE[] = "\033[?25h\033[?1049l";

static void top_terminal_restore(void)
{
    ssize_t put = write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    (void)put;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_modes);
}

static void on_deadly_signal(int signo)
{
    top_terminal_restore();
    signal(signo, SIG_DFL);
    raise(signo);
}

static void on_resize(int signo)
{
    /* its arrival ends the wait */
}

static void set_terminal(void)
{
    struct termios modes = saved_modes;
    modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    modes.c_cc[VMIN] = 0;
    modes.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &modes);
    ssize_t put = write(STDOUT_FILENO, ENTER, sizeof ENTER - 1);
    (void)put;
}

/* Ctrl-Z: gives the shell its screen back until scry top continues. */
static void on_stop(int signo)
{
    int code = errno;
    top_terminal_restore();
    signals_stop_self(signo);
    set_terminal();
    errno = code;
}

static bool top_terminal_take(void)
{
    if (tcgetattr(STDIN_FILENO, &saved_modes) < 0)
        return false;
    static const int deadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        struct sigaction action = {.sa_handler = on_deadly_signal};
        sigaction(deadly[i], &action, NULL);
    }
    struct sigaction resize = {.sa_handler = on_resize};
    sigaction(SIGWINCH, &resize, NULL);
    struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGTSTP, &stop, NULL);
    set_terminal();
    return true;
}

/* scry top, for programs: doc/reference/top.schema.json. */

struct row {
    const struct rank_list *ranks;
    const struct top_functions *functions;
    const char *id, *status;
    double wall_seconds;
    const struct job_model *model;
    const struct job_report *report;
    struct now now;
};

static const struct field tree_fields[] = {
    {"processes", FIELD_COUNT, FIELD_AT(struct parts_now, processes)},
    {"threads", FIELD_COUNT, FIELD_AT(struct parts_now, threads)},
    {"rss_bytes", FIELD_BYTES, FIELD_AT(struct parts_now, rss)},
    {"memory_bytes", FIELD_BYTES, FIELD_AT(struct parts_now, memory),
     .about = "with pages that processes share counted once, as far as known"},
    {"cpu_seconds", FIELD_SECONDS, FIELD_AT(struct parts_now, cpu_ns)},
    {"cpu_share", FIELD_NUMBER, FIELD_AT(struct parts_now, cpu_share), .about = "processors in use"},
    {0}};

static json_t *tree_json(const void *row, const void *all)
{
    const struct parts_now now = parts_sum(((const struct row *)row)->report);
    return fields_json(tree_fields, &now, NULL);
}

struct silent_node {
    const char *node;
    double seconds;
};
static const struct field silent_fields[] = {
    {"node", FIELD_TEXT, FIELD_AT(struct silent_node, node)},
    {"seconds", FIELD_NUMBER, FIELD_AT(struct silent_node, seconds), .about = "since its last record"},
    {0}};

static json_t *silent_json(const void *row, const void *all)
{
    const struct job_report *report = ((const struct row *)row)->report;
    json_t *list = json_array();
    for (size_t i = 0; i < report->part_count; i++) {
        const struct silent_node node = {report->parts[i].model.part, parts_silent_seconds(report, &report->parts[i])};
        if (node.seconds > 0)
            json_array_append_new(list, fields_json(silent_fields, &node, NULL));
    }
    return list;
}

static const struct field tree_field[] = {
    {"tree", FIELD_OBJECT, .json = tree_json, .of = tree_fields,
     .about = "all living processes together, on all nodes of the job"},
    {"silent", FIELD_LIST, .json = silent_json, .of = silent_fields,
     .about = "nodes of the job of which nothing is heard: what is said of them is as they last were"},
    {0}};

static const struct field model_fields[] = {{"node", FIELD_OBJECT, FIELD_AT(struct job_model, node_sample),
                                             FIELD_OR_NULL, .about = "the node's last sample; null: none yet"},
                                            {0}};

static json_t *least_json(const void *row, const void *all)
{
    const struct top_function *each = row;
    return each->min_ns <= each->max_ns ? json_integer((json_int_t)each->min_ns) : json_null();
}

static json_t *most_json(const void *row, const void *all)
{
    const struct top_function *each = row;
    return each->min_ns <= each->max_ns ? json_integer((json_int_t)each->max_ns) : json_null();
}

static bool is_wide(const void *all)
{
    return !((const struct top_functions_view *)all)->narrow;
}

static void put_share(struct buf *out, const void *at, const void *row, const void *all)
{
    uint64_t whole_ns = ((const struct top_functions_view *)all)->functions->self_ns;
    buf_printf(out, "%.1f",
               whole_ns ? 100.0 * (double)((const struct top_function *)row)->self_ns / (double)whole_ns : 0);
}

/* The longest is not known while none has ended. */
static void put_time(struct buf *out, const void *at, const void *row, const void *all)
{
    uint64_t ns = *(const uint64_t *)at;
    if (ns || at != &((const struct top_function *)row)->max_ns)
        text_seconds(out, (double)ns / 1e9);
    else
        buf_putc(out, '-');
}

static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct top_function *function = row;
    text_show(out, function->name);
    if (!function->line)
        return;
    buf_puts(out, "  ");
    text_show(out, text_base(function->file));
    buf_printf(out, ":%llu", (unsigned long long)function->line);
}

/* Of a struct top_function; the table's columns belong to a struct top_functions_view. */
static const struct field top_function_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct top_function, name),
     .column = FIELD_COLUMN(6, 2, 0, "FUNCTION", .text = put_name)},
    {"file", FIELD_TEXT, FIELD_AT(struct top_function, file)},
    {"line", FIELD_COUNT, FIELD_AT(struct top_function, line)},
    {"calls", FIELD_COUNT, FIELD_AT(struct top_function, calls), .column = FIELD_COLUMN(5, 1, 11, "CALLS")},
    {"total_ns", FIELD_NS, FIELD_AT(struct top_function, total_ns),
     .column = FIELD_COLUMN(3, 1, 11, "TOTAL", .when = is_wide, .text = put_time)},
    {"self_ns", FIELD_NS, FIELD_AT(struct top_function, self_ns),
     .column = FIELD_COLUMN(2, 1, 11, "SELF", .when = is_wide, .text = put_time)},
    {"min_ns", FIELD_NS, .flags = FIELD_OR_NULL, .json = least_json, .about = "null: calls were only counted"},
    {"max_ns", FIELD_NS, .flags = FIELD_OR_NULL, .json = most_json},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(1, 0, 7, " SELF %", .text = put_share)},
    {.type = FIELD_SHOWN,
     FIELD_AT(struct top_function, max_ns),
     .column = FIELD_COLUMN(4, 1, 11, "LONGEST", .when = is_wide, .text = put_time)},
    {0}};

/* ---- where nothing is traced: what the samples say ---- */

static void put_sampled_share(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct sampled *sampled = all;
    buf_printf(out, "%.1f", sampled->samples ? 100.0 * (double)*(const uint64_t *)at / (double)sampled->samples : 0);
}

static void put_sampled_name(struct buf *out, const void *at, const void *row, const void *all)
{
    sampled_put_name(out, row);
}

static const struct field top_sampled_fields[] = {
    {.type = FIELD_COUNT,
     FIELD_AT(struct sampled_function, self),
     .column = FIELD_COLUMN(1, 0, 7, " SELF %", .text = put_sampled_share)},
    {.type = FIELD_COUNT,
     FIELD_AT(struct sampled_function, total),
     .column = FIELD_COLUMN(2, 1, 8, "TOTAL %", .text = put_sampled_share)},
    {.type = FIELD_SECONDS, FIELD_AT(struct sampled_function, self_seconds), .column = FIELD_COLUMN(3, 1, 10, "SELF")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(4, 2, 0, "FUNCTION, by samples", .text = put_sampled_name)},
    {0}};

static json_t *processes_json(const void *row, const void *all)
{
    json_t *list = json_array();
    const struct job_report *report = ((const struct row *)row)->report;
    for (size_t i = 0; i <= report->part_count; i++)
        for (const struct job_process *each = job_report_model(report, i)->alive; each; each = each->hh.next)
            json_array_append_new(list, fields_json(job_process_fields, each, NULL));
    return list;
}

static const struct field ranks_list[] = {{"ranks", FIELD_LIST, FIELD_ROWS(struct rank_list, list, count),
                                           .of = ranks_fields, .about = "of its MPI programs"},
                                          {0}};

static const struct field functions_list[] = {
    {"functions", FIELD_LIST, FIELD_ROWS(struct top_functions, list, count), .of = top_function_fields,
     .about = "traced functions of living processes, most time of their own first"},
    {0}};

static const struct field metrics_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct job_report, model.layers), .of = metrics_brief_fields}, {0}};

static const struct field top_fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct row, id)},
    {"status", FIELD_TEXT, FIELD_AT(struct row, status), .about = "as in report.schema.json"},
    {"wall_seconds", FIELD_SECONDS, FIELD_AT(struct row, wall_seconds)},
    {"", FIELD_PART, FIELD_AT(struct row, report), FIELD_POINTER, .of = report_standing_fields},
    {"", FIELD_PART, FIELD_AT(struct row, report), FIELD_POINTER, .of = report_growth_fields},
    {"", FIELD_PART, .of = tree_field},
    {"", FIELD_PART, FIELD_AT(struct row, model), FIELD_POINTER, .of = model_fields},
    {"", FIELD_PART, FIELD_AT(struct row, now), .of = now_fields},
    {"", FIELD_PART, FIELD_AT(struct row, report), FIELD_POINTER, .of = metrics_fields},
    {"processes", FIELD_LIST, .json = processes_json, .of = job_process_fields, .about = "those that live"},
    {"", FIELD_PART, FIELD_AT(struct row, ranks), FIELD_POINTER, .of = ranks_list},
    {"", FIELD_PART, FIELD_AT(struct row, functions), FIELD_POINTER, .of = functions_list},
    {"", FIELD_PART, FIELD_AT(struct row, report), FIELD_POINTER, .of = report_profile_brief_fields},
    {0}};

static json_t *top_json(const struct job_report *report, const struct rank_list *ranks,
                        const struct top_functions *functions)
{
    const struct row row = {.id = report->info.id,
                            .status = job_report_status(report),
                            .wall_seconds = job_report_result(report).wall_seconds,
                            .model = &report->model,
                            .report = report,
                            .now = {&report->model, job_report_result(report).wall_seconds},
                            .ranks = ranks,
                            .functions = functions};
    return fields_json(top_fields, &row, NULL);
}

json_t *top_schema(void)
{
    return fields_schema(top_fields);
}

/* scry top: shows a job live. It reads the job's spool as it grows, so it also works on another node with a shared
 * disk. */

enum {
    DEFAULT_ROWS = 24,
    DEFAULT_COLUMNS = 80,
    NARROW_COLUMNS = 60,
    MAX_COLUMNS = 512,
};

struct view {
    struct job_report report;
    struct spool_reader reader;
    struct parts parts;
    struct top_functions functions;
    struct sampled *sampled; /* shown where no functions are traced; NULL: none */
    uint64_t sampled_ns;     /* when that was read */
    struct top_ranks ranks;
    struct top_choice choice;
    struct top_pids pids;
    bool remote; /* a mirror: its monitor is not asked from here */
    size_t rows, columns;
    bool whole; /* output to a file or a pipe: lines are not cut */
    struct report_style style;
};

static void read_new(struct view *view)
{
    for (json_t *record; (record = spool_reader_next(&view->reader));) {
        job_model_apply(&view->report.model, record);
        json_decref(record);
    }
    parts_look(&view->parts, &view->report);
    parts_read(&view->parts, &view->report);
}

/* The profile grows slowly: it is written every few seconds. */
static void read_sampled(struct view *view)
{
    uint64_t now = clock_now_ns();
    if (view->functions.count || (view->sampled_ns && now - view->sampled_ns < TOP_FILE_NS && !view->report.info.ended))
        return;
    struct sampled *sampled;
    view->sampled_ns = now;
    if (sampled_read(&sampled, view->report.path, view->report.part_count > 0) < 0)
        return; /* what is shown stays */
    sampled_free(view->sampled);
    view->sampled = sampled;
}

/* job.json changes at the start and at the end of a job. */
static void read_info(struct view *view)
{
    struct job_info info;
    enum job_state state;
    if (job_info_read_state(view->report.path, &info, &state, NULL) < 0) {
        job_info_done(&info);
        return;
    }
    job_info_done(&view->report.info);
    view->report.info = info;
    view->report.state = state;
}

/* The number of columns of a text: a UTF-8 sequence counts one, colours none. */
static size_t width_of(const char *text, size_t len)
{
    size_t width = 0;
    for (size_t i = 0; i < len; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

/* Appends a line, cut to the width of the screen if there is one. */
static void put_line(struct buf *out, const struct view *view, struct buf *line)
{
    if (line->data)
        buf_append(out, line->data, view->whole ? line->len : text_fit(line->data, line->len, view->columns));
    buf_putc(out, '\n');
    buf_clear(line);
}

/* The line of a table, of which put_line makes the end. */
static void drop_end(struct buf *line)
{
    if (line->len && line->data[line->len - 1] == '\n')
        line->data[--line->len] = '\0';
}

static void put_row(struct buf *out, const struct view *view, struct buf *line, const struct field *fields,
                    const void *row, const void *all)
{
    fields_row(line, fields, row, all);
    drop_end(line);
    put_line(out, view, line);
}

static void put_heading(struct buf *out, const struct view *view, struct buf *line)
{
    drop_end(line);
    if (view->style.colour) {
        /* reverse video over the whole width */
        size_t width = width_of(line->data, line->len);
        for (; width < view->columns; width++)
            buf_putc(line, ' ');
        buf_puts(out, "\033[7m");
    }
    size_t before = out->len;
    put_line(out, view, line);
    if (view->style.colour && out->len > before) {
        out->len--;
        buf_puts(out, "\033[0m\n");
    }
}

static void put_head(struct buf *out, const struct view *view, struct buf *line)
{
    struct job_result result = job_report_result(&view->report);
    char name[32];
    buf_puts(line, "scry ");
    text_show(line, view->report.info.id);
    if (view->report.info.name[0]) {
        buf_putc(line, ' ');
        text_show(line, view->report.info.name);
    }
    buf_printf(line, "  %s", job_report_status(&view->report));
    if (result.signal)
        buf_printf(line, " %s", text_signal(result.signal, name, sizeof name));
    else if (view->report.info.ended)
        buf_printf(line, " %d", result.exit_code);
    buf_puts(line, "  ");
    text_seconds(line, result.wall_seconds);
    put_heading(out, view, line);
}

/* `part`: NULL for the job's own node. */
static void put_node(struct buf *out, const struct view *view, struct buf *line, const struct job_report *part)
{
    const struct job_model *model = part ? &part->model : &view->report.model;
    const json_t *node = model->node, *now = model->node_sample;
    double silent = part ? parts_silent_seconds(&view->report, part) : 0;
    if (!node)
        return;
    const char *host = json_string_value(json_object_get(node, "host"));
    double all = member_number(node, "memory_bytes");
    const json_t *available = json_object_get(now, "memory_available_bytes");
    double unused = json_number_value(available ? available : json_object_get(now, "memory_free_bytes")); /* older */
    buf_puts(line, "node  ");
    text_show(line, host ? host : "?");
    buf_printf(line, "  load %.2f on %lld processors  memory ", member_number(now, "load"),
               (long long)json_integer_value(json_object_get(node, "cpus")));
    if (all > unused)
        text_size(line, (uint64_t)(all - unused));
    buf_puts(line, " of ");
    text_size(line, (uint64_t)all);
    double paging = member_number(now, "pages_out");
    if (paging > 0)
        buf_printf(line, "  paging out %.0f/s", paging);
    double waiting = member_number(now, "disk_wait");
    if (waiting > 0)
        buf_printf(line, "  %.0f waiting for disks", waiting);
    if (silent > 0) {
        buf_puts(line, "  not heard for ");
        text_seconds(line, silent);
    }
    put_line(out, view, line);
}

static void put_more_nodes(struct buf *line, const struct job_report *report, size_t shown)
{
    size_t silent = 0;
    for (size_t i = 0; i < report->part_count; i++)
        silent += parts_silent_seconds(report, &report->parts[i]) > 0;
    buf_printf(line, "      and %zu more nodes", report->part_count - shown);
    if (silent)
        buf_printf(line, "; of all, %zu are not heard", silent);
}

/* The job's, and those of its parts, the busiest first: a screen has no room for many. */
static void put_nodes(struct buf *out, const struct view *view, struct buf *line)
{
    enum { PARTS_SHOWN = 4 };
    const struct job_report *report = &view->report;
    const struct job_report *before = NULL;
    size_t shown = 0;
    put_node(out, view, line, NULL);
    for (; shown < PARTS_SHOWN && shown < report->part_count; shown++) {
        const struct job_report *next = NULL;
        for (const struct job_report *part = report->parts; part < report->parts + report->part_count; part++) {
            double share = part->model.cpu_share;
            bool follows =
                !before || share < before->model.cpu_share || (share == before->model.cpu_share && part > before);
            if (follows && (!next || share > next->model.cpu_share))
                next = part;
        }
        if (!next)
            break;
        put_node(out, view, line, next);
        before = next;
    }
    if (report->part_count > shown) {
        put_more_nodes(line, report, shown);
        put_line(out, view, line);
    }
    const struct buf *problems[] = {&view->ranks.missing, &view->ranks.silent};
    for (size_t i = 0; i < 2; i++)
        if (problems[i]->len) {
            buf_append(line, problems[i]->data, problems[i]->len);
            put_line(out, view, line);
        }
}

static void put_course(struct buf *out, const struct view *view, struct buf *line, const char *label,
                       const struct series *series)
{
    size_t room = view->columns > 34 ? view->columns - 34 : 8;
    if (series->used == 0)
        return;
    buf_printf(line, "%-6s", label);
    series_sparkline(series, line, series->used < room ? series->used : room, 0, view->style.ascii);
    buf_putc(line, ' ');
}

static void put_courses(struct buf *out, const struct view *view, struct buf *line)
{
    const struct job_model *model = &view->report.model;
    const struct parts_now now = parts_sum(&view->report);
    if (view->report.part_count) { /* courses are of one node */
        buf_printf(line, "cpu   %.2f now   mem   ", now.cpu_share);
        text_size(line, now.memory);
        buf_printf(line, " now   on %zu node%s", now.nodes, now.nodes == 1 ? "" : "s");
    } else {
        put_course(out, view, line, "cpu", &model->cpu_series);
        buf_printf(line, "%.2f now, most %.2f", model->cpu_share, series_max(&model->cpu_series));
        put_line(out, view, line);
        put_course(out, view, line, "mem", &model->rss_series);
        uint64_t most = job_model_peak_memory(model, model->peak_rss);
        text_size(line, job_model_memory(model));
        buf_puts(line, " now, most ");
        text_size(line, most ? most : model->peak_tree_rss);
        if (most && most < model->peak_tree_rss) {
            buf_puts(line, "; ");
            text_size(line, model->rss);
            buf_puts(line, " if shared pages count for each");
        }
        size_t len = line->len;
        buf_puts(line, "; ");
        if (!job_report_put_growth(line, &view->report))
            line->len = len;
    }
    put_line(out, view, line);
    buf_printf(line, "%" PRIu64 " process%s (%" PRIu64 " so far), %" PRIu64 " thread%s, cpu ", now.processes,
               now.processes == 1 ? "" : "es", now.started, now.threads, now.threads == 1 ? "" : "s");
    text_seconds(line, (double)now.cpu_ns / 1e9);
    put_line(out, view, line);
}

/* Where each layer is. Warnings have lines of their own. */
static void put_layers(struct buf *out, const struct view *view, struct buf *line)
{
    enum { EACH = 2 };
    struct now_line lines[NOW_LINES];
    double seconds = job_report_result(&view->report).wall_seconds;
    size_t count = now_lines(&view->report.model, EACH, lines);
    for (size_t i = 0; i < count; i++) {
        if (lines[i].layer == NOW_WARNING)
            continue;
        now_text(line, &lines[i], seconds);
        put_line(out, view, line);
    }
    buf_puts(line, "metric "); /* as now_text has its layers */
    if (metrics_brief_text(line, &view->report.model.layers))
        put_line(out, view, line);
    buf_clear(line);
}

/* The number of lines of a table to skip. */
static size_t first_of(const struct view *view, size_t count, size_t rows)
{
    size_t most = count > rows ? count - rows : 0;
    return view->choice.scroll < most ? view->choice.scroll : most;
}

static void put_processes(struct buf *out, const struct view *view, struct buf *line,
                          const struct top_processes *processes, size_t rows)
{
    fields_title(line, top_process_fields, &view->report);
    put_heading(out, view, line);
    size_t first = first_of(view, processes->count, rows);
    for (size_t i = first; i < processes->count && i - first < rows; i++) {
        const struct top_process one = {processes->list[i], processes->depths[i]};
        put_row(out, view, line, top_process_fields, &one, &view->report);
    }
}

static void put_functions(struct buf *out, const struct view *view, struct buf *line, size_t rows)
{
    const struct top_functions_view shown = {&view->functions, view->columns < NARROW_COLUMNS};
    fields_title(line, top_function_fields, &shown);
    put_heading(out, view, line);
    size_t matching = 0, at = 0;
    for (size_t i = 0; i < view->functions.count; i++)
        matching += top_choice_has(&view->choice, view->functions.list[i].name);
    size_t first = first_of(view, matching, rows);
    for (size_t i = 0; i < view->functions.count && at < first + rows; i++)
        if (top_choice_has(&view->choice, view->functions.list[i].name) && at++ >= first)
            put_row(out, view, line, top_function_fields, &view->functions.list[i], &shown);
}

static bool sampled_is_shown(const struct view *view, const struct sampled_function *function)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    if (!function->self)
        return false;
    sampled_put_name(&name, function);
    return name.data && top_choice_has(&view->choice, name.data);
}

static void put_sampled(struct buf *out, const struct view *view, struct buf *line, size_t rows)
{
    const struct sampled *sampled = view->sampled;
    fields_title(line, top_sampled_fields, sampled);
    put_heading(out, view, line);
    size_t matching = 0, at = 0;
    for (size_t i = 0; i < sampled->count; i++)
        matching += sampled_is_shown(view, &sampled->functions[i]);
    size_t first = first_of(view, matching, rows);
    for (size_t i = 0; i < sampled->count && at < first + rows; i++)
        if (sampled_is_shown(view, &sampled->functions[i]) && at++ >= first)
            put_row(out, view, line, top_sampled_fields, &sampled->functions[i], sampled);
}

/* Of the table of functions: the traced ones, for these are exact, else those with samples of their own, which come first. */
static size_t functions_count(const struct view *view)
{
    const struct sampled *sampled = view->sampled;
    size_t count = 0;
    if (view->functions.count || !sampled)
        return view->functions.count;
    while (count < sampled->count && sampled->functions[count].self)
        count++;
    return count;
}

static void put_ranks(struct buf *out, const struct view *view, struct buf *line, size_t rows)
{
    const struct ranks_view shown = top_ranks_view(&view->ranks, view->columns < NARROW_COLUMNS);
    fields_title(line, ranks_fields, &shown);
    drop_end(line);
    top_ranks_summary(line, &view->ranks);
    put_heading(out, view, line);
    size_t count = view->ranks.known.count, first = first_of(view, count, rows);
    for (size_t i = first; i < count && i - first < rows; i++)
        put_row(out, view, line, ranks_fields, &view->ranks.known.list[i], &shown);
}

static void put_standing(struct buf *out, const struct view *view, struct buf *line)
{
    if (job_report_put_standing(line, &view->report))
        put_line(out, view, line);
}

static void put_warnings(struct buf *out, const struct view *view, struct buf *line, size_t rows)
{
    const json_t *warnings = job_report_warnings(&view->report);
    size_t count = json_array_size(warnings), first = count > rows ? count - rows : 0;
    for (size_t i = first; i < count; i++) {
        const char *text = json_string_value(json_object_get(json_array_get(warnings, i), "text"));
        buf_puts(line, "warning: ");
        text_show(line, text ? text : "?");
        put_line(out, view, line);
    }
}

/* The tables share the room: each gets what it needs of an equal part, and the first one that can use it gets the rest.
 * In lines, with the heading; 0: not shown. */
enum { TABLE_PROCESSES, TABLE_RANKS, TABLE_FUNCTIONS, TABLES };

static void give_room(const struct view *view, size_t processes, size_t room, size_t ret_lines[TABLES])
{
    size_t wanted[TABLES] = {processes + 1, view->ranks.known.count ? view->ranks.known.count + 1 : 0,
                             functions_count(view) ? functions_count(view) + 1 : 0};
    bool only[TABLES] = {false, view->choice.only_ranks, view->choice.only_functions};
    size_t tables = 0;
    for (size_t i = 0; i < TABLES; i++)
        if (only[i] && wanted[i])
            for (size_t other = 0; other < TABLES; other++)
                wanted[other] = other == i ? wanted[other] : 0;
    for (size_t i = 0; i < TABLES; i++)
        tables += wanted[i] != 0;
    for (size_t i = 0, left = room; i < TABLES; i++) {
        size_t part = room / (tables ? tables : 1);
        ret_lines[i] = wanted[i] < part ? wanted[i] : wanted[i] ? part : 0;
        ret_lines[i] = ret_lines[i] == 1 ? 2 : ret_lines[i]; /* a heading alone says nothing */
        left -= ret_lines[i] < left ? ret_lines[i] : left;
        if (i == TABLES - 1)
            for (size_t k = 0; k < TABLES; k++) {
                size_t more = wanted[k] > ret_lines[k] ? wanted[k] - ret_lines[k] : 0;
                more = more < left ? more : left;
                ret_lines[k] += more;
                left -= more;
            }
    }
}

static void view_draw(struct buf *out, struct view *view)
{
    enum { WARNING_ROWS = 2 };
    struct buf line = BUF_INIT;
    size_t used = 1, lines[TABLES];
    put_head(out, view, &line);
    put_nodes(out, view, &line);
    put_courses(out, view, &line);
    put_layers(out, view, &line);
    put_standing(out, view, &line);
    put_warnings(out, view, &line, WARNING_ROWS);
    for (size_t i = 0; i < out->len; i++)
        used += out->data[i] == '\n';
    size_t room = view->rows > used + 1 ? view->rows - used : 2;
    view->choice.page = room > 2 ? room - 2 : 1;
    if (view->choice.help) {
        for (size_t i = 0; top_keys_help[i]; i++) {
            buf_puts(&line, top_keys_help[i]);
            put_line(out, view, &line);
        }
        buf_done(&line);
        return;
    }
    struct top_processes processes;
    top_processes_choose(&processes, &view->report, &view->choice);
    give_room(view, processes.count, room, lines);
    if (lines[TABLE_PROCESSES])
        put_processes(out, view, &line, &processes, lines[TABLE_PROCESSES] - 1);
    if (lines[TABLE_RANKS])
        put_ranks(out, view, &line, lines[TABLE_RANKS] - 1);
    if (lines[TABLE_FUNCTIONS] && view->functions.count)
        put_functions(out, view, &line, lines[TABLE_FUNCTIONS] - 1);
    else if (lines[TABLE_FUNCTIONS])
        put_sampled(out, view, &line, lines[TABLE_FUNCTIONS] - 1);
    size_t most = processes.count; /* nothing to scroll to beyond its last line */
    most = view->ranks.known.count > most ? view->ranks.known.count : most;
    most = functions_count(view) > most ? functions_count(view) : most;
    if (view->choice.scroll > most)
        view->choice.scroll = most;
    top_processes_done(&processes);
    buf_done(&line);
}

static void view_measure(struct view *view, int fd)
{
    struct winsize size = {0};
    view->rows = DEFAULT_ROWS;
    view->columns = DEFAULT_COLUMNS;
    view->whole = !isatty(fd);
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
        view->rows = size.ws_row;
        view->columns = size.ws_col;
    }
    if (view->columns > MAX_COLUMNS)
        view->columns = MAX_COLUMNS;
}

static int write_all(int fd, const struct buf *text)
{
    for (size_t put = 0; put < text->len;) {
        ssize_t got = write(fd, text->data + put, text->len - put);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        put += (size_t)got;
    }
    return 0;
}

/* Each line ends with "erase to end of line", the picture with "erase below": no flicker. */
static int view_show(struct view *view)
{
    _cleanup_(buf_done) struct buf picture = BUF_INIT, screen = BUF_INIT;
    view_draw(&picture, view);
    buf_puts(&screen, "\033[H");
    size_t row = 0;
    for (size_t i = 0; i < picture.len && row + 1 < view->rows; i++) {
        if (picture.data[i] == '\n') {
            buf_puts(&screen, "\033[K\r\n");
            row++;
        } else {
            buf_putc(&screen, picture.data[i]);
        }
    }
    char keys[256];
    top_keys_line(&view->choice, keys, sizeof keys);
    buf_puts(&screen, "\033[J");
    buf_append(&screen, keys, text_fit(keys, strlen(keys), view->columns));
    return screen.failed ? -1 : write_all(STDOUT_FILENO, &screen);
}

/* false: quit */
static bool take_keys(struct view *view)
{
    char keys[64];
    ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
    if (got > 0 && !top_keys_take(&view->choice, keys, (size_t)got))
        return false;
    return got != 0; /* end of file: the terminal is gone */
}

static int run_once(struct view *view)
{
    _cleanup_(buf_done) struct buf picture = BUF_INIT;
    view_measure(view, STDOUT_FILENO);
    read_sampled(view);
    view_draw(&picture, view);
    fwrite(picture.data ? picture.data : "", 1, picture.len, stdout);
    return picture.failed ? EXIT_ERRORS : 0;
}

static int run_json(const struct view *view)
{
    json_t *root = top_json(&view->report, &view->ranks.known, &view->functions);
    if (!root)
        return EXIT_ERRORS;
    text_print_json(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(root);
    return 0;
}

/* Waits for a key, a reply, or the time of the next picture. false: quit. */
static bool wait_for_news(struct view *view)
{
    struct pollfd inputs[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = top_functions_fd(&view->functions), .events = POLLIN}};
    uint64_t until = clock_now_ns() + TOP_REFRESH_MS * UINT64_C(1000000);
    for (uint64_t now; (now = clock_now_ns()) < until;) {
        if (poll(inputs, 2, (int)((until - now) / 1000000) + 1) < 0)
            return true; /* the window has another size */
        if (inputs[1].revents) {
            top_functions_handle(&view->functions);
            inputs[1].fd = top_functions_fd(&view->functions);
        }
        if (inputs[0].revents)
            return take_keys(view);
    }
    return true;
}

/* The functions of an ended job: the monitor's last answer was before the end. */
static void read_functions(struct view *view)
{
    struct err err;
    const struct job_functions_options options = {.budget_ns = TOP_FINAL_NS};
    if (job_report_load_functions(&view->report, &options, &err) < 0)
        log_warning("%s", err.text);
    top_functions_final(&view->functions, view->report.functions);
    if (view->report.functions && view->report.functions->incomplete)
        log_warning("the job has ended; `scry report` shows its functions");
}

/* Ranks first: they need no look at the processes' programs. */
static void view_ask(struct view *view)
{
    if (view->remote)
        return;
    ranks_age(&view->ranks.known);
    top_ranks_ask(&view->ranks, view->functions.connected, view->report.part_count);
    top_functions_ask(&view->functions, &view->report.model);
    top_functions_connect(&view->functions); /* then forgets requests to a monitor that is gone */
}

/* A job that has just started may still be starting its monitor. */
static void connect_first(struct view *view)
{
    do
        top_functions_connect(&view->functions);
    while (!view->functions.connected && !client_timed_out() &&
           job_age_seconds(view->report.path, &view->report.info, 0) < TOP_YOUNG_S &&
           wait_fd(-1, 0, TOP_CONNECT_MS) == 0);
    if (client_timed_out())
        log_warning("%s", client_error());
}

/* What is new of the job, or of the processes. */
static void view_read(struct view *view)
{
    uint64_t now = clock_now_ns();
    if (!view->pids.options) {
        read_info(view);
        read_new(view);
        return;
    }
    view->pids.first_ns = view->pids.first_ns ? view->pids.first_ns : now;
    view->report.info.ended =
        !top_pids_look(&view->pids, &view->report.model, (double)(now - view->pids.first_ns) / NS_PER_SECOND);
}

static int run_live(struct view *view)
{
    if (!top_terminal_take()) {
        log_error("standard input is no terminal: use --once");
        return EXIT_ERRORS;
    }
    bool quit = false;
    while (!quit && !view->report.info.ended) {
        view_measure(view, STDOUT_FILENO);
        read_sampled(view);
        if (view_show(view) < 0)
            break;
        view_ask(view);
        quit = !wait_for_news(view);
        view_read(view);
    }
    top_terminal_restore();
    if (quit || view->pids.options)
        return 0;
    read_functions(view);
    return run_once(view); /* keep the last picture */
}

static int top_run(const char *job, bool once, bool json)
{
    char real[PATH_MAX];
    struct found_job found;
    struct err err = {0};
    struct view view = {.reader = {.fd = -1}, .style = report_style_for(STDOUT_FILENO)};
    int status = EXIT_ERRORS;
    view.report.path = found.path;
    if (find_job(&found, job, &err) < 0 ||
        job_info_read_state(found.path, &view.report.info, &view.report.state, &err) < 0 ||
        job_model_init(&view.report.model, 0) < 0 || spool_reader_open(&view.reader, found.path, &err) < 0) {
        cli_log_error(&err);
    } else {
        view.ranks.path = realpath(found.path, real) ? real : found.path; /* as the monitor knows it */
        read_new(&view);
        bool over = view.report.info.ended || view.report.state == JOB_LOST;
        once = once || json || over || found.still || !isatty(STDOUT_FILENO);
        view.remote = found.remote;
        if (!over && !found.remote)
            connect_first(&view);
        if (once && !over && !found.remote) {
            view_ask(&view);
            if (!top_functions_wait(&view.functions, &view.ranks.asking, TOP_ASK_S * 1000))
                log_warning("the monitor has not answered within %d s: %s are missing here", TOP_ASK_S,
                            view.ranks.asking ? "ranks and functions" : "functions");
            if (*view.ranks.refused)
                log_warning("ranks are not known: %s", view.ranks.refused);
        }
        status = json ? run_json(&view) : once ? run_once(&view) : run_live(&view);
    }
    top_functions_close(&view.functions);
    sampled_free(view.sampled);
    top_ranks_close(&view.ranks);
    spool_reader_close(&view.reader);
    parts_done(&view.parts);
    job_report_done(&view.report);
    find_close(&found);
    return status;
}

/* ---- processes that scry did not start ---- */

static int top_pids(const struct options *options)
{
    _cleanup_(freep) pid_t *list = NULL;
    size_t count;
    char name[16];
    struct view view = {
        .reader = {.fd = -1}, .pids = {.options = options}, .remote = true, .style = report_style_for(STDOUT_FILENO)};
    if (options_on(options, "json"))
        return cli_usage_error(options, "--json is of jobs: scry why --json %s has the processes", options->words[0]);
    int status = pids_take(options, &list, &count);
    if (!count)
        return status;
    proc_comm(list[0], list[0], name, sizeof name);
    view.report.path = "";
    view.report.info = (struct job_info){.id = options->words[0], .name = name, .host = "", .user = "", .cwd = ""};
    view.report.state = JOB_RUNNING;
    if (job_model_init(&view.report.model, 0) < 0) {
        log_error("out of memory");
        return EXIT_ERRORS;
    }
    view_read(&view);
    wait_fd(-1, 0, TOP_REFRESH_MS); /* so that there are shares */
    view_read(&view);
    int shown = options_on(options, "once") || !isatty(STDOUT_FILENO) ? run_once(&view) : run_live(&view);
    job_report_done(&view.report);
    return status ? status : shown;
}

int cmd_top(const struct options *options)
{
    if (pids_are_meant(options))
        return top_pids(options);
    return top_run(options->words[0], options_on(options, "once"), options_on(options, "json"));
}
