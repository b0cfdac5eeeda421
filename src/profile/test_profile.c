/* SPDX-License-Identifier: Apache-2.0 */
/* What of perf's records and of stacks becomes a profile, with records and indexes of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "profile/profile.h"
#include "symbols/index/lines.h"

/* ---- memory of processes ---- */

static void apply(struct images *images, unsigned type, unsigned misc, const void *body, size_t size)
{
    _Alignas(8) char room[512];
    struct perf_event_header header = {.type = type, .misc = (uint16_t)misc, .size = (uint16_t)(sizeof header + size)};
    assert_true(header.size <= sizeof room);
    memcpy(room, &header, sizeof header);
    memcpy(room + sizeof header, body, size);
    images_apply(images, (const void *)room);
}

static void maps(struct images *images, uint32_t pid, uint64_t start, uint64_t size, uint64_t offset, const char *path)
{
    struct {
        uint32_t pid, tid;
        uint64_t start, size, offset;
        uint32_t major, minor;
        uint64_t inode, generation;
        uint32_t protection, flags;
        char path[64];
    } body = {pid, pid, start, size, offset, 8, 1, (uint64_t)(unsigned char)path[1], 0, 5, 2, ""};
    snprintf(body.path, sizeof body.path, "%s", path);
    apply(images, PERF_RECORD_MMAP2, 0, &body, sizeof body);
}

static void is_named(struct images *images, uint32_t pid, const char *name, unsigned misc)
{
    struct {
        uint32_t pid, tid;
        char name[16];
    } body = {pid, pid, ""};
    snprintf(body.name, sizeof body.name, "%s", name);
    apply(images, PERF_RECORD_COMM, misc, &body, sizeof body);
}

static void forks_or_ends(struct images *images, unsigned type, uint32_t pid, uint32_t parent, uint32_t tid)
{
    const struct {
        uint32_t pid, parent, tid, parent_tid;
        uint64_t time;
    } body = {pid, parent, tid, parent, 0};
    apply(images, type, 0, &body, sizeof body);
}

static const char *at(struct images *images, pid_t pid, uint64_t address, uint64_t *ret_offset)
{
    const struct image_mapping *mapping = image_find(image_process_of(images, pid), address);
    *ret_offset = mapping ? address - mapping->start + mapping->offset : 0;
    return mapping ? mapping->file->path : "";
}

static void mappings_replace_each_other(void **state)
{
    struct images images = {0};
    uint64_t offset;
    maps(&images, 7, 0x1000, 0x9000, 0x100000, "/a");
    maps(&images, 7, 0x4000, 0x2000, 0, "/b"); /* inside of it */
    assert_string_equal(at(&images, 7, 0x3fff, &offset), "/a");
    assert_int_equal(offset, 0x102fff);
    assert_string_equal(at(&images, 7, 0x4000, &offset), "/b");
    assert_int_equal(offset, 0);
    assert_string_equal(at(&images, 7, 0x6000, &offset), "/a");
    assert_int_equal(offset, 0x105000);
    assert_string_equal(at(&images, 7, 0xa000, &offset), "");
    maps(&images, 7, 0x3000, 0x4000, 0, "/c"); /* over the end of one, all of another, the beginning of a third */
    assert_string_equal(at(&images, 7, 0x2fff, &offset), "/a");
    assert_string_equal(at(&images, 7, 0x3000, &offset), "/c");
    assert_string_equal(at(&images, 7, 0x6fff, &offset), "/c");
    assert_string_equal(at(&images, 7, 0x7000, &offset), "/a");
    assert_int_equal(offset, 0x106000);
    assert_string_equal(at(&images, 7, 0xfff, &offset), "");
    images_done(&images);
}

/* Against a table of bytes, many times. */
static void mappings_by_chance(void **state)
{
    enum { PAGES = 64 };
    static const char *const paths[] = {"/a", "/b", "/c", "/d"};
    struct images images = {0};
    const char *expected[PAGES] = {0};
    uint64_t offsets[PAGES] = {0}, offset;
    unsigned seed = 5;
    for (int round = 0; round < 2000; round++) {
        uint64_t start = (uint64_t)rand_r(&seed) % PAGES, size = 1 + (uint64_t)rand_r(&seed) % 16;
        const char *path = paths[rand_r(&seed) % 4];
        size = start + size > PAGES ? PAGES - start : size;
        maps(&images, 7, start << 12, size << 12, (uint64_t)round << 20, path);
        for (uint64_t i = start; i < start + size; i++) {
            expected[i] = path;
            offsets[i] = ((uint64_t)round << 20) + ((i - start) << 12);
        }
        for (uint64_t i = 0; i < PAGES; i++) {
            assert_string_equal(at(&images, 7, (i << 12) + 5, &offset), expected[i] ? expected[i] : "");
            if (expected[i])
                assert_int_equal(offset, offsets[i] + 5);
        }
    }
    images_done(&images);
}

