#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace waybill {

// A program run by a test; killed when the test lets go of it, or dies.
class ChildProcess {
 public:
  // `user`: runs as that user if we are root (servers refuse root). Output goes to `log_path`.
  ChildProcess(const std::vector<std::string>& command, const std::string& log_path, const std::string& user = "");
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ChildProcess& operator=(ChildProcess&&) = delete;

  void signal(int number) const;
  bool running();
  // Waits for the end; the exit code, or 128 + the signal that ended it.
  int wait();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  int status_ = -1;
};

// Runs a command to its end, as `user` if we are root; throws with its output if it fails.
void run_command(const std::vector<std::string>& command, const std::string& user = "");

// A port nobody listens on.
int free_port();

// A folder of its own below the system's temporary one, removed at the end of the test.
class TmpFolder {
 public:
  explicit TmpFolder(const std::string& owner = "");
  ~TmpFolder();
  TmpFolder(const TmpFolder&) = delete;
  TmpFolder& operator=(const TmpFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace waybill
