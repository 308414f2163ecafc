#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/waker.h"
#include "relay/carrier.h"
#include "relay/context.h"
#include "relay/outage.h"

namespace waybill {

// The Keeper lives for the relay as a whole: it says that the relay is alive, takes leases and gives back
// more than its share, and brings news of the log to the carriers. It has a connection of its own, so that no
// slow destination and no long transaction of a carrier can silence it. Used by one thread; `waker` ends its wait.
//
// News: while carriers find work they look for themselves. When one has none, the keeper polls for it, at
// intervals that double for as long as nothing comes of it; when the whole log is still, it asks to be told
// instead and sleeps, or, if the store never tells (behind a pooler), polls less and less often, up to poll_idle; but
// even then it looks from time to time (poll_idle), since the one who made sure of being told may be another relay that
// is gone by now. A heartbeat does not look: whoever has the log locked must not hold it up.
class Keeper {
 public:
  Keeper(const RelayContext& context, Trust& trust, Vitals& vitals, Waker& waker,
         const std::vector<std::unique_ptr<Carrier>>& carriers);

  // One turn without waiting. Error(fix_config) if only a person can help.
  std::size_t turn();
  // Waits until there is something to do, at most until `deadline`.
  void wait(Steady deadline);

  // From now on takes no leases, no longer counts when others work out their share, and has the carriers give back all
  // they hold, each shard as soon as nothing of it is under way.
  void wind_up();
  // Says good-bye.
  void leave();

  // Is every shard ours, or that of another relay that is alive?
  bool nothing_free() const { return nothing_free_; }

 private:
  void drop_connection(const Error& error, Steady now);
  std::size_t beat(Steady now);
  void report_troubles();
  void adopt(Carrier& carrier, const std::vector<Lease>& mine) const;
  static std::size_t share_of(const Pulse& pulse, const std::string& destination);
  void share_out(const Pulse& pulse);
  static void give_back_surplus(Carrier& carrier, std::size_t share);
  std::vector<Lease> wanted(const Pulse& pulse, const Carrier& carrier, std::size_t share) const;
  std::size_t poll(Steady now);
  void try_to_sleep(Steady now);
  void rise();
  std::chrono::milliseconds longest_pause(Steady now) const;
  void hear(Membership::Told told);
  void spread_news();
  bool somebody_waits() const;
  std::uint64_t events_read() const;

  const RelayContext& context_;
  Trust& trust_;
  Vitals& vitals_;
  Waker& waker_;
  const std::vector<std::unique_ptr<Carrier>>& carriers_;
  std::vector<std::string> names_;

  std::unique_ptr<Membership> membership_;
  std::vector<Trouble> reported_;  // through this membership
  Outage outage_;
  Steady last_beat_{};
  Steady next_beat_{};
  Steady next_poll_{};
  std::chrono::milliseconds poll_interval_{1};
  std::uint64_t read_at_last_news_ = 0;
  Steady last_news_{};
  bool asleep_ = false;
  bool never_told_ = false;  // Only polling brings news.
  bool winding_up_ = false;
  bool nothing_free_ = false;
};

}  // namespace waybill
