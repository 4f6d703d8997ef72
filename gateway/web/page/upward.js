// Notices that somebody wants to see what stands above: by wheel or touchpad, by the
// keyboard, by a finger. That is known before anything has moved, so that a page that
// grows at its end does not take them back with each word.

const KEYS = new Set(['ArrowUp', 'PageUp', 'Home']);
const editable = (e) => e.matches?.('input, textarea, select, [contenteditable]');

/** Calls f when somebody is about to scroll up in scroller, and held(on) when fingers are on it and when they have left it. */
export function onUpward(scroller, f, held) {
  const up = () => { if (scroller.scrollTop > 0) f(); }; // else there is nothing above
  scroller.addEventListener('wheel', (e) => { if (e.deltaY < 0 && !e.ctrlKey) up(); }, { passive: true });
  // Of what a finger does while it scrolls the browser tells little, and late. So nothing may
  // move under it; where it has gone is seen by what it has scrolled.
  const touched = (e) => held(e.touches.length > 0);
  scroller.addEventListener('touchstart', (e) => {
    touched(e);
    // What was touched may leave the page while a finger is on it; it is still told the end.
    for (const type of ['touchend', 'touchcancel']) e.target.addEventListener(type, touched, { passive: true, once: true });
  }, { passive: true });
  // The keys scroll what has the focus, and where nothing has it, what was touched last.
  document.addEventListener('keydown', (e) => {
    if (e.defaultPrevented || e.altKey || editable(e.target) || !(e.target === document.body || scroller.contains(e.target))) return;
    if (KEYS.has(e.key) || (e.key === ' ' && e.shiftKey)) up();
  });
}
