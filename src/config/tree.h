#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::config {

// Who set a value. A later one wins.
struct Origin {
  enum class Kind { fallback, file, environment, flag };
  Kind kind = Kind::fallback;
  std::string where{};  // "waybill.toml:7:3", "environment WAYBILL_STORE", "--store"
};

// A value of the configuration, and where it stands.
struct Node {
  enum class Kind { table, list, text, integer, boolean, other };
  Kind kind = Kind::table;
  std::string name{};           // Its key in the table that holds it.
  std::string text{};           // text: the value. other: what TOML calls it, such as "date".
  std::int64_t integer = 0;     // integer
  bool boolean = false;         // boolean
  std::vector<Node> members{};  // table, list
  Origin origin{};

  // The member of that name, or nullptr.
  const Node* find(std::string_view member) const;
};

}  // namespace waybill::config
