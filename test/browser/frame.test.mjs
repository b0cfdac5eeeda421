// SPDX-License-Identifier: Apache-2.0
// What stands around each page: the session, the address, the line to the server, help; and the parts that pages are made of.
import assert from 'node:assert/strict';
import test from 'node:test';
import { fakeServer, openPage, shoot, until, variant, violations } from './harness.mjs';

const session = { user: 'user', rights: ['observe', 'control', 'site'], version: '0.1.0' };
const job = { id: '20260101T000000-n1-1-aaaaaa', path: '/x', state: 'running', status: 'running', name: 'long', host: 'n1', argv: ['./long'], started_seconds: 1767225600, batch: null, exit_code: null, signal: null, wall_seconds: 10, cpu_seconds: 9, peak_tree_rss_bytes: 1e6, progress: null, processes: [], ranks: [] };
const top = { id: job.id, status: 'running', wall_seconds: 10, tree: { processes: 1, threads: 1, rss_bytes: 1e6, cpu_seconds: 9, cpu_share: 1 }, node: null, layers: { progress: [], scripts: [], python: [], functions: null, log: null, health: null, warning: null }, processes: [], ranks: [], functions: [], metrics: [] };
const api = { session, jobs: { jobs: [job] }, [`jobs/${job.id}`]: top };
const json = (response, status, value) => void response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value));

test('the token of a link leaves the address, and is given for a session, behind any prefix', async () => {
  let given;
  const server = await fakeServer({
    ...api,
    session: async (request) => {
      let body = '';
      for await (const part of request) body += part;
      if (request.method === 'POST') given = JSON.parse(body).token;
      return session;
    },
  }, '/behind/a/proxy/');
  const page = await openPage();
  await page.goto(server.url + '#token=abc%2Bdef');
  await page.getByRole('heading', { name: 'Jobs' }).waitFor();
  assert.equal(given, 'abc+def');
  assert.doesNotMatch(page.url(), /token|abc/);
  assert.deepEqual(page.faults, []);
});

test('without a session the page says how to get one; when one ends, what was there stays', async () => {
  let good = false;
  const guarded = (answer) => (request, response) => (good ? answer : json(response, 401, { error: { kind: 'session', text: 'no session' } }));
  const server = await fakeServer({ session: guarded(session), jobs: guarded(api.jobs) });
  const page = await openPage();
  await page.goto(server.url);
  await page.getByText('scry serve --link').waitFor();
  assert.deepEqual(await violations(page), []);
  good = true;
  await page.reload();
  await page.getByRole('link', { name: 'long' }).waitFor();
  good = false;
  await page.getByText('Your session is over').waitFor();
  assert.equal(await page.getByRole('link', { name: 'long' }).count(), 1);
  assert.deepEqual(page.faults, []);
});

test('a server that goes away and comes back', async () => {
  const server = await fakeServer(api);
  const page = await openPage();
  await page.goto(server.url);
  await page.getByRole('link', { name: 'long' }).waitFor();
  await page.context().setOffline(true);
  await page.getByText('The server does not answer').waitFor();
  assert.equal(await page.getByRole('link', { name: 'long' }).count(), 1, 'what was there stays');
  await shoot(page, 'offline');
  await page.context().setOffline(false);
  await page.getByText('The server does not answer').waitFor({ state: 'detached' });
  assert.deepEqual(page.faults, []);
});

variant('a proxy whose server starts anew', async () => {
  let starts = false;
  let dialled = 0;
  const gone = (response) => void response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>502 Bad Gateway</h1>');
  const record = { job: job.id, node: 'n1', stream: 'x', seq: 1, t: 1, type: 'log', file: '/x/out.log', pattern: 'p', level: 'error', text: 'first line', text_cut: false, line: 1, folded: 0, fields: {} };
  const server = await fakeServer({
    ...api,
    jobs: (_request, response) => (starts ? gone(response) : api.jobs),
    'jobs/[^/]+/records': (_request, response) => {
      if (dialled++ === 0) return gone(response);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      response.write(`id: 1\nevent: log\ndata: ${JSON.stringify(record)}\n\n`);
    },
  });
  const page = await openPage();
  await page.goto(server.url);
  await page.getByRole('link', { name: 'long' }).waitFor();
  starts = true;
  await page.getByText('The server does not answer').waitFor();
  starts = false;
  await page.getByText('The server does not answer').waitFor({ state: 'detached' });
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByText('first line').waitFor();
  assert.equal(dialled, 2);
  assert.deepEqual(page.faults, []);
});

