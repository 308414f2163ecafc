#include "consume/rabbitmq/rabbitmq_link.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "broker/rabbitmq/declare.h"

namespace waybill::rabbitmq {
namespace {

constexpr std::string_view delivery_count = "x-delivery-count";  // Of quorum queues: how often it came back.

// Nothing for what is no single value.
std::optional<std::string> field_text(const amqp_field_value_t& field) {
  const auto& value = field.value;
  switch (field.kind) {
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
      return std::string(text_of(value.bytes));
    case AMQP_FIELD_KIND_BOOLEAN:
      return value.boolean ? "true" : "false";
    case AMQP_FIELD_KIND_I8:
      return std::to_string(value.i8);
    case AMQP_FIELD_KIND_U8:
      return std::to_string(value.u8);
    case AMQP_FIELD_KIND_I16:
      return std::to_string(value.i16);
    case AMQP_FIELD_KIND_U16:
      return std::to_string(value.u16);
    case AMQP_FIELD_KIND_I32:
      return std::to_string(value.i32);
    case AMQP_FIELD_KIND_U32:
      return std::to_string(value.u32);
    case AMQP_FIELD_KIND_I64:
      return std::to_string(value.i64);
    case AMQP_FIELD_KIND_U64:
    case AMQP_FIELD_KIND_TIMESTAMP:
      return std::to_string(value.u64);
    case AMQP_FIELD_KIND_F32:
      return fmt::format("{}", value.f32);
    case AMQP_FIELD_KIND_F64:
      return fmt::format("{}", value.f64);
    default:
      return std::nullopt;
  }
}

void count_deliveries(Incoming& incoming, const Header& header) {
  std::int64_t before = 0;
  std::from_chars(header.value.data(), header.value.data() + header.value.size(), before);
  // A publisher may have written anything there.
  if (before >= 0 && before < std::numeric_limits<std::int64_t>::max())
    incoming.deliveries = std::max(incoming.deliveries, before + 1);
}

}  // namespace

void take_properties(Incoming& incoming, const amqp_basic_properties_t& properties) {
  const auto text = [&](amqp_flags_t flag, amqp_bytes_t property) {
    return properties._flags & flag ? std::string(text_of(property)) : std::string();
  };
  incoming.id = text(AMQP_BASIC_MESSAGE_ID_FLAG, properties.message_id);
  incoming.type = text(AMQP_BASIC_TYPE_FLAG, properties.type);
  incoming.content_type = text(AMQP_BASIC_CONTENT_TYPE_FLAG, properties.content_type);
  incoming.correlation_id = text(AMQP_BASIC_CORRELATION_ID_FLAG, properties.correlation_id);
  // Of what is no time, or beyond any, nothing is taken.
  constexpr std::uint64_t seconds_max = std::uint64_t{1} << 40U;
  if (properties._flags & AMQP_BASIC_TIMESTAMP_FLAG && properties.timestamp < seconds_max)
    incoming.timestamp = Time(std::chrono::seconds(properties.timestamp));
  if (!(properties._flags & AMQP_BASIC_HEADERS_FLAG)) return;
  for (int i = 0; i < properties.headers.num_entries; ++i) {
    const amqp_table_entry_t& entry = properties.headers.entries[i];
    auto value = field_text(entry.value);
    if (!value) continue;
    incoming.headers.push_back({.name = std::string(text_of(entry.key)), .value = std::move(*value)});
    if (incoming.headers.back().name == delivery_count) count_deliveries(incoming, incoming.headers.back());
  }
}

RabbitmqLink::RabbitmqLink(const RabbitmqSourceOptions& options, const RabbitmqServers& servers, const net::Host& host,
                           const net::Patience& patience, Steady deadline)
    : options_(options), connection_(servers, host, patience, deadline) {
  connection_.open_channel(deadline);
  if (options.declare.on) {
    declare(deadline);
  } else {
    look_for_queue(connection_, options.queue, "make it, or let Waybill do so: declare.on = true", deadline);
  }
  subscribe(deadline);
}

void RabbitmqLink::declare(Steady deadline) {
  const RabbitmqQueueDeclare& wanted = options_.declare;
  const std::string dead = wanted.dead_letter_queue.empty() ? options_.queue + ".dead" : wanted.dead_letter_queue;
  std::vector<QueueArgument> arguments{{.name = "x-queue-type", .value = std::string_view(wanted.queue_type)}};
  declare_queue(connection_, dead, true, arguments, deadline);
  // By the broker's default exchange, whose routing keys are names of queues.
  arguments.push_back({.name = "x-dead-letter-exchange", .value = std::string_view()});
  arguments.push_back({.name = "x-dead-letter-routing-key", .value = std::string_view(dead)});
  if (wanted.single_active_consumer) arguments.push_back({.name = "x-single-active-consumer", .value = true});
  if (wanted.delivery_limit > 0) arguments.push_back({.name = "x-delivery-limit", .value = wanted.delivery_limit});
  declare_queue(connection_, options_.queue, true, arguments, deadline);
  if (wanted.exchange.empty()) return;
  declare_exchange(connection_, wanted.exchange, wanted.exchange_type, true, deadline);
  if (wanted.bindings.empty()) bind_queue(connection_, options_.queue, wanted.exchange, "#", deadline);
  for (const std::string& key : wanted.bindings)
    bind_queue(connection_, options_.queue, wanted.exchange, key, deadline);
}

void RabbitmqLink::subscribe(Steady deadline) {
  amqp_basic_qos_t limit{};
  limit.prefetch_count = options_.prefetch;
  auto refusal = connection_.ask(AMQP_BASIC_QOS_METHOD, &limit, AMQP_BASIC_QOS_OK_METHOD, deadline);
  amqp_basic_consume_t consume{};
  consume.queue = bytes_of(options_.queue);
  if (!refusal) refusal = connection_.ask(AMQP_BASIC_CONSUME_METHOD, &consume, AMQP_BASIC_CONSUME_OK_METHOD, deadline);
  if (refusal)
    throw Error(remedy_of(*refusal),
                fmt::format("{}: queue '{}' cannot be read: {}; give user '{}' the permission to read it",
                            connection_.where(), options_.queue, describe(*refusal), connection_.user()));
}

void RabbitmqLink::accept(std::uint64_t number) {
  if (open_ > 0) --open_;
  amqp_basic_ack_t ack{};
  ack.delivery_tag = number;
  connection_.writer().append_method(connection_.output().end(), Connection::channel, AMQP_BASIC_ACK_METHOD, &ack);
}

// The reason is in our log: the protocol has no place for it.
void RabbitmqLink::reject(std::uint64_t number, const std::string& /*reason*/) {
  if (open_ > 0) --open_;
  amqp_basic_reject_t reject{};
  reject.delivery_tag = number;
  reject.requeue = 0;
  connection_.writer().append_method(connection_.output().end(), Connection::channel, AMQP_BASIC_REJECT_METHOD,
                                     &reject);
}

void RabbitmqLink::work(std::vector<Incoming>& come, Steady now) {
  connection_.flush();
  amqp_frame_t frame{};
  while (connection_.next(frame)) take(frame, come);
  connection_.attend(now);
}

void RabbitmqLink::take(const amqp_frame_t& frame, std::vector<Incoming>& come) {
  if (frame.frame_type == AMQP_FRAME_METHOD) return take_method(frame.payload.method);
  if (!arriving_) return;  // A message that was returned: nothing is published here.
  if (frame.frame_type == AMQP_FRAME_HEADER) {
    take_header(*arriving_, frame);
  } else if (frame.frame_type == AMQP_FRAME_BODY) {
    const std::string_view part = text_of(frame.payload.body_fragment);
    if (arriving_->unreadable.empty()) arriving_->body += part;
    body_left_ -= part.size();
  }
  if (body_left_ > 0) return;
  come.push_back(std::move(*arriving_));
  arriving_.reset();
}

void RabbitmqLink::take_header(Incoming& incoming, const amqp_frame_t& frame) {
  body_left_ = frame.payload.properties.body_size;
  if (const auto* properties = static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded)) {
    take_properties(incoming, *properties);
  } else {
    incoming.unreadable = "the message cannot be read: its properties are not those of AMQP 0-9-1";
  }
  if (body_left_ > options_.message_bytes_max)
    incoming.unreadable = fmt::format(
        "the message cannot be read: it has {} bytes, and at most {} are taken in "
        "(message_bytes_max)",
        body_left_, options_.message_bytes_max);
}

