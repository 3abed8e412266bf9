// A package that is too old is refused where the adapter is imported.
import assert from 'node:assert/strict';

await assert.rejects(import('sidecall/grpc'), /needs @grpc\/grpc-js 1\.11 or later/);
console.log('refused with words');
