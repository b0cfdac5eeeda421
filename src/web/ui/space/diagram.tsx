// SPDX-License-Identifier: Apache-2.0
// The space-time diagram of all processes: lanes from top to bottom, time from left to right. What is seen is in the address.
import './space.css';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ask, jobPath, query, useAnswer } from '../api';
import { classLabels, useColours, usePaper } from '../design/colours';
import type { Colours } from '../design/colours';
import { Answered, Choice, More, Notice, Progress } from '../design/parts';
import { faultText } from '../doing';
import { count, ns } from '../format';
import type { ViewProps } from '../frame/view';
import { PictureFrame, svgPen } from '../pictures';
import { placeNow, setParams, useParam } from '../state';
import { NoTrace, notesOf, UntracedMpi } from '../views/parts';
import type { CallClass, ColourBy, Scheme } from './colours';
import { CLASSES, functionColours, hex, schemeOf } from './colours';
import type { Options, Pointed } from './control';
import { Control } from './control';
import type { Picture } from './data';
import { OUTSIDE, withOutside, withUnsplit } from './data';
import { Minimap } from './minimap';
import { CallPanel, SelectionPanel, Tip } from './panels';
import type { CallAnswer } from './panels';
import type { Mark } from './scene';
import type { Search } from './source';
import { laneList, lanesOf, tilesOf, usePicture } from './source';
import { timeText } from './ticks';
import { LANES_EACH, levelFor } from './tiles';
import { drawOn, rowsOf, sizeOf } from './vector';
import type { Span } from './window';

const FOUND_MOST = 1000, NOTES_SEEN = 3, LANES_MOST = 1000;

export function SpaceTime({ id }: ViewProps) {
  const picture = usePicture(id);
  const shown = useMemo(() => picture.value && withOutside(withUnsplit(picture.value)), [picture.value]);
  if (picture.error?.kind === 'no_trace')
    return <NoTrace id={id} text={picture.error.message} />;
  return (
    <Answered of={picture} wait="Reading the trace …">
      {value => value.lanes.length ? <Diagram id={id} picture={shown!} /> : <NoTrace id={id} notes={value.notes} />}
    </Answered>
  );
}

/** Settings of the picture, all of them in the address. */
function useOptions(picture: Picture): [Options, string, (flat: string) => void] {
  const deep = picture.lanes.reduce((most, lane) => Math.max(most, lane.depth), 1), lanes = picture.lanes.length;
  const [shape, setShape] = useParam('shape', deep * lanes <= 160 ? 'stack' : 'flat');
  const [row] = useParam('row', '0');
  const [by] = useParam('by', 'kind');
  const [lines] = useParam('lines', 'mc');
  const options = useMemo<Options>(() => ({
    stacked: shape === 'stack', row: Math.max(0, Math.min(60, Number(row) || 0)), by: by === 'function' ? 'function' : 'kind',
    messages: lines.includes('m'), collectives: lines.includes('c'),
  }), [shape, row, by, lines]);
  return [options, shape, setShape];
}

function spanOf(text: string): Span | null {
  const [from, to] = text.split('-').map(Number);
  return text && from !== undefined && to !== undefined && Number.isFinite(from) && to > from ? { from, to } : null;
}
const spanText = (span: Span) => `${Math.floor(span.from)}-${Math.ceil(span.to)}`;

interface State { control: Control | null; pointed: Pointed | null; loading: boolean; loads: number; error: string; view: Span | null }

