#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "config/config.h"

namespace waybill::config {

// What the sections of one Config share: the sources, and what was asked and found wrong so far.
class Reading {
 public:
  Sources sources{};
  std::string file{};
  unsigned file_mode = 0;
  bool file_exposed = false;
  Node tree{};

  std::map<std::string, std::vector<std::string>> asked{};  // by the path of the table
  std::vector<std::string> ignored{};                       // Paths of tables not to be looked through.
  std::vector<Setting> settings{};
  std::vector<std::string> problems{};
  std::vector<std::string> warnings{};

  // The value that flags or environment give to `path`, or nullptr.
  const Node* above_file(const std::string& path, bool in_environment);

 private:
  const Node* find_above_file(const std::string& path, bool in_environment);
  const Node* from_environment(const std::string& path);
  const Node* keep(std::string text, Origin origin);

  std::deque<Node> nodes_{};
  std::map<std::string, const Node*> above_file_{};  // What above_file answered, into nodes_.
};

// "log.level" -> "WAYBILL_LOG_LEVEL"
std::string variable_name(const std::string& path);

}  // namespace waybill::config
