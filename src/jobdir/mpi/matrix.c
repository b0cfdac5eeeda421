/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

enum {
    TABLE_RANKS = 12, /* up to so many ranks: a row and a column each */
    PICTURE_BLOCKS = 32,
    PAIRS_SHOWN = 10,
};

static int by_place(const void *a, const void *b)
{
    const struct mpi_matrix_cell *left = a, *right = b;
    if (left->world != right->world)
        return left->world < right->world ? -1 : 1;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->to < right->to ? -1 : left->to > right->to;
}

static bool is_exchange(const struct mpi_stats_peer *peer)
{
    return (peer->peer >= 0 || peer->peer == MPIA_RANK_FOREIGN) && !mpi_stats_is_epoch(peer) &&
           (peer->call == CALL_NONE || call_info(peer->call)->class == CALL_CLASS_ONESIDED);
}

static size_t put_cells(struct mpi_matrix_cell *cells, const struct mpi_stats *stats, uint32_t world,
                        const struct mpi_stats_peer *peer)
{
    size_t used = 0;
    int32_t own = stats->rank;
    if (peer->call != CALL_NONE) {
        cells[used++] = (struct mpi_matrix_cell){.world = world,
                                                 .from = own,
                                                 .to = peer->peer,
                                                 .put_count = peer->sent_count > peer->got_count ? peer->sent_count
                                                                                                 : peer->got_count,
                                                 .put_bytes = peer->sent_bytes + peer->got_bytes};
        return used;
    }
    if (peer->sent_count)
        cells[used++] = (struct mpi_matrix_cell){.world = world,
                                                 .from = own,
                                                 .to = peer->peer,
                                                 .sent_count = peer->sent_count,
                                                 .sent_bytes = peer->sent_bytes};
    if (peer->got_count)
        cells[used++] = (struct mpi_matrix_cell){
            .world = world, .from = peer->peer, .to = own, .got_count = peer->got_count, .got_bytes = peer->got_bytes};
    return used;
}

static void cells_join(struct mpi_matrix *matrix)
{
    size_t used = 0;
    for (size_t i = 0; i < matrix->count; i++) {
        const struct mpi_matrix_cell *cell = &matrix->cells[i];
        matrix->messages += cell->sent_count;
        matrix->bytes += cell->sent_bytes;
        matrix->got_messages += cell->got_count;
        matrix->got_bytes += cell->got_bytes;
        if (used && by_place(&matrix->cells[used - 1], cell) == 0) {
            struct mpi_matrix_cell *into = &matrix->cells[used - 1];
            into->sent_count += cell->sent_count;
            into->sent_bytes += cell->sent_bytes;
            into->got_count += cell->got_count;
            into->got_bytes += cell->got_bytes;
            into->put_count += cell->put_count;
            into->put_bytes += cell->put_bytes;
        } else {
            matrix->cells[used++] = *cell;
        }
    }
    matrix->count = used;
}

struct receiver {
    uint32_t world;
    int32_t rank;
};

