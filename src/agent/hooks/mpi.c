/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/mpi.h"

#include "agent/hooks/agent.h"
#include "agent/hooks/connect.h"
#include "agent/hooks/hooks.h"
#include "agent/hooks/mpi_host.h"
#include "agent/safety/act.h"
#include "agent/safety/values.h"
#include "agent/system/large.h"
#include "shm/mpi_told.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

enum { OPENMPI = 1, MPICH }; /* enum mpi_library of shm/mpi_area.h */
enum { DIR_SHORT = 256, DIR_LONG = 4096 };
enum { ROOM = 10 << 20 }; /* that the interposer takes: its area of 8 MB, itself, and what it notes of threads */

enum state { STATE_OFF, STATE_LOOKING, STATE_LOADING, STATE_LOADED };
static _Atomic uint32_t state;
static const struct mpi_guest *guest;

/* Mostly it takes no page more than there is anyway. */
static char short_dir[DIR_SHORT];
static char long_dir[DIR_LONG] AGENT_LARGE;

/* ---- is there an MPI library? ---- */

struct found {
    const char *name;
    uint64_t dynamic;
    uint32_t library;
    unsigned count;
};

static bool starts(const char *text, const char *start)
{
    while (*start)
        if (*text++ != *start++)
            return false;
    return true;
}

static bool equal(const char *one, const char *other)
{
    return starts(one, other) && starts(other, one);
}

static const char *object_soname(uint64_t base, const Elf64_Dyn *dynamic)
{
    const char *strings = NULL;
    uint64_t soname = 0;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uint64_t value = dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_STRTAB)
            strings = (const char *)(value >= base ? value : value + base);
        else if (dynamic->d_tag == DT_SONAME)
            soname = value;
    }
    return strings && soname ? strings + soname : "";
}

/* A library may have been opened by another name: what it calls itself counts. */
static uint32_t library_named(const char *soname)
{
    if (equal(soname, "libmpi.so.40"))
        return OPENMPI;
    if (equal(soname, "libmpich.so.12") || equal(soname, "libmpi.so.12"))
        return MPICH;
    return 0;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *ctx)
{
    struct found *found = ctx;
    const char *name = info->dlpi_name;
    for (const char *at = name; *at; at++)
        if (*at == '/')
            name = at + 1;
    if (!starts(name, "libmpi"))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        uint64_t dynamic = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uint32_t library = library_named(object_soname(info->dlpi_addr, (const Elf64_Dyn *)dynamic));
        if (library && found->count++ == 0) {
            found->name = info->dlpi_name;
            found->dynamic = dynamic;
            found->library = library;
        }
    }
    return 0;
}

bool agent_mpi_found(void)
{
    struct found found = {.count = 0};
    dl_iterate_phdr(look_at, &found);
    return found.count > 0;
}

/* ---- the interposer ---- */

static size_t append(char *path, size_t size, size_t at, const char *text)
{
    size_t length = raw_length(text, size);
    if (at + length + 1 > size)
        return size;
    raw_copy(path + at, text, length);
    path[at + length] = '\0';
    return at + length;
}

/* SCRY_MPI_DIR, or where the agent lies. */
static bool interposer_path(char *path, size_t size, uint32_t library)
{
    const char *dir = long_dir[0] ? long_dir : short_dir;
    size_t at = 0;
    if (*dir) {
        at = append(path, size, 0, dir);
    } else {
        Dl_info info;
        if (!dladdr(&state, &info) || !info.dli_fname || append(path, size, 0, info.dli_fname) >= size)
            return false;
        for (size_t i = 0; path[i]; i++)
            if (path[i] == '/')
                at = i;
        path[at] = '\0';
    }
    if (at < size)
        at = append(path, size, at, library == OPENMPI ? "/libscry-mpi-openmpi.so" : "/libscry-mpi-mpich.so");
    return at < size && sys_call4(SYS_faccessat, AT_FDCWD, (long)path, R_OK, 0) == 0;
}

/* With a limit of address space it is left to MPI, which needs much of it later: a job that runs without us runs. */
static bool has_room(void)
{
    if (agent_address_room() / AREA_ROOM_PART_MPI >= ROOM)
        return true;
    agent_say(CONNECT_START, AGENT_MPI_NO_ROOM);
    return false;
}

static bool agent_mpi_tell(bool on);

