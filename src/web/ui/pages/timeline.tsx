// SPDX-License-Identifier: Apache-2.0
// What happened last in a job that failed, on each layer, on one line of time that is the finer the nearer the end is.
import { useMemo, useRef, useState } from 'preact/hooks';
import type { Report } from '../api';
import { inkOn, type Colours } from '../design/colours';
import * as format from '../format';
import { Drawn, PictureFrame, svgPen, type Pen } from '../pictures';
import { sideBySide } from './marks';

type Last = NonNullable<Report['last']>;
type Event = Last['events'][number];

/** From the job down to the node: upper layers are what people wrote. */
const layers: [string, string][] = [
  ['job', 'job'], ['rule', 'rules'], ['script', 'script'], ['python', 'Python'], ['log', 'log'], ['warning', 'warnings'], ['progress', 'progress'], ['function', 'functions'], ['mpi', 'MPI'], ['process', 'processes'], ['node', 'node'],
];
const layerName = (stream: string) => layers.find(([key]) => key === stream)?.[1] ?? stream;
const TICKS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000];
const NEAR = 0.004; // seconds: below this the scale is linear

function colourOf(weight: Event['weight'], c: Colours) {
  return { failure: c.bad, trouble: c.warn, hint: c.c2, place: c.accent, aside: c.other }[weight];
}

function draw(pen: Pen, width: number, c: Colours, events: readonly Event[], chosen: number | null, ground: number) {
  const rows = [...new Set(events.map((e) => e.stream))].sort((a, b) => layers.findIndex(([k]) => k === a) - layers.findIndex(([k]) => k === b));
  const left = 92, right = 24, top = 26, lane = 30;
  const far = Math.max(0.01, ...events.map((e) => e.before_end_seconds));
  const x = (before: number) => left + (width - left - right) * (1 - Math.log1p(before / NEAR) / Math.log1p(far / NEAR));
  const bottom = top + rows.length * lane;
  let free = width;
  pen.text('end', width - right, 14, { colour: c.soft, size: 11, align: 'middle' });
  pen.line([width - right, 20, width - right, bottom], c.edge);
  free = width - right - 34;
  for (const t of TICKS) {
    if (t > far) break;
    pen.line([x(t), 20, x(t), bottom], c.line);
    if (x(t) > free || x(t) < left + 10) continue;
    pen.text(`−${format.seconds(t).replace(/\.0+ /, ' ').replace(/ 0+ \w+$/, '')}`, x(t), 14, { colour: c.soft, size: 11, align: 'middle' });
    free = x(t) - 62;
  }
  rows.forEach((stream, i) => {
    const y = top + i * lane + lane / 2;
    pen.text(layerName(stream), left - 14, y + 4, { colour: c.ink, size: 12, align: 'end' });
    pen.line([left, y, width - right, y], c.line);
  });
  const marks = events.map((event, i) => ({ i, x: x(event.before_end_seconds), y: top + rows.indexOf(event.stream) * lane + lane / 2 }));
  for (const stream of rows) {
    const lane = marks.filter((m) => events[m.i]!.stream === stream);
    const places = sideBySide(lane.map((m) => m.x), left, width - right + 9);
    lane.forEach((mark, i) => (mark.x = places[i]!));
  }
  for (const mark of marks) {
    const fill = colourOf(events[mark.i]!.weight, c), r = 9;
    if (chosen === mark.i) pen.rect(mark.x - r - 3, mark.y - r - 3, 2 * r + 6, 2 * r + 6, c.ink);
    if (chosen === mark.i) pen.rect(mark.x - r - 1, mark.y - r - 1, 2 * r + 2, 2 * r + 2, c.surface);
    pen.rect(mark.x - r, mark.y - r, 2 * r, 2 * r, fill);
    pen.text(String(mark.i + 1), mark.x, mark.y + 4, { colour: inkOn(fill), size: 11, align: 'middle', weight: 600 });
  }
  return { marks, height: bottom + ground };
}
const heightOf = (events: readonly Event[]) => 26 + new Set(events.map((e) => e.stream)).size * 30 + 6;

const weights: Record<Event['weight'], string> = { failure: 'failed', trouble: 'trouble', hint: 'hint', place: '', aside: '' };

export function LastTimeline({ last, of }: { last: Last; of: string }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const marks = useRef<{ i: number; x: number; y: number }[]>([]);
  const list = useRef<HTMLTableSectionElement>(null);
  const evidence = new Set(last.reason?.evidence ?? []);
  const { events } = last;
  const drawn = useMemo(() => (pen: Pen, width: number, _height: number, c: Colours) => void (marks.current = draw(pen, width, c, events, chosen, 6).marks), [events, chosen]);
  const point = (x: number, y: number) => {
    const found = marks.current.find((m) => Math.abs(m.x - x) < 11 && Math.abs(m.y - y) < 13)?.i ?? null;
    if (found === chosen) return;
    setChosen(found);
    if (found !== null) list.current?.children[found]?.scrollIntoView({ block: 'nearest' }); // not of a row that is pointed at itself: the next one would come under the pointer
  };
  return (
    <PictureFrame
      title="What happened last" of={of} about="All layers on one line of time. The scale gets finer towards the end; the numbers are those of the list."
      picture={{
        name: 'last',
        svg: (c) => {
          const pen = svgPen(900, heightOf(events), c.surface);
          draw(pen, 900, c, events, null, 6);
          return pen.svg();
        },
        table: () => ({ columns: ['number', 'before_end_seconds', 'seconds', 'layer', 'weight', 'text'], rows: events.map((e, i) => [i + 1, e.before_end_seconds, e.seconds, e.stream, e.weight, e.text]) }),
      }}
    >
      <Drawn height={heightOf(events)} label={`${events.length} events before the end, on a line of time; the table below lists them`} draw={drawn} onMove={point} onClick={point} />
      <div class="table-box">
        <table class="plain-table" aria-label="What happened last">
          <thead>
            <tr><th class="number" scope="col">#</th><th class="number" scope="col">Before the end</th><th scope="col">Layer</th><th scope="col">What</th></tr>
          </thead>
          <tbody ref={list}>
            {events.map((e, i) => (
              <tr key={i} class={chosen === i ? 'chosen' : ''} onMouseEnter={() => setChosen(i)}>
                <td class="number">{i + 1}</td>
                <td class="number">{e.before_end_seconds < 0.0005 ? 'end' : format.seconds(e.before_end_seconds)}</td>
                <td class="narrow">{layerName(e.stream)}</td>
                <td>
                  <span class={`event ${e.weight}`}>{e.text}</span> {weights[e.weight] && <span class={`tag ${e.weight}`}>{weights[e.weight]}</span>}{' '}
                  {e.seq !== undefined && evidence.has(e.seq) && <span class="tag">evidence</span>}
                  {e.stack && e.stack.length > 0 && <div class="mono soft">{e.stack.join(' ← ')}</div>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </PictureFrame>
  );
}
