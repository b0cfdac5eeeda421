// SPDX-License-Identifier: Apache-2.0
// What every picture has: a frame with a title, and its figures to take away, as SVG and as CSV.
// A picture that draws itself with a Pen is drawn by the same code on the canvas and into the file.
import type { ComponentChildren, RefObject } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { lightColours, onPaper, useColours, type Colours } from './design/colours';
import { sentence } from './format';

export interface Table {
  /** Names of columns, with the unit where there is one: "self_ns". */
  columns: string[];
  rows: Iterable<readonly (string | number | null)[]>;
}

export interface Picture {
  /** Part of the file's name: "functions" becomes JOB-functions.svg. */
  name: string;
  /** null: this one has no drawing, only figures. The colours are those of paper. */
  svg: ((colours: Colours) => string) | null;
  table: () => Table;
}

// ---- drawing ----

export interface TextStyle {
  colour: string;
  size?: number;
  align?: 'start' | 'middle' | 'end';
  weight?: number;
  /** In degrees, around the point. */
  turn?: number;
  mono?: boolean;
}

/** Draws on a canvas or into an SVG; pixels from the upper left. */
export interface Pen {
  rect(x: number, y: number, width: number, height: number, fill: string): void;
  line(points: readonly number[], stroke: string, width?: number, dash?: number[]): void;
  /** Single lines, of four numbers each; where many are over each other, it is as dark as with one. */
  lines(ends: readonly number[], stroke: string, width: number, opacity: number): void;
  area(points: readonly number[], fill: string, opacity?: number): void;
  text(text: string, x: number, y: number, style: TextStyle): void;
  /** What is drawn until the next unclip is only seen in this rectangle. */
  clip(x: number, y: number, width: number, height: number): void;
  unclip(): void;
}

export const FONT = 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
export const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** On a canvas whose context is scaled to CSS pixels already. */
export function canvasPen(context: CanvasRenderingContext2D): Pen {
  const trace = (points: readonly number[]) => {
    context.beginPath();
    for (let i = 0; i + 1 < points.length; i += 2) context.lineTo(points[i]!, points[i + 1]!);
  };
  return {
    rect(x, y, width, height, fill) {
      context.fillStyle = fill;
      context.fillRect(x, y, width, height);
    },
    line(points, stroke, width = 1, dash = []) {
      trace(points);
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.setLineDash(dash);
      context.stroke();
    },
    lines(ends, stroke, width, opacity) {
      context.beginPath();
      for (let i = 0; i + 3 < ends.length; i += 4) {
        context.moveTo(ends[i]!, ends[i + 1]!);
        context.lineTo(ends[i + 2]!, ends[i + 3]!);
      }
      context.strokeStyle = stroke;
      context.lineWidth = width;
      context.globalAlpha = opacity;
      context.stroke();
      context.globalAlpha = 1;
    },
    area(points, fill, opacity = 1) {
      trace(points);
      context.fillStyle = fill;
      context.globalAlpha = opacity;
      context.fill();
      context.globalAlpha = 1;
    },
    text(text, x, y, style) {
      context.save();
      context.translate(x, y);
      if (style.turn) context.rotate((style.turn * Math.PI) / 180);
      context.font = `${style.weight ?? 400} ${style.size ?? 12}px ${style.mono ? MONO : FONT}`;
      context.textAlign = style.align === 'middle' ? 'center' : (style.align ?? 'start');
      context.fillStyle = style.colour;
      context.fillText(text, 0, 0);
      context.restore();
    },
    clip(x, y, width, height) {
      context.save();
      context.beginPath();
      context.rect(x, y, width, height);
      context.clip();
    },
    unclip: () => context.restore(),
  };
}

