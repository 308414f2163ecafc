// PostgreSQL's snapshots, and their short form in the places of streams, which clients send back.
#include "store/postgres/snapshot.h"

#include "fuzz/input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  const std::string_view text = fuzz::Input(data, size).rest();
  for (const auto& parsed : {Snapshot::parse(text), Snapshot::parse_compact(text)}) {
    if (!parsed) continue;
    fuzz::require(Snapshot::parse(parsed->to_string()) == parsed);
    fuzz::require(Snapshot::parse_compact(parsed->to_compact()) == parsed);
    const auto base = parsed->base(1000);
    fuzz::require(base <= parsed->xmax);
  }
  return 0;
}
