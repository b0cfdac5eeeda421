/* SPDX-License-Identifier: Apache-2.0 */
#include "task/launch.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "jobdir/text/text.h"
#include "task/estimate.h"
#include "task/spec.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TASK_LAUNCH_WORDS = 16 << 10 };

extern char **environ;

/* ---- words ---- */

static void word_add(struct task_launch *launch, const char *word)
{
    if (launch->argc + 1 >= TASK_LAUNCH_WORDS)
        launch->memory.failed = true;
    if (!launch->memory.failed)
        launch->argv[launch->argc++] = arena_dup(&launch->memory, word, strlen(word));
}

static void add_list(struct task_launch *launch, const json_t *texts)
{
    json_t *each;
    size_t i;
    json_array_foreach(texts, i, each) word_add(launch, json_string_value(each));
}

#define ADD_PRINTF(launch, ...) word_add(launch, arena_printf(&(launch)->memory, __VA_ARGS__) ?: "")

/* The words so far as one line of a shell; they are forgotten. */
static char *take_line(struct task_launch *launch)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    for (size_t i = 0; i < launch->argc; i++) {
        buf_puts(&line, i ? " " : "");
        text_quote(&line, launch->argv[i]);
    }
    launch->argc = 0;
    return line.failed || !line.data ? NULL : arena_dup(&launch->memory, line.data, line.len);
}

/* The path of `scry`, from its own programs. -ENOENT. */
static int task_scry_path(char *ret_path, size_t size, struct err *err)
{
    static const char *const beside[] = {"", "/../../bin", "/../cli", "/../../cli", "/../bin"};
    const char *libexec = getenv("SCRY_LIBEXEC"), *program = getenv("SCRY_PROGRAM");
    char own[PATH_MAX];
    if (program && *program == '/' && (size_t)snprintf(ret_path, size, "%s", program) < size &&
        access(ret_path, X_OK) == 0)
        return 0;
    if (libexec && *libexec && (size_t)snprintf(ret_path, size, "%s/../bin/scry", libexec) < size &&
        access(ret_path, X_OK) == 0)
        return 0;
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    own[len > 0 ? len : 0] = 0;
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++)
        if ((size_t)snprintf(ret_path, size, "%s%s/scry", own, beside[i]) < size && access(ret_path, X_OK) == 0)
            return 0;
    return err_set(err, -ENOENT, "cannot find scry beside its own programs in %.300s: install it again", own);
}

/* ---- the environment ---- */

static const char *task_variable(const struct task *task, const char *name)
{
    const char *own = json_string_value(json_object_get(task_member(task->spec, "environment"), name));
    return own ? own : getenv(name);
}

/* `far`: what runs there says whose it is; there may be this machine, where that must not mean ssh itself. */
static void make_environment(struct task_launch *launch, const struct task *task, bool far)
{
    json_t *own = task_member(task->spec, "environment"), *value;
    const char *name;
    size_t count = 0, at = 0;
    while (environ[count])
        count++;
    launch->environment = arena_zalloc(&launch->memory, count + json_object_size(own) + 2, sizeof *launch->environment);
    for (size_t i = 0; i < count && launch->environment; i++) {
        char key[256];
        size_t len = strcspn(environ[i], "=");
        snprintf(key, sizeof key, "%.*s", (int)len, environ[i]);
        if (len >= sizeof key || !json_object_get(own, key))
            launch->environment[at++] = environ[i];
    }
    if (launch->environment)
        launch->environment[at++] = arena_printf(&launch->memory, "SCRY_TASK=%s", far ? "" : task->id);
    json_object_foreach(own, name, value) if (launch->environment) launch->environment[at++] =
        arena_printf(&launch->memory, "%s=%s", name, json_string_value(value));
}

/* The first of these programs that the path has. */
static bool find_program(const char *path, const char *const *names, char ret_path[PATH_MAX])
{
    for (; *names; names++)
        for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; *at;) {
            size_t len = strcspn(at, ":");
            if (len && (size_t)snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)len, at, *names) < PATH_MAX &&
                access(ret_path, X_OK) == 0)
                return true;
            at += len + (at[len] == ':');
        }
    return false;
}

