#pragma once

// The waiting queue of a clinic: who waits for what, and which rooms are open. It keeps no tables: it is what has
// happened to it, played back.
//
//   check_in ▶ waiting ▶ at the cashier ▶ paid ▶ called ▶ inside ▶ gone
//
// Off that way: at the cashier a payment may be pending, or nobody comes: back to the end of the line. Who is called to
// a room and does not come goes back, too. The third pending payment, the second absence in either line, and whoever
// says so: cancelled.
//
// Whatever is asked of it is checked first, and refused with Refused; then it happens: the event is recorded, and
// changes the state in the same way in which it does when it is played back.

#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "waybill/unit_of_work.h"

#include "events.h"

namespace clinic {

// What the clinic's rules do not allow, as a sentence.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class WaitingQueue : public waybill::AggregateRoot {
 public:
  explicit WaitingQueue(waybill::StreamId stream) : AggregateRoot(std::move(stream)) {}

  void check_in(const std::string& patient, const std::string& name, bool urgent);

  // Urgent ones first, then as they came. Returns who it is.
  std::string call_to_cashier();
  void pay(const std::string& patient, std::int64_t amount);
  void defer_payment(const std::string& patient);
  void absent_at_cashier(const std::string& patient);

  std::string call(const std::string& room);
  void absent(const std::string& room);
  void start(const std::string& room);
  void finish(const std::string& room);

  void cancel(const std::string& patient);

  void activate(const std::string& room);
  void deactivate(const std::string& room);

  void apply(const waybill::RecordedEvent& event);

 private:
  enum class Stage { waiting, at_cashier, paid, called, inside };
  struct Patient {
    std::string name{};
    bool urgent = false;
    Stage stage = Stage::waiting;
    int deferrals = 0;
    int absences = 0;
  };
  using Line = std::deque<std::string>;  // of patients

  // Records it, and lets it have its effect.
  template <typename E>
  void happen(const E& event) {
    record(Json<E>(event));
    on(event);
  }
  void on(const PatientCheckedIn& event);
  void on(const PatientCalledToCashier& event);
  void on(const PaymentValidated& event);
  void on(const PaymentPending& event);
  void on(const PatientAbsentAtCashier& event);
  void on(const PatientCalled& event);
  void on(const PatientAbsent& event);
  void on(const ConsultationStarted& event);
  void on(const ConsultationFinished& event);
  void on(const PatientCancelled& event);
  void on(const RoomActivated& event);
  void on(const RoomDeactivated& event);
  template <typename... Events>
  static waybill::EventHandlers<WaitingQueue&> handlers_of();

  Patient& at_cashier(const std::string& patient);
  // Who is in the room, or called there.
  const std::string& patient_of(const std::string& room, Stage stage);
  std::optional<std::string> next_of(const Line& line) const;
  void remove(const std::string& patient);

  std::map<std::string, Patient> patients_;
  Line to_cashier_;
  Line to_consultation_;
  std::map<std::string, std::string> rooms_;  // that are active, and who is there or called there; empty: nobody
};

}  // namespace clinic
