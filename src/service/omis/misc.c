/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/clock.h"
#include "base/system/log.h"
#include "lang/value.h"
#include "lang/results.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "service/omis/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Services on conditional service requests (specification 8.2.1). */

static void for_each(struct scry_call *call, void (*change)(struct csr *csr))
{
    for (size_t i = 0; i < call->object_count; i++)
        change((struct csr *)call->objects[i]);
    if (call->monitor->wait_for_parts && call->monitor->wait_for_parts(call))
        return;
    for (size_t i = 0; i < call->object_count; i++)
        call_ok(call, call->objects[i]);
}

static void run_enable(struct scry_call *call)
{
    for_each(call, csr_enable);
}

static void run_disable(struct scry_call *call)
{
    for_each(call, csr_disable);
}

static void run_delete(struct scry_call *call)
{
    for_each(call, csr_delete);
}

/* Lowered: turns the gates of the requests. */
static int lower_for_each(struct scry_call *call, struct scry_code *code, bool enabled)
{
    for (size_t i = 0; i < call->object_count; i++) {
        int gate = csr_gate((struct csr *)call->objects[i]);
        if (gate < 0 || scry_lower_set(code, gate, enabled) < 0)
            return -1;
    }
    return 0;
}

static int lower_enable(struct scry_call *call, struct scry_code *code)
{
    return lower_for_each(call, code, true);
}

static int lower_disable(struct scry_call *call, struct scry_code *code)
{
    return lower_for_each(call, code, false);
}

const struct scry_service csr_services[] = {
    {"csr_enable", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED | SCRY_OBSERVE, run_enable,
     "Enable defined conditional service requests.", .lower = lower_enable},
    {"csr_disable", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED | SCRY_OBSERVE, run_disable,
     "Disable conditional service requests.", .lower = lower_disable},
    {"csr_delete", SCRY_MANIPULATION, "token<c>* csr_list -> void", SCRY_REQUIRED | SCRY_OBSERVE, run_delete,
     "Delete conditional service requests."},
    SERVICE_END,
};

/* Services on user-defined events (specification 8.2.2). */

static void user_event_create(struct scry_call *call)
{
    struct scry_object *event = calloc(1, sizeof *event);
    if (!event) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    object_init(event, call->monitor, object_class_get(call->monitor, "e"), call->tool);
    struct buf text = BUF_INIT;
    buf_puts(&text, event->token);
    call_text(call, NULL, &text); /* it has no object (7.3.1) */
    buf_done(&text);
}

/*
 * The lists that wait for the event run when the raising list has ended. With resume 0, the source waits for them, too:
 * the object of the event that started the raising list.
 */
static void user_event_raise(struct scry_call *call)
{
    struct scry_object *object = call->objects ? call->objects[0] : NULL;
    if (!object || !call->object_count)
        return; /* already answered */
    const struct value *params = &call->args[1];
    bool resume = call_integer(call, 2) != 0;
    struct err err;
    Omis_status confined = confine_params(call->tool, params, &err);
    if (confined != OMIS_OK) {
        call_fail(call, object, confined, "%s", err.text);
        return;
    }
    struct event event = {.service = registry_find(call->monitor->registry, span_str("user_event_has_been_raised")),
                          .object = object,
                          .time_ns = clock_now_ns(),
                          .outputs = params->list.items,
                          .output_count = params->list.count,
                          .first_par = 1};
    const struct event_list *list = call->execution->list; /* of an event elsewhere; NULL: there is none */
    if (call->event)
        event.source = event_source_of(call->monitor, call->event);
    else if (list)
        event.source = list->source;
    if (resume)
        event.source.process[0] = event.source.thread[0] = '\0';
    else if (call->event || list)
        event.time_ns = call->event ? call->event->time_ns : list->time_ns;
    switch (event_queue(call->monitor, &event)) {
    case 0:
        call_ok(call, object);
        break;
    case -ELOOP:
        call_fail(call, object, OMIS_UNSPECIFIED_ERROR,
                  "events raised each other %d times in a row: the chain ends here", EVENT_CHAIN_LIMIT);
        break;
    case -EOVERFLOW:
        call_fail(call, object, OMIS_UNSPECIFIED_ERROR, "more than %d events were raised by one event",
                  call->tool->confined.job ? CONFINED_CASCADE : EVENT_CASCADE_LIMIT);
        break;
    default:
        call_fail(call, object, OMIS_NO_MEMORY, "out of memory");
    }
}

