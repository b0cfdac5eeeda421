// SPDX-License-Identifier: Apache-2.0
// A small bar for each of some to thousands of processes, side by side.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Colours } from '../design/colours';
import { barLength, greatest } from './profile';

const HEIGHT = 20;

export function Strip({ values, labels, format, colours, log, scale, onPick }: {
  values: readonly number[]; labels: readonly string[]; format: (value: number) => string; colours: Colours; log: boolean; /** Of which a bar of the whole height is; without: the greatest of these. */ scale?: number; onPick?: (process: number) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState(-1);
  useLayoutEffect(() => {
    const paint = () => {
      const one = canvas.current;
      if (!one)
        return;
      const ratio = devicePixelRatio || 1, width = Math.max(1, Math.round(one.clientWidth * ratio)), height = Math.round(HEIGHT * ratio);
      one.width = width;
      one.height = height;
      const context = one.getContext('2d')!, greatestHere = greatest(values), most = scale ?? greatestHere, each = width / Math.max(1, values.length);
      context.fillStyle = colours.sunken;
      context.fillRect(0, 0, width, height);
      if (each >= 1)
        for (let i = 0; i < values.length; i++) {
          const length = Math.max(values[i]! > 0 ? ratio : 0, barLength(values[i]!, most, log) * height);
          context.fillStyle = i === at ? colours.accent : values[i] === greatestHere ? colours.heat5 : colours.heat3;
          const left = Math.round(i * each), right = Math.round((i + 1) * each) - (each > 4 * ratio ? 1 : 0);
          context.fillRect(left, height - length, right - left, length);
        }
      else
        for (let x = 0; x < width; x++) { // several processes in a pixel: the greatest
          let value = 0;
          for (let i = Math.floor(x / each); i < (x + 1) / each && i < values.length; i++)
            value = Math.max(value, values[i]!);
          const length = barLength(value, most, log) * height;
          context.fillStyle = value === greatestHere ? colours.heat5 : colours.heat3;
          context.fillRect(x, height - length, 1, length);
        }
    };
    paint();
    const watch = new ResizeObserver(paint);
    watch.observe(canvas.current!);
    return () => watch.disconnect();
  }, [values, colours, log, at, scale]);
  const indexOf = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return Math.max(0, Math.min(values.length - 1, Math.floor((event.clientX - box.left) / box.width * values.length)));
  };
  return (
    <span class="strip" title={at >= 0 ? `${labels[at]}: ${format(values[at]!)}` : ''} onMouseMove={e => setAt(indexOf(e))} onMouseLeave={() => setAt(-1)}
      onClick={e => onPick && (e.stopPropagation(), onPick(indexOf(e)))}>
      <canvas ref={canvas} role="img" aria-label={`${values.length} processes, from ${format(values.reduce((least, value) => Math.min(least, value), Infinity))} to ${format(greatest(values))}`} />
    </span>
  );
}
