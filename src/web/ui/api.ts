// SPDX-License-Identifier: Apache-2.0
// Asks the server (doc/reference/api.json). All addresses are relative to where the pages are.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Ps, Records as JobRecord, Report, ReportDiff, Site, Snapshot, Task, Tasks, TaskScaling, Top, Why } from './schemas';

export type { Ps, Report, ReportDiff, Site, Snapshot, Task, TaskScaling, Top, Why, JobRecord };
export type TaskRow = Tasks['tasks'][number];
export type Job = Ps['jobs'][number];
export type Right = 'observe' | 'control' | 'submit' | 'site';
export interface Session {
  user: string;
  rights: Right[];
  version: string;
}

/** What the server, or the way to it, refused. kind: the server's, or "offline", "session", "bad_answer". */
export class ApiError extends Error {
  constructor(readonly status: number, readonly kind: string, text: string) {
    super(text);
  }
}

export const apiError = (error: unknown) => (error instanceof ApiError ? error : new ApiError(0, 'bad_answer', String(error)));

/** The same question may have another answer soon: the server is away, or has too much to do. */
export const isForNow = (error: ApiError) => error.kind === 'offline' || error.status >= 429;

// ---- is the server there? ----

export type Line = 'up' | 'down';
let line: Line = 'up';
let refused = false; // the session is over
const watchers = new Set<() => void>();
function lineIs(next: Line, nowRefused = refused) {
  if (line === next && refused === nowRefused) return;
  line = next;
  refused = nowRefused;
  for (const tell of [...watchers]) tell();
}
export function useLine(): { line: Line; refused: boolean } {
  const [state, set] = useState({ line, refused });
  useEffect(() => {
    const tell = () => set({ line, refused });
    watchers.add(tell);
    tell();
    return () => void watchers.delete(tell);
  }, []);
  return state;
}

/** Asks `api/PATH` and returns its JSON, or what `read` makes of the answer, also of an empty one. Throws ApiError; an AbortError if the signal says so. */
export async function ask<T>(path: string, init: RequestInit = {}, read?: (answer: Response) => Promise<unknown>): Promise<T> {
  const away = () => {
    lineIs('down');
    return new ApiError(0, 'offline', 'The server does not answer. This page goes on by itself when it does.');
  };
  let response: Response;
  try {
    response = await fetch(`api/${path}`, { credentials: 'same-origin', ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw away();
  }
  if (response.status === 502) throw away(); // a proxy says so; the server itself never does
  lineIs('up', response.status === 401 ? true : response.ok ? false : refused);
  if (response.status === 204 && !read) return undefined as T;
  const answer = await (response.ok && read ? read(response) : response.json()).catch(() => {
    if (init.signal?.aborted) throw new DOMException('aborted', 'AbortError');
    return null;
  });
  if (response.ok && answer !== null) return answer as T;
  if (response.status === 401) throw new ApiError(401, 'session', 'Your session is over. Open a new link: scry serve --link prints one.');
  const error = (answer as { error?: { kind?: string; text?: string } } | null)?.error;
  throw new ApiError(response.status, error?.kind ?? 'bad_answer', error?.text ?? `The server answered ${response.status} ${response.statusText}, and nothing more.`);
}

/** The same with a body of JSON. */
export const tell = <T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown) =>
  ask<T>(path, { method, ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }) });

export const taskPath = (id: string, what = '') => `tasks/${encodeURIComponent(id)}${what && `/${what}`}`;
export const jobPath = (id: string, what = '') => `jobs/${encodeURIComponent(id)}${what && `/${what}`}`;
/** "a=1&b=2" of what is not undefined. */
export function query(params: Record<string, string | number | undefined>): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== '') out.set(name, String(value));
  return out.size ? `?${out}` : '';
}

// ---- in components ----

export interface Answer<T> {
  value: T | undefined;
  error: ApiError | undefined;
  /** It is being asked, and nothing is there yet. */
  waiting: boolean;
  again: () => void;
}