/* That of who began it, until it has its own; and what a process executes has that of the program. */
static void threads_have_names(void **state)
{
    struct images images = {0};
    is_named(&images, 8, "sort", PERF_RECORD_MISC_COMM_EXEC);
    uint32_t number = image_thread_of(&images, 8)->number;
    forks_or_ends(&images, PERF_RECORD_FORK, 8, 8, 9);
    assert_string_equal(image_thread_of(&images, 9)->name, "sort");
    struct {
        uint32_t pid, tid;
        char name[8];
    } body = {8, 9, "writer"};
    apply(&images, PERF_RECORD_COMM, 0, &body, sizeof body);
    assert_string_equal(image_thread_of(&images, 9)->name, "writer");
    assert_string_equal(image_thread_of(&images, 8)->name, "sort");
    assert_string_equal(image_process_of(&images, 8)->name, "sort");
    forks_or_ends(&images, PERF_RECORD_FORK, 10, 8, 10);
    assert_string_equal(image_thread_of(&images, 10)->name, "sort");
    is_named(&images, 8, "cat", PERF_RECORD_MISC_COMM_EXEC);
    assert_string_equal(image_thread_of(&images, 8)->name, "cat");
    assert_int_not_equal(image_thread_of(&images, 8)->number, number);
    assert_null(image_thread_of(&images, 11));
    images_done(&images);
}

static void processes_come_and_go(void **state)
{
    struct images images = {0};
    uint64_t offset;
    struct image_process *found;
    int pid = 8;
    is_named(&images, 7, "bash", 0);
    maps(&images, 7, 0x1000, 0x1000, 0, "/bash");
    forks_or_ends(&images, PERF_RECORD_FORK, 8, 7, 8);
    assert_string_equal(at(&images, 8, 0x1000, &offset), "/bash"); /* as its parent */
    assert_string_equal(image_process_of(&images, 8)->name, "bash");
    uint32_t before = image_process_of(&images, 8)->number;
    is_named(&images, 8, "sort", PERF_RECORD_MISC_COMM_EXEC);
    assert_string_equal(at(&images, 8, 0x1000, &offset), "");
    assert_string_equal(image_process_of(&images, 8)->name, "sort");
    assert_int_not_equal(image_process_of(&images, 8)->number, before);
    assert_string_equal(at(&images, 7, 0x1000, &offset), "/bash");
    forks_or_ends(&images, PERF_RECORD_FORK, 8, 8, 9); /* a thread */
    forks_or_ends(&images, PERF_RECORD_EXIT, 8, 7, 8); /* the first one ends before it */
    HASH_FIND_INT(images.processes, &pid, found);
    assert_non_null(found);
    forks_or_ends(&images, PERF_RECORD_EXIT, 8, 7, 9);
    HASH_FIND_INT(images.processes, &pid, found);
    assert_null(found);
    images_done(&images);
}

static void damaged_records_do_no_harm(void **state)
{
    struct images images = {0};
    unsigned seed = 3;
    for (int round = 0; round < 20000; round++) {
        _Alignas(8) unsigned char bytes[200];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(rand_r(&seed) % 3 ? rand_r(&seed) % 4 : rand_r(&seed));
        static const unsigned types[] = {PERF_RECORD_MMAP2, PERF_RECORD_COMM, PERF_RECORD_FORK, PERF_RECORD_EXIT};
        apply(&images, types[rand_r(&seed) % 4], (unsigned)rand_r(&seed), bytes, (size_t)(rand_r(&seed) % 25) * 8);
    }
    images_done(&images);
}

/* ---- files ---- */

static bool read_return_address(void *ctx, uint64_t address, uint64_t *ret_word)
{
    (void)ctx;
    (void)address;
    *ret_word = 0x1234;
    return true;
}

static bool has_open(const char *path)
{
    char link[64], target[PATH_MAX];
    struct proc_maps maps;
    bool has = false;
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(link, target, sizeof target - 1);
        target[len > 0 ? len : 0] = '\0';
        has |= strcmp(target, path) == 0;
    }
    assert_int_equal(proc_maps_read(getpid(), &maps), 0);
    for (size_t i = 0; i < maps.count; i++)
        has |= strcmp(maps.maps[i].path, path) == 0;
    proc_maps_done(&maps);
    return has;
}

