/* SPDX-License-Identifier: Apache-2.0 */
/* scry snapshot, for programs: the processes, and the nodes of the tree as a list. */
#include <string.h>

#include "cli/snapshot/snapshot.h"
#include "jobdir/text/fields.h"

static const struct field process_fields[] = {
    {"pid", FIELD_INTEGER, FIELD_AT(struct snapshot_process, pid)},
    {"ppid", FIELD_INTEGER, FIELD_AT(struct snapshot_process, ppid)},
    {"name", FIELD_TEXT, FIELD_AT(struct snapshot_process, name)},
    {"host", FIELD_TEXT, FIELD_AT(struct snapshot_process, host)},
    {"token", FIELD_TEXT, FIELD_AT(struct snapshot_process, token), .about = "of the monitor, for scry omis"},
    {"mpi_job", FIELD_TEXT, FIELD_AT(struct snapshot_process, mpi_job), FIELD_ZERO_IS_NULL,
     .about = "tells the ranks of several MPI programs apart"},
    {"rank", FIELD_INTEGER, FIELD_AT(struct snapshot_process, rank), .about = "-1: none"},
    {"ranks", FIELD_INTEGER, FIELD_AT(struct snapshot_process, ranks), .about = "of its MPI program; -1: not known"},
    {"threads", FIELD_INTEGER, FIELD_AT(struct snapshot_process, threads), .about = "that were read"},
    {"queue_note", FIELD_TEXT, FIELD_AT(struct snapshot_process, queue_note), FIELD_ZERO_IS_NULL,
     .about = "why not all messages of MPI to it are known (--queues)"},
    {"problem", FIELD_TEXT, FIELD_AT(struct snapshot_process, problem), FIELD_ZERO_IS_NULL,
     .about = "why nothing, or not all, is known of it"},
    {0}};

static json_t *parent_json(const void *row, const void *all)
{
    return json_integer(((const struct stack_node *)row)->parent->number);
}

static json_t *members_json(const void *row, const void *all, bool threads)
{
    const struct stack_node *node = row;
    json_t *list = json_array();
    for (size_t i = 0; i < node->member_count; i++)
        json_array_append_new(list, json_integer(threads ? node->members[i].threads : node->members[i].process));
    return list;
}

static json_t *processes_of_json(const void *row, const void *all)
{
    return members_json(row, all, false);
}

static json_t *threads_of_json(const void *row, const void *all)
{
    return members_json(row, all, true);
}

static json_t *holders_json(const void *row, const void *all)
{
    const struct stack_value *value = row;
    json_t *list = json_array();
    for (size_t i = 0; i < value->member_count; i++)
        json_array_append_new(list, json_integer(value->members[i].process));
    return list;
}

static json_t *name_json(const void *row, const void *all)
{
    return json_string(((const struct stack_value *)row)->variable->name);
}

static json_t *type_json(const void *row, const void *all)
{
    return json_string(((const struct stack_value *)row)->variable->type);
}

static json_t *value_json(const void *row, const void *all)
{
    return json_string(((const struct stack_value *)row)->variable->value);
}

static const struct field value_fields[] = {
    {"name", FIELD_TEXT, .json = name_json, .about = "\"\": value says why nothing is known of the variables"},
    {"type", FIELD_TEXT, .json = type_json},
    {"value", FIELD_TEXT, .json = value_json, .about = "as text; <not available>, <optimised out>: it is not known"},
    {"threads", FIELD_INTEGER, FIELD_AT(struct stack_value, threads), .about = "that have this value"},
    {"processes", FIELD_LIST, .json = holders_json, .of = fields_integers,
     .about = "whose threads these are: their places in the list of processes, from 0"},
    {0}};

static json_t *values_json(const void *row, const void *all)
{
    const struct stack_node *node = row;
    return fields_list(value_fields, node->values, node->value_count, sizeof *node->values, NULL);
}

