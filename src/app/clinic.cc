#include "app/clinic.h"

#include <array>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sqlite3.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"

namespace waybill::app {
namespace {

struct Patient {
  std::string id;
  std::string name;
  std::int64_t version = 0;
};

constexpr std::array names{"Ada", "Ben", "Chloé", "Dmitri", "Elif", "Farah", "Goran", "Hana", "Ines", "Jamal"};

}  // namespace

class Clinic::Impl {
 public:
  Impl(const std::string& path, std::uint64_t seed) : connection_(nullptr, &sqlite3_close), random_(seed) {
    sqlite3* raw = nullptr;
    sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE, nullptr);
    connection_.reset(raw);
    sqlite3_busy_timeout(raw, 5'000);
    run("PRAGMA synchronous = NORMAL");
    run("CREATE TABLE IF NOT EXISTS visit (patient TEXT PRIMARY KEY, state TEXT NOT NULL, version INTEGER NOT NULL)");
  }

  void step() {
    if (patients_ == 0) return open_doors();
    switch (chance(10)) {
      case 0:
      case 1:
      case 2:
        return check_in();
      case 3:
      case 4:
        return at_the_cashier();
      case 5:
      case 6:
        return call_in();
      case 7:
        return finish();
      case 8:
        return leave_early();
      default:
        return change_room();
    }
  }

 private:
  void open_doors() {
    announce("mail.opening", {"clinic", "north"}, R"({"subject":"We are open","body":"Good morning, everybody."})");
    check_in();
  }

  void check_in() {
    if (waiting_.size() + paid_.size() + inside_.size() > 40) return finish();
    Patient patient{.id = fmt::format("p-{}", ++patients_), .name = names[chance(names.size())]};
    happened(patient, "patient.checked-in", fmt::format(R"(,"queue":"general","priority":{})", chance(3)));
    waiting_.push_back(std::move(patient));
  }

  void at_the_cashier() {
    if (waiting_.empty()) return check_in();
    Patient patient = take(waiting_);
    if (chance(8) == 0) {
      happened(patient, "patient.absent-at-cashier", "");
      waiting_.push_back(std::move(patient));
    } else if (chance(6) == 0) {
      happened(patient, "payment.pending", "");
      waiting_.push_back(std::move(patient));
    } else {
      happened(patient, "payment.validated", fmt::format(R"(,"amount":{})", 20 + chance(80)));
      paid_.push_back(std::move(patient));
    }
  }

  void call_in() {
    if (paid_.empty()) return at_the_cashier();
    Patient patient = take(paid_);
    if (chance(10) == 0) {
      happened(patient, "patient.absent", "");
      return;
    }
    happened(patient, "patient.called", fmt::format(R"(,"room":{})", 1 + chance(4)));
    inside_.push_back(std::move(patient));
  }

  void finish() {
    if (inside_.empty()) return call_in();
    Patient patient = take(inside_);
    happened(patient, "consultation.finished", fmt::format(R"(,"minutes":{})", 5 + chance(25)));
    if (chance(2) == 0)
      happened(patient, "mail.summary", R"(,"subject":"Your visit","body":"Thank you for coming. Get well soon.")");
  }

  void leave_early() {
    if (waiting_.empty()) return check_in();
    Patient patient = take(waiting_);
    happened(patient, "patient.cancelled", R"(,"reason":"left")");
    happened(patient, "mail.cancellation", R"(,"subject":"Your visit","body":"Shall we find another day?")");
  }

  void change_room() {
    const std::string room = fmt::format("room-{}", 1 + chance(4));
    announce(chance(2) == 0 ? "room.activated" : "room.deactivated", {"room", room},
             fmt::format(R"({{"room":"{}"}})", room));
  }

  // An event by itself, which changes nothing of the clinic's own.
  void announce(const std::string& topic, const Aggregate& about, const std::string& payload) {
    Event event;
    event.topic = topic;
    event.aggregate = about;
    event.payload = payload;
    waybill::enqueue(connection_.get(), event);
  }

  // One transaction: the clinic's own row, then the event.
  void happened(Patient& patient, const std::string& topic, const std::string& more) {
    ++patient.version;
    Event event;
    event.topic = topic;
    event.aggregate = {"visit", patient.id};
    event.version = patient.version;
    event.payload = fmt::format(R"({{"patient":"{}","name":"{}"{}}})", patient.id, patient.name, more);
    run("BEGIN IMMEDIATE");
    run(
        fmt::format("INSERT INTO visit VALUES ('{0}', '{1}', {2}) ON CONFLICT (patient) DO UPDATE SET state = '{1}', "
                    "version = {2}",
                    patient.id, topic, patient.version));
    waybill::enqueue(connection_.get(), event);
    run("COMMIT");
  }

  Patient take(std::deque<Patient>& queue) {
    Patient patient = std::move(queue.front());
    queue.pop_front();
    return patient;
  }

  std::size_t chance(std::size_t of) { return std::uniform_int_distribution<std::size_t>(0, of - 1)(random_); }

  void run(const std::string& sql) {
    if (sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      throw Error(Remedy::retry, fmt::format("clinic: {}", sqlite3_errmsg(connection_.get())));
  }

  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection_;
  std::mt19937_64 random_;
  int patients_ = 0;
  std::deque<Patient> waiting_;
  std::deque<Patient> paid_;
  std::deque<Patient> inside_;
};

Clinic::Clinic(const std::string& path, std::uint64_t seed) : impl_(std::make_unique<Impl>(path, seed)) {}
Clinic::~Clinic() = default;
void Clinic::step() {
  impl_->step();
}

}  // namespace waybill::app
