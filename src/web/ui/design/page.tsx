// SPDX-License-Identifier: Apache-2.0
// The rules of the pages' look, shown by what they rule: #/design.
import { useState } from 'preact/hooks';
import * as format from '../format';
import { signs, State } from '../pages/status';
import { Drawn, PictureFrame, svgPen, type Pen } from '../pictures';
import { callClasses, category, classLabels, heat, useColours, type ColourName, type Colours } from './colours';
import { Choice, Empty, Field, Figure, Figures, Notice, Progress, Tabs, Unit } from './parts';
import { Table } from './table';

const rules: [string, string][] = [
  ['Figures come first', 'A figure has its unit, is written as the command line writes it, and stands under the others: digits are of one width, columns of numbers are right-aligned.'],
  ['One scale of space', 'Steps of 4 pixels: 4, 8, 12, 16, 24, 32. A row of a table is 27 pixels. Panels have a border and no shadow; nothing floats but a dialog.'],
  ['Five sizes of type', '22 for titles and figures, 15 for headings, 13 for text and tables, 12 for labels. Fixed width for what a machine reads: commands, names, places.'],
  ['Colour says one thing', 'Petrol: what can be clicked or is chosen. Red, amber, green: only bad, doubtful, good, and never alone: a sign or a word says the same. Categories have eight colours and no more; what comes behind is “others”.'],
  ['Every picture can be taken away', 'As SVG and as CSV, with the figures in base units. Behind a canvas stands a table, or a text that says what it shows.'],
  ['An empty page says what to do', 'Why there is nothing, and the command that changes it.'],
  ['Everything by keys', 'What the pointer can do, keys can. `?` lists them. Where one is in a page is in its address.'],
  ['Text of a job is only text', 'It is shown as a text node, never as markup; what it calls itself cannot change the page.'],
];

const roles: ColourName[] = ['page', 'surface', 'sunken', 'line', 'edge', 'ink', 'soft', 'accent', 'chosen', 'good', 'warn', 'bad'];
const sample = Array.from({ length: 100_000 }, (_, i) => ({ i, name: `function_${(i * 7919) % 100_000}`, ns: ((i * 2654435761) % 2 ** 32) * 13 }));

function Swatches({ of, label }: { of: [string, string][]; label: string }) {
  return (
    <ul class="swatches" aria-label={label}>
      {of.map(([name, colour]) => (
        <li key={name}>
          <i style={{ background: colour }} />
          {name}
        </li>
      ))}
    </ul>
  );
}

function drawBars(pen: Pen, width: number, _height: number, c: Colours) {
  callClasses.forEach((name, i) => {
    pen.text(classLabels[name], 92, 20 + i * 22, { colour: c.ink, align: 'end' });
    pen.rect(100, 8 + i * 22, (width - 110) / (i + 1), 16, c[name]);
  });
}

export function Design() {
  const c = useColours();
  const [tab, setTab] = useState<'a' | 'b'>('a');
  return (
    <>
      <h1>Design</h1>
      <div class="columns">
        {rules.map(([title, text]) => (
          <section class="panel" key={title} aria-label={title}>
            <h2>{title}</h2>
            <p>{text}</p>
          </section>
        ))}
      </div>
      <section class="panel" aria-label="Colours">
        <h2>Colours</h2>
        <Swatches label="roles" of={roles.map((name) => [name, c[name]])} />
        <h3>What calls do</h3>
        <Swatches label="classes of calls" of={callClasses.map((name) => [classLabels[name], c[name]])} />
        <h3>Categories</h3>
        <Swatches label="categories" of={[0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => [i < 8 ? String(i + 1) : 'others', category(c, i)])} />
        <h3>Amounts</h3>
        <Swatches label="amounts" of={[0, 0.2, 0.4, 0.6, 0.8, 1].map((v) => [format.share(v), heat(c, v)])} />
        <p class="soft">
          A test computes that text has a contrast of 4.5 on each of its grounds, and that categories differ for people who do not see red or green.
        </p>
      </section>
      <section class="panel" aria-label="Figures">
        <h2>Figures</h2>
        <Figures>
          <Figure text={format.ns(1234)} label="a call" />
          <Figure text={format.seconds(185)} label="wall time" />
          <Figure text={format.size(3650722202)} label="memory" />
          <Figure text={format.share(0.054)} label="in MPI" />
          <Figure text={format.count(1234567)} label="calls" />
        </Figures>
        <Progress share={0.4} label="an example of progress" />
        <h3>States</h3>
        <div class="bar">{(Object.keys(signs) as (keyof typeof signs)[]).map((kind) => <State key={kind} of={{ kind, text: kind === 'warn' ? 'unknown' : kind }} />)}</div>
      </section>
      <section class="panel" aria-label="Notices">
        <h2>Notices</h2>
        <Notice tone="bad" title="What is wrong, in one line." advice="What to do about it." />
        <Notice tone="warn" title="What may be wrong." advice="What to do about it." />
        <Notice tone="good" title="What was done." />
        <Empty title="Nothing is here." command="scry run -- ./job.sh">
          Why, and what changes it.
        </Empty>
      </section>
      <section class="panel" aria-label="Controls">
        <h2>Controls</h2>
        <div class="bar">
          <button type="button" class="first">First choice</button>
          <button type="button">A button</button>
          <button type="button" class="danger">Cannot be taken back …</button>
          <button type="button" disabled>Not now</button>
          <Choice label="An example of a choice" value={tab} of={[['a', 'This'], ['b', 'That']]} onChange={setTab} />
          <input type="search" placeholder="Filter" aria-label="An example of a filter" />
        </div>
        <div class="fields">
          <Field label="A field" hint="What may stand in it." of={(attributes) => <input {...attributes} type="text" placeholder="10 min" />} />
          <Field label="A field with a mistake" hint="What may stand in it." error="expected a number from 1 to 10, not &quot;x&quot;" of={(attributes) => <input {...attributes} type="text" value="x" />} />
          <label class="check"><input type="checkbox" /> yes or no</label>
        </div>
        <Tabs label="An example of tabs" chosen="a" tabs={[{ key: 'a', title: 'One part', href: '#/design' }, { key: 'b', title: 'Another', href: '#/design' }]} />
      </section>
      <PictureFrame
        title="A picture" of="design" about="A line on how to read it."
        picture={{
          name: 'bars',
          svg: (paper) => {
            const pen = svgPen(600, 170, paper.surface);
            drawBars(pen, 600, 170, paper);
            return pen.svg();
          },
          table: () => ({ columns: ['class', 'share'], rows: callClasses.map((name, i) => [name, 1 / (i + 1)]) }),
        }}
      >
        <Drawn height={170} label="Bars in the colours of classes of calls" draw={drawBars} />
      </PictureFrame>
      <section class="panel" aria-label="A table">
        <h2>A table of {format.count(sample.length)} rows</h2>
        <Table
          label="An example of a table" rows={sample} rowKey={(r) => r.i} sortParam="design" visible={12}
          columns={[
            { key: 'row', title: 'Row', number: true, cell: (r) => r.i, value: (r) => r.i },
            { key: 'name', title: 'Name', cell: (r) => <span class="mono">{r.name}</span>, value: (r) => r.name },
            { key: 'time', title: 'Time', number: true, cell: (r) => <Unit text={format.ns(r.ns)} />, value: (r) => r.ns },
          ]}
        />
      </section>
    </>
  );
}
