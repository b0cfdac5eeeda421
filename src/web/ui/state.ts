// SPDX-License-Identifier: Apache-2.0
// Which view is shown, and what is chosen in it, is in the address: a link or a reload shows the same. The address is
// `#/PART/PART?NAME=VALUE`, behind whatever path the pages are served from. This file alone reads and writes it.
import { useEffect, useState } from 'preact/hooks';

export interface Place {
  /** The parts of the path, decoded: ["jobs", "2026-…", "space"]. */
  path: string[];
  params: Record<string, string>;
}

export function placeParse(hash: string): Place {
  const [, path = '', query = ''] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash)!;
  const decode = (text: string) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // a link that was cut
    }
  };
  return { path: path.split('/').filter(Boolean).map(decode), params: Object.fromEntries(new URLSearchParams(query)) };
}

/** A link to a place; members of params that are undefined or "" are left out. */
export function href(path: string[], params: Record<string, string | number | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== '') query.set(name, String(value));
  return `#/${path.map(encodeURIComponent).join('/')}${query.size ? `?${query}` : ''}`;
}

let here = placeParse(location.hash);
const watchers = new Set<() => void>();

function arrive() {
  here = placeParse(location.hash);
  for (const tell of [...watchers]) tell();
}
addEventListener('hashchange', arrive);

export const placeNow = () => here;

/** Goes there; the browser's "back" comes back. */
export function go(path: string[], params: Record<string, string | number | undefined> = {}) {
  location.hash = href(path, params);
}

// Browsers refuse more than some hundred changes of the address in half a minute: while something is dragged, it is written
// when it comes to rest.
let writing = 0;
function writeSoon() {
  clearTimeout(writing);
  writing = window.setTimeout(() => history.replaceState(history.state, '', href(here.path, here.params)), 150);
}

/** Sets some parameters of this place, "" or undefined removes them; "back" does not come back here. */
export function setParams(params: Record<string, string | number | undefined>) {
  const next = { ...here.params };
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === '') delete next[name];
    else next[name] = String(value);
  }
  here = { path: here.path, params: next };
  writeSoon();
  for (const tell of [...watchers]) tell();
}

/** The place; the component is drawn again when it changes. */
export function usePlace(): Place {
  const [place, set] = useState(here);
  useEffect(() => {
    const tell = () => set(here);
    watchers.add(tell);
    tell();
    return () => void watchers.delete(tell);
  }, []);
  return place;
}

/** A parameter of the place as state: useParam('sort', 'time') → [value, set]. The default is not written. */
export function useParam(name: string, fallback = ''): [string, (value: string) => void] {
  const place = usePlace();
  return [place.params[name] ?? fallback, (value) => setParams({ [name]: value === fallback ? undefined : value })];
}

/** The same for a number; what is none counts as the default. */
export function useNumber(name: string, fallback: number): [number, (value: number) => void] {
  const [text, set] = useParam(name);
  const value = text === '' ? NaN : Number(text);
  return [Number.isFinite(value) ? value : fallback, (next) => set(next === fallback ? '' : String(next))];
}
