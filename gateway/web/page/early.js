// Runs before the first paint and before the modules are there: a chosen theme does not
// flash, and the connection is made while they are on their way. connection.js takes it over.
(() => {
  let theme = '';
  try { theme = localStorage.getItem('parley.theme') || ''; } catch { /* storage is off: follow the system */ }
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
  try { globalThis.earlySocket = new WebSocket(`${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}/ws`, 'parley.v1'); } catch { /* then later */ }
})();
