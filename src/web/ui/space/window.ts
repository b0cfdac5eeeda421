// SPDX-License-Identifier: Apache-2.0
// The part of the time that is seen, and how one moves in it. Pure.

export interface Span { from: number; to: number }

/** No closer than this: 100 ns over the width of the picture. */
export const CLOSEST_NS = 100;

export function clamp(span: Span, whole: Span): Span {
  const most = Math.max(CLOSEST_NS, whole.to - whole.from);
  const width = Math.min(most, Math.max(CLOSEST_NS, span.to - span.from));
  const middle = (span.from + span.to) / 2;
  const from = Math.max(whole.from, Math.min(middle - width / 2, whole.from + most - width));
  return { from, to: from + width };
}

/** factor < 1: closer. The time `at` stays where it is. */
export function zoom(span: Span, at: number, factor: number, whole: Span): Span {
  const width = Math.min(Math.max(CLOSEST_NS, whole.to - whole.from), Math.max(CLOSEST_NS, (span.to - span.from) * factor));
  const share = (at - span.from) / Math.max(1e-9, span.to - span.from);
  const from = at - share * width;
  return clamp({ from, to: from + width }, whole);
}

export function pan(span: Span, by: number, whole: Span): Span {
  return clamp({ from: span.from + by, to: span.to + by }, whole);
}

/** Shows `target` with some room at both sides. */
export function around(target: Span, whole: Span): Span {
  const width = Math.max(CLOSEST_NS / 2, target.to - target.from);
  return clamp({ from: target.from - width, to: target.to + width }, whole);
}

/** A step of the way from `now` to `aim`; widths go by ratio, so a zoom looks equally fast at all scales. */
export function approach(now: Span, aim: Span, share: number): Span {
  const width = now.to - now.from, aimed = aim.to - aim.from;
  if (Math.abs(aimed / width - 1) < 0.002 && Math.abs(aim.from - now.from) < aimed * 0.0005)
    return aim;
  const next = width * (aimed / width) ** share;
  const t = Math.abs(aimed - width) < width * 1e-6 ? share : (next - width) / (aimed - width);
  const from = now.from + (aim.from - now.from) * t;
  return { from, to: from + next };
}

export function same(a: Span, b: Span): boolean {
  return a.from === b.from && a.to === b.to;
}
