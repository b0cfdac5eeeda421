/* SPDX-License-Identifier: Apache-2.0 */
/* Readable names of functions. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/span.h"
#include "symbols/index/cxx_names.h"
#include "symbols/index/index_build.h"
#include "symbols/index/selection_glob.h"

enum { NAME_LIMIT = 1 << 16 }; /* longer mangled names stay as they are */

/* <cxxabi.h> is for C++ only */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

static bool ends_with(struct span text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && memcmp(text.ptr + text.len - len, end, len) == 0;
}

/* Without the qualifiers behind the parameters. */
static struct span drop_qualifiers(struct span text)
{
    static const char *const words[] = {" const", " volatile", " &", " &&", " noexcept"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (ends_with(text, words[i])) {
            text.len -= strlen(words[i]);
            i = (size_t)-1;
        }
    return text;
}

/* Where the parameters begin, the text ending in their ')'; the text's length if it does not. */
static size_t parameters_at(struct span text)
{
    int depth = 0;
    if (!ends_with(text, ")"))
        return text.len;
    for (size_t i = text.len; i-- > 0;) {
        depth += (text.ptr[i] == ')') - (text.ptr[i] == '(');
        if (depth == 0)
            return i;
    }
    return text.len;
}

static bool is_operator(struct span text, size_t at)
{
    static const char word[] = "operator";
    size_t len = sizeof word - 1;
    return text.len - at > len && memcmp(text.ptr + at, word, len) == 0 &&
           !isalnum((unsigned char)text.ptr[at + len]) && text.ptr[at + len] != '_' &&
           (at == 0 || (!isalnum((unsigned char)text.ptr[at - 1]) && text.ptr[at - 1] != '_'));
}

/* Templates have their result in front: where the name begins. Blanks in brackets and after "operator" are its own, and
 * so are those of the qualifiers of a function that it is local to. */
static size_t name_at(struct span text)
{
    static const char *const inside[] = {"const", "volatile", "&", "&&"};
    size_t begin = 0;
    int depth = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (depth == 0 && c == 'o' && is_operator(text, i))
            break;
        if (c == '<' || c == '(' || c == '{' || c == '[')
            depth++;
        else if ((c == '>' || c == ')' || c == '}' || c == ']') && depth > 0 &&
                 !(c == '>' && i > 0 && text.ptr[i - 1] == '-'))
            depth--;
        if (c != ' ' || depth != 0)
            continue;
        bool own = false;
        for (size_t j = 0; j < sizeof inside / sizeof *inside && !own; j++) {
            size_t len = strlen(inside[j]);
            own = text.len - i - 1 > len && memcmp(text.ptr + i + 1, inside[j], len) == 0 &&
                  (text.ptr[i + 1 + len] == ':' || text.ptr[i + 1 + len] == ' ') && i > 0 && text.ptr[i - 1] == ')';
        }
        if (!own)
            begin = i + 1;
    }
    return begin;
}

void split_demangled(const char *demangled, struct buf *ret_name, struct buf *ret_full)
{
    struct span all = span_str(demangled), text = drop_qualifiers(all);
    size_t end = parameters_at(text);
    size_t begin = end < text.len ? name_at(span_of(text.ptr, end)) : 0;
    if (begin >= end) { /* the result is a pointer to a function, or it is no function */
        begin = 0;
        end = all.len;
    }
    buf_clear(ret_name);
    buf_clear(ret_full);
    buf_append(ret_name, all.ptr + begin, end - begin);
    buf_append(ret_full, all.ptr + begin, all.len - begin);
}

/* Nobody writes "text[abi:cxx11](int)": removes the tag, in place. */
static void drop_tags(char *text)
{
    static const char mark[] = "[abi:";
    for (char *at = strstr(text, mark); at; at = strstr(at, mark)) {
        const char *end = strchr(at, ']');
        if (!end)
            return;
        memmove(at, end + 1, strlen(end + 1) + 1);
    }
}

void readable_name(const char *linkage, struct buf *ret_name, struct buf *ret_full)
{
    static char *room; /* of the demangler, used again and again */
    static size_t room_size;
    size_t len = strlen(linkage);
    buf_clear(ret_name);
    buf_clear(ret_full);
    if (strncmp(linkage, "_Z", 2) == 0 && len < NAME_LIMIT) {
        char mangled[NAME_LIMIT];
        int status = -1;
        struct span plain = name_without_clone(span_of(linkage, len));
        memcpy(mangled, linkage, plain.len);
        mangled[plain.len] = 0;
        char *text = __cxa_demangle(mangled, room, &room_size, &status);
        if (text && status == 0) {
            room = text;
            drop_tags(text);
            struct buf tidy = BUF_INIT;
            cxx_name_put(&tidy, text);
            split_demangled(tidy.failed ? text : tidy.data, ret_name, ret_full);
            buf_done(&tidy);
            buf_append(ret_name, linkage + plain.len, len - plain.len);
            buf_append(ret_full, linkage + plain.len, len - plain.len);
            return;
        }
    }
    if (!fortran_name_put(ret_name, linkage))
        buf_append(ret_name, linkage, len);
    buf_append(ret_full, ret_name->data ? ret_name->data : "", ret_name->len);
}