/** Seconds until it is tried again, after so many tries in a row in vain: who stays away is asked once a minute. */
export const untilAgain = (tries: number, seconds: number) => (tries < 10 ? seconds : 60);

/** Asks while the component is shown; null asks nothing. every: again after so many seconds, as long as the page is visible; 0:
 * once. What was there stays until the next answer is. A server that is away is asked until it is back. read: what makes a value of an
 * answer that is no JSON, or none at all (status 204). */
export function useAnswer<T>(path: string | null, every: number | ((value: T) => number) = 0, read?: (answer: Response) => Promise<T>): Answer<T> {
  const [state, set] = useState<{ path: string | null; value?: T; error?: ApiError }>({ path });
  const [round, next] = useState(0);
  const tries = useRef(0);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let timer = 0;
    const later = (seconds: number) => {
      timer = window.setTimeout(() => (document.hidden ? later(seconds) : next((n) => n + 1)), seconds * 1000);
    };
    ask<T>(path, { signal: stop.signal }, read).then(
      (value) => {
        tries.current = 0;
        set({ path, value });
        const seconds = typeof every === 'number' ? every : every(value);
        if (seconds) later(seconds);
      },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        const known = apiError(error);
        set((old) => (old.path === path ? { ...old, error: known } : { path, error: known }));
        if (known.kind === 'offline') later(untilAgain(tries.current, Math.min(30, 2 ** tries.current++)));
        else if (every && isForNow(known)) later(15);
      },
    );
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, round]);
  const mine = state.path === path;
  return {
    value: mine ? state.value : undefined, error: mine ? state.error : undefined,
    waiting: path !== null && (!mine || (state.value === undefined && !state.error)), again: () => next((n) => n + 1),
  };
}

/** Dials an address of events until it is stopped, also when it is answered by no events, as by a proxy whose server starts anew:
 * then a browser would give up. Not while the page is hidden: a browser has six connections to a server for all its windows, and a few
 * that nobody looks at would let the others wait for ever. */
export function keepDialled(address: () => string, prepare: (source: EventSource) => void, broke: () => void = () => {}): () => void {
  let source: EventSource | undefined;
  let timer = 0;
  let tries = 0;
  const hangUp = () => {
    clearTimeout(timer);
    source?.close();
  };
  const dial = () => {
    const made = source = new EventSource(address());
    const since = Date.now();
    let came = false;
    made.onopen = () => (came = true);
    made.onerror = () => {
      const seconds = made.readyState === EventSource.CLOSED ? 10 : 2;
      made.close();
      broke();
      tries = came && Date.now() - since > 10_000 ? 0 : tries + 1; // what breaks at once, again and again, is as if it had not been there
      timer = window.setTimeout(dial, untilAgain(tries, seconds) * 1000);
    };
    prepare(made);
  };
  const look = () => {
    hangUp();
    tries = 0;
    if (!document.hidden) dial();
  };
  document.addEventListener('visibilitychange', look);
  look();
  return () => {
    document.removeEventListener('visibilitychange', look);
    hangUp();
  };
}

export interface Stream {
  /** live: records come; retrying: the connection broke, the browser dials again where it was; ended: the job is over. */
  state: 'live' | 'retrying' | 'ended';
}

/** Follows a job's records of these types while the component is shown. `take` gets them in the order of time, each once;
 * `skipped` is told when the server left some out: older than it keeps, or more than this page could take. */
