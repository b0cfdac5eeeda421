// SPDX-License-Identifier: Apache-2.0
// The time axis: round steps in the unit in which one thinks at this zoom, from days to nanoseconds. Where the window lies far from the start
// compared with its width, marks count from a base that is written once (12.345 s +), since nobody reads twelve digits at each mark.

export interface Ticks {
  step: number;
  /** Times of the marks, in ns. */
  at: number[];
  labels: string[];
  /** What the labels count from, in ns; 0: the start of the job. */
  base: number;
  baseLabel: string;
  unit: string;
}

const UNITS: readonly (readonly [number, string])[] = [[1, 'ns'], [1e3, 'us'], [1e6, 'ms'], [1e9, 's']];
/** Beyond seconds nobody counts in tens. */
const LONG_STEPS = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000].map(s => s * 1e9);

export function tickStep(span: number, most: number): number {
  const rough = span / Math.max(1, most);
  if (rough > 5e9) {
    const long = LONG_STEPS.find(step => step >= rough);
    if (long)
      return long;
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const part = rough / power;
  return Math.max(1, power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10));
}

function digitsFor(part: number): number {
  return part >= 1 ? 0 : Math.min(9, Math.ceil(-Math.log10(part) - 1e-9));
}

/** 1:02:03 or 2 d 03:04; with seconds where marks are closer than minutes. */
export function clockText(ns: number, fine = false): string {
  const seconds = Math.round(Math.abs(ns) / 1e9), sign = ns < 0 ? '−' : '';
  const two = (n: number) => String(n).padStart(2, '0');
  const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24, minutes = Math.floor(seconds / 60) % 60;
  return days ? `${sign}${days} d ${two(hours)}:${two(minutes)}${fine ? ':' + two(seconds % 60) : ''}` : `${sign}${hours}:${two(minutes)}:${two(seconds % 60)}`;
}

export function ticksOf(from: number, to: number, most: number): Ticks {
  const span = Math.max(1, to - from), step = tickStep(span, most);
  const first = Math.ceil(from / step - 1e-9) * step, at: number[] = [];
  for (let i = 0; first + i * step <= to; i++)
    at.push(first + i * step);
  if (step >= 10e9)
    return { step, at, labels: at.map(t => clockText(t, step < 60e9)), base: 0, baseLabel: '', unit: 'h:mm:ss' };
  const [ns, unit] = UNITS.filter(([ns]) => ns <= Math.max(1, step * 10)).pop() ?? UNITS[0]!;
  const coarse = step * 1000;
  const base = Math.abs(from) / step > 1e4 ? Math.floor(from / coarse) * coarse : 0;
  const digits = digitsFor(step / ns);
  const labels = at.map(t => (base ? '+' : '') + (Math.abs(t - base) < step * 1e-6 ? 0 : (t - base) / ns).toFixed(digits) + ' ' + unit);
  return { step, at, labels, base, baseLabel: base ? `${(base / 1e9).toFixed(digitsFor(coarse / 1e9))} s` : '', unit };
}

/** A time within a window of this width: with as many digits as one can see there. */
export function timeText(ns: number, span: number): string {
  const fine = Math.max(1, span / 2000);
  const [of, unit] = UNITS.filter(([of]) => of <= Math.max(1, Math.abs(ns))).pop() ?? UNITS[0]!;
  return `${(ns / of).toFixed(digitsFor(fine / of))} ${unit}`;
}
