// SPDX-License-Identifier: Apache-2.0
// The pictures of a real MPI program, by the real server: their figures are those of scry report, what is chosen is in the address,
// everything can be taken away, and is there for people who do not see it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import { build, example, openPage, openStage, serveStage, shoot, until, variant, violations } from './harness.mjs';

let stage, server, report, diff, plain, counted, valued, failed, python, sampled;

const idOf = (out) => /job (\S+)/.exec(out.err + out.out)?.[1];

before(async () => {
  stage = await openStage();
  const ocean = (name, ranks, mpi = 'trace') => stage.run(['run', '--name', name, '--trace', 'fn:*', '--mpi', mpi, '--', 'mpirun', '--oversubscribe', '-n', ranks, example('stommel'), '80', '80', '200', '100']);
  await ocean('two', '2');
  await ocean('four', '4');
  counted = idOf(await ocean('counted', '2', 'stats'));
  valued = idOf(await stage.run(['run', '--name', 'valued', '--trace', 'fn:*', '--args', '--', example('newton')]));
  plain = idOf(await stage.run(['run', '--name', 'plain', '--', 'true']));
  stage.write('work.py', 'def inner(n):\n    return sum(range(n))\ndef outer():\n    return [inner(3000) for i in range(40)]\nouter()\n');
  python = JSON.parse((await stage.run(['report', '--json', idOf(await stage.run(['run', '--name', 'python', '--script', 'calls', '--', 'python3', 'work.py']))])).out);
  const profiled = path.join(build, 'test/system/targets/profiled');
  sampled = JSON.parse((await stage.run(['report', '--json', idOf(await stage.run(['run', '--name', 'sampled', '--profile', '500', '--', 'sh', '-c', `${profiled} threads 0.2; ${profiled} plain 0.4; ${profiled} waits 0.4`]))])).out);
  failed = idOf(await stage.run(['run', '--name', 'failed', '--', 'sh', '-c', 'exit 3']));
  report = JSON.parse((await stage.run(['report', '--json', 'four'])).out);
  diff = JSON.parse((await stage.run(['diff', '--json', 'two', 'four'])).out);
  assert.equal(report.exit_code, 0);
  server = await serveStage(stage);
});

/** A page with a session, at a view of the traced job. */
const at = (view, options, id = report.id) => server.open(view.startsWith('#') ? view : `#/jobs/${id}/${view}`, options);

/** What a table of bars says: name → exact figure. */
async function figures(page, label) {
  const table = page.getByRole('table', { name: label });
  await table.locator('tbody tr').first().waitFor();
  return new Map(await table.locator('tbody tr').evaluateAll((rows) =>
    rows.map((row) => [row.querySelector('.measured-name').firstChild.textContent, Number(row.querySelector('[data-value]').dataset.value)])));
}

const add = (list, of) => {
  const sums = new Map();
  for (const one of list) if (of(one) > 0) sums.set(one.name, (sums.get(one.name) ?? 0) + of(one));
  return Object.fromEntries([...sums].sort());
};
const plainly = (map) => Object.fromEntries([...map].sort());
const settled = (page) => until(() => page.evaluate(() => document.querySelector('.space-canvas canvas')?.control?.settled), 'the picture is there');

async function downloads(page, name, kind) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('group', { name: `Take away: ${name}` }).getByRole('button', { name: kind }).click()]);
  return fs.readFileSync(await download.path(), 'utf8');
}

test('functions: time and calls of all and of one process are those of the report', async () => {
  const page = await at('functions?top=1000');
  assert.deepEqual(plainly(await figures(page, 'Functions: Self time')), add(report.functions, (one) => one.self_ns));
  const file = await downloads(page, 'Functions', 'CSV');
  const main = report.functions.find((one) => one.name === 'main');
  const cells = file.split('\r\n').find((line) => line.startsWith('main,')).split(',').slice(2).map(Number);
  for (const [i, rank] of main.ranks.entries()) assert.ok(Math.abs(cells[i] - rank.self_ns) <= 1, `rank ${i}: ${cells[i]}`); // their sum is exact
  assert.match(await downloads(page, 'Functions', 'SVG'), /^<svg[^]*main/);
  await page.getByRole('button', { name: 'Total time', exact: true }).click();
  assert.deepEqual(plainly(await figures(page, 'Functions: Total time')), add(report.functions, (one) => one.total_ns));
  await page.getByRole('button', { name: 'Calls', exact: true }).first().click();
  assert.deepEqual(plainly(await figures(page, 'Functions: Calls')), add(report.functions, (one) => one.calls));
  await page.getByLabel('Process', { exact: true }).selectOption({ label: 'rank 1' });
  assert.deepEqual(plainly(await figures(page, 'Functions: Calls')), add(report.functions, (one) => one.ranks.find((rank) => rank.rank === 1)?.calls ?? 0));
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'functions');
  await page.waitForURL(/m=calls.*process=1|process=1.*m=calls/);
  await page.reload();
  assert.deepEqual(plainly(await figures(page, 'Functions: Calls')), add(report.functions, (one) => one.ranks.find((rank) => rank.rank === 1)?.calls ?? 0));
  assert.deepEqual(page.faults, []);
});

