#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "waybill/relay.h"

#include "base/json_text.h"
#include "model/routing.h"

// Rules as stores keep them: the JSON object of a Match, {"topic":["order.*"]}, in its canonical form; {} takes every
// event. So equal rules are equal texts.
namespace waybill {

inline std::string rules_json(const Match& match) {
  const Match rules = canonical(match);
  std::string json = "{";
  for (const MatchField& field : match_fields) {
    const auto& patterns = rules.*field.patterns;
    if (patterns.empty()) continue;
    if (json.size() > 1) json += ',';
    append_json_string(json, field.name);
    json += ":[";
    for (const std::string& pattern : patterns) {
      if (json.back() != '[') json += ',';
      append_json_string(json, pattern);
    }
    json += ']';
  }
  return json + '}';
}

// The same by destination: {"mail":{"topic":["mail.*"]}}.
inline std::string rules_json(const std::map<std::string, Match>& rules) {
  std::string json = "{";
  for (const auto& [destination, match] : rules) {
    if (json.size() > 1) json += ',';
    append_json_string(json, destination);
    json += ':' + rules_json(match);
  }
  return json + '}';
}

// REQUIRES: written by rules_json().
inline Match rules_of(const nlohmann::json& json) {
  Match match;
  for (const MatchField& field : match_fields)
    if (const auto found = json.find(field.name); found != json.end())
      match.*field.patterns = found->get<std::vector<std::string>>();
  return match;
}

inline std::map<std::string, Match> rules_by_destination(const nlohmann::json& json) {
  std::map<std::string, Match> rules;
  for (const auto& [destination, match] : json.items()) rules.emplace(destination, rules_of(match));
  return rules;
}

}  // namespace waybill
