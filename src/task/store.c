/* SPDX-License-Identifier: Apache-2.0 */
#include "task/store.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/record/info.h"
#include "jobdir/text/text.h"
#include "task/launch.h"
#include "task/spec.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The locks of a task: of its state, held for moments only; of its files, held while one comes in, and never waited for. */
#define TASK_STATE_LOCK "lock"
#define TASK_FILES_LOCK "files.lock"

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

static int task_write_json(const char *dir, const char *name, const json_t *json, struct err *err)
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
    jobdir_new_id(ret_id, NULL);
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

static int ids_list(const char *dir, char ***ret_ids, size_t *ret_count, struct err *err)
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
    int code = ids_list(store->dir, ret_ids, ret_count, err);
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
    return ids_list(dir, ret_ids, ret_count, err);
}

static bool has_name(const struct task_store *store, const char *id, const char *word)
{
    struct task task;
    bool same = task_load(store, id, &task, NULL) == 0 && strcmp(task_text(task.spec, "name"), word) == 0;
    task_done(&task);
    return same;
}

/* The index of the one that is meant; `count`: none; -ENOTUNIQ. */
static ssize_t ids_match(const struct task_store *store, char **ids, size_t count, const char *word)
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
    ssize_t found = ids_match(store, ids, count, word);
    if (found == -ENOTUNIQ)
        code = err_set(err, -ENOTUNIQ, "several tasks begin with '%.100s': give more of the id", word);
    else if (found == (ssize_t)count)
        code = err_set(err, -ENOENT, "there is no task '%.100s': scry task ls lists them", word);
    else
        snprintf(ret_id, TASK_ID_SIZE, "%s", ids[found]);
    jobdir_list_free(ids, count);
    return code;
}

/* Changes of tasks: one at a time for each. */

const char *task_state_name(const json_t *state)
{
    const char *name = json_string_value(json_object_get(state, "state"));
    return name ? name : "failed";
}

bool task_is_over(const json_t *state)
{
    const char *name = task_state_name(state);
    return strcmp(name, "done") == 0 || strcmp(name, "failed") == 0 || strcmp(name, "cancelled") == 0;
}

bool task_is_active(const json_t *state)
{
    return !task_is_over(state) && strcmp(task_state_name(state), "draft") != 0;
}

const char *task_elsewhere(const struct task_store *store, const json_t *state)
{
    const char *host = json_string_value(json_object_get(state, "host"));
    return host && *host && *host != '.' && !strchr(host, '/') && strcmp(host, store->host) != 0 ? host : NULL;
}

/* Its descriptor, or -errno; -EWOULDBLOCK, if it is not to be waited for. */
static int task_lock(const char *dir, const char *lock, bool wait)
{
    char path[PATH_MAX + TASK_ID_SIZE + 16];
    snprintf(path, sizeof path, "%s/%s", dir, lock);
    int fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0)
        return fd;
    while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0)
        if (errno != EINTR) {
            int code = -errno;
            close(fd);
            return code;
        }
    return fd;
}

