// backlog.mjs --url amqp://…|nats://… --name NAME --envelope NAME --count N
// Prints how many messages the queue or the stream of that name has, and then the first N of them, one line of JSON for
// each. RabbitMQ's are taken from the queue thereby.
import {connect as connectRabbitmq} from "amqplib";
import {connect as connectNats} from "nats";

import {options, reportAmqp, reportNats} from "./consumer.mjs";

async function queue({url, name, envelope, count}) {
  const connection = await connectRabbitmq(url);
  const channel = await connection.createChannel();
  console.log((await channel.checkQueue(name)).messageCount);
  if (count > 0) {
    await channel.prefetch(1000);
    let left = count;
    await new Promise((resolve) => channel.consume(name, (delivery) => {
      if (left === 0) return;
      reportAmqp(envelope, delivery);
      channel.ack(delivery);
      left -= 1;
      if (left === 0) resolve();
    }));
    await channel.close();
  }
  await connection.close();
}

async function stream({url, name, envelope, count}) {
  const connection = await connectNats({servers: url});
  const {state} = await (await connection.jetstreamManager()).streams.info(name);
  console.log(state.messages);
  if (count > 0) {
    const consumer = await connection.jetstream().consumers.get(name);
    let left = count;
    for await (const message of await consumer.consume()) {
      reportNats(envelope, message);
      left -= 1;
      if (left === 0) break;
    }
  }
  await connection.close();
}

const given = options("url", "name", "envelope", "count");
await (given.url.startsWith("amqp:") ? queue : stream)(given);
