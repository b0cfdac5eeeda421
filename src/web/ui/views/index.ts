// SPDX-License-Identifier: Apache-2.0
// The pictures of jobs, in the order of their tabs.
import type { View } from '../frame/view';
import { SpaceTime } from '../space/diagram';
import { Compare } from './compare';
import { Distributions } from './distributions';
import { Communication } from './communication';
import { Functions } from './functions';
import { Log } from './log';
import { Sampled } from './sampled';
import { Scaling } from './scaling';
import { SourceView } from './source';
import { CallTree } from './tree';
import { Values } from './values';

export const views: View[] = [
  {
    name: 'space', title: 'Space and time', of: 'job', draw: SpaceTime,
    keys: [
      ['← →', 'along the time; with Shift by a window'], ['↑ ↓', 'through the lanes'], ['+ −', 'closer, farther'], ['0', 'all of it'], ['Home End', 'the begin, the end'],
      ['n p', 'the next call that was found, the one before'], ['Enter', 'details of the call that was found; or in the middle, of the lane chosen in the table'], ['Shift ↑ ↓', 'from the call to its caller, and to the first one that it calls'], ['m', 'to the other end of the call’s message, and back'],
      ['v', 'chooses what is seen'], ['s', 'stacks or one bar'], ['c', 'colours by kind or function'], ['Esc', 'nothing is chosen'],
    ],
  },
  {
    name: 'profile', title: 'Profile', of: 'job', draw: Sampled,
    keys: [['↓ ↑', 'to what it calls, to its caller'], ['← →', 'beside it'], ['Enter', 'makes it the whole'], ['Esc', 'one level up']],
  },
  { name: 'functions', title: 'Functions', of: 'job', draw: Functions },
  { name: 'communication', title: 'Communication', of: 'job', draw: Communication, keys: [['← ↑ → ↓', 'another pair of ranks'], ['+ −', 'fewer ranks, more']] },
  { name: 'distributions', title: 'Distributions', of: 'job', draw: Distributions },
  {
    name: 'tree', title: 'Call tree', of: 'job', draw: CallTree,
    keys: [['↓ ↑', 'to what it calls, to its caller'], ['← →', 'beside it'], ['Enter', 'makes it the whole'], ['Esc', 'one level up']],
  },
  { name: 'values', title: 'Values', of: 'job', draw: Values, keys: [['↑ ↓', 'another call'], ['Enter', 'the call in space and time']] },
  { name: 'source', title: 'Source', of: 'job', draw: SourceView, keys: [['↑ ↓', 'another line'], ['Enter', 'its calls in space and time']] },
  { name: 'log', title: 'Log', of: 'job', draw: Log },
  { name: 'compare', title: 'Compare', of: 'page', draw: Compare },
  { name: 'scaling', title: 'Scaling', of: 'page', draw: Scaling },
];
