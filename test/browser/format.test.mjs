// SPDX-License-Identifier: Apache-2.0
// What pages compute without a browser: figures as scry writes them, colours that all can tell apart, the address, files to take away.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { bundled } from './bundled.mjs';

const source = path.resolve(import.meta.dirname, '../..');
globalThis.location = { hash: '' };
globalThis.addEventListener = () => {};
globalThis.matchMedia = () => ({ matches: false });
globalThis.document = { documentElement: { dataset: {} } };
globalThis.localStorage = { getItem: () => null };
const { format, state, status, pictures, series, curves, control, live, verdict, profile } = await bundled({ format: './format', state: './state', status: './pages/status', pictures: './pictures', series: './pages/series', curves: './pages/curves', control: './pages/control', live: './pages/live', verdict: './pages/verdict', profile: './views/profile' });

test('figures are written as the command line writes them', () => {
  const rows = [...fs.readFileSync(path.join(source, 'src/jobdir/text/test_numbers.inc'), 'utf8').matchAll(/\{"(\w+)", ([\d.e+-]+), "([^"]+)"\}/g)];
  assert.ok(rows.length > 60);
  for (const [, name, value, shown] of rows) assert.equal(format[name](Number(value)), shown, `${name}(${value})`);
});

test('a command line reads as a shell wants it', () => {
  assert.equal(format.command(['sh', '-c', "echo 'a b' $x", '']), `sh -c 'echo '\\''a b'\\'' $x' ''`);
  assert.equal(format.command(['naïve', '-x=1^2', 'two\nlines']), `naïve -x=1^2 'two\nlines'`);
  const odd = "it's\u001b[2J\\\r\u007f";
  assert.equal(format.command([odd]), `$'it\\'s\\033[2J\\\\\\015\\177'`);
  assert.equal(execFileSync('bash', ['-c', `printf %s ${format.command([odd])}`], { encoding: 'utf8' }), odd);
});

test('the address keeps names of any kind', () => {
  for (const place of [{ path: ['jobs', 'a/b?c#d%e'], params: { text: 'x&y=z', sort: '-time' } }, { path: ['jobs'], params: {} }])
    assert.deepEqual(state.placeParse(state.href(place.path, place.params)), place);
  assert.deepEqual(state.placeParse('#/jobs?text=why?&state=bad'), { path: ['jobs'], params: { text: 'why?', state: 'bad' } }); // typed by hand
  assert.deepEqual(state.placeParse('#/jobs/%E0%A4%A'), { path: ['jobs', '%E0%A4%A'], params: {} });
});

test('CSV is what spreadsheets read, and no formula of a job gets into one', () => {
  assert.equal(pictures.csv({ columns: ['name', 'ns'], rows: [['a,"b"', 12], ['=cmd()', null], ['-1', -1]] }), 'name,ns\r\n"a,""b""",12\r\n\'=cmd(),\r\n\'-1,-1\r\n');
});

test('text of a job stays text in an SVG', () => {
  const pen = pictures.svgPen(100, 50, '#ffffff');
  pen.text('</text><script>x</script>&"\u0001', 1, 2, { colour: '"><b>' });
  assert.ok(!/<script|<b>|\u0001/.test(pen.svg()), pen.svg());
});

test('a curve keeps its peaks, and no more points than can be seen', () => {
  const curve = new series.Series();
  for (let i = 0; i < 100_000; i++) curve.push(i, i === 54_321 ? 1000 : i % 7);
  assert.ok(curve.t.length <= 2000, String(curve.t.length));
  assert.equal(Math.max(...curve.v), 1000);
  assert.ok(curve.t.every((t, i) => i === 0 || t > curve.t[i - 1]));
  curve.push(5, 2000); // told again after a reconnection
  assert.equal(Math.max(...curve.v), 1000);
  const full = new series.Series();
  for (let i = 0; i <= 2000; i++) full.push(i, i === 2000 ? 1000 : 1); // the last one is one too many
  assert.equal(full.last, 1000);
});

test('how a job is, is said of what is known', () => {
  const text = (job) => status.outcome(job).text;
  assert.deepEqual([text({ status: 'signaled', signal: 11 }), text({ status: 'signaled' }), text({ status: 'exited' })], ['killed by SIGSEGV', 'killed by a signal', 'ended']);
});

test('curves of a node are made of the same when a job is over as when it runs', () => {
  const health = { curves: Object.entries({ disk_read_bytes: [1, null, 3], disk_written_bytes: [10, null, null], received_bytes: [0, 5, 5], sent_bytes: [7, 7, 7], pressure_io: [0.1, 0.2, 0], pressure_memory: [0, 0, 0.9] }).map(([name, max]) => ({ name, most: 0, window_seconds: 2, max })) };
  const none = { window_seconds: 2, max: [] };
  const { curves: made, metrics } = live.modelOfReport({ host: 'n1', node: null, timeline: { cpus: none, rss_bytes: none }, health, logs: { metrics: [{ name: 'loss', course: { seconds: [1, 2], values: [-3, 0.5] } }] }, parts: [] });
  assert.deepEqual(['disk', 'network', 'stall'].map((name) => made.get(name).get('n1').v), [[11, 3], [7, 12, 12], [0.1, 0.2, 0.9]]);
  const running = new series.Model('n1');
  for (const [t, value] of [[1, -3], [2, 0.5]]) running.take({ type: 'metric', node: 'n1', t, source: 'stdout', name: 'loss', value, least: value, most: value, values: 1 });
  assert.deepEqual([...metrics], [...running.metrics]);
});

test('the log of a job that is over has the lines of all its nodes, by the time of the job', () => {
  const part = (...lines) => ({ logs: { errors: lines.slice(0, 1), lines, files: [], patterns: [] }, scripts: { failed_commands: [], exceptions: [] } });
  const line = (t, text) => ({ t, level: 'info', file: '/x/a.log', text });
  const { lines } = series.logOf({ ...part(line(3, 'own')), host: 'n1', node: null, parts: [{ ...part(line(0.5, 'far')), name: 'n2', started_at: 1 }] });
  assert.deepEqual(lines.map(({ t, from, text }) => [t, from, text]), [[1.5, 'n2: a.log', 'far'], [3, 'a.log', 'own']]);
});

test('the log has what was not watched as long as it was, and signals by their names', () => {
  const model = new series.Model('n1');
  for (const record of [{ type: 'gap', t: 3950, from: 3900.1, to: 3950.4, reason: 'killed' }, { type: 'crash', t: 3960, name: 'ocean', pid: 7, signal: 11 }]) model.take({ node: 'n1', ...record });
  assert.deepEqual(model.lines.map((line) => line.text), ['not watched for 50.3 s, from 1 h 05 min on: killed', 'process 7 was killed by SIGSEGV']);
});

test('a log without lines says which files had none that matched, and which could not be read', () => {
  const part = (...files) => ({ logs: { errors: [], lines: [], patterns: [], files: files.map(([file, state, reason]) => ({ t: 0, file, state, reason })) }, scripts: { failed_commands: [], exceptions: [] } });
  const said = (own, far = []) => series.unmatched(series.logOf({ ...part(...own), host: 'n1', node: null, parts: [{ ...part(...far), name: 'n2', started_at: 1 }] }).logs);
  const none = 'looked like an error, or matched a pattern of --log.';
  assert.equal(said([]), 'Nothing that looked like an error was written to a log.');
  assert.equal(said([['stderr', 'watched'], ['/x/steps.log', 'removed']], [['/x/steps.log', 'watched']]), `No line of stderr, steps.log, n2: steps.log ${none}`);
  assert.equal(said([['a.log', 'waited_for'], ['b.log', 'unwatched'], ['stderr', 'rotated']]), `No line of stderr ${none} Not there: a.log. Could not be read: b.log.`);
  assert.equal(said([['stderr', 'unwatched', 'it is a terminal; write to a file'], ['a.log', 'unwatched', 'it is a terminal; write to a file']]), 'Could not be read: stderr, a.log. It is a terminal; write to a file.');
  assert.equal(said(['a', 'b', 'c', 'd', 'e', 'f'].map((file) => [file, 'watched'])), `No line of a, b, c, d and 2 others ${none}`);
});

test('stacks: functions that only call one other stand in one row', () => {
  const node = (number, parent, threads, innermost = 0) => ({ number, parent, threads, innermost, function: `f${number}` });
  // main 4 → solve 4 → {jacobi 3, reduce 1 → wait 1}; the children come mixed, each behind its parent
  const rows = control.stackRows([node(1, 0, 4), node(2, 1, 4), node(3, 2, 3, 3), node(9, 0, 1, 1), node(4, 2, 1), node(5, 4, 1, 1)]);
  assert.deepEqual(rows.map((r) => [r.depth, r.chain.map((n) => n.number)]), [[0, [1, 2]], [1, [3]], [1, [4, 5]], [0, [9]]]);
});

test('a snapshot says which ranks are where, in functions that their user knows, those of the program first', () => {
  const processes = [0, 1, 2].map((rank) => ({ rank, name: 'ocean', pid: 10 + rank })).concat({ rank: -1, name: 'mpirun', pid: 9 });
  const node = (number, parent, fn, of, innermost = 0, more = {}) => ({ number, parent, language: 'native', function: fn, module: '/x/ocean', file: null, line: null, threads: of.length, running: innermost, innermost, processes: of, ...more });
  const libc = { module: '/usr/lib/libc.so.6' }, mpi = { module: '/usr/lib/libmpi.so.40' }, all = [0, 1, 2];
  const nodes = [
    node(1, 0, '_start', all), node(2, 1, '__libc_start_main_impl', all, 0, libc), node(3, 2, 'main', all, 0, { file: '/x/y/ocean.c', line: 35 }),
    node(4, 3, 'PMPI_Send', [0, 2], 0, mpi), node(5, 4, 'progress', [0, 2], 1, mpi), node(6, 5, 'sched_yield', [0, 2], 1, libc), node(7, 3, 'solve', [1], 1, { file: '/x/y/ocean.c', line: 9 }),
    node(8, 0, 'clone3', [0, 1, 2, 3], 0, libc), node(9, 8, 'event_loop', [0, 1, 2, 3], 0, { module: '/usr/lib/libevent.so' }), node(10, 9, 'epoll_wait', all, 3, libc), node(11, 9, 'poll', [3], 1, libc),
  ];
  assert.deepEqual(control.stackLines({ nodes, processes }), [
    { who: 'ranks 0, 2', threads: 2, running: 2, text: 'main (ocean.c:35) › MPI_Send' }, { who: 'rank 1', threads: 1, running: 1, text: 'main (ocean.c:35) › solve (ocean.c:9)' },
    { who: 'ranks 0-2', threads: 3, running: 3, text: 'event_loop' }, { who: 'mpirun (9)', threads: 1, running: 1, text: 'event_loop' },
  ]);
  const python = (fn, line) => ({ language: 'python', function: fn, file: '/x/a.py', line, module: null });
  const script = [node(1, 0, 'Py_BytesMain', [3], 0, { module: '/usr/bin/python3.11' }), node(2, 1, null, [3], 0, python('work', 4)), node(3, 2, null, [3], 0, { module: '/usr/lib/python3/MPI.so' }), node(4, 3, 'PMPI_Barrier', [3], 1, mpi)];
  assert.deepEqual(control.stackLines({ nodes: script, processes }).map((line) => line.text), ['work (a.py:4) › MPI_Barrier']);
  assert.deepEqual(control.stackLines({ nodes: [node(1, 0, '_start', [3], 1)], processes }).map((line) => line.text), ['_start'], 'one that has only begun keeps what it has');
});

test('marks of a time axis are round, and few', () => {
  for (const [from, to] of [[0, 15], [3.3, 3.4], [0, 1e6], [86000, 90000]]) {
    const marks = curves.timeTicks(from, to, 8);
    assert.ok(marks.length >= 2 && marks.length <= 9, `${from}..${to}: ${marks}`);
    assert.equal(new Set(marks.map(curves.tick)).size, marks.length, marks.map(curves.tick).join());
  }
});

test('marks of an axis of values are round in the unit that is shown', () => {
  const marks = (top, unit) => curves.valueTicks(top, unit, 4).map(unit === 'cpus' ? String : format.size);
  assert.deepEqual(marks(1000 * 1024, 'bytes_per_second'), ['0 B', '256 KB', '512 KB', '768 KB']);
  assert.deepEqual(marks(3 * 2 ** 30, 'bytes'), ['0 B', '1.0 GB', '2.0 GB', '3.0 GB']);
  assert.deepEqual(marks(7.3, 'cpus'), ['0', '2', '4', '6']);
  for (const unit of ['bytes', 'cpus'])
    for (let top = 0.3; top < 1e14; top *= 1.7) {
      const at = curves.valueTicks(top, unit, 4);
      assert.ok(at.length <= 5 && at[at.length - 1] <= top * 1.000001 && (at.length > 1 || top < 1), `${top} ${unit}: ${at}`);
    }
});

// Machado, Oliveira, Fernandes 2009, severity 1; distances in OKLab (Ottosson 2020), times 100: 2 can just be seen side by side.
const eyes = {
  all: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
};
const linear = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
const seen = (rgb, matrix) => matrix.map((row) => Math.min(1, Math.max(0, row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2])));
const times = (matrix, v) => matrix.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
const oklab = (rgb) =>
  times([[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]],
    times([[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]], rgb).map(Math.cbrt));
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
const contrast = (a, b) => {
  const [dark, light] = [luminance(linear(a)), luminance(linear(b))].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
};
const colours = { light: {}, dark: {} };
for (const [, name, light, dark] of fs.readFileSync(path.join(source, 'src/web/ui/design/colours.css'), 'utf8').matchAll(/--([\w-]+): light-dark\((#\w+), (#\w+)\)/g)) {
  colours.light[name] = light;
  colours.dark[name] = dark;
}

for (const [mode, c] of Object.entries(colours)) {
  test(`text is readable: ${mode}`, () => {
    for (const ink of ['ink', 'soft', 'accent', 'good', 'warn', 'bad'])
      for (const back of ['page', 'surface', 'sunken', 'chosen']) assert.ok(contrast(c[ink], c[back]) >= 4.5, `${ink} on ${back}: ${contrast(c[ink], c[back])}`);
    for (const [ink, back] of [['accent-ink', 'accent'], ['ink', 'good-back'], ['ink', 'warn-back'], ['ink', 'bad-back']]) assert.ok(contrast(c[ink], c[back]) >= 4.5, `${ink} on ${back}`);
    assert.ok(contrast(c.edge, c.surface) >= 3, 'edges of controls');
  });
  test(`categories differ for all eyes: ${mode}`, () => {
    for (const names of [['compute', 'p2p', 'wait', 'collective', 'onesided', 'io', 'other'], [1, 2, 3, 4, 5, 6, 7, 8].map((i) => `c${i}`)])
      for (const a of names) {
        assert.ok(contrast(c[a], c.surface) >= 2, `${a} on the surface: ${contrast(c[a], c.surface)}`);
        for (const b of names.slice(0, names.indexOf(a)))
          for (const [eye, matrix] of Object.entries(eyes)) {
            const [x, y] = [a, b].map((name) => oklab(seen(linear(c[name]), matrix)));
            const distance = 100 * Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
            assert.ok(distance >= 9, `${a} and ${b}, ${eye}: ${distance}`);
          }
      }
  });
  test(`amounts grow by lightness: ${mode}`, () => {
    const light = [0, 1, 2, 3, 4, 5].map((i) => luminance(linear(c[`heat${i}`])));
    for (let i = 1; i < 6; i++) assert.ok(mode === 'light' ? light[i] < light[i - 1] : light[i] > light[i - 1], `heat${i}`);
  });
}

test('a standstill is one as long as no rank has moved since; its finding comes first, without what the ranks are in otherwise', () => {
  const why = '2 ranks: 2 stuck, 0 compute\n\ndeadlock: 2 ranks wait for each other\n  rank 0: MPI_Recv\n  rank 1: MPI_Recv\n\nRanks\n  rank 0: MPI_Recv';
  const stall = { t: 90, seconds: 75, why }, ranks = (...since) => since.map((since_seconds, rank) => ({ rank, since_seconds }));
  assert.deepEqual(verdict.stillOf(stall, ranks(185, 190), 200), { now: true, since: 15, finding: 'deadlock: 2 ranks wait for each other', lines: ['rank 0: MPI_Recv', 'rank 1: MPI_Recv'] });
  assert.equal(verdict.stillOf(stall, ranks(185, 100), 200).now, false, 'one has moved');
  assert.deepEqual(verdict.stillOf({ ...stall, why: '2 ranks: 1 waits' }, [], 200), { now: true, since: 15, finding: '2 ranks: 1 waits', lines: [] });
});

test('nothing moves: without ranks for five seconds, with ranks if none begins or ends a call, and one is in one', () => {
  const ranks = (...of) => of.map(([state, since_seconds], rank) => ({ rank, state, since_seconds }));
  assert.deepEqual([4.9, 5].map((known) => verdict.isQuiet([], 0, known, 6)), [false, true]);
  assert.ok(!verdict.isQuiet([], 0, 20, 30), 'records that are still to come may say that it moves');
  assert.ok(verdict.isQuiet(ranks(['in_call', 6], ['computing', 9]), 100, 100, 100), 'processors that poll are busy');
  assert.ok(!verdict.isQuiet(ranks(['in_call', 6], ['in_call', 2]), 0, 100, 100), 'one has moved');
  assert.ok(!verdict.isQuiet(ranks(['computing', 60], ['computing', 60]), 0, 100, 100), 'all compute');
  assert.ok(verdict.isQuiet(ranks(['in_call', 6], ['ended', 0]), 0, 100, 100), 'one that has ended waits for nobody');
  assert.ok(verdict.isQuiet(ranks(['ended', 0]), 0, 100, 100), 'nor are there ranks when all have ended');
});

test('what a rank waits for has its place in the source, who called it, and its time, as scry why says it', () => {
  const thread = { text: 'MPI_Send of 8 B to rank 1', call: 'MPI_Send', at: { function: 'exchange', file: '/x/y/../ocean.c', line: 17 }, seconds: 72.2 };
  assert.equal(verdict.waitText(thread), 'MPI_Send of 8 B to rank 1, at exchange (ocean.c:17), for 72.2 s');
  assert.equal(verdict.waitText({ ...thread, at: null }, 'step (ocean.py:3)'), 'MPI_Send of 8 B to rank 1, called by step (ocean.py:3), for 72.2 s');
  assert.equal(verdict.waitText({ text: 'computes: solve (ocean.c:9)', call: null, at: null, seconds: 0 }, 'step (ocean.py:3)'), 'computes: solve (ocean.c:9)');
});

test('what ranks do is counted as scry why counts it', () => {
  const head = (waiting, polling, computing, stuck, unheard = 0) => verdict.ranksHead({ ranks: Array(waiting + polling + computing + unheard), waiting, polling, computing, stuck, unheard });
  assert.equal(head(3, 0, 0, 3), '3 ranks: 3 stuck, 0 compute');
  assert.equal(head(1, 0, 1, 0), '2 ranks: 1 waits, 1 computes');
  assert.equal(head(3, 1, 0, 2, 1), '5 ranks: 3 wait (2 of them stuck), 1 polls, 0 compute, 1 is on nodes that do not answer');
});

test('tabs of which nothing was recorded are known: no single calls, no functions, no ranks, no lines', () => {
  const report = ({ functions = 0, python = 0, ranks = 0, sites = [], profile = { functions: [] } }) => ({ profile, functions: Array(functions).fill({}), mpi: ranks ? { ranks: Array(ranks).fill({}), sites } : null, scripts: { python_functions: [] }, parts: [{ scripts: { python_functions: Array(python).fill({}) } }] });
  const empty = (of) => verdict.emptyViews(report(of)).sort().join();
  assert.equal(empty({}), 'communication,distributions,functions,source,space,tree,values');
  assert.equal(empty({ functions: 1 }), 'communication,distributions');
  assert.equal(empty({ python: 1 }), 'communication,distributions,source,space,values', 'of another node, and no single calls');
  assert.equal(empty({ ranks: 2, sites: [{ file: null }] }), 'functions,source,space,tree,values', 'counted, not traced');
  assert.equal(empty({ ranks: 2, sites: [{ file: 'ocean.c' }] }), 'functions,space,tree,values');
  assert.equal(empty({ functions: 1, ranks: 2, profile: null }), 'profile');
  assert.equal(empty({ profile: { functions: [{ file: '' }, { file: 'ocean.c' }] } }), 'communication,distributions,functions,space,tree,values', 'samples know lines');
  assert.equal(verdict.emptyViews(undefined, { functions: [], ranks: [{}] }).sort().join(), 'functions,space,tree,values');
  assert.deepEqual(verdict.emptyViews(undefined, undefined), [], 'nothing is known yet');
});

test('warnings that differ by their figures alone are one, with its times', () => {
  const shared = (t, cpus) => ({ t, text: `the node is shared: others use ${cpus} of 2 CPUs` });
  const found = verdict.alike([shared(10, 1.8), { t: 20, text: 'the disk is full' }, shared(414, '1')]);
  assert.deepEqual(found, [{ text: shared(0, '1').text, times: [10, 414] }, { text: 'the disk is full', times: [20] }]);
  assert.deepEqual([[3], [3, 4], [3, 4, 9], [1, 3, 4, 9], [1, 2, 3, 4, 9]].map(verdict.timesText),
    ['At 3.00 s.', 'At 3.00 s and 4.00 s.', 'At 3.00 s, 4.00 s and 9.00 s.', 'At 3.00 s, 4.00 s and 9.00 s, and 1 time before.', 'At 3.00 s, 4.00 s and 9.00 s, and 2 times before.']);
});

test('two figures differ from 5 % on, and what changed least of all for nothing', () => {
  assert.deepEqual([[100, 104], [100, 106], [106, 100], [0, 3], [null, 3]].map(([a, b]) => profile.changeOf(a, b)), ['', 'more', 'less', 'more', '']);
  assert.deepEqual([9, 11].map((b) => profile.changeOf(0, b, 1000)), ['', 'more']);
});

