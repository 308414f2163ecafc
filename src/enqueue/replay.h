#pragma once

namespace waybill {

// While this lives, its thread handles events once more that have had their effects: what is appended or enqueued would
// be sent a second time, and is refused.
class Replay {
 public:
  Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay();
};

// Throws Error(fix_config) while a Replay of this thread lives.
void refuse_in_replay();

}  // namespace waybill