static void load(const struct found *found)
{
    static char path[DIR_LONG] AGENT_LARGE;
    static struct mpi_host host AGENT_LARGE;
    if (!interposer_path(path, sizeof path, found->library) || !has_room())
        return;
    __typeof__(&dlopen) next_dlopen = (__typeof__(&dlopen))agent_next("dlopen");
    __typeof__(&dlsym) next_dlsym = agent_dlsym();
    void *handle = next_dlopen ? next_dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    mpi_start_function *start = handle ? (mpi_start_function *)next_dlsym(handle, "scry_mpi_start") : NULL;
    if (!start) {
        dlerror(); /* not for the program */
        return;
    }
    host.version = MPI_HOST_VERSION;
    host.library = found->library;
    host.library_name = found->name;
    host.library_address = found->dynamic;
    host.why_not = found->count > 1 ? "there are two MPI libraries in the process" : NULL;
    host.late = connect_settings.late;
    host.dlsym = next_dlsym;
    host.connect = agent_connect_mpi;
    host.tell = agent_mpi_tell;
    host.call_begins = agent_mpi_begins;
    host.call_ends = agent_mpi_ends;
    host.acts = mpi_short_acts;
    host.call_acts = agent_mpi_acts;
    host.messages = agent_mpi_messages;
    host.lasts = timeout_runs;
    guest = start(&host);
}

void agent_mpi_detect(void)
{
    uint32_t now = atomic_load(&state);
    if (now == STATE_LOADED) {
        guest->look();
        return;
    }
    struct found found = {.count = 0};
    if (now != STATE_LOOKING)
        return;
    dl_iterate_phdr(look_at, &found);
    if (found.count && atomic_compare_exchange_strong(&state, &now, STATE_LOADING)) {
        load(&found);
        atomic_store(&state, guest ? STATE_LOADED : STATE_OFF);
    }
}

void agent_mpi_opens(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) == STATE_LOADED)
        guest->opens();
}

void agent_mpi_seal(const char *why)
{
    uint32_t now = atomic_load(&state);
    if (now == STATE_LOOKING || (now == STATE_LOADED && guest->seal(why)))
        atomic_compare_exchange_strong(&state, &now, STATE_OFF);
}

void agent_mpi_start(const char *mode, const char *dir, bool can_load)
{
    if (mode && equal(mode, "off"))
        return;
    size_t length = dir ? raw_length(dir, DIR_LONG) : 0;
    if (length && length < DIR_LONG)
        raw_copy(length < DIR_SHORT ? short_dir : long_dir, dir, length + 1);
    atomic_store(&state, STATE_LOOKING);
    if (can_load)
        agent_mpi_detect();
}

enum late_result agent_mpi_late(const char *dir)
{
    if (atomic_load(&state) == STATE_OFF && !agent_mpi_found())
        return LATE_NO_MPI;
    if (atomic_load(&state) != STATE_LOADED)
        agent_mpi_start(NULL, dir, true);
    return atomic_load(&state) == STATE_LOADED ? LATE_DONE : LATE_NOT_TAKEN;
}

/* ---- dlsym ---- */

bool agent_mpi_asks(const char *name)
{
    return atomic_load_explicit(&state, memory_order_acquire) == STATE_LOADED && name &&
           (starts(name, "MPI_") || starts(name, "PMPI_"));
}

void *agent_mpi_symbol(const char *name, void *found)
{
    return guest->symbol(name, found);
}

/* Of them all only a part is looked at: the rest is not even cleared. */
static void frame_fill(struct capture_frame *frame, uint64_t site, const struct mpi_told *told)
{
    for (unsigned i = 0; i < sizeof frame->gpr / sizeof *frame->gpr; i++)
        frame->gpr[i] = 0;
    frame->gpr[MPI_TOLD_REGISTER] = (uint64_t)told;
    frame->gpr[7] = (uint64_t)told;
    frame->gpr[16] = site;
    frame->has_xmm = false;
    frame->has_result = true; /* there are no moves to be learnt, see moves.h */
    frame->result = told->flags & MPI_TOLD_SAYS;
}

/*
 * Calls of MPI as functions (shm/mpi_told.h): what the interposer tells, by mpi_host.h. There are no compiled-in hooks;
 * the call's address on the stack is that of its struct mpi_told, and from there on it is a call like others: with a
 * slot, records, values, actions, and an end by longjmp.
 */
/* ---- what is written ---- */

struct written {
    uint64_t packet_seq, bytes;
};

/* In a child of fork of which nobody has taken notice the block is the parent's: it is not there. */
static struct written written_now(const struct agent_thread *self)
{
    return (struct written){self->packet_seq, agent_hot.area && self->block ? record_written(self) : 0};
}