/** Makes the control with the canvas, and keeps it up to date. */
function useControl(id: string, picture: Picture, canvas: RefObject<HTMLCanvasElement>, options: Options, colours: Colours, clicked: (at: Pointed, control: Control) => void, scrolled: (scroll: number) => void) {
  const [state, set] = useState<State>({ control: null, pointed: null, loading: true, loads: 0, error: '', view: null });
  const now = useRef({ picture, clicked, scrolled });
  now.current = { picture, clicked, scrolled };
  const [at] = useParam('at');
  const [chosen] = useParam('chosen');
  const rested = useRef(at); // the window that the address has from here
  useEffect(() => {
    let loading = true;
    const control: Control = new Control(canvas.current!, picture, tilesOf(id, () => now.current.picture), schemeOf(colours), options, spanOf(at), {
      moved: view => {
        const whole = control.scene.whole;
        rested.current = view.from <= whole.from && view.to >= whole.to ? '' : spanText(view);
        setParams({ at: rested.current });
        set(old => ({ ...old, view }));
      },
      pointed: pointed => set(old => ({ ...old, pointed })),
      clicked: pointed => now.current.clicked(pointed, control),
      chosen: span => setParams({ chosen: span ? spanText(span) : undefined }),
      drawn: (scroll, busy) => {
        now.current.scrolled(scroll);
        if (busy !== loading) {
          loading = busy;
          set(old => ({ ...old, loading: busy }));
        }
      },
      loaded: error => set(old => ({ ...old, loads: old.loads + 1, error: error ? faultText(error) : '' })),
    });
    set(old => ({ ...old, control, view: control.view }));
    const watch = new ResizeObserver(() => control.resize());
    watch.observe(canvas.current!);
    (canvas.current as HTMLCanvasElement & { control?: Control }).control = control; // for measuring
    return () => {
      watch.disconnect();
      control.stop();
    };
  }, [id]);
  const { control } = state;
  const paper = usePaper();
  useLayoutEffect(() => {
    control?.restyle(schemeOf(colours), options);
    if (control && paper)
      control.drawNow();
    set(old => ({ ...old })); // lanes have other places
  }, [control, colours, options, paper]);
  useEffect(() => {
    if (control && control.scene.picture !== picture)
      control.update(picture);
  }, [control, picture]);
  useEffect(() => control?.select(spanOf(chosen)), [control, chosen]);
  useEffect(() => { // the address was changed from outside: "back", a link; where the window came to rest it may be elsewhere by now
    const now = placeNow().params.at ?? '', span = spanOf(now);
    if (!control || now === rested.current)
      return;
    rested.current = now;
    if (span && spanText(control.view) !== now)
      control.go(span);
  }, [control, at]);
  return state;
}

/** Calls of functions, in batches as one steps through them. */
function useSearch(id: string, control: Control | null) {
  const [text, setText] = useParam('q');
  const [begins, setBegins] = useState<number[]>([]); // of the batches so far; the last one is shown
  const from = begins[begins.length - 1];
  const found = useAnswer<Search>(text && control ? jobPath(id, 'search') + query({ function: text, from, limit: FOUND_MOST }) : null);
  const [at, setAt] = useState(-1);
  const goOn = useRef(0);
  const calls = text ? found.value?.calls ?? [] : [], before = begins.length * FOUND_MOST;
  const show = (next: number) => {
    setAt(next);
    control?.goTo(control.scene.found[next]!);
  };
  useEffect(() => setBegins([]), [text]);
  useEffect(() => {
    if (!control)
      return;
    control.scene.found = calls.map(call => ({ lane: call.lane, begin: call.begin, end: call.end, depth: call.depth }));
    control.scene.current = null;
    setAt(-1);
    if (found.value && !calls.length && begins.length) // the last batch was full by chance
      setBegins(begins.slice(0, -1));
    if (calls.length) {
      if (goOn.current)
        show(goOn.current > 0 ? 0 : calls.length - 1);
      goOn.current = 0;
    }
    control.redraw();
  }, [control, found.value, text]);
  const step = (by: 1 | -1) => {
    if (!calls.length)
      return;
    const next = at < 0 && by < 0 ? calls.length - 1 : at + by;
    if (next >= calls.length && found.value?.complete === false && found.value.next_ns !== undefined) {
      goOn.current = 1;
      setBegins([...begins, found.value.next_ns]);
    } else if (next < 0 && begins.length) {
      goOn.current = -1;
      setBegins(begins.slice(0, -1));
    } else
      show((next + calls.length) % calls.length);
  };
  const told = !text ? '' : found.waiting ? 'Looking …' : found.error ? found.error.message : !calls.length ? 'none' :
    `${at >= 0 ? `${count(before + at + 1)} of ` : ''}${count(before + calls.length)}${found.value?.complete === false ? ' and more' : ''}`;
  return { text, setText, calls, step, told };
}

