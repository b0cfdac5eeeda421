// SPDX-License-Identifier: Apache-2.0
// Source files of the program, with the time of each line: of functions that begin there, and of calls that stand there.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { jobPath, query, useAnswer } from '../api';
import { Answered, Empty, Notice } from '../design/parts';
import { base, count, ns, sentence, share } from '../format';
import type { ViewProps } from '../frame/view';
import { PictureFrame } from '../pictures';
import { href, useParam } from '../state';
import { NoTrace } from './parts';

interface Begin { line: number; function: string; calls: number; total_ns: number; self_ns: number }
interface Site { line: number; function: string; calls: number; total_ns: number }
/** By samples: of a line itself, and with what was called there. */
interface Time { line: number; function: string; total_ns: number; self_ns: number }
/** sampled: its times are of samples, for no function in it was traced; how often they were called is not known. */
interface Files { files: { file: string; functions: number; self_ns: number; sampled: boolean }[] }
/** missing: why there are no lines. */
interface Source { file: string; missing: string | null; lines: string[]; functions: Begin[]; sites: Site[]; times: Time[] }

export function SourceView({ id }: ViewProps) {
  const [chosen, setFile] = useParam('file');
  const answer = useAnswer<Files>(jobPath(id, 'source'));
  if (answer.error?.kind === 'no_trace')
    return <NoTrace id={id} text={answer.error.message} />;
  return (
    <Answered of={answer} wait="Looking for the sources of what was recorded …">
      {({ files }) => files.length ? <File id={id} files={files} file={files.some(one => one.file === chosen) ? chosen : files[0]!.file} onFile={setFile} /> : (
        <Empty title="Nothing was recorded whose line in the source is known." command="scry run --trace 'fn:*' -- ./program">Functions are sampled while they use a processor, and recorded with --trace; debug information says where they are: build the program with -g.</Empty>
      )}
    </Answered>
  );
}

interface Line { number: number; text: string; self: number; /** Of calls that stand there. */ called: number; calls: number; begins: string; sites: Site[]; /** Of what is looked for from here. */ name: string | undefined }

/** Lines as they are shown; of a file that is not at hand, those of which something is known. */
function linesOf(source: Source): Line[] {
  const begins = new Map<number, Begin[]>(), sites = new Map<number, Site[]>(), times = new Map<number, Time[]>(), sum = (list: readonly number[]) => list.reduce((all, one) => all + one, 0);
  const put = <T extends { line: number }>(map: Map<number, T[]>, one: T) => void map.set(one.line, [...(map.get(one.line) ?? []), one]);
  source.functions.forEach(one => put(begins, one));
  source.sites.forEach(one => put(sites, one));
  source.times.forEach(one => put(times, one));
  const byLine = new Set(source.times.map(one => one.function)); // of these it is known in which lines they were
  const line = (number: number, text: string): Line => {
    const here = begins.get(number) ?? [], calls = sites.get(number) ?? [], sampled = times.get(number) ?? [];
    return {
      number, text, self: sum([...here.map(one => byLine.has(one.function) ? 0 : one.self_ns), ...sampled.map(one => one.self_ns)]), calls: sum(here.map(one => one.calls)),
      called: Math.max(sum(calls.map(one => one.total_ns)), sum(sampled.map(one => one.total_ns - one.self_ns))),
      begins: here.map(one => one.function).join(', '), sites: calls, name: (here[0] ?? calls[0] ?? sampled[0])?.function,
    };
  };
  if (source.missing === null)
    return source.lines.map((text, i) => line(i + 1, text));
  return [...new Set([...begins.keys(), ...sites.keys(), ...times.keys()])].sort((a, b) => a - b).map(number => line(number, ''));
}

