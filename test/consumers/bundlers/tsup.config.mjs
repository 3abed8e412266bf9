export default { format: ['cjs', 'esm'], noExternal: [/.*/], outDir: 'out/tsup', silent: true };
