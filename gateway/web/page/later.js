// The parts of the page that come behind the others; lazy.js loads them.

import './notify.js';
import './search.js';

export { askKey, confirmed, showCall } from './dialogs.js';
export { save } from './export.js';
export { archive, pin, remove, retitle } from './manage.js';
export { openPalette } from './palette.js';
export { openPanel } from './panel.js';
export { openSheet } from './sheet.js';
export { Tasks } from './tasks.js';
export { showFile } from './viewer.js';