function File({ id, files, file, onFile }: { id: string; files: Files['files']; file: string; onFile: (file: string) => void }) {
  const answer = useAnswer<Source>(jobPath(id, 'source') + query({ file }));
  const [lineText, setLine] = useParam('line');
  const source = answer.value, lines = useMemo(() => answer.value ? linesOf(answer.value) : [], [answer.value]);
  const { sampled, self_ns: own } = files.find(one => one.file === file)!, all = files.reduce((total, one) => total + (one.sampled === sampled ? one.self_ns : 0), 0);
  const most = lines.reduce((greatest, line) => Math.max(greatest, line.self, line.called), 1);
  const hottest = lines.reduce((best, line) => line.self > (best?.self ?? 0) ? line : best, lines[0]);
  const chosen = Number(lineText) || hottest?.number || 0, box = useRef<HTMLOListElement>(null);
  useEffect(() => {
    const at = box.current?.querySelector<HTMLElement>('.chosen');
    if (at && box.current)
      box.current.scrollTop = at.offsetTop - box.current.offsetTop - box.current.clientHeight / 2;
  }, [lines, chosen]);
  const linkOf = (name: string) => sampled ? href(['jobs', id, 'profile'], { find: name }) : href(['jobs', id, 'space'], { q: name });
  const keys = (event: KeyboardEvent) => {
    const at = lines.findIndex(line => line.number === chosen), step = { ArrowDown: 1, ArrowUp: -1 }[event.key], line = lines[at + (step ?? 0)];
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== box.current || !line || !step && event.key !== 'Enter')
      return;
    event.preventDefault();
    if (step)
      setLine(String(line.number));
    else if (line.name)
      location.hash = linkOf(line.name);
  };
  return (
    <PictureFrame title={base(file)} of={id} about={<>{file}{all > 0 && `: ${share(own / all)} of the time in functions whose source is known`}.{' '}
      {source?.times.length ? 'Bars: the time of each line by samples; paler, with what is called there.' : `Bars: functions that begin at a line by the time in themselves${sampled ? ', by samples' : ''}; paler, calls that stand there.`}</>} picture={{
      name: `source-${base(file)}`, svg: null,
      table: () => ({ columns: ['line', 'function', 'calls', 'self_ns', 'calls_here_ns', 'text'], rows: lines.map(line => [line.number, line.begins, line.calls, line.self, line.called, line.text]) }),
    }} controls={<label>File <select aria-label="File" value={file} onChange={e => onFile(e.currentTarget.value)}>{files.map(one => <option key={one.file} value={one.file}>{base(one.file)}{one.functions > 0 && ` · ${ns(one.self_ns)}`}</option>)}</select></label>}>
      <Answered of={answer}>
        {source => (
          <>
            {source.missing && <Notice tone="warn" title={sentence(source.missing)} advice="What is known of its lines is below." />}
            <ol class="source" ref={box} tabIndex={0} onKeyDown={keys} aria-label={`Lines of ${base(file)}`}>
              {lines.map(line => <SourceLine key={line.number} link={linkOf} line={line} most={most} chosen={line.number === chosen} onChoose={() => setLine(String(line.number))} />)}
            </ol>
          </>
        )}
      </Answered>
    </PictureFrame>
  );
}

function SourceLine({ link, line, most, chosen, onChoose }: { link: (name: string) => string; line: Line; most: number; chosen: boolean; onChoose: () => void }) {
  const { called } = line, time = line.self || called;
  const title = [
    ...(line.begins && line.calls ? [`${line.begins}: ${count(line.self)} ns in itself, ${count(line.calls)} calls`] : line.self || line.begins ? [`${line.begins ? `${line.begins}: ` : ''}${ns(line.self)} by samples`] : []),
    ...line.sites.map(site => `calls ${site.function} ${count(site.calls)} times, ${count(site.total_ns)} ns`),
  ].join('\n');
  return (
    <li class={chosen ? 'chosen' : ''}>
      <span class="source-time" title={title}>
        {called > 0 && <i class="sites" style={{ width: `${100 * called / most}%` }} />}
        {line.self > 0 && <i style={{ width: `${100 * line.self / most}%` }} />}
        {time > 0 && <a href={link(line.name ?? '')}>{ns(time)}</a>}
      </span>
      <button type="button" class="source-number" tabIndex={-1} onClick={onChoose}>{line.number}</button>
      <code>{line.text || <span class="soft">{line.begins || line.sites.map(site => `calls ${site.function}`).join(', ')}</span>}</code>
    </li>
  );
}
