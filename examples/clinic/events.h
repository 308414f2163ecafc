#pragma once

// What happens in the clinic. Each is a type with a name; as JSON it is an object with its members.

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace clinic {

// Patients, from the door to the door.
struct PatientCheckedIn {
  static constexpr std::string_view type_name = "patient.checked-in";
  std::string patient{};
  std::string name{};
  bool urgent = false;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PatientCheckedIn, patient, name, urgent)
};
struct PatientCalledToCashier {
  static constexpr std::string_view type_name = "patient.called-to-cashier";
  std::string patient{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PatientCalledToCashier, patient)
};
struct PaymentValidated {
  static constexpr std::string_view type_name = "payment.validated";
  std::string patient{};
  std::int64_t amount = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PaymentValidated, patient, amount)
};
struct PaymentPending {
  static constexpr std::string_view type_name = "payment.pending";
  std::string patient{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PaymentPending, patient)
};
struct PatientAbsentAtCashier {
  static constexpr std::string_view type_name = "patient.absent-at-cashier";
  std::string patient{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PatientAbsentAtCashier, patient)
};
struct PatientCalled {
  static constexpr std::string_view type_name = "patient.called";
  std::string patient{};
  std::string room{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PatientCalled, patient, room)
};
struct PatientAbsent {
  static constexpr std::string_view type_name = "patient.absent";
  std::string patient{};
  std::string room{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PatientAbsent, patient, room)
};
struct ConsultationStarted {
  static constexpr std::string_view type_name = "consultation.started";
  std::string patient{};
  std::string room{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ConsultationStarted, patient, room)
};
struct ConsultationFinished {
  static constexpr std::string_view type_name = "consultation.finished";
  std::string patient{};
  std::string room{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ConsultationFinished, patient, room)
};
struct PatientCancelled {
  static constexpr std::string_view type_name = "patient.cancelled";
  std::string patient{};
  std::string reason{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PatientCancelled, patient, reason)
};

// Rooms.
struct RoomActivated {
  static constexpr std::string_view type_name = "room.activated";
  std::string room{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RoomActivated, room)
};
struct RoomDeactivated {
  static constexpr std::string_view type_name = "room.deactivated";
  std::string room{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RoomDeactivated, room)
};

// An event of the above as the library wants it: with to_json() and from_json().
template <typename E>
struct Json : E {
  Json(E event) : E(std::move(event)) {}  // NOLINT(google-explicit-constructor): it is that event.
  std::string to_json() const { return nlohmann::json(static_cast<const E&>(*this)).dump(); }
  static Json from_json(std::string_view text) { return nlohmann::json::parse(text).get<E>(); }
};

}  // namespace clinic