/* ---- the program ---- */

/* An uploaded file, or as it was given. */
static const char *program_of(struct task_launch *launch, const struct task *task, bool here)
{
    const char *program = task_text(task->spec, "program");
    char *uploaded = arena_printf(&launch->memory, "%s/files/%s", task->dir, program);
    if (strchr(program, '/') || !uploaded || access(uploaded, F_OK) < 0)
        return program;
    return here ? uploaded : arena_printf(&launch->memory, "./%s", program);
}

static void path_of(const struct task_launch *launch, const char *program, char *ret_path, size_t size)
{
    snprintf(ret_path, size, "%s%s%s", *program == '/' ? "" : launch->directory, *program == '/' ? "" : "/", program);
}

static enum task_mpi program_mpi(const struct task_launch *launch, const char *program)
{
    char path[PATH_MAX * 2];
    path_of(launch, program, path, sizeof path);
    return task_mpi_of(path);
}

static bool names_python(const char *word)
{
    return strncmp(text_base(word), "python", 6) == 0;
}

/* Python, or a script that begins with #! and it? None of its functions has hooks, and its user can compile nothing. */
static bool is_python(const struct task_launch *launch, const char *program)
{
    char path[PATH_MAX * 2], head[128] = "", *word, *left = head + 2;
    path_of(launch, program, path, sizeof path);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = names_python(program);
    if (fd < 0 || read(fd, head, sizeof head - 1) < 2 || strncmp(head, "#!", 2) != 0)
        return is;
    head[strcspn(head, "\n")] = 0;
    while ((word = strsep(&left, " \t"))) /* env may stand before it */
        is = is || names_python(word);
    return is;
}

static const char *const allow_root[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", NULL};

/* host:SLOTS,host:SLOTS, so that there is room for all processes. NULL: none were named. */
static const char *hosts_of(struct task_launch *launch, const struct task *task)
{
    json_t *hosts = task_member(task->spec, "launch.hosts"), *each;
    size_t count = json_array_size(hosts), i;
    uint64_t processes = task_number(task->spec, "processes");
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!count)
        return NULL;
    json_array_foreach(hosts, i, each) buf_printf(&text, "%s%s:%llu", i ? "," : "", json_string_value(each),
                                                  (unsigned long long)((processes + count - 1) / count));
    return text.failed ? NULL : arena_dup(&launch->memory, text.data, text.len);
}

static bool is_openmpi(const char *mpirun)
{
    static const char *const programs[] = {"orterun", "mpirun.openmpi", "prterun"};
    char real[PATH_MAX];
    bool is = false;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && realpath(mpirun, real); i++)
        is = is || strcmp(text_base(real), programs[i]) == 0;
    return is;
}

/* Open MPI has no programs of root's unless one says that one knows what that means, and an environment of a task has only what
 * it was given. Of an mpirun that may be another MPI's nobody knows it. */
static int check_root(const struct task *task, const char *mpirun, bool in_batch, struct err *err)
{
    bool allowed = true;
    json_t *option;
    size_t i;
    if (geteuid() != 0 || !is_openmpi(mpirun))
        return 0;
    for (i = 0; allow_root[i]; i++)
        allowed = allowed && json_object_get(task_member(task->spec, "environment"), allow_root[i]);
    json_array_foreach(task_member(task->spec, "launch.options"), i, option) allowed =
        allowed || (!in_batch && strcmp(json_string_value(option), "--allow-run-as-root") == 0);
    if (allowed)
        return 0;
    return err_set(
        err, -EPERM,
        "Open MPI starts nothing for root: submit it as another user, or, if that is meant, with --env %s=1 --env "
        "%s=1",
        allow_root[0], allow_root[1]);
}