export function useRecords(id: string | null, types: string[], take: (record: JobRecord) => void, skipped: () => void): Stream['state'] {
  const [state, set] = useState<Stream['state']>('retrying');
  const taker = useRef(take);
  taker.current = take;
  const wanted = types.join(',');
  useEffect(() => {
    if (id === null) return;
    let behind = '';
    const one = (event: MessageEvent<string>) => {
      behind = event.lastEventId;
      taker.current(JSON.parse(event.data) as JobRecord);
    };
    // The address says where to go on: over HTTP/2 the server does not see the header Last-Event-ID that the browser would send.
    const address = () => `api/${jobPath(id, 'records')}${query({ types: wanted, behind })}`;
    const stop = keepDialled(address, (source) => {
      source.onopen = () => set('live');
      for (const type of wanted.split(',')) if (type !== 'end') source.addEventListener(type, one);
      source.addEventListener('lost', skipped);
      source.addEventListener('end', () => {
        stop();
        set('ended');
      });
    }, () => set('retrying'));
    return stop;
  }, [id, wanted]);
  return state;
}

// ---- tasks ----

export const taskIsActive = (task: { state: string }) => ['queued', 'building', 'running', 'gathering'].includes(task.state);

/** Is told of tasks that change while the component is shown; of one that is gone only the id. `lost`: some may have been missed. */
export function useTaskChanges(change: (id: string, task: TaskRow | null) => void, lost: () => void) {
  const told = useRef({ change, lost });
  told.current = { change, lost };
  useEffect(() => {
    let opened = false;
    return keepDialled(() => 'api/tasks/events', (source) => {
      source.onopen = () => {
        if (opened) told.current.lost();
        opened = true;
      };
      source.addEventListener('task', (event: MessageEvent<string>) => {
        const task = JSON.parse(event.data) as TaskRow;
        told.current.change(task.id, task);
      });
      source.addEventListener('removed', (event: MessageEvent<string>) => told.current.change((JSON.parse(event.data) as { id: string }).id, null));
    });
  }, []);
}

/** All tasks, as they change; every few seconds while one is under way, for how far it is. */
export function useTasks(): Answer<TaskRow[]> {
  const [rows, setRows] = useState<TaskRow[]>();
  const [error, setError] = useState<ApiError>();
  const changed = useRef(new Map<string, { at: number; task: TaskRow | null }>());
  const [round, next] = useState(0);
  const tries = useRef(0);
  const again = () => next((n) => n + 1);
  useTaskChanges((id, task) => {
    changed.current.set(id, { at: performance.now(), task });
    setRows((old) => old && [...(task && !old.some((row) => row.id === id) ? [task] : []), ...old.flatMap((row) => (row.id === id ? task ?? [] : row))]);
  }, again);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const later = (seconds: number) => {
      timer = window.setTimeout(() => (document.hidden ? later(seconds) : again()), seconds * 1000);
    };
    const asked = performance.now();
    ask<Tasks>('tasks', { signal: stop.signal }).then(
      ({ tasks }) => {
        // what was told of since it was asked is newer
        const newer = [...changed.current].filter(([, { at }]) => at > asked);
        changed.current = new Map(newer);
        const known = new Map(tasks.map((task) => [task.id, task]));
        for (const [id, { task }] of newer) task ? known.set(id, task) : known.delete(id);
        setRows([...known.values()]);
        setError(undefined);
        tries.current = 0;
        if ([...known.values()].some(taskIsActive)) later(4);
      },
      (fault: unknown) => {
        if (stop.signal.aborted) return;
        setError(apiError(fault));
        later(untilAgain(++tries.current, 10));
      },
    );
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [round]);
  const waits = rows?.some(taskIsActive) ?? false, waited = useRef(waits);
  useEffect(() => {
    // one begins: from now on it is asked how far it is
    if (waits && !waited.current) again();
    waited.current = waits;
  }, [waits]);
  return { value: rows, error, waiting: !rows && !error, again };
}

// ---- the session ----

/** The session, after the link's token, if there is one in the address, was given for it. The token leaves the address at once. */
export async function sessionBegin(): Promise<Session> {
  const token = /^#token=([^&]+)/.exec(location.hash)?.[1];
  if (!token) return ask<Session>('session');
  history.replaceState(null, '', location.pathname + location.search);
  dispatchEvent(new HashChangeEvent('hashchange'));
  return tell<Session>('POST', 'session', { token: decodeURIComponent(token) });
}