test('functions of Python: where it says how a job ended, by self and total time, and in the call tree', async () => {
  const page = await at('', {}, python.id), of = python.scripts.python_functions;
  assert.ok(of.some((one) => one.function === 'inner'));
  const hottest = page.getByRole('table', { name: 'Functions of Python, most time of their own first' });
  await hottest.getByText('inner', { exact: true }).first().waitFor();
  for (const [measure, key] of [['self', 'self_ns'], ['total', 'total_ns'], ['calls', 'calls']]) {
    await page.evaluate((hash) => (location.hash = hash), `#/jobs/${python.id}/functions?top=1000&m=${measure}`);
    assert.deepEqual(plainly(await figures(page, `Functions: ${measure === 'calls' ? 'Calls' : measure === 'self' ? 'Self time' : 'Total time'}`)), add(of.map((one) => ({ ...one, name: one.function })), (one) => one[key]));
  }
  assert.match(await downloads(page, 'Functions', 'CSV'), /^Function,defined,all calls\r\n[^]*inner,work\.py:1,40\r\n/);
  assert.equal(await page.locator('.notice').count(), 0, 'that there is no trace says nothing of them');
  await shoot(page, 'functions-python');
  await page.evaluate((hash) => (location.hash = hash), `#/jobs/${python.id}/tree`);
  assert.match(await downloads(page, 'Call tree', 'CSV'), /\(Python\)[^]*inner/);
  assert.equal(await page.locator('.notice').count(), 0);
  assert.deepEqual(page.faults, []);
});

test('the profile of any program: its functions are those of the report, on a processor and waiting, of all and of one process; its lines', async () => {
  const page = await at('profile', {}, sampled.id), of = sampled.profile;
  const rows = (text) => text.split('\r\n').slice(1, -1).map((line) => line.split(','));
  const table = page.getByRole('table', { name: 'Functions by samples' });
  await table.getByRole('row').filter({ hasText: 'first' }).filter({ hasText: 'profiled.c:' }).waitFor();
  const self = new Map(rows(await downloads(page, 'Functions', 'CSV')).map((row) => [row[0], Number(row[5])]));
  for (const one of of.functions.filter((each) => each.self_samples && each.name)) assert.ok(Math.abs(self.get(one.language === 'kernel' ? 'the kernel' : one.name) / 1e9 - one.self_seconds) < 1e-6, one.name);
  const paths = rows(await downloads(page, 'Profile', 'CSV'));
  assert.ok(paths.some(([name, path]) => name === 'first' && /main > plain > first$/.test(path)));
  assert.equal(Math.round(paths.filter(([name, path]) => name === path).reduce((sum, row) => sum + Number(row[2]), 0) / 1e6), Math.round(of.seconds * 1e3));
  await page.locator('canvas.flame').focus();
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await page.waitForURL(/at=/);
  const first = table.getByRole('row').filter({ hasText: 'first' }).locator('.col-self');
  const whole = await first.innerText();
  await page.getByLabel('From', { exact: true }).press('End'); // the last span: by then it waits
  await page.waitForURL(/from=\d+/);
  await until(async () => (await first.allInnerTexts()).join() !== whole, 'its figures are of that part');
  await page.getByRole('button', { name: 'All the time' }).click();
  await first.filter({ hasText: whole }).waitFor();
  const process = of.processes.find((one) => one.name === 'profiled' && one.function === 'first');
  await page.getByLabel('Process', { exact: true }).selectOption(`p${process.pid}`);
  await page.waitForURL(new RegExp(`process=${process.pid}$`)); // the whole again
  await until(async () => (await page.locator('.about').first().innerText()).startsWith(`${process.samples} samples`), 'its own samples');
  const [thread] = of.threads;
  await page.getByLabel('Process', { exact: true }).selectOption({ label: `half ${thread.tid} · profiled ${thread.pid}` });
  await page.waitForURL(new RegExp(`thread=${thread.pid}%2F${thread.tid}$`));
  await until(async () => (await page.locator('.about').first().innerText()).startsWith(`${thread.samples} samples`), 'its own samples');
  await page.getByLabel('Process', { exact: true }).selectOption('');
  await page.getByRole('button', { name: 'Waiting', exact: true }).first().click();
  await table.getByRole('row').filter({ hasText: 'naps' }).filter({ hasText: 'sleep' }).waitFor();
  assert.equal(await table.getByText('first', { exact: true }).count(), 0);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'profile-waiting');
  await page.setViewportSize({ width: 800, height: 900 });
  assert.ok(await table.evaluate((one) => one.scrollWidth <= one.closest('.table-box').clientWidth), 'no column is cut off on a tablet');
  await page.setViewportSize({ width: 1400, height: 900 });
  await page.evaluate((hash) => (location.hash = hash), `#/jobs/${sampled.id}/profile`);
  await table.getByRole('row').filter({ hasText: 'first' }).getByRole('link').click();
  await page.waitForURL(/source\?file=.*profiled\.c&line=\d+/);
  await page.locator('.source li.chosen').filter({ hasText: 'first' }).waitFor();
  await page.locator('.source li').filter({ hasText: 'BUSY(seconds)' }).filter({ has: page.locator('.source-time a') }).first().waitFor(); // in the line itself
  assert.deepEqual(page.faults, []);
});

variant('functions of all processes compared: sums and imbalance', async () => {
  const page = await at('functions?over=all&top=1000', { colorScheme: 'dark' });
  assert.deepEqual(plainly(await figures(page, 'Functions: Self time')), add(report.functions, (one) => one.self_ns));
  const jacobi = report.functions.find((one) => one.name === 'do_jacobi'), times = jacobi.ranks.map((rank) => rank.self_ns);
  const imbalance = (Math.max(...times) * 4) / times.reduce((a, b) => a + b);
  const row = page.getByRole('row').filter({ hasText: 'do_jacobi' });
  assert.ok(Math.abs(Number(await row.locator('td.col-imbalance').innerText()) - imbalance) < 0.006);
  // a function of a microsecond may be as uneven as it likes: first comes what costs most
  const beyond = (one) => Math.max(...one.ranks.map((rank) => rank.self_ns)) - one.ranks.reduce((all, rank) => all + rank.self_ns, 0) / 4;
  const costly = report.functions.filter((one) => one.ranks.length === 4).sort((a, b) => beyond(b) - beyond(a))[0].name;
  await page.getByRole('columnheader', { name: 'Imbalance' }).getByRole('button').click();
  await until(async () => (await page.locator('tbody tr .measured-name').first().innerText()).startsWith(costly), 'the most costly first');
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'functions-compared-dark');
  await row.click();
  await page.waitForURL(/space\?.*q=do_jacobi/);
  await settled(page);
  assert.deepEqual(page.faults, []);
});

