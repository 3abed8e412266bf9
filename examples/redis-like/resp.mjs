// Commands of RESP, as clients of redis send them: `*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n`. Lengths are
// bounded before memory is taken.
const bytesMax = 1024 * 1024;
const argumentsMax = 64;

/** The commands in a stream of bytes, each as a list of texts. */
export async function* commandsIn(stream) {
  let rest = Buffer.alloc(0);
  for await (const chunk of stream) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    for (;;) {
      const found = commandAt(rest);
      if (found === undefined) break;
      rest = rest.subarray(found.end);
      yield found.words;
    }
    if (rest.length > bytesMax * 2) throw new Error('too long a command');
  }
}

/** The first command; undefined: it is not whole. */
function commandAt(bytes) {
  const head = lineAt(bytes, 0);
  if (head === undefined) return undefined;
  const count = lengthOf(head.text, '*', argumentsMax);
  const words = [];
  let at = head.end;
  for (let left = count; left > 0; left -= 1) {
    const line = lineAt(bytes, at);
    if (line === undefined) return undefined;
    const length = lengthOf(line.text, '$', bytesMax);
    at = line.end + length + 2;
    if (bytes.length < at) return undefined;
    words.push(bytes.toString('utf8', line.end, line.end + length));
  }
  return { words, end: at };
}

function lineAt(bytes, from) {
  const end = bytes.indexOf('\r\n', from);
  if (end === -1 && bytes.length - from > 32) throw new Error('no line where a length is due');
  return end === -1 ? undefined : { text: bytes.toString('latin1', from, end), end: end + 2 };
}

function lengthOf(text, kind, most) {
  const length = Number(text.slice(1));
  if (text[0] === kind && /^.\d{1,9}$/.test(text) && length <= most) return length;
  throw new Error(`invalid length '${text.slice(0, 32)}'`);
}
