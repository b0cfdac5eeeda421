/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/propagate.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "job/launch/program.h"
#include "job/launch/launch.h"
#include "jobdir/record/info.h"
#include "jobdir/record/parts.h"

static const char OMPI[] = "OMPI_MCA_plm_rsh_agent", HYDRA[] = "HYDRA_LAUNCHER_EXEC";

void propagation_find(struct propagation *ret_propagation, const char *id, const char *dir, const char *host,
                      const char *options)
{
    char scry[PATH_MAX];
    struct buf text = BUF_INIT;
    *ret_propagation = (struct propagation){0};
    ssize_t len = readlink("/proc/self/exe", scry, sizeof scry - 1);
    if (len <= 0)
        return;
    scry[len] = '\0';
    if (strpbrk(dir, "\t\n") || strpbrk(scry, "\t\n") || strpbrk(host, "\t\n"))
        return; /* no shell and no launcher would hand that on */
    buf_printf(&text, "%s\t%s\t%s\t%s%s%s", host, id, dir, scry, *options ? "\t" : "", options);
    ret_propagation->part = text.failed ? NULL : TAKE_PTR(text.data);
    buf_done(&text);
    if (dirs_libexec("scry-rsh", ret_propagation->rsh, sizeof ret_propagation->rsh, NULL) < 0 ||
        strpbrk(ret_propagation->rsh, " :\t\n"))
        ret_propagation->rsh[0] = '\0'; /* Open MPI takes blanks and colons for separators */
}