/* The mark comes before the state that needs it, and goes after: whoever finds one too many removes it. */
static int set_mark(const struct task_store *store, const struct task *task, bool active)
{
    char path[TASK_HOST_PATH_SIZE];
    const char *elsewhere = task_elsewhere(store, task->state);
    task_host_path(store, elsewhere ? elsewhere : "", task->id, path);
    if (!active)
        return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
    int fd = file_open_own(AT_FDCWD, path, O_WRONLY | O_CREAT);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

int task_change(const struct task_store *store, const char *id, task_change_fn *fn, void *ctx, struct err *err)
{
    struct task task;
    char dir[PATH_MAX + TASK_ID_SIZE + 2];
    if (!task_id_is(id))
        return err_set(err, -ENOENT, "'%.100s' is no id of a task", id);
    snprintf(dir, sizeof dir, "%s/%s", store->dir, id);
    _cleanup_(closep) int lock = task_lock(dir, TASK_STATE_LOCK, true);
    if (lock < 0)
        return err_errno(err, lock, "there is no task %s that can be changed", id);
    int code = task_load(store, id, &task, err);
    if (code == 0)
        code = fn(&task, ctx, err);
    if (code == 0 && task_is_active(task.state) && (code = set_mark(store, &task, true)) < 0)
        err_errno(err, code, "cannot mark %s", id);
    if (code == 0)
        code = task_write_json(task.dir, "state.json", task.state, err);
    if (code == 0 && !task_is_active(task.state))
        set_mark(store, &task, false);
    if (code == 0)
        task_store_touch(store, id);
    task_done(&task);
    return code;
}

/* ---- what people and pages ask for ---- */

/* What would be refused when it is started, and is to be said by whoever submits it: that a program of root's is meant. */
static int check_allowed(const struct task *task, struct err *err)
{
    struct task_launch launch;
    struct err why = {0};
    int code = strcmp(task_text(task->spec, "launch.by"), "mpirun") == 0
                   ? task_launch_make(&launch, task, TASK_RUN, 1, &why)
                   : 1;
    if (code != 1)
        task_launch_done(&launch);
    if (code != -EPERM)
        return 0;
    return err_set(err, code, "%s", why.text);
}

/* Is a program of that name there to be executed: among the files, or by the path? What has a build is made first. */
static int check_ready(const struct task *task, struct err *err)
{
    char path[PATH_MAX * 2];
    json_t *files = task_member(task->spec, "files"), *each;
    const char *program = task_text(task->spec, "program"), *cwd = task_text(task->spec, "directory");
    size_t i;
    json_array_foreach(files, i, each)
    {
        snprintf(path, sizeof path, "%s/files/%s", task->dir, json_string_value(each));
        if (access(path, F_OK) < 0)
            return err_set(err, -ENOENT, "the file %.200s of the task is not there yet", json_string_value(each));
    }
    if (cwd && access(cwd, X_OK) < 0)
        return err_errno(err, -errno, "the directory %s", cwd);
    if (task_text(task->spec, "build") || strcmp(task_text(task->spec, "launch.by"), "ssh") == 0)
        return 0;
    if (!strchr(program, '/'))
        return check_allowed(task, err); /* among the files, or in the PATH of the task: the run says which */
    snprintf(path, sizeof path, "%s%s%s",
             *program == '/' ? ""
             : cwd           ? cwd
                             : task->dir,
             *program == '/' ? ""
             : cwd           ? "/"
                             : "/files/",
             program);
    if (access(path, X_OK) == 0)
        return check_allowed(task, err);
    if (errno == EACCES && access(path, R_OK) == 0)
        return err_set(
            err, -EACCES,
            "the program %s may not be executed: chmod +x it, or put before it what executes it (python3 %s)", path,
            program);
    return err_errno(err, -errno, "the program %s", path);
}

struct queueing {
    const char *host;
    bool again;
};

static int task_queue_locked(struct task *task, void *ctx, struct err *err)
{
    const struct queueing *queueing = ctx;
    bool again = queueing->again;
    if (task_is_active(task->state))
        return err_set(err, -EBUSY, "task %s is %s already", task->id, task_state_name(task->state));
    if (task_is_over(task->state) != again)
        return err_set(err, -EBUSY, again ? "task %s has not run yet: queue it" : "task %s was queued before: rerun it",
                       task->id);
    int code = check_ready(task, err);
    if (code < 0)
        return code;
    json_int_t runs = (json_int_t)json_array_size(json_object_get(task->state, "runs"));
    json_t *now = json_integer((json_int_t)clock_wall_ns());
    const char *kind = json_string_value(json_object_get(json_object_get(task->state, "error"), "kind"));
    bool stays = again && kind && strcmp(kind, "gather") == 0 && /* once: that machine may be gone for good */
                 !json_object_get(task->state, "gathered_again");
    json_object_set_new(task->state, "state", json_string("queued"));
    json_object_set_new(task->state, "host", json_string(queueing->host));
    json_object_set_new(task->state, "queued_ns", now);
    json_object_set_new(task->state, "began_ns", json_null());
    json_object_set_new(task->state, "ended_ns", json_null());
    json_object_set_new(task->state, "error", json_null());
    json_object_set_new(task->state, "cancel", json_false());
    json_object_set_new(task->state, "phases", json_array());
    if (stays) { /* what is still on another machine comes first; then the runs that were wanted before */
        json_object_set_new(task->state, "gathered_again", json_true());
        return 0;
    }
    json_object_del(task->state, "gathered_again");
    json_object_set_new(task->state, "target", json_integer(runs + (json_int_t)task_number(task->spec, "repeat")));
    return 0;
}

int task_queue(const struct task_store *store, const char *id, struct err *err)
{
    struct queueing queueing = {.host = store->host, .again = false};
    char dir[PATH_MAX + TASK_ID_SIZE + 2];
    snprintf(dir, sizeof dir, "%s/%s", store->dir, id);
    _cleanup_(closep) int lock = task_id_is(id) ? task_lock(dir, TASK_FILES_LOCK, false) : -ENOENT;
    if (lock == -EWOULDBLOCK)
        return err_set(err, -EBUSY, "a file of task %s is just coming in: queue it then", id);
    return task_change(store, id, task_queue_locked, &queueing, err);
}

int task_rerun(const struct task_store *store, const char *id, struct err *err)
{
    struct queueing queueing = {.host = store->host, .again = true};
    return task_change(store, id, task_queue_locked, &queueing, err);
}

/* The last of a list of what has an end. */
static void end_last(json_t *list)
{
    json_t *last = json_array_size(list) ? json_array_get(list, json_array_size(list) - 1) : NULL;
    if (last && json_is_null(json_object_get(last, "ended_ns")))
        json_object_set_new(last, "ended_ns", json_integer((json_int_t)clock_wall_ns()));
}

/* Is there a sign of life of its run, on another machine? What runs writes all the time. */
static bool is_heard(const struct task *task)
{
    char dir[PATH_MAX];
    struct job_info info = {0};
    enum job_state state = JOB_LOST;
    snprintf(dir, sizeof dir, "%.*s/runs/%zu", PATH_MAX - 64, task->dir,
             json_array_size(json_object_get(task->state, "runs")));
    bool heard = job_info_read_state(dir, &info, &state, NULL) == 0 && state == JOB_RUNNING;
    job_info_done(&info);
    return heard;
}

/* On another machine its runner ends it. Only where that has been asked for before, and nothing is heard of the run, is it over
 * without: containers and machines come and go with their names, and homes stay. */
static int task_cancel_locked(struct task *task, void *ctx, struct err *err)
{
    if (task_is_over(task->state))
        return err_set(err, -EALREADY, "task %s is over: it is %s", task->id, task_state_name(task->state));
    bool again = json_is_true(json_object_get(task->state, "cancel"));
    bool gone = again && task_elsewhere(ctx, task->state) && !is_heard(task);
    json_object_set_new(task->state, "cancel", json_true());
    const char *state = task_state_name(task->state);
    if (gone || strcmp(state, "draft") == 0 || strcmp(state, "queued") == 0) { /* nothing of it runs */
        json_t *runs = json_object_get(task->state, "runs");
        json_t *run = gone && strcmp(state, "running") == 0 ? json_array_get(runs, json_array_size(runs) - 1) : NULL;
        if (run)
            json_object_set_new(run, "state", json_string("cancelled"));
        json_object_del(task->state, "step");
        end_last(runs);
        end_last(json_object_get(task->state, "phases"));
        json_object_set_new(task->state, "state", json_string("cancelled"));
        json_object_set_new(task->state, "ended_ns", json_integer((json_int_t)clock_wall_ns()));
    }
    return 0;
}

int task_cancel(const struct task_store *store, const char *id, struct err *err)
{
    return task_change(store, id, task_cancel_locked, (void *)store, err);
}

/* ---- removing ---- */

int task_remove_tree(const char *dir)
{
    char *paths[] = {(char *)dir, NULL};
    int code = 0;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    for (FTSENT *entry; tree && (entry = fts_read(tree));) {
        if (entry->fts_info == FTS_D)
            continue;
        if (remove(entry->fts_accpath) < 0 && errno != ENOENT)
            code = -errno;
    }
    if (tree)
        fts_close(tree);
    return tree ? code : -errno;
}

void task_unlink_job(const struct task *task, const char *job)
{
    char jobs[PATH_MAX], path[PATH_MAX + JOB_ID_SIZE + 2], to[PATH_MAX];
    if (!job || strchr(job, '/') || dirs_jobs_find(jobs, sizeof jobs, NULL) < 0)
        return;
    snprintf(path, sizeof path, "%s/%s", jobs, job);
    ssize_t len = readlink(path, to, sizeof to - 1);
    if (len > 0 && (to[len] = 0, strstr(to, task->id)))
        unlink(path);
}

static void unlink_jobs(const struct task *task)
{
    json_t *run;
    size_t i;
    json_array_foreach(json_object_get(task->state, "runs"), i, run)
        task_unlink_job(task, json_string_value(json_object_get(run, "job")));
}

/* In a process that nobody waits for: it may take long. */
static void remove_later(const char *dir)
{
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            setsid();
            close_range(0, ~0U,
                        0); /* whoever asked is not to be kept by it: a server's connections, a command's pipe */
            task_remove_tree(dir);
        }
        _exit(0);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
}

