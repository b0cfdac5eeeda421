/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing a space-time picture as SVG 1.1: no scripts, tooltips are <title> elements; dark on light. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/trace/calls.h"
#include "jobdir/mpi/text.h"
#include "jobdir/export/spacetime.h"
#include "jobdir/text/text.h"

enum {
    PLOT_WIDTH = SPACETIME_COLUMNS,
    LEFT = 128,
    RIGHT = 84,
    HEAD = 112,
    AXIS = 52,
    NOTE_LINE = 17,
    LEVELS = 16, /* steps of a column's parts */
    TITLE_COLUMNS = 100,
    COMMAND_COLUMNS = 150,
    NOTE_COLUMNS = 200,
};

#define INK "#1d2935"
#define SOFT_INK "#51606e"
#define GRID "#e3e8ec"

static const struct {
    const char *name, *colour;
} looks[SPACETIME_CLASSES] = {
    [SPACETIME_COMPUTE] = {"computation", "#d3e4da"}, [SPACETIME_P2P] = {"send, receive", "#2f74b5"},
    [SPACETIME_WAIT] = {"waiting", "#e0912b"},        [SPACETIME_COLLECTIVE] = {"collective", "#8f62b3"},
    [SPACETIME_ONESIDED] = {"one-sided", "#1a9a93"},  [SPACETIME_IO] = {"file I/O", "#b4553f"},
    [SPACETIME_OTHER] = {"other MPI", "#8b97a3"}};

const char *spacetime_class_colour(enum spacetime_class class)
{
    return looks[class].colour;
}

void spacetime_put_text(struct buf *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '&')
            buf_puts(out, "&amp;");
        else if (*c == '<')
            buf_puts(out, "&lt;");
        else if (*c == '>')
            buf_puts(out, "&gt;");
        else if (*c == '"')
            buf_puts(out, "&quot;");
        else if (*c < 0x20 || *c == 0x7f)
            buf_putc(out, ' ');
        else
            buf_putc(out, (char)*c);
    }
}

/* Whatever bytes: what is not UTF-8 becomes \xNN; cut to so many characters. */
static void put_shown(struct buf *out, const char *text, size_t columns)
{
    _cleanup_(buf_done) struct buf clean = BUF_INIT;
    text_clean(&clean, text ? text : "");
    size_t len = clean.data ? strlen(clean.data) : 0, fits = text_fit(clean.data ? clean.data : "", len, columns);
    if (!clean.data)
        return;
    clean.data[fits] = '\0';
    spacetime_put_text(out, clean.data);
    if (fits < len)
        buf_puts(out, "…");
}

/* ---- places ---- */

double spacetime_x(const struct spacetime_frame *frame, int64_t ns)
{
    const struct spacetime *spacetime = frame->spacetime;
    double share = (double)(ns - spacetime->from) / (double)(spacetime->to - spacetime->from);
    return frame->left + share * (frame->right - frame->left);
}

double spacetime_y(const struct spacetime_frame *frame, size_t lane)
{
    return frame->top + ((double)lane + 0.5) * frame->pitch;
}

static double pitch_of(size_t lanes)
{
    static const struct {
        size_t most;
        double pitch;
    } steps[] = {{2, 96}, {4, 76}, {8, 56}, {16, 38}, {32, 26}, {64, 18}, {128, 13}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (lanes <= steps[i].most)
            return steps[i].pitch;
    return 9;
}

/* What is left between the bars is for the messages; shares of time want height. */
static double bar_share(const struct spacetime *spacetime, double pitch)
{
    size_t dense = 0;
    for (size_t i = 0; i < spacetime->lane_count; i++)
        dense += spacetime->lanes[i].all_calls > spacetime->lane_calls;
    return 2 * dense > spacetime->lane_count || pitch < 20 ? 0.66 : pitch > 50 ? 0.42 : 0.52;
}

/* ---- time ---- */

static const struct unit {
    double ns;
    const char *name;
} units[] = {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}};

static const struct unit *unit_of(double span)
{
    return &units[span < 2e3 ? 0 : span < 2e6 ? 1 : span < 2e9 ? 2 : 3];
}

