#include "store/sqlite/archive.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "waybill/error.h"

#include "base/time_text.h"

namespace waybill {
namespace {

[[noreturn]] void fail(std::string_view what, const std::string& path) {
  throw Error(Remedy::retry, fmt::format("archive: cannot {} {}: {}", what, path, std::strerror(errno)));
}

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)), path_(path) {
    if (fd_ < 0) fail("open", path_);
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_);
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void truncate(std::int64_t size) const {
    if (::ftruncate(fd_, size) != 0) fail("truncate", path_);
  }
  void sync() const {
    if (::fsync(fd_) != 0) fail("sync", path_);
  }

 private:
  int fd_;
  std::string path_;
};

std::int64_t size_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::int64_t>(status.st_size) : 0;
}

}  // namespace

Archive::Archive(std::string folder, const Database& log, const Database& state)
    : folder_(std::move(folder)), log_(log), state_(state) {
  if (folder_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error)
    throw Error(Remedy::fix_config, fmt::format("archive: cannot make the folder {}: {}", folder_, error.message()));
}

void Archive::recover() {
  Query query = state_.query("SELECT file, size, first_seq FROM archiving");
  if (!query.step()) return;
  const std::string file(query.text(0));
  const std::int64_t size = query.integer(1);
  const std::int64_t first_seq = query.integer(2);
  query.reset();
  Query still = log_.query("SELECT 1 FROM waybill_event WHERE seq = ?1");
  if (still.bind(1, first_seq).step() && size_of(file) > size) {
    const OpenFile archive(file, O_WRONLY);
    archive.truncate(size);
    archive.sync();
  }
  state_.run("DELETE FROM archiving");
}

std::string Archive::file_of_today() const {
  Query query = log_.query("SELECT substr(log_id, 1, 8) FROM waybill_identity");
  query.step();
  return fmt::format("{}/waybill-{}-{}.jsonl", std::filesystem::absolute(folder_).string(), query.text(0),
                     to_rfc3339(system_clock().now()).substr(0, 10));
}

void Archive::begin(std::int64_t first_seq) {
  file_ = file_of_today();
  state_.query("INSERT OR REPLACE INTO archiving (one, file, size, first_seq) VALUES (1, ?1, ?2, ?3)")
      .bind(1, file_)
      .bind(2, size_of(file_))
      .bind(3, first_seq)
      .run();
}

void Archive::append(std::string_view lines) {
  {
    const OpenFile archive(file_, O_WRONLY | O_APPEND | O_CREAT);
    archive.write(lines);
    archive.sync();
  }
  const OpenFile folder(folder_, O_RDONLY | O_DIRECTORY);
  folder.sync();
}

void Archive::end() {
  state_.run("DELETE FROM archiving");
}

}  // namespace waybill
