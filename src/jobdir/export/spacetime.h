/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_EXPORT_SPACETIME_H
#define SCRY_JOBDIR_EXPORT_SPACETIME_H

#include "jobdir/export/export.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A space-time picture of an MPI program: one lane for each rank from top to bottom, time from left to right; bars show
 * in which kind of call a rank is, lines are messages, bands through the lanes collective operations. spacetime.c
 * gathers what the lanes show, and finds the lines of messages and operations; spacetime_svg.c draws.
 *
 * Much is gathered in little: calls are kept one by one as long as a lane has few of them, beyond that only how much of
 * each column's time they took. Of messages and operations every k-th is drawn where there are too many. The picture
 * says so.
 */

enum spacetime_class {
    SPACETIME_COMPUTE, /* outside of calls of MPI */
    SPACETIME_P2P,     /* sends and receives, and their completion: MPI_Wait ... */
    SPACETIME_WAIT,    /* in whatever call, for another rank, where that can be judged (analysis/messages_waits.c) */
    SPACETIME_COLLECTIVE,
    SPACETIME_ONESIDED,
    SPACETIME_IO,
    SPACETIME_OTHER, /* MPI_Init, communicators, types ... */
    SPACETIME_CLASSES,
};

enum {
    SPACETIME_COLUMNS = 1100,
    SPACETIME_CALLS = 40000,    /* kept one by one, of all lanes together; a lane has its part */
    SPACETIME_LINES = 3000,     /* messages drawn */
    SPACETIME_LINES_EACH = 150, /* for each rank; more only darken the picture */
    SPACETIME_BANDS = 110,      /* operations drawn, with so many corners together: */
    SPACETIME_CORNERS = 60000,
};

struct spacetime_call {
    int64_t begin, end;
    int64_t waited; /* until then, from its begin; begin: not */
    uint32_t call;
    int32_t rank; /* for that one */
    bool other;   /* in a thread that is not the rank */
};

struct spacetime_lane {
    const struct mpi_message_rank *rank;
    struct spacetime_call *calls; /* NULL: there are too many */
    size_t call_count, call_room;
    uint64_t all_calls;                  /* in the window */
    float (*columns)[SPACETIME_CLASSES]; /* ns in each */
    double total_ns[SPACETIME_CLASSES];  /* in the window; of computation it is what remains */
    double outside_ns;    /* of that, in MPI_Init and MPI_Finalize: in no time in MPI, as in the report */
    uint64_t other_calls; /* of threads that are not the rank: these are in all_calls only */
    double other_ns;
    int64_t begin, end; /* of the process, in the window */
};

struct spacetime {
    const struct mpi_messages *messages;
    struct spacetime_lane *lanes;  /* as the ranks */
    size_t lane_count, lane_calls; /* calls kept of each lane */
    int64_t from, to;
    bool chosen; /* the window: by whoever asked, not by us */
    int64_t whole_from, whole_to;
    const char *title, *command;
};

enum spacetime_class spacetime_class_of(uint32_t call);
const char *spacetime_class_colour(enum spacetime_class class);

/* The whole picture. */
void spacetime_draw(const struct spacetime *spacetime, struct exporter *exporter);

/* ---- between the files ---- */

struct spacetime_frame { /* where things are, in pixels */
    double left, right, top, bottom, pitch, bar;
    const struct spacetime *spacetime;
    struct exporter *exporter;
};

double spacetime_x(const struct spacetime_frame *frame, int64_t ns);
double spacetime_y(const struct spacetime_frame *frame, size_t lane);                    /* the middle of its bar */
void spacetime_put_time(struct buf *out, const struct spacetime *spacetime, int64_t ns); /* "12.345 ms" */
void spacetime_put_text(struct buf *out, const char *text);                              /* escaped */

struct spacetime_drawn { /* what is left out */
    uint64_t messages, messages_drawn, message_step;
    uint64_t bands, bands_drawn, band_step;
};
void spacetime_count_lines(const struct spacetime *spacetime, struct spacetime_drawn *drawn); /* how many there are */
void spacetime_put_lines(const struct spacetime_frame *frame, struct spacetime_drawn *drawn);
int spacetime_put_bands(const struct spacetime_frame *frame, struct spacetime_drawn *drawn); /* 0 or -ENOMEM */

#endif