const escaped = (text: string) =>
  text.replace(/[&<>"\u0000-\u001f]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] ?? '\ufffd');
const short = (value: number) => String(Math.round(value * 100) / 100);

/** Into an SVG of this size; `svg()` is the whole file. */
export function svgPen(width: number, height: number, background: string): Pen & { svg(): string } {
  const parts: string[] = [];
  const points = (list: readonly number[]) => list.map(short).join(' ');
  let clips = 0;
  return {
    rect: (x, y, w, h, fill) => parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}" fill="${escaped(fill)}"/>`),
    line: (list, stroke, w = 1, dash = []) =>
      parts.push(`<polyline points="${points(list)}" fill="none" stroke="${escaped(stroke)}" stroke-width="${w}"${dash.length ? ` stroke-dasharray="${dash.join(' ')}"` : ''}/>`),
    lines(ends, stroke, w, opacity) {
      let path = '';
      for (let i = 0; i + 3 < ends.length; i += 4) path += `M${points(ends.slice(i, i + 2))}L${points(ends.slice(i + 2, i + 4))}`;
      parts.push(`<path d="${path}" fill="none" stroke="${escaped(stroke)}" stroke-width="${w}" stroke-opacity="${short(opacity)}"/>`);
    },
    area: (list, fill, opacity = 1) => parts.push(`<polygon points="${points(list)}" fill="${escaped(fill)}"${opacity < 1 ? ` fill-opacity="${opacity}"` : ''}/>`),
    text(text, x, y, s) {
      const turn = s.turn ? ` transform="rotate(${s.turn} ${short(x)} ${short(y)})"` : '';
      parts.push(
        `<text x="${short(x)}" y="${short(y)}" font-size="${s.size ?? 12}" fill="${escaped(s.colour)}" text-anchor="${s.align ?? 'start'}" font-weight="${s.weight ?? 400}" font-family="${escaped(s.mono ? MONO : FONT)}"${turn}>${escaped(text)}</text>`,
      );
    },
    clip(x, y, w, h) {
      const id = `clip${clips++}`;
      parts.push(`<clipPath id="${id}"><rect x="${short(x)}" y="${short(y)}" width="${short(w)}" height="${short(h)}"/></clipPath><g clip-path="url(#${id})">`);
    },
    unclip: () => parts.push('</g>'),
    svg: () =>
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><rect width="100%" height="100%" fill="${escaped(background)}"/>${parts.join('\n')}</svg>\n`,
  };
}

// ---- files ----

/** As RFC 4180 has it. A text that a spreadsheet would take for a formula gets a ' in front. */
export function csv(table: Table): string {
  const cell = (value: string | number | null) => {
    if (value === null) return '';
    if (typeof value === 'number') return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  let out = table.columns.map(cell).join(',') + '\r\n';
  for (const row of table.rows) out += row.map(cell).join(',') + '\r\n';
  return out;
}

export function download(name: string, type: string, text: string) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const phone = matchMedia('(max-width: 640px)'); // as in design.css
export function useNarrow(): boolean {
  const [narrow, set] = useState(phone.matches);
  useEffect(() => {
    const changed = () => set(phone.matches);
    phone.addEventListener('change', changed);
    return () => phone.removeEventListener('change', changed);
  }, []);
  return narrow;
}

/** The frame: title, what it shows, its controls, the picture, and the links that take it away. */
export function PictureFrame(props: {
  title: string;
  /** Below the title, first: what it says. */
  verdict?: string | null;
  /** A line below the title: what it shows, and how to read it. */
  about?: ComponentChildren;
  /** Begins the files' names: the job. */
  of: string;
  picture: Picture;
  /** Right of the title: buttons, choices. */
  controls?: ComponentChildren;
  /** There, too: a figure. */
  told?: ComponentChildren;
  children: ComponentChildren;
}) {
  const id = useId(), narrow = useNarrow();
  const file = `${props.of}-${props.picture.name}`.replace(/[^\w.-]+/g, '_');
  const { svg, table } = props.picture;
  return (
    <section class="picture" aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {narrow && props.controls ? <details class="picture-controls"><summary>Choices</summary><div>{props.controls}</div></details> : <div class="picture-controls">{props.controls ?? props.told}</div>}
        <div class="picture-take" role="group" aria-label={`Take away: ${props.title}`}>
          {svg && (
            <button type="button" class="quiet" onClick={() => download(`${file}.svg`, 'image/svg+xml', svg(lightColours()))}>
              SVG
            </button>
          )}
          <button type="button" class="quiet" onClick={() => download(`${file}.csv`, 'text/csv', csv(table()))}>
            CSV
          </button>
        </div>
      </header>
      {props.verdict && <p class="reason">{sentence(props.verdict)}</p>}
      {props.about && <p class="about">{props.about}</p>}
      {props.children}
    </section>
  );
}

/** Of an element, in CSS pixels: known before it is seen, so that what is below it does not move; also on paper. */
export function useWidth(element: RefObject<HTMLElement>): number {
  const [width, set] = useState(0);
  useLayoutEffect(() => {
    const measure = () => set(element.current!.clientWidth);
    const watch = new ResizeObserver(measure), stop = onPaper(measure);
    watch.observe(element.current!);
    measure();
    return () => {
      watch.disconnect();
      stop();
    };
  }, []);
  return width;
}

export type Draw = (pen: Pen, width: number, height: number, colours: Colours) => void;

/** A canvas as wide as its place. `draw` is called again when it, the size or the colours change. Mouse positions are pixels of it. */
export function Drawn(props: {
  draw: Draw; /** In pixels, or what it is for a width. */ height: number | ((width: number) => number); label: string; onMove?: (x: number, y: number, width: number) => void; onLeave?: () => void;
  onClick?: (x: number, y: number, width: number) => void; onKey?: (event: KeyboardEvent) => void; onWheel?: (event: WheelEvent, x: number, y: number, width: number) => void; class?: string;
}) {
  const canvas = useRef<HTMLCanvasElement>(null), colours = useColours();
  const width = useWidth(canvas);
  const height = typeof props.height === 'number' ? props.height : props.height(width);
  const wheel = useRef(props.onWheel);
  wheel.current = props.onWheel;
  useEffect(() => {
    const one = canvas.current!;
    const turn = (event: WheelEvent) => wheel.current?.(event, event.offsetX, event.offsetY, one.clientWidth);
    one.addEventListener('wheel', turn, { passive: false });
    return () => one.removeEventListener('wheel', turn);
  }, []);
  useLayoutEffect(() => {
    const one = canvas.current!;
    if (!width)
      return;
    const ratio = devicePixelRatio || 1, context = one.getContext('2d', { alpha: false })!;
    one.width = Math.round(width * ratio);
    one.height = Math.round(height * ratio);
    context.scale(ratio, ratio);
    context.fillStyle = colours.surface;
    context.fillRect(0, 0, width, height);
    props.draw(canvasPen(context), width, height, colours);
  }, [props.draw, width, height, colours]);
  return (
    <canvas ref={canvas} class={`drawn ${props.class ?? ''}`} style={{ height: `${height}px` }} role={props.onKey ? 'application' : 'img'} aria-label={props.label} tabIndex={props.onKey ? 0 : undefined}
      onMouseMove={e => props.onMove?.(e.offsetX, e.offsetY, width)} onMouseLeave={props.onLeave} onClick={e => props.onClick?.(e.offsetX, e.offsetY, width)} onKeyDown={props.onKey} />
  );
}