variant('the begin and the end of MPI can be left out, and what is left out is said', async () => {
  const page = await at('functions?top=1000&setup=out'), setup = /^MPI_(Init|Finalize)$/;
  assert.deepEqual(plainly(await figures(page, 'Functions: Self time')), add(report.functions.filter((one) => !setup.test(one.name)), (one) => one.self_ns));
  await page.getByText(/^Left out: MPI_Init and MPI_Finalize, .* % of self time\.$/).waitFor();
  assert.match(await downloads(page, 'Functions', 'SVG'), /without MPI_Init and MPI_Finalize/);
  await shoot(page, 'functions-without-setup');
  await page.getByLabel('Without MPI_Init').uncheck();
  assert.deepEqual(plainly(await figures(page, 'Functions: Self time')), add(report.functions, (one) => one.self_ns));

  await page.evaluate((id) => (location.hash = `#/jobs/${id}/tree`), report.id);
  await page.getByLabel('Without MPI_Init').check();
  await page.waitForURL(/setup=out/);
  await page.getByText(/^Left out: MPI_Init and MPI_Finalize, .* % of the time\.$/).waitFor();
  const rows = (await downloads(page, 'Call tree', 'CSV')).split('\r\n').slice(1, -1).map((line) => line.split(','));
  assert.ok(rows.length && !rows.some(([name]) => setup.test(name)));
  const total = rows.filter(([name, path]) => name === path).reduce((sum, row) => sum + Number(row[3]), 0), own = rows.reduce((sum, row) => sum + Number(row[4]), 0);
  assert.ok(Math.abs(total - own) <= rows.length, `${total} ns are all of ${own} ns`); // what is left adds up
  assert.match(await downloads(page, 'Call tree', 'SVG'), /without MPI_Init and MPI_Finalize/);
  await shoot(page, 'tree-without-setup');
  assert.deepEqual(page.faults, []);
});

test('communication: bytes, calls and time of the calls are those of the report', async () => {
  const page = await at('communication?top=1000');
  for (const [title, of] of [['Sent', 'sent_bytes'], ['Received', 'received_bytes'], ['Calls', 'calls'], ['Time', 'total_ns']]) {
    await page.getByRole('button', { name: title, exact: true }).first().click();
    assert.deepEqual(plainly(await figures(page, `Communication: ${title}`)), add(report.mpi.calls, (call) => call[of]), title);
  }
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.faults, []);
});

test('space and time: keys and the address, a search, a call, sums of the window', async () => {
  const page = await at('space');
  await settled(page);
  const sums = page.getByRole('table', { name: 'Functions in this part' });
  await sums.locator('tbody tr').first().waitFor();
  const calls = Object.fromEntries((await sums.locator('tbody tr').allInnerTexts()).map((text) => text.split(/\t/)).map(([name, number]) => [name, Number(number.replace(/\D/g, ''))]));
  for (const one of report.functions.slice(0, 8)) assert.equal(calls[one.name], one.calls, one.name);
  await shoot(page, 'space');
  assert.match(await downloads(page, 'Space and time', 'SVG'), /^<svg[^]*rank 3[^]*<rect/);
  const operations = async () => (await downloads(page, 'Space and time', 'SVG')).match(/<polygon/g)?.length ?? 0;
  assert.ok((await operations()) > 0, 'collective operations are in the file');
  await page.getByLabel('Collectives').uncheck();
  assert.equal(await operations(), 0);
  await page.getByLabel('Collectives').check();
  assert.match(await downloads(page, 'Space and time', 'CSV'), /^lane,depth,function,from_ns,to_ns,share\r\n[^]*rank 3/);

  const canvas = page.locator('.space-canvas canvas'), view = () => canvas.evaluate((one) => ({ ...one.control.view }));
  const whole = await canvas.evaluate((one) => ({ ...one.control.scene.whole }));
  await until(async () => Math.abs((await view()).to - whole.to) < 10 && Math.abs((await view()).from - whole.from) < 10, 'all of it is shown');
  await canvas.focus();
  for (let i = 0; i < 6; i++) await canvas.press('+');
  await page.keyboard.press('ArrowRight');
  let closer; // a busy browser handles keys later
  await until(async () => Math.abs((whole.to - whole.from) / 64 - ((closer = await view()).to - closer.from)) < 10 && closer.from > whole.from, 'six times closer, and to the right');
  await page.waitForURL((url) => { // of the last key, not of one before
    const [, from, to] = /at=(\d+)-(\d+)/.exec(url.href) ?? [];
    return Math.abs(from - closer.from) < 10 && Math.abs(to - closer.to) < 10;
  });
  await page.reload();
  await settled(page);
  const again = await view();
  assert.ok(Math.abs(again.from - closer.from) < 10 && Math.abs(again.to - closer.to) < 10, 'a reload shows the same window');

  await page.getByLabel('Find calls of a function').fill('do_jacobi');
  await page.getByLabel('Find calls of a function').press('Enter');
  const jacobi = report.functions.find((one) => one.name === 'do_jacobi');
  await until(async () => Number((await page.locator('.space-count').innerText()).replace(/\s|and more|.* of /g, '')) === Math.min(1000, jacobi.calls), 'all calls are found');
  await page.getByRole('button', { name: 'The next one' }).click();
  await page.locator('.space-count').filter({ hasText: / of / }).waitFor();
  await canvas.focus();
  await page.keyboard.press('Enter');
  const call = page.getByRole('region', { name: 'Call' });
  await call.getByText('do_jacobi').first().waitFor();
  await call.getByText(/stommel\.c:\d+/).first().waitFor();
  await call.getByRole('button', { name: 'main' }).waitFor(); // among its callers
  await call.getByText('No values were recorded of it: --args').waitFor();
  await settled(page);
  await shoot(page, 'space-call');

  // from call to call, and along a message
  const name = call.locator('.space-call'), lane = call.locator('dt:text-is("lane") + dd'), is = (of, what) => of.filter({ hasText: what }).waitFor();
  await canvas.focus();
  await page.keyboard.press('Shift+ArrowUp');
  await is(name, /^solve$/);
  await page.keyboard.press('Shift+ArrowUp');
  await is(name, /^main$/);
  await page.keyboard.press('Shift+ArrowUp');
  await page.getByText('It has no caller that was recorded.').waitFor();
  await page.getByLabel('Find calls of a function').fill('do_transfer_x');
  await page.getByLabel('Find calls of a function').press('Tab');
  const transfers = Math.min(1000, report.functions.find((one) => one.name === 'do_transfer_x').calls);
  await until(async () => (await page.locator('.space-count').innerText()).replace(/\s/g, '') === String(transfers), 'all of them');
  await canvas.focus();
  await page.keyboard.press('n');
  await page.keyboard.press('Enter');
  await is(name, /^do_transfer_x$/);
  await settled(page); // what is in it is looked for in the picture
  await page.keyboard.press('Shift+ArrowDown');
  await is(name, /^MPI_Sendrecv$/);
  await settled(page);
  const here = await lane.innerText();
  await page.keyboard.press('m');
  await until(async () => (await lane.count()) && (await lane.innerText()) !== here, 'at the other end of a message');
  await is(name, /^MPI_Sendrecv$/);
  await page.keyboard.press('m');
  await is(lane, here);
  await is(name, /^MPI_Sendrecv$/);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.faults, []);
});

