#include "base/secret_file.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "waybill/error.h"

namespace waybill {
namespace {

std::string exposure_text(const struct stat& about, const std::string& path) {
  return fmt::format("others can read it (mode {:04o}); chmod 600 {}", about.st_mode & 0777U, path);
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// False if it cannot be read. Stops after `bytes_max` and one more.
bool read_up_to(int fd, std::size_t bytes_max, std::string& text) {
  text.resize(bytes_max + 1);
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(fd, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return true;
}

}  // namespace

bool is_exposed(const struct stat& about) {
  constexpr mode_t group_and_others = 077;
  constexpr mode_t all_but_group_reads = 037;
  return (about.st_mode & (about.st_uid == 0 ? all_but_group_reads : group_and_others)) != 0;
}

std::string exposure(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || !is_exposed(about)) return {};
  return exposure_text(about, path);
}

std::string read_secret_file(const std::string& path, std::size_t bytes_max) {
  const OpenFile file(path);
  struct stat about {};
  std::string text;
  if (file.fd() < 0 || ::fstat(file.fd(), &about) != 0)
    throw Error(Remedy::fix_config, fmt::format("cannot read '{}'", path));
  if (is_exposed(about))
    throw Error(Remedy::fix_config, fmt::format("'{}' holds a secret, and {}", path, exposure_text(about, path)));
  if (!read_up_to(file.fd(), bytes_max, text)) throw Error(Remedy::fix_config, fmt::format("cannot read '{}'", path));
  if (text.size() > bytes_max) throw Error(Remedy::fix_config, fmt::format("'{}' is too large", path));
  return text;
}

}  // namespace waybill
