// SPDX-License-Identifier: Apache-2.0
// The diagram without what stands around it: turns wheel, fingers, drags and keys into windows, and draws a frame when something has changed.
// Whoever owns it is told of what was pointed at and chosen, and keeps that.
import { inkOn } from '../design/colours';
import type { Picture, Tile } from './data';
import type { ColourBy, Scheme } from './colours';
import { functionColours, hex, mix, pixel, SHADES } from './colours';
import { laneAt, layoutOf, laneMiddle } from './layout';
import type { Mark, Scene } from './scene';
import { Drawing, scaled } from './scene';
import type { Look } from './strips';
import type { TileCache } from './tiles';
import type { Span } from './window';
import { approach, around, clamp, pan, same, zoom } from './window';

export interface Options { stacked: boolean; row: number; by: ColourBy; messages: boolean; collectives: boolean }

export interface Pointed { x: number; y: number; lane: number; id: number; share: number; time: number; mark: Mark | null; message: number[] | null }

export interface Listener {
  /** The window came to rest. */
  moved(view: Span): void;
  pointed(at: Pointed | null): void;
  clicked(at: Pointed): void;
  chosen(selection: Span | null): void;
  /** With each frame, for what stands beside it: how far lanes are scrolled, in CSS pixels. */
  drawn(scroll: number, loading: boolean): void;
  /** A tile has come, or could not be had. */
  loaded(error: unknown): void;
}

const AXIS = 22;
const FRAME_STRIPS = 2;

export class Control {
  private readonly drawing: Drawing;
  readonly scene: Scene;
  private aim: Span;
  private animated = 0; // frames, for tests
  private asked = 0;
  private last = 0;
  private restAt = 0;
  private gone = false;
  private version = 0;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private drag: { kind: 'pan' | 'select'; x: number; y: number; at: number; moved: boolean } | null = null;
  private pinch = 0;
  private isPointed = false;
  private readonly still = matchMedia('(prefers-reduced-motion: reduce)');
  /** Fingers and mice select instead of moving. */
  selecting = false;
  /** With each frame: the window, for the small picture of the whole. */
  onview: (view: Span) => void = () => {};
  /** For the same: other colours. */
  onstyle: () => void = () => {};
  /** Times of the last frames, for measuring: begin, and length of our part. */
  readonly frameWork = new Float32Array(512);
  frames = 0;

  constructor(private readonly canvas: HTMLCanvasElement, picture: Picture, tiles: TileCache<Tile>, scheme: Scheme, private options: Options,
    view: Span | null, private readonly listener: Listener) {
    this.drawing = new Drawing(canvas.getContext('2d', { alpha: false })!);
    const whole = { from: picture.from_ns, to: Math.max(picture.to_ns, picture.from_ns + 1) };
    this.aim = clamp(view ?? whole, whole);
    this.scene = {
      picture, whole, view: this.aim, tiles, look: null as unknown as Look, width: 1, height: 1, axis: AXIS, scroll: 0, selection: null,
      selectedLanes: new Set(), hover: null, found: [], current: null, message: null, colours: null as unknown as Scene['colours'],
    };
    this.restyle(scheme, options);
    tiles.onchange = error => {
      this.redraw();
      listener.loaded(error);
    };
    canvas.addEventListener('wheel', this.wheel, { passive: false });
    canvas.addEventListener('pointerdown', this.down);
    canvas.addEventListener('pointermove', this.move);
    canvas.addEventListener('pointerup', this.up);
    canvas.addEventListener('pointercancel', this.up);
    canvas.addEventListener('pointerleave', this.unpoint);
    canvas.addEventListener('dblclick', this.double);
    canvas.addEventListener('keydown', this.key);
  }

  stop(): void {
    this.gone = true;
    cancelAnimationFrame(this.asked);
    this.scene.tiles.clear();
    this.drawing.strips.clear();
  }

  /** A running job's picture grows. */
  update(picture: Picture): void {
    const { scene } = this, atEnd = same(scene.view, scene.whole);
    const grown = picture.to_ns !== scene.picture.to_ns || picture.lanes.length !== scene.picture.lanes.length || picture.levels !== scene.picture.levels;
    scene.picture = picture;
    if (grown) {
      scene.whole = { from: picture.from_ns, to: Math.max(picture.to_ns, picture.from_ns + 1) };
      scene.tiles.clear();
      this.aim = clamp(atEnd ? scene.whole : this.aim, scene.whole);
      scene.view = this.aim;
      this.restAt = performance.now();
    } else
      scene.tiles.renew();
    this.drawing.forget();
    this.restyle(this.scheme!, this.options);
  }

