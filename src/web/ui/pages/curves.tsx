// SPDX-License-Identifier: Apache-2.0
// Curves over the time of a job, one for each node.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { category, useColours, type Colours } from '../design/colours';
import * as format from '../format';
import { PictureFrame, svgPen, useWidth } from '../pictures';
import type { Curve, Series } from './series';

/** Steps of axes of time, in seconds. */
export const timeSteps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];
/** Marks at round seconds, at most so many. */
export function timeTicks(from: number, to: number, most: number): number[] {
  const step = timeSteps.find((s) => (to - from) / s <= most) ?? Math.ceil((to - from) / most);
  const out: number[] = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) out.push(i * step);
  return out;
}
/** Steps of axes of values: round in the unit that is shown, which for bytes has 1024 of the one below. */
const steps = (base: number, least: number, most: number, factors: readonly number[]) => Array.from({ length: most - least + 1 }, (_, i) => factors.map((factor) => factor * base ** (i + least))).flat();
const byteSteps = steps(1024, 0, 5, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]), plainSteps = steps(10, -2, 12, [1, 2, 5]);
export const valueSteps = (unit: string) => (unit.startsWith('bytes') ? byteSteps : plainSteps);
/** Marks from 0 on, at most so many above it. */
export function valueTicks(top: number, unit: string, most: number): number[] {
  const step = valueSteps(unit).find((s) => top / s < most + 1) ?? top;
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => i * step);
}
/** "90 s" and "2 min" rather than "1.5 min": as short as an axis needs it. */
export function tick(seconds: number): string {
  if (seconds === 0) return '0';
  if (seconds < 1) return `${+(seconds * 1000).toFixed(3)} ms`;
  if (seconds < 120) return `${+seconds.toFixed(3)} s`;
  if (seconds < 7200) return seconds % 60 ? `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s` : `${seconds / 60} min`;
  if (seconds < 172800) return seconds % 3600 ? `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min` : `${seconds / 3600} h`;
  return seconds % 86400 ? `${Math.floor(seconds / 86400)} d ${Math.round((seconds % 86400) / 3600)} h` : `${seconds / 86400} d`;
}

export interface CurvesProps {
  title: string;
  name: string;
  of: string;
  curve: Curve;
  /** A value with its unit: "3.4 GB". */
  value: (value: number) => string;
  /** The unit of the CSV's columns: "bytes". */
  unit: string;
  /** The scale's end: 1 for shares. */
  most?: number;
  /** Nothing comes any more: the most counts, not the last. */
  over?: boolean;
  /** Changes when there are new points. */
  version: number;
}

/** All nodes on the times of any of them. */
function joined(curve: Curve): uPlot.AlignedData {
  const tables = [...curve.values()].map((s) => [s.t, s.v] as uPlot.AlignedData);
  return tables.length === 1 ? tables[0]! : uPlot.join(tables);
}

function drawn(p: CurvesProps, c: Colours): string {
  const width = 720, height = 300, x0 = 70, y0 = 40, x1 = width - 20, y1 = height - 40;
  const pen = svgPen(width, height, c.surface);
  const data = joined(p.curve), times = data[0] ?? [];
  const from = times[0] ?? 0, to = Math.max(from + 1e-9, times[times.length - 1] ?? 1);
  let top = p.most ?? 0;
  if (!top) for (const values of data.slice(1)) for (const v of values) if (v != null && v > top) top = v;
  top ||= 1;
  const x = (t: number) => x0 + ((t - from) / (to - from)) * (x1 - x0), y = (v: number) => y1 - (v / top) * (y1 - y0);
  pen.text(`${p.title}: ${p.of}`, x0, 22, { colour: c.ink, size: 14, weight: 600 });
  for (const v of valueTicks(top, p.unit, 4)) {
    pen.line([x0, y(v), x1, y(v)], c.line);
    pen.text(p.value(v), x0 - 8, y(v) + 4, { colour: c.soft, size: 11, align: 'end' });
  }
  for (const t of timeTicks(from, to, 8)) pen.text(tick(t), x(t), y1 + 18, { colour: c.soft, size: 11, align: 'middle' });
  [...p.curve.keys()].forEach((node, i) => {
    let part: number[] = [];
    const end = () => (part.length > 3 && pen.line(part, category(c, i), 1.5), (part = []));
    times.forEach((t, k) => {
      const v = data[i + 1]?.[k];
      if (v === null) end();
      else if (v !== undefined) part.push(x(t), y(v));
    });
    end();
    if (p.curve.size > 1) pen.text(node, x0 + 90 * (i % 7), height - 8, { colour: category(c, i), size: 11 });
  });
  return pen.svg();
}