static void written_since(struct agent_thread *self, struct written before)
{
    struct written now = written_now(self);
    self->mpi_bytes += now.packet_seq == before.packet_seq ? now.bytes - before.bytes : now.bytes;
}

/* ---- messages ---- */

/* They stand behind all calls that have begun, those that wait for --min-time included: these are written now. */
static void messages_put(struct agent_thread *self, const struct mpi_messages *messages, uint64_t sp)
{
    enum guard guard = thread_guard(self, sp - 8);
    bool good =
        guard != GUARD_STUCK && (in_stack(self, sp) || (guard == GUARD_OUTER && stack_switch(self, guard, sp, true)));
    if (good && self->waiting && guard == GUARD_OUTER)
        hooks_flush_waiting(self, guard);
    for (uint32_t i = 0; i < messages->count; i++)
        if (good) {
            const struct record_message record = mpi_message_record(&messages->list[i]);
            record_put(self, guard, RECORD_MESSAGE, messages->list[i].time, &record, sizeof record, NULL, 0);
        } else {
            record_discarded(self, false);
        }
    if (guard != GUARD_STUCK)
        thread_unguard(self, guard);
}

static void mpi_long_messages(const struct mpi_messages *messages)
{
    struct agent_thread *self = &agent_self;
    struct area *area = agent_hot.area;
    if (messages->count && area && atomic_load_explicit(&area->on, memory_order_relaxed) &&
        atomic_load_explicit(&area->messages, memory_order_relaxed) && !self->off &&
        (self->block || thread_attach(self)))
        messages_put(self, messages, (uint64_t)__builtin_frame_address(0));
}

static void mpi_short_learn(uint32_t call);

/* ---- calls ---- */

/* The long way, as functions go it; mpi_short_learn: the call went it. */
static void mpi_long_begins(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages)
{
    struct capture_frame frame;
    struct written before = written_now(&agent_self);
    frame_fill(&frame, mpi_function_entry(call), told);
    hook_enter(mpi_function(call), site, &frame, 1);
    mpi_long_messages(messages);
    written_since(&agent_self, before);
    mpi_short_learn(call);
}

static void mpi_long_ends(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages)
{
    struct capture_frame frame;
    struct written before = written_now(&agent_self);
    frame_fill(&frame, mpi_function_exit(call), told);
    mpi_long_messages(messages);
    hook_leave(mpi_function(call), site, &frame, 1);
    written_since(&agent_self, before);
}

/* ---- telling begins ---- */

/* A monitor that made the area after this report has put everything in place before it let us go. */
static bool agent_mpi_tell(bool on)
{
    if (on)
        fork_noticed();
    if (on && !agent_hot.area)
        agent_connect(CONNECT_MPI);
    struct area *area = agent_hot.area;
    if (!area)
        return false;
    if (!on || atomic_exchange(&area->mpi, 1))
        return true;
    modules_announce(area);
    return true;
}

enum { FIELDS = 24, FORMS = 2 * CALL_COUNT + 64, MODE = AREA_RECORD | AREA_VALUES };

/* ---- what only acts ---- */

/* The plan of each call's list, and enum mpi_acts in its low bits. */
_Atomic uint64_t mpi_short_acts[CALL_COUNT] AGENT_LARGE;
/* Where it is, which never changes while the area lasts; the site only of lists with parameters. */
static struct acting {
    _Atomic(const struct area_slot *) slot;
    _Atomic(const struct area_site *) site;
} acting[CALL_COUNT] AGENT_LARGE;
static _Atomic bool acts_learnt;

_Static_assert((int)AGENT_TOLD_PARS == (int)MPI_ACTS_PARS && (int)AGENT_TOLD_REST == (int)MPI_ACTS_REST &&
                   _Alignof(struct agent_plan) > MPI_ACTS_ALL,
               "bits of an address");

static void learn_acts(uint32_t call, const struct area_slot *slot)
{
    uint32_t list = atomic_load_explicit(&slot->enter_list, memory_order_acquire);
    uint64_t site = mpi_function_entry(call);
    const struct agent_plan *plan = agent_hot.valgrind ? NULL : agent_plan_of(list, site);
    if (!plan || plan->told & AGENT_TOLD_OTHER || atomic_load(&agent_hot.area->messages))
        return;
    atomic_store(&acts_learnt, true);
    atomic_store_explicit(&acting[call].slot, slot, memory_order_relaxed);
    if (plan->params_at) /* where another thread's list, a later one, has parameters, it needs the site */
        atomic_store_explicit(&acting[call].site, area_site_find(&agent_hot.view, site, false), memory_order_relaxed);
    atomic_store_explicit(&mpi_short_acts[call], (uint64_t)plan | plan->told, memory_order_release);
}