bool task_launch_has(const char *by, const char *const **ret_root)
{
    static const struct {
        const char *by, *programs[3];
    } ways[] = {{"mpirun", {"mpirun", "mpiexec"}}, {"slurm", {"sbatch"}}, {"ssh", {"ssh"}}};
    char path[PATH_MAX];
    *ret_root = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].by, by) == 0) {
            bool has = find_program(getenv("PATH"), ways[i].programs, path);
            if (has && i == 0 && geteuid() == 0 && is_openmpi(path))
                *ret_root = allow_root;
            return has;
        }
    return strcmp(by, "plain") == 0;
}

static int add_mpirun(struct task_launch *launch, const struct task *task, const char *program, bool in_batch,
                      struct err *err)
{
    static const char *const openmpi[] = {"mpirun.openmpi", "mpirun", NULL},
                             *const mpich[] = {"mpirun.mpich", "mpiexec.hydra", "mpirun", NULL},
                             *const any[] = {"mpirun", "mpiexec", NULL};
    static const char *const *const names[] = {
        [TASK_MPI_UNKNOWN] = any, [TASK_MPI_OPENMPI] = openmpi, [TASK_MPI_MPICH] = mpich};
    char path[PATH_MAX];
    enum task_mpi mpi = program_mpi(launch, program);
    const char *hosts = hosts_of(launch, task);
    if (!find_program(task_variable(task, "PATH"), names[mpi], path))
        return err_set(err, -ENOENT, "there is no %s in the PATH of the task: install MPI, or launch it by plain",
                       names[mpi][0]);
    bool is_mpich = mpi == TASK_MPI_MPICH || (mpi == TASK_MPI_UNKNOWN && strstr(path, "mpich"));
    int code = check_root(task, path, in_batch, err);
    if (code < 0)
        return code;
    word_add(launch, path);
    word_add(launch, "-n");
    ADD_PRINTF(launch, "%llu", (unsigned long long)task_number(task->spec, "processes"));
    if (!in_batch && !is_mpich)
        word_add(launch, "--oversubscribe"); /* so many processes were asked for, whatever the machine has */
    if (hosts && !in_batch) {
        word_add(launch, is_mpich ? "-hosts" : "--host");
        word_add(launch, hosts);
    }
    if (!in_batch)
        add_list(launch, task_member(task->spec, "launch.options"));
    return 0;
}

/* FILE=REGEX, as scry run has it; of what the program prints, too: that is in a file here. */
static void add_log(struct task_launch *launch, const char *log, bool far)
{
    bool is_err;
    const char *regex = far_log_of_output(log, &is_err);
    if (!regex)
        ADD_PRINTF(launch, "--log=%s", log);
    else if (!far) /* there the file is another one */
        ADD_PRINTF(launch, "--log=%s=%s", is_err ? launch->err : launch->out, regex);
}

/* scry run, up to the command. Without `scry`, what follows `scry run --output=DIR`. */
static void add_scry_run(struct task_launch *launch, const struct task *task, const char *scry, const char *output,
                         bool collects)
{
    const char *name = task_text(task->spec, "name");
    json_t *functions = task_member(task->spec, "collect.functions"), *each;
    size_t i;
    if (scry) {
        word_add(launch, scry);
        word_add(launch, "run");
        ADD_PRINTF(launch, "--output=%s", output);
    }
    word_add(launch, "--quiet");
    if (*name)
        ADD_PRINTF(launch, "--name=%s", name);
    /* the other half is for what the program writes */
    ADD_PRINTF(launch, "--max-size=%llu", (unsigned long long)task_number(task->spec, "limits.disk_bytes") / 2);
    bool traces = collects && !is_python(launch, program_of(launch, task, true));
    json_array_foreach(functions, i, each) if (traces) ADD_PRINTF(launch, "--trace=%s", json_string_value(each));
    json_array_foreach(task_member(task->spec, "collect.logs"), i, each) if (collects)
        add_log(launch, json_string_value(each), !scry);
    if (traces && json_array_size(functions) && task_flag(task->spec, "collect.arguments"))
        word_add(launch, "--args");
    if (collects)
        ADD_PRINTF(launch, "--mpi=%s", task_text(task->spec, "collect.mpi"));
    word_add(launch, "--");
}