void RabbitmqLink::take_deliver(const amqp_basic_deliver_t& deliver) {
  if (++open_ > options_.prefetch)
    throw Error(Remedy::retry, fmt::format("{}: hands out more messages at once than prefetch allows, {}",
                                           connection_.where(), options_.prefetch));
  arriving_ = Incoming{.ticket = deliver.delivery_tag,
                       .address = std::string(text_of(deliver.routing_key)),
                       .deliveries = deliver.redelivered ? 2 : 1};
}

void RabbitmqLink::take_method(const amqp_method_t& method) {
  if (method.id == AMQP_BASIC_DELIVER_METHOD) {
    take_deliver(*static_cast<const amqp_basic_deliver_t*>(method.decoded));
  } else if (method.id == AMQP_BASIC_CANCEL_METHOD) {
    throw Error(Remedy::retry,
                fmt::format("{}: hands out nothing more of queue '{}': it was deleted, or the node that it was on is "
                            "gone",
                            connection_.where(), options_.queue));
  } else if (method.id == AMQP_CHANNEL_CLOSE_METHOD) {
    const auto& close = *static_cast<const amqp_channel_close_t*>(method.decoded);
    throw Error(Remedy::retry,
                fmt::format("{}: channel closed by the broker: {}", connection_.where(),
                            describe({.code = close.reply_code, .text = std::string(text_of(close.reply_text))})));
  }
}

}  // namespace waybill::rabbitmq
