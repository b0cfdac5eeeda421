/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --syscalls: how often the job's processes call the kernel, for what, and how long that takes. Three small programs in the
 * kernel count (BPF, at raw tracepoints); nothing is stopped, and nothing is copied out before the end. A process belongs to
 * the job if its parent does at its first call; the command is put in by hand. Others on the node pay for that question, some
 * hundredths of a microsecond for each call. See bpf(2), and Documentation/bpf/btf.rst, from which come the offsets of what
 * the programs read. The programs may be used under the GPL, version 2, as well: functions of the kernel that they call ask for that.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/syscalls.h"
#include "job/run/job.h"

enum {
    MEMBERS_MOST = 65536, /* processes, and threads in a call, at once */
    COUNTS_MOST = 65536,  /* kinds of calls of all processes; beyond them all are of no process */
    KINDS = 512,
    LISTED = 300,
    CODE_MOST = 96,
};

enum { MEMBERS, STARTS, COUNTS, MAPS };
enum { ENTER, LEAVE, END, PROGRAMS };

struct syscalls {
    int maps[MAPS], programs[PROGRAMS], links[PROGRAMS]; /* -1: none */
};

/* In the maps: of a thread in a call; of a kind of calls of a process, 0: of those for which there was no room. */
struct call_start {
    uint64_t time_ns, number;
};
struct call_key {
    uint32_t pid, number;
};
struct call_count {
    uint64_t count, ns;
};

static const char SOURCE[] = "system calls";

static int call_bpf(int command, union bpf_attr *attr)
{
    long code = syscall(SYS_bpf, command, attr, sizeof *attr);
    return code < 0 ? -errno : (int)code;
}

/* ---- the programs ---- */

struct program {
    struct bpf_insn code[CODE_MOST];
    size_t used;
};

static size_t put(struct program *program, unsigned code, unsigned to, unsigned from, int off, int32_t imm)
{
    if (program->used == CODE_MOST)
        return 0;
    program->code[program->used] = (struct bpf_insn){
        .code = (uint8_t)code, .dst_reg = to & 15, .src_reg = from & 15, .off = (int16_t)off, .imm = imm};
    return program->used++;
}

#define MOVE(to, from) put(program, BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define SET(to, number) put(program, BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number)
#define ADD(to, number) put(program, BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, number)
#define LOAD(to, from, off) put(program, BPF_LDX | BPF_MEM | BPF_DW, to, from, off, 0)
#define STORE(off, from) put(program, BPF_STX | BPF_MEM | BPF_DW, BPF_REG_10, from, off, 0)
#define STORE32(off, from) put(program, BPF_STX | BPF_MEM | BPF_W, BPF_REG_10, from, off, 0)
#define CALL(function) put(program, BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define UNLESS(reg) put(program, BPF_JMP | BPF_JEQ | BPF_K, reg, 0, 0, 0) /* jumps where it is 0 */
#define WHERE(reg) put(program, BPF_JMP | BPF_JNE | BPF_K, reg, 0, 0, 0)
#define LEAVE_WITH_0() (SET(BPF_REG_0, 0), put(program, BPF_JMP | BPF_EXIT, 0, 0, 0, 0))

static void land(struct program *program, size_t jump)
{
    program->code[jump].off = (int16_t)(program->used - jump - 1);
}

/* The map and the key on the stack, for a helper. */
static void name_key(struct program *program, int map, int key)
{
    put(program, BPF_LD | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map);
    put(program, 0, 0, 0, 0, 0);
    MOVE(BPF_REG_2, BPF_REG_10);
    ADD(BPF_REG_2, key);
}

static void find(struct program *program, int map, int key)
{
    name_key(program, map, key);
    CALL(BPF_FUNC_map_lookup_elem);
}

static void store_in(struct program *program, int map, int key, int value, int flags)
{
    name_key(program, map, key);
    MOVE(BPF_REG_3, BPF_REG_10);
    ADD(BPF_REG_3, value);
    SET(BPF_REG_4, flags);
    CALL(BPF_FUNC_map_update_elem);
}

