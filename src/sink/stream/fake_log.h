#pragma once

#include <atomic>
#include <charconv>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/store.h"

// For tests only: a log in memory whose places are numbers. Thread-safe.
namespace waybill::stream {

class FakeLog {
 public:
  // An event with this topic, and its number as the payload.
  void append(std::string topic) {
    const std::lock_guard lock(mutex_);
    rows_.push_back(std::make_shared<const Row>(
        Row{.id = EventId::make(), .topic = std::move(topic), .payload = std::to_string(rows_.size())}));
  }
  void append_many(int count) {
    for (int i = 0; i < count; ++i) append("room.opened");
  }
  void forget_before(std::size_t number) { oldest_ = number; }
  void go_away(bool away) { away_ = away; }
  int reads() const { return reads_; }
  int followers() const { return followers_; }

  static std::string place(std::size_t number) { return fmt::format("p{}", number); }

  std::unique_ptr<Follower> follow() { return std::make_unique<FakeFollower>(*this); }

 private:
  struct Row {
    EventId id{};
    std::string topic{};
    std::string payload{};
  };
  using Rows = std::vector<std::shared_ptr<const Row>>;

  class FakeFollower final : public Follower {
   public:
    explicit FakeFollower(FakeLog& log) : log_(log) { ++log_.followers_; }
    ~FakeFollower() override { --log_.followers_; }
    FakeFollower(const FakeFollower&) = delete;
    FakeFollower& operator=(const FakeFollower&) = delete;

    Page read(std::string_view place, int events_max) override {
      ++log_.reads_;
      if (log_.away_) throw Error(Remedy::retry, "the log is away");
      const std::lock_guard lock(log_.mutex_);
      const auto first = place == "now" ? log_.rows_.size() : number_of(place);
      const auto last = std::min(log_.rows_.size(), first + static_cast<std::size_t>(events_max));
      auto rows = std::make_shared<Rows>(log_.rows_.begin() + static_cast<std::ptrdiff_t>(first),
                                         log_.rows_.begin() + static_cast<std::ptrdiff_t>(last));
      Page page{.memory = rows, .place = FakeLog::place(last), .more = last < log_.rows_.size()};
      for (std::size_t i = 0; i < rows->size(); ++i) {
        const Row& row = *(*rows)[i];
        page.items.push_back({.event = {.seq = static_cast<std::int64_t>(first + i),
                                        .id = row.id,
                                        .topic = row.topic,
                                        .type = row.topic,
                                        .payload = row.payload},
                              .place = FakeLog::place(first + i + 1)});
      }
      return page;
    }

   private:
    std::size_t number_of(std::string_view place) const {
      if (place.empty()) return log_.oldest_;
      std::size_t number = 0;
      const auto [end, error] = std::from_chars(place.data() + 1, place.data() + place.size(), number);
      if (place[0] != 'p' || error != std::errc() || end != place.data() + place.size() || number > log_.rows_.size())
        throw Error(Remedy::fix_input, "that is no place");
      if (number < log_.oldest_) throw Error(Remedy::fix_input, "the log does not reach back to it");
      return number;
    }

    FakeLog& log_;
  };

  std::mutex mutex_;
  Rows rows_;
  std::atomic<std::size_t> oldest_ = 0;
  std::atomic<bool> away_ = false;
  std::atomic<int> reads_ = 0;
  std::atomic<int> followers_ = 0;
};

}  // namespace waybill::stream
