/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/params/mpi_params.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/data/near.h"

enum { NAME_SIZE = 64 };

/* ---- what a call does ---- */

static bool has_role(uint32_t call, enum call_role role)
{
    const struct call_info *info = &call_infos[call];
    for (unsigned i = 0; i < info->param_count; i++)
        if (call_info_params(info)[i].role == role)
            return true;
    return false;
}

static bool sends(uint32_t call)
{
    const struct call_info *info = &call_infos[call];
    return info->class == CALL_CLASS_P2P && (info->volume == CALL_VOLUME_SEND || info->volume == CALL_VOLUME_SENDRECV ||
                                             strcmp(call_shape(info), "start") == 0);
}

static bool receives(uint32_t call)
{
    const struct call_info *info = &call_infos[call];
    return info->class == CALL_CLASS_P2P && (info->volume == CALL_VOLUME_RECV || info->volume == CALL_VOLUME_SENDRECV);
}

/* Bytes go somewhere. */
static bool transfers(uint32_t call)
{
    uint8_t volume = call_infos[call].volume;
    return sends(call) || (volume != CALL_VOLUME_NONE && volume != CALL_VOLUME_BARRIER);
}

static bool communicates(uint32_t call)
{
    return transfers(call) && call_infos[call].class != CALL_CLASS_IO;
}

/* ---- by number ---- */

#define TOLD(kind_, field) ((struct mpi_param){kind_, (uint32_t)offsetof(struct mpi_told, field)})
static const struct mpi_param none = {MPI_PARAM_NONE, 0};

static struct mpi_param result_of(uint32_t call)
{
    const char *type = call_result(&call_infos[call]);
    return TOLD(strcmp(type, "double") == 0 ? MPI_PARAM_FLOATING : MPI_PARAM_SIGNED, par);
}

/* What follows the arguments: 1 message, 2 its length, 3 and 4 of the second one. */
static struct mpi_param extra_at(uint32_t call, bool ended, unsigned number)
{
    bool both = sends(call) && receives(call);
    if (!communicates(call) || number > (both ? 4 : 2))
        return none;
    if (number == 1)
        return receives(call) && !sends(call) ? TOLD(MPI_PARAM_GOT, got) : TOLD(MPI_PARAM_SENT, sent);
    if (number == 2)
        return ended && call_is(call, CALL_IS_RECEIVED) ? TOLD(MPI_PARAM_UNSIGNED, got_bytes)
                                                        : TOLD(MPI_PARAM_UNSIGNED, bytes);
    if (!ended)
        return none;
    return number == 3 ? TOLD(MPI_PARAM_GOT, got) : TOLD(MPI_PARAM_UNSIGNED, got_bytes);
}

struct mpi_param mpi_param_at(uint32_t call, bool ended, unsigned number)
{
    unsigned count = call_infos[call].param_count;
    if (number == 0)
        return ended ? result_of(call) : none;
    if (number > count)
        return extra_at(call, ended, number - count);
    struct mpi_param param = {MPI_PARAM_SIGNED, (uint32_t)(offsetof(struct mpi_told, par) + 8 * number)};
    return number <= MPI_TOLD_PARS ? param : none;
}

unsigned mpi_param_last(uint32_t call)
{
    unsigned more = !communicates(call) ? 0 : sends(call) && receives(call) ? 4 : 2;
    return call_infos[call].param_count + more;
}

/* ---- by name ---- */