/* The job may unmount what it lies in, remove it from NFS, or write it anew, as soon as it does not use it itself. */
static void files_do_not_stay_open(void **state)
{
    struct proc_maps maps;
    struct image_process process = {.pid = getpid()};
    char path[] = "/tmp/scry-image-XXXXXX";
    struct stat st;
    int code;
    _cleanup_(freep) char *bytes = NULL;
    size_t len;
    uint64_t address, bias, pc = (uint64_t)(uintptr_t)files_do_not_stay_open;
    assert_int_equal(file_read("/proc/self/exe", &bytes, &len), 0);
    int fd = mkstemp(path);
    assert_int_equal(file_write_all(fd, bytes, len), 0);
    assert_int_equal(fstat(fd, &st), 0);
    close(fd);
    assert_int_equal(proc_maps_read(getpid(), &maps), 0);
    const struct proc_map *own = proc_maps_find(&maps, pc);
    struct image_file file = {.key = {.inode = st.st_ino}, .path = path};
    const struct image_mapping mapping = {own->start, own->end, own->offset, &file};
    proc_maps_done(&maps);
    assert_true(image_address(&process, &mapping, pc, &address, &bias));
    assert_string_equal(file.open_path, path);
    assert_false(has_open(path));
    assert_int_equal(truncate(path, 0), 0);
    unlink(path);
    struct lines_registers registers = {.known = (1U << LINES_REGISTERS) - 1};
    registers.values[7] = 0x7000;
    code = cfi_step(file.cfi, address, bias, &registers, read_return_address, NULL, &(bool){false});
    assert_int_equal(code, CFI_CALLER);
    assert_int_equal(registers.values[16], 0x1234);
    assert_int_equal(registers.values[7], 0x7008);
    cfi_free(file.cfi);
    free(file.open_path);
}

/* ---- the tree ---- */

struct fixture {
    struct profile *profile;
    struct image_process process;
    struct image_file program, python, extension, unknown;
};

/* The test's program, with functions of names that the join looks at. */
__attribute__((noinline, used)) void _PyEval_EvalFrameDefault(void);
void _PyEval_EvalFrameDefault(void)
{
    __asm__ volatile("");
}

static int make(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->profile = profile_new();
    fixture->process = (struct image_process){.pid = 7, .number = 3, .name = "solver"};
    struct image_file *files[] = {&fixture->program, &fixture->python, &fixture->extension, &fixture->unknown};
    static char paths[][16] = {"/bin/solver", "/bin/python3", "/lib/ext.so", "/lib/later.so"};
    for (size_t i = 0; i < 4; i++)
        *files[i] = (struct image_file){.path = paths[i], .state = i < 3 ? FILE_DONE : FILE_WAITING};
    *state = fixture;
    return 0;
}

static int unmake(void **state)
{
    struct fixture *fixture = *state;
    profile_free(fixture->profile);
    free(fixture);
    return 0;
}

/* "program > ext.so: 2", a line a node that has samples. */
static void assert_tree(const struct fixture *fixture, const char *expected)
{
    json_t *json = json_object(), *node;
    struct buf text = BUF_INIT;
    size_t index;
    profile_put(fixture->profile, json);
    const json_t *nodes = json_object_get(json, "nodes"), *functions = json_object_get(json, "functions");
    json_array_foreach(nodes, index, node)
    {
        json_int_t chain[64], at_node = (json_int_t)index;
        size_t depth = 0;
        if (!json_integer_value(json_array_get(node, 2)))
            continue;
        for (; at_node >= 0; at_node = json_integer_value(json_array_get(json_array_get(nodes, (size_t)at_node), 0)))
            chain[depth++] = at_node;
        while (depth) {
            const json_t *its = json_array_get(nodes, (size_t)chain[--depth]);
            const json_t *function = json_array_get(functions, (size_t)json_integer_value(json_array_get(its, 1)));
            const char *name = json_string_value(json_array_get(function, 0));
            buf_printf(&text, "%s%s", name ? name : json_string_value(json_array_get(function, 1)), depth ? " > " : "");
        }
        buf_printf(&text, ": %d\n", (int)json_integer_value(json_array_get(node, 2)));
    }
    assert_string_equal(text.data ? text.data : "", expected);
    buf_done(&text);
    json_decref(json);
}

