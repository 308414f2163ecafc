#include "config/toml.h"

#include <algorithm>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "waybill/error.h"

namespace waybill::config {
namespace {

std::string place(const std::string& path, const toml::source_position& position) {
  return fmt::format("{}:{}:{}", path, position.line, position.column);
}

Node convert(const toml::node& value, const std::string& path, const toml::source_position& position);

void convert_table(const toml::table& table, const std::string& path, Node& node) {
  node.kind = Node::Kind::table;
  for (const auto& [key, value] : table) {
    node.members.push_back(convert(value, path, key.source().begin));
    node.members.back().name = std::string(key.str());
  }
}

void convert_list(const toml::array& list, const std::string& path, Node& node) {
  node.kind = Node::Kind::list;
  for (const auto& value : list) node.members.push_back(convert(value, path, value.source().begin));
}

void convert_scalar(const toml::node& value, Node& node) {
  if (const auto* text = value.as_string()) {
    node.kind = Node::Kind::text;
    node.text = text->get();
  } else if (const auto* integer = value.as_integer()) {
    node.kind = Node::Kind::integer;
    node.integer = integer->get();
  } else if (const auto* boolean = value.as_boolean()) {
    node.kind = Node::Kind::boolean;
    node.boolean = boolean->get();
  } else {
    node.kind = Node::Kind::other;
    node.text = value.is_floating_point() ? "fraction" : "date or time";
  }
}

Node convert(const toml::node& value, const std::string& path, const toml::source_position& position) {
  Node node;
  node.origin = {.kind = Origin::Kind::file, .where = place(path, position)};
  if (const auto* table = value.as_table()) {
    convert_table(*table, path, node);
  } else if (const auto* list = value.as_array()) {
    convert_list(*list, path, node);
  } else {
    convert_scalar(value, node);
  }
  return node;
}

}  // namespace

Node parse_toml(const std::string& text, const std::string& path) {
  try {
    Node root;
    convert_table(toml::parse(text, path), path, root);
    root.origin = {.kind = Origin::Kind::file, .where = path};
    return root;
  } catch (const toml::parse_error& error) {
    throw Error(Remedy::fix_config,
                fmt::format("{}: not TOML: {}", place(path, error.source().begin), std::string(error.description())));
  }
}

}  // namespace waybill::config