/* Nothing is written but cells, so there is nothing to guard: a handler in between may do the same. */
static inline bool short_acts(uint32_t call, const struct mpi_told *told, uint64_t acts)
{
    const struct area *area = agent_hot.area;
    if (!area || agent_self.off || !atomic_load_explicit(&area->on, memory_order_relaxed))
        return false;
    const struct agent_plan *plan = (const struct agent_plan *)(acts & ~(uint64_t)MPI_ACTS_ALL);
    const struct area_slot *slot = atomic_load_explicit(&acting[call].slot, memory_order_relaxed);
    /* mode and list as one */
    uint64_t what = __atomic_load_n((const uint64_t *)(const void *)&slot->mode, __ATOMIC_ACQUIRE);
    if (what != ((uint64_t)plan->list_at << 32 | AREA_ACT_ENTER) ||
        (plan->params_at &&
         atomic_load_explicit(&acting[call].site->params, memory_order_acquire) != plan->params_at) ||
        atomic_load_explicit(&area->messages, memory_order_relaxed)) {
        atomic_store_explicit(&mpi_short_acts[call], 0, memory_order_relaxed);
        return false;
    }
    uint64_t gpr[8]; /* those that it can look at */
    gpr[0] = 0;
    gpr[7] = gpr[MPI_TOLD_REGISTER] = (uint64_t)told;
    agent_plan_run(plan, gpr);
    return true;
}
_Static_assert(offsetof(struct area_slot, mode) % 8 == 0 &&
                   offsetof(struct area_slot, enter_list) == offsetof(struct area_slot, mode) + 4,
               "one word");

/* ---- what is written of a call ---- */

struct form {
    struct area_slot *slot;
    const struct area_site *site;
    uint64_t word; /* what that held: program and layout */
    uint32_t function;
    uint16_t size, count; /* bytes; fields */
    struct {
        uint16_t off, size; /* 4, 8 */
    } fields[FIELDS];
};

/* Written once, published by one store, never changed while the area lasts. */
static _Atomic(struct form *) entries[CALL_COUNT] AGENT_LARGE, exits[CALL_COUNT] AGENT_LARGE;
static void *_Atomic forms; /* struct form[FORMS] */
static _Atomic uint32_t forms_used;

static uint64_t site_word(const struct area_site *site)
{
    return __atomic_load_n((const uint64_t *)(const void *)&site->values, __ATOMIC_ACQUIRE);
}

/* false: it does more than to copy fields. */
static bool decode(struct form *form)
{
    const struct area_view *view = &agent_hot.view;
    uint32_t offset = (uint32_t)form->word;
    if (!offset || !(agent_program_flags(view, offset, AGENT_PROGRAM_CAPTURE) & AGENT_PROGRAM_OK))
        return false;
    const struct area_program *program = (const struct area_program *)(const void *)(view->programs + offset);
    for (uint32_t at = sizeof(struct capture_head); at < program->size; at += sizeof(struct capture_insn)) {
        struct capture_insn insn;
        __builtin_memcpy(&insn, program->code + at, sizeof insn);
        if (insn.op != CAPTURE_MEM || insn.r != MPI_TOLD_REGISTER || (insn.n != 4 && insn.n != 8) || insn.off < 0 ||
            insn.off > (int32_t)sizeof(struct mpi_told) - 8 || form->count == FIELDS)
            return false;
        form->fields[form->count].off = (uint16_t)insn.off;
        form->fields[form->count++].size = insn.n;
        form->size = (uint16_t)(form->size + insn.n);
    }
    return form->count && form->size >= capture_minimum(program->code, program->size);
}

static inline bool holds(const struct form *form)
{
    return form && atomic_load_explicit(&form->slot->mode, memory_order_acquire) == MODE &&
           site_word(form->site) == form->word;
}

static void learn(_Atomic(struct form *) *place, struct area_slot *slot, uint64_t address)
{
    struct form form = {
        .slot = slot, .site = area_site_find(&agent_hot.view, address, false), .function = slot_index(slot)};
    if (!form.site)
        return;
    form.word = site_word(form.site);
    if (!decode(&form))
        return;
    struct form *all = large_get(&forms, FORMS * sizeof form, LARGE_PART);
    uint32_t index = all ? atomic_load(&forms_used) : FORMS;
    while (index < FORMS && !atomic_compare_exchange_weak(&forms_used, &index, index + 1))
        ;
    if (index < FORMS) {
        all[index] = form;
        atomic_store_explicit(place, &all[index], memory_order_release);
    }
}

