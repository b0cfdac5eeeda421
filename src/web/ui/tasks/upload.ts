// SPDX-License-Identifier: Apache-2.0
// Files of a task on their way to the server. A folder becomes one archive, since a task's files have names without slashes; its
// build unpacks it. Nothing is read before it is sent.
import { ApiError } from '../api';

/** A file that is to be uploaded: one of this machine, or one that another task has. */
export interface Given {
  name: string;
  size: number | null;
  /** Missing: it was chosen before the page was loaded again. */
  blob?: Blob;
  /** The task that has it. */
  from?: string;
  /** How many files a folder has. */
  folder?: number;
}

const TAR_MOST = 8 ** 11; // bytes of a file: eleven octal digits

/** A header of POSIX.1-2001 (ustar). */
function tarHead(path: string, size: number): ArrayBuffer {
  const head = new Uint8Array(new ArrayBuffer(512)), text = new TextEncoder();
  const put = (at: number, value: string | Uint8Array) => head.set(typeof value === 'string' ? text.encode(value) : value, at);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0');
  let name = text.encode(path), prefix = new Uint8Array();
  if (name.length > 100) {
    let cut = name.length - 101;
    while (cut < Math.min(156, name.length) && name[cut] !== 47) cut++;
    if (name[cut] !== 47 || cut > 155) throw new Error(`${path}: the path is too long for an archive; make one yourself, and choose that`);
    prefix = name.slice(0, cut);
    name = name.slice(cut + 1);
  }
  if (size >= TAR_MOST) throw new Error(`${path}: a file of 8 GB or more is too large for an archive; choose it by itself`);
  put(0, name);
  put(100, '0000755\0' + '0000000\0' + '0000000\0' + `${octal(size, 11)}\0` + `${octal(Math.floor(Date.now() / 1000), 11)}\0` + ' '.repeat(8) + '0');
  put(257, 'ustar\x0000');
  put(345, prefix);
  put(148, `${octal(head.reduce((sum, byte) => sum + byte, 0), 6)}\0 `);
  return head.buffer;
}

/** An archive of files with their paths. */
export function tar(files: readonly { path: string; blob: Blob }[]): Blob {
  const pieces: BlobPart[] = [];
  for (const { path, blob } of files) pieces.push(tarHead(path, blob.size), blob, new Uint8Array(new ArrayBuffer((512 - (blob.size % 512)) % 512)));
  return new Blob([...pieces, new Uint8Array(new ArrayBuffer(1024))]);
}

/** Files and folders as a task has them: each folder one archive. */
export function gathered(files: readonly { path: string; file: File }[]): Given[] {
  const folders = new Map<string, { path: string; blob: Blob }[]>(), out: Given[] = [];
  for (const { path, file } of files) {
    const top = path.includes('/') ? path.slice(0, path.indexOf('/')) : '';
    const list = folders.get(top);
    if (top) list ? list.push({ path, blob: file }) : folders.set(top, [{ path, blob: file }]);
    else out.push({ name: file.name, size: file.size, blob: file });
  }
  for (const [top, list] of folders) {
    const blob = tar(list);
    out.push({ name: `${top}.tar`, size: blob.size, blob, folder: list.length });
  }
  return out;
}

async function walk(entry: FileSystemEntry, path: string, out: { path: string; file: File }[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
    out.push({ path: path + file.name, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail)); // a hundred at a time
    if (!some.length) return;
    for (const each of some) await walk(each, `${path}${entry.name}/`, out);
  }
}

/** What was dropped. To be called while the event lasts. */
export async function dropped(data: DataTransfer): Promise<Given[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const out: { path: string; file: File }[] = [];
  if (!entries.length) return gathered([...data.files].map((file) => ({ path: file.name, file })));
  for (const entry of entries) await walk(entry, '', out);
  return gathered(out);
}

/** What was chosen by an <input type=file>. */
export const chosen = (list: readonly File[]): Given[] => gathered(list.map((file) => ({ path: file.webkitRelativePath || file.name, file })));

const fileAddress = (task: string, name: string) => `api/tasks/${encodeURIComponent(task)}/files/${encodeURIComponent(name)}`;
export const outputAddress = (task: string, path: string) => `api/tasks/${encodeURIComponent(task)}/output/${path.split('/').map(encodeURIComponent).join('/')}`;

async function bytesOf(file: Given): Promise<Blob> {
  if (file.blob) return file.blob;
  if (!file.from) throw new ApiError(0, 'bad_task', `${file.name}: choose it again; the page was loaded anew since`);
  const answer = await fetch(outputAddress(file.from, `files/${file.name}`), { credentials: 'same-origin' });
  if (!answer.ok) throw new ApiError(answer.status, 'unknown', `${file.name}: the other task has it no more; choose it again`);
  return answer.blob();
}

/** Uploads one. fetch() does not say how far it is. */
export async function upload(task: string, file: Given, tell: (share: number) => void): Promise<void> {
  const blob = await bytesOf(file);
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open('PUT', fileAddress(task, file.name));
    request.upload.onprogress = (event) => tell(event.total ? event.loaded / event.total : 1);
    request.onerror = () => fail(new ApiError(0, 'offline', `${file.name}: the connection broke; try again`));
    request.onload = () => {
      if (request.status < 300) return done();
      let said = '';
      try {
        said = (JSON.parse(request.responseText) as { error: { text: string } }).error.text;
      } catch {
        said = `the server answered ${request.status}`;
      }
      fail(new ApiError(request.status, 'upload', `${file.name}: ${said}`));
    };
    request.send(blob);
  });
}
