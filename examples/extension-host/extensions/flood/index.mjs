// Sends log lines, progress and storage requests as fast as it can.
export function activate({ commands, log, storage, withProgress }) {
  commands.register('flood.start', () => {
    const ignore = () => undefined;
    setInterval(() => {
      for (let at = 0; at < 2_000; at += 1) {
        log(`flood ${'x'.repeat(200)}`).catch(ignore);
        storage.set(`key ${at}`, 'x'.repeat(2_000)).catch(ignore);
      }
      withProgress('flood', (report) => report(1, 2)).catch(ignore);
    }, 1);
    return 'flooding';
  });
}
