/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI calls as functions of an agent. What is recorded of each follows from the table of calls alone, so it is the same
 * for all processes: no debug information is read. Values are chosen to be read by people: world ranks, bytes and the
 * number of the communicator rather than handles and addresses.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/recorder/agent.h"
#include "monitor/params/params.h"
#include "shm/capture.h"
#include "shm/code.h"
#include "shm/mpi_area.h"
#include "shm/mpi_told.h"

enum { FIELDS = 24, TEXT_SIZE = 512, STRING_MOST = 64, SIDES = 2 /* entry, exit */ };

/* ---- what is recorded of a call ---- */

struct recipe {
    char *text; /* of the layout */
    struct capture_head head;
    struct capture_insn insns[FIELDS];
    unsigned count; /* 0: nothing */
};

struct maker {
    struct recipe *recipe;
    char text[TEXT_SIZE];
    size_t len;
    unsigned minimum, fields;
    bool cut;
};

static void insn_put(struct maker *maker, uint8_t op, unsigned r, unsigned n, size_t off)
{
    if (maker->recipe->count == FIELDS)
        maker->cut = true;
    else
        maker->recipe->insns[maker->recipe->count++] =
            (struct capture_insn){.op = op, .r = (uint8_t)r, .n = (uint16_t)n, .off = (int32_t)off};
}

static void text_put(struct maker *maker, const char *before, const char *name, const char *type)
{
    int len =
        snprintf(maker->text + maker->len, TEXT_SIZE - maker->len, "%s%s%s%s", before, name, *type ? ":" : "", type);
    maker->cut |= len < 0 || (size_t)len >= TEXT_SIZE - maker->len;
    maker->len += maker->cut ? 0 : (size_t)len;
}

/* `size` bytes at `off` of struct mpi_told. */
static void field_put(struct maker *maker, const char *name, const char *type, unsigned size, size_t off)
{
    text_put(maker, maker->fields++ ? "," : "", name, type);
    insn_put(maker, CAPTURE_MEM, MPI_TOLD_REGISTER, size, off);
    maker->minimum += size;
}

/* The address, status, length and bytes. */
static void string_put(struct maker *maker, const char *name, size_t off)
{
    text_put(maker, maker->fields++ ? "," : "", name, "s");
    insn_put(maker, CAPTURE_LOAD, CAPTURE_TEMP, 8 << 8 | MPI_TOLD_REGISTER, off);
    insn_put(maker, CAPTURE_VALUE, CAPTURE_TEMP, 8, 0);
    insn_put(maker, CAPTURE_STRING, CAPTURE_TEMP, STRING_MOST, 0);
    maker->recipe->head.temps = 1;
    maker->minimum += 8 + 1;
}

#define AT(field) offsetof(struct mpi_told, field)
#define PAR(i) (offsetof(struct mpi_told, par) + sizeof(int64_t) * (i))

static bool is_count(uint8_t role)
{
    return role == CALL_ROLE_COUNT || role == CALL_ROLE_SCOUNT || role == CALL_ROLE_RCOUNT || role == CALL_ROLE_TCOUNT;
}

/* An integer that is passed by its value: its size; 0: another thing. */
static unsigned integer_size(const struct call_param *param)
{
    static const char *const longs[] = {"MPI_Aint", "MPI_Count", "MPI_Offset"};
    if (strcmp(call_param_type(param), "int") == 0 || strcmp(call_param_type(param), "const int") == 0)
        return 4;
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        if (strcmp(call_param_type(param), longs[i]) == 0)
            return 8;
    return 0;
}

static bool is_text(const struct call_param *param)
{
    return strcmp(call_param_type(param), "const char *") == 0;
}

/* One argument; `bytes`: the call has a size, which stands for its counts. false: there is nothing to be said. */
static void argument_put(struct maker *maker, const struct call_param *param, unsigned i, bool bytes, bool both)
{
    unsigned size = integer_size(param);
    switch (param->role) {
    case CALL_ROLE_DEST:
    case CALL_ROLE_ROOT:
        field_put(maker, call_param_name(param), "i4", 4, AT(peer));
        return;
    case CALL_ROLE_SOURCE:
        field_put(maker, call_param_name(param), "i4", 4, both ? AT(source_peer) : AT(peer));
        return;
    case CALL_ROLE_TAG:
    case CALL_ROLE_STAG:
        field_put(maker, call_param_name(param), "i4", 4, AT(tag));
        return;
    case CALL_ROLE_RTAG:
        field_put(maker, call_param_name(param), "i4", 4, AT(source_tag));
        return;
    case CALL_ROLE_COMM:
    case CALL_ROLE_WIN:
    case CALL_ROLE_FILE:
        field_put(maker, call_param_name(param), "i4", 4, AT(comm));
        return;
    default:
        if (size && !(bytes && is_count(param->role)))
            field_put(maker, call_param_name(param), size == 4 ? "i4" : "i8", size, PAR(i));
    }
}

