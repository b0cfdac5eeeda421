// SPDX-License-Identifier: Apache-2.0
// When a job used processors, or waited, by spans of time, with its memory: a part of it can be chosen, by a drag or by the keyboard.
import { useMemo, useRef, useState } from 'preact/hooks';
import { jobPath, useAnswer, type Report } from '../api';
import type { Colours } from '../design/colours';
import { digits, seconds, size } from '../format';
import { Drawn, type Pen } from '../pictures';
import type { Part, Samples } from './samples';

const HEIGHT = 84, FOOT = 16, LEAST = 4; // spans that are worth a picture

/** Of the spans from one up to another, not in it. */
export interface Window { from: number; to: number }

export function OverTime({ id, samples, part, over, chosen, onChoose }: { id: string; samples: Samples; part: Part; over: boolean; chosen: Window | null; onChoose: (window: Window | null) => void }) {
  const report = useAnswer<Report>(over ? jobPath(id, 'report') : null).value, curve = report?.timeline.rss_bytes;
  const [drag, setDrag] = useState<Window | null>(null), begun = useRef<number | null>(null), box = useRef<HTMLDivElement>(null);
  const { spans, span_ns } = samples, at = part === 'cpu' ? 0 : 1, shown = drag ?? chosen;
  const most = spans.reduce((greatest, span) => Math.max(greatest, span[at] / span_ns), 0);
  const memory = useMemo(() => (curve ? curve.max.flatMap((value, i) => (value === null ? [] : [{ at: (i * curve.window_seconds * 1e9) / span_ns, value: Number(value) }])).filter((one) => one.at <= spans.length) : []), [curve, span_ns, spans.length]);
  const peak = memory.reduce((greatest, one) => Math.max(greatest, one.value), 0);
  const draw = useMemo(() => (pen: Pen, width: number, height: number, colours: Colours) => {
    const x = (span: number) => (span / spans.length) * width, y = (share: number) => (height - FOOT) * (1 - 0.95 * share);
    pen.rect(0, 0, width, height - FOOT, colours.sunken);
    spans.forEach((span, i) => {
      const top = y(most > 0 ? span[at] / span_ns / most : 0), inside = !shown || (i >= shown.from && i < shown.to);
      pen.rect(x(i), top, Math.max(1, x(i + 1) - x(i) - (x(1) > 4 ? 1 : 0)), height - FOOT - top, inside ? colours.compute : colours.line);
    });
    if (memory.length > 1) pen.line(memory.flatMap((one) => [x(one.at), y(one.value / (peak || 1))]), colours.bad, 1.5);
    if (shown) pen.line([x(shown.from), 0, x(shown.from), height - FOOT, x(shown.to), height - FOOT, x(shown.to), 0, x(shown.from), 0], colours.ink, 1.5);
    const text = { colour: colours.soft, size: 11 };
    pen.text('0', 0, height - 3, text);
    pen.text(seconds((spans.length * span_ns) / 1e9), width, height - 3, { ...text, align: 'end' });
  }, [spans, span_ns, at, most, memory, peak, shown?.from, shown?.to]);
  if (spans.length < LEAST) return null;
  const spanAt = (event: PointerEvent) => {
    const { left, width } = box.current!.getBoundingClientRect();
    return Math.max(0, Math.min(spans.length - 1, Math.floor(((event.clientX - left) / width) * spans.length)));
  };
  const moved = (event: PointerEvent) => {
    if (begun.current === null) return;
    const end = spanAt(event), other = begun.current;
    setDrag({ from: Math.min(end, other), to: Math.max(end, other) + 1 });
  };
  const ended = () => {
    if (begun.current !== null && drag) onChoose(drag.to - drag.from === 1 && chosen ? null : drag);
    begun.current = null;
    setDrag(null);
  };
  const time = (span: number) => seconds((span * span_ns) / 1e9), from = chosen?.from ?? 0, to = Math.min(chosen?.to ?? spans.length, spans.length);
  return (
    <section class="panel over-time" aria-label="Over time">
      <header>
        <h2>{shown ? `From ${time(shown.from)} to ${time(shown.to)}` : 'Over time'}</h2>
        <span class="soft">{part === 'cpu' ? `bars: processors, at most ${digits(most, 2)}` : `bars: threads that waited, at most ${digits(most, 2)}`}{memory.length > 1 && `; line: memory, at most ${size(peak)}`}</span>
        {chosen && <button type="button" class="quiet no-print" onClick={() => onChoose(null)}>All the time</button>}
      </header>
      <div ref={box} onPointerDown={(e) => e.button === 0 && (box.current!.setPointerCapture(e.pointerId), (begun.current = spanAt(e)), moved(e))} onPointerMove={moved} onPointerUp={ended} onPointerCancel={() => ((begun.current = null), setDrag(null))}>
        <Drawn draw={draw} height={HEIGHT} label={`${part === 'cpu' ? 'Processors' : 'Waiting'} over ${spans.length} spans of ${time(1)}, at most ${digits(most, 2)}. The sliders below choose a part.`} />
      </div>
      <div class="over-time-choose no-print">
        <label>From <input type="range" min={0} max={spans.length - 1} value={from} aria-valuetext={time(from)} onChange={(e) => onChoose({ from: Number(e.currentTarget.value), to: Math.max(to, Number(e.currentTarget.value) + 1) })} /></label>
        <label>to <input type="range" min={1} max={spans.length} value={to} aria-valuetext={time(to)} onChange={(e) => onChoose({ from: Math.min(from, Number(e.currentTarget.value) - 1), to: Number(e.currentTarget.value) })} /></label>
      </div>
    </section>
  );
}
