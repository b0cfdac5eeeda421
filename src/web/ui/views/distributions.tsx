// SPDX-License-Identifier: Apache-2.0
// How long calls took and how much they moved, in buckets over a logarithmic axis; also the times between calls.
import { useMemo, useState } from 'preact/hooks';
import { jobPath, useAnswer } from '../api';
import type { Colours } from '../design/colours';
import { Answered, Choice, Empty } from '../design/parts';
import { Table } from '../design/table';
import { count, ns, share, size } from '../format';
import type { ViewProps } from '../frame/view';
import { valueTicks } from '../pages/curves';
import { Drawn, PictureFrame, svgPen } from '../pictures';
import type { Pen } from '../pictures';
import { useParam } from '../state';
import type { Distribution } from './buckets';
import { bucketsOf, logPlace, powers, quantile, valuesOf } from './buckets';
import { NoMpi, useCommand } from './parts';

interface Answer { distributions: Distribution[]; notes?: unknown }

const HEIGHT = 300, LEFT = 64, BOTTOM = 30, TOP = 12, RIGHT = 14, MARK = 56;

export function Distributions({ id }: ViewProps) {
  const answer = useAnswer<Answer>(jobPath(id, 'distributions'));
  if (answer.error?.kind === 'no_trace')
    return <NoMpi id={id} />;
  return <Answered of={answer}>{value => value.distributions.length ? <Chosen id={id} all={value.distributions} /> : <NotCounted id={id} />}</Answered>;
}

function NotCounted({ id }: { id: string }) {
  const { again } = useCommand(id);
  return <Empty title="No distributions were counted." command={again('--mpi-distributions all')}>They are counted for the calls of MPI that <code>--mpi-distributions</code> names. The next run will have them:</Empty>;
}

const partOf = (name: string) => name.slice(name.lastIndexOf('.') + 1);

function Chosen({ id, all }: { id: string; all: Distribution[] }) {
  const names = useMemo(() => [...all].sort((a, b) => valuesOf(b) - valuesOf(a)).map(one => one.name), [all]);
  const [chosen, setName] = useParam('of', names.find(name => /^P?MPI_.*latency$/.test(name)) ?? names[0]!);
  const [scale, setScale] = useParam('scale', 'linear');
  const [at, setAt] = useState(-1);
  const name = names.includes(chosen) ? chosen : names[0]!, log = scale === 'log', part = all.find(one => one.name === name)!;
  const buckets = useMemo(() => bucketsOf(part), [part]);
  const bytes = part.unit === 'bytes', text = bytes ? size : ns;
  const values = valuesOf(part);
  const least = buckets[0]?.from ?? 1, most = buckets.reduce((greatest, bucket) => Math.max(greatest, bucket.to < 2 ** 62 ? bucket.to : bucket.from * 2), 2);
  const highest = buckets.reduce((greatest, bucket) => Math.max(greatest, bucket.count), 1);
  const x = (value: number, width: number) => LEFT + Math.max(0, Math.min(1, logPlace(value, least, most))) * (width - LEFT - RIGHT);
  const y = (amount: number) => HEIGHT - BOTTOM - (amount <= 0 ? 0 : log ? Math.log10(1 + amount) / Math.log10(1 + highest) : amount / highest) * (HEIGHT - BOTTOM - TOP);
  const draw = (pen: Pen, width: number, _height: number, colours: Colours) => {
    let free = 0; // from there on there is room for the next mark's text
    for (const mark of powers(least, most, bytes ? 2 : 10)) {
      pen.line([x(mark, width), TOP, x(mark, width), HEIGHT - BOTTOM], colours.line);
      if (x(mark, width) < free) continue;
      free = x(mark, width) + MARK;
      pen.text(text(mark), x(mark, width), HEIGHT - BOTTOM + 16, { colour: colours.soft, size: 11, align: 'middle' });
    }
    for (const amount of log ? powers(1, highest, 10) : valueTicks(highest, 'values', 4).filter(Number.isInteger)) {
      pen.line([LEFT, y(amount), width - RIGHT, y(amount)], colours.line);
      pen.text(count(amount), LEFT - 6, y(amount) + 4, { colour: colours.soft, size: 11, align: 'end' });
    }
    buckets.forEach((bucket, i) => {
      const left = x(bucket.from, width), right = Math.max(left + 1, x(Math.min(bucket.to, most), width) - 0.5);
      pen.rect(left, y(bucket.count), right - left, Math.max(1, HEIGHT - BOTTOM - y(bucket.count)), i === at ? colours.accent : bytes ? colours.p2p : colours.compute);
    });
    pen.line([LEFT, HEIGHT - BOTTOM, width - RIGHT, HEIGHT - BOTTOM], colours.edge);
  };
  const drawn = useMemo(() => draw, [buckets, at, log, most]);
  const half = quantile(buckets, 0.5), late = quantile(buckets, 0.99), told = buckets[at];
  return (
    <PictureFrame title={bytes ? 'How much calls moved' : 'How long calls took'} of={id} about="Every value was counted in a bucket while the program ran; the axis is logarithmic." picture={{
      name: `distribution-${name}`, table: () => ({ columns: [`from_${bytes ? 'bytes' : 'ns'}`, `to_${bytes ? 'bytes' : 'ns'}`, 'count'], rows: buckets.map(bucket => [bucket.from, bucket.to, bucket.count]) }),
      svg: colours => { const pen = svgPen(1000, HEIGHT, colours.surface); draw(pen, 1000, HEIGHT, colours); return pen.svg(); },
    }} controls={
      <>
        <label>of <select aria-label="Distribution" value={name} onChange={e => setName(e.currentTarget.value)}>{names.map(one => <option key={one} value={one}>{one.replace(/\.(\w+)$/, ': $1')}</option>)}</select></label>
        <Choice label="Counts" value={scale as 'linear' | 'log'} of={[['linear', 'Linear'], ['log', 'Log']]} onChange={setScale} />
      </>
    }>
      <p class="matrix-told" role="status">
        {count(values)} values of {partOf(name)} on {count(part.ranks)} {part.ranks === 1 ? 'rank' : 'ranks'}, {text(values ? part.total / values : 0)} on average
        {half && late && <>; half of them below {text(half.to)}, 99 % below {text(late.to)}</>}
        {told && <> — <b>{text(told.from)} to {text(told.to)}: {count(told.count)}</b>, {share(told.count / values)}</>}
      </p>
      <Drawn draw={drawn} height={HEIGHT} label={`${buckets.length} buckets; the table has them.`} onLeave={() => setAt(-1)}
        onMove={(px, _y, width) => { const found = buckets.findIndex(bucket => px >= x(bucket.from, width) && px < Math.max(x(bucket.from, width) + 1, x(Math.min(bucket.to, most), width))); if (found !== at) setAt(found); }} />
      <details>
        <summary>As a table</summary>
        <Table label="Buckets" rows={buckets} rowKey={bucket => bucket.from} columns={[
          { key: 'from', title: 'From', number: true, cell: bucket => text(bucket.from), value: bucket => bucket.from },
          { key: 'to', title: 'Below', number: true, cell: bucket => text(bucket.to), value: bucket => bucket.to },
          { key: 'count', title: 'Values', number: true, cell: bucket => count(bucket.count), value: bucket => bucket.count },
          { key: 'share', title: 'Share', number: true, cell: bucket => share(bucket.count / values) },
        ]} />
      </details>
    </PictureFrame>
  );
}