static int digits_for(double value) /* behind the point, to see a part in it */
{
    int digits = value >= 1 ? 0 : (int)ceil(-log10(value) - 1e-9);
    return digits > 9 ? 9 : digits;
}

void spacetime_put_time(struct buf *out, const struct spacetime *spacetime, int64_t ns)
{
    const struct unit *unit = unit_of((double)(spacetime->to - spacetime->from));
    double fine = (double)(spacetime->to - spacetime->from) / unit->ns / 10000;
    buf_printf(out, "%.*f %s", digits_for(fine), (double)ns / unit->ns, unit->name);
}

/* 1, 2 or 5 times a power of ten, about a tenth of the span. */
static double step_of(double span)
{
    double rough = span / 11, power = pow(10, floor(log10(rough))), part = rough / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static void put_axis(const struct spacetime_frame *frame)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    double from = (double)spacetime->from, to = (double)spacetime->to, step = step_of(to - from);
    const struct unit *unit = unit_of(to - from);
    double base = fabs(from) / step > 1e5 ? floor(from / (step * 10)) * step * 10 : 0;
    int digits = digits_for(step / unit->ns);
    double first = ceil(from / step - 1e-9) * step;
    int marks = (int)floor((to - first) / step + 1e-6);
    buf_puts(out, "<g id=\"axis\">\n");
    for (int i = 0; i <= marks; i++) {
        double at = first + i * step;
        double x = spacetime_x(frame, (int64_t)llround(at));
        buf_printf(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\" class=\"tick\">%.*f</text>\n",
                   x, frame->top - 4, x, frame->bottom + 5, x, frame->bottom + 19, digits,
                   fabs(at - base) < step * 1e-6 ? 0 : (at - base) / unit->ns);
    }
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"axis\">%s after ", (frame->left + frame->right) / 2,
               frame->bottom + 38, unit->name);
    if (base != 0)
        buf_printf(out, "%.*f s after ", digits_for(step * 10 / 1e9), base / 1e9);
    buf_puts(out, "the start of the job</text>\n</g>\n");
}

/* ---- lanes ---- */

static void put_bar(const struct spacetime_frame *frame, double y, int64_t from, int64_t to, enum spacetime_class class)
{
    double left = spacetime_x(frame, from), right = spacetime_x(frame, to);
    left = left < frame->left ? frame->left : left;
    right = right > frame->right ? frame->right : right;
    double width = right - left > 0.12 ? right - left : 0.12;
    buf_printf(&frame->exporter->text,
               "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"c%u\"><title>", left, y, width,
               frame->bar, (unsigned)class);
}

static void put_call(const struct spacetime_frame *frame, double y, const struct spacetime_call *call)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    struct spacetime_frame lower = *frame;
    if (call->other) {
        lower.bar /= 3;
        y += frame->bar - lower.bar;
        frame = &lower;
    }
    put_bar(frame, y, call->begin, call->end, spacetime_class_of(call->call));
    buf_printf(out, "%s%s, ", mpi_text_call(call->call), call->other ? " in another thread" : "");
    text_ns(out, (double)(call->end - call->begin));
    buf_puts(out, " from ");
    spacetime_put_time(out, spacetime, call->begin);
    buf_puts(out, "</title></rect>\n");
    if (call->waited > call->begin && call->waited > spacetime->from) {
        put_bar(frame, y, call->begin, call->waited, SPACETIME_WAIT);
        buf_printf(out, "waiting for rank %d in %s, ", call->rank, mpi_text_call(call->call));
        text_ns(out, (double)(call->waited - call->begin));
        buf_puts(out, "</title></rect>\n");
    }
    export_flush(frame->exporter, false);
}

/* The parts of one column above each other, in sixteenths, from the bottom: where that of `class` begins and ends. */
static void levels_of(const float *shares, double whole, enum spacetime_class class, int *ret_low, int *ret_high)
{
    double below = 0;
    for (unsigned other = SPACETIME_P2P; other < (unsigned)class; other++)
        below += (double)shares[other];
    double low = below / whole, high = (below + (double)shares[class]) / whole;
    *ret_low = (int)lround((low > 1 ? 1 : low) * LEVELS);
    *ret_high = (int)lround((high > 1 ? 1 : high) * LEVELS);
}