static void entry_make(struct maker *maker, const struct call_info *info)
{
    bool bytes = info->volume != CALL_VOLUME_NONE && info->volume != CALL_VOLUME_BARRIER, both = false;
    for (unsigned i = 0; i < info->param_count; i++)
        both |= call_info_params(info)[i].role == CALL_ROLE_RTAG;
    text_put(maker, "args(", "", "");
    for (unsigned i = 0; i < info->param_count && i < MPI_TOLD_PARS; i++)
        argument_put(maker, &call_info_params(info)[i], i + 1, bytes, both);
    if (bytes)
        field_put(maker, "bytes", "u8", 8, AT(bytes));
    field_put(maker, "site", "p", 8, AT(site));
    for (unsigned i = 0; i < info->param_count && i < MPI_TOLD_PARS; i++) /* what comes behind is at no fixed place */
        if (is_text(&call_info_params(info)[i]))
            string_put(maker, call_param_name(&call_info_params(info)[i]), PAR(i + 1));
    text_put(maker, ")", "", "");
}

/* Whether it may bring something: its end then says whence and how much. */
static bool call_receives(const struct call_info *info)
{
    if (info->class == CALL_CLASS_COMPLETION)
        return true;
    for (unsigned i = 0; info->class == CALL_CLASS_P2P && i < info->param_count; i++)
        if (call_info_params(info)[i].role == CALL_ROLE_STATUS)
            return true;
    return false;
}

static void exit_make(struct maker *maker, const struct call_info *info)
{
    bool floating = strcmp(call_result(info), "double") == 0, plain = strcmp(call_result(info), "int") == 0;
    if (call_receives(info)) {
        text_put(maker, "locals(", "", "");
        field_put(maker, "source", "i4", 4, AT(got.from));
        field_put(maker, "tag", "i4", 4, AT(got.tag));
        field_put(maker, "bytes", "u8", 8, AT(got_bytes));
        if (info->class == CALL_CLASS_COMPLETION)
            field_put(maker, "completed", "u4", 4, AT(completed));
        text_put(maker, ") ", "", "");
    }
    text_put(maker, "result(:", floating ? "f8" : plain ? "e4{MPI_SUCCESS=0}" : "i8", "");
    insn_put(maker, CAPTURE_MEM, MPI_TOLD_REGISTER, plain ? 4 : 8, PAR(0));
    maker->minimum += plain ? 4 : 8;
    text_put(maker, ")", "", "");
}

static struct recipe recipes[SIDES * CALL_COUNT]; /* those that differ */
static unsigned recipe_count;
static uint16_t recipe_of[SIDES][CALL_COUNT]; /* 1 + index; 0: none */

static uint16_t recipe_add(struct recipe *recipe, const char *text)
{
    for (unsigned i = 0; i < recipe_count; i++)
        if (strcmp(recipes[i].text, text) == 0 && recipes[i].count == recipe->count &&
            memcmp(recipes[i].insns, recipe->insns, sizeof recipe->insns) == 0)
            return (uint16_t)(i + 1);
    recipe->text = strdup(text);
    if (!recipe->text)
        return 0;
    recipes[recipe_count++] = *recipe;
    return (uint16_t)recipe_count;
}

static const struct recipe *recipe_for(uint32_t call, unsigned side)
{
    if (!recipe_count)
        for (uint32_t i = 1; i < CALL_COUNT; i++)
            for (unsigned k = 0; k < SIDES; k++) {
                struct recipe recipe = {.head = {.version = CAPTURE_VERSION}};
                struct maker maker = {.recipe = &recipe};
                (k ? exit_make : entry_make)(&maker, &call_infos[i]);
                recipe.head.minimum = (uint16_t)maker.minimum;
                recipe_of[k][i] = maker.cut ? 0 : recipe_add(&recipe, maker.text);
            }
    uint16_t at = call < CALL_COUNT ? recipe_of[side][call] : 0;
    return at ? &recipes[at - 1] : NULL;
}

