/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/parts/near.h"

#include <string.h>

#include "lang/token.h"

/* Objects of these live at the home, and nodes come and go there. */
static bool is_home_class(const char *class_name)
{
    return strcmp(class_name, "c") == 0 || strcmp(class_name, "e") == 0;
}

static bool is_home_service(const struct service *service)
{
    static const char *const names[] = {"user_event_create", "node_attach", "node_attach2", "node_detach"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(service->row->name, names[i]) == 0)
            return true;
    return service->object_class && is_home_class(service->object_class);
}

static bool value_is_near(const struct value *value, uint32_t node)
{
    struct token token;
    if (value->kind == VALUE_PARAM)
        return true; /* the event's own objects */
    return value->kind == VALUE_TOKEN && token_parse(value->text, &token) && token.node == node;
}

static bool objects_are_near(const struct value *arg, uint32_t node)
{
    if (arg->kind != VALUE_LIST)
        return value_is_near(arg, node);
    for (size_t i = 0; i < arg->list.count; i++)
        if (!value_is_near(&arg->list.items[i], node))
            return false;
    return arg->list.count > 0; /* [] is the tool's objects on all nodes */
}

bool near_request(const struct request *request, struct service *const *services, uint32_t node)
{
    for (size_t i = 0; i < request->action_count; i++) {
        int index = services[i]->object_arg;
        if (is_home_service(services[i]) || (index >= 0 && !objects_are_near(&request->actions[i].args[index], node)))
            return false;
    }
    return true;
}

bool near_home(const struct request *request, struct service *const *services, uint32_t node)
{
    for (size_t i = 0; i < request->action_count; i++) {
        int index = services[i]->object_arg;
        bool home = is_home_service(services[i]) && services[i]->object_class;
        if (index >= 0 && !home && !objects_are_near(&request->actions[i].args[index], node))
            return false;
    }
    return true;
}

static bool uses(const struct value *values, size_t count, const char *param)
{
    for (size_t i = 0; i < count; i++)
        if ((values[i].kind == VALUE_PARAM && span_is(values[i].text, param)) ||
            (values[i].kind == VALUE_LIST && uses(values[i].list.items, values[i].list.count, param)))
            return true;
    return false;
}

bool near_uses(const struct request *request, const char *param)
{
    for (size_t i = 0; i < request->action_count; i++)
        if (uses(request->actions[i].args, request->actions[i].argc, param))
            return true;
    return false;
}