static bool has_param(const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].kind == VALUE_PARAM ||
            (values[i].kind == VALUE_LIST && has_param(values[i].list.items, values[i].list.count)))
            return true;
    return false;
}

/* Lowered, the event is posted to the monitor and nothing waits. So only with resume, and with constant parameters. */
static int user_event_raise_lower(struct scry_call *call, struct scry_code *code)
{
    const struct value *params = &call->args[1], *resume = &call->args[2];
    if (call->object_count != 1 || resume->kind != VALUE_INTEGER || !resume->integer.bits ||
        params->kind != VALUE_LIST || has_param(params->list.items, params->list.count))
        return -1;
    return lower_post(code, call->objects[0], params->list.items, params->list.count);
}

static void user_event_destroy(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        if (call->objects[i]->owner != call->tool) {
            call_fail(call, call->objects[i], OMIS_NO_PERMISSION, "%s belongs to another tool",
                      call->objects[i]->token);
            continue;
        }
        call_ok(call, call->objects[i]);
        object_end(call->objects[i]);
    }
}

static const struct event_ops raised_ops = {.object_class = "e"};

const struct scry_service user_event_services[] = {
    {"user_event_create", SCRY_MANIPULATION, "-> token", SCRY_REQUIRED | SCRY_OBSERVE, user_event_create,
     "Create a user-defined event."},
    {"user_event_raise", SCRY_MANIPULATION,
     "token<e> user_event, any* params, integer resume -> void ! OMIS_UNSPECIFIED_ERROR", SCRY_REQUIRED | SCRY_OBSERVE,
     user_event_raise, "Raise a user-defined event; params become its par1, par2, ...",
     .lower = user_event_raise_lower},
    {"user_event_destroy", SCRY_MANIPULATION, "token<e> user_event -> void ! OMIS_NO_PERMISSION",
     SCRY_REQUIRED | SCRY_OBSERVE, user_event_destroy, "Destroy a user-defined event."},
    {"user_event_has_been_raised", SCRY_EVENT, "token<e> user_event -> { ... }", SCRY_REQUIRED, NULL,
     "A user-defined event has been raised; its parameters are par1, par2, ...", .event = &raised_ops},
    SERVICE_END,
};

/* Services without an object (specification 8.2.3), and the extension `scry`: the monitor about itself. */

static void print(struct scry_call *call)
{
    struct buf text = BUF_INIT;
    PUT(&text, call->args[0].list.count, call->args[0]);
    call_text(call, NULL, &text);
    buf_done(&text);
}

/* "1.2.3" -> 1, 2 */
static void own_version(unsigned *ret_major, unsigned *ret_minor)
{
    *ret_major = *ret_minor = 0;
    if (sscanf(SCRY_VERSION, "%u.%u", ret_major, ret_minor) < 1)
        *ret_major = 0;
}

static void version(struct scry_call *call)
{
    unsigned major, minor;
    own_version(&major, &minor);
    struct buf text = BUF_INIT;
    PUT(&text, 2, 0, "scry " SCRY_VERSION, major, minor);
    call_text(call, NULL, &text);
    buf_done(&text);
}

static void extensions(struct scry_call *call)
{
    const struct registry *registry = call->monitor->registry;
    struct buf text = BUF_INIT;
    PUT(&text, registry->extension_count);
    put_list(&text);
    for (size_t i = 0; i < registry->extension_count; i++)
        PUT(&text, registry->extensions[i]);
    put_end(&text);
    call_text(call, NULL, &text);
    buf_done(&text);
}

static void list_services(struct registry *registry, struct span extension, bool partly, struct buf *text)
{
    struct buf names = BUF_INIT;
    size_t count = 0;
    for (struct service *service = registry->services; service; service = service->hh.next) {
        if (!span_is(extension, service->extension) || (service->row->missing && service->row->missing()) ||
            !!(service->row->requirement & SCRY_PARTLY) != partly)
            continue;
        PUT(&names, service->row->name);
        count++;
    }
    PUT(text, count);
    put_list(text);
    buf_append(text, names.data ? names.data : "", names.len);
    put_end(text);
    text->failed |= names.failed;
    buf_done(&names);
}

static void services(struct scry_call *call)
{
    struct registry *registry = call->monitor->registry;
    struct span extension = call->args[0].text;
    if (extension.len && !registry_has_extension(registry, extension)) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "there is no extension \"%.*s\": extensions() lists them",
                  SPAN_ARG(extension));
        return;
    }
    struct buf text = BUF_INIT;
    list_services(registry, extension, false, &text);
    list_services(registry, extension, true, &text);
    call_text(call, NULL, &text);
    buf_done(&text);
}

