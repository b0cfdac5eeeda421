/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Temperatures: an extension that is a sensor. What the kernel knows in /sys/class/thermal and /sys/class/hwmon is read
 * when somebody asks (temp_get), and again and again by a watch (token temp_w_...), which raises an event each time.
 * It shows timers: a watch's timer belongs to the watch, the watch to the tool that made it, so that nothing is left to
 * do when the tool goes away. Where there are no sensors, as in most virtual machines, the services say so.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <scry/ext.h>

enum { NAME_SIZE = 64 };

/* ---- what the kernel knows ---- */

/* SCRY_SYSFS is for tests: a directory in place of /sys. */
static const char *sysfs(void)
{
    const char *dir = getenv("SCRY_SYSFS");
    return dir && *dir ? dir : "/sys";
}

static int read_line(const char *path, char *ret_text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    errno = 0;
    int result = fgets(ret_text, (int)size, file) ? 0 : errno ? -errno : -ENODATA;
    fclose(file);
    ret_text[result == 0 ? strcspn(ret_text, "\n") : 0] = 0;
    return result;
}

/* Calls found for each sensor: its name ("thermal_zone0", "hwmon1/temp2"), what it is in (text for people), and the
 * file with its temperature. Ends when found returns nonzero. */
typedef int found_fn(void *ctx, const char *name, const char *kind, const char *path);

static int visit_hwmon(const char *dir, const char *chip, found_fn *found, void *ctx)
{
    int stop = 0;
    for (int i = 1; i <= 64 && !stop; i++) {
        char path[512], label[512], name[NAME_SIZE], kind[NAME_SIZE] = "";
        snprintf(path, sizeof path, "%s/%s/temp%d_input", dir, chip, i);
        if (access(path, F_OK) < 0)
            continue;
        snprintf(label, sizeof label, "%s/%s/temp%d_label", dir, chip, i);
        if (read_line(label, kind, sizeof kind) < 0) {
            snprintf(label, sizeof label, "%s/%s/name", dir, chip);
            read_line(label, kind, sizeof kind);
        }
        snprintf(name, sizeof name, "%s/temp%d", chip, i);
        stop = found(ctx, name, kind, path);
    }
    return stop;
}

static int visit_thermal(const char *dir, const char *zone, found_fn *found, void *ctx)
{
    char path[512], kind[NAME_SIZE] = "";
    if (strncmp(zone, "thermal_zone", 12) != 0)
        return 0; /* a cooling device */
    snprintf(path, sizeof path, "%s/%s/type", dir, zone);
    read_line(path, kind, sizeof kind);
    snprintf(path, sizeof path, "%s/%s/temp", dir, zone);
    return found(ctx, zone, kind, path);
}

static void visit_sensors(found_fn *found, void *ctx)
{
    static const struct {
        const char *dir;
        int (*visit)(const char *dir, const char *entry, found_fn *found, void *ctx);
    } places[] = {{"class/thermal", visit_thermal}, {"class/hwmon", visit_hwmon}};
    int stop = 0;
    for (size_t i = 0; i < 2 && !stop; i++) {
        char dir[256];
        snprintf(dir, sizeof dir, "%s/%s", sysfs(), places[i].dir);
        struct dirent **entries;
        int count = scandir(dir, &entries, NULL, alphasort);
        for (int k = 0; k < count; k++) {
            const char *name = entries[k]->d_name;
            if (!stop && name[0] != '.' && strlen(name) < NAME_SIZE / 2)
                stop = places[i].visit(dir, name, found, ctx);
            free(entries[k]);
        }
        if (count >= 0)
            free(entries);
    }
}

struct sensor {
    const char *name; /* that is looked for; NULL: any */
    char path[512];
};

static int is_it(void *ctx, const char *name, const char *kind, const char *path)
{
    struct sensor *sensor = ctx;
    (void)kind;
    if (sensor->name && strcmp(name, sensor->name) != 0)
        return 0;
    snprintf(sensor->path, sizeof sensor->path, "%s", path);
    return 1;
}

/* Degrees Celsius; the kernel has thousandths. 0 or -errno. */
static int read_celsius(const char *path, double *ret_celsius)
{
    char text[64], *end;
    int code = read_line(path, text, sizeof text);
    if (code < 0)
        return code;
    long number = strtol(text, &end, 10);
    if (end == text || *end)
        return -EPROTO;
    *ret_celsius = (double)number / 1000;
    return 0;
}

/* Why the services cannot work here, or NULL: asked before each request, so a sensor may come later. */
static const char *missing(void)
{
    struct sensor any = {0};
    visit_sensors(is_it, &any);
    return any.path[0] ? NULL : "this machine shows no sensors in /sys/class/thermal and /sys/class/hwmon";
}

