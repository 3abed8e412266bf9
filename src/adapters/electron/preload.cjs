// SPDX-License-Identifier: MIT
// `sidecall/electron/preload`, for `webPreferences.preload` of a sandboxed page. It hands the page
// a port to main and is not heard of again: nothing of Electron reaches the page.
'use strict';
const { contextBridge, ipcRenderer } = require('electron');

ipcRenderer.on('sidecall:port', (event, token) => {
  window.postMessage({ type: 'sidecall:port', token }, '*', event.ports); // to this very window
});
contextBridge.exposeInMainWorld('sidecall', {
  connect: (name, token) => ipcRenderer.send('sidecall:connect', String(name), String(token)),
});
