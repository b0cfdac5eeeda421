// SPDX-License-Identifier: Apache-2.0
// The pictures of jobs, in the order of their tabs.
import type { View } from '../frame/view';
import { SpaceTime } from '../space/diagram';
import { Communication, Functions } from './functions';

export const views: View[] = [
  {
    name: 'space', title: 'Space and time', of: 'job', draw: SpaceTime,
    keys: [
      ['← →', 'along the time; with Shift by a window'], ['↑ ↓', 'through the lanes'], ['+ −', 'closer, farther'], ['0', 'all of it'], ['Home End', 'the begin, the end'],
      ['n p', 'the next call that was found, the one before'], ['Enter', 'the call’s details'], ['v', 'chooses what is seen'], ['s', 'stacks or one bar'], ['c', 'colours by kind or function'], ['Esc', 'nothing is chosen'],
    ],
  },
  { name: 'functions', title: 'Functions', of: 'job', draw: Functions },
  { name: 'communication', title: 'Communication', of: 'job', draw: Communication },
];
