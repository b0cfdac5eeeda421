// SPDX-License-Identifier: Apache-2.0
// The whole story in a browser: a program is submitted, watched, looked at in all pictures, run with changes, compared, and one that
// takes too long is ended. The real server, runner, mpirun and program.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import { example, openPage, openStage, serveStage, shoot, until, violations } from './harness.mjs';

let stage, server, page;
const LONG = 180_000; // mpirun, and what else the machine has to do

before(async () => {
  stage = await openStage();
  fs.copyFileSync(example('stommel'), path.join(stage.work, 'ocean'));
  server = await serveStage(stage);
  page = await openPage();
  await page.goto(server.first);
  await page.getByRole('link', { name: 'Submit' }).click();
  await page.getByRole('heading', { name: 'Submit a task' }).waitFor();
});

const field = (name, on = page) => on.getByRole('textbox', { name, exact: true });
const state = (on = page) => on.locator('.job-title .state');
const comes = (word, on = page) => state(on).filter({ hasText: word }).waitFor({ timeout: LONG });
const idNow = async () => {
  await page.waitForURL(/#\/tasks\/[^/?]+$/, { timeout: LONG });
  return decodeURIComponent(/#\/tasks\/([^/?]+)/.exec(page.url())[1]);
};
/** again: the same page is looked at once more, with all that it has here and more. */
const clean = async (name, on = page, { again = false } = {}) => {
  if (!again) assert.deepEqual(await violations(on), [], name);
  assert.ok(await on.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: wider than its window`);
  assert.deepEqual(on.faults, []);
  await shoot(on, name);
};
/** Open MPI wants root to say twice that it is meant: the form has that, and does not say it by itself. */
const asWhoever = async () => {
  if (process.getuid() !== 0) return;
  await page.getByRole('button', { name: 'It is meant' }).click();
  assert.equal(await field('Environment').inputValue(), 'OMPI_ALLOW_RUN_AS_ROOT=1\nOMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1');
};
let first, second;

test('the form: what the server would refuse stands at its field, and what was typed stays', async () => {
  await clean('submit', page, { again: true });
  await field('Time').fill('soon');
  await page.locator('.field.wrong', { has: page.getByText('Time', { exact: true }) }).getByText(/^expected a whole number .* not "soon"$/).waitFor();
  assert.equal(await field('Time').getAttribute('aria-invalid'), 'true');
  await field('Arguments').fill("64 64 300 'open");
  await clean('submit-wrong');
  await page.getByRole('link', { name: 'Jobs', exact: true }).click();
  await page.getByRole('heading', { name: 'Jobs' }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.getByText('a quote is open').waitFor();
  assert.equal(await field('Time').inputValue(), 'soon');
  await page.reload();
  assert.equal(await field('Arguments').inputValue(), "64 64 300 'open", 'a reload keeps it, too');
  await page.getByRole('button', { name: 'Submit', exact: true }).click(); // there is no program, and more
  await page.getByText('Something above is not right yet').waitFor();
  assert.match(page.url(), /#\/submit/);
});

test('a program is uploaded, runs, and all pictures show it', async () => {
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await field('Time').fill('10 min');
  await field('Arguments').fill('64 64 300');
  await field('Name').fill('<b>ocean</b>');
  await field('Processes').fill('2');
  await page.locator('input[type=file]').first().setInputFiles(path.join(stage.work, 'ocean'));
  assert.equal(await field('Program').inputValue(), 'ocean', 'the only file is what runs');
  await page.getByText('scry submit -n 2').waitFor();
  await asWhoever();
  await shoot(page, 'submit-filled');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  first = await idNow();
  await page.getByRole('heading', { name: '<b>ocean</b>' }).waitFor();
  await comes('done');
  await page.getByText('stommel 64 x 64', { exact: false }).or(page.getByText('64 x 64 points')).first().waitFor();
  await page.getByRole('link', { name: 'runs/1.out' }).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'files/ocean' }).click()]);
  assert.ok(fs.readFileSync(await download.path()).equals(fs.readFileSync(example('stommel'))), 'the file comes back as it went');
  const parts = await page.locator('main h2').allInnerTexts();
  assert.ok(parts.indexOf('What it printed') < parts.indexOf('What was asked for'), `the answer is first: ${parts}`);
  await clean('task');

  const pictures = await page.locator('.links a').evaluateAll((links) => links.map((a) => [a.textContent, a.getAttribute('href')]));
  assert.equal(pictures.length, 9);
  for (const [title, address] of pictures) {
    await page.locator(`.links a[href="${address}"]`).click();
    await page.locator('.tabs a[aria-current=page]', { hasText: title }).waitFor();
    await page.locator('.picture, .source, .log').first().waitFor();
    await page.locator('.waiting').waitFor({ state: 'detached' });
    await shoot(page, `story-${address.split('/').pop()}`);
    assert.deepEqual(page.faults, [], title);
    await page.getByText('of task').getByRole('link', { name: '<b>ocean</b>' }).click(); // the job says whose run it is
    await page.locator('.links').first().waitFor();
  }
});

test('with other arguments; and both compared, by an address that keeps the choice', async () => {
  await page.getByRole('link', { name: 'Run with changes' }).click();
  await page.getByRole('heading', { name: 'Run with changes' }).waitFor();
  assert.equal(await field('Arguments').inputValue(), '64 64 300');
  await page.getByText(`as task ${first} has it`).waitFor();
  await field('Arguments').fill('96 96 300');
  await field('Name').fill('larger');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await page.waitForURL((url) => !url.hash.includes('submit'), { timeout: LONG });
  second = await idNow();
  assert.notEqual(second, first);
  await comes('done');

  await page.getByRole('link', { name: 'Tasks', exact: true }).click();
  await page.getByRole('checkbox', { name: `choose larger, ${second}` }).check();
  await page.getByRole('checkbox', { name: `choose <b>ocean</b>, ${first}` }).check();
  await clean('tasks');
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  const table = page.getByRole('table', { name: 'Functions of both', exact: true });
  await table.locator('tbody tr', { hasText: 'main' }).first().waitFor({ timeout: LONG });
  assert.match(page.url(), /#\/compare\?a=[^&]+&b=[^&]+/);
  await page.reload();
  await table.locator('tbody tr', { hasText: 'main' }).first().waitFor({ timeout: LONG });
  await page.getByRole('button', { name: 'By rank' }).click();
  await page.getByRole('table', { name: 'Functions of both by rank' }).locator('tbody tr').first().waitFor({ timeout: LONG });
  await clean('story-compare');
});

test('a long one is watched as it runs, and ended', async () => {
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await field('Program').fill(example('stommel'));
  await field('Arguments').fill('400 400 10000000 1000');
  await field('Name').fill('long');
  await field('Processes').fill('2');
  await field('Functions').fill('');
  await asWhoever();
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await idNow();
  await page.getByRole('link', { name: 'watch it' }).click({ timeout: LONG });
  await page.getByRole('table', { name: 'Ranks of MPI' }).locator('tbody tr').nth(1).waitFor({ timeout: LONG });
  await page.getByRole('heading', { name: 'Control' }).waitFor();
  await page.getByText('Processors the job uses').first().waitFor({ timeout: LONG });
  await clean('story-live');
  await page.goBack();
  await idNow();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await comes('cancelled');
  assert.match(await state().innerText(), /^■/); // not the mark of what nobody knows
  await page.getByRole('button', { name: 'Run again' }).waitFor();
  await page.getByText('It is being ended.').waitFor({ state: 'detached' });
  await clean('task-cancelled');
});

test('a series: how it scales', async () => {
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  assert.equal(await field('Name').inputValue(), '', 'what was submitted is no draft any more');
  await field('Program').fill(example('stommel'));
  await field('Arguments').fill('64 64 100');
  await field('Name').fill('series');
  await field('Processes').fill('1, 2');
  await page.getByText('scry submit -n 1,2 --name=series').waitFor();
  await page.getByText('Each call that is recorded takes time').waitFor();
  await asWhoever();
  await page.getByRole('button', { name: 'Submit 2 tasks' }).click();
  await page.getByRole('region', { name: 'Chosen tasks' }).getByText('2 chosen').waitFor({ timeout: LONG });
  await until(async () => (await page.locator('tr.chosen .state.good').count()) === 2 || (await new Promise((go) => setTimeout(go, 100))), 'both are done');
  await page.getByRole('button', { name: 'How they scale' }).click();
  const table = page.getByRole('table', { name: 'The series' });
  await table.locator('tbody tr').nth(1).waitFor({ timeout: LONG });
  await clean('story-scaling', page, { again: true });
  await table.getByRole('link').first().click();
  await page.getByRole('link', { name: 'How it scales' }).click();
  await table.locator('tbody tr').nth(1).waitFor({ timeout: LONG });
});

test('tasks that are no series are chosen from a list', async () => {
  await page.evaluate(() => (location.hash = '#/scaling'));
  await page.locator('.scaling-curve').first().waitFor(); // the newest series, of itself
  await page.getByText('Tasks one by one').click();
  const list = page.getByRole('table', { name: 'Tasks to compare' });
  await list.getByRole('checkbox', { name: `choose <b>ocean</b>, ${first}` }).check();
  await list.getByRole('checkbox', { name: `choose larger, ${second}` }).check();
  await page.waitForURL((url) => url.hash.includes(`tasks=${first}%2C${second}`));
  const table = page.getByRole('table', { name: 'The series' });
  await until(async () => (await table.locator('tbody tr').count()) === 2, 'both are shown');
  assert.equal(await page.getByRole('textbox').count(), 0, 'no ids are typed');
  await clean('scaling-chosen');
  await list.getByRole('checkbox', { name: `choose larger, ${second}` }).uncheck();
  await until(async () => (await table.locator('tbody tr').count()) === 1, 'one is left');
});

test('a build that fails says so; what is broken off is no task', async () => {
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await field('Program').fill('./none');
  await field('Build it first by').fill('echo begins; echo "none.c:1: no such thing" >&2; exit 3');
  await page.getByRole('button', { name: 'Plain' }).click();
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await idNow();
  await comes('failed');
  await page.locator('.output').getByText('no such thing').waitFor();
  await clean('task-failed');
});

test('what a run left behind, and was ended, is said', async () => {
  await page.getByRole('link', { name: 'Submit', exact: true }).click();
  await field('Program').fill('/bin/sh');
  await field('Arguments').fill("-c 'setsid sleep 1000 & :'");
  await page.getByRole('button', { name: 'Plain' }).click();
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await idNow();
  await page.getByText('Run 1 left 1 process behind, which was ended: sleep').waitFor({ timeout: LONG });
  await comes('done');
  await clean('task-left-behind');
});

test('who may only look is told what to do; on a phone, in the dark, on paper', async () => {
  const looker = await openPage({ viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
  await looker.goto(await server.link('observe'));
  await looker.getByRole('link', { name: 'Tasks', exact: true }).click();
  await looker.getByRole('table', { name: 'Tasks' }).waitFor();
  assert.equal(await looker.getByRole('link', { name: 'Submit' }).count(), 0);
  await clean('tasks-phone-dark', looker);
  await looker.getByRole('link', { name: 'larger' }).click();
  await looker.getByText('Your link lets you look').waitFor();
  assert.equal(await looker.getByRole('button', { name: /Cancel|Run again|Remove/ }).count(), 0);
  await clean('task-phone-dark', looker);
  // nowhere is there anything to press that would change something
  for (const hash of ['#/tasks', `#/tasks/${first}`, '#/jobs', '#/compare', '#/scaling']) {
    await looker.evaluate((to) => (location.hash = to), hash);
    await looker.locator('main h1').first().waitFor();
    await looker.locator('.waiting').waitFor({ state: 'detached' });
    assert.equal(await looker.getByRole('button', { name: /cancel|again|remove|send|queue|submit|set$|record/i }).count(), 0, hash);
    assert.equal(await looker.locator('a[href^="#/submit"], input[type=file], textarea').count(), 0, hash);
  }
  await looker.evaluate(() => (location.hash = '#/submit'));
  await looker.getByText('Your link does not let you submit').waitFor();
  await clean('submit-refused', looker);

  const phone = await openPage({ viewport: { width: 360, height: 740 }, colorScheme: 'dark' });
  await phone.goto(await server.link());
  await phone.evaluate((id) => (location.hash = `#/submit?from=${id}`), second);
  await phone.getByText(`as task ${first} has it`).or(phone.getByText(`as task ${second} has it`)).waitFor();
  await clean('submit-phone-dark', phone);
  await page.evaluate((id) => (location.hash = `#/tasks/${id}`), second);
  await page.locator('.links').first().waitFor();
  await page.emulateMedia({ media: 'print' });
  await shoot(page, 'task-print');
  assert.deepEqual(page.faults, []);
});
