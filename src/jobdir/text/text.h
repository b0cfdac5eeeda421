/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_TEXT_TEXT_H
#define SCRY_JOBDIR_TEXT_TEXT_H

#include "base/data/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes of a job (arguments, process names, paths) on their way to JSON and to people: what is not UTF-8 becomes \xNN,
 * so that nothing is lost and every reader copes; what would move a terminal's cursor is escaped before it is shown.
 */

enum { TEXT_LIMIT = 64 << 10 }; /* bytes of one string kept in a job directory; longer ones are cut and marked */

/* Appends the bytes as a job directory has them; into an empty buffer. */
void text_clean(struct buf *out, const char *bytes);

/* A JSON string; a new reference, or NULL when out of memory. NULL becomes JSON null. */
json_t *text_json(const char *bytes);
/* Appends JSON for standard output, as json_dumps has it with these flags: at a terminal only ASCII, since it may obey other
 * characters (base/data/buf.h). NULL is out of memory: `out.failed`. */
void text_dump_json(struct buf *out, const json_t *json, size_t flags);
/* Prints the same, and a line feed, to standard output. */
void text_print_json(const json_t *json, size_t flags);
/* For text of JSON that is there already: \uXXXX for what a terminal may obey. Line feeds stay. */
void text_show_json(struct buf *out, const char *json, size_t size);
/* Appends the whole as people and programs read it at standard output, and a line feed. NULL is out of memory:
 * `out.failed`. */
void text_put_json(struct buf *out, json_t *json_take);

/* Appends the text for a terminal or a report: control characters as \xNN, a tab as a blank. */
void text_show(struct buf *out, const char *text);
/* The same without " (pid 123)", which few need in a line of a list. */
void text_show_brief(struct buf *out, const char *text);

/* A line of a program's output, without its end, as a terminal would show it in the end: what a carriage return has overwritten is
 * left out. Tabs stay, and colours (SGR of ECMA-48) if `colours`: then the line ends with none. All else that a terminal may obey is \xNN. */
void text_show_line(struct buf *out, const char *line, size_t len, bool colours);

/* Appends the text as one word of a shell, in quotation marks. */
void text_quote(struct buf *out, const char *word);
/* The same for people, who paste it: in quotation marks only if a shell would read it as something else; control characters
 * as $'…' of bash, ksh and zsh has them. */
void text_word(struct buf *out, const char *word);

/* Whether it is one of these, begins with one, has one in it (in whatever case); NULL is and has none. The lists end with NULL. */
bool text_is_one(const char *text, const char *const *words);
bool text_begins_with_one(const char *text, const char *const *starts);
bool text_has_one(const char *text, const char *const *words);

/* The last part of a path; all of it if it ends with a slash, or has none. */
const char *text_base(const char *path);

/* A function's name for people: what compilers make for the initialisers and finalisers of a C++ file is said so.
 * `file` may be "" or a path. */
void text_function(struct buf *out, const char *name, const char *file);

/* How many of the bytes fit into so many columns, a character each; text_cut cuts in the middle, so that both ends, by
 * which long names differ, are seen; text_column also pads to just so many. */
size_t text_fit(const char *text, size_t len, size_t columns);
void text_cut(struct buf *out, const char *text, size_t columns);
/* The same at the end, behind a word where there is one. */
void text_cut_end(struct buf *out, const char *text, size_t columns);
void text_column(struct buf *out, const char *text, size_t columns);
/* Breaks the lines from `start` on that are longer, at a space where there is one: what comes below is indented, as far
 * as the second column of a table or what follows a label. Colours take no room. 0 columns: leaves them. */
void text_wrap(struct buf *out, size_t start, size_t columns);
/* On a terminal that has them, unless NO_COLOR is set. */
bool text_has_colours(int fd);
enum { TEXT_WHOLE_LINES = 10000 };
/* Columns for what goes to that stream: of its terminal; elsewhere of $COLUMNS, or TEXT_WHOLE_LINES. */
size_t text_columns(int fd);

/* "640 B", "12.3 MB", "2.0 GB": binary multiples, as tools for memory print them. */
void text_size(struct buf *out, uint64_t bytes);

/* "4.2 ms", "0.42 s", "12.3 s", "3 min 05 s", "2 h 07 min", "3 d 04 h". */
void text_seconds(struct buf *out, double seconds);

/* "320 ns", "12.3 us", "4.56 ms", "1.23 s", "3 min 05 s" */
void text_ns(struct buf *out, double ns);

/* The same in so many columns, to the right. */
void text_size_in(struct buf *out, uint64_t bytes, int columns);
void text_ns_in(struct buf *out, double ns, int columns);

/* What a line of the report's head begins with: the label, or "" below another line, in the width of all of them. */
void text_label(struct buf *out, const char *label);
/* The same in a colour, one of the next; NULL: none. */
void text_label_in(struct buf *out, const char *label, const char *colour);
#define TEXT_RED "\033[1;31m"
#define TEXT_GREEN "\033[1;32m"
#define TEXT_YELLOW "\033[1;33m"
#define TEXT_BLUE "\033[34m"
#define TEXT_MAGENTA "\033[35m"
#define TEXT_CYAN "\033[36m"
#define TEXT_FAINT "\033[2m"
#define TEXT_PLAIN "\033[0m"

/* "SIGSEGV" for 11; "signal 77" where there is no name. Into a buffer of at least 32 bytes. */
const char *text_signal(int signo, char *room, size_t size);
/* The same backwards: of "TERM", "SIGTERM" or "15", in any case. 0: it is none. */
int text_signal_number(const char *text);

#endif
