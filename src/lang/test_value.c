/* SPDX-License-Identifier: Apache-2.0 */
/* Values: what is printed reads back as the same value, for numbers bit by bit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lang/request.h"

static struct arena arena;
static struct buf out;

static int teardown(void **state)
{
    arena_done(&arena);
    buf_done(&out);
    return 0;
}

static uint64_t next_random(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1d;
}

static double double_of(uint64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static const struct value *read_one(struct span text)
{
    const struct value *values;
    size_t count;
    struct err err = {0};
    arena_reset(&arena);
    int code = values_parse(&arena, text, &values, &count, &err);
    if (code < 0)
        fail_msg("%.*s: %s", SPAN_ARG(text), err.text);
    assert_int_equal(count, 1);
    return values;
}

static struct value reread(const struct value *value)
{
    buf_clear(&out);
    value_print(&out, value);
    assert_false(out.failed);
    return *read_one(span_of(out.data, out.len));
}

static void assert_prints(const struct value *value, const char *text)
{
    buf_clear(&out);
    value_print(&out, value);
    assert_string_equal(out.data, text);
}

static void check_double(double number)
{
    struct value value = value_floating(number), again = reread(&value);
    assert_int_equal(again.kind, VALUE_FLOATING);
    if (bits_of(again.floating.number) != bits_of(number))
        fail_msg("%a printed as %s was read as %a", number, out.data, again.floating.number);
}

static void check_wide(long double number)
{
    struct value value = value_wide(number), again = reread(&value);
    assert_int_equal(again.kind, VALUE_FLOATING);
    if (memcmp(&again.floating.wide, &number, 10) != 0)
        fail_msg("%La printed as %s was read as %La", number, out.data, again.floating.wide);
}

/* The fewest digits with which printf's rounding reads back; only at powers of two can fewer be right. */
static int fewest_digits(double number)
{
    for (int digits = 1; digits < 17; digits++) {
        char text[64];
        snprintf(text, sizeof text, "%.*e", digits - 1, number);
        if (strtod(text, NULL) == number)
            return digits;
    }
    return 17;
}

static int printed_digits(double number)
{
    buf_clear(&out);
    value_print_floating(&out, number);
    int digits = 0, trailing = 0;
    for (const char *at = out.data; *at && *at != 'e'; at++) {
        if (*at < '0' || *at > '9' || (*at == '0' && !digits))
            continue;
        digits++;
        trailing = *at == '0' ? trailing + 1 : 0;
    }
    return digits - trailing;
}

static void random_doubles_round_trip_in_the_shortest_form(void **state)
{
    for (int i = 0; i < 20000; i++) {
        double number = double_of(next_random());
        check_double(number);
        if (i % 8 == 0 && isfinite(number) && number != 0 && printed_digits(number) > fewest_digits(number))
            fail_msg("%s is not the shortest form", out.data);
    }
}

static void everyday_doubles_round_trip_in_the_shortest_form(void **state)
{
    static const double scales[] = {1, 10, 100, 1e3, 1e4, 1e6, 1e9, 1e12, 3, 7};
    for (int i = 0; i < 20000; i++) {
        double number = (double)(int64_t)(next_random() >> (11 + next_random() % 50)) / scales[next_random() % 10];
        check_double(number);
        check_double(-number);
        if (number != 0 && printed_digits(number) > fewest_digits(number))
            fail_msg("%s is not the shortest form", out.data);
    }
}

static void doubles_beside_powers_round_trip(void **state)
{
    for (int exponent = -1074; exponent < 1024; exponent++) {
        double power = ldexp(1, exponent);
        check_double(power);
        check_double(nextafter(power, 0));
        check_double(nextafter(power, INFINITY));
        assert_true(printed_digits(power) <= fewest_digits(power));
    }
    for (int exponent = -323; exponent <= 308; exponent++) {
        char text[16];
        snprintf(text, sizeof text, "1e%d", exponent);
        double power = strtod(text, NULL);
        check_double(power);
        check_double(nextafter(power, 0));
        check_double(nextafter(power, INFINITY));
        assert_int_equal(printed_digits(power), 1);
    }
    check_double(DBL_MAX);
    check_double(DBL_MIN);
    check_double(nextafter(DBL_MIN, 0));
    check_double(0.0);
    check_double(-0.0);
}

