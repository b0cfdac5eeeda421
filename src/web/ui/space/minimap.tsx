// SPDX-License-Identifier: Apache-2.0
// The whole, small, with the window that is seen in it. A click or a drag moves the window.
import { useEffect, useRef } from 'preact/hooks';
import type { Control } from './control';
import { rasterCalls, rasterColumns } from './raster';
import { LANES_EACH, WHOLE_BLOCKS } from './tiles';
import type { Span } from './window';

const HEIGHT = 44;

function draw(canvas: HTMLCanvasElement, control: Control): void {
  const { scene } = control, { inks, background } = scene.look, ratio = scene.look.ratio;
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.round(HEIGHT * ratio);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d', { alpha: false })!, image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer).fill(background), target = { pixels, width, height };
  const lanes = Math.min(scene.picture.lanes.length, WHOLE_BLOCKS * LANES_EACH), rows = Math.min(lanes, Math.floor(height / 2));
  for (let row = 0; row < rows; row++) {
    const top = Math.floor(row * height / rows), bar = Math.max(1, Math.floor((row + 1) * height / rows) - top - (height / rows > 3 ? 1 : 0));
    const lane = Math.floor(row * lanes / rows), tile = scene.tiles.get(0, 0, Math.floor(lane / LANES_EACH)), one = tile?.lanes[lane % LANES_EACH];
    if (tile && one?.columnFunction)
      rasterColumns(target, one, inks, top, bar, 1, false);
    else if (tile && one?.begin)
      rasterCalls(target, one, inks, tile.from, width / (tile.to - tile.from), top, bar, 1, false);
  }
  context.putImageData(image, 0, 0);
}

export function Minimap({ control, version }: { control: Control; version: string }) {
  const canvas = useRef<HTMLCanvasElement>(null), box = useRef<HTMLDivElement>(null), frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    control.onstyle = () => canvas.current && draw(canvas.current, control);
    control.onstyle();
    return () => void (control.onstyle = () => {});
  }, [control, version]);
  useEffect(() => {
    control.onview = (view: Span) => {
      const { whole } = control.scene, all = whole.to - whole.from;
      if (frame.current) {
        frame.current.style.left = `${(view.from - whole.from) / all * 100}%`;
        frame.current.style.width = `${Math.max(0.3, (view.to - view.from) / all * 100)}%`;
      }
    };
    control.onview(control.scene.view);
    return () => void (control.onview = () => {});
  }, [control]);
  const move = (event: PointerEvent) => {
    if (!(event.buttons & 1) || !box.current)
      return;
    const { left, width } = box.current.getBoundingClientRect(), { whole } = control.scene, half = (control.view.to - control.view.from) / 2;
    const at = whole.from + (event.clientX - left) / width * (whole.to - whole.from);
    control.go({ from: at - half, to: at + half }, event.type === 'pointerdown');
  };
  return (
    <div class="space-map" ref={box} aria-hidden="true" onPointerDown={e => (e.currentTarget.setPointerCapture(e.pointerId), move(e))} onPointerMove={move}>
      <canvas ref={canvas} height={HEIGHT} />
      <div class="space-map-window" ref={frame} />
    </div>
  );
}
