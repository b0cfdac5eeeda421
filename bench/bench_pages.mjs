// SPDX-License-Identifier: Apache-2.0
// What somebody waits for who looks at a large job in a browser:
//
//     bench_pages.mjs [RANKS [STEPS]]
//
// 16 ranks make about 520 calls each a step, by default 620 steps: ten million events (64 ranks: 155 steps). Chromium asks the real
// server. Goals: the first picture within a second, cold (nothing has read the trace) and warm; while one moves and zooms, frames as
// often as in a page in which nothing happens. So frames are compared with those, measured in the same minute.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { openPage, openStage, ownDirectory, serveStage, until } from '../test/browser/harness.mjs';

const [ranks = 16, steps = Math.round(9920 / ranks)] = process.argv.slice(2).map(Number);
const at = (list, share) => list.toSorted((a, b) => a - b)[Math.floor(list.length * share)];
const frames = (list) => `p50 ${at(list, 0.5).toFixed(1)} ms, p95 ${at(list, 0.95).toFixed(1)} ms, p99 ${at(list, 0.99).toFixed(1)} ms`;

/** Resident memory of a program below a process, at its highest, in MB. */
function peak(pid, name) {
  let most = 0;
  for (const child of fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)) {
    const status = fs.readFileSync(`/proc/${child}/status`, 'utf8');
    most = Math.max(most, peak(child, name), status.startsWith(`Name:\t${name}\n`) ? Number(/VmHWM:\s*(\d+)/.exec(status)[1]) / 1024 : 0);
  }
  return most;
}

test('the pages of a large job', { timeout: 1_800_000 }, async (t) => {
  const stage = await openStage(), program = path.join(ownDirectory(), 'view_target');
  execFileSync('mpicc.openmpi', ['-g', '-O1', '-finstrument-functions', path.join(import.meta.dirname, 'view_target.c'), '-o', program]);
  const made = await stage.run(['run', '--name', 'large', '--overflow', 'wait', '--max-size', '8G', '--trace', 'fn:*', '--mpi', 'trace', '--',
    'mpirun.openmpi', '--oversubscribe', '-n', String(ranks), program, String(steps)], { env: { OMPI_MCA_mpi_yield_when_idle: '1' } });
  if (made.status !== 0) throw new Error(made.err);
  const { id } = JSON.parse((await stage.run(['report', '--json', 'large'])).out);
  const server = await serveStage(stage), page = await openPage({ reducedMotion: 'no-preference' });
  await page.goto(await server.link());
  await page.getByRole('heading', { name: 'Jobs' }).waitFor();
  const address = `${server.first.split('#')[0]}#/jobs/${id}/space`;

  /** In ms since the page began to load: something of the trace is painted; all of it is known. */
  const look = async () => {
    await page.goto('about:blank');
    await page.goto(address);
    const painted = await page.waitForFunction(() => {
      const control = document.querySelector('.space-canvas canvas')?.control;
      if (!control?.drawing.strips.strips.size) return 0;
      for (const strip of control.drawing.strips.strips.values())
        if (strip.tile.lanes.some((lane) => lane.columnFunction?.some((id) => id >= 0) || lane.count)) return performance.now();
      return 0;
    }, null, { polling: 'raf' });
    const first = await painted.jsonValue();
    const all = await page.waitForFunction(() => document.querySelector('.space-canvas canvas').control.scene.picture.complete && performance.now(), null, { polling: 'raf' });
    return [first, await all.jsonValue()];
  };
  const [cold, known] = await look(), [warm] = await look();
  const calls = await page.evaluate(() => document.querySelector('.space-canvas canvas').control.scene.picture.lanes.reduce((sum, lane) => sum + lane.calls, 0));
  t.diagnostic(`${(2 * calls / 1e6).toFixed(1)} million events of ${ranks} ranks`);
  t.diagnostic(`first paint: cold ${Math.round(cold)} ms, all of it known after ${Math.round(known)} ms; warm ${Math.round(warm)} ms`);

  const settled = () => until(() => page.evaluate(() => document.querySelector('.space-canvas canvas').control.settled), 'all tiles are there');
  await settled();
  /** Lengths of frames while the window does this each frame: step of its width, factor. */
  const moving = (part, step, factor, count) => page.evaluate(async ([part, step, factor, count]) => {
    const { control } = document.querySelector('.space-canvas canvas'), { whole } = control.scene, list = [];
    const middle = (whole.from + whole.to) / 2, half = (whole.to - whole.from) * part / 2;
    control.go({ from: middle - half, to: middle + half }, false);
    for (let i = 0, last = await new Promise(requestAnimationFrame); i < count; i++) {
      const { from, to } = control.view, width = to - from;
      if (step || factor !== 1) control.go({ from: from + width * (step + (1 - factor) / 2), to: to + width * (step - (1 - factor) / 2) }, false);
      const now = await new Promise(requestAnimationFrame);
      list.push(now - last);
      last = now;
    }
    return list;
  }, [part, step, factor, count]);
  t.diagnostic(`frames, nothing moves: ${frames(await moving(1, 0, 1, 300))}`);
  for (const part of [0.5, 0.05, 0.002, 0.00005])
    t.diagnostic(`frames, moving in 1/${Math.round(1 / part)} of it: ${frames(await moving(part, 0.004, 1, 300))}`);
  t.diagnostic(`frames, from all to 1/20000: ${frames(await moving(1, 0, 0.97, 325))}`);
  t.diagnostic(`frames, nothing moves: ${frames(await moving(1, 0, 1, 300))}`);
  t.diagnostic(`memory: scry-view ${Math.round(peak(server.child.pid, 'scry-view'))} MB at most, the page ${Math.round(await page.evaluate(() => performance.memory.usedJSHeapSize / 2 ** 20))} MB`);
});