#define ADD(fixture, ...) profile_add((fixture)->profile, &(fixture)->process, &(struct profile_sample){__VA_ARGS__})

static void samples_of_a_path_are_one_node(void **state)
{
    struct fixture *fixture = *state;
    const struct profile_frame frames[] = {{&fixture->extension, 5}, {&fixture->program, 9}};
    ADD(fixture, .frames = frames, .count = 2);
    ADD(fixture, .frames = frames, .count = 2);
    ADD(fixture, .frames = frames + 1, .count = 1);
    ADD(fixture, .frames = frames + 1, .count = 1, .in_kernel = true);
    ADD(fixture, .count = 0);
    profile_fold(fixture->profile, FOLD_LEARNED);
    assert_tree(fixture, "/bin/solver: 1\n/bin/solver > /lib/ext.so: 2\n/bin/solver > kernel: 1\n: 1\n");
}

static void stacks_wait_for_functions(void **state)
{
    struct fixture *fixture = *state;
    const struct profile_frame frames[] = {{&fixture->unknown, 5}, {&fixture->program, 9}};
    ADD(fixture, .frames = frames, .count = 2);
    profile_fold(fixture->profile, FOLD_LEARNED);
    assert_tree(fixture, "");
    fixture->unknown.state = FILE_DONE;
    profile_fold(fixture->profile, FOLD_LEARNED);
    assert_tree(fixture, "/bin/solver > /lib/later.so: 1\n");
}

/* Who called the C library is of interest; without anybody, the library. */
static void waiting_is_the_callers(void **state)
{
    struct fixture *fixture = *state;
    static char libc[] = "/lib/libc.so.6";
    struct image_file library = {.path = libc, .state = FILE_DONE};
    const struct profile_frame frames[] = {{&library, 5}, {&library, 7}, {&fixture->program, 9}};
    for (size_t count = 2; count <= 3; count++) {
        struct profile_stack *stack = profile_keep(fixture->profile, &fixture->process,
                                                   &(struct profile_sample){.frames = frames, .count = count});
        profile_add_waiting(fixture->profile, stack, WAITING_PIPE, 2000000000);
        profile_add_waiting(fixture->profile, stack, WAITING_PIPE, 500000000);
        free(stack);
    }
    profile_fold(fixture->profile, FOLD_LEARNED);
    assert_tree(fixture, ""); /* no processor time */
    json_t *json = json_object();
    profile_put(fixture->profile, json);
    const json_t *waits = json_object_get(json, "waits");
    assert_int_equal(json_array_size(waits), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *wait = json_array_get(waits, i);
        const json_t *node =
            json_array_get(json_object_get(json, "nodes"), (size_t)json_integer_value(json_array_get(wait, 0)));
        const json_t *function =
            json_array_get(json_object_get(json, "functions"), (size_t)json_integer_value(json_array_get(node, 1)));
        assert_string_equal(json_string_value(json_array_get(function, 1)), i ? "/bin/solver" : libc);
        assert_string_equal(json_string_value(json_array_get(wait, 1)), "pipe");
        assert_true(json_real_value(json_array_get(wait, 2)) > 2.49);
    }
    json_decref(json);
}

static const json_t *thread_put(const json_t *json, const char *name)
{
    const json_t *thread;
    size_t i;
    json_array_foreach(json_object_get(json, "threads"), i,
                       thread) if (strcmp(json_string_value(json_array_get(thread, 2)), name) == 0) return thread;
    return NULL;
}

