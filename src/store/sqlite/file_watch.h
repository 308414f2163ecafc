#pragma once

#include <string>

namespace waybill {

// Tells when another process writes to a database: its file or its write-ahead log changes. Used by one
// thread.
class FileWatch {
 public:
  explicit FileWatch(const std::string& database_path);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Can be waited on for reading; negative if the system has no more watches to give.
  int fd() const { return fd_; }
  // Takes what has been told so far. True if the database was written to.
  bool take();

 private:
  int fd_;
  std::string file_;
  std::string wal_;
};

}  // namespace waybill