/* The long way, as functions go it (mpi_tell.c); mpi_short_learn: the call went it. */
static void mpi_short_learn(uint32_t call)
{
    struct area_slot *slot = agent_hot.area ? area_slot_find(&agent_hot.view, mpi_function(call), false) : NULL;
    uint32_t mode = slot ? atomic_load_explicit(&slot->mode, memory_order_acquire) : 0;
    if (mode == AREA_ACT_ENTER)
        learn_acts(call, slot);
    if (mode != MODE)
        return;
    if (!holds(atomic_load_explicit(&entries[call], memory_order_acquire)))
        learn(&entries[call], slot, mpi_function_entry(call));
    if (!holds(atomic_load_explicit(&exits[call], memory_order_acquire)))
        learn(&exits[call], slot, mpi_function_exit(call));
}

void mpi_short_forget(void)
{
    bool acted = atomic_exchange(&acts_learnt, false);
    for (uint32_t i = 0; acted && i < CALL_COUNT; i++)
        atomic_store_explicit(&mpi_short_acts[i], 0, memory_order_relaxed);
    if (!atomic_exchange(&forms_used, 0))
        return;
    for (uint32_t i = 0; i < CALL_COUNT; i++) {
        atomic_store_explicit(&entries[i], NULL, memory_order_relaxed);
        atomic_store_explicit(&exits[i], NULL, memory_order_relaxed);
    }
}

/* ---- the piece ---- */

struct piece {
    struct area_thread *block;
    uint64_t cursor, last, time;
    size_t size;
    uint32_t count; /* of messages */
};

enum { MESSAGE_SIZE = RECORD_HEAD + sizeof(struct record_message), VALUES_SIZE = 4 + 2, LINE = 64, AHEAD = 4 * LINE };

/* As thread_guard, but only where nothing is interrupted; false: something is. */
static inline bool piece_guard(struct agent_thread *self, const struct area *area, uint64_t sp, struct piece *piece)
{
    struct area_thread *block = self->block;
    if (!block || self->levels || !atomic_load_explicit(&area->on, memory_order_relaxed) ||
        atomic_load_explicit(&block->pending, memory_order_relaxed))
        return false;
    piece->block = block;
    piece->cursor = atomic_load_explicit(&block->cursor, memory_order_relaxed);
    atomic_store_explicit(&block->pending, piece->cursor ? piece->cursor : 1, memory_order_relaxed);
    agent_signal_fence();
    self->writer = sp - sizeof(uint64_t);
    agent_signal_fence();
    return true;
}

/* Whether all is as usual, and there is room: for `size` bytes and the messages. */
static inline bool piece_fits(const struct agent_thread *self, const struct area *area, uint64_t sp,
                              const struct mpi_messages *messages, size_t size, struct piece *piece)
{
    const struct area_thread *block = piece->block;
    piece->count = atomic_load_explicit(&area->messages, memory_order_relaxed) ? messages->count : 0;
    piece->size = size + piece->count * MESSAGE_SIZE;
    piece->last = atomic_load_explicit(&block->last_time, memory_order_relaxed);
    return sp - self->stack_low < self->stack_size && !self->waiting &&
           atomic_load_explicit(&block->end, memory_order_relaxed) >= piece->cursor + piece->size;
}

/* Its time has few bits more than the one before, nor is it earlier. */
static inline bool piece_in_time(struct piece *piece, uint64_t time)
{
    piece->time = time;
    return time - piece->last < UINT64_C(1) << RECORD_TIME_BITS;
}

/* As one to recover.c, which takes it for a record `id`. false: a signal's handler has written something. */
static inline bool piece_reserve(struct agent_thread *self, uint32_t id, const struct piece *piece)
{
    return hole_begin(self, id, piece->cursor, piece->size, piece->last) &&
           cursor_move(&piece->block->cursor, piece->cursor, piece->cursor + piece->size);
}

/* Handlers have written records from `at` on, where the one ends that is reserved: its time is that of the first of these. 0:
 * there is no room for that. */
static __attribute__((noinline, cold)) uint64_t piece_before(struct agent_thread *self, uint64_t at, uint64_t last)
{
    uint32_t word;
    if (self->levels)
        recover_levels(self, 0);
    __builtin_memcpy(&word, agent_hot.view.base + at, sizeof word);
    uint32_t passed = (word >> (32 - RECORD_TIME_BITS)) - (uint32_t)last;
    return (word & 31) == RECORD_EXTENDED ? 0 : last + (passed & ((UINT32_C(1) << RECORD_TIME_BITS) - 1));
}

