// SPDX-License-Identifier: Apache-2.0
// A job that never was, of any size: what the server would answer of its picture. Each rank repeats computing, a message and a collective.
const COLUMNS = 512, CALLS = 4; // of a step

export function madeUp(lanes, events, seconds = 100) {
  const whole = seconds * 1e9, steps = Math.round(events / 2 / lanes / CALLS), step = whole / steps;
  const functions = [['main', 'compute'], ['step', 'compute'], ['do_jacobi', 'compute'], ['MPI_Sendrecv', 'p2p'], ['MPI_Allreduce', 'collective']];
  const chance = (a, b) => {
    const x = Math.imul((a * 2654435761) ^ (b * 40503), 2246822519);
    return ((x ^ (x >>> 13)) >>> 0) / 2 ** 32;
  };
  const callsOf = (lane, i) => {
    const begin = i * step, share = 0.45 + 0.25 * chance(lane, i);
    return [[begin, begin + step * 0.99, 1, 1], [begin, begin + step * share, 2, 2], [begin + step * share, begin + step * (share + 0.08), 3, 2], [begin + step * (share + 0.1), begin + step * 0.98, 4, 2]];
  };
  const single = (lane, from, to) => {
    const calls = [0, whole, 0, 0];
    for (let i = Math.max(0, Math.floor(from / step)); i * step < to && i < steps; i++)
      for (const call of callsOf(lane, i)) if (call[1] > from && call[0] < to) calls.push(...call.map(Math.round));
    return { lane, calls };
  };
  const many = (lane, from, width) => {
    const columns = [];
    for (let c = 0; c < COLUMNS; c++) {
      const kind = chance(lane, Math.floor((from + (c * width) / COLUMNS) / step));
      columns.push(0, 255, 1, 252, kind < 0.5 ? 2 : kind < 0.6 ? 3 : 4, 120 + Math.floor(100 * chance(lane, c)));
    }
    return { lane, depth: 3, columns, calls: Math.round((width / step) * CALLS) };
  };
  return {
    picture: {
      from_ns: 0, to_ns: whole, levels: 30, columns: COLUMNS, messages: lanes * steps, collectives: steps, clock_bound_ns: 800, complete: true, notes: [],
      lanes: Array.from({ length: lanes }, (_, lane) => ({ lane, label: `rank ${lane}`, rank: lane, world: 0, node: `node${lane >> 4}`, pid: 1000 + lane, thread: 1000 + lane, depth: 3, calls: steps * CALLS })),
      functions: functions.map(([name, kind], id) => ({ id, name, file: 'ocean.c', line: 10 + id, class: kind })),
    },
    tile(level, index, first, last) {
      const width = whole / 2 ** level, from = width * index, to = from + width, inTile = width / step;
      const list = [], messages = [], every = Math.max(1, Math.ceil((inTile * lanes) / 600));
      for (let lane = first; lane <= last; lane++) list.push(inTile * CALLS < 400 ? single(lane, from, to) : many(lane, from, width));
      let k = 0;
      for (let i = Math.max(0, Math.floor(from / step)); i * step < to && i < steps && messages.length < 3000; i += Math.max(1, Math.floor(every / lanes)))
        for (let lane = first; lane <= last; lane++)
          if (k++ % every === 0) messages.push(lane, (lane + 1) % lanes, Math.round(callsOf(lane, i)[2][0]), Math.round(callsOf(lane, i)[2][1]), 8192);
      return { from_ns: Math.round(from), to_ns: Math.round(to), lanes: list, messages, message_step: every, collectives: [], collective_step: 1 };
    },
  };
}
