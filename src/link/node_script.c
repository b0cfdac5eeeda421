/* SPDX-License-Identifier: Apache-2.0 */
#include "link/node_script.h"

#include <string.h>

static const char begin[] = "exec /bin/sh -c '", end[] = "'";

/* c: where a parcel is, or will be. */
static void put_place(struct buf *out, const char *id)
{
    buf_printf(out, "c=\"${SCRY_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}}/scry/node/%s\"; ", id);
}

/* f: whether scry was built for such a machine. */
static void put_fits(struct buf *out)
{
    buf_puts(out, "f=differs; test \"$(uname -s) $(uname -m)\" = \"Linux x86_64\" && f=fits; ");
}

/* A path with anything else is left out: it would have to be quoted. */
static bool is_plain(const char *path)
{
    return *path && !path[strspn(path, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/._-+")];
}

/* s: scry, if it is there. Shells that nobody types into often have a short PATH; what is executed keeps it. Does what `found`
 * says with l, the first scry-link that there is: of this very build first. */
static void put_search(struct buf *out, const char *here, const char *found)
{
    buf_puts(out, "s=$(PATH=\"$PATH:$HOME/.local/bin:$HOME/bin:/usr/local/bin:" SCRY_BINDIR ":/opt/scry/bin\"; "
                  "command -v scry) && s=$(readlink -f \"$s\"); "
                  "for l in \"$c/libexec/scry/scry-link\" \"$SCRY_LIBEXEC/scry-link\" ");
    if (is_plain(here))
        buf_printf(out, "%s ", here);
    buf_printf(out,
               "\"${s%%/*}/../libexec/scry/scry-link\"; do "
               "test -f \"$l\" && test -x \"$l\" && %s; done; ",
               found);
}

void node_script_bridge(struct buf *out, const char *id, const char *here)
{
    buf_puts(out, begin);
    put_place(out, id);
    put_search(out, here, "{ touch -c \"$c\" 2>/dev/null; exec \"$l\" bridge; }");
    buf_puts(out, "test -n \"$s\" && exec \"$s\" link bridge; exit 127"); /* wherever it has its programs */
    buf_puts(out, end);
}

/* Other builds that nobody has come to for 30 days, from any machine that shares the directory, and that no process here has
 * in use or hands on. */
static void put_removal(struct buf *out)
{
    buf_puts(out, "touch -c \"$c\"; for o in \"${c%/*}\"/*; do test \"$o\" != \"$c\" && "
                  "test -n \"$(find \"$o\" -maxdepth 0 -mtime +30 2>/dev/null)\" && "
                  "! grep -aqsF \"$o/\" /proc/[0-9]*/maps /proc/[0-9]*/environ && rm -rf \"$o\"; done; ");
}

void node_script_copy(struct buf *out, const char *id)
{
    buf_puts(out, begin);
    put_place(out, id);
    put_fits(out);
    buf_puts(out, "d=\"$c.$$\"; p=libexec/scry; say(){ echo \"" NODE_SCRIPT_COPY "$*\"; }; echo; "
                  "no(){ rm -rf \"$d\"; say \"$@\"; exit 0; }; "
                  "say $f $(uname -s) $(uname -m); read n || exit 0; umask 077; "
                  "e=$({ mkdir -p \"$d\" && head -c \"$n\" | tar xmf - -C \"$d\"; } 2>&1) || no failed $e; "
                  "for f in \"$d\"/$p/scry-*; do "
                  "e=$(LD_TRACE_LOADED_OBJECTS=1 \"$f\" 2>&1 | grep \"not found\") && no lacks ${f##*/} $e; done; "
                  "e=$(\"$d/$p/scry-link\" --version 2>&1) || no failed $e; "
                  "test -d \"$c\" || e=$(mv -T \"$d\" \"$c\" 2>&1); rm -rf \"$d\"; test -x \"$c/$p/scry-link\" || no "
                  "failed $e; ");
    put_removal(out);
    buf_puts(out, "say done");
    buf_puts(out, end);
}

void node_script_look(struct buf *out, const char *id, const char *here)
{
    buf_puts(out, begin);
    put_place(out, id);
    put_fits(out);
    buf_puts(out, "say(){ echo \"" NODE_SCRIPT_LOOK "$*\"; }; echo; say host $(uname -n); "
                  "say $f $(uname -s) $(uname -r) $(uname -m); "
                  "say ptrace $(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null); "
                  "say perf $(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null); say time $(date +%s.%N); ");
    put_search(out, here, "{ say link \"$l\" $(\"$l\" --version 2>&1); break; }");
    buf_puts(out,
             "test -n \"$s\" && say scry \"$s\" $(\"$s\" --version 2>&1); "
             "r=\"${SCRY_RUNTIME_DIR:-${XDG_RUNTIME_DIR:+$XDG_RUNTIME_DIR/scry}}\"; r=\"${r:-/tmp/scry-$(id -u)}\"; "
             "test -S \"$r/monitor.sock\" || test -S \"$r/omis.sock\" && say monitor \"$r\" "
             "$(cat \"$r/monitor.pid\" 2>/dev/null); say end");
    buf_puts(out, end);
}
