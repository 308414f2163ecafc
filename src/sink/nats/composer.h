#pragma once

#include <string>

#include "waybill/event.h"

#include "message/message.h"
#include "message/preview.h"
#include "sink/nats/options.h"

namespace waybill::nats {

// Makes an event into a message for JetStream. One thread at a time.
class Composer {
 public:
  explicit Composer(const NatsOptions& options)
      : subject_(options.subject), encode_(options.encode), stream_(options.stream.name) {}

  // Returns why the event cannot be sent, which is for ever; empty if it can.
  std::string compose(const EventView& event, std::string& subject, Message& message) const;
  // The first half of it.
  std::string address(const EventView& event, std::string& subject) const { return subject_.resolve(subject, event); }

  Preview preview(const EventView& event) const;

 private:
  Address subject_;
  Encoder encode_;
  std::string stream_;
};

}  // namespace waybill::nats
