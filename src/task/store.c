/* SPDX-License-Identifier: Apache-2.0 */
#include "task/store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "task/internal.h"
#include "task/spec.h"

static const char out_of_memory[] = "out of memory";
enum { VERSION = 1 }; /* of what a task's directory has; a greater one is not understood here */

void task_host_path(const struct task_store *store, const char *host, const char *name,
                    char ret_path[TASK_HOST_PATH_SIZE])
{
    snprintf(ret_path, TASK_HOST_PATH_SIZE, "%s/.active/%.255s/%.200s", store->dir, *host ? host : store->host, name);
}

int task_store_open(struct task_store *ret_store, struct err *err)
{
    char state[PATH_MAX], sub[TASK_HOST_PATH_SIZE];
    struct stat st;
    int code = dirs_state(state, sizeof state, err);
    if (code < 0)
        return code;
    if ((size_t)snprintf(ret_store->dir, sizeof ret_store->dir, "%s/tasks", state) >= sizeof ret_store->dir - 300)
        return err_set(err, -ENAMETOOLONG, "the path of the tasks is too long: %.300s", state);
    char *host = ret_store->host;
    if (gethostname(host, sizeof ret_store->host - 1) < 0 || !*host || *host == '.' || strchr(host, '/'))
        snprintf(host, sizeof ret_store->host, "localhost");
    task_host_path(ret_store, "", "", sub);
    code = dirs_make(sub, 0700);
    if (code < 0)
        return err_errno(err, code, "cannot make %s", sub);
    if (lstat(ret_store->dir, &st) < 0)
        return err_errno(err, -errno, "%s", ret_store->dir);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
        return err_set(err, -EPERM, "%s must be a directory of your own, closed to others: chmod 700 it, or remove it",
                       ret_store->dir);
    return 0;
}

void task_store_touch(const struct task_store *store, const char *id)
{
    enum { LONG_BYTES = 256 << 10 };
    char path[PATH_MAX + 16], line[TASK_ID_SIZE + 2];
    struct stat st;
    snprintf(path, sizeof path, "%s/.changed", store->dir);
    int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND);
    if (fd < 0)
        return;
    int len = snprintf(line, sizeof line, "%s\n", id ? id : "");
    if (fstat(fd, &st) == 0 && st.st_size > LONG_BYTES && ftruncate(fd, 0) < 0)
        errno = 0; /* then it gets longer */
    if (write(fd, line, (size_t)len) < 0)
        errno = 0; /* the disk is full: who waits looks by itself, too */
    close(fd);
}

bool task_id_is(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '_')
            return false;
    return len > 16 && len < TASK_ID_SIZE && isdigit((unsigned char)text[0]) && text[8] == 'T';
}

/* ---- files in JSON ---- */

int task_write_json(const char *dir, const char *name, const json_t *json, struct err *err)
{
    char path[PATH_MAX + 32];
    _cleanup_(freep) char *text = json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    if (!text)
        return err_set(err, -ENOMEM, out_of_memory);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int code = file_replace_soon(path, text, strlen(text), 0600);
    return code < 0 ? err_errno(err, code, "cannot write %s", path) : 0;
}

static int read_json(const char *dir, const char *name, json_t **ret_json, struct err *err)
{
    char path[PATH_MAX + 32];
    _cleanup_(freep) char *text = NULL;
    size_t len;
    json_error_t where;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int code = file_read_plain(path, &text, &len);
    if (code < 0)
        return err_errno(err, code, "cannot read %s", path);
    *ret_json = len <= 8 * (size_t)TASK_TEXT_BYTES ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &where) : NULL;
    if (json_is_object(*ret_json))
        return 0;
    json_decref(*ret_json);
    *ret_json = NULL;
    return err_set(err, -EBADMSG, "%s is damaged: remove the task with scry task rm", path);
}

/* ---- making and reading ---- */

static int count_tasks(const struct task_store *store)
{
    DIR *dir = opendir(store->dir);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += *entry->d_name != '.';
    if (dir)
        closedir(dir);
    return count;
}

static json_t *new_state(void)
{
    return json_pack("{s:i, s:s, s:n, s:I, s:n, s:n, s:n, s:b, s:i, s:[], s:[]}", "version", VERSION, "state", "draft",
                     "error", "created_ns", (json_int_t)clock_wall_ns(), "queued_ns", "began_ns", "ended_ns", "cancel",
                     0, "target", 0, "phases", "runs");
}

