/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "client/client.h"
#include "job/watch/answer.h"
#include "lang/put.h"
#include "shm/waits.h"

static const char DENIED[] = "scry_thread_denied_privilege([]) : print([$file])";
/* An answer that took longer leaves a gap. The connection stays: another monitor could not start beside this one. */
static const struct wait_policy *const run = &wait_policies[WAIT_RUN], *const arming = &wait_policies[WAIT_RUN_ARMING],
                                       *const silence = &wait_policies[WAIT_RUN_SILENCE];

static void on_reply(Omis_reply reply, void *param)
{
    struct watch *watch = param;
    log_debug("reply us=%llu", (unsigned long long)(clock_now_ns() - watch->asked_ns) / 1000);
    omis_reply_free(watch->reply);
    watch->reply = reply;
}

static void on_error(Omis_reply reply)
{
    omis_reply_free(reply); /* client_connected() notices a lost connection */
}

static void ignore(Omis_reply reply, void *param)
{
    (void)param;
    omis_reply_free(reply);
}

/* A monitor that is already running logs as much as scry run. */
static void tell_level(const struct run_options *options)
{
    char text[80];
    if (!options->log_level)
        return;
    snprintf(text, sizeof text, ":scry_monitor_set_log_level(\"%s\")", options->log_level);
    client_request(span_str(text), ignore, NULL, 0);
}

int watch_connect(struct watch *watch, struct err *err)
{
    client_set_patience(run->limit_ms);
    Omis_status status = omis_init(NULL, NULL, on_error, NULL);
    watch->hangs[0] = 0;
    log_debug("monitor state=%s status=%s", status < OMIS_FIRST_ERROR ? "connected" : "unreachable",
              omis_status_name(status));
    if (status < OMIS_FIRST_ERROR) {
        tell_level(watch->options);
        return 0;
    }
    if (client_timed_out())
        snprintf(watch->hangs, sizeof watch->hangs, "%.255s", client_error());
    return err_set(err, -ENOTCONN, "%s", client_error());
}

static void send_request(struct watch *watch, const struct buf *text, enum watch_phase phase)
{
    watch->phase = phase;
    watch->asked_ns = clock_now_ns();
    log_debug("request text=%s", LOG_BYTES(text->data ? text->data : "", text->len));
    if (!text->failed)
        client_request(span_of(text->data, text->len), on_reply, watch, 0);
}

void watch_create(struct watch *watch)
{
    struct buf text = BUF_INIT;
    PUT_CALL(&text, "node_attach2", "");
    PUT_CALL(&text, "job_create", watch->dir, watch->root);
    if (watch->crash_stack)
        buf_printf(&text, " proc_attach3([],%d,\"\")", watch->root);
    send_request(watch, &text, WATCH_CREATING);
    buf_done(&text);
}

static void ask(struct watch *watch)
{
    struct buf text = BUF_INIT;
    buf_printf(&text, ":node_get_info([],%d) job_get_info([%s],%llu)",
               watch->node_known ? ANSWER_NODE_SAMPLE : ANSWER_NODE_STATIC, watch->token,
               (unsigned long long)watch->cursor);
    send_request(watch, &text, WATCH_ASKING);
    buf_done(&text);
}

static void open_gap(struct watch *watch, const char *why)
{
    watch->gap_open = watch->was_up;
    snprintf(watch->lost_why, sizeof watch->lost_why, "%.255s", why);
}

static void close_gap(struct watch *watch)
{
    if (!watch->gap_open)
        return;
    struct recorder *recorder = watch->recorder;
    double from = recorder_seconds(recorder, watch->answered_ns), to = recorder_seconds(recorder, clock_now_ns());
    recorder_put(recorder, RECORD(gap, .from = from, .to = to, .reason = watch->lost_why));
    recorder_note(recorder, NOTE(unwatched, .from_seconds = from, .to_seconds = to, .reason = watch->lost_why));
    watch->gap_open = false;
}

/* Closes a useless connection; another one is opened later. */
static void lose(struct watch *watch, const char *why)
{
    if (watch->phase != WATCH_OFF && !watch->gap_open)
        open_gap(watch, why);
    watch->raises.up = watch->raises.asking = false;
    functions_lost(&watch->functions);
    omis_finalize();
    omis_reply_free(watch->reply);
    watch->reply = NULL;
    watch->phase = WATCH_OFF;
    uint64_t wait_ms = WATCH_FIRST_MS;
    for (unsigned i = 0; i < watch->tries && wait_ms < WATCH_LAST_MS; i++)
        wait_ms *= 2;
    watch->retry_ns = clock_now_ns() + wait_ms * 1000000;
    watch->tries++;
    log_debug("monitor state=lost tries=%u retry_ms=%llu why=%s", watch->tries, (unsigned long long)wait_ms,
              LOG_TEXT(why));
}

