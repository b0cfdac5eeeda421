# SPDX-License-Identifier: Apache-2.0
"""Extensions over nodes: what they offer goes to where its objects are, as what is built in does, if each node has the same ones."""

import os

import nodestest
import scrytest
from servicetest import *

NOTES = """
#include <scry/ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct note { char process[32]; int64_t number; };

static const char *process_of(void *data)
{
    return ((struct note *)data)->process;
}

static void make(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct scry_object *process = scry_object_at(call, i);
        struct note *note = calloc(1, sizeof *note);
        snprintf(note->process, sizeof note->process, "%s", scry_object_token(process));
        scry_result(call, process, "%s", scry_object_token(scry_object_new(call, "notes_n", note)));
    }
}

static void set(struct scry_call *call)
{
    const char *params[] = {scry_arg_text(call, 1, NULL)};
    for (size_t i = 0; i < scry_object_count(call); i++) {
        struct scry_object *object = scry_object_at(call, i);
        ((struct note *)scry_object_data(object))->number = scry_arg_integer(call, 1);
        scry_ok(call, object);
        scry_event_raise("notes_changed", object, params, 1);
    }
}

static void get(struct scry_call *call)
{
    for (size_t i = 0; i < scry_object_count(call); i++)
        scry_result_integer(call, scry_object_at(call, i), ((struct note *)scry_object_data(scry_object_at(call, i)))->number);
}

/* The words of the first error, or of the last result. */
static const char *words(Omis_reply reply)
{
    const char *found = "nothing";
    for (size_t i = 0; reply[i]; i++)
        for (const Omis_object_result *at = reply[i]; at->obj_list; at++) {
            if (at->result)
                found = at->result;
            if (at->status >= OMIS_FIRST_ERROR)
                return found;
        }
    return found;
}

static void ask(struct scry_call *call)
{
    Omis_reply reply = omis_request((char *)scry_arg_string(call, 0, NULL), NULL, NULL, 0);
    scry_result_string(call, NULL, words(reply), strlen(words(reply)));
    omis_reply_free(reply);
}

static void answered(Omis_reply reply, void *param)
{
    struct scry_later *later = *(struct scry_later **)param;
    scry_result_string(scry_later_begin(later), NULL, words(reply), strlen(words(reply)));
    scry_later_end(later, 1);
    omis_reply_free(reply);
    free(param);
}

static void ask_later(struct scry_call *call)
{
    struct scry_later **later = malloc(sizeof *later);
    *later = scry_later(call, NULL, NULL);
    omis_request((char *)scry_arg_string(call, 0, NULL), answered, later, 0);
}

static const struct scry_service services[] = {
    {"notes_make", SCRY_MANIPULATION, "token<p>* proc_list -> token", SCRY_OPTIONAL, make, "Make a note on processes."},
    {"notes_set", SCRY_MANIPULATION, "token<notes_n>* note_list, integer number -> void", SCRY_OPTIONAL, set, "Write a number."},
    {"notes_get", SCRY_INFORMATION, "token<notes_n>* note_list -> integer", SCRY_OPTIONAL, get, "Read it."},
    {"notes_changed", SCRY_EVENT, "token<notes_n>* note_list -> { integer number }", SCRY_OPTIONAL, NULL, "It was written."},
    {"notes_ask", SCRY_INFORMATION, "string request -> string", SCRY_OPTIONAL, ask, "Request, and wait."},
    {"notes_ask_later", SCRY_INFORMATION, "string request -> string", SCRY_OPTIONAL, ask_later, "Request with a callback."},
};

SCRY_EXT_API int notes_register(void);
int notes_register(void)
{
    if (scry_register_class("notes_n", free, "note") < 0 || scry_register_container("notes_n", "p", process_of) < 0)
        return -1;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        if (scry_register_service(&services[i]) < 0)
            return -1;
    return 0;
}
"""


class Extensions(nodestest.NodesTest):
    def with_notes(self, box):
        with open(box.path("work", "notes.c"), "w", encoding="ascii") as file:
            file.write(NOTES)
        box.run(["cc", "-shared", "-fPIC", "-I", os.path.join(scrytest.SOURCE, "include"), "-o", box.path("ext", "scry_ext_notes.so"),
                 box.path("work", "notes.c")]).check_returncode()

    def processes(self, *lacking):
        """A process at the home, and one at each of two nodes, all of which have the extension but for these."""
        nodes = self.nodes(3, prepare=lambda box, number: number in lacking or self.with_notes(box))
        tokens = ["n_1", *self.reach(*nodes[1:])]
        self.ask(': node_attach2("localhost")')
        return [self.attach(node.target("puppet"), token) for node, token in zip(nodes, tokens)]

    def test_objects(self):
        """They are where what they are on is; so are their services and events, and [] is all of them."""
        processes = self.processes()
        notes = [entry["result"] for entry in self.ask(f": notes_make([{','.join(processes)}])").services[1]]
        self.assertEqual([token.split("_")[2] for token in notes], ["1", "2", "3"])
        number = self.tool.send("notes_changed([]) : print([$number])")
        self.tool.reply(number)
        self.ask(": csr_enable([c_1_1])")
        self.tool.reply(number)
        self.ask(f": notes_set([{notes[2]}], 3) notes_set([{notes[0]}], 1)")
        replies = [self.tool.reply(number) for _ in range(2)]
        self.assertEqual({(*reply.objects(0), reply.result()) for reply in replies}, {(notes[2], "1,[3]"), (notes[0], "1,[1]")})
        reply = self.ask(": notes_get([])")
        self.assertEqual([(entry["objects"], entry["result"]) for entry in reply.services[1]],
                         [([notes[0]], "1"), ([notes[1]], "0"), ([notes[2]], "3")])
        self.assertEqual(self.ask(f": notes_get([{processes[2]}])").result(), "3")

    def test_requests_of_an_extension(self):
        """With a callback they go over nodes. One that is waited for cannot: it says where the object is, and what to do."""
        _, far, _ = self.processes()
        request = f': proc_get_info([{far}], 1) print([{far}])'
        self.assertEqual(self.ask(f": notes_ask_later({quote(request)})").result(), f'"1,[{far}]"')
        for request in f": print([1]) proc_get_info([{far}], 1)", ": proc_get_info([], 1)":
            told = self.ask(f": notes_ask({quote(request)})").result()
            self.assertRegex(told, r"^\"this request concerns node n_\d \([^)]+\): give it a callback")
        self.assertEqual(self.ask(f": notes_ask({quote(': print([7])')})").result(), '"1,[7]"')

    def test_a_node_without_it(self):
        """The others do their part, and the error names the node."""
        processes = self.processes(2)
        reply = self.tool.request(f": notes_make([{','.join(processes)}])")
        entries = [(entry["status"], entry["objects"]) for entry in reply.services[1]]
        self.assertEqual([entry for entry in entries if entry[0]], [(UNKNOWN_SERVICE, [processes[2]])])
        self.assertEqual(len(entries), 3)
        host = os.uname().nodename
        self.assertRegex(reply.services[1][-1]["result"], rf"^node {host} has no such service: .*no service notes_make.*: load the same extensions there")

    def test_no_node_has_it(self):
        processes = self.processes(1, 2)
        reply = self.tool.request(f": notes_make([{','.join(processes[1:])}])")
        self.assertEqual({entry["status"] for entry in reply.services[-1]}, {UNKNOWN_SERVICE})
        self.assertIn(os.uname().nodename, reply.services[-1][0]["result"])


def quote(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


scrytest.main()
