// SPDX-License-Identifier: Apache-2.0
// Figures as scry's text output writes them (src/jobdir/text/text.c): the same digits, the same units.

/** A number with so many digits, ties to even as C's printf rounds them. */
export function digits(value: number, places: number): string {
  const scaled = value * 10 ** places;
  const tie = Math.abs(scaled % 1) === 0.5 && Number.isInteger(value * 2 ** (places + 1));
  return (tie ? (2 * Math.round(scaled / 2)) / 10 ** places : value).toFixed(places);
}

/** "640 B", "12 MB", "2.0 GB": binary multiples. */
export function size(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  while (bytes >= 999.5 && unit + 1 < units.length) {
    bytes /= 1024;
    unit++;
  }
  return `${digits(bytes, bytes < 9.95 && unit ? 1 : 0)} ${units[unit]}`;
}

const two = (n: number) => String(Math.floor(n)).padStart(2, '0');

/** "4.2 ms", "0.42 s", "12.3 s", "3 min 05 s", "2 h 07 min", "3 d 04 h" */
export function seconds(value: number): string {
  if (!(value > 0)) value = 0;
  if (value > 0 && value < 0.0995) return `${digits(value * 1000, 1)} ms`;
  if (value < 9.995) return `${digits(value, 2)} s`;
  if (value < 99.95) return `${digits(value, 1)} s`;
  if (value < 3599.5) return `${Math.floor(Math.floor(value + 0.5) / 60)} min ${two(Math.floor(value + 0.5) % 60)} s`;
  if (value < 48 * 3600) return `${Math.floor(value / 3600)} h ${two((value / 60) % 60)} min`;
  return `${Math.floor(value / 86400)} d ${two((value / 3600) % 24)} h`;
}

/** "320 ns", "12.3 us", "4.56 ms", "1.23 s", "3 min 05 s" */
export function ns(value: number): string {
  if (value < 999.5) return `${digits(value, 0)} ns`;
  for (const [limit, unit, name] of [[999.5e3, 1e3, 'us'], [999.5e6, 1e6, 'ms'], [60e9, 1e9, 's']] as const) {
    const scaled = value / unit;
    if (value < limit) return `${digits(scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0)} ${name}`;
  }
  return seconds(value / 1e9);
}

/** 1234567 as "1 234 567", with narrow spaces that no line breaks at; a number that is copied has them, too, so CSV never does. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** 0.4567 as "46 %", below 10 % with a digit more. */
export function share(value: number): string {
  return `${digits(value * 100, value > 0 && value < 0.0995 ? 1 : 0)} %`;
}

/** A rate of bytes a second. */
export const rate = (bytes: number) => `${size(bytes)}/s`;

/** The moment, in the time zone of who looks: "14:03:22" today, "23 Nov 14:03" this year, else "2026-11-23". */
export function moment(unixSeconds: number, now = Date.now()): string {
  const then = new Date(unixSeconds * 1000), today = new Date(now);
  const clock = `${two(then.getHours())}:${two(then.getMinutes())}`;
  if (then.toDateString() === today.toDateString()) return `${clock}:${two(then.getSeconds())}`;
  const month = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'][then.getMonth()];
  if (then.getFullYear() === today.getFullYear()) return `${then.getDate()} ${month} ${clock}`;
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`;
}

/** What somebody said without a capital and a stop, as a sentence. */
export const sentence = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}.`;

/** Does a text have each of the words that were typed into a filter? */
export const hasWords = (typed: string, text: string) => typed.toLowerCase().split(/\s+/).every((word) => text.toLowerCase().includes(word));

/** The last part of a path. */
export const base = (path: string) => path.slice(path.lastIndexOf('/', path.length - 2) + 1);

const KEYS = /[\u0000-\u0008\u000b-\u001f\u007f]/g, MEANT = /[\s"'`$&|;<>()[\]{}*?!#~\\]/;
/** A word as every shell reads it. */
export const quoted = (text: string) => (text && !MEANT.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
/** The same for a terminal: control characters would be keys. */
function pasted(text: string): string {
  return text.search(KEYS) < 0 ? quoted(text) : `$'${text.replace(/['\\]/g, '\\$&').replace(KEYS, (key) => `\\${key.charCodeAt(0).toString(8).padStart(3, '0')}`)}'`;
}
/** A command line for reading, and to be pasted: what a shell would need to be quoted is. */
export const command = (argv: string[]) => argv.map(pasted).join(' ');