  private scheme: Scheme | null = null;

  restyle(scheme: Scheme, options: Options): void {
    this.scheme = scheme;
    this.options = options;
    const { scene } = this, ratio = globalThis.devicePixelRatio || 1, css = this.canvas.getBoundingClientRect();
    const width = Math.max(1, Math.round(css.width * ratio)), height = Math.max(1, Math.round(css.height * ratio));
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    scene.width = width;
    scene.height = height;
    scene.axis = AXIS * ratio;
    const depths = scene.picture.lanes.map(lane => lane.depth);
    const layout = scaled(layoutOf(depths, options.stacked, options.row, css.height - AXIS), ratio);
    const colours = functionColours(scene.picture.functions, options.by, scheme);
    const shades = new Uint32Array(colours.length * SHADES);
    for (let i = 0; i < colours.length; i++)
      for (let step = 0; step < SHADES; step++)
        shades[i * SHADES + step] = pixel(mix(scheme.lane, colours[i]!, (step + 1) / SHADES));
    scene.look = {
      layout, inks: { shades, functions: colours.length, lane: pixel(scheme.lane), edge: pixel(mix(scheme.background, scheme.ink, 0.5)) },
      inkCss: hex(scheme.ink), messageCss: hex(scheme.ink), labelCss: colours.map(colour => inkOn(hex(colour))),
      bars: colours.map(hex),
      font: `${11 * ratio}px system-ui, "DejaVu Sans", sans-serif`, background: pixel(scheme.background), messages: options.messages,
      collectives: options.collectives, ratio, version: ++this.version,
    };
    scene.colours = {
      ink: hex(scheme.ink), soft: hex(scheme.soft), grid: hex(scheme.grid), background: hex(scheme.background), accent: hex(scheme.accent),
      found: hex(scheme.ink), veil: `rgba(${scheme.background.join()},0.6)`,
    };
    this.scrollTo(scene.scroll / ratio);
    this.redraw();
    this.onstyle();
  }

  /** How high the canvas needs to be for all lanes as high as can be read, in CSS pixels. */
  static wish(picture: Picture, options: Options): number {
    const layout = layoutOf(picture.lanes.map(lane => lane.depth), options.stacked, options.row, 1e6);
    return Math.ceil(layout.tops[layout.tops.length - 1]!) + AXIS;
  }

  resize(): void {
    this.restyle(this.scheme!, this.options);
  }

  /** Height of all lanes, and of what is seen of them, in CSS pixels. */
  get heights(): [number, number] {
    const { layout, ratio } = this.scene.look;
    return [layout.tops[layout.tops.length - 1]! / ratio, (this.scene.height - this.scene.axis) / ratio];
  }

  scrollTo(top: number): void {
    const [all, seen] = this.heights, scroll = Math.round(Math.max(0, Math.min(top, all - seen)) * this.scene.look.ratio);
    if (scroll !== this.scene.scroll)
      this.unpoint();
    this.scene.scroll = scroll;
    this.redraw();
  }

  showLane(lane: number): void {
    const { layout, ratio } = this.scene.look, [, seen] = this.heights, top = layout.tops[lane]! / ratio, scroll = this.scene.scroll / ratio;
    if (top < scroll || layout.tops[lane + 1]! / ratio > scroll + seen)
      this.scrollTo(laneMiddle(layout, lane) / ratio - seen / 2);
  }

  get view(): Span {
    return this.aim;
  }

  go(span: Span, smooth = true): void {
    this.unpoint();
    this.aim = clamp(span, this.scene.whole);
    if (!smooth || this.still.matches)
      this.scene.view = this.aim;
    this.restAt = performance.now() + 250;
    this.redraw();
  }

  goTo(mark: Mark): void {
    this.scene.current = mark;
    this.showLane(mark.lane);
    const seen = mark.begin >= this.aim.from && mark.end <= this.aim.to && (mark.end - mark.begin) > (this.aim.to - this.aim.from) / 100;
    if (!seen)
      this.go(around({ from: mark.begin, to: mark.end }, this.scene.whole));
    this.redraw();
  }

  select(selection: Span | null): void {
    this.scene.selection = selection;
    this.redraw();
  }