static int add_program(struct task_launch *launch, const struct task *task, const char *scry, bool here,
                       struct err *err)
{
    const char *program = program_of(launch, task, here), *by = task_text(task->spec, "launch.by");
    int code = 0;
    bool mpi = strcmp(by, "plain") != 0 &&
               (strcmp(by, "mpirun") == 0 || task_number(task->spec, "processes") > 1 || program_mpi(launch, program));
    if (mpi && !here) { /* the PATH there says which */
        word_add(launch, "mpirun");
        word_add(launch, "-n");
        ADD_PRINTF(launch, "%llu", (unsigned long long)task_number(task->spec, "processes"));
        add_list(launch, task_member(task->spec, "launch.options"));
    } else if (mpi) {
        bool in_batch = strcmp(by, "slurm") == 0;
        code = add_mpirun(launch, task, program, in_batch, err);
        if (in_batch) { /* there srun starts the ranks of other nodes, of which nobody knows but those themselves */
            word_add(launch, scry);
            word_add(launch, "exec");
        }
    }
    word_add(launch, program);
    add_list(launch, task_member(task->spec, "arguments"));
    return code;
}

/* ---- Slurm ---- */

static int make_slurm(struct task_launch *launch, const struct task *task, uint64_t run, struct err *err)
{
    char script[PATH_MAX], sbatch[PATH_MAX];
    static const char *const names[] = {"sbatch", NULL};
    json_t *hosts = task_member(task->spec, "launch.hosts"), *each;
    size_t i;
    _cleanup_(buf_done) struct buf list = BUF_INIT, text = BUF_INIT;
    char *line = take_line(launch);
    if (!find_program(task_variable(task, "PATH"), names, sbatch))
        return err_set(err, -ENOENT,
                       "there is no sbatch in the PATH of the task: install Slurm, or launch it by mpirun");
    snprintf(script, sizeof script, "%.*s/runs/%llu.sh", PATH_MAX - 64, task->dir, (unsigned long long)run);
    buf_puts(&text, "#!/bin/sh\numask 077\n");
    far_put_limits(&text, task);
    buf_printf(&text, "\nexec %s\n", line ? line : "");
    int code = text.failed || !line ? -ENOMEM : file_replace_soon(script, text.data, text.len, 0700);
    if (code < 0)
        return err_errno(err, code, "cannot write %s", script);
    word_add(launch, sbatch);
    word_add(launch, "--parsable");
    word_add(launch, "--wait"); /* it ends with the job */
    word_add(launch, "--no-requeue");
    ADD_PRINTF(launch, "--ntasks=%llu", (unsigned long long)task_number(task->spec, "processes"));
    ADD_PRINTF(launch, "--chdir=%s", launch->directory);
    ADD_PRINTF(launch, "--output=%s/runs/%llu.out", task->dir, (unsigned long long)run);
    ADD_PRINTF(launch, "--error=%s/runs/%llu.err", task->dir, (unsigned long long)run);
    if (task_number(task->spec, "limits.seconds")) /* a minute more: scry ends it first, and says why */
        ADD_PRINTF(launch, "--time=%llu", (unsigned long long)task_number(task->spec, "limits.seconds") / 60 + 2);
    if (task_number(task->spec, "limits.memory_bytes"))
        ADD_PRINTF(launch, "--mem=%lluM", (unsigned long long)(task_number(task->spec, "limits.memory_bytes") >> 20));
    if (task_text(task->spec, "launch.partition"))
        ADD_PRINTF(launch, "--partition=%s", task_text(task->spec, "launch.partition"));
    json_array_foreach(hosts, i, each) buf_printf(&list, "%s%s", i ? "," : "", json_string_value(each));
    if (list.len)
        ADD_PRINTF(launch, "--nodelist=%s", list.data);
    add_list(launch, task_member(task->spec, "launch.options"));
    word_add(launch, script);
    snprintf(launch->out, sizeof launch->out, "%.*s/runs/%llu.batch", PATH_MAX - 64, task->dir,
             (unsigned long long)run);
    snprintf(launch->err, sizeof launch->err, "%.*s/runs/%llu.batch.err", PATH_MAX - 64, task->dir,
             (unsigned long long)run);
    launch->file_bytes = launch->data_bytes = 0; /* of sbatch, which needs none */
    return 0;
}

