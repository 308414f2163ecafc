#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace waybill::app {

// A clinic's morning, as an application of Waybill: patients check in, pay, are called, are absent, cancel; consulting
// rooms open and close. Each step changes the clinic's own table and enqueues its event in one transaction, on a
// connection that is the clinic's own. Used by one thread.
class Clinic {
 public:
  // `path` is a database with Waybill's tables in it; the clinic adds its own.
  Clinic(const std::string& path, std::uint64_t seed);
  ~Clinic();
  Clinic(const Clinic&) = delete;
  Clinic& operator=(const Clinic&) = delete;

  // Lets one thing happen.
  void step();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill::app