static struct mpi_param about(uint32_t call, bool ended, struct span name)
{
    bool tagged = has_role(call, CALL_ROLE_TAG) || has_role(call, CALL_ROLE_STAG);
    bool waits = call_is(call, CALL_IS_COMPLETES) && ended;
    bool both = has_role(call, CALL_ROLE_SOURCE) && has_role(call, CALL_ROLE_DEST);
    if (span_is(name, "peer") &&
        (has_role(call, CALL_ROLE_DEST) || has_role(call, CALL_ROLE_SOURCE) || has_role(call, CALL_ROLE_ROOT) || waits))
        return TOLD(MPI_PARAM_SIGNED, peer);
    if (span_is(name, "tag") && (tagged || waits))
        return TOLD(MPI_PARAM_SIGNED, tag);
    if (span_is(name, "source") && both)
        return TOLD(MPI_PARAM_SIGNED, source_peer);
    if (span_is(name, "source_tag") && both)
        return TOLD(MPI_PARAM_SIGNED, source_tag);
    if (span_is(name, "comm") && (has_role(call, CALL_ROLE_COMM) || has_role(call, CALL_ROLE_INTERCOMM)))
        return TOLD(MPI_PARAM_SIGNED, comm);
    if (span_is(name, "bytes") && transfers(call))
        return TOLD(MPI_PARAM_UNSIGNED, bytes);
    if (span_is(name, "received") && waits)
        return TOLD(MPI_PARAM_UNSIGNED, got_bytes);
    if (span_is(name, "ordinal") && call_infos[call].class == CALL_CLASS_COLLECTIVE)
        return TOLD(MPI_PARAM_UNSIGNED, ordinal);
    return none;
}

bool mpi_param_is_about(uint32_t call, bool ended, struct span name)
{
    return about(call, ended, name).kind != MPI_PARAM_NONE;
}

static int number_of(struct span name)
{
    unsigned number = 0, digits = 0;
    if (name.len && *name.ptr == '$')
        name = span_of(name.ptr + 1, name.len - 1);
    if (name.len < 4 || memcmp(name.ptr, "par", 3) != 0)
        return -1;
    for (size_t i = 3; i < name.len; i++, digits++) {
        if (!isdigit((unsigned char)name.ptr[i]) || digits == 3)
            return -1;
        number = number * 10 + (unsigned)(name.ptr[i] - '0');
    }
    return (int)number;
}

struct mpi_param mpi_param_named(uint32_t call, bool ended, struct span name)
{
    const struct call_info *info = &call_infos[call];
    struct mpi_param param = about(call, ended, name);
    int number = number_of(name);
    if (param.kind != MPI_PARAM_NONE)
        return param;
    if (number >= 0)
        return mpi_param_at(call, ended, (unsigned)number);
    for (unsigned i = 0; i < info->param_count; i++)
        if (span_is(name, call_param_name(&call_info_params(info)[i])))
            return mpi_param_at(call, ended, i + 1);
    /* what is no code of success: only by its number, so that a condition on all calls means those that failed */
    return span_is(name, "result") && strcmp(call_result(info), "int") == 0 ? mpi_param_at(call, ended, 0) : none;
}

int64_t mpi_param_bits(const struct mpi_told *told, struct mpi_param param)
{
    int64_t bits = 0;
    if (param.offset + sizeof bits <= sizeof *told)
        memcpy(&bits, (const char *)told + param.offset, sizeof bits);
    return bits;
}

/* ---- for people ---- */

void mpi_params_print(struct buf *out, uint32_t call, bool ended)
{
    static const char *const names[] = {"peer", "tag", "source", "source_tag", "comm", "bytes", "received", "ordinal"};
    const struct call_info *info = &call_infos[call];
    if (ended)
        buf_puts(out, "par0 result, ");
    for (unsigned i = 0; i < info->param_count; i++)
        buf_printf(out, "par%u %s, ", i + 1, call_param_name(&call_info_params(info)[i]));
    for (unsigned i = info->param_count + 1; i <= mpi_param_last(call); i++) {
        struct mpi_param param = mpi_param_at(call, ended, i);
        if (param.kind != MPI_PARAM_NONE)
            buf_printf(out, "par%u (%s), ", i, param.kind >= MPI_PARAM_SENT ? "the message" : "its length");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mpi_param_is_about(call, ended, span_str(names[i])))
            buf_printf(out, "%s, ", names[i]);
    if (out->len >= 2 && out->data[out->len - 2] == ',')
        out->len -= 2;
}