/* ---- ssh ---- */

static void add_shell(struct task_launch *launch, const struct buf *script)
{
    launch->argc = 0;
    if (script->failed)
        launch->memory.failed = true;
    word_add(launch, "/bin/sh");
    word_add(launch, "-c");
    word_add(launch, script->data ? script->data : "");
}

static int make_ssh(struct task_launch *launch, const struct task *task, uint64_t run)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    char *line = take_line(launch);
    far_put_start(&script, task, run, line ? line : "");
    add_shell(launch, &script);
    return line ? 0 : -ENOMEM;
}

/* ---- all of it ---- */

static int launch_begin(struct task_launch *launch, const struct task *task, const char *what, uint64_t run, bool far)
{
    const char *directory = task_text(task->spec, "directory");
    *launch = (struct task_launch){0};
    launch->argv = arena_zalloc(&launch->memory, TASK_LAUNCH_WORDS, sizeof *launch->argv);
    snprintf(launch->directory, sizeof launch->directory, "%.*s%s", PATH_MAX - 8, directory ? directory : task->dir,
             directory ? "" : "/files");
    snprintf(launch->out, sizeof launch->out, "%.*s/runs/%.8s%llu.out", PATH_MAX - 64, task->dir, what,
             (unsigned long long)run);
    snprintf(launch->err, sizeof launch->err, "%.*s/runs/%.8s%llu.err", PATH_MAX - 64, task->dir, what,
             (unsigned long long)run);
    launch->file_bytes = task_number(task->spec, "limits.disk_bytes");
    launch->data_bytes = task_number(task->spec, "limits.memory_bytes");
    make_environment(launch, task, far);
    return launch->argv && launch->environment ? 0 : -ENOMEM;
}

int task_launch_make(struct task_launch *ret_launch, const struct task *task, enum task_step step, uint64_t run,
                     struct err *err)
{
    static const char *const names[] = {[TASK_BUILD] = "build", [TASK_RUN] = "", [TASK_GATHER] = "gather"};
    char scry[PATH_MAX], *output;
    const char *by = task_text(task->spec, "launch.by");
    bool ssh = strcmp(by, "ssh") == 0;
    int code = launch_begin(ret_launch, task, names[step], run, ssh && step != TASK_BUILD);
    if (code == 0)
        code = task_scry_path(scry, sizeof scry, err);
    if (code < 0)
        return code == -ENOMEM ? err_set(err, code, "out of memory") : code;
    if ((step == TASK_BUILD && !task_text(task->spec, "build")) || (step == TASK_GATHER && !ssh))
        return 1;
    if (step == TASK_GATHER) {
        _cleanup_(buf_done) struct buf script = BUF_INIT;
        far_put_gather(&script, task, run);
        add_shell(ret_launch, &script);
    } else {
        output = step == TASK_BUILD
                     ? arena_printf(&ret_launch->memory, "%s/runs/build%llu", task->dir, (unsigned long long)run)
                     : arena_printf(&ret_launch->memory, "%s/runs/%llu", task->dir, (unsigned long long)run);
        add_scry_run(ret_launch, task, ssh && step == TASK_RUN ? NULL : scry, output ? output : "", step == TASK_RUN);
    }
    if (step == TASK_BUILD) {
        word_add(ret_launch, "/bin/sh");
        word_add(ret_launch, "-c");
        word_add(ret_launch, task_text(task->spec, "build"));
    } else if (step == TASK_RUN) {
        code = add_program(ret_launch, task, scry, !ssh, err);
        if (code == 0 && ssh)
            code = make_ssh(ret_launch, task, run);
        else if (code == 0 && strcmp(by, "slurm") == 0)
            code = make_slurm(ret_launch, task, run, err);
    }
    return code == 0 && ret_launch->memory.failed ? err_set(err, -ENOMEM, "out of memory") : code;
}

