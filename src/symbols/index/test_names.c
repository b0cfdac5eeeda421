/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions as people read them: of C++, as the source has them, and of Fortran. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "symbols/index/names.h"
#include "symbols/index/index_build.h"

static void test_parts(void **state)
{
    static const char *const cases[][3] = {
        /* demangled, name, full */
        {"f()", "f", "f()"},
        {"ns::f(int, char) const", "ns::f", "ns::f(int, char) const"},
        {"void ns::f<int>(int)", "ns::f<int>", "ns::f<int>(int)"},
        {"std::map<int, char> make<int>(std::map<int, char> const&)", "make<int>",
         "make<int>(std::map<int, char> const&)"},
        {"A::operator()(int) const", "A::operator()", "A::operator()(int) const"},
        {"A::operator()()", "A::operator()", "A::operator()()"},
        {"bool operator< <int>(A<int> const&)", "operator< <int>", "operator< <int>(A<int> const&)"},
        {"A::operator std::vector<int, std::allocator<int> >() const",
         "A::operator std::vector<int, std::allocator<int> >",
         "A::operator std::vector<int, std::allocator<int> >() const"},
        {"operator new(unsigned long)", "operator new", "operator new(unsigned long)"},
        {"A::f(int) const::{lambda(int)#1}::operator()(int) const", "A::f(int) const::{lambda(int)#1}::operator()",
         "A::f(int) const::{lambda(int)#1}::operator()(int) const"},
        {"ns::(anonymous namespace)::f(void (*)(int))", "ns::(anonymous namespace)::f",
         "ns::(anonymous namespace)::f(void (*)(int))"},
        {"decltype (fp.x()) get<A>(A&) &&", "get<A>", "get<A>(A&) &&"},
        {"operators(int)", "operators", "operators(int)"},
        {"f[abi:cxx11](int)", "f[abi:cxx11]", "f[abi:cxx11](int)"},
        {"vtable for A", "vtable for A", "vtable for A"},
        {"", "", ""},
        {"(", "(", "("},
        {")", ")", ")"},
        {"()", "()", "()"},
    };
    struct buf name = BUF_INIT, full = BUF_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        split_demangled(cases[i][0], &name, &full);
        assert_string_equal(name.data, cases[i][1]);
        assert_string_equal(full.data, cases[i][2]);
    }
    readable_name("_ZN2ns5solveIiEET_S1_.constprop.0", &name, &full);
    assert_string_equal(name.data, "ns::solve<int>.constprop.0");
    readable_name("_Z5firstPZL5firstdE16_ZL5firstd.Frame.actor", &name, &full); /* a coroutine of gcc */
    assert_string_equal(name.data, "first.actor");
    readable_name("_Z5firstd.resume", &name, &full); /* of clang */
    assert_string_equal(name.data, "first.resume");
    readable_name("_Znonsense", &name, &full);
    assert_string_equal(name.data, "_Znonsense");
    buf_done(&name);
    buf_done(&full);
}

static void test_names_of_rust(void **state)
{
    static const char *const cases[][2] = {
        {"_ZN1r6energy17h45772e9897cd5e7bE", "r::energy"},
        {"_ZN1r4main17h086b0cfd890a8ea9E.llvm.8109184650004240978", "r::main.llvm.8109184650004240978"},
        {"_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17ha86af84d9cc65291E",
         "std::rt::lang_start::{{closure}}"},
        {"_ZN42_$LT$mine..Grid$u20$as$u20$mine..Solve$GT$4step17h0123456789abcdefE",
         "<mine::Grid as mine::Solve>::step"},
        {"_ZN12a$C$b$u1$$xy1f17h0123456789abcdefE", "a, b$u1$$xy::f"},
        {"_ZN1r6energy17h45772e9897cd5e7XE", "r::energy::h45772e9897cd5e7X"}, /* of C++ */
        {"_ZN17h45772e9897cd5e7bE", "h45772e9897cd5e7b"},
        {"_ZN1r99999999999999999999f17h45772e9897cd5e7bE", "_ZN1r99999999999999999999f17h45772e9897cd5e7bE"},
        {"_ZN1r", "_ZN1r"},
    };
    struct buf name = BUF_INIT, full = BUF_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        readable_name(cases[i][0], &name, &full);
        assert_string_equal(name.data, cases[i][1]);
        assert_string_equal(full.data, cases[i][1]);
    }
    buf_done(&name);
    buf_done(&full);
}

