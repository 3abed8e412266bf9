// A client of generations, which is stopped for a while. Argument: the path.
import { connect, service, unary } from '../../../dist/index.js';

const Count = service('Count', { take: unary(), where: unary() });
const connection = await connect({ path: process.argv[2], reconnect: true });
const client = connection.client(Count);
console.log(JSON.stringify({ where: await client.where() }));
let where = 1;
while (where === 1) {
  where = await client.where().catch(() => 1);
  await new Promise((resolve) => setTimeout(resolve, 5));
}
console.log(JSON.stringify({ where }));
await connection.close();