int task_launch_signal(struct task_launch *ret_launch, const struct task *task, uint64_t run, const char *batch_job,
                       const char *signal, const char *stop, struct err *err)
{
    const char *by = task_text(task->spec, "launch.by");
    bool last = strcmp(signal, "KILL") == 0;
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    int code = launch_begin(ret_launch, task, "signal", run, true); /* it is none of those that are to end */
    if (code < 0)
        return err_set(err, code, "out of memory");
    if (strcmp(by, "slurm") == 0) {
        if (!batch_job)
            return 1; /* it is not submitted yet: sbatch itself is to end */
        if (!last)    /* nobody there would get a signal */
            buf_printf(&script, "scancel --state=PENDING %s; ", batch_job);
        buf_printf(&script, "exec scancel %s %s", last ? "" : "--signal=TERM --batch", batch_job);
    } else if (strcmp(by, "ssh") == 0) {
        far_put_signal(&script, task, run, signal, stop);
    } else {
        return 1;
    }
    add_shell(ret_launch, &script);
    return ret_launch->memory.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

int task_launch_ask(struct task_launch *ret_launch, const struct task *task, const char *batch_job, struct err *err)
{
    static const char *const names[] = {"squeue", NULL};
    char squeue[PATH_MAX];
    int code = launch_begin(ret_launch, task, "", 0, true);
    if (code < 0)
        return err_set(err, code, "out of memory");
    if (!find_program(task_variable(task, "PATH"), names, squeue))
        return err_set(err, -ENOENT, "there is no squeue in the PATH of the task");
    word_add(ret_launch, squeue);
    word_add(ret_launch, "--noheader");
    word_add(ret_launch, "--states=PENDING");
    word_add(ret_launch, "--format=%r");
    ADD_PRINTF(ret_launch, "--jobs=%s", batch_job);
    return ret_launch->memory.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

void task_launch_done(struct task_launch *launch)
{
    arena_done(&launch->memory);
}

/* Which MPI a program needs: the names of libraries in its dynamic section. Nothing of the program is executed. */

enum { MOST_HEADERS = 64, MOST_DYNAMIC = 4096, NAME_BYTES = 64 };

static bool read_at(int fd, void *ret, size_t size, uint64_t at)
{
    return at < INT64_MAX && pread(fd, ret, size, (off_t)at) == (ssize_t)size;
}

/* Where the bytes at an address of the loaded program are in its file. */
static uint64_t file_offset(const Elf64_Phdr *headers, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (headers[i].p_type == PT_LOAD && address >= headers[i].p_vaddr &&
            address - headers[i].p_vaddr < headers[i].p_filesz)
            return headers[i].p_offset + (address - headers[i].p_vaddr);
    return UINT64_MAX;
}

/* MPICH and its relatives agreed on the number 12; Debian's MPICH has names of its own. A program of Fortran or C++ may need
 * the library of its language alone. */
static enum task_mpi mpi_of_name(const char *name)
{
    static const struct {
        const char *begin;
        enum task_mpi mpi;
    } rows[] = {{"libmpich.so", TASK_MPI_MPICH},      {"libmpichfort.so", TASK_MPI_MPICH},
                {"libmpichcxx.so", TASK_MPI_MPICH},   {"libmpi.so.12", TASK_MPI_MPICH},
                {"libmpifort.so.12", TASK_MPI_MPICH}, {"libmpicxx.so.12", TASK_MPI_MPICH},
                {"libmpi.so", TASK_MPI_OPENMPI},      {"libmpi_mpifh", TASK_MPI_OPENMPI},
                {"libmpi_usempi", TASK_MPI_OPENMPI},  {"libmpi_cxx.so", TASK_MPI_OPENMPI}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(name, rows[i].begin, strlen(rows[i].begin)) == 0)
            return rows[i].mpi;
    return TASK_MPI_UNKNOWN;
}

static enum task_mpi mpi_of_dynamic(int fd, const Elf64_Phdr *headers, size_t count, const Elf64_Phdr *dynamic)
{
    size_t entries = dynamic->p_filesz / sizeof(Elf64_Dyn);
    uint64_t names = UINT64_MAX;
    entries = entries < MOST_DYNAMIC ? entries : MOST_DYNAMIC;
    _cleanup_(freep) Elf64_Dyn *all = calloc(entries + 1, sizeof *all);
    if (!all || !read_at(fd, all, entries * sizeof *all, dynamic->p_offset))
        return TASK_MPI_UNKNOWN;
    for (size_t i = 0; i < entries; i++)
        if (all[i].d_tag == DT_STRTAB)
            names = file_offset(headers, count, all[i].d_un.d_ptr);
    for (size_t i = 0; i < entries && names != UINT64_MAX; i++) {
        char name[NAME_BYTES + 1] = "";
        if (all[i].d_tag != DT_NEEDED || all[i].d_un.d_val > UINT32_MAX)
            continue;
        if (pread(fd, name, NAME_BYTES, (off_t)(names + all[i].d_un.d_val)) > 0 && mpi_of_name(name))
            return mpi_of_name(name);
    }
    return TASK_MPI_UNKNOWN;
}

enum task_mpi task_mpi_of(const char *path)
{
    Elf64_Ehdr head;
    Elf64_Phdr headers[MOST_HEADERS];
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof *headers || head.e_phnum > MOST_HEADERS ||
        !read_at(fd, headers, head.e_phnum * sizeof *headers, head.e_phoff))
        return TASK_MPI_UNKNOWN;
    for (size_t i = 0; i < head.e_phnum; i++)
        if (headers[i].p_type == PT_DYNAMIC)
            return mpi_of_dynamic(fd, headers, head.e_phnum, &headers[i]);
    return TASK_MPI_UNKNOWN;
}

/* ---- on a host that is reached by ssh and shares no files with this one ---- */

/* Its files have reached the other machine; all of it is here. Empty, and made or renamed where a disk is full, too (near.sh). */
#define SENT "runs/.%llu.sent"
#define HERE "runs/.%llu.here"

static const char far_sh[] =
#include "task/far.sh.inc"
    ;
static const char near_sh[] =
#include "task/near.sh.inc"
    ;

const char *far_log_of_output(const char *log, bool *ret_is_err)
{
    *ret_is_err = strncmp(log, "stderr=", 7) == 0;
    return *ret_is_err || strncmp(log, "stdout=", 7) == 0 ? log + 7 : NULL;
}

void far_put_limits(struct buf *far, const struct task *task)
{
    enum { UNIT = 512, KB = 1024 }; /* of ulimit, by POSIX; -d is no part of it */
    uint64_t memory = task_number(task->spec, "limits.memory_bytes");
    buf_printf(far, "ulimit -f %llu; ", (unsigned long long)(task_number(task->spec, "limits.disk_bytes") / UNIT));
    if (memory)
        buf_printf(far, "ulimit -d %llu; ", (unsigned long long)(memory / KB));
}

/* What is executed there, up to a call. */
static void far_begin(struct buf *ret_script, const struct task *task, uint64_t run)
{
    buf_printf(ret_script, "%sbegin %s %llu %g; ", far_sh, task->id, (unsigned long long)run, time_hasten(1000) / 1e3);
}

/* `sh -c SCRIPT`, for whatever login shell there is: to each of them all is plain between these single quotes. */
static void far_put_line(struct buf *out, const struct buf *script)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    buf_puts(&line, "sh -c 'eval \"$(printf %b \"$1\")\"' sh '");
    for (size_t i = 0; i < script->len; i++)
        buf_printf(&line, strchr("\n\\!'", script->data[i]) ? "\\0%03o" : "%c", (unsigned char)script->data[i]);
    buf_putc(&line, '\'');
    buf_putc(out, ' ');
    text_quote(out, line.data ? line.data : "");
    if (script->failed || line.failed)
        out->failed = true;
}