/* The clock is read after the record was reserved. false: its head has no room for that. *ret_now: the time; 0: it is over. */
static inline bool piece_time(struct agent_thread *self, struct piece *piece, uint64_t *ret_now)
{
    uint64_t end = piece->cursor + piece->size;
    agent_signal_fence();
    *ret_now = agent_ticks();
    agent_signal_fence();
    if (atomic_load_explicit(&piece->block->cursor, memory_order_relaxed) == end)
        return piece_in_time(piece, *ret_now);
    *ret_now = 0;
    return piece_in_time(piece, piece_before(self, end, piece->last));
}

/* What was reserved is given back; where a handler has written something behind it, it becomes a record that says nothing. */
static __attribute__((noinline, cold)) void piece_undo(struct agent_thread *self, uint64_t cursor, size_t size)
{
    if (!cursor_move(&self->block->cursor, cursor + size, cursor))
        recover_all(self);
}

static inline uint8_t *put_head(uint8_t *to, uint32_t id, uint64_t time)
{
    uint32_t head = (uint32_t)(time << (32 - RECORD_TIME_BITS)) | id;
    __builtin_memcpy(to, &head, sizeof head);
    return to + sizeof head;
}

static inline uint8_t *put_values(uint8_t *to, const struct form *form, const struct mpi_told *told)
{
    uint32_t layout = (uint32_t)(form->word >> 32);
    __builtin_memcpy(to, &layout, sizeof layout);
    __builtin_memcpy(to + sizeof layout, &form->size, sizeof form->size);
    to += VALUES_SIZE;
    const uint8_t *fields = (const uint8_t *)told;
    uint32_t last = form->count - 1u;
    for (uint32_t i = 0; i < last; i++) { /* what is too much, the next one overwrites */
        __builtin_memcpy(to, fields + form->fields[i].off, 8);
        to += form->fields[i].size;
    }
    if (form->fields[last].size == 4)
        __builtin_memcpy(to, fields + form->fields[last].off, 4);
    else
        __builtin_memcpy(to, fields + form->fields[last].off, 8);
    return to + form->fields[last].size;
}

static inline uint8_t *put_message(uint8_t *to, const struct mpi_message *message)
{
    *(struct record_message *)(void *)to = mpi_message_record(message);
    return to + sizeof(struct record_message);
}

/* `from`: the earliest time that they can have; returns where the next record goes. Few calls have more than one. */
static inline uint8_t *put_message_at(uint8_t *to, uint64_t *from, uint64_t until, const struct mpi_message *message)
{
    uint64_t time = message->time ? message->time : until;
    *from = time < *from ? *from : time > until ? until : time;
    return put_message(put_head(to, RECORD_MESSAGE, *from), message);
}

static __attribute__((noinline)) uint8_t *put_other_messages(uint8_t *to, uint64_t from, uint64_t until,
                                                             const struct mpi_messages *messages)
{
    for (uint32_t i = 1; i < messages->count; i++)
        to = put_message_at(to, &from, until, &messages->list[i]);
    return to;
}

static inline uint8_t *put_messages(uint8_t *to, const struct piece *piece, const struct mpi_messages *messages,
                                    uint64_t from)
{
    if (piece->count)
        to = put_message_at(to, &from, piece->time, &messages->list[0]);
    if (__builtin_expect(piece->count > 1, 0))
        to = put_other_messages(to, from, piece->time, messages);
    return to;
}

/* Lines that are written next: the monitor, on another processor, has read them since they were written last, or nobody
 * has had them yet. Writing waits for them in order, and while it waits nothing else is written. By hand: the compiler,
 * which may use general registers only, leaves a prefetch out. */
static inline void piece_ahead(const struct piece *piece)
{
    const uint8_t *at = agent_hot.view.base + piece->cursor + AHEAD;
    for (size_t done = 0; done < piece->size; done += LINE)
        __asm__ volatile("prefetcht0 %0" : : "m"(at[done])); /* of what is not there, or behind the end: nothing */
}

static inline void piece_done(struct agent_thread *self, const struct piece *piece)
{
    self->mpi_bytes += piece->size;
    agent_signal_fence();
    atomic_store_explicit(&piece->block->last_time, piece->time, memory_order_relaxed);
    agent_signal_fence();
}

/* ---- a call ---- */

/* On the shadow stack: sp before and after it is counted, since a signal's handler in between may have used the place.
 */
