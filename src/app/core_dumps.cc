#include "app/core_dumps.h"

#include <optional>

#include <sys/prctl.h>
#include <sys/resource.h>

namespace waybill::app {
namespace {

// As they were at the start; none while nothing is changed.
struct Before {
  rlimit limit{};
  int dumpable = 1;
};
std::optional<Before> before;

}  // namespace

// The limit holds for files; a program that takes core dumps through a pipe gets none of a process that is not
// dumpable.
NoCoreDumps::NoCoreDumps() {
  Before found;
  found.dumpable = ::prctl(PR_GET_DUMPABLE);
  if (::getrlimit(RLIMIT_CORE, &found.limit) != 0) return;
  const rlimit none{.rlim_cur = 0, .rlim_max = found.limit.rlim_max};
  ::setrlimit(RLIMIT_CORE, &none);
  ::prctl(PR_SET_DUMPABLE, 0);
  before = found;
}

void NoCoreDumps::allow_core_dumps() {
  if (!before) return;
  ::setrlimit(RLIMIT_CORE, &before->limit);
  ::prctl(PR_SET_DUMPABLE, before->dumpable == 1 ? 1 : 0);  // The kernel lets nobody set another value.
  before.reset();
}

}  // namespace waybill::app
