/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"
#include "probe/node.h"
#include "shm/waits.h"
#include "symbols/client/client.h"
#include "symbols/client/helper.h"

enum {
    FILES_MOST = 64,       /* that are asked for at once, */
    ADDRESSES_MOST = 2000, /* and addresses: */
    REQUEST_MOST = 60000,  /* as much as a pipe takes without waiting */
    REST = 500,            /* times what places took of a processor lie before the next question */
};

struct names {
    struct loop *loop;
    struct images *images;
    struct profile *profile;
    struct helper_process helper; /* pid 0: none runs */
    struct helper_reader answers;
    struct loop_source *source;
    struct { /* whose places come in which order */
        struct image_file *file;
        size_t count;
    } asked[FILES_MOST];
    size_t asked_count, asked_at;
    uint64_t asked_ns, next_ns; /* places: when the last question was, and when the next one may be */
    bool ending, learned;
    bool no_places; /* they take too long */
};

struct names *names_new(struct loop *loop, struct images *images, struct profile *profile)
{
    struct names *names = calloc(1, sizeof *names);
    if (names)
        *names = (struct names){.loop = loop,
                                .images = images,
                                .profile = profile,
                                .next_ns = clock_now_ns() + PROFILE_PLACES_NS / 2}; /* of a short job, at the end */
    return names;
}

void names_free(struct names *names)
{
    if (!names)
        return;
    if (names->helper.pid)
        kill(names->helper.pid, SIGKILL);
    helper_reader_done(&names->answers);
    free(names);
}

bool names_busy(const struct names *names)
{
    return names->helper.pid;
}

/* What people did not write: its inlined functions say nothing, and its debug information is large. */
static bool is_system(const char *path)
{
    static const char own[] = "libscry-";
    return strncmp(path, "/lib", 4) == 0 || strncmp(path, "/usr/lib", 8) == 0 ||
           strncmp(text_base(path), own, sizeof own - 1) == 0;
}

/* Where a function is from that is in all programs of a language, as one that takes an element of a list: who calls it is of
 * interest. */
static bool is_of_language(const char *source)
{
    static const char *const places[] = {"/usr/include/", "/usr/lib/", "/usr/lib64/", "/rustc/", "/usr/local/go/src/"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strncmp(source, places[i], strlen(places[i])) == 0)
            return true;
    return strstr(source, "/include/c++/") || strstr(source, "/rustlib/");
}

/* It has an index, or never will have one. */
static void file_done(struct names *names, struct image_file *file)
{
    file->state = FILE_DONE;
    names->learned = true;
    if (file->index && (index_flags(file->index) & INDEX_HAS_DWARF) && !names->no_places && !is_system(file->path))
        file->places = places_new();
}

static void files_give_up(struct names *names)
{
    for (struct image_file *file = names->images->files; file; file = file->hh.next)
        if (file->state == FILE_WAITING)
            file_done(names, file);
}

static void places_give_up(struct names *names)
{
    for (size_t i = 0; i < names->asked_count; i++)
        places_end(names->asked[i].file->places);
    names->learned |= names->asked_count > 0;
    names->asked_count = 0;
}

static void helper_done(struct names *names)
{
    struct rusage usage = {0};
    if (names->source)
        loop_remove(names->source);
    names->source = NULL;
    close(names->helper.input);
    close(names->helper.output);
    kill(names->helper.pid, SIGKILL); /* it has closed its output: it is ending, or has gone wrong */
    wait4(names->helper.pid, NULL, 0, &usage);
    helper_reader_done(&names->answers);
    names->answers = (struct helper_reader){0};
    names->helper = (struct helper_process){0};
    if (names->asked_count) {
        uint64_t took_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
        uint64_t rest_ns = REST * took_us * 1000;
        names->next_ns = clock_now_ns() + (rest_ns > PROFILE_PLACES_NS ? rest_ns : PROFILE_PLACES_NS);
    }
    places_give_up(names);
    files_give_up(names);
}

static void helper_answered(struct names *names, const struct helper_answer *answer)
{
    struct image_file *of = names->asked_at ? names->asked[names->asked_at - 1].file : NULL;
    if (answer->kind == HELPER_PLACE) {
        while (names->asked_at < names->asked_count && (!names->asked_at || !names->asked[names->asked_at - 1].count))
            names->asked_at++;
        if (names->asked_at && names->asked[names->asked_at - 1].count) {
            names->asked[names->asked_at - 1].count--;
            places_add(names->asked[names->asked_at - 1].file->places, answer->address, answer->size, answer->id);
        }
    } else if (answer->kind == HELPER_INLINED && of && is_of_language(answer->file)) {
        places_add_part(of->places, (uint32_t)answer->size);
    } else if (answer->kind == HELPER_INLINED && of) {
        const struct profile_function function = {
            .function = answer->name, .file = answer->file, .language = "native", .module = of, .line = answer->id};
        places_add_call(of->places, profile_code(names->profile, &function), (uint32_t)answer->size);
    }
    for (struct image_file *file = names->images->files; file && !names->asked_count; file = file->hh.next) {
        if (file->state != FILE_WAITING || strcmp(file->open_path, answer->file) != 0)
            continue;
        int code = answer->kind == HELPER_OK       ? index_open_key(&file->index, answer->key, NULL)
                   : answer->kind == HELPER_MEMORY ? index_open_file(&file->index, answer->path, answer->key, NULL)
                                                   : -ENOENT;
        if (code < 0)
            file->index = NULL;
        file_done(names, file);
    }
}