#define NODE(member) FIELD_AT(struct stack_node, member)
static const struct field node_fields[] = {
    {"number", FIELD_INTEGER, NODE(number)},
    {"parent", FIELD_INTEGER, .json = parent_json, .about = "its number; 0: here the threads began"},
    {"language", FIELD_CHOICE, NODE(frame.language), .choices = "native|python|note",
     .about = "note: function says why nothing is known there"},
    {"function", FIELD_TEXT, NODE(frame.function), FIELD_ZERO_IS_NULL},
    {"file", FIELD_TEXT, NODE(frame.file), FIELD_ZERO_IS_NULL},
    {"line", FIELD_INTEGER, NODE(frame.line), FIELD_ZERO_IS_NULL},
    {"module", FIELD_TEXT, NODE(frame.module), FIELD_ZERO_IS_NULL},
    {"threads", FIELD_INTEGER, NODE(threads), .about = "here, or in a function that was called from here"},
    {"running", FIELD_INTEGER, NODE(running), .about = "of these, those that had a processor"},
    {"innermost", FIELD_INTEGER, NODE(ended), .about = "of these, those that are in this function itself"},
    {"processes", FIELD_LIST, .json = processes_of_json, .of = fields_integers,
     .about = "whose threads these are: their places in the list of processes, from 0"},
    {"process_threads", FIELD_LIST, .json = threads_of_json, .of = fields_integers,
     .about = "how many threads each of these has here"},
    {"values", FIELD_LIST, .json = values_json, .of = value_fields,
     .about = "arguments and locals (--values), each with all its values"},
    {0}};

static json_t *processes_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return fields_list(process_fields, snapshot->list, snapshot->count, sizeof *snapshot->list, NULL);
}

static json_t *nodes_json(const void *row, const void *all)
{
    json_t *list = json_array();
    for (const struct stack_node *node = ((const struct snapshot *)row)->tree.nodes; node; node = node->hh.next)
        json_array_append_new(list, fields_json(node_fields, node, NULL));
    return list;
}

static json_t *age_json(const void *row, const void *all)
{
    return json_real((double)((const struct snapshot_operation *)row)->age_ns / 1e9);
}

#define OPERATION(member) FIELD_AT(struct snapshot_operation, member)
static const struct field operation_fields[] = {
    {"process", FIELD_COUNT, OPERATION(process), .about = "its place in the list of processes, from 0"},
    {"call", FIELD_TEXT, OPERATION(call), .about = "that began it"},
    {"kind", FIELD_CHOICE, OPERATION(kind), .choices = "send|receive|other"},
    {"state", FIELD_CHOICE, OPERATION(state), .choices = "active|inactive|freed",
     .about = "inactive: a persistent request that is not started"},
    {"peer", FIELD_INTEGER, OPERATION(peer),
     .about = "a world rank; -1: any, -2: MPI_PROC_NULL, -3: none, -4: root, -5: of another MPI program"},
    {"tag", FIELD_INTEGER, OPERATION(tag), .about = "-1: any, -3: none"},
    {"comm", FIELD_INTEGER, OPERATION(comm),
     .about = "the communicator's number in that process; 0: MPI_COMM_WORLD; -1: not known"},
    {"bytes", FIELD_INTEGER, OPERATION(bytes)},
    {"seconds", FIELD_NUMBER, .json = age_json, .about = "since it was begun"},
    {0}};

static json_t *operations_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return snapshot->has_queues ? fields_list(operation_fields, snapshot->operations, snapshot->operation_count,
                                              sizeof *snapshot->operations, NULL)
                                : json_null();
}

#define MESSAGE(member) FIELD_AT(struct snapshot_message, member)
static json_t *sent_json(const void *row, const void *all)
{
    return json_real((double)((const struct snapshot_message *)row)->age_ns / 1e9);
}

static const struct field message_fields[] = {
    {"process", FIELD_COUNT, MESSAGE(process), .about = "that it was sent to: its place in the list, from 0"},
    {"rank", FIELD_INTEGER, MESSAGE(rank), .about = "the world rank that sent it"},
    {"tag", FIELD_INTEGER, MESSAGE(tag)},
    {"comm", FIELD_INTEGER, MESSAGE(comm),
     .about = "the communicator's number in the process; 0: MPI_COMM_WORLD; -1: not known"},
    {"bytes", FIELD_INTEGER, MESSAGE(bytes), .about = "-1: not known any more"},
    {"seconds", FIELD_NUMBER, .json = sent_json, .about = "since it was sent"},
    {"doubts", FIELD_TEXT, MESSAGE(doubts), FIELD_ZERO_IS_NULL, .about = "why it is not certain"},
    {0}};

