/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of commands and options. The command line, the environment, files of options, `scry set`, the monitor's
 * settings, help, completion and the man pages all come from it. Data alone: the program that prints it for the build
 * links nothing else.
 */
#ifndef SCRY_OPTIONS_TABLE_H
#define SCRY_OPTIONS_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* In the order of `scry help`. */
enum command {
    COMMAND_RUN,
    COMMAND_EXEC,
    COMMAND_PS,
    COMMAND_TOP,
    COMMAND_WATCH,
    COMMAND_WHY,
    COMMAND_SET,
    COMMAND_REPORT,
    COMMAND_REPLAY,
    COMMAND_EXPORT,
    COMMAND_RM,
    COMMAND_OMIS,
    COMMAND_MONITOR,
    COMMAND_DOCTOR,
    COMMAND_HELP,
    COMMAND_VERSION,
    COMMANDS
};

/* What stands behind the options. */
enum word_kind {
    WORDS_NONE,
    WORDS_JOBS,
    WORDS_SETTINGS, /* a job, then KEY=VALUE... */
    WORDS_COMMAND,  /* another program's command line: all from the first word on is its own */
    WORDS_COMMANDS, /* one of scry */
};

struct command_row {
    const char *name, *description; /* a line of `scry help` */
    const char *usage[3];           /* what may stand behind the name */
    const char *about, *notes;      /* paragraphs before and behind the options; notes may be NULL */
    const char *example;            /* NULL: none */
    enum word_kind words;
    size_t least, most;           /* words */
    const char *missing, *excess; /* what is said of fewer; and, may be NULL, added of more */
};
extern const struct command_row command_rows[COMMANDS];

/* How a value is written, and where it is found in struct option_value (options.h). */
enum option_type {
    OPTION_SWITCH,    /* alone it is on; =yes and =no: on */
    OPTION_TEXT,      /* anything, also nothing */
    OPTION_LIST,      /* anything else; so are the next two */
    OPTION_DIR,       /* a directory */
    OPTION_FILE,      /* a file */
    OPTION_NUMBER,    /* decimal, least to most: number */
    OPTION_SECONDS,   /* with a fraction and "s" or not, least to most: seconds */
    OPTION_TIME,      /* with a unit, 500us: number, ns */
    OPTION_MOMENT,    /* the same, or seconds: number, ns */
    OPTION_SIZE,      /* 2G, least to most: number, bytes */
    OPTION_CHOICE,    /* one of the words: number, from 0 */
    OPTION_CHOICES,   /* some of the words, with commas, in either case: number, a bit for each */
    OPTION_SELECTION, /* of functions (symbols/index/index.h), or off: on */
    OPTION_REQUEST,   /* conditional, of the monitor's language */
    OPTION_REGEX,     /* POSIX extended, or off */
    OPTION_PLANNED,   /* known, but this version cannot do it: in no help */
};

enum option_flag {
    OPTION_ENVIRONMENT = 1, /* comes from SCRY_NAME, too, and where the command has --config, from the file */
    OPTION_NOT_IN_FILE = 2,
    OPTION_SETTING = 4,   /* scry set can change it */
    OPTION_MONITOR = 8,   /* a setting of the job in the monitor */
    OPTION_MANY = 16,     /* may be given again: values add up */
    OPTION_TRACING = 32,  /* given: the person expects a trace */
    OPTION_OPTIONAL = 64, /* the value may be left out, and stands behind = */
};

struct option_row {
    const char *name;     /* without dashes; also the setting's, the file's and, in capitals, the environment's */
    char letter;          /* 0: none */
    const char *argument; /* NULL: a switch */
    enum option_type type;
    uint32_t commands;     /* bits, 1 << enum command */
    unsigned flags;        /* enum option_flag */
    const char *help;      /* the default is added */
    const char *otherwise; /* the default, as it would be given; NULL: none */
    const char *words;     /* with blanks between them: of choices; of others those that are completed */
    double least, most;    /* most 0: no limit */
    const char *expected;  /* in errors; NULL: what the type has */
};
extern const struct option_row option_rows[];
extern const size_t option_row_count;

#endif
