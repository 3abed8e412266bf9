const { join } = require('node:path');

module.exports = {
  entry: './bundlers/app.mjs',
  target: 'node',
  mode: 'production',
  output: { path: join(__dirname, '..', 'out', 'webpack'), filename: 'app.cjs' },
};
