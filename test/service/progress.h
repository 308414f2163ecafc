#pragma once

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace waybill {

// How far a process is, in a file that it and the test have mapped: what it was at stays known when it is killed.
struct Progress {
  enum State { outside, inside, committing };  // of a transaction in which a message is handled

  std::atomic<int> state{outside};
  std::atomic<int> acknowledged{0};  // of its deliveries, those up to here
  std::atomic<int> stopped{0};       // at this one, so not again
  std::atomic<int> handled{0};
  std::atomic<int> duplicates{0};
  std::atomic<int> rolled_back{0};
};

inline Progress& map_progress(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ::ftruncate(fd, sizeof(Progress)) != 0) throw std::runtime_error("cannot open " + path);
  void* memory = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  return *static_cast<Progress*>(memory);  // All zeros is how it begins.
}

}  // namespace waybill
