// Runs before the first paint and before the modules are there: a chosen theme does not
// flash, and the connection is made while they are on their way. It asks at once what the
// page will ask, in the same words; handover.js gives the answers to it.
(() => {
  const stored = (storage, key) => { try { return globalThis[storage].getItem(key) || ''; } catch { return ''; /* storage is off */ } };
  const theme = stored('localStorage', 'parley.theme');
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;

  let socket;
  try { socket = new WebSocket(`${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}/ws`, 'parley.v1'); } catch { return; /* then later */ }
  const early = globalThis.early = { socket, said: [], heard: [] };
  const say = (type, session, data) => {
    const id = `early-${early.said.length}`;
    early.said.push({ id, type, session, data: JSON.stringify(data) });
    socket.send(JSON.stringify({ type, id, ...(session ? { session } : {}), data }));
  };
  socket.onmessage = (m) => early.heard.push(m.data);
  socket.onopen = () => {
    const token = stored('sessionStorage', 'parley.token');
    say('hello', '', { proto: 1, client: { name: 'parley-page', version: '1' }, caps: ['deltas'], ...(token ? { token } : {}) });
    let session = '';
    try { session = decodeURIComponent(/^#\/s\/([^/]+)/.exec(location.hash)?.[1] || ''); } catch { /* no name of a conversation */ }
    if (session) say('follow', session, { tail: 200 });
    say('watch', '', {});
  };
})();
