# SPDX-License-Identifier: Apache-2.0
"""Extensions: the one to copy (null), filters of events, counters and timers (pa), and those that are wrong."""

import glob
import os
import subprocess

import scrytest
from servicetest import *


class Extensions(ServiceTest):
    def test_null(self):
        self.assertEqual(self.ask(': null_echo("a\\"b")').result(), '"a\\"b"')
        boxes = [self.ask(": null_box_create()").result() for _ in range(2)]
        self.assertRegex(boxes[0], r"^null_b_\d+_\d+$")
        number, _ = self.enable(f"null_box_changed([{boxes[0]}]) : print([$number, $proc])")
        self.ask(": null_box_set([], 5)")
        reply = self.triggered(number)
        self.assertEqual(reply.result(), "2,[5,u_0]")
        self.assertEqual(reply.services[0][0]["objects"], [boxes[0]])
        self.omis.quiet(number, 0)
        self.refused(f": null_box_set([{boxes[1]}], -1)", PARAMETER_ERROR, "negative")
        reply = self.ask(": null_box_get([])")
        self.assertEqual((reply.objects(), reply.result()), (boxes, "5"))
        self.ask(f": null_box_delete([{boxes[0]}])")
        self.refused(f": null_box_get([{boxes[0]}])", UNKNOWN_OBJECT, "does not exist any more")
        self.refused(": null_box_get([null_b_1_99])", UNKNOWN_OBJECT, "there is no object")
        self.assertEqual(self.ask(": null_box_get([])").objects(), [boxes[1]])

    def test_events_that_raise_each_other(self):
        """They end; the monitor works on."""
        box = self.ask(": null_box_create()").result()
        number, csr = self.enable(f"null_box_changed([{box}]) : null_box_set([{box}], $number)")
        self.ask(f": null_box_set([{box}], 1)")
        self.ask(f": csr_delete([{csr}])")
        count = 0
        while self.omis.reply(number).status() == TRIGGERED:
            count += 1
        self.assertLess(count, 100)
        self.assertGreater(count, 60)

    def test_filter(self):
        """8.2.2: a list that runs only for some calls, with the thread that makes them, which waits for it."""
        target = self.target()
        process = self.attach(target)
        event = self.ask(": user_event_create()").result()
        raised, _ = self.enable(f"user_event_has_been_raised({event}) : print([$proc, $thread]) thread_stop([$thread])")
        self.enable(f'thread_has_started_sys_call([{process}], "pwrite64") : filter($par3, 77, {event}) '
                    f'filter($par3, 78, {event})')
        target.send("call")
        reply = self.triggered(raised)
        self.assertRegex(reply.result(), rf"^2,\[{process},t_\d+_\d+\]$")
        self.assertTrue(reply.ok(), reply.services)
        self.omis.quiet(raised, 0)
        self.ask(f": thread_continue([{process}])")
        target.line()

    def test_counters(self):
        counter, other = (self.ask(": pa_counter_create()").result() for _ in range(2))
        self.ask(f": pa_counter_add([{counter}], 5) pa_counter_add([], -7)")
        values = self.ask(f": pa_counter_read([{counter}, {other}])")
        self.assertEqual([entry["result"] for entry in values.services[1]], ["-2", "-7"])
        self.ask(f": pa_counter_reset([{counter}]) pa_counter_add({counter}, 9223372036854775807)")
        self.assertEqual(self.ask(f": pa_counter_read([{counter}])").result(), "9223372036854775807")
        self.ask(f": pa_counter_delete([{counter}])")
        self.refused(f": pa_counter_add([{counter}], 1)", UNKNOWN_OBJECT, "does not exist any more")
        self.refused(f": pa_timer_start([{other}])", TYPE_MISMATCH, other)

    def test_timers(self):
        timer = self.ask(": pa_timer_create()").result()
        self.assertEqual(float(self.ask(f": pa_timer_read([{timer}])").result()), 0)
        self.ask(f": pa_timer_add([{timer}], 1.5)")
        self.assertEqual(float(self.ask(f": pa_timer_read([{timer}])").result()), 1.5)
        self.ask(f": pa_timer_start([{timer}])")
        scrytest.wait_until(lambda: float(self.ask(f": pa_timer_read([{timer}])").result()) > 1.55)
        self.ask(f": pa_timer_stop([{timer}])")
        value = self.ask(f": pa_timer_read([{timer}])").result()
        self.assertEqual(self.ask(f": pa_timer_stop([{timer}]) pa_timer_read([{timer}])").result(2), value)
        self.ask(f": pa_timer_reset([{timer}])")
        self.assertEqual(float(self.ask(f": pa_timer_read([{timer}])").result()), 0)

    def test_many_counters(self):
        """When all cells are used it says so, and those that are deleted are used again."""
        created = 0
        while True:
            reply = self.omis.request(": " + " ".join(["pa_counter_create()"] * 500))
            created += sum(service[0]["status"] == OK for service in reply.services[1:])
            if not reply.ok():
                break
            self.assertLess(created, 10 ** 6)
        self.refused(": pa_counter_create()", NO_MEMORY, "room")
        self.assertEqual(len(self.ask(": pa_counter_delete([])").objects()), created)
        self.ask(": pa_counter_create() pa_timer_create()")

    def test_the_printed_example(self):
        """5.3.1, with system calls for the library calls: the time in them and what they were given."""
        target = self.target()
        process = self.attach(target)
        timer = self.ask(": pa_timer_create()").result()
        counter = self.ask(": pa_counter_create()").result()
        self.enable(f'thread_has_started_sys_call([{process}], "pwrite64") :\tpa_timer_start([{timer}]) '
                    f'pa_counter_add([{counter}], $par3)')
        self.enable(f'thread_has_ended_sys_call([{process}], "pwrite64") : pa_timer_stop([{timer}])')
        entered, _ = self.enable('thread_has_started_sys_call([], "dup2") : '
                                 'print(["dup2 entered", $node, $proc, $time])')
        for _ in range(5):
            target.do("call")
        target.do("fail")
        self.assertEqual(self.ask(f": pa_counter_read([{counter}])").result(), str(5 * 77))
        self.assertGreater(float(self.ask(f": pa_timer_read([{timer}])").result()), 0)
        self.assertRegex(self.triggered(entered).result(), rf'^4,\["dup2 entered",n_\d,{process},\d+\.\d+\]$')