/* Rules are for new processes, so they must be in force before the command starts. */
static void arm(struct watch *watch)
{
    watch->phase = WATCH_IDLE;
    rules_arm(&watch->rules);
}

static void set(struct watch *watch)
{
    struct buf text = BUF_INIT;
    tracing_request(&text, watch->options, watch->dir);
    if (text.len)
        send_request(watch, &text, WATCH_SETTING);
    else
        arm(watch);
    buf_done(&text);
}

static void settled(struct watch *watch)
{
    tracing_check(watch->reply, watch->options, &watch->refused);
    arm(watch);
}

static void told(struct watch *watch)
{
    watch->phase = WATCH_IDLE;
    tracing_answer(watch->reply, &watch->traces);
}

static void on_rule(void *ctx, size_t rule, Omis_reply reply)
{
    struct watch *watch = ctx;
    const char *text = watch->rules.list[rule].text;
    if (text == watch->changes)
        tracing_changed(reply, watch->changed, watch->ctx);
    else if (text == watch->requests)
        tracing_requested(watch->recorder, reply);
    else if (text == watch->wants)
        raise_take(&watch->raises, reply);
    else if (text == watch->stalls)
        tracing_stalled(watch->recorder, reply);
    else if (text == DENIED)
        tracing_denied(watch->recorder, &watch->rules.list[rule], reply);
    else
        tracing_record_rule(watch->recorder, &watch->rules.list[rule], reply);
}

static void add_rules(struct watch *watch)
{
    struct buf text = BUF_INIT;
    tracing_rule_changed(&text, watch->dir);
    snprintf(watch->changes, sizeof watch->changes, "%s", text.data ? text.data : "");
    buf_clear(&text);
    tracing_rule_requested(&text, watch->dir);
    snprintf(watch->requests, sizeof watch->requests, "%s", text.data ? text.data : "");
    buf_clear(&text);
    tracing_rule_stalled(&text, watch->dir, watch->options->stall_seconds);
    snprintf(watch->stalls, sizeof watch->stalls, "%s", text.data ? text.data : "");
    buf_clear(&text);
    raise_rule(&text, watch->dir);
    snprintf(watch->wants, sizeof watch->wants, "%s", text.data ? text.data : "");
    buf_done(&text);
    watch->rules = (struct rules){.fired = on_rule, .ctx = watch};
    rules_add(&watch->rules, watch->changes, true);
    rules_add(&watch->rules, watch->requests, true);
    rules_add(&watch->rules, watch->wants, true);
    if (watch->options->mpi != RUN_MPI_OFF && watch->options->stall_seconds > 0)
        rules_add(&watch->rules, watch->stalls, true);
    if (watch->crash_stack)
        rules_add(&watch->rules, DENIED, true);
    for (size_t i = 0; i < watch->options->rule_count; i++)
        rules_add(&watch->rules, watch->options->rules[i], false);
}

static void created(struct watch *watch)
{
    struct err err = {0};
    if (answer_token(watch->reply, watch->token, sizeof watch->token, &err) < 0) {
        if (!watch->was_up && watch->tries == 0)
            recorder_note(watch->recorder, NOTE(not_followed, .reason = err.text));
        lose(watch, err.text);
        watch->tries = 30; /* it will take a while */
        return;
    }
    if (watch->crash_stack)
        stacks_arm(&watch->stacks, watch->token);
    watch->cursor = 0;
    watch->lost_before += watch->lost;
    watch->lost = 0;
    watch->tries = 0;
    close_gap(watch);
    watch->was_up = watch->fresh = true;
    watch->answered_ns = clock_now_ns();
    if (watch->rules.count == 0)
        add_rules(watch);
    watch->raises.dir = watch->dir;
    raise_restart(&watch->raises);
    set(watch);
}

static void answered(struct watch *watch)
{
    struct err err = {0};
    struct answer_context context = {.recorder = watch->recorder,
                                     .cursor = watch->cursor,
                                     .fresh = watch->fresh,
                                     .page_bytes = watch->page_bytes,
                                     .node_known = watch->node_known};
    watch->phase = WATCH_IDLE;
    if (answer_sample(watch->reply, &context, &err) < 0) {
        lose(watch, err.text);
        return;
    }
    close_gap(watch);
    watch->fresh = false;
    watch->cursor = context.cursor;
    watch->page_bytes = context.page_bytes;
    watch->node_known = context.node_known;
    watch->lost = context.lost;
    watch->coming = context.coming;
    watch->unseen = context.unseen;
    watch->unclocked_ns = context.unclocked_ns;
    watch->answered_ns = clock_now_ns();
}

