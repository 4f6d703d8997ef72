// Takes over the connection that early.js has made. What it has asked already is not
// asked again: when the page asks the same, it is given the answer that is here or on
// its way, and what the server said behind it.

/** A socket for the client, made of early.js's {socket, said, heard}. */
export function handOver({ socket, said, heard }) {
  const OPEN = 1;
  let asked = [...said];      // what the page has not asked yet
  let first = true;
  const ids = new Map();      // early.js's id of a command -> the page's
  const waits = heard;        // what was said by the server and not given on
  const page = { onopen: null, onmessage: null, onclose: null, onerror: null, send, close: (code) => socket.close(code) };

  // In their order, up to the answer to what the page has not asked.
  function give() {
    while (waits.length && page.onmessage) {
      const [re] = /"re":"early-\d+"/.exec(waits[0]) || [];
      const id = re?.slice(6, -1);
      if (asked.some((a) => a.id === id)) return;
      const data = waits.shift();
      if (id === undefined) page.onmessage({ data });
      else if (ids.has(id)) page.onmessage({ data: data.replace(re, `"re":${JSON.stringify(ids.get(id))}`) });
    }
  }

  function send(text) {
    const { type, id, session = '', data } = JSON.parse(text);
    const a = asked[0];
    if (a && a.type === type && a.session === session && a.data === JSON.stringify(data)) {
      asked.shift();
      ids.set(a.id, id);
    } else {
      // Nobody wants the rest; a second hello is against the protocol.
      if (asked.length && first) { socket.close(); return; }
      asked = [];
      socket.send(text);
    }
    first = false;
    queueMicrotask(give);
  }

  socket.onmessage = (m) => { waits.push(m.data); give(); };
  socket.onclose = (c) => page.onclose?.(c);
  socket.onerror = (e) => page.onerror?.(e);
  if (socket.readyState === OPEN) queueMicrotask(() => page.onopen?.());
  else socket.onopen = ((ask) => () => { ask(); asked = [...said]; page.onopen?.(); })(socket.onopen);
  return page;
}