/* ---- choosing calls ---- */

static void find_near(struct span name, const char *ret_near[MPI_NEAR])
{
    unsigned distances[MPI_NEAR] = {0};
    unsigned limit = near_limit(name.len);
    size_t count = 0;
    for (size_t i = 0; i < MPI_NEAR; i++)
        ret_near[i] = NULL;
    if (name.len >= NAME_SIZE)
        return;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        /* people leave out the MPI_, too */
        unsigned whole = near_distance(name.ptr, name.len, call_infos[call].name);
        unsigned rest = near_distance(name.ptr, name.len, call_infos[call].name + strlen("MPI_"));
        unsigned its = whole < rest ? whole : rest;
        if (its > limit || (count && its > distances[0] + 1))
            continue;
        size_t at = count < MPI_NEAR ? count++ : MPI_NEAR;
        for (; at > 0 && distances[at - 1] > its; at--)
            if (at < MPI_NEAR) {
                distances[at] = distances[at - 1];
                ret_near[at] = ret_near[at - 1];
            }
        if (at < MPI_NEAR) {
            distances[at] = its;
            ret_near[at] = call_infos[call].name;
        }
    }
    while (count && distances[count - 1] > distances[0] + 1) /* much worse than the best one, which came later */
        ret_near[--count] = NULL;
}

static bool choose(struct span word, uint64_t *calls)
{
    char pattern[NAME_SIZE];
    bool found = false;
    if (word.len >= sizeof pattern)
        return false;
    memcpy(pattern, word.ptr, word.len);
    pattern[word.len] = '\0';
    const char *name = strncasecmp(pattern, "PMPI_", 5) == 0 ? pattern + 1 : pattern;
    bool all = strcasecmp(name, "all") == 0;
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (all || fnmatch(name, call_infos[call].name, FNM_CASEFOLD) == 0) {
            calls[call / 64] |= UINT64_C(1) << call % 64;
            found = true;
        }
    return found;
}

int mpi_calls_choose(struct span text, uint64_t ret_calls[MPI_CALL_WORDS], struct span *ret_wrong,
                     const char *ret_near[MPI_NEAR])
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    bool any = false;
    memset(ret_calls, 0, (CALL_COUNT + 63) / 64 * sizeof *ret_calls);
    while (at < end) {
        if (*at == ',' || isspace((unsigned char)*at)) {
            at++;
            continue;
        }
        const char *from = at;
        while (at < end && *at != ',' && !isspace((unsigned char)*at))
            at++;
        struct span word = span_of(from, (size_t)(at - from));
        if (!choose(word, ret_calls)) {
            *ret_wrong = word;
            find_near(word, ret_near);
            return -ENOENT;
        }
        any = true;
    }
    if (!any)
        choose(span_str("all"), ret_calls);
    return 0;
}

bool mpi_calls_parse(const char *text, uint64_t ret_calls[MPI_CALL_WORDS])
{
    struct span wrong;
    const char *near[MPI_NEAR];
    memset(ret_calls, 0, (CALL_COUNT + 63) / 64 * sizeof *ret_calls);
    return strcmp(text, "none") == 0 || (*text && mpi_calls_choose(span_str(text), ret_calls, &wrong, near) == 0);
}

int mpi_calls_unknown(const char *param, struct span wrong, const char *const near[MPI_NEAR], struct err *err)
{
    struct buf names = BUF_INIT;
    for (size_t i = 0; i < MPI_NEAR && near[i]; i++)
        buf_printf(&names, "%s%s", i ? ", " : ": is it ", near[i]);
    int code = err_set(err, -EINVAL, "%s: MPI has no call \"%.*s\"%.*s%s", param, SPAN_ARG(wrong), (int)names.len,
                       names.data ? names.data : "", names.len ? "?" : "");
    buf_done(&names);
    return code;
}