/* A directory with all that a task begins with, under a name that nobody looks at. */
static int make_hidden(const char *dir, const json_t *spec, struct err *err)
{
    static const char *const subs[] = {"", "/files", "/runs"};
    char path[PATH_MAX + TASK_ID_SIZE + 16];
    for (size_t i = 0; i < sizeof subs / sizeof *subs; i++) {
        snprintf(path, sizeof path, "%s%s", dir, subs[i]);
        if (mkdir(path, 0700) < 0)
            return err_errno(err, -errno, "cannot make %s", path);
    }
    json_t *state = new_state();
    int code = state ? task_write_json(dir, "task.json", spec, err) : err_set(err, -ENOMEM, out_of_memory);
    if (code == 0)
        code = task_write_json(dir, "state.json", state, err);
    json_decref(state);
    return code;
}

int task_create(const struct task_store *store, const json_t *given, char ret_id[TASK_ID_SIZE], struct err *err)
{
    char hidden[PATH_MAX + TASK_ID_SIZE + 8], path[PATH_MAX + TASK_ID_SIZE + 8];
    json_t *spec = NULL;
    int code = task_spec_check_new(given, &spec, err);
    if (code < 0)
        return code;
    if (count_tasks(store) >= TASKS_MOST) {
        json_decref(spec);
        return err_set(err, -ENOSPC, "there are %d tasks already: remove some with scry task rm", TASKS_MOST);
    }
    jobdir_new_id(ret_id);
    snprintf(hidden, sizeof hidden, "%s/.new-%s", store->dir, ret_id);
    snprintf(path, sizeof path, "%s/%s", store->dir, ret_id);
    code = make_hidden(hidden, spec, err);
    if (code == 0 && rename(hidden, path) < 0)
        code = err_errno(err, -errno, "cannot make %s", path);
    if (code < 0)
        task_remove_tree(hidden);
    json_decref(spec);
    task_store_touch(store, ret_id);
    return code;
}

int task_load(const struct task_store *store, const char *id, struct task *ret_task, struct err *err)
{
    *ret_task = (struct task){0};
    if (!task_id_is(id))
        return err_set(err, -ENOENT, "'%.100s' is no id of a task: scry task ls lists them", id);
    snprintf(ret_task->id, sizeof ret_task->id, "%s", id);
    if ((size_t)snprintf(ret_task->dir, sizeof ret_task->dir, "%s/%s", store->dir, id) >= sizeof ret_task->dir)
        return err_set(err, -ENAMETOOLONG, "%s/%s: too long", store->dir, id);
    if (access(ret_task->dir, F_OK) < 0)
        return err_set(err, -ENOENT, "there is no task %s: scry task ls lists them", id);
    json_t *raw = NULL;
    int code = read_json(ret_task->dir, "state.json", &ret_task->state, err);
    if (code == 0 && json_integer_value(json_object_get(ret_task->state, "version")) > VERSION)
        code = err_set(err, -EPROTO, "task %s was made by a newer scry: use that one for it", id);
    if (code == 0)
        code = read_json(ret_task->dir, "task.json", &raw, err);
    if (code == 0)
        code = task_spec_check(raw, &ret_task->spec, err);
    json_decref(raw);
    if (code < 0)
        task_done(ret_task);
    return code;
}

void task_done(struct task *task)
{
    json_decref(task->spec);
    json_decref(task->state);
    task->spec = task->state = NULL;
}

void task_run_dir(const struct task *task, uint64_t run, char ret_path[PATH_MAX])
{
    snprintf(ret_path, PATH_MAX, "%.*s/runs/%llu", PATH_MAX - 32, task->dir, (unsigned long long)run);
}

/* ---- finding ---- */

static int is_task(const struct dirent *entry)
{
    return task_id_is(entry->d_name);
}

static int list(const char *dir, char ***ret_ids, size_t *ret_count, struct err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, is_task, alphasort);
    if (count < 0)
        return err_errno(err, -errno, "cannot read %s", dir);
    char **ids = calloc((size_t)count + 1, sizeof *ids);
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        if (ids && (ids[used] = strdup(entries[i]->d_name)))
            used++;
        free(entries[i]);
    }
    free(entries);
    *ret_ids = ids;
    *ret_count = used;
    return ids ? 0 : err_set(err, -ENOMEM, out_of_memory);
}