variant('space and time: where calls of MPI were only counted, no time is called computing, and the way to more is said', async () => {
  const page = await at('space', {}, counted), legend = page.getByRole('list', { name: 'Colours' });
  await legend.getByText('computing or in MPI').waitFor();
  assert.equal(await legend.getByText('computing', { exact: true }).count(), 0);
  await page.getByText('Calls of MPI were not traced').waitFor();
  // the job's command is another answer than the picture
  await page.locator('.space-stage code.command').filter({ hasText: /^scry run --trace 'fn:\*' --mpi trace -- mpirun .*stommel/ }).waitFor();
  await page.getByRole('button', { name: 'Kinds' }).click();
  await page.getByRole('cell', { name: 'computing or in MPI' }).waitFor();
  assert.equal(await page.getByRole('cell', { name: 'computing', exact: true }).count(), 0);
  await settled(page);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'space-counted');
  await page.locator('.space-stage').getByRole('link', { name: 'communication' }).click();
  await page.getByRole('table', { name: /^Communication/ }).waitFor();
  assert.deepEqual(page.faults, []);
});

test('how it ended: with the share of time in MPI, as the report has it', async () => {
  const page = await at(''), { communication_ns, total_ns } = report.mpi.time;
  const figure = page.locator('.figure').filter({ hasText: 'ranks’ time in MPI' });
  assert.equal(parseFloat(await figure.locator('dd').innerText()), Number((100 * communication_ns / total_ns).toFixed(communication_ns / total_ns < 0.0995 ? 1 : 0)));
  await page.getByText(/^([\d.]+ % of the ranks' time in MPI|Ranks? .* computed for .*s; )/).waitFor(); // the sentence that comes first
  assert.deepEqual(await page.locator('.tabs .without').allInnerTexts(), []);
  assert.deepEqual(page.faults, []);
});

test('space and time: a drag moves, the wheel zooms, a drag with Shift chooses', async () => {
  const page = await at('space');
  await settled(page);
  const canvas = page.locator('.space-canvas canvas'), view = () => canvas.evaluate((one) => ({ ...one.control.view }));
  const box = await canvas.boundingBox(), whole = await view();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  await page.mouse.wheel(0, -600);
  await until(async () => (await view()).to - (await view()).from < (whole.to - whole.from) / 1.5, 'the wheel zooms');
  const zoomed = await view();
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 80, box.y + 60, { steps: 4 });
  await page.mouse.up();
  assert.ok((await view()).from < zoomed.from, 'what is dragged to the right shows earlier times');
  await settled(page);
  const quarter = await canvas.evaluate(({ control }) => { // a key comes while the address gets what came to rest before
    const { from, to } = control.view;
    control.listener.moved({ from, to: Math.ceil(from + (to - from) / 2) });
    control.go({ from, to: from + (to - from) / 4 });
    return (to - from) / 4;
  });
  await page.waitForURL((url) => { // it comes to rest itself
    const [, from, to] = /at=(\d+)-(\d+)/.exec(url.href) ?? [];
    return Math.abs(to - from - quarter) < 10;
  });
  await page.keyboard.down('Shift');
  await page.mouse.move(box.x + 100, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 300, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  await page.waitForURL(/chosen=\d+-\d+/);
  await page.getByRole('heading', { name: 'Chosen part' }).waitFor();
  assert.deepEqual(page.faults, []);
});

test('the matrix has the pairs of the report, and one finds them by the keyboard', async () => {
  const page = await at('matrix');
  const rows = page.getByRole('table', { name: 'Pairs of ranks' }).locator('tbody tr');
  await until(async () => (await rows.count()) === report.mpi.matrix.length, 'all pairs');
  const pairs = (await rows.allInnerTexts()).map((text) => text.split('\t').slice(0, 3).map((part) => Number(part.replace(/\D/g, ''))).join()).sort();
  assert.deepEqual(pairs, report.mpi.matrix.map((pair) => [pair.from, pair.to, pair.messages].join()).sort());
  const most = report.mpi.matrix.reduce((one, pair) => (pair.bytes > one.bytes ? pair : one));
  await page.getByText(`Most: rank ${most.from} → rank ${most.to}:`).waitFor();
  await page.locator('.matrix canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.getByText('rank 0 → rank 1').waitFor();
  assert.match(await downloads(page, 'Who sends to whom', 'SVG'), /^<svg/);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'matrix');
  assert.deepEqual(page.faults, []);
});

test('the call tree begins with main, and goes in and out by the keyboard', async () => {
  const page = await at('tree');
  const flame = page.locator('canvas.flame');
  await flame.focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForURL(/node=\d+/);
  await page.getByText('As a table').click();
  const names = await page.getByRole('table', { name: 'Call tree' }).locator('.measured-name').allInnerTexts();
  for (const name of ['main', 'solve', 'do_jacobi', 'MPI_Allreduce']) assert.ok(names.includes(name), name);
  const file = (await downloads(page, 'Call tree', 'CSV')).split('\r\n').slice(1, -1).map((line) => line.split(','));
  const calls = file.filter(([name]) => name === 'do_jacobi').reduce((sum, row) => sum + Number(row[2]), 0);
  assert.equal(calls, report.functions.find((one) => one.name === 'do_jacobi').calls);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'tree');
  assert.deepEqual(page.faults, []);
});

test('distributions count each call; lines of the source have the times of functions', async () => {
  const page = await at('distributions?of=MPI_Allreduce.latency');
  const calls = report.mpi.calls.find((call) => call.name === 'MPI_Allreduce').calls;
  await page.locator('.matrix-told').filter({ hasText: 'values of latency' }).waitFor();
  assert.equal(Number((await page.locator('.matrix-told').innerText()).split('values')[0].replace(/\D/g, '')), calls);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'distributions');
  await page.evaluate((id) => (location.hash = `#/jobs/${id}/source`), report.id);
  const jacobi = report.functions.find((one) => one.name === 'do_jacobi');
  await page.locator('.source li').filter({ hasText: 'do_jacobi(' }).filter({ has: page.locator('.source-time a') }).first().waitFor();
  assert.ok((await page.locator('.source li').count()) > jacobi.line);
  const here = new Map(); // by line: what calls that stand there took, of functions and of MPI
  for (const site of report.call_sites) if (site.from_file === jacobi.file) here.set(site.from_line, (here.get(site.from_line) ?? 0) + site.total_ns);
  for (const site of report.mpi.sites) if (site.file === jacobi.file) here.set(site.line, (here.get(site.line) ?? 0) + site.total_ns);
  const lines = (await downloads(page, 'stommel.c', 'CSV')).split('\r\n').map((line) => line.split(','));
  for (const [line, time] of here) assert.ok(Math.abs(Number(lines[line][4]) - time) < 10, `line ${line}: ${lines[line]}, the report ${time}`);
  assert.ok([...report.mpi.sites].some((site) => here.get(site.line) === site.total_ns), 'some line has only a call of MPI');
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'source', { fullPage: false });
  assert.deepEqual(page.faults, []);
});

