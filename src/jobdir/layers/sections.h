/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report says of scripts and Python, of logs, and of the node's health: made from the model's layers. Nothing is
 * said where there are no such records.
 */
#ifndef SCRY_JOBDIR_LAYERS_SECTIONS_H
#define SCRY_JOBDIR_LAYERS_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/data/buf.h"
#include "jobdir/record/layers.h"
#include "jobdir/text/fields.h"

/* For people, of the whole report. */
void scripts_text(struct buf *out, const struct layers *layers);
void logs_text(struct buf *out, const struct layers *layers);
void health_text(struct buf *out, const struct layers *layers, bool ascii);

/* For programs, of a struct layers. */
extern const struct field scripts_fields[], logs_fields[], health_fields[];

/* python_functions of these alone; a new reference. */
json_t *scripts_python_functions(const struct layers *layers);

/* The elements of a table of uthash in the order of `by`, which gets pointers to pointers; malloc'ed, NULL without any.
 */
#define SORTED(head, ret_count, by) \
    ({ \
        size_t used_ = 0, count_ = HASH_COUNT(head); \
        const __typeof__(*(head)) **list_ = count_ ? calloc(count_, sizeof *list_) : NULL; \
        for (const __typeof__(*(head)) *each_ = (head); each_ && list_; each_ = each_->hh.next) \
            list_[used_++] = each_; \
        if (used_) \
            qsort(list_, used_, sizeof *list_, by); \
        *(ret_count) = used_; \
        list_; \
    })

/* A list of such elements as JSON. */
#define SORTED_JSON(head, by, fields) \
    ({ \
        size_t rows_count_; \
        const __typeof__(*(head)) **rows_ = SORTED(head, &rows_count_, by); \
        json_t *json_ = json_array(); \
        for (size_t i_ = 0; i_ < rows_count_; i_++) \
            json_array_append_new(json_, fields_json(fields, rows_[i_], NULL)); \
        free(rows_); \
        json_; \
    })

/* Copies of records without seq and type: a new reference. */
json_t *sections_records(const struct layer_list *list);
/* A line a record, as scry watch says them: the last `most`. */
void sections_put_records(struct buf *out, const char *title, const struct layer_list *list, size_t most);

#endif
