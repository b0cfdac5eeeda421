/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes by their names (link/link.h): the gate for logins, what a node without scry is given, the scripts that ssh executes
 * there, and what becomes of their answers: scry-link node, look, copy.
 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "link/link.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GATE_PLACES = 32 };

/* Beginnings of what the scripts print. */
#define NODE_SCRIPT_COPY "scry-copy: "
#define NODE_SCRIPT_LOOK "scry-node: "

/*
 * How many connections by ssh a user begins at the same moment on this machine. Each login is a process here, work for a
 * directory of users, and often a place in the queue of one machine in between, which refuses when it gets too many
 * (MaxStartups of sshd_config(5)).
 */

/* A place is a byte of the file: locks of an open file description (fcntl(2)) need no process that keeps count. */
static int gate_take_place(int file)
{
    for (int i = 0; i < GATE_PLACES; i++) {
        struct flock place = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
        if (fcntl(file, F_OFD_SETLK, &place) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES)
            return -errno; /* a file system without locks */
    }
    return -EAGAIN;
}

/* Waits for a place, as long as somebody has the other end of the socket `fd`. A descriptor: closing it gives the place back, as
 * the end of the process does. -EPIPE: nobody waits any more. -errno: there is no gate, and nothing to wait for. */
static int gate_enter(int fd)
{
    char dir[PATH_MAX - 16], path[PATH_MAX];
    int code = dirs_runtime(dir, sizeof dir, NULL);
    if (code < 0)
        return code;
    snprintf(path, sizeof path, "%s/ssh.places", dir);
    _cleanup_(closep) int file = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (file < 0)
        return file;
    while ((code = gate_take_place(file)) == -EAGAIN)
        if (wait_fd(fd, POLLRDHUP, NODE_GATE_MS))
            return -EPIPE;
    return code < 0 ? code : TAKE_FD(file);
}

/*
 * What a node without scry is given: the programs of a node monitor, the libraries that it loads into processes, and the
 * extensions, as they are installed here, in one archive (ustar, POSIX.1-2017 pax). There it lies as after an installation:
 * libexec/scry, LIBDIR/scry, lib/scry/ext.
 */

enum { PARCEL_FILES = 32, PARCEL_NAME_SIZE = 100, PARCEL_ID_SIZE = 64, PARCEL_BLOCK = 512 };

struct parcel_file {
    char name[PARCEL_NAME_SIZE]; /* there, below the parcel's directory */
    char path[PATH_MAX];
    off_t size;
};

struct parcel {
    char id[PARCEL_ID_SIZE]; /* the version, and a hash of names, sizes and times: of another build it is another one */
    size_t count;
    struct parcel_file files[PARCEL_FILES];
};

static void parcel_free(struct parcel *parcel)
{
    free(parcel);
}
DEFINE_FREEP(parcel, parcel_free)

static uint64_t hash_mix(uint64_t hash, const void *bytes, size_t len) /* FNV-1a */
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return hash;
}

/* A file that is not there is left out: 0. */
static int parcel_add_file(struct parcel *parcel, const char *path, const char *dir, struct err *err)
{
    struct stat about;
    if (stat(path, &about) < 0 || !S_ISREG(about.st_mode))
        return 0;
    if (parcel->count == PARCEL_FILES)
        return err_set(err, -E2BIG, "more than %d files belong to scry here", PARCEL_FILES);
    struct parcel_file *file = &parcel->files[parcel->count];
    const char *slash = strrchr(path, '/');
    if (snprintf(file->name, sizeof file->name, "%s/%s", dir, slash ? slash + 1 : path) >= PARCEL_NAME_SIZE ||
        snprintf(file->path, sizeof file->path, "%s", path) >= PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "%.200s: the path is too long", path);
    file->size = about.st_size;
    parcel->count++;
    return 0;
}

static int parcel_add_programs(struct parcel *parcel, struct err *err)
{
    static const char *const names[] = {"scry-link", "scry-monitor", "scry-tracer", "scry-symbols"};
    char path[PATH_MAX];
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof names / sizeof *names; i++) {
        code = dirs_libexec(names[i], path, sizeof path, err);
        if (code == 0)
            code = parcel_add_file(parcel, path, "libexec/scry", err);
    }
    return code;
}

