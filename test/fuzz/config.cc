// A configuration file.
#include <functional>

#include "config/toml.h"
#include "fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  const std::string text(fuzz::Input(data, size).rest());
  fuzz::accepts([&] {
    const std::function<void(const config::Node&)> walk = [&](const config::Node& node) {
      for (const config::Node& member : node.members) walk(member);
    };
    walk(config::parse_toml(text, "waybill.toml"));
  });
  return 0;
}
