// SPDX-License-Identifier: Apache-2.0
// The space-time diagram of a made-up job of 64 ranks and ten million events, and of one of a thousand ranks: what a frame costs, that
// nothing piles up, and that one gets everywhere. Times are printed, and only what is our own work in a frame is judged.
import assert from 'node:assert/strict';
import test from 'node:test';
import { fakeServer, openPage, shoot, until, variant, violations } from './harness.mjs';
import { madeUp } from './made_up.mjs';

async function open(lanes, events, hash = '') {
  const job = madeUp(lanes, events), asked = { tiles: 0, open: 0, most: 0 };
  const server = await fakeServer({
    session: { user: 'user', rights: ['observe'], version: '0.1.0' },
    'jobs/x': { id: 'x', name: 'ocean', host: 'here', argv: ['ocean'], started_seconds: 1e9, status: 'ended', exit_code: 0 },
    'jobs/x/picture': job.picture,
    'jobs/x/tiles/\\d+/\\d+': async (_request, _response, url) => {
      asked.tiles++;
      asked.most = Math.max(asked.most, ++asked.open);
      await new Promise(setImmediate);
      asked.open--;
      const [level, index] = url.pathname.split('/').slice(-2).map(Number), [first, last] = url.searchParams.get('lanes').split('-').map(Number);
      return job.tile(level, index, first, last);
    },
    'jobs/x/selection': { functions: [], classes: [], messages: { count: 0, bytes: 0 } },
    'jobs/x/search': (_request, _response, url) => {
      const from = Number(url.searchParams.get('from') ?? 0), calls = Array.from({ length: 1000 }, (_, i) => ({ lane: i % lanes, begin: from + i * 1e6, end: from + i * 1e6 + 4e5, depth: 2, function: 2 }));
      return from < 2e9 ? { calls, complete: from >= 1e9, next_ns: from + 1e9 } : { calls: [], complete: true };
    },
    'jobs/x/report': (_request, response) => void response.writeHead(404).end(), 'jobs/x/.*': {},
  });
  const page = await openPage();
  const began = performance.now();
  await page.goto(`${server.url}#/jobs/x/space${hash}`);
  const settled = () => until(() => page.evaluate(() => document.querySelector('.space-canvas canvas')?.control?.settled), 'all tiles are there');
  await until(() => page.evaluate(() => document.querySelector('.space-canvas canvas')?.control?.scene.tiles.get(0, 0, 0) !== undefined), 'the first tile');
  return { page, asked, settled, first: performance.now() - began };
}

test('ten million events of 64 ranks: moving costs little at all scales, and asks for little', async (t) => {
  const { page, asked, settled, first } = await open(64, 1e7);
  t.diagnostic(`the first tiles are there after ${Math.round(first)} ms`);
  await settled();
  for (const width of [5e10, 1e9, 5e7, 5e6]) {
    await page.evaluate((w) => document.querySelector('.space-canvas canvas').control.go({ from: 3e10, to: 3e10 + w }, false), width);
    await settled();
    const { frames, work } = await page.evaluate(async (w) => {
      const { control } = document.querySelector('.space-canvas canvas'), before = control.frames, frames = [];
      for (let i = 0, last = await new Promise(requestAnimationFrame); i < 60; i++) {
        control.go({ from: control.view.from + w * 0.004, to: control.view.to + w * 0.004 }, false);
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - last);
        last = now;
      }
      return { frames, work: Array.from({ length: Math.min(512, control.frames - before) }, (_, i) => control.frameWork[(control.frames - 1 - i) & 511]) };
    }, width);
    const at = (list, share) => list.sort((a, b) => a - b)[Math.floor(list.length * share)];
    t.diagnostic(`${width / 1e6} ms: a frame each ${at(frames, 0.5).toFixed(1)} ms, p95 ${at(frames, 0.95).toFixed(1)}; our work in it ${at(work, 0.5).toFixed(1)} ms, p95 ${at(work, 0.95).toFixed(1)}`);
    assert.ok(at(work, 0.5) < 16.7, `half of the frames cost ${at(work, 0.5)} ms`);
  }
  assert.ok(asked.tiles < 400 && asked.most <= 6, `${asked.tiles} tiles, ${asked.most} at once`);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.faults, []);
});

variant('a thousand ranks scroll, by keys too; searches go on behind a thousand calls, both ways', async () => {
  const { page, settled } = await open(1000, 1e6, '?q=do_jacobi&shape=flat');
  await settled();
  await page.locator('.space-canvas canvas').focus();
  for (let i = 0; i < 20; i++) await page.keyboard.press('PageDown');
  await page.getByTitle(/^rank 99[89]:/).first().waitFor(); // not each of such narrow lanes has its name
  await settled();
  await shoot(page, 'space-many');
  const count = page.locator('.space-count');
  await count.filter({ hasText: /1.000 and more/ }).waitFor();
  await page.getByRole('button', { name: 'The one before' }).click();
  await count.filter({ hasText: /1.000 of 1.000 and more/ }).waitFor();
  await page.keyboard.press('Tab'); // to "the next one"
  await page.keyboard.press('Enter');
  await count.filter({ hasText: /1.001 of 2.000/ }).waitFor();
  await page.getByRole('button', { name: 'The one before' }).click();
  await count.filter({ hasText: /1.000 of 1.000 and more/ }).waitFor();
  assert.deepEqual(page.faults, []);
});