static int parcel_add_libraries(struct parcel *parcel, struct err *err)
{
    static const char dir[] = SCRY_LIBDIR_NAME "/scry";
    char agent[PATH_MAX], mpi[PATH_MAX], path[PATH_MAX + 64];
    int code = agent_library(agent, sizeof agent, err);
    if (code == 0)
        code = parcel_add_file(parcel, agent, dir, err);
    if (code < 0)
        return code;
    agent_library_mpi(mpi, agent);
    static const char *const names[] = {"libscry-mpi-openmpi.so", "libscry-mpi-mpich.so"};
    for (size_t i = 0; *mpi && code == 0 && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", mpi, names[i]);
        code = parcel_add_file(parcel, path, dir, err);
    }
    return code;
}

struct adding {
    struct parcel *parcel;
    int code;
    struct err *err;
};

static void add_extensions(void *ctx, const char *dir)
{
    struct adding *adding = ctx;
    DIR *list = opendir(dir);
    char path[PATH_MAX];
    for (struct dirent *entry; adding->code == 0 && list && (entry = readdir(list));) {
        size_t len = strlen(entry->d_name);
        if (len > 3 && strcmp(entry->d_name + len - 3, ".so") == 0 &&
            snprintf(path, sizeof path, "%s/%s", dir, entry->d_name) < PATH_MAX)
            adding->code = parcel_add_file(adding->parcel, path, "lib/scry/ext", adding->err);
    }
    if (list)
        closedir(list);
}

static int file_by_name(const void *a, const void *b)
{
    return strcmp(((const struct parcel_file *)a)->name, ((const struct parcel_file *)b)->name);
}

static void parcel_put_id(struct parcel *parcel)
{
    uint64_t hash = 0xcbf29ce484222325;
    struct stat about;
    for (size_t i = 0; i < parcel->count; i++) {
        const struct parcel_file *file = &parcel->files[i];
        int64_t facts[] = {0, 0, 0};
        if (stat(file->path, &about) == 0) {
            facts[0] = about.st_size;
            facts[1] = about.st_mtim.tv_sec;
            facts[2] = about.st_mtim.tv_nsec;
        }
        hash = hash_mix(hash_mix(hash, file->name, strlen(file->name) + 1), facts, sizeof facts);
    }
    snprintf(parcel->id, sizeof parcel->id, "%.40s-%016" PRIx64, SCRY_VERSION, hash);
}

/* Finds the files, and reads none. 0; -ENOENT with err: a program is missing here. The caller frees it. */
static int parcel_find(struct parcel **ret_parcel, struct err *err)
{
    _cleanup_(parcel_freep) struct parcel *parcel = calloc(1, sizeof *parcel);
    if (!parcel)
        return err_set(err, -ENOMEM, "out of memory");
    int code = parcel_add_programs(parcel, err);
    if (code == 0)
        code = parcel_add_libraries(parcel, err);
    struct adding adding = {.parcel = parcel, .code = code, .err = err};
    if (code == 0)
        dirs_extensions(add_extensions, &adding);
    if (adding.code < 0)
        return adding.code;
    qsort(parcel->files, parcel->count, sizeof *parcel->files,
          file_by_name); /* not as the directory happens to have them */
    parcel_put_id(parcel);
    *ret_parcel = TAKE_PTR(parcel);
    return 0;
}

static void put_header(struct buf *out, const struct parcel_file *file)
{
    struct {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
            version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
    } header = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    _Static_assert(sizeof header == PARCEL_BLOCK, "as POSIX has it");
    unsigned sum = 0;
    snprintf(header.name, sizeof header.name, "%s", file->name);
    snprintf(header.mode, sizeof header.mode, "%07o", 0755u);
    snprintf(header.uid, sizeof header.uid, "%07o", 0u);
    snprintf(header.gid, sizeof header.gid, "%07o", 0u);
    snprintf(header.size, sizeof header.size, "%011" PRIo64, (uint64_t)file->size & 077777777777);
    snprintf(header.mtime, sizeof header.mtime, "%011o", 0u);
    memset(header.checksum, ' ', sizeof header.checksum);
    for (size_t i = 0; i < sizeof header; i++)
        sum += ((const unsigned char *)&header)[i];
    snprintf(header.checksum, sizeof header.checksum, "%06o", sum & 0777777);
    buf_append(out, &header, sizeof header);
}

static void put_zeros(struct buf *out, size_t len)
{
    static const char zeros[2 * PARCEL_BLOCK];
    buf_append(out, zeros, len);
}