/** What is there, and its colour. */
function legendOf(picture: Picture, by: ColourBy, scheme: Scheme): [string, string][] {
  const there = new Set(picture.functions.map(one => one.class)), own = functionColours(picture.functions, by, scheme);
  return by === 'kind' ? CLASSES.filter(kind => there.has(kind)).map(kind => [kind === 'compute' && picture.outside !== undefined ? OUTSIDE : classLabels[kind as CallClass], hex(scheme.classes[kind])]) :
    picture.functions.map((one, i) => [one.name, hex(own[i]!)]);
}

function Legend({ picture, by, colours }: { picture: Picture; by: ColourBy; colours: Colours }) {
  const all = legendOf(picture, by, schemeOf(colours));
  return (
    <ul class="space-legend" aria-label="Colours">
      {all.slice(0, 24).map(([name, colour], i) => <li key={i}><i style={{ background: colour }} />{name}</li>)}
      {all.length > 24 && <li>and {all.length - 24} more: point at a bar</li>}
      {by === 'kind' && picture.messages > 0 && <li><i class="line" />message</li>}
    </ul>
  );
}

function Lanes({ picture, control, scroll, chosen, onChoose }: { picture: Picture; control: Control; scroll: number; chosen: ReadonlySet<number>; onChoose: (lane: number) => void }) {
  const { layout, ratio } = control.scene.look, [, seen] = control.heights, labels = [];
  let last = -Infinity;
  for (let lane = 0; lane < picture.lanes.length && lane + 1 < layout.tops.length; lane++) {
    const top = layout.tops[lane]! / ratio - scroll, height = (layout.tops[lane + 1]! - layout.tops[lane]!) / ratio;
    if (top + height < 0 || top > seen || top - last < 13)
      continue;
    last = top;
    const one = picture.lanes[lane]!;
    labels.push(
      <button key={lane} type="button" tabIndex={-1} aria-pressed={chosen.has(lane)} style={{ top: `${top}px`, height: `${Math.max(13, height)}px` }}
        title={`${one.label}: process ${one.pid} on ${one.node}, ${count(one.calls)} calls`} onClick={() => onChoose(lane)}>
        {one.label}
      </button>,
    );
  }
  return <div class="space-lanes" onWheel={e => control.scrollTo(control.scene.scroll / ratio + e.deltaY)}>{labels}</div>;
}

interface Place { lane: number; at: number; depth: number }

/** Ways from the call that is shown, without a mouse: to its caller, into what it calls, to a message's other end. `said`: what was not there. */
function useWays(id: string, control: Control | null, call: Place | null, goTo: (mark: Mark) => void, show: (place: Place) => void) {
  const [said, say] = useState('');
  const end = useRef<{ place: Place; message: number[] } | null>(null);
  useEffect(() => say(''), [call]);
  const ask1 = (lane: number, at: number, depth: number) => ask<CallAnswer>(jobPath(id, 'call') + query({ lane, at: Math.round(at), depth: depth < 0 ? undefined : depth }));
  const move = (up: boolean) => {
    if (!control || !call)
      return say('No call is chosen: Enter chooses the one in the middle.');
    const { lane } = call;
    ask1(lane, call.at, call.depth).then(async one => {
      if (up) {
        const caller = one.callers.find(outer => outer.depth === one.depth - 1);
        return caller ? goTo({ lane, ...caller }) : say('It has no caller that was recorded.');
      }
      const at = control.beginIn(lane, one.depth + 1, { from: one.begin, to: one.end });
      if (at === null)
        return say('No call in it can be told apart here: + goes closer.');
      goTo({ lane, ...await ask1(lane, at, one.depth + 1) });
    }).catch((error: unknown) => say(faultText(error)));
  };
  /** Shows the end of a message that is not in this lane. */
  const follow = (message: number[], lane: number) => {
    const [from, to, sent, received] = message as [number, number, number, number], other = lane === to ? { lane: from, at: sent } : { lane: to, at: received - 1 }; // its call has ended when it is there
    const half = (control!.view.to - control!.view.from) / 2, place = { ...other, depth: -1 };
    control!.scene.message = message;
    control!.scene.current = null;
    control!.showLane(place.lane);
    control!.go({ from: place.at - half, to: place.at + half });
    end.current = { place, message };
    show(place);
  };
  const message = (here: { lane: number; part: Span } | null) => {
    if (end.current && call === end.current.place) // and back
      return follow(end.current.message, call.lane);
    const found = here && control?.messageOf(here.lane, here.part);
    if (found)
      follow(found, here!.lane);
    else
      say('No message begins or ends in this call, or none can be told apart here: + goes closer.');
  };
  return { said, move, follow, message };
}

