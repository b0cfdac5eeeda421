/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a call costs, without a clock: steps through it (ptrace) and decodes each instruction (Zydis).
 *
 *     cost_counter PID      each call of a program that is marked as cost.h has it
 *     cost_counter -w PID   of a program that waits for requests (epoll), what it does from one wait to the next
 *
 * Says `counting` when it is attached, and is through when the process ends. For each call:
 *
 *     call NAME instructions=N system_calls=N atomics=N lines=N vdso=N others=N
 *      N MODULE FUNCTION              instructions by function
 *      system call NUMBER MODULE      each, in their order
 *
 * `instructions` are those in scry's own programs and libraries: of the libraries that these use (libc's copying above
 * all) other processors have other ones. System calls, atomic operations (a lock prefix, xchg with memory) and lines
 * (of 64 bytes, written outside of the thread's stack) are those of scry and of what libc does for it; not those of
 * an MPI library. A repeated instruction (rep movs) counts once.
 */
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <Zydis/Zydis.h>

enum {
    LINE_BYTES = 64,
    LINES = 1 << 14,
    INSNS = 1 << 17,
    FUNCTIONS = 1 << 13,
    CALLS = 4096,
    WRITES = 3,
    STEPS = 1 << 17,
    TICKS = 2 /* of the time stamp counter, by instruction */
};

enum role { ROLE_SCRY, ROLE_LIBC, ROLE_VDSO, ROLE_OTHER };

struct function {
    enum role role;
    char module[48], name[80];
    uint64_t count;
};

/* A decoded instruction at an address; address 0: none. */
struct insn {
    uint64_t address;
    struct function *function;
    bool atomic, repeated, syscall, trap, clock;
    unsigned writes;
    struct {
        ZydisRegister segment, base, index;
        unsigned scale, size;
        int64_t displacement;
    } write[WRITES];
};

static struct {
    pid_t pid;
    bool waits; /* for requests: all that it does is its own */
    int memory;
    Dwfl *dwfl;
    ZydisDecoder decoder;
    struct insn insns[INSNS];
    size_t insn_count;
    struct function functions[FUNCTIONS];
    size_t function_count;
    uint64_t steps; /* since the clock was last read */
} tracee;

/* The call that is stepped through. */
static struct {
    char name[64];
    enum role owner; /* for whom libc works */
    uint64_t stack_low, stack_high, scry, vdso, others, atomics, line_count;
    uint64_t lines[LINES];
    struct {
        long number;
        const struct function *function;
    } calls[CALLS];
    size_t call_count;
} call;

static void fail(const char *what)
{
    fprintf(stderr, "cost_counter: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- what is at an address ---- */

/* libdw's call-backs; debug information is of no interest. */
static int debuginfo_none(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word checksum, char **found)
{
    (void)module, (void)userdata, (void)name, (void)base, (void)file, (void)link, (void)checksum, (void)found;
    return -1;
}

static void modules_read(void)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf, .find_debuginfo = debuginfo_none};
    if (!tracee.dwfl && !(tracee.dwfl = dwfl_begin(&callbacks)))
        fail("dwfl_begin");
    dwfl_report_begin(tracee.dwfl);
    if (dwfl_linux_proc_report(tracee.dwfl, tracee.pid) || dwfl_report_end(tracee.dwfl, NULL, NULL))
        fail("the process's modules");
}

static enum role role_of(const char *module)
{
    static const char *const libc[] = {"libc.so", "ld-linux", "libpthread", "libm.so"};
    if (strncmp(module, "libscry-", 8) == 0 || strncmp(module, "scry", 4) == 0)
        return ROLE_SCRY;
    if (strncmp(module, "[vdso", 5) == 0)
        return ROLE_VDSO;
    for (size_t i = 0; i < sizeof libc / sizeof *libc; i++)
        if (strncmp(module, libc[i], strlen(libc[i])) == 0)
            return ROLE_LIBC;
    return ROLE_OTHER;
}

static struct function *function_at(uint64_t address)
{
    Dwfl_Module *module = dwfl_addrmodule(tracee.dwfl, address);
    if (!module) { /* loaded since */
        modules_read();
        module = dwfl_addrmodule(tracee.dwfl, address);
    }
    const char *path = module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : "?";
    const char *name = module ? dwfl_module_addrname(module, address) : NULL;
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct function found = {.role = role_of(base)};
    snprintf(found.module, sizeof found.module, "%s", found.role == ROLE_VDSO ? "[vdso]" : base);
    snprintf(found.name, sizeof found.name, "%s", name ? name : "?");
    for (size_t i = 0; i < tracee.function_count; i++)
        if (strcmp(tracee.functions[i].name, found.name) == 0 && strcmp(tracee.functions[i].module, found.module) == 0)
            return &tracee.functions[i];
    if (tracee.function_count == FUNCTIONS)
        errno = ENOSPC, fail("functions");
    tracee.functions[tracee.function_count] = found;
    return &tracee.functions[tracee.function_count++];
}

static void insn_decode(struct insn *insn)
{
    uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    ssize_t length = pread(tracee.memory, bytes, sizeof bytes, (off_t)insn->address);
    if (length <= 0 ||
        !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&tracee.decoder, bytes, (ZyanUSize)length, &decoded, operands))) {
        fprintf(stderr, "cost_counter: no instruction at %#" PRIx64 "\n", insn->address);
        exit(1);
    }
    insn->function = function_at(insn->address);
    insn->repeated = decoded.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
    insn->syscall = decoded.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
    insn->trap = decoded.mnemonic == ZYDIS_MNEMONIC_INT3;
    insn->clock = decoded.mnemonic == ZYDIS_MNEMONIC_RDTSC || decoded.mnemonic == ZYDIS_MNEMONIC_RDTSCP;
    insn->atomic = decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK;
    for (unsigned i = 0; i < decoded.operand_count; i++) {
        const ZydisDecodedOperand *operand = &operands[i];
        if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY || !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) ||
            insn->writes == WRITES)
            continue;
        insn->atomic |= decoded.mnemonic == ZYDIS_MNEMONIC_XCHG;
        unsigned n = insn->writes++;
        insn->write[n].segment = operand->mem.segment;
        insn->write[n].base = operand->mem.base;
        insn->write[n].index = operand->mem.index;
        insn->write[n].scale = operand->mem.scale;
        insn->write[n].size = operand->size / 8;
        insn->write[n].displacement = operand->mem.disp.value;
        if (operand->mem.base == ZYDIS_REGISTER_RIP)
            insn->write[n].displacement += (int64_t)(insn->address + decoded.length);
    }
}