/* The same for a function, with its arguments. */
static void far_put_call(struct buf *out, const struct task *task, uint64_t run, const char *call)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    far_begin(&script, task, run);
    buf_puts(&script, call);
    far_put_line(out, &script);
}

/* What is executed here, up to the arguments of a call. */
static void near_begin(struct buf *out, const struct task *task, uint64_t run, const char *call)
{
    const char *host = json_string_value(json_array_get(task_member(task->spec, "launch.hosts"), 0));
    const char *ssh = getenv("SCRY_SSH"); /* as everywhere in scry (link/transport.c) */
    buf_printf(out, "%sbegin ", near_sh);
    text_quote(out, task->dir);
    buf_printf(out, " %llu ", (unsigned long long)run);
    text_quote(out, ssh && *ssh ? ssh : "ssh");
    buf_putc(out, ' ');
    text_quote(out, host ? host : "localhost");
    buf_printf(out, "; %s", call);
}

static void far_put_environment(struct buf *out, const struct task *task)
{
    const char *name;
    json_t *value;
    buf_printf(out, " env SCRY_TASK=%s", task->id);
    json_object_foreach(task_member(task->spec, "environment"), name, value)
    {
        buf_printf(out, " %s=", name);
        text_quote(out, json_string_value(value));
    }
}