void watch_handle(struct watch *watch)
{
    if (watch->phase == WATCH_OFF)
        return;
    omis_handler();
    if (!client_connected()) {
        lose(watch, "the monitor ended; scry run starts it again");
        return;
    }
    if (!watch->reply)
        return;
    /* handling a reply may send a request, which has no answer yet */
    Omis_reply reply = watch->reply;
    if (watch->phase == WATCH_CREATING)
        created(watch);
    else if (watch->phase == WATCH_SETTING)
        settled(watch);
    else if (watch->phase == WATCH_ASKING)
        answered(watch);
    else if (watch->phase == WATCH_TRACES)
        told(watch);
    if (watch->reply == reply) {
        omis_reply_free(watch->reply);
        watch->reply = NULL;
    }
}

static void connect_again(struct watch *watch)
{
    struct err err = {0};
    if (watch_connect(watch, &err) < 0) {
        open_gap(watch, err.text);
        lose(watch, err.text);
        return;
    }
    watch->phase = WATCH_CREATING;
    watch_create(watch);
}

void watch_tick(struct watch *watch)
{
    uint64_t now = clock_now_ns();
    if (watch->phase == WATCH_OFF) {
        if (now >= watch->retry_ns)
            connect_again(watch);
    } else if (watch->phase == WATCH_IDLE) {
        ask(watch);
        watch->functions.recorder = watch->recorder;
        if (!watch->options->trace_off)
            functions_ask(&watch->functions);
    } else if (now - watch->asked_ns > silence->limit_ms * WAITS_NS_PER_MS && !watch->gap_open) {
        const char *why = client_hangs(watch->asked_ns, silence->limit_ms);
        open_gap(watch, why ? why : "the monitor did not answer");
    }
}

void watch_ask_traces(struct watch *watch, bool flush)
{
    struct buf text = BUF_INIT;
    PUT_CALL(&text, "job_trace_info", watch->dir);
    if (flush) /* ranks may live a moment longer than their launcher */
        PUT_CALL(&text, "mpi_flush", watch->dir);
    watch->traces = (struct trace_info){0};
    send_request(watch, &text, WATCH_TRACES);
    buf_done(&text);
}

int watch_fd(const struct watch *watch)
{
    return watch->phase == WATCH_OFF ? -1 : omis_fd();
}

static bool is_asking(const struct watch *watch)
{
    return watch->phase != WATCH_OFF && watch->phase != WATCH_IDLE;
}

bool watch_wait(struct watch *watch, int timeout_ms)
{
    uint64_t until = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    while (is_asking(watch) || (watch->phase == WATCH_IDLE && (watch->stacks.arming > 0 || watch->rules.arming > 0))) {
        uint64_t now = clock_now_ns();
        unsigned patience_ms = (is_asking(watch) ? run : arming)->limit_ms;
        const char *why = client_hangs(watch->asked_ns, patience_ms);
        if (why)
            snprintf(watch->hangs, sizeof watch->hangs, "%.255s", why);
        if (why || now >= until)
            return false;
        struct pollfd input = {.fd = watch_fd(watch), .events = POLLIN};
        uint64_t left_ms = (until - now) / 1000000 + 1;
        poll(&input, 1, (int)(left_ms < run->look_ms ? left_ms : run->look_ms));
        watch_handle(watch);
    }
    return watch->phase == WATCH_IDLE;
}

static void wait_raised(struct watch *watch, uint64_t until_ns)
{
    while (watch->phase == WATCH_IDLE && watch->raises.asking && clock_now_ns() < until_ns &&
           !client_hangs(watch->asked_ns, run->limit_ms)) {
        struct pollfd input = {.fd = watch_fd(watch), .events = POLLIN};
        poll(&input, 1, (int)run->look_ms);
        watch_handle(watch);
    }
}

void watch_settle(struct watch *watch, int timeout_ms)
{
    watch->asked_ns = clock_now_ns();
    uint64_t until_ns = watch->asked_ns + (uint64_t)timeout_ms * 1000000;
    wait_raised(watch, until_ns);
    if (watch->phase == WATCH_IDLE)
        raise_settle(&watch->raises); /* the replies of rules come before the answer to this */
    wait_raised(watch, until_ns);
    watch->raises.up = false;
}

void watch_close(struct watch *watch)
{
    if (watch->phase == WATCH_IDLE) {
        watch->leaving = true;
        client_leave();
    }
    omis_reply_free(watch->reply);
    watch->reply = NULL;
    watch->phase = WATCH_OFF;
    stacks_done(&watch->stacks);
    raise_done(&watch->raises);
    functions_done(&watch->functions);
}

void watch_gone(struct watch *watch)
{
    /* do not wait for a monitor that does not answer: the end of this process tells it enough */
    if (watch->leaving)
        omis_finalize();
    watch->leaving = false;
}