/* ---- names ---- */

/* The library of it, for people. */
static const char *agent_mpi_library(const struct agent *agent)
{
    uint32_t library = agent->rank.library;
    return library == MPIA_LIBRARY_OPENMPI ? "libmpi.so.40" : library == MPIA_LIBRARY_MPICH ? "libmpich.so.12" : "MPI";
}

uint32_t agent_mpi_call(const struct agent *agent, uint32_t slot)
{
    if (!agent->view.area || slot > agent->view.slot_mask)
        return CALL_NONE;
    return mpi_function_call(atomic_load_explicit(&agent->view.slots[slot].function, memory_order_acquire));
}

bool agent_mpi_function(const struct agent *agent, uint32_t slot, struct index_function *ret_function,
                        uint64_t *ret_address)
{
    uint32_t call = agent_mpi_call(agent, slot);
    if (call == CALL_NONE)
        return false;
    *ret_function = (struct index_function){.name = call_infos[call].name,
                                            .full = call_infos[call].name,
                                            .linkage = call_infos[call].name,
                                            .file = "",
                                            .address = mpi_function(call)};
    if (ret_address)
        *ret_address = mpi_function(call);
    return true;
}

bool agent_mpi_name(struct agent *agent, uint32_t slot)
{
    uint32_t call = agent_mpi_call(agent, slot);
    if (call == CALL_NONE)
        return false;
    if (!agent->writer)
        return true;
    trace_writer_function(agent->writer, slot, mpi_function(call), call_infos[call].name, "", 0, 0,
                          agent_mpi_library(agent));
    agent_named(agent, slot);
    const uint64_t sites[SIDES] = {mpi_function_entry(call), mpi_function_exit(call)};
    for (unsigned side = 0; side < SIDES; side++) {
        const struct area_site *site = area_site_find(&agent->view, sites[side], false);
        if (site && atomic_load(&site->values))
            agent_layout_used(agent, atomic_load(&site->layout));
    }
    return true;
}

/* ---- slots and captures ---- */

bool agent_mpi_tells(const struct agent *agent)
{
    return agent->view.area && atomic_load(&agent->view.area->mpi);
}

bool agent_mpi_records(const struct agent *agent)
{
    const struct trace_settings *settings = agent->job ? &agent->job->settings : NULL;
    return settings && settings->mpi == TRACE_MPI_TRACE && agent_mpi_tells(agent);
}

static uint32_t mode_of(const struct agent *agent)
{
    const struct trace_settings *settings = agent->job ? &agent->job->settings : NULL;
    if (!agent_mpi_records(agent) || !agent->writer)
        return 0;
    return (settings->count_only ? AREA_COUNT : AREA_RECORD | AREA_VALUES) | (settings->rate ? AREA_RATED : 0);
}

/* What is put into one process; each recipe once. */
struct placing {
    struct agent *agent;
    uint32_t program[SIDES * CALL_COUNT], layout[SIDES * CALL_COUNT];
};

static void site_place(struct placing *placing, uint32_t call, unsigned side)
{
    struct agent *agent = placing->agent;
    const struct recipe *recipe = recipe_for(call, side);
    if (!recipe)
        return;
    size_t at = (size_t)(recipe - recipes);
    if (!placing->program[at]) {
        struct {
            struct capture_head head;
            struct capture_insn insns[FIELDS];
        } code = {.head = recipe->head};
        memcpy(code.insns, recipe->insns, recipe->count * sizeof *recipe->insns);
        placing->program[at] =
            agent_capture_put(agent, &code, sizeof code.head + recipe->count * sizeof *recipe->insns);
        placing->layout[at] = agent_layout_new(agent, recipe->text);
    }
    if (placing->program[at] && placing->layout[at])
        agent_site_set(agent, side ? mpi_function_exit(call) : mpi_function_entry(call), placing->program[at],
                       placing->layout[at]);
}

/* Of all calls, for which one comes is not known; once. */
static void captures_place(struct agent *agent)
{
    if (agent->mpi_captured)
        return;
    struct placing *placing = calloc(1, sizeof *placing);
    if (!placing)
        return;
    placing->agent = agent;
    uint32_t library = agent->rank.library;
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        for (unsigned side = 0; side < SIDES; side++)
            if (!library || call_infos[call].libraries >> (library - 1) & 1)
                site_place(placing, call, side);
    free(placing);
    agent->mpi_captured = true;
}