test('the stream goes on where it broke, and a record that comes twice counts once', async () => {
  const asked = [];
  const record = (seq, more) => `id: ${seq}\nevent: ${more.type}\ndata: ${JSON.stringify({ job: job.id, node: 'n1', stream: 'x', seq, t: seq, ...more })}\n\n`;
  const log = (seq, text) => record(seq, { type: 'log', file: '/x/out.log', pattern: 'p', level: 'error', text, text_cut: false, line: seq, folded: 0, fields: {} });
  const server = await fakeServer({
    ...api,
    'jobs/[^/]+/records': (request, response) => {
      asked.push(new URL(request.url, server.url).searchParams.get('behind')); // over HTTP/2 the header would not do
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      if (asked.length === 1) response.end('retry: 50\n\n' + log(1, 'first line') + log(2, 'second <b>line</b>'));
      else response.write(log(3, 'third line'));
    },
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByText('third line').waitFor();
  await page.getByText('second <b>line</b>').waitFor();
  assert.equal(await page.locator('.log li').count(), 3);
  assert.deepEqual(asked.slice(0, 2), [null, '2']);
  assert.deepEqual(page.faults, []);
});

test('what the server refuses is said, with a way to ask again', async () => {
  let broken = true;
  const server = await fakeServer({ ...api, jobs: (request, response) => (broken ? json(response, 503, { error: { kind: 'busy', text: 'too many questions at once; ask again in a moment' } }) : api.jobs) });
  const page = await openPage();
  await page.goto(server.url);
  await page.getByText('too many questions at once').waitFor();
  broken = false;
  await page.getByRole('button', { name: 'Ask again' }).click();
  await page.getByRole('link', { name: 'long' }).waitFor();
  await page.goto(`${server.url}#/jobs/gone`);
  await page.getByRole('heading', { name: 'There is no such job.' }).waitFor();
  await page.goto(`${server.url}#/nowhere`);
  await page.getByText('There is no such page').waitFor();
  assert.deepEqual(page.faults, []);
});

test('from a problem of the site to its job; the list says what it leaves out', async () => {
  const problem = { rule: 'unused', node: 'n1', job: { owner: 'user', id: job.id, name: 'long' }, value: 1, of: 16, unit: 'cpus', text: '1 of 16', advice: 'ask for 1' };
  const server = await fakeServer({
    ...api, site: { time: 0, since_seconds: 86400, jobs: 1, states: [], reasons: [{ cause: 'log', jobs: 3, text: 'mesh is empty', owner: 'user', id: job.id, newest: [`user/${job.id}`] }], nodes: [], users: [], problems: [problem] }, [`jobs/${job.id}`]: top,
    jobs: { jobs: [{ ...job, ranks: [rankIn(0, 120), rankIn(1, 90)] }], notes: ['drop/<b> is left out'] },
  });
  const page = await openPage();
  await page.goto(`${server.url}#/site`);
  await page.getByRole('table', { name: 'Nodes' }).waitFor();
  assert.deepEqual((await page.getByRole('table', { name: 'Nodes' }).locator('th').allInnerTexts()).map((text) => text.replace('▲', '').trim()).slice(0, 5), ['Node', 'Running', 'Jobs', 'Failed', 'Unreachable']);
  assert.deepEqual(await page.getByRole('table', { name: 'Failures' }).locator('td').allInnerTexts(), ['3', 'mesh is empty'], 'why jobs failed, as scry site says');
  await page.getByRole('table', { name: 'Problems' }).getByRole('link', { name: 'long' }).click();
  await page.getByRole('heading', { name: 'Control' }).waitFor();
  await page.goto(`${server.url}#/jobs`);
  await page.getByText('drop/<b> is left out').waitFor();
  await page.getByRole('cell', { name: 'no rank has moved for 90.0 s' }).waitFor();
  assert.deepEqual(await page.getByRole('group', { name: 'State' }).getByRole('button').allInnerTexts(), ['All', 'Running', 'Failed', 'With errors', 'Finished', 'Unknown']);
  assert.deepEqual(page.faults, []);
});

variant('a site without a record is no fault: the page says how to have one', async () => {
  const server = await fakeServer({ ...api, site: (request, response) => json(response, 422, { error: { kind: 'failed', text: 'there is no record in /x' } }) });
  const page = await openPage();
  await page.goto(`${server.url}#/site`);
  await page.getByText('There is no record in /x.').waitFor();
  await page.getByText('scry record --broker local').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Ask again' }).count(), 0);
  assert.deepEqual(await violations(page), []);
});

test('a signal is sent only after a question', async () => {
  const sent = [];
  const take = async (request) => {
    let body = '';
    for await (const part of request) body += part;
    sent.push([request.url.split('/').pop(), JSON.parse(body)]);
    return {};
  };
  const server = await fakeServer({ ...api, 'jobs/[^/]+/signal': take, 'jobs/[^/]+/set': take });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByRole('button', { name: 'Send …' }).click();
  await page.getByText('It gets it at once, and the job may end.').waitFor();
  await page.getByRole('button', { name: 'Leave it' }).click();
  await page.getByRole('textbox', { name: 'Trace' }).fill('fn:solve');
  await page.getByRole('button', { name: 'Set', exact: true }).click();
  await page.getByText('It traces fn:solve.').waitFor();
  assert.deepEqual(sent, [['set', { trace: 'fn:solve' }]]);
  await page.getByRole('button', { name: 'Send …' }).click();
  await page.getByRole('button', { name: 'Send SIGTERM' }).click();
  await page.getByText('SIGTERM was sent.').waitFor();
  assert.deepEqual(sent[1], ['signal', { signal: 'TERM' }]);
  assert.deepEqual(page.faults, []);
});

test('keys: help, jobs, up; colours by the switch, kept', async () => {
  const server = await fakeServer(api);
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByRole('heading', { name: 'long' }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('this window').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Close');
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' }); // until then keys are its own
  await page.keyboard.press('u');
  await page.getByRole('link', { name: 'long' }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('u?');
  assert.equal(await page.getByRole('searchbox').inputValue(), 'u?', 'keys are text where text is typed');
  await page.getByRole('button', { name: /Colours/ }).click();
  await page.getByRole('button', { name: /Colours/ }).click();
  const ground = () => page.evaluate(() => getComputedStyle(document.body).color);
  const dark = await ground();
  await page.reload();
  await page.getByRole('button', { name: 'Colours: dark' }).waitFor();
  assert.equal(await ground(), dark);
  assert.deepEqual(page.faults, []);
});

variant('two keys are one command, whatever is drawn anew between them', async () => {
  const server = await fakeServer(api);
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByRole('heading', { name: 'long' }).waitFor();
  await page.keyboard.press('g');
  await page.context().setOffline(true);
  await page.getByText('The server does not answer').waitFor();
  await page.keyboard.press('j');
  await page.waitForURL(/#\/jobs$/);
  assert.deepEqual(page.faults, []);
});

variant('the form of a task is checked also when the server had too much to do; a folder that takes long to read takes nothing back', async () => {
  let asked = 0;
  const server = await fakeServer({
    session: { ...session, rights: ['submit'] }, 'tasks/ways': { ways: [{ by: 'plain', available: true, root_variables: [] }] },
    'tasks/check': (request, response) => json(response, ...(asked++ ? [400, { error: { kind: 'bad_task', text: 'limits.seconds: it is too long' } }] : [503, { error: { kind: 'busy', text: 'too much is asked' } }])),
  });
  const page = await openPage();
  await page.goto(`${server.url}#/submit`);
  await page.getByRole('textbox', { name: 'Time' }).waitFor();
  await page.getByText('it is too long').waitFor();
  await page.locator('.drop').evaluate((target) => {
    const entry = { isFile: true, name: 'late', file: (done) => (window.readNow = () => done(new File(['x'], 'late'))) };
    target.dispatchEvent(Object.assign(new Event('drop', { bubbles: true }), { dataTransfer: { items: [{ webkitGetAsEntry: () => entry }] } }));
  });
  await page.getByRole('textbox', { name: 'Arguments' }).fill('typed meanwhile');
  await page.evaluate(() => window.readNow());
  await page.getByRole('button', { name: 'Leave out late' }).waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'Arguments' }).inputValue(), 'typed meanwhile');
  assert.equal(await page.getByRole('textbox', { name: 'Program' }).inputValue(), 'late', 'the only file is what runs');
  assert.deepEqual(page.faults, []);
});

test('after a fault of one page another one can be opened', async () => {
  const over = { ...job, state: 'ended', status: 'exited', exit_code: 0 };
  const server = await fakeServer({ ...api, jobs: { jobs: [over] }, [`jobs/${job.id}`]: { ...top, status: 'exited' }, [`jobs/${job.id}/report`]: {} });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByText('This page has a fault').waitFor();
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('table', { name: 'Jobs' }).waitFor();
  assert.equal(await page.getByText('This page has a fault').count(), 0);
});

variant('keys of a table mean the row that has the focus, whatever came before it meanwhile', async () => {
  const named = (name, at) => ({ ...job, id: `2026-${name}`, name, started_seconds: job.started_seconds + at });
  const jobs = [named('first', 0), named('second', 1)];
  const server = await fakeServer({ ...api, jobs: () => ({ jobs }) });
  const page = await openPage();
  await page.goto(server.url);
  await page.getByRole('row', { name: /second/ }).focus();
  jobs.push(named('third', 2));
  await page.getByRole('row', { name: /third/ }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent);
  assert.match(await focused(), /second/);
  await page.keyboard.press('ArrowDown');
  await until(async () => /first/.test(await focused()), 'the row below has the focus');
  await page.keyboard.press('ArrowUp');
  await until(async () => /second/.test(await focused()), 'the row has the focus again');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'second' }).waitFor();
  assert.match(page.url(), /2026-second/);
});

