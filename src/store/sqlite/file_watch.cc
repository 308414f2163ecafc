#include "store/sqlite/file_watch.h"

#include <array>
#include <filesystem>
#include <string_view>

#include <sys/inotify.h>
#include <unistd.h>

namespace waybill {

FileWatch::FileWatch(const std::string& database_path) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  const auto path = std::filesystem::absolute(database_path);
  file_ = path.filename().string();
  wal_ = file_ + "-wal";
  if (fd_ >= 0 && ::inotify_add_watch(fd_, path.parent_path().c_str(), IN_MODIFY) < 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

FileWatch::~FileWatch() {
  if (fd_ >= 0) ::close(fd_);
}

bool FileWatch::take() {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  bool written = false;
  while (true) {
    const ssize_t size = ::read(fd_, buffer.data(), buffer.size());
    if (size <= 0) return written;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const auto* event = static_cast<const inotify_event*>(static_cast<const void*>(buffer.data() + at));
      const std::string_view name(event->len > 0 ? event->name : "");
      written = written || name == file_ || name == wal_ || (event->mask & IN_Q_OVERFLOW) != 0;
      at += sizeof(inotify_event) + event->len;
    }
  }
}

}  // namespace waybill