function Diagram({ id, picture }: { id: string; picture: Picture }) {
  const canvas = useRef<HTMLCanvasElement>(null), bar = useRef<HTMLDivElement>(null);
  const colours = useColours();
  const [options, shape, setShape] = useOptions(picture);
  const [scroll, setScroll] = useState(0);
  const [call, setCall] = useState<Place | null>(null);
  const [selecting, setSelecting] = useState(false);
  const [typed, setTyped] = useState<string | null>(null); // until it is looked for: the picture is drawn again meanwhile
  const [laneText, setLanes] = useParam('lanes');
  const [chosenText] = useParam('chosen');
  const chosen = useMemo(() => lanesOf(laneText, picture.lanes.length), [laneText, picture.lanes.length]);
  const clicked = (at: Pointed, control: Control) => {
    if (at.message) {
      ways.follow(at.message, at.lane);
    } else if (at.id >= 0 && at.id !== picture.outside) {
      control.scene.current = at.mark;
      setCall({ lane: at.lane, at: at.mark ? Math.max(at.mark.begin, at.time) : at.time, depth: at.mark?.depth ?? -1 });
    }
    control.redraw();
  };
  const { control, pointed, loading, loads, error, view } = useControl(id, picture, canvas, options, colours, clicked, top => {
    if (top !== scroll)
      setScroll(top);
    if (bar.current && Math.abs(bar.current.scrollTop - top) > 1)
      bar.current.scrollTop = top;
  });
  const goTo = (mark: Mark) => {
    control?.goTo(mark);
    setCall({ lane: mark.lane, at: mark.begin, depth: mark.depth });
  };
  const back = () => canvas.current?.focus({ preventScroll: true }); // from a button that is gone then
  const ways = useWays(id, control, call, goTo, setCall);
  const search = useSearch(id, control);
  const lines = (which: string, on: boolean) => setParams({ lines: `${which === 'm' ? on ? 'm' : '' : options.messages ? 'm' : ''}${which === 'c' ? on ? 'c' : '' : options.collectives ? 'c' : ''}` || '-' });
  const seen = spanOf(chosenText) ?? view;
  const choose = (lane: number) => {
    const next = new Set(chosen);
    if (!next.delete(lane))
      next.add(lane);
    setLanes(laneList(next));
  };
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !control)
      return;
    const actions: Record<string, () => void> = {
      n: () => search.step(1), p: () => search.step(-1), s: () => setShape(shape === 'stack' ? 'flat' : 'stack'), c: () => setParams({ by: options.by === 'kind' ? 'function' : undefined }),
      ArrowUp: () => ways.move(true), ArrowDown: () => ways.move(false), // with Shift; alone they scroll
      m: () => {
        const { current } = control.scene, lane = call?.lane ?? control.middle(chosen.size === 1 ? [...chosen][0]! : -1)?.lane;
        ways.message(current ? { lane: current.lane, part: { from: current.begin, to: current.end } } : lane === undefined ? null : { lane, part: control.view });
      },
      v: () => view && setParams({ chosen: spanText(control.view) }), Escape: () => (setParams({ chosen: undefined, lanes: undefined }), setCall(null), (control.scene.current = null), (control.scene.message = null), control.redraw()),
      Enter: () => {
        const { current } = control.scene;
        if (current && current.end >= control.view.from && current.begin <= control.view.to)
          setCall({ lane: current.lane, at: current.begin, depth: current.depth });
        else {
          const at = control.middle(chosen.size === 1 ? [...chosen][0]! : -1);
          if (at)
            clicked(at, control);
        }
      },
    };
    if (actions[event.key] && (event.shiftKey || !event.key.startsWith('Arrow'))) {
      event.preventDefault();
      event.stopPropagation();
      actions[event.key]!();
    }
  };
  const shown = () => ({
    picture, whole: control!.scene.whole, view: control!.view, lanes: Math.min(picture.lanes.length, 8 * LANES_EACH),
    level: levelFor(control!.scene.whole, control!.view, control!.scene.width, picture.columns, picture.levels),
    tile: (level: number, index: number, block: number) => control!.scene.tiles.get(level, index, block),
  });
  const take = {
    name: 'space-time',
    svg: (paper: Colours) => {
      const part = shown(), scheme = schemeOf(paper), { width, height } = sizeOf(part, options.stacked), pen = svgPen(width, height, paper.surface);
      drawOn(pen, part, options, {
        colours: functionColours(picture.functions, options.by, scheme), ink: scheme.ink, soft: paper.soft, grid: paper.line, lane: scheme.lane, legend: legendOf(picture, options.by, scheme).slice(0, 8),
      });
      return pen.svg();
    },
    table: () => ({ columns: ['lane', 'depth', 'function', 'from_ns', 'to_ns', 'share'], rows: rowsOf(shown()) }),
  };
  const [all, inSight] = control ? control.heights : [0, 1];
  return (
    <PictureFrame title="Space and time" of={id} picture={take} about={<Notes picture={picture} error={error} />} controls={
      <>
        <Choice label="Bars" value={shape as 'stack' | 'flat'} of={[['stack', 'Stacks'], ['flat', 'One bar']]} onChange={setShape} />
        <Choice label="Colours by" value={options.by} of={[['kind', 'Kind'], ['function', 'Function']]} onChange={by => setParams({ by: by === 'kind' ? undefined : by })} />
        {picture.messages > 0 && <label class="check"><input type="checkbox" checked={options.messages} onChange={e => lines('m', e.currentTarget.checked)} /> Messages</label>}
        {picture.collectives > 0 && <label class="check"><input type="checkbox" checked={options.collectives} onChange={e => lines('c', e.currentTarget.checked)} /> Collectives</label>}
      </>
    }>
      <div class="space-bar">
        <form class="space-search" role="search" onSubmit={e => (e.preventDefault(), search.step(1))}>
          <input type="search" aria-label="Find calls of a function" placeholder="Function, e.g. do_jacobi or MPI_*" value={typed ?? search.text} onInput={e => setTyped(e.currentTarget.value)}
            onChange={e => (setTyped(null), search.setText(e.currentTarget.value.trim()))} />
          <span role="status" class="space-count">{search.told}</span>
          <button type="button" aria-label="The one before" disabled={!search.calls.length} onClick={() => search.step(-1)}>↑</button>
          <button type="button" aria-label="The next one" disabled={!search.calls.length} onClick={() => search.step(1)}>↓</button>
        </form>
        <div class="space-zoom" role="group" aria-label="Window">
          <button type="button" aria-pressed={selecting} onClick={() => { if (control) control.selecting = !selecting; setSelecting(!selecting); }}>Choose a part</button>
          <button type="button" aria-label="Closer" onClick={() => control?.key(new KeyboardEvent('keydown', { key: '+' }))}>+</button>
          <button type="button" aria-label="Farther" onClick={() => control?.key(new KeyboardEvent('keydown', { key: '-' }))}>−</button>
          <button type="button" onClick={() => control?.go(control.scene.whole)}>All</button>
        </div>
      </div>
      <div class="space-body">
        <div class={`space-stage ${all > inSight + 1 ? 'scrolls' : ''}`}>
          {control ? <Minimap control={control} version={`${loads > 8 ? 9 : loads}/${loading}/${picture.to_ns}`} /> : <div class="space-map" />}
          <div class="space-picture" style={{ maxHeight: `${Math.max(160, Control.wish(picture, options))}px` }} onKeyDown={keys}>
            {control && <Lanes picture={picture} control={control} scroll={scroll} chosen={chosen} onChoose={choose} />}
            <div class="space-canvas">
              <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="time line" aria-label={`${picture.lanes.length} lanes over ${ns(picture.to_ns - picture.from_ns)}. Arrows move, plus and minus zoom; the table below has the same figures.`} />
              {control && pointed && <Tip scene={control.scene} x={pointed.x} y={pointed.y} lane={pointed.lane} id={pointed.id} part={pointed.share} mark={pointed.mark} message={pointed.message} />}
              <span class="space-said" role="status">{ways.said}</span>
              {loading && <span class="space-busy" role="status">loading</span>}
            </div>
            {all > inSight + 1 && <div class="space-scroll" ref={bar} tabIndex={-1} aria-hidden="true" onScroll={e => control?.scrollTo(e.currentTarget.scrollTop)}><div style={{ height: `${all + 22}px` }} /></div>}
          </div>
          <Legend picture={picture} by={options.by} colours={colours} />
          {picture.unsplit && <UntracedMpi id={id} />}
        </div>
        <aside class="space-side">
          {call && <CallPanel id={id} picture={picture} {...call} onClose={() => (setCall(null), back())} onGo={(begin, end, depth) => (goTo({ lane: call.lane, begin, end, depth }), back())} />}
          {seen && <SelectionPanel id={id} span={seen} chosen={chosenText !== ''} lanes={laneText} picture={picture} onSearch={search.setText} onClear={() => setParams({ chosen: undefined, lanes: undefined })} />}
        </aside>
      </div>
      <LaneTable picture={picture} chosen={chosen} onChoose={choose} />
    </PictureFrame>
  );
}

