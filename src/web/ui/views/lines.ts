// SPDX-License-Identifier: Apache-2.0
// Lines of a job's output, as they are shown.
import type { Logs } from '../schemas';

export type Line = Logs;

/** Of an answer: an object a line. One of no bytes is no line. */
export const linesOf = async (answer: Response): Promise<Line[]> =>
  (await answer.text()).split('\n').filter(Boolean).map((text) => {
    const line = JSON.parse(text) as Line;
    return line.text === null ? line : { ...line, text: plain(line.text) };
  });

/** As a terminal would leave it: what carriage returns overwrite is gone, and so are colours. */
export const plain = (text: string) => text.replace(/\r+$/, '').replace(/^[^]*\r/, '').replace(/\x1b\[[0-9;:]*m/g, '');

/** Lines that repeat the one before are one, with how often it came. A gap is no line. */
export function foldLines(lines: readonly Line[]): (Line & { times: number })[] {
  const out: (Line & { times: number })[] = [];
  for (const line of lines) {
    const last = out[out.length - 1];
    if (last && last.text !== null && last.text === line.text && last.stream === line.stream) last.times++;
    else out.push({ ...line, times: 1 });
  }
  return out;
}
