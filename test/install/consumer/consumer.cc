// consumer FILE: an application that keeps its accounts in an SQLite file and tells of what happens to them, with the
// relay inside.

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include <waybill/relay.h>
#include <waybill/sink.h>
#include <waybill/sqlite.h>
#include <waybill/store.h>
#include <waybill/unit_of_work.h>

namespace {

struct Deposited {
  static constexpr std::string_view type_name = "account.deposited";
  int amount = 0;
  std::string to_json() const { return "{\"amount\":" + std::to_string(amount) + "}"; }
  static Deposited from_json(std::string_view json) {
    return {.amount = std::stoi(std::string(json.substr(json.find(':') + 1)))};
  }
};

class Account : public waybill::AggregateRoot {
 public:
  explicit Account(waybill::StreamId stream) : AggregateRoot(std::move(stream)) {}
  void deposit(int amount) { record(Deposited{.amount = amount}); }
  void apply(const waybill::RecordedEvent& event) { balance += Deposited::from_json(event.payload).amount; }

  int balance = 0;
};

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 2, "name a file");
  const auto store = waybill::sqlite_store({.path = argv[1]});
  store->schema()->migrate();
  const auto db = waybill::connect(std::string("sqlite:") + argv[1]);
  const waybill::EventStore events;
  const waybill::StreamId stream{.type = "account", .id = "a-1"};
  for (const int amount : {3, 4})
    waybill::with_retries(*db, [&](waybill::UnitOfWork& work) {
      auto account = waybill::load<Account>(work.connection(), events, stream).value_or(Account(stream));
      account.deposit(amount);
      work.track(account);
      work.commit();
    });
  expect(waybill::load<Account>(*db, events, stream)->balance == 7, "the balance");

  // What the library throws is caught by its type.
  bool conflict = false;
  try {
    const std::vector late{waybill::Event{.topic = "account.closed", .payload = "{}"}};
    events.append(*db, stream, waybill::Expected::version(1), late);
  } catch (const waybill::Conflict& found) {
    conflict = found.actual() == 2;
  }
  expect(conflict, "a conflict");

  int delivered = 0;
  waybill::Relay relay(*store, {.name = "consumer"});
  relay.add({.name = "out"}, waybill::sink_from([&](const waybill::EventView& event) {
              expect(event.version == ++delivered, "the order");
              return waybill::Outcome::Kind::delivered;
            }));
  relay.drain({});
  expect(delivered == 2, "the deliveries");
  std::puts("2 delivered");
}
