// SPDX-License-Identifier: Apache-2.0
// A canvas on which a function draws with a Pen, so that the file to take away is drawn by the same code.
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useColours } from '../design/colours';
import type { Colours } from '../design/colours';
import { canvasPen, useWidth } from '../pictures';
import type { Pen } from '../pictures';

export type Draw = (pen: Pen, width: number, height: number, colours: Colours) => void;

/** `draw` is called again when it, the size or the colours change. Mouse positions are pixels of it. */
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
