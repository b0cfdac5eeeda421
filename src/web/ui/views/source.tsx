// SPDX-License-Identifier: Apache-2.0
// Source files with the time of what is in them at each line: where functions begin, and where calls stand.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { jobPath, query, useAnswer } from '../api';
import { Answered, Empty, Notice } from '../design/parts';
import { base, count, ns, share } from '../format';
import type { ViewProps } from '../frame/view';
import { PictureFrame } from '../pictures';
import { href, useParam } from '../state';
import { NoTrace, notesOf } from './parts';
import type { Profile } from './profile';
import { sum } from './profile';

interface Line { line: number; text?: string; calls?: number; total_ns?: number; self_ns?: number; functions?: string[] }
interface Source { file: string; lines: (Line | string)[]; first?: number; notes?: unknown }

export function SourceView({ id }: ViewProps) {
  const [file, setFile] = useParam('file');
  const profile = useAnswer<Profile>(jobPath(id, 'profile'));
  const files = useMemo(() => {
    const times = new Map<string, number>();
    for (const one of profile.value?.functions ?? [])
      if (one.file)
        times.set(one.file, (times.get(one.file) ?? 0) + sum(one.self_ns));
    return [...times].sort((a, b) => b[1] - a[1]);
  }, [profile.value]);
  if (profile.error?.kind === 'no_trace')
    return <NoTrace text={profile.error.message} />;
  return (
    <Answered of={profile} wait="Looking for the sources of what was recorded …">
      {value => files.length ? <File id={id} files={files} file={file && files.some(([name]) => name === file) ? file : files[0]![0]} profile={value} onFile={setFile} /> : (
        <Empty title="It is not known in which files the recorded functions are." command="cc -g …">Debug information says it: build the program with -g, and run it again.</Empty>
      )}
    </Answered>
  );
}

function File({ id, files, file, profile, onFile }: { id: string; files: [string, number][]; file: string; profile: Profile; onFile: (file: string) => void }) {
  const answer = useAnswer<Source>(jobPath(id, 'source') + query({ file }));
  const [lineText, setLine] = useParam('line');
  const all = files.reduce((total, [, time]) => total + time, 0);
  const begins = useMemo(() => new Map(profile.functions.filter(one => one.file === file).map(one => [one.line, one])), [profile, file]);
  const lines = useMemo(() => (answer.value?.lines ?? []).map((line, i): Line => typeof line === 'string' ? { line: (answer.value!.first ?? 1) + i, text: line } : line), [answer.value]);
  const figure = (line: Line) => {
    const one = begins.get(line.line);
    return { self: line.self_ns ?? line.total_ns ?? (one ? sum(one.self_ns) : 0), calls: line.calls ?? (one ? sum(one.calls) : 0), name: line.functions?.join(', ') ?? one?.name ?? '' };
  };
  const most = lines.reduce((greatest, line) => Math.max(greatest, figure(line).self), 1);
  const hottest = lines.reduce((best: Line | null, line) => figure(line).self > (best ? figure(best).self : 0) ? line : best, null);
  const chosen = Number(lineText) || hottest?.line || 0, box = useRef<HTMLOListElement>(null);
  useEffect(() => box.current?.querySelector('.chosen')?.scrollIntoView({ block: 'center' }), [lines, chosen]);
  return (
    <PictureFrame title={base(file)} of={id} about={<>{file}: {share(all ? (files.find(([name]) => name === file)?.[1] ?? 0) / all : 0)} of the time in functions with a source</>} picture={{
      name: `source-${base(file)}`, svg: null,
      table: () => ({ columns: ['line', 'function', 'calls', 'self_ns', 'text'], rows: lines.map(line => [line.line, figure(line).name, figure(line).calls, figure(line).self, line.text ?? '']) }),
    }} controls={<label>File <select value={file} onChange={e => onFile(e.currentTarget.value)}>{files.map(([name, time]) => <option key={name} value={name}>{base(name)} · {ns(time)}</option>)}</select></label>}>
      {answer.error && answer.error.kind !== 'offline' ? (
        <Notice tone="warn" title={answer.error.message}>
          <ul>{[...begins.values()].map(one => <li key={one.name}>line {one.line}: <code>{one.name}</code>, {ns(sum(one.self_ns))} in {count(sum(one.calls))} calls</li>)}</ul>
        </Notice>
      ) : (
        <Answered of={answer}>
          {source => (
            <>
              {notesOf(source.notes).map(note => <Notice key={note} title={note} />)}
              <ol class="source" ref={box} tabIndex={0} aria-label={`Lines of ${base(file)}`}>
                {lines.map(line => {
                  const { self, calls, name } = figure(line);
                  return (
                    <li key={line.line} class={line.line === chosen ? 'chosen' : ''}>
                      <span class="source-time" title={self ? `${name}: ${count(self)} ns, ${count(calls)} calls` : ''}>
                        {self > 0 && <><i style={{ width: `${100 * self / most}%` }} /><a href={href(['jobs', id, 'space'], { q: name.split(', ')[0] })}>{ns(self)}</a></>}
                      </span>
                      <button type="button" class="source-number" tabIndex={-1} onClick={() => setLine(String(line.line))}>{line.line}</button>
                      <code>{line.text ?? ''}</code>
                    </li>
                  );
                })}
              </ol>
            </>
          )}
        </Answered>
      )}
    </PictureFrame>
  );
}
