#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <amqp.h>

namespace waybill {

// What a consumer sees.
struct ReadMessage {
  std::string id{};
  std::string body{};
  std::string routing_key{};
  std::string type{};
  std::string content_type{};
  int delivery_mode = 0;
  std::map<std::string, std::string> headers{};
};

// The other side, by librabbitmq's own connections: none of our code. What fails throws.
class RabbitmqClient {
 public:
  explicit RabbitmqClient(std::uint16_t port, const std::string& vhost = "/");
  ~RabbitmqClient();
  RabbitmqClient(const RabbitmqClient&) = delete;
  RabbitmqClient& operator=(const RabbitmqClient&) = delete;

  using Arguments = std::map<std::string, std::string>;  // Numbers go as numbers, "true" as true.
  void declare_exchange(const std::string& name);
  void delete_exchange(const std::string& name);
  void declare_queue(const std::string& name, const Arguments& arguments = {{"x-queue-type", "quorum"}});
  void delete_queue(const std::string& name);
  void purge_queue(const std::string& name);
  // How many messages are in it, none of them with a consumer.
  long count(const std::string& queue);
  void bind(const std::string& queue, const std::string& exchange, const std::string& key);
  void unbind(const std::string& queue, const std::string& exchange, const std::string& key);

  // The next message of the queue, which is thereby taken; nothing if it is empty.
  std::optional<ReadMessage> get(const std::string& queue);
  // All there are.
  std::vector<ReadMessage> drain(const std::string& queue);

 private:
  void check(amqp_rpc_reply_t reply, const std::string& doing);

  amqp_connection_state_t state_;
};

}  // namespace waybill
