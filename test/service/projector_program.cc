// A program with the projection of the tests, to be killed: projector_program URL run|rebuild

#include <cstring>
#include <iostream>

#include "waybill/progress.h"

#include "service/tally.h"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::string url = arguments[1];
  waybill::Projector projector(
      waybill::tally(), [&] { return waybill::connect(url); },
      waybill::stderr_log(waybill::LogLevel::info, waybill::LogFormat::logfmt));
  try {
    if (std::strcmp(arguments[2], "run") == 0) projector.run({});
    waybill::ProgressBar bar;
    while (true) {
      try {
        projector.rebuild([&](std::int64_t done, std::int64_t of) { bar.show(done, of); });
      } catch (const waybill::Error& error) {
        if (error.remedy() != waybill::Remedy::retry) throw;
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
