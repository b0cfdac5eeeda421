// SPDX-License-Identifier: Apache-2.0
// What the pictures compute before they draw: windows, marks, lanes, tiles, pixels, colours. No browser is needed.
import assert from 'node:assert/strict';
import path from 'node:path';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const ui = path.join(import.meta.dirname, '../../src/web/ui');
const esbuild = createRequire(path.join(ui, 'package.json'))('esbuild');
const names = ['space/ticks', 'space/window', 'space/layout', 'space/tiles', 'space/colours', 'space/raster', 'space/data', 'space/scene', 'space/strips', 'space/control', 'space/vector', 'views/flame', 'views/lines'];
const { outputFiles } = esbuild.buildSync({
  stdin: { contents: names.map((name) => `export * as ${path.basename(name)} from './${name}';`).join('\n'), resolveDir: ui, loader: 'ts' },
  bundle: true, format: 'esm', write: false,
});
globalThis.matchMedia = () => ({}); // colours of pages ask for it
const { ticks, window, layout, tiles, colours, raster, data, scene, strips, control, vector, flame, lines } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString('base64')}`);

test('marks are round, as many as fit, in the unit of the zoom', () => {
  for (let span = 100; span < 3e15; span *= 3.7)
    for (const from of [0, 12.3456789e9, 86400e9 * 3]) {
      const { at, step, labels } = ticks.ticksOf(from, from + span, 10);
      assert.ok(at.length >= 1 && at.length <= 12, `${span}: ${at.length} marks`);
      assert.ok(at.every((t) => t >= from - step * 1e-6 && t <= from + span));
      assert.equal(new Set(labels).size, labels.length, `${from}+${span}: ${labels}`);
      assert.ok(labels.every((label) => label.length < 16), labels.join());
    }
  assert.deepEqual(ticks.ticksOf(0, 1e6, 5).labels, ['0.0 ms', '0.2 ms', '0.4 ms', '0.6 ms', '0.8 ms', '1.0 ms']);
  assert.equal(ticks.clockText(86400e9 * 2 + 3 * 3600e9), '2 d 03:00');
  assert.match(ticks.ticksOf(3600e9, 3600e9 + 1000, 5).baseLabel, /^3600/);
});

test('functions are called computing only where calls of MPI would have been seen', () => {
  const picture = (rank, classes, more = { complete: true }) => ({ lanes: [{ rank }, { rank: null }], functions: classes.map((kind) => ({ class: kind })), ...more });
  const classes = (of) => data.withUnsplit(of).functions.map((one) => one.class);
  assert.deepEqual(classes(picture(0, ['compute', 'compute'])), ['unsplit', 'unsplit']);
  assert.deepEqual(classes(picture(0, ['compute', 'other'])), ['compute', 'other']);
  assert.deepEqual(classes(picture(null, ['compute'])), ['compute'], 'no ranks');
  assert.deepEqual(classes(picture(0, ['compute'], { complete: false })), ['compute'], 'there may be calls of MPI behind what was read');
  assert.deepEqual(classes(picture(0, ['compute'], { complete: false, running: true })), ['unsplit']);
});

test('what ranks do between their calls of MPI has a name where only these were traced', () => {
  const lane = { lane: 0, rank: 0, from_ns: 10, to_ns: 90 };
  const picture = (classes, more = {}) => data.withOutside({ complete: true, lanes: [lane], functions: classes.map((kind, id) => ({ id, class: kind })), ...more });
  assert.equal(picture(['p2p', 'compute']).outside, undefined, 'the program has functions of its own');
  assert.equal(picture(['p2p'], { lanes: [lane, { rank: null }] }).outside, undefined, 'a thread that is no rank may not compute');
  const only = picture(['p2p', 'other']);
  assert.deepEqual([only.outside, only.functions[2].class], [2, 'compute']);
  const filled = (raw, from, to, of = only) => data.fillOutside(data.decodeTile({ from_ns: from, to_ns: to, lanes: [{ lane: 0, ...raw }] }, 4), of).lanes[0];
  const calls = (one) => Array.from(one.begin, (begin, i) => [begin, one.end[i], one.callFunction[i], one.callDepth[i]]);
  // before its first and after its last record nobody knows what it does; a gap that goes on in the next tile has no end here
  assert.deepEqual(calls(filled({ calls: [10, 20, 1, 0, 12, 15, 0, 1, 40, 60, 0, 0] }, 0, 70)), [[20, 40, 2, 0], [60, 71, 2, 0], [10, 20, 1, 0], [12, 15, 0, 1], [40, 60, 0, 0]]);
  assert.deepEqual(calls(filled({ calls: [] }, 70, 140)), [[69, 90, 2, 0]]);
  const columns = filled({ calls: 9, depth: 1, columns: [0, 255, 0, 100, -1, 0, -1, 0] }, 0, 120);
  assert.deepEqual([Array.from(columns.columnFunction), Array.from(columns.columnShare)], [[0, 2, 2, -1], [255, 155, 255, 0]]);
  assert.deepEqual(calls(filled({ calls: [10, 20, 0, 0] }, 0, 70, { ...only, outside: undefined })), [[10, 20, 0, 0]]);
  assert.equal(data.thereIn([lane, { from_ns: 50, to_ns: 60 }], 20, 55), 40);
});

test('a zoom keeps the time under the pointer, and the whole is the end of it', () => {
  const whole = { from: 0, to: 1e12 };
  let span = whole;
  for (let i = 0; i < 60; i++) {
    const at = span.from + (span.to - span.from) * 0.3;
    const next = window.zoom(span, at, 0.7, whole);
    const share = (at - next.from) / (next.to - next.from);
    assert.ok(next.to - next.from >= 99.9 && (Math.abs(share - 0.3) < 1e-3 || next.to - next.from < 101), `${i}: ${share}`);
    span = next;
  }
  for (let i = 0; i < 200; i++) span = window.zoom(span, span.to, 1.5, whole);
  assert.deepEqual(span, whole);
  assert.deepEqual(window.pan({ from: 0, to: 10000 }, -500, whole), { from: 0, to: 10000 });
  let now = { from: 0, to: 1e12 };
  const aim = { from: 5e11, to: 5e11 + 1e5 };
  let steps = 0;
  while (!window.same(now, aim) && steps < 500) {
    now = window.approach(now, aim, 0.25);
    steps++;
  }
  assert.ok(steps < 120, `${steps} frames`);
});

test('lanes stand below each other and are found again', () => {
  const made = layout.layoutOf([1, 3, 30, 0], true, 10, 0);
  assert.deepEqual([...made.rows], [1, 3, layout.ROWS_MOST, 1]);
  for (let lane = 0; lane < 4; lane++) {
    assert.equal(layout.laneAt(made, made.tops[lane]), lane);
    assert.equal(layout.laneAt(made, made.tops[lane + 1] - 0.5), lane);
  }
  assert.equal(layout.laneAt(made, -1), -1);
  assert.equal(layout.laneAt(made, made.tops[4]), -1);
  assert.equal(layout.rowAt(made, 1, made.tops[1] + 21), 2);
});

test('a part with more messages is darker, whatever was left out of it', () => {
  const dark = (messages, step) => (messages / step) * layout.messageShade(messages, messages / step, 400);
  assert.ok(Math.abs(dark(4000, 4) - dark(4000, 8)) < 1e-6);
  assert.ok(dark(40000, 40) > 1.2 * dark(4000, 4));
  assert.equal(layout.messageShade(5, 5, 400), 0.8);
});

test('few lanes use the height', () => {
  const made = layout.layoutOf([3, 3], true, 0, 500);
  assert.ok(made.tops[2] > 300 && made.tops[2] <= 500);
  assert.ok(layout.layoutOf([1, 1, 1, 1], true, 0, 450).tops[4] > 400, 'a rank each');
  assert.ok(layout.layoutOf(Array(1000).fill(3), true, 0, 500).rowHeight === 5);
  for (const stacked of [true, false]) assert.ok(layout.layoutOf(Array(8).fill(1), stacked, 0, 500).tops[8] > 400, 'lanes of one row, too');
});

test('many collectives are drawn as evenly whatever a tile left out', () => {
  const few = Array.from({ length: 300 }, (_, i) => i), many = Array.from({ length: 3000 }, (_, i) => i);
  assert.equal(layout.thinned(few, 400), few);
  const drawn = layout.thinned(many, 400);
  assert.equal(drawn.length, 400);
  assert.ok(drawn.every((one, i) => Math.abs(one - i * 7.5) < 1));
  assert.equal(layout.shadeOf(layout.thinned(many.slice(0, 2000), 400).length, 400), layout.shadeOf(drawn.length, 400));
});

test('tiles cover the window, at a column a pixel', () => {
  const whole = { from: 100, to: 100 + 2 ** 40 };
  for (let width = 2 ** 40; width > 1000; width /= 3) {
    const view = window.clamp({ from: 5e11, to: 5e11 + width }, whole);
    const level = tiles.levelFor(whole, view, 1024, 512, 60);
    const [first, last] = tiles.tileRange(whole, view, level);
    assert.ok(tiles.tileSpan(whole, level, first).from <= view.from + 1 && tiles.tileSpan(whole, level, last).to >= view.to - 1);
    const pixels = (1024 * (2 ** 40 / 2 ** level)) / (view.to - view.from);
    assert.ok(level === 0 || (pixels > 255 && pixels <= 513), `level ${level}: ${pixels} pixels a tile`);
    const wanted = tiles.tilesWanted(whole, view, level, [0, 1], 2);
    assert.ok(wanted.length < 40);
    assert.deepEqual(wanted[0], { level, index: first, block: 0 });
  }
  assert.equal(tiles.levelFor(whole, { from: 100, to: 101 }, 1024, 512, 7), 6);
});

test('the cache asks for a few at once, drops what nobody wants, and keeps the last used', async () => {
  const asked = [], open = new Map();
  const cache = new tiles.TileCache((id, signal) => new Promise((resolve, reject) => {
    asked.push(id.index);
    open.set(id.index, () => resolve(`tile ${id.index}`));
    signal.addEventListener('abort', () => reject(signal.reason));
  }), 3, 2, 1e9);
  const id = (index) => ({ level: 1, index, block: 0 });
  cache.want([id(0), id(1), id(2)]);
  assert.deepEqual(asked, [0, 1]);
  open.get(0)();
  await new Promise(setImmediate);
  assert.deepEqual(asked, [0, 1, 2]);
  cache.want([id(0), id(3)]); // 1 and 2 are given up, 3 begins when they have gone
  await new Promise(setImmediate);
  assert.deepEqual(asked, [0, 1, 2, 3]);
  assert.equal(cache.get(1, 0, 0), 'tile 0');
  assert.equal(cache.get(1, 1, 0), null);
  open.get(3)();
  await new Promise(setImmediate);
  for (const index of [4, 5]) {
    cache.want([id(index)]);
    open.get(index)();
    await new Promise(setImmediate);
    cache.get(1, 0, 0);
  }
  assert.equal(cache.get(1, 0, 0), 'tile 0'); // used last, so 3 had to go
  assert.equal(cache.get(1, 3, 0), null);
});

test('a tile that could not be had is asked for again, though nothing moves, and less and less often', async (context) => {
  const waits = [], told = [], { setTimeout } = globalThis;
  let good = false;
  globalThis.setTimeout = (then, ms) => (waits.push(ms), setTimeout(then, 0));
  context.after(() => {
    globalThis.setTimeout = setTimeout;
    good = true; // else it is asked for for ever
  });
  const cache = new tiles.TileCache(async (id) => {
    if (!good) throw new Error('away');
    return `tile ${id.index}`;
  }, 3, 2, 10);
  cache.onchange = (error) => told.push(error?.message);
  cache.want([{ level: 1, index: 0, block: 0 }]);
  while (waits.length < 3) await new Promise(setImmediate);
  assert.deepEqual(waits.slice(0, 3), [10, 20, 40]);
  good = true;
  while (cache.get(1, 0, 0) === null) await new Promise(setImmediate);
  assert.deepEqual([told[0], told.at(-1)], ['away', undefined]);
});

test('a tile becomes typed arrays; what is damaged becomes nothing', () => {
  const tile = data.decodeTile({
    from_ns: 0, to_ns: 1000, message_step: 3, messages: [0, 1, 10, 20, 64],
    lanes: [{ lane: 0, calls: [0, 1000, 0, 0, 100, 200, 1, 1] }, { lane: 1, depth: 2, calls: 9000, columns: [0, 255, 1, 10, 0, 255, -1, 0, 7, 7] }],
  }, 2);
  assert.equal(data.callAt(tile.lanes[0], 150, null), 1);
  assert.equal(data.callAt(tile.lanes[0], 150, 0), 0);
  assert.equal(data.callAt(tile.lanes[0], 1000, null), -1);
  assert.equal(data.callAt(tile.lanes[1], 150, null), -1);
  assert.deepEqual([...tile.lanes[1].columnFunction], [0, 1, 0, -1]);
  assert.equal(tile.messages.length, data.MESSAGE_FIELDS);
});

test('pixels: inner calls over outer ones, rows for depths, nothing outside', () => {
  const inks = { shades: new Uint32Array(3 * colours.SHADES), functions: 3, lane: 7, edge: 9 };
  for (let id = 0; id < 3; id++) inks.shades.fill(100 + id, id * colours.SHADES, (id + 1) * colours.SHADES);
  const target = { pixels: new Uint32Array(10 * 4), width: 10, height: 4 };
  const [lane] = data.decodeTile({ from_ns: 0, to_ns: 100, lanes: [{ lane: 0, calls: [20, 30, 1, 1, 20, 21, 77, 1, 0, 80, 0, 0] }] }, 10).lanes;
  raster.rasterCalls(target, lane, inks, 0, 0.1, 0, 2, 1, false);
  assert.deepEqual([...target.pixels.subarray(10, 20)], [9, 100, 101, 100, 100, 100, 100, 100, 7, 7]);
  target.pixels.fill(0);
  raster.rasterCalls(target, lane, inks, 0, 0.1, 0, 2, 2, true);
  assert.deepEqual([...target.pixels.subarray(20, 30)], [7, 7, 101, 7, 7, 7, 7, 7, 7, 7]);
  const [columns] = data.decodeTile({ from_ns: 0, to_ns: 100, lanes: [{ lane: 0, depth: 1, calls: 5000, columns: [0, 255, 1, 255, -1, 0, 2, 40, 99, 255] }] }, 5).lanes;
  target.pixels.fill(0);
  raster.rasterColumns(target, columns, inks, 3, 20, 1, false);
  assert.deepEqual([...target.pixels.subarray(30)], [100, 100, 101, 101, 7, 7, 102, 102, 7, 7]);
  assert.equal(target.pixels[0], 0);
});

test('hundreds of calls that take no time do not hide what took it; where they have it together, they are seen', () => {
  const inks = { shades: Uint32Array.from({ length: 2 * colours.SHADES }, (_, i) => 100 + Math.floor(i / colours.SHADES)), functions: 2, lane: 7, edge: 100 };
  const drawn = (calls, stacked) => {
    const [lane] = data.decodeTile({ from_ns: 0, to_ns: 1000, lanes: [{ lane: 0, calls }] }, 10).lanes, target = { pixels: new Uint32Array(10 * 2), width: 10, height: 2 };
    raster.rasterCalls(target, lane, inks, 0, 0.01, 0, 1, 2, stacked);
    return [...target.pixels.subarray(0, 10)].join(' ');
  };
  const clock = Array.from({ length: 9 }, (_, i) => [100 * i + 20, 100 * i + 21, 1, 1]).flat(), many = Array.from({ length: 30 }, (_, i) => [500 + i, 502 + i, 1, 1]).flat();
  assert.equal(drawn([0, 900, 0, 0, ...clock], false), '100 100 100 100 100 100 100 100 100 7');
  assert.equal(drawn([0, 900, 0, 0, ...many], false), '100 100 100 100 100 101 100 100 100 7');
  assert.equal(drawn(clock.map((v, i) => (i % 4 === 3 ? 0 : v)), true), '101 101 101 101 101 101 101 101 101 7', 'where there is nothing else each is seen');
});

test('a call that has not ended is open, and gets paler to its end', () => {
  const inks = { shades: Uint32Array.from({ length: 2 * colours.SHADES }, (_, i) => 100 + i), functions: 2, lane: 7, edge: 9 };
  const [lane] = data.decodeTile({ from_ns: 0, to_ns: 100, lanes: [{ lane: 0, open: [0, 1, 5], calls: [0, 100, 0, 0, 10, 20, 1, 1, 50, 90, 1, 1] }] }, 10).lanes;
  assert.deepEqual([...lane.callOpen], [1, 0, 1], 'of each depth the last one; where there is none, none');
  const target = { pixels: new Uint32Array(100 * 2), width: 100, height: 2 };
  raster.rasterCalls(target, lane, inks, 0, 1, 0, 1, 2, true);
  const [outer, ended, open] = [target.pixels.subarray(60, 100), target.pixels.subarray(111, 120), target.pixels.subarray(151, 190)];
  assert.ok(outer[0] === 100 + colours.SHADES - 1 && outer[39] < outer[20] && outer[20] < outer[0]);
  assert.equal(new Set(ended).size, 1);
  assert.ok(open[38] < open[20] && open[38] > 100 + colours.SHADES);
});

test('a call that reaches over tiles is one bar of the file, and pale at its end as on the screen', () => {
  const tile = (from, calls, open) => data.decodeTile({ from_ns: from, to_ns: from + 50, lanes: [{ lane: 0, calls, open }] }, 10);
  const tiles = [tile(0, [0, 50, 0, 0, 10, 20, 1, 1]), tile(50, [0, 90, 0, 0, 60, 70, 1, 1], [0])];
  const span = { from: 0, to: 100 }, picture = { lanes: [{ label: 'one', depth: 2 }], functions: [{ name: 'main' }, { name: 'inner' }] };
  const shown = { picture, whole: span, view: span, level: 1, lanes: 1, tile: (_level, index) => tiles[index] };
  assert.deepEqual([...vector.rowsOf(shown)], [['one', 0, 'main', 0, 90, 1], ['one', 1, 'inner', 10, 20, 1], ['one', 1, 'inner', 60, 70, 1]]);
  const rects = [], nothing = () => {};
  const pen = { rect: (x, _y, width, _height, fill) => rects.push({ to: Math.round(x + width), fill }), line: nothing, lines: nothing, area: nothing, text: nothing, clip: nothing, unclip: nothing };
  vector.drawOn(pen, shown, { stacked: true }, { colours: [[0, 0, 0], [0, 0, 0]], ink: [0, 0, 0], soft: '#000000', grid: '#000000', lane: [255, 255, 255], legend: [] });
  const outer = rects.filter(({ to }) => to === rects[1].to).map(({ fill }) => fill), strength = outer.map((fill) => 255 - parseInt(fill.slice(1, 3), 16));
  assert.equal(outer[0], '#000000');
  assert.ok(strength.length > 9 && strength.every((now, i) => i === 0 || now <= strength[i - 1]) && strength.at(-1) < 80, strength.join());
});

test('a call that reaches over tiles is as long under the pointer as they know together', () => {
  const whole = { from: 0, to: 1000 }, call = { begin: 100, end: 900 };
  const shown = (known) => ({
    whole, view: { from: 300, to: 400 }, width: 64, axis: 0, scroll: 0, picture: { columns: 8, levels: 10 }, look: { layout: layout.layoutOf([1], true, 10, 0) },
    tiles: { get: (level, index) => {
      const from = (1000 * index) / 2 ** level, to = from + 1000 / 2 ** level;
      return to > known ? undefined : data.decodeTile({ from_ns: from, to_ns: to, lanes: [{ lane: 0, calls: call.begin < to && call.end > from ? [call.begin, Math.min(call.end, to), 0, 0] : [] }] }, 8);
    } },
  });
  const mark = (known) => new scene.Drawing(null).at(shown(known), 32, 2).mark;
  assert.deepEqual(mark(1000), { lane: 0, begin: 100, end: 900, depth: 0, open: false, beyond: false });
  const { end, beyond } = mark(500);
  assert.ok(beyond && end > 350 && end <= 500, `${end}`);
});

/** A context of a canvas that does nothing but remember its text. */
const paper = (texts = []) => new Proxy({ measureText: (text) => ({ width: 6 * text.length }), fillText: (text, x, y) => void texts.push([text, Math.round(x), Math.round(y)]) }, { get: (of, name) => of[name] ?? (() => {}), set: () => true });

test('bars of columns have names where nearly all of their time is of one function, once', () => {
  const texts = [];
  globalThis.OffscreenCanvas = class { getContext() { return paper(texts); } };
  globalThis.ImageData = class { constructor(width, height) { Object.assign(this, { width, height, data: new Uint8ClampedArray(4 * width * height) }); } };
  // ten columns of 20 pixels; outer: all main, then half of it; inner: solve in four, three that change, solve in one: too narrow
  const outer = [0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 100, 0, 100], inner = [1, 255, 1, 250, 1, 250, 1, 210, 2, 255, 1, 255, 2, 255, 1, 255, -1, 0, -1, 0];
  const cells = (of) => Array.from({ length: 10 }, (_, i) => [...of.slice(2 * i, 2 * i + 2), ...inner.slice(2 * i, 2 * i + 2)]).flat();
  const tile = (from_ns, of) => data.decodeTile({ from_ns, to_ns: from_ns + 1000, lanes: [{ lane: 0, depth: 2, calls: 90000, columns: cells(of) }] }, 10);
  const look = { layout: layout.layoutOf([2], true, 20, 0), inks: { shades: new Uint32Array(3 * colours.SHADES), functions: 3, lane: 0, edge: 0 }, labelCss: [], inkCss: '', font: '', background: 0, messages: false, collectives: false, ratio: 1, version: 1 };
  const picture = { from_ns: 0, functions: [{ name: 'main' }, { name: 'solve' }, { name: 'io' }] };
  const late = [...outer];
  late[1] = 30; // main begins within the first column
  const painted = (from, of = outer) => (texts.splice(0), new strips.Strips().paint('', tile(from, of), picture, 0, 1, 200, look), texts.map(([text, x, y]) => `${text} ${x} ${y}`));
  assert.deepEqual(painted(0), ['main 4 10', 'solve 4 30']);
  assert.deepEqual(painted(0, late), ['main 24 10', 'solve 4 30']);
  assert.deepEqual(painted(1000), [], 'what comes from the tile before has its name there');
});

test('what the pointer is told of a call leaves with the zoom, the move and the scroll', () => {
  globalThis.requestAnimationFrame = () => 1;
  const on = {}, told = [];
  const canvas = { addEventListener: (name, act) => void (on[name] = act), getContext: () => paper(), getBoundingClientRect: () => ({ left: 0, top: 0, width: 400, height: 100 }), width: 0, height: 0 };
  const picture = { from_ns: 0, to_ns: 1e9, columns: 8, levels: 10, lanes: Array.from({ length: 20 }, () => ({ depth: 2 })), functions: [{ name: 'main', class: 'compute' }] };
  const tile = data.decodeTile({ from_ns: 0, to_ns: 1e9, lanes: picture.lanes.map((_, lane) => ({ lane, calls: [0, 1e9, 0, 0] })) }, 8);
  const scheme = { classes: new Proxy({}, { get: () => [0, 0, 0] }), functions: [[0, 0, 0]], lane: [0, 0, 0], background: [0, 0, 0], ink: [0, 0, 0], soft: [0, 0, 0], grid: [0, 0, 0], accent: [0, 0, 0] };
  const one = new control.Control(canvas, picture, { get: () => tile, want() {}, loading: 0 }, scheme, { stacked: true, row: 0, by: 'kind' }, null, { moved() {}, pointed: (at) => void told.push(at?.mark?.depth), clicked() {}, chosen() {}, drawn() {}, loaded() {} });
  const at = (more) => ({ clientX: 200, clientY: 25, preventDefault() {}, deltaMode: 0, deltaX: 0, deltaY: 0, ...more });
  for (const [name, event] of [['wheel', { deltaY: -300 }], ['wheel', { deltaY: 100, shiftKey: true }], ['wheel', { deltaY: 40, altKey: true }]]) {
    on.pointermove(at({ pointerId: 1 }));
    assert.ok(one.scene.hover);
    on[name](at(event));
    assert.equal(one.scene.hover, null);
  }
  on.wheel(at({ deltaY: -30 }));
  assert.deepEqual(told, [0, undefined, 0, undefined, 0, undefined], 'once: nothing is drawn anew for nothing');
});

test('functions have colours by their names, spread evenly', () => {
  const list = Array.from({ length: 40 }, (_, i) => `function_${i}`);
  const given = colours.assignColours(list, 16);
  const counts = Array.from({ length: 16 }, (_, i) => given.filter((c) => c === i).length);
  assert.ok(Math.max(...counts) - Math.min(...counts) <= 1);
  const turned = colours.assignColours([...list].reverse(), 16).reverse();
  assert.deepEqual(turned, given);
});

test('a tree without some functions: their callers are shorter by them, others keep their time and place', () => {
  const node = (name, parent, total_ns, self_ns) => ({ function: name, class: 'compute', parent, calls: 1, total_ns, self_ns });
  const tree = [node('main', -1, 100, 5), node('MPI_Init', 0, 60, 50), node('PMPI_Init', 1, 10, 10), node('solve', 0, 35, 30), node('MPI_Init', 3, 5, 5)];
  const { nodes, gone, time } = flame.without(tree, (name) => /^P?MPI_Init$/.test(name));
  assert.equal(time, 65, 'what stands in what is left out counts once');
  assert.deepEqual([...gone], [0, 1, 1, 0, 1]);
  assert.deepEqual(nodes.map((one) => one.total_ns), [35, 0, 0, 30, 0]);
  assert.deepEqual(nodes.map((one) => one.self_ns), [5, 0, 0, 30, 0]);
  const boxes = flame.boxesOf(nodes, flame.childrenOf(nodes), -1, 0.001);
  assert.deepEqual(boxes.map((box) => [box.node, box.from, box.to]), [[0, 0, 1], [3, 0, 30 / 35]]);
  assert.deepEqual(flame.without(tree, () => false), { nodes: tree, gone: new Uint8Array(5), time: 0 });
});

test('lines of output are as a terminal would leave them; what repeats is one', async () => {
  assert.equal(lines.plain('10%\r20%\r30%\r'), '30%');
  assert.equal(lines.plain('\x1b[1;31mred\x1b[0m'), 'red');
  const read = await lines.linesOf(new Response('{"stream":"stdout","time":null,"text":"a\\rb"}\n{"stream":"stdout","time":1,"text":null,"missing_bytes":7}\n'));
  assert.deepEqual(read.map((line) => line.text), ['b', null]);
  assert.deepEqual(await lines.linesOf(new Response(null, { status: 204 })), []);
  const line = (text, stream = 'stdout') => ({ stream, time: null, text });
  const times = (...of) => lines.foldLines(of).map((one) => [one.text, one.times]);
  assert.deepEqual(times(line('a'), line('a'), line('b'), line('a')), [['a', 2], ['b', 1], ['a', 1]]);
  assert.deepEqual(times(line('a'), line('a', 'stderr'), line(null), line(null)), [['a', 1], ['a', 1], [null, 1], [null, 1]]);
});
