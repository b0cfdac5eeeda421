/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/layout/layout.h"

static bool name_address(void *ctx, uint64_t address, struct buf *out)
{
    static const struct {
        uint64_t address;
        const char *name;
    } names[] = {
        {0x401000, "solve"},
        {0x402000, "std::_Function_handler<int (int, char), main::{lambda(int, char)#1}>::_M_invoke"},
        {0x403000, "std::__function::__func<int (*)(int), std::allocator<int (*)(int)>, int (int)>::operator()"},
        {0x404000, "odd::_Function_handler<int"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].address == address) {
            buf_puts(out, names[i].name);
            return true;
        }
    return false;
}

static const struct layout_style style = {.name_address = name_address};

static struct layout *parsed(const char *text)
{
    struct layout *layout = NULL;
    struct err err = {0};
    if (layout_parse(&layout, text, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return layout;
}

static char *formatted(const char *text, enum layout_part part, const void *bytes, size_t size)
{
    struct layout *layout = parsed(text);
    struct buf out = BUF_INIT;
    layout_format(layout, part, bytes, size, &style, &out);
    layout_free(layout);
    return buf_take(&out);
}

#define SHOWS(type, bytes, expected) \
    do { \
        char *shown_ = formatted("args(v:" type ")", LAYOUT_ARGS, bytes, sizeof(bytes) - 1); \
        assert_string_equal(shown_, "v = " expected); \
        free(shown_); \
    } while (0)

static void shows_numbers(void **state)
{
    SHOWS("i4", "\xff\xff\xff\xff", "-1");
    SHOWS("u4", "\xff\xff\xff\xff", "4294967295");
    SHOWS("i1", "\x80", "-128");
    SHOWS("u2", "\xff\xff", "65535");
    SHOWS("i8", "\0\0\0\0\0\0\0\x80", "-9223372036854775808");
    SHOWS("u8", "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615");
    SHOWS("i16", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80", "-170141183460469231731687303715884105728");
    SHOWS("u16", "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", "18446744073709551616");
    SHOWS("b1", "\1", "true");
    SHOWS("b1", "\0", "false");
    SHOWS("b1", "\2", "<not available>");
    SHOWS("f8", "\0\0\0\0\0\0\4\x40", "2.5");
    SHOWS("f8", "\x9a\x99\x99\x99\x99\x99\xb9\x3f", "0.1");
    SHOWS("f8", "\0\0\0\0\0\0\xf8\xff", "-nan");
    SHOWS("f8", "\0\0\0\0\0\0\xf0\x7f", "inf");
    SHOWS("f4", "\xcd\xcc\xcc\x3d", "0.1");
    SHOWS("f16", "\0\0\0\0\0\0\0\xa0\0\x40\0\0\0\0\0\0", "2.5");
    SHOWS("f16", "\0\0\0\0\0\0\0\x10\0\x40\0\0\0\0\0\0", "<no number: 0x40001000000000000000>");
    SHOWS("z4", "\0\0\x80\x3f\0\0\0\x40", "1 + 2i");
    SHOWS("z4", "\0\0\x80\xbf\0\0\0\xc0", "-1 - 2i");
    SHOWS("z4", "\0\0\x80\x3f\0\0\0\x80", "1 - 0i");
    SHOWS("p", "\x10\xfd\xff\x7f\0\0\0\0", "0x7ffffd10");
    SHOWS("x", "\0\x10\x40\0\0\0\0\0", "0x401000 <solve>");
    SHOWS("x", "\1\x10\x40\0\0\0\0\0", "0x401001");
    SHOWS("g",
          "\0\x20\x40\0\0\0\0\0"
          "\0\x10\x40\0\0\0\0\0",
          "<main::{lambda(int, char)#1}>");
    SHOWS("g",
          "\0\x30\x40\0\0\0\0\0"
          "\0\x10\x40\0\0\0\0\0",
          "0x401000 <solve>");
    SHOWS("g",
          "\0\x40\x40\0\0\0\0\0"
          "\0\x10\x40\0\0\0\0\0",
          "<function>");
    SHOWS("g",
          "\0\x50\x40\0\0\0\0\0"
          "\0\x10\x40\0\0\0\0\0",
          "<function>");
    SHOWS("g", "\0\x20\x40", "<cut>");
    SHOWS("r3", "\1\2\xff", "<bytes 0102ff>");
}

static void shows_characters(void **state)
{
    SHOWS("c1", "a", "'a'");
    SHOWS("c1", "\n", "'\\n'");
    SHOWS("c1", "\0", "'\\000'");
    SHOWS("c1", "'", "'\\''");
    SHOWS("c1", "\"", "'\"'");
    SHOWS("c1", "\\", "'\\\\'");
    SHOWS("c1", "\xe4", "'\\344'");
    SHOWS("c4", "\xe4\0\0\0", "'\xc3\xa4'");
    SHOWS("c4", "\0\xd8\0\0", "'\\xd800'");
}

static void shows_enumerations(void **state)
{
    SHOWS("e4{RED=0,GREEN=1,BLUE=7}\"enum colour\"", "\7\0\0\0", "BLUE");
    SHOWS("e4{RED=0,GREEN=1,BLUE=7}", "\2\0\0\0", "2");
    SHOWS("e4{LOW=-5,HIGH=5}", "\xfb\xff\xff\xff", "LOW");
    SHOWS("E4{NONE=0,A=1,B=2,C=4}", "\5\0\0\0", "A|C");
    SHOWS("E4{NONE=0,A=1,B=2,C=4}", "\0\0\0\0", "NONE");
    SHOWS("E4{A=1,B=2}", "\x12\0\0\0", "B|0x10");
    SHOWS("E1{TOP=255}", "\xff", "TOP");
    SHOWS("e4{}", "\3\0\0\0", "3");
    SHOWS("E8{\"ns::A\"=18446744073709551615}", "\xff\xff\xff\xff\xff\xff\xff\xff", "ns::A");
}

#define ADDRESS "\x10\0\x55\0\0\0\0\0"

static void shows_what_pointers_point_to(void **state)
{
    SHOWS("*i4", ADDRESS "\0\5\0\0\0", "0x550010 -> 5");
    SHOWS("*{x:i4,y:f8}", ADDRESS "\0\1\0\0\0\0\0\0\0\0\0\4\x40", "0x550010 -> {x = 1, y = 2.5}");
    SHOWS("*i4", "\0\0\0\0\0\0\0\0\2", "0x0");
    SHOWS("*i4", ADDRESS "\3", "<invalid 0x550010>");
    SHOWS("*i4", ADDRESS "\4", "0x550010 -> <cut>");
    SHOWS("**i4", ADDRESS "\0" ADDRESS "\0\5\0\0\0", "0x550010 -> 0x550010 -> 5");
    SHOWS("&i4", ADDRESS "\0\5\0\0\0", "5");
    SHOWS("&i4", ADDRESS "\3", "<invalid 0x550010>");
    SHOWS("s", ADDRESS "\0\3\0abc", "\"abc\"");
    SHOWS("s", ADDRESS "\1\3\0abc", "\"abc\"...");
    SHOWS("s", ADDRESS "\0\4\0a\"\n\xff", "\"a\\\"\\n\\377\"");
    SHOWS("s", ADDRESS "\3", "<invalid 0x550010>");
    SHOWS("s", "\0\0\0\0\0\0\0\0\2", "0x0");
    SHOWS("*s", ADDRESS "\0" ADDRESS "\0\2\0hi", "0x550010 -> \"hi\"");
    SHOWS("S", "\0\3\0\0\0\3\0abc", "\"abc\"");
    SHOWS("S", "\1\x8\0\0\0\3\0abc", "\"abc\"...");
    SHOWS("S", "\3", "<invalid>");
    SHOWS("?S", "\6", "<not available>");
    SHOWS("vm{:i1,:c1}", "\0\2\0\0\0\2\0\1a\2b", "{[1] = 'a', [2] = 'b'}");
    SHOWS("^nullopt{:?i1}", "\0\5", "5");
    SHOWS("^nullopt{:?i1}", "\5", "nullopt");
    SHOWS("^valueless{:?i1,:?c1}", "\5\0a", "'a'");
    SHOWS("^valueless{:?i1,:?c1}", "\6\5", "<not available>");
    SHOWS("?i4", "\0\5\0\0\0", "5");
    SHOWS("?i4", "\3", "<invalid>");
}

static void shows_compounds(void **state)
{
    SHOWS("a3/3i1", "\1\2\3", "{1, 2, 3}");
    SHOWS("a3/9i1", "\1\2\3", "{1, 2, 3, ...}");
    SHOWS("a0/9i1", "", "{...}");
    SHOWS("a0/0i1", "", "{}");
    SHOWS("a12/12i1", "\0\0\0\0\0\0\0\0\0\0\0\1", "{0 <repeats 11 times>, 1}");
    SHOWS("a3/3i1", "\7\7\7", "{7, 7, 7}");
    SHOWS("a2/2a2/2i1", "\1\2\3\4", "{{1, 2}, {3, 4}}");
    SHOWS("t4/4", "ab\0c", "\"ab\"");
    SHOWS("t4/9", "abcd", "\"abcd\"...");
    SHOWS("t4/4", "abcd", "\"abcd\"");
    SHOWS("vi2", "\0\2\0\0\0\2\0\1\0\2\0", "{1, 2}");
    SHOWS("vi2", "\1\x9\0\0\0\2\0\1\0\2\0", "{1, 2, ...}");
    SHOWS("vi2", "\0\0\0\0\0\0\0", "{}");
    SHOWS("{<Base>:{a:i1},b:i1,:|{c:i1,d:u1}}", "\1\2\xff\xff", "{<Base> = {a = 1}, b = 2, {c = -1, d = 255}}");
    SHOWS("{_M_value:z4}", "\0\0\x20\x40\0\0\x80\xbf", "2.5 - 1i");
    SHOWS("{__re_:f4,__im_:f4}", "\0\0\x20\x40\0\0\x80\xbf", "2.5 - 1i");
    SHOWS("{__re_:i1,__im_:i1}", "\1\2", "{__re_ = 1, __im_ = 2}");
    SHOWS("{<_Base_bitset<2>>:{_M_w:a2/2i1}}", "\7\1", "{7, 1}");
    SHOWS("{__d:{__r:i1}}", "\7", "7");
    SHOWS("{_own:i1}", "\7", "{_own = 7}");
    SHOWS("{}", "", "{}");
    SHOWS("o", "", "<optimised out>");
    SHOWS("n", "", "<not available>");
    SHOWS("k", "", "<cut>");
}

static void shows_known_ones_first(void **state)
{
    const struct layout_style known_first = {.known_first = true};
    struct layout *layout = parsed("locals(a:o,b:i1,c:n,d:i1,e:{f:o,g:i1})");
    struct buf out = BUF_INIT;
    layout_format(layout, LAYOUT_LOCALS, "\1\2\3", 3, &known_first, &out);
    assert_string_equal(out.data, "b = 1, d = 2, e = {f = <optimised out>, g = 3}, a = <optimised out>, "
                                  "c = <not available>");
    buf_done(&out);
    layout_free(layout);
}

static void shows_parts_apart(void **state)
{
    const char *text = "locals(i:i4,\"odd name\":i1) result(:f8)";
    const char bytes[] = "\1\0\0\0\2\0\0\0\0\0\0\4\x40";
    char *locals = formatted(text, LAYOUT_LOCALS, bytes, sizeof bytes - 1);
    char *result = formatted(text, LAYOUT_RESULT, bytes, sizeof bytes - 1);
    char *args = formatted(text, LAYOUT_ARGS, bytes, sizeof bytes - 1);
    assert_string_equal(locals, "i = 1, odd name = 2");
    assert_string_equal(result, "2.5");
    assert_string_equal(args, "");
    free(locals);
    free(result);
    free(args);
    struct layout *layout = parsed(text);
    assert_true(layout_has(layout, LAYOUT_LOCALS));
    assert_false(layout_has(layout, LAYOUT_ARGS));
    assert_null(layout_function(layout, LAYOUT_LOCALS));
    layout_free(layout);
    layout = parsed("caller\"ns::Class::operator \\\"\\\"(int)\"(k:i4)");
    assert_true(layout_has(layout, LAYOUT_CALLER));
    assert_string_equal(layout_function(layout, LAYOUT_CALLER), "ns::Class::operator \"\"(int)");
    layout_free(layout);
}

static void says_where_bytes_end(void **state)
{
    SHOWS("{a:i4,b:i4}", "\1\0\0\0\2", "{a = 1, b = <cut>}");
    SHOWS("s", ADDRESS "\0\5\0ab", "\"ab\"<cut>");
    SHOWS("a3/3i2", "\1\0\2\0\3", "{1, 2, <cut>}");
    SHOWS("vi2", "\0\2\0\0\0\2", "<cut>");
    SHOWS("vi2", "\0\2\0\0\0\2\0\1\0", "{1, <cut>}");
    SHOWS("i4", "", "<cut>");
    char *result = formatted("locals(a:i4) result(:i4)", LAYOUT_RESULT, "\1\0", 2);
    assert_string_equal(result, "<cut>");
    free(result);
}

static void names_no_key_twice(void **state)
{
    struct layout *layout = parsed("args(a:i4,b:i4,a:i4,a:i4)");
    const char bytes[] = "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0";
    struct buf out = BUF_INIT;
    layout_format_json(layout, LAYOUT_ARGS, bytes, sizeof bytes, &style, &out);
    assert_string_equal(out.data, "{\"a\":1,\"b\":2,\"a#2\":3,\"a#3\":4}");
    buf_done(&out);
    layout_free(layout);
}

static void has_other_forms(void **state)
{
    struct layout *layout = parsed("args(n:i4\"int\",big:i8,s:s\"char *\",x:f8\"double\",t:b1\"bool\")");
    const char bytes[] = "\5\0\0\0"
                         "\xff\xff\xff\xff\xff\xff\xff\x7f" ADDRESS "\0\2\0\"\n"
                         "\0\0\0\0\0\0\4\x40"
                         "\1";
    struct buf out = BUF_INIT;
    layout_format_list(layout, LAYOUT_ARGS, bytes, sizeof bytes - 1, &style, &out);
    assert_string_equal(out.data, "\"n\",\"5\",\"big\",\"9223372036854775807\",\"s\",\"\\\"\\\\\\\"\\\\n\\\"\","
                                  "\"x\",\"2.5\",\"t\",\"true\"");
    buf_clear(&out);
    layout_format_json(layout, LAYOUT_ARGS, bytes, sizeof bytes - 1, &style, &out);
    assert_string_equal(out.data, "{\"n\":5,\"big\":\"9223372036854775807\",\"s\":\"\\\"\\\\\\\"\\\\n\\\"\",\"x\":2.5,"
                                  "\"t\":true}");
    buf_clear(&out);
    struct layout_style typed = style;
    typed.types = true;
    typed.string_limit = 1;
    layout_format(layout, LAYOUT_ARGS, bytes, sizeof bytes - 1, &typed, &out);
    assert_string_equal(out.data, "int n = 5, big = 9223372036854775807, char *s = \"\\\"\"..., double x = 2.5, "
                                  "bool t = true");
    buf_done(&out);
    layout_free(layout);
}

#define VALUES(type, bytes, expected) \
    do { \
        struct layout *layout_ = parsed("args(v:" type ")"); \
        struct buf out_ = BUF_INIT; \
        layout_format_values(layout_, LAYOUT_ARGS, bytes, sizeof(bytes) - 1, &style, &out_); \
        assert_string_equal(out_.data, "{\"v\":" expected "}"); \
        buf_done(&out_); \
        layout_free(layout_); \
    } while (0)

static void declares(void **state)
{
    static const char *const cases[][2] = {
        {"int", "int v"},
        {"char **", "char **v"},
        {"const char *const", "const char *const v"},
        {"std::vector<int (*)(int)> &", "std::vector<int (*)(int)> &v"},
        {"int (*)(int)", "int (*v)(int)"},
        {"void (**)(int (*)(char), ...)", "void (**v)(int (*)(char), ...)"},
        {"int (*const)(void)", "int (*const v)(void)"},
        {"int (*[2])(int)", "int (*v[2])(int)"},
        {"int (&)[3]", "int (&v)[3]"},
        {"void (*(*)(int))(char)", "void (*(*v)(int))(char)"},
        {"int (ns::A<void (*)()>::*)(int)", "int (ns::A<void (*)()>::*v)(int)"},
        {"(anonymous namespace)::A", "(anonymous namespace)::A v"},
        {"int (int *)", "int (int *) v"},
        {"(", "( v"},
        {"(*", "(*v"},
        {"a<(*", "a<(*v"},
        {"(*(*(a::*(int))(*)", "(*(*(a::*v(int))(*)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf text = BUF_INIT, out = BUF_INIT;
        buf_printf(&text, "args(v:x\"%s\") result(:x\"%s\")", cases[i][0], cases[i][0]);
        struct layout *layout = parsed(text.data);
        layout_declare(layout, LAYOUT_ARGS, &out);
        assert_string_equal(out.data, cases[i][1]);
        buf_clear(&out);
        layout_declare(layout, LAYOUT_RESULT, &out);
        assert_string_equal(out.data, cases[i][0]);
        layout_free(layout);
        buf_done(&text);
        buf_done(&out);
    }
}

static void gives_values(void **state)
{
    VALUES("i4", "\xff\xff\xff\xff", "-1");
    VALUES("u8", "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615");
    VALUES("b1", "\1", "true");
    VALUES("b1", "\7", "null");
    VALUES("f8", "\0\0\0\0\0\0\4\x40", "2.5");
    VALUES("f8", "\0\0\0\0\0\0\xf0\x7f", "\"inf\"");
    VALUES("z4", "\0\0\x20\x40\0\0\x80\xbf", "{\"re\":2.5,\"im\":-1}");
    VALUES("c1", "a", "\"a\"");
    VALUES("E4{NONE=0,A=1,B=2,C=4}", "\5\0\0\0", "{\"value\":5,\"name\":\"A|C\"}");
    VALUES("p", ADDRESS, "{\"address\":\"0x550010\"}");
    VALUES("p", "\0\0\0\0\0\0\0\0", "null");
    VALUES("x", "\0\x10\x40\0\0\0\0\0", "{\"address\":\"0x401000\",\"function\":\"solve\"}");
    VALUES("*{x:i4,y:f8}", ADDRESS "\0\1\0\0\0\0\0\0\0\0\0\4\x40",
           "{\"address\":\"0x550010\",\"to\":{\"x\":1,\"y\":2.5}}");
    VALUES("*i4", "\0\0\0\0\0\0\0\0\2", "null");
    VALUES("*i4", ADDRESS "\3", "{\"address\":\"0x550010\",\"to\":null}");
    VALUES("&i4", ADDRESS "\0\5\0\0\0", "5");
    VALUES("s", ADDRESS "\0\3\0a\"\n", "{\"address\":\"0x550010\",\"to\":\"a\\\"\\u000a\"}");
    VALUES("s", ADDRESS "\1\3\0ab\xff", "{\"address\":\"0x550010\",\"to\":\"ab\\ufffd\",\"cut\":true}");
    VALUES("S", "\0\3\0\0\0\3\0abc", "\"abc\"");
    VALUES("S", "\1\x8\0\0\0\3\0abc", "{\"first\":\"abc\",\"total\":8}");
    VALUES("t4/4", "ab\0c", "\"ab\"");
    VALUES("t4/9", "ab\0c", "\"ab\"");
    VALUES("t4/9", "abcd", "{\"first\":\"abcd\",\"total\":9}");
    VALUES("a2/2a2/2i1", "\1\2\3\4", "[[1,2],[3,4]]");
    VALUES("a3/9i1", "\1\2\3", "{\"first\":[1,2,3],\"total\":9}");
    VALUES("vm{:i1,:c1}", "\0\2\0\0\0\2\0\1a\2b", "[{\"key\":1,\"value\":\"a\"},{\"key\":2,\"value\":\"b\"}]");
    VALUES("^nullopt{:?i1}", "\0\5", "5");
    VALUES("^nullopt{:?i1}", "\5", "null");
    VALUES("?i4", "\3", "null");
    VALUES("{<Base>:{a:i1},b:i1,:|{c:i1,d:u1}}", "\1\2\xff\xff",
           "{\"<Base>\":{\"a\":1},\"b\":2,\"\":{\"c\":-1,\"d\":255}}");
    VALUES("{_M_value:z4}", "\0\0\x20\x40\0\0\x80\xbf", "{\"re\":2.5,\"im\":-1}");
    VALUES("{<_Base_bitset<1>>:{_M_w:i1}}", "\7", "7");
    VALUES("{_own:i1}", "\7", "{\"_own\":7}");
    VALUES("{__re_:f4,__im_:f4}", "\0\0\x20\x40\0\0\x80\xbf", "{\"re\":2.5,\"im\":-1}");
    VALUES("{:i1,:{x:i1}}", "\7\1", "[7,{\"x\":1}]");
    VALUES("{:i1}", "\7", "[7]");
    VALUES("{:|{c:i1,d:u1}}", "\xff\xff", "{\"\":{\"c\":-1,\"d\":255}}");
    VALUES("o", "", "null");
    VALUES("r3", "\1\2\xff", "\"<bytes 0102ff>\"");
    VALUES("{a:r1,b:r1}", "\1\2", "{\"a\":\"<bytes 01>\",\"b\":\"<bytes 02>\"}");
    VALUES("^none{:?i1,:?r1}", "\0\1\0\2", "1");
    VALUES("{a:i4,b:a2/2i4}", "\1\0\0\0\2\0\0\0\3", "{\"a\":1,\"b\":[2,null]}"); /* cut */
    VALUES("s", ADDRESS "\0\4\0a", "{\"address\":\"0x550010\",\"to\":null}");
}

static void refuses_what_is_no_layout(void **state)
{
    static const char *const texts[] = {
        "args",
        "args(",
        "args(a)",
        "args(a:)",
        "args(a:i3)",
        "args(a:i4",
        "args(a:i4,)",
        "args(a:i4)x",
        "arms(a:i4)",
        "result(:i4) args(a:i4)",
        "args(a:i4) args(b:i4)",
        "args(a:*)",
        "args(a:a4i4)",
        "args(a:a65536/1i1)",
        "args(a:a4/4o)",
        "args(a:vo)",
        "args(a:e4)",
        "args(a:e4{A})",
        "args(a:e4{A=99999999999999999999})",
        "args(a:a65535/1a65535/1a65535/1i16)",
        "args(\"a:i4)",
        "args(a:i99999999999999999999)",
        "args(a:r)",
        "caller\"main\"",
        "caller\"main(k:i4)",
        "caller\"main\"x(k:i4)",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct layout *layout;
        struct err err = {0};
        if (layout_parse(&layout, texts[i], &err) != -EBADMSG)
            fail_msg("taken: %s", texts[i]);
        assert_non_null(strstr(err.text, "layout: "));
    }
    char deep[400] = "args(a:";
    memset(deep + 7, '*', 300);
    strcpy(deep + 307, "i4)");
    struct layout *layout;
    assert_int_equal(layout_parse(&layout, deep, NULL), -EBADMSG);
}

/* Only what is at the same place in all values. */
static void finds_numbers(void **state)
{
    struct layout *layout = parsed("args(peer:i4,flag:b1,site:p,s:s,after:i4) result(:i4)");
    size_t at, size;
    assert_true(layout_find(layout, LAYOUT_ARGS, "peer", &at, &size) && at == 0 && size == 4);
    assert_true(layout_find(layout, LAYOUT_ARGS, "flag", &at, &size) && at == 4 && size == 1);
    assert_true(layout_find(layout, LAYOUT_ARGS, "site", &at, &size) && at == 5 && size == 8);
    assert_false(layout_find(layout, LAYOUT_ARGS, "s", &at, &size));
    assert_false(layout_find(layout, LAYOUT_ARGS, "after", &at, &size));
    assert_false(layout_find(layout, LAYOUT_ARGS, "none", &at, &size));
    assert_false(layout_find(layout, LAYOUT_RESULT, "", &at, &size));
    layout_free(layout);
}

static const char *part_of(void *ctx, uint32_t id)
{
    return id == 3 ? "{x:i4,\"@1;\":i4}" : id == 4 ? "args()" : NULL;
}

static int expand(const char *text, const char *expected)
{
    struct buf out = BUF_INIT;
    int code = layout_expand(text, 5, part_of, NULL, &out);
    if (code == 0)
        assert_string_equal(out.data, expected);
    buf_done(&out);
    return code;
}

static void refers_to_parts(void **state)
{
    assert_int_equal(expand("args(p:*@2;\"@2;\",q:@2;)", "args(p:*{x:i4,\"@1;\":i4}\"@2;\",q:{x:i4,\"@1;\":i4})"), 0);
    assert_int_equal(expand("args(n:i4)", "args(n:i4)"), 0);
    const char *const bad[] = {"args(p:@1;)",
                               "args(p:@6;)",
                               "args(p:@0;)",
                               "args(p:@2)",
                               "args(p:@",
                               "args(p:@-2;)",
                               "args(p:@99999999999999999999;)"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(expand(bad[i], ""), -EBADMSG);
    assert_string_equal(layout_group_end("{a:{b:i4,\"}\\\"}\":i4}},c"), ",c");
    assert_null(layout_group_end("{a:{b:i4}"));
    assert_string_equal(layout_group("\"{\"{a"), "{a");
    assert_null(layout_group("args(a:i4)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refers_to_parts),
        cmocka_unit_test(shows_numbers),
        cmocka_unit_test(shows_characters),
        cmocka_unit_test(shows_enumerations),
        cmocka_unit_test(shows_what_pointers_point_to),
        cmocka_unit_test(shows_compounds),
        cmocka_unit_test(shows_known_ones_first),
        cmocka_unit_test(shows_parts_apart),
        cmocka_unit_test(says_where_bytes_end),
        cmocka_unit_test(declares),
        cmocka_unit_test(gives_values),
        cmocka_unit_test(names_no_key_twice),
        cmocka_unit_test(has_other_forms),
        cmocka_unit_test(refuses_what_is_no_layout),
        cmocka_unit_test(finds_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
