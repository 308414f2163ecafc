#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/event.h"
#include "waybill/relay.h"

namespace waybill {

// Does `text` match `pattern`, in which '*' stands for any text, also none? Never slower than |pattern| *
// |text|.
bool matches(std::string_view pattern, std::string_view text);

// What a Match looks at: the patterns, and the text of the event.
struct MatchField {
  std::string_view name{};
  std::vector<std::string> Match::*patterns = nullptr;
  std::string_view EventView::*value = nullptr;
};
inline constexpr std::array match_fields{
    MatchField{"topic", &Match::topic, &EventView::topic}, MatchField{"type", &Match::type, &EventView::type},
    MatchField{"tenant", &Match::tenant, &EventView::tenant},
    MatchField{"aggregate_type", &Match::aggregate_type, &EventView::aggregate_type}};

bool matches(const Match& match, const EventView& event);

// The same rules with the patterns of each field sorted and without repetitions.
Match canonical(Match match);

// The rules for people: "topic 'order.*', 'room.*' and tenant 'a'"; "every event".
std::string rules_text(const Match& match);

// Why it does not, for people: "topic 'room.opened' is none of 'patient.*'"; empty if it does.
std::string mismatch(const Match& match, const EventView& event);

}  // namespace waybill
