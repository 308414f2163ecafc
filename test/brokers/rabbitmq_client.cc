#include "brokers/rabbitmq_client.h"

#include <algorithm>
#include <stdexcept>

#include <amqp_framing.h>
#include <amqp_tcp_socket.h>

namespace waybill {
namespace {

amqp_bytes_t bytes(const std::string& text) {
  return {text.size(), const_cast<char*>(text.data())};
}

std::string text(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

bool is_number(const std::string& value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string why(amqp_rpc_reply_t reply) {
  if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) return amqp_error_string2(reply.library_error);
  if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return "no answer";
  if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
    return text(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
  return "the connection was closed";
}

ReadMessage read_message(const amqp_message_t& message) {
  ReadMessage read;
  const amqp_basic_properties_t& properties = message.properties;
  read.id = text(properties.message_id);
  read.body = text(message.body);
  read.type = text(properties.type);
  read.content_type = text(properties.content_type);
  read.delivery_mode = properties.delivery_mode;
  for (int i = 0; i < properties.headers.num_entries; ++i) {
    const amqp_table_entry_t& header = properties.headers.entries[i];
    if (header.value.kind == AMQP_FIELD_KIND_UTF8) read.headers[text(header.key)] = text(header.value.value.bytes);
  }
  return read;
}

}  // namespace

RabbitmqClient::RabbitmqClient(std::uint16_t port, const std::string& vhost) : state_(amqp_new_connection()) {
  amqp_socket_t* socket = amqp_tcp_socket_new(state_);
  if (amqp_socket_open(socket, "127.0.0.1", port) != AMQP_STATUS_OK) throw std::runtime_error("cannot connect");
  check(amqp_login(state_, vhost.c_str(), 0, 131'072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"), "login");
  amqp_channel_open(state_, 1);
  check(amqp_get_rpc_reply(state_), "channel");
}

RabbitmqClient::~RabbitmqClient() {
  amqp_connection_close(state_, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(state_);
}

void RabbitmqClient::check(amqp_rpc_reply_t reply, const std::string& doing) {
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) throw std::runtime_error(doing + ": " + why(reply));
}

void RabbitmqClient::declare_exchange(const std::string& name) {
  amqp_exchange_declare(state_, 1, bytes(name), amqp_cstring_bytes("topic"), 0, 1, 0, 0, amqp_empty_table);
  check(amqp_get_rpc_reply(state_), "exchange " + name);
}

void RabbitmqClient::delete_exchange(const std::string& name) {
  amqp_exchange_delete(state_, 1, bytes(name), 0);
  check(amqp_get_rpc_reply(state_), "delete exchange " + name);
}

void RabbitmqClient::declare_queue(const std::string& name, const Arguments& arguments) {
  std::vector<amqp_table_entry_t> entries;
  for (const auto& [key, value] : arguments) {
    amqp_table_entry_t entry{};
    entry.key = bytes(key);
    if (is_number(value)) {
      entry.value.kind = AMQP_FIELD_KIND_I64;
      entry.value.value.i64 = std::stoll(value);
    } else if (value == "true") {
      entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
      entry.value.value.boolean = 1;
    } else {
      entry.value.kind = AMQP_FIELD_KIND_UTF8;
      entry.value.value.bytes = bytes(value);
    }
    entries.push_back(entry);
  }
  amqp_queue_declare(state_, 1, bytes(name), 0, 1, 0, 0, {static_cast<int>(entries.size()), entries.data()});
  check(amqp_get_rpc_reply(state_), "queue " + name);
}

void RabbitmqClient::delete_queue(const std::string& name) {
  amqp_queue_delete(state_, 1, bytes(name), 0, 0);
  check(amqp_get_rpc_reply(state_), "delete queue " + name);
}

void RabbitmqClient::purge_queue(const std::string& name) {
  amqp_queue_purge(state_, 1, bytes(name));
  check(amqp_get_rpc_reply(state_), "purge queue " + name);
}

long RabbitmqClient::count(const std::string& queue) {
  const amqp_queue_declare_ok_t* found = amqp_queue_declare(state_, 1, bytes(queue), 1, 0, 0, 0, amqp_empty_table);
  check(amqp_get_rpc_reply(state_), "look at queue " + queue);
  const long count = found->message_count;
  amqp_maybe_release_buffers(state_);
  return count;
}

void RabbitmqClient::bind(const std::string& queue, const std::string& exchange, const std::string& key) {
  amqp_queue_bind(state_, 1, bytes(queue), bytes(exchange), bytes(key), amqp_empty_table);
  check(amqp_get_rpc_reply(state_), "bind " + queue);
}

void RabbitmqClient::unbind(const std::string& queue, const std::string& exchange, const std::string& key) {
  amqp_queue_unbind(state_, 1, bytes(queue), bytes(exchange), bytes(key), amqp_empty_table);
  check(amqp_get_rpc_reply(state_), "unbind " + queue);
}

std::optional<ReadMessage> RabbitmqClient::get(const std::string& queue) {
  const amqp_rpc_reply_t reply = amqp_basic_get(state_, 1, bytes(queue), 1);
  check(reply, "get from " + queue);
  if (reply.reply.id != AMQP_BASIC_GET_OK_METHOD) return std::nullopt;
  const std::string key = text(static_cast<amqp_basic_get_ok_t*>(reply.reply.decoded)->routing_key);
  amqp_message_t message;
  check(amqp_read_message(state_, 1, &message, 0), "read");
  ReadMessage read = read_message(message);
  read.routing_key = key;
  amqp_destroy_message(&message);
  amqp_maybe_release_buffers(state_);
  return read;
}

std::vector<ReadMessage> RabbitmqClient::drain(const std::string& queue) {
  std::vector<ReadMessage> messages;
  while (auto message = get(queue)) messages.push_back(std::move(*message));
  return messages;
}

}  // namespace waybill
