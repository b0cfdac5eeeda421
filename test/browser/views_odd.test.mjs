// SPDX-License-Identifier: Apache-2.0
// The pictures of jobs that are unlike others: thousands of functions, names that are very long or that are markup, threads without MPI,
// statistics without a trace, a trace that was cut, a job that runs. Nothing overflows, nothing hangs, text stays text.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import { openStage, rounds, serveStage, shoot, until, variant, violations } from './harness.mjs';

const LONG = 'a_very_long_name_'.repeat(30), MARKUP = '<script>alert(1)</script>', MARK = 'z'.repeat(MARKUP.length), FUNCTIONS = rounds(1000, 3000);
const PROGRAM = `#include <pthread.h>
#include <unistd.h>
static volatile int sink;
static void ${LONG}(int n) { for (int i = 0; i < n; i++) sink++; }
void ${MARK}(int n) { for (int i = 0; i < n; i++) sink++; }
static void *run(void *n) { for (int i = 0; i < 20; i++) { ${LONG}(20000); ${MARK}(3000); } return n; }
${Array.from({ length: FUNCTIONS }, (_, i) => `static void f${i}(void) { sink++; }`).join('\n')}
int main(int argc, char **argv)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    ${Array.from({ length: FUNCTIONS }, (_, i) => `f${i}();`).join(' ')}
    while (argc > 1) { ${MARK}(1000); usleep(1000); }
    return 0;
}
`;
const VIEWS = ['space', 'functions', 'communication', 'matrix', 'distributions', 'tree', 'values', 'source'];
let stage, server, odd, stats, cut;

before(async () => {
  stage = await openStage();
  const program = path.join(stage.work, 'odd');
  stage.write('odd.c', PROGRAM);
  execFileSync('gcc', ['-g', '-O0', '-finstrument-functions', 'odd.c', '-o', 'odd', '-lpthread'], { cwd: stage.work });
  fs.writeFileSync(program, Buffer.from(fs.readFileSync(program, 'latin1').replaceAll(MARK, MARKUP), 'latin1'));
  const report = async (name, args) => {
    await stage.run(['run', '--name', name, ...args]);
    return JSON.parse((await stage.run(['report', '--json', name])).out);
  };
  odd = await report('odd', ['--trace', 'fn:*', '--', './odd']);
  cut = await report('cut', ['--trace', 'fn:*', '--', './odd']);
  for (const name of fs.readdirSync(path.join(cut.path, 'trace'), { recursive: true })) {
    const file = path.join(cut.path, 'trace', name), state = fs.statSync(file);
    if (state.isFile() && path.basename(name) !== 'metadata') fs.truncateSync(file, Math.floor(state.size * 0.6));
  }
  stats = await report('stats', ['--mpi', 'stats', '--', 'true']);
  server = await serveStage(stage);
});

const at = (id, view) => server.open(`#/jobs/${id}/${view}`);
const there = (page) => page.locator('section.picture, .empty').first().waitFor();

test('thousands of functions, long names, markup as a name: figures stay in sight, text stays text', async () => {
  const page = await at(odd.id, 'functions');
  await page.getByText(MARKUP).first().waitFor();
  await page.getByText(`${odd.functions.filter((one) => one.self_ns > 0).length - 20} others`).waitFor();
  for (const [width, colorScheme] of rounds([[1400, 'light'], [360, 'dark']], [[1400, 'light'], [768, 'light'], [360, 'dark']])) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    for (const view of VIEWS) {
      await page.evaluate((hash) => (location.hash = hash), `#/jobs/${odd.id}/${view}`);
      await there(page);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} is no wider than ${width}`);
      if (view === 'space') {
        const sums = page.getByRole('table', { name: 'Functions in this part' });
        await sums.getByText(LONG.slice(0, 20)).first().waitFor();
        const [right, figure] = [await page.locator('.space-side').boundingBox(), await sums.locator('td.col-self').first().boundingBox()];
        assert.ok(figure.x + figure.width <= right.x + right.width + 1, `the figures are in the panel of ${width}`);
      }
      await shoot(page, `odd-${view}-${width}`, { fullPage: false });
    }
  }
  await page.evaluate((hash) => (location.hash = hash), `#/jobs/${odd.id}/space`); // looking through thousands of lines takes long
  await there(page);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.faults, []);
});

test('a trace that was cut shows what is left of it; without MPI and trace each picture says so', async () => {
  const page = await at(cut.id, 'space');
  await until(() => page.evaluate(() => document.querySelector('.space-canvas canvas')?.control?.scene.picture.complete), 'what is left was read');
  assert.ok((await page.evaluate(() => document.querySelector('.space-canvas canvas').control.scene.picture.lanes.length)) > 0);
  await shoot(page, 'cut-space');
  for (const [id, views] of [[cut.id, VIEWS], [stats.id, VIEWS]])
    for (const view of views) {
      await page.evaluate((hash) => (location.hash = hash), `#/jobs/${id}/${view}`);
      await there(page);
    }
  assert.deepEqual(page.faults, []);
});

variant('a job that runs grows in the picture', async () => {
  const child = stage.start(['run', '--name', 'runs', '--trace', 'fn:*', '--', './odd', 'on']);
  let id;
  await until(async () => (id = JSON.parse((await stage.run(['ps', '--json'])).out).jobs.find((job) => job.name === 'runs')?.id), 'it is listed');
  const page = await at(id, 'space'), known = () => page.evaluate(() => document.querySelector('.space-canvas canvas')?.control?.scene.picture.until_ns ?? 0);
  const first = await until(known, 'a picture');
  await until(async () => (await known()) > first, 'it grows');
  await page.getByText('The job runs: it is known up to').waitFor();
  const sum = () => page.getByRole('table', { name: 'Functions in this part' }).getByRole('row', { name: MARKUP }).locator('.col-calls').innerText().then((text) => Number(text.replace(/\D/g, '')));
  const calls = await sum();
  await until(async () => (await sum()) > calls, 'its sums grow');
  await shoot(page, 'runs-space');
  await stage.end(child);
  assert.deepEqual(page.faults, []);
});