static void describe(const struct service *service, struct buf *text)
{
    static const char *const kinds[] = {"information", "manipulation", "event"};
    static const char *const classes[] = {"R", "P", "O"};
    const struct scry_service *row = service->row;
    PUT(text, row->name, kinds[row->kind], row->signature, classes[row->requirement & ~(SCRY_PARTLY | SCRY_RIGHTS)],
        row->doc, row->missing ? row->missing() : "");
}

/* With "": the names of all services, with those of extensions and those that do not work here. */
static void service_get_info(struct scry_call *call)
{
    struct registry *registry = call->monitor->registry;
    struct span name = call->args[0].text;
    struct buf text = BUF_INIT;
    if (name.len) {
        const struct service *service = registry_find(registry, name);
        if (!service) {
            call_fail(call, NULL, OMIS_UNKNOWN_SERVICE, "there is no service %.*s", SPAN_ARG(name));
            return;
        }
        describe(service, &text);
    } else {
        for (struct service *service = registry->services; service; service = service->hh.next)
            PUT(&text, service->row->name);
    }
    call_text(call, NULL, &text);
    buf_done(&text);
}

const struct scry_service misc_services[] = {
    {"print", SCRY_INFORMATION, "any* args -> { integer numargs; any* args }", SCRY_REQUIRED, print,
     "Return the arguments."},
    {"version", SCRY_INFORMATION,
     "-> { integer omis_major; integer omis_minor; string ocm_ident; integer ocm_major; integer ocm_minor }",
     SCRY_REQUIRED, version, "Return the versions of OMIS and of this monitor."},
    {"extensions", SCRY_INFORMATION, "-> { integer numext; string* extension }", SCRY_REQUIRED, extensions,
     "Return the prefixes of the available extensions."},
    {"services", SCRY_INFORMATION,
     "string extension -> { integer numfully; string* fully_impl; integer numpart; string* part_impl }", SCRY_REQUIRED,
     services, "Return the services of an extension, \"\" for the basic ones, that work on this machine."},
    SERVICE_END,
};

static void monitor_get_state(struct scry_call *call)
{
    struct buf lines = BUF_INIT, text = BUF_INIT;
    monitor_state_print(call->monitor, &lines);
    put_strings(&text, span_of(lines.data ? lines.data : "", lines.len), '\n');
    text.failed |= lines.failed;
    call_text(call, NULL, &text);
    buf_done(&lines);
    buf_done(&text);
}

static void monitor_set_log_level(struct scry_call *call)
{
    const char *level = call_string(call, 0);
    if (!level)
        return;
    if (log_set_level(level) < 0)
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "\"%s\" is no level: error, warning, info or debug", level);
    else
        call_ok(call, NULL);
}

static int print_clock(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    (void)call;
    (void)index;
    (void)err;
    PUT(text, clock_now_ns(), clock_wall_ns());
    return 0;
}

static void node_get_clock(struct scry_call *call)
{
    call_each(call, print_clock);
}

const struct scry_service scry_services[] = {
    {"scry_node_get_clock", SCRY_INFORMATION, "token<n>* node_list -> " NODE_CLOCK_RESULT, SCRY_OPTIONAL,
     node_get_clock,
     "The clocks of nodes: that of all times ($time, by the monitor's own), and the time of day since 1970. Who asks "
     "several times knows how far a clock is from the own one: the least round trip counts, and half of it is the "
     "bound on the error."},
    {"scry_service_get_info", SCRY_INFORMATION, "string name -> " SERVICE_INFO_RESULT " ! OMIS_UNKNOWN_SERVICE",
     SCRY_OPTIONAL, service_get_info, "Describe a service; with \"\", return the names of all."},
    {"scry_monitor_get_state", SCRY_INFORMATION, "-> string* lines", SCRY_OPTIONAL | SCRY_LOCAL, monitor_get_state,
     "What the monitor holds now, a string for each thing: a word that says what it is, then key=value; texts are in "
     "quotation marks. For people, and for grep: `scry monitor --state` prints it."},
    {"scry_monitor_set_log_level", SCRY_MANIPULATION, "string level -> void ! OMIS_PARAMETER_ERROR",
     SCRY_OPTIONAL | SCRY_LOCAL, monitor_set_log_level,
     "From now on the monitor logs error, warning, info or debug, whatever SCRY_LOG was."},
    SERVICE_END,
};
