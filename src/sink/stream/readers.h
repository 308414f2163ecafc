#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "waybill/log.h"
#include "waybill/relay.h"
#include "waybill/store.h"

#include "sink/stream/hub.h"

namespace waybill::stream {

using MakeFollower = std::function<std::unique_ptr<Follower>()>;

// How long to wait before asking again: 5 ms after news, then twice as long each time, up to 250 ms.
class Pace {
 public:
  void quicken() { wait_ = shortest; }
  std::chrono::milliseconds next();

  static constexpr std::chrono::milliseconds shortest{5};
  static constexpr std::chrono::milliseconds longest{250};

 private:
  std::chrono::milliseconds wait_ = shortest;
};

// What both readers share: a follower that is made when it is needed and made anew when the store was away.
// One thread each.
class Reader {
 public:
  Reader(std::string name, Hub& hub, MakeFollower make, Match match, Log log);

 protected:
  ~Reader() = default;

  Follower& follower();
  void let_go() { follower_.reset(); }
  void away(const std::string& why);  // Says so once for an outage.
  void back();

  const std::string name_;
  Hub& hub_;
  const Match match_;
  const Log log_;

 private:
  const MakeFollower make_;
  std::unique_ptr<Follower> follower_;
  bool away_ = false;
};

// Follows the end of the log while there are clients.
class HeadReader : private Reader {
 public:
  using Reader::Reader;
  void run(const std::stop_token& stop);

  // One read. Returns when to read again, if nobody wakes it.
  Steady step();

 private:
  Steady read_on();
  Pace pace_;
};

// Reads for clients that are behind, a page for one after the other.
class CatchUpReader : private Reader {
 public:
  using Reader::Reader;
  void run(const std::stop_token& stop);

  // One page. Returns when to go on, if nobody wakes it.
  Steady step();

 private:
  std::optional<Steady> idle_since_;
};

}  // namespace waybill::stream
