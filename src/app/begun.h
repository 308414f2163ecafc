#pragma once

#include <optional>
#include <string>
#include <vector>

#include "waybill/store.h"

#include "app/commands.h"

namespace waybill::app {

// A redrive or a dismissal that was begun before, with what it was asked for then.
struct Begun {
  OperationView view{};
  UndeliveredFilter filter{};
};

// Nothing if no operation has that id.
std::optional<Begun> find_begun(Operator& store, const EventId& id);

// What a command says otherwise than the operation that it names, flag by flag. `given` is what `options` come to. A
// time that is so long ago is not held against it: that moves.
std::vector<std::string> differences(const Begun& begun, const UndeliveredFilter& given,
                                     const SelectionOptions& options);

}  // namespace waybill::app
