// SPDX-License-Identifier: Apache-2.0
// The colours of colours.css for what is drawn by programs: canvas, SVG, uPlot.
import { useEffect, useState } from 'preact/hooks';

const names = [
  'page', 'surface', 'sunken', 'line', 'edge', 'ink', 'soft', 'accent', 'accent-ink', 'chosen', 'good', 'warn', 'bad', 'good-back', 'warn-back', 'bad-back',
  'compute', 'p2p', 'wait', 'collective', 'onesided', 'io', 'other', 'unsplit',
  'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8', 'heat0', 'heat1', 'heat2', 'heat3', 'heat4', 'heat5',
] as const;
export type ColourName = (typeof names)[number];
export type Colours = Readonly<Record<ColourName, string>>;
/** What a call does, as the server says of functions; `unsplit`: what of it is in MPI nobody recorded. */
export type CallClass = 'compute' | 'p2p' | 'wait' | 'collective' | 'onesided' | 'io' | 'other' | 'unsplit';
export const callClasses: readonly CallClass[] = ['compute', 'p2p', 'wait', 'collective', 'onesided', 'io', 'other', 'unsplit'];
export const classLabels: Record<CallClass, string> = {
  compute: 'computing', p2p: 'send, receive', wait: 'wait, test', collective: 'collective', onesided: 'one-sided', io: 'files', other: 'other', unsplit: 'computing or in MPI',
};

let all: { light: Colours; dark: Colours; paper: Colours } | undefined;
function read() {
  if (all) return all;
  const style = getComputedStyle(document.documentElement);
  const light: Record<string, string> = {}, dark: Record<string, string> = {};
  for (const name of names) {
    const [, a, b] = /light-dark\(\s*(#\w+)\s*,\s*(#\w+)\s*\)/.exec(style.getPropertyValue(`--${name}`)) ?? [];
    light[name] = a ?? '#000000';
    dark[name] = b ?? '#ffffff';
  }
  return (all = { light: light as Colours, dark: dark as Colours, paper: { ...(light as Colours), page: '#ffffff', surface: '#ffffff' } });
}

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const printing = matchMedia('print');
export type Theme = 'auto' | 'light' | 'dark';
const KEY = 'scry-theme';

export function themeNow(): Theme {
  const chosen = document.documentElement.dataset['theme'];
  return chosen === 'light' || chosen === 'dark' ? chosen : 'auto';
}
export function themeSet(theme: Theme) {
  if (theme === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch { /* storage is off: it lasts as long as the page */ }
  dispatchEvent(new Event('scry-theme'));
}
try {
  const stored = localStorage.getItem(KEY);
  if (stored === 'light' || stored === 'dark') document.documentElement.dataset['theme'] = stored;
} catch { /* as above */ }

export function isDark(): boolean {
  const theme = themeNow();
  return theme === 'dark' || (theme === 'auto' && prefersDark.matches);
}
export const lightColours = () => read().light;
export const colours = () => read()[printing.matches ? 'paper' : isDark() ? 'dark' : 'light'];

/** The colours of now; the component is drawn again when they change. */
export function useColours(): Colours {
  const [value, set] = useState(colours());
  useEffect(() => {
    const tell = () => set(colours());
    for (const list of [prefersDark, printing]) list.addEventListener('change', tell);
    addEventListener('scry-theme', tell);
    return () => {
      for (const list of [prefersDark, printing]) list.removeEventListener('change', tell);
      removeEventListener('scry-theme', tell);
    };
  }, []);
  return value;
}

/** Tells when what is shown goes to paper, and when it is back. Then it has its size on paper already; what is drawn at once is printed. */
export function onPaper(tell: () => void): () => void {
  printing.addEventListener('change', tell);
  return () => printing.removeEventListener('change', tell);
}
/** Is this for paper? */
export function usePaper(): boolean {
  const [paper, set] = useState(printing.matches);
  useEffect(() => onPaper(() => set(printing.matches)), []);
  return paper;
}

/** The colour of the i-th category. There are eight: what comes behind is grey, and is better put together as "others". */
export const category = (c: Colours, i: number): string => (i < 8 ? c[`c${i + 1}` as ColourName] : c.other);

const rgb = (hex: string) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
/** The colour of an amount, 0 to 1. */
export function heat(c: Colours, amount: number): string {
  const at = Math.max(0, Math.min(1, amount)) * 5;
  const from = Math.min(4, Math.floor(at));
  const a = rgb(c[`heat${from}` as ColourName]), b = rgb(c[`heat${from + 1}` as ColourName]);
  return `rgb(${a.map((v, i) => Math.round(v + (b[i]! - v) * (at - from))).join(' ')})`;
}
/** Black or white, whichever is easier to read on it. */
export function inkOn(background: string): string {
  const [r, g, b] = (background.startsWith('#') ? rgb(background) : (background.match(/\d+/g) ?? []).map(Number)).map((v) => {
    const s = v / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0) > 0.179 ? '#000000' : '#ffffff';
}