static void erase(struct program *program, int map, int key)
{
    name_key(program, map, key);
    CALL(BPF_FUNC_map_delete_elem);
}

/* On the stack: the thread at -8, its process at -16. */
static void who(struct program *program)
{
    CALL(BPF_FUNC_get_current_pid_tgid);
    STORE(-8, BPF_REG_0);
    MOVE(BPF_REG_7, BPF_REG_0);
    MOVE(BPF_REG_8, BPF_REG_0);
    put(program, BPF_ALU64 | BPF_RSH | BPF_K, BPF_REG_8, 0, 0, 32);
    STORE32(-16, BPF_REG_8);
}

static void read_kernel(struct program *program, int to, int size)
{
    MOVE(BPF_REG_1, BPF_REG_10);
    ADD(BPF_REG_1, to);
    SET(BPF_REG_2, size);
    CALL(BPF_FUNC_probe_read_kernel);
}

/* Of struct task_struct; `live` of its signal_struct: threads that have not ended. -1: not found. */
struct offsets {
    int parent, tgid, signal, live;
};

/* What the pointer at `outer` of the task leads to, from `inner` on: four bytes at -32; 0: it is not read. */
static void follow(struct program *program, int outer, int inner)
{
    CALL(BPF_FUNC_get_current_task);
    MOVE(BPF_REG_3, BPF_REG_0);
    ADD(BPF_REG_3, outer);
    SET(BPF_REG_1, 0);
    STORE(-24, BPF_REG_1);
    STORE(-32, BPF_REG_1);
    read_kernel(program, -24, 8);
    LOAD(BPF_REG_3, BPF_REG_10, -24);
    ADD(BPF_REG_3, inner);
    read_kernel(program, -32, 4);
}

static void write_enter(struct program *program, const struct syscalls *calls, const struct offsets *offsets)
{
    MOVE(BPF_REG_6, BPF_REG_1);
    who(program);
    find(program, calls->maps[MEMBERS], -16);
    size_t known = WHERE(BPF_REG_0);
    follow(program, offsets->parent, offsets->tgid);
    find(program, calls->maps[MEMBERS], -32);
    size_t foreign = UNLESS(BPF_REG_0);
    store_in(program, calls->maps[MEMBERS], -16, -32, BPF_ANY);
    land(program, known);
    LOAD(BPF_REG_1, BPF_REG_6, 8);
    STORE(-40, BPF_REG_1);
    CALL(BPF_FUNC_ktime_get_ns);
    STORE(-48, BPF_REG_0);
    store_in(program, calls->maps[STARTS], -8, -48, BPF_ANY);
    land(program, foreign);
    LEAVE_WITH_0();
}

static void count_at(struct program *program)
{
    SET(BPF_REG_1, 1);
    put(program, BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_1, 0, BPF_ADD);
    put(program, BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_0, BPF_REG_9, 8, BPF_ADD);
    LEAVE_WITH_0();
}

static void write_leave(struct program *program, const struct syscalls *calls)
{
    who(program);
    find(program, calls->maps[STARTS], -8);
    size_t none = UNLESS(BPF_REG_0);
    LOAD(BPF_REG_9, BPF_REG_0, 0);
    LOAD(BPF_REG_7, BPF_REG_0, 8);
    STORE32(-12, BPF_REG_7); /* behind the process: the key */
    CALL(BPF_FUNC_ktime_get_ns);
    put(program, BPF_ALU64 | BPF_SUB | BPF_X, BPF_REG_0, BPF_REG_9, 0, 0);
    MOVE(BPF_REG_9, BPF_REG_0);
    erase(program, calls->maps[STARTS], -8);
    find(program, calls->maps[COUNTS], -16);
    size_t first = UNLESS(BPF_REG_0);
    count_at(program);
    land(program, first);
    SET(BPF_REG_1, 1);
    STORE(-32, BPF_REG_1);
    STORE(-24, BPF_REG_9);
    store_in(program, calls->maps[COUNTS], -16, -32, BPF_NOEXIST);
    size_t stored = UNLESS(BPF_REG_0);
    find(program, calls->maps[COUNTS], -16); /* another thread was first */
    size_t there = WHERE(BPF_REG_0);
    SET(BPF_REG_1, 0);
    STORE32(-16, BPF_REG_1);
    find(program, calls->maps[COUNTS], -16);
    size_t unknown = UNLESS(BPF_REG_0);
    land(program, there);
    count_at(program);
    land(program, none);
    land(program, stored);
    land(program, unknown);
    LEAVE_WITH_0();
}

