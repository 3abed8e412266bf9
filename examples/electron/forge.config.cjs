// Electron Forge: what a helper runs is unpacked, and so is what ends with .node; the C helper goes
// beside the archive.
module.exports = {
  packagerConfig: {
    asar: { unpack: '{**/node_modules/sidecall/**,**/helper.mjs,**/contract.mjs}' },
    extraResource: ['probe'],
    osxSign: {},
  },
  plugins: [{ name: '@electron-forge/plugin-auto-unpack-natives', config: {} }],
};
