// SPDX-License-Identifier: Apache-2.0
// What the space-time diagram asks for and gets (doc/reference/api.json), and tiles as typed arrays: what a frame draws is
// read from these, so no frame makes objects.

export interface LaneInfo {
  lane: number; label: string; rank: number | null; world: number | null; node: string; pid: number; thread: number; depth: number; calls: number;
  /** When its records begin and end. */
  from_ns: number; to_ns: number;
}
export interface FunctionInfo { id: number; name: string; file: string; line: number; class: string; /** Some of its calls have arguments, locals or a result. */ values?: boolean }
export interface Picture {
  from_ns: number; to_ns: number; levels: number; columns: number; lanes: LaneInfo[]; functions: FunctionInfo[];
  messages: number; collectives: number; clock_bound_ns: number | null; complete: boolean; progress?: number; notes: unknown[];
  running?: boolean; until_ns?: number;
  /** There are ranks, and their calls of MPI were not traced: see `withUnsplit`. */
  unsplit?: boolean;
  /** Number of the function that stands for what ranks do between their calls of MPI: see `withOutside`. */
  outside?: number;
}

/** As the server has it, but what may as well be a call of MPI is not called computing: the class of functions of a job with ranks whose
 * calls of MPI were not traced is `unsplit`. While a trace is still being read nobody knows that. */
export function withUnsplit(picture: Picture): Picture {
  if (!(picture.complete || picture.running) || !picture.lanes.some(lane => lane.rank !== null) || picture.functions.some(one => one.class !== 'compute'))
    return picture;
  return { ...picture, unsplit: true, functions: picture.functions.map(one => ({ ...one, class: 'unsplit' })) };
}

export const OUTSIDE = 'computing, outside MPI';

/** Where only calls of MPI were traced, what a rank does between them has a name, too: nothing there would look as if it did nothing. */
export function withOutside(picture: Picture): Picture {
  const { lanes, functions } = picture;
  if (!(picture.complete || picture.running) || !functions.length || !lanes.every(lane => lane.rank !== null) || functions.some(one => ['compute', 'unsplit'].includes(one.class)))
    return picture;
  return { ...picture, outside: functions.length, functions: [...functions, { id: functions.length, name: OUTSIDE, file: '', line: 0, class: 'compute' }] };
}

/** How long the lanes of a picture are there in a part of it. */
export function thereIn(lanes: readonly LaneInfo[], from: number, to: number): number {
  return lanes.reduce((all, lane) => all + Math.max(0, Math.min(to, lane.to_ns) - Math.max(from, lane.from_ns)), 0);
}

/** One lane of a tile: either single calls, or for each column and depth the function that has most of it. */
export interface TileLane {
  lane: number; depth: number; count: number;
  begin: Float64Array | null; end: Float64Array | null; callFunction: Int32Array | null; callDepth: Uint8Array | null;
  /** Not 0: the call has not ended, and goes on from its end. */
  callOpen: Uint8Array | null;
  columnFunction: Int32Array | null; columnShare: Uint8Array | null; columns: number;
}
export interface Collective { name: string; lanes: Int32Array; begin: Float64Array; end: Float64Array }
/** Messages: from lane, to lane, sent, received, bytes, flat. */
export interface Tile {
  from: number; to: number; lanes: TileLane[]; messages: Float64Array; messageStep: number; collectives: Collective[]; collectiveStep: number;
}

export const MESSAGE_FIELDS = 5;

/** columns: function (-1: none) and share, of each depth of each column, flat. open: depths whose last call has not ended. */
interface RawLane { lane: number; calls: number | number[]; open?: number[]; depth?: number; columns?: number[] }
interface RawCollective { name: string; lanes: number[]; begin: number[]; end: number[] }
interface RawTile {
  from_ns: number; to_ns: number; lanes: RawLane[]; messages?: number[]; message_step?: number;
  collectives?: RawCollective[]; collective_step?: number;
}

/** Calls in the order of their begin, an outer one before those in it. */
function outerFirst(flat: number[]): number[] {
  const count = Math.floor(flat.length / 4);
  const before = (a: number, b: number) => flat[4 * a]! - flat[4 * b]! || flat[4 * a + 3]! - flat[4 * b + 3]!;
  const order = Array.from({ length: count }, (_, i) => i);
  if (order.every(i => i === 0 || before(i - 1, i) <= 0))
    return flat.slice(0, 4 * count);
  return order.sort(before).flatMap(i => flat.slice(4 * i, 4 * i + 4));
}