class Temperatures(ServiceTest):
    def tool(self):
        self.sys = self.box.env["SCRY_SYSFS"] = self.box.path("work", "sys")
        return super().tool()

    def sensor(self, *path, value):
        path = os.path.join(self.sys, "class", *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"{value}\n")
        os.rename(path + ".new", path)

    def test_without_sensors(self):
        reply = self.omis.request(': temp_get("thermal_zone0")')
        self.assertEqual(reply.status(), UNSUPPORTED_SERVICE)
        self.assertIn("temp_get: this machine shows no sensors in /sys/class/thermal", reply.services[0][0]["result"])
        self.assertNotIn("temp_get", self.ask(': services("temp")').result())

    def test_sensors(self):
        self.sensor("thermal", "thermal_zone0", "type", value="cpu")
        self.sensor("thermal", "thermal_zone0", "temp", value=45500)
        self.sensor("thermal", "cooling_device0", "type", value="fan")
        self.sensor("hwmon", "hwmon2", "name", value='no "name"')
        self.sensor("hwmon", "hwmon2", "temp3_input", value=-1000)
        self.sensor("hwmon", "hwmon2", "temp4_input", value="none")
        self.sensor("hwmon", "hwmon2", "temp4_label", value="disk")
        self.assertEqual(self.ask(": temp_sensors()").result(),
                         '3,["thermal_zone0","cpu","hwmon2/temp3","no name","hwmon2/temp4","disk"]')
        self.assertEqual(self.ask(': temp_get("thermal_zone0") temp_get("hwmon2/temp3")').result(), "45.5")
        self.assertEqual(self.ask(': temp_get("hwmon2/temp3")').result(), "-1.0")
        self.refused(': temp_get("../../etc/passwd")', PARAMETER_ERROR, "there is no sensor")
        self.refused(': temp_get("hwmon2/temp4")', OS_ERROR, "cannot read")
        self.refused(': temp_watch_create("thermal_zone0", 0.0)', PARAMETER_ERROR, "period")
        watch = self.ask(': temp_watch_create("thermal_zone0", 0.01)').result()
        number, _ = self.enable(f"temp_measured([{watch}]) : print([$celsius, $proc])")
        self.assertEqual(self.triggered(number).result(), "2,[45.5,u_0]")
        self.sensor("thermal", "thermal_zone0", "temp", value=50000)
        scrytest.wait_until(lambda: self.triggered(number).result() == "2,[50.0,u_0]")
        self.ask(f": temp_watch_delete([{watch}])")
        self.refused(f": temp_watch_delete([{watch}])", UNKNOWN_OBJECT, "does not exist any more")


