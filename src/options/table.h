/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of commands and options. The command line, the environment, files of options, `scry set`, the monitor's
 * settings, help, completion and the man pages all come from it. It is data only: the program that prints it during the
 * build links nothing else.
 */
#ifndef SCRY_OPTIONS_TABLE_H
#define SCRY_OPTIONS_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* In the order of `scry help`: what people need for their jobs, and what launchers, sites and tools need. */
enum command {
    COMMAND_RUN,
    COMMAND_PS,
    COMMAND_TOP,
    COMMAND_WATCH,
    COMMAND_LOGS,
    COMMAND_WHY,
    COMMAND_SNAPSHOT,
    COMMAND_REPORT,
    COMMAND_DIFF,
    COMMAND_REPLAY,
    COMMAND_EXPORT,
    COMMAND_SET,
    COMMAND_STOP,
    COMMAND_SIGNAL,
    COMMAND_RM,
    COMMAND_SERVE,
    COMMAND_SUBMIT,
    COMMAND_TASK,
    COMMAND_DOCTOR,
    COMMAND_HELP,
    COMMAND_VERSION,
    COMMAND_EXEC, /* the first of the others */
    COMMAND_SITE,
    COMMAND_RECORD,
    COMMAND_PUBLISH,
    COMMAND_BROKER,
    COMMAND_KEYS,
    COMMAND_LINK,
    COMMAND_MONITOR,
    COMMAND_OMIS,
    COMMANDS
};

/* What follows the options. */
enum word_kind {
    WORDS_NONE,
    WORDS_JOBS,
    WORDS_SETTINGS, /* a job, then KEY=VALUE... */
    WORDS_COMMAND,  /* another program's command line: all from the first word on is its own */
    WORDS_COMMANDS, /* a command of scry */
    WORDS_ACTIONS,  /* the first word of one of `usage`, then perhaps a file */
    WORDS_TASKS,    /* the same, then tasks */
};

struct command_row {
    const char *name, *description; /* a line of `scry help` */
    const char *usage[8];           /* what may follow the name */
    const char *about, *notes;      /* paragraphs before and after the options; notes may be NULL */
    const char *example;            /* NULL: none */
    enum word_kind words;
    size_t least, most;           /* number of words */
    const char *missing, *excess; /* the error for fewer words; added to the one for more, or NULL */
    const char *alias;            /* the command's other name, or NULL */
};
extern const struct command_row command_rows[COMMANDS];

/* How a value is written, and which member of struct option_value (options.h) holds it. */
enum option_type {
    OPTION_SWITCH,    /* on when alone, else =yes or =no: on */
    OPTION_TEXT,      /* any text, also an empty one */
    OPTION_LIST,      /* any text but an empty one; also the next two */
    OPTION_DIR,       /* a directory */
    OPTION_FILE,      /* a file */
    OPTION_NUMBER,    /* decimal, from least to most: number */
    OPTION_SECONDS,   /* 1, 0.5 or 0.5s, from least to most: seconds */
    OPTION_TIME,      /* with a unit, 500us: number, ns */
    OPTION_MOMENT,    /* the same, or seconds: number, ns */
    OPTION_SIZE,      /* 2G, from least to most: number, bytes */
    OPTION_CHOICE,    /* one of the words: number, from 0 */
    OPTION_CHOICES,   /* some of the words, with commas, upper or lower case: number, a bit for each */
    OPTION_SELECTION, /* of functions (symbols/index/index.h), or off: on */
    OPTION_REQUEST,   /* a conditional request */
    OPTION_REGEX,     /* POSIX extended, or off */
};

enum option_flag {
    OPTION_ENVIRONMENT = 1, /* also read from SCRY_NAME and, where the command has --config, from the file */
    OPTION_NOT_IN_FILE = 2,
    OPTION_SETTING = 4,   /* scry set can change it */
    OPTION_MONITOR = 8,   /* a setting of the job in the monitor */
    OPTION_MANY = 16,     /* may be repeated: values add up */
    OPTION_TRACING = 32,  /* whoever gives it expects a trace */
    OPTION_OPTIONAL = 64, /* the value may be left out, and follows = */
    OPTION_IN_FILE = 128, /* also read from the file, but not from the environment */
    OPTION_LISTS = 256,   /* `list` on the command line prints the values there are, and needs no other words */
    OPTION_EXPERT = 512,  /* few need it: the man page has it, --help says so */
};

struct option_row {
    const char *name;     /* without dashes; also the setting's, the file's and, in capitals, the environment's */
    char letter;          /* 0: none */
    const char *argument; /* NULL: a switch */
    enum option_type type;
    uint32_t commands;     /* bits, 1 << enum command */
    unsigned flags;        /* enum option_flag */
    const char *help;      /* options_help adds the default */
    const char *otherwise; /* the default, as it would be given; NULL: none */
    const char
        *words; /* separated by blanks: the choices; for other types what completion offers; of numbers `off`, 0, and
                              `auto`, the default */
    double least, most;   /* most 0: no limit */
    const char *expected; /* for errors; NULL: the type's own text */
};
extern const struct option_row option_rows[];
extern const size_t option_row_count;

#endif