static void random_long_doubles_round_trip(void **state)
{
#if LDBL_MANT_DIG == 64
    for (int i = 0; i < 6000; i++) {
        uint64_t significand = next_random() | UINT64_C(1) << 63;
        uint16_t exponent = (uint16_t)next_random();
        long double number = 0;
        if ((exponent & 0x7fff) == 0)
            significand &= INT64_MAX; /* subnormal */
        memcpy(&number, &significand, 8);
        memcpy((char *)&number + 8, &exponent, 2);
        check_wide(number);
        check_wide((long double)double_of(next_random() & ~(UINT64_C(1) << 62)));
    }
    for (int exponent = -16445; exponent < 16384; exponent += 3) {
        long double power = ldexpl(1, exponent);
        check_wide(power);
        check_wide(nextafterl(power, 0));
        check_wide(-nextafterl(power, INFINITY));
    }
    check_wide(LDBL_MAX);
    check_wide(LDBL_MIN);
    check_wide(0.1L);
    check_wide(-0.0L);
    check_wide(INFINITY);
#else
    skip();
#endif
}

static void long_doubles_are_shortest(void **state)
{
    struct value value = value_wide(0.1L);
    assert_prints(&value, "0.1");
    value = value_wide(1e-4950L);
    assert_prints(&value, "1e-4950");
    value = value_wide(1e4932L);
    assert_prints(&value, "1e+4932");
    value = value_wide(123.0L);
    assert_prints(&value, "123.0");
#if LDBL_MANT_DIG == 64
    value = value_wide(0.1); /* the double, seen with more precision */
    assert_prints(&value, "0.10000000000000000555");
#endif
}

/* However a number was spelled, its canonical form is read as the same and printed as itself. */
static void the_canonical_form_is_stable(void **state)
{
    for (int i = 0; i < 10000; i++) {
        char text[80], first[64];
        int digits = (int)(next_random() % 24);
        uint64_t random = next_random();
        if (i % 5 == 0)
            snprintf(text, sizeof text, "0x1.%llxp%d", (unsigned long long)random, (int)(next_random() % 2000) - 1000);
        else
            snprintf(text, sizeof text, "%llu.%0*llue%d", (unsigned long long)(random % 100000), digits,
                     (unsigned long long)(next_random() >> next_random() % 64), (int)(next_random() % 700) - 350);
        struct value value = *read_one(span_str(text)), again = reread(&value);
        snprintf(first, sizeof first, "%s", out.data);
        assert_int_equal(again.floating.is_wide, value.floating.is_wide);
        if (value.floating.is_wide)
            assert_memory_equal(&again.floating.wide, &value.floating.wide, 10);
        else
            assert_true(bits_of(again.floating.number) == bits_of(value.floating.number));
        assert_prints(&again, first);
    }
    struct value value = *read_one(span_str("-92362.2250738585010")); /* 18 digits that say no more than 17 */
    assert_false(value.floating.is_wide);
    assert_prints(&value, "-92362.2250738585");
    value = value_wide(0.1); /* a double in an x87 register */
    struct value again = reread(&value);
    assert_true(again.floating.is_wide && again.floating.number == 0.1);
    assert_prints(&again, "0.10000000000000000555");
}

static void nans_keep_their_bits(void **state)
{
    static const uint64_t patterns[] = {0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001,
                                        0xfff0000000000001, 0x7fffffffffffffff, 0x7ff4deadbeef1234};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        check_double(double_of(patterns[i]));
        char text[32];
        snprintf(text, sizeof text, "nan:0x%016llx", (unsigned long long)patterns[i]);
        struct value value = value_floating(double_of(patterns[i]));
        assert_prints(&value, text);
        assert_true(isnan(read_one(span_str(text))->floating.wide));
    }
#if LDBL_MANT_DIG == 64
    /* quiet, signalling, negative, and an unnormal number, which the x87 treats as invalid */
    static const char *const wide[] = {"nan:0x7fffc000000000000000", "nan:0x7fff8000000000000001",
                                       "nan:0xffffdeadbeefdeadbeef", "nan:0x40001234567812345678"};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        struct value value = *read_one(span_str(wide[i]));
        assert_true(value.floating.is_wide);
        assert_true(isnan(value.floating.number));
        assert_prints(&value, wide[i]);
    }
#endif
}