# Requests something that refers to its own services, and then has one event twice.
FAILS = r"""
#include <stdlib.h>
#include <scry/ext.h>

static void run(struct scry_call *call)
{
    scry_ok(call, NULL);
}

static const struct scry_service service = {"fails_service", SCRY_INFORMATION, "-> void", SCRY_OPTIONAL, run, "Runs."};
static const struct scry_service event = {"fails_event", SCRY_EVENT, "-> { integer n }", SCRY_OPTIONAL, NULL, "Event."};

static void take(Omis_reply reply, void *param)
{
    (void)param;
    omis_reply_free(reply);
}

SCRY_EXT_API int fails_register(void);
int fails_register(void)
{
    if (scry_register_service(&service) < 0 || scry_register_service(&event) < 0)
        return -1;
    omis_reply_free(omis_request((char *)"fails_event() : fails_service()", take, NULL, OMIS_WAIT_FOR_FIRST_REPLY));
    omis_reply_free(omis_request((char *)": csr_enable([])", NULL, NULL, 0));
    omis_request((char *)": fails_service()", take, NULL, 0);
    scry_tool_set_data(&service, malloc(10), free);
    return scry_register_service(&event);
}
"""


class WrongExtensions(scrytest.TestCase):
    def start(self):
        """A monitor that has loaded what it will."""
        monitor = self.box.start(self.box.scry("monitor"), stderr=subprocess.PIPE)
        scrytest.wait_until(lambda: os.path.exists(self.box.path("run", "monitor.sock")))
        return monitor

    def extensions(self):
        with self.box.omis() as omis:
            reply = omis.request(": extensions()")
        self.assertTrue(reply.ok())
        return reply.result()

    def log(self, monitor):
        monitor.terminate()
        return monitor.stderr.read()

    def test_are_left_out(self):
        """Something that is no library, or the wrong one, costs a line in the log."""
        source = self.box.path("ext", "scry_ext_null.so")
        with open(self.box.path("ext", "scry_ext_text.so"), "w", encoding="ascii") as file:
            file.write("no library\n")
        os.symlink(os.path.realpath(source), self.box.path("ext", "scry_ext_other.so"))
        monitor = self.start()
        with self.box.omis() as omis:
            reply = omis.request(": extensions()")
            self.assertTrue(reply.ok())
            self.assertNotIn('"text"', reply.result())
            self.assertNotIn('"other"', reply.result())
            self.assertIn('"null"', reply.result())
            self.assertEqual(omis.request(': null_echo("x")').result(), '"x"')
        log = self.log(monitor)
        for name in ("scry_ext_text.so", "scry_ext_other.so"):
            self.assertIn(name, log)

    def test_that_fails_after_requests(self):
        """What it requested goes with it, also what waits for its own event; those before and after it are there."""
        source = self.box.path("work", "fails.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(FAILS)
        self.box.run(["cc", "-shared", "-fPIC", "-I", os.path.join(scrytest.SOURCE, "include"), "-o",
                      self.box.path("ext", "scry_ext_fails.so"), source]).check_returncode()
        monitor = self.start()
        self.assertNotIn('"fails"', self.extensions())
        with self.box.omis() as omis:
            self.assertEqual(omis.request(": fails_service()").status(), UNKNOWN_SERVICE)
            self.assertEqual(omis.request(': null_echo("x")').result(), '"x"')
            self.assertEqual(omis.request(": csr_enable([c_1_1])").services[1][0]["status"], UNKNOWN_OBJECT)
        log = self.log(monitor)
        self.assertIn("service fails_event exists already", log)
        self.assertIn("scry_ext_fails.so is left out: its register function failed", log)

    def test_that_others_can_exchange(self):
        """One in a directory that others can write to is not loaded, nor is anything there; one line says so."""
        os.mkdir(self.box.path("open"))
        os.rename(self.box.path("ext"), self.box.path("open", "ext"))
        os.chmod(self.box.path("open"), 0o777)
        self.box.env["SCRY_EXT_PATH"] = self.box.path("open", "ext")
        monitor = self.start()
        self.extensions()
        lines = [line for line in self.log(monitor).splitlines() if "left out" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(f"extensions in {self.box.path('open', 'ext')} are left out: others can write to "
                      f"{self.box.path('open')} (chmod go-w it)", lines[0])
        self.assertIn("others can write to", self.box.run(self.box.scry("doctor")).stdout)

    def test_exchanged_after_the_look(self):
        """What was looked at is what is loaded."""
        link = min(glob.glob(self.box.path("ext", "scry_ext_*.so")))  # they are loaded in this order
        with open(self.box.path("ext", "text"), "w", encoding="ascii") as file:
            file.write("no library\n")
        with self.box.pause("extensions.trusted") as held:
            monitor = self.start()
            held.reached()
            os.symlink("text", self.box.path("ext", "link"))
            os.rename(self.box.path("ext", "link"), link)
        self.extensions()
        self.assertNotIn("left out", self.log(monitor))


scrytest.main()