test('values: each call with its arguments and result, sorted as numbers, and as a file; without any, how to have them', async () => {
  const page = await at('values', {}, valued), table = page.getByRole('table', { name: 'Calls and their values' });
  await page.getByRole('table', { name: 'Functions with values' }).getByText('find_root').click(); // it begins with what was recorded
  await page.waitForURL(/q=find_root/);
  await table.locator('tbody tr').first().waitFor();
  await page.getByRole('button', { name: 'start' }).click();
  const starts = await table.locator('tbody tr').evaluateAll((rows) => rows.map((row) => Number(row.querySelector('.col-argument1').textContent)));
  assert.ok(starts.length > 2 && starts.every((value, i) => value >= (starts[i - 1] ?? 0)), starts.join());
  const [head, ...rows] = (await downloads(page, 'Values', 'CSV')).trimEnd().split('\r\n');
  assert.equal(head, 'call,lane,begin_ns,end_ns,polynomial,start,result');
  assert.equal(rows.length, starts.length);
  assert.match(rows[0], /^find_root,newton \d+,\d+,\d+,.*x\^2 - 2.*,1,/);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'values');
  await page.getByLabel('Calls of').fill('*');
  await page.getByLabel('Calls of').press('Enter');
  await page.getByRole('columnheader', { name: 'Arguments' }).waitFor(); // of many functions: one column
  await table.getByRole('cell', { name: 'find_root' }).first().click();
  await page.waitForURL(/space\?.*q=find_root/);
  await settled(page);
  await page.evaluate((id) => (location.hash = `#/jobs/${id}/values?q=do_jacobi`), report.id);
  await page.getByText('No values of these calls were recorded').waitFor();
  assert.deepEqual(page.faults, []);
});