/* A thread ends: in a call that never returns. With the last one the process's number is free; others go on after the first. */
static void write_end(struct program *program, const struct syscalls *calls, const struct offsets *offsets)
{
    who(program);
    erase(program, calls->maps[STARTS], -8);
    follow(program, offsets->signal, offsets->live);
    LOAD(BPF_REG_1, BPF_REG_10, -32);
    size_t others = WHERE(BPF_REG_1);
    erase(program, calls->maps[MEMBERS], -16);
    land(program, others);
    LEAVE_WITH_0();
}

/* ---- what the kernel says of its structs ---- */

static size_t behind_type(const struct btf_type *type)
{
    size_t count = BTF_INFO_VLEN(type->info);
    switch (BTF_INFO_KIND(type->info)) {
    case BTF_KIND_INT:
    case BTF_KIND_VAR:
    case BTF_KIND_DECL_TAG:
        return 4;
    case BTF_KIND_ARRAY:
        return sizeof(struct btf_array);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
    case BTF_KIND_DATASEC:
    case BTF_KIND_ENUM64:
        return count * 12;
    case BTF_KIND_ENUM:
    case BTF_KIND_FUNC_PROTO:
        return count * 8;
    default:
        return 0;
    }
}

static void find_offsets(const char *bytes, size_t len, struct offsets *ret_offsets)
{
    const struct btf_header *header = (const struct btf_header *)(const void *)bytes;
    *ret_offsets = (struct offsets){-1, -1, -1, -1};
    const struct {
        const char *of, *name;
        int *offset;
    } wanted[] = {{"task_struct", "real_parent", &ret_offsets->parent},
                  {"task_struct", "tgid", &ret_offsets->tgid},
                  {"task_struct", "signal", &ret_offsets->signal},
                  {"signal_struct", "live", &ret_offsets->live}};
    if (len < sizeof *header || header->magic != BTF_MAGIC ||
        (uint64_t)header->hdr_len + header->type_off + header->type_len > len ||
        (uint64_t)header->hdr_len + header->str_off + header->str_len > len || !header->str_len ||
        bytes[header->hdr_len + header->str_off + header->str_len - 1])
        return;
    const char *names = bytes + header->hdr_len + header->str_off, *at = bytes + header->hdr_len + header->type_off;
    const char *end = at + header->type_len;
    while ((size_t)(end - at) >= sizeof(struct btf_type)) {
        const struct btf_type *type = (const struct btf_type *)(const void *)at;
        const struct btf_member *member = (const struct btf_member *)(type + 1);
        size_t behind = behind_type(type);
        if ((size_t)(end - at) - sizeof *type < behind)
            return;
        at += sizeof *type + behind;
        if (BTF_INFO_KIND(type->info) != BTF_KIND_STRUCT || type->name_off >= header->str_len)
            continue;
        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
            bool its = strcmp(names + type->name_off, wanted[k].of) == 0;
            for (unsigned i = 0; its && i < BTF_INFO_VLEN(type->info); i++)
                if (member[i].name_off < header->str_len && strcmp(names + member[i].name_off, wanted[k].name) == 0)
                    *wanted[k].offset = (int)(BTF_MEMBER_BIT_OFFSET(member[i].offset) / 8);
        }
    }
}

/* ---- start ---- */

/* Without BPF_F_NO_PREALLOC, though that is 17 MB: kernels from 5.6 to 6.0 warn of it with a stack in their log (WARN), and stop
 * where panic_on_warn is set. */
