#include <fmt/format.h>

#include "waybill/error.h"

#include "model/numbered_place.h"
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
    const std::string history = this->history();
    if (place == "now") return {.place = numbered_place(history, last)};
    std::int64_t upto = parse_numbered_place(place, history, last);
    if (!place.empty() && upto < log_.number("SELECT cleaned_upto FROM waybill_identity"))
      throw Error(Remedy::fix_input, std::string(place_was_cleaned));
    EventRows rows;
    read_.bind(1, upto).bind(2, events_max);
    while (read_.step()) rows.add(read_);
    if (!rows.events.empty()) files_->sync_log();
    Page page{.memory = rows.memory()};
    for (const EventView& event : rows.events) {
      upto = event.seq;
      page.items.push_back({.event = event, .place = numbered_place(history, event.seq)});
    }
    page.place = numbered_place(history, upto);
    page.more = std::ssize(rows.events) == events_max;
    return page;
  }

 private:
  // The log's own number: another one after it was copied or restored, and anchored.
  std::string history() const {
    Query query = log_.query("SELECT substr(log_id, 1, 10) FROM waybill_identity");
    return query.step() ? std::string(query.text(0)) : "";
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
