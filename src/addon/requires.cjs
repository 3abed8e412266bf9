// SPDX-License-Identifier: MIT
// The requires of the addon. CommonJS, with literal paths: bundlers and file tracers follow these,
// and do not see `createRequire`.
'use strict';

/** The addon of each platform that the package carries. */
exports.prebuilt = {
  'linux-x64': () => require('../../prebuilds/linux-x64/sidecall.node'),
  'linux-arm64': () => require('../../prebuilds/linux-arm64/sidecall.node'),
  'linux-x64-musl': () => require('../../prebuilds/linux-x64-musl/sidecall.node'),
  'linux-arm64-musl': () => require('../../prebuilds/linux-arm64-musl/sidecall.node'),
  'darwin-x64': () => require('../../prebuilds/darwin-x64/sidecall.node'),
  'darwin-arm64': () => require('../../prebuilds/darwin-arm64/sidecall.node'),
};

/** An addon by its path. */
exports.fromFile = (file) => require(file);

/** Where an addon was loaded from: its own path also in a bundle, which may have moved it. */
exports.fileOf = (addon) =>
  Object.keys(require.cache).find((file) => require.cache[file].exports === addon);

/** The addon that a checkout of the project builds. */
exports.checkoutFile = () =>
  require('node:path').join(__dirname, '..', '..', 'build', 'Release', 'sidecall.node');
