#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "http/message.h"
#include "sink/stream/hub.h"

namespace waybill::stream {

// One client's answer: the frames the hub has for it, and a sign of life when there are none for a while.
class ClientSource final : public http::Source {
 public:
  ClientSource(std::shared_ptr<Hub> hub, ClientPtr client, std::chrono::milliseconds heartbeat);
  ~ClientSource() override;
  ClientSource(const ClientSource&) = delete;
  ClientSource& operator=(const ClientSource&) = delete;

  std::optional<http::Response> open() override;
  http::Pull pull(std::span<char> out) override;

 private:
  std::size_t copy(std::span<char> out);
  void say(std::string text);

  const std::shared_ptr<Hub> hub_;
  const ClientPtr client_;
  const std::chrono::milliseconds heartbeat_;
  bool greeted_ = false;
  std::string announced_;  // The place the client was told last: where it will resume.
  Steady silent_since_{};
  std::shared_ptr<const std::string> text_;  // Being sent;
  std::string_view rest_;                    // what of it is left.
};

}  // namespace waybill::stream
