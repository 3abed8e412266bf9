// The service, from the .proto file in this folder. Load only .proto files that you trust.
import { fileURLToPath } from 'node:url';
import protobufjs from 'protobufjs';
import { protobufService } from 'sidecall/protobuf';

const path = fileURLToPath(new URL('quote.proto', import.meta.url));
const root = await protobufjs.load(path);
export const QuoteOfTheDay = protobufService(root.lookupService('quote.QuoteOfTheDay'));
