// rabbitmq.mjs --url amqp://… --exchange NAME --exchange-type topic|fanout --key PATTERN --envelope NAME --count N
// Declares the exchange and a queue of its own, says "ready", and prints the next N messages, one line of JSON for each.
import {connect} from "amqplib";

import {options, ready, reportAmqp} from "./consumer.mjs";

const {url, exchange, "exchange-type": type, key, envelope, count} =
  options("url", "exchange", "exchange-type", "key", "envelope", "count");
const connection = await connect(url);
const channel = await connection.createChannel();
await channel.assertExchange(exchange, type, {durable: true});
const {queue} = await channel.assertQueue("", {exclusive: true});
await channel.bindQueue(queue, exchange, key);

let left = count;
await channel.consume(queue, async (delivery) => {
  if (left === 0) return;
  reportAmqp(envelope, delivery);
  channel.ack(delivery);
  left -= 1;
  if (left > 0) return;
  await channel.close();
  await connection.close();
});
ready();
