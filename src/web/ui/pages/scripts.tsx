// SPDX-License-Identifier: Apache-2.0
// Where the time of scripts went: lines of shells, functions of Python.
import type { Report } from '../api';
import { Unit } from '../design/parts';
import { Table, type Column } from '../design/table';
import * as format from '../format';

type Of = Pick<Report, 'scripts'>;
type Line = Of['scripts']['lines'][number];
type Python = Of['scripts']['python_functions'][number];

const SEEN = 12;
const place = (file: string, line: number | null) => `${format.base(file)}:${line ?? '?'}`;

const lineColumns: Column<Line>[] = [
  { key: 'line', title: 'Line', cell: (l) => <span class="mono" title={l.file}>{place(l.file, l.line)}</span>, value: (l) => place(l.file, l.line) },
  { key: 'command', title: 'Command', fill: true, cell: (l) => <span class="mono" title={l.command ?? undefined}>{l.command}</span> },
  { key: 'count', title: 'Count', about: 'empty: it was seen, not counted; with --script lines it is', number: true, wide: true, cell: (l) => l.count > 0 && format.count(l.count), value: (l) => l.count },
  { key: 'failed', title: 'Failed', number: true, cell: (l) => l.failed > 0 && <span class="bad-text">{format.count(l.failed)}</span>, value: (l) => l.failed },
  { key: 'seconds', title: 'Time', number: true, cell: (l) => <Unit text={format.seconds(l.seconds)} />, value: (l) => l.seconds },
];
const pythonColumns: Column<Python>[] = [
  { key: 'function', title: 'Function', cell: (f) => <span class="mono">{f.function}</span>, value: (f) => f.function },
  { key: 'self', title: 'Self time', number: true, cell: (f) => <Unit text={format.ns(f.self_ns)} />, value: (f) => f.self_ns },
  { key: 'total', title: 'Total', number: true, wide: true, cell: (f) => <Unit text={format.ns(f.total_ns)} />, value: (f) => f.total_ns },
  { key: 'calls', title: 'Calls', number: true, cell: (f) => format.count(f.calls), value: (f) => f.calls },
  { key: 'where', title: 'Source', wide: true, cell: (f) => <span class="mono soft" title={f.file}>{place(f.file, f.line)}</span>, value: (f) => place(f.file, f.line) },
];

/** Of all nodes of a job; nothing, if no script was seen for a time that can be told. */
export function Scripts({ nodes }: { nodes: readonly Of[] }) {
  const lines = nodes.flatMap((one) => one.scripts.lines), python = nodes.flatMap((one) => one.scripts.python_functions);
  return (
    <>
      {python.length > 0 && (
        <section class="panel" aria-label="Functions of Python">
          <h2>Functions of Python</h2>
          <Table label="Functions of Python, most time of their own first" columns={pythonColumns} rows={python} rowKey={(f) => python.indexOf(f)} sortParam="python" sort="-self" visible={SEEN} />
        </section>
      )}
      {lines.length > 0 && (
        <section class="panel" aria-label="Lines of scripts">
          <h2>Lines of scripts</h2>
          <Table label="Lines of scripts, most time first" columns={lineColumns.filter((c) => !(c.key === 'failed' || c.key === 'count') || lines.some((l) => l[c.key as 'failed' | 'count'] > 0))} rows={lines} rowKey={(l) => lines.indexOf(l)} sortParam="lines" sort="-seconds" visible={SEEN} />
        </section>
      )}
    </>
  );
}
