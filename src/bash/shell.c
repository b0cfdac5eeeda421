/* SPDX-License-Identifier: Apache-2.0 */
#include "bash/shell.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

struct shell shell;

enum { ARRAY = 0x4, INVISIBLE = 0x1000, WORDS_MOST = 64, DEPTH_MOST = 100 };

struct variable { /* SHELL_VAR */
    char *name, *value, *exported;
    void *dynamic_value, *assign;
    int attributes, context;
};

static bool starts_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_named_so(void)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return false;
    path[size] = 0;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return starts_with(name, "bash") || strcmp(name, "sh") == 0 || strcmp(name, "rbash") == 0;
}

/* The symbol, if it is the program's own. dladdr would say so, too, but looks at all symbols each time. */
static void *find(const char *name)
{
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR), *own = NULL;
    size_t count = getauxval(AT_PHNUM);
    uintptr_t found = (uintptr_t)dlsym(RTLD_DEFAULT, name);
    for (size_t i = 0; found && i < count && !own; i++)
        if (header[i].p_type == PT_PHDR)
            own = &header[i];
    for (size_t i = 0; own && i < count; i++)
        if (header[i].p_type == PT_LOAD &&
            found - ((uintptr_t)header - own->p_vaddr + header[i].p_vaddr) < header[i].p_memsz)
            return (void *)found;
    return NULL;
}

static size_t size_of(void *function)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;
    return dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol ? symbol->st_size : 0;
}

static bool is_known(const char *version)
{
    return strcmp(version, "5.2") == 0; /* others may have other structs, and nobody has tried them */
}

bool shell_find(const char **ret_why)
{
    if (!is_named_so())
        return false;
    char **version = find("dist_version");
    *ret_why = NULL;
    if (!version) /* dash, or one that exports nothing */
        return false;
    if (!is_known(*version)) {
        *ret_why = "unsupported: bash other than 5.2";
        return true;
    }
    shell.version = *version;
    shell.interactive_shell = find("interactive_shell");
    shell.running_trap = find("running_trap");
    shell.variable_context = find("variable_context");
    shell.last_command_exit_value = find("last_command_exit_value");
    *(void **)&shell.find_variable = find("find_variable");
    *(void **)&shell.array_reference = find("array_reference");
    *(void **)&shell.execute = find("execute_command_internal");
    if (!shell.interactive_shell || !shell.running_trap || !shell.variable_context || !shell.last_command_exit_value ||
        !shell.find_variable || !shell.array_reference || !shell.execute)
        *ret_why = "unsupported: this bash does not export what is needed";
    else
        shell.execute_size = size_of((void *)shell.execute);
    return true;
}

const char *shell_caller(const char *array, long index)
{
    struct variable *variable = shell.find_variable(array);
    if (!variable || !(variable->attributes & ARRAY) || variable->attributes & INVISIBLE || !variable->value)
        return NULL;
    return shell.array_reference(variable->value, index);
}

bool shell_stages(char *out, size_t size)
{
    enum { SHELL_SIGNAL = 128 };
    const char *status;
    bool failed = false;
    size_t used = 0;
    for (long i = 0; (status = shell_caller("PIPESTATUS", i)) != NULL; i++) {
        size_t len = strlen(status);
        if (used + len + 2 > size)
            return false;
        if (i)
            out[used++] = ' ';
        memcpy(out + used, status, len + 1);
        used += len;
        failed = failed || (strcmp(status, "0") != 0 && atoi(status) != SHELL_SIGNAL + SIGPIPE);
    }
    return failed;
}

const struct shell_command *shell_command_leaf(const struct shell_command *command)
{
    for (int i = 0; i < DEPTH_MOST && command && command->type == SHELL_CONNECTION; i++)
        command = command->value.connection && command->value.connection->connector == '|'
                      ? command->value.connection->second
                      : NULL;
    if (!command || !command->value.leaf)
        return NULL;
    return command->type == SHELL_SIMPLE || command->type == SHELL_ARITHMETIC || command->type == SHELL_CONDITION ||
                   command->type == SHELL_SUBSHELL
               ? command
               : NULL;
}

size_t shell_command_text(const struct shell_command *command, char *out, size_t size)
{
    const struct shell_command *leaf = shell_command_leaf(command);
    size_t used = 0;
    if (!leaf || leaf->type != SHELL_SIMPLE)
        return 0;
    const struct shell_words *words = leaf->value.leaf->words;
    for (int i = 0; words && i < WORDS_MOST && used < size; i++, words = words->next) {
        const char *text = words->word ? words->word->text : NULL;
        if (used)
            out[used++] = ' ';
        for (; text && *text && used < size; text++)
            out[used++] = *text;
    }
    return used;
}

static bool is_pipeline(const struct shell_command *command)
{
    return command && command->type == SHELL_CONNECTION && command->value.connection &&
           command->value.connection->connector == '|';
}

static size_t pipeline_text(const struct shell_command *command, char *out, size_t size, int depth)
{
    static const char between[] = " | ", other[] = "..."; /* no simple command */
    if (!is_pipeline(command)) {
        size_t len = command ? shell_command_text(command, out, size) : 0;
        if (len || size < sizeof other)
            return len;
        memcpy(out, other, sizeof other - 1);
        return sizeof other - 1;
    }
    size_t used = depth < DEPTH_MOST ? pipeline_text(command->value.connection->first, out, size, depth + 1) : 0;
    if (depth == DEPTH_MOST || size - used < sizeof between)
        return used;
    memcpy(out + used, between, sizeof between - 1);
    used += sizeof between - 1;
    return used + pipeline_text(command->value.connection->second, out + used, size - used, depth + 1);
}

size_t shell_pipeline_text(const struct shell_command *command, char *out, size_t size)
{
    return pipeline_text(command, out, size, 0);
}