/* They do not change: nothing is patched in the midst of a call. */
static struct insn *insn_at(uint64_t address)
{
    size_t i = (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % INSNS;
    while (tracee.insns[i].address && tracee.insns[i].address != address)
        i = (i + 1) % INSNS;
    struct insn *insn = &tracee.insns[i];
    if (!insn->address) {
        if (++tracee.insn_count > INSNS / 2)
            errno = ENOSPC, fail("instructions");
        insn->address = address;
        insn_decode(insn);
    }
    return insn;
}

static uint64_t register_value(const struct user_regs_struct *regs, ZydisRegister reg)
{
    switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)) {
    case ZYDIS_REGISTER_RAX:
        return regs->rax;
    case ZYDIS_REGISTER_RBX:
        return regs->rbx;
    case ZYDIS_REGISTER_RCX:
        return regs->rcx;
    case ZYDIS_REGISTER_RDX:
        return regs->rdx;
    case ZYDIS_REGISTER_RSI:
        return regs->rsi;
    case ZYDIS_REGISTER_RDI:
        return regs->rdi;
    case ZYDIS_REGISTER_RBP:
        return regs->rbp;
    case ZYDIS_REGISTER_RSP:
        return regs->rsp;
    case ZYDIS_REGISTER_R8:
        return regs->r8;
    case ZYDIS_REGISTER_R9:
        return regs->r9;
    case ZYDIS_REGISTER_R10:
        return regs->r10;
    case ZYDIS_REGISTER_R11:
        return regs->r11;
    case ZYDIS_REGISTER_R12:
        return regs->r12;
    case ZYDIS_REGISTER_R13:
        return regs->r13;
    case ZYDIS_REGISTER_R14:
        return regs->r14;
    case ZYDIS_REGISTER_R15:
        return regs->r15;
    default:
        return 0; /* none; RIP is in the displacement */
    }
}

