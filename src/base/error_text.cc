#include "base/error_text.h"

#include <cstdlib>
#include <memory>
#include <typeinfo>

#include <cxxabi.h>

#include "waybill/error.h"

namespace waybill {

std::string error_text(const std::exception& failure) {
  if (dynamic_cast<const Error*>(&failure)) return failure.what();
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(typeid(failure).name(), nullptr, nullptr, &status), std::free);
  return name ? name.get() : typeid(failure).name();
}

}  // namespace waybill
