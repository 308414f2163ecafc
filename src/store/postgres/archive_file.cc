#include "store/postgres/archive_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "waybill/error.h"

namespace waybill {
namespace {

constexpr std::size_t buffer_bytes_max = 1U << 20U;
constexpr mode_t readable_by_owner_and_group = 0640;

}  // namespace

ArchiveFile::ArchiveFile(const std::string& folder, const std::string& name)
    : folder_(folder),
      path_(folder + "/" + name),
      part_(path_ + ".part"),
      file_(::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, readable_by_owner_and_group)) {
  if (file_ < 0) fail("cannot be written");
}

ArchiveFile::~ArchiveFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(part_.c_str());
}

void ArchiveFile::add_line(std::string_view line) {
  buffer_ += line;
  buffer_ += '\n';
  if (buffer_.size() >= buffer_bytes_max) write_out();
}

void ArchiveFile::write_out() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void ArchiveFile::sync() {
  write_out();
  if (::fsync(file_) != 0) fail("cannot be brought to disk");
}

void ArchiveFile::put_in_place() {
  if (std::rename(part_.c_str(), path_.c_str()) != 0) fail("cannot be moved to its place");
  ::close(file_);
  file_ = -1;
  // The name is on disk only when the folder is.
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool good = folder >= 0 && ::fsync(folder) == 0;
  const int error = errno;
  if (folder >= 0) ::close(folder);
  errno = error;
  if (!good) fail("may not be on disk");
}

void ArchiveFile::fail(const char* doing) const {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == EIO;
  throw Error(full ? Remedy::retry : Remedy::fix_config,
              fmt::format("archive: {} {}: {}; nothing was removed from the log. Make room, or name another folder",
                          path_, doing, std::strerror(error)));
}

}  // namespace waybill