  redraw(): void {
    if (!this.asked && !this.gone)
      this.asked = requestAnimationFrame(this.tick);
  }

  private readonly tick = (now: number): void => {
    this.asked = 0;
    const begin = performance.now(), { scene } = this;
    const passed = Math.min(60, now - this.last || 16);
    this.last = now;
    if (!same(scene.view, this.aim)) {
      scene.view = this.still.matches ? this.aim : approach(scene.view, this.aim, 1 - Math.exp(-passed / 55));
      this.animated++;
    }
    const moving = !same(scene.view, this.aim);
    const painted = this.drawing.frame(scene, moving ? 1 : FRAME_STRIPS);
    this.onview(scene.view);
    this.listener.drawn(scene.scroll / scene.look.ratio, painted.loading);
    this.frameWork[this.frames++ & 511] = performance.now() - begin;
    if (moving || !painted.complete)
      this.redraw();
    else if (this.restAt) {
      if (now >= this.restAt) {
        this.restAt = 0;
        this.aim = scene.view = clamp({ from: Math.floor(this.aim.from), to: Math.ceil(this.aim.to) }, scene.whole); // as a link has it
        this.listener.moved(this.aim);
        this.redraw();
      } else
        this.redraw();
    }
  };

  /** Without waiting for a frame, of which there is none before it is printed. */
  drawNow(): void {
    this.drawing.frame(this.scene, Infinity);
  }

  /** All lanes with what they show now; for tests: nothing is missing any more. */
  get settled(): boolean {
    return !this.asked && this.scene.tiles.loading === 0;
  }

  // ---- hands ----

  private place(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect(), ratio = this.scene.look.ratio;
    return { x: (event.clientX - box.left) * ratio, y: (event.clientY - box.top) * ratio };
  }