function Notes({ picture, error }: { picture: Picture; error: string }) {
  const notes = notesOf(picture.notes);
  return (
    <>
      <span class="no-print">Drag moves, the wheel zooms, a drag on the axis or with Shift chooses a part.</span>
      {picture.clock_bound_ns ? ` Clocks of the nodes agree to ${ns(picture.clock_bound_ns)}.` : ''}
      {picture.running && ` The job runs: it is known up to ${timeText(picture.until_ns ?? picture.from_ns, picture.to_ns - picture.from_ns)}.`}
      {!picture.complete && !picture.running && <> <Progress share={picture.progress ?? null} label="Reading the trace" /></>}
      {error && <Notice tone="warn" title={error} />}
      {notes.slice(0, NOTES_SEEN).map(text => <Notice key={text} title={text} />)}
      {notes.length > NOTES_SEEN && <details><summary>{count(notes.length - NOTES_SEEN)} more notes</summary>{notes.slice(NOTES_SEEN).map(text => <Notice key={text} title={text} />)}</details>}
    </>
  );
}

/** What stands behind the canvas for those who do not see it, or have no mouse. */
function LaneTable({ picture, chosen, onChoose }: { picture: Picture; chosen: ReadonlySet<number>; onChoose: (lane: number) => void }) {
  return (
    <details class="space-table">
      <summary>Lanes as a table</summary>
      <table aria-label="Lanes">
        <thead><tr><th scope="col">Chosen</th><th scope="col">Lane</th><th scope="col">Node</th><th scope="col" class="number">Process</th><th scope="col" class="number">Calls</th></tr></thead>
        <tbody>
          {picture.lanes.slice(0, LANES_MOST).map(lane => <tr key={lane.lane}><td><input type="checkbox" aria-label={`Choose ${lane.label}`} checked={chosen.has(lane.lane)} onChange={() => onChoose(lane.lane)} /></td><th scope="row">{lane.label}</th><td>{lane.node}</td><td class="number">{lane.pid}</td><td class="number">{count(lane.calls)}</td></tr>)}
        </tbody>
      </table>
      <More than={LANES_MOST} of={picture.lanes.length} />
    </details>
  );
}

