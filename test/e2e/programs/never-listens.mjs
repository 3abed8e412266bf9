// A program that does not come to listenShared().
console.error('waits for a lock that is not given');
setInterval(() => undefined, 1_000);
