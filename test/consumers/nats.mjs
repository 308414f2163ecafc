// nats.mjs --url nats://… --stream NAME --subject PATTERN --envelope NAME --count N
// Makes the stream if it is not there, says "ready", and prints its next N messages, one line of JSON for each.
import {connect} from "nats";

import {options, ready, reportNats} from "./consumer.mjs";

const {url, stream, subject, envelope, count} = options("url", "stream", "subject", "envelope", "count");
const connection = await connect({servers: url});
const manager = await connection.jetstreamManager();
const streams = await manager.streams.list().next();
if (!streams.some(({config}) => config.name === stream)) await manager.streams.add({name: stream, subjects: [subject]});
const consumer = await connection.jetstream().consumers.get(stream, {filterSubjects: subject});
ready();

const messages = await consumer.consume();
let left = count;
for await (const message of messages) {
  reportNats(envelope, message);
  left -= 1;
  if (left === 0) break;
}
await connection.close();
