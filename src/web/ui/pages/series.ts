// SPDX-License-Identifier: Apache-2.0
// What a page keeps of a job's records while it follows them: bounded, however long the job runs.
import type { JobRecord, Report } from '../api';
import { base, seconds, sentence } from '../format';
import { signalName } from './status';

type Of<T extends JobRecord['type']> = Extract<JobRecord, { type: T }>;

const MOST = 2000;

/** A curve over seconds. When it is full, two points become one, the greater of them: peaks are kept. */
export class Series {
  readonly t: number[] = [];
  readonly v: (number | null)[] = [];
  /** What it is known to have come to between its points, as the kernel keeps the most memory of a process. */
  peak = 0;
  private step = 0; // seconds that a point stands for
  push(t: number, v: number | null) {
    const last = this.t.length - 1;
    if (last >= 0 && t <= this.t[last]!) return; // told again, or out of order
    if (this.step && last >= 0 && t - this.t[last]! < this.step) {
      if (v !== null) this.v[last] = Math.max(this.v[last] ?? v, v);
      return;
    }
    this.t.push(t);
    this.v.push(v);
    if (this.t.length > MOST) this.halve();
  }
  private halve() {
    const n = Math.ceil(this.t.length / 2); // the last one may be without another
    for (let i = 0; i < n; i++) {
      const a = this.v[2 * i] ?? null, b = this.v[2 * i + 1] ?? null;
      this.t[i] = this.t[2 * i]!;
      this.v[i] = a === null ? b : b === null ? a : Math.max(a, b);
    }
    this.t.length = this.v.length = n;
    this.step = (this.t[n - 1]! - this.t[0]!) / (n - 1);
  }
  get last(): number | null {
    return this.v[this.v.length - 1] ?? null;
  }
}

export type CurveName = 'cpus' | 'memory' | 'busy' | 'used' | 'stall' | 'disk' | 'network';
/** By node. */
export type Curve = Map<string, Series>;

export interface Line {
  t: number;
  level: 'error' | 'warning' | 'info' | 'debug';
  from: string;
  text: string;
}

/** What became of each log last, by what people call it. */
export type Logs = Map<string, Of<'log_file'>>;

const LINES = 300, METRICS = 64;
/** Of a processor: what a job needs that only waits. */
const NO_CPU = 0.02;
const MOVES: ReadonlySet<JobRecord['type']> = new Set(['script_line', 'process_end', 'log', 'progress']);

/** The types of records that Model.take wants. */
export const modelTypes = ['sample', 'health', 'script_line', 'script_end', 'process_end', 'python_stack', 'command_failed', 'python_exception', 'log', 'log_file', 'progress', 'metric', 'warning', 'crash', 'stall', 'setting', 'request', 'rule', 'gap', 'end'];

export class Model {
  readonly curves = new Map<CurveName, Curve>();
  /** Numbers that the program says, such as a loss, by their names. */
  readonly metrics = new Map<string, Series>();
  readonly lines: Line[] = [];
  readonly warnings: Of<'warning'>[] = [];
  /** Where scripts are, by node and process. */
  readonly places = new Map<string, Of<'script_line'>>();
  readonly pythons = new Map<string, Of<'python_stack'>>();
  readonly progress = new Map<string, Of<'progress'>>();
  /** What became of each log last, by its name and node. */
  readonly logs: Logs = new Map();
  /** Expressions and patterns that some line matched. */
  readonly matched = new Set<string>();
  stall: Of<'stall'> | undefined;
  seconds = 0;
  /** When something of the job was last seen to move: it computed, wrote a line, came on in a script, or a process ended. */
  moved = 0;
  private readonly cpu = new Map<string, { t: number; ns: number }>();

  /** node: the job's own, if it is known; of lines of others the log says where they are from. */
  constructor(private node = '') {}