/* ---- one call ---- */

/* A copy of the call that begins here, with the stack that it is not to be charged for. */
static void call_begin(const char *name, uint64_t stack)
{
    memset(&call, 0, sizeof call);
    snprintf(call.name, sizeof call.name, "%s", name);
    call.owner = tracee.waits ? ROLE_SCRY : ROLE_OTHER;
    for (size_t i = 0; i < tracee.function_count; i++)
        tracee.functions[i].count = 0;
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)tracee.pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        fail(path);
    while (fgets(line, sizeof line, maps)) {
        uint64_t low, high;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &low, &high) == 2 && stack >= low && stack < high)
            call.stack_low = low, call.stack_high = high;
    }
    fclose(maps);
}

static void line_count(uint64_t line)
{
    size_t i = (size_t)((line * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % LINES;
    while (call.lines[i] && call.lines[i] != line)
        i = (i + 1) % LINES;
    if (!call.lines[i] && ++call.line_count > LINES / 2)
        errno = ENOSPC, fail("lines");
    call.lines[i] = line;
}

static void call_count(struct insn *insn, const struct user_regs_struct *regs, bool again)
{
    enum role role = insn->function->role;
    if (!tracee.waits && role != ROLE_LIBC && role != ROLE_VDSO)
        call.owner = role;
    if (!again) {
        insn->function->count++;
        *(role == ROLE_SCRY ? &call.scry : role == ROLE_VDSO ? &call.vdso : &call.others) += 1;
    }
    if (call.owner != ROLE_SCRY)
        return;
    call.atomics += insn->atomic && !again;
    if (insn->syscall && call.call_count < CALLS) {
        call.calls[call.call_count].number = (long)regs->rax;
        call.calls[call.call_count++].function = insn->function;
    }
    for (unsigned i = 0; i < insn->writes; i++) {
        uint64_t at = register_value(regs, insn->write[i].base) +
                      register_value(regs, insn->write[i].index) * insn->write[i].scale +
                      (uint64_t)insn->write[i].displacement +
                      (insn->write[i].segment == ZYDIS_REGISTER_FS ? regs->fs_base : 0);
        if (at < call.stack_low || at >= call.stack_high)
            for (uint64_t line = at / LINE_BYTES;
                 insn->write[i].size && line <= (at + insn->write[i].size - 1) / LINE_BYTES; line++)
                line_count(line);
    }
}

static void call_print(void)
{
    printf("call %s instructions=%" PRIu64 " system_calls=%zu atomics=%" PRIu64 " lines=%" PRIu64 " vdso=%" PRIu64
           " others=%" PRIu64 "\n",
           call.name, call.scry, call.call_count, call.atomics, call.line_count, call.vdso, call.others);
    for (size_t i = 0; i < tracee.function_count; i++)
        if (tracee.functions[i].count)
            printf(" %" PRIu64 " %s %s\n", tracee.functions[i].count, tracee.functions[i].module,
                   tracee.functions[i].name);
    for (size_t i = 0; i < call.call_count; i++)
        printf(" system call %ld %s\n", call.calls[i].number, call.calls[i].function->module);
    fflush(stdout);
}

/* ---- the process ---- */

/* Goes on in this way until it stops. The signal that it stops with, 0 at a stop of ptrace's own; ends with it. */
static int tracee_go(int how, int sig)
{
    int status;
    if (ptrace(how, tracee.pid, NULL, (void *)(long)sig))
        fail("ptrace");
    if (waitpid(tracee.pid, &status, __WALL) != tracee.pid)
        fail("waitpid");
    if (!WIFSTOPPED(status))
        exit(0);
    return status >> 16 ? 0 : WSTOPSIG(status);
}

/*
 * On one processor with it: a step is two switches between the two, and from one processor to the other each would wait
 * until that one has a time to spare.
 */
static void tracee_pin(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    if (sched_setaffinity(0, sizeof here, &here) || sched_setaffinity(tracee.pid, sizeof here, &here))
        fail("the processor");
}

static void tracee_attach(void)
{
    char path[64];
    int status;
    tracee_pin();
    snprintf(path, sizeof path, "/proc/%d/mem", (int)tracee.pid);
    tracee.memory = open(path, O_RDONLY | O_CLOEXEC);
    if (tracee.memory < 0)
        fail(path);
    if (ptrace(PTRACE_SEIZE, tracee.pid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, tracee.pid, NULL, NULL) ||
        waitpid(tracee.pid, &status, __WALL) != tracee.pid || !WIFSTOPPED(status))
        fail("attaching");
    modules_read();
    ZydisDecoderInit(&tracee.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    puts("counting");
    fflush(stdout);
}

static void registers_read(struct user_regs_struct *ret)
{
    if (ptrace(PTRACE_GETREGS, tracee.pid, NULL, ret))
        fail("registers");
}

static void registers_write(const struct user_regs_struct *regs)
{
    if (ptrace(PTRACE_SETREGS, tracee.pid, NULL, regs))
        fail("registers");
}

static bool waits_here(const struct insn *insn, const struct user_regs_struct *regs)
{
    return insn->syscall && regs->rax == SYS_epoll_wait;
}

/*
 * The time stamp counter goes on with the instructions: what is done seldom (after so long a time, for the longest call so
 * far) is done as without being stepped through, and always at the same call.
 */
static void clock_set(uint64_t *clock)
{
    struct user_regs_struct regs;
    registers_read(&regs);
    if (!*clock)
        *clock = regs.rdx << 32 | regs.rax;
    *clock += tracee.steps * TICKS;
    tracee.steps = 0;
    regs.rdx = *clock >> 32;
    regs.rax = (uint32_t)*clock;
    registers_write(&regs);
}

/* At a mark: whether there is more to step through. */
static bool mark_passed(struct user_regs_struct *regs)
{
    char name[sizeof call.name] = "";
    regs->rip++;
    registers_write(regs);
    if (!regs->rdi) {
        bool open = call.name[0];
        if (open)
            call_print();
        call.name[0] = '\0';
        return open;
    }
    if (pread(tracee.memory, name, sizeof name - 1, (off_t)regs->rdi) <= 0)
        fail("the name of what is counted");
    call_begin(name, regs->rsp);
    return true;
}

/* Steps on and counts what is between marks, or (waits) all. */
static void tracee_step(void)
{
    struct user_regs_struct regs;
    uint64_t last = 0, clock = 0;
    for (int sig = 0;;) {
        registers_read(&regs);
        struct insn *insn = insn_at(regs.rip);
        if (insn->trap) {
            if (!mark_passed(&regs))
                return;
            continue;
        }
        if (call.name[0])
            call_count(insn, &regs, insn->repeated && last == regs.rip);
        if (call.scry + call.vdso + call.others > STEPS) {
            call_print();
            errno = ELOOP, fail(call.name);
        }
        if (tracee.waits && waits_here(insn, &regs)) {
            call_print();
            call_begin("wait", regs.rsp);
        }
        last = regs.rip;
        tracee.steps++;
        sig = tracee_go(PTRACE_SINGLESTEP, sig);
        sig = sig == SIGTRAP ? 0 : sig;
        if (insn->clock)
            clock_set(&clock);
    }
}

int main(int argc, char **argv)
{
    struct user_regs_struct regs;
    tracee.waits = argc == 3 && strcmp(argv[1], "-w") == 0;
    if (argc != 2 && !tracee.waits) {
        fputs("usage: cost_counter [-w] PID\n", stderr);
        return 2;
    }
    tracee.pid = (pid_t)strtol(argv[argc - 1], NULL, 10);
    tracee_attach();
    if (tracee.waits) {
        registers_read(&regs);
        call_begin("wait", regs.rsp);
        tracee_step();
    }
    for (int sig = 0;;) {
        sig = tracee_go(PTRACE_CONT, sig);
        if (sig != SIGTRAP)
            continue;
        sig = 0;
        tracee_step();
    }
}