/* Of processes with several; a thread has its last name, and what it comes to where. */
static void threads_have_their_shares(void **state)
{
    struct fixture *fixture = *state;
    struct image_thread first = {.tid = 7, .pid = 7, .number = 4, .name = "solver"},
                        second = {.tid = 8, .pid = 7, .number = 5, .name = "solver"};
    const struct image_process other = {.pid = 9, .number = 6, .name = "alone"};
    const struct profile_frame frames[] = {{&fixture->extension, 5}, {&fixture->program, 9}};
    ADD(fixture, .thread = &first, .frames = frames, .count = 2);
    ADD(fixture, .frames = frames, .count = 2); /* of none that is known */
    profile_add(fixture->profile, &other,
                &(struct profile_sample){
                    .thread = &(struct image_thread){.tid = 9, .pid = 9, .number = 7}, .frames = frames, .count = 2});
    profile_fold(fixture->profile, FOLD_LEARNED);
    json_t *json = json_object();
    profile_put(fixture->profile, json);
    assert_int_equal(json_array_size(json_object_get(json, "threads")), 0);
    json_decref(json);
    profile_add(fixture->profile, &other, /* the first one of it only waits for another */
                &(struct profile_sample){
                    .thread = &(struct image_thread){.tid = 10, .pid = 9, .number = 8}, .frames = frames, .count = 2});
    profile_fold(fixture->profile, FOLD_LEARNED);
    json = json_object();
    profile_put(fixture->profile, json);
    assert_int_equal(json_array_size(json_object_get(json, "threads")), 2);
    json_decref(json);
    ADD(fixture, .thread = &second, .frames = frames, .count = 2, .weight = 3);
    memcpy(second.name, "writer", sizeof "writer");
    struct profile_stack *stack =
        profile_keep(fixture->profile, &fixture->process,
                     &(struct profile_sample){.thread = &second, .frames = frames + 1, .count = 1});
    profile_add_waiting(fixture->profile, stack, WAITING_PIPE, 1500000000);
    free(stack);
    profile_fold(fixture->profile, FOLD_LEARNED);
    json = json_object();
    profile_put(fixture->profile, json);
    assert_int_equal(json_array_size(json_object_get(json, "threads")), 4);
    char *text = json_dumps(thread_put(json, "writer"), JSON_COMPACT | JSON_REAL_PRECISION(3)),
         *main_text = json_dumps(thread_put(json, "solver"), JSON_COMPACT | JSON_REAL_PRECISION(3));
    assert_string_equal(text, "[0,8,\"writer\",3,1.5,[1,3,0,0,0,1500]]");
    assert_string_equal(main_text, "[0,7,\"solver\",1,0.0,[1,1,0]]");
    free(text);
    free(main_text);
    json_decref(json);
}

/* Who called scry's library, without knowing, has used the processor. */
static void scrys_own_is_the_callers(void **state)
{
    struct fixture *fixture = *state;
    static char agent[] = "/usr/lib/scry/libscry-agent.so";
    struct image_file library = {.path = agent, .state = FILE_DONE};
    const struct profile_frame frames[] = {
        {&library, 5}, {&fixture->extension, 7}, {&library, 9}, {&fixture->program, 9}};
    assert_true(profile_is_scrys(frames) && !profile_is_scrys(frames + 1));
    ADD(fixture, .frames = frames, .count = 4);
    ADD(fixture, .frames = frames + 2, .count = 2);
    profile_fold(fixture->profile, false);
    assert_tree(fixture, "/bin/solver: 1\n/bin/solver > /lib/ext.so: 1\n");
}

/* Which functions interpret Python is known by their names: of this test's own file, as scry-symbols knows it. */
static void python_stands_in_its_place(void **state)
{
    struct fixture *fixture = *state;
    static const struct profile_function codes[] = {{"<module>", "a.py", "python", NULL, 1},
                                                    {"main", "a.py", "python", NULL, 2},
                                                    {"helper", "a.py", "python", NULL, 5}};
    const struct profile_code *code[3];
    for (size_t i = 0; i < 3; i++)
        code[i] = profile_code(fixture->profile, &codes[i]);
    assert_ptr_equal(code[1], profile_code(fixture->profile, &codes[1]));
    const struct profile_python python[] = {{code[2], true}, {code[1], false}, {code[0], true}};
    /* nothing is known of the interpreter: Python's functions, and what they called */
    const struct profile_frame native[] = {{&fixture->extension, 5}};
    ADD(fixture, .frames = native, .count = 1, .python = python, .python_count = 3);
    profile_fold(fixture->profile, FOLD_LEARNED);
    assert_tree(fixture, "<module> > main > helper > /lib/ext.so: 1\n");
}

/* A program may make functions for as long as it runs: those that come late count for who called them. */
static void functions_have_a_limit(void **state)
{
    struct fixture *fixture = *state;
    const struct profile_code *code = NULL;
    char name[16];
    unsigned count = 0;
    do {
        snprintf(name, sizeof name, "f%u", count);
        code = profile_code(fixture->profile, &(struct profile_function){name, "a.py", "python", NULL, 1});
    } while (code && ++count < 1 << 20);
    assert_int_equal(count, 1 << 16);
    assert_non_null(profile_code(fixture->profile, &(struct profile_function){"f7", "a.py", "python", NULL, 1}));
    const struct profile_frame frames[] = {{&fixture->extension, 5, code}, {&fixture->program, 9}};
    ADD(fixture, .frames = frames, .count = 2);
    profile_fold(fixture->profile, FOLD_ALL);
    assert_tree(fixture, "/bin/solver > /lib/ext.so: 1\n");
}