test('two runs side by side, as scry diff has them', async () => {
  const page = await at(`#/compare?a=${diff.a.id}&b=${diff.b.id}`);
  const rows = page.getByRole('table', { name: 'Functions of both' }).locator('tbody tr');
  await until(async () => (await rows.count()) === diff.functions.length, 'all functions');
  const file = (await downloads(page, 'Functions', 'CSV')).split('\r\n').slice(1, -1).map((line) => line.split(','));
  for (const one of diff.functions) assert.ok(file.some(([name, , a, b]) => name === one.name && a === String(one.a?.self_ns ?? '') && b === String(one.b?.self_ns ?? '')), one.name);
  await page.getByRole('button', { name: 'By rank' }).click();
  await page.getByRole('table', { name: 'Functions of both by rank' }).locator('canvas').first().waitFor();
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'compare');
  await page.getByRole('button', { name: 'All ranks' }).click();
  await page.getByRole('region', { name: 'Functions' }).getByLabel('Without MPI_Init').check(); // of both tables
  const time = (run) => diff.functions.reduce((sum, row) => sum + (/^MPI_(Init|Finalize)$/.test(row.name) ? row[run]?.self_ns ?? 0 : 0), 0);
  assert.ok(time('a') > 0);
  await page.getByText(/^Left out: MPI_Init and MPI_Finalize, .* of the first, .* of the second\.$/).first().waitFor();
  assert.equal(await page.locator('.left-out').count(), 2);
  assert.equal(await page.getByRole('table').getByText(/^MPI_(Init|Finalize)/).count(), 0);
  assert.match(await downloads(page, 'Functions', 'SVG'), /without MPI_Init and MPI_Finalize/);
  assert.deepEqual(page.faults, []);
});

test('a link shows the same to somebody else: window, lanes, colours, search; measure, order, process', async () => {
  const page = await at('space'), picture = (of) => of.locator('.space-canvas canvas').evaluate((one) => one.toDataURL());
  await settled(page);
  await page.locator('.space-canvas canvas').focus();
  for (const key of ['+', '+', '+', 'ArrowRight', 's', 'c', 'v', 'ArrowLeft']) await page.keyboard.press(key);
  await page.getByText('Lanes as a table').click();
  await page.getByLabel('Choose rank 2').check(); // all of it without a mouse
  await page.getByLabel('Find calls of a function').fill('do_jacobi');
  await page.getByLabel('Find calls of a function').press('Tab');
  await page.waitForURL((url) => ['at', 'chosen', 'lanes', 'shape', 'by', 'q'].every((name) => url.hash.includes(`${name}=`)));
  const other = await at(new URL(page.url()).hash);
  for (const one of [page, other]) {
    await one.locator('.space-count').filter({ hasText: /\d/ }).waitFor();
    await settled(one);
    await one.mouse.move(0, 0);
  }
  assert.ok((await other.locator('.space-span').first().innerText()).includes('lanes 2'));
  await until(async () => (await picture(other)) === (await picture(page)), 'the same picture');
  await page.locator('.space-canvas canvas').focus();
  await page.keyboard.press('Enter'); // nothing was pointed at: the call in the middle of the chosen lane
  await page.getByRole('region', { name: 'Call' }).getByText('rank 2').waitFor();

  await page.evaluate((hash) => (location.hash = hash), `#/jobs/${report.id}/functions`);
  await page.getByRole('button', { name: 'Total time', exact: true }).click();
  await page.getByLabel('Process', { exact: true }).selectOption({ label: 'rank 1' });
  await page.getByRole('columnheader', { name: 'Function' }).getByRole('button').click();
  await page.waitForURL((url) => ['m=total', 'process=1', 'sort='].every((part) => url.hash.includes(part)));
  await other.evaluate((hash) => (location.hash = hash), new URL(page.url()).hash);
  assert.deepEqual([...await figures(other, 'Functions: Total time')], [...await figures(page, 'Functions: Total time')]);
  assert.deepEqual([...page.faults, ...other.faults], []);
});

test('what is taken away is well-formed, has all rows, and says its units', async () => {
  let page = await at('space');
  const paper = await openPage();
  for (const [view, title, header, rows, drawn = true] of [
    ['space', 'Space and time', /^lane,depth,function,from_ns,to_ns,share$/, null],
    ['functions?over=all&top=10', 'Functions', /^Function,defined(,rank \d ns){4}$/, report.functions.length],
    ['communication?m=time', 'Communication', /^Call,defined(,rank \d ns){4}$/, report.mpi.calls.length],
    ['matrix', 'Who sends to whom', /^world,from,to,messages,bytes,received_messages,received_bytes,/, report.mpi.matrix.length],
    ['distributions', 'How long calls took', /^from_ns,to_ns,count$/, null],
    ['tree', 'Call tree', /^function,path,calls,total_ns,self_ns$/, null],
    ['source', 'stommel.c', /^line,function,calls,self_ns,calls_here_ns,text$/, null, false],
  ]) {
    if (view === 'tree') { // Chromium lets a page take away ten files
      assert.deepEqual(page.faults, []);
      page = await at(view);
    }
    await page.evaluate((hash) => (location.hash = hash), `#/jobs/${report.id}/${view}`);
    await page.getByRole('heading', { name: title, exact: true }).waitFor();
    if (view === 'space') await settled(page);
    const [first, ...more] = (await downloads(page, title, 'CSV')).trimEnd().split('\r\n');
    assert.match(first, header);
    assert.ok(rows === null ? more.length > 0 : more.length === rows, `${view}: ${more.length} rows, not ${rows}`);
    if (!drawn) continue;
    const svg = await downloads(page, title, 'SVG');
    assert.equal(await page.evaluate((text) => new DOMParser().parseFromString(text, 'image/svg+xml').querySelector('parsererror')?.textContent ?? '', svg), '', view);
    if (view === 'space') {
      const lines = svg.match(/<path d="(M[^"]*)"[^>]*stroke-opacity="0\.\d+"\/>/);
      assert.equal(lines[1].split('M').length - 1, [...new Set(lines[1].split('M'))].length - 1, 'each message is one line, and bars are seen below many');
    }
    await paper.setContent(svg);
    await shoot(paper, `${view.split('?')[0]}-file`);
  }
  assert.deepEqual(page.faults, []);
});