void propagation_done(struct propagation *propagation)
{
    free(propagation->part);
    free(propagation->join);
    propagation->part = propagation->join = NULL;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* A batch system that starts the daemons itself: the launchers look at the same variables. */
static bool is_started_by_batch(void)
{
    static const char *const names[] = {"SLURM_JOB_ID", "SLURM_JOBID",   "PBS_NODEFILE", "LSB_MCPU_HOSTS",
                                        "LSB_HOSTS",    "LOADL_STEP_ID", "PE_HOSTFILE",  "COBALT_NODEFILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_set(names[i]))
            return true;
    return false;
}

/* Words that begin lines of a file of nodes, or are apart by blanks, and not the same. */
static bool are_several(const char *text, const char *separators, bool lines)
{
    size_t first = strcspn(text, separators), len;
    for (const char *at = text; *at; at += len) {
        len = strcspn(at, separators);
        if (len && (len != first || strncmp(at, text, len) != 0))
            return true;
        len = lines ? strcspn(at, "\n") : len;
        len += strspn(at + len, separators);
    }
    return false;
}

/* Whether a command or a script has the name of a program by which Slurm gives nodes. It may be in a comment: then only a
 * port is open for nothing. */
static bool names_slurm(const char *text)
{
    static const char *const names[] = {"srun", "salloc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (const char *at = text; (at = strstr(at, names[i])); at++) {
            char before = at == text ? ' ' : at[-1], behind = at[strlen(names[i])];
            if (!isalnum((unsigned char)before) && !strchr("_-.", before) && !isalnum((unsigned char)behind) &&
                (!behind || !strchr("_-.", behind)))
                return true;
        }
    return false;
}

static bool is_script_of_slurm(const char *path)
{
    enum { SCRIPT_BYTES = 256 << 10 };
    struct stat st;
    size_t size;
    _cleanup_(freep) char *text = NULL;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= SCRIPT_BYTES &&
           file_read(path, &text, &size) == 0 && strlen(text) == size && names_slurm(text);
}

static bool asks_slurm(char *const *command)
{
    struct program srun;
    bool asks = false;
    for (; *command && !asks; command++)
        asks = names_slurm(*command) || is_script_of_slurm(*command);
    if (asks)
        program_look(&srun, "srun");
    return asks && srun.path[0];
}

bool propagation_is_by_batch(char *const *command)
{
    static const char *const counts[] = {"SLURM_JOB_NUM_NODES", "SLURM_NNODES", "PBS_NUM_NODES"};
    static const char *const files[] = {"PBS_NODEFILE", "PE_HOSTFILE"};
    const char *hosts = getenv("LSB_HOSTS");
    bool several = asks_slurm(command) || (hosts && are_several(hosts, " ", false));
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !several; i++)
        several = is_set(counts[i]) && strtol(getenv(counts[i]), NULL, 10) > 1;
    for (size_t i = 0; i < sizeof files / sizeof *files && !several; i++) {
        _cleanup_(freep) char *text = NULL;
        several = is_set(files[i]) && file_read(getenv(files[i]), &text, NULL) == 0 && are_several(text, " \t\n", true);
    }
    return several;
}

/* The user has chosen for all jobs; an environment variable would win over that. */
static bool is_in_file(const char *text)
{
    const char *home = getenv("HOME");
    char path[PATH_MAX];
    _cleanup_(freep) char *bytes = NULL;
    return home && (size_t)snprintf(path, sizeof path, "%s/.openmpi/mca-params.conf", home) < sizeof path &&
           file_read(path, &bytes, NULL) == 0 && strstr(bytes, text);
}

static bool is_ours(const char *value)
{
    return strstr(value, "/scry-rsh") != NULL;
}

static void lead_ompi(const char *rsh)
{
    _cleanup_(buf_done) struct buf value = BUF_INIT;
    const char *before = getenv(OMPI);
    if (before && is_ours(before))
        return; /* an outer job's: the inner one's variables are there as well */
    if (is_in_file("plm_rsh_agent"))
        return;
    before = before && *before ? before : "ssh : rsh";
    buf_printf(&value, "%s ompi : %s", rsh, before); /* the others serve nodes without scry */
    if (value.failed)
        return;
    setenv("SCRY_RSH_OMPI", before, 1);
    setenv(OMPI, value.data, 1);
}

static void lead_hydra(const char *rsh)
{
    const char *launcher = is_set("HYDRA_LAUNCHER") ? getenv("HYDRA_LAUNCHER") : getenv("HYDRA_BOOTSTRAP");
    const char *before = is_set(HYDRA) ? getenv(HYDRA) : getenv("HYDRA_BOOTSTRAP_EXEC");
    launcher = launcher && *launcher ? launcher : "ssh";
    if ((strcmp(launcher, "ssh") != 0 && strcmp(launcher, "rsh") != 0) || (before && is_ours(before)))
        return;
    setenv("SCRY_RSH_HYDRA", before && *before ? before : launcher, 1);
    setenv(HYDRA, rsh, 1);
}

void propagation_apply(const struct propagation *propagation)
{
    if (!propagation->part) {
        unsetenv("SCRY_PART");
        unsetenv("SCRY_PART_HERE");
        unsetenv("SCRY_JOIN");
        return;
    }
    if (propagation->join)
        setenv("SCRY_JOIN", propagation->join, 1);
    else
        unsetenv("SCRY_JOIN");
    setenv("SCRY_PART", propagation->part, 1);
    if (propagation->is_part)
        setenv("SCRY_PART_HERE", "1", 1);
    else
        unsetenv("SCRY_PART_HERE");
    if (!propagation->rsh[0] || access(propagation->rsh, X_OK) < 0 || is_started_by_batch())
        return;
    lead_ompi(propagation->rsh);
    lead_hydra(propagation->rsh);
}

/* ---- scry exec ---- */

enum { PART_HOST, PART_ID, PART_DIR, PART_SCRY, PART_WORDS, PART_MOST = 256 };

/* The words of SCRY_PART; malloc'ed text, NULL: there is none, or it is damaged. */
static char *take_part(char *ret_words[PART_MOST], size_t *ret_count)
{
    const char *given = getenv("SCRY_PART");
    char *text = given ? strdup(given) : NULL, *rest = text;
    *ret_count = 0;
    for (char *each; *ret_count < PART_MOST && (each = strsep(&rest, "\t"));)
        ret_words[(*ret_count)++] = each;
    if (*ret_count >= PART_WORDS && *ret_count < PART_MOST)
        return text;
    free(text);
    return NULL;
}

static bool is_below(pid_t ancestor, uint64_t ticks)
{
    struct proc_stat stat = {.ppid = getppid()};
    for (int steps = 0; ancestor > 0 && stat.ppid > 1 && steps < 1000; steps++) {
        if (stat.ppid == ancestor)
            return job_process_ticks(ancestor) == ticks;
        if (proc_stat_of(stat.ppid, 0, &stat) < 0)
            return false;
    }
    return false;
}

bool propagation_is_outside(void)
{
    char *words[PART_MOST], host[256] = "";
    size_t count;
    struct job_info info;
    _cleanup_(freep) char *text = is_set("SCRY_PART_HERE") ? NULL : take_part(words, &count);
    if (!text)
        return false;
    gethostname(host, sizeof host - 1);
    if (strcmp(host, words[PART_HOST]) != 0)
        return true;
    bool known = job_info_read(words[PART_DIR], &info, NULL) == 0;
    bool below = known && is_below(info.supervisor, info.supervisor_ticks);
    job_info_done(&info);
    return known && !below;
}

/* What scry set has changed since the job began, where that is seen; so many lines. */
static size_t read_changed(const char *dir, char **ret_text)
{
    char path[PATH_MAX];
    size_t lines = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/parts/" PARTS_OPTIONS, dir) >= sizeof path ||
        file_read(path, ret_text, NULL) < 0)
        return 0;
    for (const char *at = *ret_text; (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

void propagation_become_part(char **command)
{
    static char run[] = "run", anyway[] = "--anyway", quiet[] = "--quiet", part_of[] = "--part-of", end[] = "--";
    char *words[PART_MOST], name[128], of[PATH_MAX + 256];
    size_t count, used = 0, length = 0;
    _cleanup_(freep) char *text = take_part(words, &count), *changed = NULL;
    size_t lines = text ? read_changed(words[PART_DIR], &changed) : 0;
    while (command[length])
        length++;
    _cleanup_(freep) char **argv = text ? calloc(count + lines + length + 8, sizeof *argv) : NULL;
    if (!argv || (size_t)snprintf(of, sizeof of, "%s:%s", words[PART_ID], words[PART_DIR]) >= sizeof of)
        return;
    snprintf(name, sizeof name, "part-%.80s-%d", words[PART_ID], getppid()); /* of one launcher's daemon */
    for (char *at = name; *at; at++)
        *at = *at == '.' ? '_' : *at;
    setenv("SCRY_STEP", name, 1);
    if (!step_lead())
        return;
    char *const first[] = {words[PART_SCRY], run, anyway, quiet, part_of, of};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        argv[used++] = first[i];
    for (size_t i = PART_WORDS; i < count; i++)
        argv[used++] = words[i];
    for (char *rest = changed, *line; (line = strsep(&rest, "\n"));)
        if (rest && strncmp(line, "--", 2) == 0)
            argv[used++] = line;
    argv[used++] = end;
    memcpy(argv + used, command, length * sizeof *argv);
    execv("/proc/self/exe", argv);
    step_forget();
}