static void test_names_as_written(void **state)
{
    static const char *const cases[][2] = {
        {"std::vector<int, std::allocator<int> >", "std::vector<int>"},
        {"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"},
        {"std::__1::basic_string<wchar_t, std::__1::char_traits<wchar_t>, std::__1::allocator<wchar_t> >",
         "std::wstring"},
        {"std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, std::vector<int, "
         "std::allocator<int> >, std::less<std::__cxx11::basic_string<char, std::char_traits<char>, "
         "std::allocator<char> > >, std::allocator<std::pair<std::__cxx11::basic_string<char, std::char_traits<char>, "
         "std::allocator<char> > const, std::vector<int, std::allocator<int> > > > >::find(int) const",
         "std::map<std::string, std::vector<int>>::find(int) const"},
        {"std::unordered_map<int, char, std::hash<int>, std::equal_to<int>, std::allocator<std::pair<int const, char> "
         "> "
         ">",
         "std::unordered_map<int, char>"},
        {"std::vector<int, mine::pool<int> >", "std::vector<int, mine::pool<int>>"},
        {"std::set<int, std::greater<int>, std::allocator<int> >", "std::set<int, std::greater<int>>"},
        {"mine::queue<int, std::allocator<int>, int>", "mine::queue<int, std::allocator<int>, int>"},
        {"std::basic_ostream<char, std::char_traits<char> >& operator<< <int>(A<int> const&)",
         "std::ostream& operator<< <int>(A<int> const&)"},
        {"std::array<int, 3ul>", "std::array<int, 3>"},
        {"std::unique_ptr<A, std::default_delete<A> >::operator->() const", "std::unique_ptr<A>::operator->() const"},
        {"A::operator()(int) const::{lambda(int)#1}::operator()(int) const",
         "A::operator()(int) const::{lambda(int)#1}::operator()(int) const"},
        {"f(int (*)(std::vector<int, std::allocator<int> >))", "f(int (*)(std::vector<int>))"},
        {"auto f<int>(int)->decltype(1)", "auto f<int>(int)->decltype(1)"},
        {"A<(B)1>", "A<(B)1>"},
        {"A<", "A<"},
        {"a > b", "a > b"},
        {"A<B, (C>", "A<B, (C>"},
        {"operator<(A const&)", "operator<(A const&)"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf name = BUF_INIT;
        cxx_name_put(&name, cases[i][0]);
        assert_string_equal(name.data ? name.data : "", cases[i][1]);
        buf_done(&name);
    }
}

static void test_fortran_names(void **state)
{
    static const char *const cases[][2] = {
        {"__ocean_MOD_fact", "ocean::fact"},
        {"__ocean_MOD_fact.constprop.0", "ocean::fact.constprop.0"},
        {"__ocean_MOD___copy_ocean_Cell", "ocean::__copy_ocean_Cell"},
        {"ocean_MOD_fact", NULL},
        {"__MOD_fact", NULL},
        {"__ocean_MOD_", NULL},
        {"__", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf name = BUF_INIT;
        assert_int_equal(fortran_name_put(&name, cases[i][0]), cases[i][1] != NULL);
        assert_string_equal(name.data ? name.data : "", cases[i][1] ? cases[i][1] : "");
        buf_done(&name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_names_of_rust),
        cmocka_unit_test(test_names_as_written),
        cmocka_unit_test(test_fortran_names),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
