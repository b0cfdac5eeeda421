/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/keys.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const char *const top_keys_help[] = {
    "q        quit                        h, ?     show or hide this help",
    "",
    "c        by processor now            up, k    a line up",
    "t        by processor time           down, j  a line down",
    "m        by memory                   page up, page down",
    "p        by process id               home, g  to the top",
    "n        by name                     end, G   to the end",
    "",
    "v        processes as a tree         /        only names that contain a text;",
    "r        only ranks, and all                  Enter keeps it, Esc shows all",
    "f        only functions, and all",
    NULL,
};

static void scroll_by(struct top_choice *choice, long lines)
{
    if (lines < 0 && choice->scroll < (size_t)-lines)
        choice->scroll = 0;
    else if (choice->scroll < SIZE_MAX / 2 || lines < 0)
        choice->scroll += (size_t)lines;
}

/* The number of bytes of a key that sends several; 0: unknown key. */
static size_t take_sequence(struct top_choice *choice, const char *keys, size_t len)
{
    static const struct {
        const char *bytes;
        int pages, lines;
        bool top, end;
    } sequences[] = {
        {"\033[A", .lines = -1},  {"\033OA", .lines = -1}, {"\033[B", .lines = 1},  {"\033OB", .lines = 1},
        {"\033[5~", .pages = -1}, {"\033[6~", .pages = 1}, {"\033[H", .top = true}, {"\033OH", .top = true},
        {"\033[1~", .top = true}, {"\033[F", .end = true}, {"\033OF", .end = true}, {"\033[4~", .end = true},
    };
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        size_t size = strlen(sequences[i].bytes);
        if (len < size || memcmp(keys, sequences[i].bytes, size) != 0)
            continue;
        scroll_by(choice, sequences[i].lines + sequences[i].pages * (long)choice->page);
        if (sequences[i].top || sequences[i].end)
            choice->scroll = sequences[i].end ? SIZE_MAX / 2 : 0;
        return size;
    }
    return 0;
}

static void type(struct top_choice *choice, char key)
{
    size_t len = strlen(choice->filter);
    if (key == '\r' || key == '\n') {
        choice->typing = false;
    } else if (key == '\b' || key == 0x7f) {
        choice->filter[len ? len - 1 : 0] = 0;
    } else if (isprint((unsigned char)key) && len + 1 < sizeof choice->filter) {
        choice->filter[len] = key;
        choice->filter[len + 1] = 0;
    }
    choice->scroll = 0;
}

static void show_all(struct top_choice *choice)
{
    choice->filter[0] = 0;
    choice->typing = choice->help = false;
    choice->scroll = 0;
}

static bool take_letter(struct top_choice *choice, char key)
{
    static const char orders[] = "cmtpn"; /* enum top_order */
    const char *order = strchr(orders, tolower((unsigned char)key));
    if (key && order) {
        choice->order = (enum top_order)(order - orders);
        return true;
    }
    switch (key) {
    case 'q':
    case 'Q':
        return false;
    case 'h':
    case 'H':
    case '?':
        choice->help = !choice->help;
        break;
    case 'v':
    case 'V':
        choice->tree = !choice->tree;
        break;
    case 'f':
    case 'F':
        choice->only_functions = !choice->only_functions;
        choice->only_ranks = false;
        break;
    case 'r':
    case 'R':
        choice->only_ranks = !choice->only_ranks;
        choice->only_functions = false;
        break;
    case 'k':
    case 'j':
        scroll_by(choice, key == 'k' ? -1 : 1);
        break;
    case 'g':
    case 'G':
        choice->scroll = key == 'G' ? SIZE_MAX / 2 : 0;
        break;
    case '/':
        choice->filter[0] = 0;
        choice->typing = true;
        break;
    default:
        break;
    }
    return true;
}

bool top_keys_take(struct top_choice *choice, const char *keys, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t used = take_sequence(choice, keys + i, len - i);
        if (!used && keys[i] == '\033') {
            show_all(choice);
            return true; /* the rest belongs to an unknown key */
        }
        if (!used && choice->typing)
            type(choice, keys[i]);
        else if (!used && !take_letter(choice, keys[i]))
            return false;
        i += used ? used : 1;
    }
    return true;
}

bool top_choice_has(const struct top_choice *choice, const char *name)
{
    return strcasestr(name, choice->filter) != NULL;
}

void top_keys_line(const struct top_choice *choice, char *ret_text, size_t size)
{
    if (choice->typing)
        snprintf(ret_text, size, "only names that contain: %s_  (Enter keeps it, Esc shows all)", choice->filter);
    else
        snprintf(ret_text, size, "q quit  h help  c cpu  m memory  v tree  r ranks  f functions  / filter%s%s",
                 choice->filter[0] ? ": " : "", choice->filter);
}