static void on_helper(void *ctx, int fd, uint32_t events)
{
    struct names *names = ctx;
    struct helper_answer answer;
    char bytes[4096];
    ssize_t len = read(fd, bytes, sizeof bytes);
    (void)events;
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len > 0)
        helper_feed(&names->answers, bytes, (size_t)len);
    int code;
    while ((code = helper_next(&names->answers, &answer, NULL)) > 0)
        helper_answered(names, &answer);
    if (len <= 0 || code < 0) {
        helper_done(names);
        names_ask(names, names->ending);
    }
}

/* scry-symbols shares the memory that the job may use: its last page would cost one of both its life, and batch systems take
 * that for the job's failure. So it waits until there is plenty, for the job's end at the latest. */
static bool has_room(void)
{
    static const uint64_t plenty = UINT64_C(256) << 20, least = UINT64_C(16) << 20;
    struct memory_room room;
    memory_room_read(&room);
    return room.left >= (room.limit / 8 < plenty ? room.limit / 8 : plenty) + least;
}

static void helper_start(struct names *names, char *const argv[])
{
    if (helper_process_start(&names->helper, argv, NULL) < 0) {
        names->helper = (struct helper_process){0};
        places_give_up(names);
        files_give_up(names);
        return;
    }
    names->source = loop_add_fd(names->loop, names->helper.output, EPOLLIN, on_helper, names);
    if (!names->source)
        helper_done(names);
}

/* The indexes of files that samples were in: those in the cache are opened, the others made by scry-symbols. */
static void functions_ask(struct names *names)
{
    static char name[] = "scry-symbols", job[] = "index";
    char *argv[FILES_MOST + 3] = {name, job};
    size_t count = 2;
    int room = -1; /* whether there is; not looked at yet */
    for (struct image_file *file = names->images->files; file && count < FILES_MOST + 2; file = file->hh.next) {
        if (!file->opened || file->state != FILE_NEW)
            continue;
        int code = file->open_path && file->cfi ? index_open(&file->index, file->open_path, NULL) : -ENOEXEC;
        if (code < 0)
            file->index = NULL;
        bool missing = code == -ENOENT || code == -EBADMSG;
        if (missing && room < 0)
            room = has_room();
        if (missing && !room && !names->ending)
            continue;
        if (missing && room) {
            file->state = FILE_WAITING;
            argv[count++] = file->open_path;
        } else {
            file_done(names, file);
        }
    }
    if (count > 2)
        helper_start(names, argv);
}

static void inlined_ask(struct names *names)
{
    static char name[] = "scry-symbols", job[] = "places";
    char *argv[] = {name, job, NULL};
    _cleanup_(buf_done) struct buf request = BUF_INIT;
    size_t addresses = 0;
    names->asked_count = names->asked_at = 0;
    for (struct image_file *file = names->images->files;
         file && names->asked_count < FILES_MOST && addresses < ADDRESSES_MOST && request.len < REQUEST_MOST / 4;
         file = file->hh.next) {
        _cleanup_(buf_done) struct buf list = BUF_INIT;
        size_t count = file->places ? places_ask(file->places, ADDRESSES_MOST - addresses, &list) : 0;
        if (!count)
            continue;
        helper_line(&request, "file", file->open_path, NULL);
        buf_append(&request, list.data, list.len);
        names->asked[names->asked_count].file = file;
        names->asked[names->asked_count++].count = count;
        addresses += count;
    }
    helper_line(&request, "end", NULL);
    if (!names->asked_count)
        return;
    if (!has_room()) { /* looked at when there is something to ask for, and not with each look at the job */
        names->asked_count = 0;
        names->next_ns = clock_now_ns() + PROFILE_PLACES_NS / 2;
        return;
    }
    names->asked_ns = clock_now_ns();
    helper_start(names, argv);
    if (names->helper.pid && write(names->helper.input, request.data, request.len) < 0)
        helper_done(names); /* a part is fine: what is behind it is not known then */
}

/* Debug information that takes too long to read is not read again. */
static void places_limit(struct names *names)
{
    if (!names->asked_count || clock_now_ns() - names->asked_ns < PROFILE_PLACES_MOST_NS)
        return;
    names->no_places = true;
    helper_done(names);
}

void names_ask(struct names *names, bool ending)
{
    names->ending = ending;
    places_limit(names);
    if (!names->helper.pid)
        functions_ask(names);
    profile_fold(names->profile, names->learned ? FOLD_LEARNED : FOLD_NEW);
    names->learned = false;
    if (!names->helper.pid && !names->no_places && (ending || clock_now_ns() >= names->next_ns))
        inlined_ask(names);
}