struct made {
    char *id;
    json_int_t ns;
};

static int by_time(const void *a, const void *b)
{
    const struct made *one = a, *other = b;
    return one->ns != other->ns ? (one->ns < other->ns ? -1 : 1) : strcmp(one->id, other->id);
}

/* When it was made; of one that is damaged by the time of its file, which is some milliseconds coarse. */
static json_int_t made_ns(const struct task_store *store, const char *id)
{
    char path[PATH_MAX + TASK_ID_SIZE + 16];
    struct stat st = {0};
    json_t *state = NULL;
    snprintf(path, sizeof path, "%s/%s", store->dir, id);
    read_json(path, "state.json", &state, NULL);
    json_int_t ns = json_integer_value(json_object_get(state, "created_ns"));
    json_decref(state);
    snprintf(path, sizeof path, "%s/%s/task.json", store->dir, id);
    if (!ns && stat(path, &st) == 0)
        ns = st.st_mtim.tv_sec * (json_int_t)NS_PER_SECOND + st.st_mtim.tv_nsec;
    return ns;
}

/* Puts those of one second, of which their ids do not say which came first, into the order in which they were made. */
static void order_second(const struct task_store *store, char **ids, size_t count)
{
    struct made *made = calloc(count, sizeof *made);
    for (size_t i = 0; made && i < count; i++)
        made[i] = (struct made){ids[i], made_ns(store, ids[i])};
    if (made)
        qsort(made, count, sizeof *made, by_time);
    for (size_t i = 0; made && i < count; i++)
        ids[i] = made[i].id;
    free(made);
}

int task_list(const struct task_store *store, char ***ret_ids, size_t *ret_count, struct err *err)
{
    enum { SECOND = sizeof "20260101T000000" - 1, ORDERED = 1000 }; /* the latest: each one's state is read */
    int code = list(store->dir, ret_ids, ret_count, err);
    for (size_t first = code == 0 && *ret_count > ORDERED ? *ret_count - ORDERED : 0, end;
         code == 0 && first < *ret_count; first = end) {
        for (end = first + 1; end < *ret_count && strncmp((*ret_ids)[first], (*ret_ids)[end], SECOND) == 0;)
            end++;
        if (end - first > 1)
            order_second(store, *ret_ids + first, end - first);
    }
    return code;
}

int task_list_active(const struct task_store *store, char ***ret_ids, size_t *ret_count, struct err *err)
{
    char dir[TASK_HOST_PATH_SIZE];
    task_host_path(store, "", "", dir);
    return list(dir, ret_ids, ret_count, err);
}

static bool has_name(const struct task_store *store, const char *id, const char *word)
{
    struct task task;
    bool same = task_load(store, id, &task, NULL) == 0 && strcmp(task_text(task.spec, "name"), word) == 0;
    task_done(&task);
    return same;
}

/* The index of the one that is meant; `count`: none; -ENOTUNIQ. */
static ssize_t match(const struct task_store *store, char **ids, size_t count, const char *word)
{
    size_t len = strlen(word), found = count, beginnings = 0;
    if (strcmp(word, "@last") == 0)
        return count ? (ssize_t)count - 1 : 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(ids[i], word) == 0)
            return (ssize_t)i;
    for (size_t i = count; i-- > 0;)
        if (has_name(store, ids[i], word))
            return (ssize_t)i;
    for (size_t i = 0; i < count && len; i++)
        if (strncmp(ids[i], word, len) == 0) {
            found = i;
            beginnings++;
        }
    return beginnings > 1 ? -ENOTUNIQ : (ssize_t)found;
}

int task_find(const struct task_store *store, const char *word, char ret_id[TASK_ID_SIZE], struct err *err)
{
    char **ids;
    size_t count;
    int code = task_list(store, &ids, &count, err);
    if (code < 0)
        return code;
    ssize_t found = match(store, ids, count, word);
    if (found == -ENOTUNIQ)
        code = err_set(err, -ENOTUNIQ, "several tasks begin with '%.100s': give more of the id", word);
    else if (found == (ssize_t)count)
        code = err_set(err, -ENOENT, "there is no task '%.100s': scry task ls lists them", word);
    else
        snprintf(ret_id, TASK_ID_SIZE, "%s", ids[found]);
    jobdir_list_free(ids, count);
    return code;
}
