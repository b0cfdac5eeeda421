// SPDX-License-Identifier: Apache-2.0
// Colours of calls. By kind: that of its class. By function: it follows from the name, so a function has the same one in each run as long as
// colours suffice.

import type { Colours } from '../design/colours';

export type Rgb = readonly [number, number, number];

export const CLASSES = ['compute', 'p2p', 'wait', 'collective', 'onesided', 'io', 'other', 'unsplit'] as const;
export type CallClass = (typeof CLASSES)[number];

export interface Scheme {
  background: Rgb; lane: Rgb; ink: Rgb; soft: Rgb; grid: Rgb; accent: Rgb;
  classes: Record<CallClass, Rgb>;
  functions: readonly Rgb[];
}

const rgb = (text: string): Rgb => [parseInt(text.slice(1, 3), 16), parseInt(text.slice(3, 5), 16), parseInt(text.slice(5, 7), 16)];
export const hex = (colour: Rgb): string => '#' + colour.map(part => part.toString(16).padStart(2, '0')).join('');

const CATEGORIES = ['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8'] as const;

/** Of the pages' colours. There are twice as many functions' colours as categories: each also in half strength. */
export function schemeOf(c: Colours): Scheme {
  const background = rgb(c.surface), strong = CATEGORIES.map(name => rgb(c[name]));
  return {
    background, lane: mix(background, rgb(c.sunken), 0.6), ink: rgb(c.ink), soft: rgb(c.soft), grid: rgb(c.line), accent: rgb(c.bad),
    classes: Object.fromEntries(CLASSES.map(name => [name, rgb(c[name])])) as Record<CallClass, Rgb>,
    functions: [...strong, ...strong.map(colour => mix(background, colour, 0.55))],
  };
}

export function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [0, 1, 2].map(i => Math.round(a[i]! + (b[i]! - a[i]!) * share)) as unknown as Rgb;
}

/** A pixel as ImageData has it on little-endian machines, which all browsers run on. */
export function pixel(colour: Rgb): number {
  return (0xff000000 | colour[2] << 16 | colour[1] << 8 | colour[0]) >>> 0;
}

function hashOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++)
    hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** For each name a colour's number: that of its hash, or the next one that is used least so far. */
export function assignColours(names: readonly string[], colours: number): Uint8Array {
  const used = new Uint32Array(colours), out = new Uint8Array(names.length);
  const order = [...names.keys()].sort((a, b) => names[a]! < names[b]! ? -1 : names[a]! > names[b]! ? 1 : 0);
  for (const i of order) {
    const start = hashOf(names[i]!) % colours;
    let best = start;
    for (let k = 1; k < colours; k++) {
      const other = (start + k) % colours;
      if (used[other]! < used[best]!)
        best = other;
    }
    used[best]!++;
    out[i] = best;
  }
  return out;
}

export const SHADES = 32;

export type ColourBy = 'kind' | 'function';

export function classOf(name: string): CallClass {
  return (CLASSES as readonly string[]).includes(name) ? name as CallClass : 'compute';
}

/** The colour of each function. By kind, functions that are no MPI calls differ a little, else a stack would be one area. */
export function functionColours(functions: readonly { name: string; class: string }[], by: ColourBy, scheme: Scheme): Rgb[] {
  const numbers = assignColours(functions.map(one => one.name), scheme.functions.length);
  return functions.map((one, i) => {
    const kind = classOf(one.class), own = scheme.functions[numbers[i]!]!, program = kind === 'compute' || kind === 'unsplit';
    if (by === 'kind')
      return program ? mix(scheme.classes[kind], mix(scheme.background, scheme.ink, 0.35), (numbers[i]! % 4) * 0.07) : scheme.classes[kind];
    return program ? own : mix(scheme.classes[kind], own, 0.15);
  });
}
