export default {
  ssr: { noExternal: true },
  build: { outDir: 'out/vite', rollupOptions: { output: { entryFileNames: 'app.mjs' } } },
  logLevel: 'warn',
};
