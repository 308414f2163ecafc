// Places in the log, which clients of streams send back: PostgreSQL's, and those of stores that number their events.
#include "fuzz/input.h"
#include "model/numbered_place.h"
#include "store/postgres/follower_place.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace waybill;
  const std::string_view text = fuzz::Input(data, size).rest();
  fuzz::accepts([&] {
    const FollowerPlace place = FollowerPlace::parse(text);
    const std::string again = place.to_string(place.last);
    fuzz::require(FollowerPlace::parse(again).to_string(place.last) == again);
    fuzz::require(place.end().xmax >= place.settled.xmax);
  });
  fuzz::accepts([&] {
    const std::int64_t seq = parse_numbered_place(text, "h", 1000);
    fuzz::require(seq >= 0 && seq <= 1000);
  });
  return 0;
}
