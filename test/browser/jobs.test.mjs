// SPDX-License-Identifier: Apache-2.0
// The list of jobs, a job that runs, one that failed: the real server, real jobs, and the figures of scry's own text.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import path from 'node:path';
import test, { before } from 'node:test';
import { build, openPage, openStage, serveStage, shoot, until, variant, violations } from './harness.mjs';

const SCRIPT = '<img src=x onerror=alert(1)>';
let stage, server;

before(async () => {
  stage = await openStage();
  stage.write('job.sh', '#!/bin/sh\necho begins\nsleep 0.2\nsh -c "exit 3"\nexit 3\n');
  await stage.run(['run', '-q', '--name', 'good', '--', 'true']);
  await stage.run(['run', '-q', '--name', 'broken', '--', './job.sh']);
  await stage.run(['run', '-q', '--name', SCRIPT, '--', 'false', SCRIPT]);
  await stage.run(['run', '-q', '--name', 'careless', '--', 'sh', '-c', "sh -c 'kill -SEGV $$'; exit 0"]);
  server = await serveStage(stage);
});

test('the list has all jobs; the filter and the order are in the address; text of jobs is only text', async () => {
  const page = await openPage();
  await page.goto(server.first);
  await page.getByRole('link', { name: 'broken' }).waitFor();
  const rows = page.locator('tbody tr');
  assert.equal(await rows.count(), 4);
  await page.getByRole('link', { name: SCRIPT }).waitFor();
  const { jobs } = JSON.parse((await stage.run(['ps', '--json', '--all'])).out);
  const cell = (id, column) => rows.filter({ has: page.locator(`a[href*="${id}"]`) }).locator(`.col-${column}`).innerText();
  for (const { id, brief } of jobs) assert.equal(await cell(id, 'cause'), brief ?? '');
  assert.ok(jobs.some(({ brief, cause }) => brief && !/pid/.test(brief) && /pid/.test(cause)));
  const careless = jobs.find(({ name }) => name === 'careless');
  assert.match((await cell(careless.id, 'state')).replace(/\s+/g, ' '), /^! exit status 0/, 'it is not marked as if all were well');
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'jobs');

  await page.getByRole('button', { name: 'Failed' }).click();
  await page.getByRole('button', { name: 'Job', exact: true }).click();
  await until(async () => (await rows.count()) === 2, 'two jobs failed');
  await page.getByRole('searchbox').fill('brok');
  await until(async () => (await rows.count()) === 1, 'one is called so');
  await page.waitForURL(/text=brok/);
  assert.match(page.url(), /state=bad/);
  assert.match(page.url(), /sort=name/);
  await page.reload();
  await until(async () => (await rows.count()) === 1, 'a reload shows the same');
  assert.equal(await page.getByRole('searchbox').inputValue(), 'brok');

  // by the keyboard: to the row, and into the job
  await rows.first().focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'broken' }).waitFor();
  assert.deepEqual(page.faults, []);
});