/* Appends the archive. 0; -errno with err: a file cannot be read, or has changed. */
static int parcel_pack(const struct parcel *parcel, struct buf *out, struct err *err)
{
    for (size_t i = 0; i < parcel->count; i++) {
        const struct parcel_file *file = &parcel->files[i];
        _cleanup_(freep) char *bytes = NULL;
        size_t len = 0;
        int code = file_read(file->path, &bytes, &len);
        if (code == 0 && len != (size_t)file->size)
            code = -ESTALE; /* is being installed */
        if (code < 0)
            return err_errno(err, code, "cannot read %s", file->path);
        put_header(out, file);
        buf_append(out, bytes, len);
        put_zeros(out, (PARCEL_BLOCK - len % PARCEL_BLOCK) % PARCEL_BLOCK);
    }
    put_zeros(out, 2 * PARCEL_BLOCK);
    return out->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

/* Where this program is. "": nobody knows. */
static void node_own_path(char ret_path[PATH_MAX])
{
    ssize_t len = readlink("/proc/self/exe", ret_path, PATH_MAX - 1);
    ret_path[len < 0 ? 0 : len] = 0;
}

/*
 * What ssh executes on a node: scripts of sh, as one word in single quotes that every login shell passes on unchanged. In
 * the scripts there is no single quote, no "!" (csh), and no end of line.
 *
 * `id` is of the parcel that is, or will be, below the user's cache directory there.
 */

static const char script_begin[] = "exec /bin/sh -c '", script_end[] = "'";

/* c: where a parcel is, or will be. */
static void script_put_place(struct buf *out, const char *id)
{
    buf_printf(out, "c=\"${SCRY_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}}/scry/node/%s\"; ", id);
}

/* f: whether scry was built for such a machine. */
static void script_put_fits(struct buf *out)
{
    buf_puts(out, "f=differs; test \"$(uname -s) $(uname -m)\" = \"Linux x86_64\" && f=fits; ");
}

/* A path with anything else is left out: it would have to be quoted. */
static bool is_plain(const char *path)
{
    return *path && !path[strspn(path, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/._-+")];
}

/* s: scry, if it is there. Shells that nobody types into often have a short PATH; what is executed keeps it. Does what `found`
 * says with l, the first scry-link that there is: of this very build first. */
static void script_put_search(struct buf *out, const char *here, const char *found)
{
    buf_puts(out, "s=$(PATH=\"$PATH:$HOME/.local/bin:$HOME/bin:/usr/local/bin:" SCRY_BINDIR ":/opt/scry/bin\"; "
                  "command -v scry) && s=$(readlink -f \"$s\"); "
                  "for l in \"$c/libexec/scry/scry-link\" \"$SCRY_LIBEXEC/scry-link\" ");
    if (is_plain(here))
        buf_printf(out, "%s ", here);
    buf_printf(out,
               "\"${s%%/*}/../libexec/scry/scry-link\"; do "
               "test -f \"$l\" && test -x \"$l\" && %s; done; ",
               found);
}

/* Finds scry-link there, and becomes `scry-link bridge`: `here` is its path on this machine, which may be the same there.
 * Ends with 127 if there is none. */
static void node_script_bridge(struct buf *out, const char *id, const char *here)
{
    buf_puts(out, script_begin);
    script_put_place(out, id);
    script_put_search(out, here, "{ touch -c \"$c\" 2>/dev/null; exec \"$l\" bridge; }");
    buf_puts(out, "test -n \"$s\" && exec \"$s\" link bridge; exit 127"); /* wherever it has its programs */
    buf_puts(out, script_end);
}

/* Other builds that nobody has come to for 30 days, from any machine that shares the directory, and that no process here has
 * in use or hands on. */
static void script_put_removal(struct buf *out)
{
    buf_puts(out, "touch -c \"$c\"; for o in \"${c%/*}\"/*; do test \"$o\" != \"$c\" && "
                  "test -n \"$(find \"$o\" -maxdepth 0 -mtime +30 2>/dev/null)\" && "
                  "! grep -aqsF \"$o/\" /proc/[0-9]*/maps /proc/[0-9]*/environ && rm -rf \"$o\"; done; ");
}

/* Puts an archive there. It prints, each on a line of its own behind NODE_SCRIPT_COPY:
 *     fits KERNEL MACHINE      then it reads the archive's size, as a line, and the archive
 *     differs KERNEL MACHINE   scry was not built for it
 *     done                     it is there, and all programs can be loaded
 *     lacks PROGRAM TEXT       the loader misses something
 *     failed TEXT */
static void node_script_copy(struct buf *out, const char *id)
{
    buf_puts(out, script_begin);
    script_put_place(out, id);
    script_put_fits(out);
    buf_puts(out, "d=\"$c.$$\"; p=libexec/scry; say(){ echo \"" NODE_SCRIPT_COPY "$*\"; }; echo; "
                  "no(){ rm -rf \"$d\"; say \"$@\"; exit 0; }; "
                  "say $f $(uname -s) $(uname -m); read n || exit 0; umask 077; "
                  "e=$({ mkdir -p \"$d\" && head -c \"$n\" | tar xmf - -C \"$d\"; } 2>&1) || no failed $e; "
                  "for f in \"$d\"/$p/scry-*; do "
                  "e=$(LD_TRACE_LOADED_OBJECTS=1 \"$f\" 2>&1 | grep \"not found\") && no lacks ${f##*/} $e; done; "
                  "e=$(\"$d/$p/scry-link\" --version 2>&1) || no failed $e; "
                  "test -d \"$c\" || e=$(mv -T \"$d\" \"$c\" 2>&1); rm -rf \"$d\"; test -x \"$c/$p/scry-link\" || no "
                  "failed $e; ");
    script_put_removal(out);
    buf_puts(out, "say done");
    buf_puts(out, script_end);
}

/* Prints facts about the node, for people who ask what is there, as lines "scry-node: WORD TEXT". */
static void node_script_look(struct buf *out, const char *id, const char *here)
{
    buf_puts(out, script_begin);
    script_put_place(out, id);
    script_put_fits(out);
    buf_puts(out, "say(){ echo \"" NODE_SCRIPT_LOOK "$*\"; }; echo; say host $(uname -n); "
                  "say $f $(uname -s) $(uname -r) $(uname -m); "
                  "say ptrace $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null); "
                  "say perf $(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null); say time $(date +%s.%N); ");
    script_put_search(out, here, "{ say link \"$l\" $(\"$l\" --version 2>&1); break; }");
    buf_puts(out,
             "test -n \"$s\" && say scry \"$s\" $(\"$s\" --version 2>&1); "
             "r=\"${SCRY_RUNTIME_DIR:-${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/scry}}\"; r=\"${r:-/tmp/scry-$(id -u)}\"; "
             "test -S \"$r/monitor.sock\" || test -S \"$r/omis.sock\" && say monitor \"$r\" "
             "$(cat \"$r/monitor.pid\" 2>/dev/null); say end");
    buf_puts(out, script_end);
}

enum { SAID_BYTES = 64 << 10, DONE = 1 };
typedef int node_line_fn(void *ctx, char *line, struct buf *answer, struct err *err);

/* ---- talking with a script ---- */

static int talk_send(struct transport *transport, struct buf *answer, struct err *err)
{
    while (answer->len) {
        ssize_t put =
            transport_write(transport, answer->data, answer->len < SAID_BYTES ? answer->len : SAID_BYTES, err);
        if (put == -EAGAIN)
            return 0;
        if (put < 0)
            return (int)put;
        buf_drop(answer, (size_t)put);
    }
    return 0;
}

static int talk_take_lines(struct buf *said, const char *beginning, node_line_fn *line, void *ctx, struct buf *answer,
                           struct err *err)
{
    int code = 0;
    for (char *end; code == 0 && said->len && (end = memchr(said->data, '\n', said->len));) {
        *end = 0;
        if (end > said->data && end[-1] == '\r')
            end[-1] = 0;
        if (strncmp(said->data, beginning, strlen(beginning)) == 0)
            code = line(ctx, said->data + strlen(beginning), answer, err);
        buf_drop(said, (size_t)(end - said->data) + 1);
    }
    if (code == 0 && said->len >= SAID_BYTES) /* noise of a shell */
        buf_drop(said, said->len / 2);
    return answer->failed ? err_set(err, -ENOMEM, "out of memory") : code;
}

/* 1: something was said; 0: nothing, or it was sent; -ECONNRESET: it has ended, and *err says why. */
static int talk_receive(struct transport *transport, struct buf *said, struct err *err)
{
    char *room = buf_reserve(said, 4096);
    if (!room)
        return err_set(err, -ENOMEM, "out of memory");
    ssize_t got = transport_read(transport, room, 4096, err);
    if (got > 0) {
        said->len += (size_t)got;
        return 1;
    }
    if (got == -EAGAIN)
        return 0;
    err_set(err, -ECONNRESET, "%s: ssh ended too early", transport->host);
    transport_why(transport, err);
    return -ECONNRESET;
}

/* Executes a script below there and hands out each line that it says behind `beginning`, until line() returns
 * anything but 0, or ssh ends, or SECONDS have passed without a word. What line() appends to *answer is sent. Returns what
 * line() returned, or -errno with err. */
static int node_talk(const struct link_endpoint *endpoint, const char *script, const char *beginning, unsigned seconds,
                     node_line_fn *line, void *ctx, struct err *err)
{
    _cleanup_(transport_freep) struct transport *transport = NULL;
    _cleanup_(buf_done) struct buf said = BUF_INIT, answer = BUF_INIT;
    int code = link_over_ssh(endpoint, script, &transport, err);
    uint64_t until = clock_now_ns() + seconds * (uint64_t)NS_PER_SECOND;
    while (code == 0) {
        size_t unsent = answer.len;
        int ready = wait_fd_until(transport->fd, (short)(POLLIN | (unsent ? POLLOUT : 0)), until);
        if (!ready && clock_now_ns() < until)
            continue;
        if (!ready)
            return err_set(err, -ETIMEDOUT, "%s: it said nothing for %u s", endpoint->shown, seconds);
        if (ready & POLLOUT)
            (void)talk_send(transport, &answer, NULL); /* why it has ended is said by what is read */
        int got = ready & ~POLLOUT ? talk_receive(transport, &said, err) : 0;
        code = talk_take_lines(&said, beginning, line, ctx, &answer, err);
        if (code == 0 && got < 0)
            code = got;
        if (got > 0 || answer.len < unsent)
            until = clock_now_ns() + seconds * (uint64_t)NS_PER_SECOND;
    }
    return code;
}

/* ---- puts scry onto a node that has none: into the user's cache directory there, in a place of its own for each build ---- */

struct copying {
    const struct parcel *parcel;
    const char *host;
};

static int copy_archive(const struct copying *copying, struct buf *answer, struct err *err)
{
    _cleanup_(buf_done) struct buf archive = BUF_INIT;
    int code = parcel_pack(copying->parcel, &archive, err);
    if (code < 0)
        return code;
    buf_printf(answer, "%zu\n", archive.len);
    buf_append(answer, archive.data, archive.len);
    return 0;
}

static int on_copy_line(void *ctx, char *line, struct buf *answer, struct err *err)
{
    const struct copying *copying = ctx;
    char *text = strchr(line, ' ');
    if (text)
        *text++ = 0;
    if (!text)
        return strcmp(line, "done") == 0 ? DONE : 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    if (strcmp(line, "fits") == 0)
        return copy_archive(copying, answer, err);
    if (strcmp(line, "differs") == 0)
        return err_set(err, -ENOEXEC, "%s: this scry was not built for such a machine (%.60s): install scry there",
                       copying->host, text);
    if (strcmp(line, "lacks") == 0)
        return err_set(err, -ENOEXEC,
                       "%s: scry was copied there, and a library is missing: %.200s: install it, or scry",
                       copying->host, text);
    if (strcmp(line, "failed") == 0)
        return err_set(err, -EIO, "%s: scry could not be copied there: %.300s", copying->host, text);
    return 0;
}

/* 0: it is there now, and its programs can be loaded. Else -errno with one line for people. */
static int node_copy(const struct link_endpoint *endpoint, const struct parcel *parcel, struct err *err)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    struct copying copying = {.parcel = parcel, .host = endpoint->shown};
    node_script_copy(&script, parcel->id);
    if (script.failed)
        return err_set(err, -ENOMEM, "out of memory");
    int code = node_talk(endpoint, script.data, NODE_SCRIPT_COPY, NODE_COPY_SECONDS, on_copy_line, &copying, err);
    return code == DONE ? 0 : code;
}

/* ---- scry-link look NAME: can a node be reached, and what is there? `scry doctor --node` shows it ---- */

struct look {
    const struct link_endpoint *endpoint;
    const char *name;
    uint64_t begun_ns;
    bool link, monitor; /* it has scry-link; a monitor runs */
    char scry[200];     /* a scry without scry-link */
};

/* The remedy comes behind a tab in the text. */
static void finding_print(const char *state, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void finding_print(const char *state, const char *name, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 127)
            *c = '?';
    printf("%s %s %s%s\n", state, name, text, strchr(text, '\t') ? "" : "\t");
    fflush(stdout);
}

static void on_host(struct look *look, char *text)
{
    finding_print("ok", "ssh", "logs in without a question within %.1f s, and reaches host %s",
                  (double)(clock_now_ns() - look->begun_ns) / 1e9, text);
}

static void on_fits(struct look *look, char *text)
{
    finding_print("ok", "machine", "%s", text);
}

static void on_differs(struct look *look, char *text)
{
    finding_print("fail", "machine", "%s: scry runs on Linux x86_64 only", text);
}

static void on_ptrace(struct look *look, char *text)
{
    int scope = atoi(text);
    if (scope >= 2)
        finding_print("fail", "ptrace", "ptrace_scope is %d: nothing can be stopped, no breakpoints, no backtraces\t%s",
                      scope,
                      scope >= 3 ? "ptrace_scope 3 can only be lifted by booting with another value"
                                 : "there, as root: sysctl kernel.yama.ptrace_scope=1");
    else if (scope == 1)
        finding_print("warn", "ptrace",
                      "ptrace_scope is 1: works for jobs started by scry run; other programs cannot be stopped\t"
                      "there, as root: sysctl kernel.yama.ptrace_scope=0, or start jobs with scry run");
    else
        finding_print("ok", "ptrace", "ptrace_scope is 0");
}

static void on_perf(struct look *look, char *text)
{
    int level = atoi(text);
    if (level > 2)
        finding_print("warn", "perf",
                      "perf_event_paranoid is %d: processes too short to be sampled are counted but not listed\t"
                      "there, as root: sysctl kernel.perf_event_paranoid=2",
                      level);
    else
        finding_print("ok", "perf", "perf_event_paranoid is %d", level);
}

/* Only whether somebody has forgotten to set it: the monitors measure it better. */
static void on_time(struct look *look, char *text)
{
    struct timespec now;
    char *end;
    double there = strtod(text, &end);
    clock_gettime(CLOCK_REALTIME, &now);
    double ahead = there - ((double)now.tv_sec + (double)now.tv_nsec / 1e9);
    if (end == text)
        return;
    if (fabs(ahead) > NODE_CLOCK_SECONDS)
        finding_print(
            "warn", "clock",
            "differs by %.0f s from the one here; scry corrects for it, others may not\tset it there, or let chrony do "
            "it",
            ahead);
    else
        finding_print("ok", "clock", "as here");
}

static void on_link(struct look *look, char *text)
{
    char *version = strrchr(text, ' ');
    look->link = true;
    if (version && strcmp(version + 1, SCRY_VERSION) == 0)
        finding_print("ok", "scry", "%.*s, version " SCRY_VERSION " as here", (int)(version - text), text);
    else
        finding_print("warn", "scry",
                      "%s, and here is " SCRY_VERSION ": monitors of two versions may not understand each other\t"
                      "install the same version there",
                      text);
}

static void on_scry(struct look *look, char *text)
{
    snprintf(look->scry, sizeof look->scry, "%s", text);
}

static void on_monitor(struct look *look, char *text)
{
    look->monitor = true;
    finding_print("ok", "monitor", "runs there in %s", text);
}

static const struct {
    const char *word;
    void (*take)(struct look *look, char *text);
} facts[] = {
    {"host", on_host}, {"fits", on_fits}, {"differs", on_differs}, {"ptrace", on_ptrace},   {"perf", on_perf},
    {"time", on_time}, {"link", on_link}, {"scry", on_scry},       {"monitor", on_monitor},
};

static int on_look_line(void *ctx, char *line, struct buf *answer, struct err *err)
{
    struct look *look = ctx;
    char *text = strchr(line, ' ');
    if (!text)
        return strcmp(line, "end") == 0 ? DONE : 0; /* or a fact that is not known there */
    *text++ = 0;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(line, facts[i].word) == 0)
            facts[i].take(look, text);
    return 0;
}

static void look_conclude(const struct look *look)
{
    if (!look->link)
        finding_print(
            "fail", "scry",
            "%s%s, so no monitor can be reached there\tinstall scry " SCRY_VERSION " there, or: scry link copy %s",
            look->scry[0] ? look->scry : "there is no scry", look->scry[0] ? " has no scry-link" : "", look->name);
    else if (!look->monitor)
        finding_print("ok", "monitor", "none runs there: it is started when needed");
}

static int look_by_ssh(struct look *look, struct err *err)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    _cleanup_(parcel_freep) struct parcel *parcel = NULL;
    char here[PATH_MAX];
    int code = parcel_find(&parcel, err);
    node_own_path(here);
    node_script_look(&script, code == 0 ? parcel->id : "-", here);
    if (script.failed)
        return err_set(err, -ENOMEM, "out of memory");
    code = node_talk(look->endpoint, script.data, NODE_SCRIPT_LOOK, NODE_LOOK_SECONDS, on_look_line, look, err);
    if (code == DONE)
        look_conclude(look);
    return code;
}