static int by_receiver(const void *a, const void *b)
{
    const struct receiver *left = a, *right = b;
    if (left->world != right->world)
        return left->world < right->world ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* Of what those ranks got, whose operations found no room. */
static int mark_least(struct mpi_matrix *matrix, const struct mpi_stats_set *set, const uint32_t *world_of,
                      struct arena *arena)
{
    struct receiver *list = arena_alloc(arena, (set->count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < set->count && list; i++)
        if (set->ranks[i].requests_omitted)
            list[count++] = (struct receiver){world_of[i], set->ranks[i].rank};
    if (count)
        qsort(list, count, sizeof *list, by_receiver);
    for (size_t i = 0; i < matrix->count && count; i++) {
        const struct receiver to = {matrix->cells[i].world, matrix->cells[i].to};
        matrix->cells[i].got_least = bsearch(&to, list, count, sizeof *list, by_receiver) != NULL;
    }
    return list ? 0 : -ENOMEM;
}

int mpi_matrix_make(struct mpi_matrix *ret_matrix, const struct mpi_stats_set *set, const uint32_t *world_of,
                    struct arena *arena)
{
    size_t room = 0;
    *ret_matrix = (struct mpi_matrix){0};
    for (size_t i = 0; i < set->count; i++)
        room += 2 * set->ranks[i].peer_count;
    ret_matrix->cells = arena_alloc(arena, (room + 1) * sizeof *ret_matrix->cells);
    if (!ret_matrix->cells)
        return -ENOMEM;
    for (size_t i = 0; i < set->count; i++) {
        ret_matrix->freed += set->ranks[i].receives_freed;
        ret_matrix->omitted += set->ranks[i].requests_omitted;
        for (size_t j = 0; j < set->ranks[i].peer_count; j++)
            if (is_exchange(&set->ranks[i].peers[j]))
                ret_matrix->count += put_cells(ret_matrix->cells + ret_matrix->count, &set->ranks[i], world_of[i],
                                               &set->ranks[i].peers[j]);
    }
    if (ret_matrix->count)
        qsort(ret_matrix->cells, ret_matrix->count, sizeof *ret_matrix->cells, by_place);
    cells_join(ret_matrix);
    return mark_least(ret_matrix, set, world_of, arena);
}

/* ---- for people ---- */

/* The sender's count; of one without statistics the receiver's. */
static uint64_t messages_of(const struct mpi_matrix_cell *cell)
{
    return cell->sent_count ? cell->sent_count : cell->got_count;
}

static uint64_t bytes_of(const struct mpi_matrix_cell *cell)
{
    return cell->sent_count ? cell->sent_bytes : cell->got_bytes;
}

/* Both of one program. */
static bool is_inside(const struct mpi_matrix_cell *cell)
{
    return cell->from >= 0 && cell->to >= 0 && messages_of(cell);
}

static void put_cell_size(struct buf *out, uint64_t bytes, int columns)
{
    struct buf text = BUF_INIT;
    text_size(&text, bytes);
    buf_printf(out, " %*s", columns, text.data ? text.data : "");
    buf_done(&text);
}

enum measure { MESSAGES, BYTES, ONE_SIDED, MEASURES };

static bool is_measured(const struct mpi_matrix_cell *cell, enum measure measure)
{
    bool inside = cell->from >= 0 && cell->to >= 0;
    return measure == ONE_SIDED ? inside && cell->put_count : is_inside(cell);
}

/* Ranks that send or receive: below that. */
static int32_t size_of(const struct mpi_matrix_cell *cells, size_t count, enum measure measure)
{
    int32_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size = is_measured(&cells[i], measure) && cells[i].from >= size ? cells[i].from + 1 : size;
        size = is_measured(&cells[i], measure) && cells[i].to >= size ? cells[i].to + 1 : size;
    }
    return size;
}

static void put_table(struct buf *out, const struct mpi_matrix_cell *cells, size_t count, int32_t size,
                      enum measure measure)
{
    static const char *const titles[MEASURES] = {"Messages of the user, from (down) to (across)",
                                                 "Bytes of the user's messages, from (down) to (across)",
                                                 "Bytes of one-sided operations, origin (down) and target (across)"};
    buf_printf(out, "\n%s\n      ", titles[measure]);
    for (int32_t to = 0; to < size; to++)
        buf_printf(out, " %9d", to);
    buf_putc(out, '\n');
    for (int32_t from = 0; from < size; from++) {
        buf_printf(out, "%6d", from);
        for (int32_t to = 0; to < size; to++) {
            const struct mpi_matrix_cell *found = NULL;
            for (size_t i = 0; i < count && !found; i++)
                if (cells[i].from == from && cells[i].to == to && is_measured(&cells[i], measure))
                    found = &cells[i];
            if (!found)
                buf_printf(out, " %9s", ".");
            else if (measure == MESSAGES)
                buf_printf(out, " %9" PRIu64, messages_of(found));
            else
                put_cell_size(out, measure == BYTES ? bytes_of(found) : found->put_bytes, 9);
        }
        buf_putc(out, '\n');
    }
}

/* Blocks of ranks, by how many bytes: from . (none) over 1 to 9, the most, in equal steps of the logarithm. */
static void put_picture(struct buf *out, const struct mpi_matrix_cell *cells, size_t count, int32_t size)
{
    int32_t block = (size + PICTURE_BLOCKS - 1) / PICTURE_BLOCKS, blocks = (size + block - 1) / block;
    _cleanup_(freep) uint64_t *sums = calloc((size_t)blocks * (size_t)blocks, sizeof *sums);
    uint64_t most = 0;
    if (!sums)
        return;
    for (size_t i = 0; i < count; i++) {
        if (cells[i].from < 0 || cells[i].to < 0 || cells[i].from >= size || cells[i].to >= size)
            continue;
        uint64_t *sum = &sums[(cells[i].from / block) * blocks + cells[i].to / block];
        *sum += bytes_of(&cells[i]) + (messages_of(&cells[i]) != 0);
        most = *sum > most ? *sum : most;
    }
    unsigned top = most ? 64 - (unsigned)__builtin_clzll(most) : 1;
    buf_printf(out, "\nBytes of the user's messages, from (down) to (across), %d rank%s a character: 9 most, . none\n",
               block, block == 1 ? "" : "s");
    for (int32_t from = 0; from < blocks; from++) {
        buf_printf(out, "%6d ", from * block);
        for (int32_t to = 0; to < blocks; to++) {
            uint64_t sum = sums[from * blocks + to];
            unsigned bits = sum ? 64 - (unsigned)__builtin_clzll(sum) : 0;
            int level = sum ? 9 - (int)(top - bits) : 0;
            buf_putc(out, !sum ? '.' : (char)('0' + (level < 1 ? 1 : level)));
        }
        buf_putc(out, '\n');
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct mpi_matrix_cell *left = *(struct mpi_matrix_cell *const *)a,
                                 *right = *(struct mpi_matrix_cell *const *)b;
    if (bytes_of(left) != bytes_of(right))
        return bytes_of(left) < bytes_of(right) ? 1 : -1;
    if (messages_of(left) != messages_of(right))
        return messages_of(left) < messages_of(right) ? 1 : -1;
    return by_place(left, right);
}

static void put_messages(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%" PRIu64, messages_of(row));
}

static void put_bytes(struct buf *out, const void *at, const void *row, const void *all)
{
    text_size(out, bytes_of(row));
}

static const struct field pair_fields[] = {
    {.type = FIELD_INTEGER,
     FIELD_AT(struct mpi_matrix_cell, from),
     .column = FIELD_COLUMN(1, 0, 18, "Most bytes    from")},
    {.type = FIELD_INTEGER, FIELD_AT(struct mpi_matrix_cell, to), .column = FIELD_COLUMN(2, 2, 6, "to")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(3, 2, 11, "messages", .text = put_messages)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(4, 2, 10, "bytes", .text = put_bytes)},
    {0}};

static void put_pairs(struct buf *out, const struct mpi_matrix_cell *cells, size_t count)
{
    static const struct field_table table = {pair_fields, .most = PAIRS_SHOWN, .more = " pairs (--json lists them)"};
    _cleanup_(freep) const struct mpi_matrix_cell **list = calloc(count + 1, sizeof *list);
    size_t used = 0;
    for (size_t i = 0; i < count && list; i++)
        if (is_inside(&cells[i]))
            list[used++] = &cells[i];
    if (used)
        qsort(list, used, sizeof *list, by_bytes);
    fields_table(out, &table, list, used, 0, NULL);
}

/* Of several programs the one with the most bytes is shown. */
static void find_world(const struct mpi_matrix *matrix, size_t *ret_first, size_t *ret_count)
{
    uint64_t most = 0;
    *ret_first = *ret_count = 0;
    for (size_t i = 0, next; i < matrix->count; i = next) {
        uint64_t bytes = 1;
        for (next = i; next < matrix->count && matrix->cells[next].world == matrix->cells[i].world; next++)
            bytes += (is_inside(&matrix->cells[next]) ? bytes_of(&matrix->cells[next]) : 0) +
                     (is_measured(&matrix->cells[next], ONE_SIDED) ? matrix->cells[next].put_bytes : 0);
        if (bytes > most) {
            most = bytes;
            *ret_first = i;
            *ret_count = next - i;
        }
    }
}

/* Between programs: which of their ranks it was is not counted. */
static void put_foreign(struct buf *out, const struct mpi_matrix *matrix)
{
    uint64_t sent = 0, sent_bytes = 0, got = 0, got_bytes = 0;
    for (size_t i = 0; i < matrix->count; i++) {
        const struct mpi_matrix_cell *cell = &matrix->cells[i];
        if (cell->to < 0) {
            sent += cell->sent_count;
            sent_bytes += cell->sent_bytes;
        } else if (cell->from < 0) {
            got += cell->got_count;
            got_bytes += cell->got_bytes;
        }
    }
    if (!sent && !got)
        return;
    buf_printf(out, "\nMessages to other programs: %" PRIu64 " of", sent);
    put_cell_size(out, sent_bytes, 0);
    buf_printf(out, "; from other programs: %" PRIu64 " of", got);
    put_cell_size(out, got_bytes, 0);
    buf_putc(out, '\n');
}

/* Where nobody counted a receive, nothing is said. */
static void put_lost(struct buf *out, const struct mpi_matrix *matrix)
{
    uint64_t missing = matrix->messages > matrix->got_messages ? matrix->messages - matrix->got_messages : 0;
    uint64_t untold = matrix->freed + matrix->omitted;
    uint64_t lost = missing > untold ? missing - untold : 0, doubtful = missing - lost;
    if (!matrix->got_messages)
        return;
    if (lost)
        buf_printf(out, "  %" PRIu64 " message%s sent, but not received\n", lost, lost == 1 ? " was" : "s were");
    if (doubtful)
        buf_printf(out, "  of %" PRIu64 " message%s sent it is not known whether a receive got %s that %s\n", doubtful,
                   doubtful == 1 ? "" : "s", doubtful == 1 ? "it" : "them",
                   !matrix->omitted ? "MPI_Request_free gave up"
                   : matrix->freed  ? "MPI_Request_free gave up, or that found no room among the operations under way"
                                    : "found no room among the operations under way");
}

void mpi_matrix_text(struct buf *out, const struct mpi_matrix *matrix, uint32_t worlds)
{
    size_t first, count;
    find_world(matrix, &first, &count);
    const struct mpi_matrix_cell *cells = matrix->cells + first;
    int32_t size = size_of(cells, count, MESSAGES), puts = size_of(cells, count, ONE_SIDED);
    put_foreign(out, matrix);
    if (!size && !puts)
        return;
    if (worlds > 1)
        buf_printf(out, "\nOf the %u MPI programs of this job the one with the most bytes (program %u):\n", worlds,
                   cells[0].world + 1);
    if (size && size <= TABLE_RANKS) {
        put_table(out, cells, count, size, MESSAGES);
        put_table(out, cells, count, size, BYTES);
    } else if (size) {
        put_picture(out, cells, count, size);
        put_pairs(out, cells, count);
    }
    if (puts && puts <= TABLE_RANKS)
        put_table(out, cells, count, puts, ONE_SIDED);
    else if (puts)
        buf_puts(out, "\nOne-sided operations by pairs of ranks: --json lists them\n");
    put_lost(out, matrix);
}