void far_put_start(struct buf *out, const struct task *task, uint64_t run, const char *line)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    const char *directory = task_text(task->spec, "directory");
    json_t *log;
    size_t i;
    far_begin(&script, task, run);
    buf_puts(&script, "PATH=$PATH:$HOME/.local/bin; ");
    far_put_limits(&script, task);
    buf_puts(&script, "start ");
    text_quote(&script, directory ? directory : "");
    far_put_environment(&script, task);
    buf_puts(&script, " scry run --output=\"$t/runs/$run\"");
    json_array_foreach(task_member(task->spec, "collect.logs"), i, log)
    {
        bool err;
        const char *regex = far_log_of_output(json_string_value(log), &err);
        if (!regex)
            continue;
        buf_printf(&script, " --log=\"$t/runs/$run.%s\"=", err ? "err" : "out");
        text_quote(&script, regex);
    }
    buf_printf(&script, " %s", line);
    near_begin(out, task, run, "start");
    far_put_call(out, task, run, "receive");
    far_put_line(out, &script);
}

void far_put_gather(struct buf *out, const struct task *task, uint64_t run)
{
    char send[32];
    snprintf(send, sizeof send, "send %d", TASK_BYTES_DIGITS);
    near_begin(out, task, run, "gather");
    buf_printf(out, " %d", TASK_BYTES_DIGITS);
    far_put_call(out, task, run, send);
    far_put_call(out, task, run, "remove");
}

enum far_came far_came(const struct task *task, uint64_t run)
{
    char path[PATH_MAX + 64], digits[TASK_BYTES_DIGITS + 1] = "";
    snprintf(path, sizeof path, "%s/" HERE, task->dir, (unsigned long long)run);
    if (access(path, F_OK) == 0)
        return FAR_WHOLE;
    snprintf(path, sizeof path, "%s/" TASK_BYTES_FILE, task->dir, (unsigned long long)run);
    _cleanup_(fclosep) FILE *file = file_open_plain(path);
    if (file && fread(digits, 1, TASK_BYTES_DIGITS, file) == TASK_BYTES_DIGITS)
        return strspn(digits, "0") < TASK_BYTES_DIGITS ? FAR_PART : FAR_NOTHING;
    snprintf(path, sizeof path, "%s/" SENT, task->dir, (unsigned long long)run);
    return access(path, F_OK) == 0 ? FAR_SILENT : FAR_NOTHING;
}

void far_put_signal(struct buf *out, const struct task *task, uint64_t run, const char *signal, const char *stop)
{
    char end[64];
    snprintf(end, sizeof end, "end %s %s", signal, stop ? stop : "");
    near_begin(out, task, run, "far");
    far_put_call(out, task, run, end);
}
