#include <charconv>

#include <fmt/format.h>

#include "waybill/error.h"

#include "store/sqlite/event_rows.h"
#include "store/sqlite/files.h"

namespace waybill {
namespace {

class SqliteFollower final : public Follower {
 public:
  explicit SqliteFollower(const SqliteFilesPtr& files)
      : files_(files),
        log_(files_->open_log()),
        read_(log_.query(
            fmt::format("SELECT {} FROM waybill_event WHERE seq > ?1 ORDER BY seq LIMIT ?2", event_columns()))) {}

  Page read(std::string_view place, int events_max) override {
    const std::int64_t last = last_seq(log_);
    if (place == "now") return {.place = std::to_string(last)};
    std::int64_t upto = parse(place, last);
    if (upto > 0 && upto < log_.number("SELECT cleaned_upto FROM waybill_identity"))
      throw Error(Remedy::fix_input, "the log does not reach back to this place any more");
    EventRows rows;
    read_.bind(1, upto).bind(2, events_max);
    while (read_.step()) rows.add(read_);
    if (!rows.events.empty()) files_->sync_log();
    Page page{.memory = rows.memory()};
    for (const EventView& event : rows.events) {
      upto = event.seq;
      page.items.push_back({.event = event, .place = std::to_string(event.seq)});
    }
    page.place = std::to_string(upto);
    page.more = std::ssize(rows.events) == events_max;
    return page;
  }

 private:
  static std::int64_t parse(std::string_view place, std::int64_t last) {
    std::int64_t seq = 0;
    if (place.empty()) return 0;
    const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), seq);
    if (error != std::errc() || end != place.data() + place.size() || seq < 0 || seq > last)
      throw Error(Remedy::fix_input, "this is no place in the log");
    return seq;
  }

  SqliteFilesPtr files_;
  Database log_;
  Query read_;
};

}  // namespace

std::unique_ptr<Follower> sqlite_follower(const SqliteFilesPtr& files) {
  return std::make_unique<SqliteFollower>(files);
}

}  // namespace waybill