static inline struct agent_frame *frame_push(struct agent_thread *self, const struct piece *piece, uint32_t depth,
                                             uint64_t sp)
{
    struct agent_frame *frame = &self->frames[depth];
    frame->flags = 0;
    frame->sp = sp;
    agent_signal_fence();
    self->plain++;
    atomic_store_explicit(&piece->block->depth, depth + 1, memory_order_relaxed);
    agent_signal_fence();
    frame->sp = sp;
    return frame;
}

/* The clock is read last: the statistics' time of the call, too, is from there on. */
static inline bool short_begins(uint32_t call, uint64_t site, const struct mpi_told *told,
                                const struct mpi_messages *messages, uint64_t *ret_time)
{
    struct agent_thread *self = &agent_self;
    const struct area *area = agent_hot.area;
    const struct form *form = atomic_load_explicit(&entries[call], memory_order_acquire);
    uint64_t sp = (uint64_t)told;
    struct piece piece;
    if (!area || !holds(form) || atomic_load_explicit(&area->max_depth, memory_order_relaxed) ||
        atomic_load_explicit(&area->min_ticks, memory_order_relaxed) || !piece_guard(self, area, sp, &piece))
        return false;
    uint32_t depth = atomic_load_explicit(&piece.block->depth, memory_order_relaxed);
    if (!piece_fits(self, area, sp, messages, RECORD_HEAD + 4 + VALUES_SIZE + form->size, &piece) ||
        depth >= self->frame_limit || self->frames[(int64_t)depth - 1].sp <= sp) {
        thread_unguard(self, GUARD_OUTER);
        return false;
    }
    struct agent_frame *frame = frame_push(self, &piece, depth, sp);
    frame->function = mpi_function(call);
    frame->callsite = site;
    frame->site = mpi_function_entry(call);
    frame->slot = form->function;
    frame->packet_seq = self->packet_seq;
    frame_begin(self, GUARD_OUTER, frame, false);
    bool reserved = piece_reserve(self, RECORD_ENTRY_VALUES, &piece);
    uint8_t *from = agent_hot.view.base + piece.cursor, *to = from + RECORD_HEAD;
    if (reserved) {
        __builtin_memcpy(to, &form->function, sizeof form->function);
        to = put_values(to + sizeof form->function, form, told);
        if (piece.count)
            put_message(to + RECORD_HEAD, &messages->list[0]);
        piece_ahead(&piece);
    }
    if (!reserved || !piece_time(self, &piece, ret_time)) {
        if (reserved)
            piece_undo(self, piece.cursor, piece.size);
        self->plain--;
        agent_signal_fence();
        atomic_store_explicit(&piece.block->depth, depth, memory_order_relaxed);
        thread_unguard(self, GUARD_OUTER);
        return false;
    }
    put_head(from, RECORD_ENTRY_VALUES, piece.time);
    if (piece.count)
        put_head(to, RECORD_MESSAGE, piece.time);
    if (__builtin_expect(piece.count > 1, 0))
        put_other_messages(to + MESSAGE_SIZE, piece.time, piece.time, messages);
    frame->time = piece.time;
    piece_done(self, &piece);
    self->plain--;
    agent_signal_fence();
    frame->flags = FRAME_RECORDED;
    thread_unguard(self, GUARD_OUTER);
    return true;
}

/* The frame of the call, if it is on top and has an entry to which this exit can belong. */
static inline struct agent_frame *frame_on_top(const struct agent_thread *self, uint32_t depth, uint32_t call,
                                               uint64_t site, uint64_t sp)
{
    struct agent_frame *frame = &self->frames[(int64_t)depth - 1];
    return depth && frame->sp == sp && frame->function == mpi_function(call) && frame->callsite == site &&
                   frame->flags == FRAME_RECORDED
               ? frame
               : NULL;
}