static int make_map(uint32_t key, uint32_t value, uint32_t most)
{
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_HASH, .key_size = key, .value_size = value, .max_entries = most};
    return call_bpf(BPF_MAP_CREATE, &attr);
}

static int map_put(int map, const void *key, const void *value)
{
    union bpf_attr attr = {.map_fd = (uint32_t)map, .key = (uintptr_t)key, .value = (uintptr_t)value};
    return call_bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

static int start_program(struct syscalls *calls, int which, const char *tracepoint, const struct program *program)
{
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
                           .insns = (uintptr_t)program->code,
                           .insn_cnt = (uint32_t)program->used,
                           .license = (uintptr_t) "GPL"}; /* which its helpers ask for */
    calls->programs[which] = call_bpf(BPF_PROG_LOAD, &load);
    union bpf_attr open = {
        .raw_tracepoint = {.name = (uintptr_t)tracepoint, .prog_fd = (uint32_t)calls->programs[which]}};
    calls->links[which] =
        calls->programs[which] < 0 ? calls->programs[which] : call_bpf(BPF_RAW_TRACEPOINT_OPEN, &open);
    return calls->links[which];
}

static void close_all(struct syscalls *calls)
{
    for (int i = 0; i < PROGRAMS; i++) {
        if (calls->links[i] >= 0)
            close(calls->links[i]);
        if (calls->programs[i] >= 0)
            close(calls->programs[i]);
    }
    for (int i = 0; i < MAPS; i++)
        if (calls->maps[i] >= 0)
            close(calls->maps[i]);
}

static int start_all(struct syscalls *calls, pid_t command, const struct offsets *offsets)
{
    struct program enter = {.used = 0}, leave = {.used = 0}, ended = {.used = 0};
    const struct call_count none = {0, 0};
    int code;
    if ((calls->maps[MEMBERS] = make_map(sizeof(uint32_t), sizeof(uint32_t), MEMBERS_MOST)) < 0)
        return calls->maps[MEMBERS];
    if ((calls->maps[STARTS] = make_map(sizeof(uint64_t), sizeof(struct call_start), MEMBERS_MOST)) < 0)
        return calls->maps[STARTS];
    if ((calls->maps[COUNTS] = make_map(sizeof(struct call_key), sizeof(struct call_count), COUNTS_MOST + KINDS)) < 0)
        return calls->maps[COUNTS];
    for (uint32_t i = 0; i < KINDS; i++)
        if ((code = map_put(calls->maps[COUNTS], &(struct call_key){0, i}, &none)) < 0)
            return code;
    if ((code = map_put(calls->maps[MEMBERS], &command, &command)) < 0)
        return code;
    write_end(&ended, calls, offsets);
    write_leave(&leave, calls);
    write_enter(&enter, calls, offsets);
    if ((code = start_program(calls, END, "sched_process_exit", &ended)) < 0 ||
        (code = start_program(calls, LEAVE, "sys_exit", &leave)) < 0)
        return code;
    return start_program(calls, ENTER, "sys_enter", &enter);
}

void syscalls_start(struct job *job)
{
    static const char first[] = "pid:[4026531836]";
    _cleanup_(freep) char *types = NULL;
    size_t len;
    char space[sizeof first];
    struct offsets offsets;
    const char *reason = NULL;
    if (!job->options->syscalls || !job->dir[0])
        return;
    struct syscalls *calls = malloc(sizeof *calls);
    if (!calls)
        return;
    memset(calls, 0xff, sizeof *calls);
    ssize_t known = readlink("/proc/self/ns/pid", space, sizeof space);
    int code = 0;
    if (known != sizeof first - 1 || memcmp(space, first, sizeof first - 1) != 0)
        reason = "in a container (PID namespace) the kernel counts none; run scry on the node itself";
    else if ((code = make_map(sizeof(uint32_t), sizeof(uint32_t), 1)) == -EPERM || code == -EACCES)
        reason = "the kernel lets only root count them (CAP_BPF and CAP_PERFMON): run scry as root";
    else if (code < 0)
        reason = "this kernel has no BPF";
    else if (close(code), file_read("/sys/kernel/btf/vmlinux", &types, &len) < 0)
        reason = "this kernel does not describe itself (CONFIG_DEBUG_INFO_BTF)";
    if (!reason) {
        find_offsets(types, len, &offsets);
        code = offsets.parent < 0 || offsets.tgid < 0 || offsets.signal < 0 || offsets.live < 0
                   ? -ENOENT
                   : start_all(calls, job->launch.pid, &offsets);
        reason = code < 0 ? strerror(-code) : NULL;
    }
    if (reason) {
        recorder_note(&job->recorder, NOTE(source_off, .source = SOURCE, .reason = reason));
        close_all(calls);
        free(calls);
        return;
    }
    job->syscalls = calls;
}

