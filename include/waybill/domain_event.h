#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "waybill/api.h"
#include "waybill/error.h"
#include "waybill/event.h"

// Events as C++ types, for those who write them and for those who read them.
namespace WAYBILL_API waybill {

// What happened, as a type of the application's own:
//
//   struct OrderPlaced {
//     static constexpr std::string_view type_name = "order.placed";
//     static constexpr int schema_version = 2;             // may be left out: 1
//     static constexpr std::string_view topic = "orders";  // may be left out: the type name
//     std::string order;
//     std::string to_json() const;
//     static OrderPlaced from_json(std::string_view json);  // for those who read
//   };
template <typename E>
concept DomainEvent = requires(const E& event) {
  { E::type_name } -> std::convertible_to<std::string_view>;
  { event.to_json() } -> std::convertible_to<std::string>;
};
template <typename E>
concept ReadableEvent = DomainEvent<E> && requires(std::string_view json) {
  { E::from_json(json) } -> std::convertible_to<E>;
};

template <typename E>
constexpr std::int32_t schema_version_of() {
  if constexpr (requires { E::schema_version; }) {
    return E::schema_version;
  } else {
    return 1;
  }
}
template <typename E>
constexpr std::string_view topic_of() {
  if constexpr (requires { E::topic; }) {
    return E::topic;
  } else {
    return E::type_name;
  }
}

// The event as it is enqueued, with an id, the time and the current EventContext; its aggregate and version are the
// caller's to fill in.
template <DomainEvent E>
Event to_event(const E& event);

// The stream of one aggregate.
struct StreamId {
  std::string type{};  // of the aggregate
  std::string id{};
  std::string tenant = "default";

  friend auto operator<=>(const StreamId&, const StreamId&) = default;
};

// An event as one who reads it gets it: from a stream, or from a broker.
struct RecordedEvent {
  EventId id{};
  StreamId stream{};
  std::int64_t version = 0;   // 1, 2, 3, … in its stream, without a gap; 0: unknown.
  std::int64_t position = 0;  // In the event store. Unique, but not the order of commits: never a cursor by itself.
  std::string topic{};
  std::string type{};
  std::string payload{};
  bool payload_is_json = true;
  std::string metadata{};  // a JSON object
  std::string schema_id{};
  std::optional<std::int32_t> schema_version{};
  Time occurred_at{};
  Time recorded_at{};
};

// Nobody has said what to do with events of this type.
class UnknownType : public Error {
 public:
  explicit UnknownType(const std::string& type);
  const std::string& type() const noexcept { return type_; }

 private:
  std::string type_;
};

namespace detail {
[[noreturn]] void throw_form(const RecordedEvent& event, std::int32_t wanted);
}

// From the type names of events to C++ types, and to what is done with them.
//
//   EventHandlers<Connection&> handlers;
//   handlers.upcast("order.placed", 1, add_currency)
//       .on<OrderPlaced>([](const OrderPlaced& placed, const RecordedEvent& event, Connection& db) { … });
//   handlers.handle(event, db);
template <typename... Context>
class EventHandlers {
 public:
  template <ReadableEvent E, std::invocable<const E&, const RecordedEvent&, Context...> Handle>
  EventHandlers& on(Handle handle) {
    const auto [at, is_new] = known_.try_emplace(std::string(E::type_name));
    if (!is_new) throw Error(Remedy::fix_input, "events of type '" + at->first + "' have a handler already");
    at->second = {
        .handle = [handle = std::move(handle)](
                      const std::string& payload, const RecordedEvent& event,
                      Context... context) { handle(E::from_json(payload), event, std::forward<Context>(context)...); },
        .schema_version = schema_version_of<E>()};
    return *this;
  }

  // Payloads of `type` in form `from` are turned into form `from` + 1 before they are read, step by step.
  EventHandlers& upcast(std::string type, std::int32_t from,
                        std::function<std::string(std::string_view json)> to_next) {
    upcasters_[{std::move(type), from}] = std::move(to_next);
    return *this;
  }

  // Types of which nobody has heard are passed over, and do not throw.
  EventHandlers& ignore_others() {
    ignores_others_ = true;
    return *this;
  }

  bool ignores_others() const { return ignores_others_; }

  // False: it was passed over. Throws UnknownType, and Error(fix_input) if the payload is in a form from which there is
  // no way to ours: newer, or without an upcaster.
  bool handle(const RecordedEvent& event, Context... context) const {
    const auto known = known_.find(event.type);
    if (known == known_.end()) {
      if (ignores_others_) return false;
      throw UnknownType(event.type);
    }
    known->second.handle(in_form(event, known->second.schema_version), event, std::forward<Context>(context)...);
    return true;
  }

  std::vector<std::string> types() const {
    std::vector<std::string> names;
    for (const auto& [name, known] : known_) names.push_back(name);
    return names;
  }

 private:
  using Handle = std::function<void(const std::string& payload, const RecordedEvent&, Context...)>;
  struct Known {
    Handle handle{};
    std::int32_t schema_version = 1;
  };

  std::string in_form(const RecordedEvent& event, std::int32_t wanted) const {
    std::string payload = event.payload;
    for (std::int32_t form = event.schema_version.value_or(1); form != wanted; ++form) {
      const auto step = upcasters_.find({event.type, form});
      if (form > wanted || step == upcasters_.end()) detail::throw_form(event, wanted);
      payload = step->second(payload);
    }
    return payload;
  }

  std::map<std::string, Known, std::less<>> known_;
  std::map<std::pair<std::string, std::int32_t>, std::function<std::string(std::string_view)>> upcasters_;
  bool ignores_others_ = false;
};

// What an application's events have in common while something is done: who asks, and because of what. Becomes a part of
// the metadata of every event that is recorded in its scope, under the names of its fields, and its trace context
// headers.
struct EventContext {
  std::string source{};          // the service
  std::string correlation_id{};  // of all that follows from one request; also a header, correlation-id
  std::string causation_id{};    // of what this follows from directly
  std::string actor{};           // the person
  std::string traceparent{};     // W3C; a header, as is the next
  std::string tracestate{};
};

// Makes `inner` the context of this thread until the end of the scope; fields that are empty are those of the scope
// around, but for the tracestate of another traceparent. Throws Error(fix_input) if a field is not UTF-8.
class EventContextScope {
 public:
  explicit EventContextScope(const EventContext& inner);
  EventContextScope(const EventContextScope&) = delete;
  EventContextScope& operator=(const EventContextScope&) = delete;
  ~EventContextScope();

  static const EventContext& current();

 private:
  EventContext before_;
};

// Adds the current context to an event; what the event has already is kept.
void add_context(Event& event);

namespace detail {
// `payload` as an event of now.
Event new_event(std::string_view topic, std::string_view type, std::int32_t schema_version, std::string payload);
}  // namespace detail

template <DomainEvent E>
Event to_event(const E& event) {
  return detail::new_event(topic_of<E>(), E::type_name, schema_version_of<E>(), event.to_json());
}

}  // namespace waybill