static json_t *put(const struct fixture *fixture)
{
    json_t *json = json_object();
    profile_put(fixture->profile, json);
    return json;
}

/* What is inlined at an address stands below the function with the code; the stack waits until that is known. */
static void inlined_functions_are_frames(void **state)
{
    struct fixture *fixture = *state;
    struct buf asked = BUF_INIT;
    fixture->program.places = places_new();
    const struct profile_frame frames[] = {{&fixture->program, 0x15}, {&fixture->program, 0x25}};
    const struct profile_frame later[] = {{&fixture->program, 0x16}};
    const struct profile_function g = {"g", "a.h", "native", &fixture->program, 3},
                                  h = {"h", "a.h", "native", &fixture->program, 9};
    ADD(fixture, .frames = frames, .count = 2);
    profile_fold(fixture->profile, FOLD_NEW);
    assert_int_equal(places_ask(fixture->program.places, 10, &asked), 2);
    buf_append(&asked, "", 1);
    assert_string_equal(asked.data, "address\t0x15\naddress\t0x25\n");
    buf_done(&asked);
    assert_tree(fixture, "");
    places_add(fixture->program.places, 0x10, 0x18, 99);
    places_add_part(fixture->program.places, 10); /* of h, where something of the language's is */
    places_add_call(fixture->program.places, profile_code(fixture->profile, &h), 98);
    places_add_part(fixture->program.places, 4);
    places_add_call(fixture->program.places, profile_code(fixture->profile, &g), 70);
    places_add(fixture->program.places, 0x10, 0x18, 10); /* the same once more */
    places_end(fixture->program.places);                 /* nothing came of the other one */
    profile_fold(fixture->profile, FOLD_LEARNED);
    ADD(fixture, .frames = later, .count = 1);
    profile_fold(fixture->profile, FOLD_NEW);
    assert_tree(fixture, "/bin/solver > /bin/solver > g > h: 1\n/bin/solver > g > h: 1\n");
    json_t *json = put(fixture), *expected = json_loads("[[0, 70, 0, 2], [1, 4, 0, 2], [2, 10, 2, 2]]", 0, NULL);
    assert_true(json_equal(json_object_get(json, "lines"), expected));
    assert_string_equal(json_string_value(json_array_get(json_array_get(json_object_get(json, "functions"), 2), 1)),
                        "/bin/solver");
    json_decref(expected);
    json_decref(json);
    places_free(fixture->program.places);
}

/* ---- code that programs make ---- */

static void assert_split(const char *name, const char *function, const char *file, uint32_t line)
{
    char own[64], its[64];
    uint32_t number = 9999;
    assert_true(jit_name_split(name, own, its, sizeof own, &number));
    assert_string_equal(own, function);
    assert_string_equal(its, file);
    assert_int_equal(number, line);
}

static void names_of_javascript(void **state)
{
    char own[64], its[64];
    uint32_t number;
    assert_split("JS:*solve /home/me/x.js:12:3", "solve", "/home/me/x.js", 12);
    assert_split("LazyCompile:~next node:internal/process/task_queues:67:26", "next",
                 "node:internal/process/task_queues", 67);
    assert_split("JS:^ file:///home/me/x.mjs:1:1", "(anonymous)", "/home/me/x.mjs", 1);
    assert_split("Function:", "(anonymous)", "", 0);
    assert_split("JS:*a b:3", "a", "b", 3);
    assert_false(jit_name_split("Lcom/a/B;::run", own, its, sizeof own, &number));
}

/* The test's own, as if a JIT had written it. */
static void map_write(const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    assert_int_equal(file_replace_soon(path, text, strlen(text), 0600), 0);
}

static void assert_jit(struct fixture *fixture, uint64_t address, const char *expected)
{
    struct buf line = BUF_INIT;
    const struct profile_frame frame = {.address = address,
                                        .code = jit_find(fixture->profile, &fixture->process, address)};
    ADD(fixture, .frames = &frame, .count = 1);
    profile_fold(fixture->profile, FOLD_LEARNED);
    buf_printf(&line, "%s: 1\n", expected);
    assert_tree(fixture, line.data);
    buf_done(&line);
    profile_free(fixture->profile);
    fixture->profile = profile_new();
    jit_free(fixture->process.jit); /* it is read again at once */
    fixture->process.jit = NULL;
}