  private readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const { x } = this.place(event), unit = event.deltaMode === 1 ? 30 : event.deltaMode === 2 ? 300 : 1;
    const width = this.aim.to - this.aim.from;
    if (event.altKey)
      this.scrollTo(this.scene.scroll / this.scene.look.ratio + event.deltaY * unit);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.go(pan(this.aim, (event.shiftKey ? event.deltaY || event.deltaX : event.deltaX) * unit / this.scene.width * width, this.scene.whole));
    else
      this.go(zoom(this.aim, this.aim.from + x / this.scene.width * width, Math.exp(Math.max(-300, Math.min(300, event.deltaY * unit)) * (event.ctrlKey ? 0.01 : 0.0022)), this.scene.whole));
  };

  private readonly down = (event: PointerEvent): void => {
    if (event.button !== 0)
      return;
    const at = this.place(event);
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, at);
    if (this.pointers.size === 2) {
      const [a, b] = [...this.pointers.values()] as [typeof at, typeof at];
      this.pinch = Math.hypot(a.x - b.x, a.y - b.y);
      this.drag = null;
      return;
    }
    this.drag = { kind: event.shiftKey || this.selecting || at.y < this.scene.axis ? 'select' : 'pan', ...at, at: Drawing.time(this.scene, at.x), moved: false };
  };

  private readonly move = (event: PointerEvent): void => {
    const at = this.place(event), { scene } = this, perPixel = (this.aim.to - this.aim.from) / scene.width;
    if (this.pointers.has(event.pointerId))
      this.pointers.set(event.pointerId, at);
    if (this.pointers.size === 2) {
      const [a, b] = [...this.pointers.values()] as [typeof at, typeof at], far = Math.max(20, Math.hypot(a.x - b.x, a.y - b.y));
      this.go(zoom(this.aim, this.aim.from + (a.x + b.x) / 2 * perPixel, this.pinch / far, scene.whole), false);
      this.pinch = far;
      return;
    }
    const { drag } = this;
    if (drag && (drag.moved || Math.hypot(at.x - drag.x, at.y - drag.y) > 4 * scene.look.ratio)) {
      drag.moved = true;
      if (drag.kind === 'pan') {
        const ratio = scene.look.ratio;
        this.go(pan(this.aim, (drag.x - at.x) * perPixel, scene.whole), false);
        this.scrollTo(scene.scroll / ratio + (drag.y - at.y) / ratio);
        drag.x = at.x;
        drag.y = at.y;
      } else {
        const now = Drawing.time(scene, at.x);
        scene.selection = { from: Math.max(scene.whole.from, Math.min(drag.at, now)), to: Math.min(scene.whole.to, Math.max(drag.at, now)) };
        this.redraw();
      }
      return;
    }
    if (this.pointers.size === 0)
      this.point(at);
  };

  private pointed(at: { x: number; y: number }): Pointed | null {
    const found = this.drawing.at(this.scene, at.x, at.y);
    if (!found)
      return null;
    const message = this.scene.look.messages ? this.drawing.messageAt(this.scene, at.x, at.y, 4 * this.scene.look.ratio) : null;
    return { ...found, message, x: at.x / this.scene.look.ratio, y: at.y / this.scene.look.ratio };
  }

  /** What who has no mouse points at: the innermost call in the middle of the window; of a lane, or of the one in the middle. */
  middle(lane: number): Pointed | null {
    const { scene } = this;
    if (lane >= 0)
      this.showLane(lane);
    const { layout, ratio } = scene.look, bottom = Math.min(scene.height - scene.axis, layout.tops[layout.tops.length - 1]! - scene.scroll);
    const which = lane >= 0 ? lane : laneAt(layout, scene.scroll + bottom / 2);
    for (let row = which < 0 ? -1 : layout.rows[which]! - 1; row >= 0; row--) {
      const x = scene.width / 2, y = layout.tops[which]! + (row + 0.5) * layout.rowHeight - scene.scroll + scene.axis, found = this.drawing.at(scene, x, y);
      if (found && found.id >= 0)
        return { ...found, message: null, x: x / ratio, y: y / ratio };
    }
    return null;
  }

  /** As Drawing has them, of what is in sight. */
  messageOf(lane: number, part: Span): number[] | null {
    return this.drawing.messageOf(this.scene, lane, part);
  }

  beginIn(lane: number, depth: number, part: Span): number | null {
    return this.drawing.beginIn(this.scene, lane, depth, part);
  }

  private point(at: { x: number; y: number }): void {
    const found = this.pointed(at);
    this.isPointed = !!found;
    this.scene.hover = found?.mark ?? null;
    this.listener.pointed(found);
    this.redraw();
  }

  /** What was pointed at is not under the pointer any more. */
  private readonly unpoint = (): void => {
    if (!this.isPointed)
      return;
    this.isPointed = false;
    this.scene.hover = null;
    this.listener.pointed(null);
    this.redraw();
  };

  private readonly up = (event: PointerEvent): void => {
    this.pointers.delete(event.pointerId);
    const { drag } = this;
    this.drag = null;
    if (!drag || event.type === 'pointercancel')
      return;
    if (drag.kind === 'select' && drag.moved)
      this.listener.chosen(this.scene.selection);
    else if (!drag.moved) {
      const found = this.pointed(this.place(event));
      if (found)
        this.listener.clicked(found);
    }
  };

  private readonly double = (event: MouseEvent): void => {
    const found = this.pointed(this.place(event));
    if (found?.mark)
      this.goTo(found.mark);
    else if (found)
      this.go(zoom(this.aim, found.time, 0.25, this.scene.whole));
  };

  readonly key = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey)
      return;
    const width = this.aim.to - this.aim.from, { whole } = this.scene, middle = (this.aim.from + this.aim.to) / 2;
    const scroll = this.scene.scroll / this.scene.look.ratio;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => this.go(pan(this.aim, -width * (event.shiftKey ? 0.9 : 0.2), whole)),
      ArrowRight: () => this.go(pan(this.aim, width * (event.shiftKey ? 0.9 : 0.2), whole)),
      ArrowUp: () => this.scrollTo(scroll - 60), ArrowDown: () => this.scrollTo(scroll + 60),
      PageUp: () => this.scrollTo(scroll - this.heights[1]), PageDown: () => this.scrollTo(scroll + this.heights[1]),
      '+': () => this.go(zoom(this.aim, middle, 0.5, whole)), '=': () => this.go(zoom(this.aim, middle, 0.5, whole)),
      '-': () => this.go(zoom(this.aim, middle, 2, whole)), _: () => this.go(zoom(this.aim, middle, 2, whole)),
      Home: () => this.go({ from: whole.from, to: whole.from + width }), End: () => this.go({ from: whole.to - width, to: whole.to }),
      '0': () => this.go(whole),
    };
    const action = event.shiftKey && (event.key === 'ArrowUp' || event.key === 'ArrowDown') ? undefined : actions[event.key]; // from call to call
    if (action) {
      event.preventDefault();
      event.stopPropagation();
      action();
    }
  };
}