int task_remove(const struct task_store *store, const char *id, bool wait, struct err *err)
{
    struct task task;
    char gone[PATH_MAX + TASK_ID_SIZE + 16];
    int code = task_load(store, id, &task, err);
    if (code == -EBADMSG || code == -EINVAL) /* damaged: it may go all the same */
        code = 0;
    _cleanup_(closep) int lock = code == 0 ? task_lock(task.dir, TASK_STATE_LOCK, true) : -1;
    if (code == 0 && lock < 0)
        code = err_errno(err, lock, "cannot lock task %s", id);
    if (code == 0 && lock >= 0 && task.state) {
        task_done(&task); /* it may have changed until the lock was ours */
        task_load(store, id, &task, NULL);
    }
    const char *elsewhere = task_elsewhere(store, task.state);
    if (code == 0 && task.state && task_is_active(task.state) && elsewhere)
        code = err_set(err, -EBUSY, "task %s is %s on %s: cancel it first", id, task_state_name(task.state), elsewhere);
    else if (code == 0 && task.state && task_is_active(task.state))
        code = err_set(err, -EBUSY, "task %s is %s: cancel it first", id, task_state_name(task.state));
    snprintf(gone, sizeof gone, "%s/.gone-%s", store->dir, id);
    if (code == 0 && rename(task.dir, gone) < 0)
        code = err_errno(err, -errno, "cannot remove task %s", id);
    if (code == 0) {
        unlink_jobs(&task);
        set_mark(store, &task, false);
        int left = wait ? task_remove_tree(gone) : 0;
        if (!wait)
            remove_later(gone);
        code = left < 0 ? err_errno(err, left, "some files of task %s could not be removed from %s", id, gone) : 0;
        task_store_touch(store, id);
    }
    task_done(&task);
    return code;
}