/* One path for a class: neighbouring columns with the same parts are one rectangle. */
static void put_columns(const struct spacetime_frame *frame, const struct spacetime_lane *lane, double y,
                        enum spacetime_class class)
{
    struct buf *out = &frame->exporter->text;
    double whole = (double)(frame->spacetime->to - frame->spacetime->from) / SPACETIME_COLUMNS;
    bool any = false;
    for (size_t i = 0; i < SPACETIME_COLUMNS;) {
        int low, high, next_low, next_high;
        size_t end = i + 1;
        levels_of(lane->columns[i], whole, class, &low, &high);
        for (; end < SPACETIME_COLUMNS; end++) {
            levels_of(lane->columns[end], whole, class, &next_low, &next_high);
            if (next_low != low || next_high != high)
                break;
        }
        if (high > low) {
            double top = y + frame->bar * (LEVELS - high) / LEVELS;
            if (!any)
                buf_printf(out, "<path class=\"c%u\" d=\"", (unsigned)class);
            any = true;
            buf_printf(out, "M%.0f %.1fh%zuv%.1fh-%zuz", frame->left + (double)i, top, end - i,
                       frame->bar * (high - low) / LEVELS, end - i);
        }
        i = end;
    }
    if (any)
        buf_puts(out, "\"/>\n");
    export_flush(frame->exporter, false);
}

static double share_of(const struct spacetime_lane *lane, double part)
{
    return lane->end > lane->begin ? 100 * part / (double)(lane->end - lane->begin) : 0;
}

/* As the report has it: of the time between MPI_Init and MPI_Finalize. */
static double share_in_mpi(const struct spacetime_lane *lane)
{
    double whole = (double)(lane->end - lane->begin) - lane->outside_ns;
    return whole > 0 ? 100 * (whole - lane->total_ns[SPACETIME_COMPUTE]) / whole : 0;
}

static void put_lane_title(struct buf *out, const struct spacetime_lane *lane)
{
    buf_printf(out, "<title>rank %d, process %d on ", lane->rank->rank, (int)lane->rank->pid);
    spacetime_put_text(out, lane->rank->node);
    for (unsigned class = 0; class < SPACETIME_CLASSES; class ++) {
        if (lane->total_ns[class] <= 0)
            continue;
        buf_printf(out, "\n%s: ", looks[class].name);
        text_ns(out, lane->total_ns[class]);
        buf_printf(out, " (%.1f %%)", share_of(lane, lane->total_ns[class]));
    }
    if (lane->other_calls) {
        buf_printf(out, "\n%" PRIu64 " calls in other threads: ", lane->other_calls);
        text_ns(out, lane->other_ns);
    }
    buf_puts(out, "</title>");
}

static void put_label(const struct spacetime_frame *frame, size_t index)
{
    const struct spacetime *spacetime = frame->spacetime;
    const struct spacetime_lane *lane = &spacetime->lanes[index];
    const struct timeline *timeline = &spacetime->messages->timeline;
    struct buf *out = &frame->exporter->text;
    double y = spacetime_y(frame, index);
    size_t every = frame->pitch < 11 ? 4 : 1;
    uint32_t host = timeline->traces[lane->rank->trace].host;
    bool first = index == 0 || timeline->traces[lane->rank[-1].trace].host != host;
    bool room = frame->pitch >= 26, below = timeline->host_count > 1 && (first || room);
    if (index % every && !below)
        return;
    double size = frame->pitch < 13 ? 9 : frame->pitch < 18 ? 10 : 12;
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"lane\" font-size=\"%.0f\">", frame->left - 10,
               y + size * 0.36 - (below && room ? 6 : 0), size);
    if (below && !room) {
        buf_puts(out, "<tspan class=\"soft\">");
        put_shown(out, timeline->hosts[host].name, 12);
        buf_puts(out, "</tspan> ");
    }
    buf_printf(out, "%s%d", frame->pitch < 18 ? "" : "rank ", lane->rank->rank);
    if (spacetime->messages->worlds > 1)
        buf_printf(out, " <tspan class=\"soft\">(%" PRIu32 ")</tspan>", lane->rank->world + 1);
    buf_puts(out, "</text>");
    if (below && room) {
        buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"lane soft\" font-size=\"10\">", frame->left - 10, y + 11);
        put_shown(out, timeline->hosts[host].name, 18);
        buf_puts(out, "</text>");
    }
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"share\" font-size=\"%.0f\">%.1f %%</text>\n",
               frame->right + 62, y + size * 0.36, size, share_in_mpi(lane));
}