static void floats_look_like_floats(void **state)
{
    static const struct {
        double number;
        const char *text;
    } rows[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {0.0001, "0.0001"},
        {0.00001, "1e-05"},
        {1e15, "1000000000000000.0"},
        {9999999999999998, "9999999999999998.0"},
        {1e16, "1e+16"},
        {1e30, "1e+30"},
        {1.25e-300, "1.25e-300"},
        {0.30000000000000004, "0.30000000000000004"},
        {123456.789, "123456.789"},
        {1700000000.123456, "1700000000.123456"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {5.684341886080802e-14, "5.684341886080802e-14"}, /* 2^-44: the nearest with 16 digits reads as another */
        {9007199254740993.0, "9007199254740992.0"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct value value = value_floating(rows[i].number);
        assert_prints(&value, rows[i].text);
        check_double(rows[i].number);
    }
}

static void locale_does_not_matter(void **state)
{
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    bool found = false;
    for (size_t i = 0; i < sizeof commas / sizeof *commas && !found; i++)
        found = setlocale(LC_NUMERIC, commas[i]) && localeconv()->decimal_point[0] == ',';
    /* without such a locale installed this is one more round trip, in the C locale */
    struct value value = value_floating(0.30000000000000004);
    assert_prints(&value, "0.30000000000000004");
    assert_true(read_one(span_str("0.30000000000000004"))->floating.number == 0.30000000000000004);
    assert_true(read_one(span_str("1.5e300"))->floating.number == 1.5e300);
    value = value_wide(0.3L);
    assert_prints(&value, "0.3");
    setlocale(LC_NUMERIC, "C");
}

static void check_integer(const char *text, uint64_t bits, bool negative, const char *printed)
{
    struct value value = *read_one(span_str(text));
    assert_int_equal(value.kind, VALUE_INTEGER);
    assert_true(value.integer.bits == bits);
    assert_int_equal(value.integer.negative, negative);
    assert_prints(&value, printed);
    struct value again = reread(&value);
    assert_true(again.integer.bits == bits && again.integer.negative == negative);
}

static void integers_at_their_edges(void **state)
{
    check_integer("0", 0, false, "0");
    check_integer("-0", 0, false, "0");
    check_integer("+1", 1, false, "1");
    check_integer("-1", UINT64_MAX, true, "-1");
    check_integer("18446744073709551615", UINT64_MAX, false, "18446744073709551615");
    check_integer("9223372036854775807", INT64_MAX, false, "9223372036854775807");
    check_integer("9223372036854775808", UINT64_C(1) << 63, false, "9223372036854775808");
    check_integer("-9223372036854775808", UINT64_C(1) << 63, true, "-9223372036854775808");
    check_integer("-9223372036854775807", (UINT64_C(1) << 63) + 1, true, "-9223372036854775807");
    check_integer("0xffffffffffffffff", UINT64_MAX, false, "18446744073709551615");
    check_integer("0XfF", 255, false, "255");
    check_integer("-0x8000000000000000", UINT64_C(1) << 63, true, "-9223372036854775808");
    check_integer("01777777777777777777777", UINT64_MAX, false, "18446744073709551615");
    check_integer("-010", (uint64_t)-8, true, "-8");
    check_integer("007", 7, false, "7");
    check_integer("0x0000000000000000000000000000000001", 1, false, "1");
}

static void integers_are_made_and_printed(void **state)
{
    struct value value = value_int(INT64_MIN);
    assert_prints(&value, "-9223372036854775808");
    value = value_int(-1);
    assert_true(value.integer.negative);
    assert_prints(&value, "-1");
    value = value_int(INT64_MAX);
    assert_prints(&value, "9223372036854775807");
    value = value_uint(UINT64_MAX);
    assert_false(value.integer.negative);
    assert_prints(&value, "18446744073709551615");
    for (int i = 0; i < 1000; i++) {
        value = value_int((int64_t)(next_random() >> next_random() % 64));
        struct value again = reread(&value);
        assert_true(again.integer.bits == value.integer.bits && again.integer.negative == value.integer.negative);
    }
}

static void strings_round_trip(void **state)
{
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    struct value value = value_string(span_of(all, sizeof all)), again = reread(&value);
    assert_int_equal(again.kind, VALUE_STRING);
    assert_true(span_eq(again.text, value.text));
    for (size_t i = 0; i < out.len; i++) /* 7-bit, printable: 0x80..0xff in this order are no UTF-8 */
        assert_in_range((unsigned char)out.data[i], 0x20, 0x7e);
    for (int i = 0; i < 20000; i++) {
        char bytes[24];
        uint64_t random = next_random();
        size_t len = random % (sizeof bytes + 1);
        for (size_t j = 0; j < len; j++)
            bytes[j] = (char)(random & 1 ? 0xc0 + next_random() % 64 : next_random());
        value = value_string(span_of(bytes, len));
        again = reread(&value);
        assert_true(span_eq(again.text, value.text));
    }
}

static void strings_are_printed_for_people(void **state)
{
    struct value value = value_string(span_str("a\a\b\f\n\r\t\v\\\"'?z"));
    assert_prints(&value, "\"a\\a\\b\\f\\n\\r\\t\\v\\\\\\\"'?z\"");
    value = value_string(span_of("\0001", 2)); /* a digit behind an octal escape stays a digit */
    assert_prints(&value, "\"\\0001\"");
    value = value_string(span_str("Grüße, 世界 🌍"));
    assert_prints(&value, "\"Grüße, 世界 🌍\"");
    value = value_string(span_str("\xc2\x9b"
                                  "2J")); /* a terminal would obey U+009B */
    assert_prints(&value, "\"\\302\\2332J\"");
    value = value_string(span_str("\xed\xa0\x80 \xc0\x80 \xf4\x90\x80\x80 \xe2\x82")); /* no UTF-8 */
    assert_prints(&value, "\"\\355\\240\\200 \\300\\200 \\364\\220\\200\\200 \\342\\202\"");
    value = value_string(span_of(NULL, 0));
    assert_prints(&value, "\"\"");
}

static void binary_round_trips(void **state)
{
    static const char bytes[] = "\0,\")]#5#\0\xff";
    struct value items[2] = {value_binary(span_of(bytes, sizeof bytes - 1)), value_binary(span_of("", 0))};
    struct value value = value_list(items, 2), again = reread(&value);
    assert_int_equal(again.list.count, 2);
    assert_int_equal(again.list.items[0].kind, VALUE_BINARY);
    assert_true(span_eq(again.list.items[0].text, items[0].text));
    assert_int_equal(again.list.items[1].kind, VALUE_BINARY);
    assert_int_equal(again.list.items[1].text.len, 0);
}

static void copies_own_everything(void **state)
{
    char text[] = "[1,[2.5,\"a\\n\"],p_1_2,$x,3#a\0b,[]]";
    struct arena first = ARENA_INIT;
    const struct value *values;
    size_t count;
    assert_int_equal(values_parse(&first, span_of(text, sizeof text - 1), &values, &count, NULL), 0);
    buf_clear(&out);
    value_print(&out, values);
    struct buf before = out;
    out = BUF_INIT;
    struct value copy;
    arena_reset(&arena);
    assert_true(value_copy(&arena, values, &copy));
    arena_done(&first);
    memset(text, 'x', sizeof text);
    value_print(&out, &copy);
    assert_true(span_eq(span_of(before.data, before.len), span_of(out.data, out.len)));
    buf_done(&before);
}

static void kinds_have_names(void **state)
{
    assert_string_equal(value_kind_name(VALUE_INTEGER), "integer");
    assert_string_equal(value_kind_name(VALUE_LIST), "list");
    assert_string_equal(value_kind_name(VALUE_PARAM), "event context parameter");
    assert_string_equal(value_kind_name((enum value_kind)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_doubles_round_trip_in_the_shortest_form),
        cmocka_unit_test(everyday_doubles_round_trip_in_the_shortest_form),
        cmocka_unit_test(doubles_beside_powers_round_trip),
        cmocka_unit_test(random_long_doubles_round_trip),
        cmocka_unit_test(long_doubles_are_shortest),
        cmocka_unit_test(the_canonical_form_is_stable),
        cmocka_unit_test(nans_keep_their_bits),
        cmocka_unit_test(floats_look_like_floats),
        cmocka_unit_test(locale_does_not_matter),
        cmocka_unit_test(integers_at_their_edges),
        cmocka_unit_test(integers_are_made_and_printed),
        cmocka_unit_test(strings_round_trip),
        cmocka_unit_test(strings_are_printed_for_people),
        cmocka_unit_test(binary_round_trips),
        cmocka_unit_test(copies_own_everything),
        cmocka_unit_test(kinds_have_names),
    };
    return cmocka_run_group_tests_name("value", tests, NULL, teardown);
}
