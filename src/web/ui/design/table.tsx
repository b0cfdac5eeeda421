// SPDX-License-Identifier: Apache-2.0
// A table of any number of rows: only those in sight are in the document. Sorted by a click on a column's head, or Enter there;
// arrows, Page Up and Down, Home and End move through the rows, Enter opens one.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useParam } from '../state';
import { usePaper } from './colours';

export interface Column<T> {
  /** In the address, and of the CSS class `col-KEY`. */
  key: string;
  title: string;
  /** What the title stands for, if that is not plain. */
  about?: string;
  /** What is shown; text nodes, never markup. */
  cell: (row: T) => ComponentChildren;
  /** By which it is sorted; without it, it is not. null sorts last. */
  value?: (row: T) => string | number | null;
  /** Figures: to the right, and the first click sorts the greatest to the top. */
  number?: boolean;
  /** Left out on narrow screens. */
  wide?: boolean;
  /** Has the width that the others leave; what is longer is cut. */
  fill?: boolean;
}

export interface TableProps<T> {
  columns: Column<T>[];
  rows: readonly T[];
  /** What the table is, for who cannot see it. */
  label: string;
  rowKey: (row: T) => string | number;
  /** Parameter of the address that keeps the order: "sort" → "sort=-time". */
  sortParam?: string;
  sort?: string;
  onOpen?: (row: T) => void;
  rowClass?: (row: T) => string;
  chosen?: string | number;
  /** Rows that are seen at once; more scroll inside the table. */
  visible?: number;
}

/** The rows in the order that "name" or "-name" (descending) says. Stable. */
export function sorted<T>(rows: readonly T[], columns: Column<T>[], order: string): readonly T[] {
  const down = order.startsWith('-');
  const value = columns.find((c) => c.key === order.replace(/^-/, ''))?.value;
  if (!value) return rows;
  const keyed = rows.map((row) => ({ row, by: value(row) }));
  keyed.sort((a, b) => {
    if (a.by === null || b.by === null) return a.by === b.by ? 0 : a.by === null ? 1 : -1;
    const way = typeof a.by === 'number' && typeof b.by === 'number' ? a.by - b.by : String(a.by).localeCompare(String(b.by), 'en', { numeric: true });
    return down ? -way : way;
  });
  return keyed.map((k) => k.row);
}

const ROW = 27; // CSS pixels: --row in design.css
const VIRTUAL_FROM = 200, PAPER_MOST = 2000;

export function Table<T>(props: TableProps<T>) {
  const { columns, label } = props;
  const [order, setOrder] = useParam(props.sortParam ?? 'sort', props.sort ?? '');
  const rows = useMemo(() => sorted(props.rows, columns, order), [props.rows, order, columns.map((c) => c.key).join()]);
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [focus, setFocus] = useState(0);
  const wantFocus = useRef(false);

  const paper = usePaper(), virtual = !paper && rows.length > VIRTUAL_FROM;
  const scrolls = virtual || (props.visible !== undefined && rows.length > props.visible);
  const first = virtual ? Math.max(0, Math.floor(top / ROW) - 10) : 0;
  const last = virtual ? Math.min(rows.length, Math.ceil((top + height) / ROW) + 10) : Math.min(rows.length, paper ? PAPER_MOST : Infinity);
  const at = Math.min(focus, Math.max(0, rows.length - 1));

  useEffect(() => {
    if (!box.current) return;
    const watch = new ResizeObserver(([entry]) => entry && setHeight(entry.contentRect.height));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (!wantFocus.current) return;
    const row = box.current?.querySelector<HTMLElement>(`tr[data-row="${at}"]`);
    if (row) {
      wantFocus.current = false;
      row.focus();
    }
  });

  const moveTo = (row: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, row));
    wantFocus.current = true;
    setFocus(next);
    if (virtual && box.current) {
      const head = ROW, y = next * ROW;
      if (y < box.current.scrollTop) box.current.scrollTop = y;
      else if (y + ROW + head > box.current.scrollTop + height) box.current.scrollTop = y + ROW + head - height;
      setTop(box.current.scrollTop);
    }
  };
  const keys = (event: KeyboardEvent) => {
    if (!(event.target instanceof HTMLTableRowElement) || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Number(event.target.dataset['row']); // not where it was when it got the focus: rows come and go
    const page = Math.max(1, Math.floor(height / ROW) - 2);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[event.key];
    if (step !== undefined) moveTo(at + step);
    else if (event.key === 'Enter' && props.onOpen && rows[at]) props.onOpen(rows[at]);
    else return;
    event.preventDefault();
  };
  const sortBy = (column: Column<T>) => {
    const name = column.key, begin = column.number ? `-${name}` : name, other = column.number ? name : `-${name}`;
    setOrder(order === begin ? other : begin);
  };

  return (
    <div class={`table-box ${scrolls ? 'scrolls' : ''}`} ref={box} onScroll={virtual ? () => setTop(box.current!.scrollTop) : undefined} tabIndex={scrolls ? 0 : undefined} style={props.visible && scrolls ? { maxHeight: `${(props.visible + 1) * ROW}px` } : undefined}>
      <table aria-rowcount={rows.length + 1} aria-label={label}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((c) => (
              <th key={c.key} scope="col" class={cellClass(c)} title={c.about} aria-sort={order === c.key ? 'ascending' : order === `-${c.key}` ? 'descending' : undefined}>
                {c.value ? (
                  <button type="button" onClick={() => sortBy(c)}>
                    {c.title}
                    <i aria-hidden="true">{order === c.key ? '▲' : order === `-${c.key}` ? '▼' : ''}</i>
                  </button>
                ) : (
                  c.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody onKeyDown={keys}>
          {first > 0 && <Spacer rows={first} columns={columns.length} />}
          {rows.slice(first, last).map((row, i) => (
            <tr
              key={props.rowKey(row)} data-row={first + i} aria-rowindex={first + i + 2} tabIndex={props.onOpen || virtual ? (first + i === at ? 0 : -1) : undefined}
              class={`${props.rowClass?.(row) ?? ''} ${props.onOpen ? 'opens' : ''} ${props.chosen !== undefined && props.chosen === props.rowKey(row) ? 'chosen' : ''}`}
              onFocus={() => setFocus(first + i)} onClick={(e) => props.onOpen && !(e.target as Element).closest('a, button, input, label') && props.onOpen(row)}
            >
              {columns.map((c) => (
                <td key={c.key} class={cellClass(c)}>
                  {c.cell(row)}
                </td>
              ))}
            </tr>
          ))}
          {last < rows.length && (paper ? <tr><td colSpan={columns.length}>and {rows.length - last} more</td></tr> : <Spacer rows={rows.length - last} columns={columns.length} />)}
        </tbody>
      </table>
    </div>
  );
}

const cellClass = <T,>(c: Column<T>) => `col-${c.key} ${c.number ? 'number' : ''} ${c.wide ? 'wide' : ''} ${c.fill ? 'fill' : ''}`;

/** In place of rows that are out of sight. */
function Spacer({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr aria-hidden="true" class="spacer">
      <td colSpan={columns} style={{ height: `${rows * ROW}px` }} />
    </tr>
  );
}
