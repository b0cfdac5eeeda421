/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the symbol index of a large program costs: the first one, by scry-symbols; the peer is readelf, which reads the
 * same debug information once (--debug-dump=info), in turns with it. And to open one that is there. The program is one
 * C++ unit with large headers, linked COPIES times under other names.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/dirs.h"
#include "bench.h"
#include "symbols/index/index.h"

enum { PAIRS = 21, COPIES = 12, OPENS = 1000 };
static const double wanted_mb = 500, wanted_s = 15, wanted_open_ms = 100;

static const char source[] =
    "#include <regex>\n#include <map>\n#include <string>\n#include <vector>\n"
    "#include <thread>\n#include <future>\n#include <filesystem>\n"
    "int f(const std::string &s) { std::regex r(s); std::map<std::string, std::vector<int>> m;\n"
    "auto later = std::async([&] { return m.size(); }); m[s].push_back(1);\n"
    "for (auto &e : std::filesystem::directory_iterator(s)) m[e.path()].clear();\n"
    "return std::regex_match(s, r) + later.get(); }\n";

static char directory[] = "/tmp/scry-bench-index-XXXXXX";

static void run(const char *command)
{
    if (system(command) != 0)
        bench_fail("bench_index", command);
}

static void build_program(void)
{
    char command[1024];
    FILE *file = fopen("unit.cpp", "we");
    if (!file || fputs(source, file) < 0 || fclose(file) != 0)
        bench_fail("bench_index", "cannot write the source");
    run("g++ -g -O0 -fPIC -c unit.cpp");
    for (int i = 0; i < COPIES; i++) {
        snprintf(command, sizeof command,
                 "objcopy --prefix-symbols=u%d_ unit.o copy%d.o && "
                 "objcopy --redefine-sym u%d___dso_handle=__dso_handle copy%d.o",
                 i, i, i, i);
        run(command);
    }
    run("g++ -shared -Wl,-z,undefs -o big.so copy*.o && rm copy*.o");
}

static double debug_mb(void)
{
    double bytes = 0;
    FILE *pipe = popen("size -A big.so | awk '/^.debug/ { sum += $2 } END { print sum }'", "r");
    if (!pipe || fscanf(pipe, "%lf", &bytes) != 1 || pclose(pipe) != 0)
        bench_fail("bench_index", "cannot tell the size of the debug information");
    return bytes / 1e6;
}

/* Milliseconds until the program ended. */
static double time_program(char *const *argv)
{
    double start = bench_now_us();
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        bench_fail("bench_index", argv[0]);
    return (bench_now_us() - start) / 1e3;
}

static double time_open_ms(void)
{
    struct err err = {0};
    double start = bench_now_us();
    for (int i = 0; i < OPENS; i++) {
        struct index *index;
        struct index_function function;
        if (index_open(&index, "big.so", &err) < 0)
            bench_fail("bench_index", err.text);
        index_at(index, index_count(index) / 2, &function);
        index_close(index);
    }
    return (bench_now_us() - start) / 1e3 / OPENS;
}

int main(void)
{
    char helper[PATH_MAX], cache[64];
    struct err err = {0};
    double built[PAIRS], read[PAIRS], ratios[PAIRS], opened[PAIRS];
    if (dirs_libexec("scry-symbols", helper, sizeof helper, &err) < 0)
        bench_fail("bench_index", err.text);
    if (!mkdtemp(directory) || chdir(directory) < 0)
        bench_fail("bench_index", "cannot make a folder in /tmp");
    snprintf(cache, sizeof cache, "%s/cache", directory);
    setenv("SCRY_CACHE_DIR", cache, 1);
    build_program();
    double mb = debug_mb();
    for (int i = 0; i < PAIRS; i++) {
        run("rm -rf cache");
        built[i] = time_program((char *[]){helper, (char *)"index", (char *)"./big.so", NULL});
        read[i] = time_program((char *[]){(char *)"readelf", (char *)"--debug-dump=info", (char *)"big.so", NULL});
        ratios[i] = built[i] / read[i];
        opened[i] = time_open_ms();
    }
    printf("%.0f MB of debug information\n", mb);
    double median = bench_report("first index", built, PAIRS, "ms");
    bench_report("readelf --debug-dump=info", read, PAIRS, "ms");
    bench_report("first index / readelf", ratios, PAIRS, "");
    double open_ms = bench_report("open a cached index", opened, PAIRS, "ms");
    double seconds = median / 1e3 * wanted_mb / mb;
    printf("500 MB at this speed: %.1f s (goal %.0f s): %s\n", seconds, wanted_s,
           seconds <= wanted_s ? "ok" : "MISSED");
    printf("opening: %.3f ms (goal %.0f ms): %s\n", open_ms, wanted_open_ms,
           open_ms <= wanted_open_ms ? "ok" : "MISSED");
    if (chdir("/") < 0)
        return 1;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    run(command);
    return seconds > wanted_s || open_ms > wanted_open_ms;
}
