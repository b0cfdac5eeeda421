# SPDX-License-Identifier: Apache-2.0
"""How long `scry site` takes for many jobs, an hour of figures and four ranks each, made from a real one:

    bench_site.py [JOBS]

Goal: 1000 jobs in less than a second, from the start of the command to its end. The floor is sqlite3, which reads the same rows.
"""

import glob
import os
import statistics
import subprocess
import sys
import time

from benchlib import BUILD, interval

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "test", "system"))
os.environ.setdefault("SCRY_BUILD", BUILD)

import recordtest  # pylint: disable=wrong-import-position
import scrytest  # pylint: disable=wrong-import-position
import sitetest  # pylint: disable=wrong-import-position

PAIRS, MADE = 20, 50
READ = "SELECT * FROM job_list; SELECT * FROM minutes; SELECT * FROM ranks"


def seconds(box, command):
    began = time.monotonic()
    done = subprocess.run(command, env=box.env, check=True, stdout=subprocess.PIPE)
    return time.monotonic() - began, len(done.stdout)


def main():
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    box = scrytest.Sandbox()
    try:
        box.run(box.scry("run", "-q", "--", "true"))
        maker = sitetest.Maker(box, glob.glob(box.path("jobs", "2*"))[0])
        for number in range(MADE):
            maker.job(f"job{number}", minutes=60, user=f"u{number % 10}", node=f"n{number}", ranks=(900, 5, 5, 5) if number % 10 == 0 else (9, 9, 9, 9),
                      used=0.1 if number % 5 == 0 else 3.0)
        record = recordtest.Sqlite(box)
        maker.take(record)
        sitetest.multiply(record, jobs // MADE)
        ours, floor = [], []
        for _ in range(PAIRS):
            ours.append(seconds(box, box.scry("site", "--json"))[0])
            floor.append(seconds(box, [recordtest.SQLITE, os.path.join(record.place, "record.db"), READ])[0])
        low, high = interval([one / other for one, other in zip(ours, floor)])
        print(f"{jobs} jobs: {statistics.median(ours):.3f} s; sqlite3 reads their rows in {statistics.median(floor):.3f} s; "
              f"ratio {statistics.median(ours) / statistics.median(floor):.2f} ({low:.2f} to {high:.2f})")
    finally:
        box.close()


main()
