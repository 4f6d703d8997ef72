// Runs before the first paint, so that a chosen theme does not flash.
(() => {
  let theme = '';
  try { theme = localStorage.getItem('parley.theme') || ''; } catch { /* storage is off: follow the system */ }
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
})();
