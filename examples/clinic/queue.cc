#include "queue.h"

#include <algorithm>

namespace clinic {
namespace {

constexpr int deferrals_max = 2;  // One more, and the visit is cancelled.
constexpr int absences_max = 1;

}  // namespace

// --- What may be asked of it

void WaitingQueue::check_in(const std::string& patient, const std::string& name, bool urgent) {
  if (patients_.contains(patient)) return;  // No change, no event: to check in twice is once.
  happen(PatientCheckedIn{.patient = patient, .name = name, .urgent = urgent});
}

std::string WaitingQueue::call_to_cashier() {
  const bool busy = std::any_of(patients_.begin(), patients_.end(),
                                [](const auto& entry) { return entry.second.stage == Stage::at_cashier; });
  if (busy) throw Refused("somebody is at the cashier");
  const auto patient = next_of(to_cashier_);
  if (!patient) throw Refused("nobody waits for the cashier");
  happen(PatientCalledToCashier{.patient = *patient});
  return *patient;
}

void WaitingQueue::pay(const std::string& patient, std::int64_t amount) {
  at_cashier(patient);
  if (amount < 0) throw Refused("an amount is not negative");
  happen(PaymentValidated{.patient = patient, .amount = amount});
}

void WaitingQueue::defer_payment(const std::string& patient) {
  const bool once_too_often = at_cashier(patient).deferrals >= deferrals_max;
  happen(PaymentPending{.patient = patient});
  if (once_too_often) happen(PatientCancelled{.patient = patient, .reason = "payment"});
}

void WaitingQueue::absent_at_cashier(const std::string& patient) {
  const bool once_too_often = at_cashier(patient).absences >= absences_max;
  happen(PatientAbsentAtCashier{.patient = patient});
  if (once_too_often) happen(PatientCancelled{.patient = patient, .reason = "absent"});
}

std::string WaitingQueue::call(const std::string& room) {
  const auto found = rooms_.find(room);
  if (found == rooms_.end()) throw Refused("room " + room + " is not active");
  if (!found->second.empty()) throw Refused("room " + room + " is taken");
  const auto patient = next_of(to_consultation_);
  if (!patient) throw Refused("nobody waits for a consultation");
  happen(PatientCalled{.patient = *patient, .room = room});
  return *patient;
}

void WaitingQueue::absent(const std::string& room) {
  const std::string patient = patient_of(room, Stage::called);
  const bool once_too_often = patients_.at(patient).absences >= absences_max;
  happen(PatientAbsent{.patient = patient, .room = room});
  if (once_too_often) happen(PatientCancelled{.patient = patient, .reason = "absent"});
}

void WaitingQueue::start(const std::string& room) {
  happen(ConsultationStarted{.patient = patient_of(room, Stage::called), .room = room});
}

void WaitingQueue::finish(const std::string& room) {
  happen(ConsultationFinished{.patient = patient_of(room, Stage::inside), .room = room});
}

void WaitingQueue::cancel(const std::string& patient) {
  const auto found = patients_.find(patient);
  if (found == patients_.end()) return;  // Gone already.
  if (found->second.stage == Stage::inside) throw Refused(patient + " is inside");
  happen(PatientCancelled{.patient = patient, .reason = "left"});
}

void WaitingQueue::activate(const std::string& room) {
  if (!rooms_.contains(room)) happen(RoomActivated{.room = room});
}

void WaitingQueue::deactivate(const std::string& room) {
  const auto found = rooms_.find(room);
  if (found == rooms_.end()) return;
  if (!found->second.empty()) throw Refused("room " + room + " is taken");
  happen(RoomDeactivated{.room = room});
}

// --- What it does to it, now or when it is played back

void WaitingQueue::on(const PatientCheckedIn& event) {
  patients_[event.patient] = {.name = event.name, .urgent = event.urgent};
  to_cashier_.push_back(event.patient);
}

void WaitingQueue::on(const PatientCalledToCashier& event) {
  patients_.at(event.patient).stage = Stage::at_cashier;
  std::erase(to_cashier_, event.patient);
}

void WaitingQueue::on(const PaymentValidated& event) {
  patients_.at(event.patient).stage = Stage::paid;
  patients_.at(event.patient).absences = 0;
  to_consultation_.push_back(event.patient);
}

void WaitingQueue::on(const PaymentPending& event) {
  patients_.at(event.patient).stage = Stage::waiting;
  ++patients_.at(event.patient).deferrals;
  to_cashier_.push_back(event.patient);
}

void WaitingQueue::on(const PatientAbsentAtCashier& event) {
  patients_.at(event.patient).stage = Stage::waiting;
  ++patients_.at(event.patient).absences;
  to_cashier_.push_back(event.patient);
}

void WaitingQueue::on(const PatientCalled& event) {
  patients_.at(event.patient).stage = Stage::called;
  std::erase(to_consultation_, event.patient);
  rooms_.at(event.room) = event.patient;
}

void WaitingQueue::on(const PatientAbsent& event) {
  patients_.at(event.patient).stage = Stage::paid;
  ++patients_.at(event.patient).absences;
  to_consultation_.push_back(event.patient);
  rooms_.at(event.room).clear();
}

void WaitingQueue::on(const ConsultationStarted& event) {
  patients_.at(event.patient).stage = Stage::inside;
}

void WaitingQueue::on(const ConsultationFinished& event) {
  remove(event.patient);
}

void WaitingQueue::on(const PatientCancelled& event) {
  remove(event.patient);
}

void WaitingQueue::on(const RoomActivated& event) {
  rooms_[event.room];
}

void WaitingQueue::on(const RoomDeactivated& event) {
  rooms_.erase(event.room);
}

template <typename... Events>
waybill::EventHandlers<WaitingQueue&> WaitingQueue::handlers_of() {
  waybill::EventHandlers<WaitingQueue&> made;
  (made.on<Json<Events>>(
       [](const Json<Events>& event, const waybill::RecordedEvent&, WaitingQueue& queue) { queue.on(event); }),
   ...);
  return made;
}

void WaitingQueue::apply(const waybill::RecordedEvent& event) {
  static const auto handlers = handlers_of<PatientCheckedIn, PatientCalledToCashier, PaymentValidated, PaymentPending,
                                           PatientAbsentAtCashier, PatientCalled, PatientAbsent, ConsultationStarted,
                                           ConsultationFinished, PatientCancelled, RoomActivated, RoomDeactivated>();
  handlers.handle(event, *this);
}

// --- Helpers

WaitingQueue::Patient& WaitingQueue::at_cashier(const std::string& patient) {
  const auto found = patients_.find(patient);
  if (found == patients_.end() || found->second.stage != Stage::at_cashier)
    throw Refused(patient + " is not at the cashier");
  return found->second;
}

const std::string& WaitingQueue::patient_of(const std::string& room, Stage stage) {
  const auto found = rooms_.find(room);
  if (found == rooms_.end() || found->second.empty() || patients_.at(found->second).stage != stage)
    throw Refused(std::string("nobody ") + (stage == Stage::inside ? "is in" : "was called to") + " room " + room);
  return found->second;
}

std::optional<std::string> WaitingQueue::next_of(const Line& line) const {
  if (line.empty()) return std::nullopt;
  const auto urgent =
      std::find_if(line.begin(), line.end(), [&](const std::string& id) { return patients_.at(id).urgent; });
  return urgent == line.end() ? line.front() : *urgent;
}

void WaitingQueue::remove(const std::string& patient) {
  patients_.erase(patient);
  std::erase(to_cashier_, patient);
  std::erase(to_consultation_, patient);
  for (auto& [room, occupant] : rooms_)
    if (occupant == patient) occupant.clear();
}

}  // namespace clinic