function decodeLane(raw: RawLane, columns: number): TileLane {
  const lane: TileLane = {
    lane: raw.lane, depth: 0, count: 0, begin: null, end: null, callFunction: null, callDepth: null, callOpen: null,
    columnFunction: null, columnShare: null, columns: 0,
  };
  if (raw.columns) {
    const depth = Math.max(1, raw.depth ?? 1);
    lane.depth = depth;
    lane.columns = columns;
    lane.count = typeof raw.calls === 'number' ? raw.calls : 0;
    lane.columnFunction = new Int32Array(columns * depth).fill(-1);
    lane.columnShare = new Uint8Array(columns * depth);
    for (let i = 0; i < Math.min(columns * depth, raw.columns.length >> 1); i++) {
      lane.columnFunction[i] = raw.columns[2 * i]!;
      lane.columnShare[i] = raw.columns[2 * i + 1]!;
    }
  } else if (Array.isArray(raw.calls)) {
    const flat = outerFirst(raw.calls), count = flat.length / 4;
    lane.count = count;
    lane.begin = new Float64Array(count);
    lane.end = new Float64Array(count);
    lane.callFunction = new Int32Array(count);
    lane.callDepth = new Uint8Array(count);
    for (let i = 0; i < count; i++) {
      lane.begin[i] = flat[4 * i]!;
      lane.end[i] = flat[4 * i + 1]!;
      lane.callFunction[i] = flat[4 * i + 2]!;
      lane.callDepth[i] = flat[4 * i + 3]!;
      lane.depth = Math.max(lane.depth, flat[4 * i + 3]! + 1);
    }
    lane.callOpen = new Uint8Array(count);
    for (const depth of raw.open ?? []) {
      const last = lane.callDepth.lastIndexOf(depth);
      if (last >= 0)
        lane.callOpen[last] = 1;
    }
  }
  return lane;
}

/** `columns`: of the picture. */
export function decodeTile(json: unknown, columns: number): Tile {
  const raw = json as RawTile;
  return {
    from: raw.from_ns, to: raw.to_ns,
    lanes: raw.lanes.map(lane => decodeLane(lane, columns)),
    messages: Float64Array.from(raw.messages ?? []), messageStep: raw.message_step ?? 1,
    collectives: (raw.collectives ?? []).map(one => ({
      name: one.name, lanes: Int32Array.from(one.lanes),
      begin: Float64Array.from(one.begin), end: Float64Array.from(one.end),
    })),
    collectiveStep: raw.collective_step ?? 1,
  };
}

/** Gaps between the outermost calls become calls of their own, before all others: these are drawn over them. Those that reach over an end of
 * the tile have no begin or end there. */
function fillCalls(lane: TileLane, outside: number, from: number, to: number, info: LaneInfo): void {
  const begins: number[] = [], ends: number[] = [];
  let at = Math.max(from - 1, info.from_ns);
  const gap = (end: number) => end > at && (begins.push(at), ends.push(end));
  for (let i = 0; i < lane.count; i++)
    if (lane.callDepth![i] === 0) {
      gap(lane.begin![i]!);
      at = Math.max(at, lane.end![i]!);
    }
  gap(Math.min(to + 1, info.to_ns));
  const gaps = (value: number) => begins.map(() => value);
  Object.assign(lane, {
    count: begins.length + lane.count, depth: Math.max(1, lane.depth), begin: Float64Array.from([...begins, ...lane.begin!]), end: Float64Array.from([...ends, ...lane.end!]),
    callFunction: Int32Array.from([...gaps(outside), ...lane.callFunction!]), callDepth: Uint8Array.from([...gaps(0), ...lane.callDepth!]),
    callOpen: Uint8Array.from([...gaps(0), ...lane.callOpen!]),
  });
}

/** Columns that have less of calls than of what is between them. */
function fillColumns(lane: TileLane, outside: number, from: number, to: number, info: LaneInfo): void {
  const width = (to - from) / lane.columns;
  for (let column = 0; column < lane.columns; column++) {
    const middle = from + (column + 0.5) * width, cell = column * lane.depth, share = lane.columnFunction![cell]! < 0 ? 0 : lane.columnShare![cell]!;
    if (middle < info.from_ns || middle > info.to_ns || share >= 128)
      continue;
    lane.columnFunction![cell] = outside;
    lane.columnShare![cell] = 255 - share;
  }
}

/** The tile with what ranks do between their calls of MPI, if the picture has that. */
export function fillOutside(tile: Tile, picture: Picture): Tile {
  for (const lane of picture.outside === undefined ? [] : tile.lanes)
    (lane.columnFunction ? fillColumns : lane.begin ? fillCalls : () => {})(lane, picture.outside!, tile.from, tile.to, picture.lanes[lane.lane]!);
  return tile;
}

/** What a tile is made of, to be handed from one thread to another without a copy. */
export function buffersOf(tile: Tile): ArrayBuffer[] {
  const arrays = [tile.messages, ...tile.collectives.flatMap(one => [one.lanes, one.begin, one.end]),
    ...tile.lanes.flatMap(one => [one.begin, one.end, one.callFunction, one.callDepth, one.callOpen, one.columnFunction, one.columnShare])];
  return arrays.flatMap(array => array ? [array.buffer as ArrayBuffer] : []);
}

/** The innermost call of a lane at a time, or the one at a depth; -1: none, or single calls are not known in this tile. */
export function callAt(lane: TileLane, at: number, depth: number | null): number {
  if (!lane.begin || !lane.end || !lane.callDepth)
    return -1;
  let found = -1, foundDepth = -1;
  for (let i = 0; i < lane.count; i++)
    if (lane.begin[i]! <= at && at < lane.end[i]! && (depth === null ? lane.callDepth[i]! > foundDepth : lane.callDepth[i] === depth)) {
      found = i;
      foundDepth = lane.callDepth[i]!;
    }
  return found;
}

/** The call of a lane that began then, at a depth; -1: there is none. */
export function callOf(lane: TileLane, begin: number, depth: number): number {
  for (let i = 0; i < lane.count; i++)
    if (lane.begin![i] === begin && lane.callDepth![i] === depth)
      return i;
  return -1;
}