  /** Takes the next record; skips what it does not know. */
  take(record: JobRecord) {
    const node = ('node' in record && typeof record.node === 'string' && record.node) || this.node;
    this.node ||= node;
    const from = (file: string) => (node === this.node ? '' : `${node}: `) + base(file);
    const t = record.t;
    this.seconds = Math.max(this.seconds, t);
    if (MOVES.has(record.type)) this.moved = Math.max(this.moved, t);
    switch (record.type) {
      case 'sample': {
        const before = this.cpu.get(node), ns = record.tree.cpu_ns;
        if (before && t > before.t) {
          const cpus = Math.max(0, (ns - before.ns) / 1e9 / (t - before.t));
          this.curve('cpus', node).push(t, cpus);
          if (cpus >= NO_CPU) this.moved = Math.max(this.moved, t);
        }
        if (!before || t > before.t) this.cpu.set(node, { t, ns });
        this.curve('memory', node).push(t, record.tree.rss);
        break;
      }
      case 'health': {
        const { load, memory, pressure, traffic } = record;
        this.curve('busy', node).push(t, load?.cpu ?? null);
        if (memory?.total_bytes && memory.available_bytes != null) this.curve('used', node).push(t, 1 - memory.available_bytes / memory.total_bytes);
        this.curve('stall', node).push(t, Math.max(pressure?.io ?? 0, pressure?.memory ?? 0));
        const sum = (a?: number | null, b?: number | null) => (a == null && b == null ? null : (a ?? 0) + (b ?? 0));
        this.curve('disk', node).push(t, sum(traffic?.disk_read_bytes, traffic?.disk_written_bytes));
        this.curve('network', node).push(t, sum(traffic?.received_bytes, traffic?.sent_bytes));
        break;
      }
      case 'script_line':
        this.places.set(`${node} ${record.pid}`, record);
        break;
      case 'python_stack':
        this.pythons.set(`${node} ${record.pid}`, record);
        break;
      case 'script_end':
      case 'process_end':
        this.places.delete(`${node} ${record.pid}`);
        this.pythons.delete(`${node} ${record.pid}`);
        break;
      case 'command_failed':
        this.line(t, 'error', `${from(record.file)}:${record.line ?? '?'}`, `${record.command} ended with status ${record.status}`);
        break;
      case 'python_exception':
        this.line(t, record.caught ? 'debug' : 'error', `${from(record.file)}:${record.line ?? '?'}`, `${record.name}: ${record.message}`);
        break;
      case 'log':
        this.matched.add(record.pattern);
        this.line(t, record.level, from(record.file), record.text);
        break;
      case 'log_file':
        this.logs.set(from(record.file), record);
        break;
      case 'progress':
        this.progress.set(record.source, record);
        break;
      case 'metric':
        if (record.values) this.metric(record.name, t, record.value); // else it was not a number, and that is of before
        break;
      case 'warning':
        this.warnings.push(record);
        if (this.warnings.length > 50) this.warnings.shift();
        break;
      case 'crash':
        this.line(t, 'error', record.name, `process ${record.pid} was killed by ${signalName(record.signal)}`);
        break;
      case 'stall':
        this.stall = record;
        break;
      case 'setting':
        this.line(t, 'info', 'scry set', `${record.key}=${record.value}${record.taken === false ? ' was refused' : ''}`);
        break;
      case 'request':
        this.line(t, 'info', String(record.who ?? ''), `${record.request ?? ''} ${record.why ?? ''}`);
        break;
      case 'rule':
        this.line(t, 'info', `rule ${record.rule}`, `fired, for the ${record.fired}. time`);
        break;
      case 'gap':
        this.line(t, 'warning', 'scry', `not watched for ${seconds(record.to - record.from)}, from ${seconds(record.from)} on: ${record.reason}`);
        break;
    }
  }

  metric(name: string, t: number, value: number) {
    let series = this.metrics.get(name);
    if (!series && this.metrics.size < METRICS) this.metrics.set(name, (series = new Series()));
    series?.push(t, value);
  }
  private curve(name: CurveName, node: string): Series {
    let curve = this.curves.get(name);
    if (!curve) this.curves.set(name, (curve = new Map()));
    let series = curve.get(node);
    if (!series) curve.set(node, (series = new Series()));
    return series;
  }
  private line(t: number, level: Line['level'], from: string, text: string) {
    this.lines.push({ t, level, from, text });
    if (this.lines.length > LINES) this.lines.splice(0, this.lines.length - LINES);
  }
}

const NAMES = 4;

/** What there is to say of logs of which no line matched. */
export function unmatched(logs: Logs): string {
  const names = (is: (state: string) => boolean) => {
    const of = [...logs].filter(([, { state }]) => is(state)).map(([name]) => name);
    return of.slice(0, NAMES).join(', ') + (of.length > NAMES ? ` and ${of.length - NAMES} others` : '');
  };
  const missing = names((state) => state === 'waited_for'), unread = names((state) => state === 'unwatched');
  const read = names((state) => state !== 'waited_for' && state !== 'unwatched');
  const reasons = new Set([...logs.values()].flatMap(({ state, reason }) => (state === 'unwatched' && reason ? sentence(reason) : [])));
  return [
    read && `No line of ${read} looked like an error, or matched a pattern of --log.`,
    missing && `Not there: ${missing}.`,
    unread && `Could not be read: ${unread}.`, ...reasons,
  ].filter(Boolean).join(' ') || 'Nothing that looked like an error was written to a log.';
}

/** Expressions of --log that no line matched, with the log that was read for them. */
export function idle(logs: Logs, matched: ReadonlySet<string>): { name: string; expression: string }[] {
  return [...logs].flatMap(([name, { state, expressions }]) => (state === 'waited_for' || state === 'unwatched' ? [] : (expressions ?? []).filter((one) => !matched.has(one)).map((expression) => ({ name, expression }))));
}

/** Records of logs and failures that the report lists, of all nodes. Times of a part count from its own start. */
export function logOf(report: Report): Model {
  const own = report.node?.host ?? report.host, model = new Model(own);
  const records: JobRecord[] = [];
  const add = ({ logs, scripts }: Pick<Report, 'logs' | 'scripts'>, node: string, offset: number) => {
    const logged = new Map([...logs.errors, ...logs.lines].map((record) => [JSON.stringify(record), record])); // the last errors may be among the last lines, or be older
    const put = (type: JobRecord['type'], of: Iterable<unknown>) => {
      for (const record of of) records.push({ ...(record as object), type, node, t: (record as { t: number }).t + offset } as JobRecord);
    };
    for (const { pattern } of logs.patterns) model.matched.add(pattern);
    put('log_file', logs.files);
    put('log', logged.values());
    put('command_failed', scripts.failed_commands);
    put('python_exception', scripts.exceptions);
  };
  add(report, own, 0);
  for (const part of report.parts) add(part, part.name, part.started_at);
  for (const record of records.sort((a, b) => a.t - b.t)) model.take(record);
  return model;
}
