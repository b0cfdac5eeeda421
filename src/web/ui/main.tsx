// SPDX-License-Identifier: Apache-2.0
import { render } from 'preact';
import './design/colours.css';
import 'uplot/dist/uPlot.min.css';
import './design/design.css';
import { Frame } from './frame/frame';

render(<Frame />, document.getElementById('pages')!);