/* Files of drafts. */

/* What the other files take, but for the one that is replaced. -EMFILE: there are as many as there may be. */
static int sum_files(const char *dir, const char *name, uint64_t *ret_bytes)
{
    DIR *files = opendir(dir);
    size_t count = 0;
    if (!files)
        return -errno;
    *ret_bytes = 0;
    for (struct dirent *entry; (entry = readdir(files));) {
        struct stat st;
        if (strcmp(entry->d_name, name) == 0 || fstatat(dirfd(files), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        if (*entry->d_name == '.') /* of an upload that was broken off: the lock is ours, so nobody writes it */
            unlinkat(dirfd(files), entry->d_name, 0);
        else
            *ret_bytes += (uint64_t)st.st_size, count++;
    }
    closedir(files);
    return count < TASK_MOST_FILES ? 0 : -EMFILE;
}

static int upload_begin(struct task_upload *upload, const struct task *task, const char *name, struct err *err)
{
    uint64_t others = 0, most = task_number(task->spec, "limits.disk_bytes");
    if (strcmp(task_state_name(task->state), "draft") != 0)
        return err_set(err, -EBUSY, "task %s is %s: files are for drafts", task->id, task_state_name(task->state));
    snprintf(upload->dir, sizeof upload->dir, "%.*s/files", PATH_MAX - 16, task->dir);
    int code = sum_files(upload->dir, name, &others);
    if (code == -EMFILE)
        return err_set(err, -ENOSPC, "task %s has %d files already", task->id, TASK_MOST_FILES);
    if (code < 0)
        return err_errno(err, code, "cannot read %s", upload->dir);
    upload->most = most > others ? most - others : 0;
    snprintf(upload->name, sizeof upload->name, "%s", name);
    snprintf(upload->part, sizeof upload->part, ".part-%d", getpid());
    _cleanup_(closep) int dir = open(upload->dir, O_DIRECTORY | O_CLOEXEC);
    upload->fd = file_open_own(dir, upload->part, O_WRONLY | O_CREAT | O_EXCL);
    return upload->fd < 0 ? err_errno(err, upload->fd, "cannot write into %s", upload->dir) : 0;
}

int task_upload_begin(const struct task_store *store, const char *id, const char *name, struct task_upload *ret_upload,
                      struct err *err)
{
    struct task task;
    *ret_upload = (struct task_upload){.fd = -1, .lock = -1};
    int code = task_file_name_check(name, err);
    if (code < 0)
        return code;
    code = task_load(store, id, &task, err);
    if (code == 0) {
        ret_upload->lock = task_lock(task.dir, TASK_FILES_LOCK, false);
        if (ret_upload->lock < 0)
            code = err_set(err, -EBUSY, "task %s is busy: one file at a time", id);
    }
    if (code == 0) {
        task_done(&task); /* it may have changed until the lock was ours */
        code = task_load(store, id, &task, err);
    }
    if (code == 0)
        code = upload_begin(ret_upload, &task, name, err);
    task_done(&task);
    if (code < 0 && ret_upload->lock >= 0)
        close(ret_upload->lock);
    return code;
}

int task_upload_write(struct task_upload *upload, const void *bytes, size_t size, struct err *err)
{
    if (size > upload->most - upload->bytes)
        return err_set(err, -EFBIG, "%.200s: the files of a task may take as much as its limits.disk_bytes",
                       upload->name);
    for (size_t at = 0; at < size;) {
        ssize_t wrote = write(upload->fd, (const char *)bytes + at, size - at);
        if (wrote < 0 && errno != EINTR)
            return err_errno(err, -errno, "cannot write %s/%.200s", upload->dir, upload->name);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    upload->bytes += size;
    return 0;
}

int task_upload_end(struct task_upload *upload, bool whole, struct err *err)
{
    _cleanup_(closep) int dir = open(upload->dir, O_DIRECTORY | O_CLOEXEC);
    int code = 0;
    /* it may be a program, and only the user gets at it; a page cannot say which files are some */
    if (whole && (fchmod(upload->fd, 0700) < 0 || renameat(dir, upload->part, dir, upload->name) < 0))
        code = err_errno(err, -errno, "cannot keep %s/%.200s", upload->dir, upload->name);
    if (!whole || code < 0)
        unlinkat(dir, upload->part, 0);
    close(upload->fd);
    close(upload->lock);
    return code;
}

int task_upload_copy(const struct task_store *store, const char *id, const char *path, struct err *err)
{
    enum { PIECE = 256 << 10 };
    struct task_upload upload;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "cannot read %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "%s is no file", path);
    _cleanup_(freep) char *piece = malloc(PIECE);
    int code = piece ? task_upload_begin(store, id, text_base(path), &upload, err) : -ENOMEM;
    if (code < 0)
        return code;
    for (ssize_t got; code == 0 && (got = read(fd, piece, PIECE)) != 0;)
        code = got < 0 ? err_errno(err, -errno, "cannot read %s", path)
                       : task_upload_write(&upload, piece, (size_t)got, err);
    int ended = task_upload_end(&upload, code == 0, err);
    return code < 0 ? code : ended;
}