for (const [where, viewport] of [['a desk', { width: 1400, height: 900 }], ['a phone', { width: 360, height: 740 }]]) (where === 'a desk' ? test : variant)(`what is there stays where it is while the rest comes: on ${where}`, async () => {
  const page = await at('#/jobs', { viewport });
  await page.addInitScript(() => {
    const name = (node) => node && `${node.nodeName} ${node.className}`;
    window.moved = [];
    new PerformanceObserver((list) => list.getEntries().forEach((one) => window.moved.push(one.value, ...one.sources.map(({ node }) => name(node))))).observe({ type: 'layout-shift', buffered: true });
  });
  const job = `#/jobs/${report.id}`;
  for (const hash of [`#/jobs/${failed}`, job, ...['space', 'functions', 'communication', 'matrix', 'distributions', 'tree'].map((view) => `${job}/${view}`), `#/jobs/${counted}/space`, `#/compare?a=${counted}&b=${report.id}`]) {
    await page.goto('about:blank'); // another hash alone would load nothing
    await page.goto(server.first.replace(/#.*/, hash));
    await page.locator('.picture, .sparks').first().waitFor();
    await page.locator('.waiting').waitFor({ state: 'detached' });
    await page.locator('.titled, .compare-choose').first().waitFor({ state: 'attached' });
    if (hash.endsWith('space')) await settled(page);
    await page.evaluate(() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go))));
    assert.deepEqual(await page.evaluate(() => window.moved), [], hash);
  }
  assert.deepEqual(page.faults, []);
});

test('who wants nothing to move sees nothing move', async () => {
  const page = await at('#/jobs', { reducedMotion: 'no-preference' });
  const moves = () => page.evaluate(() => document.getAnimations().length + [...document.querySelectorAll('*')].filter((one) => ['', '::before', '::after', '::backdrop'].some((part) => {
    const style = getComputedStyle(one, part);
    return style.animationName !== 'none' || /[1-9]/.test(style.transitionDuration) || style.scrollBehavior !== 'auto';
  })).length);
  assert.ok((await moves()) > 0, 'this test sees what moves');
  const animated = async () => {
    const before = await page.evaluate(() => document.querySelector('.space-canvas canvas').control.animated);
    await page.locator('.space-canvas canvas').focus();
    await page.keyboard.press('+');
    await settled(page);
    await page.waitForURL(/at=/);
    return (await page.evaluate(() => document.querySelector('.space-canvas canvas').control.animated)) - before;
  };
  const job = `#/jobs/${report.id}`;
  await page.evaluate((to) => (location.hash = to), `${job}/space`);
  await settled(page);
  assert.ok((await animated()) > 1);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  assert.equal(await animated(), 0, 'also when the wish comes while it is shown');
  for (const hash of ['#/jobs', '#/tasks', '#/submit', '#/site', '#/design', '#/scaling', `#/compare?a=${counted}&b=${report.id}`, `#/jobs/${failed}`, job, ...['space', 'functions', 'communication', 'matrix', 'distributions', 'tree', 'values', 'source'].map((view) => `${job}/${view}`)]) {
    await page.evaluate((to) => (location.hash = to), hash);
    await page.locator('main h1, main .empty-title').first().waitFor();
    await page.locator('.waiting').waitFor({ state: 'detached' });
    assert.equal(await moves(), 0, hash);
  }
  assert.deepEqual(page.faults, []);
});