test('a job that failed: the reason, what happened last, and who failed first, as scry report says', async () => {
  const report = JSON.parse((await stage.run(['report', '--json', 'broken'])).out);
  for (const [name, options] of Object.entries({ light: {}, dark: { colorScheme: 'dark' }, phone: { viewport: { width: 360, height: 740 } } })) {
    const page = await server.open('#/jobs', options);
    await page.getByRole('link', { name: 'broken' }).click();
    await page.getByRole('heading', { name: 'What happened last' }).waitFor();
    const said = await page.locator('.reason').innerText();
    assert.ok(said.includes(report.last.reason.text.replace('probably ', '')), said);
    assert.equal(await page.locator('.job-title .cause').count(), 0, 'it is said once');
    const table = page.getByRole('table', { name: 'What happened last' });
    assert.equal(await table.locator('tbody tr').count(), report.last.events.length);
    for (const event of report.last.events) assert.ok((await table.innerText()).includes(event.text), event.text);
    assert.match(await page.locator('.blame li').first().innerText(), /exit status 3/);

    const [csv] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).first().click()]);
    assert.equal(csv.suggestedFilename(), 'broken-last.csv');
    const lines = (await streamText(await csv.createReadStream())).trim().split('\r\n');
    assert.equal(lines[0], 'number,before_end_seconds,seconds,layer,weight,text');
    assert.equal(lines.length, report.last.events.length + 1);
    assert.deepEqual(await violations(page, { contrast: name !== 'phone' }), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}: wider than its window`);
    await shoot(page, `failed-${name}`);
    await page.getByRole('link', { name: 'Communication' }).click();
    assert.ok((await page.locator('.job-title .cause').innerText()).includes(report.last.reason.text.slice(1)), 'and on the other parts, too');
    assert.deepEqual(page.faults, []);
    await page.context().close();
  }
});

variant('a crash in a traced program: the calls that were open', async () => {
  stage.write('crash.c', 'static void deep(int *p) { *p = 1; }\nint main(int argc, char **argv) { deep(argc > 9 ? &argc : (int *)0); return argv == 0; }\n');
  execFileSync('gcc', ['-g', '-O0', '-finstrument-functions', 'crash.c', '-o', 'crash'], { cwd: stage.work });
  await stage.run(['run', '-q', '--name', 'crashed', '--trace', 'fn:*', '--', './crash']);
  const page = await server.open('#/jobs');
  await page.getByRole('link', { name: 'crashed' }).click();
  const crash = page.getByRole('region', { name: 'Crash of crash' });
  await crash.getByText('Calls that were open').waitFor();
  assert.match(await crash.locator('header').innerText(), /process \d+, the signal came at /); // which is not when its process ended
  assert.equal(await page.locator('.blame').count(), 0, 'one process is no chain');
  assert.match((await crash.locator('.frames li').allInnerTexts()).join(), /^deep\(.*crash\.c:1,main\(.*crash\.c:2$/);
  await stage.run(['run', '-q', '--name', 'twice', '--', 'sh', '-c', './crash; ./crash; exit 1']);
  await page.getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('link', { name: 'twice' }).click();
  await crash.getByText('2 times: crash was killed by SIGSEGV').waitFor();
  assert.equal(await crash.count(), 1);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.faults, []);
});

test('a job that runs: its progress and its script, as they go on; then how it ended', async () => {
  stage.write('live.sh', '#!/bin/bash\nfor i in 1 2 3 4 5 6 7 8 9; do\n  echo "step $i of 10" >>steps.log\n  until [ -e go-$i ]; do sleep 0.1; done\ndone\necho "step 10 of 10" >>steps.log\n');
  const job = stage.start(['run', '-q', '--name', 'live', '--log', 'steps.log=step (?<n>\\d+) of (?<total>\\d+)', '--', './live.sh']);
  const page = await server.open('#/jobs');
  await page.getByRole('link', { name: 'live', exact: true }).click();
  await page.getByText('1 of 10, as steps.log says').waitFor();
  stage.write('go-1', '');
  await page.getByText('2 of 10, as steps.log says').waitFor();
  await page.getByText('step 2 of 10').waitFor(); // the record itself, as it came
  await page.getByText('live.sh:4').first().waitFor();
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'live');
  for (let i = 2; i < 10; i++) stage.write(`go-${i}`, '');
  await until(() => job.exitCode !== null, 'the job ends');
  await page.getByText('finished').waitFor();
  await page.getByLabel('Log of the job').getByText('step 10 of 10').waitFor(); // no error, and shown as well
  assert.deepEqual(page.faults, []);
});

test('where a running job uses processors: as soon as there is a sample, without another click', async () => {
  const job = stage.start(['run', '-q', '--name', 'busy', '--profile', '500', '--', 'nice', path.join(build, 'test/system/targets/profiled'), 'plain', '600']);
  const page = await server.open('#/jobs');
  await page.getByRole('link', { name: 'busy', exact: true }).click();
  await page.getByRole('link', { name: 'Profile', exact: true }).click();
  await page.getByRole('table', { name: 'Functions by samples' }).getByText('first', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'How it runs', exact: true }).click();
  await page.getByRole('region', { name: 'Where processors were used' }).getByRole('link', { name: 'first', exact: true }).click();
  await page.waitForURL(/profile\?find=first/);
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'profile-live');
  await stage.end(job);
  assert.deepEqual(page.faults, []);
});

variant('a log that was followed, and of which no line matched, is named', async () => {
  stage.write('quiet.log', '');
  await stage.run(['run', '-q', '--name', 'quiet', '--log', 'quiet.log=step', '--', 'true']);
  await stage.run(['run', '-q', '--name', 'half', '--log', 'quiet.log=st.p', '--log', 'quiet.log=begins', '--', 'sh', '-c', 'echo begins >>quiet.log']);
  const page = await server.open('#/jobs');
  await page.getByRole('link', { name: 'quiet', exact: true }).click();
  await page.getByText(/No line of .*quiet\.log looked like an error, or matched a pattern of --log/).waitFor();
  assert.equal(await page.getByText('To follow lines of your own').count(), 0);
  await page.getByText('No line of quiet.log matched step.').waitFor();
  await page.getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('link', { name: 'half', exact: true }).click();
  await page.getByText('No line of quiet.log matched st.p.').waitFor();
  assert.equal(await page.getByText(/No line of .* matched begins/).count(), 0, 'one did');
  assert.deepEqual(page.faults, []);
});

variant('who may only look gets no buttons that change', async () => {
  const job = stage.start(['run', '-q', '--name', 'held', '--', 'sh', '-c', 'until [ -e let-go ]; do sleep 0.1; done']);
  const page = await openPage();
  await page.goto(await server.link('observe'));
  await page.getByRole('link', { name: 'held' }).click();
  await page.getByRole('heading', { name: 'Processes' }).waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Control' }).count(), 0);
  assert.equal(await page.getByRole('link', { name: 'Site' }).count(), 0);
  stage.write('let-go', '');
  await until(() => job.exitCode !== null, 'the job ends');
  assert.deepEqual(page.faults, []);
});

test('what a job printed: as it comes, by stream, searched, what repeats folded; or why there is nothing', async () => {
  stage.write('print.sh', '#!/bin/sh\necho begins\nfor i in 1 2 3; do echo same; done\necho "<b>wrong</b>" >&2\nuntil [ -e go-print ]; do sleep 0.1; done\necho last\n');
  const job = spawn('sh', ['-c', '"$0" run -q --name printer -- ./print.sh >out.txt 2>err.txt', path.join(stage.root, 'bin/scry')], { cwd: stage.work, env: stage.env });
  const page = await server.open('#/jobs');
  await page.getByRole('link', { name: 'printer', exact: true }).click();
  await page.getByRole('link', { name: 'Log', exact: true }).click();
  const lines = page.getByRole('list', { name: 'What the job printed' }).getByRole('listitem');
  const texts = async () => (await lines.allInnerTexts()).map((text) => text.trim());
  await until(async () => (await texts()).join('|') === 'begins|same ×3|<b>wrong</b>', 'all that was printed is there, and folded');
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'log');
  stage.write('go-print', '');
  await until(async () => (await texts()).includes('last'), 'it follows');
  await until(() => job.exitCode !== null, 'the job ends');
  await page.getByRole('button', { name: 'Show what repeats' }).click();
  assert.equal((await texts()).filter((text) => text === 'same').length, 3);
  await page.getByRole('button', { name: 'Standard error' }).click();
  await until(async () => (await texts()).join('|') === '<b>wrong</b>', 'one stream');
  await page.getByRole('button', { name: 'Both' }).click();
  await page.getByRole('searchbox', { name: 'Only lines that match' }).fill('^(beg|la)');
  await page.keyboard.press('Enter');
  await until(async () => (await texts()).join('|') === 'begins|last', 'what matches');
  await page.waitForURL(/grep=/);
  await page.goto(page.url().replace(/grep=[^&]*/, 'grep=nothing'));
  await page.getByText('No line matches.').waitFor();
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await page.getByRole('link', { name: 'good', exact: true }).click();
  await page.getByRole('link', { name: 'Log', exact: true }).click();
  await page.getByText('standard output and standard error went to a pipe').waitFor();
  assert.deepEqual(page.faults, []);
});

test('a signal from the page ends the job, and the page says how', async () => {
  const job = stage.start(['run', '-q', '--name', 'signalled', '--', 'sh', '-c', 'while :; do sleep 0.1; done']);
  const page = await server.open('#/jobs');
  await page.getByRole('link', { name: 'signalled' }).click();
  await page.getByRole('button', { name: 'Send …' }).click();
  await page.getByRole('button', { name: 'Send SIGTERM' }).click();
  await until(() => job.exitCode !== null || job.signalCode !== null, 'the job ends');
  await page.locator('.job-title').getByText('killed by SIGTERM').waitFor();
  await page.locator('.reason').getByText('somebody asked for it on a page of scry').waitFor();
  assert.deepEqual(page.faults, []);
});

test('the site: the record, as scry site says', async () => {
  await stage.run(['record', '-q', '--import', 'good', 'broken']);
  const site = JSON.parse((await stage.run(['site', '--json'])).out);
  const page = await server.open('#/jobs');
  await page.getByRole('link', { name: 'Site' }).click();
  const nodes = page.getByRole('table', { name: 'Nodes' });
  await nodes.waitFor();
  assert.equal(await nodes.locator('tbody tr').count(), site.nodes.length);
  assert.ok((await nodes.innerText()).includes(site.nodes[0].node));
  assert.deepEqual(await violations(page), []);
  await shoot(page, 'site');
  assert.deepEqual(page.faults, []);
});

async function streamText(stream) {
  let text = '';
  for await (const part of stream) text += part;
  return text;
}