const most = (series: readonly (number | null)[]) => series.reduce<number>((m, v) => Math.max(m, v ?? 0), 0);

/** What its points have seen is not all where more is known; then that is said to who asks. */
function mostText(series: Series, text: (value: number) => string): { text: string; about?: string } {
  const seen = text(most(series.v)), known = text(series.peak);
  return series.peak > most(series.v) && known !== seen ? { text: `most seen ${seen}`, about: `between samples it came to ${known}` } : { text: `most ${seen}` };
}

function* rows(curve: Curve) {
  for (const [node, series] of curve) for (let i = 0; i < series.t.length; i++) yield [node, series.t[i]!, series.v[i] ?? null] as const;
}

const HEIGHT = 132;

export function Curves(p: CurvesProps) {
  const c = useColours();
  const box = useRef<HTMLDivElement>(null), width = useWidth(box);
  const plot = useRef<uPlot>();
  const [at, setAt] = useState<number | null>(null);
  const nodes = [...p.curve.keys()];
  const latest = useRef(p);
  latest.current = p;

  useLayoutEffect(() => {
    const element = box.current!;
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: c.soft, font, grid: { stroke: c.line, width: 1 }, ticks: { show: false } };
    const made = new uPlot(
      {
        width: element.clientWidth || 300, height: HEIGHT, padding: [8, 18, 0, 0], legend: { show: false },
        cursor: { sync: { key: p.of }, drag: { x: false, y: false }, points: { show: false }, y: false },
        scales: { x: { time: false }, y: { range: (_u, _min, max) => [0, latest.current.most ?? (max > 0 ? max * 1.1 : 1)] } },
        axes: [
          { ...axis, size: 24, incrs: timeSteps, space: 70, values: (_u, splits) => splits.map(tick) },
          { ...axis, size: 58, space: 30, incrs: valueSteps(latest.current.unit), values: (_u, splits) => splits.map((v) => latest.current.value(v)) },
        ],
        series: [{}, ...nodes.map((node, i) => ({ label: node, stroke: category(c, i), width: 1.5, points: { show: false }, spanGaps: true, ...(nodes.length === 1 ? { fill: `${category(c, i)}1f` } : {}) }))],
        hooks: { setCursor: [(u) => setAt(u.cursor.idx ?? null)] },
      },
      joined(latest.current.curve), element,
    );
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = undefined;
    };
  }, [c, nodes.join('\n')]);
  useLayoutEffect(() => {
    if (width) plot.current?.setSize({ width, height: HEIGHT });
  }, [width]);
  useEffect(() => plot.current?.setData(joined(p.curve)), [p.version]);

  const data = plot.current?.data;
  const index = at ?? (data ? data[0].length - 1 : -1);
  const said = nodes.map((node, i) => {
    const series = p.curve.get(node)!, v = at !== null ? data?.[i + 1]?.[index] : p.over ? most(series.v) : series.last;
    return { node, ...(v != null && at === null && p.over ? mostText(series, p.value) : { text: v == null ? '–' : p.value(v), about: undefined }) };
  });
  return (
    <PictureFrame
      title={p.title} of={p.of} picture={{ name: p.name, svg: (paper) => drawn(p, paper), table: () => ({ columns: ['node', 'seconds', `${p.name}_${p.unit}`], rows: rows(p.curve) }) }}
      told={nodes.length === 1 ? <span class="soft" title={said[0]!.about}>{said[0]!.text}{at !== null && data?.[0][index] !== undefined ? ` at ${format.seconds(data[0][index])}` : ''}</span> : undefined}
    >
      <div ref={box} class="curve-box" role="img" aria-label={`${p.title}: ${nodes.map((node) => `${node} ${p.over ? '' : `now ${p.curve.get(node)!.last == null ? 'unknown' : p.value(p.curve.get(node)!.last!)}, `}${Object.values(mostText(p.curve.get(node)!, p.value)).join(', ')}`).join('; ')}`} />
      {nodes.length > 1 && (
        <ul class="legend">
          {said.slice(0, 12).map(({ node, text, about }, i) => (
            <li key={node} title={about}>
              <i style={{ background: category(c, i) }} />
              {node} {text}
            </li>
          ))}
          {said.length > 12 && <li>and {said.length - 12} more</li>}
        </ul>
      )}
    </PictureFrame>
  );
}
