// Electron Forge: the files of the Node helper and all .node files are unpacked; the C helper is
// copied beside the archive.
module.exports = {
  packagerConfig: {
    asar: { unpack: '{**/node_modules/sidecall/**,**/helper.mjs,**/contract.mjs}' },
    extraResource: ['probe'],
    osxSign: {},
  },
  plugins: [{ name: '@electron-forge/plugin-auto-unpack-natives', config: {} }],
};