static json_t *messages_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return snapshot->has_queues ? fields_list(message_fields, snapshot->messages, snapshot->message_count,
                                              sizeof *snapshot->messages, NULL)
                                : json_null();
}

#define OPEN_FILE(member) FIELD_AT(struct snapshot_file, member)
static const struct field file_fields[] = {
    {"process", FIELD_COUNT, OPEN_FILE(process), .about = "its place in the list of processes, from 0"},
    {"fd", FIELD_INTEGER, OPEN_FILE(fd)},
    {"kind", FIELD_CHOICE, OPEN_FILE(kind), .choices = "file|directory|device|pipe|socket|memory|other"},
    {"path", FIELD_TEXT, OPEN_FILE(path), FIELD_ZERO_IS_NULL, .about = "of another kind: what the kernel calls it"},
    {"flags", FIELD_TEXT, OPEN_FILE(flags), .about = "words of read, write, append, nonblock, direct, sync"},
    {"offset", FIELD_INTEGER, OPEN_FILE(offset), .about = "where it is read or written next; -1: it has none"},
    {"size", FIELD_INTEGER, OPEN_FILE(size),
     .about = "as the node knows it without asking a file system; -1: not known"},
    {0}};

static json_t *files_json(const void *row, const void *all)
{
    const struct snapshot *snapshot = row;
    return snapshot->has_files
               ? fields_list(file_fields, snapshot->files, snapshot->file_count, sizeof *snapshot->files, NULL)
               : json_null();
}

static json_t *seconds_json(const void *row, const void *all)
{
    return json_real((double)((const struct snapshot *)row)->read_ns / 1e9);
}

static const struct field host_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_node, name),
     .about = "as the launcher named it; \"\": where the job began"},
    {"token", FIELD_TEXT, FIELD_AT(struct job_node, token), .about = "of the monitor; u_0: it could not be reached"},
    {"problem", FIELD_TEXT, FIELD_AT(struct job_node, problem), FIELD_ZERO_IS_NULL,
     .about = "why nothing is known of it"},
    {0}};

static json_t *hosts_json(const void *row, const void *all)
{
    const struct job_nodes *nodes = &((const struct snapshot *)row)->nodes;
    return fields_list(host_fields, nodes->list, nodes->count, sizeof *nodes->list, NULL);
}

static const struct field fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct snapshot, job), .about = "of the job"},
    {"seconds", FIELD_NUMBER, .json = seconds_json, .about = "how long it took; nothing is stopped meanwhile"},
    {"hosts", FIELD_LIST, .json = hosts_json, .of = host_fields, .about = "the job's nodes that were asked"},
    {"processes", FIELD_LIST, .json = processes_json, .of = process_fields,
     .about = "of the job: ranks first, then the others; those that were not asked for have no threads"},
    {"nodes", FIELD_LIST, .json = nodes_json, .of = node_fields,
     .about = "of the tree of stacks, each behind its parent: a function with its line"},
    {"operations", FIELD_LIST, .flags = FIELD_OR_NULL, .json = operations_json, .of = operation_fields,
     .about = "requests of MPI that are not completed; null: not asked for (--queues)"},
    {"messages", FIELD_LIST, .flags = FIELD_OR_NULL, .json = messages_json, .of = message_fields,
     .about = "of MPI that no receive has taken; null: not asked for (--queues)"},
    {"files", FIELD_LIST, .flags = FIELD_OR_NULL, .json = files_json, .of = file_fields,
     .about = "that processes have open; null: not asked for (--files)"},
    {0}};

json_t *snapshot_json(const struct snapshot *snapshot)
{
    return fields_json(fields, snapshot, NULL);
}

json_t *snapshot_schema(void)
{
    return fields_schema(fields);
}
