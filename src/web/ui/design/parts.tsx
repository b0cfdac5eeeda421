// SPDX-License-Identifier: Apache-2.0
// The small parts of pages. `#/design` shows each of them.
import type { ComponentChildren } from 'preact';
import { useId, useRef } from 'preact/hooks';
import type { Answer } from '../api';
import { count } from '../format';

/** A figure with its unit and what it is: the digits stand, the unit is quiet. `text` as format.ts makes it: "1.20 ms". */
export function Figure({ text, label, about }: { text: string; label: string; about?: string }) {
  return (
    <div class="figure" title={about}>
      <dd>
        <Unit text={text} />
      </dd>
      <dt>{label}</dt>
    </div>
  );
}

/** "3 min 05 s" with quiet units. */
export const Unit = ({ text }: { text: string }) => (
  <span class="unit">{text.split(/([A-Za-z%/]+)/).map((part, i) => (i % 2 ? <small key={i}>{part}</small> : part))}</span>
);

export const Figures = ({ children }: { children: ComponentChildren }) => <dl class="figures">{children}</dl>;

export type Tone = 'good' | 'warn' | 'bad' | 'plain';
/** What a person should know, and what to do about it. */
export function Notice(props: { tone?: Tone; title: ComponentChildren; advice?: ComponentChildren; children?: ComponentChildren; live?: boolean }) {
  return (
    <div class={`notice ${props.tone ?? 'plain'}`} role={props.live ? 'status' : undefined}>
      {props.title && <p class="notice-title">{props.title}</p>}
      {props.children}
      {props.advice && <p class="advice">{props.advice}</p>}
    </div>
  );
}

/** Nothing is here: why, and what to do. */
export function Empty(props: { title: string; children?: ComponentChildren; command?: string; /** It is all that the page has. */ page?: boolean }) {
  const Title = props.page ? 'h1' : 'p';
  return (
    <div class="empty">
      <Title class="empty-title">{props.title}</Title>
      {props.children && <p>{props.children}</p>}
      {props.command && <Command text={props.command} />}
    </div>
  );
}

/** What a list leaves out, if it does. */
export const More = ({ than, of }: { /** So many are shown. */ than: number; of: number }) => (of > than ? <p class="soft">and {count(of - than)} more</p> : null);

/** A line for a shell; a click selects it. */
export function Command({ text }: { text: string }) {
  const code = useRef<HTMLElement>(null);
  return (
    <code class="command" ref={code} onClick={() => code.current && getSelection()?.selectAllChildren(code.current)}>
      {text}
    </code>
  );
}

export interface Tab {
  key: string;
  title: string;
  href: string;
  /** There is nothing in it but how to get it. */
  without?: boolean;
}
/** Links that show one of several parts of a page; arrows move between them. */
export function Tabs({ tabs, chosen, label }: { tabs: Tab[]; chosen: string; label: string }) {
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const links = [...(event.currentTarget as HTMLElement).querySelectorAll('a')];
    const at = links.indexOf(event.target as HTMLAnchorElement);
    if (step && at >= 0) links[(at + step + links.length) % links.length]!.focus();
  };
  return (
    <nav class="tabs" aria-label={label} onKeyDown={keys}>
      {tabs.map((t) => (
        <a key={t.key} href={t.href} aria-current={t.key === chosen ? 'page' : undefined} class={t.without ? 'without' : undefined} title={t.without ? 'Nothing of it was recorded' : undefined}>
          {t.title}
        </a>
      ))}
    </nav>
  );
}

/** One of a few: buttons in a row. */
export function Choice<T extends string>(props: { label: string; value: T; of: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.of.map(([value, title]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {title}
        </button>
      ))}
    </div>
  );
}

/** A control with its label, a hint, and what is wrong with it. `of` makes the control; it has the id and what describes it. */
export function Field(props: { label: string; hint?: ComponentChildren; error?: string; wide?: boolean; of: (attributes: { id: string; 'aria-describedby': string; 'aria-invalid': boolean }) => ComponentChildren }) {
  const id = useId();
  return (
    <div class={`field ${props.wide ? 'field-wide' : ''} ${props.error ? 'wrong' : ''}`}>
      <label for={id}>{props.label}</label>
      {props.of({ id, 'aria-describedby': `${id}-about`, 'aria-invalid': !!props.error })}
      <div id={`${id}-about`} class="field-about">
        {props.error && <p class="field-error">{props.error}</p>}
        {props.hint && <p>{props.hint}</p>}
      </div>
    </div>
  );
}

/** A button for what cannot be taken back: it asks first. */
export function Danger({ button, title, children, sure, act, disabled }: { button: string; title: string; children?: ComponentChildren; sure: string; act: () => void; disabled?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null), id = useId();
  return (
    <>
      <button type="button" class="danger" disabled={disabled} onClick={() => dialog.current?.showModal()}>{button}</button>
      <dialog ref={dialog} aria-labelledby={id}>
        <h2 id={id}>{title}</h2>
        {children && <p>{children}</p>}
        <div class="bar">
          <button type="button" onClick={() => dialog.current?.close()}>Leave it</button>
          <button type="button" class="danger" onClick={() => (dialog.current?.close(), act())}>{sure}</button>
        </div>
      </dialog>
    </>
  );
}

/** How far something is, 0 to 1; null: nobody knows. */
export function Progress({ share, label }: { share: number | null; label: string }) {
  return (
    <progress class="progress" value={share ?? undefined} max={1} aria-label={label}>
      {share === null ? '' : `${Math.round(share * 100)} %`}
    </progress>
  );
}

/** What is asked of the server: waits, says what is wrong, or shows it. An answer that is there stays when the next one fails. */
export function Answered<T>({ of, children, wait }: { of: Answer<T>; children: (value: T) => ComponentChildren; wait?: string }) {
  return (
    <>
      {of.error && of.error.kind !== 'offline' && of.error.kind !== 'session' && (
        <Notice tone="bad" live title={of.error.message} advice={<button type="button" onClick={of.again}>Ask again</button>} />
      )}
      {of.value !== undefined ? children(of.value) : of.waiting ? <p class="waiting" role="status">{wait ?? 'Asking …'}</p> : null}
    </>
  );
}