static inline bool short_ends(uint32_t call, uint64_t site, const struct mpi_told *told,
                              const struct mpi_messages *messages)
{
    struct agent_thread *self = &agent_self;
    const struct area *area = agent_hot.area;
    const struct form *form = atomic_load_explicit(&exits[call], memory_order_acquire);
    uint64_t sp = (uint64_t)told;
    bool says = told->flags & MPI_TOLD_SAYS;
    size_t size = says ? RECORD_HEAD + sizeof(uint32_t) + sizeof(uint64_t) + VALUES_SIZE : RECORD_HEAD;
    struct piece piece;
    if (!area || !holds(form) || !piece_guard(self, area, sp, &piece))
        return false;
    uint32_t depth = atomic_load_explicit(&piece.block->depth, memory_order_relaxed);
    struct agent_frame *frame = frame_on_top(self, depth, call, site, sp);
    bool fits = frame && (says || frame->packet_seq == self->packet_seq) &&
                piece_fits(self, area, sp, messages, size + (says ? form->size : 0), &piece) &&
                piece_in_time(&piece, messages->time ? messages->time : agent_ticks());
    if (fits)
        frame_begin(self, GUARD_OUTER, frame, true);
    /* half written, several are all blanked, and the call is recorded as unwound: as with an exit that has values */
    uint32_t id = says || (fits && piece.count) ? RECORD_EXIT_VALUES : RECORD_EXIT;
    if (!fits || !piece_reserve(self, id, &piece)) {
        thread_unguard(self, GUARD_OUTER);
        return false;
    }
    uint8_t *to = put_messages(agent_hot.view.base + piece.cursor, &piece, messages, piece.last);
    to = put_head(to, says ? RECORD_EXIT_VALUES : RECORD_EXIT, piece.time);
    if (says) {
        __builtin_memcpy(to, &form->function, sizeof form->function);
        __builtin_memcpy(to + sizeof form->function, &frame->time, sizeof frame->time);
        put_values(to + sizeof form->function + sizeof frame->time, form, told);
    }
    piece_ahead(&piece);
    piece_done(self, &piece);
    frame->flags = 0;
    agent_signal_fence();
    atomic_store_explicit(&piece.block->depth, depth - 1, memory_order_relaxed);
    if (depth == 1)
        self->plain = self->waiting = self->values_used = 0;
    thread_unguard(self, GUARD_OUTER);
    return true;
}

static inline bool short_messages(const struct mpi_messages *messages, uint64_t sp)
{
    struct agent_thread *self = &agent_self;
    const struct area *area = agent_hot.area;
    struct piece piece;
    if (!area || !piece_guard(self, area, sp, &piece))
        return false;
    bool done = piece_fits(self, area, sp, messages, 0, &piece) && piece_in_time(&piece, agent_ticks()) &&
                piece_reserve(self, RECORD_MESSAGE, &piece);
    if (done) {
        put_messages(agent_hot.view.base + piece.cursor, &piece, messages, piece.last);
        piece_ahead(&piece);
        piece_done(self, &piece);
    }
    thread_unguard(self, GUARD_OUTER);
    return done;
}

/* ---- called by mpi_tell_x86_64.S ---- */

/* `caller`: what the interposer's registers are to be again after a fault of ours. */
#define FROM_ASSEMBLY __attribute__((used, visibility("hidden")))

FROM_ASSEMBLY uint64_t mpi_tell_begins(uint32_t call, uint64_t site, struct mpi_told *told,
                                       const struct mpi_messages *messages, const struct capture_frame *caller);
FROM_ASSEMBLY void mpi_tell_ends(uint32_t call, uint64_t site, struct mpi_told *told,
                                 const struct mpi_messages *messages, const struct capture_frame *caller);
FROM_ASSEMBLY bool mpi_tell_acts(uint32_t call, const struct mpi_told *told, uint64_t acts,
                                 const struct capture_frame *caller);
FROM_ASSEMBLY void mpi_tell_messages(const struct mpi_messages *messages, const struct capture_frame *caller);

uint64_t mpi_tell_begins(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages,
                         const struct capture_frame *caller)
{
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = caller;
    uint64_t time = 0;
    bool done = short_begins(call, site, told, messages, &time);
    if (!done)
        mpi_long_begins(call, site, told, messages);
    agent_self.registers = outer;
    return done ? time : 0;
}

void mpi_tell_ends(uint32_t call, uint64_t site, struct mpi_told *told, const struct mpi_messages *messages,
                   const struct capture_frame *caller)
{
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = caller;
    if (!short_ends(call, site, told, messages))
        mpi_long_ends(call, site, told, messages);
    agent_self.registers = outer;
}

bool mpi_tell_acts(uint32_t call, const struct mpi_told *told, uint64_t acts, const struct capture_frame *caller)
{
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = caller;
    bool all = short_acts(call, told, acts);
    agent_self.registers = outer;
    return all;
}

void mpi_tell_messages(const struct mpi_messages *messages, const struct capture_frame *caller)
{
    const struct capture_frame *outer = agent_self.registers;
    agent_self.registers = caller;
    if (!short_messages(messages, (uint64_t)__builtin_frame_address(0)))
        mpi_long_messages(messages);
    agent_self.registers = outer;
}
