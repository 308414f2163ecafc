#pragma once

#include <string>

namespace waybill {

// A lock on a file of its own, made if it is missing; held as long as this lives, and the process, however it dies.
class FileLock {
 public:
  // Throws Error(fix_config) if somebody else has it.
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

}  // namespace waybill