static void perf_maps_name_code(void **state)
{
    struct fixture *fixture = *state;
    char path[64], old[80];
    fixture->process.pid = getpid();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    unlink(path);
    assert_jit(fixture, 0x1010, "[JIT of solver]");
    map_write("1000 20 first\n1000 40 JS:*main a.js:3:1\nzz\n\n-1 5 no\n2000 10 Lcom/a/B;::run with blanks\n2008 4 "
              "newer\n3000 10 cut");
    assert_jit(fixture, 0x103f, "main");
    assert_jit(fixture, 0x1040, "[JIT of solver]");
    assert_jit(fixture, 0x2007, "Lcom/a/B;::run with blanks");
    assert_jit(fixture, 0x2008, "newer");
    assert_jit(fixture, 0x200c, "Lcom/a/B;::run with blanks");
    assert_jit(fixture, 0x3000, "[JIT of solver]"); /* its line is not whole */
    /* of an earlier process with that number */
    const struct timespec times[] = {{1000000000, 0}, {1000000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_jit(fixture, 0x1010, "[JIT of solver]");
    /* behind a link; somebody else's */
    map_write("1000 20 first\n");
    if (geteuid() == 0) {
        assert_jit(fixture, 0x1010, "first");
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_jit(fixture, 0x1010, "[JIT of solver]");
        assert_int_equal(chown(path, 0, 0), 0);
    }
    snprintf(old, sizeof old, "%s.old", path);
    assert_int_equal(rename(path, old), 0);
    assert_int_equal(symlink(old, path), 0);
    assert_jit(fixture, 0x1010, "[JIT of solver]");
    unlink(old);
    unlink(path);
}

/* Java writes the whole map each time it is asked, into the same file; others append to it. */
static void perf_maps_are_written_anew(void **state)
{
    static const char *const texts[] = {"1000 20 first\n2000 20 second\n",
                                        "1000 20 first\n2000 20 second\n3000 20 third\n",
                                        "1000 20 first\n1800 20 between\n2000 20 second\n4000 20 fourth\n"};
    static const uint64_t addresses[] = {0x2000, 0x3000, 0x1800};
    static const char *const names[] = {"second", "third", "between"};
    struct fixture *fixture = *state;
    char path[64];
    struct buf expected = BUF_INIT;
    fixture->process.pid = getpid();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    unlink(path);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(texts[i], file);
        assert_int_equal(fclose(file), 0);
        const struct profile_code *code, *none = jit_find(fixture->profile, &fixture->process, 0x9000);
        while ((code = jit_find(fixture->profile, &fixture->process, addresses[i])) == none) /* it looks now and then */
            wait_fd(-1, 0, 1);
        const struct profile_frame frame = {.address = addresses[i], .code = code};
        ADD(fixture, .frames = &frame, .count = 1);
        buf_printf(&expected, "%s: 1\n", names[i]);
    }
    profile_fold(fixture->profile, FOLD_LEARNED);
    assert_tree(fixture, expected.data);
    buf_done(&expected);
    jit_free(fixture->process.jit);
    fixture->process.jit = NULL;
    unlink(path);
}

/* Java writes its map at the end, if it was asked to. */
static void perf_maps_come_late(void **state)
{
    static char asked[] = "JAVA_TOOL_OPTIONS=-XX:+DumpPerfMapAtExit";
    char *const environments[][2] = {{asked, NULL}, {NULL}};
    static const char *const trees[] = {"first: 1\nsecond: 1\n[JIT of solver]: 1\n", "[JIT of solver]: 3\n"};
    static const uint64_t addresses[] = {0x1010, 0x2010, 0x3010};
    struct fixture *fixture = *state;
    char path[64];
    for (size_t round = 0; round < sizeof trees / sizeof *trees; round++) {
        int ready[2], hold[2];
        assert_true(pipe2(ready, O_CLOEXEC) == 0 && pipe2(hold, O_CLOEXEC) == 0);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(hold[0], STDIN_FILENO);
            execle("/bin/cat", "cat", (char *)NULL, environments[round]);
            _exit(1);
        }
        close(hold[0]);
        close(ready[1]);
        assert_int_equal(read(ready[0], path, 1), 0); /* it executes */
        fixture->process.pid = pid;
        for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
            const struct profile_frame frame = {.address = addresses[i],
                                                .code = jit_find(fixture->profile, &fixture->process, addresses[i])};
            ADD(fixture, .frames = &frame, .count = 1);
        }
        profile_fold(fixture->profile, FOLD_LEARNED);
        snprintf(path, sizeof path, "/tmp/perf-%d.map", pid);
        static const char map[] = "1000 20 first\n2000 20 second\n";
        assert_int_equal(file_replace_soon(path, map, strlen(map), 0600), 0);
        close(hold[1]);
        close(ready[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        jit_free(fixture->process.jit);
        fixture->process.jit = NULL;
        assert_tree(fixture, trees[round]);
        unlink(path);
        profile_free(fixture->profile);
        fixture->profile = profile_new();
    }
}

static void damaged_maps_do_no_harm(void **state)
{
    static const char bytes[] = "0019aF \n\n: JS:*";
    struct fixture *fixture = *state;
    char path[64];
    unsigned seed = 11;
    fixture->process.pid = getpid();
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    for (int round = 0; round < 200; round++) {
        char text[400];
        size_t len = (size_t)rand_r(&seed) % sizeof text;
        for (size_t i = 0; i < len; i++)
            text[i] = rand_r(&seed) % 50 ? bytes[(size_t)rand_r(&seed) % (sizeof bytes - 1)] : (char)rand_r(&seed);
        assert_int_equal(file_replace_soon(path, text, len, 0600), 0);
        for (int i = 0; i < 20; i++)
            jit_find(fixture->profile, &fixture->process, (uint64_t)rand_r(&seed) % 0x200);
        jit_free(fixture->process.jit);
        fixture->process.jit = NULL;
    }
    unlink(path);
}

/* All that was put in is there, however long it took. */
static void spans_grow(void **state)
{
    struct spans spans;
    uint64_t second = 1000000000, samples = 0, waited = 0;
    spans_init(&spans);
    for (uint64_t i = 0; i < 40000; i++)
        spans_add(&spans, spans.start_ns + i * second / 10, (uint32_t)(i % 97), 1);
    spans_wait(&spans, spans.start_ns + 3000 * second, 2500 * second, 5);
    json_t *json = spans_json(&spans), *cells = json_object_get(json, "cells");
    double width = json_number_value(json_object_get(json, "seconds"));
    assert_true(width >= 4000 / 200. && width <= 4000 / 25.);
    assert_true(json_array_size(cells) % 4 == 0 && json_array_size(cells) <= 4 * 8192);
    for (size_t i = 0; i < json_array_size(cells); i += 4) {
        double begin = width * (double)json_integer_value(json_array_get(cells, i));
        uint64_t its = (uint64_t)json_integer_value(json_array_get(cells, i + 3));
        assert_true(begin < 4000 && (!its || (begin + width > 500 && begin < 3000)));
        samples += (uint64_t)json_integer_value(json_array_get(cells, i + 2));
        waited += its;
    }
    assert_int_equal(samples, 40000);
    assert_true(waited > 2499900 && waited <= 2500000);
    json_decref(json);
    spans_done(&spans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_grow),
        cmocka_unit_test(mappings_replace_each_other),
        cmocka_unit_test(mappings_by_chance),
        cmocka_unit_test(processes_come_and_go),
        cmocka_unit_test(threads_have_names),
        cmocka_unit_test(damaged_records_do_no_harm),
        cmocka_unit_test(files_do_not_stay_open),
        cmocka_unit_test_setup_teardown(samples_of_a_path_are_one_node, make, unmake),
        cmocka_unit_test_setup_teardown(stacks_wait_for_functions, make, unmake),
        cmocka_unit_test_setup_teardown(waiting_is_the_callers, make, unmake),
        cmocka_unit_test_setup_teardown(threads_have_their_shares, make, unmake),
        cmocka_unit_test(names_of_javascript),
        cmocka_unit_test_setup_teardown(perf_maps_are_written_anew, make, unmake),
        cmocka_unit_test_setup_teardown(perf_maps_come_late, make, unmake),
        cmocka_unit_test_setup_teardown(perf_maps_name_code, make, unmake),
        cmocka_unit_test_setup_teardown(damaged_maps_do_no_harm, make, unmake),
        cmocka_unit_test_setup_teardown(inlined_functions_are_frames, make, unmake),
        cmocka_unit_test_setup_teardown(scrys_own_is_the_callers, make, unmake),
        cmocka_unit_test_setup_teardown(python_stands_in_its_place, make, unmake),
        cmocka_unit_test_setup_teardown(functions_have_a_limit, make, unmake),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
