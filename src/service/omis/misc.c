/* SPDX-License-Identifier: Apache-2.0 */
/* Services without an object (specification 8.2.3), and the extension `scry`: the monitor about itself. */
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "lang/put.h"
#include "monitor/engine/call.h"
#include "monitor/engine/monitor.h"
#include "lang/results.h"
#include "service/omis/service.h"

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
