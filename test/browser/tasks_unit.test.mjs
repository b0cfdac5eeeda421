// SPDX-License-Identifier: Apache-2.0
// What the form of a task makes of what is typed, the archive that a folder becomes, and how often a server is dialled that is away.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { bundled } from './bundled.mjs';
import { ownDirectory } from './harness.mjs';

const { api, form, upload, unseen } = await bundled({ api: './api', form: './tasks/form', upload: './tasks/upload', unseen: './tasks/unseen' });

test('ranks that nothing is known of', () => {
  const rows = [[4, 4, 4, 0, null], [4, 4, null, 0, null], [null, null, null, 0, null], [null, null, null, null, null], [4, 4, 3, 1, '1 of 4 ranks has no trace'], [4, 2, null, 2, '2 of 4 ranks have no statistics'],
    [1, 0, 0, 1, '1 of 1 rank has no trace, 1 of 1 rank has no statistics'], [null, null, null, 2, '2 processes were not traced']];
  for (const [ranks, ranks_counted, ranks_traced, untraced_processes, said] of rows) assert.equal(unseen.unseen({ ranks, ranks_counted, ranks_traced, untraced_processes }), said);
});

test('words are those of a shell', () => {
  for (const [text, list] of [['', []], [' a  b ', ['a', 'b']], [`'a b'c "d\\"e" \\' ''`, ['a bc', 'd"e', "'", '']], ["'open", null], ['a\\', null]]) assert.deepEqual(form.words(text), list, text);
  const open = { ...form.emptyForm, options: "'open" };
  assert.deepEqual(['mpirun', 'plain'].map((by) => form.openQuote({ ...open, by })), ['options', undefined], 'what is hidden says nothing');
});

test('times and sizes; what is none goes to the server as it is', () => {
  for (const [text, value] of [['90', 90], ['1.5 h', 5400], ['10min', 600], ['', undefined], ['soon', 'soon'], ['1 year', '1 year']]) assert.equal(form.duration(text), value, text);
  for (const [text, value] of [['2 GB', 2 ** 31], ['512M', 2 ** 29], ['0', 0], ['1.2.3', '1.2.3']]) assert.equal(form.bytes(text), value, text);
});

test('a task fills the form that makes the same task', () => {
  const typed = { ...form.emptyForm, name: 'n', program: './p', arguments: "1 'two words' '\u001b[2J'", build: 'make', processes: '4', by: 'ssh', hosts: 'n1', functions: 'fn:* !fn:min', logs: 'a=b c', environment: 'A=1=2\nB=', seconds: '5400', memory: '3 MB', values: true };
  const spec = form.specOf(typed, ['p', 'src.tar'], ['src.tar'], 4, null);
  assert.equal(spec.build, 'tar -xf src.tar && make');
  assert.deepEqual(spec.environment, { A: '1=2', B: '' });
  assert.deepEqual(form.specOf(form.formOf({ task: spec }), ['p', 'src.tar'], [], 4, null), spec);
});

test('lines of the server stand at their fields', () => {
  const rows = [['limits.seconds: expected x', 'seconds', 'expected x'], ['launch.hosts[0]: expected x', 'hosts', 'expected x'], ['program is missing: a task needs it', 'program', 'is missing: a task needs it'], ['environment.A-B: a variable', 'environment', 'a variable'], ['there is no room', '', 'there is no room']];
  for (const [line, field, text] of rows) {
    const said = form.blamed(line);
    assert.equal(said.field, field, line);
    assert.ok(said.text.endsWith(text), said.text);
  }
});

test('tar unpacks the archive of a folder', async () => {
  const directory = ownDirectory(), long = `${'d'.repeat(90)}/${'é'.repeat(40)}.c`;
  const files = { 'src/a.c': 'int a;\n', [`src/${long}`]: 'x'.repeat(1300), 'src/empty': '' };
  const [given, ...rest] = upload.gathered(Object.entries(files).map(([name, text]) => ({ path: name, file: new Blob([text]) })));
  assert.deepEqual([rest.length, given.name, given.folder], [0, 'src.tar', 3]);
  fs.writeFileSync(path.join(directory, 'src.tar'), Buffer.from(await given.blob.arrayBuffer()));
  execFileSync('tar', ['-xf', 'src.tar'], { cwd: directory });
  for (const [name, text] of Object.entries(files)) assert.equal(fs.readFileSync(path.join(directory, name), 'utf8'), text);
});

test('who does not answer is dialled once a minute after ten tries, and at once by who looks again', (t) => {
  let now = 0, source, timer, look;
  t.mock.method(Date, 'now', () => now);
  globalThis.window = { setTimeout: (dial, wait) => (timer = { dial, wait }) };
  globalThis.document = { hidden: false, addEventListener: (_, listener) => (look = listener), removeEventListener() {} };
  globalThis.EventSource = class {
    static CLOSED = 2;
    constructor() {
      source = this;
    }
    close() {}
  };
  const stop = api.keepDialled(() => 'api/x', () => {});
  const pause = (lasted) => {
    source.onopen();
    now += lasted;
    source.onerror();
    now += timer.wait;
    timer.dial();
    return timer.wait / 1000;
  };
  assert.deepEqual(Array.from({ length: 12 }, () => pause(100)), [...Array(9).fill(2), 60, 60, 60]);
  assert.equal(pause(20_000), 2, 'it was there, and something on the way cut it');
  for (let i = 0; i < 10; i++) pause(100);
  assert.equal(pause(100), 60);
  look();
  assert.equal(pause(100), 2, 'somebody looks');
  stop();
  for (const name of ['window', 'document', 'EventSource']) delete globalThis[name];
});
