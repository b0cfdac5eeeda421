// SPDX-License-Identifier: Apache-2.0
// The keys that work everywhere, and the window that lists all.
import { useEffect, useRef } from 'preact/hooks';
import { go, placeNow } from '../state';
import { views } from '../views';

const everywhere = [
  ['?', 'this window'], ['g j', 'all jobs'], ['g t', 'all tasks'], ['g s', 'submit a task'], ['/', 'to the filter'], ['u', 'up: from a job or task to all'], ['[ and ]', 'the tab before, the next tab'],
  ['↑ ↓', 'through the rows of a table; Page Up, Page Down, Home, End'], ['Enter', 'opens the row; on a column’s head, sorts by it'],
] as const;

const places: Record<string, string> = { j: 'jobs', t: 'tasks', s: 'submit' };

/** Keys that work on each page. Not while something is typed. `showHelp` is the same function each time: a key is remembered for the
 * next one, also when the page is drawn anew between them. */
export function useKeys(showHelp: (shown: boolean) => void) {
  useEffect(() => {
    let before = '';
    const press = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || at.closest('input, textarea, select, dialog')) return;
      const last = before;
      before = event.key;
      if (event.key === '?') showHelp(true);
      else if (last === 'g' && places[event.key]) go([places[event.key]!]);
      else if (event.key === 'u' && placeNow().path.length > 1) go(placeNow().path.slice(0, 1));
      else if (event.key === '/') document.querySelector<HTMLInputElement>('input[type=search]')?.focus();
      else if (event.key === '[' || event.key === ']') {
        const links = [...document.querySelectorAll<HTMLAnchorElement>('.tabs a')];
        const now = links.findIndex((a) => a.getAttribute('aria-current') === 'page');
        links[now + (event.key === ']' ? 1 : -1)]?.click();
      } else return;
      event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, [showHelp]);
}

export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const view = views.find((v) => placeNow().path.includes(v.name));
  const list = (keys: readonly (readonly [string, string])[]) => (
    <dl class="keys">
      {keys.map(([key, what]) => (
        <div key={key}>
          <dt>
            <kbd>{key}</kbd>
          </dt>
          <dd>{what}</dd>
        </div>
      ))}
    </dl>
  );
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="help-title" onClick={(e) => e.target === dialog.current && dialog.current?.close()}>
      <h2 id="help-title">Keys</h2>
      {view?.keys && (
        <>
          <h3>{view.title}</h3>
          {list(view.keys)}
        </>
      )}
      <h3>Everywhere</h3>
      {list(everywhere)}
      <p>
        What a page shows, a command of scry says: <code>scry ps</code>, <code>top</code>, <code>report</code>, <code>why</code>. How pages look: <a href="#/design">the design</a>.
      </p>
      <form method="dialog">
        <button autoFocus>Close</button>
      </form>
    </dialog>
  );
}
