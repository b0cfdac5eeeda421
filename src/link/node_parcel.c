/* SPDX-License-Identifier: Apache-2.0 */
#include "link/node_parcel.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system/process.h"
#include "base/system/dirs.h"
#include "base/system/file.h"

enum { BLOCK = 512 };

static uint64_t mix(uint64_t hash, const void *bytes, size_t len) /* FNV-1a */
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return hash;
}

/* A file that is not there is left out: 0. */
static int add_file(struct parcel *parcel, const char *path, const char *dir, struct err *err)
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

static int add_programs(struct parcel *parcel, struct err *err)
{
    static const char *const names[] = {"scry-link", "scry-monitor", "scry-tracer", "scry-symbols"};
    char path[PATH_MAX];
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof names / sizeof *names; i++) {
        code = dirs_libexec(names[i], path, sizeof path, err);
        if (code == 0)
            code = add_file(parcel, path, "libexec/scry", err);
    }
    return code;
}

static int add_libraries(struct parcel *parcel, struct err *err)
{
    static const char dir[] = SCRY_LIBDIR_NAME "/scry";
    char agent[PATH_MAX], mpi[PATH_MAX], path[PATH_MAX + 64];
    int code = agent_library(agent, sizeof agent, err);
    if (code == 0)
        code = add_file(parcel, agent, dir, err);
    if (code < 0)
        return code;
    agent_library_mpi(mpi, agent);
    static const char *const names[] = {"libscry-mpi-openmpi.so", "libscry-mpi-mpich.so"};
    for (size_t i = 0; *mpi && code == 0 && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", mpi, names[i]);
        code = add_file(parcel, path, dir, err);
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
            adding->code = add_file(adding->parcel, path, "lib/scry/ext", adding->err);
    }
    if (list)
        closedir(list);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct parcel_file *)a)->name, ((const struct parcel_file *)b)->name);
}

static void put_id(struct parcel *parcel)
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
        hash = mix(mix(hash, file->name, strlen(file->name) + 1), facts, sizeof facts);
    }
    snprintf(parcel->id, sizeof parcel->id, "%.40s-%016" PRIx64, SCRY_VERSION, hash);
}

int parcel_find(struct parcel **ret_parcel, struct err *err)
{
    _cleanup_(parcel_freep) struct parcel *parcel = calloc(1, sizeof *parcel);
    if (!parcel)
        return err_set(err, -ENOMEM, "out of memory");
    int code = add_programs(parcel, err);
    if (code == 0)
        code = add_libraries(parcel, err);
    struct adding adding = {.parcel = parcel, .code = code, .err = err};
    if (code == 0)
        dirs_extensions(add_extensions, &adding);
    if (adding.code < 0)
        return adding.code;
    qsort(parcel->files, parcel->count, sizeof *parcel->files, by_name); /* not as the directory happens to have them */
    put_id(parcel);
    *ret_parcel = TAKE_PTR(parcel);
    return 0;
}

void parcel_free(struct parcel *parcel)
{
    free(parcel);
}

static void put_header(struct buf *out, const struct parcel_file *file)
{
    struct {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
            version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
    } header = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    _Static_assert(sizeof header == BLOCK, "as POSIX has it");
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
    static const char zeros[2 * BLOCK];
    buf_append(out, zeros, len);
}

int parcel_pack(const struct parcel *parcel, struct buf *out, struct err *err)
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
        put_zeros(out, (BLOCK - len % BLOCK) % BLOCK);
    }
    put_zeros(out, 2 * BLOCK);
    return out->failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}