test('a function whose name has spaces is found in the call tree; the pair that is pointed at stays in a matrix that is looked at closer', async () => {
  const node = (name, parent) => ({ function: name, class: 'compute', parent, calls: 1, total_ns: 100, self_ns: 50 });
  const matrix = Array.from({ length: 8 }, (_, from) => ({ world: 0, from, to: 7 - from, messages: 1, bytes: 8, received_messages: 1, received_bytes: 9, one_sided: 0, one_sided_bytes: 0 }));
  const server = await fakeServer({
    ...api, [`jobs/${job.id}/profile`]: { processes: [], functions: [], python_functions: [] }, [`jobs/${job.id}/tree`]: { nodes: [node('main', null), node('operator new(unsigned long)', 0), node('operate', 0)] },
    [`jobs/${job.id}/report`]: { mpi: { matrix } }, [`jobs/${job.id}/volume`]: { processes: [], calls: [], notes: [] },
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}/tree`);
  const find = page.getByRole('searchbox', { name: 'Find functions' });
  await find.pressSequentially('operator new(');
  assert.equal(await find.inputValue(), 'operator new(');
  await page.getByText(/^100 % of the time$/).waitFor();
  await page.goto(`${server.url}#/jobs/${job.id}/matrix`);
  const picture = page.getByRole('application');
  await picture.focus();
  const marked = () => picture.evaluate((canvas, bad) => new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer).includes(bad), 0xff1e26b3);
  for (let i = 0; i < 7; i++) for (const key of ['ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
  await page.getByText('rank 7 → rank 7').waitFor();
  const first = page.getByRole('table', { name: 'Pairs of ranks' }).locator('tbody tr').first();
  assert.deepEqual(await first.locator('td').allInnerTexts(), ['0', '7', '1', '8 B', '9 B']);
  assert.ok(await marked());
  await page.keyboard.press('+');
  await page.getByText('ranks 4–7 of 8').waitFor();
  assert.ok(await marked());
  assert.deepEqual(page.faults, []);
});

test('of two runs that are compared each has its own columns', async () => {
  const calls = [{ name: 'MPI_Wtime', a: { calls: 2, total_ns: 0, bytes: 0 }, b: { calls: 2, total_ns: 0, bytes: 0 } }, { name: 'MPI_Send', a: { calls: 1, total_ns: 1000, bytes: 2048 }, b: { calls: 3, total_ns: 4000, bytes: 5120 } }];
  const values = [{ name: 'process_count', a: 6, b: 7, ratio: 7 / 6 }];
  const server = await fakeServer({ ...api, tasks: { tasks: [] }, compare: { a: { id: 'a', status: 'exited', exit_code: 0, signal: null }, b: { id: 'b', status: 'exited', exit_code: 2, signal: null }, verdict: null, values, functions: [], mpi: { values: [], calls } } });
  const page = await openPage();
  await page.goto(`${server.url}#/compare?a=a&b=b`);
  const cells = (name) => page.getByRole('table', { name }).locator('tbody td').allTextContents();
  await page.getByRole('table', { name: 'Calls of MPI of both' }).waitFor();
  assert.deepEqual(await cells('Calls of MPI of both'), ['MPI_Send', '1', '3', '1.00 us', '4.00 us', '+3.00 us', '4.00 ×', '2.0 KB', '5.0 KB', 'MPI_Wtime', '2', '2', '–', '–', '', '', '', '']);
  assert.deepEqual(await cells('Figures of both'), ['Outcome', '✓finished', '✗exit status 2', '', 'Processes', '6', '7', '1.17 ×']);
  assert.deepEqual(page.faults, []);
});

test('the design page: each part, in light, dark, on paper and on a phone', async () => {
  const server = await fakeServer(api);
  for (const [name, options] of Object.entries({ light: {}, dark: { colorScheme: 'dark' }, phone: { viewport: { width: 360, height: 740 } } })) {
    const page = await openPage(options);
    await page.goto(`${server.url}#/design`);
    await page.getByRole('heading', { name: 'Design' }).waitFor();
    assert.deepEqual(await violations(page, { contrast: name !== 'phone' }), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: wider than its window`);
    await shoot(page, `design-${name}`);
    if (name === 'light') {
      await page.emulateMedia({ media: 'print' });
      await shoot(page, 'design-print');
    }
    assert.deepEqual(page.faults, []);
    await page.context().close();
  }
});

test('the check of contrast looks at each row that differs', async () => {
  const page = await openPage();
  const rows = (style) => Array.from({ length: 40 }, (_, i) => `<tr><td ${i === 30 ? style : ''}>row ${i}</td></tr>`).join('');
  for (const [style, found] of [['', []], ['style="color: #eee"', ['color-contrast']]]) {
    await page.setContent(`<html lang="en"><title>A page</title><main><h1>A page</h1><table><tbody>${rows(style)}</tbody></table></main>`);
    assert.deepEqual((await violations(page)).map((one) => one.split(':')[0]), found);
  }
});

test('a table of 100 000 rows has only those in sight in the page, and all by keys', async () => {
  const server = await fakeServer(api);
  const page = await openPage();
  await page.goto(`${server.url}#/design`);
  const table = page.getByRole('table', { name: 'An example of a table' });
  const rows = table.locator('tbody tr:not(.spacer)');
  await rows.first().waitFor();
  assert.equal(await table.getAttribute('aria-rowcount'), '100001');
  assert.ok((await rows.count()) < 100);
  await rows.first().focus();
  await page.keyboard.press('End');
  await until(() => page.evaluate(() => document.activeElement.getAttribute('aria-rowindex') === '100001'), 'the last row has the focus');
  await page.keyboard.press('Home');
  await until(() => page.evaluate(() => document.activeElement.getAttribute('aria-rowindex') === '2'), 'the first row has the focus');
  await table.getByRole('button', { name: 'Time' }).click();
  await page.waitForURL(/design=-time/);
  assert.equal(await table.getByRole('columnheader', { name: 'Time' }).getAttribute('aria-sort'), 'descending');
  assert.deepEqual(page.faults, []);
});

variant('jobs of several users have their users; what is too long in a list is cut where the list ends, and ends in dots', async () => {
  const one = (i, user, more) => ({ ...job, id: `${job.id}${i}`, name: `job${i}${'_long_name'.repeat(20)}`, user, argv: ['./program', '--with', 'many words '.repeat(40)], ...more });
  const own = [one(1, 'ann'), one(2, 'ann', { progress: { source: 'log', done: 1, total: 2, share: 0.5, left_seconds: 600 } })];
  let jobs = own;
  const server = await fakeServer({ ...api, jobs: () => ({ jobs }) });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs`);
  await page.getByRole('link', { name: /^job2/ }).waitFor();
  assert.equal(await page.getByRole('columnheader', { name: 'User' }).count(), 0, 'all are of one');
  for (const width of [1400, 1150]) {
    await page.setViewportSize({ width, height: 800 });
    const [box, cell] = [page.locator('.table-box'), page.locator('td.col-command').first()];
    assert.ok(await box.evaluate((of) => of.scrollWidth <= of.clientWidth), `${width}: nothing is beyond the list's end`);
    assert.ok(await cell.evaluate((of) => of.scrollWidth > of.clientWidth && getComputedStyle(of).textOverflow === 'ellipsis'), `${width}: cut`);
  }
  jobs = [...own, one(3, 'bob', { state: 'ended', status: 'signaled', signal: 9, wall_seconds: 3700 })];
  await page.reload();
  await page.getByRole('columnheader', { name: 'User' }).waitFor();
  await page.getByRole('searchbox').fill('bob');
  await until(async () => (await page.locator('tbody tr').count()) === 1, 'that of bob');
  await page.setViewportSize({ width: 360, height: 740 });
  assert.ok(await page.locator('.table-box').evaluate((of) => of.scrollWidth <= of.clientWidth), 'nor on a phone');
  assert.deepEqual(page.faults, []);
});

variant('a job that its own key has not signed is called unsigned, in the list and on its page', async () => {
  const one = (i, signed) => ({ ...job, id: `${job.id}${i}`, name: `job${i}`, ...(signed === undefined ? {} : { signed }) });
  const jobs = [one(1, true), one(2, null), one(3), one(4, false)];
  const server = await fakeServer({ ...api, jobs: { jobs }, ...Object.fromEntries(jobs.map(({ id }) => [`jobs/${id}`, { ...top, id }])) });
  for (const viewport of [{ width: 1440, height: 900 }, { width: 360, height: 740 }]) {
    const page = await openPage({ viewport });
    await page.goto(`${server.url}#/jobs`);
    await page.getByRole('link', { name: 'job4' }).waitFor();
    const rows = page.locator('tbody tr').filter({ hasText: 'unsigned' });
    assert.equal(await rows.count(), 1);
    assert.match(await rows.innerText(), /job4/);
    assert.ok(await page.locator('.table-box').evaluate((of) => of.scrollWidth <= of.clientWidth), `${viewport.width}: nothing is beyond the list's end`);
    for (const { id, signed } of jobs) {
      await page.goto(`${server.url}#/jobs/${id}`);
      await page.getByRole('heading', { name: `job${id.at(-1)}` }).waitFor();
      assert.equal(await page.locator('.job-title').getByText('unsigned').count(), signed === false ? 1 : 0, `${id}: ${signed}`);
    }
    assert.deepEqual(await violations(page, { contrast: viewport.width > 400 }), []);
    assert.deepEqual(page.faults, []);
  }
});

/** Records of a job as its stream has them. */
const recordsOf = (...records) => (request, response) => {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  for (const [seq, record] of records.entries()) response.write(`event: ${record.type}\nid: ${seq}\ndata: ${JSON.stringify({ seq, node: 'n1', ...record })}\n\n`);
};
const sample = (t, cpu_seconds) => ({ type: 'sample', t, tree: { cpu_ns: cpu_seconds * 1e9, rss: 1e6 } });
const rankIn = (rank, since_seconds, state = 'in_call') => ({ rank, mpi_job: '1', host: 'n1', pid: 100 + rank, state, doing: 'MPI_Recv from rank 1', since_seconds, recent_mpi_share: 1, mpi_share: 1, fault: null });
const whyOf = (ranks, findings = [], more = {}) => ({ mpi: { ranks, waiting: ranks.length, polling: 0, computing: 0, stuck: findings.length && ranks.length, still_seconds: 0, findings }, processes: [], deadlocks: [], stall: null, ...more });
const threadIn = (rank) => ({ tid: rank, text: `MPI_Recv from rank ${1 - rank}`, call: 'MPI_Recv', at: { function: 'exchange', file: '/x/ocean.c', line: 17 }, seconds: 6 });

test('a job that runs: what stands still is first, and why is asked by itself; then where it is; nothing is empty', async () => {
  const asked = [], finding = { kind: 'deadlock', text: 'deadlock: 2 ranks wait for each other', ranks: [0, 1], victims: [2] };
  const server = await fakeServer({
    ...api, [`jobs/${job.id}`]: { ...top, silent: [{ node: 'n2', seconds: 40 }], growth: { bytes_per_second: 2 << 20, seconds: 40, limit: 'control group', limit_seconds: 180 }, ranks: [0, 1, 2].map((rank) => ({ ...rankIn(rank, 6), old_seconds: rank === 2 ? 40 : 0 })), processes: [{ pid: 100, node: 'n1', name: 'ocean', argv: ['./ocean'], cpu_seconds: 1, peak_rss_bytes: 1e6, threads: 1 }] },
    'jobs/[^/]+/records': recordsOf(sample(8, 1), sample(9, 1.5), sample(10, 1.6), { type: 'warning', t: 9, note: 'processors_taken', kind: 'node', text: 'the node is shared' }),
    'jobs/[^/]+/why': () => (asked.push('why'), whyOf([0, 1, 2].map((rank) => ({ rank, pid: 100 + rank, python: null, threads: [threadIn(rank)] })), [finding])),
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByText('Deadlock: 2 ranks wait for each other').waitFor();
  assert.deepEqual(await page.locator('.panel > h2, .panel > header > h2').allInnerTexts(), ['What it waits for', 'Ranks', 'Health', 'Processes', 'Control']);
  assert.deepEqual(await page.locator('main .notice-title').allInnerTexts(), ['Deadlock: 2 ranks wait for each other', 'n2 has not been heard for 40.0 s.', 'The node is shared.']);
  assert.deepEqual(await page.locator('.notice .why li').allInnerTexts(), [0, 1].map((rank) => `rank ${rank} MPI_Recv from rank ${1 - rank}, at exchange (ocean.c:17), for 6.00 s`));
  await page.getByText('Waiting for these: rank 2').waitFor();
  assert.equal(await page.locator('.why li').count(), 3, 'each rank once');
  await page.getByText('3 ranks: 3 stuck, 0 compute.').waitFor(); // as scry why says it
  assert.deepEqual(await page.getByRole('table', { name: 'Ranks of MPI' }).locator('tbody .col-doing').allInnerTexts(), ['', '', ' (40.0 s ago)'].map((old) => `MPI_Recv from rank 1${old}`));
  await page.getByText('Its memory grows 2.0 MB/s since 40.0 s; at this rate the limit of its control group in 3 min 00 s.').waitFor();
  assert.deepEqual([await page.locator('.sparks').count(), await page.locator('.spark').count(), await page.locator('.uplot').count()], [1, 2, 0], 'health is a row of small curves');
  assert.deepEqual(await page.locator('.tabs .without').allInnerTexts(), ['Space and time', 'Functions', 'Call tree', 'Values']);
  assert.deepEqual(asked, ['why']);
  assert.deepEqual(await violations(page), []);
  await page.setViewportSize({ width: 390, height: 844 }); // navigation is whole, and nothing is beyond the edge
  for (const link of await page.locator('.tabs a, .head nav a').all()) {
    const { x, width } = await link.boundingBox();
    assert.ok(x >= 0 && x + width <= 390, await link.innerText());
  }
  const send = page.getByRole('button', { name: 'Send …' }); // what is pressed seldom is folded there
  await page.getByText('Trace, snapshot, signal').waitFor();
  assert.equal(await send.isVisible(), false);
  await page.getByText('Trace, snapshot, signal').click();
  await send.waitFor();
  await page.setViewportSize({ width: 800, height: 900 });
  for (const link of await page.locator('.tabs a').all()) {
    const { x, width } = await link.boundingBox();
    assert.ok(x >= 0 && x + width <= 800, `${await link.innerText()} on a tablet`);
  }
  assert.deepEqual(page.faults, []);
});

test('threads that wait for each other: it is said first, once, and each has its line', async () => {
  const text = 'deadlock: 2 threads of hang (pid 100) wait for each other, at take_both (hang.c:37) and at take_both (hang.c:37)';
  const thread = (tid, other) => ({ tid, name: 'hang', text: `waits for a mutex that is held by thread ${other} (hang), at take_both (hang.c:37)` });
  const server = await fakeServer({
    ...api, [`jobs/${job.id}`]: { ...top, wall_seconds: 20 },
    'jobs/[^/]+/records': recordsOf(sample(1, 1), sample(2, 1), { type: 'warning', t: 7, note: 'stuck', kind: 'stalled', text }, { type: 'warning', t: 12, note: 'stands_still', kind: 'stalled', text: 'idle for 10 s: no process of the job computed', fields: { seconds: 10 } }, sample(20, 1)),
    'jobs/[^/]+/why': { mpi: null, stall: null, processes: [], deadlocks: [{ pid: 100, text: 'deadlock: 2 threads of process 100 (hang) wait for each other', threads: [thread(100, 101), thread(101, 100)] }] },
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.locator('.why li').nth(1).waitFor();
  assert.deepEqual(await page.locator('main .notice-title').allInnerTexts(), [`It stands still. D${text.slice(1)}.`]);
  await page.getByText('It has not moved for 18.0 s.').waitFor();
  assert.deepEqual(await page.locator('.why li').allInnerTexts(), [[100, 101], [101, 100]].map(([tid, other]) => `hang (${tid}) ${thread(tid, other).text}`));
  assert.deepEqual(page.faults, []);
});

variant('a job that goes on, and stops again, is asked why again; of a standstill that was recorded, each rank stands once; what a list leaves out is said', async () => {
  const why = 'deadlock: 2 ranks wait for each other\n  rank 0: MPI_Send\n  rank 1: MPI_Send';
  let ranks = Array.from({ length: 70 }, (_, rank) => rankIn(rank, 6)), asked = 0;
  const server = await fakeServer({
    ...api, [`jobs/${job.id}`]: () => ({ ...top, wall_seconds: 95, ranks }),
    'jobs/[^/]+/records': recordsOf({ type: 'stall', t: 90, seconds: 75, ranks: 2, why }),
    'jobs/[^/]+/why': () => (asked++, whyOf(ranks.map(({ rank, pid }) => ({ rank, pid, python: null, threads: [{ tid: rank, text: `waits for rank ${rank + 1}` }] })))),
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByText('waits for rank 64').waitFor();
  await page.getByText('and 6 more', { exact: true }).waitFor();
  ranks = ranks.map((rank) => ({ ...rank, since_seconds: 80 }));
  await page.getByText('It stands still. Deadlock: 2 ranks wait for each other.').waitFor();
  assert.equal(await page.getByText('rank 0: MPI_Send').count(), 0, 'what it waits for stands below');
  ranks = ranks.map((rank) => ({ ...rank, since_seconds: 1 }));
  await page.getByText('It has moved since.').waitFor();
  await page.getByText('It stood still for 75.0 s').waitFor();
  assert.equal(asked, 1);
  ranks = ranks.map((rank) => ({ ...rank, since_seconds: 5 }));
  await until(() => asked === 2, 'it is asked again');
  assert.deepEqual(page.faults, []);
});

/** A report with no more in it than pages need. */
const reportOf = (more) => ({
  id: job.id, host: 'n1', node: null, status: 'exited', wall_seconds: 60, parts: [], mirror: null, last: null, failed: null, failed_elsewhere: null, processes: [], crashes: [], crash_calls: [], functions: [], mpi: null, warnings: [], problems: [],
  all_nodes: { cpu_seconds: 1, peak_rss_bytes: 1e6, sum_of_peaks_bytes: 1e6, process_count: 1, left_running: 0, lost_records: 0 }, timeline: { cpus: { window_seconds: 1, max: [] }, rss_bytes: { window_seconds: 1, max: [] } }, health: { curves: [] },
  logs: { errors: [], lines: [], files: [], patterns: [], metrics: [] }, scripts: { lines: [], python_functions: [], failed_commands: [], exceptions: [] }, ...more,
});

test('a job that failed, one that finished, two compared, and a series: each fact once, with the words of the field', async () => {
  const line = (t, text) => ({ t, file: 'stderr', level: 'error', pattern: 'p', text }), warning = { t: 5, note: 'processors_taken', text: 'the node is shared' };
  const event = (stream, text, more) => ({ seconds: 60, before_end_seconds: 1, stream, weight: 'trouble', text, ...more });
  const ended = (pid, name, more) => ({ pid, name, start_seconds: 0, end_seconds: 60, exit_code: 1, signal: null, argv: null, argv_cut: false, cwd: null, ...more });
  const reports = {
    failed: reportOf({
      growth: { bytes_per_second: 3 << 20, seconds: 40, limit: null, limit_seconds: null },
      logs: { ...reportOf().logs, errors: [line(58, 'ValueError: no rows')], lines: [line(58, 'ValueError: no rows')] }, scripts: { ...reportOf().scripts, failed_commands: [{ t: 59, file: '/x/job.sh', line: 11, command: 'python3 table.py', status: 1 }] }, warnings: [warning, { t: 6, note: 'mpi_stands_still', kind: 'stalled', text: 'no rank began or ended a call' }], failed: { chain: [ended(1, 'python3'), ended(2, 'sh')] },
      last: { reason: { text: 'ValueError: no rows', sure: true, evidence: [7] }, unknown: null, said_last: [], events: [event('warning', warning.text), event('mpi', '2 ranks stand still: deadlock', { weight: 'failure' }), event('python', 'ValueError: no rows', { seq: 7, stack: ['rows at table.py:8', 'main at table.py:14'] }), event('script', '9 /x/job.sh:11 failed with 1: python3 table.py')] },
      crashes: [{ pid: 3, name: 'crash', signal: 11, reason: 'a NULL pointer', frames: [{ pc: 1, function: 'inner', file: '/x/../crash.c', line: 52 }, { pc: 2, function: 'start', module: '/lib/libc.so.6' }] }],
    }),
    sampled: reportOf({ io: { read_bytes: 2 ** 30, written_bytes: 0, disk_read_bytes: 2 ** 20, disk_written_bytes: 0 }, processes: [[1, 'sh', 0, 0], [2, 'sort', 1, 9]].map(([pid, name, start_seconds, signal]) => ({ ...ended(pid, name), start_seconds, signal, exit_code: signal ? null : 0, cpu_seconds: pid, peak_rss_bytes: 1 << 20, threads: 1 })).map((one) => ({ ...one, signal: one.signal || null })), profile: { samples: 100, functions: [{ name: null, module: '/usr/bin/sort', language: 'native', file: '', line: 0, self_samples: 77, total_samples: 77, self_seconds: 77, total_seconds: 77 }] }, scripts: { ...reportOf().scripts, lines: [{ file: '/x/job.sh', line: 5, command: 'sort words', count: 0, failed: 0, seconds: 9 }] } }),
    wordless: reportOf({ last: { reason: { note: 'cause_unknown', text: 'solve (pid 7) ended with exit status 3; it said last: bye', sure: false, evidence: [] }, unknown: 'nothing that was recorded says why', said_last: [], events: [] } }),
    finished: reportOf({ peak_tree_rss_bytes: 4e6, peak_tree_pss_bytes: 1.5e6, all_nodes: { ...reportOf().all_nodes, process_count: 2 }, functions: [{ name: 'MPI_Allreduce', file: '', line: 0, calls: 2, self_ns: 6e10, total_ns: 6e10 }], mpi: { summary: 'rank 1 computed for 60.0 s, rank 0 for 0 ns; it waited in MPI_Allreduce for 60.0 s', time: { communication_ns: 6e10, total_ns: 1.2e11 }, sites: [], ranks: [[0, 0], [1, 60]].map(([rank, s]) => ({ rank, time: { computation_ns: s * 1e9, communication_ns: 6e10 - s * 1e9, total_ns: 6e10 }, calls: [{ name: 'MPI_Allreduce', class: 'collective', total_ns: 6e10 - s * 1e9 }] })) } }),
  };
  const run = (self_ns) => ({ self_ns, total_ns: self_ns, calls: 1, line: 1 }), row = (name, a, b) => ({ name, file: '/x/ocean.c', a: run(a), b: run(b) });
  const figure = (name, a, b) => ({ name, a, b, ratio: b / a });
  const diff = { verdict: null, a: { id: 'x', status: 'exited', exit_code: 0, signal: null }, b: { id: 'y', status: 'signaled', exit_code: 0, signal: 11 }, mpi: null,
    values: [figure('wall_seconds', 10, 20), figure('cpu_seconds', 10, 5), figure('peak_tree_pss_bytes', 1e6, 1e6), figure('process_count', 1, 9), figure('peak_tree_rss_bytes', 1e6, 8e6)], functions: [row('same', 1e9, 1.01e9), row('quicker', 2e9, 1e9), row('slower', 1e9, 3e9)] };
  const task = (processes, node_shared) => ({ id: `t${processes}`, name: 'ocean', processes, threads: null, runs: 2, seconds: 10 / processes, least_seconds: 9 / processes, most_seconds: 11 / processes, speedup: processes, efficiency: 1, node_shared, error: null });
  const broken = { id: 't3', name: 'breaks', program: 'x', state: 'failed', processes: 1, runs_done: 1, runs_wanted: 1, created_seconds: 1e9, began_seconds: 1e9, ended_seconds: 1e9, series: null, progress: null, left_seconds: null, waits_for: null, error: { kind: 'run', text: 'run 1 ended with exit status 1: mesh is empty' } };
  const over = (id) => ({ ...job, id, name: id, state: 'ended', status: 'exited', exit_code: id === 'finished' ? 0 : 1, cause: null });
  const server = await fakeServer({
    ...api, jobs: { jobs: ['failed', 'wordless', 'finished', 'sampled'].map(over) }, 'tasks/events': recordsOf(), tasks: { tasks: [broken] },
    ...Object.fromEntries(Object.entries(reports).flatMap(([id, report]) => [[`jobs/${id}`, { ...top, id, status: 'exited' }], [`jobs/${id}/report`, report]])),
    compare: diff, scaling: { verdict: 'the node was shared, so the figures say little: others had processors of it in runs with 2 processes', by: 'processes', tasks: [task(1, false), task(2, true)] },
  });
  const page = await openPage(), texts = (selector) => page.locator(selector).allInnerTexts(), to = (hash) => page.goto(`${server.url}${hash}`);
  await to('#/jobs/failed');
  await page.getByText('The reason: ValueError: no rows').waitFor();
  assert.deepEqual(await texts('main h2'), ['What happened last', 'Order of failures', 'crash was killed by SIGSEGV: a NULL pointer'], 'no log again, no strip of boxes');
  assert.equal(await page.getByText('the node is shared').count(), 1, 'a warning is said once');
  assert.deepEqual(await texts('main .notice-title'), ['The reason: ValueError: no rows'], 'and that it stood still');
  assert.equal(await page.getByText('supports the reason').count(), 1);
  assert.equal(await page.getByText('Its memory grew 3.0 MB/s in its last 40.0 s.').count(), 1);
  assert.deepEqual(await texts('.plain-table .mono'), ['rows at table.py:8 ← main at table.py:14']);
  assert.deepEqual(await texts('.frames li'), ['inner crash.c:52', 'start libc.so.6'].map((text) => text.replace(' ', '\n')));
  assert.deepEqual(await texts('.tabs .without'), ['Space and time', 'Profile', 'Functions', 'Communication', 'Distributions', 'Call tree', 'Values', 'Source']);

  await to('#/jobs/failed/log');
  await page.reload();
  await page.locator('.tabs .without').first().waitFor(); // whichever part one comes to first
  assert.equal(await page.locator('.tabs .without').count(), 8);

  await to('#/jobs/wordless');
  await page.getByText('It failed: solve (pid 7) ended with exit status 3; it said last: bye').waitFor();
  assert.equal(await page.getByText(/most probable|says why/).count(), 0);

  await to('#/jobs/finished');
  await page.getByText('Rank 1 computed for 60.0 s, rank 0 for 0 ns; it waited in MPI_Allreduce for 60.0 s.').waitFor();
  assert.deepEqual(await texts('main h2'), ['Hottest functions'], 'and nothing that is empty');
  assert.deepEqual(await texts('main td.col-function'), ['MPI_Allreduce', 'computing, outside MPI'], 'where only MPI was traced, what is outside of it has its time');
  assert.equal(await page.getByRole('columnheader', { name: 'Source' }).count(), 0, 'none of them has one');
  assert.match(await page.locator('.figure').filter({ hasText: 'memory, all at once' }).innerText(), /1\.4\s*MB/, 'shared pages count once');

  await to('#/jobs/sampled');
  await page.getByText('77 % of the time on processors was in sort.').waitFor();
  await page.getByText('Read 1.0 GB, wrote 0 B; from disks 1.0 MB, to disks 0 B.').waitFor();
  await page.getByText('Processes (2)').click(); // as scry report lists them
  assert.deepEqual(await page.getByRole('table', { name: 'Processes' }).locator('tbody tr').allInnerTexts().then((all) => all.map((text) => text.replace(/\s+/g, ' ').trim())), ['2 sort 1.00 s 59.0 s 2.00 s 1.0 MB killed by SIGKILL', '1 sh 0.00 s 60.0 s 1.00 s 1.0 MB exit status 0']);
  assert.deepEqual(await page.getByRole('table', { name: 'Lines of scripts' }).locator('th').allInnerTexts().then((all) => all.map((text) => text.replace('▼', '').trim())), ['Line', 'Command', 'Time'], 'no column is empty');

  await to('#/tasks');
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByText('mesh is empty', { exact: true }).waitFor(); // also on a phone
  await page.setViewportSize({ width: 1400, height: 900 });

  await to('#/compare?a=x&b=y');
  const table = page.getByRole('table', { name: 'Figures of both' });
  await table.waitFor();
  assert.deepEqual((await table.locator('tbody tr').first().innerText()).split('\t').map((cell) => cell.replace(/\s+/g, ' ').trim()), ['Outcome', '✓ finished', '✗ killed by SIGSEGV', '']);
  assert.deepEqual([await texts('.compare-figures .more'), await texts('.compare-figures .less')], [['2.00 ×'], ['0.50 ×']], 'more processes are neither better nor worse');
  const functions = page.getByRole('table', { name: 'Functions of both' });
  assert.deepEqual(await functions.locator('.measured-name').allInnerTexts(), ['slower ocean.c', 'quicker ocean.c', 'same ocean.c']);
  assert.deepEqual(await functions.locator('.col-change .change').evaluateAll((list) => list.map((one) => one.className)), ['change more', 'change less', 'change ']);
  await table.getByRole('button', { name: 'Ratio' }).click();
  assert.deepEqual((await table.locator('tbody .col-name').allInnerTexts()), ['Outcome', 'Processes', 'Wall time', 'CPU time', 'Memory, all at once']);

  await to('#/scaling?tasks=t1,t2');
  await page.getByText('The node was shared, so the figures say little').waitFor();
  assert.match((await page.locator('.picture > p').first().innerText()), /^The node was shared/, 'before how to read it');
  assert.deepEqual(await page.getByRole('table', { name: 'The series' }).locator('tbody .col-node').allInnerTexts(), ['', 'shared']);
  assert.deepEqual(page.faults, []);
});

variant('a Python program is at one place, that of its stack', async () => {
  const at = { pid: 7, file: '/x/a.py', line: 4, function: 'work' };
  const server = await fakeServer({
    ...api,
    'jobs/[^/]+/records': (request, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      for (const [seq, record] of [
        { type: 'script_line', ...at, language: 'python', last_line: null, how: 'outside', time: null },
        { type: 'python_stack', pid: 7, version: '3.11.7', threads: [{ tid: 7, frames: [at, { ...at, function: '<module>', line: 7 }] }] },
        { type: 'script_line', pid: 8, language: 'bash', file: '/x/job.sh', line: 2, command: 'sleep 9', last_line: null, how: 'outside', time: 1 },
      ].entries())
        response.write(`event: ${record.type}\nid: ${seq}\ndata: ${JSON.stringify({ seq, t: 2, ...record })}\n\n`);
    },
  });
  const page = await openPage();
  await page.goto(`${server.url}#/jobs/${job.id}`);
  await page.getByText('/x/job.sh:2').waitFor();
  const places = page.locator('.places li');
  await until(async () => (await places.count()) === 2, 'two places');
  assert.match(await places.nth(1).innerText(), /work\n\/x\/a.py:4 ← \/x\/a.py:7/);
  assert.deepEqual(page.faults, []);
});