int node_look(const char *name)
{
    struct link_endpoint endpoint;
    struct err err = {0};
    _cleanup_(transport_freep) struct transport *transport = NULL;
    struct dialler dialler;
    struct look look = {.endpoint = &endpoint, .name = name, .begun_ns = clock_now_ns()};
    dialler_init(&dialler, &endpoint);
    if (link_endpoint_node(name, &endpoint, &err) < 0) {
        finding_print("fail", "name", "%s", err.text);
    } else if (endpoint.kind == LINK_SSH) {
        if (look_by_ssh(&look, &err) < 0)
            finding_print("fail", "ssh", "%s", err.text);
    } else if (dialler_connect(&dialler, &transport, &err) < 0) {
        finding_print("fail", "tls", "%s", err.text);
    } else {
        finding_print("ok", "tls", "%s answers within %.1f s, takes the key here, and has one of the same user",
                      endpoint.shown, (double)(clock_now_ns() - look.begun_ns) / 1e9);
    }
    dialler_done(&dialler);
    return 0;
}

/* ---- scry-link node NAME, scry-link copy NAME ---- */

const char *link_remote_command(void)
{
    static struct buf script;
    _cleanup_(parcel_freep) struct parcel *parcel = NULL;
    char here[PATH_MAX];
    if (!script.data) {
        node_own_path(here);
        node_script_bridge(&script, parcel_find(&parcel, NULL) == 0 ? parcel->id : "-", here);
    }
    return script.failed || !script.data ? "exit 127" : script.data;
}

