// SPDX-License-Identifier: Apache-2.0
// Answers that are slow, or come when somebody has gone on meanwhile: against a server that the tests hold back.
import assert from 'node:assert/strict';
import test from 'node:test';
import { fakeServer, openPage, until } from './harness.mjs';
import { madeUp } from './made_up.mjs';

const session = { user: 'user', rights: ['observe', 'submit'], version: '0.1.0' };
const json = (response, status, value) => void response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));
const task = (id) => ({ id, name: id, program: id, state: 'done', processes: 1, runs_done: 1, runs_wanted: 1, created_seconds: 1e9, began_seconds: 1e9, ended_seconds: 1e9, series: null, error: null, progress: null, left_seconds: null, waits_for: null });
const events = (_request, response) => void response.writeHead(200, { 'Content-Type': 'text/event-stream' }).write('\n');
/** An answer that comes when it is released. */
function held() {
  const one = {};
  one.asked = new Promise((go) => (one.ask = go));
  one.release = new Promise((go) => (one.answer = go));
  return one;
}
const leave = async (page, to) => {
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: to }).click();
  await page.getByRole('heading', { name: to, level: 1 }).waitFor();
};

test('a picture is seen to its end also when each answer takes longer than the time between two', async () => {
  const job = madeUp(4, 1000), broken = [];
  let asked = 0;
  const server = await fakeServer({
    session, jobs: { jobs: [] }, 'jobs/x': { id: 'x', status: 'exited' }, 'jobs/x/picture': (_request, response) => {
      const share = ++asked / 4, late = asked > 1 ? 2000 : 0; // ms
      response.on('close', () => response.writableEnded || broken.push(share));
      setTimeout(() => json(response, 200, { ...job.picture, complete: share >= 1, progress: share }), late);
    },
    'jobs/x/tiles/0/0': () => job.tile(0, 0, 0, 3), 'jobs/x/selection': { functions: [], classes: [], messages: { count: 0, bytes: 0 } }, 'jobs/x/report': (_request, response) => void response.writeHead(404).end(), 'jobs/x/.*': {},
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/x/space`);
  await page.getByRole('progressbar', { name: 'Reading the trace' }).waitFor();
  await page.getByRole('progressbar', { name: 'Reading the trace' }).waitFor({ state: 'detached' });
  assert.deepEqual(broken, []);
});

test('a choice that was made counts, whatever is answered to an earlier one; an answer moves nobody who has gone', async () => {
  const slow = held(), slower = held();
  const of = (name, wait) => async () => {
    wait?.ask();
    await wait?.release;
    return { ...task(name), runs: [{ run: 1, state: 'done', job: `job-of-${name}` }] };
  };
  const server = await fakeServer({
    session, jobs: { jobs: [] }, tasks: { tasks: [task('slow'), task('quick'), task('slower')] }, 'tasks/events': events,
    'tasks/slow': of('slow', slow), 'tasks/quick': of('quick'), 'tasks/slower': of('slower', slower), compare: (_request, response) => json(response, 400, { error: { kind: 'failed', text: 'nothing here' } }),
  });
  const page = await openPage();
  await page.goto(`${server.url}#/compare`);
  const first = page.getByRole('combobox', { name: 'A, the first' });
  await first.selectOption('task:slow');
  await slow.asked;
  await first.selectOption('task:quick');
  await page.waitForURL(/a=job-of-quick/);
  const came = page.waitForResponse(/tasks\/slow$/);
  slow.answer();
  await (await came).finished();
  await page.getByRole('combobox', { name: 'B, the second' }).selectOption('task:quick');
  await page.waitForURL(/b=job-of-quick/);
  assert.match(page.url(), /a=job-of-quick/);
  await first.selectOption('task:slower');
  await slower.asked;
  await leave(page, 'Tasks');
  const late = page.waitForResponse(/tasks\/slower$/);
  slower.answer();
  await (await late).finished();
  await page.getByRole('searchbox').fill('qui');
  await page.waitForURL(/text=qui/);
  assert.doesNotMatch(page.url(), /job-of/);
  assert.deepEqual(page.faults, []);
});

test('who leaves while a task is sent stays where they are; what is typed meanwhile stays, and why it was refused is said', async () => {
  const sent = [held(), held()];
  let at = 0;
  const server = await fakeServer({
    session, jobs: { jobs: [] }, 'tasks/ways': { ways: [{ by: 'plain', available: true, root_variables: [] }] }, 'tasks/check': { command: 'scry submit' }, 'tasks/events': events,
    tasks: async (request, response) => {
      if (request.method !== 'POST') return { tasks: [] };
      const mine = sent[at++];
      mine.ask();
      await mine.release;
      return at === 1 ? { id: 't1' } : json(response, 400, { error: { kind: 'bad_task', text: 'program: it is not there' } });
    },
    'tasks/t1/queue': {},
  });
  const page = await openPage();
  const program = page.getByRole('textbox', { name: 'Program' });
  const submit = async (name, one) => {
    await program.fill(name);
    await page.getByRole('button', { name: 'Submit', exact: true }).click();
    await one.asked;
    await leave(page, 'Tasks');
  };
  await page.goto(`${server.url}#/submit`);
  await submit('one', sent[0]);
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await program.fill('typed meanwhile');
  const queued = page.waitForResponse(/queue$/);
  sent[0].answer();
  await (await queued).finished();
  await leave(page, 'Tasks');
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  assert.equal(await program.inputValue(), 'typed meanwhile');
  await submit('two', sent[1]);
  const refused = page.waitForResponse((response) => response.status() === 400);
  sent[1].answer();
  await (await refused).finished();
  assert.match(page.url(), /#\/tasks$/);
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await page.getByText('it is not there', { exact: true }).waitFor();
  assert.deepEqual(page.faults, []);
});

test('a folder that cannot become an archive is no silent failure', async () => {
  const server = await fakeServer({ session, 'tasks/ways': { ways: [{ by: 'plain', available: true, root_variables: [] }] }, 'tasks/check': { command: 'scry submit' } });
  const page = await openPage();
  await page.goto(`${server.url}#/submit`);
  await page.locator('.drop').evaluate((target) => {
    const name = 'n'.repeat(200), file = { isFile: true, name, file: (done) => done(new File(['x'], name)) }, batches = [[file], []];
    const folder = { isFile: false, name: 'src', createReader: () => ({ readEntries: (done) => done(batches.shift()) }) };
    target.dispatchEvent(Object.assign(new Event('drop', { bubbles: true }), { dataTransfer: { items: [{ webkitGetAsEntry: () => folder }] } }));
  });
  await page.getByText('the path is too long for an archive').waitFor();
  await until(async () => (await page.locator('.given li').count()) === 0, 'nothing was taken');
  assert.deepEqual(page.faults, []);
});

test('a page that nobody sees holds no stream of events, and goes on where it was when it is seen again', async () => {
  const asked = [], top = { id: 'x', status: 'running', wall_seconds: 10, tree: { processes: 1, threads: 1, rss_bytes: 1e6, cpu_seconds: 9, cpu_share: 1 }, layers: { progress: [], scripts: [], python: [], warning: null }, processes: [], ranks: [], functions: [] };
  let open = 0;
  const server = await fakeServer({
    session, jobs: { jobs: [] }, 'jobs/x': top,
    'jobs/x/records': (_request, response, url) => {
      const number = asked.push(url.searchParams.get('behind'));
      open++;
      response.on('close', () => open--);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.write(`id: ${number}\nevent: log\ndata: ${JSON.stringify({ type: 'log', node: 'n1', seq: number, t: number, file: '/x/out.log', pattern: 'p', level: 'info', text: `line ${number}` })}\n\n`);
    },
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/x`);
  await page.getByText('line 1').waitFor();
  const hide = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { configurable: true, value });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  await until(() => open === 0, 'the stream is closed');
  await hide(false);
  await page.getByText('line 2').waitFor();
  assert.deepEqual([asked, open], [[null, '1'], 1]);
  assert.equal(await page.getByText('The stream of records broke').count(), 0);
  await leave(page, 'Jobs');
  await until(() => open === 0, 'it is closed when the page is left');
  assert.deepEqual(page.faults, []);
});