static void put_lane(const struct spacetime_frame *frame, size_t index)
{
    const struct spacetime *spacetime = frame->spacetime;
    const struct spacetime_lane *lane = &spacetime->lanes[index];
    struct buf *out = &frame->exporter->text;
    double y = spacetime_y(frame, index) - frame->bar / 2;
    buf_printf(out, "<g class=\"rank\" id=\"rank-%" PRIu32 "-%d\">\n", lane->rank->world, lane->rank->rank);
    if (lane->end > lane->begin) {
        double left = spacetime_x(frame, lane->begin), right = spacetime_x(frame, lane->end);
        buf_printf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" class=\"c0\">", left, y,
                   right - left, frame->bar);
        put_lane_title(out, lane);
        buf_puts(out, "</rect>\n");
    }
    if (lane->all_calls <= spacetime->lane_calls) {
        for (int other = 0; other < 2; other++) /* those on top */
            for (size_t i = 0; i < lane->call_count; i++)
                if (lane->calls[i].other == other)
                    put_call(frame, y, &lane->calls[i]);
    } else {
        buf_puts(out, "<g>");
        put_lane_title(out, lane);
        for (unsigned class = SPACETIME_P2P; class < SPACETIME_CLASSES; class ++)
            put_columns(frame, lane, y, (enum spacetime_class) class);
        buf_puts(out, "</g>\n");
    }
    buf_puts(out, "</g>\n");
    export_flush(frame->exporter, false);
}

/* ---- around it ---- */

static void put_title(const struct spacetime_frame *frame)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    size_t hosts = spacetime->messages->timeline.host_count;
    buf_printf(out, "<text x=\"24\" y=\"36\" class=\"title\">");
    put_shown(out, spacetime->title, TITLE_COLUMNS);
    buf_printf(out, "<tspan class=\"subtitle\" dx=\"14\">%zu rank%s", spacetime->lane_count,
               spacetime->lane_count == 1 ? "" : "s");
    if (hosts > 1)
        buf_printf(out, " on %zu hosts", hosts);
    if (spacetime->messages->worlds > 1)
        buf_printf(out, " of %" PRIu32 " programs", spacetime->messages->worlds);
    buf_puts(out, ", ");
    text_ns(out, (double)(spacetime->to - spacetime->from));
    buf_puts(out, "</tspan></text>\n<text x=\"24\" y=\"58\" class=\"command\">");
    put_shown(out, spacetime->command, COMMAND_COLUMNS);
    buf_puts(out, "</text>\n");
}

static void put_legend(const struct spacetime_frame *frame)
{
    const struct spacetime *spacetime = frame->spacetime;
    struct buf *out = &frame->exporter->text;
    double x = 24, y = HEAD - 27;
    double all = 0, totals[SPACETIME_CLASSES] = {0};
    for (size_t i = 0; i < spacetime->lane_count; i++)
        for (unsigned class = 0; class < SPACETIME_CLASSES; class ++) {
            totals[class] += spacetime->lanes[i].total_ns[class];
            all += spacetime->lanes[i].total_ns[class];
        }
    buf_puts(out, "<g id=\"legend\">\n");
    for (unsigned class = 0; class < SPACETIME_CLASSES; class ++) {
        if (class != SPACETIME_COMPUTE && totals[class] == 0)
            continue;
        buf_printf(out,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"13\" height=\"13\" rx=\"2.5\" class=\"c%u\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\" class=\"legend\">%s <tspan class=\"soft\">%.1f %%</tspan></text>\n",
                   x, y - 11, class, x + 19, y, looks[class].name, all > 0 ? 100 * totals[class] / all : 0);
        x += 19 + 6.9 * (double)strlen(looks[class].name) + 62;
    }
    buf_printf(out,
               "<path d=\"M%.1f %.1fl26 -10\" class=\"m\" stroke-opacity=\".85\"/><text x=\"%.1f\" y=\"%.1f\" "
               "class=\"legend\">message</text>\n",
               x, y, x + 32, y);
    buf_printf(out,
               "<path d=\"M%.1f %.1fl5 13h12l-3 -13z\" class=\"b\"/><text x=\"%.1f\" y=\"%.1f\" "
               "class=\"legend\">collective operation</text>\n",
               x + 98, y - 11, x + 122, y);
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"share soft\" font-size=\"11\">in MPI</text>\n</g>\n",
               frame->right + 62, frame->top - 8);
}