struct node {
    struct link_endpoint endpoint;
    int place; /* at the gate; -1: none */
};

static void leave_gate(void *ctx)
{
    struct node *node = ctx;
    if (node->place >= 0)
        close(node->place);
    node->place = -1;
}

static int node_put(const struct link_endpoint *endpoint, struct err *err)
{
    _cleanup_(parcel_freep) struct parcel *parcel = NULL;
    int code = parcel_find(&parcel, err);
    return code < 0 ? code : node_copy(endpoint, parcel, err);
}

static int on_missing(void *ctx, struct err *err)
{
    const struct node *node = ctx;
    const char *may = getenv("SCRY_COPY");
    return may && strcmp(may, "yes") == 0 ? node_put(&node->endpoint, err) : err->code;
}

int node_run(const char *name, int fd)
{
    struct node node = {.place = -1};
    const struct link_first first = {.missing = on_missing, .begun = leave_gate, .ctx = &node};
    struct err err;
    if (link_endpoint_node(name, &node.endpoint, &err) < 0)
        return link_refuse(fd, &err);
    node.endpoint.first = &first;
    if (node.endpoint.kind == LINK_SSH)
        node.place = gate_enter(fd);
    if (node.place == -EPIPE)
        return 1;
    int status = link_run(&node.endpoint, fd);
    leave_gate(&node);
    return status;
}

int node_install(const char *name)
{
    struct link_endpoint endpoint;
    struct err err;
    int code = link_endpoint_node(name, &endpoint, &err);
    if (code == 0 && endpoint.kind != LINK_SSH)
        code = err_set(&err, -EINVAL, "%s: scry is copied by ssh: write HOST, USER@HOST or ssh://HOST:PORT", name);
    if (code == 0)
        code = node_put(&endpoint, &err);
    if (code < 0)
        log_error("%s", err.text);
    return code < 0 ? 1 : 0;
}
