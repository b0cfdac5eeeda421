// SPDX-License-Identifier: Apache-2.0
// What a person has done by a button: it takes a while, and then something is said or shown.
import { useEffect, useRef, useState } from 'preact/hooks';

/** What went wrong, in a line. */
export const faultText = (error: unknown) => (error instanceof Error ? error.message : String(error));

export interface Done { tone: 'good' | 'bad'; text: string }
export interface Doing { said: Done | undefined; busy: boolean; doIt: (act: () => Promise<string | (() => void)>) => void }

/** Does something, and says how it went, or goes on as the function says that comes of it: not when something else was begun
 * meanwhile, or the page was left. */
export function useDoing(): Doing {
  const [said, setSaid] = useState<Done>();
  const [busy, setBusy] = useState(false);
  const latest = useRef(0);
  useEffect(() => () => void (latest.current = -1), []);
  const doIt = (act: () => Promise<string | (() => void)>) => {
    const mine = ++latest.current;
    const end = (done: Done | undefined, then?: () => void) => {
      if (latest.current !== mine) return;
      setSaid(done);
      setBusy(false);
      then?.();
    };
    setBusy(true);
    act().then((came) => (typeof came === 'string' ? end({ tone: 'good', text: came }) : end(undefined, came)), (error: unknown) => end({ tone: 'bad', text: faultText(error) }));
  };
  return { said, busy, doIt };
}
