#pragma once

#include <span>
#include <string>

#include "waybill/store.h"

#include "base/json_text.h"

namespace waybill {

// As stores keep it: a JSON array of [destination, text].
inline std::string trouble_list(std::span<const Trouble> troubles) {
  std::string list = "[";
  for (const Trouble& trouble : troubles) {
    list += list.size() > 1 ? ",[" : "[";
    append_json_string(list, trouble.destination);
    list += ',';
    append_json_string(list, trouble.text);
    list += ']';
  }
  return list + ']';
}

}  // namespace waybill