struct notes {
    const struct spacetime_frame *frame;
    double y;
};

static void put_note(void *ctx, const char *line)
{
    struct notes *notes = ctx;
    struct buf *out = &notes->frame->exporter->text;
    buf_printf(out, "<text x=\"24\" y=\"%.1f\" class=\"note\">", notes->y);
    put_shown(out, line, NOTE_COLUMNS);
    buf_puts(out, "</text>\n");
    notes->y += NOTE_LINE;
}

static void note_window(struct notes *notes, const struct spacetime *spacetime)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    if (spacetime->from <= spacetime->whole_from && spacetime->to >= spacetime->whole_to)
        return;
    if (spacetime->chosen)
        buf_puts(&line, "A part of the run: ");
    else
        buf_puts(&line, "From MPI_Init to MPI_Finalize: ");
    if (spacetime->from > spacetime->whole_from) {
        text_ns(&line, (double)(spacetime->from - spacetime->whole_from));
        buf_puts(&line, " before that");
    }
    if (spacetime->to < spacetime->whole_to) {
        buf_puts(&line, spacetime->from > spacetime->whole_from ? " and " : "");
        text_ns(&line, (double)(spacetime->whole_to - spacetime->to));
        buf_puts(&line, " after it");
    }
    buf_puts(&line, " are not shown (--from 0 --to 1e6 shows all).");
    put_note(notes, line.data ? line.data : "");
}

static void note_thinned(struct notes *notes, const struct spacetime *spacetime, const struct spacetime_drawn *drawn)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    size_t dense = 0, threads = 0;
    double others_ns = 0;
    for (size_t i = 0; i < spacetime->lane_count; i++)
        dense += spacetime->lanes[i].all_calls > spacetime->lane_calls;
    buf_printf(&line, "%" PRIu64 " message%s", drawn->messages, drawn->messages == 1 ? "" : "s");
    if (drawn->message_step > 1)
        buf_printf(&line,
                   ", of which one in %" PRIu64 " is drawn (of those each rank received in turn, and the slowest)",
                   drawn->message_step);
    buf_printf(&line, "; %" PRIu64 " collective operation%s", drawn->bands, drawn->bands == 1 ? "" : "s");
    if (drawn->band_step > 1)
        buf_printf(&line, ", of which one in %" PRIu64 " is drawn", drawn->band_step);
    buf_putc(&line, '.');
    put_note(notes, line.data ? line.data : "");
    buf_clear(&line);
    if (dense)
        buf_printf(&line, "%zu lane%s more than %zu calls: there the height of a colour is its share of the time.",
                   dense, dense == 1 ? " has" : "s have", spacetime->lane_calls);
    if (line.len)
        put_note(notes, line.data);
    buf_clear(&line);
    for (size_t i = 0; i < spacetime->lane_count; i++)
        threads += spacetime->lanes[i].other_calls != 0;
    for (size_t i = 0; i < spacetime->lane_count; i++)
        others_ns += spacetime->lanes[i].other_ns;
    if (threads) {
        buf_printf(&line, "%zu rank%s calls of MPI in other threads, ", threads, threads == 1 ? " has" : "s have");
        text_ns(&line, others_ns);
        buf_puts(&line, ": they are in no percentage; where single calls are drawn, theirs are the lower bars.");
    }
    if (line.len)
        put_note(notes, line.data);
}

static void count_note(void *ctx, const char *line)
{
    ++*(size_t *)ctx;
}

