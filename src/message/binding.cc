#include "message/binding.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/json_text.h"
#include "message/text.h"
#include "model/routing.h"

namespace waybill {
namespace {

constexpr std::size_t name_bytes_max = 255;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

bool is_reserved(std::string_view name, const Binding& binding, std::string_view envelope_prefix) {
  // Names that are lines are read without regard to case.
  const std::string folded = binding.lines ? lower_case(name) : std::string();
  const std::string_view read_as = binding.lines ? std::string_view(folded) : name;
  return (!envelope_prefix.empty() && read_as.starts_with(envelope_prefix)) ||
         std::any_of(binding.reserved.begin(), binding.reserved.end(),
                     [&](std::string_view pattern) { return matches(pattern, read_as); });
}

bool is_there(const HeaderList& headers, std::string_view name, const Binding& binding) {
  for (std::size_t i = 0; i < headers.size(); ++i)
    if (binding.lines ? same_letters(headers[i].name, name) : headers[i].name == name) return true;
  return false;
}

std::string name_problem(std::string_view name, const Binding& binding, std::string_view envelope_prefix) {
  if (name.empty()) return "a header has no name";
  if (const auto problem = text_problem(name); !problem.empty()) return fmt::format("a header's name {}", problem);
  if (name.size() > name_bytes_max)
    return fmt::format("a header's name has {} bytes; at most {} are allowed", name.size(), name_bytes_max);
  if (binding.lines && !is_token(name))
    return fmt::format("header '{}': a name in {} has only letters, digits and !#$%&'*+-.^_`|~", name, binding.name);
  if (is_reserved(name, binding, envelope_prefix))
    return fmt::format("header '{}' has a meaning of its own in {} or in the envelope; rename it", name, binding.name);
  return {};
}

std::string value_problem(std::string_view name, std::string_view value) {
  const auto problem = text_problem(value);
  return problem.empty() ? std::string() : fmt::format("header '{}' {}", name, problem);
}

// Walks a JSON object whose values are texts.
class Members {
 public:
  explicit Members(std::string_view json) : rest_(json) {}

  // False at the end, or where it is no such object.
  bool next() {
    if (!take(first_ ? '{' : ',')) return false;
    if (std::exchange(first_, false) && peek() == '}') return false;
    const auto name = take_json_string(space(), name_text_);
    if (!name || !take(':')) return stop();
    const auto value = take_json_string(space(), value_text_);
    if (!value) return stop();
    name_ = *name;
    value_ = *value;
    return true;
  }
  // Was all of it read, and as it should be?
  bool whole() { return !stopped_ && !first_ && take('}') && space().empty(); }

  std::string_view name() const { return name_; }
  std::string_view value() const { return value_; }

 private:
  std::string_view& space() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n\t\r"), rest_.size()));
    return rest_;
  }
  char peek() { return space().empty() ? '\0' : rest_.front(); }
  bool take(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool stop() {
    stopped_ = true;
    return false;
  }

  std::string_view rest_;
  bool first_ = true;
  bool stopped_ = false;
  std::string name_text_, value_text_;  // Where what was written with escapes is decoded.
  std::string_view name_, value_;
};

}  // namespace

std::string append_own_headers(HeaderList& out, std::string_view headers_json, const Binding& binding,
                               std::string_view envelope_prefix) {
  if (headers_json.empty()) return {};
  Members members(headers_json);
  while (members.next()) {
    const auto name = members.name();
    if (auto problem = name_problem(name, binding, envelope_prefix); !problem.empty()) return problem;
    if (is_there(out, name, binding)) return fmt::format("header '{}' is there twice", name);
    if (auto problem = value_problem(name, members.value()); !problem.empty()) return problem;
    out.add(name, members.value());
  }
  return members.whole() ? std::string() : "its headers are not a JSON object of texts";
}

void encode_lines(HeaderList& headers, const Binding& binding) {
  if (!binding.lines) return;
  std::size_t first = 0;
  while (first < headers.size() && is_line_value(headers[first].value)) ++first;
  if (first == headers.size()) return;  // Nearly always.
  HeaderList encoded;
  std::string names;
  std::string value;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto header = headers[i];
    if (is_line_value(header.value)) {
      encoded.add(header.name, header.value);
      continue;
    }
    value.clear();
    append_percent_encoded(value, header.value);
    encoded.add(header.name, value);
    names.append(names.empty() ? "" : ", ").append(header.name);
  }
  encoded.add(encoded_header, names);
  headers = std::move(encoded);
}

void decode_lines(std::vector<Header>& headers) {
  const auto is_list = [](const Header& header) { return same_letters(header.name, encoded_header); };
  const auto list = std::find_if(headers.begin(), headers.end(), is_list);
  if (list == headers.end()) return;
  const std::string names = std::exchange(list->value, {});
  std::erase_if(headers, is_list);
  for (std::string_view rest = names; !rest.empty();) {
    const auto name = rest.substr(0, rest.find(','));
    for (Header& header : headers)
      if (same_letters(header.name, name))
        if (auto value = percent_decoded(header.value)) header.value = std::move(*value);
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  }
}

std::string size_problem(const HeaderList& headers, const Binding& binding) {
  const std::size_t bytes = headers.bytes() + headers.size() * binding.header_overhead;
  if (bytes <= binding.headers_bytes_max) return {};
  return fmt::format("its headers take {} bytes; at most {} are allowed in {}", bytes, binding.headers_bytes_max,
                     binding.name);
}

}  // namespace waybill