/* ---- end ---- */

struct call_sum {
    struct call_key key;
    struct call_count sum;
};

static int by_time(const void *a, const void *b)
{
    const struct call_sum *left = a, *right = b;
    return left->sum.ns != right->sum.ns ? (left->sum.ns < right->sum.ns ? 1 : -1) : 0;
}

static size_t read_counts(int map, struct call_sum *sums, size_t most)
{
    size_t used = 0;
    struct call_key key;
    const void *before = NULL;
    while (used < most) {
        struct call_sum *sum = &sums[used];
        union bpf_attr next = {.map_fd = (uint32_t)map, .key = (uintptr_t)before, .next_key = (uintptr_t)&sum->key};
        if (call_bpf(BPF_MAP_GET_NEXT_KEY, &next) < 0)
            break;
        union bpf_attr look = {.map_fd = (uint32_t)map, .key = (uintptr_t)&sum->key, .value = (uintptr_t)&sum->sum};
        key = sum->key;
        before = &key;
        used += call_bpf(BPF_MAP_LOOKUP_ELEM, &look) == 0 && sum->sum.count;
    }
    return used;
}

static json_t *rows_json(const struct call_sum *sums, size_t count, const struct field *fields)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        char number[16];
        const struct syscall_row *known = syscall_by_number(sums[i].key.number);
        snprintf(number, sizeof number, "%u", sums[i].key.number);
        const struct syscall_count_row row = {.call = known ? known->name : number,
                                              .count = sums[i].sum.count,
                                              .ns = sums[i].sum.ns,
                                              .pid = (int32_t)sums[i].key.pid};
        json_array_append_new(list, fields_json(fields, &row, NULL));
    }
    return list;
}

void syscalls_put(struct job *job)
{
    struct syscalls *calls = job->syscalls;
    _cleanup_(freep) struct call_sum *sums = calls ? calloc(COUNTS_MOST + KINDS, sizeof *sums) : NULL;
    struct call_sum kinds[KINDS] = {{{0}}};
    size_t known = 0, own = 0, count = sums ? read_counts(calls->maps[COUNTS], sums, COUNTS_MOST + KINDS) : 0;
    if (calls)
        close_all(calls);
    free(calls);
    job->syscalls = NULL;
    if (!sums)
        return;
    for (size_t i = 0; i < count; i++) {
        struct call_sum *kind = &kinds[sums[i].key.number % KINDS];
        kind->key.number = sums[i].key.number;
        kind->sum.count += sums[i].sum.count;
        kind->sum.ns += sums[i].sum.ns;
        if (sums[i].key.pid)
            sums[own++] = sums[i];
    }
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].sum.count)
            kinds[known++] = kinds[i];
    qsort(kinds, known, sizeof *kinds, by_time);
    qsort(sums, own, sizeof *sums, by_time);
    struct syscalls_record record = {.calls = rows_json(kinds, known, record_syscall_fields),
                                     .processes =
                                         rows_json(sums, own < LISTED ? own : LISTED, record_syscall_process_fields)};
    recorder_put(&job->recorder, RECORD_syscalls, &record);
    json_decref(record.calls);
    json_decref(record.processes);
}
