// A text box that grows with its text: Enter sends, Shift+Enter breaks the line,
// and an Enter that ends an input method's composition does neither. In a box of
// many lines by nature (multiline) Enter breaks the line and Ctrl+Enter sends.

import { h, icon } from './dom.js';

/**
 * Returns {element, input, button, value, clear(), refresh(), focus()}.
 * submit(text) gets the trimmed text; if it returns a promise, the box is busy
 * until it ends, and keeps its text unless the promise gives true. more() says
 * whether there is something to send beside the text.
 */
export function composer({ label, placeholder, submit, onInput, more, sendLabel = 'Send', compact = false, multiline = false, value = '', id, onEscape }) {
  let busy = false;
  let taken = false; // an Enter that is down was used for sending
  const input = h('textarea', { rows: 1, placeholder, 'aria-label': label, class: 'composer-input', id, dir: 'auto', enterkeyhint: multiline ? 'enter' : 'send', autocomplete: 'off', spellcheck: multiline ? 'false' : null });
  const button = h('button', { type: 'button', class: 'send', 'aria-label': sendLabel, title: `${sendLabel} (${multiline ? 'Ctrl+Enter' : 'Enter'})`, onclick: () => go() }, compact ? sendLabel : icon('send'));
  const element = h('div', { class: `composer${compact ? ' compact' : ''}${multiline ? ' multiline' : ''}` }, input, button);
  input.value = value;

  // The height follows the text up to the style sheet's max-height; from there
  // on the box scrolls.
  function grow() {
    if (!input.offsetParent) { input.style.height = ''; return; } // nothing to measure while it is hidden
    input.style.height = 'auto';
    const border = input.offsetHeight - input.clientHeight;
    input.style.height = `${input.scrollHeight + border}px`;
    const max = parseFloat(getComputedStyle(input).maxHeight) || Infinity;
    input.style.overflowY = input.scrollHeight + border > max ? 'auto' : 'hidden';
  }
  const nothing = (text) => !text && !more?.();
  function refresh() { button.disabled = busy || nothing(input.value.trim()); }
  async function go() {
    const text = input.value.trim();
    if (nothing(text) || busy) return;
    busy = true;
    if (document.activeElement === button) input.focus(); // a disabled button would lose the focus
    refresh();
    try {
      if (await submit(text)) clear();
    } finally {
      busy = false; refresh();
    }
  }
  function clear() { input.value = ''; grow(); refresh(); onInput?.(''); }

  input.addEventListener('input', () => { grow(); refresh(); onInput?.(input.value); });
  input.addEventListener('keydown', (e) => {
    // 229 is what some browsers report for the Enter that ends a composition.
    if (e.isComposing || e.keyCode === 229) return;
    const ctrl = e.ctrlKey || e.metaKey;
    taken = e.key === 'Enter' && !e.shiftKey && !e.altKey && ctrl === multiline;
    if (taken) { e.preventDefault(); go(); }
    else if (e.key === 'Escape' && onEscape) { e.stopPropagation(); onEscape(); }
  });
  // Some keyboards deliver the line break although its key was taken.
  input.addEventListener('beforeinput', (e) => { if (taken && e.inputType === 'insertLineBreak') e.preventDefault(); });
  input.addEventListener('keyup', () => { taken = false; });
  // Measured once it is in the document.
  requestAnimationFrame(() => { if (element.isConnected) { grow(); refresh(); } });
  refresh();
  return {
    element, input, button, clear, refresh: () => { grow(); refresh(); },
    focus: () => input.focus(),
    get value() { return input.value; },
    set value(text) { input.value = text; grow(); refresh(); },
  };
}