/* The sensor that argument `index` names; answers if there is none. */
static int find_sensor(struct scry_call *call, size_t index, struct sensor *ret_sensor)
{
    *ret_sensor = (struct sensor){.name = scry_arg_string(call, index, NULL)};
    if (ret_sensor->name)
        visit_sensors(is_it, ret_sensor);
    if (ret_sensor->path[0])
        return 0;
    scry_fail(call, NULL, OMIS_PARAMETER_ERROR, "there is no sensor %s: temp_sensors() lists them",
              ret_sensor->name ? ret_sensor->name : "");
    return -1;
}

/* ---- services ---- */

struct list {
    char text[8192];
    size_t len, count;
};

static int add(void *ctx, const char *name, const char *kind, const char *path)
{
    struct list *list = ctx;
    (void)path;
    for (size_t i = 0; i < 2; i++) {
        const char *from = i ? kind : name;
        if (sizeof list->text - list->len < 2 * NAME_SIZE + 8)
            return 1;
        list->len += (size_t)sprintf(list->text + list->len, "%s\"", list->len ? "," : "");
        for (; *from; from++) /* what would end the string, or is no text, is of no interest here */
            if (*from >= ' ' && *from <= '~' && *from != '"' && *from != '\\')
                list->text[list->len++] = *from;
        list->text[list->len++] = '"';
    }
    list->count++;
    return 0;
}

static void temp_sensors(struct scry_call *call)
{
    struct list list = {.len = 0};
    visit_sensors(add, &list);
    scry_result(call, NULL, "%zu,[%.*s]", list.count, (int)list.len, list.text);
}

static void temp_get(struct scry_call *call)
{
    struct sensor sensor;
    double celsius;
    if (find_sensor(call, 0, &sensor) < 0)
        return;
    int code = read_celsius(sensor.path, &celsius);
    if (code < 0)
        scry_fail(call, NULL, OMIS_OS_ERROR, "cannot read %s: %s", sensor.path, strerror(-code));
    else
        scry_result_floating(call, NULL, celsius);
}

/* The timer of a watch. Raises temp_measured; a sensor that does not answer is asked again. */
static void measure(struct scry_object *object)
{
    const struct sensor *sensor = scry_object_data(object);
    double celsius;
    if (read_celsius(sensor->path, &celsius) < 0)
        return;
    char text[64];
    snprintf(text, sizeof text, "%.3f", celsius);
    const char *params[] = {text};
    scry_event_raise("temp_measured", object, params, 1);
}

static void temp_watch_create(struct scry_call *call)
{
    double period = scry_arg_floating(call, 1);
    struct sensor found, *sensor;
    if (find_sensor(call, 0, &found) < 0)
        return;
    if (!(period >= 0.01 && period <= 86400)) {
        scry_fail(call, NULL, OMIS_PARAMETER_ERROR, "period must be from 0.01 to 86400 seconds");
        return;
    }
    sensor = malloc(sizeof *sensor);
    struct scry_object *object = sensor ? scry_object_new(call, "temp_w", sensor) : NULL;
    if (!object) {
        free(sensor);
        scry_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    *sensor = found;
    sensor->name = NULL; /* it was the call's */
    if (!scry_watch_timer(object, period, measure)) {
        scry_object_destroy(object);
        scry_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    scry_result(call, NULL, "%s", scry_object_token(object));
}

static void temp_watch_delete(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        scry_ok(call, scry_object_at(call, i));
        scry_object_destroy(scry_object_at(call, i)); /* and its timer */
    }
}

static const struct scry_service services[] = {
    {"temp_sensors", SCRY_INFORMATION, "-> { integer count; any* sensors }", SCRY_OPTIONAL, temp_sensors,
     "Return the sensors of temperature, each as its name and what it measures.", .missing = missing},
    {"temp_get", SCRY_INFORMATION, "string sensor -> floating", SCRY_OPTIONAL, temp_get,
     "Return a temperature in degrees Celsius.", .missing = missing},
    {"temp_watch_create", SCRY_MANIPULATION, "string sensor, floating period -> token", SCRY_OPTIONAL,
     temp_watch_create, "Measure a temperature every `period` seconds from now on.", .missing = missing},
    {"temp_watch_delete", SCRY_MANIPULATION, "token<temp_w>* watch_list -> void", SCRY_OPTIONAL, temp_watch_delete,
     "Measure no more.", .missing = missing},
    {"temp_measured", SCRY_EVENT, "token<temp_w>* watch_list -> { floating celsius }", SCRY_OPTIONAL, NULL,
     "A watch has measured a temperature.", .missing = missing},
};

SCRY_EXT_API int temp_register(void);

int temp_register(void)
{
    if (scry_register_class("temp_w", free, "watch of a temperature") < 0)
        return -1;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        if (scry_register_service(&services[i]) < 0)
            return -1;
    return 0;
}