void agent_mpi_apply(struct agent *agent)
{
    struct area *area = agent->view.area;
    if (!area || !agent_mpi_tells(agent) || !agent_modes_new(agent))
        return;
    agent->mpi_waits = agent_compiling(agent); /* layouts get numbers there */
    if (agent->mpi_waits)
        return;
    uint32_t mode = mode_of(agent), library = agent->rank.library;
    if (mode & AREA_VALUES)
        captures_place(agent);
    agent->selection->counts |= (mode & AREA_COUNT) != 0;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        if (library && !(call_infos[call].libraries >> (library - 1) & 1))
            continue;
        struct area_slot *slot = area_slot_find(&agent->view, mpi_function(call), mode != 0);
        if (!slot)
            continue;
        uint32_t at = (uint32_t)(slot - agent->view.slots);
        agent->selection->modes[at] = (uint8_t)mode;
        agent_mode_update(agent, at);
    }
    uint32_t messages = (mode & AREA_RECORD) != 0;
    if (atomic_exchange(&area->messages, messages) != messages && agent->mpi)
        agent->agents->mpi->apply(agent); /* it is told that they are recorded */
}

void agent_mpi_adopt(struct agent *agent, uint64_t site, uint32_t layout)
{
    uint32_t call = mpi_function_call(site);
    const struct recipe *recipe = call ? recipe_for(call, site == mpi_function_exit(call)) : NULL;
    if (!recipe)
        return;
    agent_layout_keep(agent, layout, recipe->text);
    agent->mpi_captured = true;
}

/* ---- parameters of requests: a program at each of the two sites of a call that reads struct mpi_told ---- */

enum { BLOCK = 3, WORD = sizeof(uint64_t) }; /* instructions of a parameter, bytes of a number */

struct params_program {
    struct capture_head head;
    struct capture_insn insns[CODE_PARAMS * BLOCK];
};

static const uint8_t code_types[] = {
    [MPI_PARAM_SIGNED] = CODE_SIGNED, [MPI_PARAM_UNSIGNED] = CODE_UNSIGNED, [MPI_PARAM_FLOATING] = CODE_FLOATING};

/* CAPTURE_NUMBER with a block that reads a word; what the call does not have is read where nothing is: missing. */
static void add_param(struct params_program *program, uint32_t *inout_at, struct mpi_param param)
{
    struct capture_insn *insn = &program->insns[*inout_at];
    bool number = param.kind >= MPI_PARAM_SIGNED && param.kind <= MPI_PARAM_FLOATING;
    insn[0] = (struct capture_insn){
        .op = CAPTURE_NUMBER, .n = BLOCK - 1, .off = number ? code_types[param.kind] : (int32_t)CODE_SIGNED};
    insn[1] =
        number
            ? (struct capture_insn){.op = CAPTURE_READ, .r = MPI_TOLD_REGISTER, .n = WORD, .off = (int32_t)param.offset}
            : (struct capture_insn){.op = CAPTURE_READ, .r = 0, .n = WORD, .off = 0};
    insn[2] = (struct capture_insn){.op = CAPTURE_END};
    *inout_at += BLOCK;
}

static int params_put(struct agent *agent, uint32_t call, bool ended, const char *const *names, unsigned count)
{
    struct params_program program = {.head = {.version = CAPTURE_VERSION, .minimum = (uint16_t)(9 * count)}};
    uint32_t insns = 0;
    for (unsigned i = 0; i < count; i++)
        add_param(&program, &insns, mpi_param_named(call, ended, span_str(names[i])));
    struct area_site *site =
        area_site_find(&agent->view, ended ? mpi_function_exit(call) : mpi_function_entry(call), true);
    size_t size = sizeof program.head + insns * sizeof program.insns[0];
    uint32_t at = site ? agent_capture_put(agent, &program, size) : 0;
    if (!at)
        return -ENOSPC;
    atomic_store_explicit(&site->params, at, memory_order_release);
    return 0;
}

int agent_mpi_params_put(struct agent *agent, uint32_t call, const char *const *names, unsigned count)
{
    int code = params_put(agent, call, false, names, count);
    return code < 0 ? code : params_put(agent, call, true, names, count);
}

bool agent_event_mpi_call(const struct agent_event *event, struct mpi_told *ret_told)
{
    const struct area_raise *raise = &event->raise;
    if (!agent_mpi_call(event->agent, raise->slot) || raise->values_size != sizeof *ret_told)
        return false;
    memcpy(ret_told, raise->values, sizeof *ret_told);
    return true;
}