test('without a trace each picture says how to get one; narrow, dark and printed ones are whole', async () => {
  const page = await at('space', { viewport: { width: 360, height: 740 }, colorScheme: 'dark' }, plain);
  await page.getByText('scry run --trace').first().waitFor();
  for (const view of ['functions', 'tree', 'source']) {
    await page.evaluate((hash) => (location.hash = hash), `#/jobs/${plain}/${view}`);
    await page.locator('.empty .command').first().waitFor();
  }
  await page.evaluate((hash) => (location.hash = hash), `#/jobs/${plain}/profile`);
  await page.getByText('No samples were taken: ').waitFor();
  for (const view of ['communication', 'matrix', 'distributions']) {
    await page.evaluate((hash) => (location.hash = hash), `#/jobs/${plain}/${view}`);
    await page.getByText('No MPI in this job.').waitFor();
    assert.equal(await page.getByText('mpirun').count(), 0, 'nobody is told to run it by mpirun');
    await page.locator('.empty').getByRole('link', { name: 'functions' }).waitFor();
  }
  assert.deepEqual(await violations(page), []); // all three say the same
  for (const view of ['space', 'functions', 'matrix', 'tree', 'distributions', 'source', 'profile']) {
    await page.evaluate((hash) => (location.hash = hash), `#/jobs/${view === 'profile' ? sampled.id : report.id}/${view}${view === 'functions' ? '?setup=out' : ''}`);
    await page.locator('section.picture').last().waitFor();
    if (view === 'space') await settled(page);
    if (view === 'functions') assert.equal(await page.getByRole('button', { name: 'Total time' }).isVisible(), false, 'choices are folded on a phone');
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} is no wider than a phone`);
    assert.deepEqual(await violations(page), [], view);
    await shoot(page, `${view}-narrow-dark`);
  }
  assert.deepEqual(page.faults, []);
});

variant('axe finds nothing on any page, on a desk, a tablet and a phone, light and dark; none is wider than its window', async () => {
  const held = stage.start(['run', '-q', '--name', 'held', '--', 'sh', '-c', 'until [ -e let-go ]; do sleep 0.1; done']), job = `#/jobs/${report.id}`;
  stage.write('pipes.py', 'import os\n(r, w), (s, v) = os.pipe(), os.pipe()\nos.read(r if os.fork() else s, 1)\n');
  const stands = stage.start(['run', '-q', '--name', 'stands', '--', 'python3', 'pipes.py']);
  stage.write('raises.py', 'def mean(rows):\n    return sum(rows) / len(rows)\nmean([])\n');
  const raises = idOf(await stage.run(['run', '--tee', '--name', 'raises', '--', 'python3', 'raises.py']));
  const submit = async (...args) => (await stage.run(['submit', '--wait', ...args])).out.trim().split('\n');
  const [one, two] = await submit('-n', '1,2', '--', example('stommel'), '32', '32', '10', '10'), [broken] = await submit('--by', 'plain', '--', 'python3', 'raises.py');
  await stage.run(['record', '-q', '--import', 'four', 'failed', 'raises']);
  const running = async (name, how) => until(async () => JSON.parse((await stage.run(['ps', '--json'])).out).jobs.find((one) => one.name === name && how(one))?.id, `${name} is listed`);
  const id = await running('held', () => true), still = await running('stands', (one) => one.standing);
  const pages = ['#/jobs', '#/tasks', `#/tasks/${two}`, `#/tasks/${broken}`, '#/submit', '#/site', '#/design', `#/scaling?tasks=${one},${two}`, '#/compare', `#/compare?a=${raises}&b=${plain}`, `#/jobs/${still}`, `#/jobs/${raises}`, `#/jobs/${raises}/log`, `#/compare?a=${counted}&b=${report.id}`, `#/compare?a=${counted}&b=${report.id}&over=ranks`, `#/jobs/${id}`, `#/jobs/${failed}`, `#/jobs/${plain}`, `#/jobs/${plain}/space`, `#/jobs/${plain}/communication`,
    `#/jobs/${valued}/values?q=find_root`, `#/jobs/${sampled.id}/profile`, `#/jobs/${python.id}/tree`, job, ...['space', 'functions?over=all', 'communication', 'distributions', 'tree', 'values', 'source'].map((view) => `${job}/${view}`)];
  const found = [];
  for (const colorScheme of ['light', 'dark'])
    for (const width of [1440, 800, 390]) {
      const page = await at('#/jobs', { viewport: { width, height: 900 }, colorScheme });
      for (const hash of pages) {
        await page.evaluate((to) => (location.hash = to), hash);
        await page.locator('main h1, main .empty-title').first().waitFor();
        await page.locator('.waiting').waitFor({ state: 'detached' });
        await page.locator('.untitled').waitFor({ state: 'detached' });
        if (hash.endsWith('space')) await page.locator('.space-legend li, .empty').first().waitFor();
        if (await page.getByText('There is no such').count()) found.push(`${hash} is not there`);
        found.push(...(await violations(page)).map((one) => `${hash}, ${width}, ${colorScheme}: ${one}`));
        if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) found.push(`${hash}, ${width}: wider than its window`);
      }
      found.push(...page.faults);
      await page.context().close();
    }
  stage.write('let-go', '');
  await until(() => held.exitCode !== null, 'the job ends');
  await stage.end(stands);
  assert.deepEqual(found, []);
});

variant('on paper a page is light, fits, and has nothing to press', async () => {
  const page = await at('space', { colorScheme: 'dark' }); // with these grounds: #151e22, #0a1013
  const job = `#/jobs/${report.id}`;
  for (const hash of ['#/jobs', job, ...['space', 'functions?over=all', 'matrix', 'tree', 'distributions', 'source'].map((view) => `${job}/${view}`), `#/compare?a=${counted}&b=${report.id}`]) {
    await page.emulateMedia({ media: null });
    await page.evaluate((to) => (location.hash = to), hash);
    await page.locator('main h1').first().waitFor();
    await page.locator('.waiting').waitFor({ state: 'detached' });
    if (hash.includes('space')) await settled(page);
    // what the browser prints: what is drawn when no promise is left
    await page.evaluate(() => matchMedia('print').addEventListener('change', async ({ matches }) => {
      if (!matches) return;
      for (let i = 0; i < 20; i++) await null;
      window.onPaper = [...document.querySelectorAll('main canvas')].filter((one) => one.clientWidth).map((one) => {
        const pixels = new Uint32Array(one.getContext('2d').getImageData(0, 0, one.width, one.height).data.buffer);
        return { dark: pixels.includes(0xff221e15) || pixels.includes(0xff13100a), stretched: Math.abs(one.width / one.clientWidth / (one.height / one.clientHeight) - 1) > 0.1 };
      });
    }));
    await page.pdf({ format: 'A4' });
    for (const found of await page.evaluate(() => window.onPaper)) assert.deepEqual(found, { dark: false, stretched: false }, hash);
    await page.emulateMedia({ media: 'print' });
    assert.deepEqual(await page.locator('main :is(button, input, [role=button]):not(th *):not(.space-lanes *):not(.source *)').filter({ visible: true }).evaluateAll((list) => list.map((one) => one.outerHTML)), [], hash);
    await shoot(page, `paper-${hash.split('/').pop().split('?')[0] || 'job'}`);
  }
  assert.deepEqual(page.faults, []);
});