static void put_style(struct buf *out, const struct spacetime_frame *frame, double message_opacity)
{
    buf_puts(out, "<style>\n"
                  "text{font-family:system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",Arial,sans-serif;fill:" INK
                  "}\n.title{font-size:20px;font-weight:600}.subtitle{font-size:15px;font-weight:400;fill:" SOFT_INK
                  "}\n.command{font-size:12px;font-family:ui-monospace,\"DejaVu Sans Mono\",monospace;fill:" SOFT_INK
                  "}\n.legend{font-size:12px}.soft{fill:" SOFT_INK "}.note{font-size:12px;fill:" SOFT_INK
                  "}\n.lane{text-anchor:end}.share{text-anchor:end;font-variant-numeric:tabular-nums;fill:" SOFT_INK
                  "}\n.tick{font-size:11px;text-anchor:middle;fill:" SOFT_INK
                  ";font-variant-numeric:tabular-nums}.axis{font-size:12px;text-anchor:middle;fill:" SOFT_INK
                  "}\n.grid{stroke:" GRID ";stroke-width:1;shape-rendering:crispEdges}\n"
                  ".rank rect:hover{stroke:" INK ";stroke-width:.8}\n");
    for (unsigned class = 0; class < SPACETIME_CLASSES; class ++)
        buf_printf(out, ".c%u{fill:%s}", class, looks[class].colour);
    buf_printf(out,
               "\n.m{stroke:" INK ";stroke-width:%.2f;fill:none}#messages{stroke-opacity:%.2f}"
               ".m:hover{stroke:#c2185b;stroke-width:2.2;stroke-opacity:1}\n"
               ".b{fill:#8f62b3;fill-opacity:.13;stroke:#7b4fa0;stroke-width:.7;stroke-opacity:.55}"
               ".b:hover{fill-opacity:.3;stroke-opacity:1}\n.tip{fill:" INK ";stroke:none}\n</style>\n",
               frame->pitch >= 26 ? 1.0 : 0.7, message_opacity);
}

void spacetime_draw(const struct spacetime *spacetime, struct exporter *exporter)
{
    struct spacetime_frame frame = {.left = LEFT,
                                    .right = LEFT + PLOT_WIDTH,
                                    .top = HEAD,
                                    .pitch = pitch_of(spacetime->lane_count),
                                    .spacetime = spacetime,
                                    .exporter = exporter};
    struct buf *out = &exporter->text;
    struct spacetime_drawn drawn = {0};
    size_t notes = 4;
    mpi_messages_notes(spacetime->messages, count_note, &notes);
    frame.bar = frame.pitch * bar_share(spacetime, frame.pitch);
    frame.bottom = frame.top + frame.pitch * (double)spacetime->lane_count;
    double width = LEFT + PLOT_WIDTH + RIGHT, height = frame.bottom + AXIS + NOTE_LINE * (double)notes + 26;
    spacetime_count_lines(spacetime, &drawn);
    buf_printf(out,
               "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
               "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n",
               width, height, width, height);
    put_style(out, &frame, drawn.messages_drawn < 150 ? 0.85 : drawn.messages_drawn < 800 ? 0.55 : 0.3);
    buf_printf(out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", width, height);
    put_title(&frame);
    put_axis(&frame);
    put_legend(&frame);
    buf_printf(out,
               "<clipPath id=\"plot\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n"
               "<g clip-path=\"url(#plot)\">\n",
               frame.left, frame.top, frame.right - frame.left, frame.bottom - frame.top);
    if (spacetime_put_bands(&frame, &drawn) < 0)
        out->failed = true;
    buf_puts(out, "</g>\n<g id=\"lanes\">\n");
    for (size_t i = 0; i < spacetime->lane_count; i++)
        put_lane(&frame, i);
    buf_puts(out, "</g>\n<g id=\"labels\">\n");
    for (size_t i = 0; i < spacetime->lane_count; i++)
        put_label(&frame, i);
    buf_puts(out, "</g>\n<g clip-path=\"url(#plot)\">\n");
    spacetime_put_lines(&frame, &drawn);
    buf_puts(out, "</g>\n<g id=\"notes\">\n");
    struct notes under = {&frame, frame.bottom + AXIS + NOTE_LINE};
    note_window(&under, spacetime);
    note_thinned(&under, spacetime, &drawn);
    mpi_messages_notes(spacetime->messages, put_note, &under);
    buf_puts(out, "</g>\n</svg>\n");
}
