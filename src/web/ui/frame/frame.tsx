// SPDX-License-Identifier: Apache-2.0
// What stands around each page: navigation, who one is, whether the server is there, help.
import { Component, type ComponentChild } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { apiError, sessionBegin, type ApiError, untilAgain, useLine, type Session } from '../api';
import { themeNow, themeSet, type Theme } from '../design/colours';
import { Command, Empty, Notice } from '../design/parts';
import { Design } from '../design/page';
import { Job } from '../pages/job';
import { Jobs } from '../pages/jobs';
import { Site } from '../pages/site';
import { Tasks } from '../tasks/list';
import { Submit } from '../tasks/submit';
import { Task } from '../tasks/task';
import { href, usePlace } from '../state';
import { views } from '../views';
import { Help, useKeys } from './keys';

function Page({ session }: { session: Session }): ComponentChild {
  const { path } = usePlace();
  const [first = 'jobs', second] = path;
  if (first === 'jobs') return second ? <Job key={second} id={second} tab={path[2] ?? ''} session={session} /> : <Jobs />;
  if (first === 'tasks') return second ? <Task key={second} id={second} session={session} /> : <Tasks session={session} />;
  if (first === 'submit') return <Submit session={session} />;
  if (first === 'site' && session.rights.includes('site')) return <Site />;
  if (first === 'design') return <Design />;
  const view = views.find((v) => v.of === 'page' && v.name === first);
  if (view) return <view.draw key={view.name} id="" session={session} />;
  return (
    <Empty page title="There is no such page.">
      The link may be of another version of scry. <a href={href(['jobs'])}>All jobs</a>
    </Empty>
  );
}

const themes: Record<Theme, [next: Theme, title: string, sign: string]> = {
  auto: ['light', 'Colours: as the system says', '◐'], light: ['dark', 'Colours: light', '○'], dark: ['auto', 'Colours: dark', '●'],
};
function ThemeSwitch() {
  const [theme, set] = useState(themeNow());
  const [next, title, sign] = themes[theme];
  return (
    <button type="button" class="quiet theme" title={`${title}; a click: ${next}`} aria-label={title} onClick={() => (themeSet(next), set(next))}>
      {sign}
    </button>
  );
}

function Head({ session, onHelp }: { session: Session | undefined; onHelp: () => void }) {
  const { path } = usePlace();
  const [first = 'jobs'] = path;
  const nav = useRef<HTMLElement>(null);
  useEffect(() => nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [first, !session]); // on a phone not all have room
  const links: [string, string][] = [['jobs', 'Jobs'], ['tasks', 'Tasks']];
  if (session?.rights.includes('submit')) links.push(['submit', 'Submit']);
  for (const view of views) if (view.of === 'page') links.push([view.name, view.title]);
  if (session?.rights.includes('site')) links.push(['site', 'Site']);
  return (
    <header class="head">
      <a class="name" href={href(['jobs'])}>
        <img src="icon.svg" alt="" width="20" height="20" />
        scry
      </a>
      <nav aria-label="Pages" ref={nav}>
        {session && links.map(([name, title]) => (
          <a key={name} href={href([name])} aria-current={first === name ? 'page' : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <div class="head-right">
        {session && <span class="who" title={`rights: ${session.rights.join(', ')}; scry ${session.version}`}>{session.user}</span>}
        <ThemeSwitch />
        <button type="button" class="quiet" aria-label="Keys and help" title="Keys and help (?)" onClick={onHelp}>
          ?
        </button>
      </div>
    </header>
  );
}

/** A fault in a page's own program must not leave an empty window, nor stay when another place is gone to. */
class Guard extends Component<{ place: string; children: ComponentChild }, { error: Error | null }> {
  override state = { error: null as Error | null };
  static override getDerivedStateFromError(error: Error) {
    return { error };
  }
  override componentDidUpdate(before: { place: string }) {
    if (before.place !== this.props.place && this.state.error) this.setState({ error: null });
  }
  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <Notice tone="bad" title={`This page has a fault: ${error.message}`} advice={<button type="button" onClick={() => location.reload()}>Load it again</button>}>
        <p>The job is not touched by it. scry report and scry top say the same on the command line.</p>
      </Notice>
    );
  }
}

function NoSession({ error }: { error: ApiError }) {
  if (error.kind === 'offline')
    return (
      <Empty page title="The server does not answer." command="scry serve">
        It may have ended, or the connection to it. This page tries again by itself.
      </Empty>
    );
  return (
    <Empty page title="You need a link to see jobs here." command="scry serve --link">
      {error.status === 401 ? 'A link is good once, and a session ends after a while. On the machine where the server runs, this prints a new one:' : error.message}
    </Empty>
  );
}

export function Frame() {
  const [session, setSession] = useState<Session>();
  const [error, setError] = useState<ApiError>();
  const [help, setHelp] = useState(false);
  const { line, refused } = useLine();
  const { path } = usePlace();

  useLayoutEffect(() => { // at once: nothing else can be asked before
    let timer = 0;
    let tries = 0;
    const begin = () =>
      void sessionBegin().then(
        (value) => (setSession(value), setError(undefined)),
        (fault: unknown) => {
          const known = apiError(fault);
          setError(known);
          if (known.kind === 'offline') timer = window.setTimeout(begin, untilAgain(++tries, 3) * 1000);
        },
      );
    begin();
    // another link opened in this window
    const again = () => /^#token=/.test(location.hash) && begin();
    addEventListener('hashchange', again);
    return () => {
      clearTimeout(timer);
      removeEventListener('hashchange', again);
    };
  }, []);
  useKeys(setHelp);

  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById('main')?.focus())}>
        To the page
      </a>
      <Head session={session} onHelp={() => setHelp(true)} />
      {session && line === 'down' && (
        <div class="away" role="status">
          The server does not answer. What is shown is as it was; it goes on by itself when the server is back.
        </div>
      )}
      {session && refused && (
        <div class="away" role="status">
          Your session is over. Open a new link: <Command text="scry serve --link" />
        </div>
      )}
      <main id="main" tabIndex={-1}>
        <Guard place={path.join('/')}>{session ? <Page session={session} /> : error ? <NoSession error={error} /> : <p class="waiting">…</p>}</Guard>
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}
