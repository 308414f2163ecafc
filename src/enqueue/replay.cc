#include "enqueue/replay.h"

#include "waybill/error.h"

namespace waybill {
namespace {

thread_local int replays = 0;

}  // namespace

Replay::Replay() {
  ++replays;
}

Replay::~Replay() {
  --replays;
}

void refuse_in_replay() {
  if (replays > 0)
    throw Error(
        Remedy::fix_config,
        "an event is written while a projection is rebuilt: it would be sent again at every rebuild; what reacts "
        "to events is no projection to be rebuilt");
}

}  // namespace waybill
