#pragma once

#include <string>
#include <string_view>

namespace waybill {

// A file that appears in a folder whole or not at all: written beside its place, on disk before it is moved there. Not
// moved there, it is removed again; what a crash leaves behind, under the name with ".part", the next one of that name
// writes over. One of the same name is replaced. Throws Error: `fix_config` if the folder cannot be written to, `retry`
// if the disk is full.
class ArchiveFile {
 public:
  ArchiveFile(const std::string& folder, const std::string& name);
  ~ArchiveFile();
  ArchiveFile(const ArchiveFile&) = delete;
  ArchiveFile& operator=(const ArchiveFile&) = delete;

  void add_line(std::string_view line);
  // All lines are on disk when this returns.
  void sync();
  // REQUIRES: sync() was called after the last line.
  void put_in_place();

 private:
  void write_out();
  [[noreturn]] void fail(const char* doing) const;

  const std::string folder_;
  const std::string path_;
  const std::string part_;
  int file_ = -1;
  std::string buffer_;
};

}  // namespace waybill
