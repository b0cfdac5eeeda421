/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/sent.h"

#include <string.h>

bool sent_has_room(const struct sent *sent)
{
    return sent->count < SENT_MOST && sent->under_way < SENT_UNDER_WAY;
}

bool sent_wants_sign(const struct sent *sent)
{
    return sent->figures >= SENT_MOST / 4;
}

void sent_add(struct sent *sent, struct sent_one one)
{
    if (sent->count == SENT_MOST)
        return; /* sent_has_room was not asked: nobody follows it */
    sent->under_way++;
    sent->figures = one.qos0 ? sent->figures + 1 : 0;
    sent->list[sent->count++] = one;
}

void sent_over(struct sent *sent, int id)
{
    for (size_t i = 0; i < sent->count; i++) {
        struct sent_one *one = &sent->list[i];
        if (one->id != id || one->over)
            continue;
        one->over = true;
        sent->under_way--;
        return;
    }
}

static void take_out(struct sent *sent, size_t at, struct sent_one *ret_one)
{
    *ret_one = sent->list[at];
    sent->under_way -= !ret_one->over;
    memmove(sent->list + at, sent->list + at + 1, (--sent->count - at) * sizeof *sent->list);
}

bool sent_take(struct sent *sent, struct sent_one *ret_one)
{
    bool there = false;
    if (sent->count && !sent->list[0].qos0)
        there = sent->list[0].over;
    for (size_t i = 1; i < sent->count && sent->list[0].qos0 && !there; i++)
        there = sent->list[i].over && !sent->list[i].qos0;
    if (there)
        take_out(sent, 0, ret_one);
    return there;
}

bool sent_take_figures(struct sent *sent, struct sent_one *ret_one)
{
    for (size_t i = 0; i < sent->count; i++)
        if (sent->list[i].qos0 && sent->list[i].over) {
            take_out(sent, i, ret_one);
            return true;
        }
    sent->figures = 0;
    return false;
}
