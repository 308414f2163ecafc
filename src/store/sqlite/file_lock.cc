#include "store/sqlite/file_lock.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "waybill/error.h"

namespace waybill {

FileLock::FileLock(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (fd_ < 0) throw Error(Remedy::fix_config, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(fd_);
  throw Error(Remedy::fix_config, fmt::format("{} is locked: another relay works on this database; stop it first, or "
                                              "use PostgreSQL to run several",
                                              path));
}

FileLock::~FileLock() {
  ::close(fd_);
}

}  // namespace waybill
